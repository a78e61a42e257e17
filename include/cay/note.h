/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cay/note.h - small records that somebody else keeps in the client's store.
 *
 *   cay_note_put()   write one
 *   cay_note_get()   read one
 *   cay_note_list()  those of a space
 *
 * For protocols that have names and words of their own for a sandbox, and must know them after a
 * restart. A space is one user's: a protocol's name. The client never reads them.
 */
#pragma once
#include <cay/client.h>

#ifdef __cplusplus
extern "C" {
#endif

/* space: 1 to 32 of [a-z0-9-]; key: 1 to 200 bytes of text; json: one object of at most 64 KiB,
 * NULL removes the note. */
CAY_API int cay_note_put(cay_client *client, const char *space, const char *key, const char *json,
                         cay_err *err);
/* *json is the caller's. CAY_ENOENT, "note_not_found". */
CAY_API int cay_note_get(cay_client *client, const char *space, const char *key, char **json,
                         cay_err *err);
/* By key, of those that begin with prefix; a non-zero return of fn stops and is returned. fn may
 * not call these functions. */
CAY_API int cay_note_list(cay_client *client, const char *space, const char *prefix,
                          int (*fn)(const char *key, const char *json, void *arg), void *arg,
                          cay_err *err);

#ifdef __cplusplus
}
#endif
