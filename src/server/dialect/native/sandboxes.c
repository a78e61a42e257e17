/* SPDX-License-Identifier: Apache-2.0 */
/* Which sandboxes there are, and what is known of each. */
#include "native.h"
#include <base/base.h>
#include <base/json.h>
#include <base/str.h>
#include <cay/snapshot.h>
#include <server/list_cache.h>
#include <string.h>

CAY_DEFINE_AUTO(cay_info, cay_info_free)

#define AT(field) offsetof(cay_info, field)

static void put_state(cay__buf *b, const void *v)
{
    const char *s = cay_state_name(*(const cay_state *)v);
    cay__buf_json(b, s, strlen(s));
}

/* Of one that does not run it is not known yet, and `none` would be read as unprotected; local ones
 * never have a wall. */
static bool level_known(const cay_info *i)
{
    return i->level != CAY_LEVEL_NONE || i->nwalls || !strcmp(i->provider, "local");
}

static void put_isolation(cay__buf *b, const void *info)
{
    const cay_info *i = info;
    const char *s = cay_level_name(i->level);
    if (level_known(i))
        cay__buf_json(b, s, strlen(s));
    else
        cay__buf_str(b, "null");
}

static void put_level(cay__buf *b, const void *info)
{
    const cay_info *i = info;
    cay__buf_fmt(b, level_known(i) ? "%d" : "null", (int)i->level);
}

static const cay__field layer_fields[] = {
    { "name", CAY__F_STR, offsetof(cay_wall, name) },
    { "state", CAY__F_STR, offsetof(cay_wall, state), .about = "on, soft or off" },
    { "why", CAY__F_STR, offsetof(cay_wall, why), CAY__F_MAYBE },
    { "remedy", CAY__F_STR, offsetof(cay_wall, remedy), CAY__F_MAYBE },
};
const cay__shape cay__layer_shape =
    CAY__SHAPE("Layer", cay_wall, layer_fields, "one isolation layer or feature as found");

static const cay__field limit_fields[] = {
    { "memory", CAY__F_LIMIT, offsetof(cay_limits, memory), .about = "bytes; 2 GiB" },
    { "swap", CAY__F_LIMIT, offsetof(cay_limits, swap), .about = "bytes; none" },
    { "cpu_milli", CAY__F_LIMIT, offsetof(cay_limits, cpu_milli),
      .about = "thousandths of a CPU; 2000" },
    { "pids", CAY__F_LIMIT, offsetof(cay_limits, pids), .about = "processes and threads; 512" },
    { "disk", CAY__F_LIMIT, offsetof(cay_limits, disk), .about = "bytes; 10 GiB" },
    { "inodes", CAY__F_LIMIT, offsetof(cay_limits, inodes), .about = "files; 1,000,000" },
    { "nofile", CAY__F_LIMIT, offsetof(cay_limits, nofile),
      .about = "descriptors of a process; 4096" },
    { "io_read", CAY__F_LIMIT, offsetof(cay_limits, io_read), .about = "bytes per second" },
    { "io_write", CAY__F_LIMIT, offsetof(cay_limits, io_write), .about = "bytes per second" },
};
const cay__shape cay__limits_shape =
    CAY__SHAPE("Limits", cay_limits, limit_fields, "0 or left out: the default");

static const char *const expiry_words[] = { "kill", "pause", NULL };
static const cay__field info_fields[] = {
    { "id", CAY__F_STR, AT(id) },
    { "name", CAY__F_STR, AT(name) },
    { "state", CAY__F_CALC, AT(state), .put = put_state,
      .more = "{\"enum\":[\"creating\",\"running\",\"paused\",\"stopped\",\"deleting\",\"gone\","
              "\"damaged\"]}" },
    { "reason", CAY__F_STR, AT(reason),
      .about = "why it is in that state: killed, ttl, idle, oom, reboot, …" },
    { "provider", CAY__F_STR, AT(provider) },
    { "isolation", CAY__F_CALC, 0, .put = put_isolation,
      .more = "{\"enum\":[\"none\",\"process\",\"rootless\",\"root\",\"vm\",null]}",
      .about = "null while it does not run: it is known when it starts" },
    { "level", CAY__F_CALC, 0, .put = put_level, .more = "{\"type\":[\"integer\",\"null\"]}",
      .about = "likewise" },
    { "template", CAY__F_STR, AT(template_) },
    { "hostname", CAY__F_STR, AT(hostname) },
    { "user", CAY__F_STR, AT(user) },
    { "workdir", CAY__F_STR, AT(workdir) },
    { "path", CAY__F_STR, AT(path), CAY__F_MAYBE,
      .about = "where its files are on the host; to scope admin" },
    { "pid", CAY__F_INT, AT(pid), CAY__F_MAYBE,
      .about = "of its init on the host; to scope admin" },
    { "created_ms", CAY__F_I64, AT(created_ms) },
    { "changed_ms", CAY__F_I64, AT(changed_ms) },
    { "deadline_ms", CAY__F_I64, AT(deadline_ms), CAY__F_MAYBE },
    { "idle_ms", CAY__F_U64, AT(idle_ms), CAY__F_MAYBE },
    { "on_expiry", CAY__F_WORD, AT(on_expiry), .more = expiry_words },
    { "auto_resume", CAY__F_BOOL, AT(auto_resume) },
    { "tenant", CAY__F_STR, AT(tenant) },
    { "from", CAY__F_STR, AT(from), CAY__F_MAYBE,
      .about = "the snapshot it stands on: the last one taken, or the one it was made, forked or "
               "put back from; one that was forgotten since, as is that of a saved template, is "
               "told still" },
    { "network", CAY__F_STR, AT(network), CAY__F_MAYBE,
      .about = "what it may reach: off, rules or all; without, that is not known" },
    { "settings", CAY__F_PAIRS, AT(settings), CAY__F_MAYBE,
      .about = "those of its template, as they are in it" },
    { "labels", CAY__F_PAIRS, AT(labels) },
    { "metadata", CAY__F_JSON, AT(metadata), CAY__F_MAYBE },
    { "limits", CAY__F_OBJECT, AT(limits), .more = &cay__limits_shape },
    { "layers", CAY__F_LIST, AT(walls), .count = AT(nwalls), .more = &cay__layer_shape },
};
const cay__shape cay__sandbox_shape =
    CAY__SHAPE("Sandbox", cay_info, info_fields, "one isolated workspace");

/* The host's own is nobody's business. */
static cay_info seen_by(const cay__req *r, const cay_info *i)
{
    cay_info o = *i;
    if (r->who.scope != CAY__SCOPE_ADMIN) {
        o.path = "";
        o.pid = 0;
    }
    return o;
}

int cay__reply_sandbox(cay__req *r, int status, cay_sandbox *sb, cay_err *err)
{
    cay_info *info = NULL;
    CAY_TRY(cay_sandbox_describe(sb, &r->call, &info, err));
    cay_info o = seen_by(r, info);
    int rc = cay__reply_shape(r, status, &cay__sandbox_shape, &o);
    cay_info_free(info);
    return rc;
}

int cay__items_sandbox(cay__items *l, const cay_info *i)
{
    cay_info o = seen_by(l->r, i);
    return cay__items_add(l, &o);
}

const cay__doc cay__doc_sandbox_get = { "getSandbox", "sandboxes", "all that is known of it",
                                        .answers = { { 200, &cay__sandbox_shape }, { 404 } } };
int cay__on_sandbox_get(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    return cay__reply_sandbox(r, 200, sb, err);
}

static const cay__query list_query[] = {
    { "state", "string", "creating, running, paused, stopped, deleting, damaged; again for more",
      .many = true },
    { "label", "string", "KEY=VALUE that it has to carry; again for more", .many = true },
    { "metadata", "string", "a JSON object whose members its metadata has, with the same values" },
    { "provider", "string", "only of this one" },
    { "tenant", "string", "only of this one; to scope admin" },
    { "id", "string",
      "only these, whole ids; again for more, at most 100. What is not there is left out, and "
      "nothing else is looked at",
      .many = true },
    { "limit", "integer", "how many at most: 1 to 1000; 100" },
    { "after", "string", "`next` of the answer before, or an id" },
    { NULL },
};
enum { NAMED_MAX = 100 };

typedef struct lister {
    cay__items list;
    cay__listing kept;
    size_t n, limit;
    unsigned states; /* 0: any */
    char last[CAY__LISTED_NEXT];
} lister;

static int on_info(const cay_info *i, void *arg)
{
    lister *l = arg;
    cay__listing_saw(&l->kept,
                     i); /* also one that is left out: it may come to be one that is told */
    if (l->states && !(l->states & (1u << i->state)))
        return 0;
    if (l->n == l->limit) { /* one more than is told, to know whether there is more */
        cay__str_copy(l->list.next, sizeof l->list.next, l->last);
        return 1;
    }
    l->n++;
    cay__mark_put(l->last, i->id, i->created_ms);
    return cay__items_sandbox(&l->list, i);
}

static int take_states(cay__req *r, unsigned *out, cay_err *err)
{
    const char *s;
    for (size_t i = 0; (s = cay__native_query_nth(r, "state", i)); i++) {
        cay_state st = cay_state_parse(s);
        if (st == CAY_STATE_NONE || st == CAY_GONE)
            return cay_fail_why(
                err, CAY_EINVAL, "bad_query",
                "?state=%.20s: want creating, running, paused, stopped, deleting or damaged", s);
        *out |= 1u << st;
    }
    return 0;
}

int cay__native_labels(cay__req *r, const cay_pair **out, cay_err *err)
{
    size_t n = 0;
    const char *s;
    while (cay__native_query_nth(r, "label", n))
        n++;
    cay_pair *p = cay__arena_take(&r->arena, (n + 1) * sizeof *p);
    for (size_t i = 0; (s = cay__native_query_nth(r, "label", i)); i++) {
        char *text = cay__arena_str(&r->arena, s), *eq = strchr(text, '=');
        if (!eq || eq == text)
            return cay_fail_why(err, CAY_EINVAL, "bad_query", "?label=%.40s: want KEY=VALUE", s);
        *eq = 0;
        p[i] = (cay_pair){ text, eq + 1 };
    }
    if (n)
        *out = p;
    else
        *out = NULL;
    return 0;
}

/* For who follows events: several that may be gone again, by one request and without an error. */
static int list_named(cay__req *r, cay_err *err)
{
    cay__items l;
    const char *id;
    int rc = 0;
    for (size_t i = 0; (id = cay__native_query_nth(r, "id", i)); i++)
        if (i == NAMED_MAX || !cay__id_valid(id, 'c'))
            return cay_fail_why(err, CAY_EINVAL, "bad_query",
                                i == NAMED_MAX ? "?id=: at most %d of them"
                                               : "?id=: want a sandbox's whole id",
                                NAMED_MAX);
    cay__items_begin(&l, r, &cay__sandbox_shape);
    for (size_t i = 0; rc >= 0 && (id = cay__native_query_nth(r, "id", i)); i++) {
        cay_sandbox *sb;
        CAY_AUTOPTR(cay_info) info = NULL;
        rc = cay__req_sandbox(r, id, &sb, err);
        if (rc == 0)
            rc = cay_sandbox_describe(sb, &r->call, &info, err);
        if (rc == 0)
            rc = cay__items_sandbox(&l, info);
        if (rc == CAY_ENOENT || rc == CAY_EGONE)
            rc = 0;
    }
    if (rc < 0)
        cay__items_drop(&l);
    if (rc < 0)
        return rc;
    return cay__items_reply(&l, 200, err);
}

const cay__doc cay__doc_sandbox_list = {
    "listSandboxes", "sandboxes", "those there are, oldest first", .query = list_query,
    .answers = { { 200, &cay__sandbox_shape, .list = true }, { 400 }, { 404 } }
};
int cay__on_sandbox_list(cay__req *r, cay_err *err)
{
    if (cay__native_query_nth(r, "id", 0))
        return list_named(r, err);
    uint64_t limit;
    lister l = { .n = 0 };
    cay_filter f = { .size = sizeof f,
                     .provider = cay__req_query(r, "provider"),
                     .after = cay__req_query(r, "after"),
                     .tenant = cay__req_tenant(r),
                     .metadata = cay__req_query(r, "metadata") };
    CAY_TRY(cay__req_number(r, "limit", 100, 1000, &limit, err));
    CAY_TRY(take_states(r, &l.states, err));
    CAY_TRY(cay__native_labels(r, &f.labels, err));
    CAY_AUTOJSON *metadata = NULL;
    if (f.metadata && cay__json_object("metadata", f.metadata, &metadata, NULL) < 0)
        return cay_fail_why(err, CAY_EINVAL, "bad_query", "?metadata=%.40s: want one JSON object",
                            f.metadata);
    if (!limit)
        return cay_fail_why(err, CAY_EINVAL, "bad_query", "?limit=0: want 1 to 1000");
    if (f.after && !cay__mark_valid(f.after, 'c'))
        return cay_fail_why(
            err, CAY_EINVAL, "bad_query",
            "?after=%.30s: want `next` of the answer before, or a sandbox's whole id", f.after);
    l.limit = limit;
    if (l.states)
        f.limit = 0;
    else
        f.limit = limit + 1;
    if (cay__listing_reply(&l.kept, r))
        return 0;
    cay__items_begin(&l.list, r, &cay__sandbox_shape);
    int rc = cay_client_list(r->client, &r->call, &f, on_info, &l, err);
    if (rc >= 0 || rc == CAY_ETOOBIG)
        rc = cay__items_end(&l.list, err);
    if (rc == 0) {
        cay__listing_keep(&l.kept, l.list.b.data, l.list.b.len);
        rc = cay__reply(r, 200, "application/json", l.list.b.data, l.list.b.len);
    }
    cay__items_drop(&l.list);
    return rc;
}

#define USE(field)                                                                                 \
    {                                                                                              \
#field, CAY__F_U64, offsetof(cay_usage, field)                                             \
    }
static const cay__field usage_fields[] = { USE(cpu_us),    USE(memory),    USE(memory_peak),
                                           USE(pids),      USE(disk),      USE(inodes),
                                           USE(oom_kills), USE(pids_hits), USE(net_rx),
                                           USE(net_tx) };
static const cay__shape usage_shape =
    CAY__SHAPE("Usage", cay_usage, usage_fields, "what it uses now, and used so far");

const cay__doc cay__doc_sandbox_usage = { "getUsage", "sandboxes", "what it uses",
                                          .answers = { { 200, &usage_shape }, { 404 }, { 409 } } };
int cay__on_sandbox_usage(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    cay_usage u = { .size = sizeof u };
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    CAY_TRY(cay_sandbox_usage(sb, &r->call, &u, err));
    return cay__reply_shape(r, 200, &usage_shape, &u);
}
