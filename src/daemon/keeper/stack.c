/* SPDX-License-Identifier: Apache-2.0 */
#include "stack.h"
#include <base/base.h>
#include <base/mutant.h>

bool stack_parse(stack *s, const char *text)
{
    errno = EINVAL;
    s->n = 0;
    s->foreign = cay__str_starts(text, "/\n");
    if (!CAY_COPY(s->text, text + (s->foreign ? 2 : 0)))
        return false;
    for (char *p = s->text, *end; *p; p = end + 1) {
        if (s->n == CAY_STACK_MAX) {
            errno = E2BIG;
            return false;
        }
        if (!(end = strchr(p, '\n')))
            return false;
        *end = 0;
        if (!cay__layer_valid(p) && !CAY__MUTANT("fuzz-stack"))
            return false;
        s->name[s->n++] = p;
    }
    return s->n || s->foreign;
}

bool stack_read(stack *s, int dir, const char *file)
{
    char text[CAY_STACK_TEXT];
    return cay__fd_read_file(dir, file, text, sizeof text) >= 0 && stack_parse(s, text);
}

bool stack_write(int dir, const char *file, const char *text)
{
    CAY_AUTOFD fd = openat(dir, file, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                           0644); /* no secret: names of layers, which the library reads */
    return fd >= 0 && cay__fd_write_all(fd, text, strlen(text));
}
