/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/show.h - a sandbox in words: for ls, inspect and create.
 */
#pragma once
#include "out.h"
#include <cay/client.h>

/* cmd_template.c */
struct cay_template;
void show_template_json(out_json *j, const struct cay_template *t);
#define CLI_TEMPLATE_NAMES 32
/* The words as a list that ends with NULL. */
const char *const *cli_template_names(const char **room, int n, char **words);
void cli_template_print(const struct cay_template *t); /* its id, or all of it as JSON */

/* cmd_snapshot.c */
struct cay_snapshot;
void show_snapshot_json(out_json *j, const struct cay_snapshot *s);
void cli_snapshot_print(const struct cay_snapshot *s); /* its id, or all of it as JSON */
/* What is told beside it, as JSON, or NULL. */
typedef struct show_more {
    const char *net, *services, *endpoints;
} show_more;
void show_info_json(out_json *j, const cay_info *info,
                    const show_more *more); /* more may be NULL */
/* cmd_services.c: its services as JSON, NULL: it has none, or does not run. The caller frees. */
char *show_units_json(cay_sandbox *sb);
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
