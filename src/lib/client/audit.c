/* SPDX-License-Identifier: Apache-2.0 */
/* Adding to the audit log. */
#include "audit.h"
#include <base/fault.h>
#include <inttypes.h>
#include <sys/file.h>

#define FILE_MAX ((off_t)16 << 20)
enum { GOOD, BAD, CLASSES }; /* what was done; what was refused or failed */
static const struct {
    int64_t rate, burst; /* lines a second, and at once */
} bounds[CLASSES] = { [GOOD] = { 5000, 10000 }, [BAD] = { 100, 2000 } };

struct cay__auditor {
    pthread_mutex_t lock;
    int dir, gate, fd; /* gate: locked by whoever adds, of all programs */
    unsigned number;   /* of the file behind fd; 0: none yet */
    off_t size; /* of the file after our last line: another size, and somebody else has added */
    uint64_t seq;
    char head[CAY__SHA256_HEX];
    int64_t full_us[CLASSES]; /* when the bucket is full again */
    uint64_t dropped;
};

void cay__auditor_free(struct cay__auditor *w)
{
    if (!w)
        return;
    cay__close_fd(&w->fd);
    cay__close_fd(&w->gate);
    cay__close_fd(&w->dir);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

static int open_auditor(cay_client *client, struct cay__auditor **out, cay_err *err)
{
    int rc = 0;
    pthread_mutex_lock(&client->lock);
    if (!client->auditor) {
        struct cay__auditor *w = cay__alloc(sizeof *w);
        w->dir = w->gate = w->fd = -1;
        pthread_mutex_init(&w->lock, NULL);
        rc = cay__audit_dir(client, true, &w->dir, err);
        if (rc == 0 &&
            (w->gate = openat(w->dir, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600)) < 0)
            rc = cay_fail_sys(err, "open the lock of the audit log");
        if (rc == 0)
            client->auditor = w;
        else
            cay__auditor_free(w);
    }
    *out = client->auditor;
    pthread_mutex_unlock(&client->lock);
    return rc;
}

/* The last sound line of a file that others may have added to, or a crash cut. */
static int find_head(struct cay__auditor *w, cay_err *err)
{
    CAY_AUTOFREE char *tail = cay__alloc(4 * CAY__AUDIT_LINE);
    off_t from = CAY_MAX(w->size - 4 * CAY__AUDIT_LINE, 0);
    ssize_t n = pread(w->fd, tail, (size_t)(w->size - from), from);
    if (n < 0)
        return cay_fail_sys(err, "read the audit log");
    for (char *end = tail + n; end > tail;) {
        if (end[-1] == '\n')
            end--;
        char *start = end;
        while (start > tail && start[-1] != '\n')
            start--;
        cay__audit_line l = { 0 };
        bool sound = cay__audit_read(start, (size_t)(end - start), &l);
        if (sound) {
            w->seq = l.a.seq;
            CAY_COPY(w->head, l.hash);
        }
        cay__audit_line_clear(&l);
        if (sound)
            return 1;
        end = start;
    }
    return 0;
}

static int open_number(struct cay__auditor *w, unsigned number, cay_err *err)
{
    char name[CAY__AUDIT_NAME];
    struct stat st;
    cay__audit_name(number, name);
    int fd = openat(w->dir, name, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || fstat(fd, &st) < 0) {
        cay__close_fd(&fd);
        return cay_fail_sys(err, "open the audit log");
    }
    cay__close_fd(&w->fd);
    w->fd = fd;
    w->number = number;
    w->size = st.st_size;
    return 0;
}

/* Under the gate: what others did since our last line. */
static int catch_up(struct cay__auditor *w, cay_err *err)
{
    unsigned first, last;
    char name[CAY__AUDIT_NAME];
    struct stat now, mine;
    cay__audit_name(w->number + 1, name);
    if (w->fd >= 0 && fstat(w->fd, &mine) == 0 && mine.st_size == w->size && mine.st_nlink &&
        fstatat(w->dir, name, &now, 0) < 0)
        return 0;
    CAY_TRY(cay__audit_files(w->dir, &first, &last, err));
    w->seq = 0;
    CAY_COPY(w->head, CAY__AUDIT_ZERO);
    /* An empty or damaged last file goes on from the one before. */
    for (unsigned n = last; n && n >= first; n--) {
        CAY_TRY(open_number(w, n, err));
        int rc = find_head(w, err);
        if (rc) {
            if (rc < 0)
                return rc;
            if (w->number == last)
                return 0;
            return open_number(w, last, err);
        }
    }
    return open_number(w, CAY_OR(last, 1), err);
}

static void append_field(cay__buf *b, const char *name, const char *value, size_t most)
{
    if (!value || !*value)
        return;
    cay__buf_fmt(b, ",\"%s\":", name);
    cay__buf_json(b, value, strnlen(value, most));
}

static int append_line(struct cay__auditor *w, const cay_audit *a, uint64_t dropped, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(CAY__AUDIT_LINE - 128), line = CAY__BUF(CAY__AUDIT_LINE + 2);
    char hash[CAY__SHA256_HEX], last = '\n';
    cay__buf_fmt(&b, "{\"seq\":%" PRIu64 ",\"time_ms\":%" PRId64, w->seq + 1, cay__clock_ms());
    append_field(&b, "actor", a->actor, 100);
    append_field(&b, "tenant", a->tenant, CAY_TENANT_MAX);
    append_field(&b, "action", a->action, 300);
    append_field(&b, "object", a->object, 300);
    append_field(&b, "verdict", a->verdict, 20);
    append_field(&b, "peer", a->peer, 100);
    append_field(&b, "request", a->request, 64);
    if (a->status)
        cay__buf_fmt(&b, ",\"status\":%d", a->status);
    if (a->us)
        cay__buf_fmt(&b, ",\"us\":%" PRIu64, a->us);
    if (dropped)
        cay__buf_fmt(&b, ",\"count\":%" PRIu64, dropped);
    cay__buf_fmt(&b, ",\"prev\":\"%s\"", w->head);
    if (b.full)
        return cay_fail_why(err, CAY_ETOOBIG, "audit_line",
                            "a line of the audit log would be too long");
    cay__sha256_hex(b.data, b.len, hash);
    if (w->size && pread(w->fd, &last, 1, w->size - 1) != 1)
        return cay_fail_sys(err, "read the audit log");
    /* What a crash cut is ended, so that this line is one of its own. */
    cay__buf_fmt(&line, "%s%s,\"hash\":\"%s\"}\n", last == '\n' ? "" : "\n", b.data, hash);
    ssize_t n = write(w->fd, line.data, line.len);
    CAY_FAULT("audit.written");
    if (n != (ssize_t)line.len) {
        int e = ENOSPC;
        if (n < 0)
            e = errno;
        (void)!ftruncate(w->fd,
                         w->size); /* of ours nothing stays, and nobody else adds meanwhile */
        errno = e;
        return cay_fail_sys(err, "write the audit log");
    }
    w->size += n;
    w->seq++;
    CAY_COPY(w->head, hash);
    return 0;
}

static int append_record(struct cay__auditor *w, const cay_audit *a, cay_err *err)
{
    CAY_TRY(catch_up(w, err));
    if (w->size >= FILE_MAX) {
        fdatasync(w->fd);
        CAY_TRY(open_number(w, w->number + 1, err));
    }
    if (w->dropped) {
        cay_audit lost = {
            .size = sizeof lost, .actor = "audit", .action = "audit.dropped", .verdict = "ok"
        };
        CAY_TRY(append_line(w, &lost, w->dropped, err));
        w->dropped = 0;
    }
    return append_line(w, a, 0, err);
}

/* false: too many at once. */
static bool admit_record(struct cay__auditor *w, const cay_audit *a)
{
    int c = BAD;
    if (a->verdict && !strcmp(a->verdict, "ok"))
        c = GOOD;
    int64_t now = cay__now_us(), then = CAY_MAX(w->full_us[c], now) + 1000000 / bounds[c].rate;
    if (then - now > bounds[c].burst * 1000000 / bounds[c].rate)
        return false;
    w->full_us[c] = then;
    return true;
}

int cay_audit_put(cay_client *client, const cay_audit *given, cay_err *err)
{
    if (client->remote) /* the server wrote down what it was asked */
        return 0;
    struct cay__auditor *w;
    cay_audit a;
    int rc = 0;
    CAY_TRY(cay__spec_take(&a, sizeof a, given, "cay_audit", err));
    if (!a.actor || !a.action || !a.verdict)
        return cay_fail_why(err, CAY_EINVAL, "audit_line",
                            "a line of the audit log needs actor, action and verdict");
    CAY_TRY(open_auditor(client, &w, err));
    pthread_mutex_lock(&w->lock);
    if (!admit_record(w, &a)) {
        w->dropped++;
    } else {
        while ((rc = flock(w->gate, LOCK_EX)) < 0 && errno == EINTR)
            continue;
        if (rc < 0)
            rc = cay_fail_sys(err, "lock the audit log");
        else
            rc = append_record(w, &a, err);
        flock(w->gate, LOCK_UN);
    }
    pthread_mutex_unlock(&w->lock);
    return rc;
}
