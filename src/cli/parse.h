/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/parse.h - the small texts that people type: ID:PATH, mounts, sizes, ports, modes, owners.
 *
 * Each fills *out and returns 0, or CAY_EINVAL with a message that names the text and shows the
 * form.
 */
#pragma once
#include <cay/sandbox.h>

/* One end of a copy. `-` is a stream; ID:PATH is inside a sandbox; everything else is a local path.
 * A local name with a colon is written ./a:b. */
typedef struct cli_place {
    enum { CLI_LOCAL, CLI_REMOTE, CLI_STREAM } kind;
    char id[64];      /* of CLI_REMOTE */
    const char *path; /* points into the text */
} cli_place;
int cli_parse_place(const char *text, cli_place *out, cay_err *err);

/* DIR[:TARGET][:ro|:rw]. TARGET is absolute; without one it is /workspace/NAME. */
typedef struct cli_mount {
    char source[4096];
    char target[4096];
    bool rw;
} cli_mount;
int cli_parse_mount(const char *text, cli_mount *out, cay_err *err);

/* NAME:TARGET[:ro|:rw], writable unless said otherwise. */
typedef struct cli_volume {
    char name[64];
    char target[256];
    bool rw;
} cli_volume;
int cli_parse_volume(const char *text, cli_volume *out, cay_err *err);

/* KEY=VALUE; KEY must look like a name. With inherit a bare KEY takes our own value. *key is new.
 */
int cli_parse_pair(const char *text, bool inherit, char **key, const char **value, cay_err *err);
/* "1.5" CPUs as thousandths; "unlimited". */
int cli_parse_cpus(const char *text, uint64_t *out, cay_err *err);
/* PORT[:LOCAL]; LOCAL 0 means any free one; without it the same number. */
int cli_parse_forward(const char *text, uint16_t *port, uint16_t *local, cay_err *err);
int cli_parse_port(const char *text, uint16_t *out, cay_err *err);
/* Octal permission bits, at most 7777. */
int cli_parse_mode(const char *text, uint32_t *out, cay_err *err);
/* UID, UID:GID, or :GID; what is not named is UINT32_MAX. */
int cli_parse_owner(const char *text, uint32_t *uid, uint32_t *gid, cay_err *err);
/* "INT", "SIGINT" or "2". */
int cli_parse_signal(const char *text, int *out, cay_err *err);
/* A name for people: not empty, at most 200 bytes, no control characters. */
int cli_check_name(const char *what, const char *text, cay_err *err);
