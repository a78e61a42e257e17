/* SPDX-License-Identifier: Apache-2.0 */
/* What besides the manifest's root has to be in every snapshot: a home, caches. */
#include "manifest.h"
#include <base/str.h>

#define MOST 64

static int fail_invalid(cay_err *err, const char *what, const char *why)
{
    return cay__bad(err, "manifest_invalid", "", "extra_persisted_roots", "%.70s: %s", what, why);
}

int cay__persist_read(cay_manifest *m, const json_t *j, cay_err *err)
{
    static const char *const passing[] = { "/proc", "/dev", "/sys", "/run" };
    if (!json_is_array(j) || json_array_size(j) > MOST)
        return fail_invalid(err, "extra_persisted_roots", "it is a list of at most 64 paths");
    for (size_t i = 0; i < json_array_size(j); i++) {
        const char *s = json_string_value(json_array_get(j, i));
        char *normal = NULL;
        if (!s || *s != '/' || strlen(s) != json_string_length(json_array_get(j, i)) ||
            strstr(s, "/..") || !cay__path_normal(s, &normal))
            return fail_invalid(
                err, CAY_OR(s, "extra_persisted_roots"),
                "each is an absolute path inside, without \"..\", such as /home/user");
        cay__arena_adopt(&m->mem, normal);
        for (size_t k = 0; k < CAY_LEN(passing); k++)
            if (!strcmp(normal, passing[k]) || cay__path_below(normal, passing[k]))
                return fail_invalid(err, normal, "what is there ends with the sandbox's processes");
        m->persist = cay__more(m->persist, m->npersist, sizeof *m->persist);
        m->persist[m->npersist++] = normal;
    }
    return 0;
}

/* A mount's content is never saved. */
int cay__persist_check(const cay_manifest *m, cay_err *err)
{
    __attribute__((cleanup(cay__arena_clear))) cay__arena mem = { 0 };
    for (size_t i = 0; m->npersist && i < m->n; i++) {
        const char *at;
        if (!cay__is_mount(&m->entries[i]))
            continue;
        CAY_TRY(cay__mount_path(m, &mem, &m->entries[i], &at, err));
        for (size_t k = 0; k < m->npersist; k++)
            if (!strcmp(m->persist[k], at) || cay__path_below(m->persist[k], at))
                return fail_invalid(err, m->persist[k],
                                    "it is in a mount, whose content is never saved");
    }
    return 0;
}
