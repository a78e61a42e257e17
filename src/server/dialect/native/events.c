/* SPDX-License-Identifier: Apache-2.0 */
/* What happens, as it happens. */
#include "native.h"
#include <base/base.h>
#include <server/events.h>

enum { KINDS = 12 };

static int listen_to(cay__req *r, const char *sandbox, cay_err *err)
{
    const char *kinds[KINDS + 1] = { 0 }, *kind;
    const char *after = cay__head_field(&r->head, "last-event-id");
    cay__listen_spec spec = { .sandbox = sandbox,
                              .after = CAY_OR(after, cay__req_query(r, "after")) };
    for (size_t i = 0; (kind = cay__native_query_nth(r, "kind", i)); i++) {
        if (i == KINDS)
            return cay_fail_why(err, CAY_EINVAL, "bad_query", "?kind= comes at most %d times",
                                KINDS);
        kinds[i] = kind;
    }
    if (*kinds)
        spec.kinds = kinds;
    return cay__events_reply(r, &spec, err);
}

static const cay__query events_query[] = {
    { "after", "string",
      "go on behind this id; the header Last-Event-ID does the same. 0: first all that is kept, "
      "then an event `now`" },
    { "kind", "string",
      "only such: `progress` tells how far a manifest is (key: the Idempotency-Key of its request; "
      "entries, entries_total, bytes, bytes_total)",
      .many = true },
    { 0 },
};
const cay__doc cay__doc_event_stream = {
    "streamEvents", "events", "what happens to all sandboxes", .query = events_query,
    .answers = { { 200, .type = "text/event-stream" }, { 400 } }
};
int cay__on_event_stream(cay__req *r, cay_err *err)
{
    return listen_to(r, NULL, err);
}

const cay__doc cay__doc_sandbox_events = {
    "streamSandboxEvents", "events", "what happens to one", .query = events_query,
    .answers = { { 200, .type = "text/event-stream" }, { 400 }, { 404 } }
};
int cay__on_sandbox_events(cay__req *r, cay_err *err)
{
    cay_sandbox *sb;
    CAY_TRY(cay__native_sandbox(r, &sb, err));
    return listen_to(r, cay_sandbox_id(sb), err);
}
