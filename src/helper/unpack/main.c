/* SPDX-License-Identifier: Apache-2.0 */
/* cay-unpack: see unpack.h. Exit status 0: all of it was told and sound; 1: FAIL was told; 2: wrong
 * words. */
#include "unpack.h"
#include <base/mutant.h>
#include <base/sanitize.h>
#include <locale.h>
#include <signal.h>
#include <sys/resource.h>

#define MEMORY (64u << 20)

static int print_usage(void)
{
    fputs("usage: cay-unpack [--max-input N] [--max-output N] [--max-members N] PROFILE "
          "FORMAT|walk DIRECTORY\n",
          stderr);
    return 2;
}

/* false: not a limit, or no number. */
static bool parse_limit(limits *m, const char *opt, const char *value)
{
    uint64_t v, *into = NULL;
    if (!strcmp(opt, "--max-input"))
        into = &m->input;
    else if (!strcmp(opt, "--max-output"))
        into = &m->output;
    else if (!strcmp(opt, "--max-members"))
        into = &m->members;
    if (!into || !value || !cay__str_to_u64(value, &v) || !v)
        return false;
    *into = v;
    return true;
}

int main(int argc, char **argv)
{
    unpack u = { .max = { .input = 2ull << 30,
                          .output = 8ull << 30,
                          .members = 500000,
                          .ratio = 200,
                          .ratio_from = 10 << 20 } };
    /* Whatever a bomb makes a library want: an allocation fails first. */
    /* NOLINTNEXTLINE(misc-redundant-expression): two switches of the build, often both 0 */
    if (!CAY__MUTANT("archive-memory") && !CAY__SANITIZED)
        setrlimit(RLIMIT_DATA, &(struct rlimit){ MEMORY, MEMORY });
    setlocale(LC_CTYPE, "C.UTF-8"); /* else libarchive cannot tell names that are not ASCII */
    signal(SIGPIPE, SIG_IGN);
    int i = 1;
    for (; i < argc && cay__str_starts(argv[i], "--"); i += 2)
        if (!parse_limit(&u.max, argv[i], i + 1 < argc ? argv[i + 1] : NULL))
            return print_usage();
    if (argc - i != 2 && !(argc - i == 3 && !strcmp(argv[i + 1], "walk")))
        return print_usage();
    if (!(u.as = profile_find(argv[i])))
        return print_usage();
    cay__items_start(&u.out, 1);
    names_start(&u);
    if (argc - i == 3) {
        read_tree(&u, argv[i + 2]);
    } else {
        input *s = input_open(&u, 0);
        read_any(&u, s, argv[i + 1]);
        input_close(s);
    }
    if (!u.failed)
        cay__item_put(
            &u.out,
            &(cay__item){ .type = CAY__ITEM_END, .size = u.bytes, .mode = (uint32_t)u.items });
    bool told = cay__items_flush(&u.out);
    names_stop(&u);
    cay__items_stop(&u.out);
    if (u.failed || !told)
        return 1;
    return 0;
}
