/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/mutant.h - take one defence away, to see its attack case turn red.
 *
 *     if (!CAY__MUTANT("landlock-scopes"))
 *         cay__landlock_scopes();
 *
 * meson -Dmutant=NAME chooses; in an ordinary build every test is 0 and nothing is compiled in.
 * Those of the filter are made by tools/gen-seccomp.c.
 */
#pragma once

/* Programs built by musl get the name as an argument instead: one command builds each as a whole.
 */
#if !defined CAY_MUTANT && __has_include(<mutant_name.h>)
#include <mutant_name.h>
#endif

#ifdef CAY_MUTANT
#define CAY__MUTANT(name) (__builtin_strcmp(CAY_MUTANT, name) == 0)
#else
#define CAY__MUTANT(name) 0
#endif
