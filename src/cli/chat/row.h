/* SPDX-License-Identifier: Apache-2.0 */
/* cli/chat/row.h - the verbs of cay chat. */
#pragma once
#include <cli/cli.h>

extern const cli_verb cli_chat, cli_chat_list, cli_chat_rm, cli_chat_reset;
/* In cay-chat they do it; in the full program nobody comes so far: cli/main.c hands the words over.
 */
int chat_run(void *opts, int argc, char **argv);
int chat_run_list(void *opts, int argc, char **argv);
int chat_run_rm(void *opts, int argc, char **argv);
int chat_run_reset(void *opts, int argc, char **argv);
