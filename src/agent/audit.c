/* SPDX-License-Identifier: Apache-2.0 */
#include "audit.h"
#include "trace.h"
#include <base/base.h>

cay_audit_sink *cay_audit_sink_new(const cay_audit_sink_ops *sink, void *self, bool strict)
{
    cay_audit_sink *a = cay__alloc(sizeof *a);
    if (!sink || cay__spec_take(&a->sink, sizeof a->sink, sink, "cay_audit_sink_ops", NULL) < 0) {
        free(a);
        return NULL;
    }
    a->self = self;
    a->strict = strict;
    pthread_mutex_init(&a->lock, NULL);
    return a;
}

void cay_audit_sink_also(cay_audit_sink *a, cay_audit_sink *other)
{
    while (a->next)
        a = a->next;
    a->next = other;
}

void cay_audit_sink_detail(cay_audit_sink *a, bool on)
{
    a->detail = on;
}

void cay_audit_sink_output(cay_audit_sink *a, bool on)
{
    a->output = on;
}

bool cay__audit_sink_detail(const cay_run *r)
{
    for (const cay_audit_sink *a = r->conf->ledger; a; a = a->next)
        if (a->detail)
            return true;
    return false;
}

uint64_t cay_audit_sink_lost(const cay_audit_sink *a)
{
    uint64_t n = 0;
    for (; a; a = a->next)
        n += a->lost;
    return n;
}

void cay_audit_sink_free(cay_audit_sink *a)
{
    for (cay_audit_sink *next; a; a = next) {
        next = a->next;
        if (a->sink.close)
            a->sink.close(a->self);
        pthread_mutex_destroy(&a->lock);
        free(a);
    }
}

/* One event for one of them; -1 when it must be written and could not be. */
static int write_to(cay_audit_sink *a, cay_run *r, const json_t *event, json_t *detail,
                    json_t *output, cay_err *why)
{
    bool in_detail = a->detail && detail, with_output = a->output && output;
    CAY_AUTOJSON *whole = CAY_IF(in_detail || with_output, json_copy((json_t *)event));
    if (in_detail)
        json_object_update(whole, detail);
    if (with_output)
        json_object_set(whole, "output", output);
    CAY_AUTOFREE char *text = cay__json_text(CAY_OR(whole, event), CAY__EVENT_MAX);
    cay_err own = CAY_ERR_INIT;
    int rc;
    if (!text)
        rc = cay_fail(&own, CAY_ETOOBIG, "the event is larger than 64 KiB");
    else if (a->inside)
        rc = a->inside(a->self, r, text, &own);
    else
        rc = a->sink.write(a->self, text, &own);
    a->lost += rc < 0;
    if (rc >= 0 || !a->strict)
        return 0;
    *why = own;
    return -1;
}

int cay__audit_sink(cay_run *r, const char *event, json_t *more, cay_err *err)
{
    cay_audit_sink *first = r->conf->ledger;
    CAY_AUTOJSON *own = more, *detail = json_incref(json_object_get(more, "detail"));
    CAY_AUTOJSON *output = json_incref(json_object_get(more, "output"));
    cay_err why = CAY_ERR_INIT;
    char id[24];
    int rc = 0;
    if (!first)
        return 0;
    cay__id_make(id, 'e');
    pthread_mutex_lock(
        &first->lock); /* tools may run beside each other; numbers and lines have one order */
    CAY_AUTOJSON *e = json_pack("{s:i, s:s, s:I, s:I, s:s, s:s?, s:s?, s:s?, s:s}", "version", 1,
                                "event_id", id, "seq", (json_int_t)++first->seq, "time",
                                (json_int_t)cay__clock_ms(), "run", r->id, "trace_id",
                                cay__trace_id(r), "agent", CAY_IF(r->seat, r->seat->agent->name),
                                "actor", CAY_IF(r->call, r->call->actor), "event", event);
    if (e && own)
        json_object_update(e, own);
    json_object_del(e, "detail");
    json_object_del(e, "output");
    for (cay_audit_sink *a = first; a; a = a->next) {
        if (write_to(a, r, e, detail, output, &why) < 0)
            rc = -1;
    }
    pthread_mutex_unlock(&first->lock);
    if (rc == 0)
        return 0;
    r->canceled = true; /* the call that is under way ends as soon as it can */
    return cay_fail_why(err, CAY_ESYS, "ledger_failed",
                        "the audit could not be written, so the run ends: %.150s", why.msg);
}

static int file_write(void *self, const char *json, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(CAY__EVENT_MAX + 16);
    cay__buf_fmt(&b, "%s\n", json); /* one write: lines of two programs do not mix */
    if (cay__fd_write_all(*(int *)self, b.data, b.len))
        return 0;
    return cay_fail_sys(err, "audit file");
}

static void file_close(void *self)
{
    fsync(*(int *)self);
    close(*(int *)self);
    free(self);
}

static const cay_audit_sink_ops file_sink = { .size = sizeof file_sink,
                                              .write = file_write,
                                              .close = file_close };

int cay_audit_sink_file(const char *path, bool strict, cay_audit_sink **out, cay_err *err)
{
    CAY_AUTOFD fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0)
        return cay_fail_sys(err, "audit file %.200s", path);
    int *own = cay__alloc(sizeof *own);
    *own = CAY_STEAL_FD(fd);
    *out = cay_audit_sink_new(&file_sink, own, strict);
    return 0;
}
