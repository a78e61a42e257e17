/* SPDX-License-Identifier: Apache-2.0 */
/* RUN: one command in the sandbox, its output told line by line. */
#include "build.h"
#include <poll.h>
#include <signal.h>

static bool is_root(const char *user)
{
    size_t n = strcspn(user, ":"); /* a group may follow */
    return (n == 4 && !memcmp(user, "root", 4)) || (n == 1 && *user == '0');
}

/* Both streams until they end. */
static int listen_to(cay__builder *b, int fd[2], cay_err *err)
{
    CAY_AUTOFREE char *buf = cay__alloc(32768);
    for (int64_t look = cay__now_ms() + 1000; fd[0] >= 0 || fd[1] >= 0;) {
        struct pollfd p[3] = { { .fd = fd[0], .events = POLLIN },
                               { .fd = fd[1], .events = POLLIN },
                               { .fd = cay__call_cancel(&b->call), .events = POLLIN } };
        CAY_TRY(cay__call_check(&b->call, "build", err));
        int n = poll(p, 3, 500);
        if (n < 0 && errno != EINTR)
            return cay_fail_sys(err, "wait for output");
        for (int i = 0; n > 0 && i < 2; i++) {
            if (fd[i] < 0 || !p[i].revents)
                continue;
            ssize_t k = read(fd[i], buf, 32768);
            if (k > 0)
                cay__report_bytes(&b->report, i ? CAY_BUILD_ERR : CAY_BUILD_OUT, buf, (size_t)k);
            else if (k == 0 || (errno != EINTR && errno != EAGAIN))
                cay__close_fd(&fd[i]);
        }
        if (cay__now_ms() >= look) { /* somebody else's word, told by the record */
            look = cay__now_ms() + 1000;
            if (cay__report_canceled(&b->report))
                return cay_fail_why(err, CAY_ECANCELED, "build_canceled", "build %s was canceled",
                                    b->report.id);
        }
    }
    return 0;
}

static int follow_process(cay__builder *b, cay_proc *p, cay_exit *end, cay_err *err)
{
    int fd[2] = { -1, -1 };
    int rc = cay_proc_output(p, &b->call, CAY_STDOUT, CAY_FROM_START, &fd[0], err);
    if (rc == 0)
        rc = cay_proc_output(p, &b->call, CAY_STDERR, CAY_FROM_START, &fd[1], err);
    if (rc == 0)
        rc = listen_to(b, fd, err);
    cay__close_fd(&fd[0]);
    cay__close_fd(&fd[1]);
    cay__report_flush(&b->report);
    if (rc == 0)
        rc = cay_proc_wait(p, &b->call, end, err);
    if (rc < 0)
        cay_proc_signal(p, NULL, SIGKILL, CAY_SCOPE_TREE, NULL);
    return rc;
}

static int on_proc(const cay_proc_info *i, void *arg)
{
    *(size_t *)arg += i->pid > 1 && i->state != 'X' && i->state != 'Z';
    return 0;
}

/* What a step left running ends with it, as nothing of it could be in the template. */
static int end_rest(cay__builder *b, cay_sandbox *sb, cay_err *err)
{
    size_t n = 0;
    CAY_TRY(cay_sandbox_procs(sb, &b->call, on_proc, &n, err));
    if (!n)
        return 0;
    CAY_TRY(cay_sandbox_kill(sb, &b->call, err));
    return cay_sandbox_resume(sb, &b->call, err);
}

/* The last thing that the step said, on one line. */
static const char *last_line(const cay__buf *tail, cay__buf *out)
{
    size_t end = tail->len, begin;
    while (end && tail->data[end - 1] == '\n')
        end--;
    for (begin = end; begin && tail->data[begin - 1] != '\n'; begin--)
        ;
    if (end > begin)
        cay__buf_safe(out, tail->data + begin, CAY_MIN(end - begin, (size_t)100), false);
    return CAY_OR(out->data, "");
}

static int fail_step(cay__builder *b, const cay__task *t, const cay_exit *end, cay_err *err)
{
    CAY_AUTOBUF line = CAY__BUF(1024), detail = CAY__BUF(sizeof err->detail - 1);
    const char *last = last_line(&b->report.tail, &line);
    bool late = !strcmp(end->reason, "time");
    int rc = cay_fail_why(err, late ? CAY_ETIMEOUT : CAY_EINVAL, "build_failed", "%s %d%s%s",
                          end->signal ? "ended by signal" : "exit code",
                          CAY_OR(end->signal, end->code), CAY_TEXT_IF(*last, ": "), last);
    if (!err)
        return rc;
    for (size_t from = 0; from <= b->report.tail.len; from += 60) { /* as much of its end as fits */
        cay__buf_clear(&detail);
        cay__buf_fmt(&detail, "{\"step\":%u,\"line\":%u,\"code\":%d,\"tail\":", t->no,
                     t->step->line, end->code);
        if (b->report.tail.len)
            cay__buf_json(&detail, b->report.tail.data + from, b->report.tail.len - from);
        else
            cay__buf_str(&detail, "\"\"");
        cay__buf_str(&detail, "}");
        if (!detail.full)
            break;
        detail.full = false;
    }
    if (!detail.full && detail.data)
        CAY_FORMAT(err->detail, "%s", detail.data);
    return rc;
}

/* With the secrets that are variables. */
static const cay_pair *env_of(cay__builder *b, const cay__task *t)
{
    size_t n = 0, more = 0;
    CAY_EACH_OF(it, t->mounts, t->nmounts)
        more += it->env && cay__mount_secret(b, it);
    if (!more)
        return t->env;
    while (t->env[n].key)
        n++;
    cay_pair *out = cay__arena_take(&b->mem, (n + more + 1) * sizeof *out);
    memcpy(out, t->env, n * sizeof *out);
    CAY_EACH_OF(mount, t->mounts, t->nmounts) {
        const cay_build_secret *s = NULL;
        if (mount->env)
            s = cay__mount_secret(b, mount);
        if (s) {
            char *v = cay__arena_take(&b->mem, s->len + 1);
            memcpy(v, s->value, s->len);
            out[n++] = (cay_pair){ mount->env, v };
        }
    }
    return out;
}

int cay__task_run(cay__builder *b, cay_sandbox *sb, const cay__task *t, cay_err *err)
{
    CAY_AUTOPTR(cay_proc) p = NULL;
    cay_exit end = { .size = sizeof end };
    size_t n = 0, nshell = 0;
    while (!t->step->exec && t->shell[nshell])
        nshell++;
    const char **argv = cay__arena_take(&b->mem, (nshell + t->step->nwords + 1) * sizeof *argv);
    for (; n < nshell; n++)
        argv[n] = t->shell[n];
    CAY_EACH_OF(word, t->words, t->step->nwords)
        argv[n++] = *word;
    cay_spawn s = { .size = sizeof s,
                    .argv = argv,
                    .env = env_of(b, t),
                    .cwd = t->cwd,
                    .user = strchr(t->user, ':') ? NULL : t->user,
                    .profile = CAY_IF(is_root(t->user), "root"),
                    .attach = true,
                    .on_full = CAY_FULL_BLOCK,
                    .timeout_ms = CAY_OR(b->spec->step_ms, CAY__STEP_MS) };
    cay__buf_clear(&b->report.tail);
    CAY_TRY(cay_sandbox_spawn(sb, &b->call, &s, &p, err));
    CAY_TRY(follow_process(b, p, &end, err));
    if (end.code || end.signal)
        return fail_step(b, t, &end, err);
    return end_rest(b, sb, err);
}
