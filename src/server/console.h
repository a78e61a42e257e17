/* SPDX-License-Identifier: Apache-2.0 */
/* server/console.h - the console's files, packed into the program when it was built: tools/console.
 */
#pragma once
#include <server/http/server.h>

typedef struct cay__console_file {
    const char *name, *type, *etag;  /* name below /assets/; "" is the page itself */
    const unsigned char *data, *end; /* by gzip; of the page as it is */
} cay__console_file;
extern const cay__console_file cay__console_files[]; /* ends with a NULL name; none at all when it
                                                        was built without the console */

int cay__on_console(cay__req *r, cay_err *err);       /* the page */
int cay__on_console_asset(cay__req *r, cay_err *err); /* what it loads */
