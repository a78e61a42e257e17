/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moment write DIR: counts in eight files, in a shared mapping of a ninth on two of its pages, and
 * in the name of a tenth, always in the same order, until it is killed. A threaded twin whose first
 * thread has ended counts in another mapping. moment again DIR: the same, and timers continue it
 * soon when it is stopped. moment check DIR: says what was seen, and 1 if it was never so: of two
 * counters the later one is equal or one behind.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILES 8
#define PAGE  4096

static void die(const char *what)
{
    perror(what);
    exit(3);
}

static volatile uint64_t *map_file(const char *name)
{
    int fd = open(name, O_RDWR | O_CREAT, 0644);
    if (fd < 0 || ftruncate(fd, 2 * PAGE) < 0)
        die(name);
    void *p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        die("mmap");
    close(fd);
    return p;
}

static void put(int fd, uint64_t v)
{
    if (pwrite(fd, &v, sizeof v, 0) != sizeof v)
        die("write");
}

static void *count(void *arg)
{
    volatile uint64_t *map = map_file("map"), *word = map + PAGE / sizeof *map;
    char name[2][32] = { "gen-0", "" };
    int fd[FILES];
    (void)arg;
    for (int i = 0; i < FILES; i++) {
        char f[8] = { 'f', (char)('0' + i), 0 };
        if ((fd[i] = open(f, O_RDWR | O_CREAT, 0644)) < 0)
            die(f);
        put(fd[i], 0);
    }
    close(open(name[0], O_WRONLY | O_CREAT, 0644));
    for (uint64_t n = 1;; n++) {
        for (int i = 0; i < FILES; i++)
            put(fd[i], n);
        map[0] = n;
        word[0] = n;
        snprintf(name[n & 1], sizeof name[0], "gen-%llu", (unsigned long long)n);
        if (rename(name[~n & 1], name[n & 1]) < 0)
            die("rename");
    }
    return NULL;
}

/* Its memory is shown by its second thread only. */
static void twin(void)
{
    volatile uint64_t *map = map_file("twin");
    for (uint64_t n = 1;; n++)
        map[0] = map[PAGE / sizeof *map] = n;
}

static void *twin_thread(void *arg)
{
    (void)arg;
    twin();
    return NULL;
}

static uint64_t read_at(const char *name, off_t at)
{
    uint64_t v;
    int fd = open(name, O_RDONLY);
    if (fd < 0 || pread(fd, &v, sizeof v, at) != sizeof v)
        die(name);
    close(fd);
    return v;
}

static uint64_t generation(void)
{
    DIR *d = opendir(".");
    uint64_t v = UINT64_MAX;
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        if (!strncmp(e->d_name, "gen-", 4)) {
            v = strtoull(e->d_name + 4, NULL, 10);
            n++;
        }
    if (n != 1) {
        printf("%d names of the tenth file\n", n);
        exit(1);
    }
    closedir(d);
    return v;
}

static int check(void)
{
    uint64_t v[FILES + 3];
    for (int i = 0; i < FILES; i++) {
        char f[8] = { 'f', (char)('0' + i), 0 };
        v[i] = read_at(f, 0);
    }
    v[FILES] = read_at("map", 0);
    v[FILES + 1] = read_at("map", PAGE);
    v[FILES + 2] = generation();
    int bad = 0;
    for (int i = 0; i < FILES + 3; i++) {
        printf("%llu ", (unsigned long long)v[i]);
        bad |= v[i] > v[0] || v[i] + 1 < v[0] || (i && v[i] > v[i - 1]);
    }
    uint64_t a = read_at("twin", 0), b = read_at("twin", PAGE);
    printf("twin %llu %llu\n", (unsigned long long)b, (unsigned long long)a);
    return bad || a > b || a + 1 < b; /* the right-hand one of the two is stored first */
}

#define TIMERS 8
static timer_t timers[TIMERS];

/* A stop throws away the signal of a timer that is waiting then, and the timer is not set again: so
 * there are several, and each signal sets them all. */
static void set_timers(int sig)
{
    (void)sig;
    for (int i = 0; i < TIMERS; i++)
        timer_settime(timers[i], 0,
                      &(struct itimerspec){ { 0, 250000000 }, { 0, 90000000 + i * 20000000 } },
                      NULL);
}

static void continue_always(void)
{
    struct sigevent e = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGCONT };
    for (int i = 0; i < TIMERS; i++)
        if (timer_create(CLOCK_MONOTONIC, &e, &timers[i]) < 0)
            die("timer");
    signal(SIGCONT, set_timers); /* of one that is ignored a timer is not set again either */
    set_timers(0);
}

int main(int argc, char **argv)
{
    pthread_t t;
    if (argc != 3 || chdir(argv[2]) < 0)
        die("moment write|again|check DIR");
    if (!strcmp(argv[1], "check"))
        return check();
    if (fork() == 0) {
        pthread_create(&t, NULL, twin_thread, NULL);
        pthread_exit(NULL);
    }
    if (!strcmp(argv[1], "again"))
        continue_always();
    count(NULL);
}
