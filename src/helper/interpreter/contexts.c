/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts. Behind each is a kernel, a child of ours: it reads requests as lines of JSON,
 * {"id","code","env"} and {"interrupt": ID}, and answers with lines of events, each with the
 * request's id first. It gets one request at a time, those behind it wait here.
 */
#include "serve.h"
#include <base/trust.h>
#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>

#define LINE_MAX_BYTES ((size_t)8 << 20)
#define DEFAULT_CWD    "/home/user"
enum { CONTEXTS = 256, READ = 64 << 10, LAST_READS = 64 };

static const struct language {
    const char *name, *also;
    const char *program; /* that has to be here */
    const char *script;  /* that it runs; NULL: the host has it */
    bool always;         /* a context of it is there from the start, as far as anyone can tell */
} languages[] = {
    { "python", "python3", "python3", "kernel.py", true },
    { "javascript", "js", "node", "kernel.js", true },
    { "typescript", "ts", "node", "kernel.js", false },
    { "bash", "sh", "bash", NULL, false },
};

struct context {
    struct context *next;
    const struct language *l;
    char id[64], *cwd;
    pid_t pid;   /* 0: its kernel ended */
    int in, out; /* pipes to and from it; out -1: it closed that */
    int polled;
    cay__buf sends; /* for it; so many bytes of that went: */
    size_t sent;
    cay__buf line;    /* of what it says, as far as it came */
    bool skips;       /* … and the rest of it is not wanted */
    char now[24];     /* the execution that it is at, or "" */
    http_conn *asker; /* of that one; NULL: went away */
    http_conn *first; /* who wait */
};
static context *contexts;
static size_t ncontexts;
static char own[4096], dir[4096]; /* this program, and where it is */

static const struct language *language_of(const char *given, cay_err *err)
{
    CAY_EACH(it, languages)
        if (!*given || !strcmp(given, it->name) || !strcmp(given, it->also))
            return it;
    /* E2B has these two, and we do not; others are nobody's. */
    bool theirs = !strcmp(given, "r") || !strcmp(given, "java");
    cay_fail(err, theirs ? CAY_ENOTSUP : CAY_EINVAL,
             theirs
                 ? "language %.40s is not supported by this server: there are python, javascript, "
                   "typescript and bash"
                 : "language %.40s is not known: there are python, javascript, typescript and bash",
             given);
    return NULL;
}

/* Where images have their programs: their own before the distribution's. */
static bool find_program(const char *name, char path[64])
{
    static const char *const dirs[] = { "/usr/local/bin/", "/usr/bin/", "/bin/" };
    CAY_EACH(it, dirs) {
        snprintf(path, 64, "%s%s", *it, name);
        if (access(path, X_OK) == 0)
            return true;
    }
    return false;
}

/* A sandbox that got rules for the network after it was made has the certificates since then; its
 * processes had no variables for them. */
static void set_trust_env(void)
{
    static const char *const names[][2] = { CAY__TRUST_ENV };
    CAY_EACH(it, names)
        if (access((*it)[1], R_OK) == 0)
            setenv((*it)[0], (*it)[1], 0);
}

static _Noreturn void exec_kernel(const context *x, const char *program, const char *cwd, int in,
                                  int out)
{
    char script[sizeof dir + 16] = "";
    sigset_t none;
    sigemptyset(&none);
    setsid(); /* all that it starts is found by that */
    if (x->l->script)
        CAY_FORMAT(script, "%s/%s", dir, x->l->script);
    if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || chdir(cwd) < 0)
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* without us nobody asks it anything any more */
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    set_trust_env();
    if (!strcmp(x->l->name, "python"))
        execl(program, program, "-u", script, (char *)NULL);
    else
        execl(own, own, "--kernel", x->l->name, program, cay__text_or(script, NULL), (char *)NULL);
    _exit(127);
}

static int find_cwd(const char *given, char *cwd, size_t cap, cay_err *err)
{
    const char *home = CAY_IF(*given == '~' && (!given[1] || given[1] == '/'), getenv("HOME"));
    if (!cay__str_join(cwd, cap, CAY_OR(home, ""), given + (home != NULL), NULL))
        return cay_fail(err, CAY_EINVAL, "the working directory is too long");
    CAY_AUTOFD fd = open(cwd, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || access(cwd, X_OK) < 0)
        return cay_fail(err, CAY_ENOENT, "the working directory %.200s cannot be entered: %s",
                        given, strerror(errno));
    return 0;
}

static int start_kernel(context *x, cay_err *err)
{
    char program[64], cwd[4096];
    int in[2], out[2];
    if (!find_program(x->l->program, program))
        return cay_fail(err, CAY_EINVAL,
                        "language %s needs %s, which this sandbox's template does not have",
                        x->l->name, x->l->program);
    CAY_TRY(find_cwd(x->cwd, cwd, sizeof cwd, err));
    CAY_TRY_SYS(pipe2(in, O_CLOEXEC), err, "start a kernel of %s", x->l->name);
    pid_t pid = -1;
    if (pipe2(out, O_CLOEXEC) >= 0)
        pid = fork();
    if (pid == 0)
        exec_kernel(x, program, cwd, in[0], out[1]);
    int sys = errno;
    close(in[0]);
    close(out[1]);
    if (pid < 0) {
        close(in[1]);
        close(out[0]);
        errno = sys;
        return cay_fail_sys(err, "start a kernel of %s", x->l->name);
    }
    fcntl(in[1], F_SETFL, O_NONBLOCK);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    x->pid = pid;
    x->in = in[1];
    x->out = out[0];
    x->polled = -1;
    x->sends.len = x->sent = x->line.len = 0;
    x->skips = false;
    x->now[0] = 0;
    return 0;
}

/* Parent and session of a process; false: it is none, or gone. */
static bool read_proc_stat(const char *name, pid_t *pid, pid_t *parent, pid_t *session)
{
    char path[64], buf[512], *at;
    int group;
    if (*name < '1' || *name > '9')
        return false;
    CAY_FORMAT(path, "/proc/%.20s/stat", name);
    CAY_AUTOFD fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = -1;
    if (fd >= 0)
        n = read(fd, buf, sizeof buf - 1);
    if (n <= 0)
        return false;
    buf[n] = 0;
    *pid = atoi(name);
    at = strrchr(buf, ')'); /* its name may have any character */
    return at && sscanf(at + 1, " %*c %d %d %d", parent, &group, session) == 3;
}

enum { TREE = 2048 };

/* One more look at all processes: children of those that are known, and their session. Who is found
 * stands still, so that it starts nobody else. */
static size_t stop_relatives(pid_t *found, size_t n)
{
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && (e = readdir(d)) && n < TREE;) {
        pid_t pid, parent, session;
        bool known = false, of = false;
        if (!read_proc_stat(e->d_name, &pid, &parent, &session))
            continue;
        CAY_EACH_OF(it, found, n) {
            known |= *it == pid;
            of |= *it == parent || found[0] == session;
        }
        if (of && !known && kill(pid, SIGSTOP) == 0)
            found[n++] = pid;
    }
    if (d)
        closedir(d);
    return n;
}

static void kill_tree(pid_t root)
{
    static pid_t found[TREE];
    size_t n = 1, before;
    found[0] = root;
    kill(root, SIGSTOP);
    do {
        before = n;
        n = stop_relatives(found, n);
    } while (n > before);
    CAY_EACH_OF(it, found, n)
        kill(*it, SIGKILL);
}

static void flush_requests(context *x)
{
    ssize_t n = 0;
    if (x->sent < x->sends.len)
        n = write(x->in, x->sends.data + x->sent, x->sends.len - x->sent);
    if (n > 0)
        x->sent += (size_t)n; /* one that reads no more ends, and that is told */
    if (x->sent == x->sends.len) {
        cay__buf_clear(&x->sends);
        x->sent = 0;
    }
}

static void send_next_request(context *x)
{
    http_conn *c = x->first;
    if (*x->now || !c || !x->pid)
        return;
    x->first = c->behind;
    c->behind = NULL;
    x->asker = c;
    memcpy(x->now, c->id, sizeof x->now);
    cay__buf_add(&x->sends, c->ask.data, c->ask.len);
    cay__buf_clear(&c->ask);
    flush_requests(x);
}

void context_ask(context *x, http_conn *c)
{
    http_conn **p = &x->first;
    while (*p)
        p = &(*p)->behind;
    *p = c;
    c->at = x;
    send_next_request(x);
}

void context_left(http_conn *c)
{
    context *x = c->at;
    if (!x)
        return;
    c->at = NULL;
    if (x->asker == c) {
        x->asker = NULL;
        cay__buf_fmt(&x->sends, "{\"interrupt\":\"%s\"}\n", c->id);
        flush_requests(x);
        return;
    }
    for (http_conn **p = &x->first; *p; p = &(*p)->behind)
        if (*p == c) {
            *p = c->behind;
            return;
        }
}

static void end_execution(http_conn *c)
{
    c->at = NULL;
    stream_end(c);
}

/* Behind {"id":"…", when that is the current execution's; NULL: it is not. */
static const char *match_execution_id(const context *x, const char *s, size_t n)
{
    static const char head[] = "{\"id\":";
    size_t k = sizeof head - 1, len = strlen(x->now);
    if (!len || n < k + len + 5 || memcmp(s, head, k))
        return NULL;
    k += s[k] == ' ';
    if (s[k] != '"' || memcmp(s + k + 1, x->now, len) || s[k + 1 + len] != '"' ||
        s[k + 2 + len] != ',')
        return NULL;
    return s + k + 3 + len;
}

/* A line of the current one goes on without its id; what is no JSON nobody could read. */
static void take_line(context *x, const char *s, size_t n)
{
    static const char end_type[] = "\"end_of_execution\"";
    const char *rest = match_execution_id(x, s, n), *at, *stop;
    if (!rest || !cay__scan_sound(s, s + n))
        return;
    bool ends = cay__scan_member(s, s + n, "type", &at, &stop) &&
                (size_t)(stop - at) == sizeof end_type - 1 &&
                !memcmp(at, end_type, sizeof end_type - 1);
    if (x->asker) {
        CAY_AUTOBUF line = TEXT;
        rest += *rest == ' ';
        cay__buf_str(&line, "{");
        cay__buf_add(&line, rest, (size_t)(s + n - rest));
        cay__buf_str(&line, "\n");
        stream_line(x->asker, line.data, line.len);
        if (ends)
            end_execution(x->asker);
    }
    if (ends) {
        x->asker = NULL;
        x->now[0] = 0;
        send_next_request(x);
    }
}

/* One line without an end would be all memory. */
static void too_big(context *x)
{
    CAY_AUTOBUF line = TEXT;
    if (match_execution_id(x, x->line.data, x->line.len) && x->asker) {
        cay__buf_fmt(
            &line,
            "{\"type\":\"error\",\"name\":\"ResultTooBig\",\"value\":\"a result of more than "
            "%zu MB is not told: write it to a file and read that\",\"traceback\":\"\"}\n",
            LINE_MAX_BYTES >> 20);
        stream_line(x->asker, line.data, line.len);
    }
    cay__buf_clear(&x->line);
    x->skips = true;
}

static void split_output(context *x, const char *s, size_t n)
{
    for (const char *end = s + n, *stop; s < end; s = stop) {
        const char *nl = memchr(s, '\n', (size_t)(end - s));
        stop = nl ? nl + 1 : end;
        if (!x->skips)
            cay__buf_add(&x->line, s, (size_t)(stop - s));
        if (x->line.len > LINE_MAX_BYTES)
            too_big(x);
        if (nl && !x->skips)
            take_line(x, x->line.data, x->line.len - 1);
        if (nl && x->line.cap > READ) /* a long one was the exception */
            cay__buf_clear(&x->line);
        if (nl) {
            x->line.len = 0;
            x->skips = false;
        }
    }
}

/* False: there is nothing now. */
static bool take_output(context *x)
{
    static char buf[READ];
    ssize_t n = -1;
    if (x->out >= 0)
        n = read(x->out, buf, sizeof buf);
    if (n > 0)
        split_output(x, buf, (size_t)n);
    if (n == 0) { /* it can say nothing any more */
        cay__close_fd(&x->out);
        if (x->pid)
            kill_tree(x->pid);
    }
    return n > 0;
}

/* Told as an error, which SDKs know: a kind that they do not know they take for success. */
static void tell_death(http_conn *c, int status)
{
    CAY_AUTOBUF line = TEXT;
    bool killed = WIFSIGNALED(status);
    cay__buf_fmt(&line,
                 "{\"type\":\"error\",\"name\":\"UnexpectedEndOfExecution\",\"value\":\"the kernel "
                 "ended %s %d before the execution did\",\"traceback\":\"\"}\n",
                 killed ? "by signal" : "with code",
                 killed ? WTERMSIG(status) : WEXITSTATUS(status));
    stream_line(c, line.data, line.len);
    end_execution(c);
}

static void on_kernel_exit(context *x, int status)
{
    x->pid = 0;
    for (int i = 0; i < LAST_READS && take_output(x); i++)
        ;
    if (x->asker)
        tell_death(x->asker, status);
    x->asker = NULL;
    x->now[0] = 0;
    for (http_conn *c; (c = x->first);) {
        x->first = c->behind;
        tell_death(c, status);
    }
    cay__close_fd(&x->in);
    cay__close_fd(&x->out);
}

/* Whatever becomes of its processes, which are reaped when they are gone: one may hang in the
 * kernel for long. */
static void kill_kernel(context *x)
{
    kill_tree(x->pid);
    cay__close_fd(&x->out);
    on_kernel_exit(x, SIGKILL);
}

static context *find_context(const char *id)
{
    CAY_EACH_LINK(x, contexts)
        if (!strcmp(x->id, id))
            return x;
    return NULL;
}

static int fail_unknown(const char *id, cay_err *err)
{
    return cay_fail(err, CAY_ENOENT, "Context %.60s not found", id);
}

static int add_context(const struct language *l, const char *id, const char *cwd, context **out,
                       cay_err *err)
{
    context *x = cay__alloc(sizeof *x);
    *x = (context){ .l = l,
                    .in = -1,
                    .out = -1,
                    .polled = -1,
                    .cwd = cay__strdup(cwd),
                    .sends = TEXT,
                    .line = TEXT };
    CAY_COPY(x->id, id);
    int rc;
    if (ncontexts < CONTEXTS)
        rc = start_kernel(x, err);
    else
        rc = cay_fail(err, CAY_EBUSY,
                      "there are %d contexts, which is all there can be; remove one", CONTEXTS);
    if (rc < 0) {
        free(x->cwd);
        free(x);
        return rc;
    }
    CAY_APPEND(contexts, x);
    *out = x;
    ncontexts++;
    return 0;
}

/* The default context of a language is made when it is wanted first. */
static int open_default(const struct language *l, context **out, cay_err *err)
{
    char id[64];
    CAY_FORMAT(id, "default-%s", l->name);
    context *x = find_context(id);
    if (!x)
        return add_context(l, id, DEFAULT_CWD, out, err);
    if (!x->pid)
        CAY_TRY(start_kernel(x, err));
    *out = x;
    return 0;
}

int context_open(const char *id, const char *language, context **out, cay_err *err)
{
    bool usual = cay__str_starts(id, "default-");
    if (!*id || usual) {
        const struct language *l = language_of(usual ? id + 8 : language, err);
        if (l)
            return open_default(l, out, err);
        return err->code;
    }
    context *x = find_context(id);
    if (!x || !x->pid)
        return fail_unknown(id, err);
    *out = x;
    return 0;
}

static void json_of(cay__buf *json, const char *id, const char *language, const char *cwd)
{
    cay__buf_str(json, "{\"id\":");
    cay__buf_json(json, id, strlen(id));
    cay__buf_fmt(json, ",\"language\":\"%s\",\"cwd\":", language);
    cay__buf_json(json, cwd, strlen(cwd));
    cay__buf_str(json, "}");
}

int context_new(const char *language, const char *cwd, cay__buf *json, cay_err *err)
{
    const struct language *l = language_of(language, err);
    unsigned char random[10];
    char id[24];
    context *x;
    if (!l)
        return err->code;
    if (getrandom(random, sizeof random, 0) != sizeof random)
        return cay_fail_sys(err, "getrandom");
    cay__hex_put(id, random, sizeof random);
    CAY_TRY(add_context(l, id, cay__text_or(cwd, DEFAULT_CWD), &x, err));
    json_of(json, x->id, l->name, x->cwd);
    return 0;
}

/* Of a default context that nobody has used yet there is nothing. */
static const struct language *unused_default(const char *id)
{
    CAY_EACH(it, languages)
        if (cay__str_starts(id, "default-") && !strcmp(id + 8, it->name))
            return it;
    return NULL;
}

int context_remove(const char *id, cay_err *err)
{
    context *x = find_context(id);
    if (!x || !x->pid) {
        if (unused_default(id))
            return 0;
        return fail_unknown(id, err);
    } /* as it is not listed either */
    kill_kernel(x);
    CAY_UNLINK(contexts, x);
    ncontexts--;
    cay__buf_clear(&x->sends);
    cay__buf_clear(&x->line);
    free(x->cwd);
    free(x);
    return 0;
}

int context_restart(const char *id, cay_err *err)
{
    context *x = find_context(id);
    const struct language *l = unused_default(id);
    if (!x) {
        if (l)
            return open_default(l, &x, err);
        return fail_unknown(id, err);
    }
    if (x->pid)
        kill_kernel(x);
    return start_kernel(x, err);
}

void context_list(cay__buf *json)
{
    char id[64], program[64];
    const char *comma = "";
    cay__buf_str(json, "[");
    CAY_EACH_LINK(x, contexts)
        if (x->pid) {
            cay__buf_str(json, comma);
            json_of(json, x->id, x->l->name, x->cwd);
            comma = ",";
        }
    CAY_EACH(l, languages) { /* those that are made when they are wanted first are there, too */
        CAY_FORMAT(id, "default-%s", l->name);
        context *x = find_context(id);
        if (!l->always || (x && x->pid) || !find_program(l->program, program))
            continue;
        cay__buf_str(json, comma);
        json_of(json, id, l->name, DEFAULT_CWD);
        comma = ",";
    }
    cay__buf_str(json, "]");
}

void contexts_begin(const char *self, char *const *wanted)
{
    CAY_COPY(own, self);
    CAY_COPY(dir, self);
    char *slash = strrchr(dir, '/');
    if (slash)
        *slash = 0;
    for (; *wanted; wanted++) {
        cay_err err = CAY_ERR_INIT;
        context *x;
        if (context_open("", *wanted, &x, &err) < 0) /* and whoever asks for it is told */
            fprintf(stderr, "%s\n", err.msg);
    }
}

size_t contexts_count(void)
{
    return 2 * ncontexts;
}

size_t contexts_poll(struct pollfd *p)
{
    size_t n = 0;
    CAY_EACH_LINK(x, contexts) {
        bool held = x->asker && x->asker->out.len - x->asker->sent > BACKLOG;
        x->polled = -1;
        if (!x->pid)
            continue;
        x->polled = (int)n;
        p[n++] = (struct pollfd){ .fd = held ? -1 : x->out, .events = POLLIN };
        p[n++] = (struct pollfd){ .fd = x->sent < x->sends.len ? x->in : -1, .events = POLLOUT };
    }
    return n;
}

static void reap_kernels(void)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        CAY_EACH_LINK(x, contexts)
            if (x->pid == pid)
                on_kernel_exit(x, status);
}

void contexts_turn(const struct pollfd *p)
{
    CAY_EACH_LINK(x, contexts) {
        if (x->polled < 0 || !x->pid)
            continue;
        if (p[x->polled].revents)
            take_output(x);
        if (x->pid && p[x->polled + 1].revents)
            flush_requests(x);
    }
    reap_kernels();
}
