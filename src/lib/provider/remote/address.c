/* SPDX-License-Identifier: Apache-2.0 */
/* Which server is meant, and the key for it. */
#include "remote.h"

#define PORT "8090"

static const char *read_env(const char *name)
{
    const char *v = getenv(name);
    return cay__text_or(v, NULL);
}

/* "box", "box:8100", "http://box": with a scheme, and with the port if there is none. */
static char *whole_url(const char *host, const char *port)
{
    CAY_AUTOBUF url = CAY__BUF(4096);
    bool unix_path = cay__str_starts(host, "unix:");
    const char *scheme = strstr(host, "://"), *name = host;
    if (scheme)
        name = scheme + 3;
    const char *close = strchr(name, ']');
    bool ported = unix_path || strchr(CAY_OR(close, name), ':') || strchr(name, '/');
    if (!scheme && !unix_path) {
        cay__buf_str(&url, "http://");
        port = CAY_OR(port, PORT);
    }
    cay__buf_str(&url, host);
    if (port && !ported)
        cay__buf_fmt(&url, ":%s", port);
    return cay__strdup(CAY_OR(url.data, ""));
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

static bool hosts_path(char *path, size_t cap)
{
    const char *base = read_env("XDG_CONFIG_HOME"), *home = read_env("HOME");
    if (base)
        return cay__str_join(path, cap, base, "/cay/hosts", NULL);
    return home && cay__str_join(path, cap, home, "/.config/cay/hosts", NULL);
}

/* A line: URL, blanks, key. '#' begins a comment. */
static int key_of(const char *url, char **out, cay_err *err)
{
    char path[4096], line[2048];
    struct stat st;
    if (!hosts_path(path, sizeof path))
        return 0;
    FILE *f = fopen(path, "re");
    if (!f) {
        if (errno == ENOENT || errno == ENOTDIR || errno == EACCES)
            return 0;
        return cay_fail_sys(err, "open %.200s", path);
    }
    if (fstat(fileno(f), &st) == 0 && (st.st_mode & 077)) {
        fclose(f);
        return cay_fail_why(err, CAY_EPERM, "hosts_readable",
                            "%.200s holds keys and others may read it; try: chmod 600 %.200s", path,
                            path);
    }
    while (!*out && fgets(line, sizeof line, f)) {
        char *save = NULL, *u = strtok_r(line, " \t\r\n", &save), *k = NULL;
        if (u && *u != '#')
            k = strtok_r(NULL, " \t\r\n", &save);
        if (k && same_url(u, url))
            *out = cay__strdup(k);
    }
    explicit_bzero(line, sizeof line);
    fclose(f);
    return 0;
}

int cay__remote_no_host(cay_err *err)
{
    return cay_fail_why(err, CAY_EINVAL, "host_missing",
                        "no server is named; set CAY_HOST=http://HOST:8090 and CAY_API_KEY");
}

int cay__remote_connect(const char *given, const char *key, cay__http_client **out, cay_err *err)
{
    CAY_AUTOFREE char *url = NULL, *listed = NULL;
    const char *host = CAY_OR(cay__text_or(given, NULL), read_env("CAY_HOST")),
               *other = read_env("SANDBOX_HOST");
    if (host)
        url = whole_url(host, NULL);
    else if (other)
        url = whole_url(other, read_env("SANDBOX_PORT"));
    else
        return 0;
    key = CAY_OR(key, read_env("CAY_API_KEY"));
    if (!key)
        CAY_TRY(key_of(url, &listed, err));
    int rc = cay__http_client_open(url, CAY_OR(key, listed), out, err);
    if (listed)
        explicit_bzero(listed, strlen(listed));
    return rc;
}
