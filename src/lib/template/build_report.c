/* SPDX-License-Identifier: Apache-2.0 */
/* What a build says while it runs, and what is known of it afterwards: a log of one JSON object a
 * line, and a note in the store. */
#include "build.h"
#include <cay/jobs.h>
#include <cay/note.h>

#define SPACE     "build"
#define LINE_MAX_ 8192
#define TAIL_MAX  600
#define KEPT      200 /* records */
#define DIR       "builds"

static const char *const kinds[] = {
    [CAY_BUILD_STEP] = "step", [CAY_BUILD_OUT] = "out",   [CAY_BUILD_ERR] = "err",
    [CAY_BUILD_NOTE] = "note", [CAY_BUILD_WARN] = "warn", [CAY_BUILD_FAIL] = "fail"
};

const char *cay_build_event_name(cay_build_event_kind k)
{
    if ((size_t)k < CAY_LEN(kinds) && kinds[k])
        return kinds[k];
    return "";
}

static char *log_path(cay_client *client, const char *id)
{
    char *path;
    if (asprintf(&path, "%s/" DIR "/%s.log", cay_client_home(client), id) < 0)
        abort();
    return path;
}

bool cay__report_alive(const json_t *record)
{
    int64_t pid = cay__json_int(record, "pid", 0), start = cay__json_int(record, "pid_start", 0);
    return pid > 0 && start && cay__start_time((int)pid) == (uint64_t)start;
}

json_t *cay__note_object(cay_client *client, const char *space, const char *key)
{
    CAY_AUTOFREE char *text = NULL;
    json_t *o = NULL;
    if (cay_note_get(client, space, key, &text, NULL) == 0)
        cay__json_object("note", text, &o, NULL);
    return o;
}

int cay__note_save(cay_client *client, const char *space, const char *key, const json_t *o,
                   cay_err *err)
{
    CAY_AUTOFREE char *text = cay__json_text(o, 60000);
    if (text)
        return cay_note_put(client, space, key, text, err);
    return cay_fail(err, CAY_ETOOBIG, "%s %s: its record is too long", space, key);
}

bool cay__record_is(const json_t *record, const char *state)
{
    return !strcmp(cay__json_str(record, "state", ""), state);
}

void cay__report_set(cay__report *r, const char *key, json_t *value)
{
    json_object_set_new(r->record, key, value);
}

int cay__report_save(cay__report *r, cay_err *err)
{
    return cay__note_save(r->client, SPACE, r->id, r->record, err);
}

bool cay__report_canceled(cay__report *r)
{
    CAY_AUTOJSON *o = cay__note_object(r->client, SPACE, r->id);
    return cay__record_is(o, "canceled");
}

static int names_text(const char *const *names, char *buf, size_t cap, cay_err *err)
{
    size_t n = 0;
    *buf = 0;
    for (; names && *names; names++) {
        int k = snprintf(buf + n, cap - n, "%s%s", CAY_TEXT_IF(n, " "), *names);
        if (k < 0 || (size_t)k >= cap - n)
            return cay_fail_why(err, CAY_EINVAL, "template_name",
                                "the names are too many or too long");
        n += (size_t)k;
    }
    return 0;
}

typedef struct old {
    char id[CAY_ID_LEN + 1];
    int64_t started;
} old;
typedef struct olds {
    old *v;
    size_t n;
} olds;

static int on_old(const char *key, const char *text, void *arg)
{
    olds *o = arg;
    CAY_AUTOJSON *j = NULL;
    if (!cay__id_valid(key, 'b') || cay__json_object("record", text, &j, NULL) < 0)
        return 0;
    CAY_GROW(o->v, o->n);
    CAY_COPY(o->v[o->n].id, key);
    o->v[o->n++].started = cay__json_int(j, "started_ms", 0);
    return 0;
}

static int newest_first(const void *a, const void *b)
{
    int64_t x = ((const old *)a)->started, y = ((const old *)b)->started;
    return (x < y) - (x > y);
}

static int collect_records(cay_client *client, olds *o, cay_err *err)
{
    CAY_TRY(cay_note_list(client, SPACE, "", on_old, o, err));
    if (o->n)
        qsort(o->v, o->n, sizeof *o->v, newest_first);
    return 0;
}

/* Of many builds the oldest are forgotten, with their logs. */
static void forget_old(cay_client *client)
{
    olds o = { 0 };
    if (collect_records(client, &o, NULL) == 0)
        for (size_t i = KEPT; i < o.n; i++) {
            CAY_AUTOFREE char *path = log_path(client, o.v[i].id);
            if (cay_note_put(client, SPACE, o.v[i].id, NULL, NULL) == 0)
                unlink(path);
        }
    free(o.v);
}

static int record_new(cay_client *client, const char *id, const char *state, const char *tenant,
                      const char *const *names, json_t **out, cay_err *err)
{
    char all[2000];
    CAY_TRY(names_text(names, all, sizeof all, err));
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:I}", "state", state, "tenant", CAY_OR(tenant, "default"),
                  "names", all, "started_ms", (json_int_t)cay__clock_ms());
    if (!o)
        return cay_fail_why(err, CAY_EINVAL, "template_name", "a name of the template is no text");
    int rc = cay__note_save(client, SPACE, id, o, err);
    if (rc < 0)
        json_decref(o);
    else
        *out = o;
    return rc;
}

int cay_build_reserve(cay_client *client, const char *tenant, const char *const *names, char *id,
                      cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    cay__id_make(id, 'b');
    return record_new(client, id, "waiting", tenant, names, &o, err);
}

int cay__report_open(cay__report *r, cay_client *client, const cay_build *spec, cay_err *err)
{
    CAY_AUTOFREE char *dir = NULL, *text = NULL;
    *r = (cay__report){ .client = client,
                        .spec = spec,
                        .fd = -1,
                        .line = { CAY__BUF(LINE_MAX_), CAY__BUF(LINE_MAX_) },
                        .tail = CAY__BUF(4 * LINE_MAX_) };
    if (spec->id && !cay__id_valid(spec->id, 'b'))
        return cay_fail_why(err, CAY_EINVAL, "build_not_found", "%.40s is no id of a build",
                            spec->id);
    if (spec->id)
        CAY_COPY(r->id, spec->id);
    else
        cay__id_make(r->id, 'b');
    if (asprintf(&dir, "%s/" DIR, cay_client_home(client)) < 0)
        abort();
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return cay_fail_sys(err, "make %s", dir);
    if (!spec->id)
        forget_old(client);
    if (spec->id && cay_note_get(client, SPACE, r->id, &text, NULL) == 0)
        CAY_TRY(cay__json_object("record", text, &r->record, err));
    else
        CAY_TRY(record_new(client, r->id, "building", spec->tenant, spec->names, &r->record, err));
    if (cay__record_is(r->record, "canceled"))
        return cay_fail_why(err, CAY_ECANCELED, "build_canceled", "build %s was canceled", r->id);
    cay__report_set(r, "state", json_string("building"));
    cay__report_set(r, "pid", json_integer(getpid()));
    cay__report_set(r, "pid_start", json_integer((json_int_t)cay__start_time(getpid())));
    CAY_TRY(cay__report_save(r, err));
    CAY_AUTOFREE char *path = log_path(client, r->id);
    r->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (r->fd < 0)
        return cay_fail_sys(err, "open %s", path);
    return 0;
}

void cay__report_close(cay__report *r)
{
    json_decref(r->record);
    cay__close_fd(&r->fd);
    cay__buf_clear(&r->line[0]);
    cay__buf_clear(&r->line[1]);
    cay__buf_clear(&r->tail);
}

static void emit_event(cay__report *r, cay_build_event_kind kind, bool cached, const char *text,
                       size_t len)
{
    cay_build_event e = { .size = sizeof e,
                          .kind = kind,
                          .time_ms = cay__clock_ms(),
                          .step = r->step,
                          .steps = r->steps,
                          .cached = cached,
                          .text = text,
                          .len = len };
    CAY_AUTOBUF b = CAY__BUF(8 * LINE_MAX_);
    cay__buf_fmt(&b, "{\"t\":%lld,\"kind\":\"%s\",\"step\":%u,\"steps\":%u,", (long long)e.time_ms,
                 cay_build_event_name(kind), e.step, e.steps);
    cay__buf_str(&b, cached ? "\"cached\":true,\"text\":" : "\"text\":");
    cay__buf_json(&b, text, len);
    cay__buf_str(&b, "}\n");
    if (!b.full && r->bytes <= CAY__BUILD_LOG_MAX) {
        static const char cut[] = "{\"t\":0,\"kind\":\"note\",\"step\":0,\"steps\":0,\"text\":"
                                  "\"the log is full: the rest is not kept\"}\n";
        r->bytes += b.len;
        if (r->bytes <= CAY__BUILD_LOG_MAX)
            cay__fd_write_all(r->fd, b.data, b.len);
        else
            cay__fd_write_all(r->fd, cut, sizeof cut - 1);
    }
    if (r->spec->event)
        r->spec->event(r->spec->arg, &e);
}

void cay__report_say(cay__report *r, cay_build_event_kind kind, bool cached, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    emit_event(r, kind, cached, text, CAY_MIN((size_t)CAY_MAX(n, 0), sizeof text - 1));
}

static void emit_line(cay__report *r, cay_build_event_kind kind)
{
    cay__buf *l = &r->line[kind == CAY_BUILD_ERR];
    while (l->len && l->data[l->len - 1] == '\r')
        l->data[--l->len] = 0;
    emit_event(r, kind, false, CAY_OR(l->data, ""), l->len);
    if (l->len) {
        cay__buf_add(&r->tail, l->data, CAY_MIN(l->len, (size_t)300));
        cay__buf_str(&r->tail, "\n");
        if (r->tail.len > TAIL_MAX) {
            memmove(r->tail.data, r->tail.data + r->tail.len - TAIL_MAX, TAIL_MAX + 1);
            r->tail.len = TAIL_MAX;
        }
    }
    l->len = 0;
}

void cay__report_bytes(cay__report *r, cay_build_event_kind kind, const char *data, size_t len)
{
    cay__buf *l = &r->line[kind == CAY_BUILD_ERR];
    while (len) {
        const char *nl = memchr(data, '\n', len);
        size_t n = nl ? (size_t)(nl - data) : len, some = CAY_MIN(n, LINE_MAX_ - 1 - l->len);
        cay__buf_add(l, data, some);
        bool cut = some < n;
        data += some + (!cut && nl);
        len -= some + (!cut && nl);
        if (nl || cut)
            emit_line(r, kind);
    }
}

void cay__report_flush(cay__report *r)
{
    for (int i = 0; i < 2; i++)
        if (r->line[i].len)
            emit_line(r, i ? CAY_BUILD_ERR : CAY_BUILD_OUT);
}

static int report_info(const char *id, const json_t *o, int (*fn)(const cay_build_info *, void *),
                       void *arg)
{
    cay_build_info b = { .size = sizeof b,
                         .id = id,
                         .tenant = cay__json_str(o, "tenant", "default"),
                         .state = cay__json_str(o, "state", "lost"),
                         .names = cay__json_str(o, "names", ""),
                         .template_ = cay__json_str(o, "template", ""),
                         .sandbox = cay__json_str(o, "sandbox", ""),
                         .reason = cay__json_str(o, "reason", ""),
                         .error = cay__json_str(o, "error", ""),
                         .step = (unsigned)cay__json_int(o, "step", 0),
                         .steps = (unsigned)cay__json_int(o, "steps", 0),
                         .cached = (unsigned)cay__json_int(o, "cached", 0),
                         .started_ms = cay__json_int(o, "started_ms", 0),
                         .ended_ms = cay__json_int(o, "ended_ms", 0) };
    if (!strcmp(b.state, "building") && !cay__report_alive(o))
        b.state = "lost";
    return fn(&b, arg);
}

static bool has_name(const char *names, const char *name)
{
    size_t n = strlen(name);
    for (const char *s = names; *s; s += strcspn(s, " ")) {
        s += *s == ' ';
        size_t len = strcspn(s, " ");
        if (len >= n && !strncmp(s, name, n) && (len == n || (!strchr(name, ':') && s[n] == ':')))
            return true;
    }
    return false;
}

typedef struct looking {
    const char *tenant, *ref;
    int (*fn)(const cay_build_info *, void *);
    void *arg;
    bool found;
} looking;

static int list_builds(cay_client *client, looking *l, bool all, cay_err *err)
{
    olds o = { 0 };
    int rc = collect_records(client, &o, err);
    for (size_t i = 0; rc == 0 && i < o.n && (all || !l->found); i++) {
        CAY_AUTOJSON *j = cay__note_object(client, SPACE, o.v[i].id);
        if (!j)
            continue;
        if (l->tenant && strcmp(l->tenant, cay__json_str(j, "tenant", "default")) != 0)
            continue;
        if (l->ref && strcmp(l->ref, o.v[i].id) != 0 &&
            !has_name(cay__json_str(j, "names", ""), l->ref))
            continue;
        l->found = true;
        rc = report_info(o.v[i].id, j, l->fn, l->arg);
    }
    free(o.v);
    return rc;
}

int cay_build_get(cay_client *client, const char *tenant, const char *ref,
                  int (*fn)(const cay_build_info *, void *), void *arg, cay_err *err)
{
    looking l = { .tenant = tenant, .ref = ref, .fn = fn, .arg = arg };
    if (client->remote)
        return cay__remote_build_get(client->remote, ref, fn, arg, err);
    CAY_TRY(list_builds(client, &l, false, err));
    if (l.found)
        return 0;
    return cay_fail_why(err, CAY_ENOENT, "build_not_found",
                        "there is no build %.60s, and none of a template of that name", ref);
}

int cay_build_list(cay_client *client, const char *tenant,
                   int (*fn)(const cay_build_info *, void *), void *arg, cay_err *err)
{
    if (client->remote)
        return cay__remote_build_get(client->remote, NULL, fn, arg, err);
    return list_builds(client, &(looking){ .tenant = tenant, .fn = fn, .arg = arg }, true, err);
}

void cay__report_again(cay_client *client, const char *id)
{
    CAY_AUTOJSON *o = cay__note_object(client, SPACE, id);
    if (!o)
        return;
    json_object_set_new(o, "state", json_string("waiting"));
    json_object_del(o, "ended_ms");
    cay__note_save(client, SPACE, id, o, NULL);
}

int cay_build_cancel(cay_client *client, const char *id, cay_err *err)
{
    CAY_AUTOFREE char *text = NULL;
    CAY_AUTOJSON *o = NULL;
    if (client->remote)
        return cay__remote_do(client->remote, NULL, &CAY__REQUEST(build_cancel, .path = { id }),
                              err);
    if (!cay__id_valid(id, 'b') || cay_note_get(client, SPACE, id, &text, NULL) < 0)
        return cay_fail_why(err, CAY_ENOENT, "build_not_found", "there is no build %.60s", id);
    CAY_TRY(cay__json_object("record", text, &o, err));
    const char *state = cay__json_str(o, "state", "");
    if (strcmp(state, "waiting") && strcmp(state, "building"))
        return cay_fail_why(err, CAY_ESTATE, "build_ended", "build %s is %s already", id, state);
    json_object_set_new(o, "state", json_string("canceled"));
    json_object_set_new(o, "ended_ms", json_integer(cay__clock_ms()));
    CAY_TRY(cay__note_save(client, SPACE, id, o, err));
    return cay_job_cancel_of(client, "build", id, NULL, err); /* if it came by the queue */
}

int cay_build_log_path(cay_client *client, const char *id, char **path, cay_err *err)
{
    if (!cay__id_valid(id, 'b'))
        return cay_fail_why(err, CAY_ENOENT, "build_not_found", "there is no build %.60s", id);
    *path = log_path(client, id);
    return 0;
}

static int log_line(const char *line, int (*fn)(const cay_build_event *, void *), void *arg)
{
    CAY_AUTOJSON *o = NULL;
    const char *kind;
    if (cay__json_object("log", line, &o, NULL) < 0)
        return 0;
    const json_t *text = json_object_get(o, "text");
    cay_build_event e = { .size = sizeof e,
                          .time_ms = cay__json_int(o, "t", 0),
                          .step = (unsigned)cay__json_int(o, "step", 0),
                          .steps = (unsigned)cay__json_int(o, "steps", 0),
                          .cached = cay__json_bool(o, "cached", false),
                          .text = CAY_TEXT_IF(json_string_value(text), json_string_value(text)),
                          .len = json_string_length(text) };
    kind = cay__json_str(o, "kind", "");
    for (size_t i = 1; i < CAY_LEN(kinds); i++)
        if (!strcmp(kinds[i], kind))
            e.kind = (cay_build_event_kind)i;
    if (e.kind)
        return fn(&e, arg);
    return 0;
}

int cay_build_log(cay_client *client, const char *id, uint64_t *offset,
                  int (*fn)(const cay_build_event *, void *), void *arg, cay_err *err)
{
    CAY_AUTOFREE char *path = NULL, *line = NULL;
    size_t cap = 0;
    ssize_t n;
    int rc = 0;
    if (client->remote)
        return cay__remote_build_log(client->remote, id, offset, fn, arg, err);
    CAY_TRY(cay_build_log_path(client, id, &path, err));
    FILE *f = fopen(path, "re");
    if (!f) {
        if (errno == ENOENT)
            return 0;
        return cay_fail_sys(err, "open %s", path);
    }
    if (fseeko(f, (off_t)*offset, SEEK_SET) == 0)
        while (rc == 0 && (n = getline(&line, &cap, f)) > 0 && line[n - 1] == '\n') {
            rc = log_line(line, fn, arg);
            *offset += (uint64_t)n;
        }
    fclose(f);
    return rc;
}
