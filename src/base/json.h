/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/json.h - a thin layer over jansson: strict reading, honest printing, and bytes that are no
 * text.
 *
 * Not for the static programs.
 */
#pragma once
#include "base.h"
#include "buf.h"
#include <jansson.h>

static inline void cay__json_drop(json_t **j)
{
    json_decref(*j);
}
#define CAY_AUTOJSON __attribute__((cleanup(cay__json_drop))) json_t

/* CAY_EACH_ITEM(v, list) visits the members of a JSON array, CAY_EACH_MEMBER(key, v, object) those
 * of an object; none when it is NULL or of another type. What list and object are is asked once.
 * Inside, v_at is how manieth item v is, from 0. */
#define CAY_EACH_ITEM(v, list)                                                                     \
    for (size_t v##_at = 0, v##_once = 1; v##_once; v##_once = 0)                                  \
        for (json_t *v##_of = (json_t *)(list), *v; (v = json_array_get(v##_of, v##_at)); v##_at++)
#define CAY_EACH_MEMBER(key, v, object)                                                            \
    for (json_t *v##_of = (json_t *)(object), *v = v##_of; v; v = NULL)                            \
        for (const char *key = json_object_iter_key(json_object_iter(v##_of));                     \
             key && (v = json_object_iter_value(json_object_key_to_iter(key)));                    \
             key = json_object_iter_key(                                                           \
                 json_object_iter_next(v##_of, json_object_key_to_iter(key))))

/* One object. Duplicate keys, text after it and broken UTF-8 are CAY_EINVAL, naming `what` and the
 * place. */
int cay__json_object(const char *what, const char *text, json_t **out, cay_err *err);
/* Any value. */
int cay__json_any(const char *what, const char *text, json_t **out, cay_err *err);

/* The same for who has the length, quickly: NULL for what is better left to jansson, and for what
 * is wrong. */
json_t *cay__json_quick(const char *text, size_t len);

/* Compact text; a real has as few digits as bring it back. NULL when it is longer than max. The
 * caller frees. */
char *cay__json_text(const json_t *j, size_t max);
/* The same, but of a string its content; NULL for NULL. */
char *cay__json_plain(const json_t *j, size_t max);

/* A member of an object, or the given default when it is missing or of another type. A string with
 * a NUL inside counts as missing. */
const char *cay__json_str(const json_t *obj, const char *key, const char *none);
int64_t cay__json_int(const json_t *obj, const char *key, int64_t none);
bool cay__json_bool(const json_t *obj, const char *key, bool none);
/* A member that is an object, or a list: made, and put in place of what else is there, when it is
 * not. */
json_t *cay__json_object_in(json_t *obj, const char *key);
json_t *cay__json_list_in(json_t *obj, const char *key);
/* Sets a member to a text, or to a number. */
void cay__json_put(json_t *obj, const char *key, const char *text);
void cay__json_put_int(json_t *obj, const char *key, int64_t n);

/* A string without a NUL inside as it is; NULL for what is none. */
const char *cay__json_cstr(const json_t *v);
/* The strings of a list as copies, NULL-terminated; what is none is left out. n may be NULL. */
const char **cay__json_strings(cay__arena *mem, const json_t *list, size_t *n);

/* C strings that may not be UTF-8 (paths, environment): a string, or {"hex":"…"}. */
json_t *cay__json_bytes(const char *s);
/* Back again: a copy for the caller, or NULL when j is neither, or has a NUL inside. */
char *cay__json_to_bytes(const json_t *j);
