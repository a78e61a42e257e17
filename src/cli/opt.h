/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/opt.h - options as tables: parsed, explained and completed from the same rows.
 *
 *   static const opt_def opts[] = {
 *       OPT_SIZE("-m, --memory SIZE", "most memory it may use", args, memory),
 *       OPT_END
 *   };
 *
 * Forms: --name VALUE, --name=VALUE, -nVALUE, -n VALUE, flags together (-it), -- ends options.
 */
#pragma once
#include <base/buf.h>
#include <stddef.h>

typedef enum opt_kind {
    OPT_KIND_FLAG, /* bool */
    OPT_KIND_STR,  /* const char * */
    OPT_KIND_LIST, /* opt_list: may be given again */
    OPT_KIND_NUM,  /* uint64_t within min and max */
    OPT_KIND_SIZE, /* uint64_t bytes; "unlimited" is CAY_UNLIMITED */
    OPT_KIND_MS,   /* uint64_t milliseconds; "unlimited" likewise */
    OPT_KIND_CPUS, /* uint64_t thousandths */
    OPT_KIND_MODE, /* uint32_t permission bits */
} opt_kind;

typedef struct opt_def {
    const char *form; /* as help shows it: "-m, --memory SIZE", "--all"; NULL ends the table */
    const char *help;
    opt_kind kind;
    size_t offset;     /* into the struct that the table fills */
    uint64_t min, max; /* of numbers, sizes and times; max 0 means no ceiling */
    const char *bare;  /* not NULL: the value may be left out, which means this one, and is given by
                          --name=VALUE only; its form is "--name[=VALUE]" */
} opt_def;

/* What the form of an option is made of. */
typedef struct opt_name {
    char brief;      /* 0: none */
    char word[32];   /* without dashes */
    const char *arg; /* what the value is called; NULL: a flag */
} opt_name;
opt_name opt_name_of(const opt_def *d);

/* Rows of a table. The compiler refuses a field that is not of the option's type. What follows the
 * field are min, max and others. */
#define OPT_AT(type, field, want)                                                                  \
    (offsetof(type, field) + 0 * sizeof(char[_Generic(((type *)NULL)->field, want : 1)]))
#define OPT_ROW(kind, want, form, help, type, field, ...)                                          \
    {                                                                                              \
        form, help, kind, OPT_AT(type, field, want), __VA_ARGS__                                   \
    }
#define OPT_FLAG(...) OPT_ROW(OPT_KIND_FLAG, bool, __VA_ARGS__, )
#define OPT_STR(...)  OPT_ROW(OPT_KIND_STR, const char *, __VA_ARGS__, )
#define OPT_LIST(...) OPT_ROW(OPT_KIND_LIST, opt_list, __VA_ARGS__, )
#define OPT_NUM(...)  OPT_ROW(OPT_KIND_NUM, uint64_t, __VA_ARGS__, )
#define OPT_SIZE(...) OPT_ROW(OPT_KIND_SIZE, uint64_t, __VA_ARGS__, )
#define OPT_MS(...)   OPT_ROW(OPT_KIND_MS, uint64_t, __VA_ARGS__, )
#define OPT_CPUS(...) OPT_ROW(OPT_KIND_CPUS, uint64_t, __VA_ARGS__, )
#define OPT_MODE(...) OPT_ROW(OPT_KIND_MODE, uint32_t, __VA_ARGS__, )
#define OPT_END                                                                                    \
    {                                                                                              \
        .form = NULL                                                                               \
    }

#define OPT_LIST_MAX 256
typedef struct opt_list {
    const char *v[OPT_LIST_MAX];
    size_t n;
} opt_list;

/* A table and the struct it fills. */
typedef struct opt_group {
    const opt_def *defs;
    void *base;
} opt_group;

typedef struct opt_spec {
    const opt_group *groups;
    size_t ngroups;
    size_t stop_after; /* options end with this operand (run: 1, the command); 0: they never do */
} opt_spec;

/* Takes the options out of argv, leaves the operands at its start and their number in *nargs.
 * *dashes (may be NULL) tells where in the operands `--` stood, or -1.
 * CAY_EINVAL names the option; an unknown one comes with the nearest known. */
int opt_parse(const opt_spec *spec, int argc, char **argv, int *nargs, int *dashes, cay_err *err);
/* Adds the rows of a table as help text. */
void opt_help(const opt_def *defs, cay__buf *out);
/* The entry of `names` (ends with NULL) that is close enough to be meant, or NULL. */
const char *opt_nearest(const char *word, const char *const *names);
