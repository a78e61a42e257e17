/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a worker inside a sandbox may answer. The input is [which call] and a few packets, each
 * [raw or not] [length, 2 bytes] [bytes]; unless raw, the head's magic, op, seq and length are put
 * right, so that the rest is reached. What gets through to the caller must be safe to use: no name
 * leads out of its directory.
 */
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>
#include <proto/session.h>
#include <lib/provider/native/session.h>
#include <poll.h>
#include <sys/socket.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

typedef struct script {
    const uint8_t *data;
    size_t len;
    uint16_t op;
    int peer;
} script;

static uint32_t next_seq;

/* All answers are in the socket before the question; then the worker's side ends. */
static int open_script(void *arg, const cay_call *call, const char *user, int *sock, cay_err *err)
{
    (void)call, (void)user, (void)err;
    script *s = arg;
    int sv[2];
    char buf[CAY_SES_MAX];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0)
        return CAY_ESYS;
    for (int i = 0; i < 3 && s->len >= 3; i++) {
        size_t n = CAY_MIN((size_t)(s->data[1] | s->data[2] << 8), s->len - 3);
        memcpy(buf, s->data + 3, n);
        if (!(s->data[0] & 1) && n >= sizeof(cay_ses_rep)) {
            cay_ses_rep rep;
            memcpy(&rep, buf, sizeof rep);
            rep.magic = CAY_SES_MAGIC;
            rep.op = s->op;
            rep.seq = next_seq;
            rep.len = (uint32_t)(n - sizeof rep);
            memcpy(buf, &rep, sizeof rep);
        }
        int fd = s->data[0] & 2 ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
        if (n)
            cay__fd_send(sv[1], buf, n, &fd, fd >= 0, MSG_DONTWAIT);
        cay__close_fd(&fd);
        s->data += 3 + n;
        s->len -= 3 + n;
    }
    shutdown(sv[1], SHUT_WR);
    *sock = sv[0];
    s->peer = sv[1];
    return 0;
}

static void check_path(const char *path)
{
    if (!*path || *path == '/' || !strcmp(path, "..") || !strncmp(path, "../", 3) ||
        strstr(path, "/../") || strstr(path, "//"))
        abort();
    size_t n = strlen(path);
    if (n > 2 && !strcmp(path + n - 3, "/.."))
        abort();
}

static int on_entry(const cay_dirent *e, void *arg)
{
    (void)arg;
    check_path(e->path);
    return strlen(e->st.target) > 255;
}

static int on_match(const cay_match *m, void *arg)
{
    (void)arg;
    check_path(m->path);
    if (m->text_len > 4096)
        abort();
    return m->text[m->text_len] != 0;
}

static int on_name(const char *name, void *arg)
{
    (void)arg;
    if (strncmp(name, "user.", 5))
        abort();
    return 0;
}

static int on_port(const cay_port *p, void *arg)
{
    (void)arg;
    return strlen(p->address) > 45;
}

static int on_proc(const cay_proc_info *p, void *arg)
{
    (void)arg;
    return strlen(p->user) + strlen(p->command) > 5000;
}

static const uint16_t ops[] = { CAY_SES_STAT,     CAY_SES_LIST,  CAY_SES_GREP, CAY_SES_LISTXATTR,
                                CAY_SES_GETXATTR, CAY_SES_PORTS, CAY_SES_PS,   CAY_SES_CONNECT,
                                CAY_SES_WATCH,    CAY_SES_READ,  CAY_SES_MKDIR };

static void ask(cay__sessions *s, uint16_t op, cay_err *err)
{
    cay_call call = { .size = sizeof call, .deadline_ms = cay__now_ms() + 2000 };
    char buf[64];
    size_t n = sizeof buf;
    cay_stat st;
    void *w;
    int fd = -1, watch_fd; /* the watch's own */
    switch (op) {
    case CAY_SES_STAT: cay__nf_stat(s, &call, "x", true, &st, err); break;
    case CAY_SES_LIST: cay__nf_list_dir(s, &call, "x", 0, on_entry, NULL, err); break;
    case CAY_SES_GREP:
        cay__nf_grep(s, &call, "x", &(cay_grep){ .pattern = "p", .max = 50 }, on_match, NULL, err);
        break;
    case CAY_SES_LISTXATTR: cay__nf_listxattr(s, &call, "x", on_name, NULL, err); break;
    case CAY_SES_GETXATTR: cay__nf_getxattr(s, &call, "x", "user.y", buf, &n, err); break;
    case CAY_SES_PORTS: cay__nf_ports(s, &call, on_port, NULL, err); break;
    case CAY_SES_PS: cay__nf_ps(s, &call, on_proc, NULL, err); break;
    case CAY_SES_MKDIR: cay__nf_mkdir(s, &call, "x", 0, true, err); break;
    case CAY_SES_READ: cay__nf_open_read(s, &call, "x", NULL, &fd, err); break;
    case CAY_SES_CONNECT: cay__nf_connect(s, &call, 9, &fd, err); break;
    case CAY_SES_WATCH:
        if (cay__nf_watch_open(s, &call, "x", true, &w, &watch_fd, err) == 0) {
            cay_watch_event e;
            while (cay__nf_watch_next(w, &call, &e, err) == 0)
                if (strcmp(e.path, ".") && e.change != CAY_CHANGE_OVERFLOW)
                    check_path(e.path);
            cay__nf_watch_close(w);
        }
        break;
    }
    cay__close_fd(&fd);
}

/* One question to a silent worker, to learn where the numbers stand. */
static void learn_seq(void)
{
    script none = { .peer = -1 };
    cay__sessions s;
    cay_ses_req req;
    cay__sessions_open(&s, open_script, &none);
    cay__nf_mkdir(&s, NULL, "x", 0, false, NULL);
    if (none.peer >= 0 && recv(none.peer, &req, sizeof req, MSG_DONTWAIT) == sizeof req)
        next_seq = req.seq;
    cay__close_fd(&none.peer);
    cay__sessions_close(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    cay_err err = CAY_ERR_INIT;
    cay__sessions s;
    if (len < 1)
        return 0;
    learn_seq();
    next_seq++;
    script sc = { data + 1, len - 1, ops[data[0] % CAY_LEN(ops)], -1 };
    cay__sessions_open(&s, open_script, &sc);
    ask(&s, sc.op, &err);
    cay__sessions_close(&s);
    cay__close_fd(&sc.peer);
    return 0;
}
