/* SPDX-License-Identifier: Apache-2.0 */
/* What COPY and ADD take, and the sum of it. */
#include "build.h"
#include <cay/fetch.h>

#define IGNORE_MAX (1u << 20)

int cay__plan_context(cay__builder *b, cay_err *err)
{
    CAY_AUTOFREE char *ignore = NULL;
    if (b->has_context)
        return 0;
    if (!b->spec->dir)
        return cay_fail_why(err, CAY_EINVAL, "build_context",
                            "there is no context to copy from: give a directory");
    int fd = open(b->spec->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return cay_fail_sys(err, "open the context %.150s", b->spec->dir);
    ignore = cay__alloc(IGNORE_MAX + 1);
    ssize_t n = cay__fd_read_file(fd, ".dockerignore", ignore, IGNORE_MAX);
    CAY_TRY(cay__tree_dir(&b->context, fd, ignore, (size_t)CAY_MAX(n, 0), &b->call, err));
    b->has_context = true;
    return 0;
}

static bool is_url(const char *s)
{
    return cay__str_starts(s, "http://") || cay__str_starts(s, "https://");
}

/* https://host/repo.git, with #branch:dir behind it or not: a repository to those who build
 * elsewhere, so never a file here. */
static bool is_git(const char *s)
{
    size_t n = strcspn(s, "#?");
    return is_url(s) && n > 4 && !strncmp(s + n - 4, ".git", 4) && s[n] != '?';
}

/* Fetched now, since only its content tells whether it is the same. */
static int take_url(cay__builder *b, cay__task *t, cay__sha256 *sum, cay_err *err)
{
    char digest[CAY__SHA256_HEX];
    cay_url ask = { .size = sizeof ask, .url = t->words[0], .net = b->net };
    if (t->step->nwords != 2)
        return cay_fail_why(err, CAY_EINVAL, "build_copy", "a URL stands alone: one ADD for each");
    CAY_TRY(cay_url_get(b->client, &b->call, &ask, &t->fetched, &t->fetched_len, err));
    CAY_TRY_SYS(cay__sha256_fd(t->fetched, 0, UINT64_MAX, digest), err, "read what was fetched");
    if (t->step->checksum && (!cay__str_starts(t->step->checksum, "sha256:") ||
                              strcmp(t->step->checksum + 7, digest) != 0))
        return cay_fail_why(err, CAY_EINVAL, "build_checksum",
                            "%.80s has sha256:%.16s…, not %.30s…", t->words[0], digest,
                            t->step->checksum);
    t->origin = CAY__FROM_URL;
    cay__plan_sum(sum, digest);
    return 0;
}

static int take_archive(cay__builder *b, cay__task *t, cay__sha256 *sum, cay_err *err)
{
    CAY_AUTOFD fd = -1;
    char digest[CAY__SHA256_HEX];
    if (!b->spec->archive)
        return cay_fail_why(err, CAY_EINVAL, "build_archive",
                            "no archives were sent with this build");
    CAY_TRY(b->spec->archive(b->spec->arg, t->step->archive, &fd, err));
    CAY_TRY_SYS(cay__sha256_fd(fd, 0, UINT64_MAX, digest), err, "read what was fetched");
    t->origin = CAY__FROM_ARCHIVE;
    t->from = t->step->archive;
    cay__plan_sum(sum, digest);
    return 0;
}

static int take_from(cay__builder *b, const cay__bstage *st, cay__task *t, cay__sha256 *sum,
                     cay_err *err)
{
    const char *from = t->step->from;
    long stage = cay__plan_stage(b, from, (size_t)(st - b->stages));
    CAY_AUTOPTR(cay_template) tm = NULL;
    if (stage >= 0) {
        t->origin = CAY__FROM_STAGE;
        t->stage = (size_t)stage;
        cay__plan_sum(sum, b->stages[stage].key);
        return 0;
    }
    t->origin = CAY__FROM_TEMPLATE;
    if (!strcmp(from, CAY__BUILD_HOST)) {
        t->from = CAY__BUILD_HOST;
        cay__plan_sum(sum, from);
        return 0;
    }
    CAY_TRY(cay_wrap(err, cay__build_need(b, from, &tm, err),
                     "--from=%.60s is no stage before this one", from));
    t->from = cay__arena_str(&b->mem, tm->id);
    for (const char *const *l = tm->layers; *l; l++)
        cay__plan_sum(sum, *l);
    return 0;
}

/* By its name and its first bytes, as far as both can tell. */
static bool is_tar(const cay__tree *tree, const cay__twig *w, const cay_call *call)
{
    static const struct {
        const char *end, *magic;
        size_t n, at;
    } kinds[] = {
        { ".tar", "ustar", 5, 257 },
        { ".tar.gz", "\x1f\x8b", 2, 0 },
        { ".tgz", "\x1f\x8b", 2, 0 },
        { ".tar.bz2", "BZh", 3, 0 },
        { ".tbz2", "BZh", 3, 0 },
        { ".tar.xz",
          "\xfd"
          "7zXZ",
          5, 0 },
        { ".txz",
          "\xfd"
          "7zXZ",
          5, 0 },
        { ".tar.zst", "\x28\xb5\x2f\xfd", 4, 0 },
    };
    size_t len = strlen(w->path);
    char head[512] = "";
    CAY_AUTOFD fd = -1;
    CAY_EACH(kind, kinds) {
        size_t n = strlen(kind->end);
        if (len < n || strcasecmp(w->path + len - n, kind->end) != 0)
            continue;
        return cay__tree_open(tree, w, call, &fd, NULL) == 0 &&
               cay__fd_read_all(fd, head, sizeof head) > (ssize_t)(kind->at + kind->n) &&
               !memcmp(head + kind->at, kind->magic, kind->n);
    }
    return false;
}

static int take_context(cay__builder *b, cay__task *t, cay__sha256 *sum, cay_err *err)
{
    const cay__step *s = t->step;
    size_t ntars = 0;
    CAY_TRY(cay__plan_context(b, err));
    for (size_t i = 0; i + 1 < s->nwords; i++)
        CAY_TRY(cay__tree_pick(&b->context, t->words[i], &t->pick, err));
    if (s->kind == CAY__STEP_ADD)
        t->tars = cay__arena_take(&b->mem, (t->pick.n + 1) * sizeof *t->tars);
    CAY_EACH_OF(l, t->pick.leaves, t->pick.n) {
        char head[80];
        CAY_FORMAT(head, "%c %o %d", l->twig->type, l->twig->mode, l->file);
        cay__plan_sum(sum, head);
        cay__plan_sum(sum, l->name);
        cay__plan_sum(sum, l->twig->target);
        if (l->twig->type == 'f')
            CAY_TRY(cay__tree_hash(&b->context, l->twig, &b->call, l->digest, err));
        cay__plan_sum(sum, l->digest);
        if (s->kind == CAY__STEP_ADD && l->file && l->twig->type == 'f' &&
            is_tar(&b->context, l->twig, &b->call)) {
            t->tars[ntars++] = l->twig;
            l->twig = NULL;
        }
    }
    return 0;
}

int cay__plan_copy(cay__builder *b, cay__bstage *st, cay__task *t, cay__sha256 *sum, cay_err *err)
{
    const cay__step *s = t->step;
    for (size_t i = 0; s->kind == CAY__STEP_ADD && i + 1 < s->nwords; i++) {
        if (is_git(t->words[i]) || cay__str_starts(t->words[i], "git@") ||
            cay__str_starts(t->words[i], "ssh://") || cay__str_starts(t->words[i], "git://"))
            return cay_fail_why(
                err, CAY_ENOTSUP, "build_copy",
                "ADD of a repository is not understood: RUN git clone, or give it in the context");
        if (is_url(t->words[i]))
            return take_url(b, t, sum, err);
    }
    if (s->checksum)
        return cay_fail_why(err, CAY_EINVAL, "build_copy", "--checksum is for a URL");
    if (s->archive)
        return take_archive(b, t, sum, err);
    if (s->from)
        return take_from(b, st, t, sum, err);
    return take_context(b, t, sum, err);
}
