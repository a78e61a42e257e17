/* SPDX-License-Identifier: Apache-2.0 */
#include "audit.h"
#include <base/base.h>
#include <pthread.h>

enum { COMMAND_MAX = 2000 };

struct cay__watched {
    cay_run *run;
    char *call_id, *span;
    void (*on_op)(void *arg, const cay_op *op); /* who is told besides, or NULL */
    void *on_op_arg;
    pthread_mutex_t lock; /* a tool may have threads */
    int rc;
    cay_err err;
};

/* What changes something, starts something or takes something out, and how a command ended; looking
 * around is not written down. */
static bool is_audited(const cay_op *op)
{
    static const char *const names[] = { "process.start", "process.write",    "process.signal",
                                         "shell.run",     "file.read",        "file.write",
                                         "file.upload",   "file.mkdir",       "file.remove",
                                         "file.rename",   "file.chmod",       "file.chown",
                                         "file.symlink",  "file.extract",     "port.connect",
                                         "port.endpoint", "sandbox.snapshot", "sandbox.undo" };
    CAY_EACH(it, names)
        if (!strcmp(*it, op->name))
            return true;
    return !strcmp(op->name, "process.wait") && op->exit_code;
}

static json_t *text_of(const char *s)
{
    char cut[COMMAND_MAX + 1];
    CAY_FORMAT(cut, "%s", s);
    json_t *t = json_string(cut);
    return CAY_OR(t, json_string("(no UTF-8 text)"));
}

/* What a person would want to know, and what may hold a secret. */
static void add_detail(json_t *o, const cay_op *op)
{
    const struct {
        const char *key, *text;
    } rows[] = { { "path", op->path }, { "shell", op->shell }, { "user", op->user } };
    CAY_EACH(row, rows)
        if (row->text)
            json_object_set_new(o, row->key, text_of(row->text));
    if (!op->argv)
        return;
    json_t *argv = json_array();
    size_t sum = 0;
    for (const char *const *a = op->argv; *a && sum < COMMAND_MAX; sum += strlen(*a++))
        json_array_append_new(argv, text_of(*a));
    json_object_set_new(o, "command", argv);
}

static void add_facts(json_t *o, const cay_op *op)
{
    if (op->process && *op->process)
        cay__json_put(o, "process", op->process);
    if (!strcmp(op->name, "file.write"))
        cay__json_put_int(o, "bytes", (json_int_t)op->bytes);
    if (op->timeout_ms)
        cay__json_put_int(o, "timeout_ms", (json_int_t)op->timeout_ms);
    if (op->exit_code)
        cay__json_put_int(o, "exit_code", *op->exit_code);
    if (op->port)
        cay__json_put_int(o, "port", op->port);
    if (op->endpoint) {
        cay__json_put_int(o, "server.port", op->endpoint->host_port);
        cay__json_put(o, "server.address", op->endpoint->host);
    }
}

static json_t *event_of(const cay__watched *w, const cay_op *op)
{
    json_t *o = json_pack("{s:s, s:s, s:s*, s:s, s:I, s:s}", "op", op->name, "call_id", w->call_id,
                          "span_id", cay__text_or(w->span, NULL), "sandbox", op->sandbox, "ms",
                          (json_int_t)((op->ended_ns - op->began_ns) / 1000000), "outcome",
                          op->fault ? "failed" : "ok");
    if (!o)
        return NULL;
    add_facts(o, op);
    if (op->fault) {
        cay__json_put(o, "reason",
                      *op->fault->reason ? op->fault->reason : cay_code_name(op->fault->code));
        if (op->fault->retry)
            json_object_set_new(o, "retryable", json_boolean(op->fault->retry == CAY_RETRY_YES));
    }
    if (cay__audit_sink_detail(w->run)) {
        json_t *detail = json_object();
        add_detail(detail, op);
        json_object_set_new(o, "detail", detail);
    }
    return o;
}

static void on_op(void *arg, const cay_op *op)
{
    cay__watched *w = arg;
    pthread_mutex_lock(&w->lock);
    if (w->rc == 0 && is_audited(op))
        w->rc = cay__audit_sink(w->run, "operation", event_of(w, op), &w->err);
    pthread_mutex_unlock(&w->lock);
    if (w->on_op)
        w->on_op(w->on_op_arg, op);
}

cay__watched *cay__watched_begin(cay_run *r, const char *call_id, const char *span, cay_call *call)
{
    if (!r->conf->ledger)
        return NULL;
    cay__watched *w = cay__alloc(sizeof *w);
    *w = (cay__watched){ .run = r,
                         .call_id = cay__strdup(call_id),
                         .span = cay__strdup(span),
                         .on_op = call->on_op,
                         .on_op_arg = call->on_op_arg,
                         .err = CAY_ERR_INIT };
    pthread_mutex_init(&w->lock, NULL);
    call->size = sizeof *call;
    call->on_op = on_op;
    call->on_op_arg = w;
    return w;
}

int cay__watched_end(cay__watched *w, cay_err *err)
{
    if (!w)
        return 0;
    int rc = w->rc;
    if (rc < 0 && err)
        *err = w->err;
    pthread_mutex_destroy(&w->lock);
    free(w->call_id);
    free(w->span);
    free(w);
    return rc;
}
