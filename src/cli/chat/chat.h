/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/chat/chat.h - a talk with an agent: what belongs to it, and its parts.
 *
 *   row.c      options, shared with the full program
 *   loop.c     a line typed, and what becomes of it
 *   open.c     session, sandbox, model, agent
 *   turn.c     a message to the agent, until it has answered
 *   show.c     what it does, as it happens
 *   ask.c      may it?
 *   spin.c     that it is doing something
 *   command.c  /help and the others
 *   session.c  /session
 *   bang.c     !cmd and !!cmd
 *   insert.c   @file
 *   mcp.c      /mcp
 *   memory.c   agent.md
 *   conf.c     config.json
 */
#pragma once
#include "edit.h"
#include "keep.h"
#include "md.h"
#include "store.h"
#include <base/json.h>
#include <cli/agent.h>
#include <cli/sandbox_options.h>
#include <cli/cli.h>
#include <cli/out.h>

enum { CHAT_ALWAYS = 32 };

typedef struct chat_args {
    box_opts box;
    agent_model model;
    const char *agent, *session, *sandbox, *sandbox_id, *setup, *skills, *target;
    opt_list mcp, hosted;
    uint64_t max_turns;
    bool auto_approve, no_splash, empty;
    bool here; /* nobody named a directory: it is the current one */
} chat_args;

typedef enum chat_mode { CHAT_ASK, CHAT_AUTO, CHAT_NEVER } chat_mode;
extern const char *const chat_modes[]; /* ends with NULL */

/* A call that was made and has no answer yet. */
typedef struct chat_call {
    char *id, *tool, *arguments;
    bool shown;
} chat_call;

typedef struct chat {
    chat_args *a;
    json_t *conf; /* of config.json, or NULL */
    cay_client *client;
    sqlite3 *db;
    char dir[4096]; /* where history and talks are kept */
    store_session s;
    int lock; /* one talk at a time has a session; -1 */
    cay_sandbox *sb;
    bool direct; /* it works in a directory of this machine itself */
    cay_model *model;
    cay_conversation *talk;
    uint64_t turn; /* the one at hand */
    keep keep;
    edit *edit;
    box_spec box;
    agent_mcp mcp;
    agent_hosted hosted;
    cay_mcp_callbacks asks; /* what its servers may ask for */
    char memory[4096];      /* agent.md on the host */
    char *note;             /* told to the model with the next message, or NULL */

    bool tty;      /* somebody sits there: both ends are a terminal */
    bool screen;   /* standard output is one */
    bool busy;     /* what it is doing stands on the last line (spin.c) */
    bool apart;    /* what comes next is something else than what stands there: an empty line goes
                      between them */
    bool streamed; /* the message at hand was shown as it came */
    chat_mode mode, local;     /* of tools; of !cmd */
    char *always[CHAT_ALWAYS]; /* tools that need not ask any more */
    size_t nalways;

    md_paint paint;
    bool in_line; /* piped: the cursor is not at the start of a line */
    chat_call *calls;
    size_t ncalls;
    char *output; /* of the last call, whole */
    cay_tokens turn_tokens;
    size_t nitems; /* that the turn gave so far */
    bool told_keep;
    bool quit, failed;
} chat;

/* open.c */
int chat_open(chat *c, cay_err *err);
int chat_switch(chat *c, const char *name, bool create,
                cay_err *err); /* to another session; NULL: a fresh name */
void chat_leave(chat *c);      /* the session is kept, or goes when nothing was said */
int chat_forget(chat *c, const char *name,
                cay_err *err); /* a session that is not the one at hand */
int chat_lock(chat *c, const char *name, int *lock,
              cay_err *err); /* CAY_EBUSY "session_busy": another talk has it */
int chat_model(chat *c, const char *name, cay_err *err);
int chat_model_names(chat *c, char **names,
                     cay_err *err); /* a JSON list, of the endpoint at hand */
int chat_db(chat *c, cay_err *err);
void chat_close(chat *c);

/* turn.c */
void chat_turn(chat *c, const char *input); /* text, or a list of items */
int chat_stop_open(cay_err *err);
int chat_stop_fd(void);      /* readable once Ctrl+C was pressed in a turn */
void chat_stop_forget(void); /* what was pressed up to now is not meant for what comes next */
bool chat_ending(void);      /* somebody wants this program to end */
char *chat_question(const char *question); /* edit_ask() that Ctrl+C ends */

/* show.c */
int chat_event(void *arg, const cay_run_event *ev);
void chat_tool_start(chat *c, const cay_tool_call *call);
void chat_calls_clear(chat *c);
void chat_text(chat *c, out_style style, const char *fmt, ...)
    __attribute__((format(printf, 3, 4))); /* a line of ours, escaped */
void chat_patch(chat *c, const char *patch, size_t lines);
void chat_quiet_lines(chat *c);               /* finish what is being painted */
void chat_busy(chat *c, const char *what);    /* until something is to be shown */
void chat_call_seen(chat *c, const char *id); /* what it would do is about to be shown whole */

/* spin.c: a line that moves while the talk waits: what for, and how long already */
void spin_begin(const char *what); /* plain ASCII; drawn at the cursor, at the start of a line */
void spin_end(void);               /* the line is empty again, and nobody draws */

/* ask.c */
cay_verdict chat_ask(void *arg, const cay_tool_call *call, char **message);
void chat_toggle(void *arg);
cay_verdict chat_sample(void *arg, const char *server, const char *request, char **message);
int chat_elicit(void *arg, const char *server, const char *message, const char *schema,
                char **content);

/* loop.c, command.c, session.c, mcp.c, bang.c, insert.c */
int chat_loop(chat *c);
void chat_command(chat *c, const char *line);
void chat_session(chat *c, int argc, char **argv);
void chat_mcp(chat *c, int argc, char **argv);
int chat_list(sqlite3 *db, const char *current, bool json, cay_err *err);
void chat_bang(chat *c, const char *line);
char *chat_insert(chat *c, const char *text); /* what is sent for a text with @file in it */
void chat_complete(void *arg, const char *line, size_t at, const char *word,
                   void (*add)(void *to, const char *word), void *to);
void chat_command_names(const char *word, void (*add)(void *to, const char *word), void *to);
void chat_complete_argument(chat *c, const char *line, const char *word,
                            void (*add)(void *to, const char *word), void *to);

/* memory.c */
int memory_path(const char *agent, char *path, size_t cap, cay_err *err);
char *memory_text(chat *c); /* instructions: who it is, what it remembers, what the project says */
int memory_reset(const char *agent, const char *target, cay_err *err);
const cay_tool *memory_tool(chat *c);

/* conf.c */
int conf_read(json_t **out, cay_err *err);
const char *conf_dir(char *buf, size_t cap); /* ~/.config/cay, or NULL */
