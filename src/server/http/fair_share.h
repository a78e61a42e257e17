/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/http/fair_share.h - how many long requests of one tenant are at work at once.
 *
 * An import, an export, an upload of a context or a read of what a stopped sandbox left holds a
 * worker or a file for as long as its client likes. A tenant has so many of them at once and no
 * more, so that it cannot take all workers from the others, nor hold what was removed on disk
 * without bound.
 */
#pragma once
#include "server.h"

enum { CAY__CROWD_MOST = 4 };

struct cay__crowd *cay__crowd_new(void);
void cay__crowd_free(struct cay__crowd *c);
/* Counts the request until its end, among those of its tenant that do `what`; CAY_ERATE,
 * "too_many_at_once". */
int cay__crowd_enter(cay__req *r, const char *what, cay_err *err);
/* The same for a request without a key that is a tenant's all the same; `most` of them at once. */
int cay__crowd_enter_of(cay__req *r, const char *tenant, unsigned most, const char *what,
                        cay_err *err);
