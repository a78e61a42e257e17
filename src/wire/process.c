/* SPDX-License-Identifier: Apache-2.0 */
/* Commands, terminals and shells. */
#include "shapes.h"

#define FIELD CAY__FIELD
#define NAMED CAY__NAMED

enum { OUTPUT_MAX = 64 << 20 };

static const char *const env_words[] = { "add", "only", NULL };
static const char *const stdin_words[] = { "null", "pipe", NULL };
static const char *const full_words[] = { "drop", "block", NULL };
static const char *const profile_words[] = { "default", "root", NULL };

/* A member of cay_spawn under its own name. */
#define SPAWN(member, ...) CAY__NAMED(#member, cay__spawn_body, s.member, __VA_ARGS__)
#define COMMAND                                                                                    \
    SPAWN(argv, STRS, .min = 1, .about = "the command and its words; or shell"),                   \
        SPAWN(shell, STR, .about = "one line for the sandbox's shell"),                            \
        SPAWN(login, BOOL, .about = "with shell: a login shell"), SPAWN(env, PAIRS),               \
        SPAWN(env_mode, WORD, .more = env_words, .about = "only: nothing of the sandbox's"),       \
        SPAWN(cwd, PATH), SPAWN(user, STR, .about = "name or uid"),                                \
        SPAWN(profile, CHOICE, .more = profile_words), SPAWN(tty, BOOL), SPAWN(cols, U16),         \
        SPAWN(rows, U16),                                                                          \
        SPAWN(timeout_ms, U64, .about = "TERM to all it started, KILL one second later"),          \
        SPAWN(tag, STR, .about = "a name to find it by"), SPAWN(labels, PAIRS),                    \
        SPAWN(ring_bytes, U32, .about = "output kept of each stream: 4096 to 16777216; 1 MiB")

static const cay__field spawn_fields[] = {
    COMMAND,
    NAMED("stdin", cay__spawn_body, s.stdin_mode, WORD, .more = stdin_words),
    NAMED("on_full", cay__spawn_body, s.on_full, WORD, .more = full_words,
          .about = "block: it waits for readers instead of dropping its oldest output"),
};
CAY__SHAPED(spawn, "Spawn", cay__spawn_body, CAY__F_IN, "a command as it is wanted");

static const cay__field run_fields[] = {
    COMMAND,
    FIELD(cay__spawn_body, input, STR, .max = 8 << 20, .about = "its standard input"),
    NAMED("input_base64", cay__spawn_body, input64, BASE64,
          .count = offsetof(cay__spawn_body, input_len),
          .about = "the same for bytes that are no text"),
    FIELD(cay__spawn_body, max_output, SIZE, .max = OUTPUT_MAX,
          .about = "bytes of each stream that are told; 16 MiB"),
};
CAY__SHAPED(run, "Run", cay__spawn_body, CAY__F_IN, "a command to its end");

static const cay__field started_fields[] = {
    FIELD(cay__started, id, STR),
    FIELD(cay__started, pid, INT, .about = "as seen inside"),
};
CAY__SHAPED(started, "Started", cay__started, CAY__F_OUT, NULL);

#define EXIT(type, at)                                                                             \
    NAMED("code", type, at code, INT), NAMED("signal", type, at signal, INT),                      \
        NAMED("reason", type, at reason, TEXT), NAMED("cpu_us", type, at cpu_us, U64),             \
        NAMED("max_rss", type, at max_rss, U64), NAMED("lost_stdout", type, at lost_out, U64),     \
        NAMED("lost_stderr", type, at lost_err, U64)

static const cay__field exit_fields[] = {
    EXIT(cay_exit, ),
};
CAY__SHAPED(exit, "Exit", cay_exit, CAY__F_OUT | CAY__F_SIZED, "how it ended");

static const cay__field result_fields[] = {
    EXIT(cay_result, exit.),
    NAMED("stdout", cay_result, out, BYTES, .count = offsetof(cay_result, out_len)),
    NAMED("stderr", cay_result, errout, BYTES, .count = offsetof(cay_result, errout_len)),
    FIELD(cay_result, truncated, BOOL, .about = "more came than max_output"),
};
CAY__SHAPED(result, "Result", cay_result, CAY__F_OUT, "how it ended, and what it printed");

static const char *const process_words[] = { "Rrunning", "Ssleeping", "Dwaiting",
                                             "Tstopped", "tstopped",  "Zzombie",
                                             "Xended",   "?other",    NULL };
#define INFO(member, ...) NAMED(#member, cay__process_told, i.member, __VA_ARGS__)
static const cay__field process_fields[] = {
    INFO(id, STR, .about = "empty when it was not started through the API"),
    INFO(tag, STR),
    INFO(pid, INT),
    INFO(ppid, INT),
    INFO(user, STR),
    INFO(state, LETTER, .more = process_words),
    INFO(tty, BOOL),
    INFO(cpu_us, U64),
    INFO(rss, U64),
    INFO(started_ms, I64),
    INFO(ended_ms, I64, CAY__F_MAYBE),
    INFO(command, STR),
    INFO(labels, PAIRS),
    FIELD(cay__process_told, exit, POINT, .more = &cay__exit_shape),
};
CAY__SHAPED(process, "Process", cay__process_told, CAY__F_OUT,
            "one process; it has `exit` once it ended");

static const char *const scope_words[] = { "one", "group", "tree", "below", NULL };
static const cay__field signal_fields[] = {
    NAMED("signal", cay__signal_body, sig, SIGNAL, CAY__F_ZERO, .about = "a name or number; TERM"),
    FIELD(cay__signal_body, scope, WORD, .more = scope_words,
          .about = "below: all it started, not itself"),
};
CAY__SHAPED(signal, "Signal", cay__signal_body, CAY__F_IN, NULL);

static const cay__field size_fields[] = {
    FIELD(cay__size_body, cols, U16, CAY__F_REQUIRED, .min = 1),
    FIELD(cay__size_body, rows, U16, CAY__F_REQUIRED, .min = 1),
};
CAY__SHAPED(size, "Size", cay__size_body, CAY__F_IN, "of a terminal");

static const cay__field process_waited_fields[] = {
    FIELD(cay__process_waited, ended, BOOL),
    FIELD(cay__process_waited, exit, POINT, .more = &cay__exit_shape),
};
CAY__SHAPED(process_waited, "ProcessWaited", cay__process_waited, CAY__F_OUT,
            "exit is there when it ended");

static const cay__field shell_open_fields[] = {
    FIELD(cay_shell_spec, name, STR, CAY__F_REQUIRED,
          .about = "1 to 32 letters, digits, '.', '_' or '-'"),
    FIELD(cay_shell_spec, login, BOOL),
    FIELD(cay_shell_spec, env, PAIRS),
    FIELD(cay_shell_spec, cwd, PATH),
    FIELD(cay_shell_spec, user, STR),
    FIELD(cay_shell_spec, profile, CHOICE, .more = profile_words),
};
CAY__SHAPED(shell_open, "ShellOpen", cay_shell_spec, CAY__F_IN,
            "what follows the name matters only when it is started");

static const cay__field shell_fields[] = {
    FIELD(cay__shell_told, name, STR),
    FIELD(cay__shell_told, id, STR, .about = "of its process"),
    FIELD(cay__shell_told, pid, INT),
    FIELD(cay__shell_told, user, STR),
    FIELD(cay__shell_told, started_ms, I64),
};
CAY__SHAPED(shell, "Shell", cay__shell_told, CAY__F_OUT,
            "an ordinary process with the tag shell:NAME");

static const cay__field shell_run_fields[] = {
    FIELD(cay_shell_cmd, line, STR, CAY__F_REQUIRED, .max = CAY_SHELL_LINE_MAX,
          .about = "text for the shell, of any number of lines"),
    FIELD(cay_shell_cmd, timeout_ms, U64,
          .about = "then it is interrupted as by Ctrl-C, and the shell goes on"),
    FIELD(cay_shell_cmd, max_output, SIZE, .max = OUTPUT_MAX,
          .about = "bytes of each stream that are told; 16 MiB"),
};
CAY__SHAPED(shell_run, "ShellRun", cay_shell_cmd, CAY__F_IN, "one command in it");

static const cay__field process_stdin_params[] = {
    NAMED("close", cay__process_query, close_input, BOOL, .about = "close it afterwards"),
};
CAY__ASKED(process_stdin, cay__process_query);

static const cay__field process_list_params[] = {
    FIELD(cay__process_query, ended, BOOL, .about = "those that ended and are kept, too"),
};
CAY__ASKED(process_list, cay__process_query);

static const cay__field process_offset_params[] = {
    NAMED("stdout", cay__process_query, from_out, STR, .about = "offset to begin at, or now; 0"),
    NAMED("stderr", cay__process_query, from_err, STR, .about = "likewise"),
};
CAY__ASKED(process_offset, cay__process_query);

static const cay__field process_output_params[] = {
    FIELD(cay__process_query, stream, STR, .about = "stdout or stderr; stdout"),
    FIELD(cay__process_query, offset, STR, .about = "a number, or now; 0"),
    FIELD(cay__process_query, follow, BOOL, .about = "as it comes, until the process ends"),
};
CAY__ASKED(process_output, cay__process_query);
