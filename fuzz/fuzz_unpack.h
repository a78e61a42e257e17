/* SPDX-License-Identifier: Apache-2.0 */
/* An archive through all of cay-unpack; whatever comes out has to be something that the reader of
 * items takes. */
#pragma once
#include <sys/mman.h>
#include <helper/unpack/unpack.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static inline void check_items(int fd)
{
    cay__items_in in;
    cay__item it = { 0 };
    cay__items_open(&in, fd);
    while (it.type != CAY__ITEM_END) {
        cay_err e = CAY_ERR_INIT;
        if (cay__item_next(&in, &it, &e) < 0) {
            if (!strcmp(e.reason, "archive_truncated") || !strcmp(e.reason, "archive_reader"))
                abort(); /* a refusal has its own word */
            break;
        }
        if (it.type != CAY__ITEM_NOTE && it.type != CAY__ITEM_END &&
            !cay__item_path_ok(it.path, true))
            abort();
    }
    cay__items_close(&in);
}

static inline void unpack_bytes(const char *as, const char *format, const uint8_t *data, size_t len)
{
    unpack u = { .max = { .input = 1 << 20,
                          .output = 4 << 20,
                          .members = 2000,
                          .ratio = 200,
                          .ratio_from = 1 << 20 },
                 .as = profile_find(as) };
    CAY_AUTOFD in = memfd_create("in", MFD_CLOEXEC), out = memfd_create("out", MFD_CLOEXEC);
    if (in < 0 || out < 0 || write(in, data, len) != (ssize_t)len || lseek(in, 0, SEEK_SET) != 0)
        abort();
    cay__items_start(&u.out, out);
    names_start(&u);
    input *s = input_open(&u, in);
    int rc = read_any(&u, s, format);
    if ((rc < 0) != u.failed)
        abort();
    input_close(s);
    if (!u.failed)
        cay__item_put(
            &u.out,
            &(cay__item){ .type = CAY__ITEM_END, .size = u.bytes, .mode = (uint32_t)u.items });
    if (!cay__items_flush(&u.out) || lseek(out, 0, SEEK_SET) != 0)
        abort();
    names_stop(&u);
    cay__items_stop(&u.out);
    check_items(out);
}
