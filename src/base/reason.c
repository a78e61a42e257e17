/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one place that compares the words of reasons. A reason that came over a connection is found
 * like one of our own, because both are words. Errors are rare and the table is short: it is
 * searched from its beginning.
 */
#include "base.h"

#define NAME_WORD(NAME, word) [CAY_REASON_##NAME] = word,
static const char *const words[] = {
    [CAY_REASON_OTHER] = "", CAY_REASONS(NAME_WORD) /* in the order of the table */
};
#undef NAME_WORD

/* A word that is longer would be cut on its way through a cay_err, and never be found again. */
#define CHECK_LENGTH(NAME, word)                                                                   \
    _Static_assert(sizeof word <= sizeof(((cay_err *)0)->reason), "the reason is too long");
CAY_REASONS(CHECK_LENGTH)
#undef CHECK_LENGTH

const char *cay_reason_word(cay_reason reason)
{
    if ((size_t)reason < CAY_LEN(words))
        return words[reason];
    return "";
}

cay_reason cay_reason_of(const char *word)
{
    for (size_t i = CAY_REASON_OTHER + 1; i < CAY_LEN(words); i++)
        if (!strcmp(words[i], word))
            return (cay_reason)i;
    return CAY_REASON_OTHER;
}

cay_reason cay_err_reason(const cay_err *err)
{
    if (!err)
        return CAY_REASON_OTHER;
    return cay_reason_of(err->reason);
}

bool cay_err_is(const cay_err *err, cay_reason reason)
{
    return err && reason != CAY_REASON_OTHER && !strcmp(err->reason, cay_reason_word(reason));
}

/* Providers refuse a user in different words. */
bool cay__err_of_user(const cay_err *err)
{
    switch (cay_err_reason(err)) {
    case CAY_REASON_USER_INVALID:
    case CAY_REASON_USER_NOT_FOUND:
    case CAY_REASON_USER_NOT_MAPPED:
    case CAY_REASON_USER_NOT_SUPPORTED:
    case CAY_REASON_USER_UNKNOWN: return true;
    default: return false;
    }
}

int cay__err_pass(int rc, const cay_err *why, cay_err *out)
{
    if (rc < 0 && out)
        *out = *why;
    return rc;
}
