/* SPDX-License-Identifier: Apache-2.0 */
/* A create request, field by field, before anything is made. */
#include "limits.h"
#include "sandbox.h"
#include <cay/volume.h>
#include <ctype.h>

#define KIB      ((uint64_t)1 << 10)
#define MIB      ((uint64_t)1 << 20)
#define GIB      ((uint64_t)1 << 30)
#define L(field) #field, offsetof(cay_limits, field)

/* The least values still let a shell start; the most are what the kernel or sense allows. */
const cay__limit cay__limit_table[CAY__LIMITS] = {
    { L(memory), 4 * MIB, GIB << 20, 2 * GIB },
    { L(swap), 1, GIB << 20, 0 },
    { L(cpu_milli), 10, 1024000, 2000 },
    { L(pids), 2, 4194304, 512 },
    { L(disk), MIB, GIB << 20, 10 * GIB },
    { L(inodes), 64, (uint64_t)1 << 32, 1000000 },
    { L(nofile), 16, 1048576, 4096 },
    { L(io_read), 4 * KIB, GIB << 10, CAY_UNLIMITED },
    { L(io_write), 4 * KIB, GIB << 10, CAY_UNLIMITED },
};

void cay__limits_fill(cay_limits *l)
{
    CAY_EACH_OF(it, cay__limit_table, CAY__LIMITS) {
        uint64_t *v = (uint64_t *)(void *)((char *)l + it->at);
        if (*v == 0)
            *v = it->normal;
    }
}

#define PATH_BYTES  4095
#define ENV_BYTES   131071 /* one string of execve(2) */
#define GRANTS_MOST 64
#define PAIRS_MOST  1024
#define TIME_MOST   ((uint64_t)100 * 366 * 86400000) /* a hundred years */

static int fail_spec(const char *field, const char *value, const char *remedy, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(120);
    cay__buf_safe(&b, value, CAY_MIN(strlen(value), (size_t)60), false);
    return cay_fail_why(err, CAY_EINVAL, "spec_invalid", "%s \"%s\": %s", field, CAY_OR(b.data, ""),
                        remedy);
}

static bool is_text(const char *s)
{
    for (size_t n = strlen(s), k; n; s += k, n -= k) {
        k = cay__utf8_len(s, n);
        if (!k || (unsigned char)*s < 0x20 || *s == 0x7f)
            return false;
    }
    return true;
}

static bool is_word(const char *s, size_t most, const char *also)
{
    if (!isalnum((unsigned char)*s) || strlen(s) > most)
        return false;
    for (; *s; s++)
        if ((unsigned char)*s >= 0x80 || (!isalnum((unsigned char)*s) && !strchr(also, *s)))
            return false;
    return true;
}

/* Absolute, one line, no "." or ".." on the way. */
static bool is_inside_path(const char *p)
{
    if (*p != '/' || strlen(p) > PATH_BYTES)
        return false;
    for (const char *c = p; *c; c++) {
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return false;
        if (*c == '/' && c[1] == '.' &&
            (!c[2] || c[2] == '/' || (c[2] == '.' && (!c[3] || c[3] == '/'))))
            return false;
    }
    return true;
}

static int check_names(const cay_create *c, cay_err *err)
{
    if (c->name && !is_word(c->name, 63, "._-"))
        return fail_spec(
            "name", c->name,
            "1 to 63 letters, digits, '.', '_' or '-', beginning with a letter or digit", err);
    if (c->hostname &&
        (!is_word(c->hostname, 63, "-") || c->hostname[strlen(c->hostname) - 1] == '-'))
        return fail_spec("hostname", c->hostname, "1 to 63 letters, digits or '-', not at its ends",
                         err);
    if (c->process.workdir && !is_inside_path(c->process.workdir))
        return fail_spec("workdir", c->process.workdir,
                         "give an absolute path inside the sandbox, without . or .. or a newline",
                         err);
    if (c->process.group && cay__user_check(c->process.group, NULL) < 0)
        return fail_spec("group", c->process.group,
                         "give a name or a number, without : / or blanks", err);
    return cay__user_check(c->process.user, err);
}

static int check_template(const cay_box_spec *b, int home_fd, const char *run, cay_err *err)
{
    const cay_create *c = b->create;
    if (c->from.root && c->from.template_)
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid",
                            "root and template are both given; choose one");
    if (c->from.template_ && strcmp(c->from.template_, "host") != 0 &&
        !((b->template_id || c->from.snapshot) && !strcmp(c->from.template_, "image")))
        return cay_fail_why(err, CAY_ENOENT, "template_not_found",
                            "there is no template %.60s; use host, one of `cay template ls`, or a "
                            "directory by root",
                            c->from.template_);
    if (c->from.root)
        return cay__source_check("root", c->from.root, home_fd, run, NULL, err);
    return 0;
}

static int check_env(const cay_pair *env, cay_err *err)
{
    size_t n = 0;
    for (; env && env->key; env++) {
        if (!*env->key || strchr(env->key, '=') || !is_text(env->key))
            return fail_spec(
                "env", env->key,
                "a variable's name is not empty and has neither '=' nor control characters", err);
        if (strlen(env->key) + strlen(CAY_OR(env->value, "")) + 1 > ENV_BYTES)
            return cay_fail_why(err, CAY_ETOOBIG, "env_too_big",
                                "env %.60s is longer than %d bytes; put it in a file", env->key,
                                ENV_BYTES);
        if (++n > PAIRS_MOST)
            return cay_fail_why(err, CAY_ETOOBIG, "env_too_big", "env has more than %d variables",
                                PAIRS_MOST);
    }
    return 0;
}

static int check_labels(const cay_create *c, cay_err *err)
{
    size_t n = 0;
    for (const cay_pair *p = c->labels; p && p->key; p++) {
        if (!*p->key || strlen(p->key) > 128 || !is_text(p->key))
            return fail_spec("label", p->key, "a key is 1 to 128 bytes of text on one line", err);
        if (p->value && (strlen(p->value) > 1024 || !is_text(p->value)))
            return fail_spec("label", p->key,
                             "its value must be at most 1024 bytes of text on one line", err);
        if (++n > PAIRS_MOST)
            return cay_fail_why(err, CAY_ETOOBIG, "labels_too_big", "more than %d labels",
                                PAIRS_MOST);
    }
    return 0;
}

static int check_limits(const cay_create *c, cay_err *err)
{
    CAY_EACH_OF(l, cay__limit_table, CAY__LIMITS) {
        uint64_t v = *(const uint64_t *)(const void *)((const char *)&c->limits + l->at);
        if (v != 0 && v != CAY_UNLIMITED && (v < l->least || v > l->most))
            return cay_fail_why(err, CAY_EINVAL, "limit_out_of_range",
                                "limit %s is %llu; give %llu to %llu, or unlimited", l->name,
                                (unsigned long long)v, (unsigned long long)l->least,
                                (unsigned long long)l->most);
    }
    if ((c->life.ttl_ms > TIME_MOST && c->life.ttl_ms != CAY_UNLIMITED) ||
        (c->life.idle_ms > TIME_MOST && c->life.idle_ms != CAY_UNLIMITED))
        return cay_fail_why(err, CAY_EINVAL, "limit_out_of_range",
                            "ttl and idle time are at most a hundred years");
    if (c->life.on_expiry != CAY_EXPIRE_KILL && c->life.on_expiry != CAY_EXPIRE_PAUSE)
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid",
                            "on_expiry %d is not known; kill or pause", (int)c->life.on_expiry);
    if (c->isolation.min_level < 0 || c->isolation.min_level > CAY_LEVEL_VM)
        return cay_fail_why(err, CAY_EINVAL, "spec_invalid",
                            "isolation level %d is not known; give 0 to 4", c->isolation.min_level);
    return 0;
}

bool cay__volume_name(const char *name)
{
    return name && is_word(name, CAY_VOLUME_NAME, "._-");
}

static int check_target(const char *target, cay_err *err)
{
    static const char *const taken[] = { "/proc", "/sys", "/dev", "/" };
    if (!target || !is_inside_path(target))
        return fail_spec("mount target", CAY_OR(target, ""),
                         "give an absolute path inside, without . or ..", err);
    CAY_EACH(one, taken) {
        size_t n = strlen(*one);
        if (!strcmp(target, *one) || (n > 1 && !strncmp(target, *one, n) && target[n] == '/'))
            return fail_spec("mount target", target,
                             "nothing may be put over /, /proc, /sys or /dev", err);
    }
    return 0;
}

static int check_volumes(const cay_create *c, cay_err *err)
{
    if (c->files.nvolumes + c->files.ngrants > GRANTS_MOST)
        return cay_fail_why(err, CAY_ETOOBIG, "too_many_grants",
                            "%zu directories and volumes are to be shown; at most %d",
                            c->files.nvolumes + c->files.ngrants, GRANTS_MOST);
    for (size_t i = 0; i < c->files.nvolumes; i++) {
        const cay_volume_use *v = &c->files.volumes[i];
        if (!cay__volume_name(v->name))
            return fail_spec(
                "volume", CAY_OR(v->name, ""),
                "1 to 48 letters, digits, '.', '_' or '-', beginning with a letter or digit", err);
        CAY_TRY(check_target(v->target, err));
        CAY_EACH_OF(grant, c->files.grants, c->files.ngrants)
            if (!strcmp(v->target, grant->target))
                return fail_spec("mount target", v->target, "given twice", err);
        CAY_EACH_OF(volume, c->files.volumes, i)
            if (!strcmp(v->target, volume->target))
                return fail_spec("mount target", v->target, "given twice", err);
    }
    return 0;
}

static int check_grants(const cay_create *c, int home_fd, const char *run, cay_err *err)
{
    if (c->files.ngrants > GRANTS_MOST)
        return cay_fail_why(err, CAY_ETOOBIG, "too_many_grants",
                            "%zu directories are to be shown; at most %d", c->files.ngrants,
                            GRANTS_MOST);
    for (size_t i = 0; i < c->files.ngrants; i++) {
        const cay_grant *g = &c->files.grants[i];
        CAY_TRY(check_target(g->target, err));
        CAY_EACH_OF(grant, c->files.grants, i)
            if (!strcmp(g->target, grant->target))
                return fail_spec("mount target", g->target, "given twice", err);
        if (!g->source || !*g->source)
            return fail_spec("mount", "", "give the directory to show", err);
        CAY_TRY(cay__source_check("mount", g->source, home_fd, run, NULL, err));
    }
    return 0;
}

/* A directory of the host underneath /workspace. */
static int check_on(const cay_create *c, int home_fd, const char *run, cay_err *err)
{
    if (!c->from.directory)
        return 0;
    CAY_EACH_OF(grant, c->files.grants, c->files.ngrants)
        if (!strcmp(grant->target, "/workspace"))
            return cay_fail_why(err, CAY_EINVAL, "on_refused",
                                "on and a mount on /workspace are both given; use one of them");
    CAY_EACH_OF(volume, c->files.volumes, c->files.nvolumes)
        if (!strcmp(volume->target, "/workspace"))
            return cay_fail_why(err, CAY_EINVAL, "on_refused",
                                "on and a volume on /workspace are both given; use one of them");
    return cay__source_check(CAY__SOURCE_ON, c->from.directory, home_fd, run, NULL, err);
}

int cay__create_check(const cay_box_spec *b, int home_fd, const char *run, cay_err *err)
{
    const cay_create *c = b->create;
    CAY_TRY(check_names(c, err));
    CAY_TRY(check_limits(c, err));
    CAY_TRY(check_env(c->process.env, err));
    CAY_TRY(check_labels(c, err));
    CAY_TRY(check_template(b, home_fd, run, err));
    CAY_TRY(check_grants(c, home_fd, run, err));
    CAY_TRY(check_volumes(c, err));
    return check_on(c, home_fd, run, err);
}
