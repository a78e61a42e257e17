/* SPDX-License-Identifier: Apache-2.0 */
#include "events.h"
#include <lib/manifest/storage.h>
#include <sys/epoll.h>
#include <sys/inotify.h>

typedef struct known {
    struct known *next;
    cay__id id;
    unsigned dead; /* mounts that were told */
} known;

struct cay__mount_events {
    int home, notify;
    cay__id sandbox;
    cay__id last;
    known *all;
    char buf[4096] __attribute__((aligned(8)));
    size_t at, len;
};

static void count_dead_mount(const char *target, const char *why, void *arg)
{
    *(unsigned *)arg += *why != 0;
}

static known *known_of(cay__mount_events *m, const char *id)
{
    for (known *k = m->all; k; k = k->next)
        if (!strcmp(k->id, id))
            return k;
    known *k = cay__alloc(sizeof *k);
    *k = (known){ .next = m->all };
    CAY_COPY(k->id, id);
    return m->all = k;
}

cay__mount_events *cay__mount_events_open(cay_client *client, const char *sandbox, int ep)
{
    char path[CAY__HOME_MAX + 16];
    if (geteuid() != 0 || (mkdirat(client->home_fd, "mounts", 0700) < 0 &&
                           errno != EEXIST)) /* root alone mounts storage */
        return NULL;
    cay__mount_events *m = cay__alloc(sizeof *m);
    *m = (cay__mount_events){ .home = client->home_fd,
                              .notify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK) };
    CAY_COPY(m->sandbox, sandbox);
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = m };
    CAY_FORMAT(path, "/proc/self/fd/%d/mounts", client->home_fd);
    if (m->notify < 0 ||
        inotify_add_watch(m->notify, path, IN_MODIFY | IN_CLOSE_WRITE | IN_DELETE | IN_ONLYDIR) <
            0 ||
        epoll_ctl(ep, EPOLL_CTL_ADD, m->notify, &e) < 0) {
        cay__mount_events_close(m);
        return NULL;
    }
    return m;
}

void cay__mount_events_close(cay__mount_events *m)
{
    if (!m)
        return;
    for (known *k = m->all, *next; k; k = next) {
        next = k->next;
        free(k);
    }
    cay__close_fd(&m->notify);
    free(m);
}

/* A file that goes is of a sandbox that ended, or is made anew for one that starts again. */
static bool has_new_dead_mount(cay__mount_events *m, const struct inotify_event *e)
{
    unsigned dead = 0;
    if (!e->len || !cay__id_valid(e->name, 'c') ||
        (*m->sandbox && strcmp(m->sandbox, e->name) != 0))
        return false;
    known *k = known_of(m, e->name);
    if (!(e->mask & IN_DELETE))
        cay__storage_look(m->home, e->name, count_dead_mount, &dead);
    bool more = dead > k->dead;
    k->dead = dead;
    return more;
}

const char *cay__mount_events_take(cay__mount_events *m)
{
    for (;;) {
        if (m->at >= m->len) {
            ssize_t n = read(m->notify, m->buf, sizeof m->buf);
            m->at = 0;
            if (n > 0)
                m->len = (size_t)n;
            else
                m->len = 0;
            if (n <= 0)
                return NULL;
        }
        const struct inotify_event *e =
            (const struct inotify_event *)(const void *)(m->buf + m->at);
        m->at += sizeof *e + e->len;
        if (has_new_dead_mount(m, e)) {
            CAY_COPY(m->last, e->name);
            return m->last;
        }
    }
}
