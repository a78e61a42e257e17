/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox_options.h"
#include "out.h"
#include <base/base.h>
#include <cay/manifest.h>
#include <limits.h>

static int read_text(const char *name, int fd, cli_manifest *out, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(CAY_MANIFEST_BYTES + 2);
    for (;;) {
        char *room = cay__buf_room(&b, 65536);
        ssize_t n = 0;
        if (room)
            n = read(fd, room, 65536);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cay_fail_sys(err, "manifest %s", name);
        if (!room || b.len + (size_t)n > CAY_MANIFEST_BYTES)
            return cay_fail(
                err, CAY_ETOOBIG,
                "manifest %s is larger than 64 MiB; put large files beside it as local_file", name);
        cay__buf_used(&b, (size_t)n);
        if (n == 0)
            break;
    }
    cay__buf_str(&b, "");
    if (!b.len || strlen(b.data) != b.len)
        return cay_fail(err, CAY_EINVAL, "manifest %s is %s", name,
                        b.len ? "no text: it has a NUL byte" : "empty");
    out->len = b.len;
    out->text = CAY_STEAL(b.data);
    return 0;
}

int cli_manifest_read(const char *file, cli_manifest *out, cay_err *err)
{
    bool in = !strcmp(file, "-");
    char real[PATH_MAX];
    CAY_AUTOFD fd = in ? fcntl(0, F_DUPFD_CLOEXEC, 3) : open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || !realpath(in ? "." : file, real))
        return cay_fail_sys(err, "manifest %s", file);
    if (S_ISDIR(st.st_mode))
        return cay_fail(err, CAY_ETYPE, "manifest %s is a directory; give a file of JSON", file);
    CAY_TRY(read_text(in ? "on standard input" : file, fd, out, err));
    if (!in)
        *(strrchr(real, '/') == real ? real + 1 : strrchr(real, '/')) = 0;
    out->base = cay__strdup(real);
    return 0;
}

static void on_progress(const cay_manifest_progress *p, void *arg)
{
    cli_manifest *m = arg;
    if (!m->drawn)
        progress_begin(&m->bar, "manifest", p->bytes_total);
    m->drawn = true;
    progress_add(&m->bar, p->bytes > m->bar.done ? p->bytes - m->bar.done : 0);
}

void cli_manifest_give(cli_manifest *m, cay_create *c)
{
    if (!m->text)
        return;
    c->manifest.text = m->text;
    c->manifest.base = m->base;
    c->manifest.trusted = true;
    c->manifest.progress = on_progress;
    c->manifest.progress_arg = m;
}

void cli_manifest_clear(cli_manifest *m)
{
    if (m->drawn)
        progress_end(&m->bar);
    if (m->text)
        explicit_bzero(m->text, m->len);
    free(m->text);
    free(m->base);
    *m = (cli_manifest){ 0 };
}
