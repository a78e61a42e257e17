/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/chat/keep.h - points that a sandbox's files can be taken back to: one before the first turn,
 * one after every tool call.
 *
 * A sandbox of its own files gives a snapshot. For one that stands on a directory, whose processes
 * are to live on when a turn is taken back, the point holds what it changed there: the list of
 * cay_client_diff() and the bytes of files up to 8 MiB, each once. What is larger is told when it
 * cannot be taken back.
 */
#pragma once
#include "store.h"
#include <cay/client.h>

typedef struct keep {
    sqlite3 *db;
    cay_client *client;
    cay_sandbox *sb;
    const char *session;
    const char *dir; /* on the host, that the sandbox stands on; "" for none */
    bool off;        /* nothing can be kept here */
} keep;

typedef struct keep_done {
    size_t files;   /* put back */
    size_t left;    /* that could not be */
    char name[200]; /* one of them */
} keep_done;

/* The number of the last point, 0 when there is none, or an error. */
int64_t keep_last(keep *k, cay_err *err);
int keep_take(keep *k, uint64_t turn, cay_err *err);
/* Of turns before that one the last point is enough: /undo goes back by turns. */
int keep_thin(keep *k, uint64_t turn, cay_err *err);
/* To the last point before that turn. CAY_ENOENT: there is none. */
int keep_back(keep *k, uint64_t turn, keep_done *done, cay_err *err);
/* To the point before the last one. */
int keep_back_once(keep *k, keep_done *done, cay_err *err);
/* Snapshots of a session that goes. */
void keep_drop(keep *k);
