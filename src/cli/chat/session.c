/* SPDX-License-Identifier: Apache-2.0 */
/* /session, and cay chat list. */
#include "chat.h"
#include <base/base.h>

typedef struct listing {
    const char *current;
    out_table t;
    out_json j;
    bool json;
} listing;

static int on_row(const store_session *s, void *arg)
{
    listing *l = arg;
    int64_t now = cay__clock_ms();
    if (l->json) {
        js_object(&l->j,
                  "name:%s, agent:%s, model:%s, dir:%s, sandbox:%s, turns:%ju, input_tokens:%ju, "
                  "output_tokens:%ju, created_ms:%jd, used_ms:%jd",
                  s->name, s->agent, s->model, s->dir, s->sandbox, s->turns, s->tokens.input,
                  s->tokens.output, s->created_ms, s->used_ms);
        return 0;
    }
    if (out_list_name(s->name))
        return 0;
    bool here = l->current && !strcmp(l->current, s->name);
    out_row(&l->t, "%c%s%s|%ju|%s|%s|%s|%s|-%s", here ? OUT_BOLD : OUT_PLAIN, s->name,
            CAY_TEXT_IF(here, " *"), s->turns, out_age(now - s->used_ms).s, s->agent, s->model,
            s->sandbox, s->dir);
    return 0;
}

int chat_list(sqlite3 *db, const char *current, bool json, cay_err *err)
{
    listing l = { .current = current, .j = OUT_JSON(true), .json = json };
    out_table_open(&l.t, "SESSION|>TURNS|>USED|AGENT|MODEL|SANDBOX|DIRECTORY");
    js_open(&l.j, '[');
    int rc = store_list(db, on_row, &l, err);
    js_close(&l.j, ']');
    if (rc == 0 && json)
        js_flush(&l.j);
    if (rc == 0 && !json && !cli.quiet)
        out_table_print(&l.t);
    else
        out_table_close(&l.t);
    cay__buf_clear(&l.j.b);
    return rc;
}

static int rename_to(chat *c, const char *name, cay_err *err)
{
    if (!store_name_valid(name))
        return cay_fail(err, CAY_EINVAL,
                        "session \"%.64s\": want letters, digits, . _ and -, fewer than 64, the "
                        "first a letter or digit",
                        name);
    CAY_AUTOFD lock = -1;
    CAY_TRY(chat_lock(c, name, &lock, err));
    CAY_TRY(store_rename(c->db, c->s.name, name, err));
    cay__close_fd(&c->lock);
    c->lock = cay__steal_fd(&lock);
    CAY_COPY(c->s.name, name);
    cay_conversation_free(c->talk);
    c->talk = store_conversation(c->db, c->s.name, &c->turn);
    return 0;
}

void chat_session(chat *c, int argc, char **argv)
{
    const char *verb = "current", *name = NULL;
    if (argc > 1)
        verb = argv[1];
    if (argc > 2)
        name = argv[2];
    bool needs = !strcmp(verb, "connect") || !strcmp(verb, "load") || !strcmp(verb, "delete") ||
                 !strcmp(verb, "save");
    cay_err err = CAY_ERR_INIT;
    int rc = 0;
    chat_quiet_lines(c);
    if (needs && !name) {
        chat_text(c, OUT_WARN, "/session %s NAME", verb);
    } else if (!strcmp(verb, "list")) {
        rc = chat_list(c->db, c->s.name, false, &err);
    } else if (!strcmp(verb, "current")) {
        chat_text(c, OUT_PLAIN, "session %s: %ju turn%s, agent %s, model %s, sandbox %s%s%s",
                  c->s.name, c->s.turns, out_plural(c->s.turns, "s"), c->s.agent, c->s.model,
                  c->s.sandbox, *c->s.dir ? " on " : "", c->s.dir);
    } else if (!strcmp(verb, "create") || !strcmp(verb, "connect") || !strcmp(verb, "load")) {
        store_session old = { 0 };
        bool create = !strcmp(verb, "create");
        if (create && name && store_get(c->db, name, &old, NULL) == 0)
            rc = cay_fail(&err, CAY_EEXIST,
                          "there is a session \"%s\" already; /session connect %s goes on with it",
                          name, name);
        else if (name && !strcmp(name, c->s.name))
            chat_text(c, OUT_DIM, "that is this one");
        else
            rc = chat_switch(c, name, create, &err);
        store_session_clear(&old);
        if (rc == 0)
            chat_text(c, OUT_DIM, "session %s, %ju turn%s", c->s.name, c->s.turns,
                      out_plural(c->s.turns, "s"));
        c->quit = c->quit || !c->talk; /* the one before was left already */
    } else if (!strcmp(verb, "delete")) {
        if (!strcmp(name, c->s.name))
            chat_text(c, OUT_WARN,
                      "this is the session at hand; /session create begins another first");
        else if ((rc = chat_forget(c, name, &err)) == 0)
            chat_text(c, OUT_DIM, "session %s is gone", name);
    } else if (!strcmp(verb, "save")) {
        if ((rc = rename_to(c, name, &err)) == 0)
            chat_text(c, OUT_DIM, "this session is kept as %s", name);
    } else {
        chat_text(c, OUT_WARN,
                  "/session list, create [NAME], connect NAME, delete NAME, current, save NAME, "
                  "load NAME");
    }
    if (rc < 0)
        chat_text(c, OUT_BAD, "cay: %s", err.msg);
}
