/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server/console.h - the console: its files, and people who are logged in by a cookie instead of a
 * key.
 *
 * The cookie holds the secret of a session (cay_login_create()), never a key; HttpOnly and
 * SameSite=Strict. It opens only what its own pages ask for (Origin, Sec-Fetch-Site), changes only
 * with the token that they alone can read (X-Cay-Csrf), and opens a socket only with a ticket, good
 * once and for 30 s.
 */
#pragma once
#include <server/http/server.h>

struct cay__tickets *cay__server_tickets(cay__server *s); /* ticket.h */

/* The secret in the request's cookie, when the request may use it; NULL with *err untouched when
 * there is no cookie, NULL with err filled (and its code returned by *rc) when there is one that
 * does not count here. */
const char *cay__login_text(cay__req *r, int *rc, cay_err *err);
/* After it was found to be good: an upgrade needs a ticket of the same session. */
int cay__login_upgrade(cay__req *r, cay_err *err);

int cay__on_session_get(cay__req *r, cay_err *err);    /* who is in, and the token for changes */
int cay__on_session_post(cay__req *r, cay_err *err);   /* {"token"}: of a link, once; or {"key"} */
int cay__on_session_delete(cay__req *r, cay_err *err); /* out */
int cay__on_ticket(cay__req *r, cay_err *err);
int cay__on_sample(cay__req *r, cay_err *err); /* sample.c: what every running sandbox uses now */

/* The files, packed into the program when it is built: tools/console. */

typedef struct cay__console_file {
    const char *name, *type, *etag;  /* name below /assets/; "" is the page itself */
    const unsigned char *data, *end; /* by gzip; of the page as it is */
} cay__console_file;
extern const cay__console_file cay__console_files[]; /* ends with a NULL name; none at all when it
                                                        was built without the console */

int cay__on_console(cay__req *r, cay_err *err);       /* the page */
int cay__on_console_asset(cay__req *r, cay_err *err); /* what it loads */
