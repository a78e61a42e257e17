/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/sanitize.h - is this a build that looks for its own faults?
 *
 * What a sanitizer has to say goes to descriptor 2. Keeper, helpers and init give theirs away in the product; in such a
 * build they keep the keeper's, which is the file that CAY_REPORTS names.
 */
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define CAY__SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CAY__SANITIZED 1
#endif
#endif
#ifndef CAY__SANITIZED
#define CAY__SANITIZED 0
#endif
