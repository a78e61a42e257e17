/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run CAY TRUE BUNDLE apart|chain [N]: whole commands, as a shell starts them: `cay run -- true`
 * and its peers.
 *
 * apart: in turns, 25 ms between. chain: N without a pause from an empty pool, the peer half before
 * and half after, and what all of it cost: our clients, keeper and helpers, and the groups of the
 * sandboxes; the peers by wait4(2), those of their processes too that they leave behind (bwrap does
 * not wait for the one that makes the sandbox). BUNDLE is a directory for crun, or "" to leave it
 * out.
 */
#include "box.h"
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>

extern char **environ;

enum { CAY, BWRAP, CRUN, DOCKER, KINDS };

typedef struct command {
    const char *name;
    char *argv[32];
    bool there;
    series took;
    double cpu_us;
} command;

static command commands[KINDS] = {
    [CAY] = { "cay", { NULL, "run", "--", "true" } },
    [BWRAP] = { "bwrap",
                { "bwrap",
                  "--unshare-all",
                  "--die-with-parent",
                  "--ro-bind",
                  "/usr",
                  "/usr",
                  "--symlink",
                  "usr/bin",
                  "/bin",
                  "--symlink",
                  "usr/lib",
                  "/lib",
                  "--symlink",
                  "usr/lib64",
                  "/lib64",
                  "--proc",
                  "/proc",
                  "--dev",
                  "/dev",
                  "--tmpfs",
                  "/tmp",
                  "--tmpfs",
                  "/workspace",
                  "--chdir",
                  "/workspace",
                  "--",
                  "true" } },
    [CRUN] = { "crun", { "crun", "run", "-b", NULL, NULL } },
    [DOCKER] = { "docker", { "docker", "run", "--rm", "--network", "none", NULL, "true" } },
};

static double cpu_of(const struct rusage *ru)
{
    return (double)(ru->ru_utime.tv_sec + ru->ru_stime.tv_sec) * 1e6 +
           (double)(ru->ru_utime.tv_usec + ru->ru_stime.tv_usec);
}

/* Status of one run; the time and CPU it took are added. */
static int go(command *c, bool count)
{
    posix_spawn_file_actions_t fa;
    struct rusage ru;
    pid_t pid;
    int status = -1;
    char name[32];
    static unsigned serial;
    if (c == &commands[CRUN]) {
        snprintf(name, sizeof name, "cay-bench-%d-%u", getpid(), serial++);
        c->argv[4] = name;
    }
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&fa, 1, "/dev/null", O_WRONLY, 0);
    if (!getenv("BENCH_SHOW"))
        posix_spawn_file_actions_addopen(&fa, 2, "/dev/null", O_WRONLY, 0);
    double t = now_us();
    if (posix_spawnp(&pid, c->argv[0], &fa, NULL, c->argv, environ) == 0 &&
        wait4(pid, &status, 0, &ru) == pid && count) {
        add(&c->took, (now_us() - t) / 1e3);
        c->cpu_us += cpu_of(&ru);
    }
    posix_spawn_file_actions_destroy(&fa);
    return status;
}

static void must(command *c, bool count)
{
    int status = go(c, count);
    if (status)
        give_up("%s ended with status %x; BENCH_SHOW=1 shows its words", c->name, (unsigned)status);
}

/* A peer that does not work here is left out. */
static void find_peers(const char *bundle)
{
    static char image[256];
    commands[CRUN].argv[3] = (char *)bundle;
    const char *given = getenv("BENCH_DOCKER_IMAGE");
    snprintf(image, sizeof image, "%s", given ? given : "");
    commands[DOCKER].argv[5] = image;
    commands[CAY].there = true;
    commands[BWRAP].there = go(&commands[BWRAP], false) == 0;
    commands[CRUN].there = *bundle && go(&commands[CRUN], false) == 0;
    commands[DOCKER].there = *image && go(&commands[DOCKER], false) == 0;
    if (!commands[BWRAP].there)
        give_up("bwrap does not run here; make deps installs it");
}

static void tell(const char *name, const char *goal, double floor, bool mean)
{
    peer peers[KINDS + 1] = { { NULL, 0 } };
    double at[KINDS] = { 0 };
    size_t k = 0;
    for (int i = 0; i < KINDS; i++) {
        series *s = &commands[i].took;
        for (size_t j = 0; j < s->n && mean; j++)
            at[i] += s->v[j] / (double)s->n;
        if (s->n && !mean)
            at[i] = percentile(s, 50);
        if (i != CAY && s->n)
            peers[k++] = (peer){ commands[i].name, at[i] };
    }
    figure((fig){ name, "ms", at[CAY], floor, at[BWRAP] / at[CAY], goal, commands[CAY].took.n,
                  peers });
}

static double floor_ms(const char *program)
{
    series s = { 0 };
    bare_spawn bare = spawn_open(program);
    for (int i = 0; i < 200; i++)
        add(&s, spawn_time(&bare) / 1e3);
    return percentile(&s, 50);
}

static void apart(const char *program, size_t n)
{
    for (size_t i = 0; i < n + 3; i++)
        for (int k = 0; k < KINDS; k++) {
            if (!commands[k].there || (k == DOCKER && i > 10))
                continue;
            must(&commands[k], i >= 3);
            sleep_ms(25);
        }
    tell("run-apart", ">=3.0", floor_ms(program), false);
}

static void repeat(command *c, size_t n)
{
    for (size_t i = 0; i < n; i++)
        must(c, true);
}

/* Also what a peer left to whoever reaps orphans: us, meanwhile. Our keeper must not come to us, so
 * only for peers. */
static bool reap(command *c)
{
    struct rusage ru;
    pid_t pid;
    while ((pid = wait4(-1, NULL, WNOHANG, &ru)) > 0)
        c->cpu_us += cpu_of(&ru);
    return pid == 0;
}

static void repeat_peer(command *c, size_t n)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (size_t i = 0; i < n; i++) {
        must(c, true);
        reap(c);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 0);
    for (int i = 0; i < 200 && reap(c); i++)
        sleep_ms(5);
}

static void chain(const char *program, size_t n)
{
    char group[512];
    const char *home = getenv("CAY_HOME");
    command *cay = &commands[CAY], *bwrap = &commands[BWRAP];
    repeat_peer(bwrap, n / 2);
    if (commands[CRUN].there)
        repeat_peer(&commands[CRUN], n / 10 + 1);
    must(cay, true); /* starts the keeper, which has nothing yet */
    int keeper = keeper_find(home);
    if (!keeper)
        give_up("no keeper serves %s", home);
    double t = now_us();
    repeat(cay, n - 1);
    double wall = (now_us() - t) / 1e3 / (double)(n - 1);
    double kin = keeper_cpu(keeper);
    bool grouped = keeper_group(keeper, group, sizeof group);
    double inside = grouped ? group_cpu(group) : -1;
    repeat_peer(bwrap, n - n / 2);
    tell("run-chain", ">=1.8", floor_ms(program), true);
    if (inside < 0)
        give_up("run-cpu: the keeper has no v2 group to read CPU time from");
    double ours = (cay->cpu_us + kin + inside) / (double)n / 1e3,
           theirs = bwrap->cpu_us / (double)n / 1e3;
    const peer peers[] = { { "bwrap", theirs },
                           { "client", cay->cpu_us / (double)n / 1e3 },
                           { "keeper", kin / (double)n / 1e3 },
                           { "sandboxes", inside / (double)n / 1e3 },
                           { "wall", wall },
                           { NULL, 0 } };
    figure((fig){ "run-cpu", "ms", ours, 0, ours / theirs, "<=1.5", n, peers });
}

int main(int argc, char **argv)
{
    if (argc < 5)
        give_up("usage: run CAY TRUE BUNDLE apart|chain [N]");
    commands[CAY].argv[0] = argv[1];
    find_peers(argv[3]);
    if (!strcmp(argv[4], "apart"))
        apart(argv[2], rounds(argc, argv, 5, 100));
    else
        chain(argv[2], rounds(argc, argv, 5, 1000));
    return 0;
}
