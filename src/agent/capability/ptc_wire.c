/* SPDX-License-Identifier: Apache-2.0 */
#include "ptc.h"
#include <poll.h>

enum { CALL_MAX = 8 << 20, START_MS = 30000, END_MS = 2000 };

/* One connection is one call. Its line goes to standard output behind a number, the answer comes by
 * standard input. The socket is in a directory of its own that only this user may enter; it goes
 * with the process. */
static const char relay[] = "import os, shutil, socket, sys, tempfile, threading\n"
                            "MOST = 8 << 20\n"
                            "where = tempfile.mkdtemp(prefix='tools-')\n"
                            "path = os.path.join(where, 'socket')\n"
                            "door = socket.socket(socket.AF_UNIX)\n"
                            "door.bind(path); door.listen(64)\n"
                            "out, lock, waits = sys.stdout.buffer, threading.Lock(), {}\n"
                            "def say(data):\n"
                            "    with lock: out.write(data); out.flush()\n"
                            "def hear(c, n):\n"
                            "    try: line = c.makefile('rb').readline(MOST)\n"
                            "    except OSError: line = b''\n"
                            "    if line.endswith(b'\\n') and len(line) > 1:\n"
                            "        waits[n] = c\n"
                            "        say(b'%d ' % n + line)\n"
                            "    else: c.close()\n"
                            "def answer():\n"
                            "    for line in sys.stdin.buffer:\n"
                            "        n, _, rest = line.partition(b' ')\n"
                            "        c = waits.pop(int(n), None)\n"
                            "        try:\n"
                            "            if c: c.sendall(rest); c.close()\n"
                            "        except OSError: pass\n"
                            "    shutil.rmtree(where, True); os._exit(0)\n"
                            "say(os.fsencode(path) + b'\\n')\n"
                            "threading.Thread(target=answer, daemon=True).start()\n"
                            "n = 0\n"
                            "while True:\n"
                            "    c, _ = door.accept(); n += 1\n"
                            "    threading.Thread(target=hear, args=(c, n), daemon=True).start()\n";

void cay__relay_close(cay__relay *w)
{
    cay_call soon = { .size = sizeof soon, .deadline_ms = cay__now_ms() + END_MS };
    /* It takes its directory along when its input ends. */
    if (w->peer.p)
        cay_proc_close_stdin(w->peer.p, &soon, NULL);
    cay__peer_close(&w->peer, END_MS);
}

static int read_socket_path(cay__relay *w, const cay_call *call, cay_err *err)
{
    cay_call c = cay__call_copy(call);
    int64_t end = cay__now_ms() + START_MS;
    if (!c.deadline_ms || c.deadline_ms > end)
        c.deadline_ms = end;
    for (;;) {
        CAY_AUTOFREE char *line = cay__peer_take(&w->peer, '\n');
        if (line && line[0] == '/' && strlen(line) < 104) {
            CAY_FORMAT(w->path, "%s", line);
            return 0;
        }
        if (line)
            return cay_fail(err, CAY_EUPSTREAM,
                            "what carries tool calls said \"%.100s\" instead of its socket", line);
        CAY_TRY(cay__call_wait(&c, w->peer.fd, POLLIN, "what carries tool calls", err));
        if (!cay__peer_read(&w->peer))
            return cay_fail(
                err, CAY_ENOENT,
                "what carries tool calls did not start: is there a python3 in this sandbox?");
    }
}

int cay__relay_open(cay__relay *w, cay_sandbox *sb, const char *user, const char *cwd,
                    const cay_call *call, cay_err *err)
{
    static const char *const argv[] = { "python3", "-I", "-S", "-c", relay, NULL };
    const cay_spawn spec = { .size = sizeof spec, .argv = argv, .user = user, .cwd = cwd };
    int rc = cay__no_python(cay__peer_open(&w->peer, sb, call, &spec, 2 * CALL_MAX, err), err);
    if (rc == 0)
        rc = read_socket_path(w, call, err);
    if (rc < 0)
        cay__relay_close(w);
    return rc;
}

bool cay__relay_alive(const cay__relay *w)
{
    if (!w->peer.p)
        return false;
    struct pollfd p = { .fd = cay_proc_exit_fd(w->peer.p, NULL), .events = POLLIN };
    return p.fd >= 0 && poll(&p, 1, 0) == 0;
}

bool cay__relay_parse(const char *line, cay__relay_call *out)
{
    char *end;
    if (*line < '0' || *line > '9')
        return false;
    errno = 0;
    uint64_t id = strtoull(line, &end, 10);
    json_t *m = CAY_IF(*end == ' ' && !errno, json_loads(end + 1, JSON_REJECT_DUPLICATES, NULL));
    *out = (cay__relay_call){ .id = id, .message = m };
    return true;
}

bool cay__relay_take(cay__relay *w, cay__relay_call *out)
{
    for (;;) {
        CAY_AUTOFREE char *line = cay__peer_take(&w->peer, '\n');
        if (!line)
            return false;
        if (cay__relay_parse(line, out))
            return true;
    }
}

int cay__relay_answer(cay__relay *w, const cay_call *call, uint64_t id, bool ok,
                      const json_t *output, cay_err *err)
{
    CAY_AUTOJSON *m = json_pack("{s:b, s:O}", "ok", ok, "output", output);
    CAY_AUTOFREE char *text = cay__json_plain(m, CAY__TEXT_MAX);
    CAY_AUTOBUF line = CAY__BUF(CAY__TEXT_MAX + 64);
    cay__buf_fmt(&line, "%llu ", (unsigned long long)id);
    cay__buf_str(&line, CAY_OR(text, "{\"ok\":false,\"output\":\"the answer is too large\"}"));
    cay__buf_str(&line, "\n");
    return cay_proc_write(w->peer.p, call, line.data, line.len, err);
}
