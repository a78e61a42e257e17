/* SPDX-License-Identifier: Apache-2.0 */
/* An image's documents, one after the other with a NUL between: an index or manifest, then the
 * config of it. What is believed has parts that can be asked for. */
#include <base/base.h>
#include <lib/template/image.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_blob(const cay__blob *b)
{
    if (!cay__digest_ok(b->digest) || b->size > 16ull << 30)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const char *text = (const char *)data, *nul = len ? memchr(text, 0, len) : NULL;
    size_t first = nul ? (size_t)(nul - text) : len;
    cay__image *im = cay__alloc(sizeof *im);
    if (cay__image_read(text, first, "linux/amd64", im, NULL) == 0) {
        check_blob(im->index ? &im->next : &im->config);
        for (size_t i = 0; i < im->n; i++)
            check_blob(&im->layers[i]);
        if (nul && cay__image_config(nul + 1, len - first - 1, im, NULL) == 0 &&
            (!im->text || cay_template_config_check(im->text, NULL) < 0))
            abort();
    }
    free(im->text);
    free(im);
    /* the same bytes as an archive of images */
    cay__members m;
    CAY_AUTOFD fd = memfd_create("tar", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, len) != (ssize_t)len)
        abort();
    if (cay__members_read(fd, &m, NULL) == 0)
        for (size_t i = 0; i < m.n; i++)
            if (m.v[i].at + m.v[i].size > len)
                abort();
    cay__members_clear(&m);
    return 0;
}
