/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay-fetch: one HTTP request, by libcurl.
 *
 *     cay-fetch get|head URL MAX  header lines on standard input; the answer as items
 *                                 (proto/item.h) on standard output: notes status, etag,
 *                                 location, failed; the body as a file
 *     cay-fetch put URL [LENGTH]  the body on standard input; header lines on descriptor 3 if there
 *                                 is one; notes as above. LENGTH is for an input that is no file:
 *                                 many servers take no chunks
 *
 * For entries of a manifest it runs in a sandbox that reaches that place alone; for snapshot stores
 * beside the command that was told the URL. Redirects are told, never followed: whoever asked
 * judges where they lead.
 */
#include <proto/item.h>
#include <base/base.h>
#include <base/path.h>
#include <base/fault.h>
#include <curl/curl.h>
#include <signal.h>

#define HEADERS_MAX (64u << 10)
#define NOTE_MAX    4000
#define DEADLINE    1800 /* seconds, and one more for each MiB that may come */

typedef struct fetch {
    CURL *curl;
    cay__items_out out;
    char etag[512], location[NOTE_MAX], type[256];
    uint64_t bytes, max;
    long deadline;    /* seconds; 0: none */
    bool head, began; /* began: the head was told, and the body is under way */
} fetch;

static void put_note(fetch *f, const char *name, const char *text)
{
    cay__item_put(&f->out, &(cay__item){ .type = CAY__ITEM_NOTE,
                                         .path = name,
                                         .extra = text,
                                         .extra_len = strlen(text) });
}

/* The value of "Name: value\r\n", if it is that name's. */
static bool value_of(const char *line, size_t n, const char *name, char *out, size_t cap)
{
    size_t k = strlen(name);
    if (n <= k + 1 || strncasecmp(line, name, k) || line[k] != ':')
        return false;
    for (line += k + 1, n -= k + 1; n && (*line == ' ' || *line == '\t'); line++, n--)
        ;
    while (n && (line[n - 1] == '\r' || line[n - 1] == '\n' || line[n - 1] == ' '))
        n--;
    if (n >= cap)
        n = 0; /* one that does not fit is none */
    memcpy(out, line, n);
    out[n] = 0;
    return true;
}

static size_t on_header(char *line, size_t one, size_t n, void *arg)
{
    fetch *f = arg;
    if (n > 5 && !strncmp(line, "HTTP/", 5)) /* of an interim answer only the last counts */
        f->etag[0] = f->location[0] = f->type[0] = 0;
    if (!value_of(line, n, "etag", f->etag, sizeof f->etag) &&
        !value_of(line, n, "location", f->location, sizeof f->location))
        value_of(line, n, "content-type", f->type, sizeof f->type);
    return one * n;
}

static void begin_body(fetch *f)
{
    char status[16];
    long code = 0;
    if (f->began)
        return;
    f->began = true;
    curl_easy_getinfo(f->curl, CURLINFO_RESPONSE_CODE, &code);
    CAY_FORMAT(status, "%ld", code);
    put_note(f, "status", status);
    put_note(f, "etag", f->etag);
    put_note(f, "location", f->location);
    put_note(f, "type", f->type);
    cay__item_put(
        &f->out,
        &(cay__item){ .type = CAY__ITEM_FILE, .path = "file", .mode = 0644, .size = UINT64_MAX });
}

static size_t on_body(char *data, size_t one, size_t n, void *arg)
{
    fetch *f = arg;
    begin_body(f);
    f->bytes += one * n;
    if (f->bytes > f->max)
        return 0;
    cay__item_data(&f->out, data, one * n);
    CAY_FAULT("fetch.tool.body");
    if (f->out.failed)
        return 0;
    return one * n;
}

/* Lines until the end; anything that is not "Name: value" is left out by curl. */
static struct curl_slist *read_headers(int fd)
{
    static char text[HEADERS_MAX + 1];
    struct curl_slist *list = curl_slist_append(NULL, "Expect:");
    ssize_t n = 0;
    if (fd >= 0)
        n = cay__fd_read_all(fd, text, HEADERS_MAX);
    text[n > 0 ? n : 0] = 0;
    for (char *save = NULL, *l = strtok_r(text, "\n", &save); l; l = strtok_r(NULL, "\n", &save))
        list = curl_slist_append(list, l);
    return list;
}

static int report_result(fetch *f, CURLcode rc, const char *why)
{
    char text[400];
    if (rc == CURLE_OK) {
        begin_body(f);
        cay__item_done(&f->out);
        cay__item_put(&f->out, &(cay__item){ .type = CAY__ITEM_END, .size = f->bytes, .mode = 1 });
    } else if (f->bytes > f->max) {
        cay__item_put(&f->out, &(cay__item){ .type = CAY__ITEM_FAIL,
                                             .target = "archive_limit",
                                             .extra = "too large",
                                             .extra_len = 9 });
    } else {
        CAY_FORMAT(text, "%.300s", why[0] ? why : curl_easy_strerror(rc));
        cay__item_put(&f->out, &(cay__item){ .type = CAY__ITEM_FAIL,
                                             .target = "fetch_failed",
                                             .extra = text,
                                             .extra_len = strlen(text) });
    }
    if (cay__items_flush(&f->out) && rc == CURLE_OK)
        return 0;
    return 1;
}

static void set_up(fetch *f, const char *url, char why[CURL_ERROR_SIZE], struct curl_slist *list)
{
    const char *roots = cay__trust_roots(getenv("CURL_CA_BUNDLE"));
    CURL *c = f->curl;
    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 30L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1000L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, 60L);
    curl_easy_setopt(c, CURLOPT_BUFFERSIZE, 256L << 10);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, f);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, f);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "cay/" CAY_VERSION);
    if (roots)
        curl_easy_setopt(c, CURLOPT_CAINFO, roots);
    if (f->head)
        curl_easy_setopt(c, CURLOPT_NOBODY, 1L);
    if (f->deadline)
        curl_easy_setopt(c, CURLOPT_TIMEOUT, f->deadline);
}

int main(int argc, char **argv)
{
    fetch f = { .max = 1 << 20 };
    char why[CURL_ERROR_SIZE] = "";
    uint64_t length = UINT64_MAX;
    bool put = (argc == 3 || argc == 4) && !strcmp(argv[1], "put");
    f.head = argc == 4 && !strcmp(argv[1], "head");
    if (!put && !f.head && !(argc == 4 && !strcmp(argv[1], "get"))) {
        fputs("usage: cay-fetch get|head URL MAX, or cay-fetch put URL [LENGTH]\n", stderr);
        return 2;
    }
    if (argc == 4 && !cay__str_to_u64(argv[3], put ? &length : &f.max))
        return 2;
    if (!put) /* a server that sends a little now and then holds nobody for ever */
        f.deadline = DEADLINE + (f.head ? 0 : (long)CAY_MIN(f.max >> 20, 1u << 20));
    signal(SIGPIPE, SIG_IGN);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) || !(f.curl = curl_easy_init()))
        return 1;
    cay__items_start(&f.out, 1);
    struct stat st;
    int headers = 0;
    if (put)
        headers = fstat(3, &st) == 0 ? 3 : -1;
    struct curl_slist *list = read_headers(headers);
    set_up(&f, argv[2], why, list);
    if (put) {
        curl_easy_setopt(f.curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(f.curl, CURLOPT_READDATA, stdin);
        if (length != UINT64_MAX)
            curl_easy_setopt(f.curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)length);
        else if (fstat(0, &st) == 0 && S_ISREG(st.st_mode))
            curl_easy_setopt(f.curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)st.st_size);
    }
    CAY_FAULT("fetch.tool.ask");
    CURLcode done = curl_easy_perform(f.curl);
    CAY_FAULT("fetch.tool.done");
    int rc = report_result(&f, done, why);
    curl_easy_cleanup(f.curl);
    curl_slist_free_all(list);
    curl_global_cleanup();
    cay__items_stop(&f.out);
    return rc;
}
