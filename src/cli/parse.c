/* SPDX-License-Identifier: Apache-2.0 */
#include "parse.h"
#include <base/base.h>
#include <base/mutant.h>
#include <limits.h>
#include <signal.h>
#include <strings.h>

int cli_check_name(const char *what, const char *text, cay_err *err)
{
    size_t n = strlen(text);
    if (!n)
        return cay_fail(err, CAY_EINVAL, "%s is empty", what);
    if (n > 200)
        return cay_fail(err, CAY_EINVAL, "%s is longer than 200 bytes", what);
    CAY_EACH_OF(it, text, n)
        if ((unsigned char)*it < 0x20 || *it == 0x7f)
            return cay_fail(err, CAY_EINVAL, "%s \"%s\" has a newline or control character", what,
                            text);
    return 0;
}

int cli_parse_place(const char *text, cli_place *out, cay_err *err)
{
    const char *colon = strchr(text, ':'), *slash = strchr(text, '/');
    *out = (cli_place){ .kind = CLI_LOCAL, .path = text };
    if (!*text)
        return cay_fail(err, CAY_EINVAL, "a path is empty");
    if (!strcmp(text, "-")) {
        out->kind = CLI_STREAM;
        return 0;
    }
    if (!colon || *text == '.' || (slash && slash < colon))
        return 0;
    size_t n = (size_t)(colon - text);
    if (!n || n >= sizeof out->id)
        return cay_fail(err, CAY_EINVAL,
                        "\"%s\" names no sandbox before the colon; a local file is ./NAME", text);
    if (!colon[1])
        return cay_fail(err, CAY_EINVAL, "\"%s\" has no path after the colon", text);
    out->kind = CLI_REMOTE;
    memcpy(out->id, text, n);
    out->id[n] = 0;
    out->path = colon + 1;
    return cli_check_name("sandbox", out->id, err);
}

/* The last component of what the directory really is: "." and ".." have a name too. */
static int default_target(const char *source, char *target, size_t cap, cay_err *err)
{
    CAY_AUTOFREE char *real = realpath(source, NULL);
    const char *base = NULL;
    if (real)
        base = strrchr(real, '/');
    if (!real)
        return cay_fail_sys(err, "--mount %s", source);
    if (!base[1])
        return cay_fail(err, CAY_EINVAL, "--mount %s: give a target, as in %s:/mnt", source,
                        source);
    if (!cay__str_join(target, cap, "/workspace/", base + 1, NULL))
        return cay_fail(err, CAY_ETOOBIG, "--mount %s: path too long", source);
    return 0;
}

int cli_parse_mount(const char *text, cli_mount *out, cay_err *err)
{
    size_t n = strlen(text);
    out->rw = false;
    if (n >= 3 && (!strcmp(text + n - 3, ":rw") || !strcmp(text + n - 3, ":ro"))) {
        out->rw = text[n - 1] == 'w';
        n -= 3;
    }
    size_t cut = n; /* the last ":/" parts source and target */
    for (size_t i = n; i-- > 1;)
        if (text[i] == ':' && i + 1 < n && text[i + 1] == '/') {
            cut = i;
            break;
        }
    char real[PATH_MAX];
    const char *last = NULL;
    if (cut == n)
        last = memrchr(text, ':', n); /* part of a name, if there is something of that name */
    if (last && last != text && n < sizeof real &&
        (memcpy(real, text, n), real[n] = 0, access(real, F_OK) < 0))
        return cay_fail(err, CAY_EINVAL,
                        "--mount \"%s\": \"%s\" is neither \":ro\", \":rw\" nor an absolute target",
                        text, last);
    if (!cut)
        return cay_fail(err, CAY_EINVAL, "--mount \"%s\": want DIR[:TARGET][:ro|:rw]", text);
    if (cut >= sizeof out->source || n - cut >= sizeof out->target)
        return cay_fail(err, CAY_ETOOBIG, "--mount: path too long");
    memcpy(out->source, text, cut);
    out->source[cut] = 0;
    if (text[cut] == ':' && cut < n) {
        memcpy(out->target, text + cut + 1, n - cut - 1);
        out->target[n - cut - 1] = 0;
    } else {
        out->target[0] = 0;
    }
    if (out->source[0] != '/' &&
        realpath(out->source, real)) /* one that is not there is told of later, by its own name */
        CAY_COPY(out->source, real);
    if (strchr(out->source, '\n') || strchr(out->target, '\n'))
        return cay_fail(err, CAY_EINVAL, "--mount: a path has a newline");
    if (!out->target[0])
        return default_target(out->source, out->target, sizeof out->target, err);
    for (const char *p = out->target; (p = strstr(p, "/..")); p += 3)
        if (!p[3] || p[3] == '/')
            return cay_fail(err, CAY_EINVAL, "--mount: target \"%s\" has a \"..\"", out->target);
    return 0;
}

int cli_parse_volume(const char *text, cli_volume *out, cay_err *err)
{
    size_t n = strlen(text), cut = strcspn(text, ":");
    out->rw = true;
    if (n > cut + 3 && (!strcmp(text + n - 3, ":ro") || !strcmp(text + n - 3, ":rw"))) {
        out->rw = text[n - 1] == 'w';
        n -= 3;
    }
    size_t len = 0;
    if (n > cut)
        len = n - cut - 1;
    if (!cut || cut >= sizeof out->name || !len || len >= sizeof out->target ||
        text[cut + 1] != '/' || memchr(text, '/', cut))
        return cay_fail(err, CAY_EINVAL,
                        "--volume \"%.80s\": want NAME:TARGET[:ro] with an absolute TARGET of at "
                        "most 255 bytes",
                        text);
    memcpy(out->name, text, cut);
    out->name[cut] = 0;
    memcpy(out->target, text + cut + 1, len);
    out->target[len] = 0;
    return 0;
}

int cli_parse_pair(const char *text, bool inherit, char **key, const char **value, cay_err *err)
{
    const char *eq = strchr(text, '=');
    size_t n = strcspn(text, "=");
    if (!eq && !inherit)
        return cay_fail(err, CAY_EINVAL, "\"%s\": want KEY=VALUE", text);
    if (!n)
        return cay_fail(err, CAY_EINVAL, "\"%s\" has no key before the =", text);
    CAY_EACH_OF(it, text, n)
        if ((unsigned char)*it <= 0x20 || *it == 0x7f)
            return cay_fail(err, CAY_EINVAL, "\"%s\": a key has no blanks or control characters",
                            text);
    char *k = cay__alloc(n + !CAY__MUTANT("fuzz-cli_path"));
    memcpy(k, text, n);
    if (eq)
        *value = eq + 1;
    else
        *value = getenv(k);
    *key = k;
    return 0;
}

int cli_parse_cpus(const char *text, uint64_t *out, cay_err *err)
{
    uint64_t v = 0;
    /* A bare number of seconds in thousandths is the same arithmetic. */
    bool plain = strspn(text, "0123456789.") == strlen(text);
    if (!strcmp(text, "unlimited"))
        v = CAY_UNLIMITED;
    else if (!plain || !cay__str_to_ms(text, &v) || v < 10 || v > 1024000)
        return cay_fail(err, CAY_EINVAL,
                        "\"%s\": want a number of CPUs from 0.01 to 1024, or unlimited", text);
    *out = v;
    return 0;
}

static bool parse_number(const char *text, size_t n, uint64_t max, uint64_t *out)
{
    char buf[24];
    if (!n || n >= sizeof buf)
        return false;
    memcpy(buf, text, n);
    buf[n] = 0;
    return cay__str_to_u64(buf, out) && *out <= max;
}

int cli_parse_port(const char *text, uint16_t *out, cay_err *err)
{
    uint64_t v;
    if (!parse_number(text, strlen(text), 65535, &v) || !v)
        return cay_fail(err, CAY_EINVAL, "\"%s\": want a port from 1 to 65535", text);
    *out = (uint16_t)v;
    return 0;
}

int cli_parse_forward(const char *text, uint16_t *port, uint16_t *local, cay_err *err)
{
    const char *colon = strchr(text, ':');
    uint64_t a, b;
    size_t n = strcspn(text, ":");
    if (!parse_number(text, n, 65535, &a) || !a)
        return cay_fail(err, CAY_EINVAL, "\"%s\": want PORT[:LOCAL], ports from 1 to 65535", text);
    b = a;
    if (colon && !parse_number(colon + 1, strlen(colon + 1), 65535, &b))
        return cay_fail(err, CAY_EINVAL, "\"%s\": want PORT[:LOCAL]; LOCAL 0 takes any free one",
                        text);
    *port = (uint16_t)a;
    *local = (uint16_t)b;
    return 0;
}

int cli_parse_mode(const char *text, uint32_t *out, cay_err *err)
{
    uint32_t v = 0;
    size_t n = strlen(text);
    if (!n || n > 5 || strspn(text, "01234567") != n)
        return cay_fail(err, CAY_EINVAL, "\"%s\": want an octal mode such as 644 or 0755", text);
    for (; *text; text++)
        v = v * 8 + (uint32_t)(*text - '0');
    if (v > 07777)
        return cay_fail(err, CAY_EINVAL, "mode %o is more than 7777", v);
    *out = v;
    return 0;
}

int cli_parse_owner(const char *text, uint32_t *uid, uint32_t *gid, cay_err *err)
{
    const char *colon = strchr(text, ':');
    size_t n = strcspn(text, ":");
    uint64_t u = UINT32_MAX, g = UINT32_MAX;
    bool ok = (n || colon) && (!n || parse_number(text, n, UINT32_MAX - 1, &u));
    if (ok && colon)
        ok = parse_number(colon + 1, strlen(colon + 1), UINT32_MAX - 1, &g);
    if (!ok)
        return cay_fail(err, CAY_EINVAL, "\"%s\": want UID[:GID] in numbers", text);
    *uid = (uint32_t)u;
    *gid = (uint32_t)g;
    return 0;
}

int cli_parse_signal(const char *text, int *out, cay_err *err)
{
    static const struct {
        const char *name;
        int sig;
    } names[] = {
        { "HUP", SIGHUP },   { "INT", SIGINT },     { "QUIT", SIGQUIT }, { "KILL", SIGKILL },
        { "TERM", SIGTERM }, { "USR1", SIGUSR1 },   { "USR2", SIGUSR2 }, { "STOP", SIGSTOP },
        { "CONT", SIGCONT }, { "TSTP", SIGTSTP },   { "ABRT", SIGABRT }, { "ALRM", SIGALRM },
        { "PIPE", SIGPIPE }, { "WINCH", SIGWINCH },
    };
    const char *s;
    if (strncasecmp(text, "SIG", 3))
        s = text;
    else
        s = text + 3;
    uint64_t v;
    if (parse_number(text, strlen(text), 64, &v) && v) {
        *out = (int)v;
        return 0;
    }
    CAY_EACH(it, names)
        if (!strcasecmp(s, it->name)) {
            *out = it->sig;
            return 0;
        }
    return cay_fail(err, CAY_EINVAL,
                    "\"%s\" is no signal; want a name such as TERM or a number from 1 to 64", text);
}
