/* SPDX-License-Identifier: Apache-2.0 */
/*
 * workspace FILL FS [quick] [PART…]: snapshots, forks, undo and manifests on the filesystem of
 * $CAY_HOME, whose name FS goes into the figures.
 *
 * Floors are bare system calls on the same filesystem in the same run: a rename and an overlay of
 * as many layers for a quiet snapshot, a walk with hard links and copies for one while something
 * runs, two threads that write for a manifest.
 */
#include "box.h"
#include <cay/snapshot.h>
#include <dirent.h>
#include <pthread.h>
#include <sys/mount.h>

static const char *fill, *fs;
static bool quick;
static char scratch[4096];
static char names[64][64];
static unsigned nnames;

static const char *named(const char *what)
{
    snprintf(names[nnames], sizeof names[0], "workspace-%s-%s", what, fs);
    return names[nnames++];
}

static cay_sandbox *make(cay_client *client, const char *manifest)
{
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb;
    cay_create c = { .size = sizeof c, .manifest.text = manifest, .manifest.base = scratch };
    need(cay_client_create(client, NULL, &c, &sb, &err), &err, "create");
    return sb;
}

static void drop(cay_sandbox *sb)
{
    cay_err err = CAY_ERR_INIT;
    need(cay_sandbox_remove(sb, NULL, &err), &err, "remove");
    cay_sandbox_unref(sb);
}

static void put_fill(cay_sandbox *sb)
{
    cay_err err = CAY_ERR_INIT;
    struct stat st;
    int fd = open(fill, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        give_up("open %s: %s", fill, strerror(errno));
    char *bytes = malloc((size_t)st.st_size);
    if (!bytes || read(fd, bytes, (size_t)st.st_size) != st.st_size)
        give_up("read %s", fill);
    close(fd);
    cay_write w = { .size = sizeof w, .mode = 0755 };
    need(cay_file_put(sb, NULL, "/home/user/fill", bytes, (size_t)st.st_size, &w, &err), &err,
         "put");
    free(bytes);
}

static void fill_box(cay_sandbox *sb, const char *dir, size_t n)
{
    cay_err err = CAY_ERR_INIT;
    char count[21];
    snprintf(count, sizeof count, "%zu", n);
    const char *const argv[] = { "/home/user/fill", "make", dir, count, NULL };
    cay_spawn s = { .size = sizeof s, .argv = argv };
    cay_result r = { .size = sizeof r };
    need(cay_sandbox_run(sb, NULL, &s, NULL, 0, 0, &r, &err), &err, "fill");
    if (r.exit.code)
        give_up("fill ended with %d", r.exit.code);
    cay_result_clear(&r);
}

/* In milliseconds; the id of the snapshot when it is wanted. */
static double snapshot(cay_sandbox *sb, bool quiet, double *frozen, char *id)
{
    cay_err err = CAY_ERR_INIT;
    cay_snapshot *s;
    cay_snapshot_spec spec = { .size = sizeof spec, .quiet = quiet };
    double t = now_us();
    need(cay_sandbox_snapshot(sb, NULL, &spec, &s, &err), &err, "snapshot");
    t = now_us() - t;
    if (frozen)
        *frozen = (double)s->frozen_us / 1e3;
    if (id)
        snprintf(id, 32, "%s", s->id);
    cay_snapshot_free(s);
    return t / 1e3;
}

static void in_scratch(const char *name)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/%s", scratch, name);
    if (mkdir(path, 0755) < 0 || chdir(path) < 0)
        give_up("%s: %s", path, strerror(errno));
}

/* What no swap can do without: the upper directory becomes a layer, a new one is made and mounted
 * on top. */
static double swap_floor(unsigned layers)
{
    static unsigned round;
    char dir[32], opts[4096], name[16];
    size_t at = (size_t)snprintf(opts, sizeof opts, "upperdir=u,workdir=w,volatile,lowerdir=");
    snprintf(dir, sizeof dir, "swap%u", round++);
    in_scratch(dir);
    for (unsigned i = layers; i-- > 0;) {
        at += (size_t)snprintf(opts + at, sizeof opts - at, "l%u%s", i, i ? ":" : "");
        snprintf(name, sizeof name, "l%u", i);
        if (i + 1 < layers)
            mkdir(name, 0755);
    }
    mkdir("u", 0755);
    mkdir("w", 0755);
    mkdir("m", 0755);
    snprintf(name, sizeof name, "l%u", layers - 1);
    double t = now_us();
    bool ok = rename("u", name) == 0 && mkdir("u", 0755) == 0 && rmdir("w") == 0 &&
              mkdir("w", 0755) == 0 && mount("overlay", "m", "overlay", 0, opts) == 0;
    t = now_us() - t;
    if (!ok)
        give_up("bare overlay of %u layers: %s", layers, strerror(errno));
    umount2("m", MNT_DETACH);
    return t / 1e3;
}

static void copy_one(int from, int to, const char *name)
{
    char buf[4096];
    struct stat st;
    int in = openat(from, name, O_RDONLY | O_CLOEXEC),
        out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ssize_t n = read(in, buf, sizeof buf);
    if (in < 0 || out < 0 || fstat(in, &st) < 0 || write(out, buf, (size_t)n) != n ||
        fchown(out, st.st_uid, st.st_gid) < 0 || fchmod(out, st.st_mode) < 0)
        give_up("bare copy: %s", strerror(errno));
    close(in);
    close(out);
}

/* A walk with one stat per file; a link of each that stays, a copy of the first twenty. */
static double clone_floor(size_t files)
{
    static unsigned round;
    char dir[32];
    snprintf(dir, sizeof dir, "clone%u", round++);
    in_scratch(dir);
    pid_t pid = fork();
    int status;
    if (pid == 0) {
        char n[21];
        snprintf(n, sizeof n, "%zu", files);
        execl(fill, "fill", "make", "a", n, NULL);
        _exit(127);
    }
    if (waitpid(pid, &status, 0) != pid || status)
        give_up("fill: status %x", status);
    double t = now_us();
    mkdir("b", 0755);
    for (unsigned i = 0; i < 100; i++) {
        char a[16], b[16];
        snprintf(a, sizeof a, "a/d%u", i);
        snprintf(b, sizeof b, "b/d%u", i);
        mkdir(b, 0755);
        int from = open(a, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
            to = open(b, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *d = fdopendir(from);
        struct stat st;
        for (struct dirent *e; d && (e = readdir(d));) {
            if (e->d_name[0] == '.' || fstatat(from, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                continue;
            if (strtoul(e->d_name + 1, NULL, 10) < 20)
                copy_one(from, to, e->d_name);
            else if (linkat(from, e->d_name, to, e->d_name, 0) < 0)
                give_up("link: %s", strerror(errno));
        }
        closedir(d);
        close(to);
    }
    return (now_us() - t) / 1e3;
}

typedef struct half {
    unsigned first;
    size_t n;
} half;

static void *write_half(void *arg)
{
    const half *h = arg;
    char text[1024], path[64];
    for (size_t i = h->first; i < h->n; i += 2) {
        for (unsigned k = 0, seed = (unsigned)i; k < sizeof text; k++) /* as fill.c */
            text[k] = (char)('a' + ((seed = seed * 1664525 + 1013904223) >> 28));
        snprintf(path, sizeof path, "d%zu/f%zu", i % 100, i);
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (fd < 0 || write(fd, text, sizeof text) != sizeof text)
            give_up("write: %s", strerror(errno));
        close(fd);
    }
    return NULL;
}

static char written[32]; /* where it wrote last */

static double write_floor(size_t files)
{
    static unsigned round;
    char dir[32];
    pthread_t t[2];
    half h[2] = { { 0, files }, { 1, files } };
    snprintf(written, sizeof written, "write%u", round++);
    in_scratch(written);
    double at = now_us();
    for (unsigned i = 0; i < 100; i++) {
        snprintf(dir, sizeof dir, "d%u", i);
        mkdir(dir, 0755);
    }
    for (int i = 0; i < 2; i++)
        if (pthread_create(&t[i], NULL, write_half, &h[i]))
            give_up("threads");
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    return (now_us() - at) / 1e3;
}

/* An upper directory of that many files, each time a new one. */
static void quiet(cay_client *client, const char *what, size_t files, size_t n)
{
    series floor = { 0 }, took = { 0 };
    cay_sandbox *sb = make(client, NULL);
    put_fill(sb);
    for (size_t i = 0; i < n; i++) {
        char dir[32];
        snprintf(dir, sizeof dir, "/workspace/w%zu", i);
        fill_box(sb, dir, files);
        add(&floor, swap_floor((unsigned)i + 2));
        add(&took, snapshot(sb, true, NULL, NULL));
    }
    double v = percentile(&took, 50);
    figure((fig){ named(what), "ms", v, percentile(&floor, 50), v, "<=1.5", n });
    drop(sb);
}

/* A stack that grows, a few files a time: forks and the way back are measured where it is 32 deep.
 */
static void deep(cay_client *client)
{
    series f32 = { 0 }, s32 = { 0 }, f60 = { 0 }, s60 = { 0 };
    unsigned top = quick ? 8 : 60, mid = quick ? 4 : 32;
    cay_sandbox *sb = make(client, NULL);
    put_fill(sb);
    for (unsigned i = 0; i < top; i++) {
        fill_box(sb, "/workspace/w", 20);
        double f = swap_floor(i + 2), s = snapshot(sb, true, NULL, NULL);
        if (i < mid && i >= mid / 2) {
            add(&f32, f);
            add(&s32, s);
        } else if (i >= mid) {
            add(&f60, f);
            add(&s60, s);
        }
    }
    double v = percentile(&s32, 50), w = percentile(&s60, 50);
    figure((fig){ named("snapshot-32"), "ms", v, percentile(&f32, 50), v, "<=1.5", s32.n });
    figure((fig){ named("snapshot-60"), "ms", w, percentile(&f60, 50), w, "<=2.5", s60.n });
    drop(sb);
}

static int on_fork(cay_sandbox *sb, void *arg)
{
    char **ids = arg;
    while (*ids)
        ids++;
    *ids = strdup(cay_sandbox_id(sb));
    return 0;
}

static double fork_of(cay_client *client, const char *from, size_t n)
{
    cay_err err = CAY_ERR_INIT;
    char *ids[128] = { 0 };
    cay_fork f = { .size = sizeof f, .n = n };
    double t = now_us();
    need(cay_client_fork(client, NULL, from, &f, on_fork, ids, &err), &err, "fork");
    t = now_us() - t;
    for (size_t i = 0; ids[i]; i++) {
        cay_sandbox *sb;
        need(cay_client_find(client, NULL, ids[i], &sb, &err), &err, "find");
        drop(sb);
        free(ids[i]);
    }
    return t / 1e3 / (double)n;
}

static void forks(cay_client *client)
{
    series one = { 0 }, many = { 0 }, back = { 0 };
    cay_err err = CAY_ERR_INIT;
    char from[32];
    size_t n = quick ? 3 : 40, wide = quick ? 4 : 100;
    cay_sandbox *sb = make(client, NULL);
    put_fill(sb);
    fill_box(sb, "/workspace/w", quick ? 200 : 10000);
    snapshot(sb, true, NULL, from);
    for (size_t i = 0; i < n; i++) {
        sleep_ms(25); /* as an agent would: the pool has one ready */
        add(&one, fork_of(client, from, 1));
        fill_box(sb, "/workspace/more", 20);
        cay_snapshot *to;
        double t = now_us();
        need(cay_sandbox_undo(sb, NULL, from, &to, &err), &err, "undo");
        add(&back, (now_us() - t) / 1e3);
        cay_snapshot_free(to);
    }
    for (int i = 0; i < (quick ? 1 : 3); i++)
        add(&many, fork_of(client, from, wide));
    double v = percentile(&one, 50), w = percentile(&many, 50);
    figure((fig){ named("fork"), "ms", v, 0, v, "<=3.0", n });
    figure((fig){ named("fork-100"), "ms", w, 0, w, "<=3.0", many.n });
    figure((fig){ named("undo"), "ms", percentile(&back, 50), 0, 0, NULL, n });
    drop(sb);
}

static void running(cay_client *client)
{
    series floor = { 0 }, took = { 0 }, frozen = { 0 };
    cay_err err = CAY_ERR_INIT;
    size_t n = quick ? 2 : 10, files = quick ? 200 : 10000;
    cay_sandbox *sb = make(client, NULL);
    cay_proc *p;
    put_fill(sb);
    fill_box(sb, "/workspace/w", files);
    const char *const argv[] = { "/home/user/fill", "churn", "/workspace/w", NULL };
    cay_spawn s = { .size = sizeof s, .argv = argv };
    need(cay_sandbox_spawn(sb, NULL, &s, &p, &err), &err, "churn");
    cay_proc_unref(p);
    sleep_ms(100);
    snapshot(sb, false, NULL, NULL); /* the first copies everything */
    for (size_t i = 0; i < n; i++) {
        double held = 0;
        sleep_ms(60);
        double t = snapshot(sb, false, &held, NULL);
        add(&took, t);
        add(&frozen, held);
        add(&floor, clone_floor(files));
    }
    double v = percentile(&took, 50), f = percentile(&floor, 50), h = percentile(&frozen, 50);
    bool btrfs = !strcmp(fs, "btrfs");
    figure((fig){ named("running"), "ms", v, f, v / f, "<=1.5", n });
    figure((fig){ named("running-frozen"), "ms", h, f, h, btrfs ? "<=10" : NULL, n });
    drop(sb);
}

static char *manifest_of(size_t files)
{
    size_t cap = files * 1200 + 65536, at = 0;
    char *m = malloc(cap), text[1025];
    if (!m)
        give_up("out of memory");
    memset(text, 'x', 1024);
    text[1024] = 0;
    at += (size_t)snprintf(m, cap, "{\"entries\":{");
    for (unsigned d = 0; d < 100; d++) {
        at += (size_t)snprintf(m + at, cap - at, "%s\"d%u\":{\"type\":\"dir\",\"children\":{",
                               d ? "," : "", d);
        for (size_t i = d, first = 1; i < files; i += 100, first = 0)
            at += (size_t)snprintf(m + at, cap - at,
                                   "%s\"f%zu\":{\"type\":\"file\",\"content\":\"%zu %s\"}",
                                   first ? "" : ",", i, i, text + 8);
        at += (size_t)snprintf(m + at, cap - at, "}}");
    }
    snprintf(m + at, cap - at, "}}");
    return m;
}

static double create_with(cay_client *client, const char *manifest)
{
    double t = now_us();
    cay_sandbox *sb = make(client, manifest);
    t = now_us() - t;
    drop(sb);
    return t / 1e3;
}

static void manifests(cay_client *client)
{
    series again = { 0 };
    size_t files = quick ? 200 : 10000, n = quick ? 2 : 20;
    char *m = manifest_of(files), path[4200];
    double f = write_floor(files), v = create_with(client, m);
    figure((fig){ named("manifest-first"), "ms", v, f, v / f, "<=1.4", 1 });
    for (size_t i = 0; i < n; i++) {
        sleep_ms(25);
        add(&again, create_with(client, m));
    }
    double w = percentile(&again, 50);
    figure((fig){ named("manifest-again"), "ms", w, 0, w, "<=2.0", n });
    free(m);
    snprintf(path, sizeof path, "%s/src", scratch);
    mkdir(path, 0755);
    static char mb[1 << 20];
    for (unsigned i = 0; i < 100; i++) {
        snprintf(path, sizeof path, "%s/src/b%u", scratch, i);
        mb[0] = (char)i;
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0 || write(fd, mb, quick ? 1000 : sizeof mb) < 0)
            give_up("write %s: %s", path, strerror(errno));
        close(fd);
    }
    v = create_with(client, "{\"entries\":{\"src\":{\"type\":\"local_dir\",\"src\":\"src\"}}}");
    figure((fig){ named("local-dir"), "ms", v, 0, v, "<=80", 1 });
}

/* tar | zstd of a directory, and back, as a user would. */
static double by_tar(const char *line)
{
    int status;
    double t = now_us();
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", line, NULL);
        _exit(127);
    }
    if (waitpid(pid, &status, 0) != pid || status)
        give_up("%s: status %x", line, status);
    return (now_us() - t) / 1e3;
}

static double export_to(cay_client *client, const char *ref, const char *since)
{
    cay_err err = CAY_ERR_INIT;
    char path[4200];
    snprintf(path, sizeof path, "%s/archive", scratch);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    cay_export e = { .size = sizeof e, .ref = ref, .since = since };
    double t = now_us();
    need(cay_client_export(client, NULL, &e, fd, NULL, &err), &err, "export");
    t = now_us() - t;
    close(fd);
    return t / 1e3;
}

static void archives(cay_client *client)
{
    cay_err err = CAY_ERR_INIT;
    char first[32], second[32], path[4200];
    size_t files = quick ? 200 : 10000;
    cay_sandbox *sb = make(client, NULL);
    cay_snapshot *s;
    put_fill(sb);
    fill_box(sb, "/workspace/w", files);
    snapshot(sb, true, NULL, first);
    fill_box(sb, "/workspace/changed", 20);
    snapshot(sb, true, NULL, second);
    need(cay_client_maintain(client, NULL, &err), &err,
         "settle"); /* digests are made in the background, not by who exports */
    double w = write_floor(files);
    if (chdir(scratch) < 0)
        give_up("%s: %s", scratch, strerror(errno));
    bool zstd = access("/usr/bin/zstd", X_OK) == 0;
    char line[128];
    snprintf(line, sizeof line, "mkdir few && ls -d %s/d*/* | head -n 20 | xargs cp -t few",
             written);
    by_tar(line);
    snprintf(line, sizeof line, "tar -c %s | zstd -q -c >whole.tzst", written);
    double all = zstd ? by_tar(line) : 0,
           few = zstd ? by_tar("tar -c -C few . | zstd -q -c >few.tzst") : 0;
    /* A difference is for who has the archive of its parent: that was made before. Once more for
     * the import below. */
    double whole = export_to(client, first, NULL), part = export_to(client, second, first);
    export_to(client, first, NULL);
    figure((fig){ named("export-difference"), "ms", part, few, zstd ? part / few : 0,
                  zstd ? "<=1.3" : NULL, 1 });
    figure((fig){ named("export"), "ms", whole, all, zstd ? whole / all : 0, zstd ? "<=1.0" : NULL,
                  1 });
    snprintf(path, sizeof path, "%s/archive", scratch);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    cay_import i = { .size = sizeof i };
    double t = now_us();
    need(cay_client_import(client, NULL, &i, fd, &s, &err), &err, "import");
    t = (now_us() - t) / 1e3;
    close(fd);
    cay_snapshot_free(s);
    figure((fig){ named("import"), "ms", t, w, t / w, "<=1.3", 1 });
    drop(sb);
}

static void quiets(cay_client *client)
{
    quiet(client, "snapshot-10k", quick ? 200 : 10000, quick ? 2 : 7);
    quiet(client, "snapshot-100k", quick ? 400 : 100000, quick ? 1 : 3);
}

static const struct {
    const char *name;
    void (*fn)(cay_client *client);
    bool btrfs; /* there, too */
} parts[] = { { "quiet", quiets, false },      { "deep", deep, false },
              { "forks", forks, false },       { "manifests", manifests, false },
              { "archives", archives, false }, { "running", running, true } };

static bool wanted(const char *name, int argc, char **argv)
{
    bool all = true;
    for (int i = 3; i < argc; i++) {
        if (!strcmp(argv[i], name))
            return true;
        all &= !strcmp(argv[i], "quick");
    }
    return all;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        give_up("usage: workspace FILL FS [quick] [quiet|deep|forks|manifests|archives|running…]");
    fill = argv[1];
    fs = argv[2];
    for (int i = 3; i < argc; i++)
        quick |= !strcmp(argv[i], "quick");
    snprintf(scratch, sizeof scratch, "%s/../scratch", getenv("CAY_HOME"));
    if (mkdir(scratch, 0755) < 0)
        give_up("%s: %s", scratch, strerror(errno));
    cay_client *client = service();
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if ((parts[i].btrfs || strcmp(fs, "btrfs")) && wanted(parts[i].name, argc, argv))
            parts[i].fn(client);
    cay_client_close(client);
    return 0;
}
