/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apart_ask HOME VOLUME | hold: what somebody who took over a server that is not root would ask of
 * cay-hand and of root's keeper, as that user. A line each: what, and the reason or code of the
 * answer; with hold: a program that root runs for us stays, waiting for an archive, until standard
 * input ends. test_apart.py starts it and knows what has to stand there.
 */
#include <base/base.h>
#include <base/fd.h>
#include <base/path.h>
#include <base/str.h>
#include <fcntl.h>
#include <proto/keeper.h>
#include <lib/snapshot/layer.h>
#include <limits.h>
#include <lib/provider/native/root_helper.h>
#include <lib/provider/native/native.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/uio.h>

static int home;
static char layer[64];

static void tell(const char *what, int code, const char *reason)
{
    printf("%s: %s\n", what, code == 0 ? "done" : *reason ? reason : cay_code_name(code));
}

static int dial(void)
{
    cay_err err = CAY_ERR_INIT;
    int sock = -1;
    for (int i = 0; i < 20; i++)
        if (cay__hand_ask(home, NULL, &(hand_ask){ .verb = HAND_DIAL }, NULL, 0, NULL, &sock, NULL,
                          &err) == 0)
            return sock;
    fprintf(stderr, "no connection: %s\n", err.msg);
    exit(1);
}

/* A sandbox with what `fd` is, if there is one, in the way that flags and bits say. */
static void create(const char *what, int sock, uint32_t flags, uint32_t store, uint32_t mount,
                   bool grant, int fd)
{
    static const char config[] = "user\0/workspace\0\0\0", target[] = "/x";
    struct {
        cay_msg h;
        cay_m_create m;
    } q = { { CAY_MSG_MAGIC, CAY_MSG_VERSION, CAY_MSG_CREATE, 0, 0 },
            { .flags = flags,
              .ngrants = grant,
              .grants_rw = grant,
              .grants_store = store,
              .grants_mount = mount } };
    struct {
        cay_msg h;
        cay_m_error e;
        char room[2048];
    } a = { 0 };
    cay__id_make(q.m.id, 'c');
    cay__str_copy(q.m.layer, sizeof q.m.layer, layer);
    q.m.memory = q.m.cpu_milli = q.m.io_read = q.m.io_write = UINT64_MAX;
    q.m.pids = 64;
    q.m.disk = q.m.inodes = 1 << 20;
    q.m.nofile = 256;
    q.h.tail = (uint32_t)((grant ? sizeof target : 0) + sizeof config - 1);
    struct iovec v[3] = { { &q, sizeof q },
                          { (void *)target, grant ? sizeof target : 0 },
                          { (void *)config, sizeof config - 1 } };
    if (cay__fd_sendv(sock, v, 3, &fd, fd >= 0, 0) < 0 ||
        recv(sock, &a, sizeof a, 0) < (ssize_t)sizeof a.h) {
        perror(what);
        exit(1);
    }
    tell(what, a.h.type == CAY_MSG_ERROR ? a.e.code : 0, a.e.reason);
}

static void ask_keeper(const char *volume)
{
    int sock = dial(), other = dial(), etc = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
    char path[PATH_MAX];
    snprintf(path, sizeof path, "volumes/%s", volume);
    CAY_AUTOFD mine = openat(home, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    create("create", sock, 0, 0, 0, false, -1);
    create("volume", sock, 0, 1, 0, true, mine);
    create("root", sock, CAY_CREATE_ROOT_FD, 0, 0, false, etc);
    create("grant", sock, 0, 0, 0, true, etc);
    create("copy-on-write", sock, CAY_CREATE_ON, 1, 0, true, etc);
    create("mount", sock, 0, 1, 1, true, etc);
    create("disk", sock, CAY_CREATE_DISK, 0, 0, false, etc);
    create("false volume", sock, 0, 1, 0, true, etc);
    /* In a mount namespace of its own the volume's name leads to another directory. */
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0 || fchdir(home) < 0 ||
        mount("/etc", path, NULL, MS_BIND, NULL) < 0) {
        printf("covered volume: not here\n");
        return;
    }
    CAY_AUTOFD covered = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    create("covered volume", other, 0, 1, 0, true, covered);
}

static void ask(const char *what, hand_ask q, const char *name, const char *more, const int *fds,
                int n)
{
    cay_err err = CAY_ERR_INIT;
    int leash = -1;
    cay__str_copy(q.name, sizeof q.name, name);
    cay__str_copy(q.more, sizeof q.more, more);
    int rc = cay__hand_ask(home, NULL, &q, fds, n, NULL, NULL, &leash, &err);
    tell(what, rc, err.reason);
    cay__close_fd(&leash);
}

static int on_record(cay__rec *rec, void *arg, cay_err *err)
{
    (void)rec, (void)arg, (void)err;
    return 0;
}

static void run(const char *what, const char *at, const char *verb, const char *const *args,
                size_t n)
{
    cay_err err = CAY_ERR_INIT;
    const cay__layer_ask q = { .verb = verb, .args = args, .nargs = n };
    int rc = cay__layer_run(&(cay__layer_at){ .home = at }, NULL, &q, NULL, &err);
    tell(what, rc, err.reason);
}

typedef struct node {
    char type;
    const char *path, *text;
} node;

static void build(const char *what, const char *at, const char *user, const node *nodes, size_t n,
                  bool sealed)
{
    CAY_AUTOBUF b = CAY__BUF(1 << 20);
    cay_err err = CAY_ERR_INIT;
    cay__rec_num(&b, 0); /* roots */
    cay__rec_num(&b, 0); /* groups */
    cay__rec_num(&b, user != NULL);
    if (user)
        cay__rec_str(&b, user);
    cay__rec_str(&b, "");
    cay__rec_num(&b, n);
    for (size_t i = 0; i < n; i++) {
        cay__rec_num(&b, (uint64_t)nodes[i].type);
        cay__rec_num(&b, 0666);
        cay__rec_num(&b, 0);
        cay__rec_str(&b, "");
        cay__rec_str(&b, nodes[i].path);
        cay__rec_num(&b, 0);
        cay__rec_str(&b, nodes[i].text);
    }
    CAY_AUTOFD plan = memfd_create("plan", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (plan < 0 || !cay__fd_write_all(plan, b.data, b.len) ||
        (sealed &&
         fcntl(plan, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) < 0))
        exit(1);
    const cay__layer_ask q = { .verb = "build",
                               .args = (const char *[]){ "lplanned", "1", "1", layer },
                               .nargs = 4,
                               .fds = &plan,
                               .nfds = 1,
                               .fn = on_record };
    int rc = cay__layer_run(&(cay__layer_at){ .home = at }, NULL, &q, NULL, &err);
    tell(what, rc, err.reason);
}

static void ask_builds(const char *at)
{
    build("a plan that changes", at, NULL, (node[]){ { 'd', "a", "" } }, 1, false);
    build("a plan with a link", at, NULL,
          (node[]){ { 'l', "x", "/etc" }, { 'f', "x/cay-escaped", "x" } }, 2, true);
    build("a plan with a way up", at, NULL, (node[]){ { 'd', "a", "" }, { 'd', "a/..", "" } }, 2,
          true);
    build("a user that is a path", at, "../../../../../../../etc/cay-escaped",
          (node[]){ { 'd', "a", "" } }, 1, true);
}

/* cay-pack waits for records of an archive. */
static void hold(void)
{
    int pair[2], out[2], leash = -1;
    cay_err err = CAY_ERR_INIT;
    hand_ask q = { .verb = HAND_TOOL, .op = HAND_PACK, .name = "unpack" };
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0 || pipe2(out, O_CLOEXEC) < 0 ||
        cay__hand_ask(home, NULL, &q, (int[]){ pair[1], out[0] }, 2, NULL, NULL, &leash, &err) < 0)
        exit(1);
    if (!cay__rec_send(pair[0], CAY__REC_ARG, "lheld", 5) ||
        !cay__rec_send(pair[0], CAY__REC_GO, NULL, 0))
        exit(1);
    printf("held\n");
    while (getchar() != EOF)
        ;
    close(pair[0]);
    close(out[1]);
    cay__hand_let_go(&leash);
}

static void ask_hand(const char *at)
{
    static const char *const refused[] = { "apply", "on", "purge", "../cay-keeper", "" };
    int pair[2], fds[2];
    char stack[80];
    snprintf(stack, sizeof stack, "a=%s", layer);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        exit(1);
    fds[0] = pair[1];
    for (size_t i = 0; i < CAY_LEN(refused); i++) {
        char what[64];
        snprintf(what, sizeof what, "tool %s", refused[i]);
        ask(what, (hand_ask){ .verb = HAND_TOOL }, refused[i], "", fds, 1);
    }
    fds[1] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ask("a directory for a tool", (hand_ask){ .verb = HAND_TOOL }, "digest", "", fds, 2);
    fds[1] = open("/proc/self/uid_map", O_RDWR | O_CLOEXEC);
    ask("a file of the kernel's", (hand_ask){ .verb = HAND_TOOL }, "digest", "", fds, 2);
    ask("clone elsewhere", (hand_ask){ .verb = HAND_CLONE }, "../../etc", "l", fds, 1);
    ask("quota elsewhere", (hand_ask){ .verb = HAND_QUOTA, .op = HAND_QUOTA_BOX }, "../../../etc",
        "", NULL, 0);
    ask("no verb", (hand_ask){ .verb = 99 }, "", "", NULL, 0);
    run("merge on the host", at, "merge", (const char *[]){ "/etc", "--", layer, "lmine" }, 4);
    run("diff with the host", at, "diff", (const char *[]){ "root=/etc", "a=x" }, 2);
    run("look at the host", at, "look", (const char *[]){ "root=/root", "path=/", "list" }, 3);
    run("look above", at, "look", (const char *[]){ "a=..", "path=/", "list" }, 3);
    run("look beside", at, "look", (const char *[]){ stack, "top=../../../etc", "path=/", "list" },
        4);
    run("diff above", at, "diff", (const char *[]){ stack, "b", "under=../../etc" }, 3);
    run("diff on nothing", at, "diff", (const char *[]){ stack, "on" }, 2);
    const cay__layer_ask pack = { .program = "cay-pack",
                                  .verb = "pack",
                                  .args = (const char *[]){ stack, "b-on=l" },
                                  .nargs = 2,
                                  .fds = &pair[1],
                                  .nfds = 1,
                                  .fn = on_record };
    cay_err err = CAY_ERR_INIT;
    int rc = cay__layer_run(&(cay__layer_at){ .home = at }, NULL, &pack, NULL, &err);
    tell("pack above the host", rc, err.reason);
    run("a volume elsewhere", at, "volume", (const char *[]){ "make", "../x" }, 2);
}

int main(int argc, char **argv)
{
    cay_err err = CAY_ERR_INIT;
    if (argc != 3 || cay__home_open(argv[1], &home, &err) < 0 ||
        cay__host_layer(home, layer, sizeof layer, &err) < 0) {
        fprintf(stderr, "apart_ask: %s\n", err.msg);
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!strcmp(argv[2], "hold")) {
        hold();
        return 0;
    }
    ask_hand(argv[1]);
    ask_builds(argv[1]);
    ask_keeper(argv[2]);
    return 0;
}
