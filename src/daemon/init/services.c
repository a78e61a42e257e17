/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Services: commands that init starts by itself, looks after and starts again. They live on when
 * every keeper and client is killed, because nobody but init knows them: what a keeper is told is a
 * copy.
 *
 * A service is one process to the outside, with one pipe for each stream, through all its restarts;
 * init holds both ends of the pipes. A sub-reaper stands in front of each run, so that what
 * daemonises is still the service's, and all of it can be ended.
 */
#include "services.h"
#include "plan.h"
#include <cay/services.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define BACK_FIRST 100
#define BACK_MOST  30000
#define STEADY_MS  10000 /* who ran that long begins with a short pause again */
#define FAILS      3     /* looks in a row until it counts as unhealthy */
#define LOOK_FIRST 1     /* ms between two looks until it is ready, doubled up to … */
#define LOOK_MOST  250
#define KILL_AGAIN 200
#define ASKERS     16

enum {
    HOLD_ASKED = 1,
    HOLD_TURN = 2,
    HOLD_START = 4,
    HOLD_END = 8
}; /* by a keeper that freezes; while the root is changed; until START of all; for good */

typedef struct service {
    cay_g_service d;
    const char *blob, *check; /* in the config */
    cay_g_told t;
    gproc *g;         /* NULL: it has no process to the outside */
    int io[2];        /* write ends of its streams */
    bool runs, again; /* a run of it is alive; it is to be started once it is stopped */
    int check_pid;    /* a health command that runs, or 0 */
    int64_t due, check_until, began; /* ms of cay__now_ms(); due 0: nothing is to be done */
    uint32_t pause, step, fails;
} service;

static struct {
    service *list;
    unsigned n, hold;
    bool changed;
    int askers[ASKERS];
    unsigned next;
} services;
static const char *const words[] = { "waiting", "starting", "ready",    "unhealthy", "backoff",
                                     "done",    "failed",   "stopping", "stopped" };

/* To who asked and still listens. One that does not read, or went away, is forgotten: nothing here
 * waits. */
static bool send_state(int fd, const cay_g_told *t)
{
    return send(fd, t, sizeof *t, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof *t;
}

static void broadcast_state(service *u)
{
    CAY_EACH_OF(asker, services.askers, ASKERS)
        if (*asker >= 0 && !send_state(*asker, &u->t))
            cay__close_fd(asker);
}

/* One more that listens; the oldest makes room. */
static void listen_to(int *fd)
{
    bool ok = true;
    for (service *u = services.list; u < services.list + services.n && ok; u++)
        ok = send_state(*fd, &u->t);
    if (!send_state(*fd, &(cay_g_told){ .place = UINT32_MAX }) || !ok || !services.n)
        return;
    int *slot = &services.askers[services.next++ % ASKERS];
    cay__close_fd(slot);
    *slot = CAY_STEAL_FD(*fd);
}

static void tell_keeper(const char *name, const char *word, int code)
{
    cay_g_result r = { .pid = code };
    CAY_COPY(r.proc, name);
    CAY_COPY(r.step, word);
    init.ops->tell(CAY_G_UNITED, &r, sizeof r, NULL, 0);
}

static void set_state(service *u, cay_service_state state, const char *reason)
{
    u->t.state = state;
    u->t.since_ms = cay__clock_ms();
    CAY_COPY(u->t.reason, reason);
    services.changed = true;
    broadcast_state(u);
    tell_keeper(u->d.name, words[state], CAY_MAX(u->t.code, 0));
}

void services_tell(void)
{
    if (services.n || init.sudo)
        tell_keeper("", "", 0);
}

static bool open_streams(service *u)
{
    if (u->g)
        return true;
    char id[CAY_WIRE_ID] = "";
    int out[2] = { -1, -1 }, err[2] = { -1, -1 };
    cay__id_make(id, 'p');
    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(err, O_CLOEXEC) < 0 ||
        !(u->g = init.ops->proc_new(id))) {
        cay__close_fds(out, 2);
        cay__close_fds(err, 2);
        return false;
    }
    gproc *g = u->g;
    g->service = (uint8_t)(1 + (u - services.list));
    g->fds[1] = out[0], u->io[0] = out[1];
    g->fds[2] = err[0], u->io[1] = err[1];
    cay_g_spawn *m = &g->st.spawn;
    *m = (cay_g_spawn){ .flags = CAY_SPAWN_UNIT | u->d.flags,
                        .argc = u->d.argc,
                        .envc = u->d.envc,
                        .blob = u->d.blob,
                        .started_ms = cay__clock_ms() };
    memcpy(m->proc, id, sizeof m->proc);
    memcpy(g->st.exit.proc, id, sizeof id);
    CAY_COPY(m->tag, u->d.name);
    CAY_COPY(m->title, u->d.title);
    memcpy(u->t.proc, id, sizeof u->t.proc);
    return true;
}

/* It is not going to be started again by itself: readers of its output come to an end. */
static void close_streams(service *u, int status)
{
    cay__close_fds(u->io, 2);
    if (!u->g)
        return;
    gproc *g = u->g;
    u->g = NULL;
    g->service = 0;
    init.ops->proc_ended(g, status, NULL);
}

static void check_end(service *u)
{
    if (u->check_pid) {
        tree_signal(u->check_pid, SIGKILL, true);
        u->check_pid = 0; /* reaped as anybody's */
    }
}

static void again_later(service *u, int code, const char *why)
{
    bool again =
        u->d.restart == CAY_RESTART_ALWAYS || (u->d.restart == CAY_RESTART_ON_FAILURE && code);
    u->t.code = code;
    u->t.pid = 0;
    if (again) {
        int64_t now = cay__now_ms();
        if (!u->pause || (u->began && now - u->began > STEADY_MS))
            u->pause = BACK_FIRST;
        else
            u->pause = CAY_MIN(2 * u->pause, (uint32_t)BACK_MOST);
        u->t.wait_ms = u->pause;
        u->due = now + u->pause;
        set_state(u, CAY_SERVICE_BACKOFF, why);
        return;
    }
    u->due = 0;
    set_state(u, code ? CAY_SERVICE_FAILED : CAY_SERVICE_DONE, why);
    close_streams(u, code << 8);
}

static const char *start_failure(const char *step, int sys)
{
    if (!strcmp(step, "user") && sys == EPERM)
        return "its user is not mapped here";
    if (!strcmp(step, "user"))
        return "no such user";
    if (sys == ENOENT || sys == ENOTDIR)
        return "no such command or directory";
    if (sys == EACCES)
        return "it cannot be executed";
    return "it could not be started";
}

static void start_service(service *u)
{
    const char *step = "request";
    cay_g_spawn m = { .flags = u->d.flags | CAY_GS_REAPER, .argc = u->d.argc, .envc = u->d.envc };
    plan p = {
        .m = &m, .io = { -1, -1, -1 }, .group = init.tenant[0], .into = init.tenant[1], .slave = -1
    };
    bool back = u->t.state == CAY_SERVICE_BACKOFF;
    u->began = cay__now_ms();
    u->t.ready_ms = u->t.ready_after_ms = u->t.wait_ms = 0;
    u->t.restarts += back;
    bool fresh = !u->g;
    if (!open_streams(u)) {
        again_later(u, 126, "no room for its streams");
        return;
    }
    gproc *g = p.g = u->g;
    p.io[1] = u->io[0];
    p.io[2] = u->io[1];
    g->stray = false;
    int pid = init.ops->start(&p, u->blob, u->d.blob, &(int){ -1 }, &step);
    if (pid < 0) {
        int sys = errno;
        if (fresh) { /* nobody was told of it */
            init.ops->proc_drop(g);
            u->g = NULL;
            close_streams(u, 0);
            u->t.proc[0] = 0;
        }
        again_later(u, sys == ENOENT || sys == ENOTDIR ? 127 : 126, start_failure(step, sys));
        return;
    }
    u->runs = true;
    u->t.pid = g->st.exit.pid = pid;
    u->fails = 0;
    u->step = LOOK_FIRST;
    init.nshims++;
    init.pids[g - init.procs] = g->shim;
    init.ops->proc_tell(g);
    u->due = 0;
    if (u->d.check_argc || u->d.tcp) {
        u->due = u->began + 1;
        set_state(u, CAY_SERVICE_STARTING, "");
        return;
    }
    u->t.ready_ms = cay__clock_ms();
    set_state(u, CAY_SERVICE_READY, "");
}

static void record_check(service *u, bool good)
{
    int64_t now = cay__now_ms();
    bool was = u->t.state == CAY_SERVICE_READY;
    if (good) {
        u->fails = 0;
        u->due = now + u->d.interval_ms;
        if (!u->t.ready_ms) {
            u->t.ready_ms = cay__clock_ms();
            u->t.ready_after_ms = (uint32_t)(now - u->began);
        }
        if (!was)
            set_state(u, CAY_SERVICE_READY, "");
        return;
    }
    if (u->t.state == CAY_SERVICE_STARTING) {
        u->due = now + u->step;
        u->step = CAY_MIN(2 * u->step, (uint32_t)LOOK_MOST);
        return;
    }
    u->due = now + CAY_MIN(u->d.interval_ms, 1000u);
    if (++u->fails >= FAILS && was)
        set_state(u, CAY_SERVICE_UNHEALTHY,
                  u->d.check_argc ? "its health command fails" : "its port takes no connection");
}

/* On loopback the answer is there as soon as the question is asked; who has no room for one more is
 * not ready. */
static bool can_connect(int family, uint16_t port)
{
    struct sockaddr_in a4 = { .sin_family = AF_INET,
                              .sin_port = htons(port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct sockaddr_in6 a6 = { .sin6_family = AF_INET6,
                               .sin6_port = htons(port),
                               .sin6_addr = { .s6_addr = { [15] = 1 } } };
    CAY_AUTOFD s = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0)
        return false;
    int rc;
    if (family == AF_INET)
        rc = connect(s, (struct sockaddr *)&a4, sizeof a4);
    else
        rc = connect(s, (struct sockaddr *)&a6, sizeof a6);
    struct pollfd p = { s, POLLOUT, 0 };
    return rc == 0 ||
           (errno == EINPROGRESS && poll(&p, 1, 0) == 1 && cay__sock_get(s, SO_ERROR) == 0);
}

static void run_check(service *u)
{
    if (!u->d.check_argc) {
        record_check(u, can_connect(AF_INET, u->d.tcp) || can_connect(AF_INET6, u->d.tcp));
        return;
    }
    const char *step;
    CAY_AUTOFD null = open("/dev/null", O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    cay_g_spawn m = { .flags = u->d.check_flags, .argc = u->d.check_argc, .envc = u->d.check_envc };
    plan p = { .m = &m,
               .io = { null, null, null },
               .group = init.tenant[0],
               .into = init.tenant[1],
               .slave = -1 };
    int pid = -1;
    if (null >= 0)
        pid = init.ops->start(&p, u->check, u->d.check, &(int){ -1 }, &step);
    if (pid < 0) {
        record_check(u, false);
        return;
    }
    u->check_pid = pid;
    u->check_until = cay__now_ms() + u->d.timeout_ms;
}

static void text_end(int status, char *out, size_t cap)
{
    char n[21];
    bool sig = WIFSIGNALED(status);
    cay__str_join(out, cap, sig ? "killed by signal " : "ended with ",
                  cay__str_u64(n, (uint64_t)(sig ? WTERMSIG(status) : WEXITSTATUS(status))), NULL);
}

void service_died(unsigned at, int status)
{
    service *u = &services.list[at - 1];
    char why[40];
    bool stopping = u->t.state == CAY_SERVICE_STOPPING;
    u->runs = false;
    u->t.pid = 0;
    u->g->st.exit.pid = 0;
    check_end(u);
    text_end(status, why, sizeof why);
    int code;
    if (WIFSIGNALED(status))
        code = 128 + WTERMSIG(status);
    else
        code = WEXITSTATUS(status);
    if (stopping) {
        u->due = 0;
        u->t.code = code;
        set_state(u, u->again ? CAY_SERVICE_WAITING : CAY_SERVICE_STOPPED, "");
        if (!u->again)
            close_streams(u, status);
        u->again = false;
    } else if (services.hold & HOLD_TURN) { /* it was ended so that the root can change */
        u->due = 0;
        set_state(u, CAY_SERVICE_WAITING, "");
    } else {
        again_later(u, code, why);
    }
}

/* The first process ended and others of it live: it went into the background, or it broke and they
 * are useless. */
void service_main_ended(unsigned at, int status)
{
    service *u = &services.list[at - 1];
    if (!u->g->st.exit.pid)
        return;
    u->g->st.exit.pid = u->t.pid = 0;
    if (status)
        init.ops->proc_signal(u->g, SIGKILL, 2);
    else
        broadcast_state(u);
}

bool service_reaped(int pid, int status)
{
    CAY_EACH_OF(u, services.list, services.n)
        if (u->check_pid == pid) {
            u->check_pid = 0;
            record_check(u, status == 0);
            return true;
        }
    return false;
}

static bool may_start(const service *u)
{
    for (unsigned i = 0; i < services.n; i++)
        if ((u->d.after >> i & 1) && services.list[i].t.state != CAY_SERVICE_READY &&
            services.list[i].t.state != CAY_SERVICE_DONE)
            return false;
    return true;
}

static void step_service(service *u, int64_t now)
{
    switch (u->t.state) {
    case CAY_SERVICE_WAITING:
        if (!u->runs && may_start(u))
            start_service(u);
        break;
    case CAY_SERVICE_BACKOFF:
        if (now >= u->due)
            start_service(u);
        break;
    case CAY_SERVICE_STOPPING:
        if (now >= u->due && u->runs) {
            init.ops->proc_signal(u->g, SIGKILL, 2);
            u->due = now + KILL_AGAIN;
        }
        break;
    case CAY_SERVICE_STARTING:
    case CAY_SERVICE_READY:
    case CAY_SERVICE_UNHEALTHY:
        if (u->check_pid && now >= u->check_until) {
            check_end(u);
            record_check(u, false);
        } else if (!u->check_pid && u->due && now >= u->due) {
            run_check(u);
        }
        break;
    default: break;
    }
}

void services_step(void)
{
    do {
        services.changed = false;
        for (service *u = services.list; u < services.list + services.n && !services.hold; u++)
            step_service(u, cay__now_ms());
    } while (services.changed && !services.hold);
}

int wait_until(int64_t at)
{
    int64_t left = at - cay__now_ms();
    if (at == INT64_MAX)
        return -1;
    if (left < 0)
        return 0;
    return (int)CAY_MIN(left, 60000);
}

/* -1, which has no end, is the greatest unsigned number. */
int min_timeout(int a, int b)
{
    return (int)CAY_MIN((unsigned)a, (unsigned)b);
}

int services_wait(void)
{
    int64_t first = INT64_MAX;
    for (service *u = services.list; u < services.list + services.n && !services.hold; u++) {
        int64_t at;
        if (u->check_pid)
            at = u->check_until;
        else
            at = u->due;
        if (at && at < first)
            first = at;
    }
    return wait_until(first);
}

static void stop_service(service *u, bool again)
{
    check_end(u);
    u->again = again;
    if (!u->runs) {
        u->due = 0;
        set_state(u, again ? CAY_SERVICE_WAITING : CAY_SERVICE_STOPPED, "");
        if (!again)
            close_streams(u, 0);
        return;
    }
    if (u->t.state != CAY_SERVICE_STOPPING) {
        u->due = cay__now_ms() + u->d.stop_ms;
        set_state(u, CAY_SERVICE_STOPPING, "");
        init.ops->proc_signal(u->g, SIGTERM, 2);
    }
}

static void begin_by_hand(service *u)
{
    if (u->t.state == CAY_SERVICE_STOPPING) {
        u->again = true;
    } else if (!u->runs) {
        u->pause = 0;
        u->t.restarts = 0;
        set_state(u, CAY_SERVICE_WAITING, "");
    }
}

void services_ask(const cay_g_proc *m, int *fds, int nfds)
{
    if (m->a == CAY_GU_HOLD) {
        services.hold |= HOLD_ASKED;
        tell_keeper("", "", 0);
    }
    if (!m->proc[0] && m->a == CAY_GU_START)
        services.hold &= ~(unsigned)HOLD_START;
    CAY_EACH_OF(u, services.list, services.n) {
        if (m->proc[0] && strncmp(m->proc, u->d.name, sizeof m->proc))
            continue;
        if (m->a == CAY_GU_START)
            begin_by_hand(u);
        else if (m->a == CAY_GU_STOP || m->a == CAY_GU_RESTART)
            stop_service(u, m->a == CAY_GU_RESTART);
    }
    if (nfds == 1)
        listen_to(fds);
}

void services_release(void)
{
    services.hold &= HOLD_START | HOLD_END;
}

void services_end(void)
{
    services.hold |= HOLD_END;
}

void services_turn(void)
{
    if (services.n || init.sudo)
        services.hold |= HOLD_TURN;
}

bool services_held(void)
{
    return services.hold & (HOLD_ASKED | HOLD_TURN | HOLD_END);
}

static bool read_bytes(const char **at, const char *end, void *to, size_t n)
{
    if ((size_t)(end - *at) < n)
        return false;
    memcpy(to, *at, n);
    *at += n;
    return true;
}

static bool take_unit(service *u, const char **at, const char *end)
{
    if (!read_bytes(at, end, &u->d, sizeof u->d) || !memchr(u->d.name, 0, sizeof u->d.name) ||
        !memchr(u->d.title, 0, sizeof u->d.title) || u->d.blob > (size_t)(end - *at) ||
        u->d.check > (size_t)(end - *at) - u->d.blob || u->d.argc > u->d.blob ||
        u->d.envc > u->d.blob || u->d.check_argc > u->d.check || u->d.check_envc > u->d.check)
        return false;
    u->d.flags &= CAY_SPAWN_SHELL;
    u->d.check_flags &= CAY_SPAWN_SHELL;
    u->blob = *at;
    u->check = *at + u->d.blob;
    *at += u->d.blob + u->d.check;
    u->io[0] = u->io[1] = -1;
    u->t = (cay_g_told){ .state = CAY_SERVICE_WAITING,
                         .code = -1,
                         .port = u->d.port,
                         .place = (uint32_t)(u - services.list),
                         .since_ms = cay__clock_ms() };
    memcpy(u->t.name, u->d.name, sizeof u->t.name);
    return true;
}

uint32_t services_config(const char *at, size_t len)
{
    const char *end = at + len;
    cay_g_services head;
    if (services.list || !read_bytes(&at, end, &head, sizeof head) || head.n > CAY_SERVICES_MAX)
        return 0;
    /* The list, and behind it what it points to. */
    size_t size = head.n * sizeof *services.list;
    char *mem = MAP_FAILED;
    if (head.n)
        mem = mmap(NULL, size + len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mem == MAP_FAILED)
        return head.flags;
    memcpy(mem + size, at, (size_t)(end - at));
    services.list = (service *)(void *)mem;
    end = mem + size + (end - at);
    at = mem + size;
    while (services.n < head.n && take_unit(&services.list[services.n], &at, end))
        services.n++;
    CAY_EACH_OF(asker, services.askers, ASKERS)
        *asker = -1;
    if (head.flags & CAY_GUF_WAIT)
        services.hold = HOLD_START;
    else
        services.hold = 0;
    return head.flags;
}
