/* SPDX-License-Identifier: Apache-2.0 */
#include "edit.h"
#include <base/base.h>
#include <cli/out.h>
#include <cli/pump.h>
#include <histedit.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <termios.h>
#include <wchar.h>

enum { HISTORY = 1000, LINE_MOST = 4 << 20, OFFERS = 200 };

struct edit {
    edit_spec spec;
    EditLine *el; /* NULL: not a terminal */
    History *past;
    bool interrupted;
    cay__buf prompt;
    cay__buf above; /* lines that ended with a backslash */
};

static edit *edit_of(EditLine *el)
{
    void *e = NULL;
    el_get(el, EL_CLIENTDATA, &e);
    return e;
}

static unsigned char on_newline(EditLine *el, int c)
{
    if (el_insertstr(el, "\n") < 0)
        return CC_ERROR;
    return CC_REFRESH;
}

static void clear_line(EditLine *el)
{
    const LineInfo *li = el_line(el);
    el_cursor(el, (int)(li->lastchar - li->cursor));
    el_deletestr(el, (int)(li->lastchar - li->buffer));
}

static unsigned char on_interrupt(EditLine *el, int c)
{
    edit *e = edit_of(el);
    const LineInfo *li = el_line(el);
    e->interrupted = li->lastchar == li->buffer && !e->above.len;
    clear_line(el);
    cay__buf_clear(&e->above);
    if (e->interrupted)
        return CC_NEWLINE;
    return CC_REFRESH;
}

static unsigned char on_toggle(EditLine *el, int c)
{
    edit *e = edit_of(el);
    if (e->spec.toggle)
        e->spec.toggle(e->spec.arg);
    return CC_REDISPLAY;
}

static int run_editor(const char *path)
{
    const char *program = getenv("VISUAL");
    if (program && *program)
        program = program;
    else
        program = getenv("EDITOR");
    program = cay__text_or(program, "vi");
    pid_t pid = fork();
    if (pid == 0) {
        signal(SIGINT, SIG_DFL);
        execl("/bin/sh", "sh", "-c", "exec $0 \"$1\"", program, path,
              NULL); /* it may have options */
        _exit(127);
    }
    int st = -1;
    while (pid > 0 && waitpid(pid, &st, 0) < 0 && errno == EINTR)
        ;
    if (pid > 0 && WIFEXITED(st))
        return WEXITSTATUS(st);
    return -1;
}

static char *through_editor(const char *text, size_t n)
{
    char path[] = "/tmp/cay-chat-XXXXXX";
    CAY_AUTOFD fd = mkostemp(path, O_CLOEXEC); /* 0600 */
    char *back = NULL;
    if (fd < 0)
        return NULL;
    if (cay__fd_write_all(fd, text, n) && run_editor(path) == 0) {
        CAY_AUTOFD in = open(path, O_RDONLY | O_CLOEXEC |
                                       O_NOFOLLOW); /* editors put another file in its place */
        back = cay__alloc(LINE_MOST + 1);
        ssize_t k = -1;
        if (in >= 0)
            k = cay__fd_read_all(in, back, LINE_MOST);
        while (k > 0 && back[k - 1] == '\n')
            back[--k] = 0;
        if (k < 0 || strlen(back) != (size_t)k) {
            free(back);
            back = NULL;
        }
    }
    unlink(path);
    return back;
}

static unsigned char on_editor(EditLine *el, int c)
{
    const LineInfo *li = el_line(el);
    el_set(el, EL_PREP_TERM, 0);
    CAY_AUTOFREE char *text = through_editor(li->buffer, (size_t)(li->lastchar - li->buffer));
    el_set(el, EL_PREP_TERM, 1);
    if (!text)
        return CC_REDISPLAY;
    clear_line(el);
    if (*text && el_insertstr(el, text) < 0)
        return CC_ERROR;
    return CC_REDISPLAY;
}

typedef struct offers {
    char *word[OFFERS];
    size_t n, more;
} offers;

static void add_offer(void *to, const char *word)
{
    offers *o = to;
    if (o->n < OFFERS)
        o->word[o->n++] = cay__strdup(word);
    else
        o->more++;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t common_prefix_len(const offers *o)
{
    size_t n = strlen(o->word[0]);
    for (size_t i = 1; i < o->n; i++) {
        size_t k = 0;
        while (k < n && o->word[i][k] == o->word[0][k])
            k++;
        n = k;
    }
    while (n && (o->word[0][n] & 0xc0) == 0x80) /* not in the middle of a character */
        n--;
    return n;
}

static void print_offers(const offers *o)
{
    uint16_t cols, rows;
    size_t wide = 1, at = 0;
    CAY_AUTOBUF b = CAY__BUF(1 << 20);
    term_size(1, &cols, &rows);
    CAY_EACH_OF(it, o->word, o->n)
        wide = CAY_MAX(wide, strlen(*it) + 2);
    cay__buf_str(&b, "\n");
    for (size_t i = 0; i < o->n; i++) {
        size_t start = b.len;
        cay__buf_safe(&b, o->word[i], strlen(o->word[i]), false);
        at += wide;
        bool wraps = at + wide > cols;
        cay__buf_fmt(&b, "%*s", wraps ? 0 : (int)(wide - CAY_MIN(b.len - start, wide)), "");
        if (wraps || i + 1 == o->n) {
            cay__buf_str(&b, "\n");
            at = 0;
        }
    }
    if (o->more)
        cay__buf_fmt(&b, "and %zu more\n", o->more);
    cay__fd_write_all(1, b.data, b.len);
}

static unsigned char on_tab(EditLine *el, int c)
{
    edit *e = edit_of(el);
    const LineInfo *li = el_line(el);
    size_t cur = (size_t)(li->cursor - li->buffer), at = cur;
    unsigned char rc = CC_REFRESH;
    offers o = { .n = 0 };
    while (at && !strchr(" \t\n", li->buffer[at - 1]))
        at--;
    CAY_AUTOFREE char *word = strndup(li->buffer + at, cur - at), *line = strndup(li->buffer, cur);
    if (e->spec.complete && word && line)
        e->spec.complete(e->spec.arg, line, at, word, add_offer, &o);
    if (!o.n)
        return CC_ERROR;
    qsort(o.word, o.n, sizeof *o.word, by_name);
    size_t n = common_prefix_len(&o), had = cur - at;
    CAY_AUTOFREE char *part = strndup(o.word[0], n);
    if (n > had || (o.n == 1 && part && strcmp(part, word))) {
        el_deletestr(el, (int)had);
        if (part && el_insertstr(el, part) < 0)
            rc = CC_ERROR;
    }
    if (o.n == 1 && n && o.word[0][n - 1] != '/')
        el_insertstr(el, " ");
    if (o.n > 1 && n <= had) {
        print_offers(&o);
        rc = CC_REDISPLAY;
    }
    CAY_EACH_OF(it, o.word, o.n)
        free(*it);
    return rc;
}

#define PASTE_ON  "\033[?2004h"
#define PASTE_OFF "\033[?2004l"
#define PASTE_END "\033[201~"

static volatile sig_atomic_t resized;

static void on_resize(int sig)
{
    resized = 1;
}

static void too_long(void)
{
    out_note(
        "cay: more than %d MiB at once are not taken; put them into a file and name it as @FILE",
        LINE_MOST >> 20);
}

/* Up to the end mark, however much comes: what nobody takes here is typed into the shell behind us.
 * False: there is no terminal any more, or we are to end. */
static bool take_paste(cay__buf *raw)
{
    bool moved = false;
    for (size_t seen = 0;
         seen < sizeof PASTE_END - 1;) { /* of the mark, whose first byte is in it once */
        char byte;
        ssize_t n = read(0, &byte, 1);
        if (n < 0 && errno == EINTR && resized) {
            resized = 0;
            moved = true;
            continue;
        }
        if (n <= 0) {
            tcflush(0, TCIFLUSH);
            return false;
        }
        if (byte == PASTE_END[seen])
            seen = seen + 1;
        else
            seen = byte == PASTE_END[0];
        cay__buf_add(raw, &byte, 1);
    }
    resized = resized || moved;
    return true;
}

/* Between two marks of the terminal: lines stay lines of one message, nothing in it is a key, and
 * nothing is sent before Enter. */
static unsigned char on_paste(EditLine *el, int c)
{
    const size_t mark = sizeof PASTE_END - 1;
    CAY_AUTOBUF raw = CAY__BUF(LINE_MOST + mark), text = CAY__BUF(LINE_MOST);
    if (!take_paste(&raw))
        return CC_EOF;
    if (raw.full) {
        cay__fd_write_all(1, "\n", 1);
        too_long();
        return CC_REDISPLAY;
    }
    for (size_t i = 0; i < raw.len - mark; i++) {
        char ch = raw.data[i];
        bool end = ch == '\r' && raw.data[i + 1] == '\n'; /* one line end, not two */
        if (!end && ((unsigned char)ch >= ' ' || strchr("\r\n\t", ch)) && ch != 127)
            cay__buf_add(&text, ch == '\r' ? "\n" : &ch, 1);
    }
    while (text.len && text.data[text.len - 1] == '\n')
        text.data[--text.len] = 0;
    if (text.len && el_insertstr(el, text.data) < 0)
        return CC_ERROR;
    return CC_REFRESH;
}

/* a terminal that changes its
 * size */

/* The terminal has broken the lines anew. Where the prompt began follows from what stands before
 * the cursor. */
static void lay_out(EditLine *el)
{
    edit *e = edit_of(el);
    const LineInfo *li = el_line(el);
    uint16_t cols, rows;
    char up[32];
    size_t at = e->above.len ? 2 : strlen(e->spec.prompt(e->spec.arg)), row = 0;
    term_size(1, &cols, &rows);
    for (const char *p = li->buffer; p < li->cursor; p++) {
        if (*p == '\n') {
            row += at / cols + 1;
            at = 0;
        } else {
            at += (*p & 0xc0) != 0x80;
        }
    }
    row += at / cols;
    if (row)
        cay__fd_write_all(1, up, (size_t)CAY_FORMAT(up, "\033[%zuA", row));
    cay__fd_write_all(1, "\r\033[J", 4);
    el_resize(el);
    el_set(el, EL_REFRESH);
}

static int on_char(EditLine *el, wchar_t *out)
{
    mbstate_t st = { 0 };
    for (;;) {
        char byte;
        if (resized) {
            resized = 0;
            lay_out(el);
        }
        ssize_t n = read(0, &byte, 1);
        if (n < 0 && errno == EINTR && resized)
            continue;
        if (n <= 0) {
            if (n < 0)
                return -1;
            return 0;
        }
        size_t k = mbrtowc(out, &byte, 1, &st);
        if (k == (size_t)-2)
            continue;
        if (k == (size_t)-1)
            *out = 0xfffd;
        return 1;
    }
}

static char *show_prompt(EditLine *el)
{
    edit *e = edit_of(el);
    cay__buf_clear(&e->prompt);
    if (e->above.len)
        cay__buf_str(&e->prompt, "… ");
    else
        cay__buf_fmt(&e->prompt, "%s%s%s", *out_on(1, OUT_TITLE) ? "\1\033[1;36m\1" : "",
                     e->spec.prompt(e->spec.arg), *out_on(1, OUT_TITLE) ? "\1\033[0m\1" : "");
    return e->prompt.data;
}

static void bind_keys(EditLine *el)
{
    static const struct {
        const wchar_t *name, *key;
        unsigned char (*fn)(EditLine *, int);
    } keys[] = {
        { L"cay-newline", L"\033\r", on_newline }, { L"cay-newline", L"\033\n", on_newline },
        { L"cay-interrupt", L"^C", on_interrupt }, { L"cay-toggle", L"^T", on_toggle },
        { L"cay-editor", L"^E", on_editor },       { L"cay-tab", L"^I", on_tab },
        { L"cay-paste", L"\033[200~", on_paste },
    };
    for (size_t i = 0; i < CAY_LEN(keys);
         i++) { /* the wide form: the other one copies names and forgets them */
        el_wset(el, EL_ADDFN, keys[i].name, keys[i].name, keys[i].fn);
        el_wset(el, EL_BIND, keys[i].key, keys[i].name, NULL);
    }
    el_set(el, EL_BIND, "^R", "em-inc-search-prev", NULL);
}

edit *edit_open(const edit_spec *spec)
{
    edit *e = cay__alloc(sizeof *e);
    HistEvent ev;
    e->spec = *spec;
    if (spec->history)
        e->spec.history = cay__strdup(spec->history);
    e->above = (cay__buf)CAY__BUF(LINE_MOST);
    e->prompt = (cay__buf)CAY__BUF(4096);
    if (!isatty(0) || !isatty(1))
        return e;
    e->el = el_init("cay", stdin, stdout, stderr);
    if (!e->el)
        return e;
    e->past = history_init();
    el_set(e->el, EL_CLIENTDATA, e);
    el_set(e->el, EL_EDITOR, "emacs");
    el_set(e->el, EL_PROMPT_ESC, show_prompt, '\1');
    el_set(e->el, EL_SIGNAL, 0);
    el_wset(e->el, EL_GETCFN, on_char);
    el_set(e->el, EL_SETTY, "-d", "-isig",
           NULL); /* Ctrl+C is a key of ours while a line is typed */
    if (e->past) {
        history(e->past, &ev, H_SETSIZE, HISTORY);
        history(e->past, &ev, H_SETUNIQUE, 1);
        if (spec->history)
            history(e->past, &ev, H_LOAD, spec->history);
        el_set(e->el, EL_HIST, history, e->past);
    }
    bind_keys(e->el);
    return e;
}

static void record_history(edit *e, const char *text)
{
    HistEvent ev;
    if (!e->past || !*text)
        return;
    history(e->past, &ev, H_ENTER, text);
    if (!e->spec.history)
        return;
    close(open(e->spec.history, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
               0600)); /* before others could read it */
    history(e->past, &ev, H_SAVE, e->spec.history);
}

/* A backslash at the end goes, and the text goes on. */
static bool goes_on(char *line, size_t *n)
{
    while (*n && (line[*n - 1] == '\n' || line[*n - 1] == '\r'))
        (*n)--;
    if (*n && line[*n - 1] == '\\') {
        line[*n - 1] = '\n';
        return true;
    }
    return false;
}

static ssize_t next_line(edit *e, char **out)
{
    if (e->el) {
        int n = 0;
        struct sigaction now = { .sa_handler = on_resize },
                         old; /* it interrupts the read of a key, and nothing else */
        resized = 0;
        el_resize(e->el);
        sigaction(SIGWINCH, &now, &old);
        cay__fd_write_all(1, PASTE_ON, sizeof PASTE_ON - 1);
        const char *s = el_gets(e->el, &n);
        cay__fd_write_all(1, PASTE_OFF, sizeof PASTE_OFF - 1);
        sigaction(SIGWINCH, &old, NULL);
        *out = CAY_IF(s && n > 0, strndup(s, (size_t)n));
        if (*out)
            return n;
        return -1;
    }
    size_t cap = 0;
    *out = NULL;
    ssize_t n = getline(out, &cap, stdin);
    if (n > LINE_MOST)
        return -1;
    return n;
}

edit_end edit_read(edit *e, char **text)
{
    for (;;) {
        CAY_AUTOFREE char *line = NULL;
        e->interrupted = false;
        ssize_t got = next_line(e, &line); /* -1 as well when a signal came */
        size_t n = 0;
        if (got > 0)
            n = (size_t)got;
        if (e->interrupted) {
            cay__fd_write_all(1, "\n", 1);
            return EDIT_INTERRUPTED;
        }
        bool more = n && goes_on(line, &n);
        cay__buf_add(&e->above, CAY_OR(line, ""), n);
        if (e->above.full) {
            too_long();
            cay__buf_clear(&e->above);
            continue;
        }
        if (n && more)
            continue;
        if (got <= 0 && !e->above.len)
            return EDIT_END;
        *text = cay__strdup(e->above.data);
        cay__buf_clear(&e->above);
        record_history(e, *text);
        return EDIT_LINE;
    }
}

char *edit_ask(const char *question, int stop_fd)
{
    cay__buf b = CAY__BUF(LINE_MOST);
    struct pollfd p[] = { { .fd = 0, .events = POLLIN }, { .fd = stop_fd, .events = POLLIN } };
    struct termios old, echo;
    bool set = tcgetattr(0, &old) == 0;
    if (set) {
        echo = old;
        echo.c_lflag |= ECHO | ICANON | ISIG;
        tcsetattr(0, TCSADRAIN, &echo);
    }
    cay__fd_write_all(1, question, strlen(question));
    for (bool done = false; !done;) {
        char s[512];
        if (poll(p, 2, -1) < 0 && errno == EINTR)
            continue;
        ssize_t n = -1;
        if (!p[1].revents)
            n = read(0, s, sizeof s);
        if (n > 0)
            cay__buf_add(&b, s, (size_t)n);
        if (n <= 0)
            cay__buf_clear(&b);
        done = n <= 0 || s[n - 1] == '\n';
    }
    if (set)
        tcsetattr(0, TCSADRAIN, &old);
    if (b.len && b.data[b.len - 1] == '\n')
        b.data[--b.len] = 0;
    return b.data;
}

void edit_close(edit *e)
{
    if (!e)
        return;
    if (e->el)
        el_end(e->el);
    if (e->past)
        history_end(e->past);
    cay__buf_clear(&e->prompt);
    cay__buf_clear(&e->above);
    free((char *)e->spec.history);
    free(e);
}
