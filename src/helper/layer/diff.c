/* SPDX-License-Identifier: Apache-2.0 */
/*
 * diff WORD…: what differs between two points.
 *
 *   a=LAYER b=LAYER        the stacks, bottom first
 *   a-top=PATH b-top=PATH  the upper directory of a living sandbox, below the state directory:
 *                          sandboxes/ID/upper
 *   root=DIR               below both stacks, a directory of the host
 *   on                     both stand on the directory behind TOOL_FD instead; owners do not count
 *   under=NAME skip=NAME   only this directory of the root; all but this one
 *   prefix=PATH            in front of every path that is told
 *   patch context=N        with the text of each change
 *   no-renames             a renamed directory is told as deleted and added
 *   every                  each file below deleted and renamed directories
 *   digest                 with the SHA-256 of what each file was, or of where a link led
 *
 * READY: both sides are open, and what becomes of the sandbox's directories makes no difference any
 * more. CHANGE: number kind, bytes path, bytes from ("" none), numbers old mode, new mode, old
 * size, new size, what (CHANGE_…), bytes digest ("" none); a mode of 0: it is not there. TEXT:
 * bytes of a patch, which belong to the change before. DONE: number of changes, number of those
 * whose text was left out because the patch grew too long.
 */
#include "compare.h"
#include "patch.h"
#include <base/image.h>
#include <openssl/evp.h>

#define CHANGES_MAX 1000000u

typedef struct ask {
    const char *a[TOOL_STACK_MAX], *b[TOOL_STACK_MAX];
    size_t na, nb;
    const char *a_top, *b_top, *under, *skip, *prefix;
    bool on, patch, every, plain, digest;
    uint64_t context;
} ask;

typedef struct sink {
    const ask *ask;
    cay__buf rec, text, path, from;
    uint64_t changes, bytes, left_out;
} sink;

static int parse_args(tool *t, ask *q, cay_err *err)
{
    const tool_word words[] = { { "a-top=", &q->a_top },
                                { "b-top=", &q->b_top },
                                { "under=", &q->under },
                                { "skip=", &q->skip },
                                { "prefix=", &q->prefix },
                                { "root=", &t->bottom },
                                { "on", .flag = &q->on },
                                { "patch", .flag = &q->patch },
                                { "every", .flag = &q->every },
                                { "no-renames", .flag = &q->plain },
                                { "digest", .flag = &q->digest },
                                { "context=", .number = &q->context, .most = 1000 },
                                { "a=", .list = q->a, .n = &q->na, .most = TOOL_STACK_MAX },
                                { "b=", .list = q->b, .n = &q->nb, .most = TOOL_STACK_MAX } };
    CAY_TRY(TOOL_WORDS(t, "diff", words, err));
    if (q->under && !tool_one_name(q->under))
        return cay_fail(err, CAY_EINVAL, "diff: \"%.60s\" is not one name", q->under);
    return 0;
}

/* What a sandbox with a disk image wrote is in there; *fd -1: it has none. */
static int open_disk(tool *t, const char *id, int *fd, cay_err *err)
{
    char path[48];
    const char *step;
    *fd = -1;
    CAY_JOIN(path, "sandboxes/", id, "/image");
    CAY_AUTOFD image = openat(t->home, path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (image < 0) {
        if (errno == ENOENT)
            return 0;
        return cay_fail_sys(err, "open %s", path);
    }
    CAY_AUTOFD disk = cay__image_mount(image, &step);
    if (disk < 0)
        return cay_fail_sys(err, "disk image: %s", step);
    *fd = cay__dir_at(disk, "upper");
    if (*fd < 0)
        return cay_fail_sys(err, "open %s", path);
    return 0;
}

/* Only the places that sandboxes write to. */
int tool_top_open(tool *t, const char *path, int *fd, cay_err *err)
{
    static const char *const tails[] = { "/upper", "/on/upper" };
    char id[CAY__ID_LEN + 1];
    bool fits = false;
    if (!path) {
        *fd = -1;
        return 0;
    }
    if (cay__str_starts(path, "sandboxes/") && strlen(path) > 10 + CAY__ID_LEN) {
        memcpy(id, path + 10, CAY__ID_LEN);
        id[CAY__ID_LEN] = 0;
        CAY_EACH(tail, tails)
            fits |= cay__id_valid(id, 'c') && !strcmp(path + 10 + CAY__ID_LEN, *tail);
    }
    if (cay__str_starts(path, "layers/o") && strlen(path) > 7 + CAY__ID_LEN) { /* of a snapshot */
        memcpy(id, path + 7, CAY__ID_LEN);
        id[CAY__ID_LEN] = 0;
        fits = cay__id_valid(id, 'o') && !strcmp(path + 7 + CAY__ID_LEN, tails[0]);
    }
    if (!fits)
        return cay_fail(err, CAY_EINVAL, "diff: %.60s is no upper directory", path);
    if (cay__str_starts(path, "sandboxes/")) {
        CAY_TRY(open_disk(t, id, fd, err));
        if (*fd >= 0)
            return 0;
    }
    *fd = cay__dir_at(t->home, path);
    if (*fd < 0)
        return cay_fail_sys(err, "open %s", path);
    return 0;
}

static bool same_stack(const ask *q)
{
    if (q->on)
        return true;
    bool same = q->na == q->nb;
    for (size_t i = 0; same && i < q->na; i++)
        same = !strcmp(q->a[i], q->b[i]);
    return same;
}

static int open_views(tool *t, const ask *q, compare *c, cay_err *err)
{
    CAY_AUTOFD a = -1, b = -1, a_top = -1, b_top = -1;
    c->same_base = same_stack(q);
    if (q->on)
        a = openat(TOOL_FD, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    else
        CAY_TRY(stack_open(t, q->a, q->na, &a, err));
    if (a < 0)
        return cay_fail_sys(err, "open the directory underneath");
    if (!c->same_base)
        CAY_TRY(stack_open(t, q->b, q->nb, &b, err));
    else if ((b = openat(a, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return cay_fail_sys(err, "open a stack");
    CAY_TRY(tool_top_open(t, q->a_top, &a_top, err));
    CAY_TRY(tool_top_open(t, q->b_top, &b_top, err));
    view_open(&c->a, CAY_STEAL_FD(a), CAY_STEAL_FD(a_top));
    view_open(&c->b, CAY_STEAL_FD(b), CAY_STEAL_FD(b_top));
    return 0;
}

static int send_text(tool *t, sink *s, cay_err *err)
{
    for (size_t at = 0; at < s->text.len;) {
        size_t n = CAY_MIN(s->text.len - at, (size_t)64 << 10);
        cay__rec_bytes(&s->rec, s->text.data + at, n);
        CAY_TRY(tool_say(t, CAY__REC_TEXT, &s->rec, err));
        at += n;
    }
    return 0;
}

static const char *add_prefix(const sink *s, const char *path, cay__buf *room)
{
    if (!s->ask->prefix || !path)
        return CAY_OR(path, "");
    room->len = 0;
    cay__buf_str(room, s->ask->prefix);
    cay__buf_str(room, path);
    if (room->full)
        return path;
    return room->data;
}

static bool add_file(EVP_MD_CTX *sum, const entry *e, const char *name)
{
    static char buf[64 << 10];
    ssize_t n;
    if (S_ISLNK(e->st.st_mode))
        return (n = readlinkat(e->dir, name, buf, sizeof buf)) >= 0 &&
               EVP_DigestUpdate(sum, buf, (size_t)n) == 1;
    struct stat st;
    CAY_AUTOFD fd = cay__file_at(e->dir, name);
    if (fd >= 0 && (fstat(fd, &st) < 0 || meta_foreign(&st)))
        return false;
    while (fd >= 0 && (n = read(fd, buf, sizeof buf)) > 0)
        if (EVP_DigestUpdate(sum, buf, (size_t)n) != 1)
            return false;
    return fd >= 0 && n == 0;
}

/* What was there, so that somebody elsewhere can tell whether theirs is the same. */
static const char *digest_of(const change *ch, char hex[65])
{
    unsigned char raw[32];
    *hex = 0;
    if (!ch->a.there || !(S_ISREG(ch->a.st.st_mode) || S_ISLNK(ch->a.st.st_mode)))
        return hex;
    EVP_MD_CTX *sum = EVP_MD_CTX_new();
    bool ok = sum && EVP_DigestInit_ex(sum, EVP_sha256(), NULL) == 1 &&
              add_file(sum, &ch->a, CAY_OR(ch->from_name, ch->name)) &&
              EVP_DigestFinal_ex(sum, raw, NULL) == 1;
    EVP_MD_CTX_free(sum);
    if (ok)
        cay__hex_put(hex, raw, sizeof raw);
    return hex;
}

static int on_change(compare *c, const change *ch, cay_err *err)
{
    sink *s = c->arg;
    change as = *ch;
    char digest[65];
    if (++s->changes > CHANGES_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "diff_too_big",
                            "more than %u changes; ask for a part of the tree", CHANGES_MAX);
    as.path = add_prefix(s, ch->path, &s->path);
    if (ch->from && (ch->kind == 'R' || (c->every && ch->a.there)))
        as.from = add_prefix(s, ch->from, &s->from);
    else
        as.from = NULL;
    cay__rec_num(&s->rec, (unsigned char)ch->kind);
    cay__rec_str(&s->rec, as.path);
    cay__rec_str(&s->rec, as.from);
    cay__rec_num(&s->rec, ch->a.there ? ch->a.st.st_mode : 0);
    cay__rec_num(&s->rec, ch->b.there ? ch->b.st.st_mode : 0);
    cay__rec_num(&s->rec, ch->a.there ? (uint64_t)ch->a.st.st_size : 0);
    cay__rec_num(&s->rec, ch->b.there ? (uint64_t)ch->b.st.st_size : 0);
    cay__rec_num(&s->rec, ch->what);
    cay__rec_str(&s->rec, s->ask->digest ? digest_of(ch, digest) : "");
    if (s->rec.full || s->rec.len > CAY__REC_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "diff_too_big", "a path is too long to be told");
    CAY_TRY(tool_say(c->t, CAY__REC_CHANGE, &s->rec, err));
    if (!s->ask->patch)
        return 0;
    s->text.len = 0;
    s->text.full = false;
    patch_add(&as, (unsigned)s->ask->context, &s->text);
    if (s->text.full || s->bytes + s->text.len > PATCH_MAX) {
        s->left_out++;
        return 0;
    }
    s->bytes += s->text.len;
    return send_text(c->t, s, err);
}

int diff_run(tool *t, cay_err *err)
{
    ask q = { .context = 3 };
    sink s = { .ask = &q,
               .rec = CAY__BUF(CAY__REC_MAX),
               .text = CAY__BUF(8u << 20),
               .path = CAY__BUF(CAY__REC_MAX),
               .from = CAY__BUF(CAY__REC_MAX) };
    CAY_TRY(parse_args(t, &q, err));
    compare c = { .t = t,
                  .every = q.every || q.patch,
                  .renames = !q.plain,
                  .owners = !q.on,
                  .under = q.under,
                  .skip = q.skip,
                  .fn = on_change,
                  .arg = &s };
    CAY_TRY(open_views(t, &q, &c, err));
    int rc = tool_say(t, CAY__REC_READY, &s.rec, err);
    if (rc == 0 && q.under)
        rc = compare_under(&c, q.under, err);
    if (rc == 0)
        rc = compare_run(&c, err);
    view_close(&c.a);
    view_close(&c.b);
    cay__buf_clear(&s.rec);
    cay__buf_clear(&s.text);
    cay__buf_clear(&s.path);
    cay__buf_clear(&s.from);
    cay__rec_num(&t->out, s.changes);
    cay__rec_num(&t->out, s.left_out);
    return rc;
}
