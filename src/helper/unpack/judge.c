/* SPDX-License-Identifier: Apache-2.0 */
/* What may be in which archive, how much may come out of it, and how a refusal is told. */
#include "unpack.h"
#include <base/mutant.h>
#include <stdarg.h>

static const profile profiles[] = {
    { .name = "auto",
      .symlinks = LINKS_INSIDE,
      .hydrate = true }, /* snapshot, or what the Agents SDK made */
    { .name = "snapshot", .symlinks = LINKS_ANY, .hard = true, .owners = true, .ours = true },
    { .name = "oci", .symlinks = LINKS_ANY, .hard = true, .owners = true, .oci = true },
    { .name = "hydrate", .symlinks = LINKS_INSIDE, .hydrate = true },
    { .name = "tree", .symlinks = LINKS_INSIDE, .hard = true },
    { .name = "clone", .symlinks = LINKS_ANY },
    { .name = "extract", .symlinks = LINKS_NONE },
};

int fail(unpack *u, const char *member, const char *reason, const char *fmt, ...)
{
    char text[300], name[CAY__ITEM_PATH];
    va_list ap;
    if (u->failed)
        return -1;
    u->failed = true;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    CAY_COPY(name, member);
    cay__items_flush(&u->out);
    cay__item_put(&u->out, &(cay__item){ .type = CAY__ITEM_FAIL,
                                         .path = name,
                                         .target = reason,
                                         .extra = text,
                                         .extra_len = strlen(text) });
    return -1;
}

void put_note(unpack *u, const char *name, const char *text, size_t len)
{
    cay__item_put(
        &u->out,
        &(cay__item){ .type = CAY__ITEM_NOTE, .path = name, .extra = text, .extra_len = len });
}

int count_member(unpack *u, const char *path)
{
    if (++u->members <= u->max.members)
        return 0;
    return fail(u, path, "archive_limit", "more than %llu members",
                (unsigned long long)u->max.members);
}

int grow(unpack *u, const char *member, uint64_t n)
{
    const limits *m = &u->max;
    if (n > m->output - u->bytes)
        return fail(u, member, "archive_limit", "more than %llu bytes come out",
                    (unsigned long long)m->output);
    u->bytes += n;
    if (u->in && u->bytes > m->ratio_from && u->bytes / m->ratio > u->in &&
        !CAY__MUTANT("archive-ratio"))
        return fail(u, member, "archive_limit", "more than %llu times as much comes out as goes in",
                    (unsigned long long)m->ratio);
    return 0;
}

const profile *profile_find(const char *name)
{
    CAY_EACH(it, profiles)
        if (!strcmp(it->name, name))
            return it;
    return NULL;
}

int read_any(unpack *u, input *s, const char *format)
{
    const void *p;
    size_t n;
    bool any = !strcmp(format, "auto");
    CAY_TRY(input_read(s, &p, &n));
    const char *b = p;
    input_back(s, p, n);
    if (!n)
        return fail(u, "", "archive_corrupt", "it is empty");
    if (!strcmp(u->as->name, "auto")) {
        u->as = profile_find(n >= 512 && !memcmp(b, "cay.json\0", 9) ? "snapshot" : "hydrate");
        put_note(u, "profile", u->as->name, strlen(u->as->name));
    }
    if (!strcmp(format, "js") ||
        (any && (b[0] == '{' || b[0] == ' ' || b[0] == '\n') && u->as->hydrate))
        return read_js(u, s);
    if (!strcmp(format, "zip") || (any && n >= 4 && !memcmp(b, "PK\3\4", 4)))
        return read_zip(u, s);
    if (!strcmp(format, "tar") ||
        (any && n >= 263 && (!memcmp(b + 257, "ustar", 5) || u->as->ours)))
        return read_tar(u, s);
    if (any)
        return fail(u, "", "archive_format", "it is no tar, zip or workspace archive");
    return fail(u, "", "archive_format", "\"%.20s\" is no format", format);
}
