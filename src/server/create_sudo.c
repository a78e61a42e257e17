/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox for clients of hosted services, whose images have a sudo that asks for nothing. */
#include <server/http/server.h>

int cay__create_sudo(cay__req *r, cay_create *c, cay_sandbox **out, cay_err *err)
{
    cay_err why = CAY_ERR_INIT;
    c->isolation.sudo = true;
    int rc = cay_client_create(r->client, &r->call, c, out, &why);
    /* One id has nobody to become, and some providers have one user only. */
    if (rc < 0 && (cay_err_is(&why, CAY_REASON_USER_NOT_MAPPED) ||
                   cay_err_is(&why, CAY_REASON_NOT_SUPPORTED))) {
        c->isolation.sudo = false;
        return cay_client_create(r->client, &r->call, c, out, err);
    }
    return cay__err_pass(rc, &why, err);
}
