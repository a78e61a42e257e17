/* SPDX-License-Identifier: Apache-2.0 */
/* What a live sandbox may follow: entries may come, with CAY_MANIFEST_REPLACE they may get other
 * content; the rest stands. */
#include "manifest.h"

typedef struct walk {
    const cay_manifest *old, *new_;
    unsigned flags;
    cay_manifest_delta_fn *fn;
    void *arg;
    cay_err *err;
    int refused; /* 0, or the code of the first refusal, which err tells */
} walk;

static int report_delta(walk *w, const char *what, const char *name, const char *action,
                        const char *why)
{
    cay_manifest_delta d = {
        .size = sizeof d, .what = what, .name = name, .action = action, .why = why
    };
    if (why && !w->refused)
        w->refused =
            cay_fail_why(w->err, CAY_ESTATE, "manifest_change_refused",
                         "manifest: %s %s %.80s in a running sandbox: %s", action, what, name, why);
    if (w->fn)
        return w->fn(&d, w->arg);
    return 0;
}

static bool same_json(json_t *a, json_t *b)
{
    CAY_AUTOJSON *x = a, *y = b;
    return json_equal(x, y);
}

static const cay__env *find_env(const cay_manifest *m, const char *name)
{
    CAY_EACH_OF(it, m->env, m->nenv)
        if (!strcmp(it->name, name))
            return it;
    return NULL;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static int compare_env(walk *w)
{
    CAY_EACH_OF(item, w->new_->env, w->new_->nenv) {
        const cay__env *n = item, *o = find_env(w->old, n->name);
        /* A value that was not kept cannot be compared; whoever gives it again may. */
        if (o && same_text(o->source, n->source) &&
            (same_text(o->value, n->value) || (o->ephemeral && !o->value) ||
             (n->ephemeral && !n->value)))
            continue;
        int rc = report_delta(w, "environment", n->name, o ? "replace" : "add",
                              "its processes have their environment already");
        if (rc)
            return rc;
    }
    CAY_EACH_OF(it, w->old->env, w->old->nenv)
        if (!find_env(w->new_, it->name)) {
            int rc = report_delta(w, "environment", it->name, "remove",
                                  "its processes have their environment already");
            if (rc)
                return rc;
        }
    return 0;
}

/* Users and groups, in the form that is written. */
static int compare_accounts(walk *w)
{
    static const char *const what[] = { "users", "groups", "run_as" };
    CAY_AUTOJSON *a = cay__manifest_json(w->old, false), *b = cay__manifest_json(w->new_, false);
    CAY_EACH(one, what) {
        json_t *x = json_object_get(a, *one), *y = json_object_get(b, *one);
        if (x == y || (x && y && json_equal(x, y)))
            continue;
        const char *how = "replace";
        if (!x)
            how = "add";
        else if (!y)
            how = "remove";
        int rc = report_delta(w, *one, "", how, "accounts are made with the sandbox");
        if (rc)
            return rc;
    }
    return 0;
}

static json_t *own_json(const cay_manifest *m, const cay__entry *e)
{
    json_t *j = cay__entry_json(m, (size_t)(e - m->entries), true);
    json_object_del(j, "children");
    return j;
}

static int compare_entry(walk *w, const cay__entry *n)
{
    const cay__entry *o = cay__entry_find(w->old, n->path);
    bool mount = cay__is_mount(n) || (o && cay__is_mount(o));
    const char *what = "entry";
    if (mount)
        what = "mount";
    if (!o)
        return report_delta(w, what, n->path, "add",
                            CAY_IF(mount, "mounts are made with the sandbox"));
    if (o->kind != n->kind)
        return report_delta(w, what, n->path, "replace", "its type is another");
    if (same_json(own_json(w->old, o), own_json(w->new_, n)))
        return 0;
    const char *why = NULL;
    if (mount)
        why = "mounts are made with the sandbox";
    else if (!(w->flags & CAY_MANIFEST_REPLACE))
        why = "it is there already; allow replacing to change it";
    return report_delta(w, what, n->path, "replace", why);
}

int cay_manifest_change(const cay_manifest *old, const cay_manifest *new_, unsigned flags,
                        cay_manifest_delta_fn *fn, void *arg, cay_err *err)
{
    walk w = { old, new_, flags, fn, arg, err, 0 };
    int rc = 0;
    if (strcmp(old->root, new_->root))
        rc = report_delta(&w, "root", new_->root, "replace", "the root of a sandbox stays");
    if (rc || (rc = compare_env(&w)) || (rc = compare_accounts(&w)))
        return rc;
    CAY_EACH_OF(item, new_->entries, new_->n)
        if ((rc = compare_entry(&w, item)))
            return rc;
    CAY_EACH_OF(entry, old->entries, old->n)
        if (!cay__entry_find(new_, entry->path) &&
            (rc = report_delta(&w, cay__is_mount(entry) ? "mount" : "entry", entry->path, "remove",
                               "what a process may be using is not taken away")))
            return rc;
    CAY_EACH_OF(it, new_->grants, new_->ngrants) {
        bool known = false;
        CAY_EACH_OF(grant, old->grants, old->ngrants)
            known |= !strcmp(grant->path, it->path) && grant->read_only == it->read_only &&
                     same_text(grant->host_path, it->host_path);
        if (!known &&
            (rc = report_delta(&w, "grants", it->path, "adopt",
                               CAY_IF(it->host_path, "host directories are shown from the start"))))
            return rc;
    }
    if (!same_text(old->policy, new_->policy) &&
        (rc = report_delta(&w, "policy", "", "replace", "a live policy is changed by cay net")))
        return rc;
    if (!(old->services && new_->services ? json_equal(old->services, new_->services)
                                          : old->services == new_->services) &&
        (rc = report_delta(&w, "services", "", "replace", "services are those of the start")))
        return rc;
    if (old->sudo != new_->sudo &&
        (rc = report_delta(&w, "sudo", "", "replace",
                           "whether there is a sudo is settled at the start")))
        return rc;
    return w.refused;
}
