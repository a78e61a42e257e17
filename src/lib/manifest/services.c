/* SPDX-License-Identifier: Apache-2.0 */
/* Services as JSON: read, judged, told again. Who comes after whom is looked at whole, because a
 * circle would wait for ever. */
#include "manifest.h"
#include <base/mutant.h>
#include <cay/services.h>
#include <ctype.h>

#define MS_MOST  3600000
#define ENV_MOST 256

struct cay_services {
    cay__arena own, *mem; /* mem: its own, or that of a request */
    cay_service list[CAY_SERVICES_MAX];
    size_t n, bytes;
    cay_service *one; /* the one that is being read */
    cay_err *err;     /* while reading */
    bool part;        /* others may come from a template: `after` may name one of them */
};

static const char *const restarts[] = { [CAY_RESTART_ON_FAILURE] = "on-failure",
                                        [CAY_RESTART_NO] = "no",
                                        [CAY_RESTART_ALWAYS] = "always" };

static int fail_invalid(cay_err *err, const char *name, const char *word, const char *why)
{
    int rc;
    if (*name)
        rc = cay_fail_why(err, CAY_EINVAL, "services_invalid", "service %.40s: %s", name, why);
    else
        rc = cay_fail_why(err, CAY_EINVAL, "services_invalid", "services: %s", why);
    CAY_AUTOBUF d = CAY__BUF(sizeof err->detail - 1);
    cay__buf_str(&d, "{\"service\":");
    cay__buf_json(&d, name, CAY_MIN(strlen(name), 100));
    cay__buf_fmt(&d, ",\"reason\":\"%s\"}", word);
    if (err && !d.full)
        CAY_COPY(err->detail, d.data);
    return rc;
}

static bool name_good(const char *s)
{
    size_t n = 0;
    if (s)
        n = strlen(s);
    if (!n || n >= CAY_SERVICE_NAME || !islower((unsigned char)*s))
        return false;
    return strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789._-") == n;
}

static const char *copy_text(cay_services *u, const char *s)
{
    u->bytes += strlen(s) + 1;
    return cay__arena_str(u->mem, s);
}

/* A field of a service or of its health; at: its place in cay_service. */
typedef struct row row;
typedef int reader(cay_services *u, const json_t *j, const row *r);
struct row {
    const char *name;
    reader *read;
    size_t at;
};

static const char *get_string(const json_t *j)
{
    const char *s = json_string_value(j);
    if (s && strlen(s) == json_string_length(j))
        return s;
    return NULL;
}

static int fail_field(const cay_services *u, const char *word, const char *why)
{
    return fail_invalid(u->err, u->one->name, word, why);
}

_Static_assert(offsetof(cay_service, shell) == offsetof(cay_service, argv) + sizeof(char **) &&
                   offsetof(cay_service, health_shell) ==
                       offsetof(cay_service, health_argv) + sizeof(char **),
               "read_command() fills both");
/* Two members: argv, and behind it the line for the shell. */
static int read_command(cay_services *u, const json_t *j, const row *r)
{
    const char *const **argv = (void *)((char *)u->one + r->at);
    const char **shell = (void *)(argv + 1);
    const char *line = get_string(j),
               *why = "command is one line for the shell, or a list of words that is not empty";
    if (line && *line) {
        *shell = copy_text(u, line);
        return 0;
    }
    size_t n = json_array_size(j);
    const char **list = cay__arena_take(u->mem, (n + !CAY__MUTANT("fuzz-services")) * sizeof *list);
    for (size_t i = 0; i < n; i++) {
        const char *s = get_string(json_array_get(j, i));
        if (!s || (!i && !*s))
            return fail_field(u, "command", why);
        list[i] = copy_text(u, s);
    }
    *argv = list;
    if (n)
        return 0;
    return fail_field(u, "command", why);
}

static int read_env(cay_services *u, const json_t *j, const row *r)
{
    const char *key;
    json_t *v;
    size_t n = 0;
    if (!json_is_object(j) || json_object_size(j) > ENV_MOST)
        return fail_field(u, "environment", "environment is an object of at most 256 texts");
    cay_pair *list = cay__arena_take(u->mem, (json_object_size(j) + 1) * sizeof *list);
    json_object_foreach((json_t *)j, key, v) {
        const char *s = get_string(v);
        if (!s || !*key || strchr(key, '='))
            return fail_field(u, "environment",
                              "a variable has a name without '=' and a text without NUL");
        list[n++] = (cay_pair){ copy_text(u, key), copy_text(u, s) };
    }
    u->one->env = list;
    return 0;
}

static int read_user(cay_services *u, const json_t *j, const row *r)
{
    const char *s = get_string(j);
    if (!s || !*s || strlen(s) > 63 || strpbrk(s, ":\r\n /"))
        return fail_field(u, "user", "user is a name or a number");
    u->one->user = copy_text(u, s);
    return 0;
}

static int read_cwd(cay_services *u, const json_t *j, const row *r)
{
    const char *s = get_string(j);
    if (!s || !*s || strlen(s) > 4000)
        return fail_field(u, "cwd", "cwd is a path");
    u->one->cwd = copy_text(u, s);
    return 0;
}

static int read_number(cay_services *u, const json_t *j, const char *field, int64_t least,
                       int64_t most, int64_t *out)
{
    char why[96], a[21], b[21];
    *out = json_integer_value(j);
    if (json_is_integer(j) && *out >= least && *out <= most)
        return 0;
    CAY_JOIN(why, field, " is a whole number, ", cay__str_u64(a, (uint64_t)least), " to ",
             cay__str_u64(b, (uint64_t)most));
    return fail_field(u, field, why);
}

static int read_port(cay_services *u, const json_t *j, const row *r)
{
    int64_t v;
    CAY_TRY(read_number(u, j, r->name, 1, 65535, &v));
    *(uint16_t *)((char *)u->one + r->at) = (uint16_t)v;
    return 0;
}

static int read_ms(cay_services *u, const json_t *j, const row *r)
{
    int64_t v;
    CAY_TRY(read_number(u, j, r->name, 10, MS_MOST, &v));
    *(uint32_t *)((char *)u->one + r->at) = (uint32_t)v;
    return 0;
}

static int read_restart(cay_services *u, const json_t *j, const row *r)
{
    const char *s = get_string(j);
    for (size_t i = 0; s && i < CAY_LEN(restarts); i++)
        if (!strcmp(s, restarts[i])) {
            u->one->restart = (cay_restart)i;
            return 0;
        }
    return fail_field(u, "restart", "restart is \"no\", \"on-failure\" or \"always\"");
}

static int read_after(cay_services *u, const json_t *j, const row *r)
{
    size_t n = 1;
    if (!json_is_string(j))
        n = json_array_size(j);
    if (!n && !json_is_array(j))
        return fail_field(u, "after", "after is a name or a list of names");
    const char **list =
        cay__arena_take(u->mem, (CAY_MIN(n, (size_t)CAY_SERVICES_MAX) + 1) * sizeof *list);
    for (size_t i = 0; i < n; i++) {
        const char *s = get_string(json_is_string(j) ? j : json_array_get(j, i));
        if (!name_good(s) || i >= CAY_SERVICES_MAX)
            return fail_field(u, "after", "after is a list of names of services");
        list[i] = copy_text(u, s);
    }
    u->one->after = list;
    return 0;
}

static int read_health(cay_services *u, const json_t *j, const row *r);
static const row rows[] = {
    { "command", read_command, offsetof(cay_service, argv) },
    { "port", read_port, offsetof(cay_service, port) },
    { "environment", read_env },
    { "env", read_env },
    { "user", read_user },
    { "cwd", read_cwd },
    { "health", read_health },
    { "restart", read_restart },
    { "after", read_after },
    { "stop_ms", read_ms, offsetof(cay_service, stop_ms) },
    { NULL },
};
static const row health_rows[] = {
    { "command", read_command, offsetof(cay_service, health_argv) },
    { "tcp", read_port, offsetof(cay_service, health_tcp) },
    { "interval_ms", read_ms, offsetof(cay_service, interval_ms) },
    { "timeout_ms", read_ms, offsetof(cay_service, timeout_ms) },
    { NULL },
};

static int read_rows(cay_services *u, const json_t *j, const row *table)
{
    CAY_AUTOJSON *o = NULL;
    const char *key;
    json_t *v;
    CAY_TRY(cay__canonical(u->one->name, j, &o, u->err));
    json_object_foreach(o, key, v) {
        const row *r = table;
        while (r->name && strcmp(r->name, key))
            r++;
        if (!r->name && !(table == rows && (!strcmp(key, "name") || !strcmp(key, "description")))) {
            char why[160];
            CAY_COPY(why, "a field is not known; there are");
            for (r = table; r->name; r++)
                cay__str_join(why + strlen(why), sizeof why - strlen(why), " ", r->name, NULL);
            return fail_field(u, "unknown_field", why);
        }
        if (r->name && !json_is_null(v))
            CAY_TRY(r->read(u, v, r));
    }
    return 0;
}

static int read_health(cay_services *u, const json_t *j, const row *r)
{
    CAY_TRY(read_rows(u, j, health_rows));
    if ((u->one->health_argv || u->one->health_shell) && u->one->health_tcp)
        return fail_field(u, "health", "health has a command or tcp, not both");
    return 0;
}

static int read_unit(cay_services *u, const char *name, const json_t *j, cay_err *err)
{
    if (!name_good(name))
        return fail_invalid(
            err, CAY_OR(name, ""), "name",
            "a name has a-z, 0-9, '.', '_' and '-', at most 23, and begins with a letter");
    CAY_EACH_OF(it, u->list, u->n)
        if (!strcmp(it->name, name))
            return fail_invalid(err, name, "duplicate", "it is given twice");
    if (u->n == CAY_SERVICES_MAX)
        return fail_invalid(err, name, "too_many", "a sandbox has at most 32 services");
    if (!json_is_object(j))
        return fail_invalid(err, name, "type", "it is an object with a command");
    cay_service *one = &u->list[u->n++];
    one->size = sizeof *one;
    one->name = copy_text(u, name);
    u->one = one;
    u->err = err;
    CAY_TRY(read_rows(u, j, rows));
    if (!one->argv && !one->shell)
        return fail_invalid(err, name, "command", "it has no command");
    if (u->bytes > CAY_SERVICES_BYTES)
        return fail_invalid(
            err, name, "too_big",
            "the services' commands and variables have more than 24 KiB together; put them "
            "into a file");
    return 0;
}

static size_t find_service(const cay_services *u, const char *name)
{
    size_t i = 0;
    while (i < u->n && strcmp(u->list[i].name, name))
        i++;
    return i;
}

/* 1: on the way from the first one, 2: found to end. */
static int visit_service(const cay_services *u, size_t at, uint8_t *seen, cay_err *err)
{
    const cay_service *one = &u->list[at];
    seen[at] = 1;
    for (const char *const *a = one->after; a && *a; a++) {
        size_t i = find_service(u, *a);
        char why[120];
        if (i == u->n && u->part)
            continue;
        if (i == u->n) {
            CAY_JOIN(why, "after ", *a, ", which is no service here");
            return fail_invalid(err, one->name, "after", why);
        }
        if (seen[i] == 1) {
            CAY_JOIN(why, "after ", *a, ": they wait for each other in a circle");
            return fail_invalid(err, one->name, "circle", why);
        }
        if (!seen[i])
            CAY_TRY(visit_service(u, i, seen, err));
    }
    seen[at] = 2;
    return 0;
}

static int check_order(const cay_services *u, cay_err *err)
{
    uint8_t seen[CAY_SERVICES_MAX] = { 0 };
    for (size_t i = 0; i < u->n; i++)
        if (!seen[i])
            CAY_TRY(visit_service(u, i, seen, err));
    return 0;
}

void cay_services_free(cay_services *u)
{
    if (!u)
        return;
    cay__arena_clear(&u->own);
    free(u);
}

CAY_DEFINE_AUTO(cay_services, cay_services_free)

static int read_all(cay_services *u, const json_t *j, cay_err *err)
{
    const char *key;
    json_t *v;
    size_t i;
    if (!json_is_object(j) && !json_is_array(j))
        return fail_invalid(err, "", "type",
                            "they are an object by name, or a list of objects with \"name\"");
    json_object_foreach((json_t *)j, key, v)
        if (!json_is_null(v))
            CAY_TRY(read_unit(u, key, v, err));
    json_array_foreach(j, i, v)
        CAY_TRY(read_unit(u, cay__json_str(v, "name", NULL), v, err));
    return check_order(u, err);
}

int cay__services_read(const json_t *j, bool part, cay_services **out, cay_err *err)
{
    CAY_AUTOPTR(cay_services) u = cay__alloc(sizeof *u);
    u->mem = &u->own;
    u->part = part;
    CAY_TRY(read_all(u, j, err));
    *out = CAY_STEAL(u);
    return 0;
}

int cay__services_take(cay__spec *s, cay_err *err)
{
    json_error_t je;
    s->box.services = NULL;
    s->box.nservices = 0;
    if (!s->create.services)
        return 0;
    CAY_AUTOJSON *j = json_loads(s->create.services, JSON_REJECT_DUPLICATES, &je);
    if (!j)
        return fail_invalid(err, "", "json", "they are not sound JSON");
    cay_services *u = cay__arena_take(s->mem, sizeof *u);
    u->mem = s->mem;
    CAY_TRY(read_all(u, j, err));
    s->box.services = u->list;
    s->box.nservices = u->n;
    return 0;
}

int cay_services_parse(const char *json, size_t len, cay_services **out, cay_err *err)
{
    json_error_t je;
    CAY_AUTOJSON *j = json_loadb(json, len, JSON_REJECT_DUPLICATES, &je);
    if (!j)
        return fail_invalid(err, "", "json", "they are not sound JSON");
    return cay__services_read(j, false, out, err);
}

const cay_service *cay_services_list(const cay_services *u, size_t *n)
{
    *n = u->n;
    return u->list;
}

static json_t *list_json(const char *const *list)
{
    json_t *a = json_array();
    for (; *list; list++)
        json_array_append_new(a, json_string(*list));
    return a;
}

static json_t *number_json(uint32_t v)
{
    if (v)
        return json_integer(v);
    return NULL;
}

static json_t *command_json(const char *const *argv, const char *shell)
{
    if (argv)
        return list_json(argv);
    if (shell)
        return json_string(shell);
    return NULL;
}

/* json_string(NULL) is NULL, and a member whose value is NULL is not set. */
static json_t *service_json(const cay_service *one)
{
    json_t *o = json_object(), *h = json_object(),
           *env = CAY_IF(one->env && one->env->key, json_object());
    for (const cay_pair *p = one->env; p && p->key; p++)
        json_object_set_new(env, p->key, json_string(p->value));
    json_object_set_new(o, "command", command_json(one->argv, one->shell));
    json_object_set_new(o, "port", number_json(one->port));
    json_object_set_new(o, "environment", env);
    json_object_set_new(o, "user", json_string(one->user));
    json_object_set_new(o, "cwd", json_string(one->cwd));
    json_object_set_new(h, "command", command_json(one->health_argv, one->health_shell));
    json_object_set_new(h, "tcp", number_json(one->health_tcp));
    json_object_set_new(h, "interval_ms", number_json(one->interval_ms));
    json_object_set_new(h, "timeout_ms", number_json(one->timeout_ms));
    if (json_object_size(h))
        json_object_set_new(o, "health", h);
    else
        json_decref(h);
    json_object_set_new(o, "restart", CAY_IF(one->restart, json_string(restarts[one->restart])));
    json_object_set_new(o, "after", CAY_IF(one->after && *one->after, list_json(one->after)));
    json_object_set_new(o, "stop_ms", number_json(one->stop_ms));
    return o;
}

json_t *cay__services_tell(const cay_services *u)
{
    json_t *o = json_object();
    CAY_EACH_OF(it, u->list, u->n)
        json_object_set_new(o, it->name, service_json(it));
    return o;
}

int cay_services_json(const cay_services *u, char **json, cay_err *err)
{
    CAY_AUTOJSON *o = cay__services_tell(u);
    char *s = cay__json_text(o, 16 * CAY_SERVICES_BYTES);
    if (!s)
        return fail_invalid(err, "", "too_big", "they are too long");
    *json = s;
    return 0;
}

/* As an object by name, not yet judged: null has a meaning here. */
static int by_name(const char *json, json_t **out, cay_err *err)
{
    json_error_t je;
    size_t i;
    json_t *v;
    CAY_AUTOJSON *j = json ? json_loads(json, JSON_REJECT_DUPLICATES, &je) : json_object();
    if (!j || (!json_is_object(j) && !json_is_array(j)))
        return fail_invalid(err, "", "json",
                            "they are not sound JSON: an object by name, or a list");
    CAY_AUTOJSON *o = json_is_object(j) ? json_incref(j) : json_object();
    json_array_foreach(j, i, v) {
        const char *name = cay__json_str(v, "name", "");
        if (json_object_get(o, name))
            return fail_invalid(err, name, "duplicate", "it is given twice");
        json_object_set(o, name, v);
    }
    *out = CAY_STEAL(o);
    return 0;
}

int cay_services_merge(const char *below, const char *above, char **json, cay_err *err)
{
    CAY_AUTOJSON *a = NULL, *b = NULL;
    const char *key;
    json_t *v;
    CAY_TRY(by_name(below, &a, err));
    CAY_TRY(by_name(above, &b, err));
    json_object_foreach(b, key, v) {
        if (json_is_null(v))
            json_object_del(a, key);
        else
            json_object_set(a, key, v);
    }
    CAY_AUTOPTR(cay_services) u = NULL;
    CAY_TRY(cay__services_read(a, false, &u, err));
    *json = NULL;
    if (u->n)
        return cay_services_json(u, json, err);
    return 0;
}
