/* SPDX-License-Identifier: Apache-2.0 */
/* Ports that may be reached from outside by token: kept for the preview proxy, hash only, bound to
 * sandbox, port and time. */
#include "remote.h"
#include "client.h"
#include <base/sha256.h>
#include <base/json.h>

#define SPACE      "port"
#define DAY_MS     86400000ull
#define KEY_MAX    (CAY_ID_LEN + 8)
#define TOKEN_RAND 32

static void key_of(const char *id, uint16_t port, char out[KEY_MAX])
{
    snprintf(out, KEY_MAX, "%s/%u", id, port);
}

static int check_recorded(cay_sandbox *sb, uint16_t port, cay_client **client, cay_err *err)
{
    CAY_AUTOFREE cay__row *row = NULL;
    if (!port)
        return cay_fail_why(err, CAY_EINVAL, "port_invalid", "port 0: give 1 to 65535");
    if (!sb->owner || cay__client_row(sb->owner, sb->id, &row, NULL) < 0)
        return cay_fail_why(
            err, CAY_ENOTSUP, "not_supported",
            "sandbox %s is thrown away at its end; only one that is kept exposes ports", sb->id);
    *client = sb->owner;
    return 0;
}

static int expose_remote(cay_sandbox *sb, uint16_t port, uint64_t ttl_ms, cay_exposed *out,
                         cay_err *err)
{
    char digits[24];
    cay__exposed_told told = { .url = "" };
    CAY_TRY(cay__remote_get(
        cay__remote_of(sb), NULL,
        &CAY__REQUEST(port_expose, .path = { sb->id, cay__str_u64(digits, port) }, .body = &ttl_ms),
        NULL, &told, err));
    told.e.size = sizeof told.e;
    cay__answer_give(out, &told.e, sizeof told.e);
    return 0;
}

int cay_port_expose(cay_sandbox *sb, uint16_t port, uint64_t ttl_ms, cay_exposed *out, cay_err *err)
{
    if (cay__remote_of(sb))
        return expose_remote(sb, port, ttl_ms, out, err);
    cay_client *client;
    unsigned char raw[TOKEN_RAND];
    char key[KEY_MAX], hash[CAY__SHA256_HEX];
    cay_exposed e = { .size = sizeof e, .port = port, .created_ms = cay__clock_ms() };
    CAY_TRY(check_recorded(sb, port, &client, err));
    if (ttl_ms > 7 * DAY_MS)
        return cay_fail_why(err, CAY_EINVAL, "limit_out_of_range",
                            "a port's token lives at most 7 days");
    e.expires_ms = e.created_ms + (int64_t)(CAY_OR(ttl_ms, DAY_MS));
    cay__random(raw, sizeof raw);
    CAY_COPY(e.token, "cayp_");
    cay__hex_put(e.token + 5, raw, sizeof raw);
    cay__sha256_hex(e.token, strlen(e.token), hash);
    key_of(sb->id, port, key);
    CAY_AUTOJSON *o = json_pack("{s:s,s:I,s:I}", "sha256", hash, "created_ms",
                                (json_int_t)e.created_ms, "expires_ms", (json_int_t)e.expires_ms);
    CAY_AUTOFREE char *text = cay__json_text(o, 1024);
    CAY_TRY(CAY__STORE(client, note_put, SPACE, key, text, err));
    cay__answer_give(out, &e, sizeof e);
    return 0;
}

int cay_port_unexpose(cay_sandbox *sb, uint16_t port, cay_err *err)
{
    char digits[24];
    if (cay__remote_of(sb))
        return CAY__REMOTE_DO(cay__remote_of(sb), err, port_unexpose,
                              .path = { sb->id, cay__str_u64(digits, port) });
    cay_client *client;
    CAY_AUTOFREE char *text = NULL;
    char key[KEY_MAX];
    CAY_TRY(check_recorded(sb, port, &client, err));
    key_of(sb->id, port, key);
    if (cay__note_text(client, SPACE, key, &text, NULL) < 0)
        return cay_fail_why(err, CAY_ENOENT, "port_not_exposed", "port %u of %s is not exposed",
                            port, sb->id);
    return CAY__STORE(client, note_put, SPACE, key, NULL, err);
}

typedef struct walk {
    cay_exposed_fn *fn;
    void *arg;
} walk;

static int on_note(const char *key, const char *value, void *arg)
{
    walk *w = arg;
    CAY_AUTOJSON *o = NULL;
    uint64_t port = 0;
    const char *slash = strchr(key, '/');
    if (!slash || !cay__str_to_u64(slash + 1, &port) || port > 65535 ||
        cay__json_object("port", value, &o, NULL) < 0)
        return 0;
    cay_exposed e = { .size = sizeof e,
                      .port = (uint16_t)port,
                      .created_ms = cay__json_int(o, "created_ms", 0),
                      .expires_ms = cay__json_int(o, "expires_ms", 0) };
    if (e.expires_ms > cay__clock_ms())
        return w->fn(&e, w->arg);
    return 0;
}

static int on_remote_exposed(const cay__exposed_told *t, void *arg)
{
    const walk *w = arg;
    cay_exposed e = t->e;
    e.size = sizeof e;
    return w->fn(&e, w->arg);
}

int cay_port_exposed(cay_sandbox *sb, cay_exposed_fn *fn, void *arg, cay_err *err)
{
    walk w = { fn, arg };
    if (cay__remote_of(sb))
        return CAY__REMOTE_EACH(cay__exposed_told, cay__remote_of(sb), NULL,
                                CAY__REQUEST(exposed_list, .path = { sb->id }), on_remote_exposed,
                                &w, err);
    cay_client *client;
    char prefix[KEY_MAX];
    CAY_TRY(check_recorded(sb, 1, &client, err));
    CAY_FORMAT(prefix, "%s/", sb->id);
    return CAY__STORE(client, note_list, SPACE, prefix, on_note, &w, err);
}

int cay_port_token_check(cay_client *client, const char *id, uint16_t port, const char *token,
                         cay_err *err)
{
    CAY_AUTOFREE char *text = NULL;
    CAY_AUTOJSON *o = NULL;
    char key[KEY_MAX], hash[CAY__SHA256_HEX];
    /* One answer for all that is wrong: whether a sandbox or port exists is nobody's business. */
    bool good = cay__id_valid(id, 'c') && token && strlen(token) < 128;
    if (!good)
        token = "";
    cay__sha256_hex(token, strlen(token), hash);
    if (good) {
        key_of(id, port, key);
        good = cay__note_text(client, SPACE, key, &text, NULL) == 0 &&
               cay__json_object("port", text, &o, NULL) == 0;
    }
    const char *want = "";
    if (good)
        want = cay__json_str(o, "sha256", "");
    good = good && strlen(want) == CAY__SHA256_HEX - 1 &&
           cay__equal_const_time(want, hash, CAY__SHA256_HEX - 1) &&
           cay__json_int(o, "expires_ms", 0) > cay__clock_ms();
    if (good)
        return 0;
    return cay_fail_why(err, CAY_EPERM, "token_refused", "that token does not open this port");
}

typedef struct drop {
    cay_client *client;
} drop;

static int on_drop(const char *key, const char *value, void *arg)
{
    drop *d = arg;
    CAY__STORE(d->client, note_put, SPACE, key, NULL, NULL);
    return 0;
}

void cay__expose_forget(cay_client *client, const char *id)
{
    char prefix[KEY_MAX];
    CAY_FORMAT(prefix, "%s/", id);
    CAY__STORE(client, note_list, SPACE, prefix, on_drop, &(drop){ client }, NULL);
}
