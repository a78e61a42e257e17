/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/client/secret.h - secrets on their way from a source to whoever puts them into requests. A
 * value is wiped as soon as it is handed on, and stands in no message.
 */
#pragma once
#include "client.h"
#include <sys/mman.h>

#define CAY__SECRETS_CONF "secrets.conf" /* the operator's commands, in the state directory */
#define CAY__NOTE_SECRET  "secret"
#define cay__memfd(name)  memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING)

typedef struct cay__value {
    char *data; /* malloc(), `len` bytes */
    size_t len;
} cay__value;
void cay__value_wipe(cay__value *v);

/* "env:…", "file:…", "cmd:…", "store:…", "fill:…". */
int cay__secret_source_check(const char *name, const char *source, cay_err *err);
int cay__secret_read(cay_client *client, const char *name, const char *source, cay__value *out,
                     cay_err *err);
/* One of several that are read at once; left out without a source. */
typedef struct cay__want {
    const char *name, *source;
    cay__value value;
} cay__want;
/* Commands run beside each other, after all else was read. The first source that fails is told and
 * ends the others; no value is left then. */
int cay__secret_read_all(cay_client *client, cay__want *w, size_t n, cay_err *err);
int cay__secret_open(cay_client *client, const char *name, cay__value *out,
                     cay_err *err); /* of the store */
/* Below any space of notes: what "store:" does not reach. open: CAY_ENOENT when there is none. */
int cay__vault_put(cay_client *client, const char *space, const char *name, const void *value,
                   size_t len, cay_err *err);
int cay__vault_open(cay_client *client, const char *space, const char *name, cay__value *out,
                    cay_err *err);

/* secret.c for secret_cmd.c, and back. */
#define CAY__SECRET_CMD "cmd:"
int cay__secret_bad(const char *name, const char *why, const char *what, cay_err *err);
int cay__secret_from_fd(const char *name, int fd, const char *what, cay__value *out, cay_err *err);
int cay__secret_sound(const char *name, cay__value *v,
                      cay_err *err); /* one line of text; else it is wiped */
int cay__secret_cmds(cay_client *client, cay__want *w, size_t n,
                     cay_err *err); /* those with a command */

/* The request with its secrets worked in: destinations become bind lines of net, a placeholder and
 * the variables of the trust files join env. What it makes lives in mem. */
int cay__secrets_prepare(cay_create *c, cay__arena *mem, cay_err *err);
/* Stored ones are tenant default's alone: a name that all share would be a way from one to the
 * other. */
int cay__secrets_tenant(const cay_create *c, cay_err *err);
/* All values in one sealed memory file. */
int cay__secrets_collect(cay_client *client, const cay_create *c, int *out, cay_err *err);
/* net without its bind lines, for the moment before the values are there. In mem. */
int cay__secrets_net_before(const char *net, cay__arena *mem, const char **out, cay_err *err);
/* Reads every source, hands the values over, then the policy that binds them, then what to trust.
 */
int cay__secrets_give(cay_client *client, const cay_provider_ops *ops, void *box,
                      const cay_call *call, const cay_create *c, cay_err *err);
