/* SPDX-License-Identifier: Apache-2.0 */
#include "ledger.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/spec.h>
#include <cay/ledger.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>

enum { EVENT_MAX = 64 << 10 };

struct cay_ledger {
    cay_ledger_sink       sink;
    void                 *self;
    bool                  strict, detail;
    uint64_t              lost;
    pthread_mutex_t       lock; /* tools may run beside each other */
};

cay_ledger *cay_ledger_new(const cay_ledger_sink *sink, void *self, bool strict)
{
    cay_ledger *a = cay__alloc(sizeof *a);
    if (!sink || cay__spec_take(&a->sink, sizeof a->sink, sink, "cay_ledger_sink", NULL) < 0) {
        free(a);
        return NULL;
    }
    a->self = self;
    a->strict = strict;
    pthread_mutex_init(&a->lock, NULL);
    return a;
}

void cay_ledger_detail(cay_ledger *a, bool on)
{
    a->detail = on;
}

bool cay__ledger_detail(const cay_run *r)
{
    return r->conf->ledger && r->conf->ledger->detail;
}

uint64_t cay_ledger_lost(const cay_ledger *a)
{
    return a->lost;
}

void cay_ledger_free(cay_ledger *a)
{
    if (!a)
        return;
    if (a->sink.close)
        a->sink.close(a->self);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

int cay__ledger(cay_run *r, const char *event, json_t *more, cay_err *err)
{
    cay_ledger *a = r->conf->ledger;
    CAY_AUTOJSON *own = more;
    cay_err why = CAY_ERR_INIT;
    if (!a)
        return 0;
    CAY_AUTOJSON *e = json_pack("{s:I, s:s, s:s?, s:s?, s:s}", "time", (json_int_t)cay__wall_ms(), "run", r->id, "agent", r->seat ? r->seat->agent->name : NULL, "actor",
                                r->call ? r->call->actor : NULL, "event", event);
    if (e && own)
        json_object_update(e, own);
    CAY_AUTOFREE char *text = e ? cay__json_text(e, EVENT_MAX) : NULL;
    pthread_mutex_lock(&a->lock);
    int rc = text ? a->sink.write(a->self, text, &why) : cay_fail(&why, CAY_EINVAL, "the event is no text");
    a->lost += rc < 0;
    pthread_mutex_unlock(&a->lock);
    if (rc >= 0 || !a->strict)
        return 0;
    r->canceled = true; /* the call that is under way ends as soon as it can */
    return cay_fail_why(err, CAY_ESYS, "ledger_failed", "the audit could not be written, so the run ends: %.150s", why.msg);
}

/* ------------------------------------------------------------------ to a file */

static int file_write(void *self, const char *json, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(EVENT_MAX + 16);
    cay__buf_fmt(&b, "%s\n", json); /* one write: lines of two programs do not mix */
    return cay__fd_write_all(*(int *)self, b.data, b.len) ? 0 : cay_fail_sys(err, CAY_ESYS, "audit file");
}

static void file_close(void *self)
{
    fsync(*(int *)self);
    close(*(int *)self);
    free(self);
}

static const cay_ledger_sink file_sink = { .size = sizeof file_sink, .write = file_write, .close = file_close };

int cay_ledger_file(const char *path, bool strict, cay_ledger **out, cay_err *err)
{
    CAY_AUTOFD fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0600);
    if (fd < 0)
        return cay_fail_sys(err, CAY_ESYS, "audit file %.200s", path);
    int *own = cay__alloc(sizeof *own);
    *own = CAY_STEAL_FD(fd);
    *out = cay_ledger_new(&file_sink, own, strict);
    return 0;
}
