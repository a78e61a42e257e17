/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/provider/docker/engine.h - ask a container engine over its socket or TCP: Docker since 20.10,
 * Podman's compatible service.
 *
 *   cay__engine_open()   where it is; asks nothing
 *   cay__engine_meet()   its version and what it gives, once
 *   cay__engine_ask()    JSON both ways
 *   cay__engine_lines()  an answer of one JSON object after another
 *
 * For many threads at once. What goes wrong is told with its remedy: errors.c has the table.
 */
#pragma once
#include <base/json.h>

typedef struct cay__engine cay__engine;

/* What an engine is and gives, as it says itself. */
typedef struct cay__engine_info {
    char name[32], version[32], api[12], arch[24], driver[32], backing[32];
    bool podman, rootless, userns, seccomp, apparmor, selinux;
    bool memory, cpu, pids;
} cay__engine_info;

/* where.c. url: "unix:///PATH", "/PATH" or "tcp://HOST[:PORT]", by TLS where DOCKER_TLS_VERIFY or
 * DOCKER_CERT_PATH say so. CAY_ENOTSUP "engine_ssh"; CAY_EPERM "engine_plain" for plain bytes to
 * another machine; CAY_EINVAL "engine_certs", "url_invalid". */
typedef struct cay__engine_where {
    char url[128];   /* for net/client.h */
    char path[112];  /* the socket, or the URL as it was given */
    char certs[512]; /* see net/dial.h */
    bool tcp, far;   /* far: not the loopback */
} cay__engine_where;
int cay__engine_find(const char *url, cay__engine_where *out, cay_err *err);

/* url: as of cay__engine_find(). */
int cay__engine_open(const char *url, cay__engine **out, cay_err *err);
void cay__engine_close(cay__engine *e);
const char *cay__engine_path(const cay__engine *e);
/* CAY_EUPSTREAM "engine_absent", "engine_down", "engine_old", "engine_tls"; CAY_EPERM
 * "engine_denied". The answer lives as long as e. */
int cay__engine_meet(cay__engine *e, const cay_call *call, const cay__engine_info **out,
                     cay_err *err);

/* path: below the version, encoded, with its query. body (taken) and out may be NULL. Any status
 * but 2xx and 304 is an error. */
int cay__engine_ask(cay__engine *e, const cay_call *call, const char *method, const char *path,
                    json_t *body, json_t **out, cay_err *err);

/* fields: lines of the head, each with its CR LF, or NULL. body_fd -1: none, else body_len bytes of
 * it, a tar. fn: non-zero stops and is returned. */
typedef int cay__engine_line(const json_t *line, void *arg, cay_err *err);
int cay__engine_lines(cay__engine *e, const cay_call *call, const char *path, const char *fields,
                      int body_fd, uint64_t body_len, cay__engine_line *fn, void *arg,
                      cay_err *err);

/* len bytes of fd, a tar, and an answer of bytes. */
int cay__engine_put(cay__engine *e, const cay_call *call, const char *path, int fd, uint64_t len,
                    cay_err *err);
int cay__engine_get(cay__engine *e, const cay_call *call, const char *path, cay__buf *out,
                    cay_err *err);
/* A POST after which the connection carries plain bytes; body is taken. */
int cay__engine_upgrade(cay__engine *e, const cay_call *call, const char *path, json_t *body,
                        int *fd, cay_err *err);
bool cay__engine_far(const cay__engine *e); /* on another machine, for all that its address tells */

/* Adds value with all that is not plain as %XX. */
void cay__engine_encode(cay__buf *path, const char *value);
/* The engine's words about a failure as one of ours: status of the answer, its message. errors.c */
int cay__engine_error(int status, const char *said, cay_err *err);
