/* SPDX-License-Identifier: Apache-2.0 */
/* What a stopped sandbox has on disk, read by cay-layer without starting it. */
#include "back.h"
#include "diff.h"
#include <base/buf.h>
#include <base/call.h>
#include <base/str.h>
#include <stdio.h>
#include <sys/stat.h>

enum { WORDS = CAY_STACK_MAX + 8 };

typedef struct asked {
    cay_sandbox *sb;
    const char  *verb, *path; /* "list", "stat", "read" */
    uint64_t     from, len;
    int          fd; /* of read; else -1 */
    int        (*fn)(const cay_dirent *, void *);
    void        *arg;
    int         *lock;
} asked;

static cay_file_type type_of(uint64_t mode)
{
    return S_ISREG(mode) ? CAY_FILE : S_ISDIR(mode) ? CAY_DIR : S_ISLNK(mode) ? CAY_LINK : CAY_OTHER;
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
    snprintf(e.st.target, sizeof e.st.target, "%s", cay__rec_get_str(r));
    if (r->type != CAY__REC_ENTRY || r->bad)
        return cay_fail_why(err, CAY_EUPSTREAM, "protocol", "cay-layer look: a record has a wrong form");
    return q->fn ? q->fn(&e, q->arg) : 0;
}

static int run(asked *q, const cay_call *call, const cay__point *p, cay_err *err)
{
    cay_service *svc = q->sb->owner;
    const char *w[WORDS];
    size_t n = 0;
    char template_[CAY_LAYER_NAME] = "", from[32], len[32], num[21];
    cay__arena mem = { 0 };
    cay__layer_at at = { .home = svc->home, .libexec = svc->libexec };
    cay__str_join(from, sizeof from, "from=", cay__str_u64(num, q->from), NULL);
    cay__str_join(len, sizeof len, "len=", cay__str_u64(num, q->len), NULL);
    if (!*p->root)
        CAY_TRY(cay__layer_template(svc->home_fd, p->base, template_, sizeof template_, err));
    const char *const pairs[][2] = { { "top=", p->top }, { "path=", q->path }, { "root=", p->root }, { "a=", template_ } };
    for (size_t i = 0; i < CAY_LEN(pairs) + p->stack.n; i++) {
        const char *key = i < CAY_LEN(pairs) ? pairs[i][0] : "a=", *value = i < CAY_LEN(pairs) ? pairs[i][1] : p->stack.name[i - CAY_LEN(pairs)];
        size_t room = strlen(key) + strlen(value) + 1;
        char *s = cay__arena_take(&mem, room);
        cay__str_join(s, room, key, value, NULL);
        if (*value)
            w[n++] = s;
    }
    w[n++] = q->verb;
    w[n++] = from;
    w[n++] = len;
    cay__layer_ask ask = { .verb = "look", .args = w, .nargs = n, .fds = &q->fd, .nfds = q->fd >= 0, .fn = on_record, .arg = q };
    int rc = cay__layer_run(&at, call, &ask, NULL, err);
    cay__arena_clear(&mem);
    return rc;
}

/* Nobody starts it between our look at its record and at its directories. */
static int look(asked *q, const cay_call *call, cay_err *err)
{
    cay_service *svc = q->sb->owner;
    CAY_AUTOFD lock = -1;
    CAY_AUTOFREE cay__row *row = NULL;
    cay__point p;
    if (!svc)
        return cay_fail_why(err, CAY_ENOTSUP, "kept_unsupported", "sandbox %s keeps no record", q->sb->id);
    CAY_TRY(cay__back_none(svc, "files of a stopped sandbox", err));
    CAY_TRY(cay__path_check(q->path, err));
    CAY_TRY(cay__box_lock(svc, call, q->sb->id, true, &lock, err));
    CAY_TRY(cay__svc_row(svc, q->sb->id, &row, err));
    cay__truth t;
    CAY_TRY(cay__truth_find(svc, call, &row->row, &t, err));
    cay__truth_clear(&t);
    if (t.state == CAY_RUNNING || t.state == CAY_PAUSED)
        return cay_fail_why(err, CAY_ESTATE, "sandbox_alive", "sandbox %s is %s: ask for its files themselves", q->sb->id, cay_state_name(t.state));
    if (t.state != CAY_STOPPED && t.state != CAY_DAMAGED)
        return cay__wrong_state(q->sb, "look into", t.state, err);
    CAY_TRY(cay__point_find(svc, call, q->sb->id, &p, err));
    if (*p.on)
        return cay_fail_why(err, CAY_ENOTSUP, "kept_unsupported", "sandbox %s was made on %.200s: what it changed there is told by cay diff %s", q->sb->id, p.on, q->sb->id);
    q->lock = &lock;
    return run(q, call, &p, err);
}

int cay_sandbox_kept_list(cay_sandbox *sb, const cay_call *call, const char *path, int (*fn)(const cay_dirent *, void *), void *arg, cay_err *err)
{
    CAY__OP(call, "file.list", sb->id, err);
    return look(&(asked){ .sb = sb, .verb = "list", .path = path, .fd = -1, .fn = fn, .arg = arg }, call, err);
}

static int take_stat(const cay_dirent *e, void *arg)
{
    *(cay_stat *)arg = e->st;
    return 0;
}

int cay_sandbox_kept_stat(cay_sandbox *sb, const cay_call *call, const char *path, cay_stat *out, cay_err *err)
{
    CAY__OP(call, "file.stat", sb->id, err);
    cay_stat st = { .size_of = sizeof st };
    CAY_TRY(look(&(asked){ .sb = sb, .verb = "stat", .path = path, .fd = -1, .fn = take_stat, .arg = &st }, call, err));
    cay__answer_give(out, &st, sizeof st);
    return 0;
}

int cay_sandbox_kept_read(cay_sandbox *sb, const cay_call *call, const char *path, uint64_t offset, uint64_t length, int fd, cay_err *err)
{
    CAY__OP(call, "file.read", sb->id, err);
    if (offset > INT64_MAX || length > INT64_MAX - offset)
        return cay_fail_why(err, CAY_EINVAL, "range_invalid", "%.200s: the range is past the largest file", path);
    return look(&(asked){ .sb = sb, .verb = "read", .path = path, .from = offset, .len = length, .fd = fd }, call, err);
}
