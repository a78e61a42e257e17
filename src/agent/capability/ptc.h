/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/capability/ptc.h - tools as Python functions. ptc.c is the capability; ptc_module.c writes
 * the functions; ptc_wire.c carries their calls out of the sandbox; ptc_files.c tells what code
 * changed.
 */
#pragma once
#include <agent/run.h>

typedef struct cay__py_tool {
    const char *name, *about;
    const json_t *schema; /* of its arguments, or NULL */
} cay__py_tool;

extern const char cay__py_client[]; /* tools/_client.py */

/* An identifier of Python made of name; false when nothing of it is left. */
bool cay__py_name(const char *name, char *dst, size_t cap);
/* One function with types, documentation and an example. fn is its name. */
void cay__py_function(const cay__py_tool *t, const char *fn, cay__buf *out);
/* The same for people: docs/SERVER/TOOL.md. */
void cay__py_document(const cay__py_tool *t, const char *module, const char *fn, cay__buf *out);
void cay__py_head(const char *server, cay__buf *out); /* of a module */

/* A process inside that listens on a unix socket and passes calls on by its streams: there is no
 * network in it. */
typedef struct cay__relay {
    cay__peer peer;
    char path[256]; /* of the socket, as commands see it */
} cay__relay;
typedef struct cay__relay_call {
    uint64_t id;
    json_t *message; /* {"tool", "arguments"}: the receiver's */
} cay__relay_call;

int cay__relay_open(cay__relay *w, cay_sandbox *sb, const char *user, const char *cwd,
                    const cay_call *call, cay_err *err);
void cay__relay_close(cay__relay *w);
bool cay__relay_alive(const cay__relay *w);
bool cay__relay_take(cay__relay *w, cay__relay_call *out);
int cay__relay_answer(cay__relay *w, const cay_call *call, uint64_t id, bool ok,
                      const json_t *output, cay_err *err);
/* One line of it, "ID JSON", NUL-terminated; false when it is none. */
bool cay__relay_parse(const char *line, cay__relay_call *out);

typedef struct cay__seen cay__seen; /* files of a directory at one moment */
int cay__seen_look(cay_sandbox *sb, const cay_call *call, const char *root, cay__seen **out,
                   cay_err *err);
/* Names of what is new and of what is another now, both lists; *cut: there were too many files to
 * look at. */
void cay__seen_compare(const cay__seen *before, const cay__seen *after, json_t *created,
                       json_t *modified, bool *cut);
void cay__seen_free(cay__seen *s);
CAY_DEFINE_AUTO(cay__seen, cay__seen_free)
