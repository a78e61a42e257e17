/* SPDX-License-Identifier: Apache-2.0 */
/* base/trust.h - variables by which programs inside find the certificates of a sandbox with
 * credentials: each program reads another one; those that replace the roots get all of them. */
#pragma once

#define CAY__TRUST_BUNDLE "/etc/cay/bundle.pem"
#define CAY__TRUST_CA     "/etc/cay/ca.pem"
#define CAY__TRUST_ENV                                                                             \
    { "SSL_CERT_FILE", CAY__TRUST_BUNDLE }, { "CURL_CA_BUNDLE", CAY__TRUST_BUNDLE },               \
        { "REQUESTS_CA_BUNDLE", CAY__TRUST_BUNDLE }, { "PIP_CERT", CAY__TRUST_BUNDLE },            \
        { "GIT_SSL_CAINFO", CAY__TRUST_BUNDLE }, { "AWS_CA_BUNDLE", CAY__TRUST_BUNDLE },           \
    {                                                                                              \
        "NODE_EXTRA_CA_CERTS", CAY__TRUST_CA                                                       \
    }
