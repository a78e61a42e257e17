/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes as bytes: for cay-layer, and for the hash that is the layer's name. */
#include "plan.h"
#include <proto/record.h>
#include <base/sha256.h>
#include <sys/mman.h>

#define WIRE_MAX ((size_t)1 << 30)

typedef struct wire {
    int fd;
    char hex[CAY__SHA256_HEX];
} wire;

static void write_heads(const cay__plan *p, cay__buf *b, bool places)
{
    const cay_manifest *m = p->m;
    cay__rec_num(b, places ? p->nsources : 0);
    for (size_t i = 0; places && i < p->nsources; i++) {
        cay__rec_str(b, p->sources[i].path);
        cay__rec_num(b, p->sources[i].dev);
        cay__rec_num(b, p->sources[i].ino);
    }
    cay__rec_num(b, m->ngroups);
    CAY_EACH_OF(group, m->groups, m->ngroups) {
        cay__rec_str(b, group->name);
        cay__rec_num(b, group->n);
        CAY_EACH_OF(it, group->users, group->n)
            cay__rec_str(b, *it);
    }
    cay__rec_num(b, m->nusers);
    CAY_EACH_OF(user, m->users, m->nusers)
        cay__rec_str(b, *user);
    cay__rec_str(b, m->run_as);
}

static void write_node(const cay__node *n, cay__buf *b, bool places)
{
    cay__rec_num(b, (unsigned char)n->type);
    cay__rec_num(b, n->mode);
    cay__rec_num(b, n->entry);
    cay__rec_str(b, n->group);
    cay__rec_str(b, n->path);
    cay__rec_num(b, places ? n->root : n->root != 0);
    if (n->root && !places)
        cay__rec_str(b, ""); /* which file it is, not how it is reached */
    else
        cay__rec_bytes(b, n->text, n->len);
    if (n->type == 'f' && n->root) {
        cay__rec_num(b, n->id.size);
        cay__rec_num(b, n->id.dev);
        cay__rec_num(b, n->id.ino);
        cay__rec_num(b, (uint64_t)n->id.mtime);
        cay__rec_num(b, (uint64_t)n->id.ctime);
    }
}

static void write_all(const cay__plan *p, cay__buf *b, bool places)
{
    size_t n = 0;
    CAY_EACH_OF(it, p->nodes, p->n)
        n += !it->ephemeral;
    write_heads(p, b, places);
    cay__rec_num(b, n);
    CAY_EACH_OF(node, p->nodes, p->n)
        if (!node->ephemeral)
            write_node(node, b, places);
}

/* Room for all of it, and more. */
static size_t estimate_size(const cay__plan *p)
{
    size_t n = 4096;
    CAY_EACH_OF(source, p->sources, p->nsources)
        n += strlen(source->path) + 64;
    CAY_EACH_OF(item, p->m->users, p->m->nusers)
        n += strlen(*item) + 64;
    CAY_EACH_OF(it, p->m->groups, p->m->ngroups) {
        n += strlen(it->name) + 64;
        CAY_EACH_OF(user, it->users, it->n)
            n += strlen(*user) + 64;
    }
    CAY_EACH_OF(node, p->nodes, p->n)
        n += node->len + strlen(node->path) + strlen(node->group) + 128;
    return n + strlen(CAY_OR(p->m->run_as, ""));
}

static int too_much(cay_err *err)
{
    return cay_fail_why(err, CAY_ETOOBIG, "manifest_too_big",
                        "manifest: what it holds is too much for one layer");
}

/* Into a memfd, without a copy in between: ten thousand files are ten megabytes. */
static int write_memfd(const cay__plan *p, const cay__sha256 *begun, wire *w, cay_err *err)
{
    size_t cap = estimate_size(p);
    if (cap > WIRE_MAX)
        return too_much(err);
    CAY_AUTOFD to = memfd_create("cay-plan", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    char *map;
    if (to < 0 || ftruncate(to, (off_t)cap + 2) < 0)
        map = MAP_FAILED;
    else
        map = mmap(NULL, cap + 2, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, to, 0);
    if (map == MAP_FAILED)
        return cay_fail_sys(err, "manifest: write the plan");
    cay__buf b = { .data = map, .cap = cap + 2, .max = cap }; /* it never has to grow */
    write_all(p, &b, !begun);
    size_t len = b.len;
    bool full = b.full;
    if (begun && !full) {
        cay__sha256 s = *begun;
        cay__sha256_add(&s, map, len);
        cay__sha256_end(&s, w->hex);
    }
    munmap(map, cap + 2);
    if (full)
        return too_much(err);
    if (ftruncate(to, (off_t)len) < 0 ||
        fcntl(to, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return cay_fail_sys(err, "manifest: write the plan");
    w->fd = CAY_STEAL_FD(to);
    return 0;
}

/* 95 bits: nobody finds two plans that share a name. */
static void name_of(const char *hex, char name[CAY_ID_LEN + 1])
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    unsigned bits = 0, have = 0, at = 0;
    name[0] = 'm';
    for (int i = 1; i < CAY_ID_LEN; i++) {
        for (; have < 5; have += 4)
            bits = bits << 4 | (unsigned)cay__hex_digit(hex[at++]);
        have -= 5;
        name[i] = digits[bits >> have & 31];
    }
    name[CAY_ID_LEN] = 0;
}

int cay__plan_name(cay__plan *p, const char *more, char name[CAY_ID_LEN + 1], cay_err *err)
{
    CAY_AUTOBUF head = CAY__BUF(WIRE_MAX);
    wire w = { .fd = -1 };
    cay__sha256 s;
    cay__rec_str(&head, "cay manifest layer 1");
    cay__rec_str(&head, more);
    cay__sha256_begin(&s);
    cay__sha256_add(&s, head.data, head.len);
    CAY_TRY(write_memfd(p, &s, &w, err));
    name_of(w.hex, name);
    cay__close_fd(&p->wire);
    if (p->nsources || p->nfetched)
        cay__close_fd(&w.fd);
    p->wire = w.fd; /* without sources what names it is all there is to send */
    return 0;
}

int cay__plan_wire(cay__plan *p, int *fd, cay_err *err)
{
    wire w = { .fd = CAY_STEAL_FD(p->wire) };
    if (w.fd < 0)
        CAY_TRY(write_memfd(p, NULL, &w, err));
    *fd = w.fd;
    return 0;
}
