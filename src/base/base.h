/* SPDX-License-Identifier: Apache-2.0 */
/*
 * base/base.h - manners every file shares: who owns what, and passing errors up.
 *
 * It brings the everyday headers of the C library, texts and descriptors with it.
 *
 *   CAY_TRY(call)      return its code when it fails
 *   CAY_TRY_SYS(call, err, ...)  the same for a system call: says what failed, and why
 *   CAY_AUTOFD fd      closed when it leaves scope      CAY_AUTOFREE p   freed when it leaves scope
 *   CAY_AUTOPTR(type)  calls type's clean function      CAY_STEAL(x)     give it away
 *   CAY_LOCK(mutex)    held until the end of the block
 *   CAY_OR(x, y)       x, or y when x is zero or NULL   cay__text_or()   the same for empty texts
 *   CAY_EACH(row, table)  a loop over an array      CAY_EACH_OF(row, list, n)  over n that follow
 *   CAY_EACH_LINK(x, list)  over a list linked by `next`, CAY_EACH_LINK_SAFE() when x may go
 *   CAY_UNLINK(list, x)  takes x out of it          CAY_APPEND(list, x)  puts x at its end
 *   CAY_CHAIN(list, x), CAY_UNCHAIN(x)  the same for nodes that know what leads to them
 *   CAY_GROW(v, n)  room for one more in an array of n      cay__strdup_if()  of NULL NULL
 *   CAY_IF(c, x)       x when c holds, or NULL          CAY_TEXT_IF(), CAY_FLAG_IF()  or "", or 0
 */
#pragma once
#include <base/buf.h>
#include <base/call.h>
#include <base/fd.h>
#include <base/str.h>
#include <cay/reason.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CAY_TRY(call)                                                                              \
    do {                                                                                           \
        int rc_ = (call);                                                                          \
        if (rc_ < 0)                                                                               \
            return rc_;                                                                            \
    } while (0)

#define CAY_TRY_SYS(call, err, ...)                                                                \
    do {                                                                                           \
        if ((call) < 0)                                                                            \
            return cay_fail_sys(err, __VA_ARGS__);                                                 \
    } while (0)

#define CAY_LEN(a) (sizeof(a) / sizeof *(a))
/* CAY_EACH(row, table) visits every element of an array, CAY_EACH_OF(row, list, n) the first n that
 * a pointer leads to, none when it is NULL; row points at the element. What list and n are is asked
 * once, before the first. */
#define CAY_EACH(row, array) CAY_EACH_OF(row, array, CAY_LEN(array))
#define CAY_EACH_OF(row, list, n)                                                                  \
    for (__typeof__((list)[0]) *row = (list), *row##_end = row ? row + (n) : row; row < row##_end; \
         row++)
/* CAY_EACH_LINK(x, list) visits every node of a list that is linked by `next`.
 *
 * In the safe form, CAY_EACH_LINK_SAFE(x, list), the body may take x out of the list and free it,
 * but not the node behind it, which was looked up before. A node that is put behind the last one
 * meanwhile is not visited then. */
#define CAY_EACH_LINK(x, list) for (__typeof__(*(list)) *x = (list); x; x = x->next)
#define CAY_EACH_LINK_SAFE(x, list)                                                                \
    for (__typeof__(*(list)) *x = (list), *x##_next = CAY_IF(x, x->next); x;                       \
         x = x##_next, x##_next = CAY_IF(x, x->next))
/* Takes a node out, when it is in the list; appends one, which has no next. */
#define CAY_UNLINK(list, node)                                                                     \
    do {                                                                                           \
        __typeof__(*(list)) **at_ = &(list);                                                       \
        while (*at_ && *at_ != (node))                                                             \
            at_ = &(*at_)->next;                                                                   \
        if (*at_)                                                                                  \
            *at_ = (node)->next;                                                                   \
    } while (0)
/* Lists whose nodes know the pointer that leads to them: x.prev is NULL outside of any. */
#define CAY_CHAIN(list, node)                                                                      \
    do {                                                                                           \
        (node)->next = (list);                                                                     \
        (node)->prev = &(list);                                                                    \
        if ((node)->next)                                                                          \
            (node)->next->prev = &(node)->next;                                                    \
        (list) = (node);                                                                           \
    } while (0)
#define CAY_UNCHAIN(node)                                                                          \
    do {                                                                                           \
        *(node)->prev = (node)->next;                                                              \
        if ((node)->next)                                                                          \
            (node)->next->prev = (node)->prev;                                                     \
        (node)->prev = NULL;                                                                       \
    } while (0)
#define CAY_APPEND(list, node)                                                                     \
    do {                                                                                           \
        __typeof__(*(list)) **at_ = &(list);                                                       \
        while (*at_)                                                                               \
            at_ = &(*at_)->next;                                                                   \
        *at_ = (node);                                                                             \
    } while (0)
#define CAY_MIN(a, b) ((a) < (b) ? (a) : (b))
#define CAY_MAX(a, b) ((a) > (b) ? (a) : (b))
/* x, or the fallback when x is zero or NULL. x is evaluated once, the fallback only when needed. */
#define CAY_OR(x, fallback) ((x) ?: (fallback))

/* x when the condition holds, and is evaluated only then; else NULL, "" or no flag. */
#define CAY_IF(condition, x)      ((condition) ? (x) : NULL)
#define CAY_TEXT_IF(condition, s) ((condition) ? (s) : "")
#define CAY_FLAG_IF(condition, f) ((condition) ? (f) : 0)

/* s, or the fallback when s is NULL or empty. */
static inline const char *cay__text_or(const char *s, const char *fallback)
{
    return s && *s ? s : fallback;
}

static inline void cay__close_fd(int *fd)
{
    if (*fd >= 0) {
        int e = errno;
        close(*fd);
        errno = e;
    }
    *fd = -1;
}
static inline void cay__close_fds(int *fds, int n)
{
    CAY_EACH_OF(fd, fds, n)
        cay__close_fd(fd);
}
static inline void cay__free_ptr(void *p)
{
    free(*(void **)p);
}
static inline int cay__steal_fd(int *fd)
{
    int f = *fd;
    *fd = -1;
    return f;
}
#define CAY_AUTOFD   __attribute__((cleanup(cay__close_fd))) int
#define CAY_AUTOFREE __attribute__((cleanup(cay__free_ptr)))
/* A type opts in with CAY_DEFINE_AUTO(cay_sandbox, cay_sandbox_unref). */
#define CAY_DEFINE_AUTO(type, fn)                                                                  \
    static inline void cay__auto_##type(type **p)                                                  \
    {                                                                                              \
        if (*p)                                                                                    \
            fn(*p);                                                                                \
    }
#define CAY_AUTOPTR(type) __attribute__((cleanup(cay__auto_##type))) type *
#define CAY_STEAL(x)                                                                               \
    ({                                                                                             \
        __typeof__(x) s_ = (x);                                                                    \
        (x) = NULL;                                                                                \
        s_;                                                                                        \
    })
#define CAY_STEAL_FD(x) cay__steal_fd(&(x))

static inline pthread_mutex_t *cay__lock(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
    return mutex;
}
static inline void cay__unlock(pthread_mutex_t **mutex)
{
    pthread_mutex_unlock(*mutex);
}
#define CAY_LOCK(mutex)                                                                            \
    __attribute__((cleanup(cay__unlock), unused)) pthread_mutex_t *locked_ = cay__lock(mutex)

/* Passes up an error that was kept in *why to be looked at; returns rc. */
int cay__err_pass(int rc, const cay_err *why, cay_err *out);
/* Is the reason that the user whose rights were asked for is not there or cannot be used? */
bool cay__err_of_user(const cay_err *err);

/* Small fixed allocations abort when memory is gone. */
static inline void *cay__alloc(size_t n)
{
    void *p = calloc(1, n ? n : 1);
    if (!p)
        abort();
    return p;
}
static inline char *cay__strdup(const char *s)
{
    char *p = strdup(s ? s : "");
    if (!p)
        abort();
    return p;
}
/* The same, but NULL stays NULL. */
static inline char *cay__strdup_if(const char *s)
{
    return s ? cay__strdup(s) : NULL;
}
/* CAY_GROW(v, n): room for one more in an array of n. It may be full whenever n is a power of two:
 * so no capacity is kept. */
#define CAY_GROW(v, n) ((v) = cay__grow(v, n, sizeof *(v)))
static inline void *cay__grow(void *list, size_t n, size_t each)
{
    if (n & (n - 1))
        return list;
    list = reallocarray(list, n ? 2 * n : 1, each);
    if (!list)
        abort();
    return list;
}
