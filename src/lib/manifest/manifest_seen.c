/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A large manifest that was built before is known again by the fingerprint of its text, without
 * being read: reading ten megabytes of JSON costs a hundred times as much. Only manifests whose
 * layer depends on nothing but their text are remembered: inline content, no accounts. A note has
 * the name of the layer, the key of the kept text, and the manifest without its entries.
 */
#include "fingerprint.h"
#include "client_manifest.h"

#define NOTE_SEEN "manifest-seen"
#define NOTE_KEY  "manifest-seen-key"
#define GRACE_MS  600000
#define LARGE     65536 /* a smaller text is read as fast as its note would be */

bool cay__mani_text_alone(const cay_manifest *m)
{
    if (m->nusers || m->ngroups || m->run_as || strchr(m->root + 1, '/'))
        return false;
    CAY_EACH_OF(entry, m->entries, m->n)
        if ((entry->kind->id != CAY__FILE && entry->kind->id != CAY__DIR) || entry->ephemeral ||
            entry->redacted)
            return false;
    CAY_EACH_OF(it, m->env, m->nenv)
        if (it->ephemeral)
            return false;
    return true;
}

static int take_hex(const char *value, void *arg)
{
    if (!cay__hex_get(arg, value, CAY__PRINT_KEY))
        return CAY_EINVAL;
    return 0;
}

/* Made once for a state directory. Two that make it at once have one each for that time, and find
 * less. */
static bool secret_key(cay_client *client, uint8_t key[CAY__PRINT_KEY])
{
    char hex[2 * CAY__PRINT_KEY + 1];
    if (CAY__STORE(client, note_get, NOTE_KEY, "1", take_hex, key, NULL) == 0)
        return true;
    cay__random(key, CAY__PRINT_KEY);
    cay__hex_put(hex, key, CAY__PRINT_KEY);
    return CAY__STORE(client, note_put, NOTE_KEY, "1", hex, NULL) == 0;
}

static bool compute_print(cay_client *client, const cay_create *c, cay__mani *f)
{
    uint8_t key[CAY__PRINT_KEY];
    char boot[40] = "", all[256];
    if (!secret_key(client, key))
        return false;
    cay__fingerprint(key, c->manifest.text, strlen(c->manifest.text), f->print);
    cay__fd_read_file(AT_FDCWD, "/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    int n =
        CAY_FORMAT(all, "%s %.36s %u %d", f->print, boot, (unsigned)geteuid(), c->manifest.trusted);
    cay__sha256_hex(all, (size_t)n, f->seen);
    return true;
}

bool cay__seen_find(cay_client *client, const cay_create *c, cay__arena *mem, cay__mani *f)
{
    CAY_AUTOFREE char *text = NULL, *rest = NULL;
    CAY_AUTOJSON *o = NULL;
    if (c->from.directory || c->manifest.applied || strnlen(c->manifest.text, LARGE) < LARGE)
        return false;
    if (!compute_print(client, c, f) ||
        cay__note_text(client, NOTE_SEEN, f->seen, &text, NULL) < 0 ||
        cay__json_object("", text, &o, NULL) < 0)
        return false;
    const char *layer = cay__json_str(o, "layer", ""), *key = cay__json_str(o, "key", "");
    rest = cay__json_text(json_object_get(o, "rest"), CAY_MANIFEST_BYTES);
    if (!cay__id_valid(layer, 'm') || !rest || (!c->life.ephemeral && !cay__id_valid(key, 't')) ||
        cay_manifest_parse(rest, strlen(rest),
                           CAY_FLAG_IF(c->manifest.trusted, CAY_MANIFEST_TRUSTED), &f->m, NULL) < 0)
        return false;
    f->layer = cay__arena_str(mem, layer);
    f->key = cay__arena_str(mem, key);
    return true;
}

void cay__seen_put(cay_client *client, const cay__mani *f, const char *layer, const char *key)
{
    if (!f->seen[0] || !cay__mani_text_alone(f->m))
        return;
    CAY_AUTOJSON *o =
        json_pack("{s:s,s:s,s:o}", "layer", layer, "key", key, "rest", cay__manifest_brief(f->m));
    CAY_AUTOFREE char *text = cay__json_text(o, CAY_MANIFEST_BYTES);
    if (text)
        CAY__STORE(client, note_put, NOTE_SEEN, f->seen, text,
                   NULL); /* without it the next time takes longer */
}

typedef struct keys {
    char (*v)[65];
    size_t n;
} keys;

static void add_key(keys *k, const char *key)
{
    k->v = cay__more(k->v, k->n, sizeof *k->v);
    cay__str_copy(k->v[k->n++], sizeof *k->v, key);
}

static bool has_key(const keys *k, const char *key)
{
    CAY_EACH_OF(it, k->v, k->n)
        if (!strcmp(*it, key))
            return true;
    return false;
}

static void use_spec(const char *spec, keys *used)
{
    CAY_AUTOJSON *o = NULL;
    const char *key = NULL;
    if (cay__json_object("", spec, &o, NULL) == 0)
        key = cay__json_str(o, "manifest", NULL);
    if (key && strlen(key) < 65)
        add_key(used, key);
}

static int use_row(const cay_row *row, void *arg)
{
    use_spec(row->spec, arg);
    return 0;
}

static int use_snap(const cay_snap_row *row, void *arg)
{
    use_spec(row->spec, arg);
    return 0;
}

typedef struct sweep {
    cay_client *client;
    keys used, gone, texts;
} sweep;

static int judge_seen(const char *key, const char *value, void *arg)
{
    sweep *s = arg;
    CAY_AUTOJSON *o = NULL;
    const char *layer = "";
    if (cay__json_object("", value, &o, NULL) == 0)
        layer = cay__json_str(o, "layer", "");
    if (!cay__id_valid(layer, 'm') || !cay__mani_there(s->client, layer, false))
        add_key(&s->gone, key);
    else
        add_key(&s->used, cay__json_str(o, "key", ""));
    return 0;
}

static int judge_text(const char *key, const char *value, void *arg)
{
    sweep *s = arg;
    add_key(&s->texts, key);
    return 0;
}

static int read_time(const char *value, void *arg)
{
    *(int64_t *)arg = strtoll(value, NULL, 10);
    return 0;
}

/* A text without a record may be of somebody who is about to be recorded: it goes when a later
 * sweep finds it so again. */
static void expire_unused(cay_client *client, int dir, const char *key, bool used)
{
    int64_t since = 0, now = cay__clock_ms();
    char text[24];
    bool marked = CAY__STORE(client, note_get, CAY__NOTE_UNUSED, key, read_time, &since, NULL) == 0;
    if (used || (marked && (now - since > GRACE_MS || now < since))) {
        if (!used)
            cay__kept_drop(client, dir, key);
        if (marked)
            CAY__STORE(client, note_put, CAY__NOTE_UNUSED, key, NULL, NULL);
    } else if (!marked) {
        CAY_FORMAT(text, "%lld", (long long)now);
        CAY__STORE(client, note_put, CAY__NOTE_UNUSED, key, text, NULL);
    }
}

void cay__mani_sweep(cay_client *client)
{
    sweep s = { .client = client }, later = { .client = client };
    CAY_AUTOFD dir = -1;
    bool ok = cay__kept_alone(client, &dir) == 0 &&
              CAY__STORE(client, note_list, CAY__NOTE_MANIFEST, "", judge_text, &s, NULL) == 0 &&
              CAY__STORE(client, note_list, NOTE_SEEN, "", judge_seen, &later, NULL) == 0 &&
              CAY__STORE(client, list, NULL, use_row, &later.used, NULL) == 0 &&
              CAY__STORE(client, snap_list, NULL, NULL, use_snap, &later.used, NULL) == 0;
    for (size_t i = 0; ok && i < later.gone.n; i++)
        CAY__STORE(client, note_put, NOTE_SEEN, later.gone.v[i], NULL, NULL);
    for (size_t i = 0; ok && i < s.texts.n; i++)
        expire_unused(client, dir, s.texts.v[i], has_key(&later.used, s.texts.v[i]));
    if (ok)
        cay__kept_strays(client, dir);
    free(s.texts.v);
    free(later.gone.v);
    free(later.used.v);
}
