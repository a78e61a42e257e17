/* SPDX-License-Identifier: Apache-2.0 */
/* cli/doctor_server.h - is this host fit to serve others, and does a server answer? */
#pragma once
#include <cay/client.h>

enum { DOCTOR_ROWS = 12, DOCTOR_TEXT = 200 };
typedef struct doctor_rows {
    cay_wall row[DOCTOR_ROWS];
    char why[DOCTOR_ROWS][DOCTOR_TEXT];
    size_t n;
} doctor_rows;
void doctor_server(cay_client *client, doctor_rows *out);
