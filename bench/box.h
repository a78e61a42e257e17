/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/box.h - sandboxes through libcay as any program uses it: nothing of the inside is included.
 *
 * $CAY_HOME is the state directory of this run. prepare() adds a static `true` to its template, so
 * that commands in the figures are the floor's own program and not the dynamic loader.
 */
#pragma once
#include "keeper.h"
#include "measure.h"
#include <cay/sandbox.h>
#include <cay/client.h>
#include <glob.h>
#include <sys/stat.h>

#define INSIDE_TRUE "/opt/true"

static inline void need(int rc, const cay_err *err, const char *what)
{
    if (rc < 0)
        give_up("%s: %s", what, err->msg);
}

static inline cay_client *service(void)
{
    cay_err err = CAY_ERR_INIT;
    cay_client *client = NULL;
    cay_open o = { .size = sizeof o, .provider = "native" };
    need(cay_client_open(&o, &client, &err), &err, "open the service");
    return client;
}

/* hostname NULL: an ordinary one, which the pool has ready; another name: its root is bound now. */
static inline int make_box(cay_client *client, const char *hostname, cay_sandbox **out,
                           cay_err *err)
{
    cay_create c = { .size = sizeof c, .life.ephemeral = true, .hostname = hostname };
    return cay_client_create(client, NULL, &c, out, err);
}

/* An ordinary one that may reach a name. */
static inline int make_net_box(cay_client *client, cay_sandbox **out, cay_err *err)
{
    cay_create c = { .size = sizeof c,
                     .life.ephemeral = true,
                     .net.policy = "cay-net 1\nmode rules\nrule bench.example\n" };
    return cay_client_create(client, NULL, &c, out, err);
}

static inline int run_in(cay_sandbox *sb, uint64_t timeout_ms, cay_err *err)
{
    const char *const argv[] = { INSIDE_TRUE, NULL };
    cay_spawn s = { .size = sizeof s, .argv = argv, .timeout_ms = timeout_ms };
    cay_result r = { .size = sizeof r };
    int rc = cay_sandbox_run(sb, NULL, &s, NULL, 0, 0, &r, err);
    if (rc == 0 && r.exit.code)
        give_up("%s ended with %d", INSIDE_TRUE, r.exit.code);
    cay_result_clear(&r);
    return rc;
}

static inline void copy_file(const char *from, const char *to)
{
    char buf[65536];
    struct stat st;
    int in = open(from, O_RDONLY | O_CLOEXEC),
        out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
    if (in < 0 || out < 0 || fstat(in, &st) < 0)
        give_up("copy %s to %s: %s", from, to, strerror(errno));
    for (ssize_t n; (n = read(in, buf, sizeof buf)) > 0;)
        if (write(out, buf, (size_t)n) != n)
            give_up("write %s: %s", to, strerror(errno));
    fchmod(out, 0755);
    close(in);
    close(out);
}

/* Before the first measured sandbox: makes the template, adds the program, and lets the keeper go
 * that saw it without. */
static inline void prepare(const char *program)
{
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb;
    cay_client *client = service();
    glob_t g;
    char path[4096];
    need(make_box(client, NULL, &sb, &err), &err, "create");
    need(cay_sandbox_remove(sb, NULL, &err), &err, "remove");
    cay_sandbox_unref(sb);
    cay_client_close(client);
    keeper_end(getenv("CAY_HOME"));
    snprintf(path, sizeof path, "%s/layers/host-*/opt", getenv("CAY_HOME"));
    if (glob(path, 0, NULL, &g) != 0 || g.gl_pathc != 1)
        give_up("%s: no template", path);
    snprintf(path, sizeof path, "%s/true", g.gl_pathv[0]);
    copy_file(program, path);
    globfree(&g);
}
