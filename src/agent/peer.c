/* SPDX-License-Identifier: Apache-2.0 */
/* A program in the sandbox that is spoken to by its standard streams. */
#include "run.h"
#include <signal.h>

enum { PIECE = 65536 };

int cay__peer_open(cay__peer *w, cay_sandbox *sb, const cay_call *call, const cay_spawn *spec,
                   size_t max, cay_err *err)
{
    cay_spawn own = *spec;
    own.stdin_mode = CAY_STDIN_PIPE;
    own.on_full = CAY_FULL_BLOCK;
    own.attach = true;
    *w = (cay__peer){ .fd = -1, .in = CAY__BUF(max) };
    CAY_TRY(cay_sandbox_spawn(sb, call, &own, &w->p, err));
    return cay_proc_output(w->p, call, CAY_STDOUT, CAY_FROM_START, &w->fd, err);
}

int cay__no_python(int rc, cay_err *err)
{
    if (rc == CAY_ENOENT)
        return cay_fail(
            err, rc, "python3 is not in this sandbox; install it, or use a template that has it");
    return rc;
}

bool cay__peer_read(cay__peer *w)
{
    char *room = cay__buf_room(&w->in, PIECE);
    ssize_t n = 0;
    if (room)
        n = read(w->fd, room, PIECE);
    if (n > 0)
        cay__buf_used(&w->in, (size_t)n);
    return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

char *cay__peer_take(cay__peer *w, char end)
{
    const char *at = CAY_IF(w->in.len, memchr(w->in.data, end, w->in.len));
    if (!at)
        return NULL;
    size_t n = (size_t)(at - w->in.data);
    char *piece = cay__alloc(n + 1);
    memcpy(piece, w->in.data, n);
    cay__buf_cut(&w->in, n + 1);
    return piece;
}

void cay__peer_close(cay__peer *w, unsigned patience_ms)
{
    if (w->p) {
        cay_call soon = { .size = sizeof soon, .deadline_ms = cay__now_ms() + patience_ms };
        cay_exit gone = { .size = sizeof gone };
        if (!patience_ms || cay_proc_wait(w->p, &soon, &gone, NULL) < 0)
            cay_proc_signal(w->p, NULL, SIGKILL, CAY_SCOPE_TREE, NULL);
        cay_proc_unref(w->p);
    }
    cay__close_fd(&w->fd);
    cay__buf_clear(&w->in);
    *w = (cay__peer){ .fd = -1 };
}
