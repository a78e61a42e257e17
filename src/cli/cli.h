/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/cli.h - what every command is: a row with its words, options, examples and function.
 *
 * The small static program and the full one share these rows and files; they differ in which rows
 * their table holds, and in open.h, which says where a sandbox handle comes from.
 */
#pragma once
#include "opt.h"
#include <cay/sandbox.h>

/* Options that every command takes. */
typedef struct cli_globals {
    const char *home, *provider, *host;
    bool json, quiet, help;
} cli_globals;
extern cli_globals cli;
extern const opt_def cli_global_opts[];
const char *cli_provider(
    void);                  /* --provider, else $CAY_PROVIDER, else $SANDBOX_PROVIDER, else NULL */
const char *cli_host(void); /* --host; "" when the environment names a server; NULL: this machine */

#define CLI_ANY UINT32_MAX
typedef struct cli_verb cli_verb;
struct cli_verb {
    const char *name;     /* "run", "files ls" */
    const char *operands; /* "[OPTIONS] ID -- COMMAND [ARG…]" without the name */
    const char *summary;  /* one line */
    const char *text;     /* more, or NULL */
    const char *examples; /* lines "command   # what it does", or NULL */
    struct {
        const opt_def *defs;
        size_t base; /* offset of the struct they fill inside the verb's own */
    } opts[4];
    size_t size;         /* of the struct given to fn, zeroed and filled */
    size_t stop_after;   /* as in opt_spec */
    unsigned min, max;   /* operands */
    const char *program; /* of libexec, that does it: it gets all the words as they are; or NULL */
    int (*fn)(void *opts, int argc, char **argv); /* returns the exit code */
};

/* Exit codes of ours; a command's own are passed through. */
enum {
    CLI_OK = 0,
    CLI_FAIL = 1,
    CLI_USAGE = 2,
    CLI_BEFORE = 125,
    CLI_CANNOT = 126,
    CLI_NOT_FOUND = 127
};

/* First of all: sound standard streams, no death by SIGPIPE. */
void cli_begin(void);
/* Takes the options that stand before the verb; *used tells how many words they were. */
int cli_take_globals(int argc, char **argv, int *used, cay_err *err);
/* Parses into a fresh struct and runs. Errors of usage: err is filled and -1 returned, nothing ran.
 */
int cli_verb_run(const cli_verb *v, int argc, char **argv, int *code, cay_err *err);
/* Help of one command as text. */
void cli_verb_help(const cli_verb *v, cay__buf *out);

/* Puts the thing in front of a message that does not name it. Returns rc. */
int cli_name(cay_err *err, int rc, const char *name);
/* "cay: message", then a hint if there is one for it; returns `code`. */
int cli_fail(const cay_err *err, int code);
/* The same for a mistake in the words: points at the help of the verb. */
int cli_usage(const cli_verb *v, const cay_err *err);

/* Verbs that both programs hold. */
extern const cli_verb cli_run, cli_exec, cli_attach, cli_shell, cli_ps, cli_logs;
