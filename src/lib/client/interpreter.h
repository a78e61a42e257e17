/* SPDX-License-Identifier: Apache-2.0 */
/* lib/client/interpreter.h - what the code interpreter consists of. Its program finds the rest
 * beside itself. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#define CAY__INTERPRETER       "interpreter" /* the program, the service and the tag */
#define CAY__INTERPRETER_BUILT "/opt/cay/"   /* where a template has it */

typedef struct cay__interpreter_file {
    const char *name, *data;
    size_t len;
    uint32_t mode;
} cay__interpreter_file;
#define CAY__INTERPRETER_FILES 3
void cay__interpreter_files(cay__interpreter_file out[CAY__INTERPRETER_FILES]);
