/* SPDX-License-Identifier: Apache-2.0 */
/* Handles from the client, for the full program. */
#include "sandbox_options.h"
#include "cli.h"
#include "out.h"
#include <base/base.h>
#include <base/json.h>
#include <base/path.h>
#include <cay/snapshot.h>
#include <cay/template.h>
#include <sys/resource.h>

static cay_client *opened;
bool cli_settling;

/* What snapshots leave for later is done by a program of its own, after our answer: nobody waits
 * for it. */
static void settle_later(const char *home)
{
    char path[4096];
    const char *argv[] = { "cay", "--home", home, "gc", "--settle", "--quiet", NULL };
    if (cay__libexec_find(NULL, "cay-full", path, sizeof path, NULL) < 0 || fork() != 0)
        return;
    setsid();
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++) /* a pipe of ours ends with us */
        dup2(null, fd);
    setpriority(PRIO_PROCESS, 0, 10);
    if (chdir("/") == 0)
        execv(path, (char *const *)argv);
    _exit(127);
}

static void close_client(void)
{
    CAY_AUTOFREE char *home = NULL;
    if (!opened)
        return;
    if (!cli_settling && cay_client_needs_maintenance(opened))
        home = cay__strdup(cay_client_home(opened));
    cay_client_close(opened);
    opened = NULL;
    if (home)
        settle_later(home);
}

int cli_client(cay_client **out, cay_err *err)
{
    if (!opened) {
        char libexec[4096];
        cay_open spec = {
            .size = sizeof spec, .home = cli.home, .provider = cli_provider(), .host = cli_host()
        };
        if (cay__libexec_find(NULL, "cay-full", libexec, sizeof libexec, NULL) == 0) {
            *strrchr(libexec, '/') = 0;
            spec.libexec = libexec;
        }
        CAY_TRY(cay_client_open(&spec, &opened, err));
        atexit(close_client);
    }
    *out = opened;
    return 0;
}

static int find_sandbox(const char *id, cay_sandbox **out, cay_err *err)
{
    cay_client *client;
    CAY_TRY(cli_client(&client, err));
    return cay_client_find(client, NULL, id, out, err);
}

/* Never a weaker wall in silence, nor a limit that is none. */
static void tell_walls(cay_sandbox *sb, const cay_create *spec)
{
    cay_info *info = NULL;
    if (cay_sandbox_describe(sb, NULL, &info, NULL) < 0)
        return;
    if (info->level == CAY_LEVEL_PROCESS && (!spec->provider || !strcmp(spec->provider, "native")))
        out_note(
            "cay: isolation process (1): this host refuses namespaces; `cay doctor` tells why");
    box_limits_tell(&spec->limits, info->walls, info->nwalls);
    cay_info_free(info);
}

/* A name is for people, and one that two have finds neither: who types it is told at once. Programs
 * may use it as a label. */
static int check_name(const char *name, cay_err *err)
{
    cay_client *client;
    cay_sandbox *sb = NULL;
    cay_err why = CAY_ERR_INIT;
    if (!name)
        return 0;
    CAY_TRY(cli_client(&client, err));
    int rc = cay_client_find(client, NULL, name, &sb, &why);
    if (rc == CAY_ENOENT)
        return 0;
    if (rc < 0 && !cay_err_is(&why, CAY_REASON_SANDBOX_AMBIGUOUS))
        return cay_fail_why(err, rc, why.reason, "--name %.60s: %.180s", name, why.msg);
    cay_fail_why(err, CAY_EEXIST, "name_taken",
                 "--name %.60s is taken by %s; choose another, or remove what has it (cay rm)",
                 name, sb ? cay_sandbox_id(sb) : "several sandboxes");
    cay_sandbox_unref(sb);
    return CAY_EEXIST;
}

static int create_sandbox(const cay_create *spec, cay_sandbox **out, cay_err *err)
{
    cay_client *client;
    cay_create whole = *spec;
    __attribute__((cleanup(cli_manifest_clear))) cli_manifest file = { 0 };
    CAY_TRY(cli_client(&client, err));
    if (spec->manifest.text) /* so far the name of its file */
        CAY_TRY(cli_manifest_read(spec->manifest.text, &file, err));
    cli_manifest_give(&file, &whole);
    CAY_TRY(cay_client_create(client, NULL, &whole, out, err));
    tell_walls(*out, spec);
    return 0;
}

static int find_command(const cay_create *spec, const char ***out, cay_err *err)
{
    static const char *const lists[] = { "entrypoint", "cmd" };
    cay_client *client;
    CAY_AUTOFREE char *config = NULL;
    CAY_AUTOJSON *o = NULL;
    size_t n = 0, bytes = sizeof(char *);
    CAY_TRY(cli_client(&client, err));
    CAY_TRY(cay_template_config_get(client, NULL, spec, &config, err));
    CAY_TRY(cay__json_object("config", config, &o, err));
    CAY_EACH(it, lists)
        for (size_t i = 0; i < json_array_size(json_object_get(o, *it)); i++, n++)
            bytes +=
                sizeof(char *) + json_string_length(json_array_get(json_object_get(o, *it), i)) + 1;
    if (!n)
        return cay_fail_why(err, CAY_EINVAL, "command_empty",
                            "%.100s has no command of its own; give one after --",
                            CAY_OR(spec->from.snapshot, spec->from.template_));
    const char **words = cay__alloc(bytes);
    char *at = (char *)(words + n + 1);
    n = 0;
    CAY_EACH(list, lists)
        for (size_t i = 0; i < json_array_size(json_object_get(o, *list)); i++) {
            const json_t *w = json_array_get(json_object_get(o, *list), i);
            words[n++] = at;
            memcpy(at, json_is_string(w) ? json_string_value(w) : "", json_string_length(w) + 1);
            at += json_string_length(w) + 1;
        }
    words[n] = NULL;
    *out = words;
    return 0;
}

static void ignore_refusal(const cay_err *err) {}

static void discard_sandbox(cay_sandbox *sb)
{
    cay_err err = CAY_ERR_INIT;
    if (cay_sandbox_remove(sb, NULL, &err) < 0)
        out_note("cay: %s could not be removed: %s", cay_sandbox_id(sb), err.msg);
    cay_sandbox_unref(sb);
}

const cli_backend cli_client_boxes = { .client = cli_client,
                                       .find = find_sandbox,
                                       .create = create_sandbox,
                                       .refused = ignore_refusal,
                                       .check_name = check_name,
                                       .command = find_command,
                                       .discard = discard_sandbox };
