/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox-server protocol: commands, files and ports of a sandbox. */
#include "sandbox_server.h"
#include <net/multipart.h>

#define COMMAND_MS 180000
#define OUTPUT_MAX (8u << 20)
#define TEXT_MAX   (16u << 20) /* of a file that is told as JSON */
#define URL_MS     120000      /* a fetch on the server's side, and what it may bring: */
#define URL_BYTES  (256ull << 20)
#define SPOOL_MAX  (1ull << 30)
#define MCP_PORT   6060
#define CODE_PORT  9000

CAY_DEFINE_AUTO(cay_proc, cay_proc_unref)
CAY_DEFINE_AUTO(cay_upload, cay_upload_abort)

static const cay_write in_place = { .size = sizeof in_place, .parents = true };

/* Body, sandbox and one path of it. */
static int begin_path(cay__req *r, const char *name, cay__ss_box *b, const char **path,
                      cay_err *err)
{
    CAY_TRY(cay__ss_begin(r, b, err));
    CAY_TRY(cay__ss_str(b->body, name, true, path, err));
    if (**path)
        return 0;
    return cay_fail_why(err, CAY_EINVAL, "field_invalid", "%s is empty", name);
}

static int spawn_background(cay__req *r, cay_sandbox *sb, const cay_spawn *spec, cay_err *err)
{
    CAY_AUTOPTR(cay_proc) p = NULL;
    CAY_TRY(cay_sandbox_spawn(sb, &r->call, spec, &p, err));
    return cay__reply_pack(r, 200, "{s:b,s:s,s:s,s:s,s:i}", "success", 1, "output", "", "message",
                           "Command started in the background", "process_id", cay_proc_id(p), "pid",
                           cay_proc_pid(p));
}

int cay__ss_run(cay__req *r, cay_err *err)
{
    cay__ss_box b;
    const char *command;
    bool later;
    cay_result res = { .size = sizeof res };
    CAY_TRY(cay__ss_begin(r, &b, err));
    CAY_TRY(cay__ss_str(b.body, "command", true, &command, err));
    CAY_TRY(cay__ss_bool(b.body, "background", false, &later, err));
    cay_spawn spec = { .size = sizeof spec, .shell = command };
    if (later)
        return spawn_background(r, b.sb, &spec, err);
    spec.timeout_ms = COMMAND_MS;
    CAY_TRY(cay_sandbox_run(b.sb, &r->call, &spec, NULL, 0, OUTPUT_MAX, &res, err));
    CAY_AUTOBUF both = CAY__BUF(2 * (size_t)OUTPUT_MAX + 2);
    cay__buf_add(&both, res.out, res.out_len);
    cay__buf_add(&both, res.errout, res.errout_len);
    bool over = !strcmp(res.exit.reason, "time");
    json_t *answer = json_pack("{s:b,s:o,s:s,s:o,s:o,s:i,s:b,s:b}", "success", 1, "output",
                               cay__ss_text(CAY_OR(both.data, ""), both.len), "message",
                               over ? "Command timed out" : "Command executed", "stdout",
                               cay__ss_text(res.out, res.out_len), "stderr",
                               cay__ss_text(res.errout, res.errout_len), "exit_code", res.exit.code,
                               "timed_out", (int)over, "truncated", (int)res.truncated);
    cay_result_clear(&res);
    return cay__reply_json(r, 200, answer);
}

int cay__ss_write(cay__req *r, cay_err *err)
{
    cay__ss_box b;
    const char *path;
    CAY_TRY(begin_path(r, "file_path", &b, &path, err));
    const json_t *content = json_object_get(
        b.body, "content"); /* "" makes an empty file; a NUL inside is a byte like others */
    if (!json_is_string(content))
        return cay_fail_why(err, CAY_EINVAL, content ? "field_invalid" : "field_missing",
                            "content is required, as a string");
    CAY_TRY(cay_file_put(b.sb, &r->call, path, json_string_value(content),
                         json_string_length(content), &in_place, err));
    return cay__ss_done(r, "File written");
}

static int tell_text(cay__req *r, cay_sandbox *sb, const char *path, cay_err *err)
{
    CAY_AUTOFREE char *data = NULL;
    size_t len;
    CAY_TRY(cay_file_get(sb, &r->call, path, TEXT_MAX, &data, &len, err));
    return cay__reply_pack(r, 200, "{s:b,s:o}", "success", 1, "content", cay__ss_text(data, len));
}

int cay__ss_read(cay__req *r, cay_err *err)
{
    cay__ss_box b;
    const char *path;
    CAY_TRY(begin_path(r, "file_path", &b, &path, err));
    return tell_text(r, b.sb, path, err);
}

/* A name that no program reads as more than a name, and the real one for those who know RFC 6266.
 */
static void add_disposition(cay__req *r, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    CAY_AUTOBUF b = CAY__BUF(8192);
    cay__buf_str(&b, "attachment; filename=\"");
    for (const char *p = name; *p; p++)
        cay__buf_add(&b, *p >= 0x20 && *p < 0x7f && *p != '"' && *p != '\\' ? p : "_", 1);
    cay__buf_str(&b, "\"; filename*=UTF-8''");
    for (const unsigned char *p = (const unsigned char *)name; *p; p++)
        cay__buf_fmt(&b,
                     (*p >= '0' && *p <= '9') || ((*p | 32) >= 'a' && (*p | 32) <= 'z') ||
                             strchr("-._~", *p)
                         ? "%c"
                         : "%%%02X",
                     *p);
    if (!b.full)
        cay__reply_field(r, "Content-Disposition", b.data);
}

static int tell_bytes(cay__req *r, cay_sandbox *sb, const char *path, cay_err *err)
{
    int fd;
    CAY_TRY(
        cay_file_open_read(sb, &r->call, path, &(cay_read){ .size = sizeof(cay_read) }, &fd, err));
    add_disposition(r, path);
    return cay__reply_fd(r, 200, "application/octet-stream", fd, -1);
}

int cay__ss_download(cay__req *r, cay_err *err)
{
    cay__ss_box b;
    const char *path, *format;
    CAY_TRY(begin_path(r, "file_path", &b, &path, err));
    CAY_TRY(cay__ss_str(b.body, "format", false, &format, err));
    if (!format || !strcmp(format, "text"))
        return tell_text(r, b.sb, path, err);
    if (!strcmp(format, "bytes"))
        return tell_bytes(r, b.sb, path, err);
    return cay_fail_why(err, CAY_EINVAL, "field_invalid",
                        "format must be text or bytes; for a stream use download-file-stream");
}

int cay__ss_download_stream(cay__req *r, cay_err *err)
{
    cay__ss_box b;
    const char *path;
    CAY_TRY(begin_path(r, "file_path", &b, &path, err));
    return tell_bytes(r, b.sb, path, err);
}

static int copy_in(cay__req *r, cay_sandbox *sb, const char *path, int from, cay_err *err)
{
    CAY_AUTOPTR(cay_upload) up = NULL;
    char *buf = cay__arena_take(&r->arena, 65536);
    ssize_t n;
    CAY_TRY(cay_file_open_write(sb, &r->call, path, &in_place, &up, err));
    while ((n = read(from, buf, 65536)) > 0)
        if (!cay__fd_write_all(cay_upload_fd(up), buf, (size_t)n))
            break;
    if (n != 0)
        return cay_fail_sys(err, "write %.120s", path);
    return cay_upload_commit(CAY_STEAL(up), &r->call, err);
}

static int body_piece(void *arg, void *buf, size_t cap, size_t *n, cay_err *err)
{
    return cay__req_read(arg, buf, cap, n, err);
}

typedef struct form {
    char *id, *path; /* the request's */
    cay__ss_box box;
    int spool; /* the file, when it came before one knew where it goes; or -1 */
    bool connected, placed;
} form;

static int part_to_fd(cay__req *r, cay__multipart *m, int fd, uint64_t max, cay_err *err)
{
    char *buf = cay__arena_take(&r->arena, 65536);
    uint64_t all = 0;
    for (size_t n;;) {
        CAY_TRY(cay__multipart_bytes(m, buf, 65536, &n, err));
        if (!n)
            return 0;
        if ((all += n) > max)
            return cay_fail_why(
                err, CAY_ETOOBIG, "upload_too_big",
                "the file is larger than %llu bytes; send sandbox_id and file_path before it",
                (unsigned long long)max);
        if (!cay__fd_write_all(fd, buf, n))
            return cay_fail_sys(err, "write what is uploaded");
    }
}

static int connect_form(cay__req *r, form *f, cay_err *err)
{
    if (!f->id || !f->path || !*f->path)
        return cay_fail_why(err, CAY_EINVAL, "field_missing", "%s is required",
                            f->id ? "file_path" : "sandbox_id");
    if (!f->connected)
        CAY_TRY(cay__ss_connect(r, f->id, &f->box, err));
    f->connected = true;
    return 0;
}

static int take_file(cay__req *r, cay__multipart *m, form *f, cay_err *err)
{
    CAY_AUTOPTR(cay_upload) up = NULL;
    if (f->placed || f->spool >= 0)
        return cay_fail_why(err, CAY_EINVAL, "field_invalid", "file comes twice");
    if (!f->id || !f->path) { /* clients are free to send it first */
        f->spool = open(cay_client_home(r->client), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (f->spool < 0)
            return cay_fail_sys(err, "a file for what is uploaded");
        return part_to_fd(r, m, f->spool, SPOOL_MAX, err);
    }
    CAY_TRY(connect_form(r, f, err));
    CAY_TRY(cay_file_open_write(f->box.sb, &r->call, f->path, &in_place, &up, err));
    CAY_TRY(part_to_fd(r, m, cay_upload_fd(up), UINT64_MAX, err));
    CAY_TRY(cay_upload_commit(CAY_STEAL(up), &r->call, err));
    f->placed = true;
    return 0;
}

static int take_parts(cay__req *r, cay__multipart *m, form *f, cay_err *err)
{
    cay__form_part part;
    int rc;
    while ((rc = cay__multipart_next(m, &part, err)) == 1) {
        char **field = NULL;
        if (!strcmp(part.name, "sandbox_id"))
            field = &f->id;
        else if (!strcmp(part.name, "file_path"))
            field = &f->path;
        if (field && !*field) {
            CAY_TRY(cay__multipart_text(m, 8192, field, err));
            cay__arena_adopt(&r->arena, *field);
        } else if (!strcmp(part.name, "file")) {
            CAY_TRY(take_file(r, m, f, err));
        }
    }
    return rc;
}

static int finish_form(cay__req *r, form *f, cay_err *err)
{
    CAY_TRY(connect_form(r, f, err));
    if (f->placed)
        return 0;
    if (f->spool < 0)
        return cay_fail_why(err, CAY_EINVAL, "field_missing", "file is required");
    CAY_TRY_SYS(lseek(f->spool, 0, SEEK_SET), err, "read what is uploaded");
    return copy_in(r, f->box.sb, f->path, f->spool, err);
}

int cay__ss_upload(cay__req *r, cay_err *err)
{
    cay__multipart *m;
    form f = { .spool = -1 };
    CAY_TRY(cay__multipart_open(cay__head_field(&r->head, "content-type"), body_piece, r, &m, err));
    int rc = take_parts(r, m, &f, err);
    cay__multipart_close(m);
    if (rc == 0)
        rc = finish_form(r, &f, err);
    cay__close_fd(&f.spool);
    CAY_TRY(rc);
    return cay__ss_done(r, "File uploaded");
}

/* The sandbox's own rules say where redirects may lead; one without rules follows none to another
 * host. */
static const char *rules_of(cay__req *r, cay_sandbox *sb)
{
    char *text = NULL;
    if (cay_sandbox_get_policy(sb, &r->call, &text, NULL, NULL) == 0)
        return cay__arena_adopt(&r->arena, text);
    return NULL;
}

static cay_call limit_deadline(const cay__req *r)
{
    cay_call c = r->call;
    c.deadline_ms = cay__call_within(&c, URL_MS).deadline_ms;
    return c;
}

int cay__ss_upload_url(cay__req *r, cay_err *err)
{
    cay__ss_box b;
    const char *path, *url;
    CAY_AUTOFD fd = -1;
    CAY_TRY(begin_path(r, "file_path", &b, &path, err));
    CAY_TRY(cay__ss_str(b.body, "url", true, &url, err));
    const cay_call call = limit_deadline(r);
    CAY_TRY(cay_url_get(
        r->client, &call,
        &(cay_url){
            .size = sizeof(cay_url), .url = url, .net = rules_of(r, b.sb), .max_bytes = URL_BYTES },
        &fd, NULL, err));
    CAY_TRY(copy_in(r, b.sb, path, fd, err));
    return cay__ss_done(r, "File uploaded from URL");
}

int cay__ss_download_url(cay__req *r, cay_err *err)
{
    cay__ss_box b;
    const char *path, *url;
    cay_stat st = { .size_of = sizeof st };
    CAY_AUTOFD fd = -1;
    CAY_TRY(begin_path(r, "sandbox_path", &b, &path, err));
    CAY_TRY(cay__ss_str(b.body, "presigned_url", true, &url, err));
    CAY_TRY(cay_file_stat(b.sb, &r->call, path, true, &st, err));
    CAY_TRY(cay__file_open(r, b.sb, path, NULL, &st, &fd, err));
    const cay_call call = limit_deadline(r);
    CAY_TRY(cay_url_put(r->client, &call,
                        &(cay_url){ .size = sizeof(cay_url), .url = url, .net = rules_of(r, b.sb) },
                        fd, st.size, err));
    return cay__ss_done(r, "File sent to the presigned URL");
}

int cay__ss_mkdir(cay__req *r, cay_err *err)
{
    cay__ss_box b;
    cay_stat st = { .size_of = sizeof st };
    const char *id = cay__req_query(r, "sandbox_id"), *path = cay__req_query(r, "directory_path");
    if (!id || !path || !*path)
        return cay_fail_why(err, CAY_EINVAL, "field_missing", "%s is required",
                            id ? "directory_path" : "sandbox_id");
    CAY_TRY(cay__ss_connect(r, id, &b, err));
    int rc = cay_file_stat(b.sb, &r->call, path, true, &st, err);
    if (rc == 0 && (st.type != CAY_DIR || !cay__req_flag(r, "exist_ok")))
        return cay_fail_why(err, CAY_EEXIST, "file_exists", "%.150s is there already%s", path,
                            st.type == CAY_DIR ? "" : " and is no directory");
    if (rc < 0 && rc != CAY_ENOENT)
        return rc;
    if (rc < 0)
        CAY_TRY(cay_file_mkdir(b.sb, &r->call, path, 0, true, err));
    return cay__ss_done(r, "Directory created");
}

/* The preview's address, as the client calls this server, with a token that lasts as long as one
 * may. */
static int port_url(cay__req *r, cay_sandbox *sb, uint16_t port, json_t **url, cay_err *err)
{
    cay_exposed e = { .size = sizeof e };
    CAY_TRY(cay_port_expose(sb, port, 7 * 86400000ull, &e, err));
    const char *colon = strrchr(r->head.host, ':');
    if (colon && strchr(colon, ']')) /* of [::1] alone */
        colon = NULL;
    *url =
        json_sprintf("%s://%u-%s.%s%s/?cay_token=%s", cay__scheme(r->tls), port, cay_sandbox_id(sb),
                     cay__server_domain(r->server), CAY_OR(colon, ""), e.token);
    return 0;
}

int cay__ss_expose(cay__req *r, cay_err *err)
{
    json_t *url;
    cay__ss_box b;
    int64_t port;
    CAY_TRY(cay__ss_begin(r, &b, err));
    CAY_TRY(cay__ss_int(b.body, "port", 1, 65535, &port, err));
    CAY_TRY(port_url(r, b.sb, (uint16_t)port, &url, err));
    return cay__reply_pack(r, 200, "{s:b,s:o,s:s}", "success", 1, "url", url, "message",
                           "Port exposed");
}

int cay__ss_urls(cay__req *r, cay_err *err)
{
    cay__ss_box b;
    json_t *mcp, *code;
    CAY_TRY(cay__ss_connect(r, r->param[0], &b, err));
    CAY_TRY(port_url(r, b.sb, MCP_PORT, &mcp, err));
    cay__req_keep(r, mcp);
    CAY_TRY(port_url(r, b.sb, CODE_PORT, &code, err));
    return cay__reply_pack(r, 200, "{s:b,s:s,s:O,s:o}", "success", 1, "sandbox_id", b.id, "mcp_url",
                           mcp, "vscode_url", code);
}
