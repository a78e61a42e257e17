/* SPDX-License-Identifier: Apache-2.0 */
/* Processes on a server. */
#include "remote_box.h"
#include <base/call.h>
#include <base/fd.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>

enum { WAIT_MS = 30000, TRIES = 50, AGAIN_MS = 200 };

static void at_proc(cay__buf *target, const cay__far_proc *p, const char *rest)
{
    cay__far_at(target, p->box, "/processes/");
    cay__buf_fmt(target, "%s%s", p->id, rest);
}

static int proc_new(cay__far_box *box, const json_t *j, void **out, cay_err *err)
{
    const char *id = cay__far_word(j, "id");
    if (!cay__id_valid(id, 'p'))
        return cay_fail_why(err, CAY_EUPSTREAM, "net_answer",
                            "the server tells no id of the process");
    cay__far_proc *p = cay__alloc(sizeof *p);
    *p = (cay__far_proc){ .box = box, .pid = (int)cay__json_int(j, "pid", 0), .exit_fd = -1 };
    cay__str_copy(p->id, sizeof p->id, id);
    *out = p;
    return 0;
}

int cay__far_spawn(void *box, const cay_call *call, const cay_spawn *spec, void **proc,
                   cay_err *err)
{
    cay__far_box *b = box;
    CAY__FAR_TARGET(target);
    json_t *body = NULL;
    CAY_AUTOJSON *answer = NULL;
    CAY_TRY(cay__far_spawn_json(spec, &body, err));
    cay__far_at(&target, b, "/processes");
    CAY_TRY(cay__far_json(b->far, call, "POST", &target, body, &answer, err));
    return proc_new(b, answer, proc, err);
}

int cay__far_proc_attach(void *box, const cay_call *call, const char *ref, void **proc,
                         cay_err *err)
{
    cay__far_box *b = box;
    CAY__FAR_TARGET(target);
    CAY_AUTOJSON *answer = NULL;
    cay__far_at(&target, b, "/processes/");
    for (const char *p = ref; *p; p++)
        cay__buf_fmt(&target,
                     strchr("/?#% &+", *p) || (unsigned char)*p < 0x20 || (unsigned char)*p > 0x7e
                         ? "%%%02X"
                         : "%c",
                     (unsigned char)*p);
    CAY_TRY(cay__far_json(b->far, call, "GET", &target, NULL, &answer, err));
    return proc_new(b, answer, proc, err);
}

void cay__far_proc_release(void *proc)
{
    cay__far_proc *p = proc;
    cay__close_fd(&p->exit_fd);
    free(p);
}

const char *cay__far_proc_id(void *proc, int *pid)
{
    cay__far_proc *p = proc;
    if (pid)
        *pid = p->pid;
    return p->id;
}

/* What is needed to ask again for a stream, without the handles it came from. */
typedef struct source {
    cay__far far;
    char target[256]; /* without the offset */
    uint64_t from;
} source;

static int ask_output(cay__far *f, const cay_call *call, const char *target, uint64_t offset,
                      cay__answer **out, cay_err *err)
{
    CAY__FAR_TARGET(t);
    cay__buf_str(&t, target);
    if (offset == CAY_FROM_NOW)
        cay__far_query(&t, "offset", "now");
    else
        cay__far_query_u64(&t, "offset", offset);
    return cay__far_ask(f, call, &(cay__ask){ .method = "GET", .target = t.data }, out, err);
}

static uint64_t field_u64(const cay__answer *a, const char *name, uint64_t none)
{
    const char *v = cay__head_field(cay__answer_head(a), name);
    uint64_t n;
    if (v && cay__str_to_u64(v, &n))
        return n;
    return none;
}

static int output_again(void *arg, uint64_t offset, cay__answer **out)
{
    source *s = arg;
    return ask_output(&s->far, NULL, s->target, s->from + offset, out, NULL);
}

int cay__far_proc_output(void *proc, const cay_call *call, cay_stream which, uint64_t offset,
                         int *fd, cay_err *err)
{
    cay__far_proc *p = proc;
    cay__answer *a;
    CAY__FAR_TARGET(target);
    at_proc(&target, p, "/output?follow=1&stream=");
    cay__buf_str(&target, which == CAY_STDERR ? "stderr" : "stdout");
    CAY_TRY(ask_output(p->box->far, call, target.data, offset, &a, err));
    source *s = cay__alloc(sizeof *s); /* the pump's, which holds the client, too */
    s->far = *p->box->far;
    s->from = field_u64(a, "x-cay-offset", offset == CAY_FROM_NOW ? 0 : offset);
    cay__str_copy(s->target, sizeof s->target, target.data);
    return cay__far_pump(p->box->far, a, output_again, s, fd, err);
}

int cay__far_proc_read(void *proc, const cay_call *call, cay_stream which, uint64_t *offset,
                       void *buf, size_t cap, size_t *n, uint64_t *lost, bool *eof, cay_err *err)
{
    cay__far_proc *p = proc;
    cay__answer *a;
    CAY__FAR_TARGET(target);
    at_proc(&target, p, "/output?stream=");
    cay__buf_str(&target, which == CAY_STDERR ? "stderr" : "stdout");
    CAY_TRY(ask_output(p->box->far, call, target.data, *offset, &a, err));
    uint64_t at = field_u64(a, "x-cay-offset", *offset);
    size_t got = 0, k = 1;
    int rc = 0;
    while (rc == 0 && k && got < cap) {
        rc = cay__answer_bytes(a, call, (char *)buf + got, cap - got, &k, err);
        if (rc == 0)
            got += k;
    }
    bool all = at + got == field_u64(a, "x-cay-next", UINT64_MAX);
    bool over = all && field_u64(a, "x-cay-eof", 0) == 1;
    uint64_t skipped = field_u64(a, "x-cay-lost", 0);
    cay__answer_end(a);
    CAY_TRY(rc);
    *offset = at + got;
    *n = got;
    if (lost)
        *lost += skipped;
    if (eof)
        *eof = over;
    return 0;
}

static int post_stdin(cay__far_proc *p, const cay_call *call, const char *rest, const void *data,
                      size_t len, cay_err *err)
{
    CAY__FAR_TARGET(target);
    cay__answer *a;
    at_proc(&target, p, rest);
    CAY_TRY(cay__far_ask(p->box->far, call,
                         &(cay__ask){ .method = "POST",
                                      .target = target.data,
                                      .type = "application/octet-stream",
                                      .body = data,
                                      .len = len },
                         &a, err));
    cay__answer_end(a);
    return 0;
}

int cay__far_proc_write(void *proc, const cay_call *call, const void *data, size_t len,
                        cay_err *err)
{
    if (len)
        return post_stdin(proc, call, "/stdin", data, len, err);
    return 0;
}

int cay__far_proc_close_stdin(void *proc, const cay_call *call, cay_err *err)
{
    return post_stdin(proc, call, "/stdin?close=1", "", 0, err);
}

int cay__far_proc_signal(void *proc, const cay_call *call, int sig, cay_scope scope, cay_err *err)
{
    static const char *const words[] = { [CAY_SCOPE_ONE] = "one",
                                         [CAY_SCOPE_GROUP] = "group",
                                         [CAY_SCOPE_TREE] = "tree",
                                         [CAY_SCOPE_BELOW] = "below" };
    cay__far_proc *p = proc;
    CAY__FAR_TARGET(target);
    at_proc(&target, p, "/signal");
    return cay__far_json(
        p->box->far, call, "POST", &target,
        json_pack("{s:i,s:s}", "signal", sig, "scope", words[(unsigned)scope % CAY_LEN(words)]),
        NULL, err);
}

int cay__far_proc_resize(void *proc, const cay_call *call, uint16_t cols, uint16_t rows,
                         cay_err *err)
{
    cay__far_proc *p = proc;
    CAY__FAR_TARGET(target);
    at_proc(&target, p, "/resize");
    return cay__far_json(p->box->far, call, "POST", &target,
                         json_pack("{s:i,s:i}", "cols", cols, "rows", rows), NULL, err);
}

/* 1: it runs on. */
static int wait_once(cay__far *f, const cay_call *call, const char *target, cay_exit *out,
                     cay_err *err)
{
    CAY_AUTOJSON *answer = NULL;
    int left = cay__call_left(call);
    CAY__FAR_TARGET(t);
    cay__buf_str(&t, target);
    cay__far_query_u64(&t, "timeout_ms",
                       (uint64_t)(left >= 0 ? CAY_MIN(left + 1, WAIT_MS) : WAIT_MS));
    CAY_TRY(cay__far_json(f, call, "GET", &t, NULL, &answer, err));
    if (!cay__json_bool(answer, "ended", false))
        return 1;
    if (out)
        cay__far_exit(json_object_get(answer, "exit"), out);
    return 0;
}

/* A server that is started anew has its processes still: it is waited for a while. */
static bool comes_back(int rc, int *tries, const cay_call *call)
{
    struct pollfd cancel = { .fd = cay__call_cancel(call), .events = POLLIN };
    return (rc == CAY_EUPSTREAM || rc == CAY_EBUSY) && (*tries)++ < TRIES &&
           poll(&cancel, 1, AGAIN_MS) == 0;
}

int cay__far_proc_wait(void *proc, const cay_call *call, cay_exit *out, cay_err *err)
{
    cay__far_proc *p = proc;
    CAY__FAR_TARGET(target);
    int rc, tries = 0;
    at_proc(&target, p, "/wait");
    do {
        CAY_TRY(cay__call_check(call, "wait", err));
        rc = wait_once(p->box->far, call, target.data, out, err);
    } while (rc > 0 || comes_back(rc, &tries, call));
    return rc;
}

typedef struct watcher {
    cay__http_client *client;
    cay__far far;
    int fd;
    char target[256];
} watcher;

static void *watch_end(void *arg)
{
    watcher *w = arg;
    int rc, tries = 0;
    do
        rc = wait_once(&w->far, NULL, w->target, NULL, NULL);
    while (rc > 0 ||
           comes_back(rc, &tries, NULL)); /* else it has ended, or its sandbox is no more */
    eventfd_write(w->fd, 1);
    close(w->fd);
    cay__http_client_unref(w->client);
    free(w);
    return NULL;
}

int cay__far_proc_exit_fd(void *proc, cay_err *err)
{
    cay__far_proc *p = proc;
    CAY__FAR_TARGET(target);
    if (p->exit_fd >= 0)
        return p->exit_fd;
    CAY_AUTOFD fd = eventfd(0, EFD_CLOEXEC), copy = fd >= 0 ? dup(fd) : -1;
    if (copy < 0)
        return cay_fail_sys(err, CAY_ESYS, "eventfd");
    at_proc(&target, p, "/wait");
    watcher *w = cay__alloc(sizeof *w);
    *w = (watcher){ .client = cay__http_client_ref(p->box->far->client),
                    .far = *p->box->far,
                    .fd = copy };
    cay__str_copy(w->target, sizeof w->target, target.data);
    int rc = cay__far_thread(watch_end, w, err);
    if (rc < 0) {
        cay__http_client_unref(w->client);
        free(w);
        return rc;
    }
    (void)CAY_STEAL_FD(copy);
    return p->exit_fd = CAY_STEAL_FD(fd);
}

static const cay_pair *pairs_of(const json_t *o)
{
    size_t n = 0;
    const char *key;
    json_t *v;
    cay_pair *p = cay__alloc((json_object_size(o) + 1) * sizeof *p);
    json_object_foreach((json_t *)o, key, v) p[n++] =
        (cay_pair){ key, json_is_string(v) ? json_string_value(v) : "" };
    return p;
}

static char state_of(const char *word)
{
    static const struct {
        const char *word;
        char letter;
    } states[] = { { "running", 'R' }, { "sleeping", 'S' }, { "waiting", 'D' },
                   { "stopped", 'T' }, { "zombie", 'Z' },   { "ended", 'X' } };
    for (size_t i = 0; i < CAY_LEN(states); i++)
        if (!strcmp(states[i].word, word))
            return states[i].letter;
    return 'S';
}

int cay__far_procs(void *box, const cay_call *call, int (*fn)(const cay_proc_info *, void *),
                   void *arg, cay_err *err)
{
    cay__far_box *b = box;
    CAY__FAR_TARGET(target);
    CAY_AUTOJSON *answer = NULL;
    size_t i;
    json_t *o;
    cay__far_at(&target, b, "/processes?ended=1");
    CAY_TRY(cay__far_json(b->far, call, "GET", &target, NULL, &answer, err));
    json_array_foreach(json_object_get(answer, "items"), i, o)
    {
        cay_proc_info info = { .size = sizeof info,
                               .id = cay__far_word(o, "id"),
                               .tag = cay__far_word(o, "tag"),
                               .command = cay__far_word(o, "command"),
                               .user = cay__far_word(o, "user"),
                               .pid = (int)cay__json_int(o, "pid", 0),
                               .ppid = (int)cay__json_int(o, "ppid", 0),
                               .state = state_of(cay__far_word(o, "state")),
                               .tty = cay__json_bool(o, "tty", false),
                               .cpu_us = (uint64_t)cay__json_int(o, "cpu_us", 0),
                               .rss = (uint64_t)cay__json_int(o, "rss", 0),
                               .started_ms = cay__json_int(o, "started_ms", 0),
                               .labels = pairs_of(json_object_get(o, "labels")) };
        if (json_object_get(o, "exit"))
            cay__far_exit(json_object_get(o, "exit"), &info.exit);
        int rc = fn(&info, arg);
        free((void *)info.labels);
        if (rc)
            return rc;
    }
    return 0;
}
