/* SPDX-License-Identifier: Apache-2.0 */
#include "toolset.h"
#include <agent/patch.h>
#include <signal.h>

static int find_root(cay_toolset *ts, const cay_toolset_spec *spec, const cay_call *call,
                     cay_err *err)
{
    if (spec->root)
        ts->root = cay__strdup(spec->root);
    else
        CAY_TRY(cay__workdir_of(ts->sb, call, &ts->root, err));
    ts->cwd = cay__strdup(CAY_OR(spec->cwd, ts->root));
    return 0;
}

int cay_toolset_open(const cay_toolset_spec *given, const cay_call *call, cay_toolset **out,
                     cay_err *err)
{
    cay_toolset_spec own, *spec = &own;
    CAY_TRY(cay__spec_take(&own, sizeof own, given, "cay_toolset_spec", err));
    if (!spec->sandbox)
        return cay_fail(err, CAY_EINVAL, "tools work in a sandbox: give one");
    cay_toolset *ts = cay__alloc(sizeof *ts);
    char id[CAY__ID_LEN + 1];
    ts->sb = ts->cmds.sb = cay_sandbox_ref(spec->sandbox);
    ts->user = cay__strdup_if(spec->user);
    ts->env = json_object();
    ts->python.fd = -1;
    ts->keep = spec->session != NULL;
    cay__id_make(id, 'x');
    CAY_EACH(cmd, ts->cmds.v)
        cmd->fd[0] = cmd->fd[1] = -1;
    int rc = 0;
    if ((size_t)snprintf(ts->shell_name, 33, "tools-%s", CAY_OR(spec->session, id)) > 32)
        rc = cay_fail(err, CAY_EINVAL,
                      "session \"%.60s\": a name of at most 26 letters, digits, . _ and -",
                      spec->session);
    if (rc == 0)
        rc = cay__tool_rows(spec->names, &ts->rows, &ts->nrows, err);
    if (rc == 0)
        rc = find_root(ts, spec, call, err);
    if (rc < 0)
        cay_toolset_close(ts);
    else
        *out = ts;
    return rc;
}

void cay_toolset_close(cay_toolset *ts)
{
    if (!ts)
        return;
    CAY_EACH(cmd, ts->cmds.v)
        if (!ts->keep && cmd->id && !cmd->exited)
            cay_proc_signal(cmd->p, NULL, SIGKILL, CAY_SCOPE_TREE, NULL);
    cay__cmds_drop(&ts->cmds);
    if (ts->sh && !ts->keep)
        cay_shell_end(ts->sh, NULL, NULL);
    if (ts->sh)
        cay_shell_unref(ts->sh);
    cay__peer_close(&ts->python, 0);
    cay__cdp_close(ts->browser);
    cay_sandbox_unref(ts->sb);
    json_decref(ts->env);
    free(ts->rows);
    free(ts->root);
    free(ts->cwd);
    free(ts->user);
    free(ts);
}

static bool ends_run(const cay_call *call, int rc)
{
    return rc == CAY_ECANCELED || rc == CAY_EGONE ||
           (rc == CAY_ETIMEOUT && cay__call_check(call, "call", NULL) < 0);
}

int cay__toolset_do(cay_toolset *ts, const cay__tool_row *row, const cay_call *call,
                    const json_t *args, cay_tool_output *out, bool *failed, cay_err *err)
{
    cay_err why = CAY_ERR_INIT;
    int rc = row->fn(ts, call, args, out, &why);
    *failed = rc < 0;
    if (rc < 0 && ends_run(call, rc))
        return cay__err_pass(rc, &why, err);
    if (rc < 0)
        return cay__tool_say(out, "ERROR: %s", why.msg);
    return 0;
}

static int check_arguments(const cay__tool_row *row, const char *text, json_t **args, cay_err *err)
{
    CAY_AUTOJSON *schema = json_loads(row->schema, 0, NULL);
    CAY_TRY(cay__json_object("its arguments", cay__text_or(text, "{}"), args, err));
    return cay__schema_check(schema, *args, err);
}

int cay_toolset_call(cay_toolset *ts, const cay_call *call, const char *name, const char *arguments,
                     char **text, bool *failed, cay_err *err)
{
    CAY_AUTOJSON *args = NULL;
    cay_tool_output out = { 0 };
    cay_err why = CAY_ERR_INIT;
    bool wrong = true;
    const cay__tool_row *row = NULL;
    CAY_EACH_OF(it, ts->rows, ts->nrows)
        if (!strcmp((*it)->name, name))
            row = *it;
    if (!row)
        return cay_fail_why(err, CAY_ENOENT, "tool_unknown",
                            "there is no tool \"%.64s\" in this set", name);
    int rc = 0;
    if (check_arguments(row, arguments, &args, &why) < 0)
        cay__tool_say(&out, "ERROR: arguments of %s: %s", name, why.msg);
    else
        rc = cay__toolset_do(ts, row, call, args, &out, &wrong, err);
    CAY_AUTOJSON *j = cay__output_take(&out);
    CAY_TRY(rc);
    *text = cay__json_plain(j, CAY__TEXT_MAX);
    if (failed)
        *failed = wrong;
    return 0;
}

int cay__tool_say(cay_tool_output *out, const char *fmt, ...)
{
    CAY_AUTOFREE char *text = NULL;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n >= 0)
        cay_output_text(out, text, (size_t)n);
    return 0;
}

/* The workspace itself, however it is written. */
static bool is_root(const cay_toolset *ts, const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    return strlen(ts->root) == n && !memcmp(path, ts->root, n);
}

int cay__tool_path(const cay_toolset *ts, const cay_call *call, const char *path, char *buf,
                   cay_err *err)
{
    if (!*path || !strcmp(path, ".") || !strcmp(path, "./") || is_root(ts, path)) {
        cay__str_copy(buf, CAY__TOOL_PATH, is_root(ts, path) ? ts->root : ts->cwd);
        return 0;
    }
    cay_err own = CAY_ERR_INIT;
    int rc = cay__patch_resolve(ts->sb, call, ts->root, ts->cwd, path, buf, &own);
    if (rc < 0 && cay_err_is(&own, CAY_REASON_APPLY_PATCH_INVALID_PATH))
        return cay_fail_why(err, CAY_EPERM, "path_outside", "%.150s is outside the workspace %.60s",
                            path, ts->root);
    return cay__err_pass(rc, &own, err);
}

const char *cay__tool_shown(const cay_toolset *ts, const char *path)
{
    size_t n = strlen(ts->cwd);
    if (!strncmp(path, ts->cwd, n) && path[n] == '/' && n > 1)
        return path + n + 1;
    return path;
}

int cay__tool_slurp(const cay_toolset *ts, const cay_call *call, const char *path, size_t max,
                    cay__buf *out, cay_err *err)
{
    const cay_read spec = { .size = sizeof spec, .length = max + 1, .user = ts->user };
    return cay__slurp(ts->sb, call, path, &spec, path, out, err);
}

cay_pair *cay__tool_env(const cay_toolset *ts, const cay_pair *more)
{
    size_t n = json_object_size(ts->env) + 1, k = 0;
    for (const cay_pair *p = more; p && p->key; p++)
        n++;
    cay_pair *list = cay__alloc(n * sizeof *list);
    CAY_EACH_MEMBER(name, value, ts->env)
        list[k++] = (cay_pair){ name, json_string_value(value) };
    for (const cay_pair *p = more; p && p->key; p++)
        list[k++] = *p;
    return list;
}

int cay__tool_run(const cay_toolset *ts, const cay_call *call, const cay__tool_cmd *cmd,
                  cay_result *res, cay_err *err)
{
    CAY_AUTOFREE cay_pair *env = cay__tool_env(ts, cmd->env);
    cay_spawn spec = { .size = sizeof spec,
                       .argv = cmd->argv,
                       .cwd = CAY_OR(cmd->dir, ts->cwd),
                       .user = ts->user,
                       .env = env,
                       .timeout_ms = (uint64_t)cmd->seconds * 1000 };
    *res = (cay_result){ .size = sizeof *res };
    return cay_sandbox_run(ts->sb, call, &spec, cmd->input, cmd->input_len,
                           CAY_OR(cmd->max, CAY__KEEP_BYTES), res, err);
}

void cay__tool_told(const cay_result *res, int64_t seconds, cay_tool_output *out)
{
    if (!strcmp(res->exit.reason, "time"))
        cay__tool_say(out, "[FAILED] ended after %lld seconds\n", (long long)seconds);
    else if (res->exit.code)
        cay__tool_say(out, "[FAILED] exit code %d%s%s\n", res->exit.code,
                      CAY_TEXT_IF(strcmp(res->exit.reason, "exit"), ", "),
                      CAY_TEXT_IF(strcmp(res->exit.reason, "exit"), res->exit.reason));
    else
        cay__tool_say(out, "[SUCCESS]\n");
    cay_output_text(out, CAY_OR(res->out, ""), res->out_len);
    if (res->errout_len && res->out_len && res->out[res->out_len - 1] != '\n')
        cay_output_text(out, "\n", 1);
    cay_output_text(out, CAY_OR(res->errout, ""), res->errout_len);
    if (res->truncated)
        cay__tool_say(out, "\n[more was printed than is told here]");
}
