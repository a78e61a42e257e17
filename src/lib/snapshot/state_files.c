/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a stopped sandbox still has the files of a snapshot: cay-layer compares the two stacks,
 * which costs what was changed. */
#include <lib/client/client.h>
#include "snapshot.h"
#include "state.h"
#include <base/json.h>
#include "layer.h"

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

typedef struct words {
    const char **v;
    size_t n;
    cay__arena mem;
} words;

static void words_clear(words *w)
{
    cay__arena_clear(&w->mem);
    free(w->v);
}

static void add_word(words *w, const char *key, const char *value)
{
    size_t n = strlen(key) + strlen(value) + 1;
    char *s = cay__arena_take(&w->mem, n);
    cay__str_join(s, n, key, value, NULL);
    w->v[w->n++] = s;
}

bool cay__state_same_files(cay_client *client, const cay_call *call, const cay__state *s,
                           cay_err *err)
{
    CAY_AUTOFREE cay__snaprow *snap = NULL;
    CAY_AUTOFREE cay__row *row = NULL;
    __attribute__((cleanup(words_clear)))
    words w = { .v = cay__alloc((2 * CAY_STACK_MAX + 8) * sizeof *w.v) };
    cay__spec *spec = NULL;
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
    add_word(&w, "a=", below);
    CAY_EACH_OF(it, stack.name, stack.n)
        add_word(&w, "a=", *it);
    add_word(&w, "b=", below);
    CAY_EACH_OF(layer, spec->box.layers, spec->box.nlayers)
        add_word(&w, "b=", *layer);
    cay__spec_free(spec);
    cay__upper_path(upper, sizeof upper, s->id);
    add_word(&w, "b-top=", upper);
    cay__layer_at at = { .home = client->home, .libexec = client->libexec };
    cay__layer_ask ask = { .verb = "diff", .args = w.v, .nargs = w.n, .fn = on_record, .arg = &l };
    return cay__layer_run(&at, call, &ask, NULL, err) == 0 && !l.changed;
}
