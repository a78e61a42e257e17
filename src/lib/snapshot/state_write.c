/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox as a state: what it was asked to be, without all that gives a right; that is only
 * named. */
#include <lib/client/remote.h>
#include <lib/manifest/client_manifest.h>
#include <lib/client/client.h>
#include "state.h"
#include <base/json.h>
#include <cay/snapshot.h>
#include <cay/state.h>

CAY_DEFINE_AUTO(cay_info, cay_info_free)

static json_t *mount_json(const char *name, const char *target, bool rw)
{
    json_t *o = json_object();
    if (name)
        json_object_set_new(o, "name", json_string(name));
    json_object_set_new(o, "target", json_string(target));
    json_object_set_new(o, "rw", json_boolean(rw));
    return o;
}

static void put_list(json_t *o, const char *key, json_t *list)
{
    if (json_array_size(list))
        json_object_set_new(o, key, list);
    else
        json_decref(list);
}

static bool has_secret(const cay_create *c, const char *name)
{
    CAY_EACH_OF(secret, c->net.secrets, c->net.nsecrets)
        if (!strcmp(secret->name, name))
            return true;
    return false;
}

/* What is left out, by name. */
static json_t *redacted_json(const cay_create *c, const cay__state_manifest *m)
{
    json_t *o = json_object(), *grants = json_array(), *volumes = json_array(),
           *secrets = json_array();
    CAY_EACH_OF(grant, c->files.grants, c->files.ngrants)
        if (!cay__state_has(m->targets,
                            grant->target)) /* a mount of the manifest comes by the
                                                     manifest again, and would be there twice */
            json_array_append_new(grants, mount_json(NULL, grant->target, grant->rw));
    CAY_EACH_OF(volume, c->files.volumes, c->files.nvolumes)
        json_array_append_new(volumes, mount_json(volume->name, volume->target, volume->rw));
    CAY_EACH_OF(secret, c->net.secrets, c->net.nsecrets)
        json_array_append_new(secrets, json_string(secret->name));
    put_list(o, "grants", grants);
    put_list(o, "volumes", volumes);
    put_list(o, "secrets", secrets);
    put_list(o, "environment", json_incref(m->variables));
    put_list(o, "ephemeral", json_incref(m->ephemeral));
    if (c->from.root)
        json_object_set_new(o, "root", json_true());
    if (c->from.directory)
        json_object_set_new(o, "on", json_true());
    if (c->net.policy && strcmp(c->net.policy, "cay-net 1\nmode off\n") != 0)
        json_object_set_new(o, "network", json_true());
    if (m->mounts)
        json_object_set_new(o, "mounts", json_true());
    return o;
}

/* Variables that stand for secrets, those that tell where to find trust, and ephemeral ones are
 * made anew. */
static const cay_pair *plain_env(const cay_create *c, const cay__state_manifest *m, cay__arena *mem)
{
    size_t n = 0, k = 0;
    while (c->process.env && c->process.env[n].key)
        n++;
    cay_pair *env = cay__arena_take(mem, (n + 1) * sizeof *env);
    for (size_t i = 0; i < n; i++)
        if (!has_secret(c, c->process.env[i].key) &&
            !cay__str_starts(CAY_OR(c->process.env[i].value, ""), "/etc/cay/") &&
            !cay__state_has(m->variables, c->process.env[i].key))
            env[k++] = c->process.env[i];
    return env;
}

static int sandbox_json(const cay_row *row, const cay__spec *whole, const cay__state_manifest *m,
                        json_t **out, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    cay__spec s = *whole;
    cay_create *c = &s.create;
    CAY_AUTOFREE char *text = NULL;
    CAY_AUTOJSON *o = NULL, *labels = NULL, *meta = NULL;
    c->from.root = c->from.directory = c->net.policy = c->manifest.text = c->manifest.base =
        c->from.snapshot = NULL;
    s.on_since_ms = 0;
    c->files.grants = NULL, c->files.volumes = NULL, c->net.secrets = NULL;
    s.box.layers = NULL;
    c->files.ngrants = c->files.nvolumes = c->net.nsecrets = s.box.nlayers = 0;
    c->isolation.min_level = 0;
    c->isolation.sudo = false;
    c->process.env = plain_env(&whole->create, m, &mem);
    CAY_TRY(cay__spec_text(&s, &text, err));
    CAY_TRY(cay__json_object("record: spec", text, &o, err));
    json_object_del(o, "grants");
    CAY_TRY(cay__json_object("record: labels", row->labels, &labels, err));
    json_object_set(o, "labels", labels);
    if (row->name && *row->name)
        json_object_set_new(o, "name", json_string(row->name));
    if (row->metadata && *row->metadata &&
        cay__json_object("record: metadata", row->metadata, &meta, NULL) == 0)
        json_object_set(o, "metadata", meta);
    *out = json_incref(o);
    return 0;
}

static int on_snapshot(const cay_snapshot *s, void *arg)
{
    cay__str_copy(arg, CAY_ID_LEN + 1, s->id); /* oldest first: the last one stays */
    return 0;
}

static int pick_snapshot(cay_sandbox *sb, const cay_call *call, bool now, char id[CAY_ID_LEN + 1],
                         cay_err *err)
{
    cay_snapshot *made = NULL;
    cay_snapshot_filter f = { .size = sizeof f, .sandbox = sb->id };
    id[0] = 0;
    if (!now)
        return cay_client_snapshots(sb->owner, call, &f, on_snapshot, id, err);
    CAY_TRY(cay_sandbox_snapshot(
        sb, call, &(cay_snapshot_spec){ .size = sizeof(cay_snapshot_spec) }, &made, err));
    cay__str_copy(id, CAY_ID_LEN + 1, made->id);
    cay_snapshot_free(made);
    return 0;
}

static void put_snapshot(json_t *o, const char *id, const char *manifest)
{
    char print[65];
    json_t *s = json_pack("{s:s}", "type", *id ? CAY__STATE_TYPE : "noop");
    if (*id)
        json_object_set_new(s, "id", json_string(id));
    json_object_set_new(o, "snapshot", s);
    if (*id)
        cay__state_fingerprint(id, manifest, print);
    json_object_set_new(o, "snapshot_fingerprint", *id ? json_string(print) : json_null());
    json_object_set_new(o, "snapshot_fingerprint_version",
                        *id ? json_string(CAY__STATE_FINGERPRINT) : json_null());
}

static int on_port(const cay_exposed *e, void *arg)
{
    json_array_append_new(arg, json_integer(e->port));
    return 0;
}

static int put_manifest(json_t *o, const cay__state_manifest *m, cay_err *err)
{
    CAY_AUTOJSON *j = NULL;
    if (m->text)
        CAY_TRY(cay__json_object("manifest", m->text, &j, err));
    json_object_set_new(o, "manifest", j ? json_incref(j) : json_null());
    if (m->mounts)
        json_object_set_new(o, CAY__STATE_MOUNTS, json_true());
    if (json_array_size(m->grant_paths))
        json_object_set(o, CAY__STATE_GRANT_PATHS, m->grant_paths);
    return 0;
}

static int write_all(cay_sandbox *sb, const cay_row *row, const cay__spec *s, const cay_info *info,
                     const char *snapshot, const cay__state_manifest *m, bool js, char **json,
                     cay_err *err)
{
    const cay_create *c = &s->create;
    CAY_AUTOJSON *o = json_object(), *ports = json_array(), *sandbox = NULL;
    CAY_TRY(sandbox_json(row, s, m, &sandbox, err));
    CAY_TRY(cay_port_exposed(sb, on_port, ports, err));
    json_object_set_new(o, "type", json_string(CAY__STATE_TYPE));
    json_object_set_new(o, "version", json_integer(CAY__STATE_VERSION));
    json_object_set_new(o, "session_id", json_string(sb->id));
    json_object_set_new(o, "provider", json_string(row->provider));
    json_object_set_new(o, "isolation", json_integer(info->level));
    json_object_set_new(o, "template", json_string(CAY_OR(c->from.template_, "host")));
    put_snapshot(o, snapshot, m->text);
    json_object_set_new(o, "workspace_root_ready", json_true());
    CAY_TRY(put_manifest(o, m, err));
    json_object_set(o, "exposed_ports", ports);
    json_object_set(o, "sandbox", sandbox);
    json_object_set_new(o, "redacted", redacted_json(c, m));
    CAY_AUTOJSON *envelope = NULL;
    if (js)
        envelope = cay__state_to_js(o);
    *json = cay__json_text(CAY_OR(envelope, o), CAY_STATE_BYTES);
    if (*json)
        return 0;
    return cay_fail_why(err, CAY_ETOOBIG, "state_too_big",
                        "the state of %s would have more than %u bytes", sb->id, CAY_STATE_BYTES);
}

int cay_sandbox_save_state(cay_sandbox *sb, const cay_call *call, const cay_save_state *given,
                           char **json, cay_err *err)
{
    CAY_TRY(cay__remote_none(sb->owner, "session state", err));
    cay_save_state s = { .size = sizeof s };
    CAY_AUTOFREE cay__row *row = NULL;
    CAY_AUTOPTR(cay_info) info = NULL;
    char snapshot[CAY_ID_LEN + 1];
    CAY_AUTOPTR(cay__spec) spec = NULL;
    CAY_AUTOFREE char *text = NULL;
    __attribute__((cleanup(cay__state_manifest_clear))) cay__state_manifest m = { 0 };
    if (given)
        CAY_TRY(cay__spec_take(&s, sizeof s, given, "cay_save_state", err));
    CAY_TRY(cay__call_check(call, "state", err));
    if (!sb->owner || cay__client_row(sb->owner, sb->id, &row, NULL) < 0)
        return cay_fail_why(
            err, CAY_ENOTSUP, "not_supported",
            "sandbox %s is thrown away at its end; only one that is kept has a state", sb->id);
    CAY_TRY(cay__spec_read(&row->row, &spec, err));
    CAY_TRY(cay_sandbox_describe(sb, call, &info, err));
    CAY_TRY(cay__mani_text(sb->owner, spec->create.manifest.text, &text, err));
    CAY_TRY(cay__state_manifest_of(text, &m, err));
    CAY_TRY(pick_snapshot(sb, call, s.snapshot, snapshot, err));
    return write_all(sb, &row->row, spec, info, snapshot, &m, s.js, json, err);
}
