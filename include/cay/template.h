/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/template.h - what a sandbox starts from.
 *
 *   cay_template_find()     one, by name or id
 *   cay_template_list()     those there are
 *   cay_template_publish()  a sandbox or snapshot as one
 *   cay_template_remove()   forget one
 *   cay_template_name()     another name for one
 *   cay_template_import()   a root filesystem or an image from a file
 *   cay_template_share()    for other tenants, or not
 *   cay_template_pull()     an image from a registry
 *   cay_template_export()   an image into a file
 *
 * A template is a stack of layers and what its sandboxes are told: environment, user, working
 * directory. Sandboxes are made from one by cay_create.from.template_; its layers are shared by all
 * of them and never change. docs/templates.md tells more.
 *
 * A name is [HOST[:PORT]/][PATH/]NAME[:TAG]; without a tag it is that of `latest`. A tenant sees
 * its own templates and those that are shared; where both have a name, its own. Names `host` and
 * `image` are taken.
 */
#pragma once
#include <cay/client.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CAY_TEMPLATE_NAME 255 /* longest name with its tag */

typedef struct cay_template {
    size_t size;
    const char *id;           /* "t…" */
    const char *const *names; /* with tags, ends with NULL; none: only the id is left */
    const char *tenant;
    bool shared; /* other tenants may use it */
    const char
        *base; /* what is below its layers: "image": nothing; "host": the programs of this host */
    const char *const *layers; /* below layers/, bottom first; ends with NULL */
    size_t nlayers;
    const char *config; /* JSON object, as below */
    const char *source; /* where it came from: "registry:…", "oci:…", "docker:…", "tar:…", "dir:…",
                           "snapshot:s…", "build:…" */
    const char *digest;    /* "sha256:…" of an image's manifest, or "" */
    uint64_t bytes, files; /* of all layers, as far as they are known */
    int64_t created_ms;
    size_t users; /* sandboxes that were made from it and are there */
} cay_template;
typedef int cay_template_fn(const cay_template *t, void *arg);

/* `config`, every member optional:
 *   env {NAME: value}   user "name|uid[:group]"   workdir "/…"
 *   cmd [word…]   entrypoint [word…]   shell [word…]
 *   ports ["8080/tcp"…]   labels {key: value}   stop_signal "SIGTERM"   volumes ["/…"…]
 *   services [{…}]   sudo bool
 *   limits {memory, swap, cpu_milli, pids, disk, inodes, nofile, io_read, io_write}
 *   settings {name: {default, choices {value: {key: text}} | texts {key: text}, description}}
 *   setting_files {"/…": {content, mode}}: docs/templates.md
 *   platform {os, architecture, variant}   author, comment, created: text
 * What else it has is kept as it is. env, user, workdir and limits go into sandboxes whose request
 * does not say otherwise. */

CAY_API void cay_template_free(cay_template *t);
/* Judges one before there is a template: CAY_EINVAL, "template_config", names the member that is
 * wrong. */
CAY_API int cay_template_config_check(const char *text, cay_err *err);

/* What sandboxes of this request are told: the config of its template, or of the sandbox behind the
 * snapshot that it stands on; "{}" without. Free the answer. */
CAY_API int cay_template_config_get(cay_client *client, const cay_call *call,
                                    const cay_create *spec, char **config, cay_err *err);
/* ref: a name, what templates.conf calls another word for one, an id, or the beginning of an id
 * that only one has. tenant NULL: ids among all, names among those of tenant default and shared
 * ones. Free the answer. CAY_ENOENT, "template_not_found". */
CAY_API int cay_template_find(cay_client *client, const cay_call *call, const char *tenant,
                              const char *ref, cay_template **out, cay_err *err);

typedef struct cay_template_filter {
    size_t size;
    const char *tenant; /* what it sees; NULL: all */
    const char *name; /* of those with this name only, whatever the tag when it has none; or NULL */
    const char *after; /* id after which to continue, or ID.CREATED_MS, which goes on also when that
                          one is gone; or NULL */
    size_t limit;      /* 0: all */
} cay_template_filter;
/* Oldest first; a non-zero return of fn stops and is returned. */
CAY_API int cay_template_list(cay_client *client, const cay_call *call,
                              const cay_template_filter *filter, cay_template_fn *fn, void *arg,
                              cay_err *err);

/* By a name that is not its last one, only that name goes. Otherwise the record does, at once;
 * layers that sandboxes, snapshots or other templates stand on stay until the last of them is gone.
 * tenant: only one of that tenant's own; NULL: any. */
CAY_API int cay_template_remove(cay_client *client, const cay_call *call, const char *tenant,
                                const char *ref, cay_err *err);
/* Gives it one more name, which goes from the one that had it. */
CAY_API int cay_template_name(cay_client *client, const cay_call *call, const char *tenant,
                              const char *ref, const char *name, cay_err *err);

/* Whether other tenants see it and may use it. Sandboxes that they made from it stay. */
CAY_API int cay_template_share(cay_client *client, const cay_call *call, const char *tenant,
                               const char *ref, bool shared, cay_err *err);

typedef struct cay_template_spec {
    size_t size;
    const char *const *names; /* ends with NULL; or NULL: none */
    const char *tenant;       /* NULL: "default" */
    bool hidden;              /* not for other tenants */
    const char *from;   /* a snapshot, or a sandbox, of which one is taken for it and forgotten */
    const char *config; /* JSON object; NULL: what the sandbox had from its own template */
    const char *source; /* one line; NULL: "snapshot:ID" */
    const char *digest; /* "sha256:…"; or NULL */
} cay_template_spec;
/* What the sandbox wrote since its template becomes part of the new one; nothing is copied.
 * CAY_ENOTSUP, "template_root": it stands on a directory of the host. */
CAY_API int cay_template_publish(cay_client *client, const cay_call *call,
                                 const cay_template_spec *spec, cay_template **out, cay_err *err);

typedef struct cay_template_progress {
    size_t size;
    const char *what;     /* "fetch", "unpack", "pack" */
    size_t layer, layers; /* which of how many, from 1 */
    uint64_t done, total; /* bytes; fetch: of all layers together; unpack: of this one, total 0 */
} cay_template_progress;
typedef int cay_template_progress_fn(const cay_template_progress *progress, void *arg);

typedef struct cay_template_file {
    size_t size;
    const char *path;         /* a directory or a file */
    const char *const *names; /* ends with NULL; NULL: those that an archive names itself */
    const char *tenant;       /* NULL: "default" */
    bool hidden;
    const char *image;    /* which of several images of an archive, by its name there; or NULL */
    const char *platform; /* "linux/arm64"; NULL: this machine's */
    const char *config;   /* of a plain directory or tar: JSON object; or NULL */
    cay_template_progress_fn *progress; /* not 0 stops; may be NULL */
    void *arg;
    const char *source; /* what to call path, one line; NULL: as it is */
} cay_template_file;
/* Takes a root filesystem (a directory, or a tar that may be compressed), an OCI layout (a
 * directory or a tar of it) or what `docker save` makes. Layers are unpacked inside sandboxes and
 * their digests checked; those that are here already are not read again. All or nothing. Free the
 * answer. */
CAY_API int cay_template_import(cay_client *client, const cay_call *call,
                                const cay_template_file *spec, cay_template **out, cay_err *err);

typedef struct cay_template_out {
    size_t size;
    const char *ref;    /* a name or an id */
    const char *tenant; /* what it sees; NULL: all */
    const char *path;   /* a file, which appears when it is whole; NULL: to fd */
    int fd;
    cay_template_progress_fn *progress; /* "pack"; not 0 stops; may be NULL */
    void *arg;
} cay_template_out;
/* Writes it as an OCI layout in a tar, one layer for each of its own, with what `config` has that
 * images have: no services, sudo and limits. CAY_ENOTSUP, "template_host": it stands on this host's
 * programs. */
CAY_API int cay_template_export(cay_client *client, const cay_call *call,
                                const cay_template_out *spec, cay_err *err);

typedef struct cay_template_remote {
    size_t size;
    const char *ref;          /* [HOST[:PORT]/]NAME[:TAG][@sha256:…] */
    const char *const *names; /* ends with NULL; NULL: what ref is without its digest */
    const char *tenant;       /* NULL: "default" */
    bool hidden;
    const char *platform; /* "linux/arm64"; NULL: this machine's */
    const char *auth; /* where "USER:PASSWORD" is: "env:…", "file:…", "cmd:…", "store:…"; NULL:
                         cay_registry_login(), and with `trusted` what docker's config.json has for
                         the host */
    bool trusted;     /* the caller runs this service: the registry may be at a private address */
    cay_template_progress_fn *progress; /* not 0 stops; may be NULL */
    void *arg;
    const char *user,
        *password; /* instead of auth; kept as cay_registry_login() does once the pull is done */
    bool implied; /* nobody asked for a pull: something stands on the image. The operator may forbid
                     that (`pull never`): CAY_ENOENT, "template_not_found" */
} cay_template_remote;
/* Gets an image from a registry. Layers that are here are not fetched; blobs come side by side, go
 * on where they were cut, and are checked. A redirect leads to public addresses only;
 * /etc/cay/templates.conf says which registries may be elsewhere. CAY_ENOENT, "image_unknown";
 * CAY_EAUTH, "registry_auth"; CAY_EUPSTREAM, "registry_answer"; CAY_EPERM, "registry_private". All
 * or nothing. Free the answer. */
CAY_API int cay_template_pull(cay_client *client, const cay_call *call,
                              const cay_template_remote *spec, cay_template **out, cay_err *err);

/* USER:PASSWORD that pulls of this tenant from this registry use, builds' too, where nothing else
 * is said. host: HOST[:PORT] as images name it; docker.io has no other name. They are encrypted as
 * stored secrets are, go in and are never told, and go with their tenant. tenant NULL: "default".
 * CAY_EINVAL, "registry_host", "registry_auth". */
CAY_API int cay_registry_login(cay_client *client, const char *tenant, const char *host,
                               const char *user, const char *password, cay_err *err);
CAY_API int cay_registry_logout(cay_client *client, const char *tenant, const char *host,
                                cay_err *err); /* CAY_ENOENT, "registry_no_login" */
/* tenant NULL: of all. */
CAY_API int cay_registry_logins(cay_client *client, const char *tenant,
                                int (*fn)(const char *tenant, const char *host, int64_t changed_ms,
                                          void *arg),
                                void *arg, cay_err *err);

#ifdef __cplusplus
}
#endif
