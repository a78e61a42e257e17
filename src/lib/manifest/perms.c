/* SPDX-License-Identifier: Apache-2.0 */
/* Permissions in their three spellings: {"owner":7,"group":5,"other":5}, "rwxr-xr-x", "0755" (or
 * the number itself). */
#include "manifest.h"

static int fail_invalid(const char *entry, cay_err *err)
{
    return cay__bad(
        err, "manifest_invalid", entry, "permissions",
        "permissions are {\"owner\":7,\"group\":5,\"other\":5}, \"rwxr-xr-x\" or \"0755\"");
}

static const cay__entry_field fields[] = {
    { "owner", CAY__UINT, 0 },
    { "group", CAY__UINT, 0 },
    { "other", CAY__UINT, 0 },
    { "directory", CAY__BOOL, 0 },
    { NULL },
};

static int from_object(const char *entry, const json_t *j, uint32_t *mode, cay_err *err)
{
    CAY_AUTOJSON *o = NULL;
    CAY_TRY(cay__canonical(entry, j, &o, err));
    CAY_TRY(cay__fields_check("manifest_invalid", entry, o, fields, err));
    int64_t owner = cay__json_int(o, "owner", 7), group = cay__json_int(o, "group", 0),
            other = cay__json_int(o, "other", 0);
    if (owner > 7 || group > 7 || other > 7)
        return fail_invalid(entry, err);
    *mode = (uint32_t)(owner << 6 | group << 3 | other);
    return 0;
}

/* Nine letters; the third of each set may carry set-uid, set-gid or sticky: s, S, t, T. */
static bool from_letters(const char *s, uint32_t *mode)
{
    static const char plain[] = "rwxrwxrwx";
    uint32_t m = 0;
    for (int i = 0; i < 9; i++) {
        uint32_t bit = 1u << (8 - i), special = 01000u << (2 - i / 3);
        char low = "sst"[i / 3], high = "SST"[i / 3];
        if (s[i] == plain[i])
            m |= bit;
        else if (i % 3 == 2 && s[i] == low)
            m |= bit | special;
        else if (i % 3 == 2 && s[i] == high)
            m |= special;
        else if (s[i] != '-')
            return false;
    }
    *mode = m;
    return true;
}

static bool from_octal(const char *s, uint32_t *mode)
{
    uint32_t m = 0;
    if (s[0] == '0' && (s[1] == 'o' || s[1] == 'O'))
        s += 2;
    size_t n = strlen(s);
    CAY_EACH_OF(it, s, n) {
        if (*it < '0' || *it > '7')
            return false;
        m = m * 8 + (uint32_t)(*it - '0');
    }
    *mode = m;
    return n >= 3 && n <= 5 && m <= 07777;
}

int cay__mode_read(const char *entry, const json_t *j, uint32_t *mode, cay_err *err)
{
    const char *s = json_string_value(j);
    size_t n = 0;
    if (s)
        n = json_string_length(j);
    if (json_is_object(j))
        return from_object(entry, j, mode, err);
    if (json_is_integer(j) && json_integer_value(j) >= 0 && json_integer_value(j) <= 07777) {
        *mode = (uint32_t)json_integer_value(j);
        return 0;
    }
    if (n == 10 && strchr("-d", *s) && from_letters(s + 1, mode))
        return 0;
    if ((n == 9 && from_letters(s, mode)) || (s && n == strlen(s) && from_octal(s, mode)))
        return 0;
    return fail_invalid(entry, err);
}

/* What besides the manifest's root has to be in every snapshot: a home, caches. */
#define MOST 64

static int fail_root(cay_err *err, const char *what, const char *why)
{
    return cay__bad(err, "manifest_invalid", "", "extra_persisted_roots", "%.70s: %s", what, why);
}

int cay__persist_read(cay_manifest *m, const json_t *j, cay_err *err)
{
    static const char *const passing[] = { "/proc", "/dev", "/sys", "/run" };
    if (!json_is_array(j) || json_array_size(j) > MOST)
        return fail_root(err, "extra_persisted_roots", "it is a list of at most 64 paths");
    for (size_t i = 0; i < json_array_size(j); i++) {
        const char *s = json_string_value(json_array_get(j, i));
        char *normal = NULL;
        if (!s || *s != '/' || strlen(s) != json_string_length(json_array_get(j, i)) ||
            strstr(s, "/..") || !cay__path_normal(s, &normal))
            return fail_root(err, CAY_OR(s, "extra_persisted_roots"),
                             "each is an absolute path inside, without \"..\", such as /home/user");
        cay__arena_adopt(&m->mem, normal);
        CAY_EACH(one, passing)
            if (!strcmp(normal, *one) || cay__path_below(normal, *one))
                return fail_root(err, normal, "what is there ends with the sandbox's processes");
        m->persist = cay__more(m->persist, m->npersist, sizeof *m->persist);
        m->persist[m->npersist++] = normal;
    }
    return 0;
}

/* A mount's content is never saved. */
int cay__persist_check(const cay_manifest *m, cay_err *err)
{
    CAY__AUTOARENA mem = { 0 };
    for (size_t i = 0; m->npersist && i < m->n; i++) {
        const char *at;
        if (!cay__is_mount(&m->entries[i]))
            continue;
        CAY_TRY(cay__mount_path(m, &mem, &m->entries[i], &at, err));
        CAY_EACH_OF(it, m->persist, m->npersist)
            if (!strcmp(*it, at) || cay__path_below(*it, at))
                return fail_root(err, *it, "it is in a mount, whose content is never saved");
    }
    return 0;
}
