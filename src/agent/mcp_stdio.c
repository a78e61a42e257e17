/* SPDX-License-Identifier: Apache-2.0 */
/* An MCP server that is a program: one JSON message a line, on its standard streams. */
#include "mcp.h"
#include "run.h"
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

typedef struct stdio {
    cay_mcp *mcp;
    cay_sandbox *sb;
    bool owned;
    cay__peer peer;
    pid_t pid; /* on the host, */
    int in;    /* and its input */
} stdio;

static void close_stdio(void *self)
{
    stdio *s = self;
    cay__peer_close(&s->peer, 0);
    cay__close_fd(&s->in);
    if (s->pid > 0) {
        kill(s->pid, SIGKILL);
        waitpid(s->pid, NULL, 0);
    }
    if (s->sb && s->owned)
        cay_sandbox_remove(s->sb, NULL, NULL);
    if (s->sb)
        cay_sandbox_unref(s->sb);
    free(s);
}

static int start_host(stdio *s, const cay_mcp_spec *spec, cay_err *err)
{
    int in[2], out[2];
    posix_spawn_file_actions_t fa;
    CAY_TRY_SYS(pipe2(in, O_CLOEXEC), err, "pipe");
    if (pipe2(out, O_CLOEXEC) < 0) {
        close(in[0]);
        close(in[1]);
        return cay_fail_sys(err, "pipe");
    }
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_adddup2(&fa, in[0], 0);
    posix_spawn_file_actions_adddup2(&fa, out[1], 1);
    int e = posix_spawnp(&s->pid, spec->argv[0], &fa, NULL, (char *const *)spec->argv, environ);
    posix_spawn_file_actions_destroy(&fa);
    close(in[0]);
    close(out[1]);
    s->in = in[1];
    s->peer.fd = out[0];
    errno = e;
    if (e)
        s->pid = 0;
    if (e)
        return cay_fail_sys(err, "%.100s", spec->argv[0]);
    return 0;
}

static int start_inside(stdio *s, const cay_mcp_spec *spec, const cay_call *call, cay_err *err)
{
    cay_create create = { .size = sizeof create, .name = spec->name };
    const cay_spawn cmd = { .size = sizeof cmd, .argv = spec->argv, .env = spec->env };
    if (spec->sandbox) {
        s->sb = cay_sandbox_ref(spec->sandbox);
    } else if (!spec->service) {
        return cay_fail(
            err, CAY_EINVAL,
            "an MCP server runs in a sandbox: give it one, or a service to make it; or say host");
    } else {
        CAY_TRY(cay_client_create(spec->service, call, CAY_OR(spec->create, &create), &s->sb, err));
        s->owned = true;
    }
    return cay__peer_open(&s->peer, s->sb, call, &cmd, CAY__MCP_MESSAGE, err);
}

/* Why there is no answer: how it ended, and the last it had to say about it. */
static int report_exit(stdio *s, cay_err *err)
{
    cay_call soon = { .size = sizeof soon, .deadline_ms = cay__now_ms() + 2000 };
    cay_exit how = { .size = sizeof how };
    char said[256] = "";
    uint64_t at = 0, lost = 0;
    bool eof = false;
    if (!s->peer.p || cay_proc_wait(s->peer.p, &soon, &how, NULL) < 0)
        return cay_fail_why(err, CAY_EUPSTREAM, "mcp_failed", "it ended without an answer");
    for (size_t n = 1; n && !eof;) {
        char piece[sizeof said];
        n = 0;
        if (cay_proc_read(s->peer.p, &soon, CAY_STDERR, &at, piece, sizeof piece - 1, &n, &lost,
                          &eof, NULL) == 0 &&
            n)
            CAY_FORMAT(said, "%.*s", (int)n, piece);
    }
    size_t n = strlen(said);
    while (n && (unsigned char)said[n - 1] <= ' ')
        said[--n] = 0;
    char *last = strrchr(said, '\n');
    return cay_fail_why(err, CAY_EUPSTREAM, "mcp_failed", "it ended with status %d%s%.150s",
                        how.code, CAY_TEXT_IF(*said, ": "), last ? last + 1 : said);
}

static int send_line(stdio *s, const cay_call *call, const char *message, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(CAY__MCP_MESSAGE);
    cay__buf_fmt(&b, "%s\n", message);
    if (b.full)
        return cay_fail(err, CAY_ETOOBIG, "the message is larger than 64 MiB");
    if (s->peer.p) {
        int rc = cay_proc_write(s->peer.p, call, b.data, b.len, err);
        if (rc == CAY_ESTATE)
            return report_exit(s, err);
        return rc;
    }
    if (cay__fd_write_all(s->in, b.data, b.len))
        return 0;
    return cay_fail_sys(err, "write to it");
}

static int exchange_message(void *self, const cay_call *call, const char *message, int64_t id,
                            json_t **answer, cay_err *err)
{
    stdio *s = self;
    cay_call mine = *call;
    call = &mine;
    CAY_TRY(send_line(s, call, message, err));
    while (id > 0) {
        CAY_AUTOFREE char *line = cay__peer_take(&s->peer, '\n');
        if (line) {
            json_t *j =
                json_loads(line, 0, NULL); /* what is no JSON is a program that talks to itself */
            if (j && cay__mcp_answers(j, id)) {
                *answer = j;
                return 0;
            }
            int64_t began = cay__now_ms();
            CAY_AUTOFREE char *reply = NULL;
            if (j)
                reply = cay__mcp_reply(s->mcp, call, j); /* it may wait for one before it goes on */
            json_decref(j);
            mine.deadline_ms +=
                cay__now_ms() - began; /* whoever was asked took his time, not the server's */
            if (reply)
                CAY_TRY(send_line(s, call, reply, err));
            continue;
        }
        CAY_TRY(cay__call_wait(call, s->peer.fd, POLLIN, "its answer", err));
        if (cay__peer_read(&s->peer))
            continue;
        if (s->peer.in.full)
            return cay_fail(err, CAY_ETOOBIG, "its message is larger than 64 MiB");
        return report_exit(s, err);
    }
    return 0;
}

/* Where its files are; of one that does not tell, none. */
static void find_workdir(const stdio *s, const cay_call *call, cay__mcp_link *out)
{
    cay_info *info = NULL;
    if (!s->sb || cay_sandbox_describe(s->sb, call, &info, NULL) < 0)
        return;
    if (info->workdir && strlen(info->workdir) < sizeof out->workdir)
        CAY_COPY(out->workdir, info->workdir);
    cay_info_free(info);
}

int cay__mcp_stdio(cay_mcp *m, const cay_mcp_spec *spec, const cay_call *call, cay__mcp_link *out,
                   cay_err *err)
{
    stdio *s = cay__alloc(sizeof *s);
    *s = (stdio){ .mcp = m, .in = -1, .peer = { .fd = -1, .in = CAY__BUF(CAY__MCP_MESSAGE) } };
    int rc;
    if (spec->host)
        rc = start_host(s, spec, err);
    else
        rc = start_inside(s, spec, call, err);
    if (rc < 0) {
        close_stdio(s);
        return rc;
    }
    *out = (cay__mcp_link){ .self = s, .exchange = exchange_message, .close = close_stdio };
    find_workdir(s, call, out);
    return 0;
}
