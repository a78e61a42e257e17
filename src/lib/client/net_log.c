/* SPDX-License-Identifier: Apache-2.0 */
/* The audit records that egress writes: lines of JSON, read as they are. A line that is no object
 * is passed over. */
#include "remote.h"
#include "net.h"
#include <base/json.h>
#include <cay/policy.h>

#define LINE_MOST 8192

cay_net_record cay__net_record_of(const json_t *o, const char *line)
{
    return (cay_net_record){
        .size = sizeof(cay_net_record),
        .json = line,
        .time_ms = cay__json_int(o, "t", 0),
        .event = cay__json_str(o, "event", ""),
        .verdict = cay__json_str(o, "verdict", ""),
        .reason = cay__json_str(o, "reason", ""),
        .name = cay__json_str(o, "name", ""),
        .address = cay__json_str(o, "addr", ""),
        .proto = cay__json_str(o, "proto", ""),
        .rule = cay__json_str(o, "rule", ""),
        .seen = cay__json_str(o, "seen", ""),
        .port = (uint16_t)cay__json_int(o, "port", 0),
        .flow = (uint64_t)cay__json_int(o, "flow", 0),
        .up = (uint64_t)cay__json_int(o, "up", 0),
        .down = (uint64_t)cay__json_int(o, "down", 0),
        .ms = (uint64_t)cay__json_int(o, "ms", 0),
        .count = (uint64_t)cay__json_int(o, "count", 0),
        .exec = cay__json_str(o, "exec", ""),
        .execs = (unsigned)cay__json_int(o, "execs", 0),
        .secret = cay__json_str(o, "secret", ""),
    };
}

static int report_line(const cay__execs *ran, char *line, cay_net_record_fn *fn, void *arg)
{
    CAY_AUTOJSON *o = NULL;
    CAY_AUTOBUF with = CAY__BUF(LINE_MOST + 64);
    if (cay__json_object("record", line, &o, NULL) < 0)
        return 0;
    cay_net_record r = cay__net_record_of(o, line);
    cay__execs_link(ran, o, &r, line, &with);
    return fn(&r, arg);
}

static int read_file(int dir, const char *name, const cay__execs *ran, cay_net_record_fn *fn,
                     void *arg)
{
    CAY_AUTOFD fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    FILE *f = NULL;
    if (fd >= 0)
        f = fdopen(fd, "r");
    int rc = 0;
    char line[LINE_MOST];
    if (!f)
        return 0;
    CAY_STEAL_FD(fd);
    while (rc == 0 && fgets(line, sizeof line, f)) {
        size_t n = strlen(line);
        if (!n || line[n - 1] != '\n') /* still being written, or too long to be ours */
            continue;
        line[n - 1] = '\0';
        rc = report_line(ran, line, fn, arg);
    }
    fclose(f);
    return rc;
}

int cay_net_log(cay_sandbox *sb, cay_net_record_fn *fn, void *arg, cay_err *err)
{
    if (cay__remote_of(sb))
        return cay__remote_net_log(sb, fn, arg, err);
    cay_client *client = sb->owner;
    char name[CAY_ID_LEN + 16];
    if (!client)
        return cay__no_such_op(sb, "network log", err);
    CAY_AUTOFD dir = openat(client->home_fd, CAY__NET_LOG_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        if (errno == ENOENT)
            return 0;
        return cay_fail_sys(err, "open the audit records");
    }
    __attribute__((cleanup(cay__execs_clear))) cay__execs ran = { 0 };
    cay__execs_read(sb, &ran);
    CAY_JOIN(name, sb->id, ".jsonl.1");
    CAY_TRY(read_file(dir, name, &ran, fn, arg));
    CAY_JOIN(name, sb->id, ".jsonl");
    return read_file(dir, name, &ran, fn, arg);
}
