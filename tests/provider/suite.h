/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tests/provider/suite.h - one suite for every provider, through the public calls of
 * <cay/sandbox.h>.
 *
 * A case that needs an operation the provider does not have says so by name and is skipped; for
 * native that is a failure.
 */
#pragma once
#include "../support/support.h"
#include <base/base.h>
#include <base/fd.h>
#include <base/str.h>
#include <lib/sandbox/sandbox.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

typedef struct suite {
    const cay_provider_ops *ops;
    void *self;
    char *home;
    bool shell;      /* it has real programs */
    cay_sandbox *sb; /* shared by the cases that do not end it */
} suite;
extern suite S;

/* Skips, by name, what this provider cannot do. */
void need(const char *op, bool there);
#define NEED(op)     need(#op, S.ops->op != NULL)
#define NEED_SHELL() need("a shell", S.shell)

#define OK(call)     assert_ok((call), &e_, #call, __FILE__, __LINE__)
#define ERR                                                                                        \
    cay_err e_ = CAY_ERR_INIT;                                                                     \
    (void)e_
#define E (&e_)
void assert_ok(int rc, const cay_err *e, const char *what, const char *file, int line);

/* A box of its own. */
/* What a provider is given of a request alone. */
#define BOX(c) (&(cay_box_spec){ .size = sizeof(cay_box_spec), .create = (c) })
cay_sandbox *box_new(const cay_create *spec);
cay_sandbox *box_on(const char *const *layers, size_t n); /* above its template */
cay_sandbox *box_again(const char *id);                   /* another handle on it */
void box_end(cay_sandbox *sb);

/* Runs and collects; fails the test when that fails. */
cay_result sh(cay_sandbox *sb, const char *line);
void sh_is(cay_sandbox *sb, const char *line, const char *out);
cay_proc *start(cay_sandbox *sb, cay_spawn spec);
cay_exit wait_for(cay_proc *p, int ms);
/* Everything of a stream until it ends; the caller frees. */
char *drain(cay_proc *p, cay_stream which, uint64_t offset, size_t *len);
/* Until the output holds the text. */
void expect(int fd, const char *text);
/* The text with every @ replaced by a number that only this run has: suites may run side by side.
 */
const char *marked(const char *text);
/* Some process of the host holds that word in its command line. */
bool process_with(const char *word);

typedef const struct CMUnitTest *tests;
tests suite_proc(size_t *n);
tests suite_stream(size_t *n);
tests suite_tty(size_t *n);
tests suite_shell(size_t *n);
tests suite_files(size_t *n);
tests suite_names(size_t *n);
tests suite_life(size_t *n);
tests suite_snapshot(size_t *n);
int reattach_main(int argc, char **argv);
