/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Cloudflare sandbox bridge, as the OpenAI Agents SDK speaks it: /v1/sandbox.
 * docs/wire/cloudflare.md tells what is answered.
 */
#pragma once
#include <server/dialect/dialect.h>

#define CF_ROOT     "/workspace"
#define CF_BODY_MAX ((uint64_t)32 << 20)

/* A file's path as the route has it, without its leading slash: absolute, clean, and in the
 * workspace; else CAY_EPERM. */
int cf_path(cay__req *r, const char *given, const char **out, cay_err *err);
/* exec.c: output as events. Clients decode each by itself, so a character comes whole. */
typedef struct cf_stream {
    const char *name; /* "stdout" */
    char carry[4];    /* the beginning of a character whose rest has not come */
    size_t n;
} cf_stream;
#define CF_STREAMS                                                                                 \
    {                                                                                              \
        { .name = "stdout" },                                                                      \
        {                                                                                          \
            .name = "stderr"                                                                       \
        }                                                                                          \
    }
void cf_tell(cay__buf *out, cf_stream *s, const void *data, size_t len); /* len 0: it is over */
void cf_tell_exit(cay__buf *out, const cay_exit *e);
void cf_tell_error(cay__buf *out, const char *code, const char *msg);
/* session.c */
#define CF_SESSION_NAME 33
int cf_session_name(const char *id, char name[CF_SESSION_NAME],
                    cay_err *err); /* of the shell, or of the terminal */
cay__handler cf_session, cf_session_end;
int cf_session_exec(cay__req *r, const char *session, const cay_spawn *s, cay_err *err);
/* exec.c, pty.c */
cay__handler cf_exec, cf_pty;
cay__handler cf_ok;                                 /* {"ok":true} */
int cf_as(int rc, cay_reason reason, cay_err *err); /* faults of ours are the route's own word; what
                                                      the request did wrong stays what it is */
/* mount.c */
cay__handler cf_mount, cf_unmount;
