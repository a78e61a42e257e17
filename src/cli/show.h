/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/show.h - sandboxes, templates, snapshots, changes and builds as text and as JSON.
 */
#pragma once
#include "out.h"
#include <cay/build.h>
#include <cay/client.h>
#include <cay/workspace.h>
#include <pthread.h>
#include <wire/shapes.h>

/* An object by its shape, for --json; its members alone, between js_open() and js_close(). */
void show_object(out_json *j, const cay__shape *s, const void *obj);
void show_members(out_json *j, const cay__shape *s, const void *obj);
void show_print(const cay__shape *s, const void *obj); /* the object alone, with a newline */
/* An item of a list: with --json its object, with --quiet its name; false: its cells are wanted. */
bool show_item(out_list *r, const cay__shape *s, const void *obj, const char *name);

/* cmd_template.c */
struct cay_template;
void show_template_json(out_json *j, const struct cay_template *t);
#define CLI_TEMPLATE_NAMES 32
/* The words as a list that ends with NULL. */
const char *const *cli_template_names(const char **room, int n, char **words);
void cli_template_print(const struct cay_template *t); /* its id, or all of it as JSON */

/* cmd_snapshot.c */
struct cay_snapshot;
void cli_snapshot_print(const struct cay_snapshot *s); /* its id, or all of it as JSON */
/* What is told beside it, as JSON, or NULL. */
typedef struct show_more {
    const char *net, *services, *endpoints;
} show_more;
void show_info_json(out_json *j, const cay_info *info,
                    const show_more *more); /* more may be NULL */
/* cmd_services.c: its services as JSON, NULL: it has none, or does not run. The caller frees. */
char *show_services_json(cay_sandbox *sb);
/* cmd_port_endpoint.c: likewise what its provider publishes; for people, a line for each. */
char *show_endpoints_json(cay_sandbox *sb);
void show_endpoints_text(cay_sandbox *sb);
/* The level of isolation. NULL: it does not run, and what it gets is known when it starts. */
const char *show_wall(const cay_info *info);
void show_info_text(const cay_info *info); /* for people, one field a line */
out_style show_state_style(cay_state s);
/* Layers of isolation, each with its cause and remedy when not on. */
void show_walls(const cay_wall *layers, size_t n);
void show_walls_json(out_json *j, const cay_wall *layers, size_t n);

/* changes.c: a change as a line for people and as JSON, for `cay diff` and `cay apply`. */

/* "M src/main.c", escaped; directories end with '/'. */
void change_print(const cay_file_change *c, const char *prefix);
/* extra: more members of the object, or NULL. */
void change_json(out_json *j, const cay_file_change *c, bool patch, const char *result);

/*
 * build_show.c: a build for people: its steps with how long each took, what they print, and on
 * a terminal a line that tells that a silent step is still at it.
 */

typedef struct build_show {
    int fd; /* 1 or 2 */
    bool tty;
    unsigned step, steps;      /* the one under way, 0: none */
    int64_t since_ms, last_ms; /* it began; something was said */
    char title[200];
    bool drawn; /* the line stands there */
    /* the thread that draws it */
    bool live, stop;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
} build_show;

void build_show_open(build_show *v, int fd, bool live); /* live: it happens now */
void build_show_event(build_show *v, const cay_build_event *e);
void build_show_close(build_show *v);
out_text build_took(int64_t ms);                /* "350 ms", "3.2 s", "2 min 5 s" */
void build_show_json(const cay_build_event *e); /* one line on standard output */
