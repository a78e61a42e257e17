/* SPDX-License-Identifier: Apache-2.0 */
/* test_session PROVIDER: a session's ports, hooks and end, as the SDK's tests ask for them. */
#include "box.h"
#include <cay/sdk.h>
#include <cay/managed.h>
#include <cay/state.h>
#include <base/tar.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

static atomic_int hooked;

static int fails_late(void *arg, cay_err *err)
{
    hooked++;
    usleep(50000); /* so that the other one comes meanwhile */
    return arg ? cay_fail_why(err, CAY_EBUSY, "not_yet", "the hook fails") : 0;
}

static cay_managed *opened(cay_managed_spec spec)
{
    cay_sandbox *own = NULL;
    cay_managed *s = NULL;
    cay_err err = CAY_ERR_INIT;
    cay_create c = { .size = sizeof c };
    spec.size = sizeof spec;
    if (cay_client_create(client, NULL, &c, &own, &err) < 0 ||
        cay_managed_open(own, &spec, &s, &err) < 0)
        fail_msg("%s", err.msg);
    cay_sandbox_unref(own);
    hooked = 0;
    return s;
}

static int boxes(void)
{
    int n = 0;
    cay_client_list(client, NULL, NULL, box_count, &n, NULL);
    return n;
}

typedef struct closing {
    cay_managed *s;
    int rc;
    cay_err err;
} closing;

static void *close_it(void *arg)
{
    closing *c = arg;
    c->err = (cay_err)CAY_ERR_INIT;
    c->rc = cay_managed_close(c->s, NULL, &c->err);
    return NULL;
}

static void is_sdk(const cay_err *err, const char *op, const char *name, const char *code)
{
    cay_sdk_error e = cay_sdk_error_of(err, op);
    assert_string_equal(e.name, name);
    assert_string_equal(e.code, code);
}

static void case_29_reading_what_is_missing_or_shut(void **state)
{
    (void)state;
    cay_err err = CAY_ERR_INIT;
    char *data = NULL;
    size_t n = 0;
    assert_int_equal(cay_file_get(sb, NULL, "nosuch", 100, &data, &n, &err), CAY_ENOENT);
    is_sdk(&err, "read", "WorkspaceReadNotFoundError", "workspace_read_not_found");
    assert_int_equal(cay_sdk_error_of(&err, "read").retry, CAY_RETRY_NO);
    assert_int_equal(cay_file_put(sb, NULL, "shut", "x", 1,
                                  &(cay_write){ .size = sizeof(cay_write), .mode = 0200 }, &err),
                     0);
    if (cay_file_get(sb, NULL, "shut", 100, &data, &n, &err) == 0)
        free(data); /* its user is root, who reads everything */
    else
        is_sdk(&err, "read", "WorkspaceArchiveReadError", "workspace_archive_read_error");
    assert_int_equal(cay_file_get(sb, NULL, ".", 100, &data, &n, &err), CAY_ETYPE);
    is_sdk(&err, "read", "WorkspaceArchiveReadError", "workspace_archive_read_error");
}

/* Bytes are all there is in C: the wrong type is that of the place. */
static void case_30_writing_over_another_type(void **state)
{
    (void)state;
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(cay_file_mkdir(sb, NULL, "dir", 0755, false, &err), 0);
    assert_int_equal(cay_file_put(sb, NULL, "dir", "x", 1, NULL, &err), CAY_ETYPE);
    is_sdk(&err, "write", "WorkspaceWriteTypeError", "workspace_write_type_error");
}

static int none(const cay_dirent *e, void *arg)
{
    (void)e, (void)arg;
    return 0;
}

static void case_32_links_in_a_circle(void **state)
{
    (void)state;
    cay_err err = CAY_ERR_INIT;
    char *data = NULL;
    size_t n = 0;
    cay_managed *s = opened((cay_managed_spec){ .remove = true });
    cay_sandbox *in = cay_managed_sandbox(s);
    assert_int_equal(cay_file_symlink(in, NULL, "b", "a", &err), 0);
    assert_int_equal(cay_file_symlink(in, NULL, "a", "b", &err), 0);
    assert_true(cay_file_get(in, NULL, "a", 100, &data, &n, &err) < 0);
    assert_int_equal(err.sys, ELOOP);
    assert_true(cay_file_put(in, NULL, "a/x", "x", 1, NULL, &err) < 0);
    assert_true(cay_dir_list(in, NULL, "a", 3, none, NULL, &err) < 0);
    assert_true(cay_file_mkdir(in, NULL, "a/d", 0755, true, &err) < 0);
    assert_int_equal(cay_managed_rm(s, NULL, "a", true, &err), 0); /* which is the link itself */
    assert_int_equal(cay_managed_close(s, NULL, &err), 0);
    cay_managed_free(s);
}

static void case_33_the_link_goes_its_target_stays(void **state)
{
    (void)state;
    cay_err err = CAY_ERR_INIT;
    bool there = true;
    cay_managed *s = opened((cay_managed_spec){ .remove = true });
    cay_sandbox *in = cay_managed_sandbox(s);
    static const char *const links[][2] = { { "d/f", "file-link" }, { "d", "dir-link" } };
    assert_int_equal(cay_file_put(in, NULL, "d/f", "x", 1,
                                  &(cay_write){ .size = sizeof(cay_write), .parents = true }, &err),
                     0);
    for (size_t i = 0; i < CAY_LEN(links); i++) {
        assert_int_equal(cay_file_symlink(in, NULL, links[i][0], links[i][1], &err), 0);
        assert_int_equal(cay_managed_rm(s, NULL, links[i][1], true, &err), 0);
        assert_int_equal(cay_file_exists(in, NULL, links[i][1], &there, &err), 0);
        assert_false(there);
        assert_int_equal(cay_file_exists(in, NULL, "d/f", &there, &err), 0);
        assert_true(there);
    }
    assert_int_equal(cay_managed_close(s, NULL, &err), 0);
    cay_managed_free(s);
}

static void case_34_removing_nothing(void **state)
{
    (void)state;
    cay_managed *s = opened((cay_managed_spec){ .remove = true });
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(cay_managed_rm(s, NULL, "nothing/there", true, &err), 0);
    assert_int_equal(cay_managed_rm(s, NULL, "nothing", false, &err), CAY_ENOENT);
    assert_int_equal(cay_file_mkdir(cay_managed_sandbox(s), NULL, "d/e", 0755, true, &err), 0);
    assert_true(cay_managed_rm(s, NULL, "d", false, &err) < 0); /* not empty */
    assert_int_equal(cay_managed_rm(s, NULL, "d", true, &err), 0);
    assert_int_equal(cay_managed_close(s, NULL, &err), 0);
    cay_managed_free(s);
}

static void case_39_closing_twice_at_once(void **state)
{
    (void)state;
    int before = boxes();
    cay_managed *s = opened((cay_managed_spec){ .remove = true, .save = true });
    assert_int_equal(cay_managed_before_stop(s, fails_late, s, NULL), 0);
    assert_int_equal(cay_managed_before_stop(s, fails_late, NULL, NULL), 0); /* not reached */
    closing two[2] = { { .s = s }, { .s = s } };
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, close_it, &two[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(two[i].rc, CAY_EBUSY); /* both see it */
        assert_string_equal(two[i].err.reason, "not_yet");
    }
    assert_int_equal(hooked, 1);       /* once */
    assert_null(cay_managed_state(s)); /* nothing was saved */
    assert_int_equal(boxes(), before); /* and it is gone */
    assert_int_equal(cay_managed_before_stop(s, fails_late, NULL, NULL), CAY_ESTATE);
    cay_managed_free(s);
}

static void case_40_an_end_that_fails(void **state)
{
    (void)state;
    int before = boxes();
    cay_managed *s = opened((cay_managed_spec){ .remove = true, .save = true });
    cay_err err = CAY_ERR_INIT;
    assert_int_equal(cay_managed_before_stop(s, fails_late, NULL, NULL), 0);
    assert_int_equal(cay_file_put(cay_managed_sandbox(s), NULL, "mark", "x", 1, NULL, &err), 0);
    int rc = cay_managed_close(s, NULL, &err);
    assert_int_equal(hooked, 1);
    if (rc < 0) { /* this provider has no snapshots: that is the stop's failure, and told; what
                     could not be saved is kept */
        bool there = false;
        cay_sandbox *kept = cay_managed_sandbox(s);
        assert_null(cay_managed_state(s));
        assert_string_equal(cay_sdk_error_of(&err, "stop").name, "WorkspaceStopError");
        has(err.msg, "is not removed, for it could not be saved: ");
        has(err.msg, cay_sandbox_id(kept));
        assert_int_equal(boxes(), before + 1);
        assert_int_equal(cay_file_exists(kept, NULL, "mark", &there, &err), 0);
        assert_true(there);
        assert_int_equal(cay_managed_close(s, NULL, NULL),
                         rc); /* as before, and nothing is done again */
        assert_int_equal(boxes(), before + 1);
        assert_int_equal(cay_sandbox_remove(kept, NULL, NULL), 0);
    } else {
        assert_int_equal(boxes(), before);
        cay_resume_state back = { .size = sizeof back,
                                  .state = cay_managed_state(s),
                                  .len = strlen(cay_managed_state(s)) };
        cay_sandbox *again = NULL;
        bool there = false;
        if (cay_client_resume_state(client, NULL, &back, &again, NULL, &err) < 0)
            fail_msg("%s", err.msg);
        assert_int_equal(cay_file_exists(again, NULL, "mark", &there, &err), 0);
        assert_true(there);
        assert_int_equal(cay_sandbox_remove(again, NULL, NULL), 0);
        cay_sandbox_unref(again);
    }
    cay_managed_free(s);
}

static void case_49_the_address_of_a_port(void **state)
{
    (void)state;
    static const struct {
        cay_endpoint e;
        const char *url;
    } rows[] = { { { .host = "127.0.0.1", .host_port = 8000 }, "http://127.0.0.1:8000/" },
                 { { .host = "::1", .host_port = 8000 }, "http://[::1]:8000/" },
                 { { .host = "box.example", .host_port = 443, .tls = true },
                   "https://box.example/" },
                 { { .host = "box.example", .host_port = 443 }, "http://box.example:443/" },
                 { { .host = "box.example", .host_port = 80 }, "http://box.example/" } };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        char url[100];
        cay_endpoint_url(&rows[i].e, url, sizeof url);
        assert_string_equal(url, rows[i].url);
    }
}

static void case_50_a_port_that_nobody_declared(void **state)
{
    (void)state;
    static const uint16_t ports[] = { 8000, 8001, 8000, 0 };
    cay_managed *s = opened((cay_managed_spec){ .remove = true, .ports = ports });
    cay_err err = CAY_ERR_INIT;
    int fd = -1;
    assert_int_equal(cay_managed_connect(s, NULL, 9000, &fd, &err), CAY_EPERM);
    cay_sdk_error e = cay_sdk_error_of(&err, "resolve_exposed_port");
    assert_string_equal(e.name, "ExposedPortUnavailableError");
    assert_string_equal(e.code, "exposed_port_unavailable");
    assert_int_equal(e.retry, CAY_RETRY_NO);
    assert_string_equal(
        err.detail, "{\"reason\":\"not_configured\",\"port\":9000,\"exposed_ports\":[8000,8001]}");
    assert_int_equal(cay_managed_close(s, NULL, NULL), 0);
    cay_managed_free(s);
}

/* A tar of n files d/f1 …, and of one member more. The caller closes it. */
static int tar_with(unsigned n, const cay__member *more)
{
    CAY_AUTOBUF b = CAY__BUF(1 << 20);
    cay__member *m = cay__alloc(sizeof *m);
    static const char end[1024];
    for (unsigned i = 1; i <= n; i++) {
        *m = (cay__member){ .type = '0', .mode = i == 1 ? 0755 : 0644, .size = 2 };
        snprintf(m->name, sizeof m->name, "d/f%u", i);
        cay__tar_head(&b, m);
        cay__buf_add(&b, "hi", 2);
        cay__tar_pad(&b, 2);
    }
    if (more)
        cay__tar_head(&b, more);
    cay__buf_add(&b, end, sizeof end);
    free(m);
    int fd = memfd_create("archive", MFD_CLOEXEC);
    assert_true(fd >= 0 && write(fd, b.data, b.len) == (ssize_t)b.len &&
                lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

/* And of a link when it is named. */
static int tar_of(unsigned n, const char *link)
{
    cay__member m = { .type = '2', .mode = 0777, .name = "d/link" };
    snprintf(m.target, sizeof m.target, "%s", link ? link : "");
    return tar_with(n, link ? &m : NULL);
}

static int extract(cay_managed *s, cay_extract x, int fd, cay_extracted *n, cay_err *err)
{
    x.size = sizeof x;
    x.fd = fd;
    int rc = cay_managed_extract(s, NULL, &x, n, err);
    close(fd);
    return rc;
}

static bool there(cay_managed *s, const char *path)
{
    bool is = false;
    assert_int_equal(cay_file_exists(cay_managed_sandbox(s), NULL, path, &is, NULL), 0);
    return is;
}

static void case_47_limits_of_a_call_replace_the_sessions(void **state)
{
    (void)state;
    const cay_archive_limits ten = { .size = sizeof ten, .max_members = 10 },
                             none = { .size = sizeof none },
                             small = { .size = sizeof small, .max_input_bytes = 100 };
    cay_managed *s = opened((cay_managed_spec){ .remove = true, .archive_limits = &ten });
    cay_err err = CAY_ERR_INIT;
    cay_extracted n = { .size = sizeof n };
    assert_true(extract(s, (cay_extract){ .path = "in/a.tar" }, tar_of(11, NULL), &n, &err) <
                0); /* the session's */
    assert_string_equal(err.reason, "archive_limit");
    assert_false(there(s, "in"));
    assert_true(extract(s, (cay_extract){ .path = "in/a.tar", .limits = &small }, tar_of(3, NULL),
                        &n, &err) < 0); /* the call's, whatever the session's say */
    assert_string_equal(err.reason, "archive_limit");
    assert_string_equal(cay_sdk_error_of(&err, "write").name, "WorkspaceArchiveWriteError");
    if (extract(s, (cay_extract){ .path = "in/a.tar", .limits = &none }, tar_of(11, NULL), &n,
                &err) < 0) /* which lifts them */
        fail_msg("%s", err.msg);
    assert_int_equal(n.files, 11);
    assert_int_equal(n.bytes, 22);
    assert_true(there(s, "in/a.tar") && there(s, "in/d/f1") && there(s, "in/d/f11"));
    cay_stat st = { .size_of = sizeof st };
    assert_int_equal(cay_file_stat(cay_managed_sandbox(s), NULL, "in/d/f1", true, &st, &err), 0);
    assert_int_equal(st.mode & 0777, 0755);
    assert_int_equal(cay_managed_close(s, NULL, NULL), 0);
    cay_managed_free(s);
}

static void case_48_archives_of_no_known_form(void **state)
{
    (void)state;
    cay_managed *s = opened((cay_managed_spec){ .remove = true });
    cay_err err = CAY_ERR_INIT;
    static const cay_extract wrong[] = { { .path = "a.bin" },
                                         { .path = "a" },
                                         { .path = "a.tar", .scheme = "rar" } };
    for (size_t i = 0; i < CAY_LEN(wrong); i++) {
        err = (cay_err)CAY_ERR_INIT;
        assert_int_equal(extract(s, wrong[i], tar_of(1, NULL), NULL, &err), CAY_EINVAL);
        cay_sdk_error e = cay_sdk_error_of(&err, "write");
        assert_string_equal(e.name, "InvalidCompressionSchemeError");
        assert_string_equal(e.code, "invalid_compression_scheme");
        has(err.detail, wrong[i].scheme ? "\"scheme\":\"rar\"" : "\"scheme\":null");
        assert_false(there(s, wrong[i].path));
    }
    assert_int_equal(
        extract(s, (cay_extract){ .path = "a.bin", .scheme = "tar" }, tar_of(1, NULL), NULL, &err),
        0);
    assert_true(there(s, "d/f1"));
    assert_int_equal(cay_managed_close(s, NULL, NULL), 0);
    cay_managed_free(s);
}

/* What comes behind a good member: nothing of either is written. */
static void case_41_hostile_members(void **state)
{
    (void)state;
    static const struct {
        char type;
        const char *name, *target;
    } rows[] = { { '0', "/abs", "" },      { '0', "d/../../up", "" }, { '0', "C:/x", "" },
                 { '0', "a\\b", "" },      { '1', "d/hard", "d/f1" }, { '2', "d/soft", "f1" },
                 { '3', "d/dev", "" },     { '6', "d/fifo", "" },     { '0', "d/f1", "" },
                 { '0', "d/f1/below", "" } };
    cay_managed *s = opened((cay_managed_spec){ .remove = true });
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        cay_err err = CAY_ERR_INIT;
        cay__member m = { .type = rows[i].type, .mode = 0644 };
        snprintf(m.name, sizeof m.name, "%s", rows[i].name);
        snprintf(m.target, sizeof m.target, "%s", rows[i].target);
        if (extract(s, (cay_extract){ .path = "in/a.tar" }, tar_with(1, &m), NULL, &err) == 0)
            fail_msg("%s was taken", rows[i].name);
        if (strncmp(err.reason, "archive_", 8) || there(s, "in") || there(s, "up") ||
            there(s, "/abs"))
            fail_msg("%s: %s", rows[i].name, err.msg);
    }
    assert_int_equal(cay_managed_close(s, NULL, NULL), 0);
    cay_managed_free(s);
}

/* A link in it, or one in its way: nothing is written. */
static void archives_go_through_no_link(void **state)
{
    (void)state;
    cay_managed *s = opened((cay_managed_spec){ .remove = true });
    cay_err err = CAY_ERR_INIT;
    assert_true(extract(s, (cay_extract){ .path = "a.tar" }, tar_of(2, "/etc"), NULL, &err) < 0);
    has(err.reason, "archive_");
    assert_false(there(s, "a.tar") || there(s, "d"));
    assert_int_equal(cay_file_symlink(cay_managed_sandbox(s), NULL, "/tmp", "d", &err), 0);
    assert_int_equal(extract(s, (cay_extract){ .path = "a.tar" }, tar_of(2, NULL), NULL, &err),
                     CAY_ETYPE);
    assert_string_equal(err.reason, "workspace_archive_write_error");
    assert_false(there(s, "a.tar") || there(s, "/tmp/f1"));
    assert_int_equal(cay_file_remove(cay_managed_sandbox(s), NULL, "d", false, &err), 0);
    if (cay_file_put(cay_managed_sandbox(s), NULL, "d/kept", "kept", 4,
                     &(cay_write){ .size = sizeof(cay_write), .parents = true }, &err) < 0 ||
        cay_file_symlink(cay_managed_sandbox(s), NULL, "kept", "d/f1", &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(extract(s, (cay_extract){ .path = "a.tar" }, tar_of(2, NULL), NULL, &err),
                     CAY_ETYPE); /* a link of the same name, too */
    assert_false(there(s, "a.tar") || there(s, "d/f2"));
    CAY_AUTOFREE char *kept = NULL;
    size_t len = 0;
    assert_int_equal(cay_file_get(cay_managed_sandbox(s), NULL, "d/kept", 100, &kept, &len, &err),
                     0);
    assert_string_equal(kept, "kept");
    assert_int_equal(cay_managed_close(s, NULL, NULL), 0);
    cay_managed_free(s);
}

int main(int argc, char **argv)
{
    provider = argc > 1 ? argv[1] : "local";
    const struct CMUnitTest tests[] = { cmocka_unit_test(case_29_reading_what_is_missing_or_shut),
                                        cmocka_unit_test(case_30_writing_over_another_type),
                                        cmocka_unit_test(case_32_links_in_a_circle),
                                        cmocka_unit_test(case_33_the_link_goes_its_target_stays),
                                        cmocka_unit_test(case_34_removing_nothing),
                                        cmocka_unit_test(case_39_closing_twice_at_once),
                                        cmocka_unit_test(case_40_an_end_that_fails),
                                        cmocka_unit_test(case_49_the_address_of_a_port),
                                        cmocka_unit_test(case_50_a_port_that_nobody_declared),
                                        cmocka_unit_test(case_41_hostile_members),
                                        cmocka_unit_test(
                                            case_47_limits_of_a_call_replace_the_sessions),
                                        cmocka_unit_test(case_48_archives_of_no_known_form),
                                        cmocka_unit_test(archives_go_through_no_link) };
    return cmocka_run_group_tests(tests, box_open, box_close);
}
