/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/cli.h - what every command is: a row with its words, options, examples and function.
 *
 * The small static program and the full one share these rows and files; they differ in which rows
 * their table holds, and in the cli_backend that gives them sandbox handles.
 */
#pragma once
#include "opt.h"
#include <base/base.h>
#include <cay/client.h>
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

/* Where a sandbox handle comes from. The full program asks the client (client.c); the small one
 * asks the native provider without a store, and becomes the full program when it cannot serve
 * (main_hot.c). */
typedef struct cli_backend {
    /* The client, opened at first use and closed at exit; NULL in the small program. */
    int (*client)(cay_client **out, cay_err *err);
    int (*find)(const char *id, cay_sandbox **out, cay_err *err); /* whole, a prefix, or a name */
    /* spec->ephemeral tells whether it is thrown away afterwards. */
    int (*create)(const cay_create *spec, cay_sandbox **out, cay_err *err);
    /* That sandbox could not be made, which was found out when its first command was started.
     * Returns unless another program does it instead. */
    void (*refused)(const cay_err *err);
    /* For one that a person names and that stays: CAY_EEXIST, "name_taken", naming who has it. */
    int (*check_name)(const char *name, cay_err *err);
    /* What its template starts when nobody says what: entrypoint, then cmd. Free the answer, one
     * piece. CAY_EINVAL, "command_empty": nothing. */
    int (*command)(const cay_create *spec, const char ***out, cay_err *err);
    void (*discard)(cay_sandbox *sb); /* ends a thrown-away one; the handle is given back too */
} cli_backend;
extern const cli_backend *cli_boxes; /* set by main() */
extern const cli_backend cli_client_boxes;
/* Full program only. */
int cli_client(cay_client **out, cay_err *err);
extern bool cli_settling; /* this process does the deferred work: it starts nobody for it at exit */

CAY_DEFINE_AUTO(cay_sandbox, cay_sandbox_unref)
CAY_DEFINE_AUTO(cay_proc, cay_proc_unref)

/* One call of a command: its words, its options, and what it works on. */
typedef struct cli_verb cli_verb;
typedef struct cli_call {
    const cli_verb *verb;
    void *opts; /* the struct that its tables filled */
    int argc;   /* operands */
    char **argv;
    cay_client *client;    /* with CLI_CLIENT */
    cay_sandbox *sb;       /* with CLI_SANDBOX, or after cli_find() */
    struct out_list *list; /* with .columns: a list that is printed after fn */
} cli_call;

/* What is ready when fn is called. */
enum {
    CLI_CLIENT = 1,  /* the client */
    CLI_SANDBOX = 2, /* the sandbox that the first operand names */
    CLI_EACH = 4,    /* one operand: fn is called for each of them, until one fails */
    CLI_GO_ON = 8,   /* CLI_EACH goes on after one that failed, and fails at the end */
    CLI_PATHS = 16,  /* CLI_SANDBOX; the first operand may be ID:PATH, which counts as two */
};

#define CLI_ANY UINT32_MAX
struct cli_verb {
    /* Rows begin with these three: */
    const char *name;     /* "run", "files ls" */
    const char *operands; /* "[OPTIONS] ID -- COMMAND [ARG…]" without the name; NULL: a heading */
    const char *summary;  /* one line */
    const char *text;     /* more, or NULL */
    const char *examples; /* lines "command   # what it does", or NULL */
    struct {
        const opt_def *defs;
        size_t base; /* offset of the struct they fill inside the verb's own */
    } opts[4];
    size_t size;         /* of the struct given to fn, zeroed and filled */
    size_t stop_after;   /* as in opt_spec */
    unsigned min, max;   /* operands; max 0: no more than min */
    const char *program; /* of libexec, that does it: it gets all the words as they are; or NULL */
    unsigned needs;      /* CLI_CLIENT … */
    int arg;             /* tells a function of several verbs which one it is */
    const char *columns; /* of a list: its titles, as in out_table_open(); or NULL */
    /* The exit code, or a negative code with err filled: then the error is printed, and the exit
     * code is CLI_FAIL. */
    int (*fn)(cli_call *c, cay_err *err);
};
/* The usual case: one table, which fills the struct that fn is given. */
#define CLI_OPTS(table, type) .opts = { { table, 0 } }, .size = sizeof(type)

/* Commands that remove things by name take -f: one that is not there is no error. */
typedef struct cli_force {
    bool force;
} cli_force;
extern const opt_def cli_force_defs[];
int cli_forgive(const cli_call *c, int rc); /* rc, or CLI_OK for CAY_ENOENT with -f */

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
/* Help of one command, on standard output. */
void cli_verb_help(const cli_verb *v);
/* The sandbox that the first operand names, as c->sb, for a command that checks its words before.
 */
int cli_find(cli_call *c, cay_err *err);

/* Puts the thing in front of a message that does not name it. Returns rc. */
int cli_name(cay_err *err, int rc, const char *name);
/* "cay: message", then a hint if there is one for it; returns `code`. */
int cli_fail(const cay_err *err, int code);
/* The same for a mistake in the words: points at the help of the verb. */
int cli_usage(const cli_verb *v, const cay_err *err);
int cli_misuse(const cli_call *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Verbs that two programs hold. */
extern const cli_verb cli_run, cli_exec, cli_attach, cli_shell, cli_ps, cli_logs;
extern const cli_verb cli_chat, cli_chat_list, cli_chat_rm, cli_chat_reset;
