/* SPDX-License-Identifier: Apache-2.0 */
/* How keeper and init are watched. Linked only into builds with -Db_sanitize. */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

/* No leak check where there is no way to run one: init is pid 1 without ptrace. No symbolizer: it
 * is not to be found in a sandbox, and reports name file and line by debug information already when
 * they are read outside. */
const char *__asan_default_options(void)
{
    return "detect_leaks=0:abort_on_error=0:handle_abort=1:detect_stack_use_after_return=0";
}

const char *__ubsan_default_options(void)
{
    return "halt_on_error=1:print_stacktrace=1";
}
