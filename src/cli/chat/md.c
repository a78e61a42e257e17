/* SPDX-License-Identifier: Apache-2.0 */
#include "md.h"
#include <base/base.h>
#include <base/mutant.h>
#include <md4c.h>
#include <wchar.h>

enum { BOLD = 1, ITALIC = 2, CODE = 4, LINK = 8, STRIKE = 16, HEAD = 32, DIM = 64 };
enum { NEST = 16, COLUMNS = 32, NARROWEST = 6, TEXT = 4 << 20 };
#define MARK                                                                                       \
    '\1' /* two bytes: MARK, style + 0x80. Escaped text has no such byte, so it is ours alone */

typedef struct cell {
    char *text;
    size_t cols;
    MD_ALIGN align;
} cell;

typedef struct layout {
    md_doc *out;
    size_t width;
    bool colour;
    cay__buf text; /* the leaf at hand: escaped, with marks */
    unsigned style;
    char lead[NEST][16]; /* what stands before each line, by nesting */
    size_t depth;
    char bullet[16];       /* before the first line of an item, instead of its lead */
    unsigned number[NEST]; /* of the next item; 0: a bullet */
    size_t lists;
    bool tight, any, code;
    cell *cells; /* of a table */
    size_t ncells, ncols;
} layout;

static size_t measure_char(const char *s, size_t n, size_t *used)
{
    wchar_t w;
    mbstate_t st = { 0 };
    size_t k = mbrtowc(&w, s, n, &st);
    if (k == 0 || k > n) {
        *used = 1;
        return 1;
    }
    int c = wcwidth(w);
    *used = k;
    if (c > 0)
        return (size_t)c;
    return 0;
}

size_t md_fit(const char *s, size_t n, size_t columns)
{
    size_t at = 0, k;
    for (size_t cols = 0; at < n; at += k) {
        cols += measure_char(s + at, n - at, &k);
        if (cols > columns)
            break;
    }
    return at;
}

size_t md_columns(const char *s, size_t n)
{
    size_t cols = 0;
    for (size_t at = 0, k; at < n; at += k) {
        if (s[at] == MARK && at + 1 < n)
            k = 2;
        else
            cols += measure_char(s + at, n - at, &k);
    }
    return cols;
}

static void add_line(md_doc *d, char *line)
{
    CAY_GROW(d->line, d->n);
    d->line[d->n++] = line;
}

void md_clear(md_doc *d)
{
    CAY_EACH_OF(it, d->line, d->n)
        free(*it);
    free(d->line);
    *d = (md_doc){ 0 };
}

static void put_sgr(cay__buf *b, const layout *l, unsigned style)
{
    static const struct {
        unsigned bit;
        const char *code;
    } codes[] = { { BOLD, ";1" },   { ITALIC, ";3" },  { CODE, ";36" }, { LINK, ";4" },
                  { STRIKE, ";9" }, { HEAD, ";1;35" }, { DIM, ";2" } };
    if (!l->colour)
        return;
    cay__buf_str(b, "\033[0");
    CAY_EACH(it, codes)
        if (style & it->bit)
            cay__buf_str(b, it->code);
    cay__buf_str(b, "m");
}

static void begin_line(layout *l, cay__buf *b)
{
    for (size_t i = 0; i < l->depth; i++) {
        bool last = i + 1 == l->depth && *l->bullet;
        put_sgr(b, l, DIM);
        cay__buf_str(b, last ? l->bullet : l->lead[i]);
    }
    if (l->depth)
        put_sgr(b, l, 0);
    *l->bullet = 0;
}

static size_t lead_cols(const layout *l)
{
    size_t n = 0;
    CAY_EACH_OF(it, l->lead, l->depth)
        n += md_columns(*it, strlen(*it));
    return n;
}

static void put_marked(cay__buf *b, const layout *l, const char *s, size_t n, unsigned *style)
{
    for (size_t at = 0; at < n;) {
        if (s[at] == MARK && at + 1 < n) {
            *style = (unsigned char)s[at + 1] & 0x7f;
            put_sgr(b, l, *style);
            at += 2;
            continue;
        }
        const char *m = memchr(s + at, MARK, n - at);
        size_t k;
        if (m)
            k = (size_t)(m - (s + at));
        else
            k = n - at;
        cay__buf_add(b, s + at, k);
        at += k;
    }
}

static void end_line(layout *l, cay__buf *b, unsigned style)
{
    if (style)
        put_sgr(b, l, 0);
    add_line(l->out, cay__strdup(CAY_OR(b->data, "")));
    cay__buf_clear(b);
}

/* How much of s goes into `room` columns: to a blank where there is one, all the same where there
 * is none. */
static size_t fit_line(const char *s, size_t n, size_t room, bool anywhere)
{
    size_t at = 0, cols = 0, blank = 0, k;
    for (; at < n && s[at] != '\n'; at += k) {
        if (s[at] == MARK) {
            k = 2;
            continue;
        }
        size_t w = measure_char(s + at, n - at, &k);
        if (cols + w > room && cols) {
            if (!anywhere && blank)
                return blank;
            return at;
        }
        cols += w;
        if (s[at] == ' ')
            blank = at + 1;
    }
    return at;
}

static void wrap_text(layout *l, const char *s, size_t n, bool anywhere)
{
    unsigned style = 0;
    size_t lead = lead_cols(l), room = l->width > lead + 8 ? l->width - lead : 8, at = 0;
    CAY_AUTOBUF b = CAY__BUF(TEXT);
    do {
        size_t k = fit_line(s + at, n - at, room, anywhere), end = at + k;
        while (!anywhere && end > at && s[end - 1] == ' ')
            end--;
        begin_line(l, &b);
        put_sgr(&b, l, style);
        put_marked(&b, l, s + at, end - at, &style);
        end_line(l, &b, l->colour);
        at += k;
        if (at < n && s[at] == '\n')
            at++;
    } while (at < n);
    l->any = true;
}

static void flush_text(layout *l)
{
    if (l->text.len)
        wrap_text(l, l->text.data, l->text.len, l->code);
    cay__buf_clear(&l->text);
}

static void add_blank_line(layout *l)
{
    if (!l->any || *l->bullet || (l->lists && l->tight))
        return;
    CAY_AUTOBUF b = CAY__BUF(TEXT);
    begin_line(l, &b);
    end_line(l, &b, 0);
}

static void keep_cell(layout *l, MD_ALIGN align)
{
    CAY_GROW(l->cells, l->ncells);
    l->cells[l->ncells++] = (cell){ cay__strdup(CAY_OR(l->text.data, "")),
                                    md_columns(CAY_OR(l->text.data, ""), l->text.len), align };
    cay__buf_clear(&l->text);
}

/* How wide each column is: as wide as it wants, or the widest give way. False: there is no room for
 * so many. */
static bool compute_widths(const layout *l, size_t n, size_t cols[COLUMNS])
{
    size_t lead = lead_cols(l), room = l->width > lead + 8 ? l->width - lead : 8,
           between = 3 * (n - 1), avail = room > between ? room - between : 0;
    for (size_t i = 0; i < l->ncells; i++)
        cols[i % n] = CAY_MAX(cols[i % n], CAY_MIN(l->cells[i].cols, avail));
    for (;;) {
        size_t sum = 0, widest = 0;
        for (size_t i = 0; i < n; i++) {
            sum += cols[i];
            if (cols[i] > cols[widest])
                widest = i;
        }
        if (sum <= avail)
            return true;
        if (cols[widest] <= NARROWEST)
            return false;
        cols[widest]--;
    }
}

/* The next line of a cell, in its column; *at and *style go on with it. */
static void put_cell(cay__buf *b, const cell *c, size_t width, bool last, size_t *at,
                     unsigned *style)
{
    const char *s = c->text + *at;
    size_t k = fit_line(s, strlen(s), width, false), end = k;
    while (end && s[end - 1] == ' ')
        end--;
    size_t w = md_columns(s, end), pad = 0, left = 0;
    if (width > w)
        pad = width - w;
    if (c->align == MD_ALIGN_RIGHT)
        left = pad;
    else if (c->align == MD_ALIGN_CENTER)
        left = pad / 2;
    cay__buf_fmt(b, "%*s%c%c", (int)left, "", MARK, (int)(*style | 0x80));
    cay__buf_add(b, s, end);
    cay__buf_fmt(b, "%c%c%*s", MARK, 0x80, last ? 0 : (int)(pad - left), "");
    for (size_t i = 0; i + 1 < k; i++)
        if (s[i] == MARK)
            *style = (unsigned char)s[i + 1] & 0x7f;
    *at += k + (s[k] == '\n');
}

static void put_row(layout *l, size_t row, size_t n, const size_t cols[COLUMNS])
{
    size_t at[COLUMNS] = { 0 };
    unsigned style[COLUMNS];
    CAY_EACH_OF(it, style, n) {
        if (row)
            *it = 0;
        else
            *it = BOLD;
    }
    for (bool more = true; more;) {
        CAY_AUTOBUF b = CAY__BUF(TEXT);
        more = false;
        for (size_t i = 0; i < n && row + i < l->ncells; i++) {
            const cell *c = &l->cells[row + i];
            cay__buf_str(&b, i ? " | " : "");
            put_cell(&b, c, cols[i], i + 1 == n, &at[i], &style[i]);
            more = more || c->text[at[i]];
        }
        wrap_text(l, CAY_OR(b.data, ""), b.len, true);
    }
}

/* Too many columns for this terminal: a row as it comes. */
static void put_loose(layout *l, size_t row, size_t n)
{
    CAY_AUTOBUF b = CAY__BUF(TEXT);
    int style = 0x80;
    if (!row)
        style |= BOLD;
    for (size_t i = 0; i < n && row + i < l->ncells; i++)
        cay__buf_fmt(&b, "%s%c%c%s%c%c", i ? " | " : "", MARK, style, l->cells[row + i].text, MARK,
                     0x80);
    wrap_text(l, CAY_OR(b.data, ""), b.len, false);
}

static void put_table(layout *l)
{
    size_t cols[COLUMNS] = { 0 }, n = CAY_MIN(CAY_OR(l->ncols, 1), (size_t)COLUMNS);
    bool fits = compute_widths(l, n, cols);
    for (size_t row = 0; row < l->ncells; row += n) {
        if (fits)
            put_row(l, row, n, cols);
        else
            put_loose(l, row, n);
        for (size_t i = 0; row == 0 && fits && i < n; i++)
            for (size_t k = 0; k < cols[i] + (i + 1 < n ? 3 : 0); k++)
                cay__buf_str(&l->text, "-");
        if (row == 0 && fits)
            flush_text(l);
    }
    CAY_EACH_OF(it, l->cells, l->ncells)
        free(it->text);
    free(l->cells);
    l->cells = NULL;
    l->ncells = 0;
}

static void set_style(layout *l, unsigned style)
{
    l->style = style;
    cay__buf_fmt(&l->text, "%c%c", MARK, (int)(style | 0x80));
}

static void push_lead(layout *l, const char *lead)
{
    if (l->depth < NEST)
        snprintf(l->lead[l->depth], sizeof l->lead[0], "%s", lead);
    l->depth = CAY_MIN(l->depth + 1, (size_t)NEST);
}

static void enter_item(layout *l, const MD_BLOCK_LI_DETAIL *d)
{
    unsigned *n = &l->number[CAY_MIN(l->lists, (size_t)NEST) - 1];
    char lead[16];
    flush_text(l);
    if (d->is_task)
        CAY_FORMAT(l->bullet, "[%c] ", d->task_mark == ' ' ? ' ' : 'x');
    else if (*n)
        CAY_FORMAT(l->bullet, "%u. ", (*n)++ % 1000000);
    else
        CAY_FORMAT(l->bullet, "- ");
    CAY_FORMAT(lead, "%*s", (int)strlen(l->bullet), "");
    push_lead(l, lead);
}

static int enter_block(MD_BLOCKTYPE type, void *detail, void *arg)
{
    layout *l = arg;
    switch (type) {
    case MD_BLOCK_UL:
    case MD_BLOCK_OL:
        flush_text(l);
        if (!l->lists)
            add_blank_line(l);
        if (type == MD_BLOCK_UL)
            l->tight = ((MD_BLOCK_UL_DETAIL *)detail)->is_tight;
        else
            l->tight = ((MD_BLOCK_OL_DETAIL *)detail)->is_tight;
        if (l->lists < NEST) {
            if (type == MD_BLOCK_OL)
                l->number[l->lists] = CAY_MAX(((MD_BLOCK_OL_DETAIL *)detail)->start, 1u);
            else
                l->number[l->lists] = 0;
        }
        l->lists++;
        break;
    case MD_BLOCK_LI: enter_item(l, detail); break;
    case MD_BLOCK_QUOTE:
        flush_text(l);
        add_blank_line(l);
        push_lead(l, "| ");
        break;
    case MD_BLOCK_H:
        add_blank_line(l);
        set_style(l, HEAD);
        break;
    case MD_BLOCK_CODE:
        flush_text(l);
        add_blank_line(l);
        push_lead(l, "  ");
        l->code = true;
        set_style(l, CODE);
        break;
    case MD_BLOCK_HR:
        add_blank_line(l);
        for (size_t i = 0; i < CAY_MIN(l->width, (size_t)40); i++)
            cay__buf_str(&l->text, "-");
        flush_text(l);
        break;
    case MD_BLOCK_P:
    case MD_BLOCK_HTML: add_blank_line(l); break;
    case MD_BLOCK_TABLE:
        add_blank_line(l);
        l->ncols = ((MD_BLOCK_TABLE_DETAIL *)detail)->col_count;
        break;
    default: break;
    }
    return 0;
}

static int leave_block(MD_BLOCKTYPE type, void *detail, void *arg)
{
    layout *l = arg;
    switch (type) {
    case MD_BLOCK_UL:
    case MD_BLOCK_OL: l->lists--; break;
    case MD_BLOCK_LI:
        flush_text(l);
        *l->bullet = 0;
        l->depth -= l->depth > 0;
        break;
    case MD_BLOCK_QUOTE: l->depth -= l->depth > 0; break;
    case MD_BLOCK_H:
        l->style = 0;
        flush_text(l);
        break;
    case MD_BLOCK_CODE:
        l->style = 0;
        if (l->text.len && l->text.data[l->text.len - 1] == '\n')
            l->text.data[--l->text.len] = 0;
        flush_text(l);
        l->code = false;
        l->depth -= l->depth > 0;
        break;
    case MD_BLOCK_TH:
    case MD_BLOCK_TD: keep_cell(l, ((MD_BLOCK_TD_DETAIL *)detail)->align); break;
    case MD_BLOCK_TABLE: put_table(l); break;
    case MD_BLOCK_P:
    case MD_BLOCK_HTML: flush_text(l); break;
    default: break;
    }
    return 0;
}

static unsigned style_of(MD_SPANTYPE type)
{
    switch (type) {
    case MD_SPAN_STRONG: return BOLD;
    case MD_SPAN_EM: return ITALIC;
    case MD_SPAN_CODE: return CODE;
    case MD_SPAN_A:
    case MD_SPAN_IMG: return LINK;
    case MD_SPAN_DEL: return STRIKE;
    default: return 0;
    }
}

static int enter_span(MD_SPANTYPE type, void *detail, void *arg)
{
    layout *l = arg;
    set_style(l, l->style | style_of(type));
    return 0;
}

/* Where a link leads is always seen: its text alone could promise anything. */
static int leave_span(MD_SPANTYPE type, void *detail, void *arg)
{
    layout *l = arg;
    const MD_ATTRIBUTE *to;
    if (type == MD_SPAN_A)
        to = &((MD_SPAN_A_DETAIL *)detail)->href;
    else if (type == MD_SPAN_IMG)
        to = &((MD_SPAN_IMG_DETAIL *)detail)->src;
    else
        to = NULL;
    set_style(l, l->style & ~style_of(type));
    if (!to)
        return 0;
    CAY_AUTOBUF url = CAY__BUF(TEXT);
    cay__buf_safe(&url, CAY_OR(to->text, ""), to->size, false);
    if (url.len && (l->text.len < url.len + 2 ||
                    memcmp(l->text.data + l->text.len - 2 - url.len, url.data, url.len)))
        cay__buf_fmt(&l->text, " (%s)", url.data);
    return 0;
}

static const char *decode_entity(const char *s, size_t n)
{
    static const char *const known[][2] = {
        { "&amp;", "&" },   { "&lt;", "<" },  { "&gt;", ">" },
        { "&quot;", "\"" }, { "&#39;", "'" }, { "&nbsp;", " " }
    };
    for (size_t i = 0; i < CAY_LEN(known); i++)
        if (strlen(known[i][0]) == n && !memcmp(known[i][0], s, n))
            return known[i][1];
    return NULL;
}

static int on_text(MD_TEXTTYPE type, const MD_CHAR *s, MD_SIZE n, void *arg)
{
    layout *l = arg;
    const char *known;
    if (type == MD_TEXT_NULLCHAR)
        cay__buf_str(&l->text, "\xef\xbf\xbd");
    else if (type == MD_TEXT_BR)
        cay__buf_str(&l->text, "\n");
    else if (type == MD_TEXT_SOFTBR)
        cay__buf_str(&l->text, " ");
    else if (type == MD_TEXT_ENTITY && (known = decode_entity(s, n)))
        cay__buf_str(&l->text, known);
    else
        for (size_t at = 0; at < n;) { /* a tab has no width of its own */
            const char *tab = memchr(s + at, '\t', n - at);
            size_t k;
            if (tab)
                k = (size_t)(tab - (s + at));
            else
                k = n - at;
            if (CAY__MUTANT("fuzz-markdown"))
                cay__buf_add(&l->text, s + at, k);
            else
                cay__buf_safe(&l->text, s + at, k, l->code);
            if (tab)
                cay__buf_str(&l->text, "    ");
            at += k + (tab != NULL);
        }
    return 0;
}

void md_lines(const char *s, size_t n, size_t width, bool colour, md_doc *out)
{
    layout l = {
        .out = out, .width = width < 16 ? 16 : width, .colour = colour, .text = CAY__BUF(TEXT)
    };
    static const MD_PARSER parser = { .flags = MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH |
                                               MD_FLAG_TASKLISTS | MD_FLAG_NOHTML,
                                      .enter_block = enter_block,
                                      .leave_block = leave_block,
                                      .enter_span = enter_span,
                                      .leave_span = leave_span,
                                      .text = on_text };
    md_parse(s, (MD_SIZE)CAY_MIN(n, (size_t)UINT32_MAX / 2), &parser, &l);
    flush_text(&l);
    CAY_EACH_OF(it, l.cells, l.ncells)
        free(it->text);
    free(l.cells);
    cay__buf_clear(&l.text);
}
