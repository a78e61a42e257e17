/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/manifest/fetch_stage.h - a directory of the state directory for something that is not whole
 * yet.
 *
 * Locked by who made it, so that whoever comes after a crash knows that it is nobody's, and removes
 * it.
 */
#pragma once
#include <cay/client.h>

typedef struct cay__fetch_stage {
    int home, fd;  /* the state directory, and the staging one */
    char name[32]; /* below fetch/ */
} cay__fetch_stage;

int cay__stage_make(cay_client *client, cay__fetch_stage *out, cay_err *err);
void cay__stage_remove(cay__fetch_stage *s); /* with all that is in it */
