/* SPDX-License-Identifier: Apache-2.0 */
/* Keys: made once, kept as a hash, and remembered for a second so that showing one costs no look
 * into the store. */
#include "remote.h"
#include "client.h"
#include <base/sha256.h>
#include <base/mutant.h>

#define PREFIX     "e2b_"
#define SESSION    "cays_"
#define SLOTS      256
#define BELIEF_MS  1000
#define NOTE_MS    60000 /* how often the use of a key is written down at most */
#define USED       1024  /* keys whose last use is remembered until then */
#define SKEW_MS    60000 /* of clocks that expiry is judged by */
#define WEEK_MS    (7 * 86400000ll)
#define LOGIN_MS   (15 * 60000ll)
#define NAME_BYTES 100
#define PATH_BYTES 4096

static const char *const scopes[] = {
    [CAY_KEY_NONE] = "none",   [CAY_KEY_LOGIN_LINK] = "login",      [CAY_KEY_PORT] = "port",
    [CAY_KEY_FILE] = "file",   [CAY_KEY_SANDBOX] = "sandbox",       [CAY_KEY_TENANT] = "tenant",
    [CAY_KEY_ADMIN] = "admin", [CAY_KEY_CONSOLE_LOGIN] = "session",
};

const char *cay_key_scope_name(cay_key_scope s)
{
    if ((unsigned)s < CAY_LEN(scopes))
        return scopes[s];
    return scopes[CAY_KEY_NONE];
}

cay_key_scope cay_key_scope_parse(const char *name)
{
    for (size_t i = 1; name && i < CAY_LEN(scopes); i++)
        if (!strcmp(name, scopes[i]))
            return (cay_key_scope)i;
    return CAY_KEY_NONE;
}

typedef struct known {
    atomic_int refs;
    int64_t asked_ms;
    bool there; /* false: there is no key with that id */
    char id[CAY_KEY_ID_LEN + 1], hash[CAY__SHA256_HEX];
    cay_key key; /* strings in text */
    char text[];
} known;

/* When a key was last used. Two that share a slot take turns: what is lost by that is told with its
 * next use. */
typedef struct used {
    char id[CAY_KEY_ID_LEN + 1];
    int64_t at_ms, written_ms;
} used;

struct cay__keyring {
    known *slot[SLOTS];
    used used[USED];
};

static void known_unref(known *k)
{
    if (k && atomic_fetch_sub(&k->refs, 1) == 1)
        free(k);
}
CAY_DEFINE_AUTO(known, known_unref)

void cay__keyring_free(struct cay__keyring *ring)
{
    for (size_t i = 0; ring && i < SLOTS; i++)
        known_unref(ring->slot[i]);
    free(ring);
}

static size_t slot_of(const char *id)
{
    return cay__hash(id, CAY_KEY_ID_LEN) % SLOTS;
}

static known *lookup_cached_key(cay_client *client, const char *id)
{
    pthread_mutex_lock(&client->lock);
    known *k = NULL;
    if (client->keys)
        k = client->keys->slot[slot_of(id)];
    if (k && (strcmp(k->id, id) != 0 || cay__now_ms() - k->asked_ms > BELIEF_MS))
        k = NULL;
    if (k)
        atomic_fetch_add(&k->refs, 1);
    pthread_mutex_unlock(&client->lock);
    return k;
}

/* k NULL forgets what is there. */
static void cache_key(cay_client *client, const char *id, known *k)
{
    pthread_mutex_lock(&client->lock);
    if (!client->keys)
        client->keys = cay__alloc(sizeof *client->keys);
    known **at = &client->keys->slot[slot_of(id)], *old = *at;
    if (k)
        atomic_fetch_add(&k->refs, 1);
    *at = k;
    pthread_mutex_unlock(&client->lock);
    known_unref(old);
}

static known *known_new(const char *id, const cay_key_row *row)
{
    const char *from[5] = { 0 };
    size_t need = 0;
    if (row)
        memcpy(from,
               (const char *[]){ row->key.tenant, row->key.name, row->key.sandbox, row->key.path,
                                 row->key.from },
               sizeof from);
    CAY_EACH(one, from)
        need += (*one ? strlen(*one) : 0) + 1;
    known *k = cay__alloc(sizeof *k + need);
    const char **to[] = { &k->key.tenant, &k->key.name, &k->key.sandbox, &k->key.path,
                          &k->key.from };
    atomic_init(&k->refs, 1);
    k->there = row != NULL;
    if (row) {
        k->key = row->key;
        CAY_COPY(k->hash, row->hash);
    }
    k->key.size = sizeof k->key;
    CAY_COPY(k->id, id);
    k->key.id = k->id;
    char *p = k->text;
    for (size_t i = 0; i < CAY_LEN(from); i++) {
        cay__str_copy(p, strlen(CAY_OR(from[i], "")) + 1, CAY_OR(from[i], ""));
        *to[i] = p;
        p += strlen(p) + 1;
    }
    return k;
}

static int copy_key_row(const cay_key_row *row, void *arg)
{
    *(known **)arg = known_new(row->key.id, row);
    return 0;
}

static int lookup_key(cay_client *client, const char *id, known **out, cay_err *err)
{
    known *k = lookup_cached_key(client, id);
    if (!k) {
        int64_t now = cay__now_ms();
        int rc = CAY__STORE(client, key_get, id, copy_key_row, &k, err);
        if (rc < 0 && rc != CAY_ENOENT)
            return rc;
        if (!k)
            k = known_new(id, NULL);
        k->asked_ms = now;
        cache_key(client, id, k);
    }
    *out = k;
    return 0;
}

static bool is_hex(const char *s, size_t n)
{
    return cay__hex_len(s) >= n;
}

bool cay__equal_const_time(const char *a, const char *b, size_t n)
{
    unsigned diff = 0;
    for (size_t i = 0; i < n; i++)
        diff |= (unsigned char)a[i] ^ (unsigned char)b[i];
    return diff == 0;
}

static int fail_invalid_key(cay_err *err)
{
    return cay_fail_why(err, CAY_EAUTH, "key_invalid",
                        "the key is not known, or was revoked; cay key create makes one");
}

static int check_expiry(const cay_key *k, cay_err *err)
{
    if (!k->expires_ms || cay__clock_ms() <= k->expires_ms + SKEW_MS ||
        (k->scope == CAY_KEY_CONSOLE_LOGIN && CAY__MUTANT("console-expiry")))
        return 0;
    return cay_fail_why(err, CAY_EAUTH, "key_expired", "%s %s has expired; %s makes another",
                        k->scope == CAY_KEY_CONSOLE_LOGIN ? "session" : "key", k->id,
                        k->scope == CAY_KEY_CONSOLE_LOGIN ? "logging in" : "cay key create");
}

/* For people who wonder whether anything still needs it. Nobody who shows a key waits for a write:
 * cay_key_flush_usage() does those. */
static void note_use(cay_client *client, const known *k)
{
    pthread_mutex_lock(&client->lock);
    if (!client->keys) /* somebody forgot all of them meanwhile */
        client->keys = cay__alloc(sizeof *client->keys);
    used *u = &client->keys->used[cay__hash(k->id, CAY_KEY_ID_LEN) % USED];
    if (strcmp(u->id, k->id) != 0) {
        *u = (used){ .written_ms = k->key.used_ms };
        CAY_COPY(u->id, k->id);
    }
    u->at_ms = cay__clock_ms();
    pthread_mutex_unlock(&client->lock);
}

/* What is not written down yet, or a while ago. */
static bool is_write_due(const used *u, bool all)
{
    return *u->id && u->at_ms > u->written_ms && (all || u->at_ms - u->written_ms >= NOTE_MS);
}

int cay_key_flush_usage(cay_client *client, bool all, cay_err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < USED; i++) {
        pthread_mutex_lock(&client->lock);
        used u;
        if (client->keys)
            u = client->keys->used[i];
        else
            u = (used){ 0 };
        bool want = is_write_due(&u, all);
        if (want)
            client->keys->used[i].written_ms = u.at_ms;
        pthread_mutex_unlock(&client->lock);
        if (want)
            rc = CAY__STORE(client, key_used, u.id, u.at_ms, err);
    }
    return rc;
}

/* What `text`, which begins with `prefix`, is the secret of: good, and a session if that prefix is.
 */
static int verify_secret(cay_client *client, const char *text, const char *prefix, known **out,
                         cay_err *err)
{
    char id[CAY_KEY_ID_LEN + 1] = "", hash[CAY__SHA256_HEX];
    size_t skip = strlen(prefix), len = skip + CAY_KEY_LEN - strlen(PREFIX);
    CAY_AUTOPTR(known) k = NULL;
    if (!text || strnlen(text, len + 1) != len || !cay__str_starts(text, prefix) ||
        !is_hex(text + skip, len - skip))
        return fail_invalid_key(err);
    memcpy(id, text + skip, CAY_KEY_ID_LEN);
    CAY_TRY(lookup_key(client, id, &k, err));
    cay__sha256_hex(text, len, hash);
    /* One that is not there is compared with nothing, in the same time. */
    bool good = cay__equal_const_time(hash, k->hash, sizeof hash - 1);
    if (!k->there || !good || k->key.revoked_ms || k->key.scope == CAY_KEY_NONE ||
        (k->key.scope == CAY_KEY_CONSOLE_LOGIN) != !strcmp(prefix, SESSION))
        return fail_invalid_key(err);
    CAY_TRY(check_expiry(&k->key, err));
    note_use(client, k);
    *out = CAY_STEAL(k);
    return 0;
}

int cay_key_check(cay_client *client, const char *text, cay_key_fn *fn, void *arg, cay_err *err)
{
    CAY_AUTOPTR(known) k = NULL;
    CAY_TRY(verify_secret(client, text, PREFIX, &k, err));
    return fn(&k->key, arg);
}

int cay_login_check(cay_client *client, const char *text, cay_key_fn *fn, void *arg, cay_err *err)
{
    CAY_AUTOPTR(known) k = NULL;
    CAY_AUTOPTR(known) of = NULL;
    CAY_TRY(verify_secret(client, text, SESSION, &k, err));
    cay_key as = k->key;
    as.scope = CAY_KEY_ADMIN;
    if (*as.from) {
        CAY_TRY(lookup_key(client, as.from, &of, err));
        bool wide = of->key.scope == CAY_KEY_TENANT || of->key.scope == CAY_KEY_ADMIN;
        if (!of->there || of->key.revoked_ms || !wide || strcmp(of->key.tenant, as.tenant) != 0)
            return fail_invalid_key(err);
        CAY_TRY(check_expiry(&of->key, err));
        note_use(client, of);
        as.scope = of->key.scope;
    }
    return fn(&as, arg);
}

static int check_name(const char *name, cay_err *err)
{
    size_t n = 0;
    if (name)
        n = strlen(name);
    CAY_EACH_OF(it, name, n)
        if ((unsigned char)*it < 0x20 || *it == 0x7f)
            return cay_fail_why(err, CAY_EINVAL, "key_spec",
                                "the name of the key has a control character");
    if (n > NAME_BYTES)
        return cay_fail_why(err, CAY_EINVAL, "key_spec",
                            "the name of the key is longer than %d bytes", NAME_BYTES);
    return 0;
}

/* A narrow key names what it opens, and nothing else. */
static int check_narrow(cay_client *client, const cay_key *k, cay_err *err)
{
    CAY_AUTOFREE cay__row *row = NULL;
    bool narrow = k->scope < CAY_KEY_TENANT && k->scope != CAY_KEY_LOGIN_LINK;
    if (narrow != (k->sandbox && *k->sandbox))
        return cay_fail_why(err, CAY_EINVAL, "key_spec",
                            narrow ? "scope %s needs a sandbox" : "scope %s takes no sandbox",
                            cay_key_scope_name(k->scope));
    if ((k->scope == CAY_KEY_PORT) != (k->port != 0))
        return cay_fail_why(err, CAY_EINVAL, "key_spec",
                            "a port goes with scope port, and only with it");
    if ((k->scope == CAY_KEY_FILE) != (k->path && *k->path) ||
        (k->path && *k->path &&
         (*k->path != '/' || strlen(k->path) > PATH_BYTES || strstr(k->path, "/.."))))
        return cay_fail_why(err, CAY_EINVAL, "key_spec",
                            "an absolute path without .. goes with scope file, and only with it");
    if (narrow && (cay__client_row(client, k->sandbox, &row, NULL) < 0 ||
                   strcmp(row->row.tenant, k->tenant) != 0))
        return cay_fail_why(err, CAY_ENOENT, "sandbox_not_found",
                            "there is no sandbox %.20s of tenant %s", k->sandbox, k->tenant);
    return 0;
}

static void make_text(char *text, const char *prefix)
{
    unsigned char raw[(CAY_KEY_LEN - 4) / 2];
    size_t skip = strlen(prefix);
    cay__random(raw, sizeof raw);
    cay__str_copy(text, skip + 1, prefix);
    cay__hex_put(text + skip, raw, sizeof raw);
    explicit_bzero(raw, sizeof raw);
}

void cay_key_text(char text[CAY_KEY_LEN + 1])
{
    make_text(text, PREFIX);
}

static int is_same(const cay_key_row *row, void *arg)
{
    if (cay__equal_const_time(row->hash, arg, CAY__SHA256_HEX - 1)) {
        if (row->key.revoked_ms)
            return 2;
        return 1;
    }
    return 0;
}

/* Of a text that was chosen before: who comes again finds it. */
static int record_given(cay_client *client, cay_key *k, char *text, cay_err *err)
{
    char hash[CAY__SHA256_HEX], id[CAY_KEY_ID_LEN + 1] = "";
    if (strnlen(k->text, CAY_KEY_LEN + 1) != CAY_KEY_LEN || !cay__str_starts(k->text, PREFIX) ||
        !is_hex(k->text + strlen(PREFIX), CAY_KEY_LEN - strlen(PREFIX)))
        return cay_fail_why(err, CAY_EINVAL, "key_spec",
                            "the text of a key is made by cay_key_text()");
    memcpy(id, k->text + strlen(PREFIX), CAY_KEY_ID_LEN);
    cay__sha256_hex(k->text, CAY_KEY_LEN, hash);
    k->id = id;
    cay_err why = CAY_ERR_INIT;
    int rc = CAY__STORE(client, key_put, &(cay_key_row){ *k, hash }, &why);
    int found = 0;
    if (rc == CAY_EEXIST)
        found = CAY__STORE(client, key_get, id, is_same, hash, NULL);
    if (rc < 0 && found != 1) {
        if (err)
            *err = why;
        if (found == 2)
            return cay_fail_why(err, CAY_EEXIST, "key_revoked",
                                "key %s was made before, and revoked", id);
        return rc;
    }
    cache_key(client, id, NULL);
    cay__str_copy(text, CAY_KEY_LEN + 1, k->text);
    return 0;
}

static int insert_record(cay_client *client, cay_key *k, const char *prefix, char *text,
                         cay_err *err)
{
    char made[CAY_LOGIN_LEN + 1], hash[CAY__SHA256_HEX], id[CAY_KEY_ID_LEN + 1] = "";
    int rc = CAY_EEXIST;
    for (int tries = 0; rc == CAY_EEXIST && tries < 8; tries++) { /* ids are short */
        make_text(made, prefix);
        memcpy(id, made + strlen(prefix), CAY_KEY_ID_LEN);
        cay__sha256_hex(made, strlen(made), hash);
        k->id = id;
        rc = CAY__STORE(client, key_put, &(cay_key_row){ *k, hash }, err);
    }
    if (rc == 0) {
        cache_key(client, id, NULL); /* somebody may have asked for that id before it was there */
        cay__str_copy(text, strlen(made) + 1, made);
    }
    explicit_bzero(made, sizeof made);
    return rc;
}

static int create_remote_key(const cay__remote *r, const cay_key *given, char *text, cay_err *err)
{
    cay__key_body b = { 0 };
    cay__key_made made = { 0 };
    CAY_TRY(cay__spec_take(&b.key, sizeof b.key, given, "cay_key", err));
    if (b.key.scope)
        b.scope = cay_key_scope_name(b.key.scope);
    if (b.key.expires_ms)
        b.ttl_ms = (uint64_t)CAY_MAX(b.key.expires_ms - cay__clock_ms(), (int64_t)1);
    CAY_TRY(cay__remote_get(r, NULL, &CAY__REQUEST(key_create, .body = &b), NULL, &made, err));
    if (made.key[0] && cay__str_copy(text, CAY_KEY_LEN + 1, made.key))
        return 0;
    return cay_fail_why(err, CAY_EUPSTREAM, "net_answer", "the server told no key");
}

int cay_key_create(cay_client *client, const cay_key *given, char text[CAY_KEY_LEN + 1],
                   cay_err *err)
{
    if (client->remote)
        return create_remote_key(client->remote, given, text, err);
    cay_key k;
    int64_t now = cay__clock_ms();
    CAY_TRY(cay__spec_take(&k, sizeof k, given, "cay_key", err));
    k.tenant = cay__text_or(k.tenant, CAY_TENANT_DEFAULT);
    if (k.scope == CAY_KEY_NONE)
        k.scope = CAY_KEY_TENANT;
    k.created_ms = now;
    if ((unsigned)k.scope > CAY_KEY_ADMIN)
        return cay_fail_why(err, CAY_EINVAL, "key_spec",
                            "a key's scope is admin, tenant, sandbox, port or file");
    CAY_TRY(cay__tenant_check(k.tenant, err));
    CAY_TRY(check_name(k.name, err));
    CAY_TRY(check_narrow(client, &k, err));
    if (k.expires_ms && k.expires_ms <= now)
        return cay_fail_why(err, CAY_EINVAL, "key_spec", "the key would have expired already");
    if (k.scope == CAY_KEY_LOGIN_LINK && (!k.expires_ms || k.expires_ms > now + LOGIN_MS))
        k.expires_ms = now + LOGIN_MS;
    if (k.scope < CAY_KEY_SANDBOX && (!k.expires_ms || k.expires_ms > now + WEEK_MS))
        k.expires_ms = now + WEEK_MS;
    if (k.text)
        return record_given(client, &k, text, err);
    return insert_record(client, &k, PREFIX, text, err);
}

int cay_login_create(cay_client *client, const cay_key *from, char text[CAY_LOGIN_LEN + 1],
                     cay_err *err)
{
    int64_t now = cay__clock_ms();
    bool link = from->scope == CAY_KEY_LOGIN_LINK;
    CAY_TRY(cay__remote_none(client, "a session", err));
    if (!link && from->scope != CAY_KEY_TENANT && from->scope != CAY_KEY_ADMIN)
        return cay_fail_why(err, CAY_EPERM, "scope_too_narrow",
                            "a session needs a key of scope tenant or admin");
    cay_key k = { .size = sizeof k,
                  .tenant = from->tenant,
                  .name = "console",
                  .scope = CAY_KEY_CONSOLE_LOGIN,
                  .from = link ? "" : from->id,
                  .created_ms = now,
                  .expires_ms = now + WEEK_MS };
    return insert_record(client, &k, SESSION, text, err);
}

typedef struct walk {
    cay_key_fn *fn;
    void *arg;
    cay_client *client;
} walk;

static int on_row(const cay_key_row *row, void *arg)
{
    const walk *w = arg;
    cay_key k = row->key;
    pthread_mutex_lock(&w->client->lock);
    const used *u = NULL;
    if (w->client->keys)
        u = &w->client->keys->used[cay__hash(k.id, CAY_KEY_ID_LEN) % USED];
    if (u && !strcmp(u->id, k.id))
        k.used_ms = CAY_MAX(k.used_ms, u->at_ms);
    pthread_mutex_unlock(&w->client->lock);
    return w->fn(&k, w->arg);
}

int cay_key_list(cay_client *client, const char *tenant, cay_key_fn *fn, void *arg, cay_err *err)
{
    if (client->remote)
        return CAY__REMOTE_EACH(cay_key, client->remote, NULL,
                                CAY__REQUEST(key_list, .query = &tenant), fn, arg, err);
    return CAY__STORE(client, key_list, tenant, on_row, &(walk){ fn, arg, client }, err);
}

int cay_key_sweep(cay_client *client, int64_t before_ms, cay_err *err)
{
    CAY_TRY(cay__remote_none(client, "sweeping sessions", err));
    return CAY__STORE(client, key_sweep, before_ms, err);
}

int cay_key_revoke(cay_client *client, const char *id, cay_err *err)
{
    if (client->remote)
        return CAY__REMOTE_DO(client->remote, err, key_revoke, .path = { id });
    if (!id || strlen(id) != CAY_KEY_ID_LEN || !is_hex(id, CAY_KEY_ID_LEN))
        return cay_fail_why(err, CAY_EINVAL, "key_spec",
                            "a key is named by the 8 hex digits after e2b_");
    CAY_TRY(CAY__STORE(client, key_revoke, id, cay__clock_ms(), err));
    cache_key(client, id, NULL);
    return 0;
}
