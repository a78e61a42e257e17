/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of a create request as it is kept in a record: what is read, written and read again is
 * the same. */
#include <base/base.h>
#include <lib/sandbox/limits.h>
#include <lib/client/spec.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    CAY_AUTOFREE char *text = cay__alloc(len + 1), *once = NULL, *twice = NULL;
    cay__spec *a = NULL, *b = NULL;
    cay_err err = CAY_ERR_INIT;
    if (len)
        memcpy(text, data, len);
    cay_row row = { .size = sizeof row,
                    .provider = "native",
                    .name = "n",
                    .spec = text,
                    .labels = "{\"k\":\"v\"}" };
    if (cay__spec_read(&row, &a, &err) < 0)
        return 0;
    if (cay__spec_text(a, &once, &err) == 0) {
        row.spec = once;
        if (cay__spec_read(&row, &b, &err) < 0 || cay__spec_text(b, &twice, &err) < 0 ||
            strcmp(once, twice) != 0)
            abort();
    }
    a->create.from.root = NULL; /* the host's own files are no part of this */
    a->create.files.ngrants = 0;
    cay__create_check(cay__spec_box(a), -1, "", &err);
    cay__limits_fill(&a->create.limits);
    cay__spec_free(a);
    cay__spec_free(b);
    return 0;
}
