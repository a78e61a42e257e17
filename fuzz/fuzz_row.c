/* SPDX-License-Identifier: Apache-2.0 */
/* A record as it comes from disk: ten columns, one a line. What is believed can be used. */
#include <base/base.h>
#include <lib/store/row.h>
#include <lib/client/spec.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    cay__cols c = { .created_ms = 1, .changed_ms = 2, .version = 3 };
    const char *at = (const char *)data, *end = at + len;
    cay_pair want[] = { { "team", "red" }, { NULL, NULL } };
    cay_filter f = { .size = sizeof f, .labels = want };
    cay__spec *spec = NULL;
    CAY_AUTOFREE char *copy =
        cay__alloc(len + CAY_LEN(c.text) + 1); /* SQLite ends every text with NUL */
    char *to = copy;
    for (size_t i = 0; i < CAY_LEN(c.text); i++) {
        const char *nl = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        c.len[i] = (size_t)((nl ? nl : end) - at);
        if (c.len[i])
            memcpy(to, at, c.len[i]);
        c.text[i] = to;
        to += c.len[i] + 1;
        at = nl ? nl + 1 : end;
    }
    CAY_AUTOFREE cay__row *row = cay__row_new(&c);
    CAY_AUTOFREE cay__row *again = cay__row_copy(&row->row);
    cay__row_matches(&row->row, &f);
    f.states = 1u << CAY_DAMAGED;
    if (cay__row_matches(&again->row, &f) && row->row.state != CAY_DAMAGED)
        abort();
    if (row->row.state != CAY_DAMAGED && cay__spec_read(&row->row, &spec, NULL) == 0)
        cay__spec_free(spec);
    return 0;
}
