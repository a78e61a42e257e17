/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One record per decision, and one at the end of each flow: a line of JSON in ID.jsonl of the audit
 * directory.
 *
 * Each sandbox has its own file, so that a noisy one cannot push out what another did: at most
 * LOG_RATE records a second, the rest counted; at most two files of LOG_MAX bytes. What is left of
 * a sandbox that is gone moves to past.jsonl. Names come from inside and are escaped. No path,
 * query or header is ever written.
 */
#include "egress.h"

const char *proto_name(unsigned proto)
{
    if (proto == CAY__NET_TLS)
        return "tls";
    if (proto == CAY__NET_HTTP)
        return "http";
    return "tcp";
}

static void file_name(const egress_box *b, const char *end, char out[64])
{
    cay__str_join(out, 64, b->id, end, NULL);
}

static bool log_open(egress_box *b)
{
    struct stat st;
    char name[64];
    if (b->log_fd >= 0)
        return true;
    file_name(b, ".jsonl", name);
    b->log_fd =
        openat(b->e->audit_dir, name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (b->log_fd < 0)
        return false;
    b->e->fds++;
    if (fstat(b->log_fd, &st) == 0)
        b->log_size = (uint64_t)st.st_size;
    else
        b->log_size = 0;
    return true;
}

static void log_shut(egress_box *b)
{
    sock_close(b->e, NULL, b->log_fd);
    b->log_fd = -1;
}

void audit_flush(egress *e)
{
    egress_box *b = e->log_box;
    char name[64], old[64];
    if (!b || !e->log_len)
        return;
    size_t len = e->log_len;
    e->log_box = NULL;
    e->log_len = 0;
    if (!log_open(b))
        return;
    if (b->log_size + len > LOG_MAX) {
        file_name(b, ".jsonl", name);
        file_name(b, ".jsonl.1", old);
        log_shut(b);
        renameat(e->audit_dir, name, e->audit_dir, old);
        if (!log_open(b))
            return;
    }
    /* A disk that is full costs records, never flows. */
    if (write(b->log_fd, e->log, len) == (ssize_t)len)
        b->log_size += len;
    else
        log_shut(b);
}

static void buffer_line(egress_box *b, const char *line, size_t len)
{
    egress *e = b->e;
    if (e->log_box != b || e->log_len + len > sizeof e->log)
        audit_flush(e);
    if (len > sizeof e->log)
        return;
    e->log_box = b;
    memcpy(e->log + e->log_len, line, len);
    e->log_len += len;
}

/* False: one too many in this second. */
static bool within_rate(egress_box *b)
{
    char line[160];
    uint32_t now = (uint32_t)(cay__boot_ms() / 1000);
    if (now != b->log_second) {
        b->log_second = now;
        b->log_count = 0;
        if (b->log_lost) {
            CAY_AUTOBUF l = CAY__BUF(sizeof line);
            cay__buf_fmt(&l, "{\"t\":%lld,\"box\":\"%s\",\"event\":\"lost\",\"count\":%u}\n",
                         (long long)cay__clock_ms(), b->id, b->log_lost);
            buffer_line(b, l.data, l.len);
            b->log_lost = 0;
        }
    }
    if (b->log_count++ < LOG_RATE)
        return true;
    b->log_lost++;
    return false;
}

static void write_field(cay__buf *l, const char *key, const char *value)
{
    if (!value || !*value)
        return;
    cay__buf_fmt(l, ",\"%s\":", key);
    cay__buf_json(l, value, strlen(value));
}

void audit(egress_box *b, const record *r)
{
    CAY_AUTOBUF l = CAY__BUF(4096);
    char addr[CAY__ADDR_MAX], rule[CAY__RULE_MAX];
    if (!within_rate(b))
        return;
    cay__buf_fmt(&l, "{\"t\":%lld,\"box\":\"%s\",\"event\":\"%s\",\"verdict\":\"%s\"",
                 (long long)cay__clock_ms(), b->id, r->event, r->verdict);
    write_field(&l, "reason", r->reason);
    if (r->flow)
        cay__buf_fmt(&l, ",\"flow\":%llu", (unsigned long long)r->flow);
    write_field(&l, "name", r->name);
    if (r->addr) {
        cay__addr_text(r->addr, addr);
        write_field(&l, "addr", addr);
    }
    if (r->port)
        cay__buf_fmt(&l, ",\"port\":%u", r->port);
    if (r->proto)
        write_field(&l, "proto", proto_name(r->proto));
    write_field(&l, "seen", r->seen);
    if (r->secret)
        write_field(&l, "secret", r->secret);
    if (r->rule && cay__rule_text(r->rule, rule, sizeof rule) > 0)
        write_field(&l, "rule", rule);
    if (r->end && !r->uncounted)
        cay__buf_fmt(&l, ",\"up\":%llu,\"down\":%llu", (unsigned long long)r->up,
                     (unsigned long long)r->down);
    if (r->end)
        cay__buf_fmt(&l, ",\"ms\":%lld", (long long)r->ms);
    else if (r->flow && r->ms > 0) /* the verdict came so long after the program had asked */
        cay__buf_fmt(&l, ",\"after\":%lld", (long long)r->ms);
    if (!strcmp(r->event, "policy"))
        cay__buf_fmt(&l, ",\"revision\":%llu", (unsigned long long)b->revision);
    cay__buf_str(&l, "}\n");
    if (!l.full)
        buffer_line(b, l.data, l.len);
}

static void append_file(egress *e, int to, const char *name)
{
    CAY_AUTOFD from = openat(e->audit_dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    for (ssize_t n; from >= 0 && (n = read(from, e->buffer, sizeof e->buffer)) > 0;)
        if (to < 0 || write(to, e->buffer, (size_t)n) != n)
            break;
    unlinkat(e->audit_dir, name, 0);
}

void audit_close(egress_box *b)
{
    egress *e = b->e;
    struct stat st;
    char name[64], old[64];
    if (e->log_box == b)
        audit_flush(e);
    if (e->log_box == b)
        e->log_box = NULL;
    log_shut(b);
    if (fstatat(e->audit_dir, "past.jsonl", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > PAST_MAX)
        renameat(e->audit_dir, "past.jsonl", e->audit_dir, "past.jsonl.1");
    CAY_AUTOFD past = openat(e->audit_dir, "past.jsonl",
                             O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
    file_name(b, ".jsonl.1", old);
    append_file(e, past, old);
    file_name(b, ".jsonl", name);
    append_file(e, past, name);
}
