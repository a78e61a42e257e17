/* SPDX-License-Identifier: Apache-2.0 */
#include "attack.h"
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

world W;

static void line(const char *word, const char *fmt, va_list ap)
{
    char text[1200];
    int n = snprintf(text, sizeof text, "#   %s: ", word);
    n += vsnprintf(text + n, sizeof text - (size_t)n, fmt, ap);
    printf("%.*s\n", n, text);
    fflush(stdout);
}

void breach(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    line("BREACH", fmt, ap);
    va_end(ap);
    __atomic_add_fetch(&W.failed, 1, __ATOMIC_RELAXED);
}

void note(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    line("note", fmt, ap);
    va_end(ap);
}

void skip(const char *why)
{
    note("%s", why);
    W.skipped = true;
}

void give_up(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    line("gave up", fmt, ap);
    va_end(ap);
    W.failed++;
    if (!W.out)
        exit(1);
    siglongjmp(*W.out, 1);
}

unsigned many(unsigned full)
{
    return getenv("CAY_ATTACK_FULL") ? full : (full + 9) / 10;
}

int64_t soon(int64_t ms)
{
    return getenv("CAY_ATTACK_FULL") ? ms : ms * 10;
}

int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

bool set_clock(int64_t ahead_ms)
{
    char keeper[400];
    int status = -1, pid = fork();
    if (pid == 0) {
        snprintf(keeper, sizeof keeper, "%s/cay-keeper", W.bin);
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        dup2(null, 1);
        dup2(null, 2);
        execl(keeper, keeper, "--faults", (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    __atomic_store_n(&W.clock[1], ahead_ms, __ATOMIC_SEQ_CST);
    return status == 0;
}

void nap(unsigned ms)
{
    nanosleep(&(struct timespec){ ms / 1000, (long)(ms % 1000) * 1000000 }, NULL);
}

const cay_call *within(unsigned ms)
{
    static __thread cay_call c;
    c = (cay_call){ .size = sizeof c, .deadline_ms = now_ms() + ms };
    return &c;
}

cay_client *service_open(void)
{
    cay_err err = CAY_ERR_INIT;
    cay_open spec = { .size = sizeof spec, .home = W.home, .libexec = W.bin };
    cay_client *client = NULL;
    if (cay_client_open(&spec, &client, &err) < 0)
        give_up("open the service: %s", err.msg);
    return client;
}

static const char *probe_bytes(size_t *len)
{
    static char *bytes;
    static size_t size;
    if (!bytes) {
        char path[400];
        struct stat st;
        snprintf(path, sizeof path, "%s/probe", W.bin);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
            give_up("%s: %s", path, strerror(errno));
        bytes = malloc((size_t)st.st_size);
        if (!bytes || read(fd, bytes, (size_t)st.st_size) != st.st_size)
            give_up("%s cannot be read", path);
        size = (size_t)st.st_size;
        close(fd);
    }
    *len = size;
    return bytes;
}

cay_sandbox *box_new(const cay_create *spec)
{
    cay_err err = CAY_ERR_INIT;
    cay_create plain = { .size = sizeof plain };
    cay_sandbox *sb = NULL;
    size_t len;
    const char *bytes = probe_bytes(&len);
    cay_write w = { .size = sizeof w, .mode = 0755 };
    if (cay_client_create(W.client, within(20000), spec ? spec : &plain, &sb, &err) < 0)
        give_up("create: %s", err.msg);
    if (cay_file_put(sb, within(10000), "/tmp/probe", bytes, len, &w, &err) < 0)
        give_up("put the probe: %s", err.msg);
    return sb;
}

void box_remove(cay_sandbox *sb)
{
    cay_err err = CAY_ERR_INIT;
    int rc = cay_sandbox_remove(sb, within(10000), &err);
    if (rc < 0 && rc != CAY_ENOENT && rc != CAY_EGONE)
        breach("remove: %s", err.msg);
    cay_sandbox_unref(sb);
}

int box_init_pid(cay_sandbox *sb)
{
    cay_err err = CAY_ERR_INIT;
    cay_info *info = NULL;
    if (cay_sandbox_describe(sb, within(5000), &info, &err) < 0)
        give_up("describe: %s", err.msg);
    int pid = info->pid;
    cay_info_free(info);
    return pid;
}

const char *box_layer(cay_sandbox *sb, const char *name)
{
    static char state[16];
    cay_err err = CAY_ERR_INIT;
    cay_info *info = NULL;
    state[0] = 0;
    if (cay_sandbox_describe(sb, within(5000), &info, &err) < 0)
        give_up("describe: %s", err.msg);
    for (size_t i = 0; i < info->nwalls; i++)
        if (!strcmp(info->walls[i].name, name))
            snprintf(state, sizeof state, "%s", info->walls[i].state);
    cay_info_free(info);
    return state;
}

cay_state box_state(cay_sandbox *sb, char *reason, size_t cap)
{
    cay_err err = CAY_ERR_INIT;
    cay_info *info = NULL;
    if (cap)
        reason[0] = 0;
    int rc = cay_sandbox_describe(sb, within(5000), &info, &err);
    if (rc == CAY_ENOENT || rc == CAY_EGONE)
        return CAY_GONE;
    if (rc < 0)
        give_up("describe: %s", err.msg);
    cay_state s = info->state;
    if (cap)
        snprintf(reason, cap, "%s", info->reason);
    cay_info_free(info);
    return s;
}

void judge_output(const char *text, const char *name)
{
    bool done = false;
    unsigned fine = 0;
    char copy[1 << 16], *save;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *s = copy, *l; (l = strtok_r(s, "\r\n", &save)); s = NULL) {
        if (!strncmp(l, "breach ", 7))
            breach("%s", l + 7);
        fine += !strncmp(l, "ok ", 3);
        done |= !strncmp(l, "done ", 5);
    }
    if (!done)
        breach("the probe %s did not end: \"%.200s\"", name, text);
    else if (!fine)
        breach("the probe %s found nothing", name);
}

void inside_spec(cay_sandbox *sb, cay_spawn *spec)
{
    cay_err err = CAY_ERR_INIT;
    cay_result r = { .size = sizeof r };
    const char *name = spec->argv ? spec->argv[1] : spec->shell;
    spec->size = sizeof *spec;
    if (cay_sandbox_run(sb, within(60000), spec, NULL, 0, 0, &r, &err) < 0)
        give_up("run the probe %s: %s", name, err.msg);
    if (r.errout_len)
        note("%s says: %.200s", name, r.errout);
    judge_output(r.out, name);
    cay_result_clear(&r);
}

static void collect(const char **argv, size_t cap, const char *name, va_list ap)
{
    size_t n = 0;
    argv[n++] = "/tmp/probe";
    argv[n++] = name;
    for (const char *a; n + 1 < cap && (a = va_arg(ap, const char *));)
        argv[n++] = a;
    argv[n] = NULL;
}

void inside(cay_sandbox *sb, const char *user, const char *name, ...)
{
    const char *argv[32];
    va_list ap;
    va_start(ap, name);
    collect(argv, 32, name, ap);
    va_end(ap);
    inside_spec(sb, &(cay_spawn){ .argv = argv, .user = user, .cwd = "/workspace" });
}

cay_proc *inside_start(cay_sandbox *sb, cay_spawn *base, const char *name, ...)
{
    cay_err err = CAY_ERR_INIT;
    cay_spawn spec = base ? *base : (cay_spawn){ 0 };
    cay_proc *p = NULL;
    const char *argv[32];
    char text[8192];
    int fd = -1;
    size_t n = 0;
    va_list ap;
    va_start(ap, name);
    collect(argv, 32, name, ap);
    va_end(ap);
    spec.size = sizeof spec;
    spec.argv = argv;
    if (!spec.cwd)
        spec.cwd = "/workspace";
    if (cay_sandbox_spawn(sb, within(10000), &spec, &p, &err) < 0 ||
        cay_proc_output(p, within(5000), CAY_STDOUT, CAY_FROM_START, &fd, &err) < 0)
        give_up("start the probe %s: %s", name, err.msg);
    text[0] = 0;
    for (int64_t end = now_ms() + 20000; !strstr(text, "ready") && now_ms() < end;) {
        struct pollfd pf = { fd, POLLIN, 0 };
        poll(&pf, 1, 200);
        ssize_t got = pf.revents ? read(fd, text + n, sizeof text - 1 - n) : -1;
        if (got == 0)
            break;
        if (got > 0)
            text[n += (size_t)got] = 0;
    }
    close(fd);
    if (!strstr(text, "ready"))
        give_up("the probe %s did not begin: \"%.200s\"", name, text);
    for (char *s = text, *save, *l; (l = strtok_r(s, "\r\n", &save)); s = NULL)
        if (!strncmp(l, "breach ", 7))
            breach("%s", l + 7);
    return p;
}

int command(cay_sandbox *sb, const char *user, const char *shell, char *out, size_t cap)
{
    cay_err err = CAY_ERR_INIT;
    cay_result r = { .size = sizeof r };
    cay_spawn spec = { .size = sizeof spec, .shell = shell, .user = user };
    if (cay_sandbox_run(sb, within(60000), &spec, NULL, 0, 0, &r, &err) < 0) {
        note("run \"%s\": %s", shell, err.msg);
        return -1;
    }
    if (out)
        snprintf(out, cap, "%s%s", r.out, r.errout);
    int code = r.exit.code;
    cay_result_clear(&r);
    return code;
}

bool as_host(const char *fmt, ...)
{
    char text[600], answer = 'n';
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (W.host < 0 || send(W.host, text, strlen(text) + 1, MSG_NOSIGNAL) < 0 ||
        recv(W.host, &answer, 1, 0) != 1)
        return false;
    if (answer != 'y')
        note("the host refused: %s", text);
    return answer == 'y';
}

static bool read_proc(int pid, const char *file, char *buf, size_t cap)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, buf, cap - 1);
    if (fd >= 0)
        close(fd);
    buf[n < 0 ? 0 : n] = 0;
    return n > 0;
}

/* By its arguments: name of the program, then our state directory. */
int keeper_pid(void)
{
    DIR *d = opendir("/proc");
    int found = 0;
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        char args[1024];
        int pid = atoi(e->d_name);
        if (pid <= 0 || !read_proc(pid, "cmdline", args, sizeof args) ||
            !strstr(args, "/cay-keeper"))
            continue;
        if (!strcmp(args + strlen(args) + 1, W.home))
            found = pid;
    }
    if (d)
        closedir(d);
    return found;
}

void keeper_kill(int sig)
{
    int pid = keeper_pid();
    if (!pid)
        return;
    kill(pid, sig);
    for (int i = 0; i < 500; i++) {
        waitpid(pid, NULL, WNOHANG); /* ours, when this process started it */
        if (keeper_pid() != pid)
            return;
        nap(10);
    }
    give_up("the keeper %d does not end by signal %d", pid, sig);
}

int host_count(const char *comm)
{
    DIR *d = opendir("/proc");
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        char name[64];
        if (isdigit((unsigned char)e->d_name[0]) &&
            read_proc(atoi(e->d_name), "comm", name, sizeof name)) {
            name[strcspn(name, "\n")] = 0;
            n += !strcmp(name, comm);
        }
    }
    if (d)
        closedir(d);
    return n;
}

long host_rss(int pid)
{
    char text[256];
    long size, rss;
    if (!read_proc(pid, "statm", text, sizeof text) || sscanf(text, "%ld %ld", &size, &rss) != 2)
        return -1;
    return rss * sysconf(_SC_PAGESIZE);
}

bool host_put(const char *path, const char *text)
{
    FILE *f = fopen(path, "we");
    return f && fputs(text, f) >= 0 && fclose(f) == 0;
}

bool host_get(const char *path, char *buf, size_t cap)
{
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(buf, 1, cap - 1, f) : 0;
    buf[n] = 0;
    if (f)
        fclose(f);
    return n > 0;
}

int host_shell(const char *cmd)
{
    int status = -1;
    int pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", cmd, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
