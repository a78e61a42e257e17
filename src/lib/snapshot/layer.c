/* SPDX-License-Identifier: Apache-2.0 */
#include "layer.h"
#include <base/base.h>
#include <base/path.h>
#include <limits.h>
#include <poll.h>
#include <lib/provider/native/root_helper.h>
#include <lib/provider/native/native.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { FD_SOCK = 3, FD_HOME, FD_USER, FD_VERB, FD_ABOVE = 40, END_MS = 5000 };

/* What the program may see of our environment: nothing that is a secret. */
static void pick_env(char **env, size_t room)
{
    static const char *const names[] = { "PATH=",           "LANG=",        "CAY_FAULT=",
                                         "CAY_FAULT_HITS=", "CAY_REPORTS=", "ASAN_OPTIONS=",
                                         "UBSAN_OPTIONS=",  "LSAN_OPTIONS=" };
    size_t n = 0;
    for (char **e = environ; e && *e; e++)
        for (size_t i = 0; i < CAY_LEN(names) && n + 1 < room; i++)
            if (cay__str_starts(*e, names[i]))
                env[n++] = *e;
    env[n] = NULL;
}

/* Moves each of ours to the number that the program looks at, by way of numbers that no target has:
 * dup2 onto itself would leave close-on-exec. */
static int spawn_program(const char *path, const char *verb, const int *fds, size_t nfds, int *pid,
                         cay_err *err)
{
    char *argv[] = { "cay-layer", (char *)verb, NULL }, *env[12];
    posix_spawn_file_actions_t acts;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int high[FD_VERB - FD_SOCK + CAY__LAYER_FDS], rc = 0;
    size_t n = 0;
    pick_env(env, CAY_LEN(env));
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&acts);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    for (; n < nfds && rc == 0; n++) {
        if (fds[n] < 0)
            high[n] = -1;
        else
            high[n] = fcntl(fds[n], F_DUPFD_CLOEXEC, FD_ABOVE);
        if (fds[n] >= 0) {
            if (high[n] < 0)
                rc = errno;
            else
                rc = posix_spawn_file_actions_adddup2(&acts, high[n], FD_SOCK + (int)n);
        }
    }
    if (rc == 0)
        rc = posix_spawn(pid, path, &acts, &attr, argv, env);
    while (n)
        cay__close_fd(&high[--n]);
    posix_spawn_file_actions_destroy(&acts);
    posix_spawnattr_destroy(&attr);
    errno = rc;
    if (rc)
        return cay_fail_sys(err, "start %s", path);
    return 0;
}

static int send_request(int sock, const cay__layer_ask *ask, cay_err *err)
{
    bool sent = true;
    for (size_t i = 0; sent && i < ask->nargs; i++)
        sent = cay__rec_send(sock, CAY__REC_ARG, ask->args[i], strlen(ask->args[i]));
    if (!sent || !cay__rec_send(sock, CAY__REC_GO, NULL, 0))
        return cay_fail_sys_as(err, errno == EMSGSIZE ? CAY_ETOOBIG : CAY_EUPSTREAM,
                               "ask cay-layer to %s", ask->verb);
    return 0;
}

/* By root, whose the layers are. */
static int start_by_hand(int home_fd, const cay_call *call, const cay__layer_ask *ask, int sock,
                         int *leash, cay_err *err)
{
    hand_ask q = { .verb = HAND_TOOL,
                   .op =
                       ask->program && !strcmp(ask->program, "cay-pack") ? HAND_PACK : HAND_LAYER };
    int fds[1 + CAY__LAYER_FDS] = { sock };
    CAY_COPY(q.name, ask->verb);
    for (size_t i = 0; i < ask->nfds; i++)
        fds[1 + i] = ask->fds[i];
    return cay__hand_ask(home_fd, call, &q, fds, 1 + (int)ask->nfds, NULL, NULL, leash, err);
}

/* By ourselves, as root or in the keeper's user namespace. */
static int start_here(const cay__layer_at *at, int home_fd, const cay_call *call,
                      const cay__layer_ask *ask, int sock, int *pid, cay_err *err)
{
    char path[PATH_MAX];
    CAY_AUTOFD user = -1;
    CAY_TRY(
        cay__libexec_find(at->libexec, CAY_OR(ask->program, "cay-layer"), path, sizeof path, err));
    CAY_TRY(cay__native_userns(at->home, at->libexec, call, &user, err));
    int fds[FD_VERB - FD_SOCK + CAY__LAYER_FDS] = { sock, home_fd, user };
    for (size_t i = 0; i < ask->nfds; i++)
        fds[3 + i] = ask->fds[i];
    return spawn_program(path, ask->verb, fds, 3 + ask->nfds, pid, err);
}

void cay__layer_word(cay__layer_words *w, const char *key, const char *value)
{
    size_t n = strlen(key) + strlen(value) + 1;
    char *s = cay__arena_take(&w->mem, n);
    cay__str_join(s, n, key, value, NULL);
    CAY_GROW(w->v, w->n);
    w->v[w->n++] = s;
}

void cay__layer_word_if(cay__layer_words *w, const char *key, const char *value)
{
    if (*value)
        cay__layer_word(w, key, value);
}

void cay__layer_word_stack(cay__layer_words *w, const char *key, const char *template_,
                           const char *const *layers, size_t n)
{
    cay__layer_word_if(w, key, template_);
    CAY_EACH_OF(layer, layers, n)
        cay__layer_word(w, key, *layer);
}

void cay__layer_words_clear(cay__layer_words *w)
{
    cay__arena_clear(&w->mem);
    free(w->v);
}

int cay__layer_open(const cay__layer_at *at, const cay_call *call, const cay__layer_ask *ask,
                    cay__layer_conn *out, cay_err *err)
{
    char home[CAY__HOME_MAX];
    CAY_AUTOFD home_fd = -1, mine = -1, theirs = -1;
    int pair[2];
    if (ask->nfds > CAY__LAYER_FDS)
        return cay_fail(err, CAY_EINVAL, "cay-layer %s: too many descriptors", ask->verb);
    CAY_TRY(cay__call_check(call, ask->verb, err));
    CAY_TRY(cay__home_find(at->home, home, sizeof home, err));
    CAY_TRY(cay__home_open(home, &home_fd, err));
    CAY_TRY_SYS(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), err, "start cay-layer");
    mine = pair[0];
    theirs = pair[1];
    *out = (cay__layer_conn){ .sock = -1, .leash = -1 };
    if (cay__hand_there(home_fd))
        CAY_TRY(start_by_hand(home_fd, call, ask, theirs, &out->leash, err));
    else
        CAY_TRY(start_here(at, home_fd, call, ask, theirs, &out->pid, err));
    out->sock = CAY_STEAL_FD(mine);
    CAY_COPY(out->verb, ask->verb);
    cay__close_fd(&theirs); /* or its death would not be seen */
    int rc = send_request(out->sock, ask, err);
    if (rc < 0)
        cay__layer_close(out);
    return rc;
}

static int as_error(cay__rec *r, const char *verb, cay_err *err)
{
    int code = (int)(int64_t)cay__rec_get_num(r), sys = (int)cay__rec_get_num(r);
    const char *reason = cay__rec_get_str(r), *msg = cay__rec_get_str(r);
    if (r->bad || code >= 0 || code < CAY_ESYS)
        return cay_fail_why(err, CAY_EUPSTREAM, "protocol",
                            "cay-layer %s failed and did not say why", verb);
    cay_fail_why(err, code, reason, "%s", msg);
    if (err)
        err->sys = sys;
    return code;
}

int cay__layer_next(cay__layer_conn *c, const cay_call *call, cay__rec *out, cay_err *err)
{
    CAY_TRY(cay__call_wait(call, c->sock, POLLIN, c->verb, err));
    int n = cay__rec_read(c->sock, &c->room, out);
    if (n == 0 || (n < 0 && errno == ECONNRESET))
        return cay_fail_why(err, CAY_EUPSTREAM, "layer_tool_died",
                            "cay-layer ended in the middle of %s; what it began is not used",
                            c->verb);
    if (n < 0)
        return cay_fail_sys_as(err, CAY_EUPSTREAM, "cay-layer %s: its answer", c->verb);
    if (out->type == CAY__REC_FAIL)
        return as_error(out, c->verb, err);
    return 0;
}

int cay__layer_send(cay__layer_conn *c, uint32_t type, cay__buf *b, cay_err *err)
{
    if (cay__rec_send_buf(c->sock, type, b))
        return 0;
    return cay_fail_sys_as(err, CAY_EUPSTREAM, "cay-layer %s: to answer it", c->verb);
}

void cay__layer_close(cay__layer_conn *c)
{
    cay__close_fd(&c->sock);
    cay__buf_clear(&c->room);
    cay__hand_let_go(&c->leash);
    if (c->pid <= 0)
        return;
    /* It sees the closed socket and takes back what it began; one that hangs is not waited for. */
    CAY_AUTOFD pidfd = (int)syscall(SYS_pidfd_open, c->pid, 0);
    struct pollfd p = { .fd = pidfd, .events = POLLIN };
    if (pidfd >= 0 && poll(&p, 1, END_MS) == 0)
        kill(c->pid, SIGKILL);
    while (waitpid(c->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    c->pid = 0;
}

void cay__layer_done_clear(cay__layer_done *d)
{
    cay__buf_clear(&d->room);
}

int cay__layer_run(const cay__layer_at *at, const cay_call *call, const cay__layer_ask *ask,
                   cay__layer_done *done, cay_err *err)
{
    cay__layer_conn c;
    cay__rec r = { 0 };
    CAY_TRY(cay__layer_open(at, call, ask, &c, err));
    int rc;
    while ((rc = cay__layer_next(&c, call, &r, err)) == 0 && r.type != CAY__REC_DONE)
        if ((rc = ask->fn
                      ? ask->fn(&r, ask->arg, err)
                      : cay_fail_why(err, CAY_EUPSTREAM, "protocol",
                                     "cay-layer %s: a record that was not asked for", c.verb)) < 0)
            break;
    if (rc == 0 && done) {
        *done = (cay__layer_done){ .room = c.room, .rec = r };
        c.room = (cay__buf){ 0 };
    }
    cay__layer_close(&c);
    return rc;
}

int cay__layer_digest(const cay__layer_at *at, const cay_call *call, const char *layer,
                      char hex[65], uint64_t *bytes, uint64_t *files, cay_err *err)
{
    cay__layer_done done = { 0 };
    cay__layer_ask ask = { .verb = "digest", .args = &layer, .nargs = 1 };
    CAY_TRY(cay__layer_run(at, call, &ask, &done, err));
    bool fits = cay__str_copy(hex, 65, cay__rec_get_str(&done.rec));
    uint64_t b = cay__rec_get_num(&done.rec), f = cay__rec_get_num(&done.rec);
    bool bad = done.rec.bad || !fits;
    cay__layer_done_clear(&done);
    if (bad)
        return cay_fail_why(err, CAY_EUPSTREAM, "protocol",
                            "cay-layer digest answered in a wrong form");
    if (bytes)
        *bytes = b;
    if (files)
        *files = f;
    return 0;
}

int cay__layer_remove(const cay__layer_at *at, const cay_call *call, const char *layer,
                      cay_err *err)
{
    cay__layer_ask ask = { .verb = "remove", .args = &layer, .nargs = 1 };
    return cay__layer_run(at, call, &ask, NULL, err);
}

int cay__layer_merge(const cay__layer_at *at, const cay_call *call, const char *const *below,
                     size_t nbelow, const char *const *stack, size_t n, const char *name,
                     cay_err *err)
{
    CAY__AUTOWORDS w = { 0 };
    cay__layer_word_stack(&w, "", "", below, nbelow);
    cay__layer_word_stack(&w, "", "--", stack, n);
    cay__layer_word(&w, "", name);
    cay__layer_ask ask = { .verb = "merge", .args = w.v, .nargs = w.n };
    return cay__layer_run(at, call, &ask, NULL, err);
}

int cay__layer_template(int home_fd, const char *template_, char *name, size_t cap, cay_err *err)
{
    if (*template_ == '/')
        return cay_fail_why(err, CAY_ENOTSUP, "snapshot_template",
                            "%.200s is a directory of the host and no layer", template_);
    if (strcmp(template_, "image"))
        return cay__host_layer(home_fd, name, cap, err);
    return cay__image_layer(home_fd, name, cap, err);
}
