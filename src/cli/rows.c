/* SPDX-License-Identifier: Apache-2.0 */
#include "rows.h"
#include "cli.h"
#include <base/base.h>
#include <base/fd.h>

void rows_open(rows *r, const char *const *titles)
{
    *r = (rows){ .json = OUT_JSON(true), .now = cay__clock_ms() };
    out_table_open(&r->table, titles);
    js_open(&r->json, '[');
}

int rows_done(rows *r, int rc, cay_err *err)
{
    js_close(&r->json, ']');
    if (rc >= 0 && cli.json)
        js_flush(&r->json);
    else if (rc >= 0 && !cli.quiet)
        out_table_print(&r->table);
    out_table_close(&r->table);
    cay__buf_clear(&r->json.b);
    if (rc < 0)
        return cli_fail(err, CLI_FAIL);
    return CLI_OK;
}

void rows_labels(rows *r, const cay_pair *labels)
{
    CAY_AUTOBUF text = CAY__BUF(400);
    for (; labels && labels->key; labels++)
        cay__buf_fmt(&text, "%s%s=%s", text.len ? " " : "", labels->key, labels->value);
    out_cell(&r->table, OUT_DIM, text.len ? text.data : "-");
}
