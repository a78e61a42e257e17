/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets that commands of the operator print: several at once, and the first that fails ends the
 * others. */
#include "secret.h"
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { CMD_MS = 15000, CONF_MAX = 65536, ARGS_MAX = 32, AT_ONCE = 16 };

typedef struct cmd {
    cay__want *want;
    char *conf; /* the file that its words are in */
    char *argv[ARGS_MAX + 1];
    pid_t pid;
    int death, to; /* pidfd; a memory file for what it prints */
    int64_t until_ms;
} cmd;

/* The words of `cmd NAME PROGRAM [ARG…]`, parted by blanks; no shell ever sees them. */
static int find_cmd(cay_client *client, const char *name, const char *wanted, char *conf,
                    char **argv, cay_err *err)
{
    if (cay__fd_read_file(client->home_fd, CAY__SECRETS_CONF, conf, CONF_MAX) < 0)
        return cay__secret_bad(
            name, "no " CAY__SECRETS_CONF " in the state directory names command ", wanted, err);
    char *line_end = NULL;
    for (char *line = strtok_r(conf, "\n", &line_end); line;
         line = strtok_r(NULL, "\n", &line_end)) {
        char *word_end = NULL;
        size_t n = 0;
        char *word = strtok_r(line, " \t", &word_end);
        if (!word || strcmp(word, "cmd") != 0 || !(word = strtok_r(NULL, " \t", &word_end)) ||
            strcmp(word, wanted) != 0)
            continue;
        while (n < ARGS_MAX && (argv[n] = strtok_r(NULL, " \t", &word_end)))
            n++;
        if (!n || n == ARGS_MAX || argv[0][0] != '/')
            return cay__secret_bad(
                name, CAY__SECRETS_CONF ": write cmd NAME /PROGRAM [ARG…], at most 31 words, for ",
                wanted, err);
        return 0;
    }
    return cay__secret_bad(name, CAY__SECRETS_CONF " has no line for command ", wanted, err);
}

static int spawn_cmd(cmd *c, cay_err *err)
{
    static char *env[] = { "PATH=/usr/local/bin:/usr/bin:/bin", NULL };
    CAY_AUTOFD none = open("/dev/null", O_RDWR | O_CLOEXEC);
    posix_spawn_file_actions_t acts;
    c->to = cay__memfd("cay-secret");
    if (c->to < 0 || none < 0)
        return cay_fail_sys(err, "secret %s", c->want->name);
    posix_spawn_file_actions_init(&acts);
    posix_spawn_file_actions_adddup2(&acts, none, 0);
    posix_spawn_file_actions_adddup2(&acts, c->to, 1);
    posix_spawn_file_actions_adddup2(&acts, none, 2);
    pid_t pid;
    errno = posix_spawn(&pid, c->argv[0], &acts, NULL, c->argv, env);
    posix_spawn_file_actions_destroy(&acts);
    if (errno)
        return cay__secret_bad(c->want->name, "cannot start ", c->argv[0], err);
    c->pid = pid;
    c->until_ms = cay__now_ms() + CMD_MS;
    c->death = (int)syscall(SYS_pidfd_open, pid, 0);
    if (c->death < 0)
        return cay_fail_sys(err, "secret %s", c->want->name);
    return 0;
}

/* What is still alive is killed. */
static int end_cmd(cmd *c)
{
    int status = -1;
    if (c->pid > 0 && waitpid(c->pid, &status, WNOHANG) == 0) {
        kill(c->pid, SIGKILL);
        waitpid(c->pid, NULL, 0);
        status = -1;
    }
    cay__close_fd(&c->death);
    free(c->conf);
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    return -1;
}

static int collect_value(cmd *c, cay_err *err)
{
    const char *name = c->want->name;
    CAY_AUTOFREE char *program = cay__strdup(c->argv[0]);
    CAY_AUTOFD to = c->to;
    if (end_cmd(c) != 0)
        return cay__secret_bad(name, "failed, or took longer than 15 s: ", program, err);
    lseek(to, 0, SEEK_SET);
    CAY_TRY(cay__secret_from_fd(name, to, program, &c->want->value, err));
    return cay__secret_sound(name, &c->want->value, err);
}

static int start_cmd(cay_client *client, cay__want *w, cmd *c, cay_err *err)
{
    *c = (cmd){ .want = w, .conf = cay__alloc(CONF_MAX + 1), .death = -1, .to = -1 };
    int rc = find_cmd(client, w->name, w->source + strlen(CAY__SECRET_CMD), c->conf, c->argv, err);
    if (rc == 0)
        rc = spawn_cmd(c, err);
    if (rc < 0) {
        end_cmd(c);
        cay__close_fd(&c->to);
    }
    return rc;
}

/* Which one has ended, or has had its time. */
static size_t next_over(const cmd *c, size_t n)
{
    for (;;) {
        struct pollfd p[AT_ONCE];
        int64_t now = cay__now_ms(), until = INT64_MAX;
        for (size_t i = 0; i < n; i++) {
            p[i] = (struct pollfd){ .fd = c[i].death, .events = POLLIN };
            until = CAY_MIN(until, c[i].until_ms);
        }
        poll(p, n, (int)CAY_MAX(until - now, (int64_t)0));
        for (size_t i = 0; i < n; i++)
            if (p[i].revents || c[i].until_ms <= now)
                return i;
    }
}

int cay__secret_cmds(cay_client *client, cay__want *w, size_t n, cay_err *err)
{
    cmd c[AT_ONCE];
    size_t next = 0, live = 0;
    int rc = 0;
    while (rc == 0) {
        for (; rc == 0 && next < n && live < AT_ONCE; next++)
            if (w[next].source && cay__str_starts(w[next].source, CAY__SECRET_CMD)) {
                rc = start_cmd(client, &w[next], &c[live], err);
                live += rc == 0;
            }
        if (rc < 0 || !live)
            break;
        size_t i = next_over(c, live);
        cmd over = c[i];
        c[i] = c[--live];
        rc = collect_value(&over, err);
    }
    while (live) {
        end_cmd(&c[--live]);
        cay__close_fd(&c[live].to);
    }
    return rc;
}
