/* SPDX-License-Identifier: Apache-2.0 */
/* S-37 to S-44: resources. Where the host gives no limit, a request that demands it must be refused
 * by name. */
#include "attack.h"
#include <signal.h>

#define MIB (1ull << 20)

/* A limit that is not "on" may not be promised. */
static bool holds(cay_sandbox *sb, const char *feature)
{
    const char *state = box_layer(sb, feature);
    if (!strcmp(state, "on"))
        return true;
    CHECK(!strcmp(state, "soft") || !strcmp(state, "off"), "%s is \"%s\"", feature, state);
    note("%s is %s here", feature, state);
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *never = NULL;
    cay_create spec = { .size = sizeof spec,
                        .isolation.require = (const char *const[]){ feature, NULL } };
    int rc = cay_client_create(W.client, within(20000), &spec, &never, &err);
    /* Refused by name, or made such that it holds. */
    CHECK((rc == CAY_EISOLATION && strstr(err.msg, feature)) ||
              (rc == 0 && !strcmp(box_layer(never, feature), "on")),
          "a create that requires %s gives %d: %s", feature, rc, err.msg);
    if (rc == 0)
        box_remove(never);
    return false;
}

/* A neighbour runs commands meanwhile; the slowest in ms. */
static int64_t slowest(cay_sandbox *sb, int n)
{
    int64_t worst = 0;
    for (int i = 0; i < n; i++) {
        int64_t t = now_ms();
        CHECK(command(sb, NULL, "true", NULL, 0) == 0, "the neighbour cannot run a command");
        t = now_ms() - t;
        worst = t > worst ? t : worst;
    }
    return worst;
}

static int64_t timed_remove(cay_sandbox *sb)
{
    int64_t t = now_ms();
    box_remove(sb);
    return now_ms() - t;
}

static void s37_forks(void)
{
    cay_create spec = { .size = sizeof spec, .limits = { .pids = 256 } };
    cay_sandbox *sb = box_new(&spec), *other = box_new(NULL);
    if (holds(sb, "pids-limit")) {
        cay_proc *p = inside_start(sb, NULL, "forks", "256", NULL);
        int64_t worst = slowest(other, (int)many(200));
        CHECK(worst < soon(1000), "the neighbour's slowest command took %lld ms", (long long)worst);
        cay_err err = CAY_ERR_INIT;
        cay_usage u = { .size = sizeof u };
        CHECK(cay_sandbox_usage(sb, within(5000), &u, &err) == 0 && u.pids <= 264, "%llu processes",
              (unsigned long long)u.pids);
        cay_proc_unref(p);
        CHECK(timed_remove(sb) <= soon(2000), "the removal takes more than 2 s");
        sb = box_new(&spec);
        p = inside_start(sb, NULL, "wild", NULL);
        nap(500);
        worst = slowest(other, 10);
        note("slowest command of the neighbour beside a wild bomb: %lld ms", (long long)worst);
        CHECK(worst < soon(3000), "the neighbour's slowest command took %lld ms", (long long)worst);
        cay_proc_unref(p);
        CHECK(timed_remove(sb) <= soon(2000), "the removal takes more than 2 s");
    } else {
        box_remove(sb);
    }
    box_remove(other);
}

static void s38_memory(void)
{
    cay_err err = CAY_ERR_INIT;
    cay_result r = { .size = sizeof r };
    cay_create spec = { .size = sizeof spec, .limits = { .memory = 96 * MIB } };
    cay_sandbox *sb = box_new(&spec), *other = box_new(NULL);
    bool hard = holds(sb, "memory-limit");
    cay_spawn s = { .size = sizeof s,
                    .argv = (const char *[]){ "/tmp/probe", "memory", "400", NULL } };
    if (cay_sandbox_run(sb, within(60000), &s, NULL, 0, 0, &r, &err) < 0)
        give_up("memory: %s", err.msg);
    /* with a group the kernel kills; without, the data limit of the process refuses */
    if (hard)
        CHECK(r.exit.signal == SIGKILL && !strcmp(r.exit.reason, "oom"),
              "code %d signal %d reason %s: %s", r.exit.code, r.exit.signal, r.exit.reason, r.out);
    else
        judge_output(r.out, "memory");
    cay_result_clear(&r);
    CHECK(command(sb, NULL, "true", NULL, 0) == 0,
          "the sandbox is dead after one process ran out of memory");
    if (hard) {
        /* tmpfs counts too; who writes there may take the whole sandbox down, but nothing else */
        s.argv = (const char *[]){ "/tmp/probe", "fill", "/dev/shm/big", "400", NULL };
        int rc = cay_sandbox_run(sb, within(60000), &s, NULL, 0, 0, &r, &err);
        if (rc == 0) {
            CHECK(!strstr(r.out, "breach"), "400 MiB of shared memory with a limit of 96");
            CHECK(strstr(r.out, "ok fill") || !strcmp(r.exit.reason, "oom") ||
                      !strcmp(r.exit.reason, "lost"),
                  "reason %s", r.exit.reason);
            cay_result_clear(&r);
        }
    }
    CHECK(slowest(other, 5) < soon(2000), "the neighbour was held up");
    box_remove(other);
    box_remove(sb);
}

static void hog(uint64_t milli, unsigned ms)
{
    cay_create spec = { .size = sizeof spec, .limits = { .cpu_milli = milli } };
    cay_sandbox *sb = box_new(&spec);
    if (holds(sb, "cpu-limit")) {
        char out[4096] = "", line[64], *at;
        snprintf(line, sizeof line, "/tmp/probe spin 64 %u", ms);
        int64_t t = now_ms();
        command(sb, NULL, line, out, sizeof out);
        t = now_ms() - t;
        at = strstr(out, "cpu-ms ");
        long used = at ? atol(at + 7) : -1;
        note("%ld ms of CPU in %lld ms with a limit of %llu/1000", used, (long long)t,
             (unsigned long long)milli);
        if (used > 0 && used * 1000 < t * (int64_t)milli * 7 / 10)
            skip("others leave so little of the CPU that no limit could be felt");
        /* five in a hundred, and in a short run what the first period gave */
        CHECK(used > 0 && used * 100000 <= t * (int64_t)milli * 105 + (ms < 10000 ? 10000000 : 0),
              "%ld ms of CPU in %lld ms", used, (long long)t);
    }
    box_remove(sb);
}

static void s39_cpu(void)
{
    hog(500, 3000);
    hog(1000, many(10000) > 3000 ? 10000 : 3000);
}

/* Either the kernel says no at the limit, or the sandbox is ended soon after, with the reason. */
static void overfill(const char *what, cay_create *spec, bool hard, const char *line)
{
    char reason[64], out[8192] = "";
    cay_sandbox *sb = box_new(spec);
    cay_result r = { .size = sizeof r };
    cay_spawn command = { .size = sizeof command, .shell = line };
    int rc = cay_sandbox_run(sb, within(60000), &command, NULL, 0, 0, &r, NULL);
    if (rc == 0) {
        snprintf(out, sizeof out, "%s%s", r.out, r.errout);
        rc = r.exit.code;
        CHECK(hard || rc != 128 + SIGKILL || !strcmp(r.exit.reason, "disk"),
              "%s: the command's reason is \"%s\"", what, r.exit.reason);
        cay_result_clear(&r);
    }
    if (hard) {
        CHECK(rc == 0 && strstr(out, "refused at"), "%s: no refusal at the limit: %.200s", what,
              out);
    } else {
        cay_state s = CAY_RUNNING;
        for (int64_t t = now_ms(); now_ms() - t < 60000 && s == CAY_RUNNING; nap(100))
            s = box_state(sb, reason, sizeof reason);
        CHECK(s != CAY_RUNNING, "%s: nobody minded", what);
        CHECK(!strcmp(reason, "disk"), "%s: the reason is \"%s\"", what, reason);
    }
    box_remove(sb);
}

static const char *const quota[] = { "disk-quota", NULL };

/* Who requires a limit that is soft for others may get one that holds. */
static bool can_require(cay_create *spec)
{
    cay_sandbox *sb = NULL;
    spec->isolation.require = quota;
    if (cay_client_create(W.client, within(20000), spec, &sb, NULL) < 0)
        return false;
    box_remove(sb);
    return true;
}

static void s40_disk(void)
{
    cay_create spec = { .size = sizeof spec, .limits = { .disk = 32 * MIB } };
    cay_sandbox *sb = box_new(&spec);
    bool hard = holds(sb, "disk-quota");
    box_remove(sb);
    overfill("workspace", &spec, hard,
             "for i in 1 2 3 4; do /tmp/probe fill /workspace/f$i 16; done; sleep 10");
    overfill("home", &spec, hard, "for i in 1 2 3 4; do /tmp/probe fill ~/f$i 16; done; sleep 10");
    overfill("tmp", &spec, hard,
             "for i in 1 2 3 4; do /tmp/probe fill /tmp/f$i 16; done; sleep 10");
    overfill("deep", &spec, hard,
             "d=/workspace; for i in $(seq 150); do d=$d/d; done; mkdir -p $d; "
             "for i in 1 2 3 4; do /tmp/probe fill $d/f$i 16; done; sleep 10");
    /* one file is stopped at once in every case */
    sb = box_new(&spec);
    char out[4096] = "";
    command(sb, NULL, "/tmp/probe fill /workspace/one 64", out, sizeof out);
    CHECK(strstr(out, "refused at 32") || strstr(out, "refused at 31"),
          "a file may grow past the disk: %.200s", out);
    box_remove(sb);
    if (!hard && can_require(&spec)) {
        overfill("workspace, required", &spec, true,
                 "for i in 1 2 3 4; do /tmp/probe fill /workspace/f$i 16; done");
        overfill("elsewhere, required", &spec, true,
                 "for d in ~ /tmp /var/tmp; do /tmp/probe fill $d/f 16; done");
    }
    box_remove(box_new(NULL)); /* the store still commits */
}

static void s41_inodes(void)
{
    cay_create spec = { .size = sizeof spec, .limits = { .inodes = 2000 } };
    cay_sandbox *sb = box_new(&spec);
    bool hard = holds(sb, "disk-quota");
    box_remove(sb);
    overfill("inodes", &spec, hard, "/tmp/probe inodes 20000");
    if (!hard && can_require(&spec))
        overfill("inodes, required", &spec, true, "/tmp/probe inodes 20000");
}

static void s42_descriptors(void)
{
    cay_create spec = { .size = sizeof spec, .limits = { .nofile = 512 } };
    cay_sandbox *sb = box_new(NULL), *small = box_new(&spec);
    inside(sb, NULL, "fd-bomb", "4096", NULL);
    inside(small, NULL, "fd-bomb", "512", NULL);
    if (W.mode & MANY_IDS)
        inside(small, "root", "fd-bomb", "512", NULL);
    CHECK(command(sb, NULL, "true", NULL, 0) == 0, "no command after the bomb");
    box_remove(small);
    /* init keeps what commands printed under no such limit */
    spec.limits.nofile = 64;
    small = box_new(&spec);
    for (int i = 0; i < 40; i++)
        if (command(small, NULL, "echo a; echo b >&2", NULL, 0) != 0)
            give_up("command %d of a sandbox with 64 descriptors", i);
    box_remove(small);
    box_remove(sb);
}

static void s43_flood(void)
{
    char ms[16];
    snprintf(ms, sizeof ms, "%u", many(60000));
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb = box_new(NULL);
    int keeper = keeper_pid();
    long before = host_rss(keeper), most = before;
    cay_proc *p[3] = { NULL, NULL, NULL };
    int fd[3] = { -1, -1, -1 };
    /* attached with a reader that never reads; in the background; on a terminal */
    for (int i = 0; i < 3; i++) {
        cay_spawn s = { .size = sizeof s,
                        .argv = (const char *[]){ "/tmp/probe", "flood", ms, NULL },
                        .attach = i == 0,
                        .tty = i == 2 };
        if (cay_sandbox_spawn(sb, within(5000), &s, &p[i], &err) < 0)
            give_up("spawn: %s", err.msg);
        if (i == 0 &&
            cay_proc_output(p[i], within(5000), CAY_STDOUT, CAY_FROM_START, &fd[i], &err) < 0)
            give_up("output: %s", err.msg);
    }
    for (int i = 0; i < 3; i++) {
        cay_exit end = { .size = sizeof end };
        for (int64_t t = now_ms(); now_ms() - t < 20000 + many(60000);) {
            long rss = host_rss(keeper);
            most = rss > most ? rss : most;
            if (cay_proc_wait(p[i], within(100), &end, &err) == 0)
                break;
        }
        CHECK(!strcmp(end.reason, "exit") && end.code == 0, "flood %d ended by %s %d", i,
              end.reason, end.code);
        CHECK(end.lost_out > 0, "flood %d: no loss is told", i);
        if (fd[i] >= 0)
            close(fd[i]);
        cay_proc_unref(p[i]);
    }
    note("the keeper grew by %ld KiB", (most - before) / 1024);
    CHECK(most - before < (long)(5 * 16 * MIB), "the keeper grew by %ld KiB",
          (most - before) / 1024);
    CHECK(most - before < (long)(16 * MIB), "five streams of 1 MiB each cost %ld KiB",
          (most - before) / 1024);
    box_remove(sb);
}

static int count_probe(const cay_proc_info *info, void *arg)
{
    if (strstr(info->command, "/tmp/probe") && info->state != 'X' && info->state != 'Z')
        ++*(int *)arg;
    return 0;
}

static void must_end(cay_sandbox *sb, const char *name)
{
    cay_err err = CAY_ERR_INIT;
    cay_exit end = { .size = sizeof end };
    int left = 0, fd = -1;
    char byte[4096];
    cay_spawn s = { .size = sizeof s, .timeout_ms = 1000 };
    int64_t t = now_ms();
    cay_proc *p = inside_start(sb, &s, name, NULL);
    if (cay_proc_output(p, within(5000), CAY_STDOUT, CAY_FROM_START, &fd, &err) < 0)
        give_up("output: %s", err.msg);
    int rc = cay_proc_wait(p, within(60000), &end, &err);
    int64_t took = now_ms() - t;
    CHECK(rc == 0, "%s: not ended after %lld ms: %s", name, (long long)took, err.msg);
    CHECK(took <= soon(3000), "%s: ended after %lld ms with a limit of 1 s", name, (long long)took);
    CHECK(!strcmp(end.reason, "time"), "%s: the reason is %s", name, end.reason);
    while (read(fd, byte, sizeof byte) > 0)
        ;
    CHECK(now_ms() - t <= took + soon(500), "%s: the stream goes on", name);
    close(fd);
    for (int64_t by = now_ms() + soon(500); now_ms() < by;) {
        left = 0;
        cay_sandbox_procs(sb, within(5000), count_probe, &left, &err);
        if (!left)
            break;
        nap(50);
    }
    CHECK(left == 0, "%s: %d processes are left", name, left);
    cay_proc_unref(p);
}

/* At once: the start may fail then, but nothing may run on. */
static void must_not_escape(cay_sandbox *sb)
{
    cay_err err = CAY_ERR_INIT;
    int left = 0;
    for (int i = 0; i < 3; i++) {
        cay_proc *p = NULL;
        cay_exit end = { .size = sizeof end };
        cay_spawn s = { .size = sizeof s,
                        .argv = (const char *[]){ "/tmp/probe", "orphan", "0", NULL },
                        .timeout_ms = 300 };
        if (cay_sandbox_spawn(sb, within(5000), &s, &p, &err) < 0)
            continue;
        CHECK(cay_proc_wait(p, within(5000), &end, &err) == 0, "an orphan does not end: %s",
              err.msg);
        cay_proc_unref(p);
    }
    for (int64_t until = now_ms() + 5000;; nap(20)) {
        left = 0;
        cay_sandbox_procs(sb, within(5000), count_probe, &left, &err);
        if (left == 0 || now_ms() > until)
            break;
    }
    CHECK(left == 0, "%d orphans are left", left);
}

/* Who stands before the command is stopped by it where both are of one user: the end must be told
 * all the same. */
static void must_be_told(cay_sandbox *sb)
{
    cay_err err = CAY_ERR_INIT;
    cay_proc *p = NULL;
    cay_exit end = { .size = sizeof end };
    cay_spawn s = { .size = sizeof s, .shell = "kill -STOP $PPID; sleep 30", .timeout_ms = 300 };
    if (cay_sandbox_spawn(sb, within(5000), &s, &p, &err) < 0)
        give_up("spawn: %s", err.msg);
    CHECK(cay_proc_wait(p, within(5000), &end, &err) == 0, "the end is not told: %s", err.msg);
    cay_proc_unref(p);
}

static void s44_timeout(void)
{
    static const char *const ways[] = { "stubborn", "meek", "chain", "sibling", "orphan" };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        cay_sandbox *sb = box_new(NULL);
        must_end(sb, ways[i]);
        CHECK(command(sb, NULL, "true", NULL, 0) == 0, "%s: no command after it", ways[i]);
        box_remove(sb);
    }
    cay_sandbox *sb = box_new(NULL);
    must_not_escape(sb);
    must_be_told(sb);
    /* and a result does not wait for a child that holds the pipe */
    char out[256];
    int64_t t = now_ms();
    CHECK(command(sb, NULL, "sleep 50 & echo there", out, sizeof out) == 0 &&
              !strcmp(out, "there\n"),
          "said \"%s\"", out);
    CHECK(now_ms() - t < soon(1200), "the result took %lld ms", (long long)(now_ms() - t));
    box_remove(sb);
}

const attack res_attacks[] = {
    { "S-37", "a fork bomb stays inside", ALL, "pids-limit", NULL, s37_forks },
    { "S-38", "a memory bomb stays inside", ALL, "memory-limit", NULL, s38_memory },
    { "S-39", "a CPU hog is held to its share", ALL, "cpu-limit", NULL, s39_cpu },
    { "S-40", "the disk limit", ALL, "disk-limit", NULL, s40_disk },
    { "S-41", "the inode limit", ALL, "disk-limit", NULL, s41_inodes },
    { "S-42", "a descriptor bomb", ALL, "nofile", NULL, s42_descriptors },
    { "S-43", "output without end", ALL, NULL,
      "a ring has its size from its making; there is no check to leave out", s43_flood },
    { "S-44", "a time-out that bites", ALL, "tree-kill", NULL, s44_timeout },
    { 0 },
};
