/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of all providers as one, and what egress decided. */
#include "remote.h"
#include "events.h"
#include "net.h"
#include "client.h"
#include <base/json.h>
#include <cay/policy.h>
#include <sys/epoll.h>
#include <sys/socket.h>

typedef struct source {
    cay__place *place;
    int fd; /* -1: has ended */
} source;

struct cay_events {
    cay_client *client;
    int ep;
    cay__id sandbox; /* "" for all */
    size_t n;
    cay_event_wire wire; /* the strings of the last event */
    cay__net_events *net;
    cay__mount_events *mounts;
    json_t *json; /* what the record points into */
    cay_net_record record;
    source sources[];
};

static int subscribe_source(cay_events *ev, source *s, cay_err *err)
{
    void *self;
    int fd = -1;
    const char *only = NULL;
    if (ev->sandbox[0])
        only = ev->sandbox;
    if (ev->client->remote) {
        CAY_TRY(cay__remote_events(ev->client->remote, only, &fd, err));
    } else {
        CAY_TRY(cay__client_self(ev->client, s->place, &self, err));
        CAY_TRY(s->place->ops->events(self, only, &fd, err));
    }
    struct epoll_event e = { .events = EPOLLIN, .data.ptr = s };
    if (epoll_ctl(ev->ep, EPOLL_CTL_ADD, fd, &e) < 0) {
        int rc = cay_fail_sys(err, "watch the events of provider %s", s->place->ops->name);
        close(fd);
        return rc;
    }
    s->fd = fd;
    return 0;
}

/* Which providers could have something to say. */
static int select_sources(cay_events *ev, cay_err *err)
{
    CAY_AUTOFREE cay__row *row = NULL;
    cay_client *client = ev->client;
    if (client->remote) { /* one stream has them all */
        ev->sources[ev->n++] = (source){ &client->places[0], -1 };
        return 0;
    }
    if (ev->sandbox[0]) {
        int rc = cay__client_row(client, ev->sandbox, &row, err);
        if (rc < 0 && rc != CAY_ENOENT)
            return rc;
    }
    CAY_EACH_OF(place, client->places, client->nplaces) {
        const cay_provider_ops *ops = place->ops;
        if (ops->events && (!row || !strcmp(ops->name, row->row.provider)))
            ev->sources[ev->n++] = (source){ place, -1 };
    }
    if (!ev->n)
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported", "no provider here tells events");
    return 0;
}

static int open_sources(cay_events *ev, cay_err *err)
{
    int rc = 0, good = 0;
    CAY_TRY(select_sources(ev, err));
    ev->ep = epoll_create1(EPOLL_CLOEXEC);
    if (ev->ep < 0)
        return cay_fail_sys(err, "watch events");
    CAY_EACH_OF(it, ev->sources, ev->n) {
        int one = subscribe_source(ev, it, err);
        good += one == 0;
        if (one < 0)
            rc = one;
    }
    if (good && !ev->client->remote)
        ev->net = cay__net_events_open(ev->client, ev->sandbox, ev->ep);
    else
        ev->net = NULL;
    if (good && !ev->client->remote)
        ev->mounts = cay__mount_events_open(ev->client, ev->sandbox, ev->ep);
    else
        ev->mounts = NULL;
    if (good)
        return 0;
    return rc; /* one that is down does not silence the others */
}

int cay_client_events(cay_client *client, const char *id, cay_events **out, cay_err *err)
{
    if (id && !cay__id_valid(id, 'c'))
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid",
                            "events are followed by the whole id of a sandbox; %.40s is not one",
                            id);
    cay_events *ev = cay__alloc(sizeof *ev + client->nplaces * sizeof *ev->sources);
    atomic_fetch_add(&client->refs, 1);
    ev->client = client;
    ev->ep = -1;
    CAY_COPY(ev->sandbox, CAY_OR(id, ""));
    int rc = open_sources(ev, err);
    if (rc < 0)
        cay_events_close(ev);
    else
        *out = ev;
    return rc;
}

int cay_events_fd(const cay_events *ev)
{
    return ev->ep;
}

static void fill_event(cay_events *ev, const cay_net_record *net, cay_event *out)
{
    cay_event_wire *w = &ev->wire;
    w->sandbox[sizeof w->sandbox - 1] = w->process[sizeof w->process - 1] = 0;
    w->kind[sizeof w->kind - 1] = w->reason[sizeof w->reason - 1] = 0;
    cay_event e = { .size = sizeof e,
                    .time_ms = w->time_ms,
                    .seq = w->seq,
                    .sandbox = w->sandbox,
                    .kind = w->kind,
                    .reason = w->reason,
                    .process = w->process,
                    .code = w->code,
                    .net = net };
    cay__answer_give(out, &e, sizeof e);
}

/* The keeper died or a packet was broken: what may be missing is said, and the stream goes on if it
 * can. */
static int say_lost(cay_events *ev, int count, const char *reason, cay_event *out)
{
    ev->wire = (cay_event_wire){ .time_ms = cay__clock_ms(), .code = count, .kind = "lost" };
    CAY_COPY(ev->wire.sandbox, ev->sandbox);
    CAY_COPY(ev->wire.reason, reason);
    fill_event(ev, NULL, out);
    return 0;
}

static int source_ended(cay_events *ev, source *s, cay_event *out)
{
    epoll_ctl(ev->ep, EPOLL_CTL_DEL, s->fd, NULL);
    cay__close_fd(&s->fd);
    return say_lost(ev, 0, subscribe_source(ev, s, NULL) == 0 ? "reconnected" : "disconnected",
                    out);
}

static bool all_ended(const cay_events *ev)
{
    CAY_EACH_OF(it, ev->sources, ev->n)
        if (it->fd >= 0)
            return false;
    return true;
}

/* Records are egress's own words; one that cannot be read says so by its count. */
static int net_event(cay_events *ev, const char *line, cay_event *out)
{
    json_decref(ev->json);
    ev->json = NULL;
    if (cay__json_object("record", line, &ev->json, NULL) < 0)
        return say_lost(ev, 1, "malformed", out);
    ev->record = cay__net_record_of(ev->json, line);
    ev->wire = (cay_event_wire){ .time_ms = ev->record.time_ms, .kind = "net" };
    CAY_COPY(ev->wire.sandbox, cay__json_str(ev->json, "box", ""));
    CAY_COPY(ev->wire.reason, cay__text_or(ev->record.verdict, ev->record.event));
    fill_event(ev, &ev->record, out);
    return 0;
}

int cay_events_next(cay_events *ev, const cay_call *call, cay_event *out, cay_err *err)
{
    for (;;) {
        struct epoll_event e;
        if (all_ended(ev))
            return cay_fail_why(err, CAY_EGONE, "events_ended",
                                "the stream of events has ended; open it again");
        CAY_TRY(cay__call_wait(call, ev->ep, EPOLLIN, "events", err));
        if (epoll_wait(ev->ep, &e, 1, 0) <= 0)
            continue;
        if (e.data.ptr == ev->net) {
            int lost = 0;
            cay__net_events_read(ev->net);
            const char *line = cay__net_events_take(ev->net, &lost);
            if (lost)
                return say_lost(ev, lost, "net", out);
            if (line)
                return net_event(ev, line, out);
            continue;
        }
        if (e.data.ptr == ev->mounts) {
            const char *id = cay__mount_events_take(ev->mounts);
            if (!id)
                continue;
            ev->wire =
                (cay_event_wire){ .time_ms = cay__clock_ms(), .kind = "mount", .reason = "died" };
            CAY_COPY(ev->wire.sandbox, id);
            fill_event(ev, NULL, out);
            return 0;
        }
        source *s = e.data.ptr;
        ssize_t n = recv(s->fd, &ev->wire, sizeof ev->wire, MSG_DONTWAIT | MSG_TRUNC);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (n <= 0)
            return source_ended(ev, s, out);
        if (n != (ssize_t)sizeof ev->wire)
            return say_lost(ev, 1, "malformed", out);
        fill_event(ev, NULL, out);
        return 0;
    }
}

void cay_events_close(cay_events *ev)
{
    if (!ev)
        return;
    CAY_EACH_OF(it, ev->sources, ev->n)
        cay__close_fd(&it->fd);
    cay__net_events_close(ev->net);
    cay__mount_events_close(ev->mounts);
    json_decref(ev->json);
    cay__close_fd(&ev->ep);
    cay__client_unref(ev->client);
    free(ev);
}
