/* SPDX-License-Identifier: Apache-2.0 */
/* Files of memory in a sandbox, and the record of a run: one JSON line per segment. */
#include "memory.h"
#include <agent/trace.h>
#include <base/mutant.h>
#include <time.h>

void cay__memory_time(char buf[40])
{
    struct timespec ts;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &ts);
    gmtime_r(&ts.tv_sec, &tm);
    size_t n = strftime(buf, 24, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(buf + n, 40 - n, ".%06ldZ", ts.tv_nsec / 1000);
}

static int path_of(const cay__memory_at *at, const char *dir, const char *name, char *buf,
                   size_t cap, cay_err *err)
{
    if ((size_t)snprintf(buf, cap, "%s/%s/%s", at->root, dir, name) < cap)
        return 0;
    return cay_fail(err, CAY_ETOOBIG, "the path of a memory is too long");
}

int cay__memory_read(const cay__memory_at *at, const char *dir, const char *name, char **out,
                     size_t *len, cay_err *err)
{
    char path[4096];
    cay_err own = CAY_ERR_INIT;
    CAY_TRY(path_of(at, dir, name, path, sizeof path, err));
    cay__span *span = cay__span_sandbox(at->run, "memory.read_file");
    int rc = cay_file_get(at->sb, at->call, path, CAY__MEMORY_FILE, out, len, &own);
    cay__span_end(span, CAY_IF(rc < 0 && rc != CAY_ENOENT, &own)); /* many are only looked for */
    return cay__err_pass(rc, &own, err);
}

int cay__memory_write(const cay__memory_at *at, const char *dir, const char *name, const char *text,
                      size_t len, bool append, cay_err *err)
{
    char path[4096];
    cay_write w = { .size = sizeof w, .parents = true, .append = append, .user = at->user };
    cay_err own = CAY_ERR_INIT;
    CAY_TRY(path_of(at, dir, name, path, sizeof path, err));
    cay__span *span =
        cay__span_sandbox(at->run, append ? "memory.append_jsonl" : "memory.write_file");
    int rc = cay_file_put(at->sb, at->call, path, text, len, &w, &own);
    if (rc == CAY_ENOENT && append) { /* the first line makes the file */
        w.append = false;
        rc = cay_file_put(at->sb, at->call, path, text, len, &w, &own);
    }
    return cay__err_pass(cay__span_close(span, rc, &own), &own, err);
}

/* What was said and done; not what frames it. */
static json_t *kept_items(const char *text)
{
    CAY_AUTOJSON *all = json_loads(CAY_OR(text, "[]"), 0, NULL);
    json_t *list = json_array();
    CAY_EACH_ITEM(item, all) {
        const char *type = cay__json_str(item, "type", "message"),
                   *role = cay__json_str(item, "role", "");
        if (strcmp(type, "reasoning") && strcmp(type, "compaction") &&
            strcmp(type, "image_generation_call") && strcmp(role, "system") &&
            strcmp(role, "developer"))
            json_array_append(list, item);
    }
    return list;
}

static int append_line(const cay__memory_at *at, const char *id, const json_t *line, cay_err *err)
{
    char name[160];
    CAY_AUTOFREE char *text = cay__json_plain(line, CAY__MEMORY_FILE - 2);
    if (!text)
        return cay_fail(err, CAY_ETOOBIG, "the record of the run is larger than 16 MiB");
    size_t n = strlen(text);
    text[n] = '\n'; /* cay__json_text() leaves room for its end, which is not needed now */
    CAY_FORMAT(name, "%s.jsonl", id);
    if (at->sb)
        return cay__memory_write(at, at->m->sessions, name, text, n + 1, true, err);
    return cay__memory_keep_record(at, name, text, n + 1, err);
}

int cay__memory_record(const cay__memory_at *at, const cay_rollout *r, cay_err *err)
{
    char when[40];
    cay__memory_time(when);
    CAY_AUTOJSON *waits = kept_items(r->interruptions);
    CAY_AUTOJSON *j = json_pack(
        "{s:s, s:s, s:o, s:o, s:{s:s, s:s?, s:s?, s:b}}", "updated_at", when, "rollout_id", r->id,
        "input", kept_items(r->input), "generated_items", kept_items(r->items), "terminal_metadata",
        "terminal_state", r->state, "exception_type", r->reason, "exception_message", r->message,
        "has_final_output", r->output != NULL);
    if (j && json_array_size(waits))
        json_object_set(j, "interruptions", waits);
    if (j && r->output)
        cay__json_put(j, "final_output", r->output);
    return append_line(at, r->id, j, err);
}

int cay__memory_begin(const cay__memory_at *at, const char *id, cay_err *err)
{
    char when[40];
    cay__memory_time(when);
    CAY_AUTOJSON *j = json_pack("{s:s, s:s, s:[], s:[]}", "updated_at", when, "rollout_id", id,
                                "input", "generated_items");
    return append_line(at, id, j, err);
}

/* A word of ours, whatever the line says: it is written into the heads of memories. */
static const char *state_of(const json_t *line)
{
    static const char *const known[] = { "completed", "interrupted",        "cancelled",
                                         "failed",    "max_turns_exceeded", "guardrail_tripped" };
    const char *said =
        cay__json_str(json_object_get(line, "terminal_metadata"), "terminal_state", NULL);
    for (size_t i = 0; said && i < CAY_LEN(known); i++)
        if (!strcmp(said, known[i]))
            return known[i];
    if (CAY__MUTANT("fuzz-rollout"))
        return said;
    return NULL;
}

void cay__memory_states(const char *jsonl, cay__buf *out, const char **last)
{
    unsigned n = 0;
    *last = "completed";
    for (const char *line = jsonl; *line; line += *line == '\n') {
        size_t len = strcspn(line, "\n");
        CAY_AUTOJSON *j = CAY_IF(len, json_loadb(line, len, 0, NULL));
        const char *state = state_of(j);
        line += len;
        if (!state)
            continue;
        cay__buf_fmt(out, "%s%s", CAY_TEXT_IF(n++, ", "), state);
        *last = state;
    }
    cay__buf_fmt(out, " (%u segment%s, the last one %s)", n, n == 1 ? "" : "s", *last);
}
