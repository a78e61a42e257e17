/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"
#include <base/call.h>
#include <base/fd.h>
#include <base/str.h>
#include <fcntl.h>
#include <poll.h>
#include <lib/provider/native/client.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>

pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t memory_change = PTHREAD_COND_INITIALIZER;

struct mproc {
    mbox *b;
    char id[CAY_ID_LEN + 1], tag[40], command[256];
    int pid;
    cay_pair *labels;
    char **argv;
    bool stdin_open, ended;
    char *in, *out;
    size_t in_len, in_at, out_len;
    int sig, exit_fd;
    cay_exit exit;
    int64_t started_ms, timeout_ms;
    pthread_t thread;
    mproc *next;
};

static void say(mproc *p, const char *data, size_t n)
{
    char *fresh = realloc(p->out, p->out_len + n + 1);
    if (!fresh)
        abort();
    memcpy(fresh + p->out_len, data, n);
    p->out = fresh;
    p->out_len += n;
    pthread_cond_broadcast(&memory_change);
}

static void wait_ms(int64_t ms)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += ms % 1000 * 1000000;
    t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&memory_change, &memory_lock, &t);
}

static int prog_true(mproc *p)
{
    (void)p;
    return 0;
}

static int prog_false(mproc *p)
{
    (void)p;
    return 1;
}

static int prog_exit(mproc *p)
{
    return p->argv[1] ? atoi(p->argv[1]) & 255 : 0;
}

static int prog_echo(mproc *p)
{
    for (size_t i = 1; p->argv[i]; i++) {
        if (i > 1)
            say(p, " ", 1);
        say(p, p->argv[i], strlen(p->argv[i]));
    }
    say(p, "\n", 1);
    return 0;
}

static int prog_cat(mproc *p)
{
    while (!p->sig && (p->stdin_open || p->in_at < p->in_len)) {
        if (p->in_at < p->in_len) {
            say(p, p->in + p->in_at, p->in_len - p->in_at);
            p->in_at = p->in_len;
        } else {
            wait_ms(50);
        }
    }
    return 0;
}

static int prog_sleep(mproc *p)
{
    int64_t until = cay__now_ms() + (int64_t)(atof(p->argv[1] ? p->argv[1] : "0") * 1000);
    for (int64_t left; !p->sig && (left = until - cay__now_ms()) > 0;)
        wait_ms(CAY_MIN(left, 50));
    return 0;
}

static const struct {
    const char *name;
    int (*fn)(mproc *p);
} programs[] = { { "true", prog_true }, { "false", prog_false }, { "echo", prog_echo },
                 { "cat", prog_cat },   { "sleep", prog_sleep }, { "exit", prog_exit } };

static int (*find_program(const char *name))(mproc *)
{
    for (size_t i = 0; i < CAY_LEN(programs); i++)
        if (strcmp(programs[i].name, name) == 0)
            return programs[i].fn;
    return NULL;
}

static void *proc_main(void *arg)
{
    mproc *p = arg;
    pthread_mutex_lock(&memory_lock);
    while (p->b->state == CAY_PAUSED)
        wait_ms(20);
    int code = find_program(p->argv[0])(p);
    p->ended = true;
    p->stdin_open = false;
    p->exit = (cay_exit){ .size = sizeof p->exit,
                          .code = p->sig ? 128 + p->sig : code,
                          .signal = p->sig };
    cay__str_copy(p->exit.reason, sizeof p->exit.reason, p->sig ? "signal" : "exit");
    eventfd_write(p->exit_fd, 1);
    pthread_cond_broadcast(&memory_change);
    pthread_mutex_unlock(&memory_lock);
    return NULL;
}

static mproc *proc_find(mbox *b, const char *ref)
{
    uint64_t pid = 0;
    cay__str_to_u64(ref, &pid);
    for (mproc *p = b->procs; p; p = p->next)
        if (strcmp(p->id, ref) == 0 || (pid && (uint64_t)p->pid == pid) ||
            (p->tag[0] && strcmp(p->tag, ref) == 0))
            return p;
    return NULL;
}

static mproc *proc_new(mbox *b, const cay_spawn *s)
{
    static int pids = 100;
    mproc *p = cay__alloc(sizeof *p);
    size_t n = 0;
    while (s->argv[n])
        n++;
    p->b = b;
    p->argv = cay__alloc((n + 1) * sizeof *p->argv);
    for (size_t i = 0; i < n; i++) {
        size_t at = strlen(p->command);
        p->argv[i] = cay__strdup(s->argv[i]);
        snprintf(p->command + at, sizeof p->command - at, "%s%s", i ? " " : "", s->argv[i]);
    }
    cay__id_make(p->id, 'p');
    cay__str_copy(p->tag, sizeof p->tag, s->tag ? s->tag : "");
    CAY_AUTOBUF labels = CAY__BUF(CAY_PROC_LABELS_MAX);
    cay__labels_add(&labels, s->labels);
    p->labels = cay__labels_make(labels.data, labels.len);
    p->pid = ++pids;
    p->stdin_open = s->stdin_mode == CAY_STDIN_PIPE;
    p->exit_fd = eventfd(0, EFD_CLOEXEC);
    p->started_ms = cay__clock_ms();
    p->out = cay__alloc(1);
    return p;
}

static int spawn(void *box, const cay_call *call, const cay_spawn *s, void **out, cay_err *err)
{
    mbox *b = box;
    (void)call;
    if (s->shell)
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported", "provider memory has no shell");
    if (s->tty)
        return cay_fail_why(err, CAY_ENOTSUP, "not_supported", "provider memory has no terminals");
    if (!find_program(s->argv[0]))
        return cay_fail_why(err, CAY_ENOENT, "command_not_found", "start %s: no such program",
                            s->argv[0]);
    pthread_mutex_lock(&memory_lock);
    mproc *same = s->tag ? proc_find(b, s->tag) : NULL;
    int rc = 0;
    if (same && !same->ended)
        rc = cay_fail_why(err, CAY_EEXIST, "tag_in_use", "a live process has tag %s", s->tag);
    else if (b->state != CAY_RUNNING)
        rc = cay_fail_why(err, CAY_ESTATE, "sandbox_stopped",
                          "sandbox %s does not run; try: cay resume %s", b->id, b->id);
    if (rc == 0) {
        mproc *p = proc_new(b, s);
        p->next = b->procs;
        b->procs = p;
        if (pthread_create(&p->thread, NULL, proc_main, p) != 0)
            abort();
        *out = p;
    }
    pthread_mutex_unlock(&memory_lock);
    return rc;
}

static int proc_attach(void *box, const cay_call *call, const char *ref, void **out, cay_err *err)
{
    (void)call;
    pthread_mutex_lock(&memory_lock);
    mproc *p = proc_find(box, ref);
    pthread_mutex_unlock(&memory_lock);
    if (!p)
        return cay_fail_why(err, CAY_ENOENT, "process_not_found", "process %s: no such process",
                            ref);
    *out = p;
    return 0;
}

static void proc_release(void *proc)
{
    (void)proc; /* a box keeps its processes until it is closed */
}

static const char *proc_id(void *proc, int *pid)
{
    mproc *p = proc;
    if (pid)
        *pid = p->pid;
    return p->id;
}

typedef struct pump {
    mproc *p;
    uint64_t at;
    int fd;
    bool silent;
} pump;

static void *pump_main(void *arg)
{
    pump *k = arg;
    pthread_mutex_lock(&memory_lock);
    for (;;) {
        size_t n = k->silent || k->at > k->p->out_len ? 0 : k->p->out_len - (size_t)k->at;
        if (n == 0 && k->p->ended)
            break;
        if (n == 0) {
            pthread_cond_wait(&memory_change, &memory_lock);
            continue;
        }
        char chunk[4096];
        n = CAY_MIN(n, sizeof chunk);
        memcpy(chunk, k->p->out + k->at, n);
        pthread_mutex_unlock(&memory_lock);
        bool ok = cay__fd_write_all(k->fd, chunk, n);
        pthread_mutex_lock(&memory_lock);
        k->at += n;
        if (!ok)
            break;
    }
    pthread_mutex_unlock(&memory_lock);
    close(k->fd);
    free(k);
    return NULL;
}

static int proc_output(void *proc, const cay_call *call, cay_stream which, uint64_t offset, int *fd,
                       cay_err *err)
{
    mproc *p = proc;
    int ends[2];
    pthread_t t;
    (void)call;
    if (pipe2(ends, O_CLOEXEC) < 0)
        return cay_fail_sys(err, "pipe");
    pump *k = cay__alloc(sizeof *k);
    *k = (pump){ .p = p,
                 .at = offset == CAY_FROM_NOW ? p->out_len : offset,
                 .fd = ends[1],
                 .silent = which == CAY_STDERR };
    if (pthread_create(&t, NULL, pump_main, k) != 0)
        abort();
    pthread_detach(t);
    *fd = ends[0];
    return 0;
}

static int proc_read(void *proc, const cay_call *call, cay_stream which, uint64_t *offset,
                     void *buf, size_t cap, size_t *n, uint64_t *lost, bool *eof, cay_err *err)
{
    mproc *p = proc;
    (void)call, (void)err;
    pthread_mutex_lock(&memory_lock);
    size_t len = which == CAY_STDOUT ? p->out_len : 0, at = (size_t)CAY_MIN(*offset, len);
    *n = CAY_MIN(cap, len - at);
    memcpy(buf, p->out + at, *n);
    *offset = at + *n;
    *lost = 0;
    *eof = p->ended && *offset == len;
    pthread_mutex_unlock(&memory_lock);
    return 0;
}

static int proc_write(void *proc, const cay_call *call, const void *data, size_t len, cay_err *err)
{
    mproc *p = proc;
    (void)call;
    pthread_mutex_lock(&memory_lock);
    bool open = p->stdin_open;
    if (open) {
        p->in = realloc(p->in, p->in_len + len);
        if (!p->in)
            abort();
        memcpy(p->in + p->in_len, data, len);
        p->in_len += len;
        pthread_cond_broadcast(&memory_change);
    }
    pthread_mutex_unlock(&memory_lock);
    return open ? 0
                : cay_fail_why(err, CAY_ESTATE, "stdin_closed", "stdin of the process is closed");
}

static int proc_close_stdin(void *proc, const cay_call *call, cay_err *err)
{
    mproc *p = proc;
    (void)call, (void)err;
    pthread_mutex_lock(&memory_lock);
    p->stdin_open = false;
    pthread_cond_broadcast(&memory_change);
    pthread_mutex_unlock(&memory_lock);
    return 0;
}

static int proc_signal(void *proc, const cay_call *call, int sig, cay_scope scope, cay_err *err)
{
    mproc *p = proc;
    (void)call;
    pthread_mutex_lock(&memory_lock);
    bool ended = p->ended;
    if (!ended && sig && scope != CAY_SCOPE_BELOW) /* there is nothing below */
        p->sig = sig;
    pthread_cond_broadcast(&memory_change);
    pthread_mutex_unlock(&memory_lock);
    return ended ? cay_fail_why(err, CAY_ENOENT, "process_ended", "process %s has ended", p->id)
                 : 0;
}

static int proc_wait(void *proc, const cay_call *call, cay_exit *out, cay_err *err)
{
    mproc *p = proc;
    CAY_TRY(cay__call_wait(call, p->exit_fd, POLLIN, "wait", err));
    pthread_mutex_lock(&memory_lock);
    *out = p->exit;
    pthread_mutex_unlock(&memory_lock);
    return 0;
}

static int proc_exit_fd(void *proc, cay_err *err)
{
    (void)err;
    return ((mproc *)proc)->exit_fd;
}

static int procs(void *box, const cay_call *call, int (*fn)(const cay_proc_info *, void *),
                 void *arg, cay_err *err)
{
    int rc = 0;
    (void)call, (void)err;
    pthread_mutex_lock(&memory_lock);
    for (mproc *p = ((mbox *)box)->procs; p && rc == 0; p = p->next) {
        cay_proc_info i = { .size = sizeof i,
                            .id = p->id,
                            .tag = p->tag,
                            .command = p->command,
                            .user = "user",
                            .pid = p->pid,
                            .state = p->ended ? 'X' : 'S',
                            .started_ms = p->started_ms,
                            .exit = p->exit,
                            .labels = p->labels };
        rc = fn(&i, arg);
    }
    pthread_mutex_unlock(&memory_lock);
    return rc;
}

bool memory_runs(const mbox *b)
{
    for (const mproc *p = b->procs; p; p = p->next)
        if (!p->ended)
            return true;
    return false;
}

static int mem_open(const cay_provider_conf *conf, void **self, cay_err *err)
{
    memory *m = cay__alloc(sizeof *m);
    int rc = memory_layers_open(m, conf ? conf->home : NULL);
    if (rc < 0) {
        free(m);
        return cay_fail_sys(err, "open the state directory");
    }
    *self = m;
    return 0;
}

void memory_kill_all(mbox *b)
{
    pthread_mutex_lock(&memory_lock);
    for (mproc *p = b->procs; p; p = p->next)
        p->sig = p->ended ? p->sig : SIGKILL;
    pthread_cond_broadcast(&memory_change);
    for (mproc *p = b->procs; p; p = p->next)
        while (!p->ended)
            wait_ms(20);
    pthread_mutex_unlock(&memory_lock);
}

static void box_free(mbox *b)
{
    while (b->procs) {
        mproc *p = b->procs;
        b->procs = p->next;
        pthread_join(p->thread, NULL);
        for (size_t i = 0; p->argv[i]; i++)
            free(p->argv[i]);
        free(p->argv);
        free(p->labels);
        free(p->in);
        free(p->out);
        close(p->exit_fd);
        free(p);
    }
    memory_files_free(b);
    free(b);
}

static void mem_close(void *self)
{
    memory *m = self;
    while (m->boxes) {
        mbox *b = m->boxes;
        m->boxes = b->next;
        memory_kill_all(b);
        box_free(b);
    }
    memory_layers_close(m);
    free(m);
}

static mbox *box_find(memory *m, const char *id)
{
    for (mbox *b = m->boxes; b; b = b->next)
        if (!b->gone && strcmp(b->id, id) == 0)
            return b;
    return NULL;
}

static int create(void *self, const cay_call *call, const char *id, const cay_box_spec *spec,
                  void **box, cay_err *err)
{
    const cay_create *c = spec->create;
    memory *m = self;
    (void)call;
    if (c->isolation.min_level > CAY_LEVEL_NONE)
        return cay_fail_why(err, CAY_EISOLATION, "level", "provider memory gives level 0 (none)");
    pthread_mutex_lock(&memory_lock);
    mbox *b = box_find(m, id);
    int rc = 0;
    if (!b) {
        b = cay__alloc(sizeof *b);
        cay__str_copy(b->id, sizeof b->id, id);
        b->m = m;
        b->state = CAY_RUNNING;
        memory_files_init(b);
        if (spec->nlayers)
            rc = memory_stand_on(b, spec->layers, spec->nlayers, err);
        if (rc == 0) {
            memory_upper_make(b);
            b->next = m->boxes;
            m->boxes = b;
        } else {
            memory_files_free(b);
            free(CAY_STEAL(b));
        }
    }
    pthread_mutex_unlock(&memory_lock);
    *box = b;
    return rc;
}

static int attach(void *self, const cay_call *call, const char *id, const cay_json *state,
                  void **box, cay_err *err)
{
    (void)call, (void)state;
    pthread_mutex_lock(&memory_lock);
    mbox *b = box_find(self, id);
    pthread_mutex_unlock(&memory_lock);
    if (!b)
        return cay_fail_why(err, CAY_EGONE, "sandbox_gone", "sandbox %s is gone", id);
    *box = b;
    return 0;
}

static void release(void *box)
{
    (void)box;
}

static int destroy(void *box, const cay_call *call, cay_err *err)
{
    mbox *b = box;
    (void)call, (void)err;
    memory_kill_all(b);
    memory_upper_drop(b);
    b->gone = true; /* its memory stays for handles on its processes */
    return 0;
}

static void set_state(mbox *b, cay_state state, const char *reason)
{
    pthread_mutex_lock(&memory_lock);
    b->state = state;
    cay__str_copy(b->reason, sizeof b->reason, reason);
    pthread_cond_broadcast(&memory_change);
    pthread_mutex_unlock(&memory_lock);
}

static int stop(void *box, const cay_call *call, cay_err *err)
{
    (void)call, (void)err;
    memory_kill_all(box);
    set_state(box, CAY_STOPPED, "killed");
    return 0;
}

static int start(void *self, const cay_call *call, const char *id, const cay_box_spec *spec,
                 void **box, cay_err *err)
{
    (void)spec;
    CAY_TRY(attach(self, call, id, NULL, box, err));
    set_state(*box, CAY_RUNNING, "");
    return 0;
}

static int pause_box(void *box, const cay_call *call, cay_err *err)
{
    (void)call, (void)err;
    set_state(box, CAY_PAUSED, "");
    return 0;
}

static int resume_box(void *box, const cay_call *call, cay_err *err)
{
    (void)call, (void)err;
    set_state(box, CAY_RUNNING, "");
    return 0;
}

static int status(void *box, const cay_call *call, cay_box_status *out, cay_err *err)
{
    mbox *b = box;
    (void)call;
    if (b->gone)
        return cay_fail_why(err, CAY_EGONE, "sandbox_gone", "sandbox %s is gone", b->id);
    *out =
        (cay_box_status){ .size = sizeof *out, .state = b->state, .reason = b->reason, .path = "" };
    return 0;
}

static int list(void *self, const cay_call *call, int (*fn)(const char *id, void *arg), void *arg,
                cay_err *err)
{
    int rc = 0;
    (void)call, (void)err;
    for (mbox *b = ((memory *)self)->boxes; b && rc == 0; b = b->next)
        if (!b->gone)
            rc = fn(b->id, arg);
    return rc;
}

static int remove_files(void *self, const cay_call *call, const char *id, cay_err *err)
{
    void *box = NULL;
    return attach(self, call, id, NULL, &box, NULL) < 0 ? 0 : destroy(box, call, err);
}

const cay_provider_ops cay__memory = {
    .size = sizeof cay__memory,
    .name = "memory",
    .open = mem_open,
    .close = mem_close,
    .create = create,
    .attach = attach,
    .release = release,
    .destroy = destroy,
    .spawn = spawn,
    .proc_attach = proc_attach,
    .proc_release = proc_release,
    .proc_id = proc_id,
    .proc_output = proc_output,
    .proc_write = proc_write,
    .proc_close_stdin = proc_close_stdin,
    .proc_signal = proc_signal,
    .proc_wait = proc_wait,
    .proc_exit_fd = proc_exit_fd,
    .status = status,
    .proc_read = proc_read,
    .procs = procs,
    .list = list,
    .start = start,
    .stop = stop,
    .pause = pause_box,
    .resume = resume_box,
    .remove_files = remove_files,
    .open_read = memory_open_read,
    .put = memory_put,
    .open_write = memory_open_write,
    .commit_write = memory_commit_write,
    .abort_write = memory_abort_write,
    .stat = memory_stat,
    .mkdir = memory_mkdir,
    .remove = memory_remove,
    .rename = memory_rename,
    .chmod = memory_chmod,
    .symlink = memory_symlink,
    .list_dir = memory_list_dir,
    .snapshot = memory_snapshot,
    .restack = memory_restack,
    .layer_remove = memory_layer_remove,
};
