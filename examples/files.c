/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files - put a file into a sandbox, list, watch what a command changes, get the result back.
 *
 * Paths are resolved inside the sandbox, relative ones below its working directory; nothing on the
 * host can be named. A put replaces the file whole: a reader sees the old bytes or the new ones.
 */
#include "sandboxed.h"
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int print_entry(const cay_dirent *ent, void *arg)
{
    (void)arg;
    printf("list: %c %04o %5llu %s\n", ent->st.type, ent->st.mode, (unsigned long long)ent->st.size,
           ent->path);
    return 0; /* anything else would stop the listing */
}

/* A bound for calls that may wait: five seconds from now. */
static cay_call within_5s(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (cay_call){ .size = sizeof(cay_call),
                       .deadline_ms = (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000 + 5000 };
}

/* Watches in/ while a command works there; returns when the file `name` has been seen. */
static int sort_and_watch(cay_sandbox *sb, const char *name, cay_err *err)
{
    cay_spawn cmd = { .size = sizeof cmd, .shell = "sort in/words.txt >in/sorted.txt" };
    cay_result res = { .size = sizeof res };
    cay_watch *w;
    cay_call soon = within_5s();

    int rc = cay_watch_open(sb, &soon, "in", true, &w, err);
    if (rc < 0)
        return rc;
    rc = cay_sandbox_run(sb, &soon, &cmd, NULL, 0, 4096, &res, err);
    if (rc == 0 && res.exit.code != 0)
        rc = cay_fail(err, CAY_EGONE, "sort ended with %d: %s", res.exit.code, res.errout);
    cay_result_clear(&res);
    for (bool seen = false; rc == 0 && !seen;) {
        cay_watch_event ev = { .size = sizeof ev };
        rc = cay_watch_next(w, &soon, &ev, err);
        if (rc == 0 && !strcmp(ev.path, name)) {
            printf("watch: %s\n", ev.path);
            seen = true;
        }
    }
    cay_watch_close(w);
    return rc;
}

static int work(cay_sandbox *sb, cay_err *err)
{
    static const char words[] = "pear\napple\nfig\n";
    cay_write how = { .size = sizeof how, .mode = 0640, .parents = true };
    char *sorted;
    size_t len;

    int rc = cay_file_put(sb, NULL, "in/words.txt", words, strlen(words), &how, err);
    if (rc == 0)
        rc = sort_and_watch(sb, "sorted.txt", err);
    if (rc == 0)
        rc = cay_dir_list(sb, NULL, "in", 1, print_entry, NULL, err);
    if (rc == 0)
        rc = cay_file_get(sb, NULL, "in/sorted.txt", 1 << 20, &sorted, &len, err);
    if (rc == 0) {
        printf("get: %zu bytes: %s", len, sorted);
        free(sorted);
    }
    return rc;
}

int main(int argc, char **argv)
{
    return sandboxed("files", argc > 1 ? argv[1] : NULL, work);
}
