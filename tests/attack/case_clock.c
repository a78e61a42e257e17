/* SPDX-License-Identifier: Apache-2.0 */
/* S-79: the wall clock of our programs jumps while time-outs run; nobody else's does. */
#include "attack.h"
#include <signal.h>
#include <time.h>

enum { LIFE = 2000, LIMIT = 1500 };
#define SLACK soon(1000)
#define HOUR  3600000ll
#define DAY   (24 * HOUR)

/* Something that has to end by itself at a time. */
typedef struct timed {
    const char *what, *reason;
    cay_sandbox *sb;
    int pid;
    int64_t begun, due, ended;
} timed;

static void begin(timed *t, const char *what, const char *reason, const cay_create *spec)
{
    cay_err err = CAY_ERR_INIT;
    *t = (timed){ .what = what, .reason = reason };
    t->begun = now_ms();
    if (cay_client_create(W.client, within(20000), spec, &t->sb, &err) < 0)
        give_up("create for %s: %s", what, err.msg);
    t->pid = box_init_pid(t->sb);
    t->due = now_ms() + LIFE;
}

/* Asking a sandbox for its state would keep it busy: its process is looked at instead. */
static bool alive(int pid)
{
    return kill(pid, 0) == 0 || errno == EPERM;
}

static void judge_end(const timed *t, const char *jump)
{
    char reason[64];
    cay_state s = box_state(t->sb, reason, sizeof reason);
    CHECK(t->ended, "%s: %s did not come to an end", jump, t->what);
    CHECK(!t->ended || (t->ended >= t->begun + LIFE - 50 && t->ended <= t->due + SLACK),
          "%s: %s ended after %lld ms, not %d", jump, t->what, (long long)(t->ended - t->begun),
          LIFE);
    CHECK(!t->ended || (s == CAY_STOPPED && !strcmp(reason, t->reason)),
          "%s: %s reads as %s \"%s\"", jump, t->what, cay_state_name(s), reason);
}

/* People are told the end by the clock that they have now. */
static void judge_shown(const timed *t, const char *jump, int64_t ahead)
{
    cay_err err = CAY_ERR_INIT;
    cay_info *info = NULL;
    struct timespec wall;
    if (cay_sandbox_describe(t->sb, within(5000), &info, &err) < 0)
        give_up("describe: %s", err.msg);
    clock_gettime(CLOCK_REALTIME, &wall);
    int64_t shown = info->deadline_ms - (wall.tv_sec * 1000 + wall.tv_nsec / 1000000 + ahead),
            left = t->due - now_ms();
    CHECK(llabs(shown - left) <= SLACK, "%s: %s has %lld ms left, %lld are shown", jump, t->what,
          (long long)left, (long long)shown);
    cay_info_free(info);
}

static int count(const cay_info *info, void *arg)
{
    *(int *)arg += info->state == CAY_RUNNING;
    return 0;
}

/* Whoever opens the service now must not take what runs for what was left behind. */
static void others_look(const char *jump, int want)
{
    cay_err err = CAY_ERR_INIT;
    cay_client *client = service_open();
    size_t removed = 0;
    int n = 0;
    if (cay_client_gc(client, within(10000), &removed, &err) < 0 ||
        cay_client_list(client, within(10000), NULL, count, &n, &err) < 0)
        breach("%s: %s", jump, err.msg);
    CHECK(n == want && !removed, "%s: %d of %d sandboxes run, %zu were cleaned away", jump, n, want,
          removed);
    cay_client_close(client);
}

static void jump(const char *name, int64_t ahead)
{
    cay_err err = CAY_ERR_INIT;
    cay_exit end = { .size = sizeof end };
    cay_create ttl = { .size = sizeof ttl, .life.ttl_ms = LIFE },
               idle = { .size = sizeof idle, .life.idle_ms = LIFE };
    cay_create local = { .size = sizeof local, .life.ttl_ms = LIFE, .provider = "local" };
    cay_spawn s = { .size = sizeof s,
                    .argv = (const char *[]){ "sleep", "30", NULL },
                    .timeout_ms = LIMIT };
    cay_proc *limited = NULL, *sleeper = NULL;
    timed t[3];
    int n = sizeof t / sizeof *t;
    set_clock(0);
    cay_sandbox *sb = box_new(NULL);
    begin(&t[0], "a time to live", "ttl", &ttl);
    begin(&t[1], "an idle time", "idle", &idle);
    begin(&t[2], "a time to live at level 0", "ttl", &local);
    if (cay_sandbox_spawn(sb, within(5000), &s, &limited, &err) < 0)
        give_up("spawn: %s", err.msg);
    int64_t started = now_ms(), took = 0;
    s.timeout_ms = 0;
    if (cay_sandbox_spawn(sb, within(5000), &s, &sleeper, &err) < 0)
        give_up("spawn: %s", err.msg);
    set_clock(ahead);
    judge_shown(&t[0], name, ahead);
    judge_shown(&t[2], name, ahead);
    /* another limit of the same sandbox: all its timers are set again */
    if (cay_sandbox_extend(t[2].sb, within(5000), 0, 60000, &err) < 0)
        breach("%s: extend: %s", name, err.msg);
    others_look(name, n + 1);
    int64_t call = now_ms();
    int rc = cay_proc_wait(sleeper, within(700), &end, &err);
    call = now_ms() - call;
    CHECK(rc == CAY_ETIMEOUT && call >= 650 && call <= 700 + SLACK,
          "%s: a call with a deadline of 700 ms gives %d after %lld ms", name, rc, (long long)call);
    for (int left = n; (left || !took) && now_ms() - started < LIFE + SLACK + 5000; nap(5)) {
        left = 0;
        for (int i = 0; i < n; i++) {
            if (!t[i].ended && !alive(t[i].pid))
                t[i].ended = now_ms();
            left += !t[i].ended;
        }
        if (!took && cay_proc_wait(limited, within(1), &end, &err) == 0)
            took = now_ms() - started;
    }
    CHECK(took >= LIMIT - 50 && took <= LIMIT + SLACK && !strcmp(end.reason, "time"),
          "%s: a command with a limit of %d ms ended after %lld: %s", name, LIMIT, (long long)took,
          end.reason);
    for (int i = 0; i < n; i++) {
        judge_end(&t[i], name);
        box_remove(t[i].sb);
    }
    cay_proc_unref(limited);
    cay_proc_unref(sleeper);
    box_remove(sb);
}

static void s79_clock(void)
{
    if (!set_clock(0)) {
        skip("only a build with fault points can set our clock and no other");
        return;
    }
    jump("an hour ahead", HOUR);
    jump("an hour back", -HOUR);
    jump("a day ahead", DAY);
    jump("a day back", -DAY);
    set_clock(0);
}

const attack clock_attacks[] = {
    { "S-79", "the wall clock jumps", ALL, "wall-clock", NULL, s79_clock },
    { 0 },
};
