/* SPDX-License-Identifier: Apache-2.0 */
#include "fd.h"
#include <signal.h>
#include <sys/time.h>

static void on_tick(int sig)
{
    (void)sig;
}

void cay__fd_hurry(bool on)
{
    enum { TICK_US = 50 };
    static struct sigaction was;
    static sigset_t mask;
    struct itimerval tick = { { 0, on ? TICK_US : 0 }, { 0, on ? TICK_US : 0 } };
    sigset_t one;
    if (on) {
        sigemptyset(&one);
        sigaddset(&one, SIGALRM);
        sigaction(SIGALRM, &(struct sigaction){ .sa_handler = on_tick }, &was);
        sigprocmask(SIG_UNBLOCK, &one, &mask);
    }
    setitimer(ITIMER_REAL, &tick, NULL);
    if (!on) {
        sigprocmask(SIG_SETMASK, &mask, NULL);
        sigaction(SIGALRM, &was, NULL);
    }
}
