/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON of a manifest, trusted or not by its first byte: what is written can be read, and is
 * written the same again. */
#include <base/base.h>
#include <cay/manifest.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static int see_entry(const cay_entry_info *e, void *arg)
{
    *(size_t *)arg += strlen(e->path) + strlen(e->source) + e->bytes;
    return e->path[0] == '/' || !strncmp(e->path, "../", 3) || strstr(e->path, "/../") ? -1 : 0;
}

static int see_mount(const cay_mount_target *t, void *arg)
{
    *(size_t *)arg += strlen(t->fields);
    return t->path[0] == '/' ? 0 : -1;
}

static int see_path(const char *path, void *arg)
{
    *(size_t *)arg += strlen(path);
    return *path ? 0 : -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    cay_manifest *a = NULL, *b = NULL;
    CAY_AUTOFREE char *once = NULL, *twice = NULL, *tree = NULL;
    cay_err err = CAY_ERR_INIT;
    size_t sum = 0;
    if (!len || cay_manifest_parse((const char *)data + 1, len - 1, data[0] & 1, &a, &err) < 0)
        return 0;
    if (cay_manifest_entries(a, see_entry, &sum) || cay_manifest_mounts(a, see_mount, &sum) ||
        cay_manifest_unsaved(a, see_path, &sum))
        abort();
    tree = cay_manifest_describe(a, data[0] >> 4);
    if (cay_manifest_to_json(a, &once, &err) == 0) {
        if (cay_manifest_parse(once, strlen(once), CAY_MANIFEST_TRUSTED, &b, &err) < 0 ||
            cay_manifest_to_json(b, &twice, &err) < 0 || strcmp(once, twice) != 0)
            abort();
        cay_manifest_change(a, b, 0, NULL, NULL, &err);
    }
    cay_manifest_free(a);
    cay_manifest_free(b);
    return 0;
}
