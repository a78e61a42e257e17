/* SPDX-License-Identifier: Apache-2.0 */
/* S-71 to S-79: crashes, another boot, races, clocks. */
#include "attack.h"
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { BOXES = 20 };

static cay_sandbox *find(const char *id)
{
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb = NULL;
    if (cay_client_find(W.client, within(5000), id, &sb, &err) < 0)
        give_up("find %s: %s", id, err.msg);
    return sb;
}

static void reopen(void)
{
    cay_client_close(W.client);
    W.client = service_open();
}

/* The lines "tick N" must be without gap. */
static void check_ticks(cay_proc *p)
{
    static char text[1 << 20];
    cay_err err = CAY_ERR_INIT;
    size_t n = 0, got;
    uint64_t offset = 0, lost = 0;
    bool eof = false;
    while (!eof && n < sizeof text - 1) {
        if (cay_proc_read(p, within(5000), CAY_STDOUT, &offset, text + n, sizeof text - 1 - n, &got,
                          &lost, &eof, &err) < 0)
            give_up("read: %s", err.msg);
        n += got;
        if (!got && !eof)
            break;
    }
    text[n] = 0;
    int want = 0;
    for (char *s = text, *save, *l; (l = strtok_r(s, "\n", &save)); s = NULL, want++)
        if (atoi(l + 5) != want) {
            breach("after tick %d comes \"%s\"", want - 1, l);
            return;
        }
    CHECK(want > 2 && lost == 0, "%d ticks, %llu bytes lost", want, (unsigned long long)lost);
}

static void s71_keeper_killed(void)
{
    cay_err err = CAY_ERR_INIT;
    cay_write w = { .size = sizeof w };
    char id[BOXES][32];
    int nboxes = (int)many(BOXES) > 8 ? BOXES : 8;
    cay_sandbox *sb;
    cay_proc *p;
    for (int i = 0; i < nboxes; i++) {
        cay_spawn s = { .size = sizeof s,
                        .argv = (const char *[]){ "/tmp/probe", "count", "/tmp/stop", NULL },
                        .tag = "ticks" };
        cay_spawn t = {
            .size = sizeof t, .argv = (const char *[]){ "cat", NULL }, .tty = true, .tag = "term"
        };
        sb = box_new(NULL);
        snprintf(id[i], sizeof id[i], "%s", cay_sandbox_id(sb));
        if (cay_sandbox_spawn(sb, within(5000), &s, &p, &err) < 0)
            give_up("spawn: %s", err.msg);
        cay_proc_unref(p);
        if (i < 2 && cay_sandbox_spawn(sb, within(5000), &t, &p, &err) == 0)
            cay_proc_unref(p);
        /* one ends while nobody is there to see it */
        if (i == 0)
            CHECK(command(sb, NULL, "(sleep 1; touch /tmp/stop) >/dev/null 2>&1 &", NULL, 0) == 0,
                  "background");
        cay_sandbox_unref(sb);
    }
    nap(300);
    keeper_kill(SIGKILL);
    nap(1200);
    int64_t start = now_ms();
    reopen();
    for (int i = 0; i < nboxes; i++) {
        sb = find(id[i]);
        cay_state s = box_state(sb, NULL, 0);
        CHECK(s == CAY_RUNNING, "%s is %s after the keeper's death", id[i], cay_state_name(s));
        cay_sandbox_unref(sb);
    }
    CHECK(now_ms() - start < soon(2000), "taking over took %lld ms", (long long)(now_ms() - start));
    for (int i = 0; i < nboxes; i++) {
        cay_exit end = { .size = sizeof end };
        sb = find(id[i]);
        if (i && cay_file_put(sb, within(5000), "/tmp/stop", "", 0, &w, &err) < 0)
            give_up("put: %s", err.msg);
        if (cay_sandbox_attach(sb, within(5000), "ticks", &p, &err) < 0)
            give_up("attach: %s", err.msg);
        CHECK(cay_proc_wait(p, within(5000), &end, &err) == 0 && end.code == 42,
              "code %d reason %s: %s", end.code, end.reason, err.msg);
        check_ticks(p);
        cay_proc_unref(p);
        if (i < 2) {
            char text[256] = "";
            uint64_t offset = 0, lost;
            size_t n = 0;
            bool eof;
            if (cay_sandbox_attach(sb, within(5000), "term", &p, &err) < 0 ||
                cay_proc_write(p, within(5000), "hello\n", 6, &err) < 0)
                give_up("terminal: %s", err.msg);
            nap(200);
            cay_proc_read(p, within(5000), CAY_STDOUT, &offset, text, sizeof text - 1, &n, &lost,
                          &eof, &err);
            text[n] = 0;
            CHECK(strstr(text, "hello"), "the terminal says \"%s\"", text);
            cay_proc_unref(p);
        }
        box_remove(sb);
    }
}

static void *creates(void *arg)
{
    volatile bool *stop = arg;
    cay_err err = CAY_ERR_INIT;
    while (!*stop) {
        cay_create spec = { .size = sizeof spec };
        cay_sandbox *sb = NULL;
        if (cay_client_create(W.client, within(10000), &spec, &sb, &err) < 0)
            continue;
        cay_result r = { .size = sizeof r };
        cay_spawn s = { .size = sizeof s, .argv = (const char *[]){ "true", NULL } };
        if (cay_sandbox_run(sb, within(10000), &s, NULL, 0, 0, &r, &err) == 0)
            cay_result_clear(&r);
        cay_sandbox_remove(sb, within(10000), &err);
        cay_sandbox_unref(sb);
    }
    return NULL;
}

static void s72_killed_anywhere(void)
{
    pthread_t t[3];
    volatile bool stop = false;
    unsigned seed = (unsigned)getpid();
    cay_sandbox *kept = box_new(NULL);
    char id[32];
    snprintf(id, sizeof id, "%s", cay_sandbox_id(kept));
    for (int i = 0; i < 3; i++)
        pthread_create(&t[i], NULL, creates, (void *)&stop);
    for (unsigned i = 0; i < many(200); i++) {
        nap(20 + (unsigned)rand_r(&seed) % 150);
        int pid = keeper_pid();
        if (pid)
            kill(pid, SIGKILL);
    }
    stop = true;
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    reopen();
    CHECK(command(kept, NULL, "test -x /tmp/probe", NULL, 0) == 0,
          "the sandbox that was there is lost");
    cay_sandbox_unref(kept);
    kept = find(id);
    CHECK(box_state(kept, NULL, 0) == CAY_RUNNING, "the sandbox that was there is %s",
          cay_state_name(box_state(kept, NULL, 0)));
    box_remove(kept);
}

static int damaged;
static int tell(const cay_info *info, void *arg)
{
    damaged += info->state == CAY_DAMAGED;
    ++*(int *)arg;
    return 0;
}

static void s73_store(void)
{
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *a = box_new(NULL), *b = box_new(NULL);
    char sql[600], id[32];
    int n = 0;
    snprintf(id, sizeof id, "%s", cay_sandbox_id(b));
    cay_sandbox_unref(a);
    cay_sandbox_unref(b);
    cay_client_close(W.client);
    /* one damaged record: every word of it but its id is rubbish */
    snprintf(sql, sizeof sql,
             "sqlite3 %s/store.db \"update sandboxes set state='?', spec='{', box=char(1), "
             "labels='[', metadata='}' where id='%s'\"",
             W.home, id);
    CHECK(host_shell(sql) == 0, "the record could not be damaged");
    W.client = service_open();
    if (cay_client_list(W.client, within(5000), NULL, tell, &n, &err) < 0)
        breach("list: %s", err.msg);
    CHECK(n == 2 && damaged == 1, "%d sandboxes are listed, %d of them as damaged", n, damaged);
    CHECK(cay_client_find(W.client, within(5000), id, &b, &err) == 0, "find the damaged one: %s",
          err.msg);
    if (b)
        box_remove(b);
    /* a log with a torn end and rubbish behind it */
    char path[400];
    keeper_kill(SIGKILL);
    snprintf(path, sizeof path, "%s/keeper.log", W.home);
    int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    CHECK(fd >= 0 && write(fd, "torn record torn record", 23) == 23, "%s: %s", path,
          strerror(errno));
    close(fd);
    reopen();
    n = 0;
    cay_client_list(W.client, within(5000), NULL, tell, &n, &err);
    CHECK(n == 1, "%d sandboxes are left after a torn log", n);
    box_remove(box_new(NULL));
}

/* As a full disk gives it: the state directory of another instance, on a filesystem of its own. */
static void s73_full(void)
{
    cay_err err = CAY_ERR_INIT;
    char keep[300], small[280], filler[400];
    cay_sandbox *a, *b = NULL;
    int n = 0;
    snprintf(keep, sizeof keep, "%s", W.home);
    snprintf(small, sizeof small, "%s/small", W.dir);
    snprintf(filler, sizeof filler, "%s/filler", small);
    mkdir(small, 0700);
    if (!as_host("small %s", small))
        give_up("the host cannot mount");
    cay_client *first = W.client;
    snprintf(W.home, sizeof W.home, "%s/home", small);
    mkdir(W.home, 0700);
    W.client = service_open();
    a = box_new(NULL);
    int fd = open(filler, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    static char block[4096];
    while (write(fd, block, sizeof block) > 0)
        ;
    close(fd);
    cay_create spec = { .size = sizeof spec };
    int rc = cay_client_create(W.client, within(15000), &spec, &b, &err);
    CHECK(rc == 0 || (rc != CAY_ETIMEOUT && err.msg[0]), "a create on a full disk gives %s: \"%s\"",
          cay_code_name(rc), err.msg);
    note("a create on a full disk: %s", rc == 0 ? "works" : err.msg);
    if (rc == 0)
        box_remove(b);
    CHECK(cay_client_list(W.client, within(5000), NULL, tell, &n, &err) == 0 && n == 1,
          "%d sandboxes are listed on a full disk: %s", n, err.msg);
    CHECK(command(a, NULL, "true", NULL, 0) == 0, "no command runs on a full disk");
    keeper_kill(SIGKILL);
    CHECK(command(a, NULL, "true", NULL, 0) == 0, "a new keeper does not take over on a full disk");
    unlink(filler);
    CHECK(command(a, NULL, "echo x >/workspace/x && test -x /tmp/probe", NULL, 0) == 0,
          "the sandbox is damaged");
    box_remove(box_new(NULL));
    box_remove(a);
    keeper_kill(SIGTERM);
    cay_client_close(W.client);
    snprintf(W.home, sizeof W.home, "%s", keep);
    W.client = first;
    CHECK(as_host("umount %s", small), "the small filesystem is held");
    rmdir(small);
}

static void s74_upgrade(void)
{
    enum { MANY = 10 };
    cay_err err = CAY_ERR_INIT;
    cay_open spec = { .size = sizeof spec, .home = W.home, .libexec = W.bin };
    cay_client *client = NULL;
    cay_sandbox *sb[MANY];
    cay_proc *p[MANY];
    char cmd[900], id[MANY][32];
    for (int i = 0; i < MANY; i++) {
        cay_spawn s = { .size = sizeof s,
                        .argv = (const char *[]){ "/tmp/probe", "count", "/tmp/stop", NULL },
                        .tag = "ticks" };
        sb[i] = box_new(NULL);
        snprintf(id[i], sizeof id[i], "%s", cay_sandbox_id(sb[i]));
        if (cay_sandbox_spawn(sb[i], within(5000), &s, &p[i], &err) < 0)
            give_up("spawn: %s", err.msg);
        cay_proc_unref(p[i]);
        cay_sandbox_unref(sb[i]);
    }
    /* a store of a version to come: refused, and not a byte of it written */
    cay_client_close(W.client);
    W.client = NULL;
    snprintf(
        cmd, sizeof cmd,
        "cd %s && sqlite3 store.db 'pragma user_version' >was && sqlite3 store.db 'pragma "
        "user_version=9999; pragma wal_checkpoint(truncate)' >/dev/null && cksum store.db >sum",
        W.home);
    CHECK(host_shell(cmd) == 0, "the version could not be changed");
    int rc = cay_client_open(&spec, &client, &err);
    CHECK(rc < 0 && !strcmp(err.reason, "store_newer"), "a newer store gives %s: %s",
          cay_code_name(rc), err.msg);
    if (rc == 0)
        cay_client_close(client);
    snprintf(cmd, sizeof cmd,
             "cd %s && cksum store.db | cmp - sum && sqlite3 store.db \"pragma user_version=$(cat "
             "was)\" && rm sum was",
             W.home);
    CHECK(host_shell(cmd) == 0, "a newer store was written to");
    /* the keeper is told to leave, as an installer does, and the next program finds another */
    keeper_kill(SIGTERM);
    int64_t t = now_ms();
    W.client = service_open();
    for (int i = 0; i < MANY; i++) {
        sb[i] = find(id[i]);
        CHECK(box_state(sb[i], NULL, 0) == CAY_RUNNING, "%s does not run any more", id[i]);
    }
    CHECK(now_ms() - t < soon(2000), "taking %d over took %lld ms", MANY,
          (long long)(now_ms() - t));
    for (int i = 0; i < MANY; i++) {
        cay_exit end = { .size = sizeof end };
        if (cay_file_put(sb[i], within(5000), "/tmp/stop", "", 0, NULL, &err) < 0 ||
            cay_sandbox_attach(sb[i], within(5000), "ticks", &p[i], &err) < 0)
            give_up("%s: %s", id[i], err.msg);
        CHECK(cay_proc_wait(p[i], within(5000), &end, &err) == 0 && end.code == 42,
              "code %d reason %s: %s", end.code, end.reason, err.msg);
        check_ticks(p[i]);
        cay_proc_unref(p[i]);
        box_remove(sb[i]);
    }
}

static uint32_t crc32c(const unsigned char *p, size_t n)
{
    uint32_t c = ~0u;
    while (n--) {
        c ^= *p++;
        for (int i = 0; i < 8; i++)
            c = c >> 1 ^ (c & 1 ? 0x82f63b78u : 0);
    }
    return ~c;
}

/* The state directory as another boot finds it. A boot id cannot be changed, and a file mounted
 * over the kernel's would make /proc unfit for sandboxes: so the two places that hold it are
 * rewritten. keeper.log: records of 128 bytes, magic, checksum of the rest with a zero in its
 * place, …, op at 24 (1: opened), boot id at 72. */
static bool other_boot(void)
{
    /* what a boot clears by itself: sockets and groups */
    static const char clear[] = "rm -f \"$SOCKETS\"/b*; grep -o '/.*/*cay-test-.*' "
                                "/proc/self/cgroup | sort -u | while read -r p; do "
                                "find /sys/fs/cgroup/*\"$p\" -mindepth 1 -depth -type d -exec "
                                "rmdir {} + 2>/dev/null; done; true";
    char path[400], sql[600];
    setenv("SOCKETS", W.sockets, 1);
    nap(200);
    host_shell(clear);
    unsigned char rec[128];
    int changed = 0;
    snprintf(path, sizeof path, "%s/keeper.log", W.home);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    for (off_t at = 0; fd >= 0 && pread(fd, rec, sizeof rec, at) == sizeof rec; at += sizeof rec) {
        if (rec[24] != 1)
            continue;
        memset(rec + 72, '1', 20);
        memset(rec + 4, 0, 4);
        uint32_t c = crc32c(rec, sizeof rec);
        memcpy(rec + 4, &c, 4);
        changed += pwrite(fd, rec, sizeof rec, at) == sizeof rec;
    }
    close(fd);
    snprintf(sql, sizeof sql,
             "sqlite3 %s/store.db \"update notes set value='another' where space='service' and "
             "key='boot'\"",
             W.home);
    return changed == 1 && host_shell(sql) == 0;
}

static int stopped(const cay_info *info, void *arg)
{
    CHECK(info->state == CAY_STOPPED, "%s is %s after a boot", info->id,
          cay_state_name(info->state));
    ++*(int *)arg;
    return 0;
}

static void s75_boot(void)
{
    cay_err err = CAY_ERR_INIT;
    char id[32], text[64];
    int n = 0;
    cay_sandbox *sb = box_new(NULL);
    snprintf(id, sizeof id, "%s", cay_sandbox_id(sb));
    CHECK(command(sb, NULL, "echo kept >/workspace/file; sync", NULL, 0) == 0, "no file");
    int pid = box_init_pid(sb);
    cay_sandbox_unref(sb);
    /* As a power cut: the keeper first, so that it writes down nothing, then every init. */
    keeper_kill(SIGKILL);
    as_host("power-cut");
    for (int i = 0; i < 200 && kill(pid, 0) == 0; i++)
        nap(10);
    if (!other_boot() || !as_host("next-pid %d", pid - 1))
        give_up("no other boot here");
    int decoy = fork(); /* has the pid that the records name */
    if (decoy == 0) {
        for (;;)
            pause();
    }
    CHECK(decoy == pid, "the decoy has pid %d, not %d", decoy, pid);
    reopen();
    if (cay_client_list(W.client, within(10000), NULL, stopped, &n, &err) < 0)
        breach("list: %s", err.msg);
    CHECK(n == 1, "%d sandboxes are listed", n);
    sb = find(id);
    if (cay_sandbox_resume(sb, within(20000), &err) < 0)
        breach("resume: %s", err.msg);
    else
        CHECK(command(sb, NULL, "cat /workspace/file", text, sizeof text) == 0 &&
                  !strcmp(text, "kept\n"),
              "the file holds \"%s\"", text);
    box_remove(sb);
    int status;
    CHECK(waitpid(decoy, &status, WNOHANG) == 0,
          "a process that only has an old pid was signalled");
    kill(decoy, SIGKILL);
    waitpid(decoy, &status, 0);
}

static void s76_restraint(void)
{
    cay_err err = CAY_ERR_INIT;
    char mine[300], alien[400], keep[300], rm[400];
    size_t removed = 0;
    cay_sandbox *a = box_new(NULL);
    CHECK(command(a, NULL, "true", NULL, 0) == 0, "a");
    snprintf(keep, sizeof keep, "%s", W.home);
    snprintf(mine, sizeof mine, "%s/other-home", W.dir);
    mkdir(mine, 0700);
    cay_client *first = W.client;
    /* another instance with a sandbox of its own */
    snprintf(W.home, sizeof W.home, "%s", mine);
    W.client = service_open();
    cay_sandbox *b = box_new(NULL);
    cay_client *second = W.client;
    /* look-alikes: a directory nobody recorded with a name of another form, a process called like
     * ours */
    snprintf(alien, sizeof alien, "%s/sandboxes/not-an-id", mine);
    mkdir(alien, 0755);
    int decoy = fork();
    if (decoy == 0) {
        char *argv[] = { "cay-keeper", "/elsewhere", NULL };
        (void)argv;
        execl("/bin/sleep", "cay-keeper", "60", (char *)NULL);
        _exit(1);
    }
    keeper_kill(SIGKILL);
    cay_client_close(second);
    W.client = service_open();
    second = W.client;
    if (cay_client_gc(second, within(10000), &removed, &err) < 0)
        breach("gc: %s", err.msg);
    nap(300);
    CHECK(access(alien, F_OK) == 0,
          "a directory without record was removed although its name is none of ours");
    CHECK(kill(decoy, 0) == 0 && waitpid(decoy, NULL, WNOHANG) == 0,
          "a process of the same name was killed");
    CHECK(command(a, NULL, "true", NULL, 0) == 0, "the other instance's sandbox is gone");
    kill(decoy, SIGKILL);
    waitpid(decoy, NULL, 0);
    box_remove(b);
    keeper_kill(SIGTERM);
    cay_client_close(second);
    snprintf(rm, sizeof rm, "rm -rf %s", mine);
    host_shell(rm);
    snprintf(W.home, sizeof W.home, "%s", keep);
    W.client = first;
    box_remove(a);
}

static struct {
    pthread_mutex_t lock;
    char id[4][32];
    volatile bool stop;
    unsigned long calls, bad;
} R = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool defined(int rc)
{
    return rc == 0 || rc == CAY_ENOENT || rc == CAY_ESTATE || rc == CAY_EGONE || rc == CAY_EBUSY ||
           rc == CAY_EEXIST || rc == CAY_ENOTSUP;
}

static int one_call(unsigned *seed, char *what, size_t cap, cay_err *err)
{
    char id[32];
    int slot = (int)(rand_r(seed) % 4), rc;
    cay_sandbox *sb = NULL;
    pthread_mutex_lock(&R.lock);
    snprintf(id, sizeof id, "%s", R.id[slot]);
    pthread_mutex_unlock(&R.lock);
    unsigned kind = rand_r(seed) % 10;
    snprintf(what, cap, "%s", "create");
    if (!id[0]) {
        cay_create spec = { .size = sizeof spec };
        if ((rc = cay_client_create(W.client, within(20000), &spec, &sb, err)) < 0)
            return rc;
        pthread_mutex_lock(&R.lock);
        bool taken = R.id[slot][0];
        if (!taken)
            snprintf(R.id[slot], sizeof R.id[slot], "%s", cay_sandbox_id(sb));
        pthread_mutex_unlock(&R.lock);
        if (taken)
            rc = cay_sandbox_remove(sb, within(10000), err);
        cay_sandbox_unref(sb);
        return rc;
    }
    snprintf(what, cap, "%s", "find");
    if ((rc = cay_client_find(W.client, within(10000), id, &sb, err)) < 0)
        return rc;
    if (kind < 5) {
        cay_result r = { .size = sizeof r };
        cay_spawn s = { .size = sizeof s, .argv = (const char *[]){ "true", NULL } };
        snprintf(what, cap, "%s", "exec");
        rc = cay_sandbox_run(sb, within(1500), &s, NULL, 0, 0, &r, err);
        if (rc == 0)
            cay_result_clear(&r);
        if (rc == CAY_ETIMEOUT)
            rc = 0; /* it was paused meanwhile: the command waits for the thaw */
    } else if (kind < 7) {
        snprintf(what, cap, "%s", "pause");
        rc = cay_sandbox_pause(sb, within(10000), err);
    } else if (kind < 9) {
        snprintf(what, cap, "%s", "resume");
        rc = cay_sandbox_resume(sb, within(10000), err);
    } else {
        snprintf(what, cap, "%s", "remove");
        rc = cay_sandbox_remove(sb, within(10000), err);
        pthread_mutex_lock(&R.lock);
        if (!strcmp(R.id[slot], id))
            R.id[slot][0] = 0;
        pthread_mutex_unlock(&R.lock);
    }
    cay_sandbox_unref(sb);
    return rc;
}

static void *hand(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    while (!R.stop) {
        cay_err err = CAY_ERR_INIT;
        char what[16];
        int rc = one_call(&seed, what, sizeof what, &err);
        __atomic_add_fetch(&R.calls, 1, __ATOMIC_RELAXED);
        if (!defined(rc) && __atomic_add_fetch(&R.bad, 1, __ATOMIC_RELAXED) < 6)
            breach("%s gives %s: %s", what, cay_code_name(rc), err.msg);
    }
    return NULL;
}

static int any(const cay_info *info, void *arg)
{
    note("listed: %s is %s", info->id, cay_state_name(info->state));
    ++*(int *)arg;
    return 0;
}

static void s77_races(void)
{
    enum { HANDS = 50 };
    cay_err err = CAY_ERR_INIT;
    pthread_t t[HANDS];
    int n = 0;
    for (uintptr_t i = 0; i < HANDS; i++)
        pthread_create(&t[i], NULL, hand, (void *)(i + 1));
    nap(many(60000));
    R.stop = true;
    for (int i = 0; i < HANDS; i++)
        pthread_join(t[i], NULL);
    note("%lu calls", R.calls);
    for (int i = 0; i < 4; i++) {
        cay_sandbox *sb = NULL;
        if (R.id[i][0] && cay_client_find(W.client, within(5000), R.id[i], &sb, &err) == 0)
            box_remove(sb);
    }
    cay_client_list(W.client, within(5000), NULL, any, &n, &err);
    CHECK(n == 0, "%d sandboxes are listed that nobody owns", n);
}

typedef struct user {
    cay_sandbox *sb;
    int kind;
    int64_t ended;
    int rc;
    char msg[256];
} user;

static void *use(void *arg)
{
    user *u = arg;
    cay_err err = CAY_ERR_INIT;
    cay_result r = { .size = sizeof r };
    cay_spawn s = { .size = sizeof s,
                    .argv = (const char *[]){ "sleep", "30", NULL },
                    .tty = u->kind == 1 };
    if (u->kind < 2) {
        u->rc = cay_sandbox_run(u->sb, within(20000), &s, NULL, 0, 0, &r, &err);
        if (u->rc == 0) {
            u->rc = strcmp(r.exit.reason, "exit") ? CAY_EGONE : 0;
            cay_result_clear(&r);
        }
    } else if (u->kind == 2) {
        static char block[1 << 16];
        cay_upload *up = NULL;
        u->rc = cay_file_open_write(u->sb, within(5000), "big", NULL, &up, &err);
        int64_t end = now_ms() + 15000;
        while (u->rc == 0 && now_ms() < end && write(cay_upload_fd(up), block, sizeof block) > 0)
            nap(1);
        if (u->rc == 0)
            u->rc = cay_upload_commit(up, within(5000), &err);
    } else {
        do
            u->rc = cay_file_put(u->sb, within(5000), "small", "x", 1, NULL, &err);
        while (u->rc == 0);
    }
    u->ended = now_ms();
    snprintf(u->msg, sizeof u->msg, "%s", err.msg);
    return NULL;
}

static void s78_removed_in_use(void)
{
    enum { USERS = 4 };
    cay_sandbox *sb = box_new(NULL);
    user u[USERS];
    pthread_t t[USERS];
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < USERS; i++) {
        u[i] = (user){ .sb = cay_sandbox_ref(sb), .kind = i };
        pthread_create(&t[i], NULL, use, &u[i]);
    }
    nap(500);
    int64_t start = now_ms();
    box_remove(sb);
    CHECK(now_ms() - start <= soon(2000), "the removal took %lld ms",
          (long long)(now_ms() - start));
    for (int i = 0; i < USERS; i++) {
        pthread_join(t[i], NULL);
        CHECK(u[i].ended - start <= soon(2000), "use %d ended %lld ms after the removal", i,
              (long long)(u[i].ended - start));
        CHECK(u[i].rc == CAY_EGONE || u[i].rc == CAY_ENOENT || u[i].rc == CAY_ESTATE,
              "use %d gives %s: %s", i, cay_code_name(u[i].rc), u[i].msg);
        cay_sandbox_unref(u[i].sb);
    }
}

const attack life_attacks[] = {
    { "S-71", "a killed keeper loses nothing", ALL, "hold-fds", NULL, s71_keeper_killed },
    { "S-72", "killed at random moments", ALL, NULL,
      "many small steps; the kill matrix takes each apart", s72_killed_anywhere },
    { "S-73", "a damaged record, a torn log", ALL, NULL,
      "the checksum of records has no switch: the reader would misread its own log", s73_store },
    { "S-73b", "a full disk", ALL, NULL, "no one check: every write of ours may fail and says so",
      s73_full },
    { "S-74", "a newer store is refused, a new keeper takes over", ALL, "hold-fds", NULL,
      s74_upgrade },
    { "S-75", "another boot", ALL, NULL,
      "two checks, boot id and start time, of which each is enough", s75_boot },
    { "S-76", "what is not ours stays", ALL, NULL,
      "only names from the own journal and store are touched; there is no check to leave out",
      s76_restraint },
    { "S-77", "many hands on the same sandboxes", ALL, NULL,
      "no single switch: the order of every transition is the defence", s77_races },
    { "S-78", "removed while in use", ALL, NULL,
      "the end of its processes ends every call; there is no step of its own", s78_removed_in_use },
    { 0 },
};
