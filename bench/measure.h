/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench/measure.h - samples, the spawn floor, and the line that tells a figure.
 *
 * Every program here measures its floor and its figure in turns within one run, so that what else
 * the machine does falls on both alike, and prints figure() lines on stdout. Whatever cannot be
 * measured ends in give_up(): exit 1.
 */
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static inline _Noreturn __attribute__((format(printf, 1, 2))) void give_up(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("bench: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(1);
}

typedef struct series {
    double *v;
    size_t n, cap;
} series;

static inline double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static inline void sleep_ms(unsigned ms)
{
    struct timespec t = { ms / 1000, (long)(ms % 1000) * 1000000 };
    nanosleep(&t, NULL);
}

static inline void add(series *s, double x)
{
    if (s->n == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 256;
        s->v = realloc(s->v, s->cap * sizeof *s->v);
        if (!s->v)
            give_up("out of memory");
    }
    s->v[s->n++] = x;
}

static inline int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double percentile(series *s, double p)
{
    if (!s->n)
        give_up("no samples");
    qsort(s->v, s->n, sizeof *s->v, by_value);
    return s->v[(size_t)(p / 100 * (double)(s->n - 1) + 0.5)];
}

typedef struct bare_spawn {
    int fd;
    char *stack;
} bare_spawn;

static inline int bare_child(void *arg)
{
    char *const argv[] = { "true", NULL }, *const env[] = { NULL };
    syscall(SYS_execveat, ((bare_spawn *)arg)->fd, "", argv, env, AT_EMPTY_PATH);
    _exit(127);
}

static inline bare_spawn spawn_open(const char *program)
{
    bare_spawn s = { open(program, O_PATH | O_CLOEXEC), malloc(16384) };
    if (s.fd < 0 || !s.stack)
        give_up("open %s: %s", program, strerror(errno));
    return s;
}

/* Start of a static program that exits, and its end: what no exec of any kind can do without. In
 * microseconds. */
static inline double spawn_time(bare_spawn *s)
{
    int status;
    double t = now_us();
    int pid = clone(bare_child, s->stack + 16384, CLONE_VM | CLONE_VFORK | SIGCHLD, s);
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
        give_up("bare spawn: status %x", pid < 0 ? 0 : status);
    return now_us() - t;
}

typedef struct peer {
    const char *name;
    double value; /* in the figure's service; 0: not measured */
} peer;

typedef struct fig {
    const char *name, *service;
    double value;
    double floor;     /* 0: the figure has none */
    double ratio;     /* what the goal speaks of; 0: no goal */
    const char *goal; /* "<=2.0", ">=3.0" or NULL */
    size_t n;
    const peer *peers; /* ends with a NULL name */
} fig;

static inline bool reached(const fig *f)
{
    double bound = f->goal ? strtod(f->goal + 2, NULL) : 0;
    return !f->goal || (f->goal[0] == '<' ? f->ratio <= bound : f->ratio >= bound);
}

static inline void figure(fig f)
{
    printf("{\"name\":\"%s\",\"value\":%.6g,\"unit\":\"%s\"", f.name, f.value, f.service);
    if (f.floor > 0)
        printf(",\"floor\":%.6g", f.floor);
    else
        fputs(",\"floor\":null", stdout);
    if (f.goal)
        printf(",\"ratio\":%.3g,\"goal\":\"%s\"", f.ratio, f.goal);
    else
        fputs(",\"ratio\":null,\"goal\":null", stdout);
    printf(",\"ok\":%s,\"n\":%zu", reached(&f) ? "true" : "false", f.n);
    unsigned told = 0;
    for (const peer *p = f.peers; p && p->name; p++)
        if (p->value > 0)
            printf("%s\"%s\":%.6g", told++ ? "," : ",\"peers\":{", p->name, p->value);
    puts(told ? "}}" : "}");
    fflush(stdout);
}

/* N of the command line, or what is usual. */
static inline size_t rounds(int argc, char **argv, int at, size_t usual)
{
    return argc > at ? strtoul(argv[at], NULL, 10) : usual;
}
