/* SPDX-License-Identifier: Apache-2.0 */
/* server/http/auth.h - what the server's own files see of who asks; dialects see server.h. */
#pragma once
#include "limits.h"
#include "server.h"

cay__gate *cay__server_gate(cay__server *s);
int cay__auth_session(cay__req *r, const char *text,
                      cay_err *err); /* of a cookie; cay__auth_key() knows keys alone */
