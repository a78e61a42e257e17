/* SPDX-License-Identifier: Apache-2.0 */
/* Where a secret's value comes from. */
#include "secret.h"
#include <base/buf.h>
#include <base/fd.h>
#include <base/str.h>
#include <fcntl.h>
#include <poll.h>
#include <policy/binding.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define CMD_MS   15000
#define CONF_MAX 65536
#define ARGS_MAX 32

void cay__value_wipe(cay__value *v)
{
    if (v->data)
        explicit_bzero(v->data, v->len);
    free(v->data);
    *v = (cay__value){ 0 };
}

static int bad(const char *name, const char *why, const char *what, cay_err *err)
{
    return cay_fail_why(err, CAY_ENOENT, "secret_unreadable", "secret %.63s: %s%.100s", name, why, what);
}

static int from_fd(const char *name, int fd, const char *what, cay__value *out, cay_err *err)
{
    char *data = cay__alloc(CAY__SECRET_MAX + 2);
    ssize_t n = cay__fd_read_all(fd, data, CAY__SECRET_MAX + 1);
    cay__value v = { data, n > 0 ? (size_t)n : 0 };
    if (n < 0 || n > (ssize_t)CAY__SECRET_MAX) {
        cay__value_wipe(&v);
        return bad(name, n < 0 ? "cannot read " : "more than 64 KiB in ", what, err);
    }
    /* One line's end belongs to the file, not to the value. */
    if (v.len && data[v.len - 1] == '\n')
        v.len--;
    if (v.len && data[v.len - 1] == '\r')
        v.len--;
    *out = v;
    return 0;
}

static int read_env(cay_service *svc, const char *name, const char *arg, cay__value *out, cay_err *err)
{
    (void)svc;
    const char *s = getenv(arg);
    if (!s)
        return bad(name, "this environment variable is not set: ", arg, err);
    *out = (cay__value){ cay__strdup(s), strlen(s) };
    return 0;
}

static int read_file(cay_service *svc, const char *name, const char *arg, cay__value *out, cay_err *err)
{
    struct stat st;
    (void)svc;
    CAY_AUTOFD fd = open(arg, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return bad(name, "no readable file ", arg, err);
    return from_fd(name, fd, arg, out, err);
}

/* The words of `cmd NAME PROGRAM [ARG…]`, parted by blanks; no shell ever sees them. */
static int find_cmd(cay_service *svc, const char *name, const char *cmd, char *conf, char **argv, cay_err *err)
{
    if (cay__fd_read_file(svc->home_fd, CAY__SECRETS_CONF, conf, CONF_MAX) < 0)
        return bad(name, "no " CAY__SECRETS_CONF " in the state directory names command ", cmd, err);
    char *line_end = NULL;
    for (char *line = strtok_r(conf, "\n", &line_end); line; line = strtok_r(NULL, "\n", &line_end)) {
        char *word_end = NULL;
        size_t n = 0;
        char *word = strtok_r(line, " \t", &word_end);
        if (!word || strcmp(word, "cmd") != 0 || !(word = strtok_r(NULL, " \t", &word_end)) || strcmp(word, cmd) != 0)
            continue;
        while (n < ARGS_MAX && (argv[n] = strtok_r(NULL, " \t", &word_end)))
            n++;
        if (!n || n == ARGS_MAX || argv[0][0] != '/')
            return bad(name, CAY__SECRETS_CONF ": write cmd NAME /PROGRAM [ARG…], at most 31 words, for ", cmd, err);
        return 0;
    }
    return bad(name, CAY__SECRETS_CONF " has no line for command ", cmd, err);
}

/* Waits for its end with a bound; what is still alive then is killed. */
static int wait_for(pid_t pid, int ms)
{
    int status = -1;
    int64_t end = cay__now_ms() + ms;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (cay__now_ms() >= end) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return -1;
        }
        poll(NULL, 0, 5);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int read_cmd(cay_service *svc, const char *name, const char *arg, cay__value *out, cay_err *err)
{
    CAY_AUTOFREE char *conf = cay__alloc(CONF_MAX + 1);
    char *argv[ARGS_MAX + 1] = { 0 }, *env[] = { "PATH=/usr/local/bin:/usr/bin:/bin", NULL };
    CAY_TRY(find_cmd(svc, name, arg, conf, argv, err));
    CAY_AUTOFD to = cay__memfd("cay-secret"), none = open("/dev/null", O_RDWR | O_CLOEXEC);
    posix_spawn_file_actions_t acts;
    pid_t pid;
    if (to < 0 || none < 0)
        return cay_fail_sys(err, CAY_ESYS, "secret %s", name);
    posix_spawn_file_actions_init(&acts);
    posix_spawn_file_actions_adddup2(&acts, none, 0);
    posix_spawn_file_actions_adddup2(&acts, to, 1);
    posix_spawn_file_actions_adddup2(&acts, none, 2);
    errno = posix_spawn(&pid, argv[0], &acts, NULL, argv, env);
    posix_spawn_file_actions_destroy(&acts);
    if (errno)
        return bad(name, "cannot start ", argv[0], err);
    if (wait_for(pid, CMD_MS) != 0)
        return bad(name, "failed, or took longer than 15 s: ", argv[0], err);
    lseek(to, 0, SEEK_SET);
    return from_fd(name, to, argv[0], out, err);
}

static int read_store(cay_service *svc, const char *name, const char *arg, cay__value *out, cay_err *err)
{
    int rc = cay__secret_open(svc, arg, out, err);
    return rc < 0 ? cay_wrap(err, rc, "secret %s", name) : 0;
}

/* A text of the store in which each ${store:NAME} stands for that secret. What it gives is not looked into again. */
static int read_fill(cay_service *svc, const char *name, const char *arg, cay__value *out, cay_err *err)
{
    static const char open[] = "${store:";
    cay__value form = { 0 };
    CAY_TRY(read_store(svc, name, arg, &form, err));
    cay__buf b = CAY__BUF(CAY__SECRET_MAX);
    int rc = 0;
    for (const char *s = form.data, *end = s + form.len; s < end && rc == 0;) {
        const char *at = memmem(s, (size_t)(end - s), open, sizeof open - 1), *close = at ? memchr(at, '}', (size_t)(end - at)) : NULL;
        char other[64];
        cay__value v = { 0 };
        cay__buf_add(&b, s, (size_t)((close ? at : end) - s));
        if (!close)
            break;
        const char *from = at + sizeof open - 1;
        snprintf(other, sizeof other, "%.*s", (int)CAY_MIN(close - from, 63), from);
        rc = read_store(svc, name, other, &v, err);
        if (rc == 0)
            cay__buf_add(&b, v.data, v.len);
        cay__value_wipe(&v);
        s = close + 1;
    }
    cay__value_wipe(&form);
    if (rc == 0 && b.full)
        rc = bad(name, "more than 64 KiB in ", arg, err);
    if (rc == 0)
        *out = (cay__value){ b.data ? b.data : cay__strdup(""), b.len };
    else if (b.data) {
        explicit_bzero(b.data, b.cap);
        cay__buf_clear(&b);
    }
    return rc;
}

static const struct {
    const char *prefix;
    int (*read)(cay_service *svc, const char *name, const char *arg, cay__value *out, cay_err *err);
} sources[] = {
    { "env:", read_env },
    { "file:", read_file },
    { "cmd:", read_cmd },
    { "store:", read_store },
    { "fill:", read_fill },
};

static size_t find(const char *source)
{
    size_t i = 0;
    while (i < CAY_LEN(sources) && !cay__str_starts(source, sources[i].prefix))
        i++;
    return i;
}

int cay__secret_source_check(const char *name, const char *source, cay_err *err)
{
    size_t i = source ? find(source) : CAY_LEN(sources);
    const char *arg = i < CAY_LEN(sources) ? source + strlen(sources[i].prefix) : "";
    if (!*arg)
        return cay_fail_why(err, CAY_EINVAL, "secret_invalid", "secret %.63s: its source is env:VARIABLE, file:PATH, cmd:NAME, store:NAME or fill:NAME", name);
    if (!strncmp(source, "file:", 5) && *arg != '/')
        return cay_fail_why(err, CAY_EINVAL, "secret_invalid", "secret %.63s: give the whole path of its file", name);
    return 0;
}

int cay__secret_read(cay_service *svc, const char *name, const char *source, cay__value *out, cay_err *err)
{
    CAY_TRY(cay__secret_source_check(name, source, err));
    size_t i = find(source);
    CAY_TRY(sources[i].read(svc, name, source + strlen(sources[i].prefix), out, err));
    bool sound = out->len > 0;
    for (size_t k = 0; k < out->len; k++)
        sound &= (unsigned char)out->data[k] >= 0x20 && out->data[k] != 0x7f;
    if (!sound) {
        cay__value_wipe(out);
        return cay_fail_why(err, CAY_EINVAL, "secret_invalid", "secret %.63s: its value is empty or has a control character; it has to be one line", name);
    }
    return 0;
}
