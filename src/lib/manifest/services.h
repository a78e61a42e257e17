/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/manifest/services.h - services of a sandbox (cay/services.h) on their way between JSON and
 * plain structs.
 */
#pragma once
#include <base/arena.h>
#include <base/json.h>
#include <cay/services.h>

/* part: on top of others, whose names `after` may have. */
int cay__services_read(const json_t *j, bool part, cay_services **out, cay_err *err);
json_t *cay__services_tell(const cay_services *u); /* canonical */
/* Fills service_list and nservices of a request by its services; all lives in mem. */
int cay__services_take(cay_create *c, cay__arena *mem, cay_err *err);
