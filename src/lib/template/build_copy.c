/* SPDX-License-Identifier: Apache-2.0 */
/* COPY and ADD: files from a tree into the sandbox, by the calls that everybody has, so that they
 * reach no further than its root does. */
#include "build.h"

#define SMALL        (1u << 20) /* one call each */
#define ACCOUNTS_MAX (1u << 20)

typedef struct putting {
    cay__builder *b;
    const cay_call *call;
    cay_sandbox *sb;
    const cay__task *t;
    const cay__tree *tree;
    char dest[4200]; /* absolute, without a slash at its end but for "/" itself */
    bool dir;        /* the target is a directory */
    bool owners;     /* files keep the owners that they had */
    bool chown;
    uint32_t uid, gid;
} putting;

/* name:…:id:gid… of /etc/passwd and /etc/group. */
static bool find_account(const char *text, const char *name, uint32_t *id, uint32_t *gid)
{
    size_t n = strlen(name);
    for (const char *s = text; s && *s; s = CAY_IF(strchr(s, '\n'), strchr(s, '\n') + 1)) {
        unsigned a = 0, g = 0;
        if (!strncmp(s, name, n) && s[n] == ':' && sscanf(s + n, ":%*[^:\n]:%u:%u", &a, &g) >= 1) {
            *id = a;
            if (gid)
                *gid = g;
            return true;
        }
    }
    return false;
}

static int look_up(putting *p, const char *file, const char *name, uint32_t *id, uint32_t *gid,
                   cay_err *err)
{
    uint64_t no;
    CAY_AUTOFREE char *text = NULL;
    size_t len;
    if (cay__str_to_u64(name, &no)) {
        if (no > UINT32_MAX - 1)
            return cay_fail_why(err, CAY_EINVAL, "build_owner", "the id %.40s is too large", name);
        *id = (uint32_t)no;
        return 0;
    }
    if (cay_file_get(p->sb, p->call, file, ACCOUNTS_MAX, &text, &len, NULL) < 0 ||
        !find_account(text, name, id, gid)) {
        if (!strcmp(name, "root")) {
            *id = 0;
            return 0;
        }
        return cay_fail_why(err, CAY_EINVAL, "build_owner",
                            "%s has no %.60s: make the account first, or give a number", file,
                            name);
    }
    return 0;
}

static int find_owner(putting *p, cay_err *err)
{
    char user[128];
    const char *chown = CAY_OR(p->t->chown, ""), *colon = strchr(chown, ':');
    if (!*chown)
        return 0;
    size_t n = strcspn(chown, ":");
    if (n >= sizeof user)
        return cay_fail_why(err, CAY_EINVAL, "build_owner", "%.60s is no owner", chown);
    memcpy(user, chown, n);
    user[n] = 0;
    p->chown = true;
    if (n) {
        CAY_TRY(look_up(p, "/etc/passwd", user, &p->uid, &p->gid, err));
        if (*user >= '0' && *user <= '9')
            p->gid = p->uid;
    }
    if (colon && colon[1])
        return look_up(p, "/etc/group", colon + 1, &p->gid, NULL, err);
    return 0;
}

static int set_owner(const putting *p, const cay__twig *w, const char *path, cay_err *err)
{
    uint32_t uid = 0, gid = 0;
    if (p->chown) {
        uid = p->uid;
        gid = p->gid;
    } else if (p->owners) {
        uid = w->uid;
        gid = w->gid;
    }
    if (uid || gid)
        return cay_file_chown(p->sb, p->call, path, uid, gid, err);
    return 0;
}

static int fail_changed(const cay__twig *w, cay_err *err)
{
    return cay_fail_why(err, CAY_EBUSY, "build_changed",
                        "%.150s changed while it was being copied; try again when it is at rest",
                        w->path);
}

static int upload_file(const putting *p, int fd, const cay__twig *w, const char *digest,
                       const char *path, uint32_t mode, cay_err *err)
{
    cay_upload *up = NULL;
    cay__sha256 sum;
    char got[CAY__SHA256_HEX];
    CAY_AUTOFREE char *buf = cay__alloc(65536);
    CAY_TRY(cay_file_open_write(
        p->sb, p->call, path,
        &(cay_write){ .size = sizeof(cay_write), .mode = mode, .parents = true }, &up, err));
    cay__sha256_begin(&sum);
    int rc = 0;
    for (ssize_t n; rc == 0 && (n = read(fd, buf, 65536)) != 0;) {
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || !cay__fd_write_all(cay_upload_fd(up), buf, (size_t)n))
            rc = cay_fail_sys(err, "copy %.150s", w->path);
        else
            cay__sha256_add(&sum, buf, (size_t)n);
    }
    cay__sha256_end(&sum, got);
    if (rc == 0 && *digest && strcmp(got, digest) != 0)
        rc = fail_changed(w, err);
    if (rc < 0) {
        cay_upload_abort(up);
        return rc;
    }
    return cay_upload_commit(up, p->call, err);
}

static int put_file(const putting *p, const cay__twig *w, const char *digest, const char *path,
                    cay_err *err)
{
    CAY_AUTOFD fd = -1;
    char got[CAY__SHA256_HEX];
    uint32_t mode = CAY_OR(p->t->mode, w->mode);
    CAY_TRY(cay__tree_open(p->tree, w, p->call, &fd, err));
    if (w->size < SMALL) {
        CAY_AUTOFREE char *buf = cay__alloc((size_t)w->size + 2);
        ssize_t n = cay__fd_read_all(fd, buf, (size_t)w->size + 1);
        if (n < 0)
            return cay_fail_sys(err, "read %.150s", w->path);
        cay__sha256_hex(buf, (size_t)n, got);
        if ((uint64_t)n != w->size || (*digest && strcmp(got, digest) != 0))
            return fail_changed(w, err);
        CAY_TRY(cay_file_put(
            p->sb, p->call, path, buf, (size_t)n,
            &(cay_write){ .size = sizeof(cay_write), .mode = mode, .parents = true }, err));
    } else {
        CAY_TRY(upload_file(p, fd, w, digest, path, mode, err));
    }
    CAY_TRY(set_owner(p, w, path, err));
    /* A change of the owner takes these bits away; without one they may not have come through. */
    if (mode & 07000)
        return cay_file_chmod(p->sb, p->call, path, mode, err);
    return 0;
}

static int put_dir(const putting *p, const cay__twig *w, const char *path, cay_err *err)
{
    cay_stat st = { .size_of = sizeof st };
    if (cay_file_stat(p->sb, p->call, path, true, &st, NULL) == 0 && st.type == CAY_DIR)
        return 0; /* it stays as it is */
    CAY_TRY(cay_file_mkdir(p->sb, p->call, path, w ? w->mode & 0777 : 0755, true, err));
    if (w && w->mode & 07000)
        CAY_TRY(cay_file_chmod(p->sb, p->call, path, w->mode, err));
    if (w)
        return set_owner(p, w, path, err);
    if (p->chown)
        return cay_file_chown(p->sb, p->call, path, p->uid, p->gid, err);
    return 0;
}

static int put_link(const putting *p, const cay__twig *w, const char *path, cay_err *err)
{
    char up[4200];
    CAY_COPY(up, path);
    char *slash = strrchr(up, '/');
    if (slash && slash != up) {
        *slash = 0;
        CAY_TRY(put_dir(p, NULL, up, err));
    }
    int rc = cay_file_symlink(p->sb, p->call, w->target, path, err);
    if (rc == CAY_EEXIST) {
        CAY_TRY(cay_file_remove(p->sb, p->call, path, false, err));
        rc = cay_file_symlink(p->sb, p->call, w->target, path, err);
    }
    return rc;
}

static int put_leaf(const putting *p, const cay__leaf *l, cay_err *err)
{
    char path[8400];
    bool itself = l->file && !p->dir;
    CAY_FORMAT(path, "%s%s%s", p->dest, itself || !*l->name || !strcmp(p->dest, "/") ? "" : "/",
               CAY_TEXT_IF(!itself, l->name));
    if (strlen(path) > 4095)
        return cay_fail_why(err, CAY_ETOOBIG, "build_copy",
                            "%.100s…: the path is longer than 4095 bytes", path);
    if (l->twig->type == 'f')
        return put_file(p, l->twig, l->digest, path, err);
    if (l->twig->type == 'd')
        return put_dir(p, l->twig, path, err);
    return put_link(p, l->twig, path, err);
}

static int put_all(putting *p, const cay__pick *pick, cay_err *err)
{
    bool below = false;
    CAY_EACH_OF(it, pick->leaves, pick->n)
        below |= it->twig && !it->file;
    if (p->dir || below || !pick->n)
        CAY_TRY(put_dir(p, NULL, p->dest, err));
    CAY_EACH_OF(leave, pick->leaves, pick->n)
        if (leave->twig)
            CAY_TRY(put_leaf(p, leave, err));
    return 0;
}

static int find_dest(putting *p, cay_err *err)
{
    const cay__task *t = p->t;
    size_t last = t->step->nwords - 1;
    const char *d = t->words[last];
    cay_stat st = { .size_of = sizeof st };
    size_t n = strlen(d);
    p->dir =
        !n || d[n - 1] == '/' || !strcmp(d, ".") || (n > 1 && !strcmp(d + n - 2, "/.")) || last > 1;
    if (!CAY_JOIN(p->dest, *d == '/' ? "" : t->cwd,
                  *d == '/' || t->cwd[strlen(t->cwd) - 1] == '/' ? "" : "/", d) ||
        strchr(p->dest, '\n'))
        return cay_fail_why(err, CAY_EINVAL, "build_copy",
                            "the target is too long, or has a newline in it");
    for (n = strlen(p->dest);
         n > 1 && (p->dest[n - 1] == '/' || (p->dest[n - 1] == '.' && p->dest[n - 2] == '/')); n--)
        p->dest[n - 1] = 0;
    if (!p->dir && cay_file_stat(p->sb, p->call, p->dest, true, &st, NULL) == 0)
        p->dir = st.type == CAY_DIR;
    return 0;
}

/* A source inside another sandbox: its own tree, or what is before the first wildcard. */
static int from_box(putting *p, cay_sandbox *sb, const char *source, cay_err *err)
{
    char base[4200];
    const char *wild = strpbrk(source, "*?["), *pattern = "", *slash;
    cay__tree tree;
    cay__pick pick = { .mem = &p->b->mem };
    if (!CAY_JOIN(base, *source == '/' ? "" : "/", source) || strchr(base, '\n'))
        return cay_fail_why(err, CAY_EINVAL, "build_copy",
                            "%.60s…: the path is too long, or has a newline in it", source);
    if (wild) {
        char *cut = base + (wild - source) + (*source != '/');
        *cut = 0;
        cut = strrchr(base, '/');
        pattern = source + (cut - base) + (*source == '/');
        *(cut == base ? cut + 1 : cut) = 0;
    }
    int rc = cay__tree_box(&tree, sb, base, NULL, 0, p->call, err);
    if (rc == CAY_ENOENT)
        return cay_fail_why(err, CAY_ENOENT, "build_copy", "%.100s is not there", source);
    CAY_TRY(rc);
    rc = cay__tree_pick(&tree, pattern, &pick, err);
    for (size_t n = strlen(base); n > 1 && base[n - 1] == '/'; n--)
        base[n - 1] = 0;
    slash = strrchr(base, '/');
    for (size_t i = 0; rc == 0 && i < pick.n; i++)
        if (pick.leaves[i].file && !*pick.leaves[i].name)
            pick.leaves[i].name = slash + 1;
    p->tree = &tree;
    if (rc == 0)
        rc = put_all(p, &pick, err);
    cay__pick_clear(&pick);
    cay__tree_clear(&tree);
    return rc;
}

static int from_other(putting *p, cay_err *err)
{
    cay__builder *b = p->b;
    const cay__task *t = p->t;
    cay_sandbox *sb = NULL;
    p->owners = true;
    cay__bstage st = { .ref = t->from, .base = -1 };
    CAY_TRY(cay__bstage_box(b, &st, CAY_IF(t->origin == CAY__FROM_STAGE, b->stages[t->stage].done),
                            false, &sb, err));
    int rc = 0;
    for (size_t i = 0; rc == 0 && i + 1 < t->step->nwords; i++)
        rc = from_box(p, sb, t->words[i], err);
    cay__builder_throw(b, sb);
    return rc;
}

static int from_archive(putting *p, cay_err *err)
{
    CAY_AUTOFD fd = -1;
    const cay__opened *o;
    const cay__task *t = p->t;
    cay__pick pick = { .mem = &p->b->mem };
    CAY_TRY(p->b->spec->archive(p->b->spec->arg, t->from, &fd, err));
    CAY_TRY(cay__unpack(p->b, fd, t->from, false, &o, err));
    int rc = 0;
    for (size_t i = 0; rc == 0 && i + 1 < t->step->nwords; i++)
        rc = cay__tree_pick(&o->tree, t->words[i], &pick, err);
    p->tree = &o->tree;
    if (rc == 0)
        rc = put_all(p, &pick, err);
    cay__pick_clear(&pick);
    return rc;
}

static int from_url(putting *p, cay_err *err)
{
    const char *url = p->t->words[0], *path = strchr(strstr(url, "://") + 3, '/'),
               *name = CAY_TEXT_IF(path, path + 1);
    char file[300];
    size_t n = strcspn(CAY_OR(path, ""), "?#");
    for (size_t i = 0; path && i < n; i++) {
        if (path[i] == '/')
            name = path + i + 1;
    }
    size_t len = 0;
    if (path)
        len = (size_t)(path + n - name);
    if (p->dir && (!len || len > 250 || !strncmp(name, "..", len)))
        return cay_fail_why(err, CAY_EINVAL, "build_copy",
                            "%.100s has no name for a file: give a target that does not end in '/'",
                            url);
    CAY_FORMAT(file, "%.*s", p->dir ? (int)len : 0, name);
    cay__twig w = { .type = 'f', .mode = 0600, .size = UINT64_MAX, .path = url };
    char full[4600];
    CAY_FORMAT(full, "%s%s%s", p->dest, CAY_TEXT_IF(p->dir && strcmp(p->dest, "/"), "/"), file);
    CAY_TRY_SYS(lseek(p->t->fetched, 0, SEEK_SET), err, "rewind what was fetched");
    CAY_TRY(upload_file(p, p->t->fetched, &w, "", full, CAY_OR(p->t->mode, w.mode), err));
    return set_owner(p, &w, full, err);
}

/* Tars of ADD: what is in them goes below the target. */
static int put_tars(putting *p, cay_err *err)
{
    for (const cay__twig **w = p->t->tars; w && *w; w++) {
        CAY_AUTOFD fd = -1;
        const cay__opened *o;
        cay__pick pick = { .mem = &p->b->mem };
        CAY_TRY(cay__tree_open(&p->b->context, *w, p->call, &fd, err));
        CAY_TRY(cay_wrap(err, cay__unpack(p->b, fd, NULL, true, &o, err), "%.100s", (*w)->path));
        p->tree = &o->tree;
        p->owners = true;
        int rc = cay__tree_pick(&o->tree, "", &pick, err);
        if (rc == 0)
            rc = put_all(p, &pick, err);
        cay__pick_clear(&pick);
        CAY_TRY(rc);
    }
    return 0;
}

static int put_bytes(putting *p, cay_err *err)
{
    const cay__step *s = p->t->step;
    char path[4600];
    uint32_t mode = CAY_OR(p->t->mode, 0644);
    const cay__twig w = { .type = 'f' };
    CAY_FORMAT(path, "%s%s%s", p->dest, CAY_TEXT_IF(p->dir && s->name && strcmp(p->dest, "/"), "/"),
               CAY_TEXT_IF(p->dir && s->name, s->name));
    if (p->dir && !s->name)
        return cay_fail_why(err, CAY_EINVAL, "build_copy", "%.100s is a directory", p->dest);
    CAY_TRY(cay_file_put(p->sb, p->call, path, s->data, s->len,
                         &(cay_write){ .size = sizeof(cay_write), .mode = mode, .parents = true },
                         err));
    return set_owner(p, &w, path, err);
}

int cay__task_put(cay__builder *b, cay_sandbox *sb, const cay__task *t, cay_err *err)
{
    CAY_AUTOFREE putting *p = cay__alloc(sizeof *p);
    *p = (putting){ .b = b, .call = &b->call, .sb = sb, .t = t, .tree = &b->context };
    CAY_TRY(find_dest(p, err));
    CAY_TRY(find_owner(p, err));
    if (t->step->kind == CAY__STEP_FILE)
        return put_bytes(p, err);
    switch (t->origin) {
    case CAY__FROM_STAGE:
    case CAY__FROM_TEMPLATE: return from_other(p, err);
    case CAY__FROM_ARCHIVE: return from_archive(p, err);
    case CAY__FROM_URL: return from_url(p, err);
    case CAY__FROM_CONTEXT: break;
    }
    bool tars = t->tars && t->tars[0], others = false;
    CAY_EACH_OF(leave, t->pick.leaves, t->pick.n)
        others |= leave->twig != NULL;
    if (others || !tars)
        CAY_TRY(put_all(p, &t->pick, err));
    if (tars)
        return put_tars(p, err);
    return 0;
}

int cay__task_workdir(cay__builder *b, cay_sandbox *sb, const cay__task *t, cay_err *err)
{
    bool there = false;
    CAY_TRY(cay_file_exists(sb, &b->call, t->words[0], &there, err));
    if (there)
        return 0;
    return cay_file_mkdir(sb, &b->call, t->words[0], 0755, true, err);
}
