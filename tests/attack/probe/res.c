/* SPDX-License-Identifier: Apache-2.0 */
/* Resources: bombs. Most of these say only that they begin; what counts is seen from outside. */
#include "probe.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void ready(void)
{
    dprintf(1, "ready\n");
}

/* S-37. ARG: how many at most this sandbox may have. */
static void forks(int argc, char **argv)
{
    int most = argc > 0 ? atoi(argv[0]) : 256, n = 0, refused = 0;
    while (refused < 20 && n < 4 * most) {
        int pid = fork();
        if (pid == 0) {
            for (;;)
                pause();
        }
        if (pid < 0) {
            refused++;
            nap(1);
        } else {
            n++;
        }
    }
    if (refused && n <= most + 4) /* init and its worker have room of their own on top */
        ok("%d forks, then %s", n, strerror(EAGAIN));
    else
        breach("%d forks with a limit of %d", n, most);
    ready();
}

/* A few processes that do nothing. ARG: how many. */
static void idle(int argc, char **argv)
{
    for (int i = argc > 0 ? atoi(argv[0]) : 1; i > 0; i--)
        if (fork() == 0)
            for (;;)
                pause();
    ready();
    for (;;)
        pause();
}

/* The shell's bomb: every process goes on forking until the end. */
static void wild(int argc, char **argv)
{
    (void)argc, (void)argv;
    signal(SIGTERM, SIG_IGN);
    ready();
    for (;;)
        if (fork() < 0)
            sched_yield();
}

/* S-38. ARG: MiB to touch. */
static void memory(int argc, char **argv)
{
    size_t mib = (size_t)(argc > 0 ? atol(argv[0]) : 256);
    for (size_t i = 0; i < mib; i++) {
        char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) {
            ok("refused at %zu MiB: %s", i, strerror(errno));
            return;
        }
        memset(p, 0xa5, 1 << 20);
    }
    breach("%zu MiB were had", mib);
}

/* ARG: file, MiB. Ends by a signal, or by an error that is told. */
static void fill(int argc, char **argv)
{
    static char block[1 << 20];
    long mib = argc > 1 ? atol(argv[1]) : 256;
    int fd = argc > 0 ? open(argv[0], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
    if (fd < 0)
        breach("%s: %s", argc > 0 ? argv[0] : "no file", strerror(errno));
    signal(SIGXFSZ, SIG_IGN);
    memset(block, 0xa5, sizeof block);
    for (long i = 0; i < mib; i++)
        if (write(fd, block, sizeof block) < (ssize_t)sizeof block) {
            ok("refused at %ld MiB: %s", i, strerror(errno));
            return;
        }
    breach("%ld MiB were written to %s", mib, argv[0]);
}

/* S-41. ARG: how many empty files. */
static void inodes(int argc, char **argv)
{
    long most = argc > 0 ? atol(argv[0]) : 100000;
    char name[64];
    mkdir("many", 0755);
    for (long i = 0; i < most; i++) {
        snprintf(name, sizeof name, "many/%ld", i);
        int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0) {
            ok("refused at %ld: %s", i, strerror(errno));
            return;
        }
        close(fd);
    }
    ready();
    nap(20000);
    breach("%ld files were made, and nobody minded", most);
}

/* S-39. ARG: threads, ms. */
static void *burn(void *arg)
{
    volatile unsigned long n = 0;
    (void)arg;
    for (;;)
        n++;
    return NULL;
}

static void spin(int argc, char **argv)
{
    int n = argc > 0 ? atoi(argv[0]) : 64;
    unsigned ms = argc > 1 ? (unsigned)atoi(argv[1]) : 3000;
    pthread_t t;
    cpu_set_t all; /* the processors it was given are only a hint */
    memset(&all, 0xff, sizeof all);
    sched_setaffinity(0, sizeof all, &all);
    for (int i = 0; i < n; i++)
        if (pthread_create(&t, NULL, burn, NULL) != 0)
            breach("thread %d", i);
    ready();
    nap(ms);
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    ok("cpu-ms %ld", used.tv_sec * 1000 + used.tv_nsec / 1000000);
}

/* S-43. Output without end, on both streams. ARG: ms. */
static void flood(int argc, char **argv)
{
    static char block[65536];
    struct timespec t0, t;
    long ms = argc > 0 ? atol(argv[0]) : 3000;
    memset(block, 'y', sizeof block);
    clock_gettime(CLOCK_MONOTONIC, &t0);
    do {
        if (write(1, block, sizeof block) < 0 || write(2, block, sizeof block) < 0)
            _exit(1);
        clock_gettime(CLOCK_MONOTONIC, &t);
    } while ((t.tv_sec - t0.tv_sec) * 1000 + (t.tv_nsec - t0.tv_nsec) / 1000000 < ms);
}

static void deaf(void)
{
    for (int s = 1; s < 65; s++)
        signal(s, SIG_IGN);
}

static void *hidden(void *arg)
{
    /* A child of a thread that is not the first is not in /proc/PID/task/PID/children. */
    int depth = (int)(intptr_t)arg;
    if (fork() == 0) {
        deaf();
        pthread_t t;
        if (depth > 0 && pthread_create(&t, NULL, hidden, (void *)(intptr_t)(depth - 1)) != 0)
            _exit(1);
        for (;;)
            pause();
    }
    for (;;)
        pause();
    return NULL;
}

/* Deaf to signals, children in own sessions that hold the pipes. */
static void stubborn(int argc, char **argv)
{
    (void)argc, (void)argv;
    deaf();
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            setsid();
            if (fork() == 0)
                setsid();
            for (;;)
                pause();
        }
    ready();
    for (;;)
        pause();
}

/* A pipe whose end each child closes when it is set up: the parent waits for the last one. */
static void open_barrier(int fds[2])
{
    if (pipe2(fds, O_CLOEXEC) < 0)
        breach("pipe");
}

static void await_children(int fds[2])
{
    char none;
    close(fds[1]);
    while (read(fds[0], &none, 1) < 0)
        ;
    close(fds[0]);
}

/* Goes when it is told, but its children do not. */
static void meek(int argc, char **argv)
{
    int up[2];
    (void)argc, (void)argv;
    open_barrier(up);
    for (int i = 0; i < 4; i++)
        if (fork() == 0) {
            deaf();
            setsid();
            close(up[1]);
            for (;;)
                pause();
        }
    await_children(up);
    ready();
    for (;;)
        pause();
}

/* Its children are not its own but its parent's. */
static void sibling(int argc, char **argv)
{
    int up[2];
    (void)argc, (void)argv;
    deaf();
    open_barrier(up);
    for (int i = 0; i < 4; i++)
        if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0) {
            setsid();
            if (syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0) == 0)
                setsid();
            close(up[1]);
            for (;;)
                pause();
        }
    await_children(up);
    ready();
    for (;;)
        pause();
}

/* The same as a chain of processes each made by a second thread. ARG: its length. */
static void chain(int argc, char **argv)
{
    pthread_t t;
    deaf();
    if (pthread_create(&t, NULL, hidden, (void *)(intptr_t)(argc > 0 ? atoi(argv[0]) : 30)) != 0)
        breach("thread");
    nap(300);
    ready();
    for (;;)
        pause();
}

/* Kills what stands between pid 1 and us, if it can, and stays. ARG: ms to wait before. */
static void orphan(int argc, char **argv)
{
    deaf();
    nap(argc > 0 ? (unsigned)atoi(argv[0]) : 100);
    if (getppid() > 1)
        kill(getppid(), SIGKILL);
    if (fork() == 0) {
        setsid();
        if (fork() > 0)
            _exit(0);
        for (;;)
            pause();
    }
    ready();
    for (;;)
        pause();
}

/* Prints a counter until it is told to end by a file; exits 42. Shows what survives a keeper. */
static void count(int argc, char **argv)
{
    for (int i = 0; argc < 1 || access(argv[0], F_OK) < 0; i++) {
        dprintf(1, "tick %d\n", i);
        nap(20);
    }
    _exit(42);
}

const probe res_probes[] = {
    { "forks", forks },       { "idle", idle },     { "wild", wild },   { "memory", memory },
    { "fill", fill },         { "inodes", inodes }, { "spin", spin },   { "flood", flood },
    { "stubborn", stubborn }, { "meek", meek },     { "chain", chain }, { "sibling", sibling },
    { "orphan", orphan },     { "count", count },   { NULL, NULL },
};
