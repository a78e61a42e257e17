/* SPDX-License-Identifier: Apache-2.0 */
/* sudo and su: what stands on their command line, handed to init. They have no right that their
 * caller has not. */
#include "sudo.h"
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>

extern char **environ;

typedef struct wish {
    const char *name;                /* of the program: "sudo", "su" */
    const char *user, *line, *shell; /* line: for the shell, with -c */
    bool keep, home, login, as_shell;
    char **argv; /* the command; NULL-terminated, may be empty */
} wish;

static _Noreturn void exit_with_error(const wish *w, int code, const char *a, const char *b)
{
    char text[400];
    CAY_JOIN(text, w->name, ": ", a, b ? ": " : "", CAY_OR(b, ""), "\n");
    cay__fd_write_all(2, text, strlen(text));
    _exit(code);
}

/* The value of an option: the rest of its word, or the next one. */
static const char *option_value(const wish *w, char **argv, int *i, const char *rest)
{
    if (*rest)
        return rest;
    if (!argv[*i + 1])
        exit_with_error(w, 1, argv[*i], "a value is missing");
    return argv[++*i];
}

static void sudo_words(wish *w, char **argv)
{
    int i = 1;
    for (; argv[i] && argv[i][0] == '-' && argv[i][1]; i++) {
        const char *a = argv[i];
        if (!strcmp(a, "--")) {
            i++;
            break;
        }
        static const struct {
            const char *word;
            char letter;
        } words[] = {
            { "--non-interactive", 'n' }, { "--preserve-env", 'E' }, { "--set-home", 'H' },
            { "--login", 'i' },           { "--shell", 's' },        { "--validate", 'v' },
            { "--reset-timestamp", 'k' }, { "--stdin", 'S' },        { "--list", 'l' }
        };
        char letters[3] = { '-', 0, 0 };
        for (size_t k = 0; k < CAY_LEN(words) && !strncmp(a, "--", 2); k++)
            if (!strcmp(a, words[k].word))
                letters[1] = words[k].letter;
        if (!strncmp(a, "--user=", 7)) {
            w->user = a + 7;
            continue;
        }
        if (!strncmp(a, "--", 2) && !letters[1] && strcmp(a, "--user"))
            exit_with_error(w, 1, a,
                            "this option is not known; there are -n -u USER -E -H -i -s --");
        const char *c = a + 1;
        if (!strcmp(a, "--user"))
            c = "u";
        else if (letters[1])
            c = letters + 1;
        for (; *c; c++) {
            if (*c == 'u') {
                w->user = option_value(
                    w, argv, &i, c[1] && c != letters + 1 && strcmp(a, "--user") ? c + 1 : "");
                break;
            }
            switch (*c) {
            case 'n':
            case 'k':
            case 'S':
            case 'b': break; /* nobody is ever asked for a password */
            case 'E': w->keep = true; break;
            case 'H': w->home = true; break;
            case 'i': w->login = true; break;
            case 's': w->as_shell = true; break;
            case 'v':
            case 'l': _exit(0);
            default:
                exit_with_error(w, 1, a,
                                "this option is not known; there are -n -u USER -E -H -i -s --");
            }
        }
    }
    w->argv = argv + i;
}

/* Options may come behind the user, as su takes them; what then is left are words for the shell. */
static void su_words(wish *w, char **argv)
{
    int i = 1;
    bool named = false;
    for (; argv[i]; i++) {
        const char *a = argv[i];
        if (*a != '-') {
            if (named)
                break;
            named = true;
            w->user = a;
        } else if (!strcmp(a, "--")) {
            i++;
            break;
        } else if (!strcmp(a, "-") || !strcmp(a, "-l") || !strcmp(a, "--login")) {
            w->login = true;
        } else if (!strcmp(a, "-m") || !strcmp(a, "-p") || !strcmp(a, "--preserve-environment")) {
            w->keep = true;
        } else if (!strncmp(a, "-c", 2) || !strcmp(a, "--command")) {
            w->line = option_value(w, argv, &i, a[1] == 'c' ? a + 2 : "");
        } else if (!strncmp(a, "-s", 2) || !strcmp(a, "--shell")) {
            w->shell = option_value(w, argv, &i, a[1] == 's' ? a + 2 : "");
        } else if (strcmp(a, "-P") && strcmp(a, "--pty") && strcmp(a, "-f")) {
            exit_with_error(w, 1, a,
                            "this option is not known; there are - -l -c LINE -s SHELL -m");
        }
    }
    w->as_shell = true;
    w->argv = argv + i;
}

typedef struct packet {
    cay_g_sudo head;
    char blob[CAY_MSG_MAX - sizeof(cay_g_sudo)];
} packet;
static packet message;

static void put_string(const wish *w, const char *a, const char *b)
{
    size_t n = strlen(a), k = b ? strlen(b) : 0;
    if (message.head.blob + n + k + 1 > sizeof message.blob)
        exit_with_error(w, 1, "arguments and environment are longer than 64 kB",
                        "hand them over in a file");
    memcpy(message.blob + message.head.blob, a, n);
    if (k)
        memcpy(message.blob + message.head.blob + n, b, k);
    message.head.blob += (uint32_t)(n + k + 1);
    message.blob[message.head.blob - 1] = 0;
}

/* One line for the shell: words with what a shell would take for its own escaped, as sudo -i and -s
 * do. */
static const char *join_words(const wish *w, char *room, size_t cap)
{
    size_t n = 0;
    for (char **a = w->argv; *a; a++)
        for (const char *c = a == w->argv ? *a : *a - 1; n + 3 < cap; c++) {
            char ch = ' ';
            if (c >= *a)
                ch = *c;
            if (!ch)
                break;
            if (c >= *a && !((ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
                             (ch >= '0' && ch <= '9') || strchr("_-$./=:,@%+", ch)))
                room[n++] = '\\';
            room[n++] = ch;
        }
    room[n] = 0;
    return room;
}

static void put_command(wish *w, const ident *id)
{
    static char line[32768];
    const char *shell = CAY_OR(w->shell, id->shell);
    if (!w->login && !w->as_shell) {
        if (!*w->argv)
            exit_with_error(w, 1, "no command",
                            "usage: sudo [-n] [-u USER] [-E] [-H] [-i] [--] COMMAND…");
        for (char **a = w->argv; *a; a++, message.head.argc++)
            put_string(w, *a, NULL);
        return;
    }
    put_string(w, shell, NULL);
    message.head.argc = 1;
    if (w->login) {
        put_string(w, "-l", NULL);
        message.head.argc++;
    }
    bool su = !strcmp(w->name, "su");
    const char *c;
    if (su)
        c = w->line;
    else
        c = CAY_IF(*w->argv, join_words(w, line, sizeof line));
    if (c) {
        put_string(w, "-c", NULL);
        put_string(w, c, NULL);
        message.head.argc += 2;
    }
    for (char **a = w->argv; su && *a; a++, message.head.argc++)
        put_string(w, *a, NULL);
}

static bool is_named(const char *kv, const char *name)
{
    size_t n = strlen(name);
    return !strncmp(kv, name, n) && kv[n] == '=';
}

/* Without -E only what tells a program how to speak to its user. Who it runs as and where programs
 * are is init's to say. */
static bool is_kept_var(const wish *w, const char *kv)
{
    static const char *const never[] = { "PATH",      "USER",     "LOGNAME",  "SHELL",
                                         "SUDO_USER", "SUDO_UID", "SUDO_GID", "SUDO_COMMAND" };
    static const char *const always[] = {
        "TERM", "LANG", "LANGUAGE", "COLORTERM", "DISPLAY", "TZ"
    };
    CAY_EACH(it, never)
        if (is_named(kv, *it))
            return false;
    if (is_named(kv, "HOME"))
        return w->keep && !w->home && !w->login;
    CAY_EACH(it, always)
        if (is_named(kv, *it))
            return true;
    return !strncmp(kv, "LC_", 3) || (w->keep && !w->login && strchr(kv, '=') && *kv != '=');
}

static void put_env(wish *w, char **vars)
{
    char n[21], name[80];
    for (char **e = environ; *e; e++)
        if (is_kept_var(w, *e)) {
            put_string(w, *e, NULL);
            message.head.envc++;
        }
    for (; vars < w->argv; vars++, message.head.envc++)
        put_string(w, *vars, NULL);
    if (!strcmp(w->name, "sudo")) {
        const char *me = getenv("USER");
        CAY_COPY(name, CAY_OR(me, "user"));
        put_string(w, "SUDO_USER=", name);
        put_string(w, "SUDO_UID=", cay__str_u64(n, getuid()));
        put_string(w, "SUDO_GID=", cay__str_u64(n, getgid()));
        message.head.envc += 3;
    }
}

static void fill_request(wish *w)
{
    char cwd[4096];
    ident id;
    char **vars = w->argv;
    message.head.magic = SUDO_MAGIC;
    if (user_find(w->user, &id))
        exit_with_error(w, 1, w->user, "no such user");
    while (!strcmp(w->name, "sudo") && *w->argv && strchr(*w->argv, '=') && (*w->argv)[0] != '=' &&
           !strchr("/.", (*w->argv)[0]))
        w->argv++; /* NAME=VALUE in front of the command */
    if (!getcwd(cwd, sizeof cwd))
        CAY_COPY(cwd, "/");
    put_string(w, w->user, NULL);
    struct stat st;
    const char *dir = cwd;
    if (w->login && stat(id.home, &st) == 0 && S_ISDIR(st.st_mode))
        dir = "~";
    else if (w->login)
        dir = "/";
    put_string(w, dir, NULL);
    put_string(w, "", NULL);
    put_command(w, &id);
    put_env(w, vars);
}

static struct termios before;
static int outer = -1;

static void restore_terminal(void)
{
    if (outer >= 0)
        tcsetattr(outer, TCSADRAIN, &before);
}

/* A terminal of the command's own, with ours in raw mode in front of it: it cannot type into the
 * session of who called. */
static int open_inner(int fds[3], int *slave)
{
    int unlock = 0;
    struct winsize ws;
    for (int i = 0; i < 3; i++)
        if (isatty(fds[i])) {
            message.head.tty |= 1u << i;
            if (outer < 0)
                outer = fds[i];
        }
    if (outer < 0)
        return -1;
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0 ||
        (*slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC)) < 0) {
        cay__close_fd(&master);
        message.head.tty = 0;
        outer = -1;
        return -1;
    }
    if (ioctl(outer, TIOCGWINSZ, &ws) == 0)
        ioctl(*slave, TIOCSWINSZ, &ws);
    for (int i = 0; i < 3; i++)
        if (message.head.tty >> i & 1)
            fds[i] = *slave;
    return master;
}

static void set_raw_mode(void)
{
    struct termios t;
    if (outer < 0 || tcgetattr(outer, &before) < 0 || tcgetpgrp(outer) != getpgrp())
        return; /* in the background: whoever is in front has the terminal */
    t = before;
    cfmakeraw(&t);
    tcsetattr(outer, TCSADRAIN, &t);
}

static bool copy_bytes(int from, int to)
{
    char buf[4096];
    ssize_t n = read(from, buf, sizeof buf);
    if (n > 0)
        return cay__fd_write_all(to, buf, (size_t)n);
    return n < 0 && (errno == EINTR || errno == EAGAIN);
}

static int open_signalfd(void)
{
    sigset_t s;
    static const int relayed[] = { SIGINT,  SIGTERM, SIGHUP,   SIGQUIT, SIGUSR1,
                                   SIGUSR2, SIGALRM, SIGWINCH, SIGCONT };
    sigemptyset(&s);
    CAY_EACH(it, relayed)
        sigaddset(&s, *it);
    sigprocmask(SIG_BLOCK, &s, NULL);
    return signalfd(-1, &s, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void relay_signals(int sock, int sig, int master)
{
    struct signalfd_siginfo si;
    struct winsize ws;
    while (read(sig, &si, sizeof si) == sizeof si) {
        int32_t n = (int32_t)si.ssi_signo;
        if (n == SIGWINCH && master >= 0 && ioctl(outer, TIOCGWINSZ, &ws) == 0)
            ioctl(master, TIOCSWINSZ, &ws); /* the kernel tells the command */
        else
            send(sock, &n, sizeof n, MSG_NOSIGNAL);
    }
}

static _Noreturn void exit_with_result(const wish *w, const cay_g_sudo_told *t, int master)
{
    struct pollfd p = { master, POLLIN, 0 };
    while (master >= 0 && poll(&p, 1, 0) > 0 && (p.revents & POLLIN) &&
           copy_bytes(master, 1)) /* what it still had to say */
        ;
    restore_terminal();
    int s = t->value;
    if (t->what == SUDO_ENDED)
        _exit(WIFSIGNALED(s) ? 128 + WTERMSIG(s) : WEXITSTATUS(s));
    if (t->what == SUDO_REFUSED)
        exit_with_error(w, 1, "you may not; root, the sandbox's own user and user 1000 may", NULL);
    bool missing = t->value == ENOENT && !strcmp(t->step, "exec");
    char n[21];
    const char *why;
    if (t->value == EACCES)
        why = "permission denied";
    else if (t->value == ENOENT)
        why = "not there";
    else if (t->value == EPERM)
        why = "not permitted";
    else
        why = cay__str_u64(n, (uint64_t)t->value);
    if (missing)
        exit_with_error(w, 127, "command not found", *w->argv);
    exit_with_error(w, !strcmp(t->step, "exec") ? 126 : 1, t->step, why);
}

static _Noreturn void relay_session(const wish *w, int sock, int sig, int master)
{
    bool typing = master >= 0 && (message.head.tty & 1);
    for (;;) {
        struct pollfd p[4] = { { sock, POLLIN, 0 },
                               { sig, POLLIN, 0 },
                               { master, POLLIN, 0 },
                               { typing ? outer : -1, POLLIN, 0 } };
        if (poll(p, 4, -1) < 0)
            continue;
        if (p[1].revents)
            relay_signals(sock, sig, master);
        if (p[2].revents & POLLIN)
            copy_bytes(master, message.head.tty & 2 ? 1 : outer);
        if (p[3].revents)
            typing = copy_bytes(outer, master);
        if (!p[0].revents)
            continue;
        cay_g_sudo_told t;
        if (recv(sock, &t, sizeof t, 0) != sizeof t) {
            restore_terminal();
            exit_with_error(w, 1, "the sandbox's init hung up", NULL);
        }
        t.step[sizeof t.step - 1] = 0;
        if (t.what != SUDO_STARTED)
            exit_with_result(w, &t, master);
        set_raw_mode();
    }
}

void sudo_main(int argc, char **argv)
{
    const char *name = argc > 0 ? argv[0] : "", *slash = strrchr(name, '/');
    wish w = { .name = slash ? slash + 1 : name, .user = "root" };
    if (strcmp(w.name, "sudo") && strcmp(w.name, "su"))
        return;
    struct sockaddr_un sa = { .sun_family = AF_UNIX, .sun_path = SUDO_SOCKET };
    int fds[3] = { 0, 1, 2 }, slave = -1;
    if (!strcmp(w.name, "su"))
        su_words(&w, argv);
    else
        sudo_words(&w, argv);
    for (int i = 0; i < 3; i++)
        if (fcntl(i, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            _exit(1);
    fill_request(&w);
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), sig = open_signalfd();
    if (sock < 0 || connect(sock, (struct sockaddr *)&sa, sizeof sa) < 0)
        exit_with_error(
            &w, 1,
            "this sandbox has no sudo; it is made with it by --sudo, or a template with \"sudo\": "
            "true",
            NULL);
    int master = open_inner(fds, &slave), room = 1 << 18;
    setsockopt(sock, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    if (cay__fd_send(sock, &message, sizeof message.head + message.head.blob, fds, 3, 0) < 0)
        exit_with_error(&w, 1, "the sandbox's init does not answer", NULL);
    cay__close_fd(&slave);
    relay_session(&w, sock, sig, master);
}
