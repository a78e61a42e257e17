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
int cay__units_read(const json_t *j, bool part, cay_units **out, cay_err *err);
json_t *cay__units_tell(const cay_units *u); /* canonical */
/* Fills units and nunits of a request by its services; all lives in mem. */
int cay__units_take(cay_create *c, cay__arena *mem, cay_err *err);
