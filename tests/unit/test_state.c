/* SPDX-License-Identifier: Apache-2.0 */
#include <base/base.h>
#include <base/json.h>
#include <cay/state.h>
#include <lib/snapshot/state.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#define ID    "caaaaaaaaaaaaaaaaaaa"
#define SNAP  "sbbbbbbbbbbbbbbbbbbb"
#define PRINT "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static json_t *sound(void)
{
    json_t *o = json_pack(
        "{s:s,s:i,s:s,s:s,s:i,s:s,s:{s:s,s:s},s:s,s:s,s:b,s:n,s:[i],s:{s:s,s:{s:s},s:{s:s},s:{s:I}}"
        ",s:{}}",
        "type", "cay", "version", 1, "session_id", ID, "provider", "native", "isolation", 3,
        "template", "host", "snapshot", "type", "cay", "id", SNAP, "snapshot_fingerprint", PRINT,
        "snapshot_fingerprint_version", CAY__STATE_FINGERPRINT, "workspace_root_ready", 1,
        "manifest", "exposed_ports", 8000, "sandbox", "hostname", "hut", "env", "A", "b", "labels",
        "team", "red", "limits", "memory", (json_int_t)1 << 28, "redacted");
    assert_non_null(o);
    return o;
}

static int parse(json_t *o, cay__state **out, cay_err *err)
{
    char *text = cay__json_text(o, 1 << 20);
    int rc = cay__state_read(text, strlen(text), out, err);
    free(text);
    json_decref(o);
    return rc;
}

static void a_sound_one_is_read(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    cay__state *st = NULL;
    if (parse(sound(), &st, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(st->id, ID);
    assert_string_equal(st->snapshot, SNAP);
    assert_string_equal(st->fingerprint, PRINT);
    assert_string_equal(st->provider, "native");
    assert_int_equal(st->level, 3);
    assert_true(st->ready);
    assert_null(st->manifest);
    assert_string_equal(st->spec->create.hostname, "hut");
    assert_string_equal(st->spec->create.process.env[0].value, "b");
    assert_string_equal(st->spec->create.labels[0].value, "red");
    assert_int_equal(st->spec->create.limits.memory, 1 << 28);
    assert_int_equal(cay__state_match(st, NULL, NULL, &err), 0);
    cay__state_free(st);
}

static void unknown_keys_are_ignored(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    cay__state *st = NULL;
    json_t *o = sound();
    json_object_set_new(o, "future", json_pack("{s:i}", "x", 1));
    assert_int_equal(parse(o, &st, &err), 0);
    cay__state_free(st);
}

/* One change each; the word is the reason that it has to be refused for. */
static void what_is_wrong_is_refused(void **s)
{
    (void)s;
    static const struct {
        const char *object, *key, *value, *reason;
    } rows[] = {
        { NULL, "type", "\"docker\"", "state_invalid" },
        { NULL, "type", "null", "state_invalid" },
        { NULL, "version", "2", "state_invalid" },
        { NULL, "session_id", "\"../../etc/passwd\"", "state_invalid" },
        { NULL, "session_id", "\"" SNAP "\"", "state_invalid" },
        { NULL, "isolation", "9", "state_invalid" },
        { NULL, "isolation", "\"3\"", "state_invalid" },
        { NULL, "provider", "7", "state_invalid" },
        { NULL, "workspace_root_ready", "\"yes\"", "state_invalid" },
        { NULL, "sandbox", "[]", "state_invalid" },
        { NULL, "redacted", "[]", "state_invalid" },
        { NULL, "manifest", "[]", "state_invalid" },
        { NULL, "manifest", "{\"extra_path_grants\":[{\"path\":\"/a\",\"host_path\":\"/etc\"}]}",
          "state_refused" },
        { NULL, CAY__STATE_MOUNTS, "\"true\"", "state_invalid" },
        { NULL, "snapshot", "{\"type\":\"local\",\"id\":\"x\"}", "state_invalid" },
        { NULL, "snapshot", "{\"type\":\"cay\",\"id\":\"" ID "\"}", "state_invalid" },
        { NULL, "snapshot_fingerprint", "\"xyz\"", "state_invalid" },
        { "sandbox", "root", "\"/srv\"", "state_refused" },
        { "sandbox", "on", "\"/srv\"", "state_refused" },
        { "sandbox", "net", "{\"mode\":\"all\"}", "state_refused" },
        { "sandbox", "grants", "[{\"source\":\"/etc\",\"target\":\"/x\"}]", "state_refused" },
        { "sandbox", "secrets", "[{\"name\":\"T\",\"source\":\"file:/etc/shadow\"}]",
          "state_refused" },
        { "sandbox", "volumes", "[{\"name\":\"v\",\"target\":\"/v\"}]", "state_refused" },
        { "sandbox", "manifest", "\"{}\"", "state_refused" },
        { "sandbox", "layers", "[\"sccc\"]", "state_refused" },
        { "sandbox", "from", "\"scc\"", "state_refused" },
        { "sandbox", "min_level", "1", "state_refused" },
        { "sandbox", "env", "[]", "state_invalid" },
        { "sandbox", "hostname", "\"-\"", "state_invalid" },
        { "sandbox", "labels", "{\"a\":1}", "state_invalid" },
        { "sandbox", "metadata", "[]", "state_invalid" },
        { "sandbox", "limits", "{\"memory\":-1}", "state_invalid" },
        { "redacted", "grants", "[{\"target\":\"/x\",\"source\":\"/etc\"}]", "state_refused" },
        { "redacted", "grants", "[{}]", "state_invalid" },
        { "redacted", "volumes", "[{\"name\":\"../x\",\"target\":\"/v\"}]", "state_invalid" },
        { "redacted", "secrets", "[1]", "state_invalid" },
        { "redacted", "environment", "[\"\"]", "state_invalid" },
        { "redacted", "network", "1", "state_invalid" },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        cay_err err = CAY_ERR_INIT;
        cay__state *st = NULL;
        json_t *o = sound(), *to = rows[i].object ? json_object_get(o, rows[i].object) : o;
        json_object_set_new(to, rows[i].key, json_loads(rows[i].value, JSON_DECODE_ANY, NULL));
        if (parse(o, &st, &err) == 0)
            fail_msg("%s = %s was accepted", rows[i].key, rows[i].value);
        if (strcmp(err.reason, rows[i].reason) != 0)
            fail_msg("%s = %s: %s %s", rows[i].key, rows[i].value, err.reason, err.msg);
    }
}

static void forms_and_sizes(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    cay__state *st = NULL;
    assert_int_equal(cay__state_read("", 0, &st, &err), CAY_EINVAL);
    assert_int_equal(cay__state_read("{}\0{}", 5, &st, &err), CAY_EINVAL);
    assert_int_equal(cay__state_read("{\"type\":\"cay\",\"type\":\"cay\"}", 28, &st, &err),
                     CAY_EINVAL);
    assert_int_equal(cay__state_read("{", CAY_STATE_BYTES + 1, &st, &err), CAY_ETOOBIG);
}

static json_t *in_envelope(json_t *own)
{
    json_t *e = json_pack("{s:i,s:s,s:{},s:o}", "version", 5, "backendId", "e2b", "manifest",
                          "providerState", own);
    assert_non_null(e);
    return e;
}

static void the_other_sdk_s_form(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    cay__state *st = NULL;
    json_t *o = sound(),
           *m = json_pack("{s:s,s:{s:{s:s,s:s,s:s,s:{s:b}},s:{s:s,s:b},s:{s:s,s:{s:{s:s,s:s}}}},s:{"
                          "s:{s:s,s:{s:b}}}}",
                          "root", "/workspace", "entries", "a_b", "type", "file", "encoding",
                          "base64", "content", "AAE=", "deep_er", "read_only", 1, "gone", "type",
                          "file", "ephemeral", 1, "d", "type", "dir", "children", "x_y", "type",
                          "file", "content", "k", "environment", "value", "A_B", "1", "T",
                          "ephemeral", 1);
    assert_non_null(m);
    json_object_set(o, "manifest", m);
    json_t *e = cay__state_to_js(o), *js = json_object_get(e, "manifest"),
           *entries = json_object_get(js, "entries"), *own = json_object_get(e, "providerState");
    assert_int_equal(json_integer_value(json_object_get(e, "version")), 5);
    assert_string_equal(json_string_value(json_object_get(own, "sandboxId")), ID);
    assert_int_equal(json_object_size(entries), 2); /* what is ephemeral is not in it */
    json_t *file = json_object_get(entries, "a_b"); /* a name of the user's, not of a field */
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(file, "content"), "data")), "AAE=");
    assert_true(json_is_true(json_object_get(json_object_get(file, "deepEr"), "readOnly")));
    assert_non_null(
        json_object_get(json_object_get(json_object_get(entries, "d"), "children"), "x_y"));
    assert_int_equal(json_object_size(json_object_get(js, "environment")), 1);
    json_decref(m);
    json_decref(o);
    if (parse(e, &st, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(st->id, ID);
    assert_string_equal(st->snapshot, SNAP);
    assert_int_equal(st->level, 3);
    cay__state_free(st);
    /* what the SDK wrote itself names the sandbox, and has no snapshot that it could be made from
     * again */
    assert_int_equal(parse(in_envelope(json_pack("{s:s}", "sandboxId", ID)), &st, &err), 0);
    assert_string_equal(st->id, ID);
    assert_string_equal(st->snapshot, "");
    cay__state_free(st);
}

static void a_wrong_envelope_is_refused(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    cay__state *st = NULL;
    json_t *whole = sound(), *e;
    assert_int_equal(parse(in_envelope(json_object()), &st, &err), CAY_EINVAL);
    assert_int_equal(parse(in_envelope(json_pack("{s:s}", "sandboxId", "../x")), &st, &err),
                     CAY_EINVAL);
    assert_int_equal(parse(in_envelope(json_pack("{s:s,s:O}", "sandboxId", "cccccccccccccccccccc",
                                                 "cay", whole)),
                           &st, &err),
                     CAY_EINVAL); /* of another */
    assert_int_equal(
        parse(in_envelope(json_pack("{s:s,s:i}", "sandboxId", ID, "cay", 1)), &st, &err),
        CAY_EINVAL);
    json_object_set_new(json_object_get(whole, "sandbox"), "root", json_string("/"));
    assert_int_equal(
        parse(in_envelope(json_pack("{s:s,s:O}", "sandboxId", ID, "cay", whole)), &st, &err),
        CAY_EPERM); /* a right */
    json_decref(whole);
    for (int version = 0; version <= 6; version += 6) {
        e = in_envelope(json_pack("{s:s}", "sandboxId", ID));
        json_object_set_new(e, "version", json_integer(version));
        assert_int_equal(parse(e, &st, &err), CAY_EINVAL);
    }
    e = in_envelope(json_pack("{s:s}", "sandboxId", ID));
    json_object_set_new(e, "backendId", json_string("unix_local"));
    assert_int_equal(parse(e, &st, &err), CAY_EINVAL);
    assert_non_null(strstr(err.msg, "cay snapshot import"));
    assert_null(st);
}

static void another_fingerprint_is_never_equal(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    cay__state *st = NULL;
    json_t *o = sound();
    json_object_set_new(o, "snapshot_fingerprint_version", json_string("workspace_tar_sha256_v1"));
    assert_int_equal(parse(o, &st, &err), 0);
    assert_string_equal(st->fingerprint, "");
    cay__state_free(st);
    char a[65], b[65];
    cay__state_fingerprint(SNAP, NULL, a);
    cay__state_fingerprint(SNAP, "{}", b);
    assert_string_not_equal(a, b);
    cay__state_fingerprint(ID, NULL, b);
    assert_string_not_equal(a, b);
}

/* Nobody is root inside because a text says so. */
static void root_is_asked_for(void **s)
{
    (void)s;
    static const char *const users[] = { "root", "0", "00" };
    for (size_t i = 0; i < CAY_LEN(users); i++) {
        cay_err err = CAY_ERR_INIT;
        cay__state *st = NULL;
        json_t *o = sound();
        cay_create with = { .size = sizeof with };
        json_object_set_new(json_object_get(o, "sandbox"), "user", json_string(users[i]));
        assert_int_equal(parse(o, &st, &err), 0);
        assert_int_equal(cay__state_match(st, &with, NULL, &err), CAY_EINVAL);
        assert_non_null(strstr(err.msg, "--user root"));
        with.process.user = "root";
        assert_int_equal(cay__state_match(st, &with, NULL, &err), 0);
        cay__state_free(st);
    }
}

/* All that is missing is told, and given it is enough. */
static void what_was_left_out_is_asked_for(void **s)
{
    (void)s;
    cay_err err = CAY_ERR_INIT;
    cay__state *st = NULL;
    json_t *o = sound();
    json_object_set_new(
        o, "redacted",
        json_loads("{\"root\":true,\"network\":true,\"grants\":[{\"target\":\"/"
                   "x\",\"rw\":true}],\"volumes\":[{\"name\":\"v\",\"target\":\"/v\",\"rw\":true}],"
                   "\"secrets\":[\"T\"],\"environment\":[\"E\"]}",
                   0, NULL));
    json_object_set_new(json_object_get(json_object_get(o, "sandbox"), "limits"), "memory",
                        json_string("unlimited"));
    assert_int_equal(parse(o, &st, &err), 0);
    assert_int_equal(cay__state_match(st, NULL, NULL, &err), CAY_EINVAL);
    assert_string_equal(err.reason, "state_incomplete");
    static const char *const words[] = {
        "--root", "--net", "--mount DIR:/x:rw", "--volume v:/v", "--secret T=", "--env E=", "memory"
    };
    for (size_t i = 0; i < CAY_LEN(words); i++)
        assert_non_null(strstr(err.detail, words[i]));
    json_t *d = json_loads(err.detail, 0, NULL);
    assert_int_equal(json_array_size(json_object_get(d, "missing")), 7);
    json_decref(d);
    cay_grant g = { "/srv", "/x", false };
    cay_volume_use v = { "v", "/v", true };
    cay_secret sec = { "T", "env:T", "a.test" };
    cay_pair env[] = { { "E", "1" }, { NULL, NULL } };
    cay_create with = { .size = sizeof with,
                        .from.root = "/r",
                        .net.policy = "cay-net 1\nmode all\n",
                        .files.grants = &g,
                        .files.ngrants = 1,
                        .files.volumes = &v,
                        .files.nvolumes = 1,
                        .net.secrets = &sec,
                        .net.nsecrets = 1,
                        .process.env = env,
                        .limits.memory = CAY_UNLIMITED };
    assert_int_equal(cay__state_match(st, &with, NULL, &err), CAY_EINVAL); /* it was writable */
    g.rw = true;
    assert_int_equal(cay__state_match(st, &with, NULL, &err), 0);
    v.name = "w";
    assert_int_equal(cay__state_match(st, &with, NULL, &err), CAY_EINVAL);
    cay__state_free(st);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sound_one_is_read),
        cmocka_unit_test(unknown_keys_are_ignored),
        cmocka_unit_test(what_is_wrong_is_refused),
        cmocka_unit_test(forms_and_sizes),
        cmocka_unit_test(the_other_sdk_s_form),
        cmocka_unit_test(a_wrong_envelope_is_refused),
        cmocka_unit_test(another_fingerprint_is_never_equal),
        cmocka_unit_test(root_is_asked_for),
        cmocka_unit_test(what_was_left_out_is_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
