/* SPDX-License-Identifier: Apache-2.0 */
/* Pause, stop, deadlines, waiting: the engine holds the processes, pid 1 the clock. */
#include "box.h"
#include <poll.h>

static int post_action(cay__docker_box *b, const cay_call *call, const char *what, cay_err *err)
{
    CAY_AUTOBUF path = CAY__BUF(256);
    cay__engine *e;
    CAY_TRY(cay__docker_engine(b->d, &e, err));
    cay__docker_at(b, &path, what);
    int rc = cay__engine_ask(e, call, "POST", path.data, NULL, NULL, err);
    if (rc == CAY_ENOENT)
        return cay_fail_why(err, CAY_EGONE, "sandbox_gone", "the container of %s is gone",
                            b->base.id);
    return rc;
}

/* Why it is as it is: pid 1's own word where it had the time to write one. What it says is the
 * tenant's word, too, and only shown. */
static void take_reason(cay__docker_box *b, const local_meta *m, const cay__docker_view *v)
{
    const char *why;
    if (v->state != CAY_STOPPED)
        why = m->reason;
    else if (v->oom)
        why = "oom";
    else if (m->state == CAY_STOPPED && *m->reason)
        why = m->reason;
    else
        why = "exited";
    size_t n = 0;
    for (; why[n] && n + 1 < sizeof b->reason; n++) {
        if ((why[n] >= 'a' && why[n] <= 'z') || why[n] == '_' || why[n] == '-')
            b->reason[n] = why[n];
        else
            b->reason[n] = '_';
    }
    b->reason[n] = 0;
}

/* Is it held still by its group's freezer? -1: that cannot be seen from here. */
static int read_freezer(int pid)
{
    char path[64], text[4096], at[4200], word[64];
    CAY_FORMAT(path, "/proc/%d/cgroup", pid);
    if (cay__fd_read_file(AT_FDCWD, path, text, sizeof text) <= 0)
        return -1;
    for (char *line = text, *next; line && *line; line = next) {
        if ((next = strchr(line, '\n')))
            *next++ = 0;
        char *v1 = strstr(line, ":freezer:");
        bool v2 = !strncmp(line, "0::", 3);
        if (!v1 && !v2)
            continue;
        if (v1 ? !CAY_JOIN(at, "/sys/fs/cgroup/freezer", v1 + 9, "/freezer.state")
               : !CAY_JOIN(at, "/sys/fs/cgroup", line + 3, "/cgroup.events"))
            return -1;
        if (cay__fd_read_file(AT_FDCWD, at, word, sizeof word) > 0) {
            if (v1)
                return strncmp(word, "THAWED", 6) != 0;
            return strstr(word, "frozen 1") != NULL;
        }
    }
    return -1;
}

/* Without the engine, which may be slow or away: pid 1, the one that the engine named, answers, its
 * group is not frozen, and what the walls are was noted. Only what this cannot tell is asked. */
static bool look_without(cay__docker_box *b, bool away, cay__docker_view *v)
{
    if (b->walls.far)
        return false;
    CAY_AUTOFD sock = -1;
    int pid = 0;
    if (cay__docker_reach(b, &sock, &pid, NULL) < 0 || pid != atomic_load(&b->pid) ||
        (!away && (!b->d->known || read_freezer(pid) != 0)))
        return false;
    *v = (cay__docker_view){ .state = CAY_RUNNING, .pid = pid };
    return true;
}

static int inspect_container(cay__docker_box *b, const cay_call *call, cay__docker_view *v,
                             cay_err *err)
{
    if (look_without(b, false, v))
        return 0;
    int rc = cay__docker_look(b, call, v, NULL, err);
    if (rc == CAY_EUPSTREAM && look_without(b, true, v))
        return 0;
    CAY_TRY(rc);
    return 0;
}

/* Of one that is reached by the engine: what its pid 1 says of its deadlines, by the wall clock. */
static void ask_deadlines(cay__docker_box *b, const cay_call *asked, cay_box_status *out)
{
    const cay_call soon = cay__call_within(asked, 3000), *call = &soon;
    cay_m_box m = cay__link_of(b->base.id);
    cay__reply r = { 0 };
    CAY_AUTOFD sock = -1;
    if (cay__link_begin(&b->link, call, CAY__LINK_ASK(CAY_MSG_LIST, m), &r, &sock, NULL) < 0)
        return;
    out->deadline_ms = r.box.deadline_ms;
    out->idle_ms = r.box.idle_ms;
    if (r.box.state == CAY_PAUSED)
        out->state = CAY_PAUSED;
    if (cay__link_next(sock, call, CAY_MSG_BOX, &r, NULL) == 0 && r.type == CAY_MSG_END)
        cay__link_give(&b->link, CAY_STEAL_FD(sock));
}

int cay__docker_status(void *box, const cay_call *call, cay_box_status *out, cay_err *err)
{
    cay__docker_box *b = box;
    cay__docker_view v;
    local_meta m = { 0 };
    const cay__engine_info *info = &b->d->info;
    CAY_TRY(inspect_container(b, call, &v, err));
    if (!b->d->known)
        CAY_TRY(cay__engine_meet(b->d->engine, call, &info, err));
    if (b->walls.far ? v.state != CAY_STOPPED || !cay__docker_far_meta(b, call, &m)
                     : cay__local_meta_read(b->ctl, &m, NULL) < 0)
        m = (local_meta){ .state = CAY_RUNNING };
    if (v.state == CAY_RUNNING && m.state == CAY_PAUSED) /* by pid 1, at its deadline */
        v.state = CAY_PAUSED;
    take_reason(b, &m, &v);
    *out = (cay_box_status){ .size = sizeof *out,
                             .state = v.state,
                             .reason = b->reason,
                             .level = cay__docker_level(info, &b->walls),
                             .pid = v.pid,
                             .deadline_ms = v.state == CAY_STOPPED ? 0 : cay__local_deadline_ms(&m),
                             .idle_ms = m.idle_ms,
                             .path = "" };
    if (!strcmp(b->walls.network, "none"))
        out->network = "off";
    else if (*b->walls.network)
        out->network = "all";
    if (b->walls.far)
        out->pid = 0;
    if (b->walls.far && v.state == CAY_RUNNING)
        ask_deadlines(b, call, out);
    out->walls = b->layers;
    out->nwalls = cay__docker_layers(info, &b->walls, b->layers, CAY_LEN(b->layers));
    return 0;
}

/* pid 1 writes it down first: frozen it could not, and others would wait for an answer that does
 * not come. */
int cay__docker_pause(void *box, const cay_call *call, cay_err *err)
{
    cay__docker_box *b = box;
    cay__docker_view v;
    CAY_TRY(cay__docker_look(b, call, &v, NULL, err));
    if (v.state == CAY_PAUSED)
        return 0;
    CAY_TRY(cay__served_ask(b, call, CAY_MSG_PAUSE, NULL, err));
    cay__sessions_drop(&b->base.sessions);
    int rc = post_action(b, call, "/pause", err);
    if (rc < 0)
        cay__served_ask(b, call, CAY_MSG_RESUME, NULL, NULL);
    return rc;
}

int cay__docker_resume(void *box, const cay_call *call, cay_err *err)
{
    cay__docker_box *b = box;
    cay__docker_view v;
    CAY_TRY(cay__docker_look(b, call, &v, NULL, err));
    if (v.state == CAY_STOPPED)
        return cay_fail_why(err, CAY_ESTATE, "sandbox_stopped", "sandbox %s is stopped",
                            b->base.id);
    if (v.state == CAY_PAUSED)
        CAY_TRY(post_action(b, call, "/unpause", err));
    return cay__served_ask(b, call, CAY_MSG_RESUME, NULL, err);
}

int cay__docker_stop(void *box, const cay_call *call, cay_err *err)
{
    cay__docker_box *b = box;
    cay__docker_view v;
    CAY_TRY(cay__docker_find(b, call, &v, NULL, err));
    if (v.state == CAY_STOPPED)
        return 0;
    if (v.state == CAY_PAUSED) /* a frozen one hears no signal */
        CAY_TRY(post_action(b, call, "/unpause", err));
    cay__sessions_drop(&b->base.sessions);
    return post_action(b, call, "/stop?t=5", err);
}

/* How long one question for the end may take. Podman's may not hear of an end that came before it:
 * its state tells. */
#define ASK_MS 1000

/* The engine says when it ends, and then what became of it. */
int cay__docker_wait(void *box, const cay_call *call, cay_state *state, cay_err *err)
{
    cay__docker_box *b = box;
    for (;;) {
        cay__docker_view v;
        int rc = cay__docker_look(b, call, &v, NULL, err);
        if (rc == CAY_EGONE || (rc == 0 && v.state == CAY_STOPPED)) {
            *state = CAY_STOPPED;
            if (rc < 0)
                *state = CAY_GONE;
            return 0;
        }
        CAY_TRY(rc);
        CAY_AUTOBUF path = CAY__BUF(256);
        cay__docker_at(b, &path, "/wait?condition=not-running");
        cay_call part = cay__call_within(call, ASK_MS);
        rc = cay__engine_ask(b->d->engine, &part, "POST", path.data, NULL, NULL, err);
        if (rc < 0 && rc != CAY_ENOENT && rc != CAY_EUPSTREAM && rc != CAY_ETIMEOUT)
            return rc;
        CAY_TRY(cay__call_check(call, "wait", err));
        if (rc == CAY_EUPSTREAM) /* the engine went away: it may come back, and tells then */
            poll(NULL, 0, 100);
    }
}
