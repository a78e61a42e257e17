/* SPDX-License-Identifier: Apache-2.0 */
#include "input.h"
#include "answer.h"
#include <base/base.h>

typedef struct holder_write {
    struct holder_write *next;
    int to;
    size_t at, len;
    char data[];
} holder_write;

/* A descriptor that is not watched costs no call of epoll_ctl(2) for a write that fits. */
static void watch_room(holder_input *in, bool on)
{
    if (on == (in->w.events != 0))
        return;
    if (on) {
        in->w.events = EPOLLOUT;
        cay__loop_add(in->loop, &in->w);
    } else {
        in->w.events = 0;
        cay__loop_del(in->loop, &in->w);
    }
}

static void answer_oldest(holder_input *in, bool taken)
{
    holder_write *x = in->writes;
    in->writes = x->next;
    if (taken)
        cay__answer_ok(x->to);
    else
        cay__answer_error(x->to, CAY_ESTATE, EPIPE, "stdin_closed",
                          "the process no longer reads its input", NULL);
    free(x);
}

static void pass_on(cay__watch *w, uint32_t events)
{
    holder_input *in = (holder_input *)w;
    while (in->writes) {
        holder_write *x = in->writes;
        ssize_t n = write(w->fd, x->data + x->at, x->len - x->at);
        if (n < 0 && errno == EAGAIN) {
            watch_room(in, true);
            return;
        }
        if (n < 0 && errno != EINTR) {
            cay__input_close(in);
            return;
        }
        x->at += (size_t)CAY_MAX(n, 0);
        if (x->at == x->len)
            answer_oldest(in, true);
    }
    watch_room(in, false);
}

void cay__input_open(holder_input *in, cay__loop *loop, int fd)
{
    cay__fd_nonblock(fd, true);
    *in = (holder_input){ .w = { .fd = fd, .fn = pass_on }, .loop = loop };
}

void cay__input_write(holder_input *in, int to, const void *data, size_t len)
{
    if (in->w.fd < 0) {
        cay__answer_error(to, CAY_ESTATE, 0, "stdin_closed", "stdin of this process is not open",
                          NULL);
        return;
    }
    holder_write *x = cay__alloc(sizeof *x + len);
    x->to = to;
    x->len = len;
    memcpy(x->data, data, len);
    CAY_APPEND(in->writes, x);
    if (!in->w.events)
        pass_on(&in->w, 0);
}

void cay__input_close(holder_input *in)
{
    if (in->w.fd < 0)
        return;
    watch_room(in, false);
    cay__close_fd(&in->w.fd);
    while (in->writes)
        answer_oldest(in, false);
}

void cay__input_end(holder_input *in, bool terminal)
{
    if (!terminal)
        cay__input_close(in);
    else if (in->w.fd >= 0)
        (void)!write(in->w.fd, "\4", 1); /* end of transmission */
}

void cay__input_forget(holder_input *in, int to)
{
    for (holder_write **at = &in->writes; *at;) {
        holder_write *x = *at;
        if (x->to == to) {
            *at = x->next;
            free(x);
        } else {
            at = &x->next;
        }
    }
    if (!in->writes)
        watch_room(in, false);
}
