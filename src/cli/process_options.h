/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/process_options.h - the options that describe a command to be started, and starting it.
 */
#pragma once
#include "sandbox_options.h"
#include <cay/sandbox.h>

typedef struct proc_opts {
    bool input, tty, login;
    const char *shell, *profile, *tag;
    uint64_t timeout_ms, kept;
    /* of exec and shell; run describes these for the whole sandbox */
    bool detach, env_only;
    const char *user, *workdir;
    opt_list env, env_files, labels;
} proc_opts;
extern const opt_def proc_opt_defs[]; /* how it is attached */
extern const opt_def proc_env_defs[]; /* as whom, where, with what environment */

/* A spawn request, and what its pointers point to. */
typedef struct proc_spec {
    cay_spawn spawn;
    cli_pairs env, labels;
} proc_spec;
/* argv may be NULL with o->shell, or when `own` says that the template's own command would do.
 * Clear it afterwards in any case. */
int proc_spec_make(const proc_opts *o, char **argv, bool own, proc_spec *out, cay_err *err);
void proc_spec_clear(proc_spec *s);
void proc_print_result(const cay_result *r); /* --json: one object */
/* Starts it in sb, moves its streams, tells why it ended; returns the exit code of this program. */
int proc_go(cay_sandbox *sb, const proc_opts *o, const cay_spawn *spec);
