/* SPDX-License-Identifier: Apache-2.0 */
/* What rclone is told about each storage, to the letter. */
#include <base/base.h>
#include <base/json.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <lib/manifest/mounts_inside.h>
#include <cmocka.h>

static cay_err err;

static int plan(const char *type, const char *fields, bool rw, cay__storage_plan *out)
{
    json_t *o = json_loads(fields, 0, NULL);
    assert_non_null(o);
    cay__storage_mount m = {
        .type = type, .target = "/workspace/d", .entry = "d", .rw = rw, .fields = o
    };
    err = (cay_err)CAY_ERR_INIT;
    int rc = cay__storage_conf(&m, "cabc", 1, "/place", out, &err);
    json_decref(o);
    return rc;
}

static void says(const char *type, const char *fields, const char *config, const char *remote)
{
    cay__storage_plan p;
    if (plan(type, fields, false, &p) < 0)
        fail_msg("%s: %s", fields, err.msg);
    assert_string_equal(p.config, config);
    assert_string_equal(p.remote, remote);
    assert_false(p.kernel);
    cay__storage_plan_clear(&p);
}

static void refuses(const char *type, const char *fields, const char *word)
{
    cay__storage_plan p;
    assert_int_equal(plan(type, fields, false, &p), CAY_EINVAL);
    assert_string_equal(err.reason, "mount_config_invalid");
    assert_non_null(strstr(err.msg, word));
}

static void s3(void **s)
{
    (void)s;
    says("s3_mount", "{\"bucket\":\"b\"}",
         "[sandbox_s3_cabc]\ntype = s3\nprovider = AWS\nenv_auth = false\nno_check_bucket = true\n",
         "sandbox_s3_cabc:b");
    says("s3_mount",
         "{\"bucket\":\"b\",\"prefix\":\"/a/"
         "b\",\"access_key_id\":\"AK\",\"secret_access_key\":\"SK\",\"session_token\":\"ST\","
         "\"region\":\"eu-west-1\","
         "\"endpoint_url\":\"http://"
         "127.0.0.1:1\",\"s3_provider\":\"Minio\",\"mount_strategy\":{\"type\":\"in_container\","
         "\"pattern\":{\"type\":\"rclone\",\"remote_name\":\"mine\"}}}",
         "[mine]\ntype = s3\nprovider = Minio\nenv_auth = false\naccess_key_id = "
         "AK\nsecret_access_key = SK\nsession_token = ST\nregion = eu-west-1\n"
         "endpoint = http://127.0.0.1:1\nno_check_bucket = true\n",
         "mine:b/a/b");
}

static void gcs(void **s)
{
    (void)s;
    says("gcs_mount",
         "{\"bucket\":\"b\",\"access_id\":\"GA\",\"secret_access_key\":\"GS\",\"prefix\":\"p\"}",
         "[sandbox_gcs_cabc]\ntype = s3\nprovider = GCS\nenv_auth = false\naccess_key_id = "
         "GA\nsecret_access_key = GS\n"
         "endpoint = https://storage.googleapis.com\nno_check_bucket = true\n",
         "sandbox_gcs_cabc:b/p");
    says("gcs_mount",
         "{\"bucket\":\"b\",\"service_account_credentials\":\"{\\n \\\"type\\\": "
         "\\\"service_account\\\"\\n}\"}",
         "[sandbox_gcs_cabc]\ntype = google cloud storage\nno_check_bucket = "
         "true\nservice_account_credentials = {\"type\":\"service_account\"}\n",
         "sandbox_gcs_cabc:b");
    says("gcs_mount", "{\"bucket\":\"b\",\"access_token\":\"ya29\"}",
         "[sandbox_gcs_cabc]\ntype = google cloud storage\nno_check_bucket = true\ntoken = "
         "{\"access_token\":\"ya29\",\"token_type\":\"Bearer\"}\n",
         "sandbox_gcs_cabc:b");
    says("gcs_mount", "{\"bucket\":\"b\",\"service_account_file\":\"/k.json\",\"region\":\"eu\"}",
         "[sandbox_gcs_cabc]\ntype = google cloud storage\nlocation = eu\nno_check_bucket = "
         "true\nservice_account_file = /k.json\n",
         "sandbox_gcs_cabc:b");
    says("gcs_mount", "{\"bucket\":\"b\"}",
         "[sandbox_gcs_cabc]\ntype = google cloud storage\nno_check_bucket = true\nanonymous = "
         "true\n",
         "sandbox_gcs_cabc:b");
}

static void r2(void **s)
{
    (void)s;
    says("r2_mount",
         "{\"bucket\":\"b\",\"account_id\":\"0af1\",\"access_key_id\":\"AK\",\"secret_access_key\":"
         "\"SK\"}",
         "[sandbox_r2_cabc]\ntype = s3\nprovider = Cloudflare\nenv_auth = false\naccess_key_id = "
         "AK\nsecret_access_key = SK\nregion = auto\n"
         "endpoint = https://0af1.r2.cloudflarestorage.com\nno_check_bucket = true\n",
         "sandbox_r2_cabc:b");
    says("r2_mount",
         "{\"bucket\":\"b\",\"account_id\":\"0af1\",\"custom_domain\":\"files.example.com\"}",
         "[sandbox_r2_cabc]\ntype = s3\nprovider = Cloudflare\nenv_auth = false\nregion = "
         "auto\nendpoint = https://files.example.com\nno_check_bucket = true\n",
         "sandbox_r2_cabc:b");
    refuses("r2_mount", "{\"bucket\":\"b\",\"account_id\":\"x.evil.com/\"}", "account_id");
}

static void azure(void **s)
{
    (void)s;
    says("azure_blob_mount",
         "{\"account\":\"acc\",\"container\":\"c\",\"account_key\":\"K==\",\"endpoint\":\"blob."
         "core.windows.net\"}",
         "[sandbox_azure_blob_cabc]\ntype = azureblob\naccount = acc\nkey = K==\nendpoint = "
         "blob.core.windows.net\n",
         "sandbox_azure_blob_cabc:c");
    says("azure_blob_mount",
         "{\"account\":\"devstoreaccount1\",\"container\":\"c\",\"endpoint\":\"http://"
         "127.0.0.1:10000/devstoreaccount1\"}",
         "[sandbox_azure_blob_cabc]\ntype = azureblob\naccount = devstoreaccount1\nuse_emulator = "
         "true\nendpoint = http://127.0.0.1:10000/devstoreaccount1\n",
         "sandbox_azure_blob_cabc:c");
    refuses("azure_blob_mount",
            "{\"account\":\"acc\",\"container\":\"c\",\"endpoint\":\"http://127.0.0.1:10000/acc\"}",
            "endpoint");
    refuses("azure_blob_mount",
            "{\"account\":\"devstoreaccount1\",\"container\":\"c\",\"account_key\":\"K==\","
            "\"endpoint\":\"http://127.0.0.1:10000/devstoreaccount1\"}",
            "account_key");
    says("azure_blob_mount",
         "{\"account\":\"acc\",\"container\":\"c\",\"identity_client_id\":\"id\"}",
         "[sandbox_azure_blob_cabc]\ntype = azureblob\naccount = acc\nuse_msi = "
         "true\nmsi_client_id = id\n",
         "sandbox_azure_blob_cabc:c");
}

static void box(void **s)
{
    (void)s;
    cay__storage_plan p;
    says(
        "box_mount",
        "{\"path\":\"/dir\",\"access_token\":\"T\",\"root_folder_id\":\"7\",\"owned_by\":\"me@x\"}",
        "[sandbox_box_cabc]\ntype = box\naccess_token = T\nbox_sub_type = user\nroot_folder_id = "
        "7\nowned_by = me@x\n",
        "sandbox_box_cabc:dir");
    says("box_mount",
         "{\"client_id\":\"i\",\"client_secret\":\"s\",\"token\":\"{\\n\\\"access_token\\\":"
         "\\\"a\\\"}\",\"box_sub_type\":\"enterprise\"}",
         "[sandbox_box_cabc]\ntype = box\nclient_id = i\nclient_secret = s\ntoken = "
         "{\"access_token\":\"a\"}\nbox_sub_type = enterprise\n",
         "sandbox_box_cabc:");
    assert_int_equal(plan("box_mount", "{\"config_credentials\":\"{\\\"k\\\":1}\"}", false, &p), 0);
    assert_string_equal(
        p.config,
        "[sandbox_box_cabc]\ntype = box\nbox_config_file = /place/1.file\nbox_sub_type = user\n");
    assert_string_equal(p.file, "{\"k\":1}");
    cay__storage_plan_clear(&p);
}

static void s3_files(void **s)
{
    (void)s;
    cay__storage_plan p;
    assert_int_equal(
        plan(
            "s3_files_mount",
            "{\"file_system_id\":\"fs-1\",\"subpath\":\"/"
            "a\",\"mount_target_ip\":\"10.0.0.1\",\"access_point\":\"ap\",\"region\":\"us-east-1\","
            "\"extra_options\":{\"tls\":null,\"timeo\":\"600\"}}",
            false, &p),
        0);
    assert_true(p.kernel);
    assert_string_equal(p.remote, "fs-1:/a");
    assert_string_equal(
        p.args[0],
        "ro,nosuid,nodev,mounttargetip=10.0.0.1,accesspoint=ap,region=us-east-1,tls,timeo=600");
    cay__storage_plan_clear(&p);
    assert_int_equal(plan("s3_files_mount", "{\"file_system_id\":\"fs-1\"}", true, &p), 0);
    assert_string_equal(p.args[0], "rw,nosuid,nodev");
    cay__storage_plan_clear(&p);
    refuses("s3_files_mount", "{\"file_system_id\":\"-o suid\"}", "file_system_id");
    refuses("s3_files_mount", "{\"file_system_id\":\"fs\",\"region\":\"a,suid\"}", "region");
    refuses("s3_files_mount", "{\"file_system_id\":\"fs\",\"extra_options\":{\"suid\":\"\"}}",
            "suid");
}

static void nothing_smuggles_a_line(void **s)
{
    (void)s;
    refuses("s3_mount", "{\"bucket\":\"b\",\"region\":\"x\\nenv_auth = true\"}", "region");
    refuses("s3_mount", "{\"bucket\":\"b\",\"secret_access_key\":\"x\\ry\"}", "secret_access_key");
    refuses("box_mount", "{\"token\":\"no json\\nx = 1\"}", "token");
    refuses("s3_mount",
            "{\"bucket\":\"b\",\"access_key_id\":{\"type\":\"ref\",\"source\":\"env:X\"}}",
            "access_key_id");
    refuses("s3_mount",
            "{\"bucket\":\"b\",\"mount_strategy\":{\"pattern\":{\"remote_name\":\"a]\"}}}",
            "remote_name");
    refuses("s3_mount", "{\"prefix\":\"x\"}", "bucket");
}

static void arguments(void **s)
{
    (void)s;
    cay__storage_plan p;
    assert_int_equal(plan("s3_mount",
                          "{\"bucket\":\"b\",\"mount_strategy\":{\"pattern\":{\"extra_args\":[\"--"
                          "buffer-size\",\"1M\",\"--allow-other\",\"--uid=5\"]}}}",
                          true, &p),
                     0);
    assert_int_equal(p.nargs, 3);
    assert_string_equal(p.args[0], "--buffer-size");
    assert_string_equal(p.args[1], "1M");
    assert_string_equal(p.args[2], "--uid=5");
    cay__storage_plan_clear(&p);
}

static void secrets_are_cut_out_of_messages(void **s)
{
    (void)s;
    json_t *o = json_pack("{s:s,s:s,s:s}", "bucket", "bucket", "secret_access_key", "verysecret",
                          "access_key_id", "AKID");
    cay__storage_mount m = { .type = "s3_mount", .entry = "d", .fields = o };
    char text[] = "bucket: key AKID with verysecret and verysecretverysecret is wrong";
    cay__storage_redact(&m, text);
    assert_string_equal(text, "bucket: key *** with *** and ****** is wrong");
    json_decref(o);
}

static void what_is_mounted_is_read_from_its_column(void **s)
{
    (void)s;
    static const char info[] =
        "22 1 0:20 / /data rw,relatime - ext4 /dev/vda rw\n"
        "23 1 0:21 / /other rw - tmpfs /data rw\n"
        "24 1 0:22 /data /x rw master:1 - fuse.rclone /data rw\n"
        "25 1 0:23 / /with\\040blank rw shared:1 master:2 - fuse.rclone x:b rw\n"
        "26 1 0:24 / /under rw - fuse.rclone x:b rw\n"
        "27 1 0:25 / /under rw - ext4 /dev/vda rw\n"
        "28 1 0:26 / /top rw - ext4 /dev/vda rw\n"
        "29 1 0:27 / /top rw - nfs4 server:/ rw\n"
        "30 1 0:28 / /data/in rw - fuse x rw\n"
        "cut 1";
    char dev[16] = "";
    static const struct {
        const char *path, *dev; /* NULL: none */
    } rows[] = { { "/data", NULL },      { "/other", NULL },
                 { "/x", "0:22" },       { "/with blank", "0:23" },
                 { "/under", NULL },     { "/top", "0:27" },
                 { "/data/in", "0:28" }, { "/dat", NULL },
                 { "/none", NULL },      { "", NULL } };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        assert_int_equal(cay__mounts_seen(info, rows[i].path, dev, sizeof dev),
                         rows[i].dev != NULL);
        if (rows[i].dev)
            assert_string_equal(dev, rows[i].dev);
    }
}

static void root_has_many_names(void **s)
{
    (void)s;
    static const char *const root[] = { "root",      "0",         "00",        "0:0",
                                        "root:root", "000:users", "0000000000" },
                             *const others[] = { NULL,    "",          "user",   "1000", "10",
                                                 "roots", "user:root", "1000:0", "0x",   ":0" };
    for (size_t i = 0; i < CAY_LEN(root); i++)
        assert_true(cay__mounts_is_root(root[i]));
    for (size_t i = 0; i < CAY_LEN(others); i++)
        assert_false(cay__mounts_is_root(others[i]));
}

static void a_section_gets_what_the_manifest_says(void **s)
{
    (void)s;
    static const char ours[] = "[mine]\ntype = s3\nkey = k\n";
    static const struct {
        const char *theirs, *whole; /* NULL: it has none */
    } rows[] = {
        { "[mine]\nregion = x\n", "[mine]\nregion = x\ntype = s3\nkey = k\n" },
        { "# x\n [mine] \r\na = b\n[other]\nc = d\n",
          "# x\n [mine] \r\na = b\ntype = s3\nkey = k\n[other]\nc = d\n" },
        { "[mine]", "[mine]\ntype = s3\nkey = k\n" },
        { "[other]\nx = [mine]\n", NULL },
        { "[mine2]\n[min]\n", NULL },
        { "", NULL },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        CAY_AUTOBUF b = CAY__BUF(4096);
        assert_int_equal(cay__inside_section(rows[i].theirs, ours, &b), rows[i].whole != NULL);
        if (rows[i].whole)
            assert_non_null(strstr(b.data, rows[i].whole));
    }
}

static void nfs_is_served_to_the_loopback(void **s)
{
    (void)s;
    static const char *const good[] = { "127.0.0.1:2049", "127.9.9.9:1" }, *const wrong[] = {
        "0.0.0.0:2049",   "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536",
        "localhost:2049", ":2049",     "1270.0.1:5",  ""
    };
    unsigned port = 0;
    for (size_t i = 0; i < CAY_LEN(good); i++)
        assert_true(cay__inside_addr(good[i], &port) && port == (i ? 1 : 2049));
    for (size_t i = 0; i < CAY_LEN(wrong); i++)
        assert_false(cay__inside_addr(wrong[i], &port));
}

/* What the engine's driver is told of each kind. */
static void drivers_are_told_by_their_names(void **s)
{
    (void)s;
    static const struct {
        const char *type, *fields, *has; /* has NULL: refused */
    } rows[] = {
        { "s3_mount",
          "{\"bucket\":\"b\",\"prefix\":\"/"
          "p\",\"access_key_id\":\"i\",\"secret_access_key\":\"k\",\"endpoint_url\":\"http://"
          "x\",\"mount_strategy\":{\"type\":\"docker_volume\",\"driver\":\"rclone\",\"driver_"
          "options\":{\"umask\":\"077\"}}}",
          "type=s3 path=b/p s3-provider=AWS s3-access-key-id=i s3-secret-access-key=k "
          "s3-endpoint=http://x allow-other=true umask=077" },
        { "gcs_mount",
          "{\"bucket\":\"b\",\"service_account_file\":\"/"
          "f\",\"mount_strategy\":{\"type\":\"docker_volume\",\"driver\":\"rclone\"}}",
          "path=b gcs-service-account-file=/f" },
        { "gcs_mount",
          "{\"bucket\":\"b\",\"access_id\":\"i\",\"secret_access_key\":\"k\",\"mount_strategy\":{"
          "\"type\":\"docker_volume\",\"driver\":\"mountpoint\"}}",
          "bucket=b access_key_id=i secret_access_key=k "
          "endpoint_url=https://storage.googleapis.com" },
        { "r2_mount",
          "{\"bucket\":\"b\",\"account_id\":\"ac\",\"mount_strategy\":{\"type\":\"docker_volume\","
          "\"driver\":\"rclone\"}}",
          "type=s3 s3-provider=Cloudflare s3-endpoint=https://ac.r2.cloudflarestorage.com" },
        { "azure_blob_mount",
          "{\"account\":\"a\",\"container\":\"c\",\"account_key\":\"k\",\"mount_strategy\":{"
          "\"type\":\"docker_volume\",\"driver\":\"rclone\"}}",
          "type=azureblob path=c azureblob-account=a azureblob-key=k" },
        { "box_mount",
          "{\"path\":\"d\",\"config_credentials\":\"{}\",\"mount_strategy\":{\"type\":\"docker_"
          "volume\",\"driver\":\"rclone\"}}",
          "type=box path=d box-config-credentials={}" },
        { "s3_mount",
          "{\"bucket\":\"b\",\"mount_strategy\":{\"type\":\"docker_volume\",\"driver\":\"rclone\","
          "\"driver_options\":{\"type\":\"local\"}}}",
          NULL },
        { "s3_mount",
          "{\"bucket\":\"b\",\"mount_strategy\":{\"type\":\"docker_volume\",\"driver\":"
          "\"mountpoint\",\"driver_options\":{\"bucket\":\"x\"}}}",
          NULL },
        { "s3_mount",
          "{\"bucket\":\"b\",\"mount_strategy\":{\"type\":\"docker_volume\",\"driver\":\"local\"}}",
          NULL },
        { "s3_mount",
          "{\"bucket\":\"b\\nx\",\"mount_strategy\":{\"type\":\"docker_volume\",\"driver\":"
          "\"mountpoint\"}}",
          NULL },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        __attribute__((cleanup(cay__arena_clear))) cay__arena mem = { 0 };
        CAY__AUTOMOUNTS l = { .mem = &mem, .err = &err, .n = 1 };
        CAY_AUTOJSON *list = NULL;
        const char *text = NULL;
        char pair[256];
        l.m[0] = (cay__storage_mount){ .type = rows[i].type,
                                       .target = "/w",
                                       .entry = "e",
                                       .fields = json_loads(rows[i].fields, 0, NULL) };
        assert_non_null(l.m[0].fields);
        int rc = cay__mounts_volumes(&l, "cid", &text);
        assert_int_equal(rc, rows[i].has ? 0 : CAY_EINVAL);
        if (!rows[i].has)
            continue;
        list = json_loads(text, 0, NULL);
        const json_t *o = json_object_get(json_array_get(list, 0), "options");
        for (const char *at = rows[i].has; *at; at += strcspn(at, " "), at += *at == ' ') {
            size_t n = strcspn(at, " ");
            assert_true(n < sizeof pair);
            memcpy(pair, at, n);
            pair[n] = 0;
            *strchr(pair, '=') = 0;
            assert_string_equal(cay__json_str(o, pair, "none"), pair + strlen(pair) + 1);
        }
        assert_null(json_object_get(o, "box-box-config-file"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(s3),
        cmocka_unit_test(gcs),
        cmocka_unit_test(r2),
        cmocka_unit_test(azure),
        cmocka_unit_test(box),
        cmocka_unit_test(s3_files),
        cmocka_unit_test(nothing_smuggles_a_line),
        cmocka_unit_test(arguments),
        cmocka_unit_test(secrets_are_cut_out_of_messages),
        cmocka_unit_test(what_is_mounted_is_read_from_its_column),
        cmocka_unit_test(root_has_many_names),
        cmocka_unit_test(a_section_gets_what_the_manifest_says),
        cmocka_unit_test(nfs_is_served_to_the_loopback),
        cmocka_unit_test(drivers_are_told_by_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
