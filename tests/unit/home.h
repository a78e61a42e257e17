/* SPDX-License-Identifier: Apache-2.0 */
/* A state directory for each case: home_up() and home_down() are set-up and tear-down, or what
 * those of a file begin and end with. */
#pragma once
#include <cay/cay.h>
#include <support/support.h>

static char *home;

static inline int home_up(void **s)
{
    (void)s;
    home = support_home();
    return home ? 0 : -1;
}

static inline int home_down(void **s)
{
    (void)s;
    support_home_remove(home);
    home = NULL;
    return 0;
}

/* The service of that directory; provider NULL: whatever is the default. */
static inline cay_client *home_open(const char *provider, const cay_provider_ops *const *extra)
{
    cay_client *client = NULL;
    cay_err err = CAY_ERR_INIT;
    cay_open o = { .size = sizeof o,
                   .home = home,
                   .provider = provider,
                   .libexec = support_libexec(),
                   .extra = extra };
    if (cay_client_open(&o, &client, &err) < 0)
        fail_msg("open: %s", err.msg);
    return client;
}
