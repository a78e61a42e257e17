/* SPDX-License-Identifier: Apache-2.0 */
/* Where a secret's value comes from. */
#include "secret.h"
#include <policy/binding.h>

void cay__value_wipe(cay__value *v)
{
    if (v->data)
        explicit_bzero(v->data, v->len);
    free(v->data);
    *v = (cay__value){ 0 };
}

int cay__secret_bad(const char *name, const char *why, const char *what, cay_err *err)
{
    return cay_fail_why(err, CAY_ENOENT, "secret_unreadable", "secret %.63s: %s%.100s", name, why,
                        what);
}

int cay__secret_from_fd(const char *name, int fd, const char *what, cay__value *out, cay_err *err)
{
    char *data = cay__alloc(CAY__SECRET_MAX + 2);
    ssize_t n = cay__fd_read_all(fd, data, CAY__SECRET_MAX + 1);
    cay__value v = { data, n > 0 ? (size_t)n : 0 };
    if (n < 0 || n > (ssize_t)CAY__SECRET_MAX) {
        cay__value_wipe(&v);
        return cay__secret_bad(name, n < 0 ? "cannot read " : "more than 64 KiB in ", what, err);
    }
    /* One line's end belongs to the file, not to the value. */
    if (v.len && data[v.len - 1] == '\n')
        v.len--;
    if (v.len && data[v.len - 1] == '\r')
        v.len--;
    *out = v;
    return 0;
}

static int read_env(cay_client *client, const char *name, const char *arg, cay__value *out,
                    cay_err *err)
{
    const char *s = getenv(arg);
    if (!s)
        return cay__secret_bad(name, "this environment variable is not set: ", arg, err);
    *out = (cay__value){ cay__strdup(s), strlen(s) };
    return 0;
}

static int read_file(cay_client *client, const char *name, const char *arg, cay__value *out,
                     cay_err *err)
{
    struct stat st;
    CAY_AUTOFD fd = open(arg, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return cay__secret_bad(name, "no readable file ", arg, err);
    return cay__secret_from_fd(name, fd, arg, out, err);
}

static int read_store(cay_client *client, const char *name, const char *arg, cay__value *out,
                      cay_err *err)
{
    int rc = cay__secret_open(client, arg, out, err);
    if (rc < 0)
        return cay_wrap(err, rc, "secret %s", name);
    return 0;
}

/* A text of the store in which each ${store:NAME} stands for that secret. What it gives is not
 * looked into again. */
static int read_fill(cay_client *client, const char *name, const char *arg, cay__value *out,
                     cay_err *err)
{
    static const char open[] = "${store:";
    cay__value form = { 0 };
    CAY_TRY(read_store(client, name, arg, &form, err));
    cay__buf b = CAY__BUF(CAY__SECRET_MAX);
    int rc = 0;
    for (const char *s = form.data, *end = s + form.len; s < end && rc == 0;) {
        const char *at = memmem(s, (size_t)(end - s), open, sizeof open - 1),
                   *close = at ? memchr(at, '}', (size_t)(end - at)) : NULL;
        char other[64];
        cay__value v = { 0 };
        cay__buf_add(&b, s, (size_t)((close ? at : end) - s));
        if (!close)
            break;
        const char *from = at + sizeof open - 1;
        CAY_FORMAT(other, "%.*s", (int)CAY_MIN(close - from, 63), from);
        rc = read_store(client, name, other, &v, err);
        if (rc == 0)
            cay__buf_add(&b, v.data, v.len);
        cay__value_wipe(&v);
        s = close + 1;
    }
    cay__value_wipe(&form);
    if (rc == 0 && b.full)
        rc = cay__secret_bad(name, "more than 64 KiB in ", arg, err);
    if (rc == 0)
        *out = (cay__value){ CAY_OR(b.data, cay__strdup("")), b.len };
    else if (b.data) {
        explicit_bzero(b.data, b.cap);
        cay__buf_clear(&b);
    }
    return rc;
}

static const struct {
    const char *prefix;
    int (*read)(cay_client *client, const char *name, const char *arg, cay__value *out,
                cay_err *err);
} sources[] = {
    { "env:", read_env },     { "file:", read_file }, { CAY__SECRET_CMD, NULL }, /* secret_cmd.c */
    { "store:", read_store }, { "fill:", read_fill },
};

static size_t find_source(const char *source)
{
    size_t i = 0;
    while (i < CAY_LEN(sources) && !cay__str_starts(source, sources[i].prefix))
        i++;
    return i;
}

int cay__secret_source_check(const char *name, const char *source, cay_err *err)
{
    size_t i;
    if (source)
        i = find_source(source);
    else
        i = CAY_LEN(sources);
    const char *arg = "";
    if (i < CAY_LEN(sources))
        arg = source + strlen(sources[i].prefix);
    if (!*arg)
        return cay_fail_why(err, CAY_EINVAL, "secret_invalid",
                            "secret %.63s: its source is env:VARIABLE, file:PATH, cmd:NAME, "
                            "store:NAME or fill:NAME",
                            name);
    if (!strncmp(source, "file:", 5) && *arg != '/')
        return cay_fail_why(err, CAY_EINVAL, "secret_invalid",
                            "secret %.63s: give the whole path of its file", name);
    return 0;
}

int cay__secret_sound(const char *name, cay__value *v, cay_err *err)
{
    bool sound = v->len > 0;
    CAY_EACH_OF(it, v->data, v->len)
        sound &= (unsigned char)*it >= 0x20 && *it != 0x7f;
    if (sound)
        return 0;
    cay__value_wipe(v);
    return cay_fail_why(
        err, CAY_EINVAL, "secret_invalid",
        "secret %.63s: its value is empty or has a control character; it has to be one line", name);
}

static int read_now(cay_client *client, cay__want *w, cay_err *err)
{
    CAY_TRY(cay__secret_source_check(w->name, w->source, err));
    size_t i = find_source(w->source);
    if (!sources[i].read)
        return 0; /* it takes its time */
    CAY_TRY(
        sources[i].read(client, w->name, w->source + strlen(sources[i].prefix), &w->value, err));
    return cay__secret_sound(w->name, &w->value, err);
}

int cay__secret_read_all(cay_client *client, cay__want *w, size_t n, cay_err *err)
{
    int rc = 0;
    for (size_t i = 0; i < n && rc == 0; i++) {
        if (w[i].source)
            rc = read_now(client, &w[i], err);
        else
            rc = 0;
    }
    if (rc == 0)
        rc = cay__secret_cmds(client, w, n, err);
    for (size_t i = 0; i < n && rc < 0; i++)
        cay__value_wipe(&w[i].value);
    return rc;
}

int cay__secret_read(cay_client *client, const char *name, const char *source, cay__value *out,
                     cay_err *err)
{
    cay__want w = { .name = name, .source = CAY_OR(source, "") };
    CAY_TRY(cay__secret_read_all(client, &w, 1, err));
    *out = w.value;
    return 0;
}
