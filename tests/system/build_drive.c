/* SPDX-License-Identifier: Apache-2.0 */
/* build_drive USER DIR NAME: builds DIR as template NAME, by a call whose file calls would be
 * USER's. CAY_HOME and CAY_LIBEXEC are in the environment. */
#include <cay/build.h>
#include <cay/client.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    cay_client *client = NULL;
    cay_err err = CAY_ERR_INIT;
    if (argc != 4)
        return 2;
    const cay_open open = { .size = sizeof open, .libexec = getenv("CAY_LIBEXEC") };
    const cay_call call = { .size = sizeof call, .user = argv[1] };
    const char *const names[] = { argv[3], NULL };
    int rc = cay_client_open(&open, &client, &err);
    if (rc == 0)
        rc = cay_build_run(
            client, &call,
            &(cay_build){ .size = sizeof(cay_build), .dir = argv[2], .names = names }, NULL, &err);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.msg);
    cay_client_close(client);
    return rc < 0;
}
