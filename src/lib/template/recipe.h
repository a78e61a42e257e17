/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lib/template/recipe.h - what a template is built by: a Dockerfile or a template file, read into
 * one list of steps.
 *
 *   cay__dockerfile_read()  the useful part of a Dockerfile
 *   cay__recipe_expand()    $NAME in a word, as Docker does it
 *   cay__recipe_read()      a template file: JSON
 *   cay__recipe_clear()
 *
 * Pure: nothing is looked up, opened or run. Words keep their quotes and variables until they are
 * expanded, because what a variable holds is known only when the base is. docs/template-file.md and
 * docs/dockerfile.md tell the two forms.
 */
#pragma once
#include <base/buf.h>
#include <cay/error.h>

#define CAY__RECIPE_BYTES (1u << 20)
#define CAY__RECIPE_STEPS 1000 /* of all stages */
#define CAY__RECIPE_WORDS 4096 /* of one step */

typedef enum cay__step_kind {
    CAY__STEP_RUN = 1,
    CAY__STEP_COPY,  /* from the context, another stage, a template or an archive that was sent */
    CAY__STEP_ADD,   /* the same, and tars are unpacked, URLs fetched */
    CAY__STEP_FILE,  /* bytes that are in the recipe */
    CAY__STEP_ENV,   /* words: name, value, name, value … */
    CAY__STEP_ARG,   /* words: name, default or "" … ; given[i]: it has a default */
    CAY__STEP_LABEL, /* as ENV */
    CAY__STEP_WORKDIR,
    CAY__STEP_USER,
    CAY__STEP_EXPOSE,
    CAY__STEP_CMD,
    CAY__STEP_ENTRYPOINT,
    CAY__STEP_SHELL,
} cay__step_kind;
const char *cay__step_name(cay__step_kind kind); /* "RUN" … */

/* RUN --mount=…: texts are words, which may have variables; NULL where nothing is said. */
typedef struct cay__run_mount {
    char type; /* 'b' bind, 'c' cache, 's' secret, 't' tmpfs */
    const char *target, *source, *from, *id, *sharing, *mode, *uid, *gid, *env, *size;
    const char *ro, *rw, *required; /* "true" and the like */
} cay__run_mount;

typedef struct cay__step {
    cay__step_kind kind;
    unsigned line;    /* where it begins; of a template file: which of its steps, from 1 */
    const char *text; /* one line for people */
    const char *const
        *words; /* NULL-terminated: arguments; of COPY and ADD the sources and, last, the target */
    size_t nwords;
    bool exec;    /* RUN, CMD, ENTRYPOINT: words are argv; else words[0] is for the shell */
    bool literal; /* words hold no quotes and no variables */
    const char *from, *chown, *chmod,
        *checksum; /* COPY and ADD; FILE has chown and chmod; or NULL */
    const char
        *archive; /* COPY: sha256 of an archive that was sent instead of a context, or NULL */
    const char *user, *cwd;       /* RUN of a template file: of this step alone; or NULL */
    bool offline;                 /* RUN --network=none */
    const cay__run_mount *mounts; /* RUN */
    size_t nmounts;
    /* FILE; and COPY from here-documents is one FILE for each. The name is words[0]; a target that
     * ends in '/' gets it below. */
    const char *data;
    size_t len;
    const char *name; /* of a here-document, or NULL */
} cay__step;

typedef struct cay__stage {
    const char *from;     /* a word: may have variables */
    const char *name;     /* AS, lower case; or NULL */
    const char *platform; /* a word, or NULL */
    unsigned line;
    size_t first, n; /* its steps */
} cay__stage;

typedef struct cay__recipe {
    cay__arena mem;
    cay__stage *stages;
    size_t nstages;
    cay__step *steps;
    size_t nsteps;
    cay__step *globals; /* ARG before the first FROM */
    size_t nglobals;
    char escape; /* '\\' or '`' */
    /* Of a template file, as it has them; "" when not. JSON texts. */
    const char *name, *services, *limits, *aliases, *net, *settings, *setting_files, *interpreter;
    const char *start, *ready, *user; /* user: of the template, not of the steps */
    int sudo;                         /* -1: as the base has it */
    bool steps_as_root; /* a template file's; in a Dockerfile they run as the base says */
} cay__recipe;

/* what: the file's name, for errors: "Dockerfile:3: …". CAY_EINVAL, "dockerfile_invalid" or
 * "dockerfile_unsupported"; err->detail is
 * {"line":…,"instruction":…}. On failure r is empty. */
int cay__dockerfile_read(cay__recipe *r, const char *what, const char *text, size_t len,
                         cay_err *err);
/* CAY_EINVAL, "template_file_invalid", naming the field. */
int cay__recipe_read(cay__recipe *r, const char *what, const char *text, size_t len, cay_err *err);
void cay__recipe_clear(cay__recipe *r);

/* One word: quotes go, variables become what get() tells (NULL: not set). CAY_EINVAL says what is
 * wrong with it, without a place. literal: it is copied. The caller frees *out. */
typedef const char *(*cay__recipe_get)(const char *name, void *arg);
int cay__recipe_expand(const char *word, char escape, cay__recipe_get get, void *arg, char **out,
                       cay_err *err);

/* A port or range: "8080", "53/udp", "8000-8010". */
bool cay__recipe_port(const char *text, unsigned *first, unsigned *last, bool *udp);
/* "0755" and the like. */
bool cay__recipe_mode(const char *text, unsigned *mode);
/* "", "true", "1", "false", "0". */
bool cay__recipe_flag(const char *text, bool *yes);

/* One instruction: what is behind its name, with continuations joined. */
typedef struct cay__instruction {
    const char *what; /* the file */
    unsigned no;
    char name[16];
    const char *rest;
    const char *const *docs; /* bodies of its here-documents, in order */
    const size_t *lens;
    size_t ndocs;
} cay__instruction;
typedef struct cay__words {
    const char **w; /* in the recipe's memory, NULL-terminated */
    size_t n;
} cay__words;
/* A here-document that a word opens: <<EOF, <<-EOF, <<"EOF", with a descriptor's number before it.
 */
typedef struct cay__heredoc {
    char name[64];
    bool strip, quoted;
} cay__heredoc;
bool cay__heredoc_word(const char *word, size_t len, cay__heredoc *out);
/* The next blank-separated word at *s, quotes and escapes kept whole: its length, 0 at the end; -1:
 * a quote is not closed. */
long cay__word_next(const char **s, char escape);

cay__step *cay__recipe_step(cay__recipe *r, cay__step_kind kind,
                            unsigned line); /* NULL: too many */
int cay__dockerfile_step(cay__recipe *r, const cay__instruction *l, cay_err *err);
/* mount.c: what is behind --mount=. */
#define CAY__RECIPE_MOUNTS 32 /* of one RUN */
int cay__mount_read(cay__recipe *r, const cay__instruction *l, const char *text,
                    cay__run_mount *out, cay_err *err);
int cay__dockerfile_bad(cay_err *err, const cay__instruction *l, const char *reason,
                        const char *fmt, ...) __attribute__((format(printf, 4, 5)));
