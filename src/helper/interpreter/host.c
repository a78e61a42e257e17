/* SPDX-License-Identifier: Apache-2.0 */
/*
 * interpreter --kernel LANGUAGE PROGRAM [SCRIPT]: a kernel of bash, or of node with SCRIPT
 * (kernel.js). It reads requests as lines of JSON, {"id","code","env"} and {"interrupt": ID}, one
 * at a time, and answers with lines of events: number_of_executions, stdout, stderr, result, error
 * and end_of_execution, each with the request's id. (python with kernel.py speaks these lines
 * itself.)
 *
 * The program runs beside it: code goes there by a pipe of its own and results come by another;
 * what it prints comes by its streams, so that it cannot be taken for a result.
 */
#include "serve.h"
#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>

enum { MARK = 34, SEEN_MS = 5000, KILL_MS = 2000 };

/* Marks go to descriptors of their own, as code may turn its streams elsewhere. The inner loop
 * takes a `break` or `continue` that stands in none of the code's; a function would, too, but make
 * what is declared in it local. */
static const char BASH[] =
    "__cay_end() { builtin printf '\\036%s\\036' \"$__cay_mark\" >&\"$__cay_out\"; builtin printf "
    "'\\036%s\\036' \"$__cay_mark\" >&\"$__cay_err\"; builtin printf "
    "'{\"type\":\"end\",\"code\":%d}\\0' \"$1\" >&\"$__cay_said\"; }\n"
    "__cay_code=$1 __cay_said=$2 __cay_mark=$3\n"
    "exec {__cay_out}>&1 {__cay_err}>&2\n"
    "set --\n"
    "trap '__cay_end 130; continue 1000' INT\n"
    "while IFS= read -r -d '' -u \"$__cay_code\" __cay_text; do\n"
    "  for __cay_once in 1; do eval \"$__cay_text\"; done\n"
    "  __cay_end $?\n"
    "done\n";

typedef struct output {
    int fd;
    const char *name;
    cay__buf held; /* what may be the begin of the mark, or of a character */
    bool seen;     /* all that was printed before the end is told */
} output;

typedef struct request {
    char *line, *id;
} request;

static struct {
    const char *language;
    char mark[MARK + 1];
    pid_t pid;
    int code, said; /* pipes to and from the program */
    int death;      /* readable when it ended, whoever else holds its pipes */
    output out[2];
    cay__buf in, heard, sends; /* what came, in pieces; what is to go */
    size_t sent;
    request *now;
    cay__buf results; /* events of the current one, as lines, told when its output is */
    bool ended;       /* the program is done with it */
    long status;
    int64_t kill_at, seen_by;
    unsigned count;
} host = { .in = TEXT, .heard = TEXT, .sends = TEXT, .results = TEXT };

static void write_all(const char *s, size_t n)
{
    while (n) {
        ssize_t k = write(1, s, n);
        if (k < 0 && errno != EINTR && errno != EAGAIN)
            _exit(1);
        if (k > 0) {
            s += k;
            n -= (size_t)k;
        }
    }
}

/* {"id":…,BODY}, whose it is first, as others pass it over by that; nothing when nobody waits for
 * it. */
static void send_event(const char *body, size_t n)
{
    CAY_AUTOBUF line = TEXT;
    if (!host.now)
        return;
    cay__buf_str(&line, "{\"id\":");
    cay__buf_json(&line, host.now->id, strlen(host.now->id));
    cay__buf_str(&line, ",");
    cay__buf_add(&line, body, n);
    cay__buf_str(&line, "}\n");
    write_all(line.data, line.len);
}

static void tell_text(const output *s, const char *p, size_t n)
{
    CAY_AUTOBUF body = TEXT;
    struct timespec t;
    if (!n)
        return;
    clock_gettime(CLOCK_REALTIME, &t);
    cay__buf_fmt(&body, "\"type\":\"%s\",\"text\":", s->name);
    cay__buf_json(&body, p, n);
    cay__buf_fmt(&body, ",\"timestamp\":%lld%09ld", (long long)t.tv_sec, t.tv_nsec);
    send_event(body.data, body.len);
}

/* Bytes at the end that wait for the rest: of the mark, or else of a character. */
static size_t count_partial_bytes(const char *p, size_t n)
{
    for (size_t k = n < MARK - 1 ? n : MARK - 1; k; k--)
        if (!memcmp(p + n - k, host.mark, k))
            return k;
    for (size_t k = 1; k <= 3 && k <= n; k++) {
        unsigned char c = (unsigned char)p[n - k];
        if (c >= 0xc0) {
            size_t whole = 2u + (c >= 0xe0) + (c >= 0xf0);
            if (k < whole)
                return k;
            return 0;
        }
        if (c < 0x80)
            return 0;
    }
    return 0;
}

/* False: it is over. */
static bool take_output(output *s)
{
    char buf[65536];
    ssize_t n = read(s->fd, buf, sizeof buf);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    cay__buf_add(&s->held, buf, (size_t)n);
    for (char *at; (at = memmem(s->held.data, s->held.len, host.mark, MARK)); s->seen = true) {
        tell_text(s, s->held.data, (size_t)(at - s->held.data));
        cay__buf_cut(&s->held, (size_t)(at - s->held.data) + MARK);
    }
    size_t keep = 0;
    if (n)
        keep = count_partial_bytes(s->held.data, s->held.len);
    tell_text(s, s->held.data, s->held.len - keep);
    cay__buf_cut(&s->held, s->held.len - keep);
    return n > 0;
}

static void quote_shell(cay__buf *t, const char *s)
{
    cay__buf_str(t, "'");
    for (; *s; s++)
        if (*s == '\'')
            cay__buf_str(t, "'\\''");
        else
            cay__buf_add(t, s, 1);
    cay__buf_str(t, "'");
}

static bool is_identifier(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (!(c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
              (i && c >= '0' && c <= '9')))
            return false;
    }
    return n;
}

/* Variables of one execution are of that one. */
static void bash_code(const char *code, const char *env, const char *env_end, cay__buf *out)
{
    CAY_AUTOBUF after = TEXT;
    CAY_AUTOBUF value = TEXT;
    const char *name, *at, *stop;
    size_t n;
    cay__buf_str(&after, "");
    for (const char *s = env + 1; cay__scan_next(&s, env_end, &name, &n, &at, &stop);) {
        char key[256];
        if (!is_identifier(name, n) || n >= sizeof key)
            continue;
        memcpy(key, name, n);
        key[n] = 0;
        if (!cay__scan_text(at, stop, &value)) {
            value.len = 0;
            cay__buf_add(&value, at, (size_t)(stop - at)); /* a number, as it stands */
        }
        cay__buf_fmt(out, "[ \"${%s+x}\" ] && __cay_old_%s=$%s; export %s=", key, key, key, key);
        quote_shell(out, value.data);
        cay__buf_str(out, "\n");
        cay__buf_fmt(
            &after,
            "if [ \"${__cay_old_%s+x}\" ]; then %s=$__cay_old_%s; unset __cay_old_%s; else "
            "unset %s; fi\n",
            key, key, key, key, key);
    }
    if (after.len) {
        cay__buf_str(out, "eval ");
        quote_shell(out, code);
        cay__buf_str(out, "\n__cay_code_of=$?\n");
        cay__buf_str(out, after.data);
        cay__buf_str(out, "(exit $__cay_code_of)");
    } else {
        cay__buf_str(out, code);
    }
}

static void begin_execution(void)
{
    const char *line = host.now->line, *end = line + strlen(line), *code, *code_end, *env, *env_end;
    CAY_AUTOBUF what = TEXT;
    char count[64];
    if (!cay__scan_member(line, end, "env", &env, &env_end) || *env != '{') {
        env = "{}";
        env_end = env + 2;
    }
    CAY_FORMAT(count, "\"type\":\"number_of_executions\",\"execution_count\":%u", ++host.count);
    send_event(count, strlen(count));
    host.out[0].seen = host.out[1].seen = host.ended = false;
    host.kill_at = host.seen_by = 0;
    host.sends.len = host.sent = 0;
    if (!cay__scan_member(line, end, "code", &code, &code_end) ||
        !cay__scan_text(code, code_end, &what)) {
        code = "\"\"";
        code_end = code + 2;
        cay__buf_str(&what, "");
    }
    if (!strcmp(host.language, "bash")) {
        bash_code(what.data, env, env_end, &host.sends);
    } else {
        cay__buf_str(&host.sends, "{\"code\":");
        cay__buf_add(&host.sends, code, (size_t)(code_end - code));
        cay__buf_str(&host.sends, ",\"env\":");
        cay__buf_add(&host.sends, env, (size_t)(env_end - env));
        cay__buf_str(&host.sends, !strcmp(host.language, "typescript") ? ",\"typescript\":true}"
                                                                       : ",\"typescript\":false}");
    }
    cay__buf_add(&host.sends, "", 1); /* its end */
}

static void send_code(void)
{
    ssize_t n = write(host.code, host.sends.data + host.sent, host.sends.len - host.sent);
    if (n > 0)
        host.sent += (size_t)n;
}

static void free_request(request *q)
{
    free(q->line);
    free(q->id);
    free(q);
}

static void interrupt_execution(const char *id)
{
    if (!host.now || strcmp(host.now->id, id))
        return;
    kill(-host.pid, SIGINT);
    host.kill_at = now_ms() + KILL_MS;
}

static void take_line(char *line, size_t n)
{
    const char *at, *end;
    CAY_AUTOBUF id = TEXT;
    line[n] = 0;
    if (cay__scan_member(line, line + n, "interrupt", &at, &end) && cay__scan_text(at, end, &id)) {
        interrupt_execution(id.data);
    } else if (!host.now && cay__scan_member(line, line + n, "id", &at, &end) &&
               cay__scan_text(at, end, &id)) {
        host.now = cay__alloc(sizeof *host.now);
        *host.now = (request){ .line = cay__strdup(line), .id = CAY_STEAL(id.data) };
        begin_execution();
    }
}

static void take_event(char *s, size_t n)
{
    const char *at, *end, *body = memchr(s, '{', n), *last = memrchr(s, '}', n);
    if (!host.now || !body || !last || last < body + 2)
        return;
    if (cay__scan_member(s, s + n, "type", &at, &end) && end - at == 5 &&
        !memcmp(at, "\"end\"", 5)) {
        host.ended = true;
        host.status = 0;
        if (cay__scan_member(s, s + n, "code", &at, &end))
            host.status = strtol(at, NULL, 10);
        host.seen_by = now_ms() + SEEN_MS;
        return;
    }
    cay__buf_add(&host.results, body + 1, (size_t)(last - body) - 1);
    cay__buf_add(&host.results, "", 1);
}

/* What comes of pieces that end so, to whoever takes them. False: it is over. */
static bool take_pieces(int fd, cay__buf *in, char end, void (*take)(char *s, size_t n))
{
    char buf[65536], *at;
    ssize_t n = read(fd, buf, sizeof buf);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    cay__buf_add(in, buf, (size_t)n);
    while ((at = memchr(in->data, end, in->len))) {
        size_t len = (size_t)(at - in->data);
        take(in->data, len);
        cay__buf_cut(in, len + 1);
    }
    return n > 0;
}

static bool take_requests(void)
{
    return take_pieces(0, &host.in, '\n', take_line);
}

static bool take_said(void)
{
    return take_pieces(host.said, &host.heard, 0, take_event);
}

/* Its output first, then what came of it. */
static void finish_execution(void)
{
    char code[96];
    for (size_t at = 0; at < host.results.len; at += strlen(host.results.data + at) + 1)
        send_event(host.results.data + at, strlen(host.results.data + at));
    host.results.len = 0;
    if (host.status) {
        CAY_FORMAT(code, "\"type\":\"error\",\"name\":\"\",\"value\":\"%ld\",\"traceback\":\"\"",
                   host.status);
        send_event(code, strlen(code));
    }
    send_event("\"type\":\"end_of_execution\"", 25);
    free_request(host.now);
    host.now = NULL;
    host.kill_at = host.seen_by = 0;
}

static void exit_unless(bool ok)
{
    if (!ok)
        _exit(1);
}

static void start_interpreter(const char *program, const char *script)
{
    int code[2], said[2], out[2], err[2];
    char a[16], b[16];
    exit_unless(pipe2(code, O_CLOEXEC) == 0 && pipe2(said, O_CLOEXEC) == 0 &&
                pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0);
    CAY_FORMAT(a, "%d", code[0]);
    CAY_FORMAT(b, "%d", said[1]);
    char bare[MARK];
    memcpy(bare, host.mark + 1, MARK - 2);
    bare[MARK - 2] = 0;
    const char *const bash[] = { "bash", "-c", BASH, "bash", a, b, bare, NULL }, *const node[] = {
        program, script, a, b, bare, NULL
    };
    host.pid = fork();
    exit_unless(host.pid >= 0);
    if (host.pid == 0) {
        int null = open("/dev/null", O_RDONLY);
        setsid();
        if (null < 0 || dup2(null, 0) < 0 || dup2(out[1], 1) < 0 || dup2(err[1], 2) < 0 ||
            fcntl(code[0], F_SETFD, 0) < 0 || fcntl(said[1], F_SETFD, 0) < 0)
            _exit(127);
        signal(SIGPIPE, SIG_DFL);
        execv(program, (char *const *)(uintptr_t)(strcmp(host.language, "bash") ? node : bash));
        _exit(127);
    }
    close(code[0]);
    close(said[1]);
    close(out[1]);
    close(err[1]);
    host.death = (int)syscall(SYS_pidfd_open, host.pid,
                              0); /* -1 before Linux 5.3: then the end of its pipes tells */
    host.code = code[1];
    host.said = said[0];
    host.out[0] = (output){ .fd = out[0], .name = "stdout", .held = TEXT };
    host.out[1] = (output){ .fd = err[0], .name = "stderr", .held = TEXT };
    const int all[] = { host.code, host.said, out[0], err[0] };
    CAY_EACH_OF(it, all, 4)
        fcntl(*it, F_SETFL, O_NONBLOCK);
}

/* Milliseconds until something is due; -1: nothing is. */
static int wait_ms(void)
{
    int64_t at = CAY_OR(host.kill_at, host.seen_by), left = at - now_ms();
    if (host.kill_at && host.seen_by && host.seen_by < host.kill_at)
        left = host.seen_by - now_ms();
    if (!at)
        return -1;
    if (left < 0)
        return 0;
    return (int)left;
}

/* It ended: what it printed and gave is told, and the interpreter tells the rest. */
static void last_words(void)
{
    for (int k = 0;
         k < 1000 && poll(&(struct pollfd){ host.said, POLLIN, 0 }, 1, 0) > 0 && take_said();)
        k++;
    CAY_EACH_OF(it, host.out, 2)
        for (int k = 0;
             k < 1000 && it->fd >= 0 && poll(&(struct pollfd){ it->fd, POLLIN, 0 }, 1, 0) > 0; k++)
            if (!take_output(it))
                break;
    if (host.now && host.ended)
        finish_execution();
    _exit(1);
}

static void poll_events(void)
{
    bool sends = host.now && host.sent < host.sends.len;
    struct pollfd p[] = { { 0, POLLIN, 0 },
                          { host.said, POLLIN, 0 },
                          { host.out[0].fd, POLLIN, 0 },
                          { host.out[1].fd, POLLIN, 0 },
                          { sends ? host.code : -1, POLLOUT, 0 },
                          { host.death, POLLIN, 0 } };
    if (poll(p, 6, wait_ms()) < 0)
        return;
    for (int i = 0; i < 2; i++)
        if (p[2 + i].revents && !take_output(&host.out[i])) {
            host.out[i].fd = -1;
            host.out[i].seen = true;
        }
    if ((p[1].revents && !take_said()) || p[5].revents)
        last_words();
    if (p[0].revents && !take_requests()) {
        kill(-host.pid, SIGKILL);
        _exit(0);
    }
    if (p[4].revents)
        send_code();
    if (host.kill_at && now_ms() >= host.kill_at && host.now && !host.ended)
        kill(-host.pid, SIGKILL);
    if (host.now && host.ended &&
        ((host.out[0].seen && host.out[1].seen) || now_ms() >= host.seen_by))
        finish_execution();
}

int host_main(int argc, char **argv)
{
    unsigned char random[(MARK - 2) / 2];
    if (argc < 3 || (argc < 4 && strcmp(argv[1], "bash"))) {
        fprintf(stderr,
                "usage: interpreter --kernel javascript|typescript|bash PROGRAM [SCRIPT]\n");
        return 2;
    }
    host.language = argv[1];
    exit_unless(getrandom(random, sizeof random, 0) == sizeof random);
    host.mark[0] = '\036';
    cay__hex_put(host.mark + 1, random, sizeof random);
    host.mark[MARK - 1] = '\036';
    host.mark[MARK] = 0;
    signal(SIGPIPE, SIG_IGN);
    fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
    start_interpreter(argv[2], argc > 3 ? argv[3] : NULL);
    for (;;)
        poll_events();
}
