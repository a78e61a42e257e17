/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netdrive VERB …: the native provider's network operations, one at a time, for tests in shell.
 * $CAY_HOME is the state directory; a policy is a file, `-` reads it from stdin. `cay exec`, `cay
 * rm` … work with the sandboxes that it makes.
 *
 *   create [POLICY]         → id
 *   policy ID POLICY        → revision
 *   get ID                  → revision, text
 *   dial ID HOST PORT [implicit] → connects, sends stdin, prints what comes back
 *   bind ID POLICY NAME=VALUE…  → names of the files to trust, one a line
 *   hello                   → features as a number
 * Fails with "CODE REASON: MESSAGE" on stderr and status 1.
 */
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lib/provider/native/native.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>

static char text[CAY_NET_TEXT + 2];

static size_t slurp(const char *path)
{
    CAY_AUTOFD fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC) : dup(0);
    ssize_t n = fd < 0 ? -1 : cay__fd_read_all(fd, text, sizeof text - 1);
    if (n < 0) {
        perror(path);
        exit(2);
    }
    text[n] = 0;
    return (size_t)n;
}

static int talk(int fd)
{
    char buf[4096];
    ssize_t n;
    while ((n = read(0, buf, sizeof buf)) > 0)
        if (!cay__fd_write_all(fd, buf, (size_t)n))
            return 1;
    shutdown(fd, SHUT_WR);
    while ((n = read(fd, buf, sizeof buf)) > 0)
        if (!cay__fd_write_all(1, buf, (size_t)n))
            return 1;
    close(fd);
    return n < 0;
}

/* "NAME=VALUE" as entries of proto/intercept.h, sealed. */
static int make_values(char **word)
{
    int fd = memfd_create("values", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    for (; *word; word++) {
        char *value = strchr(*word, '=');
        if (!value)
            exit(2);
        uint32_t len[2] = { (uint32_t)(value - *word), (uint32_t)strlen(value + 1) };
        if (!cay__fd_write_all(fd, len, sizeof len) || !cay__fd_write_all(fd, *word, len[0]) ||
            !cay__fd_write_all(fd, value + 1, len[1]))
            exit(2);
    }
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    return fd;
}

static void print_names(int fd)
{
    uint32_t len[2];
    off_t at = 0;
    while (fd >= 0 && pread(fd, len, sizeof len, at) == sizeof len) {
        char name[256] = "";
        if (len[0] >= sizeof name ||
            pread(fd, name, len[0], at + (off_t)sizeof len) != (ssize_t)len[0])
            break;
        puts(name);
        at += (off_t)(sizeof len + len[0] + len[1]);
    }
}

static int verb(cay__native *n, int argc, char **argv, cay_err *err)
{
    cay__nbox *b = NULL;
    uint64_t revision = 0;
    if (!strcmp(argv[1], "hello")) {
        CAY_TRY(cay__native_meet(n, NULL, err));
        printf("%u\n", n->hello.features);
        return 0;
    }
    if (!strcmp(argv[1], "create")) {
        char id[CAY_WIRE_ID];
        cay_create spec = { .size = sizeof spec,
                            .net.policy = argc > 2 && slurp(argv[2]) ? text : NULL };
        cay__id_make(id, 'c');
        CAY_TRY(cay__nbox_create(n, NULL, id, &(cay_box_spec){ .create = &spec }, false, &b, err));
        puts(id);
        cay__nbox_release(b);
        return 0;
    }
    CAY_TRY(cay__nbox_attach(n, NULL, argv[2], &b, err));
    int rc = CAY_EINVAL, fd = -1;
    if (!strcmp(argv[1], "policy") && argc == 4) {
        size_t len = slurp(argv[3]);
        if ((rc = cay__nbox_policy(b, NULL, text, len, &revision, err)) == 0)
            printf("%" PRIu64 "\n", revision);
    } else if (!strcmp(argv[1], "get")) {
        char *got = NULL;
        size_t len = 0;
        if ((rc = cay__nbox_policy_get(b, NULL, &got, &len, &revision, err)) == 0)
            printf("%" PRIu64 "\n%.*s", revision, (int)len, got);
        free(got);
    } else if (!strcmp(argv[1], "bind") && argc >= 5) {
        size_t len = slurp(argv[3]);
        CAY_AUTOFD values = make_values(argv + 4);
        if ((rc = cay__nbox_secrets(b, NULL, text, len, values, &fd, err)) == 0)
            print_names(fd);
        cay__close_fd(&fd);
    } else if (!strcmp(argv[1], "dial") && argc >= 5) {
        if ((rc = cay__nbox_dial(b, NULL, argv[3], (uint16_t)atoi(argv[4]), argc > 5, &fd, err)) ==
            0)
            rc = talk(fd) ? CAY_ESYS : 0;
    }
    cay__nbox_release(b);
    return rc;
}

int main(int argc, char **argv)
{
    cay__native *n;
    cay_err err = CAY_ERR_INIT;
    const char *home = getenv("CAY_HOME");
    if (argc < 2 || !home ||
        (argc < 3 && strcmp(argv[1], "create") != 0 && strcmp(argv[1], "hello") != 0)) {
        fprintf(stderr, "usage: netdrive create|policy|get|bind|dial|hello …, with CAY_HOME\n");
        return 2;
    }
    int rc = cay__native_open(home, getenv("CAY_LIBEXEC") ? getenv("CAY_LIBEXEC") : "", &n, &err);
    if (rc == 0) {
        rc = verb(n, argc, argv, &err);
        fflush(stdout);
        cay__native_close(n);
    }
    if (rc < 0)
        fprintf(stderr, "%d %s: %s\n", err.code, err.reason, err.msg);
    return rc < 0;
}
