/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/shell.h - a shell that stays: one command after another, each with its own result.
 *
 *   cay_shell_open()   find the shell of that name, or start it
 *   cay_shell_run()    one command in it
 *   cay_shell_end()    end it and what it started
 *   cay_shell_unref()  give the handle back
 *
 *     cay_shell_spec spec = { .size = sizeof spec, .name = "build" };
 *     cay_shell_open(sb, NULL, &spec, &sh, &err);
 *     cay_shell_run(sh, NULL, &(cay_shell_cmd){ .size = sizeof(cay_shell_cmd), .line = "cd src" },
 * &res, &err); cay_shell_run(sh, NULL, &(cay_shell_cmd){ .size = sizeof(cay_shell_cmd), .line =
 * "make" }, &res, &err);
 *
 * Directory, variables, functions, open descriptors and background jobs last from one command to
 * the next, also when another program comes and opens the shell by its name. It is bash where the
 * sandbox has it, else sh, and an ordinary process with the tag "shell:NAME": it is listed and
 * signalled as any other.
 *
 * Commands of several users wait for each other. A command reads nothing: its standard input is
 * /dev/null. What a background job prints belongs to the command that runs then, or to nobody.
 */
#pragma once
#include <cay/sandbox.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct cay_shell cay_shell;

#define CAY_SHELL_LINE_MAX 30000 /* bytes of one command; a longer script belongs in a file */

/* What follows the name matters only when the shell is started by this call. */
typedef struct cay_shell_spec {
    size_t size;
    const char *name;                 /* 1 to 32 letters, digits, '.', '_' or '-' */
    bool attach;                      /* never start one: CAY_ENOENT when there is none */
    bool login;                       /* a login shell, which reads the user's profile */
    const cay_pair *env;              /* ends with a NULL key */
    const char *cwd, *user, *profile; /* as in cay_spawn */
} cay_shell_spec;

/* Returns when the shell answers. CAY_ESTATE if the sandbox is not running. */
CAY_API int cay_shell_open(cay_sandbox *sb, const cay_call *call, const cay_shell_spec *spec,
                           cay_shell **out, cay_err *err);
CAY_API void cay_shell_unref(cay_shell *sh); /* the shell lives on */
/* The shell itself, for signals or its exit; lives as long as sh. */
CAY_API cay_proc *cay_shell_proc(cay_shell *sh);

typedef struct cay_shell_cmd {
    size_t size;
    const char *line; /* text for the shell, of any number of lines */
    uint64_t
        timeout_ms; /* from its begin; 0: none. It is interrupted as by Ctrl-C, what does not obey
                       within one second is killed, and the shell goes on with the next command */
    size_t max_output; /* per stream, of what is collected; 0: 16 MiB */
    /* Called with output as it comes; nothing is collected then. A return other than 0 interrupts
     * the command, and is returned by cay_shell_run(). */
    int (*output)(cay_stream which, const void *data, size_t len, void *arg);
    void *arg;
} cay_shell_cmd;

/* Runs one command and waits for its end. out->exit has the code, and as reason "exit", "time" when
 * it was interrupted by its time-out, or "ended" when the shell itself ended with it: by `exit`, by
 * `exec`, by a signal, or because it could not be interrupted. After that calls on sh are
 * CAY_EGONE, reason "shell_ended"; opening the name starts a new one. A call that is canceled or
 * passes its deadline interrupts the command. cay_result_clear() frees what was collected. One call
 * at a time on one handle; others wait. */
CAY_API int cay_shell_run(cay_shell *sh, const cay_call *call, const cay_shell_cmd *cmd,
                          cay_result *out, cay_err *err);

/* Ends the shell and all that it started; returns when it is gone. */
CAY_API int cay_shell_end(cay_shell *sh, const cay_call *call, cay_err *err);

#ifdef __cplusplus
}
#endif
