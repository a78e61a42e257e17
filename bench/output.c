/* SPDX-License-Identifier: Apache-2.0 */
/* output SPEW [BYTES]: what a command prints, read through libcay, beside the same program on a
 * bare pipe. */
#include "box.h"
#include <spawn.h>

enum { TURNS = 3 };

static void drain(int fd, uint64_t want)
{
    static char buf[1 << 18];
    uint64_t got = 0;
    for (ssize_t n; (n = read(fd, buf, sizeof buf)) > 0;)
        got += (uint64_t)n;
    if (got != want)
        give_up("%llu bytes came instead of %llu", (unsigned long long)got,
                (unsigned long long)want);
}

static double bare(const char *program, const char *bytes, uint64_t want)
{
    int p[2], status;
    posix_spawn_file_actions_t fa;
    pid_t pid;
    char *const argv[] = { (char *)program, (char *)bytes, NULL }, *const env[] = { NULL };
    if (pipe2(p, O_CLOEXEC) < 0)
        give_up("pipe: %s", strerror(errno));
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_adddup2(&fa, p[1], 1);
    double t = now_us();
    if (posix_spawn(&pid, program, &fa, NULL, argv, env))
        give_up("start %s", program);
    close(p[1]);
    drain(p[0], want);
    t = now_us() - t;
    waitpid(pid, &status, 0);
    close(p[0]);
    posix_spawn_file_actions_destroy(&fa);
    return t;
}

static double inside(cay_sandbox *sb, const char *bytes, uint64_t want)
{
    const char *const argv[] = { "/workspace/spew", bytes, NULL };
    cay_spawn s = { .size = sizeof s, .argv = argv, .attach = true, .on_full = CAY_FULL_BLOCK };
    cay_err err = CAY_ERR_INIT;
    cay_exit ex = { .size = sizeof ex };
    cay_proc *p;
    int fd;
    double t = now_us();
    need(cay_sandbox_spawn(sb, NULL, &s, &p, &err), &err, "spawn");
    need(cay_proc_output(p, NULL, CAY_STDOUT, CAY_FROM_START, &fd, &err), &err, "output");
    drain(fd, want);
    t = now_us() - t;
    need(cay_proc_wait(p, NULL, &ex, &err), &err, "wait");
    if (ex.code || ex.lost_out)
        give_up("spew ended with %d, %llu bytes lost", ex.code, (unsigned long long)ex.lost_out);
    close(fd);
    cay_proc_unref(p);
    return t;
}

int main(int argc, char **argv)
{
    const char *bytes = argc > 2 ? argv[2] : "1000000000";
    uint64_t want = strtoull(bytes, NULL, 10);
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb;
    series a = { 0 }, b = { 0 };
    char *data = malloc(4 << 20);
    if (argc < 2 || !data)
        give_up("usage: output SPEW [BYTES]");
    int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? -1 : read(fd, data, 4 << 20);
    if (len <= 0)
        give_up("read %s: %s", argv[1], strerror(errno));
    cay_client *client = service();
    need(make_box(client, NULL, &sb, &err), &err, "create");
    cay_write w = { .size = sizeof w, .mode = 0755 };
    need(cay_file_put(sb, NULL, "/workspace/spew", data, (size_t)len, &w, &err), &err, "put spew");
    for (int i = 0; i < TURNS; i++) {
        add(&a, bare(argv[1], bytes, want));
        add(&b, inside(sb, bytes, want));
    }
    double floor = (double)want / percentile(&a, 50), value = (double)want / percentile(&b, 50);
    figure((fig){ "output", "MB/s", value, floor, value / floor, ">=0.5", TURNS });
    cay_sandbox_remove(sb, NULL, &err);
    cay_sandbox_unref(sb);
    cay_client_close(client);
    return 0;
}
