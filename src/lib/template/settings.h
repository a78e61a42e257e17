/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/template/settings.h - what a template lets the creator of each sandbox choose (`settings` of
 * its config), and the files that are written by it when the sandbox is made (`setting_files`).
 * docs/templates.md tells the form.
 */
#pragma once
#include <base/json.h>
#include <cay/sandbox.h>
#include <cay/sys/provider.h>
#include <lib/client/spec.h>

#define CAY__SETTING_NAME 32

/* Judges both members of a config: CAY_EINVAL, "template_config". */
int cay__settings_check(const json_t *config, cay_err *err);

/* The given values, else those of before, else the defaults, one for each setting; *out in mem,
 * NULL when there are none. CAY_EINVAL, "setting_unknown" or "setting_invalid", tells what there
 * is. */
int cay__settings_values(const json_t *settings, const cay_pair *given, const cay_pair *before,
                         cay__arena *mem, const cay_pair **out, cay_err *err);
/* ${NAME}, ${NAME.KEY} and ${random} of content become texts; $${ is ${. */
int cay__settings_render(const json_t *settings, const cay_pair *values, const char *random,
                         const char *content, cay__buf *out, cay_err *err);

/* s->create.settings becomes all of them, and s->seeds the files. before: those of the sandbox
 * behind s->create.from, or NULL. The request has its template's config already. */
int cay__settings_prepare(cay__spec *s, const cay_pair *before, cay_err *err);
/* After the start. */
int cay__settings_write(const cay__spec *spec, const cay_provider_ops *ops, const char *id,
                        void *box, const cay_call *call, cay_err *err);

bool cay__setting_value_ok(const char *s);
