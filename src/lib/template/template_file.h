/* SPDX-License-Identifier: Apache-2.0 */
/* lib/template/template_file.h - between the files that read a template file. */
#pragma once
#include "recipe.h"
#include <base/base.h>
#include <base/json.h>

typedef struct cay__tfile {
    cay__recipe *r;
    const struct cay__tfield *field; /* at hand */
    const char *what;
    char at[160]; /* which field, for errors */
    unsigned no;  /* of the step, from 1 */
    cay_err *err;
} cay__tfile;

typedef struct cay__tfield {
    const char *name;
    int (*on)(cay__tfile *, const json_t *);
    size_t at;        /* of a text that the recipe keeps */
    const char *form; /* what it has to be */
} cay__tfield;

int cay__tfile_bad(const cay__tfile *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void cay__tfile_at(cay__tfile *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A text without NUL inside; NULL and the error when it is none. */
const char *cay__tfile_text(const cay__tfile *f, const json_t *j);
/* A list of texts, or one text. */
int cay__tfile_list(const cay__tfile *f, const json_t *j, cay__words *out);
int cay__tfile_step(cay__tfile *f, cay__step_kind kind, cay__step **out);
/* One with these words, and its line for people. */
int cay__tfile_words(cay__tfile *f, cay__step_kind kind, const cay__words *w, bool literal,
                     cay__step **out);
/* Gives the step its line for people. */
void cay__tfile_tell(cay__tfile *f, cay__step *s);
int cay__tfile_pairs(cay__tfile *f, const json_t *j, cay__step_kind kind);

/* Fields of the file that become steps; file_step.c */
int cay__tfile_run(cay__tfile *f, const json_t *j);
int cay__tfile_packages(cay__tfile *f, const json_t *j);
int cay__tfile_files(cay__tfile *f, const json_t *j);
int cay__tfile_steps(cay__tfile *f, const json_t *j);
int cay__tfile_env(cay__tfile *f, const json_t *j);
int cay__tfile_workdir(cay__tfile *f, const json_t *j);
