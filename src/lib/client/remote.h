/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/client/remote.h - a service whose sandboxes are a server's: what asks that server instead of
 * the store and the providers of this host.
 *
 * Inside one sandbox nothing differs: its handle has a box of provider `cay`, and everything of
 * cay/sandbox.h goes there. What is about which sandboxes and snapshots there are begins with
 * CAY__BACK(), which hands it over; what a server is not asked for begins with cay__back_none().
 */
#pragma once
#include "client.h"
#include <cay/access.h>
#include <cay/audit.h>
#include <cay/build.h>
#include <cay/jobs.h>
#include <cay/policy.h>
#include <cay/snapshot.h>
#include <cay/template.h>
#include <cay/volume.h>
#include <cay/pool.h>
#include <cay/workspace.h>

typedef struct cay__back {
    int (*open)(const cay_open *spec, void **self, cay_err *err);
    void (*close)(void *self);
    int (*create)(cay_client *client, const cay_call *call, const cay_create *spec,
                  cay_sandbox **out, cay_err *err);
    int (*find)(cay_client *client, const cay_call *call, const char *ref, cay_sandbox **out,
                cay_err *err);
    int (*list)(cay_client *client, const cay_call *call, const cay_filter *filter,
                int (*fn)(const cay_info *, void *), void *arg, cay_err *err);
    int (*describe)(cay_sandbox *sb, const cay_call *call, cay_info **out, cay_err *err);
    int (*order)(cay_sandbox *sb, const cay_call *call, cay_state to,
                 cay_err *err); /* PAUSED, RUNNING, STOPPED, GONE */
    int (*probe)(cay_client *client, cay_probe **out, cay_err *err);
    int (*events)(cay_client *client, const char *id, int *fd, cay_err *err);
    int (*snapshot)(cay_sandbox *sb, const cay_call *call, const cay_snapshot_spec *spec,
                    cay_snapshot **out, cay_err *err);
    int (*snapshot_get)(cay_client *client, const cay_call *call, const char *ref,
                        cay_snapshot **out, cay_err *err);
    int (*snapshots)(cay_client *client, const cay_call *call, const cay_snapshot_filter *f,
                     int (*fn)(const cay_snapshot *, void *), void *arg, cay_err *err);
    int (*snapshot_remove)(cay_client *client, const cay_call *call, const char *ref,
                           bool *deferred, cay_err *err);
    int (*snapshot_rename)(cay_client *client, const cay_call *call, const char *ref,
                           const char *label, cay_err *err);
    int (*fork)(cay_client *client, const cay_call *call, const char *from, const cay_fork *spec,
                int (*fn)(cay_sandbox *, void *), void *arg, cay_err *err);
    int (*undo)(cay_sandbox *sb, const cay_call *call, const char *to, cay_snapshot **out,
                cay_err *err);
    int (*expose)(cay_sandbox *sb, uint16_t port, uint64_t ttl_ms, cay_exposed *out, cay_err *err);
    int (*unexpose)(cay_sandbox *sb, uint16_t port, cay_err *err);
    int (*exposed)(cay_sandbox *sb, int (*fn)(const cay_exposed *e, void *arg), void *arg,
                   cay_err *err);
    int (*net_add)(cay_sandbox *sb, const cay_call *call, const char *const *rules,
                   uint64_t *revision, cay_err *err);
    int (*net_why)(cay_sandbox *sb, const cay_call *call, const char *host, uint16_t port,
                   cay_net_verdict *out, cay_err *err);
    int (*net_log)(cay_sandbox *sb, int (*fn)(const cay_net_record *r, void *arg), void *arg,
                   cay_err *err);
    int (*diff)(cay_client *client, const cay_call *call, const cay_diff *diff,
                int (*fn)(const cay_file_change *, void *), void *arg, uint64_t *left_out,
                cay_err *err);
    int (*secret_put)(cay_client *client, const char *name, const void *value, size_t len,
                      cay_err *err);
    int (*secret_remove)(cay_client *client, const char *name, cay_err *err);
    int (*secret_list)(cay_client *client,
                       int (*fn)(const char *name, int64_t changed_ms, void *arg), void *arg,
                       cay_err *err);
    int (*renew_secrets)(cay_sandbox *sb, cay_err *err);
    int (*set_secrets)(cay_sandbox *sb, const cay_call *call, const char *net,
                       const cay_secret *secrets, size_t n, cay_err *err);
    int (*volume_list)(cay_client *client, const cay_call *call,
                       int (*fn)(const cay_volume *v, void *arg), void *arg, cay_err *err);
    int (*volume_create)(cay_client *client, const cay_volume_spec *spec, cay_err *err);
    int (*volume_find)(cay_client *client, const char *name, cay_volume **out, cay_err *err);
    int (*volume_remove)(cay_client *client, const char *name, cay_err *err);
    int (*export_)(cay_client *client, const cay_call *call, const cay_export *spec, int fd,
                   cay_archived *out, cay_err *err);
    int (*import)(cay_client *client, const cay_call *call, const cay_import *spec, int fd,
                  cay_snapshot **out, cay_err *err);
    int (*key_create)(cay_client *client, const cay_key *key, char *text, cay_err *err);
    int (*key_list)(cay_client *client, const char *tenant, int (*fn)(const cay_key *, void *),
                    void *arg, cay_err *err);
    int (*key_revoke)(cay_client *client, const char *id, cay_err *err);
    int (*tenant_put)(cay_client *client, const cay_tenant *t, bool fresh, cay_err *err);
    int (*tenant_remove)(cay_client *client, const char *name, cay_err *err);
    int (*tenant_list)(cay_client *client, const char *only, int (*fn)(const cay_tenant *, void *),
                       void *arg, cay_err *err); /* only: one, or NULL */
    int (*job_list)(cay_client *client, const cay_job_filter *f,
                    int (*fn)(const cay_job *t, void *arg), void *arg, cay_err *err);
    int (*job_order)(cay_client *client, const char *id, const char *verb,
                     cay_err *err); /* "/cancel", "/replay" */
    int (*audit_list)(cay_client *client, const cay_audit_filter *f,
                      int (*fn)(const cay_audit *, void *), void *arg, cay_err *err);
    int (*warm_put)(cay_client *client, const cay_call *call, const cay_pool *w, cay_err *err);
    int (*warm_list)(cay_client *client, const cay_call *call, int (*fn)(const cay_pool *, void *),
                     void *arg, cay_err *err);
    int (*warm_remove)(cay_client *client, const cay_call *call, const char *tenant,
                       const char *template_, cay_err *err);
    int (*audit_verify)(cay_client *client, const char *head, cay_audit_proof *out, cay_err *err);
    /* Whose templates and builds are meant is the key's. Specs are whole: cay__spec_take() was
     * there. */
    int (*template_find)(cay_client *client, const cay_call *call, const char *ref,
                         cay_template **out, cay_err *err);
    int (*template_list)(cay_client *client, const cay_call *call, const cay_template_filter *f,
                         int (*fn)(const cay_template *, void *), void *arg, cay_err *err);
    int (*template_remove)(cay_client *client, const cay_call *call, const char *ref, cay_err *err);
    int (*template_change)(cay_client *client, const cay_call *call, const char *ref,
                           const char *name, const bool *shared, cay_err *err); /* NULL: as it is */
    int (*template_publish)(cay_client *client, const cay_call *call, const cay_template_spec *s,
                            cay_template **out, cay_err *err);
    int (*template_import)(cay_client *client, const cay_call *call, const cay_template_file *s,
                           cay_template **out, cay_err *err);
    int (*template_export)(cay_client *client, const cay_call *call, const cay_template_out *s,
                           cay_err *err);
    int (*template_pull)(cay_client *client, const cay_call *call, const cay_template_remote *s,
                         cay_template **out, cay_err *err);
    int (*registry_login)(cay_client *client, const char *tenant, const char *host,
                          const char *user, const char *password, cay_err *err);
    int (*registry_logout)(cay_client *client, const char *tenant, const char *host, cay_err *err);
    int (*registry_logins)(cay_client *client, const char *tenant,
                           int (*fn)(const char *tenant, const char *host, int64_t changed_ms,
                                     void *arg),
                           void *arg, cay_err *err);
    int (*build_run)(cay_client *client, const cay_call *call, const cay_build *s, cay_built *out,
                     cay_err *err);
    int (*build_list)(cay_client *client, int (*fn)(const cay_build_info *b, void *arg), void *arg,
                      cay_err *err);
    int (*build_get)(cay_client *client, const char *ref,
                     int (*fn)(const cay_build_info *b, void *arg), void *arg, cay_err *err);
    int (*build_log)(cay_client *client, const char *id, uint64_t *offset,
                     int (*fn)(const cay_build_event *e, void *arg), void *arg, cay_err *err);
    int (*build_cancel)(cay_client *client, const char *id, cay_err *err);
    int (*build_caches)(cay_client *client, const cay_call *call,
                        int (*fn)(const cay_build_cache *c, void *arg), void *arg, cay_err *err);
    int (*build_prune)(cay_client *client, const cay_call *call, size_t *n, cay_err *err);
    int (*gc)(cay_client *client, const cay_call *call, size_t *n, cay_err *err);
    const char *(*url)(const cay_client *client);
    int (*manifest)(cay_sandbox *sb, const cay_call *call, char **json, cay_err *err);
    int (*set_manifest)(cay_sandbox *sb, const cay_call *call, const char *text, unsigned flags,
                        cay_err *err);
} cay__back;

extern const cay__back cay__back_far; /* lib/provider/remote/client.c */

static inline const cay__back *cay__back_of(const cay_client *client)
{
    if (client)
        return client->back;
    return NULL;
}
#define CAY__BACK(client, fn, ...)                                                                 \
    do {                                                                                           \
        const cay__back *back_ = cay__back_of(client);                                             \
        if (back_)                                                                                 \
            return back_->fn(__VA_ARGS__);                                                         \
    } while (0)
/* CAY_ENOTSUP, "remote_unsupported", where the client is a server's. service.c */
int cay__back_none(const cay_client *client, const char *what, cay_err *err);
/* cay_client_purge() of a server. purge_far.c */
int cay__purge_far(cay_client *client, const cay_call *call, bool forget,
                   void (*left)(const char *what, void *arg), void *arg, cay_err *err);
