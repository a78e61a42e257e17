/* SPDX-License-Identifier: Apache-2.0 */
/*
 * agent/model/chat.h - our items as the messages of Chat Completions.
 */
#pragma once
#include <base/json.h>

/* Items and instructions to messages. Tool calls that stand together are one assistant message;
 * images of tools, which a tool message cannot hold, follow in a user message. */
json_t *cay__chat_messages(const json_t *items, const char *instructions);
/* Our tools to theirs. */
json_t *cay__chat_tools(const json_t *tools);
