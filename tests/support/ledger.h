/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/support/ledger.h - what a client was told, written down the moment it was told.
 *
 *   ledger_note()   append one line     ledger_hash()   what stands for contents
 *
 * Uses none of our code; ledger.c judges the lines. A line is "try WHAT BOX …" before a request and
 * "ack WHAT BOX …" after its success:
 *
 *   ack create BOX [ttl]
 *   try|ack put BOX PATH HASH
 *   try|ack pause|resume|kill|rm BOX
 *   ack start BOX PROC CODE HASH
 *   ack exit BOX PROC CODE HASH
 *   bad WORDS: a client saw something wrong
 */
#pragma once
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline uint64_t ledger_hash(const void *data, size_t len) /* FNV-1a */
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < len; i++)
        h = (h ^ ((const unsigned char *)data)[i]) * 1099511628211u;
    return h;
}

/* One write(2) to a file opened for appending: whole lines, in order, whoever is killed next. */
__attribute__((format(printf, 1, 2))) static inline void ledger_note(const char *fmt, ...)
{
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(line, sizeof line - 1, fmt, ap);
    va_end(ap);
    line[n++] = '\n';
    int fd = open(getenv("LEDGER"), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        abort();
    close(fd);
}
