/* SPDX-License-Identifier: Apache-2.0 */
#include "pump.h"
#include <base/base.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>

static struct termios saved;
static volatile sig_atomic_t raw_fd = -1;

void term_restore(void)
{
    int fd = raw_fd;
    if (fd < 0)
        return;
    raw_fd = -1;
    /* A background job that sets its terminal would be stopped by TTOU. */
    sigset_t ttou, old;
    sigemptyset(&ttou);
    sigaddset(&ttou, SIGTTOU);
    sigprocmask(SIG_BLOCK, &ttou, &old);
    tcsetattr(fd, TCSADRAIN, &saved);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static void on_death(int sig)
{
    term_restore();
    signal(sig, SIG_DFL);
    raise(sig);
}

static bool enter_mode(int fd, void (*change)(struct termios *))
{
    static bool armed;
    static const int deaths[] = { SIGHUP, SIGINT,  SIGQUIT, SIGTERM, SIGSEGV,
                                  SIGBUS, SIGABRT, SIGFPE,  SIGILL };
    struct termios t;
    if (raw_fd >= 0)
        return true;
    if (tcgetattr(fd, &saved) < 0)
        return false;
    if (!armed) {
        armed = true;
        atexit(term_restore);
        CAY_EACH(death, deaths)
            sigaction(*death,
                      &(struct sigaction){ .sa_handler = on_death, .sa_flags = (int)SA_RESETHAND },
                      NULL);
    }
    t = saved;
    change(&t);
    raw_fd = fd;
    if (tcsetattr(fd, TCSADRAIN, &t) < 0) {
        raw_fd = -1;
        return false;
    }
    return true;
}

bool term_raw(int fd)
{
    return enter_mode(fd, cfmakeraw);
}

static void disable_echo(struct termios *t)
{
    t->c_lflag = (t->c_lflag & ~(tcflag_t)ECHO) | ECHONL;
}

bool term_hide(int fd)
{
    return enter_mode(fd, disable_echo);
}

bool term_is_raw(void)
{
    return raw_fd >= 0;
}

void term_size(int fd, uint16_t *cols, uint16_t *rows)
{
    struct winsize w;
    bool ok = ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col && w.ws_row;
    if (ok)
        *cols = w.ws_col;
    else
        *cols = 80;
    if (ok)
        *rows = w.ws_row;
    else
        *rows = 24;
}
