/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A state in the envelope of the JavaScript Agents SDK, versions 1 to 5. What cay writes is of its
 * E2B client, which can reach a cay server, and has the whole state besides, as providerState.cay;
 * the SDK carries that along. What the SDK wrote itself names the sandbox by the id that the server
 * gave it, and nothing else: a living or stopped one is found by it.
 */
#include "state.h"
#include <base/json.h>
#include <ctype.h>

enum { ENVELOPE = 5, DEEP = 64 };

bool cay__state_is_js(const json_t *o)
{
    return json_is_object(json_object_get(o, "providerState")) &&
           json_is_string(json_object_get(o, "backendId"));
}

/* read_only → readOnly */
static void to_camel_case(const char *name, char *out, size_t cap)
{
    size_t n = 0;
    for (const char *s = name; *s && n + 1 < cap; s++)
        out[n++] = *s == '_' && s[1] && s != name ? (char)toupper((unsigned char)*++s) : *s;
    out[n] = 0;
}

/* Names of fields in the other spelling, all the way down; of a map by names that people chose only
 * the values. */
static json_t *convert_names(const json_t *v, bool names, int deep)
{
    const char *key;
    char word[128];
    json_t *member, *to;
    size_t i;
    if (!deep || (!json_is_object(v) && !json_is_array(v)))
        return json_deep_copy(v);
    if (json_is_array(v))
        to = json_array();
    else
        to = json_object();
    json_array_foreach(v, i, member)
        json_array_append_new(to, convert_names(member, false, deep - 1));
    json_object_foreach((json_t *)v, key, member) {
        to_camel_case(key, word, sizeof word);
        json_object_set_new(to, names || strlen(key) >= sizeof word ? key : word,
                            convert_names(member, !names && !strcmp(key, "headers"), deep - 1));
    }
    return to;
}

static json_t *entries_js(const json_t *entries, int deep);

/* Bytes are an object there; what is ephemeral is not in it at all, for the SDK writes it anew by
 * its own manifest. */
static json_t *entry_js(const json_t *e, int deep)
{
    const json_t *children = json_object_get(e, "children"),
                 *data = json_object_get(e, "content_base64");
    bool coded = data || !strcmp(cay__json_str(e, "encoding", ""), "base64");
    if (cay__json_bool(e, "ephemeral", false) || !deep)
        return NULL;
    CAY_AUTOJSON *own = json_copy((json_t *)e);
    static const char *const here[] = { "children", "content_base64", "encoding", "redacted" };
    CAY_EACH(it, here)
        json_object_del(own, *it);
    json_t *to = convert_names(own, false, deep);
    if (coded)
        json_object_set_new(to, "content",
                            json_pack("{s:s,s:O}", "type", "base64", "data",
                                      CAY_OR(data, json_object_get(e, "content"))));
    if (children)
        json_object_set_new(to, "children", entries_js(children, deep - 1));
    return to;
}

static json_t *entries_js(const json_t *entries, int deep)
{
    json_t *to = json_object(), *e;
    const char *path;
    json_object_foreach((json_t *)entries, path, e)
        json_object_set_new(to, path, entry_js(e, deep)); /* NULL: left out */
    return to;
}

static json_t *environment_js(const json_t *environment)
{
    json_t *to = json_object(), *v;
    const char *name;
    json_object_foreach(json_object_get(environment, "value"), name, v)
        if (json_is_string(v))
            json_object_set_new(to, name, json_pack("{s:O}", "value", v));
    return to;
}

static json_t *manifest_js(const json_t *m)
{
    static const char *const lists[][2] = { { "users", "users" },
                                            { "groups", "groups" },
                                            { "extra_path_grants", "extraPathGrants" },
                                            { "remote_mount_command_allowlist",
                                              "remoteMountCommandAllowlist" } };
    json_t *o =
        json_pack("{s:i,s:s,s:o,s:o}", "version", 1, "root", cay__json_str(m, "root", "/workspace"),
                  "entries", entries_js(json_object_get(m, "entries"), DEEP), "environment",
                  environment_js(json_object_get(m, "environment")));
    for (size_t i = 0; i < CAY_LEN(lists); i++)
        if (json_is_array(json_object_get(m, lists[i][0])))
            json_object_set_new(o, lists[i][1],
                                convert_names(json_object_get(m, lists[i][0]), false, DEEP));
    return o;
}

json_t *cay__state_to_js(const json_t *state)
{
    json_t *own =
        json_pack("{s:O,s:s,s:s,s:b,s:{},s:O,s:O}", "sandboxId",
                  json_object_get(state, "session_id"), "sandboxType", "e2b", "template",
                  cay__json_str(state, "template", "host"), "pauseOnExit", false, "environment",
                  "configuredExposedPorts", json_object_get(state, "exposed_ports"), "cay", state);
    return json_pack("{s:i,s:s,s:o,s:b,s:o}", "version", ENVELOPE, "backendId", "e2b", "manifest",
                     manifest_js(json_object_get(state, "manifest")), "workspaceReady", true,
                     "providerState", own);
}

static int fail_invalid(const char *what, cay_err *err)
{
    return cay_fail_why(err, CAY_EINVAL, "state_invalid", "state: %s", what);
}

int cay__state_from_js(const json_t *envelope, json_t **out, cay_err *err)
{
    static const char *const served[] = { "e2b", "cloudflare" };
    const json_t *own = json_object_get(envelope, "providerState"),
                 *whole = json_object_get(own, "cay");
    const char *backend = cay__json_str(envelope, "backendId", ""),
               *id = cay__json_str(own, "sandboxId", "");
    int64_t version = cay__json_int(envelope, "version", 0);
    bool known = false;
    CAY_EACH(it, served)
        known |= !strcmp(backend, *it);
    if (version < 1 || version > ENVELOPE)
        return fail_invalid(
            "this version of the JavaScript SDK's form is not known; there are 1 to 5", err);
    if (!known)
        return cay_fail_why(err, CAY_EINVAL, "state_invalid",
                            "state: of the JavaScript SDK's client %.40s, whose sandboxes are not "
                            "cay's; its archive of the workspace can be had: cay snapshot import",
                            backend);
    if (whole &&
        (!json_is_object(whole) || strcmp(cay__json_str(whole, "session_id", ""), id) != 0))
        return fail_invalid("providerState.cay is not of providerState.sandboxId", err);
    if (whole)
        *out = json_incref((json_t *)whole);
    else
        *out =
            json_pack("{s:s,s:i,s:s,s:s,s:i,s:{s:s},s:b,s:{}}", "type", CAY__STATE_TYPE, "version",
                      CAY__STATE_VERSION, "session_id", id, "provider", "native", "isolation", 0,
                      "snapshot", "type", "noop", "workspace_root_ready", true, "sandbox");
    if (*out)
        return 0;
    return fail_invalid("providerState.sandboxId is not an id", err);
}
