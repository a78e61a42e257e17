/* SPDX-License-Identifier: Apache-2.0 */
/* server/metrics.h - counts of what was answered, for Prometheus. */
#pragma once
#include <server/http/server.h>

struct cay__metrics *cay__metrics_new(void);
void cay__metrics_free(struct cay__metrics *m);
/* A request was answered. Any thread; a few additions. */
void cay__metrics_request(struct cay__metrics *m, const cay__dialect *d, const cay__route *route,
                          int status, uint64_t bytes, int64_t us);
int cay__on_metrics(cay__req *r, cay_err *err); /* metrics_page.c */
void cay__metrics_print(const struct cay__metrics *m, cay__buf *out);
