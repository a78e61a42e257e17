/* SPDX-License-Identifier: Apache-2.0 */
/* A patch, and a file behind the first NUL byte: the envelope is read, and every change is tried on
 * the file. */
#include <cay/patch.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const uint8_t *nul = memchr(data, 0, len);
    size_t n = nul ? (size_t)(nul - data) : len, rest = nul ? len - n - 1 : 0;
    char *text = malloc(n + 1), *file = malloc(rest ? rest : 1);
    cay_patch *p = NULL;
    cay_err err = CAY_ERR_INIT;
    if (!text || !file)
        abort();
    memcpy(text, data, n);
    text[n] = 0;
    if (rest)
        memcpy(file, nul + 1, rest);
    int rc = cay_patch_parse(text, &p, &err);
    if ((rc == 0) != !*err.msg || (rc == 0 && !p->n))
        abort();
    for (size_t i = 0; rc == 0 && i < p->n; i++) {
        char *out = NULL, path[512];
        size_t out_len = 0;
        if (cay_patch_update(file, rest, p->ops[i].diff, &out, &out_len, NULL, NULL) == 0) {
            if (out[out_len])
                abort();
            free(out);
        }
        if (cay_patch_path(p->ops[i].path, "/workspace", "/workspace/a", path, sizeof path, NULL) ==
                0 &&
            (strncmp(path, "/workspace/", 11) || strstr(path, "/../") || strstr(path, "//")))
            abort();
    }
    cay_patch_free(p);
    free(text);
    free(file);
    return 0;
}
