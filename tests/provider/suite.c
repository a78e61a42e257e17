/* SPDX-License-Identifier: Apache-2.0 */
/* suite PROVIDER [CASE…]: runs every case against it, or those that have one of these words in
 * their names. */
#include "suite.h"
#include <base/call.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <lib/provider/provider.h>

suite S;

void need(const char *op, bool there)
{
    if (there)
        return;
    printf("[   N/A    ] %s: %s\n", S.ops->name, op);
    if (strcmp(S.ops->name, "native") == 0)
        fail_msg("provider native must have %s", op);
    skip();
}

void assert_ok(int rc, const cay_err *e, const char *what, const char *file, int line)
{
    if (rc >= 0)
        return;
    print_error("%s:%d: %s: %s: %s\n", file, line, what, cay_code_name(rc), e->msg);
    _fail(file, line);
}

static cay_sandbox *make_box(const cay_box_spec *spec)
{
    ERR;
    char id[CAY_ID_LEN + 1];
    void *box = NULL;
    cay__id_make(id, 'c');
    OK(S.ops->create(S.self, NULL, id, spec, &box, E));
    return cay__sandbox_new(S.ops, id, box);
}

cay_sandbox *box_new(const cay_create *spec)
{
    cay_create c = { .size = sizeof c };
    return make_box(BOX(CAY_OR(spec, &c)));
}

cay_sandbox *box_on(const char *const *layers, size_t n)
{
    cay_create c = { .size = sizeof c };
    cay_box_spec spec = { .size = sizeof spec, .create = &c, .layers = layers, .nlayers = n };
    return make_box(&spec);
}

cay_sandbox *box_again(const char *id)
{
    ERR;
    void *box = NULL;
    OK(S.ops->attach(S.self, NULL, id, NULL, &box, E));
    return cay__sandbox_new(S.ops, id, box);
}

void box_end(cay_sandbox *sb)
{
    ERR;
    OK(S.ops->destroy(sb->box, NULL, E));
    sb->box = NULL;
    cay_sandbox_unref(sb);
}

cay_result sh(cay_sandbox *sb, const char *line)
{
    ERR;
    cay_result r = { .size = sizeof r };
    cay_spawn s = { .size = sizeof s, .shell = line };
    cay_call c = { .size = sizeof c, .deadline_ms = cay__now_ms() + 60000 };
    OK(cay_sandbox_run(sb, &c, &s, NULL, 0, 0, &r, E));
    return r;
}

void sh_is(cay_sandbox *sb, const char *line, const char *out)
{
    cay_result r = sh(sb, line);
    if (r.exit.code || strcmp(r.out, out) != 0)
        print_error("%s: code %d, stdout \"%s\", stderr \"%s\"\n", line, r.exit.code, r.out,
                    r.errout);
    assert_int_equal(r.exit.code, 0);
    assert_string_equal(r.out, out);
    cay_result_clear(&r);
}

cay_proc *start(cay_sandbox *sb, cay_spawn spec)
{
    ERR;
    cay_proc *p = NULL;
    spec.size = sizeof spec;
    OK(cay_sandbox_spawn(sb, NULL, &spec, &p, E));
    return p;
}

cay_exit wait_for(cay_proc *p, int ms)
{
    ERR;
    cay_exit x = { .size = sizeof x };
    cay_call c = { .size = sizeof c, .deadline_ms = cay__now_ms() + ms };
    OK(cay_proc_wait(p, &c, &x, E));
    return x;
}

char *drain(cay_proc *p, cay_stream which, uint64_t offset, size_t *len)
{
    ERR;
    CAY_AUTOFD fd = -1;
    size_t n = 0, cap = 1 << 16;
    char *buf = cay__alloc(cap);
    OK(cay_proc_output(p, NULL, which, offset, &fd, E));
    for (;;) {
        if (cap - n < 65537)
            buf = realloc(buf, cap *= 2);
        struct pollfd w = { .fd = fd, .events = POLLIN };
        assert_int_equal(poll(&w, 1, 30000), 1);
        ssize_t k = read(fd, buf + n, 65536);
        assert_true(k >= 0);
        if (k == 0)
            break;
        n += (size_t)k;
    }
    buf[n] = 0;
    if (len)
        *len = n;
    return buf;
}

void expect(int fd, const char *text)
{
    char buf[65536] = "";
    size_t n = 0, want = strlen(text);
    int64_t end = cay__now_ms() + 30000;
    while (n < want || memcmp(buf + n - want, text, want) != 0) {
        struct pollfd w = { .fd = fd, .events = POLLIN };
        if (cay__now_ms() > end || poll(&w, 1, 30000) != 1 || n + 1 >= sizeof buf)
            fail_msg("no \"%s\" in \"%s\"", text, buf);
        if (read(fd, buf + n, 1) != 1) /* not one byte beyond: it is for the next one */
            fail_msg("ended without \"%s\": \"%s\"", text, buf);
        n++;
        buf[n] = 0;
    }
}

const char *marked(const char *text)
{
    static char room[8][512];
    static int next;
    char *out = room[next++ % 8];
    size_t n = 0;
    for (; *text && n + 16 < sizeof room[0]; text++) {
        if (*text == '@')
            n += (size_t)snprintf(out + n, sizeof room[0] - n, "7%d", (int)getpid());
        else
            out[n++] = *text;
    }
    out[n] = 0;
    return out;
}

bool process_with(const char *word)
{
    DIR *d = opendir("/proc");
    bool found = false;
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        char path[300], text[4096];
        uint64_t pid;
        if (!cay__str_to_u64(e->d_name, &pid) || (pid_t)pid == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
        ssize_t n = cay__fd_read_file(AT_FDCWD, path, text, sizeof text);
        found = n > 0 && memmem(text, (size_t)n, word, strlen(word));
    }
    if (d)
        closedir(d);
    return found;
}

static const cay_provider_ops *find_ops(const char *name)
{
    if (strcmp(name, cay__memory.name) == 0)
        return &cay__memory;
    for (size_t i = 0; cay__providers[i]; i++)
        if (strcmp(cay__providers[i]->name, name) == 0)
            return cay__providers[i];
    return NULL;
}

static int up(void **state)
{
    (void)state;
    ERR;
    S.home = support_home();
    cay_provider_conf conf = {
        .size = sizeof conf, .home = S.home, .libexec = support_libexec(), .instance = "suite"
    };
    OK(S.ops->open(&conf, &S.self, E));
    S.sb = box_new(NULL);
    cay_proc *p = NULL;
    cay_spawn s = { .size = sizeof s, .shell = "true" };
    int rc = cay_sandbox_spawn(S.sb, NULL, &s, &p, E);
    S.shell = rc != CAY_ENOTSUP;
    if (S.shell)
        OK(rc);
    cay_proc_unref(p);
    return 0;
}

static int down(void **state)
{
    (void)state;
    box_end(S.sb);
    S.ops->close(S.self);
    support_home_remove(S.home);
    return 0;
}

static bool chosen(const char *name, int argc, char **argv)
{
    for (int i = 2; i < argc; i++)
        if (strstr(name, argv[i]))
            return true;
    return argc < 3;
}

int main(int argc, char **argv)
{
    tests (*const parts[])(size_t *) = { suite_proc,  suite_stream, suite_tty,  suite_shell,
                                         suite_files, suite_names,  suite_life, suite_snapshot };
    struct CMUnitTest all[200];
    size_t n = 0;
    if (argc > 1 && strcmp(argv[1], "--reattach") == 0)
        return reattach_main(argc, argv);
    if (argc < 2 || !(S.ops = find_ops(argv[1]))) {
        fprintf(stderr, "usage: suite PROVIDER [CASE…]: there is no provider %s\n",
                argc > 1 ? argv[1] : "");
        return argc > 1 ? 77 : 2;
    }
    signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < CAY_LEN(parts); i++) {
        size_t k;
        tests t = parts[i](&k);
        for (size_t j = 0; j < k; j++)
            if (chosen(t[j].name, argc, argv))
                all[n++] = t[j];
    }
    return _cmocka_run_group_tests(S.ops->name, all, n, up, down);
}
