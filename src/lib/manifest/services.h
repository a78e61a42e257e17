/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/manifest/services.h - services of a sandbox (cay/services.h) on their way between JSON and
 * plain structs.
 */
#pragma once
#include <base/arena.h>
#include <base/json.h>
#include <cay/services.h>
#include <lib/client/spec.h>

/* part: on top of others, whose names `after` may have. */
int cay__services_read(const json_t *j, bool part, cay_services **out, cay_err *err);
json_t *cay__services_tell(const cay_services *u); /* canonical */
/* Fills the services of s->box by those of the request. */
int cay__services_take(cay__spec *s, cay_err *err);
