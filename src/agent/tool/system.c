/* SPDX-License-Identifier: Apache-2.0 */
/* http_request, env_get, env_set, process_list, workspace_info. */
#include "toolset.h"
#include <ctype.h>

enum { HTTP_S = 30, HEADERS_MAX = 64 };

/* For sandboxes without curl: the same on its standard output. Arguments: method, url, seconds,
 * then "Name: value". */
static const char by_python[] =
    "import sys, urllib.request, urllib.error\n"
    "method, url, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])\n"
    "heads = dict(h.split(': ', 1) for h in sys.argv[4:])\n"
    "body = sys.stdin.buffer.read() or None\n"
    "try:\n"
    "    r = urllib.request.urlopen(urllib.request.Request(url, body, heads, method=method), "
    "timeout=seconds)\n"
    "except urllib.error.HTTPError as e:\n"
    "    r = e\n"
    "except Exception as e:\n"
    "    sys.exit(f'{e}')\n"
    "out = sys.stdout.buffer\n"
    "out.write(f'HTTP/1.1 {r.status} {r.reason}\\r\\n'.encode())\n"
    "for k, v in r.headers.items(): out.write(f'{k}: {v}\\r\\n'.encode('latin-1'))\n"
    "out.write(b'\\r\\n' + r.read(1 << 20))\n";

static int check_header(const char *name, const json_t *value, cay_err *err)
{
    bool sound = *name && json_is_string(value) &&
                 strlen(json_string_value(value)) == json_string_length(value) &&
                 !strpbrk(json_string_value(value), "\r\n");
    for (const char *p = name; *p && sound; p++)
        sound = isalnum((unsigned char)*p) || strchr("!#$%&'*+-.^_`|~", *p);
    if (sound)
        return 0;
    return cay_fail(err, CAY_EINVAL, "header \"%.60s\" is no header field", name);
}

typedef struct request {
    const char *method, *url;
    char seconds[24];
    cay__buf heads[HEADERS_MAX];
    size_t nheads;
    const json_t *body;
    int64_t limit;
} request;

static void request_clear(request *q)
{
    CAY_EACH_OF(head, q->heads, q->nheads)
        cay__buf_clear(head);
}

static int send_request(cay_toolset *ts, const cay_call *call, const request *q, bool curl,
                        cay_result *res, cay_err *err)
{
    const char *argv[2 * HEADERS_MAX + 32];
    size_t n = 0;
    if (curl) {
        const char *const head[] = { "curl", "-sS",     "-i",          "-L",         "--max-redirs",
                                     "5",    "--proto", "=http,https", "--max-time", q->seconds };
        CAY_EACH(one, head)
            argv[n++] = *one;
        if (!strcmp(q->method, "HEAD"))
            argv[n++] = "-I";
        else
            argv[n++] = "-X", argv[n++] = q->method;
        CAY_EACH_OF(item, q->heads, q->nheads)
            argv[n++] = "-H", argv[n++] = item->data;
        if (q->body)
            argv[n++] = "--data-binary", argv[n++] = "@-";
        argv[n++] = "--", argv[n++] = q->url;
    } else {
        argv[n++] = "python3", argv[n++] = "-c", argv[n++] = by_python, argv[n++] = q->method,
        argv[n++] = q->url, argv[n++] = q->seconds;
        CAY_EACH_OF(it, q->heads, q->nheads)
            argv[n++] = it->data;
    }
    argv[n] = NULL;
    cay__tool_cmd cmd = { .argv = argv,
                          .input = json_string_value(q->body),
                          .input_len = json_string_length(q->body),
                          .seconds = q->limit + 5 };
    return cay__tool_run(ts, call, &cmd, res, err);
}

static int read_request(const json_t *args, request *q, cay_err *err)
{
    q->method = cay__json_str(args, "method", "GET");
    q->url = cay__json_str(args, "url", "");
    q->body = json_object_get(args, "body");
    q->limit = cay__json_int(args, "timeout", HTTP_S);
    CAY_FORMAT(q->seconds, "%lld", (long long)q->limit);
    if ((strncmp(q->url, "http://", 7) && strncmp(q->url, "https://", 8)) ||
        strpbrk(q->url, " \t\r\n"))
        return cay_fail(err, CAY_EINVAL, "url \"%.100s\": want http://… or https://…", q->url);
    if (json_object_size(json_object_get(args, "headers")) > HEADERS_MAX)
        return cay_fail(err, CAY_ETOOBIG, "more than %d headers", HEADERS_MAX);
    CAY_EACH_MEMBER(name, value, json_object_get(args, "headers")) {
        CAY_TRY(check_header(name, value, err));
        cay__buf *b = &q->heads[q->nheads++];
        *b = (cay__buf)CAY__BUF(65536);
        /* curl drops a field without a value unless it ends with a semicolon. */
        cay__buf_fmt(b, json_string_length(value) ? "%s: %s" : "%s;", name,
                     json_string_value(value));
        if (b->full)
            return cay_fail(err, CAY_ETOOBIG, "header %.60s is larger than 64 KiB", name);
    }
    return 0;
}

CAY__TOOL_FN(http_request)
{
    request q = { .nheads = 0 };
    cay_result res = { .size = sizeof res };
    int rc = read_request(args, &q, err);
    if (rc == 0)
        rc = send_request(ts, call, &q, true, &res, err);
    if (rc == CAY_ENOENT)
        rc = send_request(ts, call, &q, false, &res, err);
    request_clear(&q);
    if (rc == CAY_ENOENT)
        return cay_fail(err, CAY_ENOENT,
                        "there is neither curl nor python3 in this sandbox to send it with");
    CAY_TRY(rc);
    if (res.exit.code)
        rc = cay_fail(err, CAY_EUPSTREAM, "%.*s",
                      (int)CAY_MIN(strcspn(CAY_OR(res.errout, ""), "\n"), (size_t)200),
                      res.errout_len ? res.errout : "the request failed");
    else
        cay_output_text(out, CAY_OR(res.out, ""), res.out_len);
    if (rc == 0 && res.truncated)
        cay__tool_say(out, "\n[the body is longer]");
    cay_result_clear(&res);
    return rc;
}

static int check_name(const char *name, cay_err *err)
{
    bool sound = *name && !isdigit((unsigned char)*name) && strlen(name) <= 256;
    for (const char *p = name; *p && sound; p++)
        sound = isalnum((unsigned char)*p) || *p == '_';
    if (sound)
        return 0;
    return cay_fail(err, CAY_EINVAL,
                    "name \"%.60s\": want letters, digits and _, the first no digit", name);
}

static int in_shell(cay_toolset *ts, const cay_call *call, const char *line, cay_result *res,
                    cay_err *err)
{
    cay_shell_cmd cmd = {
        .size = sizeof cmd, .line = line, .timeout_ms = 30000, .max_output = CAY__KEEP_BYTES
    };
    CAY_TRY(cay__tool_shell(ts, call, err));
    return cay_shell_run(ts->sh, call, &cmd, res, err);
}

CAY__TOOL_FN(env_get)
{
    const char *name = cay__json_str(args, "name", NULL);
    char line[400];
    cay_result res = { .size = sizeof res };
    if (!name) {
        CAY_EACH_MEMBER(key, value, ts->env)
            cay__tool_say(out, "%s=%s\n", key, json_string_value(value));
        if (json_object_size(ts->env))
            return 0;
        return cay__tool_say(out, "Nothing was set.");
    }
    CAY_TRY(check_name(name, err));
    CAY_FORMAT(line, "[ -n \"${%s+x}\" ] && printf %%s \"$%s\"", name, name);
    CAY_TRY(in_shell(ts, call, line, &res, err));
    if (!res.exit.code)
        cay_output_text(out, CAY_OR(res.out, ""), res.out_len);
    int rc = 0;
    if (res.exit.code)
        rc = cay_fail(err, CAY_ENOENT, "%.200s is not set", name);
    cay_result_clear(&res);
    return rc;
}

CAY__TOOL_FN(env_set)
{
    const char *name = cay__json_str(args, "name", ""), *value = cay__json_str(args, "value", NULL);
    CAY_AUTOBUF line = CAY__BUF(CAY_SHELL_LINE_MAX);
    cay_result res = { .size = sizeof res };
    CAY_TRY(check_name(name, err));
    if (!value)
        return cay_fail(err, CAY_EINVAL, "the value of %.60s has a NUL character", name);
    cay__buf_fmt(&line, "export %s='", name);
    for (const char *p = value; *p; p++)
        *p == '\'' ? cay__buf_str(&line, "'\\''") : cay__buf_add(&line, p, 1);
    cay__buf_str(&line, "'");
    if (line.full)
        return cay_fail(err, CAY_ETOOBIG,
                        "the value of %.60s is larger than 30,000 bytes; put it into a file", name);
    if (ts->sh)
        CAY_TRY(in_shell(ts, call, line.data, &res, err));
    cay_result_clear(&res);
    json_object_set_new(ts->env, name, json_string(value));
    CAY_TRY(cay__python_setenv(ts, call, name, value, err));
    return cay__tool_say(out, "Set %s for this session.", name);
}

typedef struct procs {
    cay_tool_output *out;
    const char *filter;
    size_t n;
} procs;

static int add_proc(const cay_proc_info *i, void *arg)
{
    procs *p = arg;
    if (i->state == 'X' || (*p->filter && !strstr(i->command, p->filter)))
        return 0;
    if (!p->n++)
        cay__tool_say(p->out, "%7s %7s %-12s %9s %9s  %s\n", "PID", "PPID", "USER", "CPU s",
                      "RSS KiB", "COMMAND");
    return cay__tool_say(p->out, "%7d %7d %-12s %9.2f %9llu  %s\n", i->pid, i->ppid, i->user,
                         (double)i->cpu_us / 1e6, (unsigned long long)(i->rss >> 10), i->command);
}

CAY__TOOL_FN(process_list)
{
    procs p = { .out = out, .filter = cay__json_str(args, "filter", "") };
    CAY_TRY(cay_sandbox_procs(ts->sb, call, add_proc, &p, err));
    if (p.n)
        return 0;
    return cay__tool_say(out, "No process fits.");
}

CAY__TOOL_FN(workspace_info)
{
    cay_info *info = NULL;
    CAY_TRY(cay_sandbox_describe(ts->sb, call, &info, err));
    cay__tool_say(out,
                  "sandbox: %s\nprovider: %s\nworkspace: %s\nworking directory: %s\nuser: %s\n",
                  cay_sandbox_id(ts->sb), CAY_OR(info->provider, ""), ts->root, ts->cwd,
                  CAY_OR(ts->user, "the sandbox's own"));
    cay_info_free(info);
    return 0;
}
