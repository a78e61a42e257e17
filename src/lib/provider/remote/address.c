/* SPDX-License-Identifier: Apache-2.0 */
#include "address.h"
#include <base/base.h>
#include <base/str.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#define PORT "8090"

static const char *read_env(const char *name)
{
    const char *v = getenv(name);
    return cay__text_or(v, NULL);
}

/* "box", "box:8100", "http://box": with a scheme, and with the port if there is none. */
static char *whole_url(const char *host, const char *port)
{
    char *url = NULL;
    bool schemed = strstr(host, "://") || cay__str_starts(host, "unix:");
    const char *name = strstr(host, "://") ? strstr(host, "://") + 3 : host,
               *close = strchr(name, ']');
    bool ported =
        strchr(CAY_OR(close, name), ':') || strchr(name, '/') || cay__str_starts(host, "unix:");
    if (!port && !schemed)
        port = PORT;
    if (asprintf(&url, "%s%s%s%s", schemed ? "" : "http://", host, port && !ported ? ":" : "",
                 port && !ported ? port : "") < 0)
        abort();
    return url;
}

static bool same_url(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    while (n && a[n - 1] == '/')
        n--;
    while (m && b[m - 1] == '/')
        m--;
    return n == m && !memcmp(a, b, n);
}

/* A line: URL, blanks, key. '#' begins a comment. */
static int key_of(const char *url, char **out, cay_err *err)
{
    char path[4096], line[2048];
    const char *base = read_env("XDG_CONFIG_HOME"), *home = read_env("HOME");
    struct stat st;
    if (base ? !cay__str_join(path, sizeof path, base, "/cay/hosts", NULL)
             : !home || !cay__str_join(path, sizeof path, home, "/.config/cay/hosts", NULL))
        return 0;
    FILE *f = fopen(path, "re");
    if (!f) {
        if (errno == ENOENT || errno == ENOTDIR || errno == EACCES)
            return 0;
        return cay_fail_sys(err, CAY_ESYS, "open %.200s", path);
    }
    if (fstat(fileno(f), &st) == 0 && (st.st_mode & 077)) {
        fclose(f);
        return cay_fail_why(err, CAY_EPERM, "hosts_readable",
                            "%.200s holds keys and others may read it; try: chmod 600 %.200s", path,
                            path);
    }
    while (!*out && fgets(line, sizeof line, f)) {
        char *save = NULL, *u = strtok_r(line, " \t\r\n", &save),
             *k = u && *u != '#' ? strtok_r(NULL, " \t\r\n", &save) : NULL;
        if (k && same_url(u, url))
            *out = cay__strdup(k);
    }
    explicit_bzero(line, sizeof line);
    fclose(f);
    return 0;
}

int cay__where_find(const char *given, cay__where *out, cay_err *err)
{
    const char *host = given && *given ? given : read_env("CAY_HOST"),
               *other = read_env("SANDBOX_HOST"), *key = read_env("CAY_API_KEY");
    if (!host && !other)
        return cay_fail_why(err, CAY_EINVAL, "host_missing",
                            "no server is named; set CAY_HOST=http://HOST:8090 and CAY_API_KEY");
    cay__where w = { .url =
                         host ? whole_url(host, NULL) : whole_url(other, read_env("SANDBOX_PORT")),
                     .key = key ? cay__strdup(key) : NULL };
    int rc = 0;
    if (!w.key)
        rc = key_of(w.url, &w.key, err);
    if (rc < 0)
        cay__where_clear(&w);
    else
        *out = w;
    return rc;
}

void cay__where_clear(cay__where *w)
{
    if (w->key)
        explicit_bzero(w->key, strlen(w->key));
    free(w->url);
    free(w->key);
    *w = (cay__where){ 0 };
}
