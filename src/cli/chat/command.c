/* SPDX-License-Identifier: Apache-2.0 */
/* /help and the others. */
#include "chat.h"
#include <base/base.h>
#include <cay/workspace.h>
#include <cli/show.h>
#include <cli/opt.h>

enum { WORDS = 16, PATCH_LINES = 2000, HELP_WORD = 24, MODELS_SHOWN = 60 };

static void report_error(chat *c, const cay_err *err)
{
    chat_text(c, OUT_BAD, "cay: %s", err->msg);
}

static void clear_conversation(chat *c, int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    if (cay_conversation_clear(c->talk, &err) < 0) {
        report_error(c, &err);
        return;
    }
    if (c->screen)
        out_str("\033[H\033[2J");
    chat_text(c, OUT_DIM, "what was said is forgotten; files stay as they are");
}

static void show_tokens(chat *c, int argc, char **argv)
{
    const cay_tokens *t = &c->s.tokens, *l = &c->turn_tokens;
    chat_text(c, OUT_PLAIN, "session   %ju in (%ju cached), %ju out, %ju request%s", t->input,
              t->cached, t->output, t->requests, out_plural(t->requests, "s"));
    chat_text(c, OUT_PLAIN, "last turn %ju in (%ju cached), %ju out, %ju request%s", l->input,
              l->cached, l->output, l->requests, out_plural(l->requests, "s"));
}

static const char *model_name(const json_t *m)
{
    if (json_is_string(m))
        return json_string_value(m);
    return cay__json_str(m, "name", "");
}

static bool has_model(const json_t *own, const char *name)
{
    size_t i;
    json_t *m;
    json_array_foreach(own, i, m)
        if (!strcmp(model_name(m), name))
            return true;
    return false;
}

/* Those of the configuration, then those of the endpoint. */
static void list_models(chat *c, int argc, char **argv)
{
    CAY_AUTOFREE char *text = NULL;
    cay_err err = CAY_ERR_INIT;
    size_t i;
    json_t *m;
    chat_text(c, OUT_BOLD, "* %s", c->s.model);
    const json_t *own = json_object_get(c->conf, "models");
    json_array_foreach(own, i, m)
        if (strcmp(model_name(m), c->s.model))
            chat_text(c, OUT_PLAIN, "  %s", model_name(m));
    if (!strncmp(c->s.model, "scripted:", 9)) {
        chat_text(c, OUT_DIM, "/model use NAME changes it");
        return;
    }
    chat_busy(c, "Asking the endpoint");
    int rc = chat_model_names(c, &text, &err);
    CAY_AUTOJSON *theirs = NULL;
    if (rc == 0)
        theirs = json_loads(text, 0, NULL);
    chat_quiet_lines(c);
    json_array_foreach(theirs, i, m)
        if (i < MODELS_SHOWN && !has_model(own, json_string_value(m)) &&
            strcmp(json_string_value(m), c->s.model))
            chat_text(c, OUT_PLAIN, "  %s", json_string_value(m));
    if (json_array_size(theirs) > MODELS_SHOWN)
        chat_text(c, OUT_DIM, "  … %zu more", json_array_size(theirs) - MODELS_SHOWN);
    if (rc < 0)
        chat_text(c, OUT_WARN, "the endpoint does not tell which models it has: %s", err.msg);
    chat_text(c, OUT_DIM, "/model use NAME changes it");
}

static void set_model(chat *c, int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    bool use = argc > 1 && !strcmp(argv[1], "use");
    const char *name = CAY_IF(argc > 1 + use, argv[1 + use]);
    if (argc < 2 || (argc == 2 && !strcmp(argv[1], "list"))) {
        list_models(c, argc, argv);
        return;
    }
    if (!name)
        chat_text(c, OUT_WARN, "/model use NAME");
    else if (chat_model(c, name, &err) < 0)
        report_error(c, &err);
    else
        chat_text(c, OUT_DIM, "from now on %s answers", c->s.model);
}

static void set_mode(chat *c, int argc, char **argv)
{
    static const char *const what[] = { "commands and patches are asked for",
                                        "commands and patches run at once",
                                        "commands and patches are refused" };
    bool local = false, sandbox = false;
    int to = -1;
    for (int i = 1; i < argc; i++) {
        local = local || !strcmp(argv[i], "--local") || !strcmp(argv[i], "--all");
        sandbox = sandbox || !strcmp(argv[i], "--sandbox") || !strcmp(argv[i], "--all");
        for (int k = 0; chat_modes[k]; k++) {
            if (!strcmp(argv[i], chat_modes[k]))
                to = k;
        }
    }
    if (argc > 1 && strcmp(argv[1], "list") && to < 0) {
        chat_text(c, OUT_WARN,
                  "/mode ask|auto|never [--sandbox|--local|--all]: tools in the sandbox (default), "
                  "!commands on this machine, or both");
        return;
    }
    if (to >= 0 && (sandbox || !local))
        c->mode = (chat_mode)to;
    if (to >= 0 && local)
        c->local = (chat_mode)to;
    for (int k = 0; to < 0 && chat_modes[k]; k++)
        chat_text(c, (int)c->mode == k ? OUT_BOLD : OUT_PLAIN, "%c %-6s %s",
                  (int)c->mode == k ? '*' : ' ', chat_modes[k], what[k]);
    if (to >= 0)
        chat_text(c, OUT_DIM, "%s; !commands on this machine: %s", what[c->mode],
                  chat_modes[c->local]);
}

static void request_quit(chat *c, int argc, char **argv)
{
    c->quit = true;
}

static void show_output(chat *c, int argc, char **argv)
{
    chat_text(c, OUT_PLAIN, "%s", CAY_OR(c->output, "no tool was called yet"));
}

static void told_back(chat *c, const keep_done *d)
{
    if (d->left)
        chat_text(c, OUT_WARN, "%zu could not be taken back: %s%s", d->left, d->name,
                  d->left > 1 ? " and others" : "");
}

static void undo_turn(chat *c, int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    keep_done done = { 0 };
    bool call = argc > 1 && !strcmp(argv[1], "call");
    if (argc > 1 && !call) {
        chat_text(c, OUT_WARN,
                  "/undo takes back the last turn, words and files; /undo call only the files of "
                  "the last tool call");
        return;
    }
    if (!call && !c->s.turns) {
        chat_text(c, OUT_WARN, "nothing was said yet");
        return;
    }
    if (call && c->keep.off) {
        chat_text(c, OUT_WARN, "files of this sandbox cannot be taken back");
        return;
    }
    int rc;
    if (c->keep.off)
        rc = 0;
    else if (call)
        rc = keep_back_once(&c->keep, &done, &err);
    else
        rc = keep_back(&c->keep, c->s.turns, &done, &err);
    if (rc < 0) {
        report_error(c, &err);
        return;
    }
    told_back(c, &done);
    free(c->note);
    c->note = NULL;
    if (call) {
        c->note = cay__strdup("(I took back what your last tool call changed in files.)");
        chat_text(c, OUT_DIM, "files are as they were before the last tool call");
        return;
    }
    if (store_forget(c->db, c->s.name, c->s.turns, &err) < 0 ||
        (c->s.turns--, store_put(c->db, &c->s, &err)) < 0)
        report_error(c, &err);
    else
        chat_text(c, OUT_DIM,
                  c->keep.off
                      ? "the last turn is forgotten; files of this sandbox cannot be taken back"
                      : "the last turn is taken back, files and all");
}

typedef struct view {
    chat *c;
    size_t n;
    bool list, all;
} view;

static int on_change(const cay_file_change *ch, void *arg)
{
    view *v = arg;
    v->n++;
    if (v->list || !ch->text) {
        change_print(ch, "");
    } else {
        CAY_AUTOFREE char *text = strndup(ch->text, ch->text_len);
        chat_patch(v->c, CAY_OR(text, ""), PATCH_LINES);
    }
    if (out_broken())
        return CAY_ECANCELED;
    return 0;
}

static void show_diff(chat *c, int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    view v = { .c = c, .list = argc > 1 && !strcmp(argv[1], "list") };
    cay_diff d = { .size = sizeof d, .a = c->s.sandbox, .patch = !v.list };
    chat_quiet_lines(c);
    if (cay_client_diff(c->client, NULL, &d, on_change, &v, NULL, &err) < 0)
        report_error(c, &err);
    else if (!v.n)
        chat_text(c, OUT_DIM, "nothing changed");
}

static void on_change_result(const cay_file_change *ch, cay_apply_result r, const char *why,
                             void *arg)
{
    view *v = arg;
    if (r == CAY_APPLY_DONE)
        change_print(ch, "");
    else if (r != CAY_APPLY_DECLINED && r != CAY_APPLY_SAME)
        chat_text(v->c, OUT_WARN, "%s: %s", ch->path, why);
}

/* y takes it, n leaves it, d shows it, a takes all that follow, q ends before anything is written.
 */
static int ask_change(const cay_file_change *ch, void *arg)
{
    view *v = arg;
    while (!v->all) {
        change_print(ch, "");
        CAY_AUTOFREE char *said = chat_question("apply? y(es), n(o), d(iff), a(ll), q(uit): ");
        switch (said ? *said : 'q') {
        case 'y': return 1;
        case 'n': return 0;
        case 'q': return -1;
        case 'a': v->all = true; break;
        case 'd': {
            CAY_AUTOFREE char *text = NULL;
            if (ch->text)
                text = strndup(ch->text, ch->text_len);
            chat_patch(v->c, CAY_OR(text, "(nothing to show)"), PATCH_LINES);
        }
        }
    }
    return 1;
}

static void apply_changes(chat *c, int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    cay_applied sum = { .size = sizeof sum };
    view v = { .c = c };
    const char *paths[WORDS];
    size_t n = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-y") || !strcmp(argv[i], "--yes"))
            v.all = true;
        else
            paths[n++] = argv[i];
    }
    if (c->direct) {
        chat_text(c, OUT_DIM,
                  "there is no wall here: files were changed when the agent changed them");
        return;
    }
    if (!*c->s.dir) {
        chat_text(c, OUT_WARN,
                  "this sandbox stands on no directory; `cay cp %s:PATH .` brings files out",
                  c->s.sandbox);
        return;
    }
    if (!c->tty && !v.all) {
        chat_text(c, OUT_WARN,
                  "there is no terminal to ask on: /apply --yes takes everything over");
        return;
    }
    cay_apply spec = { .size = sizeof spec,
                       .paths = paths,
                       .npaths = n,
                       .text = !v.all,
                       .choose = v.all ? NULL : ask_change,
                       .told = on_change_result,
                       .arg = &v };
    if (cay_sandbox_apply(c->sb, NULL, &spec, &sum, &err) < 0)
        err.code == CAY_ECANCELED ? chat_text(c, OUT_DIM, "nothing was applied")
                                  : report_error(c, &err);
    else
        chat_text(c, OUT_DIM, "%zu applied to %s%s", sum.done, c->s.dir,
                  sum.left ? "; what was left is named above" : "");
}

static void show_help(chat *c, int argc, char **argv);
static const struct {
    const char *name, *operands, *what;
    void (*fn)(chat *c, int argc, char **argv);
    const char *const words[10]; /* that may follow */
} commands[] = {
    { "help", "", "this", show_help, { NULL } },
    { "diff", "[list]", "what it changed, as a patch or a list", show_diff, { "list", NULL } },
    { "apply",
      "[--yes] [PATH…]",
      "take changes over into your directory",
      apply_changes,
      { "--yes", NULL } },
    { "undo", "[call]", "take the last turn back, files and all", undo_turn, { "call", NULL } },
    { "output", "", "all of what the last tool answered", show_output, { NULL } },
    { "mode",
      "[ask|auto|never] [--local|--all]",
      "whether tools are asked for (Ctrl+T)",
      set_mode,
      { "ask", "auto", "never", "list", "--sandbox", "--local", "--all", NULL } },
    { "model", "[use NAME]", "who answers", set_model, { "use", "list", NULL } },
    { "models", "", "who could", list_models, { NULL } },
    { "session",
      "[list|create|connect|delete|current|save|load] [NAME]",
      "talks that are kept",
      chat_session,
      { "list", "create", "connect", "delete", "current", "save", "load", NULL } },
    { "mcp",
      "[SERVER] [prompt NAME [KEY=VALUE…]|read URI]",
      "what its MCP servers offer",
      chat_mcp,
      { "prompt", "read", NULL } },
    { "tokens", "", "what it cost", show_tokens, { NULL } },
    { "clear", "", "forget what was said", clear_conversation, { NULL } },
    { "quit", "", "end (Ctrl+D)", request_quit, { NULL } },
    { "exit", "", "end", request_quit, { NULL } },
};

static void show_help(chat *c, int argc, char **argv)
{
    CAY_EACH(command, commands) {
        char word[128];
        CAY_FORMAT(word, "/%s %s", command->name, command->operands);
        size_t wide = md_columns(word, strlen(word));
        if (wide <= HELP_WORD)
            chat_text(c, OUT_PLAIN, "%s%*s  %s", word, (int)(HELP_WORD - wide), "", command->what);
        else /* what it does stands below */
            chat_text(c, OUT_PLAIN, "%s\n      %s", word, command->what);
    }
    chat_text(c, OUT_PLAIN,
              "%-*s  send a file along (Tab completes)\n"
              "%-*s  run it on this machine, after a yes\n"
              "%-*s  run it in the sandbox\n"
              "Alt+Enter or a backslash at the end begins another line, and what is pasted stays "
              "together; Ctrl+E opens $EDITOR; Ctrl+C interrupts, twice ends",
              HELP_WORD, "@file", HELP_WORD, "!cmd", HELP_WORD, "!!cmd");
}

void chat_command(chat *c, const char *line)
{
    CAY_AUTOFREE char *text = cay__strdup(line + 1);
    const char *names[CAY_LEN(commands) + 1] = { NULL };
    char *argv[WORDS + 1], *save = NULL;
    int argc = 0;
    for (char *w = strtok_r(text, " \t\n", &save); w && argc < WORDS;
         w = strtok_r(NULL, " \t\n", &save))
        argv[argc++] = w;
    for (size_t i = 0; i < CAY_LEN(commands); i++) {
        names[i] = commands[i].name;
        if (argc && !strcmp(argv[0], commands[i].name)) {
            commands[i].fn(c, argc, argv);
            return;
        }
    }
    const char *near = opt_nearest(argv[0], names);
    chat_text(c, OUT_WARN,
              near ? "there is no /%s; did you mean /%s?"
                   : "there is no /%s; /help shows what there is",
              argv[0], CAY_OR(near, ""));
}

void chat_command_names(const char *word, void (*add)(void *to, const char *word), void *to)
{
    CAY_EACH(command, commands) {
        char name[32] = "/";
        cay__str_copy(name + 1, sizeof name - 1, command->name);
        if (!strncmp(name, word, strlen(word)))
            add(to, name);
    }
}

typedef struct naming {
    const char *word;
    void (*add)(void *to, const char *word);
    void *to;
} naming;

static int on_session(const store_session *s, void *arg)
{
    naming *n = arg;
    if (!strncmp(s->name, n->word, strlen(n->word)))
        n->add(n->to, s->name);
    return 0;
}

void chat_complete_argument(chat *c, const char *line, const char *word,
                            void (*add)(void *to, const char *word), void *to)
{
    size_t len = strcspn(line + 1, " \t");
    CAY_EACH(command, commands) {
        if (strlen(command->name) != len || strncmp(command->name, line + 1, len))
            continue;
        for (const char *const *w = command->words; *w; w++)
            if (!strncmp(*w, word, strlen(word)))
                add(to, *w);
        naming n = { word, add, to };
        if (command->fn == chat_session &&
            (strstr(line, "connect ") || strstr(line, "load ") || strstr(line, "delete ")))
            store_list(c->db, on_session, &n, NULL);
    }
}
