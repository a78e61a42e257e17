/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/sanitize.h - is this a build that looks for its own faults?
 *
 * What a sanitizer has to say goes to descriptor 2. Keeper, helpers and init give theirs away in
 * the product; in such a build they keep the keeper's, which is the file that CAY_REPORTS names.
 */
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAY__SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CAY__SANITIZED 1
#endif
#endif
#ifndef CAY__SANITIZED
#define CAY__SANITIZED 0
#endif

/* A stack that a child of clone(CLONE_VM) ran on: frames that ended in exec or _exit left their
 * marks in the shadow. */
#if CAY__SANITIZED && !defined(__SANITIZE_THREAD__)
#include <stddef.h>
void __asan_unpoison_memory_region(const volatile void *p, size_t n);
#define CAY__STACK_USED(p, n) __asan_unpoison_memory_region(p, n)
#else
#define CAY__STACK_USED(p, n) ((void)0)
#endif
