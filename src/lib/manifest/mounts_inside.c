/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Storage that a container mounts itself: the programs are the image's, run as root by its pid 1,
 * and end with it. Their keys are in memory of the container, in files that root alone reads, or in
 * the program's own environment; commands of other users see neither.
 *
 * They mount in a place that only root enters; cay-pid1 shows it from there at its target
 * (daemon/holder/storage.c), and what mountinfo says then decides.
 */
#include "mounts_inside.h"
#include <poll.h>
#include <lib/sandbox/sandbox.h>
#include <signal.h>

#define PLACE CAY__INSIDE_PLACE
#define PROGS                                                                                      \
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" /* no place of the sandbox's    \
                                                                      user, whatever its PATH says \
                                                                    */
enum { WAIT_MS = 40000, STEP_MS = 25, FILE_MAX = 64 << 10 };
enum { NO_PLACE = 3, BAD_WAY }; /* CAY__ATTACH_… */

typedef cay__helper helper;
typedef cay__inside inside;

static bool find_program(const inside *in, const char *name, size_t n, char *path, size_t cap)
{
    cay_stat st = { .size_of = sizeof st };
    for (const char *dir = PROGS; *dir;) {
        size_t len = strcspn(dir, ":");
        snprintf(path, cap, "%.*s/%.*s", (int)len, dir, (int)n, name);
        if (cay_file_stat(in->sb, in->call, path, true, &st, NULL) == 0 && st.type == CAY_FILE &&
            st.mode & 0111)
            return true;
        dir += len + (dir[len] == ':');
    }
    return false;
}

/* All are there; the first is what is run. */
static int check_tools(const inside *in, const cay__storage_mount *m, helper *h, cay_err *err)
{
    char path[128];
    for (size_t i = 0; i < CAY_LEN(h->tools) && h->tools[i]; i++) {
        const char *s = h->tools[i];
        size_t n = strcspn(s, "|");
        if (!find_program(in, s, n, path, sizeof path) &&
            !(s[n] && find_program(in, s + n + 1, strlen(s + n + 1), path, sizeof path)))
            return cay_fail_why(err, CAY_ENOTSUP, "mount_missing_tool",
                                "entry %.80s: the image has no %.*s; take one that has it, or use "
                                "provider native, which mounts from outside",
                                m->entry, (int)n, s);
        if (i == 0)
            h->argv[0] = cay__arena_str(in->mem, path);
        for (size_t k = 0; h->port && !strcmp(s, "mount") && k < CAY__INSIDE_TRIES; k++)
            h->then[k][0] = cay__arena_str(in->mem, path);
    }
    return 0;
}

/* By the rights of a user, as a text; *n: how much of it there is. */
static int read_as(const inside *in, const char *path, const char *user, char *out, size_t cap,
                   size_t *n, cay_err *err)
{
    CAY_AUTOFD fd = -1;
    *n = 0;
    CAY_TRY(cay_file_open_read(in->sb, in->call, path,
                               &(cay_read){ .size = sizeof(cay_read), .user = user }, &fd, err));
    while (*n < cap - 1) {
        CAY_TRY(cay__call_wait(in->call, fd, POLLIN, "mount", err));
        ssize_t k = read(fd, out + *n, cap - 1 - *n);
        if (k < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (k <= 0)
            break;
        *n += (size_t)k;
    }
    out[*n] = 0;
    return 0;
}

/* Root's, and nobody else may write there: so for each directory on the way. */
static bool roots_own(const inside *in, const char *path)
{
    char part[512];
    cay_stat st = { .size_of = sizeof st };
    if (*path != '/' || strlen(path) >= sizeof part)
        return false;
    for (const char *s = path + 1;; s++) {
        if (*s && *s != '/')
            continue;
        CAY_FORMAT(part, "%.*s", (int)(s - path), path);
        if (cay_file_stat(in->sb, in->call, part, false, &st, NULL) < 0 ||
            st.type != (*s ? CAY_DIR : CAY_FILE) || st.uid != 0 || st.mode & 022)
            return false;
        if (!*s)
            return true;
    }
}

int cay__inside_file(const cay__inside *in, const cay__storage_mount *m, const char *path,
                     char **out, cay_err *err)
{
    size_t n;
    char *text = cay__arena_take(in->mem, FILE_MAX);
    if (!roots_own(in, path))
        return cay_fail_why(err, CAY_EINVAL, "mount_config_invalid",
                            "entry %.60s: config_file_path %.80s: give the absolute path of a file "
                            "of the image that, with its directories, root alone may write",
                            m->entry, path);
    CAY_TRY(read_as(in, path, "root", text, FILE_MAX, &n, err));
    if (n == FILE_MAX - 1 || strlen(text) != n)
        return cay_fail_why(err, CAY_EINVAL, "mount_config_invalid",
                            "entry %.60s: config_file_path %.80s is no text of at most 64 KiB",
                            m->entry, path);
    *out = text;
    return 0;
}

/* The ids of its own that a file worker of this user has: whatever a name means in the image. */
static int check_user(const inside *in, const char *user, const char *entry, const char *key,
                      cay_err *err)
{
    char text[4096] = "";
    size_t n;
    unsigned long id[4] = { 0 };
    CAY_TRY(read_as(in, "/proc/self/status", user, text, sizeof text, &n, err));
    const char *line = strstr(text, "\nUid:");
    if (!line || sscanf(line + 5, "%lu %lu %lu %lu", &id[0], &id[1], &id[2], &id[3]) != 4 ||
        !id[0] || !id[1] || !id[2] || !id[3])
        return cay__mounts_refuse(entry, key, err);
    return 0;
}

static int check_users(const inside *in, const cay__mount_list *l, const cay_box_spec *b,
                       cay_err *err)
{
    const char *entry, *key = cay__mounts_exposed(l, &entry);
    if (!key)
        return 0;
    CAY_TRY(check_user(in, NULL, entry, key, err));
    CAY_EACH_OF(it, b->services, b->nservices)
        if (it->user && *it->user)
            CAY_TRY(check_user(in, it->user, entry, key, err));
    return 0;
}

/* As root, whoever the sandbox's user is. */
static int put_secret(const inside *in, const char *path, const char *text, cay_err *err)
{
    return cay_file_put(in->sb, in->call, path, text, strlen(text),
                        &(cay_write){ .size = sizeof(cay_write), .mode = 0600, .user = "root" },
                        err);
}

/* cay-pid1 storage WHAT NAME [TARGET] */
static int run_pid1_storage(const inside *in, const cay__storage_mount *m, const char *what,
                            const char *target, cay_err *err)
{
    const char *const argv[] = { "/.cay/pid1", "storage", what, in->name, target, NULL };
    const cay_pair env[] = { { "PATH", PROGS }, { NULL, NULL } };
    cay_result res = { .size = sizeof res };
    CAY_TRY(cay_sandbox_run(in->sb, in->call,
                            &(cay_spawn){ .size = sizeof(cay_spawn),
                                          .argv = argv,
                                          .env = env,
                                          .env_mode = CAY_ENV_ONLY,
                                          .cwd = "/",
                                          .user = "root" },
                            NULL, 0, 4096, &res, err));
    int code = res.exit.code;
    cay_result_clear(&res);
    if (code == NO_PLACE)
        return cay_fail_why(err, CAY_ENOTSUP, "mount_unsupported",
                            "entry %.60s: the container has no memory of root's at " PLACE
                            ", as one of an earlier version; make it anew",
                            m->entry);
    if (code == BAD_WAY)
        return cay_fail_why(err, CAY_ESTATE, "mount_failed",
                            "entry %.60s: a part of %.120s is a link or no directory; take it "
                            "away, and start the sandbox again",
                            m->entry, m->target);
    if (code)
        return cay_fail_why(err, CAY_ESYS, "mount_failed",
                            "entry %.60s: storage cannot be shown at %.120s", m->entry, m->target);
    return 0;
}

/* mountinfo writes blanks and backslashes as octal numbers. */
static void escape_path(cay__buf *b, const char *path)
{
    for (const char *s = path; *s; s++)
        if (*s == ' ' || *s == '\\' || *s == '\t' || *s == '\n')
            cay__buf_fmt(b, "\\%03o", (unsigned char)*s);
        else
            cay__buf_add(b, s, 1);
}

/* ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [MORE…] - TYPE SOURCE OPTIONS; the last of a point is on
 * top. */
bool cay__mounts_seen(const char *mountinfo, const char *path, char *dev, size_t cap)
{
    CAY_AUTOBUF want = CAY__BUF(4 * 4096 + 1);
    bool seen = false;
    escape_path(&want, path);
    for (const char *line = mountinfo, *end; !want.full && want.data && *line;
         line = *end ? end + 1 : end) {
        const char *f[6] = { line };
        end = line + strcspn(line, "\n");
        for (size_t i = 1; i < CAY_LEN(f); i++) {
            const char *blank = memchr(f[i - 1], ' ', (size_t)(end - f[i - 1]));
            if (blank)
                f[i] = blank + 1;
            else
                f[i] = end;
        }
        const char *type = memmem(f[5], (size_t)(end - f[5]), " - ", 3);
        if (!type || (size_t)(f[5] - f[4]) != want.len + 1 ||
            memcmp(f[4], want.data, want.len) != 0)
            continue;
        seen = cay__str_starts(type + 3, "fuse") || cay__str_starts(type + 3, "nfs");
        snprintf(dev, cap, "%.*s", (int)(f[3] - f[2] - 1), f[2]);
    }
    return seen;
}

static bool is_mounted(const inside *in, const char *path, char *dev, size_t cap)
{
    CAY_AUTOFREE char *text = NULL;
    size_t len;
    return cay_file_get(in->sb, in->call, "/proc/self/mountinfo", 4u << 20, &text, &len, NULL) ==
               0 &&
           cay__mounts_seen(text, path, dev, cap);
}

static int tell_failed(const cay__storage_mount *m, const char *who, char *said, cay_err *err)
{
    CAY_AUTOBUF safe = CAY__BUF(2048);
    cay__storage_redact(m, said);
    cay__buf_safe(&safe, said, CAY_MIN(strlen(said), (size_t)140), false);
    return cay_fail_why(err, CAY_ESYS, "mount_failed", "entry %.60s: %s: %s", m->entry, who,
                        cay__text_or(safe.data, "it did not mount"));
}

static int fail_helper(const cay__storage_mount *m, cay_proc *p, const helper *h, cay_err *err)
{
    char said[600] = "";
    uint64_t offset = 0, lost = 0;
    size_t n = 0;
    bool eof = false;
    if (cay_proc_read(p, NULL, CAY_STDERR, &offset, said, sizeof said - 1, &n, &lost, &eof, NULL) ==
        0)
        said[n] = 0;
    return tell_failed(m, h->argv[0], said, err);
}

/* /proc/net/tcp: … ADDRESS:PORT 00000000:0000 0A …, what waits there. */
static bool is_listening(const inside *in, unsigned port)
{
    CAY_AUTOFREE char *text = NULL;
    size_t len;
    char want[40];
    CAY_FORMAT(want, ":%04X 00000000:0000 0A ", port);
    return cay_file_get(in->sb, in->call, "/proc/net/tcp", 4u << 20, &text, &len, NULL) == 0 &&
           strstr(text, want);
}

/* The server of mode nfs is mounted by the kernel. */
static int mount_served(const inside *in, const cay__storage_mount *m, const helper *h,
                        size_t attempt, cay_err *err)
{
    const cay_pair env[] = { { "PATH", PROGS }, { NULL, NULL } };
    const cay_spawn s = { .size = sizeof s,
                          .argv = h->then[attempt],
                          .env = env,
                          .env_mode = CAY_ENV_ONLY,
                          .cwd = "/",
                          .user = "root",
                          .timeout_ms = WAIT_MS / CAY__INSIDE_TRIES };
    cay_result res = { .size = sizeof res };
    char said[600] = "";
    CAY_TRY(cay_sandbox_run(in->sb, in->call, &s, NULL, 0, 4096, &res, err));
    if (res.errout)
        CAY_FORMAT(said, "%.*s", (int)CAY_MIN(res.errout_len, sizeof said - 1), res.errout);
    bool ok = res.exit.code == 0 && !res.exit.signal;
    cay_result_clear(&res);
    if (ok)
        return 0;
    return tell_failed(m, h->then[attempt][0], said, err);
}

/* Until it is there, it ended, or the time is over. */
static int wait_mounted(const inside *in, const cay__storage_mount *m, cay_proc *p, const helper *h,
                        char *dev, size_t cap, cay_err *err)
{
    int64_t until = cay__now_ms() + WAIT_MS;
    size_t tries = 0;
    bool done = false;
    int end = cay_proc_exit_fd(p, err);
    CAY_TRY(end);
    for (;;) {
        struct pollfd e = { .fd = end, .events = POLLIN };
        bool ended = poll(&e, 1, STEP_MS) == 1;
        if (is_mounted(in, in->at, dev, cap))
            return 0;
        if (ended || cay__now_ms() > until)
            return fail_helper(m, p, h, err);
        CAY_TRY(cay__call_check(in->call, "mount", err));
        if (!h->port || done || !is_listening(in, h->port))
            continue;
        int rc = mount_served(in, m, h, tries++, err);
        if (rc < 0 && (rc != CAY_ESYS || tries == CAY__INSIDE_TRIES))
            return rc;
        done = rc == 0;
    }
}

/* What is on top at the target is what was mounted, and nothing that was there before, or
 * elsewhere. */
static int show_storage(const inside *in, const cay__storage_mount *m, const char *dev,
                        cay_err *err)
{
    char there[32] = "";
    CAY_TRY(run_pid1_storage(in, m, "show", m->target, err));
    if (!is_mounted(in, m->target, there, sizeof there) || strcmp(there, dev) != 0)
        return cay_fail_why(err, CAY_ESYS, "mount_failed",
                            "entry %.60s: storage is not to be seen at %.120s", m->entry,
                            m->target);
    return 0;
}

static int start_helper(const inside *in, const cay__storage_mount *m, const helper *h,
                        cay_err *err)
{
    cay_proc *p = NULL;
    char dev[32] = "";
    /* They run as root: nothing of theirs is looked for where the sandbox's variables say, or its
     * user could have put something. */
    const cay_spawn s = { .size = sizeof s,
                          .argv = h->argv,
                          .env = h->env,
                          .env_mode = CAY_ENV_ONLY,
                          .cwd = "/",
                          .user = "root",
                          .tag = NULL };
    CAY_TRY(cay_sandbox_spawn(in->sb, in->call, &s, &p, err));
    int rc = wait_mounted(in, m, p, h, dev, sizeof dev, err);
    if (rc == 0)
        rc = show_storage(in, m, dev, err);
    if (rc < 0)
        cay_proc_signal(p, NULL, SIGKILL, CAY_SCOPE_TREE, NULL);
    cay_proc_unref(p);
    return rc;
}

/* What leads out of a network, and whom to trust there, is the sandbox's to say; no other variable
 * of it is theirs. */
static void add_vars(helper *h, const cay_create *c)
{
    static const char *const through[] = { "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
                                           "http_proxy", "https_proxy", "no_proxy" };
    cay__inside_var(h, "PATH", PROGS);
    cay__inside_var(h, "HOME", PLACE);
    for (const cay_pair *e = c->process.env; e && e->key; e++)
        CAY_EACH(one, through)
            if (!strcmp(e->key, *one) && e->value)
                cay__inside_var(h, e->key, e->value);
}

static int mount_storage(inside *in, const cay__storage_mount *m, const cay_create *c, cay_err *err)
{
    helper h = { .n = 0 };
    char second[160];
    CAY_TRY(cay__inside_plan(in, m, &h, err));
    CAY_TRY(check_tools(in, m, &h, err));
    add_vars(&h, c);
    CAY_TRY(run_pid1_storage(in, m, "make", NULL, err));
    if (h.text)
        CAY_TRY(put_secret(in, h.name, h.text, err));
    CAY_FORMAT(second, PLACE "/%zu.file", in->index);
    if (h.second)
        CAY_TRY(put_secret(in, second, h.second, err));
    int rc = start_helper(in, m, &h, err);
    if (h.text)
        explicit_bzero(h.text, strlen(h.text));
    return rc;
}

static bool read_only(const cay_create *c)
{
    for (const cay_pair *p = c->options; p && p->key; p++)
        if (!strcmp(p->key, "read_only"))
            return !strcmp(p->value, "true");
    return false;
}

int cay__mounts_inside(cay_client *client, const cay_call *call, const char *id, const cay__mani *f,
                       const cay__spec *s, const cay_provider_ops *ops, void *box, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    CAY__AUTOMOUNTS l = { .client = client, .f = f, .mem = &mem, .err = err };
    if (!cay__mounts_wants_inside(f, ops->name))
        return 0;
    CAY_TRY(cay__mounts_read(&l));
    inside in = { .sb = cay__sandbox_new(ops, id, box),
                  .call = call,
                  .id = id,
                  .mem = &mem,
                  .cache = read_only(&s->create) ? PLACE "/" : "/var/lib/.cay-" };
    int rc = check_users(&in, &l, &s->box, err);
    /* Deepest first is how they are taken away; the other way round they are put in. */
    for (in.index = l.n; in.index-- > 0 && rc == 0;)
        if (!cay__mounts_by_engine(&l.m[in.index]))
            rc = mount_storage(&in, &l.m[in.index], &s->create, err);
    in.sb->box = NULL; /* the caller's */
    cay_sandbox_unref(in.sb);
    return rc;
}
