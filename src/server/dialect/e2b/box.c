/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox as E2B knows it: what was asked for at its create, and whether it still counts. */
#include "e2b.h"

void e2b_box_clear(e2b_box *b)
{
    cay_info_free(b->info);
    json_decref(b->note.all);
    *b = (e2b_box){ 0 };
}

bool e2b_running(const cay_info *info)
{
    return info->state == CAY_RUNNING || info->state == CAY_CREATING;
}

bool e2b_alive(cay_sandbox *sb, const cay_call *call)
{
    CAY_AUTOPTR(cay_info) info = NULL;
    return cay_sandbox_describe(sb, call, &info, NULL) == 0 && e2b_running(info);
}

/* In E2B a sandbox whose time is up is no more; ours keeps its files until it is removed, and one
 * that was made to be paused without its memory is just that. */
static bool is_box_gone(const e2b_box *b)
{
    const cay_info *i = b->info;
    bool expired = !strcmp(i->reason, "ttl") || !strcmp(i->reason, "idle");
    return i->state == CAY_DELETING || i->state == CAY_GONE ||
           (i->state == CAY_STOPPED && expired && i->on_expiry == CAY_EXPIRE_KILL &&
            !b->note.files);
}

/* The caller's; NULL when there is none. */
static json_t *load_note(cay__req *r, const char *space, const char *key)
{
    CAY_AUTOFREE char *text = NULL;
    json_t *o = NULL;
    if (cay_note_get(r->client, space, key, &text, NULL) == 0)
        cay__json_object("note", text, &o, NULL);
    return o;
}

json_t *e2b_note_get(cay__req *r, const char *space, const char *key)
{
    return cay__req_keep(r, load_note(r, space, key));
}

/* A change of the network is one of what is reached from inside: how the sandbox itself is reached
 * stays as it was made. */
static void keep_ports(json_t *now, const json_t *first)
{
    static const char *const fields[] = { "allowPublicTraffic", "maskRequestHost", "httpsPorts" };
    CAY_EACH(field, fields) {
        json_t *v = json_object_get(first, *field);
        if (v)
            json_object_set(now, *field, v);
        else
            json_object_del(now, *field);
    }
}

static void read_note(cay__req *r, e2b_box *b)
{
    json_t *all = NULL;
    if (!*b->info->metadata || cay__json_object("metadata", b->info->metadata, &all, NULL) < 0)
        all = json_object();
    json_t *e = json_object_get(all, "e2b");
    CAY_AUTOJSON *changed = load_note(r, "e2b", b->info->id); /* a list reads thousands */
    bool own = e;
    if (!e) { /* made by another way: what it has of its own is its metadata */
        json_t *wrap = json_pack("{s:{},s:o}", "e2b", "metadata", all);
        all = wrap;
        e = json_object_get(all, "e2b");
    }
    if (json_is_object(json_object_get(e, "network")))
        json_object_set(e, "first", json_object_get(e, "network")); /* as it was made with */
    if (changed) {
        json_object_update(e, changed);
        keep_ports(json_object_get(e, "network"), json_object_get(e, "first"));
    }
    b->note = (e2b_note){ .all = all,
                          .own = own,
                          .template_ = cay__json_str(e, "template",
                                                     *b->info->template_ &&
                                                             strcmp(b->info->template_, "host")
                                                         ? b->info->template_
                                                         : "base"),
                          .timeout = cay__json_int(e, "timeout", E2B_TIMEOUT),
                          .auto_resume = cay__json_bool(e, "autoResume", false),
                          .files = cay__json_bool(e, "files", false),
                          .internet_set = json_is_boolean(json_object_get(e, "internet")),
                          .internet = cay__json_bool(e, "internet", true),
                          .network = json_object_get(e, "network"),
                          .volumes = json_object_get(e, "volumes"),
                          .metadata = json_object_get(all, "metadata") };
}

static void give_back(void *sb)
{
    cay_sandbox_unref(sb);
}

/* A sandbox's own token was shown: whose it is does not matter then. */
static int find_any(cay__req *r, const char *id, cay_sandbox **out, cay_err *err)
{
    CAY_TRY(cay_client_find_of(r->client, &r->call, NULL, id, out, err));
    cay__req_defer(r, give_back, *out);
    return 0;
}

int e2b_find(cay__req *r, const char *id, bool any, e2b_box *out, cay_err *err)
{
    char own[CAY_ID_LEN + 1];
    size_t n = strcspn(id, "-");
    *out = (e2b_box){ 0 };
    if (n > CAY_ID_LEN)
        return cay_fail_why(err, CAY_ENOENT, "sandbox_not_found", "sandbox \"%.40s\" not found",
                            id);
    memcpy(own, id, n);
    own[n] = 0;
    if (e2b_debug(r, own))
        CAY_TRY(e2b_debug_find(r, own, err));
    cay_sandbox *sb;
    if (any)
        CAY_TRY(find_any(r, own, &sb, err));
    else
        CAY_TRY(cay__req_sandbox(r, own, &sb, err));
    CAY_TRY(cay_sandbox_describe(sb, &r->call, &out->info, err));
    out->sb = sb;
    read_note(r, out);
    if (!is_box_gone(out))
        return 0;
    e2b_box_clear(out);
    return cay_fail_why(err, CAY_ENOENT, "sandbox_not_found", "sandbox \"%s\" not found", own);
}

int e2b_open(cay__req *r, e2b_box *out, cay_err *err)
{
    return e2b_find(r, r->param[0], false, out, err);
}
