/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"
#include "out.h"
#include <base/json.h>
#include <cay/policy.h>

enum { FILE_MAX = 256 << 10 };

static int fail_invalid(cay_err *err, const char *name, const char *key, const char *what)
{
    return cay_fail_why(err, CAY_EINVAL, "config_invalid", "MCP server %.40s: %s: %s", name, key,
                        what);
}

static int read_args(mcp_server *s, const json_t *v, cay_err *err)
{
    size_t i, n = 0;
    json_t *word;
    while (s->argv[n])
        n++;
    if (!n)
        return fail_invalid(err, s->name, "args", "there is no command that they are for");
    if (!json_is_array(v) || json_array_size(v) > MCP_ARGS)
        return fail_invalid(err, s->name, "args", "a list of at most 64 texts");
    json_array_foreach(v, i, word) {
        if (!json_is_string(word))
            return fail_invalid(err, s->name, "args", "a list of texts");
        s->argv[n++] = json_string_value(word);
    }
    return 0;
}

/* env:NAME is a variable of this side's: a key need not stand in the file. */
static int read_env(mcp_server *s, const json_t *v, cay_err *err)
{
    const char *key;
    json_t *value;
    size_t n = 0;
    if (!json_is_object(v) || json_object_size(v) > MCP_ENV)
        return fail_invalid(err, s->name, "env", "an object of at most 32 texts");
    json_object_foreach((json_t *)v, key, value) {
        const char *text = json_string_value(value),
                   *from = text && !strncmp(text, "env:", 4) ? text + 4 : NULL;
        if (!text)
            return fail_invalid(err, s->name, "env", "an object of texts");
        if (from && !(text = getenv(from)))
            return cay_fail_why(err, CAY_ENOENT, "config_invalid",
                                "MCP server %.40s: env: variable %.60s is not set", s->name, from);
        s->env[n++] = (cay_pair){ key, text };
    }
    return 0;
}

static int read_headers(mcp_server *s, const json_t *v, cay_err *err)
{
    const char *key;
    json_t *value;
    size_t n = 0;
    if (!json_is_object(v) || json_object_size(v) > MCP_HEADERS)
        return fail_invalid(err, s->name, "headers", "an object of at most 16 texts");
    json_object_foreach((json_t *)v, key, value) {
        if (!json_is_string(value) ||
            asprintf(&s->headers[n], "%s: %s", key, json_string_value(value)) < 0)
            return fail_invalid(err, s->name, "headers", "an object of texts");
        n++;
    }
    return 0;
}

static int read_net(mcp_server *s, const json_t *v, cay_err *err)
{
    const char *rules[65];
    size_t i, n = 0;
    json_t *rule;
    if (!json_is_array(v) || json_array_size(v) >= CAY_LEN(rules))
        return fail_invalid(err, s->name, "net", "a list of at most 64 rules, as --net has");
    json_array_foreach(v, i, rule) {
        if (!json_is_string(rule))
            return fail_invalid(err, s->name, "net", "a list of rules, as --net has");
        rules[n++] = json_string_value(rule);
    }
    rules[n] = NULL;
    cay_policy p = { .size = sizeof p, .rules = rules };
    int rc = cay_policy_text(&p, &s->net, err);
    s->create.net.policy = s->net;
    if (rc < 0)
        return cay_wrap(err, rc, "MCP server %.40s: net", s->name);
    return 0;
}

static int read_mounts(mcp_server *s, const json_t *v, cay_err *err)
{
    size_t i;
    json_t *text;
    if (!json_is_array(v) || json_array_size(v) > MCP_MOUNTS)
        return fail_invalid(err, s->name, "mounts",
                            "a list of at most 4 directories, as --mount has");
    json_array_foreach(v, i, text) {
        cli_mount *m = &s->mounts[i];
        if (!json_is_string(text))
            return fail_invalid(err, s->name, "mounts", "a list of directories, as --mount has");
        int rc = cli_parse_mount(json_string_value(text), m, err);
        if (rc < 0)
            return cay_wrap(err, rc, "MCP server %.40s", s->name);
        if (m->rw)
            out_note("cay: %s is writable for MCP server %s", m->source, s->name);
        s->grants[i] = (cay_grant){ .source = m->source, .target = m->target, .rw = m->rw };
    }
    s->create.files.grants = s->grants;
    s->create.files.ngrants = json_array_size(v);
    return 0;
}

static int read_text(mcp_server *s, const char *key, const json_t *v, cay_err *err)
{
    const char *text = json_string_value(v);
    if (!text || !*text)
        return fail_invalid(err, s->name, key, "a text");
    if (!strcmp(key, "command"))
        s->argv[0] = text;
    else if (!strcmp(key, "url"))
        s->url = text;
    else if (!strcmp(key, "template"))
        s->create.from.template_ = text;
    return 0; /* "type" is known by what else there is */
}

static int read_server(mcp_server *s, const char *name, const json_t *o, cay_err *err)
{
    static const struct {
        const char *key;
        int (*read)(mcp_server *s, const json_t *v, cay_err *err);
    } members[] = { { "command", NULL },         { "url", NULL },
                    { "template", NULL },        { "type", NULL },
                    { "args", read_args },       { "env", read_env },
                    { "headers", read_headers }, { "net", read_net },
                    { "mounts", read_mounts } };
    const char *key;
    json_t *v;
    if (!*name || strlen(name) >= sizeof s->name)
        return cay_fail_why(err, CAY_EINVAL, "config_invalid",
                            "MCP server \"%.40s\": a name has 1 to %d bytes", name,
                            AGENT_MCP_NAME - 1);
    CAY_COPY(s->name, name);
    if (!json_is_object(o))
        return fail_invalid(err, name, "it", "is no object");
    CAY_EACH(member, members) {
        if (!(v = json_object_get(o, member->key)))
            continue;
        if (member->read)
            CAY_TRY(member->read(s, v, err));
        else
            CAY_TRY(read_text(s, member->key, v, err));
    }
    json_object_foreach((json_t *)o, key,
                        v) /* what is not understood may have been meant to hold it back */
        for (size_t i = 0;; i++) {
            if (i == CAY_LEN(members))
                return fail_invalid(
                    err, name, key,
                    "is not known; there are command, args, env, net, mounts, template, url, "
                    "headers and type");
            if (!strcmp(members[i].key, key))
                break;
        }
    if (!s->argv[0] == !s->url)
        return fail_invalid(err, name, "it", "give a command or a url");
    if (s->url && (s->env[0].key || s->net || s->create.files.ngrants))
        return fail_invalid(
            err, name, "it",
            "env, net and mounts are a command's; at an address there is no sandbox of ours");
    return 0;
}

static int check_count(const mcp_servers *s, cay_err *err)
{
    if (s->n < AGENT_MCP)
        return 0;
    return cay_fail(err, CAY_ETOOBIG, "--mcp: at most %d servers", AGENT_MCP);
}

static int read_file(mcp_servers *s, const char *path, cay_err *err)
{
    CAY_AUTOFREE char *text = cay__alloc(FILE_MAX);
    json_t *doc = NULL, *o;
    const char *name;
    ssize_t n = cay__fd_read_file(AT_FDCWD, path, text, FILE_MAX);
    if (n < 0)
        return cay_fail_sys(err, "--mcp %.200s", path);
    CAY_TRY(cay__json_object(path, text, &doc, err));
    json_array_append_new(s->docs, doc);
    const json_t *servers = json_object_get(doc, "mcpServers");
    if (!json_is_object(servers) || !json_object_size(servers))
        return cay_fail_why(err, CAY_EINVAL, "config_invalid",
                            "--mcp %.200s: want {\"mcpServers\": {\"NAME\": {…}}}", path);
    json_object_foreach((json_t *)servers, name, o) {
        CAY_TRY(check_count(s, err));
        mcp_server *one = &s->v[s->n++];
        one->create.size = sizeof one->create;
        int rc = read_server(one, name, o, err);
        if (rc < 0)
            return cay_wrap(err, rc, "--mcp %.100s", path);
    }
    return 0;
}

static bool is_file(const char *word)
{
    struct stat st;
    size_t n = strlen(word);
    return n > 5 && !strcmp(word + n - 5, ".json") && !strpbrk(word, " \t") &&
           !strstr(word, "://") && stat(word, &st) == 0 && S_ISREG(st.st_mode);
}

static int read_word(mcp_servers *s, const char *word, cay_err *err)
{
    if (is_file(word))
        return read_file(s, word, err);
    CAY_TRY(check_count(s, err));
    mcp_server *one = &s->v[s->n++];
    one->create.size = sizeof one->create;
    if (s->n > 1)
        CAY_FORMAT(one->name, "mcp%zu", s->n);
    else
        CAY_FORMAT(one->name, "mcp");
    if (!strncmp(word, "http://", 7) || !strncmp(word, "https://", 8))
        one->url = word;
    else
        one->argv[0] = "sh", one->argv[1] = "-c", one->argv[2] = word;
    return 0;
}

int mcp_servers_read(const opt_list *words, mcp_servers *s, cay_err *err)
{
    *s = (mcp_servers){ .v = cay__alloc(AGENT_MCP * sizeof *s->v), .docs = json_array() };
    CAY_EACH_OF(word, words->v, words->n)
        CAY_TRY(read_word(s, *word, err));
    for (size_t i = 0; i < s->n; i++)
        CAY_EACH_OF(it, s->v, i)
            if (!strcmp(s->v[i].name, it->name))
                return cay_fail_why(err, CAY_EINVAL, "config_invalid",
                                    "--mcp: two servers are named %s", s->v[i].name);
    return 0;
}

void mcp_servers_clear(mcp_servers *s)
{
    CAY_EACH_OF(it, s->v, s->n) {
        free(it->net);
        for (char **h = it->headers; *h; h++)
            free(*h);
    }
    free(s->v);
    json_decref(s->docs);
    *s = (mcp_servers){ .n = 0 };
}
