/* SPDX-License-Identifier: Apache-2.0 */
/* Processes on a server. */
#include "remote.h"
#include <poll.h>
#include <sys/eventfd.h>

enum { TRIES = 50, AGAIN_MS = 200 };
#define RING_MOST (16u << 20) /* pages of it that are not written cost nothing */

typedef struct remote_proc {
    cay__remote_box *box;
    char id[CAY_ID_LEN + 1];
    int pid, exit_fd;
} remote_proc;

static int proc_new(cay__remote_box *box, const char *id, int pid, void **out, cay_err *err)
{
    if (!cay__id_valid(id, 'p'))
        return cay_fail_why(err, CAY_EUPSTREAM, "net_answer",
                            "the server tells no id of the process");
    remote_proc *p = cay__alloc(sizeof *p);
    *p = (remote_proc){ .box = box, .pid = pid, .exit_fd = -1 };
    CAY_COPY(p->id, id);
    *out = p;
    return 0;
}

int cay__remote_spawn(void *box, const cay_call *call, const cay_spawn *spec, void **proc,
                      cay_err *err)
{
    cay__remote_box *b = box;
    CAY__AUTOARENA mem = { 0 };
    cay__started done = { 0 };
    cay__spawn_body body = { .s = *spec };
    /* Readers cannot be made with the process over there: they come a moment later, and until then
     * the ring has to hold what it prints. */
    if (spec->attach)
        body.s.ring_bytes = RING_MOST;
    CAY_TRY(cay__box_get(b, call, CAY__REQUEST(process_start, .body = &body), &mem, &done, err));
    return proc_new(b, done.id, done.pid, proc, err);
}

int cay__remote_proc_attach(void *box, const cay_call *call, const char *ref, void **proc,
                            cay_err *err)
{
    cay__remote_box *b = box;
    CAY__AUTOARENA mem = { 0 };
    cay__process_told p = { 0 };
    CAY_TRY(cay__box_get(b, call, CAY__REQUEST(process_get, .path[1] = ref), &mem, &p, err));
    return proc_new(b, p.i.id, p.i.pid, proc, err);
}

void cay__remote_proc_release(void *proc)
{
    remote_proc *p = proc;
    cay__close_fd(&p->exit_fd);
    free(p);
}

const char *cay__remote_proc_id(void *proc, int *pid)
{
    remote_proc *p = proc;
    if (pid)
        *pid = p->pid;
    return p->id;
}

/* What is needed to ask again for a stream or an end, without the handles it came from. */
typedef struct source {
    cay__remote remote;
    cay__http_client *client; /* held by who watches for an end */
    char box[CAY_ID_LEN + 1], id[CAY_ID_LEN + 1];
    cay_stream which;
    bool follow;
    uint64_t from;
    int fd;
} source;

static source source_of(const remote_proc *p, cay_stream which, bool follow)
{
    source s = { .remote = *p->box->remote, .which = which, .follow = follow };
    CAY_COPY(s.box, p->box->there);
    CAY_COPY(s.id, p->id);
    return s;
}

static int ask_output(const source *s, const cay_call *call, uint64_t offset, cay__answer **out,
                      cay_err *err)
{
    char digits[24];
    cay__process_query q = { .stream = "stdout", .offset = "now", .follow = s->follow };
    if (s->which == CAY_STDERR)
        q.stream = "stderr";
    if (offset != CAY_FROM_NOW)
        q.offset = cay__str_u64(digits, offset);
    return cay__remote_stream(&s->remote, call,
                              &CAY__REQUEST(process_output, .path = { s->box, s->id }, .query = &q),
                              out, err);
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
    return ask_output(s, NULL, s->from + offset, out, NULL);
}

int cay__remote_proc_output(void *proc, const cay_call *call, cay_stream which, uint64_t offset,
                            int *fd, cay_err *err)
{
    remote_proc *p = proc;
    cay__answer *a;
    CAY_AUTOFREE source *s = cay__alloc(sizeof *s); /* the pump's, which holds the client, too */
    *s = source_of(p, which, true);
    CAY_TRY(ask_output(s, call, offset, &a, err));
    if (offset == CAY_FROM_NOW)
        offset = 0;
    s->from = field_u64(a, "x-cay-offset", offset);
    return cay__remote_pump(p->box->remote, a, output_again, CAY_STEAL(s), fd, err);
}

int cay__remote_proc_read(void *proc, const cay_call *call, cay_stream which, uint64_t *offset,
                          void *buf, size_t cap, size_t *n, uint64_t *lost, bool *eof, cay_err *err)
{
    source s = source_of(proc, which, false);
    CAY_AUTOPTR(cay__answer) a = NULL;
    size_t got = 0;
    CAY_TRY(ask_output(&s, call, *offset, &a, err));
    uint64_t at = field_u64(a, "x-cay-offset", *offset);
    CAY_TRY(cay__remote_fill(a, call, buf, cap, &got, err));
    bool all = at + got == field_u64(a, "x-cay-next", UINT64_MAX);
    bool over = all && field_u64(a, "x-cay-eof", 0) == 1;
    uint64_t skipped = field_u64(a, "x-cay-lost", 0);
    *offset = at + got;
    *n = got;
    if (lost)
        *lost += skipped;
    if (eof)
        *eof = over;
    return 0;
}

static int order_proc(remote_proc *p, const cay_call *call, cay__request q, cay_err *err)
{
    q.path[0] = p->box->there;
    q.path[1] = p->id;
    return cay__remote_do(p->box->remote, call, &q, err);
}

int cay__remote_proc_write(void *proc, const cay_call *call, const void *data, size_t len,
                           cay_err *err)
{
    if (len)
        return order_proc(proc, call, CAY__REQUEST(process_stdin, .data = data, .len = len), err);
    return 0;
}

int cay__remote_proc_close_stdin(void *proc, const cay_call *call, cay_err *err)
{
    cay__process_query q = { .close_input = true };
    return order_proc(proc, call, CAY__REQUEST(process_stdin, .query = &q, .data = ""), err);
}

int cay__remote_proc_signal(void *proc, const cay_call *call, int sig, cay_scope scope,
                            cay_err *err)
{
    cay__signal_body body = { sig, (int)scope };
    return order_proc(proc, call, CAY__REQUEST(process_signal, .body = &body), err);
}

int cay__remote_proc_resize(void *proc, const cay_call *call, uint16_t cols, uint16_t rows,
                            cay_err *err)
{
    cay__size_body body = { cols, rows };
    return order_proc(proc, call, CAY__REQUEST(process_resize, .body = &body), err);
}

/* 1: it runs on. */
static int wait_once(const source *s, const cay_call *call, cay_exit *out, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    cay__process_waited w = { 0 };
    cay__wait_query q = cay__remote_patience(call);
    CAY_TRY(cay__remote_get(&s->remote, call,
                            &CAY__REQUEST(process_wait, .path = { s->box, s->id }, .query = &q),
                            &mem, &w, err));
    if (!w.ended)
        return 1;
    cay_exit none = { .size = sizeof none, .code = 255 };
    if (out)
        cay__answer_give(out, CAY_OR(w.exit, &none), sizeof none);
    return 0;
}

/* A server that is started anew has its processes still: it is waited for a while. */
static bool comes_back(int rc, int *tries, const cay_call *call)
{
    struct pollfd cancel = { .fd = cay__call_cancel(call), .events = POLLIN };
    return (rc == CAY_EUPSTREAM || rc == CAY_EBUSY) && (*tries)++ < TRIES &&
           poll(&cancel, 1, AGAIN_MS) == 0;
}

int cay__remote_proc_wait(void *proc, const cay_call *call, cay_exit *out, cay_err *err)
{
    source s = source_of(proc, CAY_STDOUT, false);
    int rc, tries = 0;
    do {
        CAY_TRY(cay__call_check(call, "wait", err));
        rc = wait_once(&s, call, out, err);
    } while (rc > 0 || comes_back(rc, &tries, call));
    return rc;
}

static void *watch_end(void *arg)
{
    source *s = arg;
    int rc, tries = 0;
    do
        rc = wait_once(s, NULL, NULL, NULL);
    while (rc > 0 ||
           comes_back(rc, &tries, NULL)); /* else it has ended, or its sandbox is no more */
    eventfd_write(s->fd, 1);
    close(s->fd);
    cay__http_client_unref(s->client);
    free(s);
    return NULL;
}

int cay__remote_proc_exit_fd(void *proc, cay_err *err)
{
    remote_proc *p = proc;
    CAY_AUTOFD copy = -1;
    if (p->exit_fd >= 0)
        return p->exit_fd;
    CAY_AUTOFD fd = eventfd(0, EFD_CLOEXEC);
    if (fd >= 0)
        copy = dup(fd);
    CAY_TRY_SYS(copy, err, "eventfd");
    source *s = cay__alloc(sizeof *s);
    *s = source_of(p, CAY_STDOUT, false);
    s->client = cay__http_client_ref(p->box->remote->client);
    s->fd = copy;
    int rc = cay__provider_thread(watch_end, s, err);
    if (rc < 0) {
        cay__http_client_unref(s->client);
        free(s);
        return rc;
    }
    (void)CAY_STEAL_FD(copy);
    return p->exit_fd = CAY_STEAL_FD(fd);
}

typedef struct lister {
    cay_proc_info_fn *fn;
    void *arg;
} lister;

static int on_process(const cay__process_told *p, void *arg)
{
    const lister *l = arg;
    cay_proc_info i = p->i;
    i.size = sizeof i;
    if (p->exit)
        i.exit = *p->exit;
    return l->fn(&i, l->arg);
}

int cay__remote_procs(void *box, const cay_call *call, cay_proc_info_fn *fn, void *arg,
                      cay_err *err)
{
    cay__process_query q = { .ended = true };
    lister l = { fn, arg };
    return CAY__BOX_EACH(cay__process_told, box, call, CAY__REQUEST(process_list, .query = &q),
                         on_process, &l, err);
}
