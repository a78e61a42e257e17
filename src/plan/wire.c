/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes as bytes: for cay-layer, and for the hash that is the layer's name. */
#include "plan.h"
#include <base/fd.h>
#include <fcntl.h>
#include <layer/record.h>
#include <service/sha256.h>
#include <stdio.h>
#include <sys/mman.h>

#define WIRE_MAX ((size_t)1 << 30)

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
    for (size_t i = 0; i < m->ngroups; i++) {
        cay__rec_str(b, m->groups[i].name);
        cay__rec_num(b, m->groups[i].n);
        for (size_t k = 0; k < m->groups[i].n; k++)
            cay__rec_str(b, m->groups[i].users[k]);
    }
    cay__rec_num(b, m->nusers);
    for (size_t i = 0; i < m->nusers; i++)
        cay__rec_str(b, m->users[i]);
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
    for (size_t i = 0; i < p->n; i++)
        n += !p->nodes[i].ephemeral;
    write_heads(p, b, places);
    cay__rec_num(b, n);
    for (size_t i = 0; i < p->n; i++)
        if (!p->nodes[i].ephemeral)
            write_node(&p->nodes[i], b, places);
}

/* 95 bits: nobody finds two plans that share a name. */
void cay__plan_name(const cay__plan *p, const char *more, char name[CAY_ID_LEN + 1])
{
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    CAY_AUTOBUF b = CAY__BUF(WIRE_MAX);
    char hex[CAY__SHA256_HEX];
    unsigned bits = 0, have = 0, at = 0;
    cay__rec_str(&b, "cay manifest layer 1");
    cay__rec_str(&b, more);
    write_all(p, &b, false);
    cay__sha256_hex(b.data, b.len, hex);
    name[0] = 'm';
    for (int i = 1; i < CAY_ID_LEN; i++) {
        for (; have < 5; have += 4) {
            char c = hex[at++];
            bits = bits << 4 | (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
        }
        have -= 5;
        name[i] = digits[bits >> have & 31];
    }
    name[CAY_ID_LEN] = 0;
}

int cay__plan_wire(const cay__plan *p, int *fd, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(WIRE_MAX);
    write_all(p, &b, true);
    if (b.full)
        return cay_fail_why(err, CAY_ETOOBIG, "manifest_too_big", "manifest: what it holds is too much for one layer");
    CAY_AUTOFD to = memfd_create("cay-plan", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (to < 0 || !cay__fd_write_all(to, b.data, b.len) || fcntl(to, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0)
        return cay_fail_sys(err, CAY_ESYS, "manifest: write the plan");
    *fd = CAY_STEAL_FD(to);
    return 0;
}
