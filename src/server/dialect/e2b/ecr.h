/* SPDX-License-Identifier: Apache-2.0 */
/* Accounts of registries as the SDK names them: AWS's is asked for a password by its keys, Google's
 * is one by itself. */
#pragma once
#include <base/base.h>
#include <base/buf.h>
#include <cay/client.h>
#include <jansson.h>

/* What is sent to be given a password, signed (AWS Signature Version 4). now: seconds since 1970.
 */
typedef struct e2b_ecr_key {
    const char *id, *secret, *region;
} e2b_ecr_key;
enum { E2B_ECR_DATE = 17, E2B_ECR_AUTH = 512 };
bool e2b_ecr_region_ok(const char *region);
void e2b_ecr_sign(const e2b_ecr_key *k, const char *host, long long now, char date[E2B_ECR_DATE],
                  char auth[E2B_ECR_AUTH]);
/* USER:PASSWORD of its answer, {"authorizationData": [{"authorizationToken"}]}. */
int e2b_ecr_read(const char *body, size_t len, cay__buf *out, cay_err *err);
/* $AWS_ENDPOINT_URL_ECR, or https://api.ecr.REGION.amazonaws.com: as far as the operator's
 * egress.conf lets it. */
int e2b_ecr_login(cay_client *client, const cay_call *call, const e2b_ecr_key *k, cay__buf *out,
                  cay_err *err);
/* USER:PASSWORD of a `fromImageRegistry`, of whichever type. */
int e2b_registry_login(cay_client *client, const cay_call *call, const json_t *registry,
                       cay__buf *out, cay_err *err);
