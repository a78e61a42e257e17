/* SPDX-License-Identifier: Apache-2.0 */
#include "sandbox.h"
#include <limits.h>

enum {
    ARG_MAX_BYTES = 131072,  /* one string: MAX_ARG_STRLEN of execve(2) */
    ALL_MAX_BYTES = 2 << 20, /* all of them */
    TAG_MAX = 39,
    USER_MAX = 63,
    RING_MIN = 4096,
    RING_MAX = 16 << 20, /* the keeper's memory, not the sandbox's */
};

static bool has_control(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || *s == 0x7f)
            return true;
    return false;
}

int cay__user_check(const char *user, cay_err *err)
{
    if (!user)
        return 0;
    if (!*user || strlen(user) > USER_MAX || has_control(user) || strpbrk(user, ":/ "))
        return cay_fail_why(
            err, CAY_EINVAL, "user_invalid",
            "user \"%.64s\": give a name or a number, at most %d bytes, without : / or blanks",
            user, USER_MAX);
    return 0;
}

static int count_bytes(const char *what, const char *s, size_t *sum, cay_err *err)
{
    size_t n = strlen(s) + 1;
    if (n > ARG_MAX_BYTES)
        return cay_fail_why(err, CAY_ETOOBIG, "argument_too_long",
                            "%s %.40s…: longer than %d bytes; pass it by stdin or a file", what, s,
                            ARG_MAX_BYTES - 1);
    *sum += n + sizeof(char *);
    if (*sum > ALL_MAX_BYTES)
        return cay_fail_why(err, CAY_ETOOBIG, "arguments_too_long",
                            "arguments and environment together are longer than %d bytes",
                            ALL_MAX_BYTES);
    return 0;
}

static int check_command(const cay_spawn *s, size_t *sum, cay_err *err)
{
    if (!s->argv == !s->shell)
        return cay_fail_why(err, CAY_EINVAL, "command_missing",
                            s->argv ? "argv and shell are both set; use one"
                                    : "no command: set argv or shell");
    if (s->login && !s->shell)
        return cay_fail_why(err, CAY_EINVAL, "login_without_shell", "login needs shell, not argv");
    if (s->shell)
        return count_bytes("shell line", s->shell, sum, err);
    if (!s->argv[0] || !*s->argv[0])
        return cay_fail_why(err, CAY_EINVAL, "command_empty", "argv[0] is empty; name a program");
    for (size_t i = 0; s->argv[i]; i++)
        CAY_TRY(count_bytes("argument", s->argv[i], sum, err));
    return 0;
}

static int check_pairs(const char *what, const cay_pair *p, bool newlines, size_t *sum,
                       cay_err *err)
{
    for (; p && p->key; p++) {
        if (!*p->key || strchr(p->key, '=') || has_control(p->key))
            return cay_fail_why(err, CAY_EINVAL, "key_invalid",
                                "%s \"%.64s\": a key may not be empty or hold = or control bytes",
                                what, p->key);
        if (!p->value)
            return cay_fail_why(err, CAY_EINVAL, "value_missing", "%s %.64s has no value", what,
                                p->key);
        if (!newlines && strchr(p->value, '\n'))
            return cay_fail_why(err, CAY_EINVAL, "value_newline",
                                "%s %.64s: a newline is not allowed", what, p->key);
        CAY_TRY(count_bytes(what, p->key, sum, err));
        CAY_TRY(count_bytes(what, p->value, sum, err));
    }
    return 0;
}

/* A tag must not be mistaken for a pid or a process id when it is looked up. */
static int check_tag(const char *tag, cay_err *err)
{
    uint64_t number;
    if (!tag)
        return 0;
    if (!*tag || strlen(tag) > TAG_MAX || has_control(tag))
        return cay_fail_why(err, CAY_EINVAL, "tag_invalid",
                            "tag \"%.48s\": give 1 to %d bytes without control characters", tag,
                            TAG_MAX);
    if (cay__str_to_u64(tag, &number) || cay__id_valid(tag, 'p'))
        return cay_fail_why(err, CAY_EINVAL, "tag_ambiguous",
                            "tag %s looks like a pid or a process id; choose a word", tag);
    return 0;
}

static int check_spawn(const cay_spawn *s, cay_err *err)
{
    size_t sum = 0, labels = 0;
    CAY_TRY(check_command(s, &sum, err));
    CAY_TRY(check_pairs("environment variable", s->env, true, &sum, err));
    CAY_TRY(check_pairs("label", s->labels, false, &sum, err));
    for (const cay_pair *l = s->labels; l && l->key; l++)
        labels += strlen(l->key) + strlen(l->value) + 2;
    if (labels > CAY_PROC_LABELS_MAX)
        return cay_fail_why(err, CAY_ETOOBIG, "labels_too_big",
                            "the labels of a process have %zu bytes together; at most %d", labels,
                            CAY_PROC_LABELS_MAX);
    if (s->cwd) {
        int rc = cay__path_check(s->cwd, err);
        if (rc < 0)
            return cay_wrap(err, rc, "cwd");
    }
    CAY_TRY(cay__user_check(s->user, err));
    CAY_TRY(check_tag(s->tag, err));
    if (s->profile && strcmp(s->profile, "default") != 0 && strcmp(s->profile, "root") != 0)
        return cay_fail_why(err, CAY_EINVAL, "profile_unknown",
                            "profile %.40s: there are default and root", s->profile);
    if (s->stdin_mode != CAY_STDIN_NULL && s->stdin_mode != CAY_STDIN_PIPE)
        return cay_fail_why(err, CAY_EINVAL, "stdin_mode", "stdin_mode %d is not known",
                            (int)s->stdin_mode);
    if (s->env_mode != CAY_ENV_ADD && s->env_mode != CAY_ENV_ONLY)
        return cay_fail_why(err, CAY_EINVAL, "env_mode", "env_mode %d is not known",
                            (int)s->env_mode);
    if (s->on_full != CAY_FULL_DROP && s->on_full != CAY_FULL_BLOCK)
        return cay_fail_why(err, CAY_EINVAL, "on_full", "on_full %d is not known", (int)s->on_full);
    if (s->ring_bytes && (s->ring_bytes < RING_MIN || s->ring_bytes > RING_MAX))
        return cay_fail_why(err, CAY_EINVAL, "ring_bytes",
                            "ring_bytes %u: give %d to %d, or 0 for 1 MiB", s->ring_bytes, RING_MIN,
                            RING_MAX);
    if (s->timeout_ms > (uint64_t)INT64_MAX / 4)
        return cay_fail_why(err, CAY_EINVAL, "timeout", "timeout_ms is out of range; 0 means none");
    return 0;
}

int cay_sandbox_spawn(cay_sandbox *sb, const cay_call *call, const cay_spawn *spec, cay_proc **out,
                      cay_err *err)
{
    CAY__OP(call, "process.start", sb->id, err);
    cay_spawn s;
    void *obj = NULL;
    CAY_TRY(cay__spec_take(&s, sizeof s, spec, "cay_spawn", err));
    op_.argv = s.argv;
    op_.shell = s.shell;
    op_.user = s.user;
    op_.timeout_ms = s.timeout_ms;
    CAY_TRY(check_spawn(&s, err));
    CAY_TRY(cay__call_check(call, "spawn", err));
    CAY_TRY(cay__fence_spawn(sb, call, &s, err));
    CAY_TRY(cay__sandbox_ready(sb, err));
    CAY_TRY(sb->ops->spawn(sb->box, call, &s, &obj, err));
    cay_proc *p = cay__alloc(sizeof *p);
    p->sb = cay_sandbox_ref(sb);
    p->obj = obj;
    atomic_init(&p->untold, true);
    cay__op_process(&op_, cay_proc_id(p));
    *out = p;
    return 0;
}

int cay_sandbox_attach(cay_sandbox *sb, const cay_call *call, const char *ref, cay_proc **out,
                       cay_err *err)
{
    CAY__OP(call, "process.attach", sb->id, err);
    void *obj = NULL;
    if (!ref || !*ref || strlen(ref) > TAG_MAX || has_control(ref))
        return cay_fail_why(err, CAY_EINVAL, "process_invalid",
                            "process \"%.48s\": give its id, its pid inside, or its tag",
                            CAY_OR(ref, ""));
    CAY_TRY(cay__call_check(call, "attach", err));
    if (!sb->box)
        return cay_fail_why(
            err, CAY_ENOENT, "process_not_found",
            "process %s: sandbox %s does not run, and what its processes said went with them", ref,
            sb->id);
    if (sb->touch)
        sb->touch(sb);
    CAY_TRY(sb->ops->proc_attach(sb->box, call, ref, &obj, err));
    cay_proc *p = cay__alloc(sizeof *p);
    p->sb = cay_sandbox_ref(sb);
    p->obj = obj;
    cay__op_process(&op_, cay_proc_id(p));
    *out = p;
    return 0;
}
