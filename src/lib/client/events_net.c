/* SPDX-License-Identifier: Apache-2.0 */
#include "events.h"
#include "net.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>

#define QUEUE_MOST (1u << 20)
#define LINE_MOST  8192
#define ENDING     ".jsonl"

typedef struct tail {
    struct tail *next;
    cay__id id;
    ino_t ino;
    off_t at;
} tail;

struct cay__net_events {
    int home, dir;    /* dir -1: egress never ran here */
    int notify, more; /* more: an eventfd, readable while the queue has something */
    cay__id sandbox;
    tail *tails;
    cay__buf queue; /* lines, each with its newline */
    size_t taken;   /* bytes of it given away */
    int lost;
    char line[LINE_MOST];
};

static bool watch_dir(const cay__net_events *n, int dir, uint32_t mask)
{
    char path[40];
    CAY_FORMAT(path, "/proc/self/fd/%d", dir);
    return inotify_add_watch(n->notify, path, mask | IN_ONLYDIR) >= 0;
}

/* ID.jsonl of a sandbox that is asked for. */
static bool parse_log_name(const cay__net_events *n, const char *name, cay__id id)
{
    if (strlen(name) != CAY_ID_LEN + strlen(ENDING) || strcmp(name + CAY_ID_LEN, ENDING) != 0)
        return false;
    cay__str_copy(id, CAY_ID_LEN + 1, name);
    return cay__id_valid(id, 'c') && (!n->sandbox[0] || !strcmp(n->sandbox, id));
}

static tail *tail_of(cay__net_events *n, const char *id)
{
    for (tail *t = n->tails; t; t = t->next)
        if (!strcmp(t->id, id))
            return t;
    tail *t = cay__alloc(sizeof *t);
    *t = (tail){ .next = n->tails };
    CAY_COPY(t->id, id);
    return n->tails = t;
}

static void enqueue_line(cay__net_events *n, const char *line, size_t len)
{
    if (n->queue.len - n->taken + len > QUEUE_MOST) {
        n->lost++;
        return;
    }
    if (n->taken > QUEUE_MOST / 2) {
        memmove(n->queue.data, n->queue.data + n->taken, n->queue.len - n->taken);
        n->queue.len -= n->taken;
        n->taken = 0;
    }
    cay__buf_add(&n->queue, line, len);
}

/* Whole lines from where we were; the rest of one that is being written comes next time. */
static void read_on(cay__net_events *n, int fd, tail *t)
{
    ssize_t got;
    while ((got = pread(fd, n->line, sizeof n->line, t->at)) > 0) {
        const char *from = n->line, *end = n->line + got, *nl;
        while ((nl = memchr(from, '\n', (size_t)(end - from)))) {
            enqueue_line(n, from, (size_t)(nl + 1 - from));
            from = nl + 1;
        }
        if (from == n->line) {
            if (got == (ssize_t)sizeof n->line)
                t->at += got; /* too long to be egress's */
            if (got < (ssize_t)sizeof n->line)
                return;
        }
        t->at += from - n->line;
    }
}

static void read_log(cay__net_events *n, const char *id)
{
    char name[CAY_ID_LEN + 16];
    struct stat st;
    tail *t = tail_of(n, id);
    CAY_JOIN(name, id, ENDING);
    CAY_AUTOFD fd = openat(n->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0)
        return;
    if (t->ino && t->ino != st.st_ino) { /* a new file: the end of the old one first */
        CAY_JOIN(name, id, ENDING ".1");
        CAY_AUTOFD old = openat(n->dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        struct stat was;
        if (old >= 0 && fstat(old, &was) == 0 && was.st_ino == t->ino)
            read_on(n, old, t);
        t->at = 0;
    }
    t->ino = st.st_ino;
    read_on(n, fd, t);
}

static void open_dir(cay__net_events *n)
{
    n->dir = openat(n->home, CAY__NET_LOG_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (n->dir >= 0 && !watch_dir(n, n->dir, IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_DELETE))
        cay__close_fd(&n->dir);
}

/* Calls fn with each sandbox that has a file. */
static void for_each_log(cay__net_events *n, void (*fn)(cay__net_events *, const char *id))
{
    cay__id id;
    int at = -1;
    if (n->dir >= 0)
        at = openat(n->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = NULL;
    if (at >= 0)
        d = fdopendir(at);
    for (struct dirent *e; d && (e = readdir(d));)
        if (parse_log_name(n, e->d_name, id))
            fn(n, id);
    if (d)
        closedir(d);
    else
        cay__close_fd(&at);
}

/* What is there already is history. */
static void skip_history(cay__net_events *n, const char *id)
{
    struct stat st;
    char name[CAY_ID_LEN + 16];
    CAY_JOIN(name, id, ENDING);
    if (fstatat(n->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    tail *t = tail_of(n, id);
    t->ino = st.st_ino;
    t->at = st.st_size;
}

static void remove_tail(cay__net_events *n, const char *id)
{
    for (tail **at = &n->tails; *at; at = &(*at)->next)
        if (!strcmp((*at)->id, id)) {
            tail *t = *at;
            *at = t->next;
            free(t);
            return;
        }
}

static bool add_to_epoll(int ep, int fd, void *data)
{
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = data };
    return epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) == 0;
}

cay__net_events *cay__net_events_open(cay_client *client, const char *sandbox, int ep)
{
    cay__net_events *n = cay__alloc(sizeof *n);
    *n = (cay__net_events){ .home = client->home_fd, .dir = -1, .queue = CAY__BUF(2 * QUEUE_MOST) };
    CAY_COPY(n->sandbox, sandbox);
    n->notify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    n->more = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (n->notify < 0 || n->more < 0 || !watch_dir(n, n->home, IN_CREATE) ||
        !add_to_epoll(ep, n->notify, n) || !add_to_epoll(ep, n->more, n)) {
        cay__net_events_close(n);
        return NULL;
    }
    open_dir(n);
    for_each_log(n, skip_history);
    return n;
}

void cay__net_events_close(cay__net_events *n)
{
    if (!n)
        return;
    while (n->tails)
        remove_tail(n, n->tails->id);
    cay__buf_clear(&n->queue);
    cay__close_fd(&n->dir);
    cay__close_fd(&n->notify);
    cay__close_fd(&n->more);
    free(n);
}

void cay__net_events_read(cay__net_events *n)
{
    _Alignas(struct inotify_event) char buf[4096];
    cay__id id;
    ssize_t got;
    while ((got = read(n->notify, buf, sizeof buf)) > 0) {
        const struct inotify_event *e;
        for (char *at = buf; at < buf + got; at += sizeof *e + e->len) {
            e = (const struct inotify_event *)at;
            if (n->dir < 0) {
                open_dir(n); /* egress has just made it: all in it is new */
                for_each_log(n, read_log);
            } else if (e->mask & IN_Q_OVERFLOW) {
                for_each_log(n, read_log);
            } else if (e->len && parse_log_name(n, e->name, id)) {
                (e->mask & IN_DELETE ? remove_tail : read_log)(n, id);
            }
        }
    }
    if (n->taken < n->queue.len)
        eventfd_write(n->more, 1);
}

const char *cay__net_events_take(cay__net_events *n, int *lost)
{
    eventfd_t count;
    if (n->taken >= n->queue.len) {
        n->queue.len = n->taken = 0;
        eventfd_read(n->more, &count);
        return NULL;
    }
    const char *from = n->queue.data + n->taken, *nl = memchr(from, '\n', n->queue.len - n->taken);
    size_t len;
    if (nl)
        len = (size_t)(nl - from);
    else
        len = n->queue.len - n->taken;
    n->taken += len + 1;
    *lost = n->lost;
    n->lost = 0;
    cay__str_copy(n->line, CAY_MIN(sizeof n->line, len + 1), from);
    if (n->taken >= n->queue.len)
        eventfd_read(n->more, &count);
    return n->line;
}
