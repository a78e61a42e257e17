/* SPDX-License-Identifier: Apache-2.0 */
/* What a stopped sandbox has on disk, read by cay-layer without starting it. */
#include <lib/client/remote.h>
#include "diff.h"
#include <sys/socket.h>

typedef struct asked {
    cay_sandbox *sb;
    const char *verb, *path; /* "list", "stat", "open" */
    int way;                 /* of open: the socket through which it comes; else -1 */
    int (*fn)(const cay_dirent *, void *);
    void *arg;
    int *lock;
} asked;

static cay_file_type type_of(uint64_t mode)
{
    if (S_ISREG(mode))
        return CAY_FILE;
    if (S_ISDIR(mode))
        return CAY_DIR;
    if (S_ISLNK(mode))
        return CAY_LINK;
    return CAY_OTHER;
}

static int on_record(cay__rec *r, void *arg, cay_err *err)
{
    asked *q = arg;
    if (r->type == CAY__REC_READY) {
        cay__close_fd(q->lock);
        return 0;
    }
    cay_dirent e = { .path = cay__rec_get_str(r), .st = { .size_of = sizeof e.st } };
    uint64_t mode = cay__rec_get_num(r);
    e.st.type = type_of(mode);
    e.st.mode = mode & 07777;
    e.st.size = cay__rec_get_num(r);
    e.st.uid = (uint32_t)cay__rec_get_num(r);
    e.st.gid = (uint32_t)cay__rec_get_num(r);
    e.st.inode = cay__rec_get_num(r);
    e.st.nlink = (uint32_t)cay__rec_get_num(r);
    int64_t s = (int64_t)cay__rec_get_num(r);
    e.st.mtime_ns = s * 1000000000 + (int64_t)cay__rec_get_num(r);
    CAY_FORMAT(e.st.target, "%s", cay__rec_get_str(r));
    if (r->type != CAY__REC_ENTRY || r->bad)
        return cay_fail_why(err, CAY_EUPSTREAM, "protocol",
                            "cay-layer look: a record has a wrong form");
    if (q->fn)
        return q->fn(&e, q->arg);
    return 0;
}

static int run_look(asked *q, const cay_call *call, const cay__point *p, cay_err *err)
{
    cay_client *client = q->sb->owner;
    CAY__AUTOWORDS w = { 0 };
    char template_[CAY_LAYER_NAME] = "";
    if (!*p->root)
        CAY_TRY(cay__layer_template(client->home_fd, p->base, template_, sizeof template_, err));
    cay__layer_word_if(&w, "top=", p->top);
    cay__layer_word_if(&w, "path=", q->path);
    cay__layer_word_if(&w, "root=", p->root);
    cay__layer_word_stack(&w, "a=", template_, p->stack.name, p->stack.n);
    cay__layer_word(&w, q->verb, "");
    cay__layer_ask ask = { .verb = "look",
                           .args = w.v,
                           .nargs = w.n,
                           .fds = &q->way,
                           .nfds = q->way >= 0,
                           .fn = on_record,
                           .arg = q };
    return cay__layer_run(&client->layers, call, &ask, NULL, err);
}

/* Nobody starts it between our look at its record and at its directories. */
static int query_files(asked *q, const cay_call *call, cay_err *err)
{
    cay_client *client = q->sb->owner;
    CAY_AUTOFD lock = -1;
    CAY_AUTOFREE cay__row *row = NULL;
    cay__point p;
    if (!client)
        return cay_fail_why(err, CAY_ENOTSUP, "kept_unsupported", "sandbox %s keeps no record",
                            q->sb->id);
    CAY_TRY(cay__remote_none(client, "files of a stopped sandbox", err));
    CAY_TRY(cay__path_check(q->path, err));
    CAY_TRY(cay__box_lock(client, call, q->sb->id, true, &lock, err));
    CAY_TRY(cay__client_row(client, q->sb->id, &row, err));
    cay__truth t;
    CAY_TRY(cay__truth_find(client, call, &row->row, &t, err));
    cay__truth_clear(&t);
    if (t.state == CAY_RUNNING || t.state == CAY_PAUSED)
        return cay_fail_why(err, CAY_ESTATE, "sandbox_alive",
                            "sandbox %s is %s: ask for its files themselves", q->sb->id,
                            cay_state_name(t.state));
    if (t.state != CAY_STOPPED && t.state != CAY_DAMAGED)
        return cay__wrong_state(q->sb, "look into", t.state, err);
    CAY_TRY(cay__point_find(client, call, q->sb->id, &p, err));
    if (*p.on)
        return cay_fail_why(
            err, CAY_ENOTSUP, "kept_unsupported",
            "sandbox %s was made on %.200s: what it changed there is told by cay diff %s",
            q->sb->id, p.on, q->sb->id);
    q->lock = &lock;
    return run_look(q, call, &p, err);
}

int cay_sandbox_stopped_list(cay_sandbox *sb, const cay_call *call, const char *path,
                             int (*fn)(const cay_dirent *, void *), void *arg, cay_err *err)
{
    CAY__OP(call, "file.list", sb->id, err);
    return query_files(
        &(asked){ .sb = sb, .verb = "list", .path = path, .way = -1, .fn = fn, .arg = arg }, call,
        err);
}

static int take_stat(const cay_dirent *e, void *arg)
{
    *(cay_stat *)arg = e->st;
    return 0;
}

int cay_sandbox_stopped_stat(cay_sandbox *sb, const cay_call *call, const char *path, cay_stat *out,
                             cay_err *err)
{
    CAY__OP(call, "file.stat", sb->id, err);
    cay_stat st = { .size_of = sizeof st };
    CAY_TRY(query_files(
        &(asked){ .sb = sb, .verb = "stat", .path = path, .way = -1, .fn = take_stat, .arg = &st },
        call, err));
    cay__answer_give(out, &st, sizeof st);
    return 0;
}

/* Who sent it read what a sandbox left behind: it is believed only to be what was asked for. */
static bool only_a_file(int fd)
{
    struct stat st;
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) == O_RDONLY && !(flags & O_PATH) &&
           fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

int cay_sandbox_stopped_open(cay_sandbox *sb, const cay_call *call, const char *path, int *out,
                             cay_err *err)
{
    CAY__OP(call, "file.read", sb->id, err);
    CAY_AUTOFD mine = -1, theirs = -1, file = -1;
    int pair[2], fd, n = 1;
    char none;
    CAY_TRY_SYS(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), err, "ask for %.200s",
                path);
    mine = pair[0];
    theirs = pair[1];
    CAY_TRY(
        query_files(&(asked){ .sb = sb, .verb = "open", .path = path, .way = theirs }, call, err));
    ssize_t got = cay__fd_recv(mine, &none, 1, &fd, &n, MSG_DONTWAIT);
    if (n == 1)
        file = fd;
    if (got != 1 || n != 1 || !only_a_file(file))
        return cay_fail_why(err, CAY_EUPSTREAM, "protocol",
                            "cay-layer look: %.200s did not come as a file to read", path);
    *out = CAY_STEAL_FD(file);
    return 0;
}
