/* SPDX-License-Identifier: Apache-2.0 */
#include "frame.h"
#include <base/base.h>

#define RS 036

typedef struct sink {
    int (*fn)(const char *data, size_t len, void *arg);
    void *arg;
    int rc;
} sink;

void cay__frame_expect(cay__frame *f, const char *nonce)
{
    CAY_COPY(f->nonce, nonce);
    f->begun = f->done = false;
    f->code = 0;
}

static void deliver_output(cay__frame *f, sink *s, const char *data, size_t len)
{
    bool ours = f->nonce[0] && !f->done && !strcmp(f->open, f->nonce);
    if (len && ours && s->fn && !s->rc)
        s->rc = s->fn(data, len, s->arg);
}

/* Can c stand at this place of a mark? */
static bool is_mark_char(size_t at, char c)
{
    static const char begin[] = "?cay"; /* after RS */
    if (at < sizeof begin - 1)
        return c == begin[at];
    if (at == sizeof begin - 1)
        return c == '<' || c == '>';
    return at < CAY__FRAME_MARK - 1 &&
           ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == ' ');
}

/* "<NONCE" or ">NONCE CODE KIND" */
static bool take_mark(cay__frame *f, char *text)
{
    char *nonce = text + 1, *code = strchr(nonce, ' '), *kind = code ? strchr(code + 1, ' ') : NULL;
    uint64_t n = 0;
    if (*text == '<' ? code != NULL : !kind || !kind[1] || kind[2])
        return false;
    if (code)
        *code++ = *kind++ = 0;
    if (strlen(nonce) >= CAY__NONCE || !*nonce || (code && (!cay__str_to_u64(code, &n) || n > 255)))
        return false;
    bool ours = f->nonce[0] && !strcmp(nonce, f->nonce);
    if (!ours && f->open[0] &&
        !strcmp(
            f->open,
            f->nonce)) /* the shell has nothing else to tell meanwhile: the command printed it */
        return false;
    f->any = true;
    if (*text == '<') {
        CAY_COPY(f->open, nonce);
        f->begun |= ours;
        return true;
    }
    f->kind = *kind;
    if (ours || !strcmp(nonce, f->open)) /* another's may be told twice */
        f->open[0] = 0;
    if (ours && !f->done) {
        f->begun = f->done = true;
        f->code = (int)n;
    }
    return true;
}

int cay__frame_feed(cay__frame *f, const char *data, size_t len,
                    int (*fn)(const char *data, size_t len, void *arg), void *arg)
{
    sink s = { .fn = fn, .arg = arg };
    for (size_t at = 0; at < len;) {
        if (!f->held) {
            const char *rs = memchr(data + at, RS, len - at);
            size_t n;
            if (rs)
                n = (size_t)(rs - data) - at;
            else
                n = len - at;
            deliver_output(f, &s, data + at, n);
            at += n;
            if (rs) {
                f->hold[f->held++] = RS;
                at++;
            }
            continue;
        }
        char c = data[at];
        if (c != RS && is_mark_char(f->held, c)) {
            f->hold[f->held++] = c;
            at++;
            continue;
        }
        char text[CAY__FRAME_MARK];
        memcpy(text, f->hold, f->held);
        text[f->held] = 0;
        /* Either a mark, which takes its second RS along, or output like any other; c may begin the
         * next. */
        if (c == RS && f->held > 4 && take_mark(f, text + 4))
            at++;
        else
            deliver_output(f, &s, f->hold, f->held);
        f->held = 0;
    }
    return s.rc;
}
