/* SPDX-License-Identifier: Apache-2.0 */
/* lib/manifest/fetch_inside.h - what git and HTTP fetches share. */
#pragma once
#include "fetch_source.h"
#include "oneshot.h"
#include <base/base.h>
#include <policy/url.h>

/* The sandbox for this fetch: its policy is f->net and the place of `url`; secrets belong to that
 * place. */
int cay__source_sandbox(cay_client *client, const cay_call *call, const cay__fetch_source *f,
                        const cay__url *url, const cay_secret *secrets, size_t nsecrets,
                        cay__oneshot **out, cay_err *err);
/* "https://host:443", with brackets around an IPv6 address. */
void cay__source_place(const cay__url *u, char *buf, size_t cap);
/* The last line of what a program said, without blanks around it, in place. */
const char *cay__source_last_line(char *text);

int cay__git_identity(cay_client *client, const cay_call *call, const cay__fetch_source *f,
                      char identity[CAY__IDENTITY], cay_err *err);
int cay__git_fetch(cay_client *client, const cay_call *call, const cay__fetch_source *f,
                   const char *identity, int dir, cay__brought *out, cay_err *err);
int cay__remote_identity(cay_client *client, const cay_call *call, const cay__fetch_source *f,
                         char identity[CAY__IDENTITY], cay_err *err);
int cay__remote_fetch(cay_client *client, const cay_call *call, const cay__fetch_source *f,
                      const char *identity, int dir, cay__brought *out, cay_err *err);
