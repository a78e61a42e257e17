/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ledger LEDGER OBSERVED [init] - judges whether something that was acknowledged is lost. Uses none
 * of our code.
 *
 * LEDGER is what clients were told (see ledger.h), OBSERVED what is there now:
 *
 *     box BOX STATE            file BOX PATH HASH (- when it is not there)
 *     exit BOX PROC CODE HASH  snap ID HASH
 *
 * With `init` the victim was a sandbox's own first process: that sandbox may have stopped, its
 * files may not be gone. Prints every loss; exit 1 when there is one.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 7, WORD = 160 };

typedef struct line {
    int n;
    char w[WORDS][WORD];
} line;

typedef struct text {
    line *v;
    size_t n;
} text;

static int losses;
#define LOST(...) (printf("lost: " __VA_ARGS__), putchar('\n'), losses++)

static text load(const char *path)
{
    text t = { 0 };
    char buf[2048];
    FILE *f = fopen(path, "r");
    if (!f) {
        perror(path);
        exit(2);
    }
    while (fgets(buf, sizeof buf, f)) {
        t.v = realloc(t.v, (t.n + 1) * sizeof *t.v);
        if (!t.v)
            abort();
        line *l = &t.v[t.n++];
        memset(l, 0, sizeof *l);
        for (char *s = buf, *save, *w; l->n < WORDS && (w = strtok_r(s, " \n", &save)); s = NULL)
            snprintf(l->w[l->n++], WORD, "%s", w);
    }
    fclose(f);
    return t;
}

static bool is(const line *l, const char *a, const char *b, const char *box)
{
    return !strcmp(l->w[0], a) && !strcmp(l->w[1], b) && !strcmp(l->w[2], box);
}

static const line *seen(const text *o, const char *what, const char *box, const char *third)
{
    for (size_t i = 0; i < o->n; i++)
        if (!strcmp(o->v[i].w[0], what) && !strcmp(o->v[i].w[1], box) &&
            (!third || !strcmp(o->v[i].w[2], third)))
            return &o->v[i];
    return NULL;
}

static bool any(const text *l, const char *a, const char *b, const char *box)
{
    for (size_t i = 0; i < l->n; i++)
        if (is(&l->v[i], a, b, box))
            return true;
    return false;
}

/* The state it must be in, or NULL when a request without an answer leaves it open. */
static const char *wanted(const text *l, const char *box)
{
    static const char *const moves[][2] = { { "pause", "paused" },
                                            { "resume", "running" },
                                            { "kill", "stopped" } };
    const char *want = "running";
    for (size_t i = 0; i < l->n; i++)
        for (size_t k = 0; k < 3; k++) {
            if (is(&l->v[i], "try", moves[k][0], box))
                want = NULL;
            if (is(&l->v[i], "ack", moves[k][0], box))
                want = moves[k][1];
        }
    return want;
}

static void judge_box(const text *l, const text *o, const line *made, bool init)
{
    const char *box = made->w[2];
    const line *now = seen(o, "box", box, NULL);
    if (any(l, "ack", "rm", box)) {
        if (now)
            LOST("the removal of %s: it is %s", box, now->w[2]);
        return;
    }
    if (!now) {
        if (!any(l, "try", "rm", box))
            LOST("sandbox %s", box);
        return;
    }
    const char *want = wanted(l, box);
    bool free_to_stop = init || !strcmp(made->w[3], "ttl") || any(l, "try", "rm", box);
    if (want && strcmp(want, now->w[2]) &&
        !(free_to_stop && (!strcmp(now->w[2], "stopped") || !strcmp(now->w[2], "deleting"))))
        LOST("the state of %s: %s was acknowledged, it is %s", box, want, now->w[2]);
}

/* The last acknowledged contents, or any that were asked for later. */
static void judge_file(const text *l, const text *o, const char *box, const char *path)
{
    const line *now = seen(o, "file", box, path);
    const char *last = NULL, *have = now ? now->w[3] : "-";
    bool fits = false;
    for (size_t i = 0; i < l->n; i++) {
        const line *e = &l->v[i];
        if (is(e, "ack", "put", box) && !strcmp(e->w[3], path)) {
            last = e->w[4];
            fits = !strcmp(last, have);
        } else if (is(e, "try", "put", box) && !strcmp(e->w[3], path)) {
            fits |= !strcmp(e->w[4], have);
        }
    }
    if (last && !fits)
        LOST("file %s of %s: %s was acknowledged, there is %s", path, box, last, have);
    else if (!last && !fits && strcmp(have, "-"))
        LOST("file %s of %s is half written: %s", path, box, have);
}

static void judge_exit(const text *l, const text *o, const line *e)
{
    const char *box = e->w[2];
    const line *now = seen(o, "exit", box, e->w[3]), *state = seen(o, "box", box, NULL);
    if (any(l, "try", "rm", box) || any(l, "try", "kill", box) || !state ||
        !strcmp(state->w[2], "stopped"))
        return; /* judged as a sandbox */
    if (!now)
        LOST("command %s of %s", e->w[3], box);
    else if (strcmp(now->w[3], e->w[4]))
        LOST("exit code of %s in %s: %s, not %s", e->w[3], box, now->w[3], e->w[4]);
    else if (strcmp(now->w[4], e->w[5]))
        LOST("output of %s in %s: %s, not %s", e->w[3], box, now->w[4], e->w[5]);
}

static void judge_snap(const text *o, const line *e)
{
    const line *now = seen(o, "snap", e->w[2], NULL);
    if (!now)
        LOST("snapshot %s", e->w[2]);
    else if (strcmp(now->w[2], e->w[3]))
        LOST("what was saved in snapshot %s: %s was acknowledged, there is %s", e->w[2], e->w[3],
             now->w[2]);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: ledger LEDGER OBSERVED [init]\n");
        return 2;
    }
    bool init = argc > 3 && !strcmp(argv[3], "init");
    text l = load(argv[1]), o = load(argv[2]);
    for (size_t i = 0; i < l.n; i++) {
        const line *e = &l.v[i];
        if (!strcmp(e->w[0], "bad"))
            LOST("a client saw: %s %s %s %s %s %s", e->w[1], e->w[2], e->w[3], e->w[4], e->w[5],
                 e->w[6]);
        else if (is(e, "ack", "create", e->w[2]))
            judge_box(&l, &o, e, init);
        else if (!strcmp(e->w[0], "ack") && (!strcmp(e->w[1], "start") || !strcmp(e->w[1], "exit")))
            judge_exit(&l, &o, e);
        else if (is(e, "ack", "snap", e->w[2]))
            judge_snap(&o, e);
        else if (is(e, "try", "put", e->w[2])) {
            bool first = true;
            for (size_t k = 0; k < i && first; k++)
                first = !(is(&l.v[k], "try", "put", e->w[2]) && !strcmp(l.v[k].w[3], e->w[3]));
            if (first && !any(&l, "try", "rm", e->w[2]) && any(&l, "ack", "create", e->w[2]))
                judge_file(&l, &o, e->w[2], e->w[3]);
        }
    }
    return losses ? 1 : 0;
}
