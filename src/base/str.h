/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/str.h - small strings without a heap: numbers, ids, bounded copies.
 *
 * Keeper and init use these instead of stdio.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies at most cap-1 bytes and ends with NUL; false when it was cut. */
bool cay__str_copy(char *dst, size_t cap, const char *src);
/* Writes the parts (the list ends with NULL) one after another; false when cut. */
bool cay__str_join(char *dst, size_t cap, ...) __attribute__((sentinel));
/* The first n bytes of src; false, and dst is as it was, when there is no room. */
bool cay__str_part(char *dst, size_t cap, const char *src, size_t n);
/* The size of an array; a pointer in its place does not compile. */
#define CAY_ROOM(array)                                                                            \
    (sizeof(array) + 0 * sizeof(char[1 - 2 * __builtin_types_compatible_p(                         \
                                                 __typeof__(array), __typeof__(&*(array)))]))
/* These, and snprintf(3), into an array of the caller's. */
#define CAY_COPY(array, src)    cay__str_copy(array, CAY_ROOM(array), src)
#define CAY_JOIN(array, ...)    cay__str_join(array, CAY_ROOM(array), __VA_ARGS__, NULL)
#define CAY_PART(array, src, n) cay__str_part(array, CAY_ROOM(array), src, n)
#define CAY_FORMAT(array, ...)  snprintf(array, CAY_ROOM(array), __VA_ARGS__)
/* Decimal digits of v; returns a pointer into buf, which holds at least 21 bytes. */
char *cay__str_u64(char *buf, uint64_t v);
/* The whole of s as a decimal number. */
bool cay__str_to_u64(const char *s, uint64_t *out);
/* "512m", "2G", "1.5k", "100": bytes, powers of 1024. "unlimited" gives UINT64_MAX. */
bool cay__str_to_size(const char *s, uint64_t *out);
/* "90", "90s", "5m", "2h", "1d", "250ms": milliseconds; a bare number is seconds. */
bool cay__str_to_ms(const char *s, uint64_t *out);
bool cay__str_starts(const char *s, const char *prefix);
/* "TERM" of SIGTERM; NULL of a number that has no name. In units.c: not linked by the keeper. */
const char *cay__signal_name(int sig);

#define CAY__ID_LEN 20
/* kind + 19 random characters of [a-z2-7]; dst holds 21 bytes. */
void cay__id_make(char *dst, char kind);
/* A whole id of that kind; kind 0 means any. */
bool cay__id_valid(const char *s, char kind);
/* A layer's name: 1 to 63 of [a-z0-9-], the first no '-'. */
bool cay__layer_valid(const char *s);
/* Fills from getrandom(2); aborts when the kernel cannot. */
void cay__random(void *dst, size_t n);

/* Hexadecimal digits. put: 2n in lower case and a NUL; digit: the value in either case, or -1; get:
 * n bytes from 2n digits, false when one is none; len: how many lower-case ones s begins with; is:
 * those n and nothing else. */
void cay__hex_put(char *dst, const void *data, size_t n);
int cay__hex_digit(char c);
bool cay__hex_get(void *dst, const char *text, size_t n);
size_t cay__hex_len(const char *s);
bool cay__hex_is(const char *s, size_t n);
/* A random UUID (RFC 9562, version 4) as text. */
void cay__uuid_make(char dst[37]);

/* The reason phrase of an HTTP status: "Not Found"; "Status" for one that has none. */
const char *cay__status_text(int status);

/* FNV-1a, for tables; CRC-32C for records on disk. */
uint32_t cay__hash(const void *p, size_t n);
uint32_t cay__crc32c(uint32_t crc, const void *p, size_t n);
