/* SPDX-License-Identifier: Apache-2.0 */
/* Which names an archive may have. Every member's final name passes here, whatever format it came
 * in. */
#include "unpack.h"
#include <base/mutant.h>

/* SipHash-2-4: whoever makes the archive does not know the key, so no two names can be made to look
 * like one. */
static uint64_t compute_siphash(const uint64_t key[2], const char *p, size_t n)
{
    uint64_t v0 = key[0] ^ 0x736f6d6570736575u, v1 = key[1] ^ 0x646f72616e646f6du,
             v2 = key[0] ^ 0x6c7967656e657261u, v3 = key[1] ^ 0x7465646279746573u;
#define ROTL(x, b) (((x) << (b)) | ((x) >> (64 - (b))))
#define ROUND()                                                                                    \
    do {                                                                                           \
        v0 += v1;                                                                                  \
        v1 = ROTL(v1, 13);                                                                         \
        v1 ^= v0;                                                                                  \
        v0 = ROTL(v0, 32);                                                                         \
        v2 += v3;                                                                                  \
        v3 = ROTL(v3, 16);                                                                         \
        v3 ^= v2;                                                                                  \
        v0 += v3;                                                                                  \
        v3 = ROTL(v3, 21);                                                                         \
        v3 ^= v0;                                                                                  \
        v2 += v1;                                                                                  \
        v1 = ROTL(v1, 17);                                                                         \
        v1 ^= v2;                                                                                  \
        v2 = ROTL(v2, 32);                                                                         \
    } while (0)
    uint64_t last = (uint64_t)n << 56;
    for (size_t i = 0; i + 8 <= n; i += 8) {
        uint64_t m;
        memcpy(&m, p + i, 8);
        v3 ^= m;
        ROUND();
        ROUND();
        v0 ^= m;
    }
    for (size_t i = n & ~(size_t)7; i < n; i++)
        last |= (uint64_t)(uint8_t)p[i] << 8 * (i & 7);
    v3 ^= last;
    ROUND();
    ROUND();
    v0 ^= last;
    v2 ^= 0xff;
    for (int i = 0; i < 4; i++)
        ROUND();
    return v0 ^ v1 ^ v2 ^ v3;
#undef ROUND
#undef ROTL
}

void names_start(unpack *u)
{
    cay__random(u->key, sizeof u->key);
    u->cap = 1024;
    u->names = cay__alloc(u->cap * sizeof *u->names);
}

void names_stop(unpack *u)
{
    free(u->names);
    free(u->gone);
    u->names = NULL;
    u->gone = NULL;
}

static seen *find_slot(seen *v, size_t cap, uint64_t a, uint64_t b)
{
    size_t i = (size_t)a & (cap - 1);
    while (v[i].kind && (v[i].a != a || v[i].b != b))
        i = (i + 1) & (cap - 1);
    return &v[i];
}

static seen *lookup_name(const unpack *u, const char *path, size_t n, uint64_t *a, uint64_t *b)
{
    *a = compute_siphash(u->key, path, n);
    *b = compute_siphash(u->key + 2, path, n);
    return find_slot(u->names, u->cap, *a, *b);
}

static void insert_name(unpack *u, const char *path, size_t n, char kind)
{
    uint64_t a, b;
    if (4 * (u->nnames + 1) > 3 * u->cap) {
        size_t cap = 2 * u->cap;
        seen *v = cay__alloc(cap * sizeof *v);
        CAY_EACH_OF(name, u->names, u->cap)
            if (name->kind)
                *find_slot(v, cap, name->a, name->b) = *name;
        free(u->names);
        u->names = v;
        u->cap = cap;
    }
    seen *s = lookup_name(u, path, n, &a, &b);
    u->nnames += s->kind == 0;
    *s = (seen){ a, b, (uint8_t)kind };
}

char name_kind(const unpack *u, const char *path)
{
    uint64_t a, b;
    char k = (char)lookup_name(u, path, strlen(path), &a, &b)->kind;
    if (k == 'i')
        return 'd';
    return k;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

int name_clean(unpack *u, const char *raw, char out[CAY__ITEM_PATH])
{
    size_t len = 0;
    if (raw[0] == '/' && !u->as->oci) /* in an image every name begins at its root */
        return fail(u, raw, "archive_path", "an absolute name");
    if (is_letter(raw[0]) && raw[1] == ':' && !u->as->oci)
        return fail(u, raw, "archive_path", "a name with a drive letter");
    if (strchr(raw, '\\') && !u->as->oci) /* units of systemd have them */
        return fail(u, raw, "archive_path", "a name with a backslash");
    for (const char *p = raw + strspn(raw, "/"); *p;) {
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.' && !CAY__MUTANT("archive-dotdot"))
            return fail(u, raw, "archive_path", "a name with \"..\" in it");
        if (n > 255 || len + n + 2 > CAY__ITEM_PATH)
            return fail(u, raw, "archive_path", "a name too long");
        if (n && !(n == 1 && p[0] == '.' && !CAY__MUTANT("fuzz-tar"))) {
            if (len)
                out[len++] = '/';
            memcpy(out + len, p, n);
            len += n;
        }
        p += n;
        p += strspn(p, "/");
    }
    if (!len)
        out[len++] = '.';
    out[len] = 0;
    return 0;
}

/* A directory that only its contents tell of. */
static void add_implied_dir(unpack *u, const char *path, size_t n)
{
    char dir[CAY__ITEM_PATH];
    memcpy(dir, path, n);
    dir[n] = 0;
    insert_name(u, dir, n, 'i');
    u->items++;
    cay__item_put(&u->out, &(cay__item){ .type = CAY__ITEM_DIR,
                                         .flags = CAY__ITEM_IMPLIED,
                                         .mode = 0755,
                                         .path = dir,
                                         .uid = u->as->owners ? 0 : 1000,
                                         .gid = u->as->owners ? 0 : 1000 });
}

static int check_parents(unpack *u, const char *path)
{
    const char *end = strrchr(path, '/');
    uint64_t a, b;
    if (!end)
        return 0;
    size_t whole = (size_t)(end - path);
    if (!strncmp(u->parent, path, whole) && !u->parent[whole])
        return 0;
    for (size_t n = strcspn(path, "/"); n <= whole; n += 1 + strcspn(path + n + 1, "/")) {
        char kind = (char)lookup_name(u, path, n, &a, &b)->kind;
        if (kind == 0) {
            CAY_TRY(count_member(u, path));
            add_implied_dir(u, path, n);
        } else if (kind != 'd' && kind != 'i' && !CAY__MUTANT("archive-below-link")) {
            return fail(u, path, "archive_link", "below \"%.*s\", which is %s",
                        (int)CAY_MIN(n, 100u), path, kind == 'l' ? "a link" : "no directory");
        }
    }
    memcpy(u->parent, path, whole);
    u->parent[whole] = 0;
    return 0;
}

int name_add(unpack *u, const char *path, char kind)
{
    CAY_TRY(count_member(u, path));
    CAY_TRY(check_parents(u, path));
    char was = 0;
    uint64_t a, b;
    was = (char)lookup_name(u, path, strlen(path), &a, &b)->kind;
    if (was && !(was == 'i' && kind == 'd') && !(u->as->oci && was == 'd' && kind == 'd'))
        return fail(u, path, "archive_duplicate", "comes twice");
    insert_name(u, path, strlen(path), kind);
    u->items++;
    return 0;
}

/* ".." counts only in front: after a name it would depend on where that name's own link leads. */
static bool is_inside_root(const char *path, const char *target)
{
    size_t depth = 0, up = 0;
    bool down = false;
    for (const char *p = path; (p = strchr(p, '/')); p++)
        depth++;
    for (const char *p = target; *p; p += strspn(p, "/")) {
        size_t n = strcspn(p, "/");
        bool dots = n == 2 && p[0] == '.' && p[1] == '.';
        if (dots && (down || ++up > depth))
            return false;
        down |= !dots && !(n == 1 && p[0] == '.');
        p += n;
    }
    return target[0] && target[0] != '/';
}

int link_check(unpack *u, const char *path, const char *target)
{
    if (u->as->symlinks == LINKS_NONE)
        return fail(u, path, "archive_link", "a symbolic link; this kind of archive may have none");
    if (!target[0] || strlen(target) >= CAY__ITEM_PATH)
        return fail(u, path, "archive_link", "a link whose target is empty or too long");
    if (u->as->symlinks == LINKS_INSIDE && !CAY__MUTANT("archive-link-out") &&
        (!is_inside_root(path, target) || strchr(target, '\\') ||
         (is_letter(target[0]) && target[1] == ':')))
        return fail(u, path, "archive_link", "a link to \"%.100s\", which leaves the tree", target);
    return 0;
}
