/* SPDX-License-Identifier: Apache-2.0 */
/* cay chat is a program of its own (chat/main.c); here are only its words. */
#include <cli/chat/row.h>

int chat_run(void *opts, int argc, char **argv)
{
    (void)opts, (void)argc, (void)argv;
    return CLI_CANNOT;
}
int chat_run_list(void *opts, int argc, char **argv)
{
    return chat_run(opts, argc, argv);
}
int chat_run_rm(void *opts, int argc, char **argv)
{
    return chat_run(opts, argc, argv);
}
int chat_run_reset(void *opts, int argc, char **argv)
{
    return chat_run(opts, argc, argv);
}
