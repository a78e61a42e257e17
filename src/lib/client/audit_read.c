/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the audit log, and proving it. */
#include "remote.h"
#include "audit.h"
#include <base/json.h>
#include <inttypes.h>

#define HASH_PART ",\"hash\":\"" /* what a line ends with: this, the hash, "} */
#define END_LEN   (sizeof HASH_PART - 1 + 64 + 2)

void cay__audit_name(unsigned number, char out[CAY__AUDIT_NAME])
{
    snprintf(out, CAY__AUDIT_NAME, "%08u.jsonl", number);
}

int cay__audit_dir(cay_client *client, bool make, int *out, cay_err *err)
{
    if (make && mkdirat(client->home_fd, CAY__AUDIT_DIR, 0700) < 0 && errno != EEXIST)
        return cay_fail_sys(err, "make the directory of the audit log");
    int fd =
        openat(client->home_fd, CAY__AUDIT_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return cay_fail_sys(err, "open the directory of the audit log");
    *out = fd;
    return 0;
}

int cay__audit_files(int dir, unsigned *first, unsigned *last, cay_err *err)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = NULL;
    if (fd >= 0)
        d = fdopendir(fd);
    if (!d) {
        cay__close_fd(&fd);
        return cay_fail_sys(err, "list the audit log");
    }
    *first = *last = 0;
    for (struct dirent *e; (e = readdir(d));) {
        unsigned n;
        char name[CAY__AUDIT_NAME];
        if (sscanf(e->d_name, "%8u", &n) != 1 || !n)
            continue;
        cay__audit_name(n, name);
        if (strcmp(name, e->d_name) != 0)
            continue;
        if (!*first || n < *first)
            *first = n;
        *last = CAY_MAX(*last, n);
    }
    closedir(d);
    return 0;
}

void cay__audit_line_clear(cay__audit_line *l)
{
    json_decref(l->j);
    l->j = NULL;
    cay__arena_clear(&l->mem);
}

bool cay__audit_read(const char *text, size_t len, cay__audit_line *l)
{
    char hash[CAY__SHA256_HEX];
    if (len < END_LEN || len > CAY__AUDIT_LINE ||
        memcmp(text + len - END_LEN, HASH_PART, sizeof HASH_PART - 1) != 0 || memchr(text, 0, len))
        return false;
    cay__sha256_hex(text, len - END_LEN, hash);
    if (memcmp(hash, text + len - 66, 64) != 0)
        return false;
    CAY_AUTOFREE char *copy = strndup(text, len);
    if (!copy || cay__json_object("", copy, &l->j, NULL) < 0)
        return false;
    if (cay__shape_read(&l->mem, l->j, &cay__audit_shape, CAY__F_OUT, &l->a, NULL) < 0)
        return false;
    l->a.hash = l->hash;
    CAY_COPY(l->hash, hash);
    return CAY_COPY(l->prev, cay__json_str(l->j, "prev", "")) && strlen(l->prev) == 64;
}

typedef struct walk {
    unsigned file;
    size_t line;
    bool ended; /* by a newline */
    /* A line as it is, sound or not; non-zero stops. */
    int (*fn)(struct walk *w, const char *text, size_t len, void *arg);
    void *arg;
} walk;

static int walk_file(int dir, walk *w, cay_err *err)
{
    char name[CAY__AUDIT_NAME], *text = NULL;
    size_t cap = 0;
    ssize_t n;
    int rc = 0;
    cay__audit_name(w->file, name);
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    FILE *f = NULL;
    if (fd >= 0)
        f = fdopen(fd, "r");
    if (!f) {
        int e = errno;
        cay__close_fd(&fd);
        errno = e;
        if (e == ENOENT)
            return 0;
        return cay_fail_sys(err, "read the audit log");
    }
    for (w->line = 1; rc == 0 && (n = getline(&text, &cap, f)) > 0; w->line++) {
        w->ended = text[n - 1] == '\n';
        rc = w->fn(w, text, (size_t)n - w->ended, w->arg);
    }
    free(text);
    fclose(f);
    return rc;
}

static int walk_all(cay_client *client, walk *w, cay_err *err)
{
    unsigned first, last;
    CAY_AUTOFD dir = -1;
    cay_err none = CAY_ERR_INIT;
    if (cay__audit_dir(client, false, &dir, &none) < 0) {
        if (none.sys == ENOENT)
            return 0; /* nothing was ever done */
        if (err)
            *err = none;
        return none.code;
    }
    CAY_TRY(cay__audit_files(dir, &first, &last, err));
    for (w->file = first; w->file && w->file <= last; w->file++) {
        int rc = walk_file(dir, w, err);
        if (rc)
            return rc;
    }
    return 0;
}

typedef struct lister {
    const cay_audit_filter *f;
    cay_audit_fn *fn;
    void *arg;
    size_t matched, skip;
} lister;

static bool matches_filter(const cay_audit_filter *f, const cay_audit *a)
{
    return (!f->tenant || !strcmp(f->tenant, a->tenant)) &&
           (!f->object || !strcmp(f->object, a->object)) &&
           (!f->action || cay__str_starts(a->action, f->action)) && a->time_ms >= f->since_ms;
}

static int list_line(walk *w, const char *text, size_t len, void *arg)
{
    lister *l = arg;
    cay__audit_line line = { 0 };
    int rc = 0;
    if (cay__audit_read(text, len, &line) && matches_filter(l->f, &line.a) &&
        l->matched++ >= l->skip && l->fn)
        rc = l->fn(&line.a, l->arg);
    cay__audit_line_clear(&line);
    return rc;
}

int cay_audit_list(cay_client *client, const cay_audit_filter *given, cay_audit_fn *fn, void *arg,
                   cay_err *err)
{
    cay_audit_filter f;
    CAY_TRY(cay__spec_take(&f, sizeof f, given, "cay_audit_filter", err));
    if (client->remote) {
        f.last = CAY_MIN(CAY_OR(f.last, (size_t)10000), (size_t)10000);
        return CAY__REMOTE_EACH(cay_audit, client->remote, NULL,
                                CAY__REQUEST(audit_list, .query = &f), fn, arg, err);
    }
    lister l = { .f = &f };
    if (f.last) { /* counted first, so that memory stays the same however long it is */
        CAY_TRY(walk_all(client, &(walk){ .fn = list_line, .arg = &l }, err));
        if (l.matched > f.last)
            l.skip = l.matched - f.last;
        else
            l.skip = 0;
    }
    l.matched = 0;
    l.fn = fn;
    l.arg = arg;
    return walk_all(client, &(walk){ .fn = list_line, .arg = &l }, err);
}

typedef struct prover {
    cay_audit_proof *p;
    uint64_t want_seq; /* of an earlier head; 0: none */
    const char *want;
    bool met, began;
    uint64_t torn; /* since the last sound line */
} prover;

static int report_bad_line(prover *v, const walk *w, const char *what)
{
    CAY_FORMAT(v->p->why, "%08u.jsonl, line %zu: %s", w->file, w->line, what);
    return 1;
}

static int prove_line(walk *w, const char *text, size_t len, void *arg)
{
    prover *v = arg;
    cay_audit_proof *p = v->p;
    __attribute__((cleanup(cay__audit_line_clear))) cay__audit_line l = { 0 };
    if (!len)
        return 0; /* ends a line that a crash cut */
    if (!cay__audit_read(text, len, &l)) {
        v->torn++; /* harmless when the next one goes on where the last sound one ended */
        return 0;
    }
    if (!v->began && l.a.seq == 1 && strcmp(l.prev, CAY__AUDIT_ZERO) != 0)
        return report_bad_line(v, w, "the first line follows another one");
    if (v->began && (strcmp(l.prev, p->head) != 0 || l.a.seq != p->last + 1))
        return report_bad_line(v, w,
                               v->torn
                                   ? "the line before was changed"
                                   : "lines are missing, were put in or changed places before it");
    if (v->began || l.a.seq == 1)
        p->torn += v->torn;
    else if (v->torn)
        return report_bad_line(v, w, "the line before was changed");
    v->torn = 0;
    if (!v->began)
        p->first = l.a.seq;
    v->began = true;
    p->last = l.a.seq;
    CAY_COPY(p->head, l.hash);
    if (!strcmp(l.a.action, "audit.dropped"))
        p->dropped += (uint64_t)cay__json_int(l.j, "count", 0);
    if (v->want_seq == l.a.seq) {
        v->met = true;
        if (strcmp(v->want, l.hash) != 0)
            return report_bad_line(v, w, "it is not the line that the head given was taken from");
    }
    return 0;
}

static int take_head(const char *head, prover *v, cay_err *err)
{
    char number[24];
    size_t n = 0;
    if (head)
        n = strcspn(head, ":");
    if (!head)
        return 0;
    if (n && n < sizeof number && head[n] == ':' && strlen(head + n + 1) == 64) {
        memcpy(number, head, n);
        number[n] = 0;
        v->want = head + n + 1;
        if (cay__str_to_u64(number, &v->want_seq) && v->want_seq)
            return 0;
    }
    return cay_fail_why(err, CAY_EINVAL, "audit_head",
                        "a head is SEQ:HASH, as an earlier proof told it");
}

static int verify_remote(const cay__remote *r, const char *head, cay_audit_proof *out, cay_err *err)
{
    cay__audit_proof_told told = { .sound = false };
    CAY_TRY(cay__remote_get(r, NULL, &CAY__REQUEST(audit_proof, .query = &head), NULL, &told, err));
    told.p.size = sizeof told.p;
    cay__answer_give(out, &told.p, sizeof told.p);
    if (told.sound)
        return 0;
    return cay_fail_why(err, CAY_ESTATE, "audit_broken", "%s",
                        cay__text_or(told.p.why, "the audit log is not as it was"));
}

int cay_audit_verify(cay_client *client, const char *head, cay_audit_proof *out, cay_err *err)
{
    if (client->remote)
        return verify_remote(client->remote, head, out, err);
    cay_audit_proof p = { .size = sizeof p };
    prover v = { .p = &p };
    CAY_TRY(take_head(head, &v, err));
    walk w = { .fn = prove_line, .arg = &v };
    int rc = walk_all(client, &w, err);
    p.torn += v.torn;
    bool cut = rc == 0 && v.want_seq && !v.met && (v.want_seq > p.last || !p.first);
    if (rc == 0 && v.torn && w.ended) { /* a crash cuts a line before its end */
        CAY_FORMAT(p.why, "the last line was changed");
        rc = 1;
    } else if (cut) {
        CAY_FORMAT(p.why,
                   "line %" PRIu64 " of the head given is missing: lines were taken from the end",
                   v.want_seq);
        rc = 1;
    }
    cay__answer_give(out, &p, sizeof p);
    if (rc > 0)
        return cay_fail_why(err, CAY_ESTATE, "audit_broken", "the audit log was changed: %s",
                            p.why);
    return rc;
}
