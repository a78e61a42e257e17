/* SPDX-License-Identifier: Apache-2.0 */
/* Spans to a collector over HTTP: OTLP/HTTP JSON, or the form that the Agents SDK's backend takes.
 */
#include "trace.h"
#include <cay/trace.h>
#include <agent/model/endpoint.h>

enum { BODY_MAX = 64 << 20, TRIES = 3, WAIT_MS = 10000 };

typedef struct collector {
    cay__http *http;
    char *url;
    char **headers;
    size_t n;
    bool otlp;
} collector;

static void format_nanoseconds(const char *text, char buf[24])
{
    snprintf(buf, 24, "%lld", (long long)cay__trace_time(text) * 1000ll);
}

/* Their ids are bare hexadecimal digits of a fixed length. */
static void bare_id(const char *id, size_t len, char *buf)
{
    const char *hex = strchr(id, '_');
    snprintf(buf, len + 1, "%-*.*s", (int)len, (int)len, hex ? hex + 1 : id);
    CAY_EACH_OF(it, buf, len)
        if (*it == ' ')
            *it = '0';
}

static json_t *make_attribute(const char *key, const char *value)
{
    return json_pack("{s:s, s:{s:s}}", "key", key, "value", "stringValue", value);
}

/* Numbers of 64 bits are text in JSON's OTLP. */
static json_t *typed_attribute(const char *key, const json_t *v)
{
    char number[24];
    if (json_is_string(v))
        return make_attribute(key, json_string_value(v));
    if (json_is_boolean(v))
        return json_pack("{s:s, s:{s:b}}", "key", key, "value", "boolValue", json_is_true(v));
    if (!json_is_integer(v))
        return NULL;
    CAY_FORMAT(number, "%lld", (long long)json_integer_value(v));
    return json_pack("{s:s, s:{s:s}}", "key", key, "value", "intValue", number);
}

/* Members of an object as attributes; those that are no numbers, words or truths are left out. */
static void add_members(json_t *list, const char *prefix, const json_t *object)
{
    CAY_EACH_MEMBER(key, v, object) {
        char name[160];
        CAY_FORMAT(name, "%s%.120s", prefix, key);
        json_t *one = typed_attribute(name, v);
        if (one)
            json_array_append_new(list, one);
    }
}

static json_t *attributes_of(const json_t *data)
{
    json_t *list = json_array();
    CAY_AUTOJSON *own = json_copy((json_t *)data);
    json_array_append_new(list,
                          make_attribute("cay.span.type", cay__json_str(data, "type", "custom")));
    if (!strcmp(cay__json_str(data, "type", ""), "generation") ||
        !strcmp(cay__json_str(data, "type", ""), "response"))
        json_array_append_new(
            list, make_attribute("gen_ai.request.model", cay__json_str(data, "name", "")));
    add_members(list, "", json_object_get(data, "data"));
    add_members(list, "gen_ai.usage.", json_object_get(data, "usage"));
    json_object_del(own, "type");
    json_object_del(own, "name");
    add_members(list, "cay.", own);
    return list;
}

static json_t *otlp_span(const json_t *s)
{
    const json_t *data = json_object_get(s, "span_data"), *error = json_object_get(s, "error");
    char trace_id[33], id[17], parent[17] = "", from[24], to[24];
    const char *up = cay__json_str(s, "parent_id", NULL);
    bare_id(cay__json_str(s, "trace_id", ""), 32, trace_id);
    bare_id(cay__json_str(s, "id", ""), 16, id);
    if (up)
        bare_id(up, 16, parent);
    format_nanoseconds(cay__json_str(s, "started_at", ""), from);
    format_nanoseconds(cay__json_str(s, "ended_at", ""), to);
    bool server = !strcmp(cay__json_str(data, "type", ""), "http");
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:s, s:o, s:{s:i}}", "traceId", trace_id,
                          "spanId", id, "parentSpanId", parent, "name",
                          cay__json_str(data, "name", ""), "kind", server ? 2 : 1,
                          "startTimeUnixNano", from, "endTimeUnixNano", to, "attributes",
                          attributes_of(data), "status", "code", json_is_object(error) ? 2 : 1);
    if (o && json_is_object(error))
        json_object_set_new(json_object_get(o, "status"), "message",
                            json_string(cay__json_str(error, "message", "")));
    return o;
}

static json_t *otlp_body(const char *const *objects, size_t n)
{
    const char *service = getenv("OTEL_SERVICE_NAME");
    json_t *spans = json_array();
    CAY_EACH_OF(object, objects, n) {
        CAY_AUTOJSON *s = json_loads(*object, 0, NULL);
        json_t *one =
            CAY_IF(s && !strcmp(cay__json_str(s, "object", ""), "trace.span"), otlp_span(s));
        if (one)
            json_array_append_new(spans, one);
    }
    return json_pack("{s:[{s:{s:[o]}, s:[{s:{s:s}, s:o}]}]}", "resourceSpans", "resource",
                     "attributes", make_attribute("service.name", cay__text_or(service, "cay")),
                     "scopeSpans", "scope", "name", "cay", "spans", spans);
}

static char *body_of(const collector *c, const char *const *objects, size_t n)
{
    if (c->otlp) {
        CAY_AUTOJSON *j = otlp_body(objects, n);
        if (j)
            return cay__json_text(j, BODY_MAX);
        return NULL;
    }
    cay__buf b = CAY__BUF(BODY_MAX);
    cay__buf_str(&b, "{\"data\":[");
    for (size_t i = 0; i < n; i++)
        cay__buf_fmt(&b, "%s%s", CAY_TEXT_IF(i, ","), objects[i]);
    cay__buf_str(&b, "]}");
    return b.data;
}

static int send_spans(void *self, const char *const *objects, size_t n, cay_err *err)
{
    collector *c = self;
    CAY_AUTOFREE char *body = body_of(c, objects, n);
    if (!body)
        return cay_fail(err, CAY_ETOOBIG, "the spans are too large to send");
    if (!c->http)
        CAY_TRY(cay__http_open(&c->http, err));
    cay_call call = { .size = sizeof call,
                      .deadline_ms =
                          cay__now_ms() + WAIT_MS }; /* a run does not wait long for its trace */
    const cay__http_req q = { .url = c->url,
                              .headers = (const char *const *)c->headers,
                              .body = body,
                              .body_len = strlen(body),
                              .connect_ms = 3000 };
    int status;
    CAY_TRY(cay__endpoint_post(c->http, &call, &q, TRIES, &status, err));
    if (status / 100 == 2)
        return 0;
    return cay_fail(err, CAY_EUPSTREAM, "the trace collector answered %d", status);
}

static void close_collector(void *self)
{
    collector *c = self;
    cay__http_close(c->http);
    CAY_EACH_OF(header, c->headers, c->n)
        cay__secret_free(*header);
    free(c->headers);
    free(c->url);
    free(c);
}

static void add_header(collector *c, const char *a, const char *b)
{
    size_t n = strlen(a) + strlen(b) + 1;
    CAY_GROW(c->headers, c->n + 1);
    c->headers[c->n] = cay__alloc(n);
    cay__str_join(c->headers[c->n++], n, a, b, NULL);
    c->headers[c->n] = NULL;
}

static const cay_trace_sink sink = { .size = sizeof sink,
                                     .write = send_spans,
                                     .close = close_collector };

int cay_tracer_http(const cay_tracer_http_spec *given, cay_tracer **out, cay_err *err)
{
    cay_tracer_http_spec own, *spec = &own;
    CAY_TRY(cay__spec_take(&own, sizeof own, given, "cay_tracer_http_spec", err));
    const char *name = CAY_IF(spec->key && !strncmp(spec->key, "env:", 4), spec->key + 4),
               *key = CAY_IF(name, getenv(name));
    if (!spec->url || (strncmp(spec->url, "https://", 8) && strncmp(spec->url, "http://", 7)))
        return cay_fail_why(err, CAY_EINVAL, "url_invalid",
                            "\"%.100s\" is no address of a trace collector", CAY_OR(spec->url, ""));
    if (spec->key && !key)
        return cay_fail_why(
            err, CAY_ENOENT, "trace_key",
            "the trace collector's key is named by env:NAME, and that variable has to be set");
    if (key && !strncmp(spec->url, "http://", 7) && !cay__http_is_loopback(spec->url))
        return cay_fail_why(err, CAY_EPERM, "trace_key",
                            "the key would travel to %.100s unencrypted; use https://", spec->url);
    collector *c = cay__alloc(sizeof *c);
    c->url = cay__strdup(spec->url);
    c->otlp = spec->otlp;
    add_header(c, "Content-Type: application/json", "");
    if (!spec->otlp)
        add_header(c, "OpenAI-Beta: traces=v1", "");
    if (key)
        add_header(c, "Authorization: Bearer ", key);
    for (size_t i = 0; spec->headers && spec->headers[i]; i++)
        add_header(c, spec->headers[i], "");
    *out = cay_tracer_new(&sink, c);
    cay__tracer_every(*out, CAY__TRACE_EVERY);
    return 0;
}
