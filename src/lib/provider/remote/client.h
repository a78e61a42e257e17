/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/provider/remote/client.h - the parts of a client of a server: remote.c has sandboxes
 * and snapshots, remote_keep.c what is kept besides, remote_access.c keys, tenants, jobs and the
 * audit log. lib/client/remote.h says what each is.
 */
#pragma once
#include <lib/client/remote.h>

struct cay__far;
struct cay__far *cay__remote_far(const cay_client *client);
/* "/api/v1/WHAT/REF" of a name that anybody chose. */
void cay__far_ref(cay__buf *target, const char *what, const char *ref);
/* GET of a list, each member to fn; its return that is not 0 ends it. */
int cay__remote_each(cay_client *client, const cay_call *call, const cay__buf *target,
                     int (*fn)(const json_t *o, void *arg), void *arg, cay_err *err);
/* METHOD /api/v1/WHAT/REF and rest. body (taken) and out may be NULL. */
int cay__remote_order(cay_client *client, const char *method, const char *what, const char *ref,
                      const char *rest, json_t *body, json_t **out, cay_err *err);

int cay__remote_diff(cay_client *client, const cay_call *call, const cay_diff *given,
                     int (*fn)(const cay_file_change *, void *), void *arg, uint64_t *left_out,
                     cay_err *err);
int cay__remote_net_log(cay_sandbox *sb, int (*fn)(const cay_net_record *r, void *arg), void *arg,
                        cay_err *err);
int cay__remote_secret_put(cay_client *client, const char *name, const void *value, size_t len,
                           cay_err *err);
int cay__remote_secret_remove(cay_client *client, const char *name, cay_err *err);
int cay__remote_secret_list(cay_client *client,
                            int (*fn)(const char *name, int64_t changed_ms, void *arg), void *arg,
                            cay_err *err);
int cay__remote_renew_secrets(cay_sandbox *sb, cay_err *err);
int cay__remote_set_secrets(cay_sandbox *sb, const cay_call *call, const char *net,
                            const cay_secret *secrets, size_t n, cay_err *err);
int cay__remote_volume_list(cay_client *client, const cay_call *call,
                            int (*fn)(const cay_volume *v, void *arg), void *arg, cay_err *err);
int cay__remote_volume_create(cay_client *client, const cay_volume_spec *spec, cay_err *err);
int cay__remote_volume_find(cay_client *client, const char *name, cay_volume **out, cay_err *err);
int cay__remote_volume_remove(cay_client *client, const char *name, cay_err *err);
int cay__remote_export(cay_client *client, const cay_call *call, const cay_export *given, int fd,
                       cay_archived *out, cay_err *err);
int cay__remote_import(cay_client *client, const cay_call *call, const cay_import *given, int fd,
                       cay_snapshot **out, cay_err *err);
int cay__remote_key_create(cay_client *client, const cay_key *given, char *text, cay_err *err);
int cay__remote_key_list(cay_client *client, const char *tenant, int (*fn)(const cay_key *, void *),
                         void *arg, cay_err *err);
int cay__remote_key_revoke(cay_client *client, const char *id, cay_err *err);
int cay__remote_tenant_put(cay_client *client, const cay_tenant *given, bool fresh, cay_err *err);
int cay__remote_tenant_remove(cay_client *client, const char *name, cay_err *err);
int cay__remote_tenant_list(cay_client *client, const char *only,
                            int (*fn)(const cay_tenant *, void *), void *arg, cay_err *err);
int cay__remote_task_list(cay_client *client, const cay_job_filter *f,
                          int (*fn)(const cay_job *t, void *arg), void *arg, cay_err *err);
int cay__remote_task_order(cay_client *client, const char *id, const char *verb, cay_err *err);
int cay__remote_audit_list(cay_client *client, const cay_audit_filter *f,
                           int (*fn)(const cay_audit *, void *), void *arg, cay_err *err);
int cay__remote_warm_put(cay_client *client, const cay_call *call, const cay_pool *w, cay_err *err);
int cay__remote_warm_list(cay_client *client, const cay_call *call,
                          int (*fn)(const cay_pool *, void *), void *arg, cay_err *err);
int cay__remote_warm_remove(cay_client *client, const cay_call *call, const char *tenant,
                            const char *template_, cay_err *err);
/* remote_template.c, remote_build.c */
int cay__remote_template_find(cay_client *client, const cay_call *call, const char *ref,
                              cay_template **out, cay_err *err);
int cay__remote_template_list(cay_client *client, const cay_call *call,
                              const cay_template_filter *f, int (*fn)(const cay_template *, void *),
                              void *arg, cay_err *err);
int cay__remote_template_remove(cay_client *client, const cay_call *call, const char *ref,
                                cay_err *err);
int cay__remote_template_change(cay_client *client, const cay_call *call, const char *ref,
                                const char *name, const bool *shared, cay_err *err);
int cay__remote_template_publish(cay_client *client, const cay_call *call,
                                 const cay_template_spec *s, cay_template **out, cay_err *err);
int cay__remote_template_import(cay_client *client, const cay_call *call,
                                const cay_template_file *s, cay_template **out, cay_err *err);
int cay__remote_template_export(cay_client *client, const cay_call *call, const cay_template_out *s,
                                cay_err *err);
int cay__remote_template_pull(cay_client *client, const cay_call *call,
                              const cay_template_remote *s, cay_template **out, cay_err *err);
int cay__remote_registry_login(cay_client *client, const char *tenant, const char *host,
                               const char *user, const char *password, cay_err *err);
int cay__remote_registry_logout(cay_client *client, const char *tenant, const char *host,
                                cay_err *err);
int cay__remote_registry_logins(cay_client *client, const char *tenant,
                                int (*fn)(const char *tenant, const char *host, int64_t changed_ms,
                                          void *arg),
                                void *arg, cay_err *err);
/* A directory with all that is in it as a tar, in a file without a name that stands at its
 * beginning. */
int cay__remote_tar(int dir, const char *path, const cay_call *call, int *out, uint64_t *len,
                    cay_err *err);
int cay__remote_build_run(cay_client *client, const cay_call *call, const cay_build *s,
                          cay_built *out, cay_err *err);
int cay__remote_build_list(cay_client *client, int (*fn)(const cay_build_info *b, void *arg),
                           void *arg, cay_err *err);
int cay__remote_build_get(cay_client *client, const char *ref,
                          int (*fn)(const cay_build_info *b, void *arg), void *arg, cay_err *err);
int cay__remote_build_log(cay_client *client, const char *id, uint64_t *offset,
                          int (*fn)(const cay_build_event *e, void *arg), void *arg, cay_err *err);
int cay__remote_build_cancel(cay_client *client, const char *id, cay_err *err);
int cay__remote_build_caches(cay_client *client, const cay_call *call,
                             int (*fn)(const cay_build_cache *c, void *arg), void *arg,
                             cay_err *err);
int cay__remote_build_prune(cay_client *client, const cay_call *call, size_t *n, cay_err *err);
int cay__remote_gc(cay_client *client, const cay_call *call, size_t *n, cay_err *err);
int cay__remote_audit_verify(cay_client *client, const char *head, cay_audit_proof *out,
                             cay_err *err);
