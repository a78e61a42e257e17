/* SPDX-License-Identifier: Apache-2.0 */
#include "intercept.h"
#include <openssl/x509v3.h>

static void on_in(cay__watch *w, uint32_t events)
{
    relay_step(CAY__OWNER(w, intercept_flow, in.w));
}

static void on_out(cay__watch *w, uint32_t events)
{
    relay_step(CAY__OWNER(w, intercept_flow, out.w));
}

/* A test build may wait less. */
static int64_t idle_ms(void)
{
#ifdef CAY_FAULTS
    const char *less = getenv("CAY_INTERCEPT_IDLE_MS");
    if (less)
        return atoi(less);
#endif
    return IDLE_MS;
}

static void too_late(cay__timer *t)
{
    intercept_flow *f = CAY__OWNER(t, intercept_flow, late);
    if (f->page) {
        intercept_flow_end(f, f->why, true);
        return;
    }
    int64_t idle = cay__boot_ms() - f->moved_ms;
    if (f->begun && idle < idle_ms()) {
        cay__timer_arm(&intercept.loop, &f->late, f->moved_ms + idle_ms());
        return;
    }
    flow_why(f, f->begun ? "idle" : "too_slow");
    note(f, NULL, false, f->why);
    intercept_flow_end(f, f->why, false);
}

static void on_pause(cay__timer *t)
{
    relay_step(CAY__OWNER(t, intercept_flow, pause));
}

void flow_begun(intercept_flow *f)
{
    f->begun = true;
    cay__timer_after(&intercept.loop, &f->late, idle_ms());
}

void flow_pause(intercept_flow *f)
{
    cay__timer_after(&intercept.loop, &f->pause, PAUSE_MS);
}

void flow_why(intercept_flow *f, const char *reason)
{
    if (!f->why[0])
        CAY_COPY(f->why, reason);
}

void intercept_flow_end(intercept_flow *f, const char *reason, bool orderly)
{
    flow_why(f, reason);
    side_count(&f->in);
    note_end(f, f->why, orderly && !f->page);
    cay__timer_cancel(&f->late);
    cay__timer_cancel(&f->pause);
    side_close(&f->in, orderly);
    side_close(&f->out, orderly);
    CAY_UNCHAIN(f);
    explicit_bzero(f->r.in, IN_MAX);
    explicit_bzero(f->r.down, DOWN_MAX);
    if (f->r.head)
        explicit_bzero(f->r.head, f->r.head_len);
    mask_clear(&f->r.mask);
    free(f->r.in);
    free(f->r.down);
    free(f->r.head);
    free(f->page);
    f->v->nflows--;
    intercept.nflows--;
    free(f);
}

void flow_say(intercept_flow *f, int status, const char *reason, const char *text)
{
    char *page = NULL;
    int n = asprintf(&page,
                     "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nX-Cay-Reason: "
                     "%s\r\nConnection: close\r\n"
                     "Content-Length: %zu\r\n\r\ncay: %s\n",
                     status, cay__status_text(status), reason, strlen(text) + 6, text);
    flow_why(f, reason);
    side_close(&f->out, false);
    if (n < 0)
        page = cay__strdup("");
    f->page = page;
    f->page_len = (size_t)CAY_MAX(n, 0);
    cay__timer_after(&intercept.loop, &f->late, 3000);
}

/* The sandbox's side speaks with a leaf of its own authority; the other one has to show a
 * certificate of that name. */
static bool with_tls(intercept_flow *f)
{
    X509 *cert = ca_leaf(&f->v->ca, f->name);
    if (cert)
        f->in.ssl = SSL_new(f->v->ctx);
    else
        f->in.ssl = NULL;
    f->out.ssl = SSL_new(intercept.up);
    if (!f->in.ssl || !f->out.ssl || SSL_use_certificate(f->in.ssl, cert) != 1 ||
        SSL_use_PrivateKey(f->in.ssl, f->v->ca.leaf_key) != 1 ||
        SSL_set_fd(f->in.ssl, f->in.w.fd) != 1 || SSL_set_fd(f->out.ssl, f->out.w.fd) != 1 ||
        SSL_set_tlsext_host_name(f->out.ssl, f->name) != 1 ||
        SSL_set1_host(f->out.ssl, f->name) != 1)
        return false;
    SSL_set_hostflags(f->out.ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    SSL_set_accept_state(f->in.ssl);
    SSL_set_connect_state(f->out.ssl);
    f->in.shaking = f->out.shaking = true;
    SSL_set_app_data(f->in.ssl, f);
    return true;
}

/* Nothing is kept of it but two records. */
static void turn_away(const intercept_flow *f, const char *reason)
{
    side a = f->in, b = f->out;
    note(f, NULL, false, reason);
    note_end(f, reason, false);
    side_close(&a, false);
    side_close(&b, false);
}

void flow_start(const cay_n_flow *m, const char *name, size_t len, int in, int out)
{
    char folded[CAY__NAME_MAX + 1] = "";
    vault *v = vault_find(m->id), nobody = { 0 };
    memcpy(nobody.id, m->id, sizeof nobody.id);
    intercept_flow first = { .v = CAY_OR(v, &nobody),
                             .number = m->flow,
                             .port = m->port,
                             .tls = m->proto != CAY__NET_HTTP,
                             .late.fn = too_late,
                             .pause.fn = on_pause,
                             .moved_ms = cay__boot_ms() };
    first.began_ms = first.moved_ms - m->age;
    first.in.w = (cay__watch){ .fd = in, .fn = on_in };
    first.out.w = (cay__watch){ .fd = out, .fn = on_out };
    memcpy(first.addr, m->addr, sizeof first.addr);
    bool named = cay__name_fold(name, len, folded);
    CAY_COPY(first.name, folded);
    if (!v || !named || !cay__fd_nonblock(in, true) || !cay__fd_nonblock(out, true)) {
        turn_away(&first, "no_interceptor");
        return;
    }
    if (v->nflows >= FLOWS_EACH || intercept.nflows >= intercept.flows_max) {
        turn_away(&first, v->nflows >= FLOWS_EACH ? "connections_limit" : "interceptor_limit");
        return;
    }
    intercept_flow *f = cay__alloc(sizeof *f);
    *f = first;
    CAY_CHAIN(v->flows, f);
    f->r.in = cay__alloc(IN_MAX);
    f->r.down = cay__alloc(DOWN_MAX);
    v->nflows++;
    intercept.nflows++;
    mask_bound(v, f->name, f->port, f->tls, &f->r.mask);
    if (f->tls && !with_tls(f)) {
        note(f, NULL, false, "own_tls");
        intercept_flow_end(f, "own_tls", false);
        return;
    }
    cay__timer_after(&intercept.loop, &f->late, SHAKE_MS);
    relay_step(f);
}
