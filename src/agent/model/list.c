/* SPDX-License-Identifier: Apache-2.0 */
/* Which models an endpoint has: GET /models, which all compatible servers know. */
#include "endpoint.h"

enum { LIST_MAX = 4 << 20, NAMES_MAX = 2000 };

static json_t *names_of(const json_t *doc)
{
    const json_t *data;
    if (json_is_array(doc))
        data = doc;
    else
        data = json_object_get(doc, "data");
    json_t *names = json_array();
    CAY_EACH_ITEM(m, data) {
        const char *id = cay__json_str(m, "id", NULL);
        if (id && *id && json_array_size(names) < NAMES_MAX)
            json_array_append_new(names, json_string(id));
    }
    return names;
}

static int fetch_models(cay__endpoint *e, const cay_call *call, char **out, cay_err *err)
{
    char url[2048];
    CAY_AUTOBUF body = CAY__BUF(LIST_MAX);
    CAY_AUTOJSON *doc = NULL;
    cay__http_reply r;
    CAY_TRY(cay__http_open(&e->http, err));
    if ((size_t)CAY_FORMAT(url, "%s/models", e->base) >= sizeof url)
        return cay_fail(err, CAY_ETOOBIG, "the model's address is too long");
    cay__http_req q = { .url = url,
                        .headers = (const char *const *)e->headers,
                        .connect_ms = e->connect_ms,
                        .idle_ms = e->idle_ms };
    CAY_TRY(cay__http_fetch(e->http, call, &q, &r, &body, err));
    int code = CAY_EUPSTREAM;
    if (r.status == 401 || r.status == 403)
        code = CAY_EAUTH;
    else if (r.status == 404)
        code = CAY_ENOENT;
    if (r.status / 100 != 2)
        return cay_fail_why(err, code, "model_http", "the model's server answered %d", r.status);
    if (cay__json_any("it", CAY_TEXT_IF(body.len, body.data), &doc, NULL) < 0)
        return cay_fail_why(err, CAY_EUPSTREAM, "model_answer",
                            "the model's server answered with something that is no JSON");
    CAY_AUTOJSON *names = names_of(doc);
    *out = cay__json_text(names, LIST_MAX);
    if (*out)
        return 0;
    return cay_fail_why(err, CAY_EUPSTREAM, "model_answer",
                        "the names of the server's models are no text");
}

int cay_model_list(const cay_model_open_spec *given, const cay_call *call, char **names,
                   cay_err *err)
{
    cay__endpoint e;
    cay_model_open_spec spec;
    CAY_TRY(cay__spec_take(&spec, sizeof spec, given, "cay_model_open_spec", err));
    if (!spec.model || !strncmp(spec.model, "scripted:", 9))
        spec.model = "any";
    CAY_TRY(cay__endpoint_make(&spec, &e, err));
    int rc = fetch_models(&e, call, names, err);
    cay__endpoint_clear(&e);
    return rc;
}
