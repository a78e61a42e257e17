/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/tool/toolset.h - the tools of cay/tools.h from the inside. table.c lists them; each
 * other file has those of one kind.
 */
#pragma once
#include <agent/capability/commands.h>
#include <agent/run.h>
#include <cay/shell.h>
#include <cay/tools.h>
#include <base/json.h>
#include <cay/sandbox.h>

enum {
    CAY__TOOL_TEXT = 16 << 20, /* most of one answer */
    CAY__TOOL_PATH = 4096,
    CAY__TOOL_ACTS = 1 << 0, /* changes something: may ask before it does */
    CAY__TOOL_NET = 1 << 1,  /* reaches out of the sandbox */
};

struct cay_toolset {
    cay_sandbox *sb;
    char *root, *cwd, *user;
    char shell_name[40];
    bool keep;        /* its shell outlives it */
    cay_shell *sh;    /* opened by the first that needs it */
    cay__cmds cmds;   /* shell_interactive, and shell_exec in the background */
    int last;         /* number of the command started last; 0: none */
    json_t *env;      /* what env_set set */
    cay__peer python; /* p: NULL when it does not run */
    struct cay__cdp *browser;
    const struct cay__tool_row **rows;
    size_t nrows;
};

typedef struct cay__tool_row {
    const char *name, *about, *schema;
    unsigned flags;
    /* A negative return is told to the model as a text. */
    int (*fn)(cay_toolset *ts, const cay_call *call, const json_t *args, cay_tool_output *out,
              cay_err *err);
} cay__tool_row;

/* The head of a tool: the same for its declaration here and where it is written. */
#define CAY__TOOL_FN(name)                                                                         \
    int cay__tool_##name(cay_toolset *ts, const cay_call *call, const json_t *args,                \
                         cay_tool_output *out, cay_err *err)
CAY__TOOL_FN(file_read);
CAY__TOOL_FN(file_write);
CAY__TOOL_FN(file_edit);
CAY__TOOL_FN(file_delete);
CAY__TOOL_FN(file_list);
CAY__TOOL_FN(file_search);
CAY__TOOL_FN(file_find);
CAY__TOOL_FN(grep);
CAY__TOOL_FN(shell_exec);
CAY__TOOL_FN(shell_interactive);
CAY__TOOL_FN(shell_kill);
CAY__TOOL_FN(git_clone);
CAY__TOOL_FN(git_commit);
CAY__TOOL_FN(git_push);
CAY__TOOL_FN(git_status);
CAY__TOOL_FN(python_exec);
CAY__TOOL_FN(pip_install);
CAY__TOOL_FN(javascript_execute);
CAY__TOOL_FN(http_request);
CAY__TOOL_FN(env_get);
CAY__TOOL_FN(env_set);
CAY__TOOL_FN(process_list);
CAY__TOOL_FN(workspace_info);

CAY__TOOL_FN(browser_open);
CAY__TOOL_FN(browser_read);
CAY__TOOL_FN(browser_click);
CAY__TOOL_FN(browser_type);
CAY__TOOL_FN(browser_screenshot);

/* table.c */
extern const char *const cay__browser_tools[];   /* NULL-terminated */
const cay__tool_row *cay__tool_row_at(size_t i); /* NULL after the last */
const cay__tool_row *cay__tool_row_find(const char *name);
int cay__tool_rows(const char *const *names, const cay__tool_row ***out, size_t *n,
                   cay_err *err); /* *out is malloc'ed */

/* toolset.c: what its answer was goes to out, "ERROR: …" included; *failed then. A negative return
 * ends the run. */
int cay__toolset_do(cay_toolset *ts, const cay__tool_row *row, const cay_call *call,
                    const json_t *args, cay_tool_output *out, bool *failed, cay_err *err);
/* An absolute path inside root, links included; "" and "." are cwd. buf has CAY__TOOL_PATH bytes.
 */
int cay__tool_path(const cay_toolset *ts, const cay_call *call, const char *path, char *buf,
                   cay_err *err);
const char *cay__tool_shown(const cay_toolset *ts,
                            const char *path); /* relative to cwd where it is below */
/* The whole of a file, or its first max + 1 bytes. */
int cay__tool_slurp(const cay_toolset *ts, const cay_call *call, const char *path, size_t max,
                    cay__buf *out, cay_err *err);
/* env of a command: what env_set set, then more (ends with a NULL key; may be NULL). The caller
 * frees the list, not its strings. */
cay_pair *cay__tool_env(const cay_toolset *ts, const cay_pair *more);
/* Runs a program in dir (NULL: cwd) within `seconds`; out and err are in res. */
typedef struct cay__tool_cmd {
    const char *const *argv;
    const char *dir, *input;
    size_t input_len, max;
    const cay_pair *env;
    int64_t seconds;
} cay__tool_cmd;
int cay__tool_run(const cay_toolset *ts, const cay_call *call, const cay__tool_cmd *cmd,
                  cay_result *res, cay_err *err);
/* Says [SUCCESS] or [FAILED], then what it printed. */
void cay__tool_told(const cay_result *res, int64_t seconds, cay_tool_output *out);

/* shell.c */
int cay__tool_shell(cay_toolset *ts, const cay_call *call, cay_err *err);
/* python.c */
int cay__python_setenv(cay_toolset *ts, const cay_call *call, const char *name, const char *value,
                       cay_err *err); /* does nothing when it is not running */

/* A headless Chromium in the sandbox, driven by the DevTools protocol over
 * its standard streams: no port is opened. */

typedef struct cay__cdp {
    cay__peer peer;
    int64_t id;
    char session[80]; /* of its one page; "" until it is there */
} cay__cdp;

/* CAY_ENOENT naming the remedy when there is no Chromium inside. *out is malloc'ed. */
int cay__cdp_open(cay_sandbox *sb, const char *user, const char *cwd, const cay_pair *env,
                  const cay_call *call, cay__cdp **out, cay_err *err);
void cay__cdp_close(cay__cdp *c); /* ends the browser; NULL is nothing */
/* One command to the page. Takes params (or NULL); *result (may be NULL) is the caller's.
 * CAY_EUPSTREAM "browser_failed" for what the browser refuses, CAY_ESTATE when it has ended. */
int cay__cdp_call(cay__cdp *c, const cay_call *call, const char *method, json_t *params,
                  json_t **result, cay_err *err);
/* The value of an expression, by value. CAY_EUPSTREAM with what it threw. */
int cay__cdp_eval(cay__cdp *c, const cay_call *call, const char *script, json_t **value,
                  cay_err *err);
