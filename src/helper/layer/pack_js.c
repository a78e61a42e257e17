/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON that the Agents SDK for JavaScript keeps a workspace in: files with their bytes,
 * directories; nothing else. */
#include "pack.h"
#include <base/base64.h>

enum { FLUSH = 1 << 20, PIECE = 3 << 16 };

static int flush_output(writer *w, cay_err *err)
{
    if (w->out.full || w->dirs.full)
        return cay_fail(err, CAY_ETOOBIG, "more directories than this form has room for");
    if (!cay__fd_write_all(w->fd, w->out.data, w->out.len))
        return cay_fail_sys(err, "write the archive");
    w->out.len = 0;
    return 0;
}

static int open_js(writer *w, const char *meta, cay_err *err)
{
    cay__buf_str(&w->out, "{\"version\":1,\"files\":[");
    return flush_output(w, err);
}

static int write_item(writer *w, const cay__item *it, cay_err *err)
{
    if (it->type == CAY__ITEM_DIR && strcmp(it->path, ".")) {
        cay__buf_str(&w->dirs, w->any_dir ? "," : "");
        cay__buf_json(&w->dirs, it->path, strlen(it->path));
        w->any_dir = true;
    }
    if (it->type != CAY__ITEM_FILE) /* this form has no links */
        return 0;
    cay__buf_str(&w->out, w->any ? ",{\"path\":" : "{\"path\":");
    cay__buf_json(&w->out, it->path, strlen(it->path));
    cay__buf_str(&w->out, ",\"data\":\"");
    w->any = true;
    w->nrest = 0;
    if (w->out.len > FLUSH)
        return flush_output(w, err);
    return 0;
}

/* Groups of three bytes; what is left waits in w->rest. */
static int write_base64(writer *w, const uint8_t *p, size_t n, cay_err *err)
{
    while (n && w->nrest) {
        w->rest[w->nrest++] = *p++;
        n--;
        if (w->nrest == sizeof w->rest) {
            cay__base64_put(&w->out, w->rest, sizeof w->rest);
            w->nrest = 0;
        }
    }
    for (size_t some; n >= 3; p += some, n -= some) {
        some = CAY_MIN(n / 3 * 3, (size_t)PIECE);
        cay__base64_put(&w->out, p, some);
        if (w->out.len > FLUSH)
            CAY_TRY(flush_output(w, err));
    }
    memcpy(w->rest + w->nrest, p, n);
    w->nrest += n;
    return 0;
}

static int write_data(writer *w, const void *p, size_t n, cay_err *err)
{
    return write_base64(w, p, n, err);
}

static int write_hole(writer *w, uint64_t n, cay_err *err)
{
    static const uint8_t none[3 << 12];
    for (; n; n -= CAY_MIN(n, sizeof none))
        CAY_TRY(write_base64(w, none, (size_t)CAY_MIN(n, sizeof none), err));
    return 0;
}

static int finish_item(writer *w, cay_err *err)
{
    cay__base64_put(&w->out, w->rest, w->nrest);
    cay__buf_str(&w->out, "\"}");
    return 0;
}

static int close_js(writer *w, const char *digest, cay_err *err)
{
    cay__buf_str(&w->out, "],\"directories\":[");
    CAY_TRY(flush_output(w, err));
    if (w->dirs.len && !cay__fd_write_all(w->fd, w->dirs.data, w->dirs.len))
        return cay_fail_sys(err, "write the archive");
    cay__buf_str(&w->out, "]}\n");
    return flush_output(w, err);
}

const writer_ops write_js = { "js",        open_js,  write_item, write_data, write_hole,
                              finish_item, close_js, NULL,       false,      false };
