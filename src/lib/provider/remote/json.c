/* SPDX-License-Identifier: Apache-2.0 */
/* Our structs as the server's JSON, and back. */
#include "remote_box.h"
#include <cay/policy.h>
#include <stdio.h>

#define RING_MOST (16u << 20) /* pages of it that are not written cost nothing */

const char *cay__far_word(const json_t *j, const char *name)
{
    return cay__json_str(j, name, "");
}

const char *cay__far_id(const json_t *j, const char *name, char kind)
{
    const char *id = cay__far_word(j, name);
    if (cay__id_valid(id, kind))
        return id;
    return "";
}

static int set_str(json_t *o, const char *name, const char *value, cay_err *err)
{
    if (!value)
        return 0;
    if (json_object_set_new(o, name, json_string(value)) == 0)
        return 0;
    return cay_fail_why(err, CAY_EINVAL, "not_utf8", "%s: a server takes UTF-8 alone", name);
}

json_t *cay__far_pairs(const cay_pair *p)
{
    json_t *o = json_object();
    for (; p && p->key; p++)
        if (json_object_set_new(o, p->key, json_string(CAY_OR(p->value, ""))) < 0) {
            json_decref(o);
            return NULL;
        }
    return o;
}

static int set_pairs(json_t *o, const char *name, const cay_pair *p, cay_err *err)
{
    if (!p || !p->key)
        return 0;
    if (json_object_set_new(o, name, cay__far_pairs(p)) == 0)
        return 0;
    return cay_fail_why(err, CAY_EINVAL, "not_utf8", "%s: a server takes UTF-8 alone", name);
}

static int set_strs(json_t *o, const char *name, const char *const *list, cay_err *err)
{
    json_t *a;
    if (!list)
        return 0;
    json_object_set_new(o, name, a = json_array());
    for (; *list; list++)
        if (json_array_append_new(a, json_string(*list)) < 0)
            return cay_fail_why(err, CAY_EINVAL, "not_utf8", "%s: a server takes UTF-8 alone",
                                name);
    return 0;
}

/* Numbers up to 2^63; "unlimited". */
static void set_num(json_t *o, const char *name, uint64_t v)
{
    if (v)
        json_object_set_new(o, name,
                            v == CAY_UNLIMITED
                                ? json_string("unlimited")
                                : json_integer((json_int_t)CAY_MIN(v, (uint64_t)INT64_MAX)));
}

static void set_bool(json_t *o, const char *name, bool v)
{
    if (v)
        json_object_set_new(o, name, json_true());
}

static int set_text(json_t *o, const char *name, const char *json, cay_err *err)
{
    json_t *v = NULL;
    if (!json)
        return 0;
    CAY_TRY(cay__json_object(name, json, &v, err));
    json_object_set_new(o, name, v);
    return 0;
}

static int fail_unsupported(const char *what, cay_err *err)
{
    return cay_fail_why(
        err, CAY_ENOTSUP, "not_supported",
        "%s: it is of this host, and the sandbox runs on a server; copy files with cay cp", what);
}

json_t *cay__far_secrets(const cay_secret *s, size_t n)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("{s:s,s:s,s:s*}", "name", s[i].name, "source",
                                              s[i].source, "destination", s[i].destination));
    return list;
}

static int set_whole(json_t *o, const cay_create *c, cay_err *err)
{
    CAY_TRY(set_str(o, "from", c->from, err));
    CAY_TRY(set_text(o, "manifest", c->manifest, err));
    set_num(o, "checkpoint", c->checkpoint);
    json_t *list = json_array();
    json_object_set_new(o, "volumes", list);
    for (size_t i = 0; i < c->nvolumes; i++)
        json_array_append_new(list, json_pack("{s:s,s:s,s:b}", "name", c->volumes[i].name, "target",
                                              c->volumes[i].target, "rw", c->volumes[i].rw));
    if (!c->nvolumes)
        json_object_del(o, "volumes");
    if (c->nsecrets)
        json_object_set_new(o, "secrets", cay__far_secrets(c->secrets, c->nsecrets));
    return 0;
}

static int set_net(json_t *o, const char *net, cay_err *err)
{
    char *json = NULL;
    if (!net)
        return 0;
    CAY_TRY(cay_policy_to_json(net, &json, err));
    int rc = set_text(o, "net", json, err);
    free(json);
    return rc;
}

static void set_limits(json_t *o, const cay_limits *l)
{
    json_t *j = json_object();
    set_num(j, "memory", l->memory);
    set_num(j, "swap", l->swap);
    set_num(j, "cpu_milli", l->cpu_milli);
    set_num(j, "pids", l->pids);
    set_num(j, "disk", l->disk);
    set_num(j, "inodes", l->inodes);
    set_num(j, "nofile", l->nofile);
    set_num(j, "io_read", l->io_read);
    set_num(j, "io_write", l->io_write);
    json_object_set_new(o, "limits", j);
}

static int fill_create(json_t *o, const cay_create *c, bool whole, cay_err *err)
{
    CAY_TRY(set_str(o, "template", c->template_, err));
    CAY_TRY(set_str(o, "name", c->name, err));
    CAY_TRY(set_str(o, "hostname", c->hostname, err));
    CAY_TRY(set_str(o, "user", c->user, err));
    CAY_TRY(set_str(o, "workdir", c->workdir, err));
    CAY_TRY(set_pairs(o, "env", c->env, err));
    CAY_TRY(set_pairs(o, "labels", c->labels, err));
    CAY_TRY(set_pairs(o, "options", c->options, err));
    CAY_TRY(set_pairs(o, "settings", c->settings, err));
    CAY_TRY(set_text(o, "metadata", cay__text_or(c->metadata, NULL), err));
    CAY_TRY(set_strs(o, "require", c->require, err));
    CAY_TRY(set_net(o, c->net, err));
    set_limits(o, &c->limits);
    set_num(o, "ttl_ms", c->ttl_ms);
    set_num(o, "idle_ms", c->idle_ms);
    if (c->min_level > 0)
        CAY_TRY(set_str(o, "isolation", cay_level_name((cay_level)c->min_level), err));
    if (c->on_expiry == CAY_EXPIRE_PAUSE)
        CAY_TRY(set_str(o, "on_expiry", "pause", err));
    set_bool(o, "durable", c->durable);
    set_bool(o, "no_pin", c->no_pin);
    if (whole)
        return set_whole(o, c, err);
    return 0;
}

int cay__far_create_json(const cay_create *c, bool whole, json_t **out, cay_err *err)
{
    if (c->ngrants)
        return fail_unsupported("mount", err);
    if (c->root)
        return fail_unsupported("root", err);
    if (c->on)
        return fail_unsupported("on", err);
    json_t *o = json_object();
    set_bool(o, "sudo", c->sudo);
    int rc = fill_create(o, c, whole, err);
    if (rc == 0)
        rc = set_text(o, "services", c->services, err);
    if (rc < 0)
        json_decref(o);
    else
        *out = o;
    return rc;
}

static int fill_spawn(json_t *o, const cay_spawn *s, cay_err *err)
{
    CAY_TRY(set_strs(o, "argv", s->argv, err));
    CAY_TRY(set_str(o, "shell", s->shell, err));
    CAY_TRY(set_pairs(o, "env", s->env, err));
    CAY_TRY(set_str(o, "cwd", s->cwd, err));
    CAY_TRY(set_str(o, "user", s->user, err));
    CAY_TRY(set_str(o, "profile", s->profile, err));
    CAY_TRY(set_str(o, "tag", s->tag, err));
    CAY_TRY(set_pairs(o, "labels", s->labels, err));
    CAY_TRY(set_str(o, "env_mode", s->env_mode == CAY_ENV_ONLY ? "only" : NULL, err));
    CAY_TRY(set_str(o, "stdin", s->stdin_mode == CAY_STDIN_PIPE ? "pipe" : NULL, err));
    CAY_TRY(set_str(o, "on_full", s->on_full == CAY_FULL_BLOCK ? "block" : NULL, err));
    set_bool(o, "login", s->login);
    set_bool(o, "tty", s->tty);
    set_num(o, "cols", s->cols);
    set_num(o, "rows", s->rows);
    set_num(o, "timeout_ms", s->timeout_ms);
    /* Readers cannot be made with the process over there: they come a moment later, and until then
     * the ring has to hold what it prints. */
    set_num(o, "ring_bytes", s->attach ? RING_MOST : s->ring_bytes);
    return 0;
}

int cay__far_spawn_json(const cay_spawn *s, json_t **out, cay_err *err)
{
    json_t *o = json_object();
    int rc = fill_spawn(o, s, err);
    if (rc < 0)
        json_decref(o);
    else
        *out = o;
    return rc;
}

void cay__far_exit(const json_t *j, cay_exit *out)
{
    cay_exit x = { .size = sizeof x,
                   .code = (int)cay__json_int(j, "code", 255),
                   .signal = (int)cay__json_int(j, "signal", 0),
                   .cpu_us = (uint64_t)cay__json_int(j, "cpu_us", 0),
                   .max_rss = (uint64_t)cay__json_int(j, "max_rss", 0),
                   .lost_out = (uint64_t)cay__json_int(j, "lost_stdout", 0),
                   .lost_err = (uint64_t)cay__json_int(j, "lost_stderr", 0) };
    cay__str_copy(x.reason, sizeof x.reason, cay__far_word(j, "reason"));
    cay__answer_give(out, &x, sizeof x);
}

static int parse_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

char *cay__far_path(const json_t *j, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "%s_hex", name);
    const char *hex = cay__far_word(j, key);
    size_t n = strlen(hex) / 2;
    if (!n)
        return cay__strdup(cay__far_word(j, name));
    char *out = cay__alloc(n + 1);
    for (size_t i = 0; i < n; i++) {
        int hi = parse_hex_digit(hex[2 * i]), lo = parse_hex_digit(hex[2 * i + 1]);
        if (hi < 0 || lo < 0 || (!hi && !lo)) {
            free(out);
            return cay__strdup(cay__far_word(j, name));
        }
        out[i] = (char)(hi * 16 + lo);
    }
    return out;
}

bool cay__far_stat(const json_t *j, cay_stat *out)
{
    static const struct {
        const char *word;
        cay_file_type type;
    } types[] = {
        { "file", CAY_FILE }, { "directory", CAY_DIR }, { "link", CAY_LINK }, { "other", CAY_OTHER }
    };
    cay_stat st = { .size_of = sizeof st, .type = CAY_OTHER };
    for (size_t i = 0; i < CAY_LEN(types); i++)
        if (!strcmp(cay__far_word(j, "type"), types[i].word))
            st.type = types[i].type;
    st.mode = (uint32_t)strtoul(cay__far_word(j, "mode"), NULL, 8);
    st.uid = (uint32_t)cay__json_int(j, "uid", 0);
    st.gid = (uint32_t)cay__json_int(j, "gid", 0);
    st.size = (uint64_t)cay__json_int(j, "size", 0);
    st.inode = (uint64_t)cay__json_int(j, "inode", 0);
    st.nlink = (uint32_t)cay__json_int(j, "nlink", 1);
    st.mtime_ns = cay__json_int(j, "mtime_ns", 0);
    CAY_AUTOFREE char *target = cay__far_path(j, "target");
    cay__str_copy(st.target, sizeof st.target, target);
    cay__answer_give(out, &st, sizeof st);
    return json_is_object(j);
}

cay_wall *cay__far_layers(const json_t *j, size_t *n)
{
    *n = json_array_size(j);
    cay_wall *l = cay__alloc((*n + 1) * sizeof *l);
    for (size_t i = 0; i < *n; i++) {
        const json_t *o = json_array_get(j, i);
        l[i] = (cay_wall){ cay__far_word(o, "name"), cay__far_word(o, "state"),
                           cay__far_word(o, "why"), cay__far_word(o, "remedy") };
    }
    return l;
}
