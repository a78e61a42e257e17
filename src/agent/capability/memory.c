/* SPDX-License-Identifier: Apache-2.0 */
/* What earlier runs learnt: read into the instructions, recorded as runs end, made into memories
 * afterwards. */
#include "memory.h"
#include "output.h"
#include <agent/trace.h>

typedef struct bound {
    cay__kit k;
    cay__memory *m;
    cay_model *model;
} bound;

static cay__memory_at locate_memory(const bound *b)
{
    return (cay__memory_at){ .m = b->m,
                             .run = b->k.run,
                             .sb = b->k.sb,
                             .call = cay_run_call(b->k.run),
                             .root = b->k.root,
                             .user = b->k.user };
}

static int read_summary(const bound *b, char **text, size_t *len)
{
    cay__memory_at at = locate_memory(b);
    cay_err err = CAY_ERR_INIT;
    cay__span *span = cay__span_sandbox(CAY_STEAL(at.run),
                                        "memory.read_summary"); /* which is all there is to tell */
    int rc = cay__memory_read(&at, b->m->memories, "memory_summary.md", text, len, &err);
    cay__span_end(span, CAY_IF(rc < 0 && rc != CAY_ENOENT, &err));
    return rc;
}

static int write_instructions(void *arg, char **out, cay_err *err)
{
    const bound *b = arg;
    CAY_AUTOFREE char *text = NULL;
    CAY_AUTOBUF cut = CAY__BUF(1 << 20);
    cay__buf t = CAY__BUF(2 << 20);
    uint64_t before;
    size_t len = 0;
    if (!b->m->o.read || read_summary(b, &text, &len) < 0 || !len)
        return 0;
    cay__truncate(text, len, CAY__MEMORY_SUMMARY_TOKENS, &cut, &before);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    cay__buf_fmt(&t, cay__memory_read_prompt, b->m->memories);
#pragma GCC diagnostic pop
    cay__buf_str(&t, b->m->o.live_update ? cay__memory_live_prompt : cay__memory_fixed_prompt);
    cay__buf_fmt(&t, "\n--- begin of memory_summary.md ---\n%s\n--- end of memory_summary.md ---",
                 cut.data);
    *out = t.data;
    return 0;
}

static void close_memory(void *self);

/* Calls fn for each memory of the run that works in this one's sandbox, in order, itself among
 * them; ends when it is not 0. */
static int each_memory(const bound *b, int (*fn)(const bound *b, const bound *other, void *arg),
                       void *arg)
{
    for (const cay__seat *s = b->k.run->seats; s; s = s->next)
        CAY_EACH_OF(it, s->caps, s->ncaps) {
            const bound *other = it->bound;
            int rc = 0;
            if (other && it->cap->ops->close == close_memory &&
                !strcmp(cay_sandbox_id(other->k.sb), cay_sandbox_id(b->k.sb)))
                rc = fn(b, other, arg);
            if (rc)
                return rc;
        }
    return 0;
}

static bool same_text(const char *a, const char *b)
{
    return !strcmp(CAY_OR(a, ""), CAY_OR(b, ""));
}

static bool same_making(const cay__memory *a, const cay__memory *b)
{
    return a->o.max_raw == b->o.max_raw && a->o.phase_one == b->o.phase_one &&
           a->o.phase_two == b->o.phase_two && a->o.phase_two_turns == b->o.phase_two_turns &&
           same_text(a->extra, b->extra) && same_text(a->store, b->store) &&
           a->o.keeper_self == b->o.keeper_self;
}

/* Files of two layouts do not mix, and those of one are made in one way. */
static int check_other(const bound *b, const bound *other, void *err)
{
    const cay__memory *m = b->m, *o = other->m;
    bool memories = !strcmp(m->memories, o->memories), sessions = !strcmp(m->sessions, o->sessions);
    if (m == o || (!memories && !sessions))
        return 0;
    if (memories != sessions)
        return cay_fail_why(err, CAY_EINVAL, "memory_config_invalid",
                            "two memories in one sandbox share %s/ and not their other directory: "
                            "give them both, or two of their own",
                            memories ? m->memories : m->sessions);
    if (m->o.generate && o->o.generate && !same_making(m, o))
        return cay_fail_why(err, CAY_EINVAL, "memory_config_invalid",
                            "two memories in one sandbox make %s/ with different options: give "
                            "both agents one capability",
                            m->memories);
    return 0;
}

static int find_first(const bound *b, const bound *other, void *arg)
{
    if (!other->m->o.generate || strcmp(other->m->sessions, b->m->sessions) != 0)
        return 0;
    *(const bound **)arg = other;
    return 1;
}

/* One line for one part of a run, however many agents remember there. */
static bool is_recorder(const bound *b)
{
    const bound *first = b;
    each_memory(b, find_first, &first);
    return b->m->o.generate && first == b;
}

static void queue_rollout(cay__memory *m, const char *sandbox, const char *id)
{
    pthread_mutex_lock(&m->lock);
    cay__rollout_job **end = &m->jobs;
    bool there = false;
    for (; *end; end = &(*end)->next)
        there = there || (!strcmp((*end)->sandbox, sandbox) && !strcmp((*end)->id, id));
    if (!there) {
        cay__rollout_job *j = cay__alloc(sizeof *j);
        CAY_COPY(j->sandbox, sandbox);
        CAY_COPY(j->id, id);
        *end = j;
    }
    pthread_mutex_unlock(&m->lock);
}

static int record_rollout(const cay__memory_at *at, const cay_rollout *r, cay_err *err)
{
    cay__span *span = cay__span_sandbox(at->run, "memory.enqueue_rollout");
    cay__span_data(span, "rollout_id", json_string(r->id));
    int rc = cay__memory_record(at, r, err);
    cay__span_close(span, rc, err);
    if (rc == 0)
        queue_rollout(at->m, cay_sandbox_id(at->sb), r->id);
    return rc;
}

static int finish_capability(void *arg, const cay_rollout *r, cay_err *err)
{
    bound *b = arg;
    unsigned made;
    const cay__memory_at at = locate_memory(b);
    if (!is_recorder(b))
        return 0;
    CAY_TRY(record_rollout(&at, r, err));
    if (!cay__memory_keeps(b->m) || !strcmp(r->state, "interrupted"))
        return 0; /* it goes on, or its sandbox stays: cay_memory_flush() */
    if (b->m->o.background) {
        cay__memory_later(b->m, b->k.sb, b->k.root, b->k.user, b->model,
                          cay__run_give_sandbox(b->k.run, b->k.sb));
        return 0;
    }
    int rc = cay__memory_make(&at, b->model, &made, err);
    int kept = cay__memory_keep(&at, CAY_IF(rc == 0, err));
    CAY_TRY(rc);
    return kept;
}

int cay__memory_of(const cay_capability *c, cay__memory **out, cay_err *err)
{
    *out = cay__capability_self(c, "memory");
    if (*out)
        return 0;
    return cay_fail(err, CAY_EINVAL, "this capability is not memory");
}

int cay_memory_flush(cay_capability *memory, cay_sandbox *sb, cay_model *model,
                     const cay_call *call, unsigned *made, cay_err *err)
{
    cay__memory_at at = { .sb = sb, .call = call };
    unsigned n = 0;
    CAY_AUTOFREE char *root = NULL;
    CAY_TRY(cay__memory_of(memory, &at.m, err));
    CAY_TRY(cay__workdir_of(sb, call, &root, err));
    at.root = root;
    int rc = cay__memory_make(&at, model, &n, err);
    if (made)
        *made = n;
    if (rc == 0 && cay__memory_keeps(at.m))
        return cay__memory_keep(&at, err);
    return rc;
}

int cay_memory_rollout(cay_capability *memory, cay_sandbox *sb, const cay_call *call, char dst[32],
                       cay_err *err)
{
    cay__memory_at at = { .sb = sb, .call = call };
    CAY_AUTOFREE char *root = NULL;
    char id[24], name[32];
    CAY_TRY(cay__memory_of(memory, &at.m, err));
    if (!at.m->o.generate || (!sb && !cay__memory_keeps(at.m)))
        return cay_fail_why(
            err, CAY_EINVAL, "memory_config_invalid",
            "a rollout is recorded with generate, in a sandbox or in a store of the memory");
    cay__id_make(id, 'r');
    CAY_FORMAT(name, "rollout-%s", id);
    if (sb)
        CAY_TRY(cay__workdir_of(sb, call, &root, err));
    at.root = root;
    CAY_TRY(cay__memory_begin(&at, name, err));
    memcpy(dst, name, sizeof name);
    return 0;
}

static int start_capability(void *self, const cay_scope_info *scope, void **out, cay_err *err)
{
    bound *b = cay__kit_begin(sizeof *b, scope);
    b->m = self;
    b->model = scope->model;
    const cay__memory_at at = locate_memory(b);
    int rc = each_memory(b, check_other, err);
    if (rc == 0 && cay__memory_keeps(b->m))
        rc = cay__memory_fetch(&at, err);
    if (rc < 0)
        cay__kit_stop(b);
    else
        *out = b;
    return rc;
}

static void close_keeper(const cay_memory_options *o)
{
    if (o->keeper && o->keeper->close)
        o->keeper->close(o->keeper_self);
}

static void close_memory(void *self)
{
    cay__memory *m = self;
    cay__memory_later_end(m);
    CAY_EACH_LINK_SAFE(job, m->jobs)
        free(job);
    pthread_mutex_destroy(&m->lock);
    pthread_mutex_destroy(&m->keeping);
    pthread_cond_destroy(&m->idle);
    close_keeper(&m->o);
    free(m->memories);
    free(m->sessions);
    free(m->extra);
    free(m->store);
    free(m);
}

static const char *const needs_shell[] = { "shell", NULL }, *const needs_both[] = { "shell",
                                                                                    "filesystem",
                                                                                    NULL };
#define OPS(n)                                                                                     \
    {                                                                                              \
        .size = sizeof(cay_capability_ops), .name = "memory", .needs = (n),                        \
        .start = start_capability, .stop = cay__kit_stop, .instructions = write_instructions,      \
        .finish = finish_capability, .close = close_memory                                         \
    }
static const cay_capability_ops writes = OPS(NULL), reads = OPS(needs_shell),
                                updates = OPS(needs_both);

static bool is_relative_path(const char *p)
{
    return *p && *p != '/' && *p != '.' && !strstr(p, "..") && strlen(p) < 200 &&
           p[strlen(p) - 1] != '/' && !strchr(p, '\n');
}

static int check_options(const cay_memory_options *o, const char *memories, const char *sessions,
                         cay_err *err)
{
    const struct {
        bool wrong;
        const char *want;
    } rows[] = {
        { !o->read && !o->generate, "choose read, generate or both" },
        { !is_relative_path(memories) || !is_relative_path(sessions) || !strcmp(memories, sessions),
          "its directories are two, below the workspace" },
        { o->max_raw > 4096, "max_raw is at most 4096" },
        { !!o->store + !!o->database + !!o->remote + !!o->keeper > 1,
          "choose one of store, database, remote and keeper" },
        { o->remote && !o->service, "a remote store is reached by a service: give one" },
        { o->keeper && (!o->keeper->list || !o->keeper->get || !o->keeper->put),
          "a keeper has list, get and put" },
    };
    CAY_EACH(row, rows)
        if (row->wrong)
            return cay_fail_why(err, CAY_EINVAL, "memory_config_invalid", "memory: %s", row->want);
    return 0;
}

int cay_cap_memory(const cay_memory_options *given, cay_capability **out, cay_err *err)
{
    cay_memory_options o;
    cay_memory_store kept;
    cay_model_settings one, two;
    CAY_TRY(cay__spec_take(&o, sizeof o, given, "cay_memory_options", err));
    CAY_TRY(cay__spec_take(&kept, sizeof kept, o.keeper, "cay_memory_store", err));
    CAY_TRY(cay__spec_take(&one, sizeof one, o.phase_one_settings, "cay_model_settings", err));
    CAY_TRY(cay__spec_take(&two, sizeof two, o.phase_two_settings, "cay_model_settings", err));
    o.keeper = CAY_IF(o.keeper, &kept);
    const char *memories = CAY_OR(o.memories_dir, "memories"),
               *sessions = CAY_OR(o.sessions_dir, "sessions");
    int rc = check_options(&o, memories, sessions, err);
    if (rc == 0 && o.database) {
        rc = cay__memory_db(o.database, &o.keeper_self, err);
        o.keeper = CAY_IF(rc == 0, &cay__memory_db_store);
    }
    if (rc == 0 && o.remote) {
        o.keeper_self = cay__memory_remote(o.service, o.remote, o.remote_auth);
        o.keeper = &cay__memory_remote_store;
    }
    if (rc < 0) {
        close_keeper(&o);
        return rc;
    }
    cay__memory *m = cay__alloc(sizeof *m);
    m->o = o;
    m->one = one;
    m->two = two;
    if (o.keeper) {
        m->own = *o.keeper;
        m->o.keeper = &m->own;
    }
    m->memories = cay__strdup(memories);
    m->sessions = cay__strdup(sessions);
    m->extra = cay__strdup_if(o.extra_prompt);
    m->store = cay__strdup_if(o.store);
    pthread_mutex_init(&m->lock, NULL);
    pthread_mutex_init(&m->keeping, NULL);
    pthread_cond_init(&m->idle, NULL);
    m->late = (cay_err)CAY_ERR_INIT;
    const cay_capability_ops *ops = &writes;
    if (o.read && o.live_update)
        ops = &updates;
    else if (o.read)
        ops = &reads;
    *out = cay_capability_new(ops, m);
    return 0;
}

cay_tokens cay_memory_usage(const cay_capability *memory)
{
    cay__memory *m = cay__capability_self(memory, "memory");
    if (!m)
        return (cay_tokens){ 0 };
    pthread_mutex_lock(&m->lock);
    cay_tokens u = m->usage;
    pthread_mutex_unlock(&m->lock);
    return u;
}
