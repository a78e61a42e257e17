/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watching a tree by inotify(7). A directory is a node that knows its parent and its name there, so
 * moving one moves all below it by changing one entry. Events wait in a bounded queue for a client
 * that may be slow; repeated ones are merged, and when it is full a single OVERFLOW stands for all
 * that is lost.
 */
#include "session_ops.h"
#include "watch_queue.h"
#include <base/base.h>
#include <linux/openat2.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/socket.h>

enum {
    NODES_MAX = 1 << 17,
    PAIR_MS = 10, /* how long the second half of a rename is waited for */
    MASK = IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |
           IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK,
};

typedef struct node {
    int wd;
    int parent; /* wd; 0 for the top */
    char *name;
} node;

typedef struct watcher {
    cay__ses *s;
    int in;    /* inotify */
    dev_t dev; /* the watched directory; holding it open would hide its end */
    ino_t ino;
    bool recursive, over;
    node *nodes; /* sorted: the kernel's numbers only grow */
    size_t n, room;
    cay__wqueue q;
    /* first half of a rename */
    bool half, half_dir;
    uint32_t cookie;
    int half_parent;
    char half_name[256], half_path[CAY_SES_PATH];
} watcher;

static node *find_node(watcher *w, int wd)
{
    size_t lo = 0, hi = w->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (w->nodes[mid].wd < wd)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo < w->n && w->nodes[lo].wd == wd)
        return &w->nodes[lo];
    return NULL;
}

static node *find_child(watcher *w, int parent, const char *name)
{
    CAY_EACH_OF(it, w->nodes, w->n)
        if (it->parent == parent && !strcmp(it->name, name))
            return it;
    return NULL;
}

/* "a/b/name" for an entry of directory wd, built from its end; false when too long or unknown. */
static bool path_of(watcher *w, int wd, const char *name, char *buf, size_t cap)
{
    size_t at = cap, n = strlen(name);
    const char *part = name;
    for (int hops = 0;; hops++) {
        if (n + 1 > at || hops > NODES_MAX)
            return false;
        at -= n + 1;
        memcpy(buf + at, part, n);
        if (at + n + 1 == cap)
            buf[at + n] = 0;
        else
            buf[at + n] = '/';
        node *d = find_node(w, wd);
        if (!d)
            return false;
        if (!d->parent)
            break;
        part = d->name;
        n = strlen(part);
        wd = d->parent;
    }
    memmove(buf, buf + at, cap - at);
    return true;
}

static void forget_node(watcher *w, node *d)
{
    free(d->name);
    size_t i = (size_t)(d - w->nodes);
    memmove(d, d + 1, (w->n - i - 1) * sizeof *d);
    w->n--;
}

static void kill_node(watcher *w, node *d)
{
    inotify_rm_watch(w->in, d->wd);
    free(d->name);
    d->name = NULL;
}

/* A directory left the tree with all below it: their watches would report paths that are no more.
 */
static void forget_tree(watcher *w, int wd)
{
    node *top = find_node(w, wd);
    if (!top)
        return;
    kill_node(w, top);
    for (bool more = true; more;) { /* children mostly have higher numbers: one round does it */
        more = false;
        for (node *d = w->nodes; d < w->nodes + w->n; d++) {
            node *up = NULL;
            if (d->name && d->parent)
                up = find_node(w, d->parent);
            if (up && !up->name) {
                kill_node(w, d);
                more = true;
            }
        }
    }
    size_t left = 0;
    CAY_EACH_OF(it, w->nodes, w->n)
        if (it->name)
            w->nodes[left++] = *it;
    w->n = left;
}

/* Watches the directory behind an O_PATH descriptor. Its number, or -1. */
static int add_node(watcher *w, int fd, int parent, const char *name)
{
    char self[48], num[21];
    CAY_JOIN(self, "/proc/self/fd/", cay__str_u64(num, (uint64_t)fd));
    if (w->n >= NODES_MAX) {
        errno = ENOSPC;
        return -1;
    }
    if (w->n == w->room) {
        size_t room = 32;
        if (w->room)
            room = w->room * 2;
        node *p = realloc(w->nodes, room * sizeof *p);
        if (!p)
            return -1;
        w->nodes = p;
        w->room = room;
    }
    int wd = inotify_add_watch(w->in, self, MASK);
    if (wd < 0)
        return -1;
    node *d = find_node(w, wd);
    if (d) { /* known already: it is where it is now */
        char *copy = strdup(name);
        if (copy && d->parent) {
            free(d->name);
            d->name = copy;
            d->parent = parent;
        } else {
            free(copy);
        }
        return wd;
    }
    char *copy = strdup(name);
    if (!copy)
        return -1;
    size_t i = w->n++;
    for (; i > 0 && w->nodes[i - 1].wd > wd; i--)
        w->nodes[i] = w->nodes[i - 1];
    w->nodes[i] = (node){ wd, parent, copy };
    return wd;
}

/* Adding a tree: each directory's parent is the last one added on the level above. */
typedef struct grow {
    watcher *w;
    const char *base; /* path of the directory that is walked, "" for the top */
    bool tell;        /* report what is found */
    int *at;          /* numbers by depth */
    unsigned room;
    int failed;
} grow;

static bool is_hidden(const char *name)
{
    return cay__str_starts(name, CAY__FS_TMP);
}

static int grow_entry(const cay__fs_entry *e, void *arg)
{
    grow *g = arg;
    bool dir = S_ISDIR(e->st->st_mode);
    if (g->tell && !is_hidden(e->name)) {
        char path[CAY_SES_PATH];
        if (CAY_JOIN(path, g->base, g->base[0] ? "/" : "", e->path))
            cay__wqueue_add(&g->w->q, 'c', dir, path, "");
        else
            cay__wqueue_lost(&g->w->q);
    }
    if (!dir)
        return 0;
    if (!g->w->recursive)
        return CAY__FS_SKIP;
    if (e->depth >= g->room) {
        int *p = realloc(g->at, (e->depth + 64) * sizeof *p);
        if (!p)
            return -1;
        g->at = p;
        g->room = e->depth + 64;
    }
    CAY_AUTOFD fd = cay__fd_openat2(e->dir, e->name, O_PATH | O_DIRECTORY, 0,
                                    RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (fd < 0)
        return CAY__FS_SKIP;
    g->at[e->depth] = add_node(g->w, fd, g->at[e->depth - 1], e->name);
    if (g->at[e->depth] >= 0)
        return 0;
    if (errno == ENOSPC || errno == ENOMEM)
        g->failed = errno;
    if (g->failed)
        return 1;
    return CAY__FS_SKIP;
}

/* Watches fd's directory and, when recursive, all below. parent 0: the top itself. */
static int add_tree(watcher *w, int fd, int parent, const char *name, const char *path, bool tell)
{
    grow g = { .w = w, .base = path, .tell = tell, .room = 64 };
    g.at = calloc(g.room, sizeof *g.at);
    int rc = -1;
    if (g.at && (g.at[0] = add_node(w, fd, parent, name)) >= 0)
        rc = 0;
    if (rc == 0 && (w->recursive || tell)) {
        int dir = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK);
        if (dir >= 0)
            cay__fs_walk_fd(
                dir, &(cay__fs_walk){
                         .fn = grow_entry, .arg = &g, .stop = cay__ses_gone, .stop_arg = w->s });
    }
    if (rc == 0 && g.failed) {
        errno = g.failed;
        rc = -1;
    }
    int e = errno;
    free(g.at);
    errno = e;
    return rc;
}

static int open_top(watcher *w)
{
    struct stat st;
    CAY_AUTOFD fd = cay__fs_open(&w->s->fs, w->s->path, O_PATH | O_DIRECTORY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -1;
    if (!w->ino) {
        w->dev = st.st_dev;
        w->ino = st.st_ino;
    }
    errno = ENOENT;
    if (st.st_dev == w->dev && st.st_ino == w->ino)
        return CAY_STEAL_FD(fd);
    return -1;
}

/* A directory came into the tree; what is in it already came with it. */
static void add_new(watcher *w, int parent, const char *name, const char *path)
{
    CAY_AUTOFD top = open_top(w);
    CAY_AUTOFD fd = -1;
    if (top >= 0)
        fd = cay__fd_openat2(top, path, O_PATH | O_DIRECTORY, 0,
                             RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    if (fd >= 0 && add_tree(w, fd, parent, name, path, true) < 0 && errno != ENOENT &&
        errno != ENOTDIR)
        cay__wqueue_lost(&w->q);
}

/* Its other half did not come: it left the tree. */
static void half_left(watcher *w)
{
    if (!w->half)
        return;
    w->half = false;
    if (is_hidden(w->half_name))
        return;
    cay__wqueue_add(&w->q, 'r', w->half_dir, w->half_path, "");
    node *d = NULL;
    if (w->half_dir)
        d = find_child(w, w->half_parent, w->half_name);
    if (d)
        forget_tree(w, d->wd);
}

static void moved_to(watcher *w, const struct inotify_event *e, const char *path)
{
    bool dir = e->mask & IN_ISDIR;
    if (!w->half || w->cookie != e->cookie) {
        half_left(w);
        cay__wqueue_add(&w->q, 'c', dir, path, "");
        if (dir && w->recursive)
            add_new(w, e->wd, e->name, path);
        return;
    }
    w->half = false;
    if (is_hidden(w->half_name)) { /* a write of ours came into place */
        if (w->half_name[sizeof CAY__FS_TMP - 1] == CAY__FS_TMP_NEW)
            cay__wqueue_add(&w->q, 'c', false, path, "");
        cay__wqueue_add(&w->q, 'w', false, path, "");
        return;
    }
    cay__wqueue_add(&w->q, 'm', dir, path, w->half_path);
    node *d = NULL;
    if (dir)
        d = find_child(w, w->half_parent, w->half_name);
    char *copy = NULL;
    if (d)
        copy = strdup(e->name);
    if (copy) {
        free(d->name);
        d->name = copy;
        d->parent = e->wd;
    } else if (dir && w->recursive) {
        add_new(w, e->wd, e->name, path);
    }
}

static void on_entry(watcher *w, const struct inotify_event *e)
{
    char path[CAY_SES_PATH];
    bool dir = e->mask & IN_ISDIR;
    if (!path_of(w, e->wd, e->name, path, sizeof path)) {
        if (find_node(w, e->wd))
            cay__wqueue_lost(&w->q);
        return;
    }
    if (e->mask & IN_MOVED_TO) {
        moved_to(w, e, path);
        return;
    }
    half_left(w);
    if (e->mask & IN_MOVED_FROM) {
        w->half = true;
        w->half_dir = dir;
        w->cookie = e->cookie;
        w->half_parent = e->wd;
        CAY_COPY(w->half_name, e->name);
        CAY_COPY(w->half_path, path);
        return;
    }
    if (is_hidden(e->name))
        return;
    char what;
    if (e->mask & IN_CREATE)
        what = 'c';
    else if (e->mask & IN_MODIFY)
        what = 'w';
    else if (e->mask & IN_DELETE)
        what = 'r';
    else
        what = 'p';
    cay__wqueue_add(&w->q, what, dir, path, "");
    if (what == 'c' && dir && w->recursive)
        add_new(w, e->wd, e->name, path);
}

static void on_event(watcher *w, const struct inotify_event *e)
{
    node *d = NULL;
    if (!(e->mask & IN_Q_OVERFLOW))
        d = find_node(w, e->wd);
    if (e->mask & IN_Q_OVERFLOW) {
        /* directories may have come unseen: look again for those, without telling */
        half_left(w);
        cay__wqueue_lost(&w->q);
        CAY_AUTOFD top = -1;
        if (w->recursive)
            top = open_top(w);
        if (top >= 0)
            add_tree(w, top, 0, "", "", false);
    } else if (e->mask & IN_MOVE_SELF) {
        w->over |= d && !d->parent;
    } else if (e->mask & (IN_IGNORED | IN_DELETE_SELF | IN_UNMOUNT)) {
        half_left(w);
        w->over |= d && !d->parent;
        if (d && (e->mask & IN_IGNORED))
            forget_node(w, d);
    } else if (e->len && d) {
        on_entry(w, e);
    }
}

/* Everything the kernel has for us now. */
static bool take_events(watcher *w)
{
    char buf[8192] __attribute__((aligned(__alignof__(struct inotify_event))));
    for (;;) {
        ssize_t n = read(w->in, buf, sizeof buf);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 && errno == EAGAIN;
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *e = (const void *)(buf + at);
            on_event(w, e);
            at += (ssize_t)(sizeof *e + e->len);
        }
    }
}

/* One change a packet, so that the client's descriptor is readable exactly when there is one. */
static bool send_changes(watcher *w)
{
    cay__change c;
    while (cay__wqueue_first(&w->q, &c)) {
        cay_ses_rep head = { .magic = CAY_SES_MAGIC,
                             .op = CAY_SES_WATCH,
                             .flags = CAY_SES_MORE,
                             .seq = w->s->req->seq,
                             .count = 1 };
        cay_ses_change body = { .change = (uint8_t)c.what,
                                .dir = c.dir,
                                .path = (uint16_t)strlen(c.path),
                                .from = (uint16_t)strlen(c.from) };
        char *p = w->s->out + sizeof head;
        memcpy(p, &body, sizeof body);
        memcpy(p + sizeof body, c.path, body.path);
        memcpy(p + sizeof body + body.path, c.from, body.from);
        head.len = (uint32_t)(sizeof body + body.path + body.from);
        memcpy(w->s->out, &head, sizeof head);
        if (cay__fd_send(w->s->sock, w->s->out, sizeof head + head.len, NULL, 0, MSG_DONTWAIT) < 0)
            return errno == EAGAIN || errno == ENOBUFS;
        cay__wqueue_pop(&w->q);
    }
    return true;
}

static void forget_all(watcher *w)
{
    CAY_EACH_OF(it, w->nodes, w->n)
        free(it->name);
    w->n = 0;
    cay__close_fd(&w->in);
}

/* The same place in another root. What changed on the way there was not seen. */
static void follow_root(watcher *w)
{
    struct stat a, b;
    if (w->s->lock < 0 || fstat(w->s->fs.root, &a) < 0 || stat("/", &b) < 0 ||
        (a.st_dev == b.st_dev && a.st_ino == b.st_ino))
        return;
    forget_all(w);
    cay__close_fd(&w->s->fs.root);
    w->half = false;
    w->ino = 0;
    w->in = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    CAY_AUTOFD top = -1;
    if (w->in >= 0 && cay__ses_enter(w->s))
        top = open_top(w);
    w->over = top < 0 || add_tree(w, top, 0, "", "", false) < 0;
    flock(w->s->lock, LOCK_UN);
    cay__wqueue_lost(&w->q);
}

static void run_watcher(watcher *w)
{
    sigset_t none;
    sigemptyset(&none);
    for (;;) {
        struct pollfd p[2] = { { .fd = w->in, .events = POLLIN },
                               { .fd = w->s->sock, .events = POLLIN } };
        if (cay__wqueue_size(&w->q) && !w->half)
            p[1].events |= POLLOUT;
        struct timespec pair = { 0, PAIR_MS * 1000000 };
        const struct timespec *wait = NULL;
        if (w->half)
            wait = &pair;
        int n = ppoll(p, 2, wait, w->s->lock >= 0 ? &none : NULL);
        if (n < 0 && errno != EINTR)
            return;
        if (n < 0) {
            p[0].revents = p[1].revents = 0;
            follow_root(w);
        }
        /* The client has nothing to say here: a packet, like a hang-up, is the end. */
        if (p[1].revents & (POLLIN | POLLHUP | POLLERR))
            return;
        if (n == 0)
            half_left(w);
        if (p[0].revents && !take_events(w))
            return;
        if (w->over)
            cay__wqueue_end(&w->q);
        /* while half a rename is open, later changes would overtake it */
        if (!w->half && !send_changes(w))
            return;
        if (w->over && cay__wqueue_size(&w->q) == 0)
            return;
    }
}

int cay__ses_watch(cay__ses *s)
{
    watcher w = { .s = s, .recursive = s->req->flags & CAY_SES_RECURSIVE };
    CAY_AUTOFD top = open_top(&w);
    if (top < 0)
        w.in = -1;
    else
        w.in = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (w.in < 0 || !cay__wqueue_open(&w.q)) {
        cay__close_fd(&w.in);
        return -1;
    }
    int rc = add_tree(&w, top, 0, "", "", false);
    cay__close_fd(&top);
    if (rc == 0 && s->lock >= 0)
        flock(s->lock, LOCK_UN); /* another root may come; this one is kept until it is known */
    if (rc == 0 && cay__ses_answer(s, 0, -1) == 0) {
        run_watcher(&w);
        rc = CAY__SES_END;
    }
    int e = errno;
    forget_all(&w);
    free(w.nodes);
    cay__wqueue_close(&w.q);
    errno = e;
    return rc;
}
