/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack WORD…: what a stack has that another has not, as an archive.
 *
 *   format=snapshot|tar|js  ours, the Agents SDK's tar, or its JSON
 *   meta=JSON               what cay.json says
 *   format=oci              an image's layer, with whiteouts as these have them
 *   a=LAYER b=LAYER         the stacks, bottom first
 *   top=LAYER               b is a and this one more: nothing else is walked
 *   root=DIR                below both stacks, a directory of the host
 *   under=NAME              only this directory of the root
 *   skip=PATH               left out, with all that is below
 *   raw=1                   top as it is, with its digest as a layer; CAY_ENOTSUP, "pack_redirect",
 *                           when only a comparison can tell it
 *   threads=N               that compress
 *   a-on=LAYER b-on=LAYER   /workspace is the directory behind the second descriptor with this
 *                           above it, layers/o…; b has one if a has
 */
#include "pack.h"
#include "compare.h"
#include <linux/openat2.h>

#define SKIPS 256
#define CHUNK (1u << 20)

typedef struct ask {
    const char *a[TOOL_STACK_MAX + 1], *b[TOOL_STACK_MAX + 1], *skip[SKIPS];
    size_t na, nb, nskip;
    const char *top, *under, *meta, *format, *raw, *a_on, *b_on;
    uint64_t threads;
} ask;

typedef struct pack {
    tool *t;
    ask q;
    writer w;
    seal seal;
    cay__buf chain; /* the deepest directory that was told, with those around it */
    char *chunk, *extra;
    tool_links links;
    uint64_t items, bytes, said;
    bool single;    /* one id is all there is */
    struct stat on; /* b-on: the directory of the host; its owner is the workspace's user */
    bool over;      /* raw: bytes of something that is left out */
    uint64_t at;    /* raw: so far in a file */
} pack;

static int parse_args(tool *t, ask *q, cay_err *err)
{
    const size_t most = TOOL_STACK_MAX + 1;
    const tool_word words[] = { { "top=", &q->top },
                                { "under=", &q->under },
                                { "meta=", &q->meta },
                                { "format=", &q->format },
                                { "root=", &t->bottom },
                                { "raw=", &q->raw },
                                { "a-on=", &q->a_on },
                                { "b-on=", &q->b_on },
                                { "threads=", .number = &q->threads, .most = 64 },
                                { "a=", .list = q->a, .n = &q->na, .most = most },
                                { "b=", .list = q->b, .n = &q->nb, .most = most },
                                { "skip=", .list = q->skip, .n = &q->nskip, .most = SKIPS } };
    CAY_TRY(TOOL_WORDS(t, "pack", words, err));
    if (q->under && !tool_one_name(q->under))
        return cay_fail(err, CAY_EINVAL, "pack: \"%.60s\" is not one name", q->under);
    return 0;
}

static bool is_skipped(const pack *p, const char *path)
{
    CAY_EACH_OF(it, p->q.skip, p->q.nskip) {
        size_t n = strlen(*it);
        if (!strncmp(path, *it, n) && (!path[n] || path[n] == '/'))
            return true;
    }
    return false;
}

static uint32_t id_of(const pack *p, uint32_t id)
{
    if (p->single)
        return 1000;
    if (p->t->root && id >= TOOL_STORE && id - TOOL_STORE < 65536)
        return id - TOOL_STORE;
    return CAY_MIN(id, 65535u);
}

/* Below a directory of the host ids are the host's: its owner and the workspace's user have changed
 * places, as they have inside (docs/workspaces.md). */
static uint32_t on_id(const pack *p, uint32_t id, uint32_t owner)
{
    if (p->single || (p->t->root && id >= TOOL_STORE && id - TOOL_STORE < 65536))
        return id_of(p, id);
    uint32_t inside;
    if (id == owner)
        inside = 1000;
    else if (p->t->root && id == 1000)
        inside = owner;
    else
        inside = id;
    if (inside < 65536)
        return inside;
    return 65534;
}

static bool on_host(const pack *p, const char *path)
{
    return p->q.b_on &&
           (p->q.under || (cay__str_starts(path, "workspace") && (!path[9] || path[9] == '/')));
}

static cay__item item_of(const pack *p, char type, const char *path, const struct stat *st)
{
    uint32_t mode = st->st_mode & 0777;
    if (type == CAY__ITEM_LINK)
        mode = 0777;
    else if (p->w.ops->image)
        mode = st->st_mode & 07777;
    else if (type == CAY__ITEM_DIR)
        mode = st->st_mode & 03777;
    bool host = on_host(p, path);
    return (cay__item){ .type = type,
                        .path = path,
                        .target = "",
                        .mode = mode,
                        .uid = host ? on_id(p, st->st_uid, p->on.st_uid) : id_of(p, st->st_uid),
                        .gid = host ? on_id(p, st->st_gid, p->on.st_gid) : id_of(p, st->st_gid),
                        .mtime = st->st_mtim.tv_sec,
                        .nsec = (uint32_t)st->st_mtim.tv_nsec,
                        .size = (uint64_t)st->st_size,
                        .extra = "" };
}

/* What proto/item_sink.c made of a file's capabilities, back: nobody elsewhere has our root's id.
 */
static size_t plain_capability(uint32_t *v, size_t len)
{
    if (len != 24 || v[5] != TOOL_STORE)
        return len;
    v[0] = (v[0] & 0x00ffffff) | 0x02000000;
    return 20;
}

/* The tenant's own attributes, as items have them; in images also what makes programs privileged.
 */
static void take_attrs(pack *p, const xattrs *x, cay__item *it)
{
    size_t len = 0;
    CAY_EACH_OF(item, x->v, x->n) {
        uint16_t a = (uint16_t)(strlen(item->name) + 1);
        bool capability = p->w.ops->image && !strcmp(item->name, "security.capability");
        uint32_t b =
            (uint32_t)(capability ? plain_capability((uint32_t *)(void *)item->value, item->len)
                                  : item->len);
        bool ours = capability || (cay__str_starts(item->name, "user.") &&
                                   !cay__str_starts(item->name, "user.overlay."));
        if (!ours || strchr(item->name, '=') ||
            len + sizeof a + sizeof b + a + b >
                CAY__ITEM_EXTRA) /* a tar's record ends its name with "=" */
            continue;
        memcpy(p->extra + len, &a, sizeof a);
        memcpy(p->extra + len + sizeof a, &b, sizeof b);
        memcpy(p->extra + len + sizeof a + sizeof b, item->name, a);
        memcpy(p->extra + len + sizeof a + sizeof b + a, item->value, b);
        len += sizeof a + sizeof b + a + b;
    }
    it->extra = p->extra;
    it->extra_len = len;
}

static int read_attrs(pack *p, int dir, const char *name, cay__item *it, cay_err *err)
{
    xattrs x;
    CAY_TRY_SYS(xattrs_read(p->t, dir, name, &x), err, "attributes of %.150s", it->path);
    take_attrs(p, &x, it);
    xattrs_clear(&x);
    return 0;
}

static int write_item(pack *p, const cay__item *it, cay_err *err)
{
    p->items++;
    seal_item(&p->seal, it);
    return p->w.ops->item(&p->w, it, err);
}

static bool is_written_dir(const pack *p, const char *path, size_t n)
{
    const char *c = CAY_OR(p->chain.data, "");
    return !strncmp(c, path, n) && (!c[n] || c[n] == '/');
}

static void chain_to(pack *p, const char *path)
{
    p->chain.len = 0;
    cay__buf_str(&p->chain, path);
}

/* As the archive's reader sees it: from the layer that is being told, else from the whole. */
static int stat_visible(const compare *c, const char *path, int *dir, struct stat *st)
{
    int top = crawl_root(&c->b.top), base = crawl_root(&c->b.base);
    *dir = top;
    if (top >= 0 && fstatat(top, path, st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st->st_mode))
        return 0;
    *dir = base;
    if (base >= 0)
        return fstatat(base, path, st, AT_SYMLINK_NOFOLLOW);
    return -1;
}

/* The directory that the path's last name is in. */
static int open_around(int dir, char *path, const char **name)
{
    char *slash = strrchr(path, '/');
    *name = CAY_OR(CAY_IF(slash, slash + 1), path);
    if (slash)
        *slash = 0;
    return cay__fd_openat2(dir, slash ? path : ".", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                           0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

static int write_parents(pack *p, const compare *c, const char *path, cay_err *err)
{
    char up[CAY__ITEM_PATH];
    for (const char *s = path; (s = strchr(s, '/')); s++) {
        size_t n = (size_t)(s - path);
        struct stat st;
        int dir;
        if (is_written_dir(p, path, n))
            continue;
        memcpy(up, path, n);
        up[n] = 0;
        char under[CAY__ITEM_PATH + 64];
        const char *name;
        if (!CAY_JOIN(under, CAY_OR(p->q.under, ""), p->q.under ? "/" : "", up))
            return cay_fail_why(err, CAY_ETOOBIG, "archive_path",
                                "%.100s…: a path of more than 4,000 bytes fits no archive", up);
        CAY_TRY_SYS(stat_visible(c, under, &dir, &st), err, "look at %.150s", up);
        CAY_AUTOFD at = open_around(dir, under, &name);
        if (at < 0)
            return cay_fail_sys(err, "enter %.150s", up);
        cay__item it = item_of(p, CAY__ITEM_DIR, up, &st);
        CAY_TRY(read_attrs(p, at, name, &it, err));
        CAY_TRY(write_item(p, &it, err));
        chain_to(p, up);
    }
    return 0;
}

static int write_data(pack *p, const void *data, size_t n, cay_err *err)
{
    p->bytes += n;
    seal_data(&p->seal, data, n);
    CAY_TRY(p->w.ops->data(&p->w, data, n, err));
    CAY_TRY(tool_progress(p->t, &p->said, p->items, p->bytes, err));
    return tool_check(p->t, err);
}

static int write_hole(pack *p, uint64_t n, cay_err *err)
{
    static const char none[1 << 16];
    p->bytes += n;
    CAY_TRY(p->w.ops->hole(&p->w, n, err));
    for (; n; n -= CAY_MIN(n, sizeof none)) {
        seal_data(&p->seal, none, (size_t)CAY_MIN(n, sizeof none));
        CAY_TRY(tool_check(p->t, err));
    }
    return 0;
}

/* Exactly st_size bytes: a header told how many there are. */
static int write_contents(pack *p, int fd, const cay__item *it, bool sparse, cay_err *err)
{
    uint64_t at = 0;
    while (at < it->size) {
        off_t data;
        if (sparse)
            data = lseek(fd, (off_t)at, SEEK_DATA);
        else
            data = (off_t)at;
        uint64_t to;
        if (data < 0)
            to = it->size;
        else
            to = CAY_MIN((uint64_t)data, it->size);
        if (to > at)
            CAY_TRY(write_hole(p, to - at, err));
        at = to;
        if (at == it->size)
            break;
        ssize_t n = pread(fd, p->chunk, (size_t)CAY_MIN(it->size - at, (uint64_t)CHUNK), (off_t)at);
        if (n <= 0) {
            if (n < 0)
                return cay_fail_sys(err, "read %.150s", it->path);
            return cay_fail(err, CAY_EBUSY, "%.150s is shorter than it was", it->path);
        }
        CAY_TRY(write_data(p, p->chunk, (size_t)n, err));
        at += (uint64_t)n;
    }
    return p->w.ops->done(&p->w, err);
}

static int write_file(pack *p, const change *ch, cay_err *err)
{
    struct stat st;
    CAY_AUTOFD fd = tool_file(ch->b.dir, ch->name);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || meta_foreign(&st))
        return cay_fail_sys(err, "open %.150s", ch->path);
    const tool_link *other = NULL;
    if (st.st_nlink > 1 && p->w.ops->hard_links)
        CAY_TRY(tool_links_first(&p->links, &st, 1, ch->path, &other, err));
    cay__item it = item_of(p, other ? CAY__ITEM_HARD : CAY__ITEM_FILE, ch->path, &st);
    if (other) {
        it.target = other->path;
        return write_item(p, &it, err);
    }
    if (p->w.ops->wants_gone)
        CAY_TRY(read_attrs(p, ch->b.dir, ch->name, &it, err));
    CAY_TRY(write_item(p, &it, err));
    return write_contents(p, fd, &it, (uint64_t)st.st_blocks * 512 + CHUNK < (uint64_t)st.st_size,
                          err);
}

static int link_to(pack *p, const change *ch, cay_err *err)
{
    char target[CAY__ITEM_PATH];
    ssize_t n = readlinkat(ch->b.dir, ch->name, target, sizeof target - 1);
    if (n < 0)
        return cay_fail_sys(err, "read %.150s", ch->path);
    target[n] = 0;
    cay__item it = item_of(p, CAY__ITEM_LINK, ch->path, &ch->b.st);
    it.target = target;
    return write_item(p, &it, err);
}

static int on_change(compare *c, const change *ch, cay_err *err)
{
    pack *p = c->arg;
    mode_t mode = ch->b.st.st_mode;
    if (is_skipped(p, ch->path))
        return 0;
    if (strlen(ch->path) + 8 >= CAY__ITEM_PATH)
        return cay_fail_why(err, CAY_ETOOBIG, "archive_path",
                            "%.100s…: a path of more than 4,000 bytes fits no archive", ch->path);
    if (ch->kind == 'D' && !p->w.ops->wants_gone)
        return 0;
    if (ch->kind != 'D' && !S_ISREG(mode) && !S_ISDIR(mode) && !S_ISLNK(mode))
        return 0; /* FIFOs and sockets are nothing without who made them */
    CAY_TRY(write_parents(p, c, ch->path, err));
    CAY_TRY(tool_progress(p->t, &p->said, p->items, p->bytes, err));
    if (ch->kind == 'D')
        return write_item(
            p, &(cay__item){ .type = CAY__ITEM_GONE, .path = ch->path, .target = "", .extra = "" },
            err);
    if (S_ISREG(mode))
        return write_file(p, ch, err);
    if (S_ISLNK(mode))
        return link_to(p, ch, err);
    cay__item it = item_of(p, CAY__ITEM_DIR, ch->path, &ch->b.st);
    CAY_TRY(read_attrs(p, ch->b.dir, ch->name, &it, err));
    CAY_TRY(write_item(p, &it, err));
    chain_to(p, ch->path);
    return 0;
}

static int raw_kind(pack *p, const char *path, const struct stat *st, const xattrs *x, char *type,
                    unsigned *flags, cay_err *err)
{
    const xattr *hidden = xattrs_find(x, "overlay.opaque");
    if (S_ISREG(st->st_mode))
        *type = CAY__ITEM_FILE;
    else if (S_ISDIR(st->st_mode))
        *type = CAY__ITEM_DIR;
    else if (S_ISLNK(st->st_mode))
        *type = CAY__ITEM_LINK;
    else if (meta_whiteout(st))
        *type = CAY__ITEM_GONE;
    else
        *type = 0;
    if (xattrs_find(x, "overlay.redirect") || (hidden && hidden->len && hidden->value[0] != 'y'))
        return cay_fail_why(err, CAY_ENOTSUP, "pack_redirect",
                            "%.100s was renamed from below the layer", path);
    if (hidden && hidden->len && *type == CAY__ITEM_DIR)
        *flags = CAY__ITEM_OPAQUE;
    else
        *flags = 0;
    if (strlen(path) + 8 >= CAY__ITEM_PATH)
        return cay_fail_why(err, CAY_ETOOBIG, "archive_path",
                            "%.100s…: a path of more than 4,000 bytes fits no archive", path);
    p->over =
        !*type || is_skipped(p, path); /* FIFOs and sockets are nothing without who made them */
    return 0;
}

static int raw_node(void *arg, int dir, const char *name, const char *path, const struct stat *st,
                    const char *other, const xattrs *x, cay_err *err)
{
    pack *p = arg;
    char type = 0, target[CAY__ITEM_PATH];
    unsigned flags = 0;
    p->at = 0;
    CAY_TRY(raw_kind(p, path, st, x, &type, &flags, err));
    CAY_TRY(tool_progress(p->t, &p->said, p->items, p->bytes, err));
    if (p->over)
        return 0;
    if (other && is_skipped(p, other))
        return cay_fail_why(err, CAY_ENOTSUP, "pack_redirect",
                            "%.100s has its bytes under a name that is left out", path);
    cay__item it;
    if (type == CAY__ITEM_GONE)
        it = (cay__item){ .type = type, .path = path, .target = "", .extra = "" };
    else
        it = item_of(p, other ? CAY__ITEM_HARD : type, cay__text_or(path, "."), st);
    it.flags = flags;
    if (other)
        it.target = other;
    else if (type == CAY__ITEM_LINK) {
        ssize_t n = readlinkat(dir, name, target, sizeof target - 1);
        if (n < 0)
            return cay_fail_sys(err, "read %.150s", path);
        target[n] = 0;
        it.target = target;
    } else if (type != CAY__ITEM_GONE && *path) {
        take_attrs(p, x, &it);
    }
    return write_item(p, &it, err);
}

static int raw_data(void *arg, const void *data, size_t n, uint64_t at, cay_err *err)
{
    pack *p = arg;
    if (p->over)
        return 0;
    if (at > p->at)
        CAY_TRY(write_hole(p, at - p->at, err));
    p->at = at + n;
    return write_data(p, data, n, err);
}

static int raw_end(void *arg, uint64_t size, cay_err *err)
{
    pack *p = arg;
    if (p->over)
        return 0;
    if (size > p->at)
        CAY_TRY(write_hole(p, size - p->at, err));
    return p->w.ops->done(&p->w, err);
}

static int pack_raw(pack *p, digested *as_layer, cay_err *err)
{
    static const digest_hooks hooks = { raw_node, raw_data, raw_end };
    if (!p->q.top)
        return cay_fail(err, CAY_EINVAL, "pack: raw without a layer");
    CAY_TRY(p->w.ops->open(&p->w, CAY_OR(p->q.meta, "{}"), err));
    return digest_layer(p->t, p->q.top, &hooks, p, as_layer, err);
}

static int open_views(pack *p, compare *c, cay_err *err)
{
    CAY_AUTOFD a = -1, b = -1, top = -1, on = -1;
    if (p->q.top && p->q.b_on)
        return cay_fail(err, CAY_EINVAL, "pack: top excludes b-on");
    if (p->q.b_on)
        CAY_TRY(stack_host_dir(TOOL_FD + 1, &on, err));
    if (on >= 0 && fstat(on, &p->on) < 0)
        return cay_fail_sys(err, "look at the directory underneath");
    if (p->q.top)
        CAY_TRY(tool_layer_open(p->t, p->q.top, &top, err));
    CAY_TRY(stack_open(p->t, p->q.a, p->q.na, &a, err));
    c->same_base = p->q.top != NULL;
    if (!c->same_base)
        CAY_TRY(stack_open(p->t, p->q.b, p->q.nb, &b, err));
    else if ((b = openat(a, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
        return cay_fail_sys(err, "open a stack");
    if (p->q.a_on)
        CAY_TRY(stack_cover(p->t, a, "workspace", p->q.a_on, on, err));
    if (p->q.b_on)
        CAY_TRY(stack_cover(p->t, b, "workspace", p->q.b_on, on, err));
    view_open(&c->a, CAY_STEAL_FD(a), -1);
    view_open(&c->b, CAY_STEAL_FD(b), CAY_STEAL_FD(top));
    return 0;
}

/* Down to `under` on both sides; the archive's root is what b has there. */
static int begin_archive(pack *p, compare *c, cay_err *err)
{
    struct stat st;
    int dir;
    if (stat_visible(c, CAY_OR(p->q.under, "."), &dir, &st) < 0)
        return cay_fail_why(err, CAY_ENOENT, "archive_path", "it has no directory /%.100s",
                            CAY_OR(p->q.under, ""));
    cay__item root = item_of(p, CAY__ITEM_DIR, ".", &st);
    CAY_TRY(write_item(p, &root, err));
    if (p->q.under)
        return compare_under(c, p->q.under, err);
    return 0;
}

static int pack_differences(pack *p, cay_err *err)
{
    compare c = { .t = p->t, .owners = true, .under = p->q.under, .fn = on_change, .arg = p };
    CAY_TRY(open_views(p, &c, err));
    int rc = p->w.ops->open(&p->w, CAY_OR(p->q.meta, "{}"), err);
    if (rc == 0)
        rc = begin_archive(p, &c, err);
    if (rc == 0)
        rc = compare_run(&c, err);
    view_close(&c.a);
    view_close(&c.b);
    return rc;
}

static int pack_archive(pack *p, cay_err *err)
{
    char hex[65];
    digested as_layer = { .hex = "" };
    if (p->q.raw)
        CAY_TRY(pack_raw(p, &as_layer, err));
    else
        CAY_TRY(pack_differences(p, err));
    CAY_FAULT("pack.told");
    seal_hex(&p->seal, hex);
    CAY_TRY(p->w.ops->close(&p->w, hex, err));
    cay__rec_str(&p->t->out, hex);
    cay__rec_num(&p->t->out, p->items);
    cay__rec_num(&p->t->out, p->bytes);
    cay__rec_str(&p->t->out, as_layer.hex);
    return 0;
}

int pack_run(tool *t, cay_err *err)
{
    static const writer_ops *const kinds[] = { &write_snapshot, &write_tar, &write_oci, &write_js };
    pack *p = cay__alloc(sizeof *p);
    *p = (pack){ .t = t,
                 .chunk = cay__alloc(CHUNK),
                 .extra = cay__alloc(CAY__ITEM_EXTRA),
                 .chain = CAY__BUF(CAY__ITEM_PATH),
                 .single = !t->root && tool_one_id() };
    int rc = parse_args(t, &p->q, err);
    for (size_t i = 0; rc == 0 && i < CAY_LEN(kinds); i++)
        if (p->q.format && !strcmp(p->q.format, kinds[i]->name))
            p->w = (writer){ .ops = kinds[i],
                             .fd = TOOL_FD,
                             .threads = (unsigned)p->q.threads,
                             .out = CAY__BUF(2u << 20),
                             .dirs = CAY__BUF(64u << 20) };
    if (rc == 0 && !p->w.ops)
        rc = cay_fail(err, CAY_EINVAL, "pack: format %.40s", CAY_OR(p->q.format, ""));
    seal_open(&p->seal);
    if (rc == 0)
        rc = pack_archive(p, err);
    seal_close(&p->seal);
    if (p->w.ops && p->w.ops->drop)
        p->w.ops->drop(&p->w);
    tool_links_clear(&p->links);
    free(p->chunk);
    free(p->extra);
    cay__buf_clear(&p->chain);
    cay__buf_clear(&p->w.out);
    cay__buf_clear(&p->w.dirs);
    free(p);
    return rc;
}
