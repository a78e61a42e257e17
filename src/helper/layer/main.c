/* SPDX-License-Identifier: Apache-2.0 */
/* cay-layer VERB: works on layer trees for the library. tool.h tells the rest. */
#include "tool.h"
#ifdef CAY_PACK
#include "pack.h"
#endif
#include <base/mutant.h>
#include <base/path.h>
#include <grp.h>
#include <proto/mnt.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define ARGS_MAX   1024
#define SAY_EVERY  (8u << 20)
#define TREE       "t"        /* in a stage */
#define APART_ARGS (1u << 20) /* bytes, of a server that is not root */

static const struct {
    const char *name;
    int (*run)(tool *t, cay_err *err);
} verbs[] = {
    { "build", build_run },   { "apply", apply_run },   { "diff", diff_run },
    { "digest", digest_run }, { "look", look_run },     { "merge", merge_run },
    { "on", on_run },         { "purge", purge_run },   { "remove", remove_run },
    { "volume", volume_run },
#ifdef CAY_PACK
    { "pack", pack_run },     { "unpack", unpack_run }, { "image", image_run },
#endif
};

int tool_layer_name(const char *name, cay_err *err)
{
    size_t n = strlen(name);
    if (!n || n > 63 || *name == '.' || strchr(name, '/') || strpbrk(name, ":,\\"))
        return cay_fail_why(err, CAY_EINVAL, "layer_invalid",
                            "\"%.63s\" is not the name of a layer", name);
    return 0;
}

bool tool_one_name(const char *name)
{
    return *name && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, "..");
}

int tool_layer_open(tool *t, const char *name, int *fd, cay_err *err)
{
    CAY_TRY(tool_layer_name(name, err));
    *fd = cay__dir_at(t->layers, name);
    if (*fd < 0 && errno == ENOENT)
        return cay_fail_why(err, CAY_ENOENT, "layer_missing", "there is no layer %s", name);
    if (*fd < 0)
        return cay_fail_sys(err, "open layer %s", name);
    return 0;
}

/* The lock tells who sweeps that somebody is at work. */
int tool_stage(tool *t, char name[40], int *fd, cay_err *err)
{
    char id[24];
    uid_t owner = tool_base(t);
    cay__id_make(id, 'l');
    cay__str_join(name, 40, ".stage-", id, NULL);
    CAY_TRY_SYS(mkdirat(t->layers, name, CAY__MUTANT("apart-stage") ? 0755 : 0700), err,
                "make a directory in layers/");
    /* Below a directory that nobody else may enter: what has the modes of a tenant's choice could
     * be changed under our hands. Open until we end, for its lock. */
    int shut = cay__dir_at(t->layers, name);
    bool made = shut >= 0 && flock(shut, LOCK_EX | LOCK_NB) == 0 && mkdirat(shut, TREE, 0755) == 0;
    CAY_AUTOFD at = -1;
    if (made)
        at = cay__dir_at(shut, TREE);
    if (at < 0 || fchown(at, owner, owner) < 0) {
        int rc = cay_fail_sys(err, "make a directory in layers/");
        if (made)
            unlinkat(shut, TREE, AT_REMOVEDIR);
        unlinkat(t->layers, name, AT_REMOVEDIR);
        return rc;
    }
    *fd = CAY_STEAL_FD(at);
    return 0;
}

int tool_publish(tool *t, const char *stage, const char *layer, cay_err *err)
{
    CAY_TRY(tool_layer_name(layer, err));
    char made[44];
    CAY_JOIN(made, stage, "/" TREE);
    CAY_TRY_SYS(renameat2(t->layers, made, t->layers, layer, RENAME_NOREPLACE), err,
                "publish layer %s", layer);
    unlinkat(t->layers, stage, AT_REMOVEDIR);
    return 0;
}

int tool_check(tool *t, cay_err *err)
{
    struct pollfd p = { .fd = TOOL_SOCK, .events = 0 };
    if (++t->ticks % 64 || poll(&p, 1, 0) <= 0 || !(p.revents & (POLLHUP | POLLERR)))
        return 0;
    return cay_fail(err, CAY_ECANCELED, "nobody waits for the answer any more");
}

int tool_say(tool *t, uint32_t type, cay__buf *b, cay_err *err)
{
    if (cay__rec_send_buf(TOOL_SOCK, type, b))
        return 0;
    return cay_fail_sys_as(err, errno == EPIPE ? CAY_ECANCELED : CAY_ESYS, "answer");
}

int tool_progress(tool *t, uint64_t *said, uint64_t items, uint64_t bytes, cay_err *err)
{
    CAY_AUTOBUF b = CAY__BUF(64);
    if (bytes - *said < SAY_EVERY && items % 4096)
        return 0;
    *said = bytes;
    cay__rec_num(&b, items);
    cay__rec_num(&b, bytes);
    return tool_say(t, CAY__REC_PROGRESS, &b, err);
}

static bool take_word(const tool_word *w, const char *arg)
{
    size_t n = strlen(w->key);
    const char *v = arg + n;
    if (strncmp(arg, w->key, n) || (*v && v[-1] != '='))
        return false;
    if (w->value)
        *w->value = v;
    if (w->flag)
        *w->flag = true;
    if (w->number)
        return cay__str_to_u64(v, w->number) && *w->number <= w->most;
    if (w->list && *w->n < w->most)
        w->list[(*w->n)++] = v;
    else
        return !w->list;
    return true;
}

int tool_words(const tool *t, const char *verb, const tool_word *words, size_t n, cay_err *err)
{
    CAY_EACH_OF(arg, t->args, t->nargs) {
        bool known = false;
        CAY_EACH_OF(w, words, n)
            known |= take_word(w, *arg);
        if (!known)
            return cay_fail(err, CAY_EINVAL, "%s: %.60s", verb, *arg);
    }
    return 0;
}

/* Root of the namespace that the layers' ids belong to; a capability beyond it is never gained. */
static int enter_user(cay_err *err)
{
    CAY_TRY_SYS(setns(TOOL_USER, CLONE_NEWUSER), err, "enter the keeper's user namespace");
    if (setresgid(0, 0, 0) < 0 || setresuid(0, 0, 0) < 0)
        return cay_fail_sys(err, "become root of the keeper's user namespace");
    return 0;
}

/* Above every number that a verb looks at: a descriptor that did not come is none, and not one of
 * ours. */
static int move_fd_high(int fd)
{
    int to = -1;
    if (fd >= 0)
        to = fcntl(fd, F_DUPFD_CLOEXEC, TOOL_FD + TOOL_FDS);
    cay__close_fd(&fd);
    return to;
}

/* The working directory goes along into the new mount namespace; the descriptor we got would stay
 * in the old one. */
static int enter_state_dir(tool *t, cay_err *err)
{
    t->root = fcntl(TOOL_USER, F_GETFD) < 0;
    if (!t->root)
        CAY_TRY(enter_user(err));
    CAY_TRY_SYS(fchdir(TOOL_HOME), err, "enter the state directory");
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return cay_fail_sys(err, "make a mount namespace");
    t->umask = umask(0);
    if (mkdir("layers", 0711) < 0 && errno != EEXIST)
        return cay_fail_sys(err, "make layers/");
    t->home = move_fd_high(open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    t->layers = move_fd_high(open("layers", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (t->home < 0 || t->layers < 0)
        return cay_fail_sys(err, "open layers/");
    return 0;
}

static void quiet_start(void)
{
    struct rlimit r;
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_NAME, "cay-layer");
    if (getrlimit(RLIMIT_NOFILE, &r) == 0) { /* views of stacks and deep trees */
        r.rlim_cur = r.rlim_max;
        setrlimit(RLIMIT_NOFILE, &r);
    }
    for (int fd = TOOL_SOCK; fd < TOOL_FD + TOOL_FDS; fd++)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* What a stack stands on, or what is above a directory there. */
static bool of_the_host(const char *arg)
{
    static const char *const words[] = { "root=", "a-on=", "b-on=" };
    CAY_EACH(word, words)
        if (cay__str_starts(arg, *word))
            return true;
    return *arg == '/' || !strcmp(arg, "on");
}

static int read_request(tool *t, cay_err *err)
{
    CAY_AUTOBUF room = { 0 };
    cay__rec r;
    size_t total = 0;
    t->args = cay__alloc(ARGS_MAX * sizeof *t->args);
    for (int n; (n = cay__rec_read(TOOL_SOCK, &room, &r)) == 1;) {
        if (r.type == CAY__REC_GO)
            return 0;
        if (r.type != CAY__REC_ARG || t->nargs == ARGS_MAX)
            break;
        char *arg = cay__alloc(r.left + 1);
        memcpy(arg, r.p, r.left);
        /* As root, for somebody who is not: what is below a stack is a layer, and no directory of
         * the host. */
        total += r.left;
        if (t->apart && !CAY__MUTANT("apart-host") && (total > APART_ARGS || of_the_host(arg))) {
            free(arg);
            return cay_fail_why(err, CAY_EPERM, "apart_refused",
                                "a server beside a keeper of root's names no directory of the "
                                "host, and says what it wants in %u kB",
                                APART_ARGS >> 10);
        }
        t->args[t->nargs++] = arg;
    }
    return cay_fail_why(err, CAY_EINVAL, "protocol", "the request has a wrong form");
}

static void say_end(tool *t, int rc, const cay_err *err)
{
    if (rc == 0) {
        cay__rec_send_buf(TOOL_SOCK, CAY__REC_DONE, &t->out);
        return;
    }
    t->out.len = 0;
    cay__rec_num(&t->out, (uint64_t)(int64_t)rc);
    cay__rec_num(&t->out, (uint64_t)err->sys);
    cay__rec_str(&t->out, err->reason);
    cay__rec_str(&t->out, err->msg);
    cay__rec_send_buf(TOOL_SOCK, CAY__REC_FAIL, &t->out);
}

static int run_verb(tool *t, const char *verb, cay_err *err)
{
    CAY_TRY(enter_state_dir(t, err));
    CAY_TRY(read_request(t, err));
    CAY_EACH(it, verbs)
        if (!strcmp(it->name, verb))
            return it->run(t, err);
    return cay_fail(err, CAY_EINVAL, "cay-layer knows no verb %.40s", verb);
}

static void tool_clear(tool *t)
{
    CAY_EACH_OF(arg, t->args, t->nargs)
        free((char *)*arg);
    free(t->args);
    cay__buf_clear(&t->out);
    cay__close_fd(&t->home);
    cay__close_fd(&t->layers);
}

int main(int argc, char **argv)
{
    tool t = { .home = -1, .layers = -1, .out = CAY__BUF(CAY__REC_MAX) };
    cay_err err = CAY_ERR_INIT;
    uint64_t uid = 0;
    t.apart = argc == 3;
    if (argc < 2 || argc > 3 || (t.apart && !cay__str_to_u64(argv[2], &uid)) ||
        fcntl(TOOL_SOCK, F_GETFD) < 0 || fcntl(TOOL_HOME, F_GETFD) < 0) {
        dprintf(2, "cay-layer is started by libcay; it works on the layers of a state directory\n");
        return 2;
    }
    t.uid = (uid_t)uid;
    if (t.apart)
        meta_apart(t.uid);
    quiet_start();
    int rc = run_verb(&t, argv[1], &err);
    say_end(&t, rc, &err);
    tool_clear(&t);
    return rc < 0;
}
