/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a stopped sandbox still has the files of a snapshot: cay-layer compares the two stacks,
 * which costs what was changed. */
#include <lib/client/client.h>
#include "snapshot.h"
#include "state.h"
#include <base/json.h>

typedef struct look {
    const cay__state *s;
    const char *root; /* of the workspace, without its slash */
    bool changed;
} look;

/* Inside the workspace, and not of an entry that is written at each start? */
static bool is_counted_path(const look *l, const char *path)
{
    size_t n = strlen(l->root);
    if (strncmp(path, l->root, n) != 0 || (path[n] && path[n] != '/'))
        return false;
    path += n + (path[n] == '/');
    for (const char *const *e = l->s->entries; *e; e++) {
        size_t k = strlen(*e);
        if (!strncmp(path, *e, k) && (!path[k] || path[k] == '/'))
            return false;
    }
    return true;
}

static int on_record(cay__rec *rec, void *arg, cay_err *err)
{
    look *l = arg;
    size_t len;
    if (rec->type != CAY__REC_CHANGE)
        return 0;
    cay__rec_get_num(rec);
    const char *path = cay__rec_get_bytes(rec, &len);
    while (*path == '/')
        path++;
    l->changed |= rec->bad || is_counted_path(l, path);
    return 0;
}

static const char *find_workspace(const cay__state *s, cay__arena *mem)
{
    CAY_AUTOJSON *m = NULL;
    const char *root = "/workspace";
    if (s->manifest && cay__json_object("manifest", s->manifest, &m, NULL) == 0)
        root = cay__json_str(m, "root", root);
    return cay__arena_str(mem, root + strspn(root, "/"));
}

bool cay__state_same_files(cay_client *client, const cay_call *call, const cay__state *s,
                           cay_err *err)
{
    CAY_AUTOFREE cay__snaprow *snap = NULL;
    CAY_AUTOFREE cay__row *row = NULL;
    CAY__AUTOWORDS w = { 0 };
    CAY_AUTOPTR(cay__spec) spec = NULL;
    cay__stack stack;
    char below[CAY_LAYER_NAME], upper[64];
    if (cay__snap_row(client, s->snapshot, &snap, err) < 0 ||
        cay__stack_read(snap->row.layers, &stack, err) < 0 ||
        cay__layer_template(client->home_fd, snap->row.template_, below, sizeof below, err) < 0 ||
        cay__client_row(client, s->id, &row, err) < 0 ||
        strcmp(row->row.provider, "native") != 0 || /* only its trees lie where cay-layer looks */
        cay__spec_read(&row->row, &spec, err) < 0)
        return false;
    look l = { .s = s, .root = find_workspace(s, &w.mem) };
    cay__layer_word_stack(&w, "a=", below, stack.name, stack.n);
    cay__layer_word_stack(&w, "b=", below, spec->box.layers, spec->box.nlayers);
    cay__upper_path(upper, sizeof upper, s->id);
    cay__layer_word(&w, "b-top=", upper);
    cay__layer_ask ask = { .verb = "diff", .args = w.v, .nargs = w.n, .fn = on_record, .arg = &l };
    return cay__layer_run(&client->layers, call, &ask, NULL, err) == 0 && !l.changed;
}
