/* SPDX-License-Identifier: Apache-2.0 */
/* S-01 to S-07, S-15: processes, namespaces, gaining rights. */
#include "attack.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

static void s01_process_view(void)
{
    cay_sandbox *sb = box_new(NULL), *other = box_new(NULL);
    prctl(PR_SET_NAME, "cay-attacker");
    cay_proc *p = inside_start(other, NULL, "idle", "3", NULL); /* a neighbour with processes */
    inside(sb, NULL, "pids", "cay-attacker", NULL);
    if (W.mode & MANY_IDS)
        inside(sb, "root", "pids", "cay-attacker", NULL);
    cay_proc_unref(p);
    box_remove(other);
    box_remove(sb);
}

static void s02_leftovers(void)
{
    cay_sandbox *sb = box_new(NULL);
    inside(sb, NULL, "leave", "cay-stays", NULL);
    CHECK(host_count("cay-stays") == 8, "%d of 8 stay before the removal", host_count("cay-stays"));
    int64_t t = now_ms();
    box_remove(sb);
    while (host_count("cay-stays") && now_ms() - t < soon(3000))
        nap(20);
    CHECK(now_ms() - t <= soon(1000), "they were there for %lld ms after the removal",
          (long long)(now_ms() - t));
    CHECK(host_count("cay-stays") == 0, "%d processes outlive their sandbox",
          host_count("cay-stays"));
}

static void s03_pid1(void)
{
    char reason[64];
    cay_sandbox *sb = box_new(NULL);
    inside(sb, NULL, "pid1", NULL);
    if (W.mode & MANY_IDS)
        inside(sb, "root", "pid1", NULL);
    CHECK(command(sb, NULL, "true", NULL, 0) == 0, "no command runs after the attack on pid 1");
    bool yes = false;
    cay_err err = CAY_ERR_INIT;
    CHECK(cay_file_exists(sb, within(5000), "/tmp/probe", &yes, &err) == 0 && yes,
          "files cannot be reached: %s", err.msg);
    /* The other reason: something on the host kills it. */
    int pid = box_init_pid(sb);
    CHECK(as_host("kill %d", pid), "pid %d could not be killed", pid);
    int64_t t = now_ms();
    cay_state s;
    while ((s = box_state(sb, reason, sizeof reason)) == CAY_RUNNING && now_ms() - t < soon(5000))
        nap(20);
    CHECK(s == CAY_STOPPED, "a sandbox without init reads as %s", cay_state_name(s));
    CHECK(now_ms() - t <= soon(1000), "it was noticed after %lld ms", (long long)(now_ms() - t));
    CHECK(reason[0], "stopped without a reason");
    box_remove(sb);
}

/* Who stops init's children may hold init itself, but nobody else, and no call for longer than it
 * was given. */
static void s03_held(void)
{
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb = box_new(NULL), *other = box_new(NULL);
    cay_spawn plain = { .size = sizeof plain, .argv = (const char *[]){ "true", NULL } },
              limited = plain;
    limited.timeout_ms = 500;
    cay_proc *p = inside_start(sb, NULL, "stopper", "20000", NULL);
    unsigned fine = 0, late = 0;
    for (int i = 0; i < 12; i++) {
        cay_result r = { .size = sizeof r };
        int64_t t = now_ms();
        int rc = cay_sandbox_run(sb, within(400), i % 2 ? &limited : &plain, NULL, 0, 0, &r, &err);
        CHECK(now_ms() - t <= soon(1400), "a call with a deadline of 400 ms took %lld ms",
              (long long)(now_ms() - t));
        CHECK(rc == 0 || rc == CAY_ETIMEOUT || rc == CAY_EBUSY, "a command gives %s: %s",
              cay_code_name(rc), err.msg);
        fine += rc == 0;
        late += rc == CAY_ETIMEOUT;
        if (rc == 0)
            cay_result_clear(&r);
        bool yes;
        t = now_ms();
        rc = cay_file_exists(sb, within(200), "/tmp/probe", &yes, &err);
        CHECK(now_ms() - t <= soon(1200), "a look at a file with a deadline of 200 ms took %lld ms",
              (long long)(now_ms() - t));
        CHECK(rc == 0 || rc == CAY_ETIMEOUT || rc == CAY_EBUSY || rc == CAY_EGONE,
              "a look at a file gives %s: %s", cay_code_name(rc), err.msg);
        t = now_ms();
        CHECK(command(other, NULL, "true", NULL, 0) == 0 && now_ms() - t < soon(1000),
              "the neighbour's command took %lld ms", (long long)(now_ms() - t));
    }
    note("%u commands worked, %u were late", fine, late);
    cay_proc_unref(p);
    /* the next keeper is not held either */
    keeper_kill(SIGKILL);
    int64_t t = now_ms();
    CHECK(command(other, NULL, "true", NULL, 0) == 0, "the neighbour is lost with the keeper");
    CHECK(now_ms() - t < soon(3000), "a new keeper took %lld ms beside a held init",
          (long long)(now_ms() - t));
    t = now_ms();
    box_remove(sb);
    CHECK(now_ms() - t <= soon(2000), "the removal took %lld ms", (long long)(now_ms() - t));
    box_remove(other);
}

/* A local user who comes to the keeper's socket, where somebody opened the way. */
static void s45_stranger(void)
{
    char sock[500], dir[3][400];
    mode_t was[3];
    struct stat st;
    cay_sandbox *sb = box_new(NULL);
    CHECK(stat(W.sockets, &st) == 0 && (st.st_mode & 077) == 0,
          "the directory of the sockets has mode %o", st.st_mode);
    snprintf(sock, sizeof sock, "%s/keeper.sock", W.sockets);
    if (chmod(sock, 0777) < 0)
        give_up("%s: %s", sock, strerror(errno));
    for (int i = 0; i < 3; i++) { /* it, and the two above */
        snprintf(dir[i], sizeof dir[i], "%s", i ? dir[i - 1] : W.sockets);
        if (i)
            *strrchr(dir[i], '/') = 0;
        was[i] = stat(dir[i], &st) == 0 ? st.st_mode & 07777 : 0;
        (void)!chmod(dir[i], was[i] | 0755);
    }
    CHECK(as_host("stranger %s", sock), "the keeper answers another user");
    CHECK(command(sb, NULL, "true", NULL, 0) == 0, "the keeper serves nobody any more");
    for (int i = 0; i < 3; i++)
        (void)!chmod(dir[i], was[i]);
    box_remove(sb);
}

static void s04_userns(void)
{
    cay_sandbox *sb = box_new(NULL);
    inside(sb, NULL, "userns", NULL);
    if (W.mode & MANY_IDS)
        inside(sb, "root", "userns", NULL);
    box_remove(sb);
}

static void s05_setns(void)
{
    static const char *const kinds[] = { "mnt", "net", "pid", "ipc", "uts", "user", "cgroup" };
    char id[7][64];
    const char *argv[10] = { "/tmp/probe", "setns" };
    for (size_t i = 0; i < 7; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/self/ns/%s", kinds[i]);
        ssize_t n = readlink(path, id[i], sizeof id[i] - 1);
        id[i][n < 0 ? 0 : n] = 0;
        argv[2 + i] = id[i];
    }
    cay_sandbox *sb = box_new(NULL);
    inside_spec(sb, &(cay_spawn){ .argv = argv });
    if (W.mode & MANY_IDS)
        inside_spec(sb, &(cay_spawn){ .argv = argv, .user = "root" });
    box_remove(sb);
}

static void s06_gain(void)
{
    cay_sandbox *sb = box_new(NULL);
    inside(sb, NULL, "rights", "0", "1000", NULL);
    inside(sb, NULL, "flags", NULL);
    if (W.mode & MANY_IDS) {
        /* CHOWN DAC_OVERRIDE FOWNER FSETID KILL SETGID SETUID SETPCAP NET_BIND_SERVICE */
        inside(sb, "root", "rights", "5fb", "0", NULL);
        CHECK(command(sb, "root",
                      "cp /tmp/probe /tmp/suid && chown 0:0 /tmp/suid && chmod 6755 /tmp/suid",
                      NULL, 0) == 0,
              "the set-uid file was not made");
        inside(sb, "root", "filecaps", "/tmp/suid", NULL);
    } else {
        CHECK(command(sb, NULL, "cp /tmp/probe /tmp/suid && chmod 6755 /tmp/suid", NULL, 0) == 0,
              "the set-uid file was not made");
    }
    inside_spec(
        sb, &(cay_spawn){ .argv = (const char *[]){ "/tmp/suid", "rights", "0", "1000", NULL } });
    char out[4096];
    static const char *const ways[] = { "su -c id </dev/null",      "sudo -n id",
                                        "su root -c id </dev/null", "newgrp root -c id </dev/null",
                                        "pkexec id </dev/null",     "unshare -Ur id" };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        out[0] = 0;
        command(sb, NULL, ways[i], out, sizeof out);
        CHECK(!strstr(out, "uid=0"), "%s gave %s", ways[i], out);
    }
    box_remove(sb);
}

/* What the API uploads is as inert. */
static void s15_upload(void)
{
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb = box_new(NULL);
    cay_write w = { .size = sizeof w, .mode = 06755 };
    char *data = NULL;
    size_t len = 0;
    if (cay_file_get(sb, within(5000), "/tmp/probe", 8 << 20, &data, &len, &err) < 0)
        give_up("read back: %s", err.msg);
    int rc = cay_file_put(sb, within(5000), "/tmp/up", data, len, &w, &err);
    free(data);
    if (rc < 0) {
        note("refused: %s", err.msg);
        box_remove(sb);
        return;
    }
    inside_spec(sb,
                &(cay_spawn){ .argv = (const char *[]){ "/tmp/up", "rights", "0", "1000", NULL } });
    if (W.mode & MANY_IDS)
        inside_spec(sb,
                    &(cay_spawn){ .argv = (const char *[]){ "/tmp/up", "rights", "5fb", "0", NULL },
                                  .user = "root" });
    inside(sb, NULL, "flags", NULL);
    box_remove(sb);
}

static bool host_sees_abstract(const char *tag)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    int n = snprintf(sa.sun_path + 1, sizeof sa.sun_path - 1, "cay-attack-%s", tag);
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool yes = connect(s, (struct sockaddr *)&sa,
                       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0;
    close(s);
    return yes;
}

static int host_listens(const char *tag)
{
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    int n = snprintf(sa.sun_path + 1, sizeof sa.sun_path - 1, "cay-attack-%s", tag);
    int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(s, (struct sockaddr *)&sa,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) < 0 ||
        listen(s, 5) < 0)
        give_up("listen on the host: %s", strerror(errno));
    return s;
}

static void s07_ipc(void)
{
    enum { KEY = 0x0ca7a77a };
    char inside_tag[32], host_tag[32];
    snprintf(inside_tag, sizeof inside_tag, "in-%d", getpid());
    snprintf(host_tag, sizeof host_tag, "host-%d", getpid());
    cay_sandbox *a = box_new(NULL), *b = box_new(NULL);
    cay_proc *p = inside_start(a, NULL, "ipc-make", inside_tag, NULL);
    inside(b, NULL, "ipc-find", inside_tag, NULL);
    CHECK(shmget(KEY, 4096, 0) < 0 && semget(KEY, 1, 0) < 0 && msgget(KEY, 0) < 0,
          "the host sees SysV objects of a sandbox");
    CHECK(syscall(SYS_mq_open, "cay-attack", O_RDWR, 0, NULL) < 0,
          "the host sees a queue of a sandbox");
    CHECK(!host_sees_abstract(inside_tag), "the host reaches an abstract socket of a sandbox");
    /* and the other way round */
    int shm = shmget(KEY, 4096, IPC_CREAT | 0666), s = host_listens(host_tag);
    inside(b, NULL, "ipc-find", host_tag, inside_tag, NULL);
    shmctl(shm, IPC_RMID, NULL);
    close(s);
    cay_proc_unref(p);
    box_remove(a);
    box_remove(b);
}

const attack ns_attacks[] = {
    { "S-01", "no other process is seen", ALL, "own-proc", NULL, s01_process_view },
    { "S-02", "daemons end with their sandbox", ALL, "destroy-kill", NULL, s02_leftovers },
    { "S-03", "pid 1 cannot be ended from inside, and its end is told", ALL, "init-death init-term",
      NULL, s03_pid1 },
    { "S-03b", "a held init holds nobody else", ALL, NULL,
      "nothing waits for init without a deadline; there is no one step to leave out", s03_held },
    { "S-04", "no nested namespace", ALL, "seccomp-clone max-userns", NULL, s04_userns },
    { "S-45", "the keeper answers its own user only", ALL, "peer", NULL, s45_stranger },
    { "S-05", "no namespace to join", ALL, "cgroupns", NULL, s05_setns },
    { "S-06", "exec gains no rights", ALL, "caps nosuid",
      "no_new_privs: without it neither filter nor Landlock can be installed", s06_gain },
    { "S-07", "IPC objects and abstract sockets are apart", ALL, "ipcns netns", NULL, s07_ipc },
    { "S-15", "set-uid uploads are inert", ALL, "nosuid", NULL, s15_upload },
    { 0 },
};
