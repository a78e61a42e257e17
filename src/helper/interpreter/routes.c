/* SPDX-License-Identifier: Apache-2.0 */
/* What the interpreter is asked for: E2B's requests, and its texts where something is wrong with
 * one. */
#include "serve.h"
#include <strings.h>

/* SDKs show what an error's body says as it is. */
void answer_error(http_conn *c, const cay_err *err)
{
    static const struct {
        int code, status;
    } map[] = { { CAY_EINVAL, 400 },  { CAY_ENOENT, 404 },  { CAY_EPERM, 403 },
                { CAY_ETOOBIG, 413 }, { CAY_ENOTSUP, 501 }, { CAY_EBUSY, 503 } };
    int status = 500;
    CAY_EACH(it, map)
        if (it->code == err->code)
            status = it->status;
    answer(c, status, "text/plain; charset=utf-8", err->msg, strlen(err->msg));
}

static bool is_json(const char *type)
{
    static const char want[] = "application/json";
    size_t n = sizeof want - 1;
    return type && !strncasecmp(type, want, n) && (!type[n] || type[n] == ';' || type[n] == ' ');
}

/* A page of somebody else's can send a body without asking only as another kind. */
static int read_object(const http_conn *c, const char **at, const char **end, cay_err *err)
{
    if (c->body.len)
        *at = c->body.data;
    else
        *at = "{}";
    *end = *at + (CAY_OR(c->body.len, 2));
    if (c->body.len && !is_json(cay__head_field(&c->head, "content-type")))
        return cay_fail(err, CAY_EINVAL, "a body needs Content-Type: application/json");
    if (!cay__scan_sound(*at, *end))
        return cay_fail(err, CAY_EINVAL, "the body is not sound JSON");
    *at += strspn(*at, " \t\r\n");
    if (**at == '{')
        return 0;
    return cay_fail(err, CAY_EINVAL, "the body is not a JSON object; write it as {…}");
}

/* A member that is a text; "" when it is none. */
static const char *read_text_member(const char *at, const char *end, const char *name,
                                    cay__buf *out)
{
    const char *from, *to;
    if (cay__scan_member(at, end, name, &from, &to) && cay__scan_text(from, to, out))
        return out->data;
    return "";
}

/* A value as it stands, on one line: within texts there are no newlines. */
static void add_flat(cay__buf *t, const char *at, const char *end)
{
    size_t from = t->len;
    cay__buf_add(t, at, (size_t)(end - at));
    for (char *s = t->data + from; s < t->data + t->len; s++)
        if (*s == '\n' || *s == '\r')
            *s = ' ';
}

static int on_health(http_conn *c, const char *id, cay_err *err)
{
    answer(c, 200, "application/json", "\"OK\"", 4);
    return 0;
}

static int on_contexts(http_conn *c, const char *id, cay_err *err)
{
    CAY_AUTOBUF list = TEXT;
    context_list(&list);
    answer(c, 200, "application/json", list.data, list.len);
    return 0;
}

static int on_context_create(http_conn *c, const char *id, cay_err *err)
{
    const char *at, *end;
    CAY_AUTOBUF language = TEXT;
    CAY_AUTOBUF cwd = TEXT;
    CAY_AUTOBUF made = TEXT;
    CAY_TRY(read_object(c, &at, &end, err));
    int rc = context_new(read_text_member(at, end, "language", &language),
                         read_text_member(at, end, "cwd", &cwd), &made, err);
    if (rc == 0)
        answer(c, 200, "application/json", made.data, made.len);
    return rc;
}

static int on_context_remove(http_conn *c, const char *id, cay_err *err)
{
    CAY_TRY(context_remove(id, err));
    answer(c, 204, NULL, "", 0);
    return 0;
}

static int on_context_restart(http_conn *c, const char *id, cay_err *err)
{
    CAY_TRY(context_restart(id, err));
    answer(c, 200, "application/json", "null", 4);
    return 0;
}

static int request_execution(http_conn *c, const char *at, const char *end, const char *id,
                             const char *language, cay_err *err)
{
    static unsigned long count;
    const char *code, *code_end, *env, *env_end;
    context *x;
    if (!cay__scan_member(at, end, "code", &code, &code_end) || *code != '"')
        return cay_fail(err, CAY_EINVAL, "code is missing");
    if (*id && *language)
        return cay_fail(err, CAY_EINVAL, "Only one of context_id or language can be provided");
    CAY_TRY(context_open(id, language, &x, err));
    CAY_FORMAT(c->id, "x%lu", ++count);
    cay__buf_fmt(&c->ask, "{\"id\":\"%s\",\"code\":", c->id);
    add_flat(&c->ask, code, code_end);
    if (cay__scan_member(at, end, "env_vars", &env, &env_end) && *env == '{') {
        cay__buf_str(&c->ask, ",\"env\":");
        add_flat(&c->ask, env, env_end);
    }
    cay__buf_str(&c->ask, "}\n");
    stream_begin(c);
    context_ask(x, c);
    return 0;
}

static int on_execute(http_conn *c, const char *unused, cay_err *err)
{
    const char *at, *end;
    CAY_AUTOBUF id = TEXT;
    CAY_AUTOBUF language = TEXT;
    CAY_TRY(read_object(c, &at, &end, err));
    return request_execution(c, at, end, read_text_member(at, end, "context_id", &id),
                             read_text_member(at, end, "language", &language), err);
}

static const struct route {
    const char *method, *path; /* {id}: one segment */
    int (*on)(http_conn *c, const char *id, cay_err *err);
} routes[] = {
    { "GET", "/health", on_health },
    { "POST", "/execute", on_execute },
    { "GET", "/contexts", on_contexts },
    { "POST", "/contexts", on_context_create },
    { "DELETE", "/contexts/{id}", on_context_remove },
    { "POST", "/contexts/{id}/restart", on_context_restart },
};

static bool match_path(const char *pattern, const char *path, char *id, size_t cap)
{
    const char *brace = strchr(pattern, '{');
    size_t before = brace ? (size_t)(brace - pattern) : strlen(pattern) + 1, n;
    if (strncmp(path, pattern, before))
        return false;
    if (!brace)
        return true;
    n = strcspn(path + before, "/");
    return n && n < cap && !strcmp(path + before + n, brace + 4) &&
           cay__url_decode(path + before, n, false, id);
}

/* A page whose name was turned to this address would be let in by every browser: it calls us by
 * another name. */
static bool called_right(const char *host)
{
    static const char *const names[] = { "localhost", "127.0.0.1", "[::1]" };
    CAY_EACH(name, names) {
        size_t n = strlen(*name);
        if (!strncasecmp(host, *name, n) && (!host[n] || host[n] == ':'))
            return true;
    }
    return !*host;
}

void on_request(http_conn *c)
{
    cay_err err = CAY_ERR_INIT;
    char id[256] = "";
    int rc = 0;
    if (!called_right(c->head.host))
        rc = cay_fail(&err, CAY_EPERM, "the interpreter is at localhost:%d", INTERPRETER_PORT);
    const struct route *r = NULL;
    CAY_EACH(it, routes)
        if (!r && !strcmp(c->head.method, it->method) &&
            match_path(it->path, c->head.path, id, sizeof id))
            r = it;
    if (rc == 0 && r)
        rc = r->on(c, id, &err);
    else if (rc == 0)
        rc = cay_fail(&err, CAY_ENOENT, "nothing is served at this path");
    if (rc < 0)
        answer_error(c, &err);
}
