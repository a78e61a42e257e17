/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/build_show.h - a build for people: its steps with how long each took, what they print, and on
 * a terminal a line that tells that a silent step is still at it.
 */
#pragma once
#include <cay/build.h>
#include <pthread.h>

typedef struct build_show {
    int fd; /* 1 or 2 */
    bool tty;
    unsigned step, steps;      /* the one under way, 0: none */
    int64_t since_ms, last_ms; /* it began; something was said */
    char title[200];
    bool drawn; /* the line stands there */
    /* the thread that draws it */
    bool live, stop;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
} build_show;

void build_show_open(build_show *v, int fd, bool live); /* live: it happens now */
void build_show_event(build_show *v, const cay_build_event *e);
void build_show_close(build_show *v);
const char *build_took(char *buf,
                       int64_t ms); /* "350 ms", "3.2 s", "2 min 5 s"; buf: OUT_HUMAN bytes */
void build_show_json(const cay_build_event *e); /* one line on standard output */
