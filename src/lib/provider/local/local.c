/* SPDX-License-Identifier: Apache-2.0 */
#include "local.h"
#include <base/path.h>
#include <lib/provider/provider.h>

#define OFF(n)                                                                                     \
    {                                                                                              \
        n, "off", "provider local isolates nothing",                                               \
            "use provider native: --isolation process, rootless or root"                           \
    }
static const cay_wall layers[] = {
    OFF("user-namespace"),    OFF("mount-namespace"), OFF("pid-namespace"),
    OFF("network-namespace"), OFF("ipc-namespace"),   OFF("seccomp"),
    OFF("landlock"),          OFF("capabilities"),    OFF("memory-limit"),
    OFF("cpu-limit"),         OFF("pids-limit"),      OFF("disk-quota"),
    OFF("io-limit"),          OFF("egress-policy"),   { "nofile-limit", "on", "", "" },
};

static const cay_wall *list_layers(size_t *n)
{
    *n = CAY_LEN(layers);
    return layers;
}

CAY_DEFINE_AUTO(local, cay__local_close)

void cay__local_close(void *self)
{
    local *l = self;
    free(l->home);
    free(l->libexec);
    cay__close_fd(&l->boxes);
    cay__close_fd(&l->home_fd);
    free(l);
}

int cay__local_open(const cay_provider_conf *conf, const local_kind *kind, void **self,
                    cay_err *err)
{
    CAY_AUTOPTR(local) l = cay__alloc(sizeof *l);
    l->kind = kind;
    l->home = cay__strdup(conf->home);
    l->libexec = cay__strdup(conf->libexec);
    l->boxes = -1;
    l->home_fd = open(conf->home, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (l->home_fd < 0 || (mkdirat(l->home_fd, kind->dir, 0700) < 0 && errno != EEXIST))
        return cay_fail_sys(err, "state directory %s", conf->home);
    l->boxes = openat(l->home_fd, kind->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    CAY_TRY_SYS(l->boxes, err, "%s/%s", conf->home, kind->dir);
    CAY_TRY(cay__local_run(l, err));
    *self = CAY_STEAL(l);
    return 0;
}

static int local_probe(void *self, cay_probe **out, cay_err *err)
{
    *out = cay__probe_new(CAY_LEVEL_NONE, "none", layers, CAY_LEN(layers));
    return 0;
}

static int fail_unsupported(cay_err *err, const char *what)
{
    return cay_fail_why(err, CAY_ENOTSUP, "not_supported",
                        "provider local cannot give %s; use provider native", what);
}

static bool is_unusual(const char *given, const char *usual)
{
    return given && *given && strcmp(given, usual) != 0;
}

/* A directory of the caller's to work in, as it is; or NULL. */
static const char *root_dir(const cay_create *s)
{
    for (const cay_pair *p = s->options; p && p->key; p++)
        if (!strcmp(p->key, "root_dir"))
            return p->value;
    return NULL;
}

static int check_outside(const cay_create *s, cay_err *err)
{
    const char *dir = root_dir(s);
    struct stat st;
    if (dir[0] != '/' || !s->process.workdir || strcmp(s->process.workdir, dir) != 0)
        return cay_fail_why(
            err, CAY_EINVAL, "spec_invalid",
            "option root_dir %.100s: it is an absolute path, and workdir is the same", dir);
    if (stat(dir, &st) < 0)
        return cay_fail_sys_as(err, CAY_ENOENT, "option root_dir %.200s", dir);
    if (S_ISDIR(st.st_mode))
        return 0;
    return cay_fail_why(err, CAY_ETYPE, "spec_invalid", "option root_dir %.200s is no directory",
                        dir);
}

/* What cannot be kept is refused before anything is made. */
static int check_spec(local *l, const cay_box_spec *spec, cay_err *err)
{
    const cay_create *s = spec->create;
    if (s->isolation.min_level > CAY_LEVEL_NONE)
        return cay_fail_why(
            err, CAY_EISOLATION, "level_missing",
            "provider local gives level 0 (none) and %d was asked for; use provider native",
            s->isolation.min_level);
    for (size_t i = 0; s->isolation.require && s->isolation.require[i]; i++)
        if (strcmp(s->isolation.require[i], "nofile-limit") != 0)
            return cay_fail_why(err, CAY_EISOLATION, "feature_missing",
                                "provider local cannot enforce %.60s; use provider native",
                                s->isolation.require[i]);
    if (is_unusual(s->from.template_, "host"))
        return fail_unsupported(err, "templates");
    if (s->from.root && *s->from.root)
        return fail_unsupported(err, "another root filesystem");
    if (root_dir(s))
        CAY_TRY(check_outside(s, err));
    if (s->files.ngrants)
        return fail_unsupported(err, "mounts: its processes see the host's files as they are");
    if (spec->nlayers)
        return cay_fail_why(err, CAY_ENOTSUP, "snapshot_unsupported",
                            "provider local has no snapshots: its workspace is a plain directory; "
                            "use provider native");
    if (is_unusual(s->hostname, "cay"))
        return fail_unsupported(err, "a host name of its own");
    if (is_unusual(s->process.user, "user"))
        return fail_unsupported(err, "another user");
    if (s->process.workdir && (s->process.workdir[0] != '/' || strlen(s->process.workdir) > 256 ||
                               strstr(s->process.workdir, "..")))
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid",
                            "workdir %.60s: give an absolute path of at most 256 bytes",
                            s->process.workdir);
    return 0;
}

static int write_config(int dir, const cay_create *s, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(4 << 20);
    const char *workdir = cay__text_or(s->process.workdir, "/workspace");
    const char *home = getenv("HOME");
    if (!root_dir(s) || !home || home[0] != '/')
        home = "/home";
    cay__buf_cstr(&b, workdir);
    cay__buf_cstr(&b, home);
    cay__env_add(&b, s->process.env);
    if (b.full)
        return cay_fail_why(err, CAY_ETOOBIG, "env_too_big",
                            "the environment is longer than 4 MiB");
    CAY_AUTOFD fd = openat(dir, "config", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || !cay__fd_write_all(fd, b.data, b.len))
        return cay_fail_sys(err, "write the sandbox's configuration");
    return 0;
}

/* Under a name of its own first, so that a box is whole or not there. */
static int make_dir(local *l, const char *id, const cay_create *s, cay_err *err)
{
    char tmp[40];
    local_meta m = cay__local_meta_first(l->kind->level, s);
    CAY_JOIN(tmp, ".new-", id);
    cay__fs boxes = { .root = l->boxes };
    cay__fs_remove(&boxes, tmp, true);
    CAY_TRY_SYS(mkdirat(l->boxes, tmp, 0700), err, "make sandbox %s", id);
    CAY_AUTOFD dir = openat(l->boxes, tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cay__fs in = { .root = dir };
    char workdir[300];
    CAY_JOIN(workdir, "/" CAY__LOCAL_ROOT, cay__text_or(s->process.workdir, "/workspace"));
    bool outside = root_dir(s) != NULL;
    if (outside)
        CAY_COPY(workdir, "/" CAY__LOCAL_ROOT);
    CAY_AUTOFD mark = -1;
    if (outside && dir >= 0)
        mark = openat(dir, CAY__LOCAL_OUTSIDE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int rc = 0;
    if (dir < 0 || (outside && mark < 0) || cay__fs_mkdir(&in, workdir, 0755, true) < 0 ||
        cay__fs_mkdir(&in, "/" CAY__LOCAL_ROOT "/home", 0755, true) < 0 ||
        cay__fs_mkdir(&in, "/" CAY__LOCAL_ROOT "/tmp", 0700, true) < 0)
        rc = cay_fail_sys(err, "make the directories of sandbox %s", id);
    if (rc == 0)
        rc = write_config(dir, s, err);
    if (rc == 0)
        rc = cay__local_meta_write(dir, &m, err);
    if (rc == 0 && renameat2(l->boxes, tmp, l->boxes, id, RENAME_NOREPLACE) < 0 && errno != EEXIST)
        rc = cay_fail_sys(err, "make sandbox %s", id);
    cay__fs_remove(&boxes, tmp, true);
    return rc;
}

CAY_DEFINE_AUTO(local_box, cay__local_release)

void cay__local_release(void *box)
{
    local_box *b = box;
    cay__sessions_close(&b->base.sessions);
    cay__link_close(&b->link);
    cay__close_fd(&b->dir);
    free(b);
}

/* Where its files are, as the host names it. */
static int find_path(local_box *b, cay_err *err)
{
    char workdir[512];
    CAY_AUTOFD root = cay__local_root(b->dir, (int)b->l->kind->level, b->path, sizeof b->path);
    if (root < 0 || cay__fd_read_file(b->dir, "config", workdir, sizeof workdir) < 0)
        return cay_fail_sys(err, "files of sandbox %s", b->base.id);
    CAY_JOIN(b->shown, b->path, workdir);
    return 0;
}

static int box_open(local *l, const char *id, local_box **out, cay_err *err)
{
    CAY_AUTOPTR(local_box) b = cay__alloc(sizeof *b);
    local_meta m;
    b->l = l;
    cay__link_open(&b->link, cay__local_dial, b, "cay-local");
    cay__served_open(&b->base, id, &b->link);
    b->base.sessions.root = b->path;
    b->dir = -1;
    if (cay__id_valid(id, 'c'))
        b->dir = openat(l->boxes, id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (b->dir < 0)
        return cay_fail_why(err, CAY_EGONE, "sandbox_gone", "sandbox %.24s: its directory is gone",
                            id);
    int rc = cay__local_meta_read(b->dir, &m, err);
    if (rc == 0)
        rc = find_path(b, err);
    if (rc == CAY_ENOENT)
        return CAY_EGONE;
    CAY_TRY(rc);
    *out = CAY_STEAL(b);
    return 0;
}

/* cay-local runs from now on: it is the clock of the deadlines. */
static int start_box(local_box *b, const cay_call *call, cay_err *err)
{
    cay_m_hello m = { .version = CAY_MSG_VERSION };
    return cay__link_call(&b->link, call, CAY__LINK_ASK(CAY_MSG_HELLO, m), NULL, err);
}

int cay__local_create(void *self, const cay_call *call, const char *id, const cay_box_spec *spec,
                      void **box, cay_err *err)
{
    local *l = self;
    CAY_AUTOPTR(local_box) b = NULL;
    CAY_TRY(l->kind->check(l, spec, err));
    if (!cay__id_valid(id, 'c'))
        return cay_fail_why(err, CAY_EINVAL, "bad_id", "sandbox id %.24s is not one", id);
    if (faccessat(l->boxes, id, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
        CAY_TRY(make_dir(l, id, spec->create, err));
    CAY_TRY(box_open(l, id, &b, err));
    CAY_TRY(start_box(b, call, err));
    *box = CAY_STEAL(b);
    return 0;
}

int cay__local_attach(void *self, const cay_call *call, const char *id, const cay_json *state,
                      void **box, cay_err *err)
{
    return box_open(self, id, (local_box **)box, err);
}

/* A stopped box begins a new life on its files, with new deadlines. */
int cay__local_start(void *self, const cay_call *call, const char *id, const cay_box_spec *spec,
                     void **box, cay_err *err)
{
    CAY_AUTOPTR(local_box) b = NULL;
    local *l = self;
    local_meta m, fresh = cay__local_meta_first(l->kind->level, spec->create);
    CAY_TRY(l->kind->check(l, spec, err));
    CAY_TRY(box_open(self, id, &b, err));
    CAY_TRY(cay__local_meta_read(b->dir, &m, err));
    if (m.state == CAY_STOPPED) {
        fresh.created_ms = m.created_ms;
        CAY_TRY(cay__local_meta_write(b->dir, &fresh, err));
    }
    CAY_TRY(start_box(b, call, err));
    *box = CAY_STEAL(b);
    return 0;
}

static int remove_dir(local *l, const char *id, cay_err *err)
{
    CAY_TRY(cay__boxes_remove(l->boxes, id, err));
    cay__local_unlink(l, id);
    return 0;
}

int cay__local_destroy(void *box, const cay_call *call, cay_err *err)
{
    local_box *b = box;
    int rc = cay__local_stop(b, call, err);
    if (rc < 0 && rc != CAY_ESTATE)
        return rc;
    CAY_TRY(remove_dir(b->l, b->base.id, err));
    cay__local_release(b);
    return 0;
}

int cay__local_remove_files(void *self, const cay_call *call, const char *id, cay_err *err)
{
    CAY_AUTOPTR(local_box) b = NULL;
    if (box_open(self, id, &b, NULL) == 0) {
        int rc = cay__local_stop(b, call, err);
        if (rc < 0 && rc != CAY_ESTATE)
            return rc;
    }
    return remove_dir(self, id, err);
}

int cay__local_list(void *self, const cay_call *call, cay__on_id *fn, void *arg, cay_err *err)
{
    local *l = self;
    int rc = cay__boxes_list(l->boxes, fn, arg);
    if (rc == -1)
        return cay_fail_sys(err, "list %s/%s", l->home, l->kind->dir);
    return rc;
}

typedef struct stray {
    local *l;
    cay__on_id *known;
    void *arg;
    size_t removed;
} stray;

static int on_stray(const char *id, void *arg)
{
    stray *s = arg;
    if (!s->known(id, s->arg))
        s->removed += cay__local_remove_files(s->l, NULL, id, NULL) == 0;
    return 0;
}

int cay__local_gc(void *self, const cay_call *call, cay__on_id *known, void *arg, size_t *removed,
                  cay_err *err)
{
    local *l = self;
    stray s = { l, known, arg, cay__boxes_sweep(l->boxes) };
    CAY_TRY(cay__local_list(l, call, on_stray, &s, err));
    *removed = s.removed;
    return 0;
}

static const local_kind none = { "local", "", CAY_LEVEL_NONE, check_spec, list_layers };

static int local_open(const cay_provider_conf *conf, void **self, cay_err *err)
{
    return cay__local_open(conf, &none, self, err);
}

static const char *const options[] = { "root_dir", NULL };
const cay_provider_ops cay__local = { CAY__LOCAL_OPS, .name = "local", .open = local_open,
                                      .probe = local_probe, .options = options };
