/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unit/fsop.h - a tree below a root descriptor, for the tests of base/fsop*.c.
 *
 *   put_text()   write a file with its parents      get_text()  read it back
 *   fds_open()   how many descriptors there are     as_nobody() in a process without rights
 */
#pragma once
#include <base/base.h>
#include <base/fd.h>
#include <base/fsop.h>
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <cmocka.h>
#include "../support/tree.h"

static tree t;
static cay__fs fs;

static inline int setup(void **s)
{
    (void)s;
    tree_open(&t);
    fs = (cay__fs){ .root = t.root, .workdir = "/work", .home = "/home/u" };
    assert_int_equal(mkdirat(t.root, "work", 0755), 0);
    return 0;
}

static inline int teardown(void **s)
{
    (void)s;
    tree_close(&t);
    return 0;
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

#define assert_errno(call, e)                                                                      \
    do {                                                                                           \
        errno = 0;                                                                                 \
        assert_int_equal((call), -1);                                                              \
        assert_int_equal(errno, (e));                                                              \
    } while (0)

static inline int put_text(const char *path, const char *text)
{
    return cay__fs_put(&fs, path, text, strlen(text), &(cay__fs_write){ .parents = true });
}

/* NULL when it cannot be read; at most 4095 bytes. */
static inline const char *get_text(const char *path)
{
    static char buf[4096];
    CAY_AUTOFD fd = cay__fs_open_read(&fs, path, NULL);
    ssize_t n = fd < 0 ? -1 : cay__fd_read_all(fd, buf, sizeof buf - 1);
    buf[n > 0 ? n : 0] = 0;
    return n < 0 ? NULL : buf;
}

static inline size_t fds_open(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* Names in a directory of the tree, without the two that every directory has. */
static inline size_t names_in(const char *path)
{
    size_t n = 0;
    int fd = cay__fs_open(&fs, path, O_RDONLY | O_DIRECTORY);
    DIR *d = fdopendir(fd);
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

/* The errno of fn, or 0, in a process that has no rights but those of an ordinary user. */
static inline int as_nobody(int (*fn)(void))
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (geteuid() == 0 && (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534)))
            _exit(255);
        _exit(fn() < 0 ? errno : 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}
