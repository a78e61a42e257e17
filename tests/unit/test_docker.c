/* SPDX-License-Identifier: Apache-2.0 */
/* Provider docker without an engine: what a request becomes, what words mean, what a false engine
 * can do. */
#include "../support/support.h"
#include <base/base.h>
#include <base/base64.h>
#include <base/fd.h>
#include <base/str.h>
#include <fcntl.h>
#include <proto/init.h>
#include <lib/provider/docker/box.h>
#include <lib/provider/docker/docker.h>
#include <proto/relay.h>
#include <proto/local_record.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

static const cay__engine_info engine = { .name = "Docker",
                                         .arch = "amd64",
                                         .driver = "overlay2",
                                         .backing = "extfs",
                                         .seccomp = true,
                                         .memory = true,
                                         .cpu = true,
                                         .pids = true };
static const cay__docker_place place = {
    .id = "caaaaaaaaaaaaaaaaaaa", .owner = "word", .ctl = "/state/ctl", .pid1 = "/lib/cay-pid1"
};

static int read_options(const cay_pair *p, cay__docker_options *o, cay_err *err)
{
    const cay_create c = { .size = sizeof c, .options = p };
    return cay__docker_options_read(&(cay_box_spec){ .create = &c }, o, err);
}

static json_t *spec_of(const cay_create *given, const cay_pair *p)
{
    cay_err err = CAY_ERR_INIT;
    cay__docker_options o;
    cay_create c = *given;
    json_t *j = NULL;
    cay__docker_image image = { .id = "sha256:1",
                                .config = json_pack("{s:[s,s],s:s}", "Env", "PATH=/bin", "A=1",
                                                    "User", "root") };
    c.options = p;
    assert_int_equal(cay__docker_options_read(&(cay_box_spec){ .create = &c }, &o, &err), 0);
    assert_int_equal(cay__docker_check(&c, &o, &engine, &err), 0);
    if (cay__docker_spec(&c, &o, &image, &engine, &place, &j, &err) < 0)
        fail_msg("%s", err.msg);
    json_decref(image.config);
    return j;
}

static bool has(const json_t *list, const char *word)
{
    json_t *v;
    size_t i;
    json_array_foreach((json_t *)list, i, v) {
        if (json_string_value(v) && !strcmp(json_string_value(v), word))
            return true;
    }
    return false;
}

/* Root in a container may put anything in the way of the host's next write there. */
static void record_waits_for_no_pipe(void **state)
{
    (void)state;
    char dir[] = "/tmp/cay-docker.XXXXXX", name[40];
    cay_err err = CAY_ERR_INIT;
    local_meta m = cay__local_meta_first(CAY_LEVEL_NONE,
                                         &(cay_create){ .size = sizeof(cay_create) }),
               seen;
    assert_non_null(mkdtemp(dir));
    CAY_AUTOFD fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(name, sizeof name, "meta.%d", (int)getpid());
    assert_int_equal(mkfifoat(fd, name, 0600), 0);
    CAY_AUTOFD reader = openat(fd, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(cay__local_meta_write(fd, &m, &err) < 0); /* even with somebody who reads it */
    cay__close_fd(&reader);
    assert_int_equal(mkfifoat(fd, name, 0600), 0);
    alarm(20);
    assert_true(cay__local_meta_write(fd, &m, &err) < 0);
    alarm(0);
    assert_int_equal(cay__local_meta_write(fd, &m, &err), 0);
    assert_int_equal(cay__local_meta_read(fd, &seen, &err), 0);
    /* A deadline of its making is somewhere in the future or past, and no overflow. */
    for (int i = 0; i < 2; i++) {
        m.deadline_boot = i ? INT64_MIN : INT64_MAX;
        assert_int_equal(cay__local_meta_write(fd, &m, &err), 0);
        assert_int_equal(cay__local_meta_read(fd, &seen, &err), 0);
        assert_true((cay__local_deadline_ms(&seen) > cay__clock_ms()) == !i);
    }
    unlinkat(fd, "meta", 0);
    /* What is no file is not even opened: a device may do something then. */
    assert_int_equal(mkfifoat(fd, "meta", 0600), 0);
    assert_true(cay__local_meta_read(fd, &seen, &err) < 0);
    unlinkat(fd, "meta", 0);
    assert_int_equal(rmdir(dir), 0);
}

static void nothing_said_is_safe(void **state)
{
    (void)state;
    CAY_AUTOJSON *j = spec_of(&(cay_create){ .size = sizeof(cay_create) },
                              (cay_pair[]){ { "image", "debian:12" }, { NULL, NULL } });
    json_t *h = json_object_get(j, "HostConfig");
    assert_string_equal(cay__json_str(h, "NetworkMode", ""), "none");
    assert_true(has(json_object_get(h, "CapDrop"), "ALL"));
    assert_false(has(json_object_get(h, "CapAdd"), "SYS_ADMIN"));
    assert_false(has(json_object_get(h, "CapAdd"), "NET_RAW"));
    assert_true(has(json_object_get(h, "SecurityOpt"), "no-new-privileges:true"));
    assert_int_equal(json_array_size(json_object_get(h, "SecurityOpt")), 1);
    assert_true(cay__json_int(h, "Memory", 0) == 2ll << 30 &&
                cay__json_int(h, "MemorySwap", 0) == 2ll << 30);
    assert_true(cay__json_int(h, "NanoCpus", 0) == 2000000000 &&
                cay__json_int(h, "PidsLimit", 0) == 512);
    assert_false(cay__json_bool(h, "Privileged", false));
    json_t *m = json_object_get(h, "Mounts");
    assert_int_equal(json_array_size(m),
                     2); /* pid 1, read-only, and its directory: nothing else of the host */
    assert_true(cay__json_bool(json_array_get(m, 0), "ReadOnly", false) &&
                cay__json_bool(json_array_get(m, 1), "ReadOnly", false));
    assert_string_equal(cay__json_str(json_array_get(m, 0), "Target", ""), "/.cay/pid1");
    assert_string_equal(cay__json_str(json_object_get(j, "Labels"), CAY__DOCKER_OWNER, ""), "word");
    assert_null(json_object_get(j, "Env")); /* who may ask the engine need not see it */
}

static void options_become_members(void **state)
{
    (void)state;
    cay_grant grant = { .source = "/tmp", .target = "/data" };
    cay_pair labels[] = { { "team", "a" }, { CAY__DOCKER_OWNER, "stolen" }, { NULL, NULL } };
    cay_create c = { .size = sizeof c,
                     .files.grants = &grant,
                     .files.ngrants = 1,
                     .labels = labels,
                     .limits = {
                         .memory = 1 << 20, .swap = CAY_UNLIMITED, .pids = CAY_UNLIMITED } };
    CAY_AUTOJSON *j = spec_of(
        &c, (cay_pair[]){ { "image", "x" },
                          { "network", "bridge" },
                          { "publish", "80,90:9090" },
                          { "read_only", "true" },
                          { "cap_add", "NET_RAW" },
                          { "seccomp", "unconfined" },
                          { "runtime", "runsc" },
                          { "volumes", "v:/v:ro,w:/w:driver=nfs:opt.share=a/b:opt.o=vers=4" },
                          { NULL, NULL } });
    json_t *h = json_object_get(j, "HostConfig"), *m = json_object_get(h, "Mounts"),
           *b = json_object_get(h, "PortBindings");
    assert_string_equal(cay__json_str(h, "NetworkMode", ""), "bridge");
    assert_true(cay__json_bool(h, "ReadonlyRootfs", false) &&
                has(json_object_get(h, "CapAdd"), "NET_RAW"));
    assert_true(has(json_object_get(h, "SecurityOpt"), "seccomp=unconfined"));
    assert_string_equal(cay__json_str(h, "Runtime", ""), "runsc");
    assert_int_equal(json_array_size(m), 5);
    assert_true(
        cay__json_bool(json_array_get(m, 2), "ReadOnly", false)); /* a grant is, unless rw */
    assert_true(cay__json_bool(json_array_get(m, 3), "ReadOnly", false));
    assert_string_equal(
        cay__json_str(
            json_object_get(json_object_get(json_array_get(m, 4), "VolumeOptions"), "DriverConfig"),
            "Name", ""),
        "nfs");
    json_t *wants = json_object_get(
        json_object_get(json_object_get(json_array_get(m, 4), "VolumeOptions"), "DriverConfig"),
        "Options");
    assert_string_equal(cay__json_str(wants, "share", ""), "a/b");
    assert_string_equal(cay__json_str(wants, "o", ""), "vers=4");
    assert_string_equal(
        cay__json_str(json_array_get(json_object_get(b, "90/tcp"), 0), "HostPort", ""), "9090");
    assert_string_equal(
        cay__json_str(json_array_get(json_object_get(b, "80/tcp"), 0), "HostIp", ""),
        "127.0.0.1"); /* not the world */
    assert_int_equal(cay__json_int(h, "MemorySwap", 0), -1);
    assert_null(json_object_get(h, "PidsLimit"));
    assert_string_equal(cay__json_str(json_object_get(j, "Labels"), "team", ""), "a");
    assert_string_equal(cay__json_str(json_object_get(j, "Labels"), CAY__DOCKER_OWNER, ""),
                        "word"); /* a label cannot claim */
}

/* What an engine has is not everybody's. */
static void images_are_listed_for_tenants(void **state)
{
    (void)state;
    static const char list[] = "debian:*,acme=registry.example/acme/*,=,";
    assert_true(cay__docker_image_listed(list, "acme", "debian:12") &&
                cay__docker_image_listed(list, "other", "debian:12"));
    assert_true(cay__docker_image_listed(list, "acme", "registry.example/acme/x/y:1"));
    assert_false(cay__docker_image_listed(list, "other", "registry.example/acme/x:1"));
    assert_false(cay__docker_image_listed(list, "acme", "registry.example/acmes/x:1"));
    assert_false(cay__docker_image_listed(list, "acme", "ubuntu") ||
                 cay__docker_image_listed("", "acme", "x") ||
                 cay__docker_image_listed(NULL, "acme", "x"));
}

static void one_image_or_one_dockerfile(void **state)
{
    (void)state;
    static const struct {
        cay_pair p[3];
        const char *word; /* of the message; NULL: it is fine */
    } rows[] = {
        { { { "dockerfile", "/x" }, { NULL, NULL } }, NULL },
        { { { "dockerfile", "/x" }, { "build_args", "A=b" }, { NULL, NULL } }, NULL },
        { { { "dockerfile", "x" }, { NULL, NULL } }, "absolute" },
        { { { "dockerfile", "/x" }, { "image", "debian" }, { NULL, NULL } }, "not both" },
        { { { "image", "debian" }, { "build_args", "A=b" }, { NULL, NULL } }, "--dockerfile" },
    };
    cay__docker_options o;
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        cay_err err = CAY_ERR_INIT;
        int rc = read_options(rows[i].p, &o, &err);
        assert_int_equal(rc, rows[i].word ? CAY_EINVAL : 0);
        if (rows[i].word && !strstr(err.msg, rows[i].word))
            fail_msg("row %zu: %s", i, err.msg);
    }
}

static void the_users_group_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *image, *user, *group, *want;
    } rows[] = {
        { "", NULL, NULL, "user" },      { "root:data", NULL, NULL, "user" },
        { "0", NULL, NULL, "user" },     { "app:data", NULL, NULL, "app:data" },
        { "app", "root", NULL, "root" }, { "app:data", NULL, "web", "app:web" },
        { "", "me", "7", "me:7" },       { "0x", NULL, NULL, "0x" },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        cay_err err = CAY_ERR_INIT;
        CAY_AUTOBUF b = CAY__BUF(4096);
        cay__docker_image image = { .config = json_pack("{s:s}", "User", rows[i].image) };
        cay_create c = { .size = sizeof c,
                         .process.user = rows[i].user,
                         .process.group = rows[i].group };
        assert_int_equal(cay__docker_config(&(cay_box_spec){ .create = &c }, &image, &b, &err), 0);
        assert_string_equal(b.data, rows[i].want);
        json_decref(image.config);
    }
}

/* Memory of root's in each life, and services that wait in each for what is mounted. */
static void storage_is_roots_alone(void **state)
{
    (void)state;
    static const char *const argv[] = { "true", NULL };
    const cay_service u = { .size = sizeof u, .name = "web", .argv = argv };
    for (int storage = 0; storage < 2; storage++) {
        const cay_pair p[] = { { "image", "x" },
                               { "read_only", "true" },
                               { storage ? "mounts" : NULL, "true" },
                               { NULL, NULL } };
        cay_create c = { .size = sizeof c, .options = p };
        cay_box_spec spec = { .create = &c, .services = &u, .nservices = 1 };
        CAY_AUTOJSON *j = spec_of(&c, p);
        const json_t *memory = json_object_get(json_object_get(j, "HostConfig"), "Tmpfs");
        const char *place_is = cay__json_str(memory, CAY__PID1_PLACE, "");
        assert_int_equal(strstr(place_is, "mode=0700") != NULL, storage);
        assert_int_equal(json_object_size(memory), 4 + storage);
        cay_err err = CAY_ERR_INIT;
        CAY_AUTOBUF b = CAY__BUF(65536);
        cay_g_services head;
        cay__docker_image image = { .config = NULL };
        assert_int_equal(cay__docker_config(&spec, &image, &b, &err), 0);
        const char *mark = memmem(b.data, b.len, CAY_SERVICES_MARK, sizeof CAY_SERVICES_MARK);
        assert_non_null(mark);
        memcpy(&head, mark + sizeof CAY_SERVICES_MARK, sizeof head);
        assert_int_equal(head.flags, storage ? CAY_GUF_WAIT | CAY_GUF_EACH : 0);
    }
}

static void no_link_leads_storage_astray(void **state)
{
    (void)state;
    char dir[] = "/tmp/cay-attach.XXXXXX", path[64];
    struct stat a, b;
    assert_non_null(mkdtemp(dir));
    CAY_AUTOFD root = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(root, "w", 0755), 0);
    assert_int_equal(mkdirat(root, "etc", 0755), 0);
    assert_int_equal(symlinkat("../etc", root, "w/link"), 0);
    assert_int_equal(symlinkat("../etc/none", root, "w/dangling"), 0);
    CAY_AUTOFD file __attribute__((unused)) =
        openat(root, "w/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    static const char *const wrong[] = { "/w/link",    "/w/link/in", "w/dangling", "/w/file",
                                         "/w/file/in", "/w/../etc",  "/w/./x" };
    for (size_t i = 0; i < CAY_LEN(wrong); i++) {
        errno = 0;
        assert_int_equal(cay__attach_open(root, wrong[i]), -1);
        assert_true(errno == ENOTDIR || errno == ELOOP);
    }
    assert_int_equal(faccessat(root, "etc/in", F_OK, 0), -1);
    CAY_AUTOFD made = cay__attach_open(root, "/w//a/b");
    assert_int_equal(fstat(made, &a), 0);
    assert_int_equal(fstatat(root, "w/a/b", &b, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(a.st_ino == b.st_ino && S_ISDIR(b.st_mode));
    static const char *const all[] = {
        "w/a/b", "w/a", "w/link", "w/dangling", "w/file", "w", "etc"
    };
    for (size_t i = 0; i < CAY_LEN(all); i++)
        assert_true(unlinkat(root, all[i], 0) == 0 || unlinkat(root, all[i], AT_REMOVEDIR) == 0);
    snprintf(path, sizeof path, "%s", dir);
    assert_int_equal(rmdir(path), 0);
}

/* Who is not root is told nothing more: the place is not there on this machine. */
static void storage_needs_the_engines_place(void **state)
{
    (void)state;
    char *const make[] = { "cay-pid1", "storage", "make", "m0", NULL };
    assert_int_equal(cay__attach_main(4, (char **)make), CAY__ATTACH_PLACE);
}

static void bad_options_are_named(void **state)
{
    (void)state;
    static const struct {
        cay_pair p;
        const char *reason;
    } rows[] = {
        { { "image", "" }, "option_invalid" },
        { { "image", "-v" }, "option_invalid" },
        { { "image", "a b" }, "option_invalid" },
        { { "image", "x/../../y?z" }, "option_invalid" },
        { { "network", "host" }, "option_invalid" },
        { { "network", "container:x" }, "option_invalid" },
        { { "pull", "sometimes" }, "option_invalid" },
        { { "read_only", "yes" }, "option_invalid" },
        { { "seccomp", "profile" }, "option_invalid" },
        { { "platform", "amd64" }, "option_invalid" },
        { { "privileged", "true" }, "option_unknown" },
    };
    cay__docker_options o;
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        cay_err err = CAY_ERR_INIT;
        assert_int_equal(read_options((cay_pair[]){ rows[i].p, { NULL, NULL } }, &o, &err),
                         CAY_EINVAL);
        assert_string_equal(err.reason, rows[i].reason);
        assert_non_null(strstr(err.msg, rows[i].p.key));
    }
    cay_err err = CAY_ERR_INIT;
    unsetenv("CAY_DOCKER_IMAGE");
    assert_int_equal(read_options(NULL, &o, &err), CAY_EINVAL);
    assert_string_equal(err.reason, "image_missing");
    setenv("CAY_DOCKER_IMAGE", "debian:12", 1);
    assert_int_equal(read_options(NULL, &o, &err), 0);
    assert_string_equal(o.image, "debian:12");
    unsetenv("CAY_DOCKER_IMAGE");
}

static int spec_fails(const cay_pair *p, const char **reason)
{
    static cay_err err;
    cay__docker_options o;
    json_t *j = NULL;
    cay_create c = { .size = sizeof c, .options = p };
    cay__docker_image image = { .id = "sha256:1" };
    err = (cay_err)CAY_ERR_INIT;
    int rc = cay__docker_options_read(&(cay_box_spec){ .create = &c }, &o, &err);
    rc = rc < 0 ? rc : cay__docker_check(&c, &o, &engine, &err);
    rc = rc < 0 ? rc : cay__docker_spec(&c, &o, &image, &engine, &place, &j, &err);
    json_decref(j);
    *reason = err.reason;
    return rc;
}

static void what_opens_the_wall_is_refused(void **state)
{
    (void)state;
    const char *why;
    assert_int_equal(
        spec_fails((cay_pair[]){ { "image", "x" }, { "cap_add", "SYS_ADMIN" }, { NULL, NULL } },
                   &why),
        CAY_EPERM);
    assert_string_equal(why, "capability_refused");
    assert_int_equal(
        spec_fails((cay_pair[]){ { "image", "x" }, { "cap_add", "ALL" }, { NULL, NULL } }, &why),
        CAY_EPERM);
    assert_int_equal(
        spec_fails((cay_pair[]){ { "image", "x" }, { "volumes", "/etc:/x" }, { NULL, NULL } },
                   &why),
        CAY_EINVAL);
    assert_int_equal(
        spec_fails((cay_pair[]){ { "image", "x" }, { "volumes", "v" }, { NULL, NULL } }, &why),
        CAY_EINVAL);
    assert_int_equal(
        spec_fails((cay_pair[]){ { "image", "x" },
                                 { "volumes", "v:/h:opt.type=none:opt.o=bind:opt.device=/" },
                                 { NULL, NULL } },
                   &why),
        CAY_EINVAL);
    assert_int_equal(
        spec_fails((cay_pair[]){ { "image", "x" },
                                 { "volumes", "v:/h:opt.type=ext4:opt.device=/dev/sda1" },
                                 { NULL, NULL } },
                   &why),
        CAY_EINVAL);
    assert_int_equal(spec_fails((cay_pair[]){ { "image", "x" },
                                              { "network", "bridge" },
                                              { "publish", "0" },
                                              { NULL, NULL } },
                                &why),
                     CAY_EINVAL);
    assert_int_equal(spec_fails((cay_pair[]){ { "image", "x" },
                                              { "network", "bridge" },
                                              { "publish", "80:99999" },
                                              { NULL, NULL } },
                                &why),
                     CAY_EINVAL);
    assert_int_equal(
        spec_fails((cay_pair[]){ { "image", "x" }, { "publish", "80" }, { NULL, NULL } }, &why),
        CAY_EINVAL);
    assert_int_equal(
        spec_fails((cay_pair[]){ { "image", "x" }, { "seccomp", "/no/such" }, { NULL, NULL } },
                   &why),
        CAY_EINVAL);
}

static void what_an_engine_cannot_keep_is_refused(void **state)
{
    (void)state;
    cay_err err = CAY_ERR_INIT;
    cay__docker_options o;
    const char *const want[] = { "disk-quota", NULL };
    assert_int_equal(read_options((cay_pair[]){ { "image", "x" }, { NULL, NULL } }, &o, &err), 0);
    const struct {
        cay_create c;
        int code;
        const char *reason;
    } rows[] = {
        { { .limits.disk = 1 << 30 }, CAY_ENOTSUP, "disk_unsupported" },
        { { .limits.io_read = 1 << 20 }, CAY_ENOTSUP, "not_supported" },
        { { .from.root = "/srv" }, CAY_ENOTSUP, "not_supported" },
        { { .isolation.min_level = 3 }, CAY_EISOLATION, "level_missing" },
        { { .isolation.require = want }, CAY_EISOLATION, "feature_missing" },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        assert_int_equal(cay__docker_check(&rows[i].c, &o, &engine, &err), rows[i].code);
        assert_string_equal(err.reason, rows[i].reason);
    }
    cay__engine_info shifted = engine;
    shifted.userns = true;
    assert_int_equal(
        cay__docker_check(&(cay_create){ .size = sizeof(cay_create) }, &o, &shifted, &err),
        0); /* through the engine */
    o.transport = "socket";
    assert_int_equal(
        cay__docker_check(&(cay_create){ .size = sizeof(cay_create) }, &o, &shifted, &err),
        CAY_ENOTSUP);
    assert_string_equal(err.reason, "engine_userns");
    cay__engine_info other =
        engine; /* a runtime that Podman would pass over; a pid 1 for another kind of machine */
    other.podman = true;
    o = (cay__docker_options){
        .network = "none", .seccomp = "default", .transport = "auto", .runtime = "runsc"
    };
    assert_int_equal(
        cay__docker_check(&(cay_create){ .size = sizeof(cay_create) }, &o, &engine, &err), 0);
    assert_int_equal(
        cay__docker_check(&(cay_create){ .size = sizeof(cay_create) }, &o, &other, &err),
        CAY_ENOTSUP);
    assert_string_equal(err.reason, "not_supported");
    snprintf(other.arch, sizeof other.arch, "vax");
    assert_int_equal(cay__docker_far_check(&o, &other, &err), CAY_ENOTSUP);
    assert_string_equal(err.reason, "engine_arch");
    assert_int_equal(cay__docker_level(&engine, NULL), CAY_LEVEL_PROCESS);
    shifted.rootless = true;
    assert_int_equal(cay__docker_level(&shifted, NULL), CAY_LEVEL_ROOTLESS);
}

static void the_user_is_not_root_unless_asked(void **state)
{
    (void)state;
    static const struct {
        const char *image, *asked, *want;
    } rows[] = { { "", NULL, "user" },
                 { "root", NULL, "user" },
                 { "0:0", NULL, "user" },
                 { "node:node", NULL, "node:node" },
                 { "node", "root", "root" } };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        CAY_AUTOBUF b = CAY__BUF(4096);
        cay_err err = CAY_ERR_INIT;
        cay_pair env[] = { { "A", "2" }, { NULL, NULL } };
        cay__docker_image image = { .config = json_pack("{s:s,s:[s,s]}", "User", rows[i].image,
                                                        "Env", "A=1", "=bad") };
        const cay_create c = { .size = sizeof c,
                               .process.user = rows[i].asked,
                               .process.env = env };
        assert_int_equal(cay__docker_config(&(cay_box_spec){ .create = &c }, &image, &b, &err), 0);
        assert_string_equal(b.data, rows[i].want);
        assert_memory_equal(b.data + strlen(rows[i].want) + 1, "/workspace\0A=1\0A=2", 19);
        json_decref(image.config);
    }
}

static void the_engines_words_have_reasons(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *said, *reason;
        int code;
    } rows[] = {
        { 500, "driver failed: Bind for 127.0.0.1:80 failed: port is already allocated",
          "port_taken", CAY_EBUSY },
        { 404, "No such image: x:latest", "image_not_found", CAY_ENOENT },
        { 404, "No such container: network", "container_not_found", CAY_ENOENT },
        { 404, "network x not found", "network_not_found", CAY_ENOENT },
        { 500, "write /x: no space left on device", "engine_full", CAY_ENOSPACE },
        { 500, "error looking up volume plugin nfs: plugin \"nfs\" not found",
          "volume_driver_unknown", CAY_ENOENT },
        { 409, "Conflict. The container name \"/a\" is already in use", "engine_conflict",
          CAY_ESTATE },
        { 400, "Unknown runtime specified no-such", "runtime_unknown", CAY_ENOENT },
        { 503, "Server is shutting down", "engine_busy", CAY_EBUSY },
        { 403, "not by you", "engine_refused", CAY_EPERM },
        { 500, "\033[2Jnonsense", "engine_failed", CAY_EUPSTREAM },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        cay_err err = CAY_ERR_INIT;
        assert_int_equal(cay__engine_error(rows[i].status, rows[i].said, &err), rows[i].code);
        assert_string_equal(err.reason, rows[i].reason);
        assert_null(strchr(err.msg, '\033'));
    }
}

static char *auth_of(const char *image)
{
    cay_err err = CAY_ERR_INIT;
    char *out = NULL;
    int rc = cay__docker_auth(NULL, image, &out, &err);
    return rc < 0 ? cay__strdup(err.reason) : out;
}

static void put_text(const char *dir, const char *name, const char *text, mode_t mode)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "we");
    fputs(text, f);
    fclose(f);
    chmod(path, mode);
}

static void credential_helpers_are_asked(void **state)
{
    (void)state;
    static const struct {
        const char *image, *says; /* the answer's beginning as JSON, or a reason, or "" */
    } rows[] = {
        { "one.example/x", "{\"serveraddress\":\"one.example\",\"username\":\"me\",\"password\":"
                           "\"for one.example\"}" },
        { "two.example/x", "{\"serveraddress\":\"two.example\",\"identitytoken\":\"tok\"}" },
        { "gone.example/x", "credential_helper" },
        { "bad.example/x", "credential_helper" },
        { "path.example/x", "credential_helper" },
        { "none.example/x", "" },
        { "fails.example/x", "credential_helper" },
        { "filed.example/x", "" },
    };
    char dir[] = "/tmp/cay-help.XXXXXX";
    assert_non_null(mkdtemp(dir));
    put_text(dir, "config.json",
             "{\"credsStore\":\"no\",\"auths\":{\"filed.example\":{\"auth\":\"dTpwYXNz\"}},"
             "\"credHelpers\":{\"one.example\":\"me\",\"two.example\":\"token\","
             "\"gone.example\":\"gone\",\"bad.example\":\"bad\",\"path.example\":\"../"
             "me\",\"fails.example\":\"fails\"}}",
             0600);
    put_text(dir, "docker-credential-me",
             "#!/bin/sh\nread s; [ $1 = get ] && printf "
             "'{\"ServerURL\":\"%s\",\"Username\":\"me\",\"Secret\":\"for %s\"}' \"$s\" \"$s\"\n",
             0700);
    put_text(dir, "docker-credential-token",
             "#!/bin/sh\necho '{\"Username\":\"<token>\",\"Secret\":\"tok\"}'\n", 0700);
    put_text(dir, "docker-credential-bad", "#!/bin/sh\necho hello\n", 0700);
    put_text(dir, "docker-credential-no",
             "#!/bin/sh\necho credentials not found in native keychain; exit 1\n", 0700);
    put_text(dir, "docker-credential-fails", "#!/bin/sh\necho the keychain is locked; exit 1\n",
             0700);
    CAY_AUTOFREE char *before = cay__strdup(getenv("PATH"));
    char path[4096];
    snprintf(path, sizeof path, "%s:%s", dir, before);
    setenv("PATH", path, 1);
    setenv("DOCKER_CONFIG", dir, 1);
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        CAY_AUTOFREE char *said = auth_of(rows[i].image);
        CAY_AUTOBUF text = CAY__BUF(4096);
        for (char *p = said; *p; p++) /* the URL's alphabet */
            *p = *p == '-' ? '+' : *p == '_' && rows[i].says[0] == '{' ? '/' : *p;
        bool json = rows[i].says[0] == '{';
        if (json)
            assert_true(cay__base64_get(&text, said, strlen(said)));
        CAY_AUTOJSON *a = NULL, *b = NULL;
        if (json) {
            assert_int_equal(cay__json_object("said", text.data, &a, NULL), 0);
            assert_int_equal(cay__json_object("want", rows[i].says, &b, NULL), 0);
            assert_true(json_equal(a, b));
        } else {
            assert_string_equal(said, rows[i].says);
        }
    }
    setenv("PATH", before, 1);
    unsetenv("DOCKER_CONFIG");
    static const char *const names[] = {
        "config.json",           "docker-credential-me", "docker-credential-token",
        "docker-credential-bad", "docker-credential-no", "docker-credential-fails"
    };
    for (size_t i = 0; i < CAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        unlink(path);
    }
    rmdir(dir);
}

static void a_registrys_password_is_found(void **state)
{
    (void)state;
    char dir[] = "/tmp/cay-auth.XXXXXX", path[64], name[64];
    static const struct {
        const char *image, *registry;
    } rows[] = { { "debian", "https://index.docker.io/v1/" },
                 { "a/b:1", "https://index.docker.io/v1/" },
                 { "reg.example:5000/a/b", "reg.example:5000" },
                 { "localhost/x", "localhost" } };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        cay__docker_registry(rows[i].image, name, sizeof name);
        assert_string_equal(name, rows[i].registry);
    }
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/config.json", dir);
    FILE *f = fopen(path, "we");
    fputs("{\"auths\":{\"reg.example:5000\":{\"auth\":\"dTpwYXNz\"},\"broken\":{\"auth\":\"!!\"}},"
          "\"other\":1}",
          f); /* u:pass */
    fclose(f);
    setenv("DOCKER_CONFIG", dir, 1);
    CAY_AUTOFREE char *mine = auth_of("reg.example:5000/a/b"), *none = auth_of("debian"),
                      *broken = auth_of("broken/x");
    assert_string_equal(none, "");
    assert_string_equal(broken, "");
    CAY_AUTOBUF text = CAY__BUF(4096);
    assert_true(cay__base64_get(&text, mine, strlen(mine)));
    CAY_AUTOJSON *o = NULL;
    assert_int_equal(cay__json_object("auth", text.data, &o, NULL), 0);
    assert_string_equal(cay__json_str(o, "username", ""), "u");
    assert_string_equal(cay__json_str(o, "password", ""), "pass");
    unlink(path);
    rmdir(dir);
    unsetenv("DOCKER_CONFIG");
}

/* an engine that says what it is
 * told to */

static int false_log = -1; /* where it writes what it is asked */

static pid_t false_engine(const char *path, const char *answer)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    cay__str_copy(a.sun_path, sizeof a.sun_path, path);
    unlink(path);
    int l = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(l, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(l, 8), 0);
    pid_t pid = fork();
    if (pid == 0) {
        for (;;) {
            char buf[4096];
            int c = accept(l, NULL, NULL);
            ssize_t n = read(c, buf, sizeof buf);
            if (n > 0 && false_log >= 0)
                cay__fd_write_all(false_log, buf, (size_t)n);
            if (n > 0)
                cay__fd_write_all(c, answer, strlen(answer));
            close(c);
        }
    }
    close(l);
    return pid;
}

static void a_false_engine_harms_nobody(void **state)
{
    (void)state;
#define HTTP(body) "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" body
    static const struct {
        const char *answer, *reason;
    } rows[] = {
        { HTTP("{\"ApiVersion\":\"1.30\",\"Version\":\"18\"}"), "engine_old" },
        { HTTP("{}"), "engine_old" },
        { HTTP("<html>"), "engine_answer" },
        { HTTP("{\"ApiVersion\":\"1.99999999999999999999\"}"), "engine_old" },
        { HTTP("[1,2]"), "engine_old" },
        { "garbage\r\n\r\n", NULL },
        { "HTTP/1.1 500 X\r\nConnection: close\r\n\r\n{\"message\":\"out of order\"}",
          "engine_failed" },
    };
    char path[64];
    snprintf(path, sizeof path, "/tmp/cay-engine.%d", (int)getpid());
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        cay_err err = CAY_ERR_INIT;
        cay__engine *e = NULL;
        pid_t pid = false_engine(path, rows[i].answer);
        assert_int_equal(cay__engine_open(path, &e, &err), 0);
        assert_true(cay__engine_meet(e, NULL, NULL, &err) < 0);
        if (rows[i].reason)
            assert_string_equal(err.reason, rows[i].reason);
        cay__engine_close(e);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    unlink(path);
}

/* A network that it was made without: nobody uses it, and who removes it removes it. */
static void what_is_removed_is_removed_whatever_its_network(void **state)
{
    (void)state;
#define ID "caaaaaaaaaaaaaaaaaaa"
    static const char answer[] =
        HTTP("{\"ApiVersion\":\"1.43\",\"Version\":\"24\",\"Id\":\"0123456789abcdef\",\"Config\":{"
             "\"Labels\":{\"io.cay.owner\":\"word\",\"io.cay.sandbox\":\"" ID "\"}},"
             "\"State\":{\"Running\":true},\"HostConfig\":{\"NetworkMode\":\"bridge\"},"
             "\"NetworkSettings\":{\"Networks\":{\"bridge\":{}}}}");
    static const char *const walls[] = { "{\"network\":\"none\"}", "{\"network\":\"bridge\"}",
                                         "damaged", NULL };
    char home[] = "/tmp/cay-docker.XXXXXX", path[80], asked[65536];
    assert_non_null(mkdtemp(home));
    snprintf(path, sizeof path, "%s/sock", home);
    false_log = memfd_create("asked", MFD_CLOEXEC);
    pid_t pid = false_engine(path, answer);
    for (size_t i = 0; i < CAY_LEN(walls); i++) {
        cay_err err = CAY_ERR_INIT;
        cay__docker_view v;
        cay__docker_box *b = NULL;
        cay__docker d = { .owner = "word",
                          .boxes = open(home, O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
        assert_int_equal(cay__engine_open(path, &d.engine, &err), 0);
        assert_int_equal(ftruncate(false_log, 0), 0);
        lseek(false_log, 0, SEEK_SET);
        if (walls[i]) {
            assert_int_equal(mkdirat(d.boxes, ID, 0700), 0);
            assert_int_equal(mkdirat(d.boxes, ID "/ctl", 0700), 0);
            CAY_AUTOFD fd = openat(d.boxes, ID "/walls", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
            assert_true(cay__fd_write_all(fd, walls[i], strlen(walls[i])));
            assert_int_equal(cay__docker_box_open(&d, ID, &b, &err), 0);
            int rc = cay__docker_look(b, NULL, &v, NULL, &err);
            assert_int_equal(rc, i ? 0 : CAY_EGONE);
            cay__docker_release(b);
        }
        if (cay__docker_remove(&d, NULL, ID, &err) < 0)
            fail_msg("%s", err.msg);
        ssize_t n = pread(false_log, asked, sizeof asked - 1, 0);
        asked[CAY_MAX(n, 0)] = 0;
        assert_non_null(strstr(asked, "DELETE /v"));
        assert_int_equal(faccessat(d.boxes, ID, F_OK, 0), -1);
        cay__engine_close(d.engine);
        close(d.boxes);
    }
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    cay__close_fd(&false_log);
    unlink(path);
    rmdir(home);
}

static void an_absent_engine_is_told_with_the_remedy(void **state)
{
    (void)state;
    cay_err err = CAY_ERR_INIT;
    cay__engine *e = NULL;
    assert_int_equal(cay__engine_open("unix:///no/such/sock", &e, &err), 0);
    assert_int_equal(cay__engine_meet(e, NULL, NULL, &err), CAY_EUPSTREAM);
    assert_string_equal(err.reason, "engine_absent");
    assert_non_null(strstr(err.msg, "DOCKER_HOST"));
    cay__engine_close(e);
    assert_int_equal(
        cay__engine_open("/a-path-that-is-longer-than-the-name-of-a-socket-can-be-on-linux/"
                         "which-is-one-hundred-and-eight-bytes/with-the-nul-at-its-end",
                         &e, &err),
        CAY_EINVAL);
}

static const cay_wall *layer_of(const cay__docker_walls *w, const char *name)
{
    static cay_wall rows[CAY__DOCKER_LAYERS];
    size_t n = cay__docker_layers(&engine, w, rows, CAY_LEN(rows));
    for (size_t i = 0; i < n; i++)
        if (!strcmp(rows[i].name, name))
            return &rows[i];
    fail_msg("no layer %s", name);
    return NULL;
}

static void what_a_request_opens_is_told(void **state)
{
    (void)state;
    static const struct {
        cay_pair add[2];
        const char *layer, *is, *says;
        bool opened;
    } rows[] = {
        { { { NULL, NULL } }, "capabilities", "on", "seven", false },
        { { { "cap_add", "NET_RAW" }, { NULL, NULL } }, "capabilities", "soft", "NET_RAW", false },
        { { { "cap_add", "NET_RAW,SYS_TIME" }, { NULL, NULL } },
          "capabilities",
          "soft",
          "SYS_TIME",
          true },
        { { { "cap_add", "DAC_READ_SEARCH" }, { NULL, NULL } },
          "capabilities",
          "soft",
          "DAC_READ_SEARCH",
          true },
        { { { "seccomp", "unconfined" }, { NULL, NULL } }, "seccomp", "off", "unconfined", true },
        { { { "seccomp", "/some/profile" }, { NULL, NULL } }, "seccomp", "soft", "profile", false },
        { { { "network", "bridge" }, { NULL, NULL } }, "net-namespace", "on", "bridge", false },
    };
    char dir[] = "/tmp/cay-walls.XXXXXX";
    assert_non_null(mkdtemp(dir));
    CAY_AUTOFD at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        cay_err err = CAY_ERR_INIT;
        cay__docker_options o;
        cay__docker_walls w, again;
        cay_pair options[3] = { { "image", "x" }, rows[i].add[0], { NULL, NULL } };
        assert_int_equal(read_options(options, &o, &err), 0);
        cay__docker_walls_of(&o, &w);
        assert_int_equal(cay__docker_walls_save(at, &w, &err), 0);
        cay__docker_walls_load(at, &again);
        assert_memory_equal(&w, &again, sizeof w);
        const cay_wall *l = layer_of(&again, rows[i].layer);
        assert_string_equal(l->state, rows[i].is);
        assert_non_null(strstr(l->why, rows[i].says));
        assert_int_equal(cay__docker_level(&engine, &again),
                         rows[i].opened ? CAY_LEVEL_NONE : CAY_LEVEL_PROCESS);
        /* And who asks for a wall does not get one with a hole. */
        cay_create c = { .size = sizeof c, .isolation.min_level = CAY_LEVEL_PROCESS };
        assert_int_equal(cay__docker_check(&c, &o, &engine, &err),
                         rows[i].opened ? CAY_EISOLATION : 0);
    }
    unlinkat(at, "walls", 0);
    rmdir(dir);
}

static void a_far_container_shows_nothing_of_the_host(void **state)
{
    (void)state;
    cay_err err = CAY_ERR_INIT;
    cay__docker_options o;
    cay__docker_place at = place;
    cay__docker_image image = { .id = "sha256:1", .config = json_object() };
    json_t *j = NULL;
    at.far = true;
    assert_int_equal(
        read_options((cay_pair[]){ { "image", "x" }, { "transport", "engine" }, { NULL, NULL } },
                     &o, &err),
        0);
    cay_create c = { .size = sizeof c };
    assert_int_equal(cay__docker_spec(&c, &o, &image, &engine, &at, &j, &err), 0);
    assert_int_equal(json_array_size(json_object_get(json_object_get(j, "HostConfig"), "Mounts")),
                     0);
    assert_string_equal(json_string_value(json_array_get(json_object_get(j, "Cmd"), 1)), "far");
    json_decref(j);
    cay_grant g = { .source = "/usr", .target = "/mnt" };
    c.files.grants = &g;
    c.files.ngrants = 1;
    assert_int_equal(cay__docker_spec(&c, &o, &image, &engine, &at, &j, &err), CAY_ENOTSUP);
    assert_string_equal(err.reason, "engine_remote");
    cay__docker_image_clear(&image);
}

static void an_address_is_read_as_docker_reads_it(void **state)
{
    (void)state;
    static const struct {
        const char *host, *tls, *certs; /* what the variables hold */
        const char *url, *reason;
    } rows[] = {
        { "unix:///run/x", NULL, NULL, "unix:/run/x", "" },
        { "/run/x", NULL, NULL, "unix:/run/x", "" },
        { "tcp://127.0.0.1", NULL, NULL, "http://127.0.0.1:2375", "" },
        { "tcp://localhost:1/", NULL, NULL, "http://localhost:1", "" },
        { "tcp://[::1]", NULL, NULL, "http://[::1]:2375", "" },
        { "tcp://10.0.0.1:2375", NULL, NULL, NULL, "engine_plain" },
        { "tcp://10.0.0.1", "1", "/tmp", NULL, "engine_certs" },
        { "tcp://10.0.0.1", NULL, "relative", NULL, "engine_certs" },
        { "ssh://me@there", NULL, NULL, NULL, "engine_ssh" },
        { "tcp://", NULL, NULL, NULL, "url_invalid" },
        { "tcp://:2375", NULL, NULL, NULL, "url_invalid" },
        { "tcp://h/path", "1", NULL, NULL, "url_invalid" },
        { "npipe:////./pipe/x", NULL, NULL, NULL, "url_invalid" },
        { "unix://relative", NULL, NULL, NULL, "url_invalid" },
        { "", NULL, NULL, NULL, "url_invalid" },
    };
    for (size_t i = 0; i < CAY_LEN(rows); i++) {
        cay_err err = CAY_ERR_INIT;
        cay__engine_where w;
        rows[i].tls ? setenv("DOCKER_TLS_VERIFY", rows[i].tls, 1) : unsetenv("DOCKER_TLS_VERIFY");
        rows[i].certs ? setenv("DOCKER_CERT_PATH", rows[i].certs, 1) : unsetenv("DOCKER_CERT_PATH");
        int rc = cay__engine_find(rows[i].host, &w, &err);
        assert_string_equal(err.reason, rows[i].reason);
        assert_true(rc == 0 ? rows[i].url != NULL : rows[i].url == NULL);
        if (rc == 0)
            assert_string_equal(w.url, rows[i].url);
    }
    unsetenv("DOCKER_TLS_VERIFY");
    unsetenv("DOCKER_CERT_PATH");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(record_waits_for_no_pipe),
        cmocka_unit_test(nothing_said_is_safe),
        cmocka_unit_test(options_become_members),
        cmocka_unit_test(images_are_listed_for_tenants),
        cmocka_unit_test(one_image_or_one_dockerfile),
        cmocka_unit_test(the_users_group_is_told),
        cmocka_unit_test(storage_is_roots_alone),
        cmocka_unit_test(no_link_leads_storage_astray),
        cmocka_unit_test(storage_needs_the_engines_place),
        cmocka_unit_test(bad_options_are_named),
        cmocka_unit_test(what_opens_the_wall_is_refused),
        cmocka_unit_test(what_an_engine_cannot_keep_is_refused),
        cmocka_unit_test(the_user_is_not_root_unless_asked),
        cmocka_unit_test(the_engines_words_have_reasons),
        cmocka_unit_test(a_registrys_password_is_found),
        cmocka_unit_test(credential_helpers_are_asked),
        cmocka_unit_test(a_false_engine_harms_nobody),
        cmocka_unit_test(what_is_removed_is_removed_whatever_its_network),
        cmocka_unit_test(an_absent_engine_is_told_with_the_remedy),
        cmocka_unit_test(an_address_is_read_as_docker_reads_it),
        cmocka_unit_test(what_a_request_opens_is_told),
        cmocka_unit_test(a_far_container_shows_nothing_of_the_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
