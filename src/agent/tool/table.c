/* SPDX-License-Identifier: Apache-2.0 */
/* Every tool: its name, what a model is told of it, what it takes. */
#include "toolset.h"

#define S(name, about) "\"" name "\":{\"type\":\"string\",\"description\":\"" about "\"}"
#define N(name, least, most, about)                                                                \
    "\"" name "\":{\"type\":\"integer\",\"minimum\":" #least ",\"maximum\":" #most                 \
    ",\"description\":\"" about "\"}"
#define B(name, about) "\"" name "\":{\"type\":\"boolean\",\"description\":\"" about "\"}"
#define E(name, words, about)                                                                      \
    "\"" name "\":{\"type\":\"string\",\"enum\":[" words "],\"description\":\"" about "\"}"
#define L(name, about)                                                                             \
    "\"" name "\":{\"type\":\"array\",\"minItems\":1,\"maxItems\":64,\"items\":{\"type\":"         \
    "\"string\",\"minLength\":1},\"description\":\"" about "\"}"
#define M(name, about)                                                                             \
    "\"" name "\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},"            \
    "\"description\":\"" about "\"}"
#define TAKES(required, ...)                                                                       \
    "{\"type\":\"object\",\"properties\":{" __VA_ARGS__ "},\"required\":[" required                \
    "],\"additionalProperties\":false}"
#define ACTS CAY__TOOL_ACTS
#define NET  (CAY__TOOL_ACTS | CAY__TOOL_NET)

/* clang-format cannot lay out macros between string literals. */
/* clang-format off */
static const cay__tool_row rows[] = {
    { "file_read", "Reads a text file of the workspace, or some of its lines.", TAKES("\"file\"",
      S("file", "Path of the file.") "," N("start_line", 1, 1000000000, "First line, from 1.") ","
      N("end_line", 1, 1000000000, "Last line.")), 0, cay__tool_file_read },
    { "file_write", "Writes a file, with the directories above it.", TAKES("\"file\",\"content\"",
      S("file", "Path of the file.") "," S("content", "What it holds afterwards.") "," E("encoding",
      "\"utf-8\",\"base64\"", "How content is given; utf-8 by default.") "," B("append",
      "Add to its end instead of replacing it.")), ACTS, cay__tool_file_write },
    { "file_edit", "Replaces one passage of a file; the passage must occur exactly once.",
      TAKES("\"file\",\"old_str\",\"new_str\"", S("file", "Path of the file.") "," S("old_str",
      "The passage, exactly, with enough around it to be the only one.") "," S("new_str",
      "What stands there afterwards.")), ACTS, cay__tool_file_edit },
    { "file_delete", "Deletes a file or a directory.", TAKES("\"file\"", S("file", "Its path.") ","
      B("recursive", "A directory with all that is in it.")), ACTS, cay__tool_file_delete },
    { "file_list", "Lists a directory: kind, size and name of each entry.", TAKES("", S("path",
      "The directory; the working directory by default.") "," B("recursive", "All the way down.")
      "," B("show_hidden", "Names that begin with a dot too.")), 0, cay__tool_file_list },
    { "file_search", "Finds the lines of one file that match a regular expression.",
      TAKES("\"file\",\"regex\"", S("file", "Path of the file.") "," S("regex",
      "POSIX extended regular expression.")), 0, cay__tool_file_search },
    { "file_find", "Finds files by name.", TAKES("\"glob\"", S("glob",
      "A pattern such as *.py or src/**/*.c.") "," S("path", "Where to look; the working "
      "directory by default.")), 0, cay__tool_file_find },
    { "glob", "Finds files by a pattern.", TAKES("\"pattern\"", S("pattern",
      "A pattern such as *.py or src/**/*.c.") "," S("path", "Where to look; the working "
      "directory by default.")), 0, cay__tool_file_find },
    { "grep", "Searches the files of a directory for a regular expression; at most 50 lines are "
      "told.", TAKES("\"pattern\"", S("pattern", "POSIX extended regular expression.") "," S("path",
      "Where to look; the working directory by default.") "," S("file_glob",
      "Only files with such names: *.py") "," B("case_insensitive",
      "Capitals and small letters are the same.")), 0, cay__tool_grep },
    { "shell_exec", "Runs a command in the shell of this session: directory and variables last "
      "from one call to the next.", TAKES("\"command\"", S("command",
      "One or several lines for the shell.") "," N("timeout", 1, 86400,
      "Seconds until it is interrupted; 120 by default.") "," B("background",
      "Do not wait: a session number is told, for shell_interactive.")), ACTS, cay__tool_shell_exec
      },
    { "shell_interactive", "Starts a program on a terminal, types into one, or looks at what it "
      "printed since.", TAKES("", S("command", "Starts this one.") "," N("session", 1000, 99999,
      "The number of one that runs; the last by default.") "," S("input", "What to type.") ","
      B("press_enter", "End the input with Enter; so by default.") "," N("wait", 0, 30,
      "Seconds to wait for output; 1 by default.")), ACTS, cay__tool_shell_interactive },
    { "shell_kill", "Ends a program that shell_interactive or shell_exec in the background "
      "started.", TAKES("", N("session", 1000, 99999, "Its number; the last by default.")), ACTS,
      cay__tool_shell_kill },
    { "git_clone", "Clones a git repository into the workspace.", TAKES("\"url\"", S("url",
      "Where it is.") "," S("path", "Where it goes; by its name otherwise.") "," S("branch",
      "Branch or tag.") "," N("depth", 1, 1000000, "Only so many commits.")), NET,
      cay__tool_git_clone },
    { "git_status", "Tells the branch, and what is staged, changed and new.", TAKES("", S("path",
      "The repository; the working directory by default.")), 0, cay__tool_git_status },
    { "git_commit", "Commits what is staged, or with all every change.", TAKES("\"message\"",
      S("message", "What was done, and why.") "," S("path", "The repository; the working "
      "directory by default.") "," S("author", "Name <address>") "," B("all",
      "Stage every change first, new files too.")), ACTS, cay__tool_git_commit },
    { "git_push", "Pushes commits to a remote.", TAKES("", S("path",
      "The repository; the working directory by default.") "," S("remote", "origin by default.") ","
      S("branch", "The current one by default.")), NET, cay__tool_git_push },
    { "python_exec", "Runs Python code; what it defines stays for the next call, and the value of "
      "a last expression is told.", TAKES("\"code\"", S("code", "The code.") "," N("timeout", 1,
      86400, "Seconds until it is interrupted; 30 by default.")), ACTS, cay__tool_python_exec },
    { "pip_install", "Installs Python packages.", TAKES("\"packages\"", L("packages",
      "Their names, with versions if need be: numpy==2.1")), NET, cay__tool_pip_install },
    { "javascript_execute", "Runs JavaScript with Node.js; nothing stays for the next call.",
      TAKES("\"code\"", S("code", "The code.") "," N("timeout", 1, 86400,
      "Seconds until it is ended; 30 by default.")), ACTS, cay__tool_javascript_execute },
    { "http_request", "Sends an HTTP request from inside the sandbox, within its network policy; "
      "tells status, header and body.", TAKES("\"url\"", S("url", "http:// or https://") ","
      E("method", "\"GET\",\"HEAD\",\"POST\",\"PUT\",\"PATCH\",\"DELETE\",\"OPTIONS\"",
      "GET by default.") "," M("headers", "Header fields by name.") "," S("body", "What is sent.")
      "," N("timeout", 1, 600, "Seconds; 30 by default.")), NET, cay__tool_http_request },
    { "browser_open", "Opens a page in a browser inside the sandbox; tells its title, its text "
      "and what can be clicked or filled in.", TAKES("\"url\"", S("url",
      "http://, https:// or file://")), NET, cay__tool_browser_open },
    { "browser_read", "Tells the text of the page that is open, or of a part of it, and what can "
      "be clicked or filled in.", TAKES("", S("selector", "CSS selector of the part.") ","
      B("elements", "Name what can be clicked or filled in; so by default.")), 0,
      cay__tool_browser_read },
    { "browser_click", "Clicks on something of the page, and tells the page afterwards.", TAKES("",
      S("selector", "CSS selector.") "," S("text", "Or the text that it shows.")), NET,
      cay__tool_browser_click },
    { "browser_type", "Fills in a field of the page, instead of what it holds, and tells the page "
      "afterwards.", TAKES("\"selector\",\"text\"", S("selector", "CSS selector of the field.") ","
      S("text", "What to type.") "," B("submit", "Press Enter behind it.")), NET,
      cay__tool_browser_type },
    { "browser_screenshot", "Shows you the page as a picture.", TAKES("", B("full_page",
      "All of it, not only what fits the window.")), 0, cay__tool_browser_screenshot },
    { "env_get", "Tells a variable of the environment, or without a name those that env_set set.",
      TAKES("", S("name", "Its name.")), 0, cay__tool_env_get },
    { "env_set", "Sets a variable for this session: the shell, Python, git and pip see it.",
      TAKES("\"name\",\"value\"", S("name", "Its name.") "," S("value", "Its value.")), ACTS,
      cay__tool_env_set },
    { "process_list", "Lists the processes of the sandbox.", TAKES("", S("filter",
      "Only those whose command holds this text.")), 0, cay__tool_process_list },
    { "workspace_info", "Tells where you are: sandbox, workspace, working directory, user.",
      TAKES("", ""), 0, cay__tool_workspace_info },
};
/* clang-format on */

const char *const cay__browser_tools[] = { "browser_open", "browser_read",       "browser_click",
                                           "browser_type", "browser_screenshot", NULL };

const cay__tool_row *cay__tool_row_at(size_t i)
{
    if (i < CAY_LEN(rows))
        return &rows[i];
    return NULL;
}

const cay__tool_row *cay__tool_row_find(const char *name)
{
    CAY_EACH(row, rows)
        if (!strcmp(row->name, name))
            return row;
    return NULL;
}

int cay__tool_rows(const char *const *names, const cay__tool_row ***out, size_t *n, cay_err *err)
{
    const cay__tool_row **list = cay__alloc(CAY_LEN(rows) * sizeof *list);
    *n = 0;
    for (size_t i = 0; !names && i < CAY_LEN(rows); i++)
        list[(*n)++] = &rows[i];
    for (size_t i = 0; names && names[i]; i++) {
        const cay__tool_row *row = cay__tool_row_find(names[i]);
        bool twice = false;
        CAY_EACH_OF(it, list, *n)
            twice = twice || *it == row;
        if (!row || twice) {
            free(list);
            if (row)
                return cay_fail(err, CAY_EINVAL, "tool %s is named twice", row->name);
            return cay_fail_why(err, CAY_EINVAL, "tool_unknown",
                                "there is no tool \"%.64s\"; `cay tools` lists them", names[i]);
        }
        list[(*n)++] = row;
    }
    *out = list;
    return 0;
}

const char *cay_toolset_name(size_t i, const char **description)
{
    const cay__tool_row *row = cay__tool_row_at(i);
    if (row && description)
        *description = row->about;
    if (row)
        return row->name;
    return NULL;
}

static json_t *define_tool(const cay__tool_row *row, cay_tools_form form)
{
    json_t *schema = json_loads(row->schema, 0, NULL), *j;
    switch (form) {
    case CAY_TOOLS_MCP:
        return json_pack("{s:s, s:s, s:o, s:{s:b, s:b}}", "name", row->name, "description",
                         row->about, "inputSchema", schema, "annotations", "readOnlyHint",
                         !(row->flags & ACTS), "openWorldHint", !!(row->flags & CAY__TOOL_NET));
    case CAY_TOOLS_OPENAI:
        return json_pack("{s:s, s:s, s:s, s:o}", "type", "function", "name", row->name,
                         "description", row->about, "parameters", schema);
    default:
        j = json_pack("{s:s, s:s, s:o}", "name", row->name, "description", row->about, "parameters",
                      schema);
        if (form == CAY_TOOLS_CHAT)
            return json_pack("{s:s, s:o}", "type", "function", "function", j);
        return j;
    }
}

int cay_toolset_json(const char *const *names, cay_tools_form form, char **out, cay_err *err)
{
    CAY_AUTOJSON *list = json_array();
    CAY_AUTOFREE const cay__tool_row **chosen = NULL;
    size_t n;
    CAY_TRY(cay__tool_rows(names, &chosen, &n, err));
    CAY_EACH_OF(it, chosen, n)
        json_array_append_new(list, define_tool(*it, form));
    *out = cay__json_text(list, CAY__TEXT_MAX);
    if (*out)
        return 0;
    return cay_fail(err, CAY_ETOOBIG, "the definitions are too large");
}
