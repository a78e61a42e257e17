/* SPDX-License-Identifier: Apache-2.0 */
/*
 * crash ROLE: what test_crash.sh and the soak test are made of. CAY_HOME, CAY_LIBEXEC and LEDGER
 * are in the environment.
 *
 *   base            two sandboxes that everybody uses, a command running in one, the other paused
 *   start           only makes sure that there is a keeper
 *   load N [FAULT]  N clients at once do everything; FAULT is for the first of them alone, or
 * kill:MS, its end after so long observe         what is there, for the ledger end removes every
 * sandbox signal N        sends a signal to the keeper of this state directory and waits for its
 * end faults          the fault points of a client waves N W       N sandboxes made, used and
 * removed, W at once cycles N        one after another; the keeper may grow neither in memory nor
 * in descriptors
 */
#include "../support/ledger.h"
#include <base/base.h>
#include <base/fault.h>
#include <base/fd.h>
#include <base/str.h>
#include <cay/policy.h>
#include <cay/sandbox.h>
#include <cay/client.h>
#include <cay/snapshot.h>
#include <cay/volume.h>
#include <dirent.h>
#include <poll.h>
#include <lib/provider/native/native.h>
#include <signal.h>
#include <sys/wait.h>

static cay_client *client;
static const char *me = "crash";

#define CALL (&(cay_call){ .size = sizeof(cay_call), .deadline_ms = cay__now_ms() + 20000 })

static bool ok(int rc, const cay_err *e, const char *what)
{
    if (rc < 0)
        fprintf(stderr, "%s: %s: %s\n", me, what, e->msg);
    if (rc == CAY_ETIMEOUT)
        ledger_note("bad %s hangs in %s", me, what);
    return rc >= 0;
}
#define OK(call, what)                                                                             \
    ({                                                                                             \
        cay_err e_ = CAY_ERR_INIT;                                                                 \
        cay_err *E = &e_;                                                                          \
        ok((call), E, what);                                                                       \
    })

static bool service(void)
{
    cay_open o = { .size = sizeof o, .libexec = getenv("CAY_LIBEXEC") };
    return OK(cay_client_open(&o, &client, E), "open");
}

static cay_sandbox *make(cay_create c, const char *note)
{
    cay_sandbox *sb = NULL;
    c.size = sizeof c;
    c.isolation.min_level = CAY_LEVEL_ROOTLESS; /* no stand-in */
    if (!OK(cay_client_create(client, CALL, &c, &sb, E), "create"))
        return NULL;
    if (note)
        ledger_note("ack create %s %s", cay_sandbox_id(sb), note);
    return sb;
}

static void put(cay_sandbox *sb, const char *path, size_t len)
{
    char *data = cay__alloc(len);
    for (size_t i = 0; i < len; i++)
        data[i] = (char)('a' + (i * 7 + len + (size_t)getpid()) % 26);
    uint64_t h = ledger_hash(data, len);
    ledger_note("try put %s %s %016lx", cay_sandbox_id(sb), path, h);
    if (OK(cay_file_put(sb, CALL, path, data, len, NULL, E), "put"))
        ledger_note("ack put %s %s %016lx", cay_sandbox_id(sb), path, h);
    free(data);
}

/* What it may reach, written down like a file. */
static void policy(cay_sandbox *sb, const char *mark)
{
    char text[128];
    uint64_t h = ledger_hash(text, (size_t)snprintf(text, sizeof text,
                                                    "cay-net 1\nmode rules\nrule %s%d.test\n", mark,
                                                    (int)getpid()));
    ledger_note("try put %s %%policy %016lx", cay_sandbox_id(sb), h);
    if (OK(cay_sandbox_set_policy(sb, CALL, text, NULL, E), "policy"))
        ledger_note("ack put %s %%policy %016lx", cay_sandbox_id(sb), h);
}

#define MOVE(sb, verb)                                                                             \
    do {                                                                                           \
        ledger_note("try " #verb " %s", cay_sandbox_id(sb));                                       \
        if (OK(cay_sandbox_##verb(sb, CALL, E), #verb))                                            \
            ledger_note("ack " #verb " %s", cay_sandbox_id(sb));                                   \
    } while (0)

static void take_away(cay_sandbox *sb)
{
    ledger_note("try rm %s", cay_sandbox_id(sb));
    if (OK(cay_sandbox_remove(sb, CALL, E), "remove"))
        ledger_note("ack rm %s", cay_sandbox_id(sb));
    cay_sandbox_unref(sb);
}

static cay_proc *spawn(cay_sandbox *sb, cay_spawn s)
{
    cay_proc *p = NULL;
    s.size = sizeof s;
    OK(cay_sandbox_spawn(sb, CALL, &s, &p, E), "spawn");
    return p;
}

/* All that a stream has, polled: what somebody who comes later gets. */
static uint64_t output_hash(cay_proc *p)
{
    char *all = cay__alloc(1 << 20);
    size_t n = 0, k;
    uint64_t at = 0, lost;
    bool eof = false;
    for (int i = 0; i < 2000 && !eof && n < (1 << 20) - 1; i++) {
        if (!OK(cay_proc_read(p, CALL, CAY_STDOUT, &at, all + n, (1 << 20) - n, &k, &lost, &eof, E),
                "read"))
            break;
        n += k;
        if (!k && !eof)
            poll(NULL, 0, 5);
    }
    uint64_t h = ledger_hash(all, n);
    free(all);
    return h;
}

static bool ended(cay_proc *p, cay_exit *x)
{
    *x = (cay_exit){ .size = sizeof *x };
    return OK(cay_proc_wait(p, CALL, x, E), "wait");
}

/* A command whose code and output are known beforehand. */
static void command(cay_sandbox *sb, cay_spawn s, int code, const char *out)
{
    cay_exit x;
    cay_proc *p = spawn(sb, s);
    if (p && ended(p, &x)) {
        uint64_t want = ledger_hash(out, strlen(out)), have = output_hash(p);
        if (x.code != code || want != have)
            ledger_note("bad %s: code %d (%s) for %d, output %s", s.shell, x.code, x.reason, code,
                        want == have ? "right" : "wrong");
        else
            ledger_note("ack exit %s %s %d %016lx", cay_sandbox_id(sb), cay_proc_id(p), code, want);
    }
    cay_proc_unref(p);
}

/* One that is left alone; whoever observes later finds its end. */
static void leave(cay_sandbox *sb, const char *line, int code, const char *out)
{
    cay_proc *p = spawn(sb, (cay_spawn){ .shell = line });
    if (p)
        ledger_note("ack start %s %s %d %016lx", cay_sandbox_id(sb), cay_proc_id(p), code,
                    ledger_hash(out, strlen(out)));
    cay_proc_unref(p);
}

static void fed(cay_sandbox *sb)
{
    cay_exit x;
    cay_proc *p = spawn(sb, (cay_spawn){ .shell = "cat; exit 6", .stdin_mode = CAY_STDIN_PIPE });
    if (!p)
        return;
    /* A write is never repeated by itself: when it fails nobody knows what arrived. */
    bool sent = OK(cay_proc_write(p, CALL, "abc\n", 4, E), "write");
    bool closed = OK(cay_proc_close_stdin(p, CALL, E), "close stdin");
    if (sent && closed && ended(p, &x)) {
        if (x.code != 6 || output_hash(p) != ledger_hash("abc\n", 4))
            ledger_note("bad cat: code %d (%s)", x.code, x.reason);
        else
            ledger_note("ack exit %s %s 6 %016lx", cay_sandbox_id(sb), cay_proc_id(p),
                        ledger_hash("abc\n", 4));
    }
    cay_proc_unref(p);
}

/* A command that outstays its time and, if it is stubborn, the warning too. Waited for later. */
static cay_proc *overdue(cay_sandbox *sb, bool stubborn)
{
    return spawn(sb, (cay_spawn){ .shell = stubborn ? "trap '' TERM; sleep 60 & wait; sleep 60"
                                                    : "sleep 60 & sleep 60",
                                  .timeout_ms = 60 });
}

static void timed_out(cay_proc *p)
{
    cay_exit x;
    if (p && ended(p, &x) && strcmp(x.reason, "time") != 0)
        ledger_note("bad time-out: code %d reason %s", x.code, x.reason);
    cay_proc_unref(p);
}

static int keeper_pid(void)
{
    DIR *d = opendir("/proc");
    int found = 0;
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        char path[300], text[4096];
        uint64_t pid;
        snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
        if (!cay__str_to_u64(e->d_name, &pid) ||
            cay__fd_read_file(AT_FDCWD, path, text, sizeof text) <= 0)
            continue;
        const char *slash = strrchr(text, '/'), *name = slash ? slash + 1 : text;
        if (!strcmp(name, "cay-keeper") && !strcmp(text + strlen(text) + 1, getenv("CAY_HOME")))
            found = (int)pid;
    }
    if (d)
        closedir(d);
    return found;
}

static int tell(int sig)
{
    int pid = keeper_pid();
    if (!pid)
        return 0;
    kill(pid, sig);
    for (int i = 0; i < 2000; i++) {
        if (keeper_pid() != pid)
            return 0;
        poll(NULL, 0, 5);
    }
    fprintf(stderr, "crash: the keeper does not end\n");
    return 1;
}

/* As `cay run` does it: the sandbox is asked for together with its first command. */
static cay_sandbox *make_with_command(void)
{
    cay_sandbox *sb = NULL;
    cay_create c = { .size = sizeof c };
    OK(cay__native_create_ephemeral(NULL, &c, &sb, E), "create");
    return sb;
}

static void throw_away(bool together)
{
    cay_exit x;
    cay_sandbox *sb =
        together ? make_with_command() : make((cay_create){ .life.ephemeral = true }, NULL);
    cay_proc *p = sb ? spawn(sb, (cay_spawn){ .shell = "sleep 0.1; exit 4", .tty = true }) : NULL;
    if (getenv("CAY_FAULT") && strstr(getenv("CAY_FAULT"), "client.claim"))
        tell(SIGKILL); /* the next keeper must learn whose it is */
    if (p && ended(p, &x) && x.code != 4)
        ledger_note("bad throw-away: code %d reason %s", x.code, x.reason);
    cay_proc_unref(p);
    cay_sandbox_unref(sb);
}

static bool snapshot(cay_sandbox *sb, bool quiet, char id[64])
{
    cay_snapshot *s = NULL;
    cay_snapshot_spec spec = { .size = sizeof spec, .quiet = quiet, .stop = !quiet };
    if (!OK(cay_sandbox_snapshot(sb, CALL, &spec, &s, E), "snapshot"))
        return false;
    snprintf(id, 64, "%s", s->id);
    cay_snapshot_free(s);
    return true;
}

static int discard(cay_sandbox *sb, void *arg)
{
    (void)arg;
    OK(cay_sandbox_remove(sb, CALL, E), "remove");
    return 0;
}

/* One that stays, with something in it that the ledger knows, and a fork of it. */
static void save(cay_sandbox *sb)
{
    char id[64], text[64];
    int n = snprintf(text, sizeof text, "stamp %d %lld", (int)getpid(), (long long)cay__now_ms());
    if (!OK(cay_file_put(sb, CALL, "stamp", text, (size_t)n, NULL, E), "put") ||
        !snapshot(sb, true, id))
        return;
    ledger_note("ack snap %s %016lx", id, ledger_hash(text, (size_t)n));
    OK(cay_client_fork(client, CALL, id, NULL, discard, NULL, E), "fork");
}

/* What was there when it was saved is there after the way back, and what came later is not. */
static void there_and_back(void)
{
    char id[64], other[64];
    bool late = false;
    cay_sandbox *sb = make((cay_create){ 0 }, "");
    if (!sb)
        return;
    put(sb, "before", 3000);
    bool saved = snapshot(sb, true, id);
    put(sb, "before", 3000); /* what it stands on can be written to, whatever happened */
    if (saved && OK(cay_file_put(sb, CALL, "late", "x", 1, NULL, E), "put") &&
        OK(cay_sandbox_undo(sb, CALL, id, NULL, E), "undo") &&
        OK(cay_file_exists(sb, CALL, "late", &late, E), "exists") && late)
        ledger_note("bad undo: what came after the snapshot is still there");
    put(sb, "after", 200);
    save(sb);
    cay_proc *p = spawn(sb, (cay_spawn){ .shell = "exec sleep 60" });
    if (p && snapshot(sb, false, other))
        OK(cay_snapshot_remove(client, CALL, other, NULL, E),
           "remove snapshot"); /* nobody stands on it */
    cay_proc_unref(p);
    if (saved)
        OK(cay_snapshot_remove(client, CALL, id, NULL, E), "remove snapshot");
    cay_sandbox_unref(sb);
}

/* Deep enough to be merged, by the one client that is to die over it. */
static void settle(void)
{
    char id[64];
    const char *fault = getenv("CAY_FAULT");
    cay_sandbox *sb = fault && strstr(fault, "settle.") ? make((cay_create){ 0 }, "") : NULL;
    for (int i = 0; sb && i < 36; i++)
        snapshot(sb, true, id);
    if (sb)
        put(sb, "kept", 100);
    OK(cay_client_maintain(client, CALL, E), "settle");
    cay_sandbox_unref(sb);
}

/* One that nobody built before. */
static void filled(void)
{
    char text[160];
    bool there = false;
    snprintf(text, sizeof text, "{\"entries\":{\"f\":{\"type\":\"file\",\"content\":\"%d-%lld\"}}}",
             (int)getpid(), (long long)cay__now_us());
    cay_sandbox *sb = make((cay_create){ .manifest.text = text }, NULL);
    if (sb && OK(cay_file_exists(sb, CALL, "f", &there, E), "exists") && !there)
        ledger_note("bad manifest: its file is not there");
    cay_sandbox_unref(sb);
}

static void volume(void)
{
    char name[32];
    snprintf(name, sizeof name, "v%d", (int)getpid());
    if (OK(cay_volume_create(client, CALL,
                             &(cay_volume_spec){ .size = sizeof(cay_volume_spec), .name = name },
                             E),
           "volume"))
        OK(cay_volume_remove(client, CALL, name, E), "remove volume");
}

static cay_sandbox *shared(int n)
{
    char id[64] = "";
    FILE *f = fopen(getenv("LEDGER"), "r");
    cay_sandbox *sb = NULL;
    for (int i = 0; f && i <= n; i++)
        if (fscanf(f, "ack create %63s base\n", id) != 1)
            id[0] = 0;
    if (f)
        fclose(f);
    return *id && OK(cay_client_find(client, CALL, id, &sb, E), "find") ? sb : NULL;
}

static int base(void)
{
    cay_sandbox *a = make((cay_create){ 0 }, "base"), *b = make((cay_create){ 0 }, "base");
    if (!a || !b)
        return 1;
    leave(a, "echo begun; sleep 0.4; echo done; exit 9", 9, "begun\ndone\n");
    put(a, "kept", 1000);
    put(b, "kept", 300000);
    policy(a, "base");
    leave(b, "echo asleep; sleep 0.1; exit 8", 8, "asleep\n");
    MOVE(b, pause);
    cay_sandbox_unref(a);
    cay_sandbox_unref(b);
    return 0;
}

static int run_client(int number)
{
    static char name[24], file[32];
    snprintf(name, sizeof name, "client-%d", number);
    me = name;
    if (!service())
        return 1;
    cay_sandbox *a = make((cay_create){ 0 }, ""), *all = shared(0);
    cay_sandbox *t = make((cay_create){ .life.ttl_ms = 60 }, "ttl");
    cay_proc *late = a ? overdue(a, number == 0) : NULL;
    if (a) {
        leave(a, "echo hello; sleep 0.3; echo world; exit 5", 5, "hello\nworld\n");
        put(a, "small", 100);
        command(a, (cay_spawn){ .shell = "echo out; exit 3" }, 3, "out\n");
        put(a, "small", 200);
        put(a, "large", 300000);
        policy(a, "first");
        fed(a);
        policy(a, "second");
    }
    if (all) {
        snprintf(file, sizeof file, "of-%d", number);
        put(all, file, 5000);
        command(all, (cay_spawn){ .shell = "exit 2" }, 2, "");
    }
    throw_away(false);
    throw_away(true);
    there_and_back();
    if (number == 0) /* one at a time does it, and it is to be the one that dies */
        settle();
    volume();
    filled();
    cay_sandbox *b = make((cay_create){ .limits.pids = 64 }, "");
    if (b) {
        put(b, "kept", 4000);
        policy(b, "b");
        OK(cay_sandbox_extend(b, CALL, 3600000, 0, E), "extend");
        MOVE(b, kill);
        MOVE(b, resume);
        put(b, "again", 50);
    }
    static const cay_secret key = { .name = "KEY",
                                    .source = "env:CRASH_KEY",
                                    .destination = "c.test" };
    setenv("CRASH_KEY", "a-value", 1);
    cay_sandbox *c = make((cay_create){ .net.policy = "cay-net 1\nmode rules\nrule c.test\n",
                                        .net.secrets = &key,
                                        .net.nsecrets = 1 },
                          "");
    if (c)
        take_away(c);
    timed_out(late);
    if (a) {
        MOVE(a, pause);
        MOVE(a, resume);
    }
    cay_sandbox_unref(a);
    cay_sandbox_unref(b);
    cay_sandbox_unref(all);
    cay_sandbox_unref(t);
    cay_client_close(client);
    return 0;
}

static int load(int n, char *fault)
{
    int bad = 0, first = 0, ms = -1;
    if (fault && sscanf(fault, "kill:%d", &ms) == 1)
        fault = NULL;
    for (int i = 0; i < n; i++) {
        int pid = fork();
        if (pid == 0) {
            if (fault && i == 0)
                setenv("CAY_FAULT", fault, 1);
            _exit(run_client(i));
        }
        first = i ? first : pid;
        if (fault && i == 0)
            poll(NULL, 0, 20); /* it finds no keeper, and starts one */
    }
    if (ms >= 0 && first > 0) { /* not waited for yet: the number is its own */
        poll(NULL, 0, ms);
        kill(first, SIGKILL);
    }
    for (int i = 0, status; i < n; i++)
        if (wait(&status) > 0 && WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
            bad = 1;
    return bad;
}

typedef struct seen {
    char id[64], state[16];
} seen;
static seen boxes[1024];
static size_t nboxes;

static int on_box(const cay_info *i, void *arg)
{
    (void)arg;
    if (nboxes < CAY_LEN(boxes)) {
        snprintf(boxes[nboxes].id, sizeof boxes[0].id, "%s", i->id);
        snprintf(boxes[nboxes++].state, sizeof boxes[0].state, "%s", cay_state_name(i->state));
    }
    return 0;
}

static bool list(void)
{
    nboxes = 0;
    return OK(cay_client_list(client, CALL, NULL, on_box, NULL, E), "list");
}

static void see_file(cay_sandbox *sb, const char *path)
{
    char *data = NULL;
    size_t len = 0;
    cay_err e = CAY_ERR_INIT;
    uint64_t revision = 1;
    int rc = *path != '%' ? cay_file_get(sb, CALL, path, 1 << 20, &data, &len, &e)
                          : cay_sandbox_get_policy(sb, CALL, &data, &revision, &e);
    if (rc == 0 && *path == '%')
        len = strlen(data);
    if (!revision ||
        (rc == 0 && *path == '%' && strstr(data, "mode off"))) /* none, as at its start */
        rc = CAY_ENOENT;
    if (rc == 0)
        printf("file %s %s %016lx\n", cay_sandbox_id(sb), path, ledger_hash(data, len));
    else
        printf("file %s %s %s\n", cay_sandbox_id(sb), path, rc == CAY_ENOENT ? "-" : e.msg);
    free(data);
}

static void see_exit(cay_sandbox *sb, const char *proc)
{
    cay_proc *p = NULL;
    cay_exit x;
    if (OK(cay_sandbox_attach(sb, CALL, proc, &p, E), "attach") && ended(p, &x))
        printf("exit %s %s %d %016lx\n", cay_sandbox_id(sb), proc, x.code, output_hash(p));
    cay_proc_unref(p);
}

/* A snapshot is there when a sandbox that stands on it has what was saved. */
static int see_snapshot(const cay_snapshot *s, void *arg)
{
    cay_sandbox *sb = NULL;
    char *data = NULL;
    size_t n = 0;
    (void)arg;
    cay_create c = { .size = sizeof c, .from.snapshot = s->id };
    if (!OK(cay_client_create(client, CALL, &c, &sb, E), "create from a snapshot"))
        return 0;
    if (cay_file_get(sb, CALL, "stamp", 4096, &data, &n, NULL) == 0)
        printf("snap %s %016lx\n", s->id, ledger_hash(data, n));
    free(data);
    OK(cay_sandbox_remove(sb, CALL, E), "remove");
    cay_sandbox_unref(sb);
    return 0;
}

static int observe(void)
{
    if (!list() ||
        !OK(cay_client_snapshots(client, CALL, NULL, see_snapshot, NULL, E), "snapshots"))
        return 1;
    for (size_t i = 0; i < nboxes; i++) {
        char line[512], box[64], word[256];
        cay_sandbox *sb = NULL;
        printf("box %s %s\n", boxes[i].id, boxes[i].state);
        if (!OK(cay_client_find(client, CALL, boxes[i].id, &sb, E), "find"))
            continue;
        if (strcmp(boxes[i].state, "running") != 0)
            OK(cay_sandbox_resume(sb, CALL, E), "resume");
        FILE *f = fopen(getenv("LEDGER"), "r");
        while (f && fgets(line, sizeof line, f)) {
            if (sscanf(line, "try put %63s %255s", box, word) == 2 && !strcmp(box, boxes[i].id))
                see_file(sb, word);
            if ((sscanf(line, "ack start %63s %255s", box, word) == 2 ||
                 sscanf(line, "ack exit %63s %255s", box, word) == 2) &&
                !strcmp(box, boxes[i].id) && strcmp(boxes[i].state, "stopped") != 0)
                see_exit(sb, word);
        }
        if (f)
            fclose(f);
        cay_sandbox_unref(sb);
    }
    return 0;
}

static int forget(const cay_snapshot *s, void *arg)
{
    (void)arg;
    OK(cay_snapshot_remove(client, CALL, s->id, NULL, E), "remove snapshot");
    return 0;
}

static int end(void)
{
    int bad = 0;
    if (!list())
        return 1;
    for (size_t i = 0; i < nboxes; i++) {
        cay_sandbox *sb = NULL;
        if (!OK(cay_client_find(client, CALL, boxes[i].id, &sb, E), "find") ||
            !OK(cay_sandbox_remove(sb, CALL, E), "remove"))
            bad = 1;
        cay_sandbox_unref(sb);
    }
    if (!OK(cay_client_snapshots(client, CALL, NULL, forget, NULL, E), "snapshots") ||
        !OK(cay_client_maintain(client, CALL, E), "settle"))
        bad = 1;
    return bad;
}

static int one_life(void)
{
    cay_result r = { .size = sizeof r };
    cay_spawn s = { .size = sizeof s, .shell = "echo alive; exit 7" };
    cay_sandbox *sb = service() ? make((cay_create){ 0 }, NULL) : NULL;
    int bad = !sb || !OK(cay_sandbox_run(sb, CALL, &s, NULL, 0, 0, &r, E), "run") ||
              r.exit.code != 7 || strcmp(r.out, "alive\n");
    if (sb && !OK(cay_sandbox_remove(sb, CALL, E), "remove"))
        bad = 1;
    cay_result_clear(&r);
    cay_sandbox_unref(sb);
    cay_client_close(client);
    return bad;
}

static int waves(int n, int width)
{
    int bad = 0, status;
    for (int done = 0; done < n; done += width) {
        for (int i = 0; i < width; i++)
            if (fork() == 0)
                _exit(one_life());
        for (int i = 0; i < width; i++)
            bad += wait(&status) < 0 || status != 0;
    }
    if (bad)
        ledger_note("bad %d of %d lives failed", bad, n);
    return bad != 0;
}

static void size_of_keeper(long *kb, int *fds)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%d/status", keeper_pid());
    const char *rss =
        cay__fd_read_file(AT_FDCWD, path, text, sizeof text) > 0 ? strstr(text, "RssAnon:") : NULL;
    *kb = rss ? strtol(rss + 8, NULL, 10) : 0;
    snprintf(path, sizeof path, "/proc/%d/fd", keeper_pid());
    DIR *d = opendir(path);
    for (*fds = 0; d && readdir(d);)
        ++*fds;
    if (d)
        closedir(d);
}

static int cycles(int n)
{
    long kb[2];
    int fds[2], bad = waves(50, 1);
    poll(NULL, 0, 1000);
    size_of_keeper(&kb[0], &fds[0]);
    bad |= waves(n, 1);
    poll(NULL, 0, 1000);
    size_of_keeper(&kb[1], &fds[1]);
    printf("%d cycles: keeper %ld kB then %ld kB, %d then %d descriptors\n", n, kb[0], kb[1],
           fds[0], fds[1]);
    if (kb[1] > kb[0] + kb[0] / 20 + 128 || fds[1] > fds[0] + 8)
        ledger_note("bad growth: %ld to %ld kB, %d to %d descriptors", kb[0], kb[1], fds[0],
                    fds[1]);
    return bad;
}

static int start(void)
{
    cay__native *n = NULL;
    if (!OK(cay__native_open(NULL, getenv("CAY_LIBEXEC"), &n, E), "open"))
        return 1;
    /* Asked, not only dialled: a keeper that is dying still has its socket. */
    cay_m_hello m = { .version = CAY_MSG_VERSION };
    cay__link_ask ask = { .type = CAY_MSG_HELLO, .body = &m, .len = sizeof m };
    cay__reply r = { 0 };
    OK(cay__link_call(&n->link, CALL, &ask, &r, E), "meet");
    cay__native_close(n);
    return 0;
}

#ifdef CAY_FAULTS
static void print_name(const char *name)
{
    puts(name);
}
#endif

int main(int argc, char **argv)
{
    const char *role = argc > 1 ? argv[1] : "";
    uint64_t n = 0;
    signal(SIGPIPE, SIG_IGN);
    if (argc > 2 && !cay__str_to_u64(argv[2], &n))
        role = "";
    if (!strcmp(role, "start"))
        return start();
    if (!strcmp(role, "signal"))
        return tell((int)n);
    if (!strcmp(role, "waves") && argc > 3)
        return waves((int)n, atoi(argv[3]));
    if (!strcmp(role, "cycles"))
        return cycles((int)n);
    if (!strcmp(role, "load"))
        return load((int)n, argv[3]);
#ifdef CAY_FAULTS
    if (!strcmp(role, "faults")) {
        cay__fault_list(print_name);
        return 0;
    }
#endif
    if (!strcmp(role, "base") || !strcmp(role, "observe") || !strcmp(role, "end")) {
        if (!service())
            return 1;
        int rc = role[0] == 'b' ? base() : role[0] == 'o' ? observe() : end();
        cay_client_close(client);
        return rc;
    }
    fprintf(stderr, "usage: crash base|start|load N [FAULT]|observe|end|signal N|faults\n");
    return 2;
}
