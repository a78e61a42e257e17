/* SPDX-License-Identifier: Apache-2.0 */
/* cay template import, export, pull: root filesystems and images from files, images into files, and
 * images from registries. */
#include "main.h"
#include "progress.h"
#include "show.h"
#include <base/base.h>
#include <cay/template.h>

CAY_DEFINE_AUTO(cay_template, cay_template_free)

/* Bytes that come, as long as any do; beside them which layer is being unpacked. */
typedef struct bar {
    cli_progress p;
    char what[48];
} bar;

static void bar_begin(bar *b)
{
    b->what[0] = 0;
    progress_begin(&b->p, b->what, 0);
}

static int on_progress(const cay_template_progress *p, void *arg)
{
    bar *b = arg;
    bool coming = b->p.total && b->p.done < b->p.total;
    if (!p->total)
        CAY_FORMAT(b->what, "%s layer %zu of %zu", p->what, p->layer, p->layers);
    else if (!b->what[0])
        CAY_FORMAT(b->what, "%s", p->what);
    if (p->total || !coming)
        progress_at(&b->p, p->done, p->total);
    else
        progress_at(&b->p, b->p.done, b->p.total);
    return 0;
}

typedef struct template_import_args {
    const char *image, *platform, *config, *debian, *mirror;
    opt_list packages;
    bool hidden;
} template_import_args;

static const opt_def import_defs[] = {
    OPT_STR("--image NAME", "which image of an archive that has several", template_import_args,
            image),
    OPT_STR("--platform OS/ARCH", "of an image for several (default: this machine's)",
            template_import_args, platform),
    OPT_STR(
        "--config JSON",
        "of a plain directory or tar: what it tells its sandboxes, such as env, user and workdir",
        template_import_args, config),
    OPT_STR("--debian SUITE",
            "instead of PATH: a release of Debian, made here by mmdebstrap with your rights",
            template_import_args, debian),
    OPT_LIST("--packages NAME[,NAME…]",
             "of --debian: what is installed beside what every Debian has", template_import_args,
             packages),
    OPT_STR("--mirror URL",
            "of --debian: that one alone (default: deb.debian.org, with updates and security)",
            template_import_args, mirror),
    OPT_FLAG("--hidden", "not for other tenants", template_import_args, hidden),
    OPT_END
};

/* path: room for 64 bytes. */
static int build_debian(const template_import_args *a, int *fd, char *path, char *source,
                        size_t cap, cay_err *err)
{
    if (!a->debian) {
        if (a->packages.n || a->mirror)
            return cay_fail_why(err, CAY_EINVAL, "spec_invalid",
                                "--packages and --mirror are for --debian SUITE");
        return 0;
    }
    if (a->image || a->platform)
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid",
                            "--image and --platform are for images, not for --debian");
    CAY_TRY(cli_debian(
        &(cli_debian_ask){ a->debian, a->mirror, &a->packages, cli.quiet || cli.json }, fd, err));
    snprintf(path, 64, "/proc/self/fd/%d", *fd);
    snprintf(source, cap, "debian %.60s", a->debian);
    return 0;
}

static int import_template(cli_call *c, cay_err *err)
{
    const template_import_args *a = c->opts;
    CAY_AUTOPTR(cay_template) t = NULL;
    bar b;
    const char *names[CLI_TEMPLATE_NAMES + 1];
    char path[64], source[100];
    CAY_AUTOFD fd = -1;
    int first = 1;
    if (a->debian)
        first = 0; /* of the names */
    cay_template_file spec = { .size = sizeof spec,
                               .path = c->argv[0],
                               .names = c->argc > first ? cli_template_names(names, c->argc - first,
                                                                             c->argv + first)
                                                        : NULL,
                               .image = a->image,
                               .platform = a->platform,
                               .config = a->config,
                               .hidden = a->hidden,
                               .progress = on_progress,
                               .arg = &b };
    int rc = build_debian(a, &fd, path, source, sizeof source, err);
    if (fd >= 0) {
        spec.path = path;
        spec.source = source;
    }
    bar_begin(&b);
    if (rc == 0)
        rc = cay_template_import(c->client, NULL, &spec, &t, err);
    progress_end(&b.p);
    CAY_TRY(rc);
    cli_template_print(t);
    return CLI_OK;
}

const cli_verb cli_template_import = {
    "template import",
    "[OPTIONS] PATH [NAME…] | --debian SUITE NAME…",
    "make a template of a root filesystem, an image or Debian packages, and print its id",
    .text =
        "PATH is a directory or a tar (which may be compressed) with a root filesystem, an OCI "
        "layout as a directory or tar, or what `docker save` and\n"
        "`skopeo copy` write. Without NAME an image gets the names that it has itself. Layers are "
        "unpacked inside sandboxes. --debian makes a root filesystem of\n"
        "Debian's packages on this machine, by mmdebstrap in a user namespace, and imports that.",
    .examples = "  cay template import image.tar\n"
                "  cay template import --config '{\"workdir\":\"/srv\"}' ./rootfs mine:1\n"
                "  cay template import --debian bookworm --packages python3,git debian:12",
    CLI_OPTS(import_defs, template_import_args),
    .min = 1,
    .max = 1 + CLI_TEMPLATE_NAMES,
    .needs = CLI_CLIENT,
    .fn = import_template,
};

static int export_template(cli_call *c, cay_err *err)
{
    bar b;
    bool out = !strcmp(c->argv[1], "-");
    cay_template_out spec = { .size = sizeof spec,
                              .ref = c->argv[0],
                              .path = out ? NULL : c->argv[1],
                              .fd = 1,
                              .progress = on_progress,
                              .arg = &b };
    bar_begin(&b);
    int rc = 0;
    if (out && isatty(1))
        rc = cay_fail_why(err, CAY_EINVAL, "output_terminal",
                          "an archive is nothing for a terminal: name a file, or redirect");
    if (rc == 0)
        rc = cli_client(&c->client, err);
    if (rc == 0)
        rc = cay_template_export(c->client, NULL, &spec, err);
    progress_end(&b.p);
    return rc;
}

const cli_verb cli_template_export = {
    "template export",
    "TEMPLATE FILE|-",
    "write a template into a file as an image",
    .text = "FILE becomes a tar with an OCI layout, which `cay template import`, skopeo, umoci, "
            "podman and docker read; it appears when it is whole. Services, sudo\n"
            "and limits are no part of images. A template on base host is none.",
    .examples =
        "  cay template export tools:1 tools.tar\n"
        "  cay template export tools:1 - | ssh other 'cat >t.tar; cay template import t.tar'\n"
        "  skopeo copy oci-archive:tools.tar docker://registry.example/tools:1",
    .min = 2,
    .fn = export_template,
};

typedef struct pull_args {
    const char *name, *platform, *auth, *login;
    bool hidden;
} pull_args;

static const opt_def pull_defs[] = {
    OPT_STR("--as NAME", "another name than the image has", pull_args, name),
    OPT_STR("--platform OS/ARCH", "of an image for several (default: this machine's)", pull_args,
            platform),
    OPT_STR(
        "--auth SOURCE",
        "where USER:PASSWORD is: env:VARIABLE, file:PATH, cmd:NAME or store:NAME (default: what "
        "`docker login` kept)",
        pull_args, auth),
    OPT_STR("--login USER",
            "log in: the password is asked for, or read from a pipe, and kept for this registry "
            "once the "
            "pull is done",
            pull_args, login),
    OPT_FLAG("--hidden", "not for other tenants", pull_args, hidden),
    OPT_END
};

static int pull_template(cli_call *c, cay_err *err)
{
    const pull_args *a = c->opts;
    CAY_AUTOPTR(cay_template) t = NULL;
    const char *const names[] = { a->name, NULL };
    bar b;
    cay_template_remote spec = { .size = sizeof spec,
                                 .ref = c->argv[0],
                                 .names = a->name ? names : NULL,
                                 .platform = a->platform,
                                 .auth = a->auth,
                                 .hidden = a->hidden,
                                 .trusted = true,
                                 .progress = on_progress,
                                 .arg = &b };
    char *password = NULL;
    int rc = 0;
    if (a->auth && a->login)
        rc =
            cay_fail_why(err, CAY_EINVAL, "registry_auth", "--auth and --login exclude each other");
    if (rc == 0 && a->login) {
        password = cay__alloc(CLI_SECRET_MAX + 3);
        ssize_t n = cli_read_secret("password", password);
        password[n > 0 ? n : 0] = 0;
        spec.user = a->login;
        spec.password = password;
        if (n > 0 && strlen(password) == (size_t)n)
            rc = 0;
        else
            rc = cay_fail_why(err, CAY_EINVAL, "registry_auth",
                              "there is no password on standard input");
    }
    if (rc == 0)
        rc = cli_client(&c->client, err);
    bar_begin(&b);
    if (rc == 0)
        rc = cay_template_pull(c->client, NULL, &spec, &t, err);
    if (password)
        explicit_bzero(password, CLI_SECRET_MAX + 3);
    free(password);
    progress_end(&b.p);
    CAY_TRY(rc);
    cli_template_print(t);
    return CLI_OK;
}

const cli_verb cli_template_pull = {
    "template pull",
    "[OPTIONS] IMAGE",
    "get an image from a registry as a template, and print its id",
    .text = "IMAGE is [HOST[:PORT]/]NAME[:TAG][@DIGEST], of docker.io unless it names a host or "
            "templates.conf says where to search. Layers that are here are not\n"
            "fetched again; a pull that was cut goes on where it stopped.",
    .examples = "  cay template pull python:3.11-slim\n"
                "  cay template pull --login me registry.example/team/tools:2\n"
                "  cay template pull --auth env:LOGIN registry.example/team/tools:2 --as tools\n"
                "  cay run --template python:3.11-slim -- python3 -V",
    CLI_OPTS(pull_defs, pull_args),
    .min = 1,
    .fn = pull_template,
};
