/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guards: who looks at what comes in and at the answer. Those of the input run before anything
 * else, or beside the first request to the model; then one that trips ends the request, and a
 * request that fails ends them. Nothing the model asks for happens before all have passed.
 */
#include "trace.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

static const char *guard_name(const cay_guard *g)
{
    return CAY_OR(g->name, "guardrail");
}

/* What its check led to, as an error of the run. */
static int check_verdict(const cay_guard *g, int rc, const char *info, bool in, cay_err *err)
{
    if (rc <= 0)
        return rc;
    rc = cay_fail_why(err, CAY_EPERM, in ? "guardrail_input" : "guardrail_output",
                      in ? "guard %.60s does not let the input in"
                         : "guard %.60s does not let the answer out",
                      guard_name(g));
    if (err && info)
        CAY_COPY(err->detail, CAY_TEXT_IF(strlen(info) < sizeof err->detail, info));
    return rc;
}

static int in_order(cay_run *r, const cay_guard *list, size_t n, const char *text, bool in,
                    cay_err *err)
{
    CAY_EACH_OF(it, list, n) {
        CAY_AUTOFREE char *info = NULL;
        if (in && it->beside)
            continue;
        cay__span *span = cay__span_begin(r, "guardrail", guard_name(it));
        int rc = it->check(it->arg, r, text, &info, err);
        cay__span_data(span, "triggered", json_boolean(rc > 0));
        cay__span_end(span, NULL);
        CAY_TRY(check_verdict(it, rc, info, in, err));
    }
    return 0;
}

/* What came in with this run, as one text; malloc'ed. */
static char *input_text(const cay_run *r)
{
    CAY_AUTOBUF b = CAY__BUF(CAY__TEXT_MAX);
    cay__buf_str(&b, "");
    CAY_EACH_ITEM(item, r->input) {
        CAY_AUTOFREE char *text = cay__item_text(item);
        if (text)
            cay__buf_fmt(&b, "%s%s", CAY_TEXT_IF(b.len, "\n"), text);
    }
    return cay__strdup(CAY_OR(b.data, ""));
}

int cay__guard_input(cay_run *r, cay_err *err)
{
    const cay_agent *a = r->seat->agent;
    if (!r->conf->ninput_guards && !a->ninput_guards)
        return 0;
    CAY_AUTOFREE char *text = input_text(r);
    CAY_TRY(in_order(r, r->conf->input_guards, r->conf->ninput_guards, text, true, err));
    return in_order(r, a->input_guards, a->ninput_guards, text, true, err);
}

int cay__guard_output(cay_run *r, cay_err *err)
{
    const cay_agent *a = r->seat->agent;
    CAY_TRY(in_order(r, r->conf->output_guards, r->conf->noutput_guards, r->output, false, err));
    return in_order(r, a->output_guards, a->noutput_guards, r->output, false, err);
}

typedef struct one_guard {
    const cay_guard *g;
    cay_run view; /* the run as it was when the model was asked */
    cay__span *span;
    char *info;
    int rc;
    cay_err own;
} one_guard;

struct cay__guards {
    const cay_call *before; /* the run's own call */
    cay_call call;          /* what the model and the guards work under meanwhile */
    int over;               /* an eventfd: somebody has failed, the others may stop */
    int either;             /* an epoll: it, or the cancel descriptor of the run's call */
    atomic_size_t first;    /* who failed first: an index, n for the model, SIZE_MAX for nobody */
    char *text;
    one_guard *v;
    size_t n;
    pthread_t thread;
};

static void signal_failure(struct cay__guards *g, size_t who)
{
    size_t nobody = SIZE_MAX;
    uint64_t one = 1;
    if (atomic_compare_exchange_strong(&g->first, &nobody, who))
        (void)!write(g->over, &one, sizeof one);
}

static void check_guard(void *arg, size_t i)
{
    struct cay__guards *g = arg;
    one_guard *o = &g->v[i];
    o->rc = o->g->check(o->g->arg, &o->view, g->text, &o->info, &o->own);
    if (o->rc)
        signal_failure(g, i);
}

static void *check_all(void *arg)
{
    struct cay__guards *g = arg;
    cay__beside(g->n, (unsigned)g->n, check_guard, g);
    return NULL;
}

static void add_guards(struct cay__guards *g, const cay_guard *list, size_t n)
{
    CAY_EACH_OF(it, list, n)
        if (it->beside)
            g->v[g->n++] = (one_guard){ .g = it, .own = CAY_ERR_INIT };
}

/* One descriptor that is readable when either is: a call has room for one. */
static int merge_cancel_fd(struct cay__guards *g, int cancel_fd, cay_err *err)
{
    struct epoll_event ev = { .events = EPOLLIN };
    g->over = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    g->either = epoll_create1(EPOLL_CLOEXEC);
    if (g->over < 0 || g->either < 0 || epoll_ctl(g->either, EPOLL_CTL_ADD, g->over, &ev) < 0)
        return cay_fail_sys(err, "guards beside the model");
    if (cancel_fd > 0 && epoll_ctl(g->either, EPOLL_CTL_ADD, cancel_fd, &ev) < 0)
        return cay_fail_sys(err, "the cancel descriptor of the run");
    g->call.cancel_fd = g->either;
    return 0;
}

static void free_guards(struct cay__guards *g)
{
    CAY_EACH_OF(it, g->v, g->n)
        free(it->info);
    cay__close_fd(&g->over);
    cay__close_fd(&g->either);
    free(g->text);
    free(g->v);
    free(g);
}

static int start_guards(struct cay__guards *g, cay_run *r, cay_err *err)
{
    sigset_t all, old;
    CAY_EACH_OF(it, g->v, g->n) {
        it->span = cay__span_begin(r, "guardrail", guard_name(it->g));
        it->view = *r;
        it->view.call = &g->call;
        cay__trace_beside(it->span, &it->view);
    }
    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int e = pthread_create(&g->thread, NULL, check_all, g);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    for (size_t i = 0; e && i < g->n; i++) {
        cay__trace_joined(&g->v[i].view);
        cay__span_end(g->v[i].span, NULL);
    }
    errno = e;
    if (e)
        return cay_fail_sys(err, "a thread for guards");
    return 0;
}

int cay__guards_begin(cay_run *r, struct cay__guards **out, cay_err *err)
{
    const cay_agent *a = r->seat->agent;
    size_t most = r->conf->ninput_guards + a->ninput_guards;
    *out = NULL;
    if (!most || r->turn != 1 || r->conf->state)
        return 0;
    struct cay__guards *g = cay__alloc(sizeof *g);
    *g = (struct cay__guards){ .before = r->call,
                               .call = cay__call_copy(r->call),
                               .over = -1,
                               .either = -1,
                               .first = SIZE_MAX };
    g->v = cay__alloc(most * sizeof *g->v);
    add_guards(g, r->conf->input_guards, r->conf->ninput_guards);
    add_guards(g, a->input_guards, a->ninput_guards);
    if (!g->n) {
        free_guards(g);
        return 0;
    }
    g->text = input_text(r);
    int rc = merge_cancel_fd(g, g->call.cancel_fd, err);
    if (rc == 0)
        rc = start_guards(g, r, err);
    if (rc < 0) {
        free_guards(g);
        return rc;
    }
    r->call = &g->call;
    *out = g;
    return 0;
}

/* One that tripped counts before whatever else failed; of the others the first is the cause, and
 * the rest its consequence. */
static int resolve_outcome(const struct cay__guards *g, int rc, cay_err *err)
{
    size_t first = atomic_load(&g->first);
    CAY_EACH_OF(it, g->v, g->n)
        if (it->rc > 0)
            return check_verdict(it->g, it->rc, it->info, true, err);
    if (first < g->n && err)
        *err = g->v[first].own;
    if (first < g->n)
        return g->v[first].rc;
    return rc;
}

int cay__guards_end(cay_run *r, struct cay__guards *g, int rc, cay_err *err)
{
    if (!g)
        return rc;
    if (rc < 0)
        signal_failure(g, g->n);
    pthread_join(g->thread, NULL);
    CAY_EACH_OF(it, g->v, g->n) {
        cay__trace_joined(&it->view);
        cay__span_data(it->span, "triggered", json_boolean(it->rc > 0));
        cay__span_end(it->span, NULL);
    }
    r->call = g->before;
    rc = resolve_outcome(g, rc, err);
    free_guards(g);
    return rc;
}

/* A few things at once, and nothing left running when it is over. */
enum { THREADS_MAX = 64 };

typedef struct work {
    size_t n;
    atomic_size_t next;
    void (*fn)(void *arg, size_t i);
    void *arg;
} work;

static void *run_jobs(void *arg)
{
    work *w = arg;
    for (size_t i; (i = atomic_fetch_add(&w->next, 1)) < w->n;)
        w->fn(w->arg, i);
    return NULL;
}

void cay__beside(size_t n, unsigned most, void (*fn)(void *arg, size_t i), void *arg)
{
    work w = { .n = n, .fn = fn, .arg = arg };
    pthread_t threads[THREADS_MAX];
    size_t made = 0, want = CAY_MIN(CAY_MIN((size_t)most, n), (size_t)THREADS_MAX);
    sigset_t all, old;
    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (made + 1 < want && !pthread_create(&threads[made], NULL, run_jobs, &w))
        made++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    run_jobs(&w); /* this thread is one of them, so that it works without any other as well */
    CAY_EACH_OF(thread, threads, made)
        pthread_join(*thread, NULL);
}
