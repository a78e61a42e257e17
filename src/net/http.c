/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"
#include <base/base.h>
#include <base/path.h>
#include <dlfcn.h>
#include <strings.h>

struct cay__http {
    const cay__net_ops *ops;
    void *self;
};

#ifdef CAY_PORTABLE
extern const cay__net_ops cay__net_module;

static int find_module(const cay__net_ops **out, cay_err *err)
{
    *out = &cay__net_module;
    return 0;
}
#else
/* dlopen(3) counts: the module stays once it was opened, as curl's own set-up cannot be taken back
 * safely. */
static int find_module(const cay__net_ops **out, cay_err *err)
{
    char path[4096];
    CAY_TRY(cay__libexec_find(NULL, "libcay-net.so", path, sizeof path, err));
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const cay__net_ops *ops = NULL;
    if (lib)
        ops = dlsym(lib, "cay__net_module");
    if (!ops)
        return cay_fail_why(err, CAY_ENOTSUP, "net_module",
                            "%s cannot be used: %.160s; is libcurl installed?", path, dlerror());
    if (ops->size != sizeof *ops)
        return cay_fail_why(err, CAY_ENOTSUP, "net_module",
                            "%s is of another version of cay; install cay again", path);
    *out = ops;
    return 0;
}
#endif

int cay__http_open(cay__http **out, cay_err *err)
{
    cay__http h = { 0 };
    CAY_TRY(find_module(&h.ops, err));
    CAY_TRY(h.ops->open(&h.self, err));
    *out = cay__alloc(sizeof h);
    **out = h;
    return 0;
}

void cay__http_close(cay__http *h)
{
    if (!h)
        return;
    h->ops->close(h->self);
    free(h);
}

static bool is_printable(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            return false;
    return true;
}

static int check_request(const cay__http_req *req, cay_err *err)
{
    if (!req->url || (strncmp(req->url, "http://", 7) && strncmp(req->url, "https://", 8)) ||
        !is_printable(req->url) || strchr(req->url, ' '))
        return cay_fail_why(err, CAY_EINVAL, "url_invalid",
                            "\"%.100s\" is no http:// or https:// address", CAY_OR(req->url, ""));
    for (size_t i = 0; req->headers && req->headers[i]; i++)
        if (!is_printable(req->headers[i]) ||
            !strchr(req->headers[i], ':')) /* its value may be a key: not told */
            return cay_fail_why(err, CAY_EINVAL, "header_invalid",
                                "header %zu of the request has a control character or no name",
                                i + 1);
    return 0;
}

int cay__http_do(cay__http *h, const cay_call *call, const cay__http_req *req,
                 cay__http_reply *reply, cay_err *err)
{
    CAY_TRY(check_request(req, err));
    memset(reply, 0, sizeof *reply);
    return h->ops->perform(h->self, call, req, reply, err);
}

static int on_body_data(const char *bytes, size_t n, void *arg, cay_err *err)
{
    cay__buf *b = arg;
    cay__buf_add(b, bytes, n);
    if (b->full)
        return cay_fail_why(err, CAY_ETOOBIG, "answer_too_big",
                            "the answer is larger than %zu bytes", b->max);
    return 0;
}

int cay__http_fetch(cay__http *h, const cay_call *call, const cay__http_req *req,
                    cay__http_reply *reply, cay__buf *body, cay_err *err)
{
    cay__http_req own = *req;
    own.on_head = NULL;
    own.on_data = on_body_data;
    own.arg = body;
    own.max_body = body->max;
    return cay__http_do(h, call, &own, reply, err);
}

bool cay__http_is_loopback(const char *url)
{
    const char *host = strstr(url, "://");
    if (!host)
        return false;
    host += 3;
    size_t end = strcspn(host, "/?#");
    CAY_EACH_OF(it, host, end)
        if (*it == '@') /* user:password@: the host is what follows */
            return false;
    static const char *const names[] = { "localhost", "[::1]" };
    CAY_EACH(name, names) {
        size_t n = strlen(*name);
        if (end >= n && !strncasecmp(host, *name, n) && (n == end || host[n] == ':'))
            return true;
    }
    unsigned b, c, d;
    int used = 0;
    return sscanf(host, "127.%u.%u.%u%n", &b, &c, &d, &used) == 3 && (b | c | d) < 256 &&
           ((size_t)used == end || host[used] == ':');
}

int cay__http_dial(const char *url, const char *certs, const cay_call *call, int *fd, cay_err *err)
{
    const cay__net_ops *ops;
    CAY_TRY(check_request(&(cay__http_req){ .url = url }, err));
    CAY_TRY(find_module(&ops, err));
    return ops->dial(url, certs, call, fd, err);
}
