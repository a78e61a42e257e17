/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot's record as it comes from disk: fifteen columns, one a line. What is believed has a
 * stack that can be used. */
#include <base/base.h>
#include <base/str.h>
#include <lib/snapshot/snapshot_row.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    cay__snap_cols c = { .created_ms = 1 };
    const char *at = (const char *)data, *end = at + len;
    cay__stack stack, again;
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
    CAY_AUTOFREE cay__snaprow *row = cay__snaprow_new(&c);
    CAY_AUTOFREE cay__snaprow *twin = cay__snaprow_copy(&row->row);
    bool damaged = !strcmp(row->row.state, "damaged");
    if (cay__stack_read(twin->row.layers, &stack, NULL) < 0 || stack.n != twin->row.depth ||
        stack.n > CAY__STACK_MAX)
        abort();
    if (!damaged && (!cay__id_valid(row->row.id, 's') || strcmp(row->row.id, twin->row.id) != 0))
        abort();
    CAY_AUTOFREE char *text = cay__stack_text(&stack);
    if (cay__stack_read(text, &again, NULL) < 0 || again.n != stack.n)
        abort();
    for (size_t i = 0; i < stack.n; i++)
        if (!cay__layer_name_ok(stack.name[i]) || strchr(stack.name[i], '/'))
            abort();
    return 0;
}
