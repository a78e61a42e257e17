/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keeper.log: what the kernel holds. Fixed-size checksummed records, appended, never synced: a
 * power cut changes the boot id and stops everything it speaks of. Rewritten at each start with
 * what is still there.
 */
#include "keeper.h"

#define MAGIC      0x6a796163u /* "cayj" */
#define FILE_NAME  "keeper.log"
#define COMPACT_AT 65536 /* records */

static uint32_t compute_crc(const jrec *r)
{
    jrec c = *r;
    c.crc = 0;
    return cay__crc32c(0, &c, sizeof c);
}

bool journal_check(const jrec *r)
{
    return r->magic == MAGIC && r->crc == compute_crc(r) && r->op >= J_OPEN && r->op <= J_MORE &&
           memchr(r->box, 0, sizeof r->box) &&
           (memchr(r->id, 0, sizeof r->id) || CAY__MUTANT("fuzz-journal")) &&
           memchr(r->reason, 0, sizeof r->reason);
}

/* A torn record at the end is what a kill in the middle of a write leaves; one in the middle is
 * skipped. */
void journal_read(void (*fn)(const jrec *r, void *arg), void *arg)
{
    CAY_AUTOFD fd = openat(keeper.home_fd, FILE_NAME, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    jrec r;
    while (fd >= 0 && cay__fd_read_all(fd, &r, sizeof r) == sizeof r)
        if (journal_check(&r))
            fn(&r, arg);
}

static bool write_rec(int fd, jrec *r)
{
    r->magic = MAGIC;
    r->seq = ++keeper.journal_seq;
    r->time_ms = cay__clock_ms();
    r->crc = compute_crc(r);
    return write(fd, r, sizeof *r) == sizeof *r;
}

static jrec rec_of(enum jop op, const keeper_box *b, const char *id, int code, const char *reason)
{
    jrec r = { .op = (uint16_t)op,
               .flags = (uint16_t)b->flags,
               .pid = b->pid,
               .start = b->start,
               .block = b->block,
               .code = code };
    if (op == J_LIVE || op == J_DEADLINE) {
        r.a = b->deadline_boot;
        r.b = (int64_t)b->idle_ms;
    }
    memcpy(r.box, b->name, sizeof r.box);
    CAY_COPY(r.id, id);
    CAY_COPY(r.reason, reason);
    if (op == J_MORE) {
        r.pid = b->owner_pid;
        r.start = b->owner_start;
        r.a = (int64_t)b->limits.disk;
        r.b = (int64_t)b->limits.inodes;
        r.cookie = b->cookie;
        r.net = b->net;
    }
    return r;
}

/* What there is of each box: all the past that matters. */
static void compact_journal(void)
{
    char now[CAY_WIRE_ID];
    size_t n = 0, m = 0, procs = 1;
    CAY_EACH_LINK(b, keeper.boxes)
        procs += b->nprocs;
    jkept *v = cay__alloc(sizeof *v * (keeper.nboxes + 1));
    jrec *x = cay__alloc(sizeof *x * procs);
    CAY_EACH_LINK(b, keeper.boxes) {
        enum jop op;
        if (!b->id[0]) {
            if (b->pid)
                op = J_PARKED;
            else
                op = J_PARKING;
        } else if (b->phase < BOX_LIVE)
            op = J_TAKEN;
        else
            op = J_LIVE;
        v[n++] =
            (jkept){ rec_of(op, b, b->id, (int)b->state, ""), rec_of(J_MORE, b, b->id, 0, "") };
        CAY_EACH_LINK(p, b->procs)
            if (p->ended || p->killing)
                x[m++] = rec_of(J_EXIT, b, p->id, 0, p->ended ? p->exit.reason : "time");
    }
    boot_id(now);
    journal_start(now, v, n, x, m);
    free(v);
    free(x);
}

bool journal_start(const char *boot, const jkept *live, size_t n, jrec *exits, size_t nexits)
{
    jrec open = { .op = J_OPEN };
    memcpy(open.box, keeper.instance, sizeof open.box);
    CAY_COPY(open.id, boot);
    CAY_AUTOFD fd = openat(keeper.home_fd, FILE_NAME ".new",
                           O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || !write_rec(fd, &open))
        return false;
    CAY_EACH_OF(it, live, n) {
        jkept k = *it;
        if (!write_rec(fd, &k.r) || (k.more.op && !write_rec(fd, &k.more)))
            return false;
    }
    CAY_EACH_OF(exit, exits, nexits)
        if (!write_rec(fd, exit))
            return false;
    CAY_FAULT("keeper.journal.written");
    if (renameat(keeper.home_fd, FILE_NAME ".new", keeper.home_fd, FILE_NAME) < 0)
        return false;
    cay__close_fd(&keeper.journal_fd);
    keeper.journal_fd = CAY_STEAL_FD(fd);
    keeper.journal_len = 0;
    return true;
}

void journal_put(enum jop op, const keeper_box *b, const char *id, int code, const char *reason)
{
    jrec r = rec_of(op, b, id, code, reason);
    CAY_FAULT("keeper.journal.write");
    if (++keeper.journal_len >
        COMPACT_AT) /* before it: what this record says may not stand in the box yet */
        compact_journal();
    /* A full disk must not stop the keeper: what is lost is found again by asking the kernel. But
     * behind a piece of a record nothing could be read again, so the next one has it all written
     * anew. */
    if (keeper.journal_fd >= 0 && !write_rec(keeper.journal_fd, &r))
        keeper.journal_len = COMPACT_AT;
}
