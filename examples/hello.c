/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hello - make a sandbox, run one command in it, print what it said, remove it.
 *
 *     cc hello.c $(pkg-config --cflags --libs cay) -o hello && ./hello
 *
 * The first argument names the provider: "native" (default) isolates; "local" runs plain processes
 * in a directory and isolates nothing, which is why it has to be named.
 */
#include <cay/cay.h>
#include <stdio.h>

/* A failed call has filled `err`: the message names the thing and the remedy. */
static int fail(const cay_err *err)
{
    fprintf(stderr, "hello: %s: %s\n", cay_code_name(err->code), err->msg);
    return 1;
}

int main(int argc, char **argv)
{
    const char *provider = argc > 1 ? argv[1] : "native";
    cay_err err = CAY_ERR_INIT;
    cay_client *client;
    cay_sandbox *sb;

    /* A service is the set of sandboxes in one state directory: $CAY_HOME, or a default. */
    if (cay_client_open(NULL, &client, &err) < 0)
        return fail(&err);

    /* Specs are plain structs; what is not named is zero, and zero means the default. Should this
     * program die before it cleans up, the sandbox ends by itself a minute later. */
    cay_create spec = {
        .size = sizeof spec, .provider = provider, .name = "hello", .life.ttl_ms = 60000
    };
    int rc = 1;
    if (cay_client_create(client, NULL, &spec, &sb, &err) < 0) {
        rc = fail(&err);
        goto close;
    }

    /* cay_sandbox_run() starts a command, collects both streams and waits. */
    cay_spawn cmd = { .size = sizeof cmd, .shell = "echo hello from $(pwd); id -un >&2; exit 3" };
    cay_result res = { .size = sizeof res };
    if (cay_sandbox_run(sb, NULL, &cmd, NULL, 0, 1 << 20, &res, &err) < 0) {
        rc = fail(&err);
        goto remove;
    }
    printf("stdout: %sstderr: %sexit:   %d (%s)\n", res.out, res.errout, res.exit.code,
           res.exit.reason);
    cay_result_clear(&res);
    rc = 0;

remove:
    /* Dropping a handle changes nothing inside; remove ends the sandbox and forgets its files. */
    if (cay_sandbox_remove(sb, NULL, &err) < 0)
        rc = fail(&err);
    cay_sandbox_unref(sb);
close:
    cay_client_close(client);
    return rc;
}
