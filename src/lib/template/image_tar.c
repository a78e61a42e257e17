/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the files of a plain tar are: what `docker save`, skopeo and others make, a tar of
 * documents and layers. Nothing is unpacked here; names, places and sizes are all that is read, and
 * every one of them is judged. POSIX.1-2017 pax, "ustar Interchange Format".
 */
#include "image.h"
#include <base/base.h>
#include <base/tar.h>

#define MEMBERS_MOST 10000

/* "./a" is "a"; prefix and name together. False: longer than we keep. */
static bool member_name(const cay__tar_block *b, char out[256])
{
    char name[257], *n = name;
    cay__tar_block_name(b, name);
    if (!strncmp(name, "./", 2))
        n += 2;
    return cay__str_copy(out, 256, n);
}

int cay__members_read(int fd, cay__members *out, cay_err *err)
{
    struct stat st;
    cay__tar_block b;
    *out = (cay__members){ 0 };
    CAY_TRY_SYS(fstat(fd, &st), err, "look at the archive");
    if (!S_ISREG(st.st_mode))
        return 0;
    uint64_t end = (uint64_t)st.st_size, at = 0;
    while (at + sizeof b <= end && pread(fd, &b, sizeof b, (off_t)at) == sizeof b &&
           !memcmp(b.magic, "ustar", 5) && cay__tar_sum_agrees(&b)) {
        cay__image_member m = { .at = at + sizeof b };
        if (!cay__tar_number(b.size, sizeof b.size, &m.size) || m.size > end - m.at) {
            cay__members_clear(out);
            return cay_fail_why(err, CAY_EINVAL, "archive_corrupt",
                                "the archive is cut: a member is longer than what is left");
        }
        bool file = b.type == '0' || b.type == 0;
        if (file && member_name(&b, m.name)) {
            if (out->n == MEMBERS_MOST)
                break;
            if (out->n % 64 == 0 && !(out->v = realloc(out->v, (out->n + 64) * sizeof *out->v)))
                abort();
            out->v[out->n++] = m;
        }
        at = m.at + cay__tar_padded(m.size);
    }
    return 0;
}

const cay__image_member *cay__members_find(const cay__members *m, const char *name)
{
    CAY_EACH_OF(it, m->v, m->n)
        if (!strcmp(it->name, name))
            return it;
    return NULL;
}

void cay__members_clear(cay__members *m)
{
    free(m->v);
    *m = (cay__members){ 0 };
}
