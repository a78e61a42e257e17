/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A container of an engine that does not see this machine's files: pid 1 and what it reads are put
 * into it by the engine's archive calls, and it is reached by the engine's exec, over a tunnel. All
 * else is as with a socket.
 */
#include "box.h"
#include "demux.h"
#include <proto/relay.h>
#include <proto/tunnel.h>
#include <base/path.h>
#include <base/tar.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

enum { PUT_MAX = 32 << 20, META_MAX = 256 << 10, SAID = 200, REACH_MS = 30000 };

#if defined __x86_64__
#define OUR_ARCH "amd64"
#elif defined __aarch64__
#define OUR_ARCH "arm64"
#else
#define OUR_ARCH "unknown"
#endif

int cay__docker_far_check(const cay__docker_options *o, const cay__engine_info *info, cay_err *err)
{
    if (strcmp(info->arch, OUR_ARCH) != 0)
        return cay_fail_why(err, CAY_ENOTSUP, "engine_arch",
                            "the engine runs linux/%s and our pid 1 is for " OUR_ARCH
                            "; run a cay server over there (cay --host)",
                            info->arch);
    if (o->read_only)
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                            "option read_only: pid 1 is put into the container's root where the "
                            "engine does not see this machine's files; leave the option out");
    return 0;
}

static void add_member(cay__buf *tar, const char *name, char type, uint32_t mode, const void *data,
                       size_t len)
{
    CAY_AUTOFREE cay__member *m = cay__alloc(sizeof *m);
    *m = (cay__member){ .type = type, .mode = mode, .size = len, .mtime = cay__clock_ms() / 1000 };
    CAY_COPY(m->name, name);
    cay__tar_head(tar, m);
    if (len)
        cay__buf_add(tar, data, len);
    cay__tar_pad(tar, len);
}

static int add_file(cay__buf *tar, int dir, const char *path, const char *name, uint32_t mode,
                    cay_err *err)
{
    struct stat st;
    CAY_AUTOFD fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > PUT_MAX)
        return cay_fail_sys(err, "read %.120s", path);
    CAY_AUTOFREE char *data = cay__alloc((size_t)st.st_size + 1);
    if (cay__fd_read_all(fd, data, (size_t)st.st_size) != st.st_size)
        return cay_fail_sys(err, "read %.120s", path);
    add_member(tar, name, '0', mode, data, (size_t)st.st_size);
    return 0;
}

int cay__docker_far_put(cay__docker_box *b, const cay_call *call, cay_err *err)
{
    static const char end[1024];
    CAY_AUTOBUF tar = CAY__BUF(PUT_MAX), path = CAY__BUF(256);
    char pid1[4096];
    CAY_TRY(cay__libexec_find(b->d->libexec, "cay-pid1", pid1, sizeof pid1, err));
    add_member(&tar, ".cay/", '5', 0755, NULL, 0);
    CAY_TRY(add_file(&tar, AT_FDCWD, pid1, ".cay/pid1", 0755, err));
    add_member(&tar, ".cay/ctl/", '5', 0700, NULL, 0);
    CAY_TRY(add_file(&tar, b->ctl, "config", ".cay/ctl/config", 0600, err));
    CAY_TRY(add_file(&tar, b->ctl, "meta", ".cay/ctl/meta", 0600, err));
    cay__buf_add(&tar, end, sizeof end);
    CAY_AUTOFD fd = memfd_create("cay-put", MFD_CLOEXEC);
    if (tar.full || fd < 0 || !cay__fd_write_all(fd, tar.data, tar.len) ||
        lseek(fd, 0, SEEK_SET) != 0)
        return cay_fail_why(err, CAY_ETOOBIG, "request_too_big",
                            "what is put into the container is too long");
    cay__docker_at(b, &path, "/archive?path=/");
    int rc = cay__engine_put(b->d->engine, call, path.data, fd, tar.len, err);
    if (rc < 0)
        return cay_wrap(err, rc, "put pid 1 into the container of %s", b->base.id);
    return 0;
}

typedef struct source {
    const char *at;
    size_t left;
} source;

static int from_text(void *arg, void *buf, size_t cap, size_t *n, cay_err *err)
{
    source *s = arg;
    *n = CAY_MIN(cap, s->left);
    memcpy(buf, s->at, *n);
    s->at += *n;
    s->left -= *n;
    return 0;
}

/* The record of one that is not running; what it says is the tenant's word, too. Its clock is
 * another machine's. */
bool cay__docker_far_meta(cay__docker_box *b, const cay_call *call, local_meta *out)
{
    CAY_AUTOBUF tar = CAY__BUF(META_MAX), path = CAY__BUF(256);
    cay__docker_at(b, &path, "/archive?path=" CAY__PID1_CTL "/meta");
    if (cay__engine_get(b->d->engine, call, path.data, &tar, NULL) < 0)
        return false;
    source s = { tar.data, tar.len };
    cay__tar t = { .read = from_text, .arg = &s };
    CAY_AUTOFREE cay__member *m = cay__alloc(sizeof *m);
    size_t n = 0;
    if (cay__tar_next(&t, m, NULL) != 1 || m->type != '0' || m->size != sizeof *out ||
        cay__tar_bytes(&t, out, sizeof *out, &n, NULL) < 0 || n != sizeof *out)
        return false;
    out->reason[sizeof out->reason - 1] = 0;
    out->deadline_boot = 0;
    return true;
}

typedef struct way {
    cay__demux demux;
    cay__tunnel *t;
    char said[SAID]; /* on standard error, for messages */
    size_t nsaid;
    char word[sizeof CAY__RELAY_WORD]; /* its first bytes */
    size_t nword;
} way;

static bool on_piece(void *arg, int which, const char *data, size_t n)
{
    way *w = arg;
    if (which == 2) {
        size_t k = CAY_MIN(n, sizeof w->said - 1 - w->nsaid);
        memcpy(w->said + w->nsaid, data, k);
        w->nsaid += k;
        return true;
    }
    size_t k = CAY_MIN(n, sizeof w->word - 1 - w->nword);
    memcpy(w->word + w->nword, data, k);
    w->nword += k;
    return n == k || cay__tunnel_feed(w->t, data + k, n - k);
}

static bool feed_demux(void *arg, cay__tunnel *t, const char *data, size_t n)
{
    way *w = arg;
    return cay__demux_feed(&w->demux, data, n, on_piece, w);
}

static void *run_tunnel(void *arg)
{
    way *w = arg;
    cay__tunnel_run(w->t, feed_demux, w);
    free(w);
    return NULL;
}

/* Until the relay says that it has who was asked for. */
static int await_relay(way *w, int wire, const cay_call *call, const char *what, cay_err *err)
{
    char buf[4096];
    while (w->nword < sizeof w->word - 1) {
        CAY_TRY(cay__call_wait(call, wire, POLLIN, what, err));
        ssize_t n = recv(wire, buf, sizeof buf, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0 || !cay__demux_feed(&w->demux, buf, (size_t)n, on_piece, w))
            break;
    }
    if (w->nword == sizeof w->word - 1 && !memcmp(w->word, CAY__RELAY_WORD, sizeof w->word - 1))
        return 0;
    CAY_AUTOBUF safe = CAY__BUF(400);
    cay__buf_safe(&safe, w->said, w->nsaid, false);
    if (safe.data && strstr(safe.data, "nobody listens"))
        return cay_fail_why(err, CAY_ENOENT, "port_not_found", "%s: nobody listens there", what);
    return cay_fail_why(err, CAY_EUPSTREAM, "init_unreachable", "%s: %s", what,
                        CAY_OR(safe.data, "the engine's exec ended without a word"));
}

/* An exec of the relay, and its stream. */
static int run_relay(cay__docker_box *b, const cay_call *call, const char *port, int *wire,
                     cay_err *err)
{
    CAY_AUTOBUF path = CAY__BUF(256);
    CAY_AUTOJSON *made = NULL;
    cay__engine *e;
    CAY_TRY(cay__docker_engine(b->d, &e, err));
    json_t *cmd = json_pack("[s,s]", "/.cay/pid1", "relay");
    if (port)
        json_array_append_new(cmd, json_string(port));
    cay__docker_at(b, &path, "/exec");
    CAY_TRY(cay__engine_ask(e, call, "POST", path.data,
                            json_pack("{s:b,s:b,s:b,s:b,s:s,s:o}", "AttachStdin", 1, "AttachStdout",
                                      1, "AttachStderr", 1, "Tty", 0, "User", "0:0", "Cmd", cmd),
                            &made, err));
    const char *id = cay__json_str(made, "Id", "");
    if (!*id || cay__hex_len(id) != strlen(id))
        return cay_fail_why(err, CAY_EUPSTREAM, "engine_answer",
                            "the engine tells no id of an exec");
    path.len = 0;
    cay__buf_fmt(&path, "/exec/%.80s/start", id);
    return cay__engine_upgrade(e, call, path.data, json_pack("{s:b,s:b}", "Detach", 0, "Tty", 0),
                               wire, err);
}

static int open_relay(cay__docker_box *b, const cay_call *asked, const char *port, const char *what,
                      int *sock, cay_err *err)
{
    int pair[2];
    CAY_AUTOFD wire = -1;
    const cay_call soon = cay__call_within(asked, REACH_MS),
                   *call = &soon; /* root inside may have put a program there that never speaks */
    CAY_TRY(run_relay(b, call, port, &wire, err));
    CAY_TRY_SYS(socketpair(AF_UNIX, (port ? SOCK_STREAM : SOCK_SEQPACKET) | SOCK_CLOEXEC, 0, pair),
                err, "socketpair");
    int fd = CAY_STEAL_FD(wire);
    way *w = cay__alloc(sizeof *w);
    w->t = cay__tunnel_new(fd, fd, pair[1], !port, true);
    int rc = await_relay(w, fd, call, what, err);
    if (rc == 0)
        rc = cay__provider_thread(run_tunnel, w, err);
    if (rc < 0) {
        close(pair[0]);
        cay__tunnel_free(w->t);
        free(w);
        return rc;
    }
    *sock = pair[0];
    return 0;
}

int cay__docker_far_dial(cay__docker_box *b, const cay_call *call, int *sock, cay_err *err)
{
    return open_relay(b, call, NULL, "reach the container", sock, err);
}

int cay__docker_far_connect(cay__docker_box *b, const cay_call *call, uint16_t port, int *fd,
                            cay_err *err)
{
    char num[8], what[16];
    CAY_FORMAT(num, "%u", port);
    CAY_FORMAT(what, "port %u", port);
    CAY_TRY(cay__docker_ready(b, err));
    return open_relay(b, call, num, what, fd, err);
}
