/* SPDX-License-Identifier: Apache-2.0 */
/* docker DOCKER SCRIPT PACKAGES [quick]: a command, a sandbox, a small file, 10,000 files and 100
 * MB in a container of provider docker, beside what the engine's own command line needs for the
 * same, in turns, and the Docker client of the published Agents SDK (docker.js). Run by
 * tests/docker/with; the image is $CAY_DOCKER_IMAGE. */
#include "measure.h"
#include <cay/cay.h>
#include <cay/pool.h>
#include <spawn.h>

extern char **environ;
enum { BIG = 100 << 20 };

static void need(int rc, const cay_err *err, const char *what)
{
    if (rc < 0)
        give_up("%s: %s", what, err->msg);
}

/* Runs the engine's command; out: a file, or /dev/null. */
static double peer_time(const char *const *argv, const char *in)
{
    posix_spawn_file_actions_t a;
    pid_t pid;
    int status;
    posix_spawn_file_actions_init(&a);
    posix_spawn_file_actions_addopen(&a, 0, in ? in : "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&a, 1, "/dev/null", O_WRONLY, 0);
    double t = now_us();
    if (posix_spawnp(&pid, argv[0], &a, NULL, (char *const *)argv, environ) ||
        waitpid(pid, &status, 0) != pid || status)
        give_up("%s %s failed", argv[0], argv[1]);
    t = now_us() - t;
    posix_spawn_file_actions_destroy(&a);
    return t;
}

static double exec_time(cay_sandbox *sb)
{
    cay_err err = CAY_ERR_INIT;
    cay_result r = { .size = sizeof r };
    const char *const argv[] = { "/usr/bin/true", NULL };
    cay_spawn s = { .size = sizeof s, .argv = argv };
    double t = now_us();
    need(cay_sandbox_run(sb, NULL, &s, NULL, 0, 0, &r, &err), &err, "exec");
    t = now_us() - t;
    cay_result_clear(&r);
    return t;
}

static double read_time(cay_sandbox *sb, const char *path, size_t want)
{
    static char buf[1 << 18];
    cay_err err = CAY_ERR_INIT;
    int fd = -1;
    size_t n = 0;
    double t = now_us();
    need(cay_file_open_read(sb, NULL, path, NULL, &fd, &err), &err, "read");
    for (ssize_t k; (k = read(fd, buf, sizeof buf)) > 0;)
        n += (size_t)k;
    close(fd);
    t = now_us() - t;
    if (n != want)
        give_up("%s has %zu bytes", path, n);
    return t;
}

static double write_time(cay_sandbox *sb, const char *path, const char *data, size_t n)
{
    cay_err err = CAY_ERR_INIT;
    double t = now_us();
    need(cay_file_put(sb, NULL, path, data, n, NULL, &err), &err, "write");
    return now_us() - t;
}

static double create_time(cay_client *client, cay_sandbox **out)
{
    cay_err err = CAY_ERR_INIT;
    cay_create c = { .size = sizeof c, .provider = "docker" };
    double t = now_us();
    need(cay_client_create(client, NULL, &c, out, &err), &err, "create");
    exec_time(*out);
    return now_us() - t;
}

static int fill_pool(const cay_pool *w, void *arg)
{
    cay_err err = CAY_ERR_INIT;
    cay_call call = { .size = sizeof call };
    need(cay_pool_fill(arg, &call, w->id, &err), &err, "fill the pool");
    return 0;
}

/* One that is ready: bound and used. */
static double warm_time(cay_client *client, const char *image)
{
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb;
    const cay_pair options[] = { { "image", image }, { NULL, NULL } };
    cay_create c = { .size = sizeof c, .provider = "docker", .options = options };
    need(cay_pool_list(client, NULL, fill_pool, client, &err), &err, "fill the pool");
    uint64_t before, after, missed;
    cay_pool_counts(client, &before, &missed);
    double t = now_us();
    need(cay_client_create(client, NULL, &c, &sb, &err), &err, "create");
    exec_time(sb);
    t = now_us() - t;
    cay_pool_counts(client, &after, &missed);
    if (after != before + 1)
        give_up("the pool had none");
    need(cay_sandbox_remove(sb, NULL, &err), &err, "remove");
    cay_sandbox_unref(sb);
    return t;
}

static void tell(const char *name, const char *service, double scale, series *ours, series *theirs,
                 const char *peer_name, const char *goal, bool times)
{
    double a = percentile(ours, 50) / scale, b = percentile(theirs, 50) / scale;
    figure((fig){ name, service, a, .ratio = times ? b / a : a / b, .goal = goal, .n = ours->n,
                  .peers = (peer[]){ { peer_name, b }, { NULL, 0 } } });
}

enum { SDK_EXEC, SDK_READ, SDK_CREATE, SDK_MANY, SDK_FIGURES };

static void ask_sdk(const char *script, const char *packages, const char *image, size_t files,
                    bool quick, double out[SDK_FIGURES])
{
    char n[24], rounds[8], line[512] = "";
    snprintf(n, sizeof n, "%zu", files);
    snprintf(rounds, sizeof rounds, "%d", quick ? 3 : 30);
    const char *const argv[] = { "node", script, packages, image, n, rounds, NULL };
    posix_spawn_file_actions_t a;
    int p[2], status, at = 0;
    pid_t pid;
    if (pipe(p) < 0)
        give_up("pipe");
    posix_spawn_file_actions_init(&a);
    posix_spawn_file_actions_adddup2(&a, p[1], 1);
    posix_spawn_file_actions_addclose(&a, p[0]);
    if (posix_spawnp(&pid, argv[0], &a, NULL, (char *const *)argv, environ))
        give_up("node cannot be run");
    posix_spawn_file_actions_destroy(&a);
    close(p[1]);
    for (ssize_t k; at < (int)sizeof line - 1 &&
                    (k = read(p[0], line + at, sizeof line - 1 - (size_t)at)) > 0;)
        at += (int)k;
    close(p[0]);
    if (waitpid(pid, &status, 0) != pid || status ||
        sscanf(line, "%lf %lf %lf %lf", &out[0], &out[1], &out[2], &out[3]) != 4)
        give_up("the SDK's Docker client could not be measured: %s", line);
}

static void tell_sdk(const char *name, const char *service, double ours, double theirs,
                     const char *goal, size_t n)
{
    figure((fig){ name, service, ours, .ratio = theirs / ours, .goal = goal, .n = n,
                  .peers = (peer[]){ { "agents-sdk docker", theirs }, { NULL, 0 } } });
}

/* A sandbox with so many files of 1 kB, and its first command. */
static double manifest_time(cay_client *client, size_t files)
{
    size_t cap = files * 1200 + 65536, at = 0;
    char *m = malloc(cap), text[1017];
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb;
    if (!m)
        give_up("out of memory");
    memset(text, 'x', 1016);
    text[1016] = 0;
    at += (size_t)snprintf(m, cap, "{\"version\":1,\"entries\":{");
    for (unsigned d = 0; d < 100; d++) {
        at += (size_t)snprintf(m + at, cap - at, "%s\"d%u\":{\"type\":\"dir\",\"children\":{",
                               d ? "," : "", d);
        for (size_t i = d; i < files; i += 100)
            at += (size_t)snprintf(m + at, cap - at,
                                   "%s\"f%zu\":{\"type\":\"file\",\"content\":\"%s\"}",
                                   i == d ? "" : ",", i, text);
        at += (size_t)snprintf(m + at, cap - at, "}}");
    }
    snprintf(m + at, cap - at, "}}");
    const cay_pair options[] = { { "image", getenv("CAY_DOCKER_IMAGE") }, { NULL, NULL } };
    cay_create c = {
        .size = sizeof c, .provider = "docker", .manifest.text = m, .options = options
    };
    double t = now_us();
    need(cay_client_create(client, NULL, &c, &sb, &err), &err, "create with files");
    exec_time(sb);
    t = now_us() - t;
    need(cay_sandbox_remove(sb, NULL, &err), &err, "remove");
    cay_sandbox_unref(sb);
    free(m);
    return t;
}

static void pool(cay_client *client, const char *image, bool on)
{
    cay_err err = CAY_ERR_INIT;
    char name[300];
    snprintf(name, sizeof name, "docker:%s", image);
    if (!on) {
        need(cay_pool_remove(client, NULL, NULL, name, &err), &err, "give the pool up");
        return;
    }
    need(cay_pool_put(
             client, NULL,
             &(cay_pool){ .size = sizeof(cay_pool), .template_ = name, .low = 1, .high = 2 }, &err),
         &err, "keep a pool");
    need(cay_pool_list(client, NULL, fill_pool, client, &err), &err, "fill the pool");
}

/* The same in a container that was ready. */
static double manifest_warm(cay_client *client, const char *image, size_t files)
{
    uint64_t before, after, missed;
    pool(client, image, true);
    cay_pool_counts(client, &before, &missed);
    double t = manifest_time(client, files);
    cay_pool_counts(client, &after, &missed);
    pool(client, image, false);
    if (after != before + 1)
        give_up("the pool had none for a manifest");
    return t;
}

/* Each a few times, in turns, since it is over in a moment: whatever else goes on hits one of them.
 * The SDK's takes long enough. */
static void manifests(cay_client *client, const char *image, size_t files, bool quick,
                      series out[2])
{
    for (int i = 0; i < (quick ? 1 : 5); i++) {
        add(&out[0], manifest_time(client, files));
        add(&out[1], manifest_warm(client, image, files));
    }
}

static void tell_manifests(series ours[2], double theirs)
{
    tell_sdk("docker-manifest", "ms", percentile(&ours[0], 50) / 1000, theirs, ">=20", ours[0].n);
    tell_sdk("docker-manifest-warm", "ms", percentile(&ours[1], 50) / 1000, theirs, ">=20",
             ours[1].n);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        give_up("usage: docker DOCKER SCRIPT PACKAGES [quick]");
    const char *docker = argv[1], *image = getenv("CAY_DOCKER_IMAGE");
    bool quick = argc > 4 && !strcmp(argv[4], "quick"),
         only = argc > 4 && !strcmp(argv[4], "manifest");
    double sdk[SDK_FIGURES];
    size_t files = quick ? 500 : 10000;
    cay_err err = CAY_ERR_INIT;
    cay_client *client;
    cay_sandbox *sb, *other;
    cay_open open_spec = { .size = sizeof open_spec, .provider = "docker" };
    series s[11] = { { 0 } }, many[2] = { { 0 } };
    char name[64], *big = calloc(1, BIG), file[] = "/tmp/bench-docker.XXXXXX";
    need(cay_client_open(&open_spec, &client, &err), &err, "open");
    if (only) { /* a thing to look at while one works on it */
        manifests(client, image, files, false, many);
        ask_sdk(argv[2], argv[3], image, files, true, sdk);
        tell_manifests(many, sdk[SDK_MANY]);
        cay_client_close(client);
        return 0;
    }
    create_time(client, &sb);
    snprintf(name, sizeof name, "cay-%s", cay_sandbox_id(sb));
    int fd = mkstemp(file);
    if (!big || fd < 0 || write(fd, big, BIG) != BIG)
        give_up("100 MB in /tmp");
    close(fd);
    write_time(sb, "/workspace/small", big, 1024);
    for (size_t i = 0; i < (quick ? 3u : 40u); i++) {
        for (int k = 0; k < 10; k++)
            add(&s[0], exec_time(sb)), add(&s[2], read_time(sb, "/workspace/small", 1024));
        add(&s[1],
            peer_time((const char *const[]){ docker, "exec", name, "/usr/bin/true", NULL }, NULL));
        add(&s[3], peer_time((const char *const[]){ docker, "exec", name, "cat", "/workspace/small",
                                                    NULL },
                             NULL));
    }
    for (size_t i = 0; i < (quick ? 1u : 10u); i++) {
        add(&s[4], create_time(client, &other));
        need(cay_sandbox_remove(other, NULL, &err), &err, "remove");
        cay_sandbox_unref(other);
        add(&s[5], peer_time((const char *const[]){ docker, "run", "--rm", "--network", "none",
                                                    image, "/usr/bin/true", NULL },
                             NULL));
        add(&s[6], write_time(sb, "/workspace/big", big, BIG));
        add(&s[7], peer_time((const char *const[]){ docker, "exec", "-i", name, "sh", "-c",
                                                    "cat > /tmp/big", NULL },
                             file));
        add(&s[8], read_time(sb, "/workspace/big", BIG));
        add(&s[9], peer_time((const char *const[]){ docker, "exec", name, "cat", "/tmp/big", NULL },
                             NULL));
    }
    unlink(file);
    tell("docker-exec", "us", 1, &s[0], &s[1], "docker exec", ">=50", true);
    tell("docker-read", "us", 1, &s[2], &s[3], "docker exec cat", ">=100", true);
    tell("docker-create", "ms", 1000, &s[4], &s[5], "docker run", "<=1.15", false);
    tell("docker-up", "ms", 1000, &s[6], &s[7], "docker exec -i", "<=1", false);
    tell("docker-down", "ms", 1000, &s[8], &s[9], "docker exec cat", "<=1", false);
    need(cay_sandbox_remove(sb, NULL, &err), &err, "remove");
    cay_sandbox_unref(sb);
    manifests(client, image, files, quick, many);
    pool(client, image, true);
    for (size_t i = 0; i < (quick ? 1u : 10u); i++)
        add(&s[10], warm_time(client, image));
    pool(client, image, false);
    tell("docker-create-warm", "ms", 1000, &s[10], &s[5], "docker run", "<=0.2", false);
    ask_sdk(argv[2], argv[3], image, files, quick, sdk);
    tell_sdk("docker-sdk-exec", "ms", percentile(&s[0], 50) / 1000, sdk[SDK_EXEC], ">=50", s[0].n);
    tell_sdk("docker-sdk-read", "ms", percentile(&s[2], 50) / 1000, sdk[SDK_READ], ">=100", s[2].n);
    tell_sdk("docker-sdk-create", "ms", percentile(&s[4], 50) / 1000, sdk[SDK_CREATE], NULL,
             s[4].n);
    tell_manifests(many, sdk[SDK_MANY]);
    cay_client_close(client);
    return 0;
}
