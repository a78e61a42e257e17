/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attack MODE DIR BUILD [CASE…]     run cases as TAP; MODE is root, range or single
 * attack list                       the cases and the switch that removes each defence
 *
 * Started by tests/attack/run inside `alone`, with a tmpfs on DIR.
 */
#include "attack.h"
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

static const attack *const themes[] = { ns_attacks,  fs_attacks,     proc_attacks, sys_attacks,
                                        res_attacks, life_attacks,   cli_attacks,  clock_attacks,
                                        net_attacks, egress_attacks, sudo_attacks };
enum { CASE_SECONDS = 900, SKIPPED = 77 }; /* a tenth of it in the ordinary run */

static const struct {
    const char *name, *user;
    unsigned bit;
} modes[] = { { "root", NULL, ROOT },
              { "range", "cay-range", RANGE },
              { "single", "cay-single", SINGLE } };

static int run(const char *const *argv, const char *out)
{
    int status = -1, pid = fork();
    if (pid == 0) {
        int fd = out ? open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;
        if (fd >= 0)
            dup2(fd, 1);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A build tree may lie where the user of the mode cannot look: the programs come along. */
static bool bring(const char *build)
{
    static const char *const files[] = { "cay-keeper",      "cay",
                                         "cay-full",        "cay-local",
                                         "src/libcay.so.0", "tests/attack/probe",
                                         "cay-egress" };
    mkdir(W.bin, 0755);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char from[600], to[400];
        const char *base = strrchr(files[i], '/');
        snprintf(from, sizeof from, "%s/%s", build, files[i]);
        snprintf(to, sizeof to, "%s/%s", W.bin, base ? base + 1 : files[i]);
        if (!strcmp(files[i], "cay-egress") && access(from, X_OK) < 0)
            continue; /* who needs it skips */
        if (run((const char *[]){ "cp", "-L", "--", from, to, NULL }, NULL) != 0) {
            printf("Bail out! %s is missing\n", from);
            return false;
        }
    }
    return true;
}

/* Every process one pid namespace below: all sandboxes, parked ones too. */
static bool power_cut(void)
{
    DIR *d = opendir("/proc");
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[300], text[8192], *ns;
        unsigned a, b;
        snprintf(path, sizeof path, "/proc/%s/status", e->d_name);
        if (atoi(e->d_name) > 1 && host_get(path, text, sizeof text) &&
            (ns = strstr(text, "\nNSpid:")) && sscanf(ns, "\nNSpid: %u %u", &a, &b) == 2)
            kill(atoi(e->d_name), SIGKILL);
    }
    return d && closedir(d) == 0;
}

/* Another user of the host, at a socket whose directories and mode would let him in: is he refused?
 */
static bool stranger_refused(const char *path)
{
    static const struct {
        uint32_t magic;
        uint16_t version, type;
        uint32_t tail, spare;
        uint32_t hello[10];
    } ask = { .magic = 0x31796163u, .version = 1, .type = 1, .hello = { 1 } };
    struct sockaddr_un sa = { .sun_family = AF_UNIX };
    char answer[512];
    int status = -1, pid = fork();
    if (pid == 0) {
        int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        struct timeval most = { 3, 0 };
        snprintf(sa.sun_path, sizeof sa.sun_path, "%.107s", path);
        setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
        if (setgroups(0, NULL) < 0 || setgid(65533) < 0 || setuid(65533) < 0 ||
            connect(s, (struct sockaddr *)&sa, sizeof sa) < 0)
            _exit(2); /* not even there: the case shows nothing */
        if (send(s, &ask, sizeof ask, MSG_NOSIGNAL) < 0)
            _exit(0);
        ssize_t n = recv(s, answer, sizeof answer, 0);
        _exit(n > 0 || (n < 0 && errno == EAGAIN));
    }
    waitpid(pid, &status, 0);
    return status == 0;
}

static bool serve(const char *ask)
{
    char path[400];
    if (sscanf(ask, "mount %399s", path) == 1)
        return mount("cay-attack", path, "tmpfs", 0, "mode=777") == 0;
    if (sscanf(ask, "small %399s", path) == 1)
        return mount("cay-attack", path, "tmpfs", 0, "mode=777,size=24m") == 0;
    if (sscanf(ask, "umount %399s", path) == 1)
        return umount2(path, MNT_DETACH) == 0;
    if (sscanf(ask, "next-pid %399s", path) == 1)
        return host_put("/proc/sys/kernel/ns_last_pid", path);
    if (sscanf(ask, "stranger %399s", path) == 1)
        return stranger_refused(path);
    if (!strcmp(ask, "power-cut"))
        return power_cut();
    if (sscanf(ask, "kill %399s", path) == 1)
        return atoi(path) > 1 && kill(atoi(path), SIGKILL) == 0;
    if (sscanf(ask, "stop %399s", path) == 1)
        return atoi(path) > 1 && kill(atoi(path), SIGSTOP) == 0;
    return false;
}

static void become_user(void)
{
    if (W.user && (initgroups(W.user, W.gid) < 0 || setgid(W.gid) < 0 || setuid(W.uid) < 0))
        give_up("become %s: %s", W.user, strerror(errno));
    prctl(PR_SET_DUMPABLE, 1); /* setuid(2) took our own /proc/self from us */
    setenv("CAY_HOME", W.home, 1);
    setenv("XDG_RUNTIME_DIR", W.run, 1);
    setenv("CAY_LIBEXEC", W.bin, 1);
    setenv("LD_LIBRARY_PATH", W.bin, 1);
    setenv("CAY_ATTACK_SECRET", SECRET, 1); /* must not be found inside */
    setenv("CAY_FAULT_HITS", W.clock_file, 1);
    if (chdir(W.dir) < 0)
        give_up("%s: %s", W.dir, strerror(errno));
}

/* What the case made and did not remove. */
static int remove_one(const cay_info *info, void *arg)
{
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb = NULL;
    (void)arg;
    if (cay_client_find(W.client, within(5000), info->id, &sb, &err) < 0)
        return 0;
    box_remove(sb);
    return 0;
}

static int child(const attack *a)
{
    cay_err err = CAY_ERR_INIT;
    sigjmp_buf out;
    become_user();
    W.client = service_open();
    W.out = &out;
    if (sigsetjmp(out, 0) == 0)
        a->run();
    W.out = NULL;
    cay_client_list(W.client, within(10000), NULL, remove_one, NULL, &err);
    cay_client_close(W.client);
    return W.failed ? 1 : W.skipped ? SKIPPED : 0;
}

static int parent(int pid, int sock)
{
    int status = -1;
    int64_t end = now_ms() + many(CASE_SECONDS) * 1000;
    for (;;) {
        char ask[600];
        struct pollfd p = { sock, POLLIN, 0 };
        poll(&p, 1, 100);
        ssize_t n = p.revents & POLLIN ? recv(sock, ask, sizeof ask - 1, MSG_DONTWAIT) : 0;
        if (n > 0) {
            ask[n] = 0;
            (void)!send(sock, serve(ask) ? "y" : "n", 1, MSG_NOSIGNAL);
        }
        if (waitpid(pid, &status, WNOHANG) == pid)
            break;
        if (now_ms() > end) {
            printf("#   BREACH: still not done after %u s\n", many(CASE_SECONDS));
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            return 1;
        }
    }
    if (WIFSIGNALED(status))
        printf("#   BREACH: the driver died by signal %d\n", WTERMSIG(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* Of what is left only the first lines: one sandbox is a hundred of them. */
static int judge(const char *verb, const char *build)
{
    char tool[600], file[400], boxes[400], run_dir[400], said[400];
    snprintf(tool, sizeof tool, "%s/tests/support/leftovers", build);
    snprintf(file, sizeof file, "%s/leftovers", W.dir);
    snprintf(boxes, sizeof boxes, "%s/sandboxes", W.home);
    snprintf(run_dir, sizeof run_dir, "%s", W.sockets);
    snprintf(said, sizeof said, "%s/said", W.dir);
    fflush(stdout);
    /* It ends without giving its memory back, which is no finding of a build with sanitizers. */
    int rc = run((const char *[]){ "env", "ASAN_OPTIONS=detect_leaks=0", tool, verb, file, boxes,
                                   run_dir, NULL },
                 said);
    FILE *f = fopen(said, "re");
    char line[300];
    for (int i = 0; f && i < 12 && fgets(line, sizeof line, f); i++)
        printf("#   %s", line);
    if (f)
        fclose(f);
    return rc;
}

/* 0, 1 or SKIPPED. */
static int one_case(const attack *a, const char *build)
{
    int sock[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) < 0)
        return 1;
    fflush(stdout);
    int pid = fork();
    if (pid == 0) {
        close(sock[0]);
        W.host = sock[1];
        int rc = child(a);
        fflush(stdout);
        _exit(rc);
    }
    close(sock[1]);
    int verdict = parent(pid, sock[0]);
    close(sock[0]);
    keeper_kill(SIGTERM);
    if (build && judge("after", build) != 0) {
        printf("#   BREACH: something is left\n");
        verdict = 1;
    }
    return verdict;
}

static bool make_clock(void)
{
    snprintf(W.clock_file, sizeof W.clock_file, "%s/clock", W.dir);
    int fd = open(W.clock_file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    void *p = fd < 0 || fchmod(fd, 0666) < 0 || ftruncate(fd, 4096) < 0
                  ? MAP_FAILED
                  : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    W.clock = p;
    return p != MAP_FAILED;
}

static bool set_up(const char *mode, const char *dir)
{
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        if (!strcmp(modes[i].name, mode)) {
            W.mode = modes[i].bit;
            W.user = geteuid() == 0 ? modes[i].user : NULL;
        }
    struct passwd *pw = W.user ? getpwnam(W.user) : getpwuid(geteuid());
    if (!W.mode || !pw) {
        printf("Bail out! no mode or user for %s\n", mode);
        return false;
    }
    W.uid = pw->pw_uid;
    W.gid = pw->pw_gid;
    snprintf(W.dir, sizeof W.dir, "%s", dir);
    snprintf(W.home, sizeof W.home, "%s/home", dir);
    snprintf(W.run, sizeof W.run, "%s/run", dir);
    snprintf(W.bin, sizeof W.bin, "%s/bin", dir);
    umask(022);
    mkdir(W.home, 0700);
    mkdir(W.run, 0700);
    chmod(W.dir, 01777);
    if (geteuid() == 0 && W.user &&
        (chown(W.home, W.uid, W.gid) < 0 || chown(W.run, W.uid, W.gid) < 0))
        return false;
    /* As root the sockets are in /run/cay: ours alone, in this mount namespace. */
    if (W.mode == ROOT && (mkdir("/run/cay", 0755) == 0 || errno == EEXIST) &&
        mount("tmpfs", "/run/cay", "tmpfs", 0, "mode=700") < 0) {
        perror("/run/cay");
        return false;
    }
    return make_clock();
}

/* The one directory below this that is ours: named by the state directory. */
static void find_sockets(const char *base)
{
    DIR *d = opendir(base);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            snprintf(W.sockets, sizeof W.sockets, "%.300s/%.40s", base, e->d_name);
    if (d)
        closedir(d);
}

/* Templates, locks, logs and directories for sockets are made by the first sandbox and stay: not a
 * leak of any case. */
static void first_sandbox(void)
{
    cay_create local = { .size = sizeof local, .provider = "local" };
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb = NULL;
    size_t removed;
    box_remove(box_new(NULL));
    if (cay_client_create(W.client, within(20000), &local, &sb, &err) < 0)
        give_up("create at level 0: %s", err.msg);
    box_remove(sb);
    cay_client_gc(W.client, within(10000), &removed, &err); /* opens every provider */
}

static int list(void)
{
    for (size_t i = 0; i < sizeof themes / sizeof *themes; i++)
        for (const attack *a = themes[i]; a->id; a++)
            printf("%s\t%s\t%s\t%u\t%s\n", a->id, a->mutants ? a->mutants : "-", a->title, a->modes,
                   a->why ? a->why : "");
    return 0;
}

static bool asked(const attack *a, int n, char **ids)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(ids[i], a->id))
            return true;
    return n == 0;
}

int main(int argc, char **argv)
{
    static const attack warm = { .id = "", .title = "", .run = first_sandbox };
    int n = 0, bad = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 2 && !strcmp(argv[1], "list"))
        return list();
    if (argc < 4) {
        fprintf(stderr, "usage: attack MODE DIR BUILD [CASE…] | attack list\n");
        return 2;
    }
    if (!set_up(argv[1], argv[2]) || !bring(argv[3]))
        return 1;
    if (one_case(&warm, NULL) != 0) {
        printf("Bail out! no sandbox can be made\n");
        return 1;
    }
    char runs[400];
    snprintf(runs, sizeof runs, "%s/cay", W.mode == ROOT ? "/run" : W.run);
    find_sockets(runs);
    for (size_t i = 0; i < sizeof themes / sizeof *themes; i++)
        for (const attack *a = themes[i]; a->id; a++) {
            if (!(a->modes & W.mode) || !asked(a, argc - 4, argv + 4))
                continue;
            int64_t t = now_ms();
            judge("before", argv[3]);
            int verdict = one_case(a, argv[3]);
            printf("%s %d - %s %s (%lld ms)%s\n",
                   verdict == 0 || verdict == SKIPPED ? "ok" : "not ok", ++n, a->id, a->title,
                   (long long)(now_ms() - t), verdict == SKIPPED ? " # SKIP here" : "");
            bad += verdict != 0 && verdict != SKIPPED;
        }
    printf("1..%d\n", n);
    return bad || !n;
}
