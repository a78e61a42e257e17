/* SPDX-License-Identifier: Apache-2.0 */
/* S-08 to S-14, S-17: files, mounts, templates. */
#include "attack.h"
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

/* A directory of the host that everybody may change, with one file: the canary. */
static void canary_make(char *dir, size_t cap, const char *name)
{
    char file[500];
    snprintf(dir, cap, "%s/%s", W.dir, name);
    snprintf(file, sizeof file, "%s/file", dir);
    if (mkdir(dir, 0777) < 0 || chmod(dir, 0777) < 0 || !host_put(file, SECRET "\n") ||
        chmod(file, 0666) < 0)
        give_up("%s: %s", dir, strerror(errno));
}

static void canary_check(const char *dir)
{
    char file[500], text[256];
    struct stat st;
    int n = 0;
    snprintf(file, sizeof file, "%s/file", dir);
    CHECK(host_get(file, text, sizeof text) && !strcmp(text, SECRET "\n"),
          "the host's file now holds \"%s\"", text);
    CHECK(stat(file, &st) == 0 && (st.st_mode & 07777) == 0666, "the host's file has another mode");
    DIR *d = opendir(dir);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' && strcmp(e->d_name, "file")) {
            n++;
            breach("%s appeared on the host", e->d_name);
        }
    if (d)
        closedir(d);
    if (n)
        return;
    unlink(file);
    rmdir(dir);
}

static void s08_root(void)
{
    cay_sandbox *sb = box_new(NULL);
    inside(sb, NULL, "root", W.dir, "cay-attack.", NULL);
    if (W.mode & MANY_IDS)
        inside(sb, "root", "root", W.dir, NULL);
    box_remove(sb);
}

static int count_entry(const cay_dirent *e, void *arg)
{
    (void)arg;
    CHECK(strcmp(e->path, "file"), "the listing goes out through a link");
    return 0;
}

static int no_match(const cay_match *m, void *arg)
{
    (void)arg;
    breach("grep reads \"%.*s\"", (int)m->text_len, m->text);
    return 0;
}

static void through(cay_sandbox *sb, const char *link)
{
    cay_err err = CAY_ERR_INIT;
    cay_stat st = { .size_of = sizeof st };
    char file[64], fresh[64], *data = NULL;
    size_t len = 0;
    cay_write w = { .size = sizeof w, .parents = true };
    cay_grep g = { .size = sizeof g, .pattern = "s3cr3t", .plain = true };
    snprintf(file, sizeof file, "%s/file", link);
    snprintf(fresh, sizeof fresh, "%s/new", link);
    if (cay_file_get(sb, within(5000), file, 1 << 20, &data, &len, &err) == 0) {
        CHECK(!strstr(data, SECRET), "get %s reads the host", file);
        free(data);
    }
    cay_file_put(sb, within(5000), fresh, "x", 1, &w, &err);
    cay_file_put(sb, within(5000), file, "x", 1, &w, &err);
    cay_file_mkdir(sb, within(5000), fresh, 0755, true, &err);
    CHECK(cay_file_stat(sb, within(5000), file, true, &st, &err) < 0 ||
              st.size != strlen(SECRET) + 1,
          "stat %s sees the host", file);
    cay_file_chmod(sb, within(5000), file, 0777, &err);
    cay_file_rename(sb, within(5000), file, "stolen", &err);
    cay_dir_list(sb, within(5000), link, 0, count_entry, NULL, &err);
    cay_file_glob(sb, within(5000), link, "**", count_entry, NULL, &err);
    cay_file_grep(sb, within(5000), link, &g, no_match, NULL, &err);
    cay_file_setxattr(sb, within(5000), file, "user.x", "x", 1, &err);
    cay_file_remove(sb, within(5000), file, false, &err);
    cay_file_remove(sb, within(5000), link, true, &err);
}

static void s09_links(void)
{
    char dir[300], up[400], proc1[400], self[400];
    cay_err err = CAY_ERR_INIT;
    canary_make(dir, sizeof dir, "outside");
    snprintf(up, sizeof up, "../../../../../../../..%s", dir);
    snprintf(proc1, sizeof proc1, "/proc/1/root%s", dir);
    snprintf(self, sizeof self, "/proc/self/root/../../../..%s", dir);
    const char *targets[] = { dir, up, proc1, self };
    cay_sandbox *sb = box_new(NULL);
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        char name[16];
        snprintf(name, sizeof name, "link%zu", i);
        if (cay_file_symlink(sb, within(5000), targets[i], name, &err) < 0)
            give_up("symlink: %s", err.msg);
        through(sb, name);
        through(sb, targets[i]);
    }
    char *data = NULL, mine[64] = "";
    size_t len = 0;
    host_get("/etc/shadow", mine, sizeof mine);
    cay_file_symlink(sb, within(5000), "/etc/shadow", "shadow", &err);
    if (mine[0] && cay_file_get(sb, within(5000), "shadow", 1 << 20, &data, &len, &err) == 0) {
        CHECK(strncmp(data, mine, strlen(mine)) != 0, "the host's /etc/shadow was read");
        free(data);
    }
    canary_check(dir);
    box_remove(sb);
}

static void s10_race(void)
{
    char dir[300];
    unsigned long tries = 0, fine = 0;
    cay_err err = CAY_ERR_INIT;
    cay_exit end = { .size = sizeof end };
    cay_write w = { .size = sizeof w, .parents = true };
    canary_make(dir, sizeof dir, "target");
    cay_sandbox *sb = box_new(NULL);
    cay_proc *p = inside_start(sb, NULL, "swap", dir, "100000", NULL);
    int exit_fd = cay_proc_exit_fd(p, &err);
    for (int64_t t = now_ms(); now_ms() - t < 20000; tries++) {
        cay_exit peek = { .size = sizeof peek };
        if (exit_fd < 0 || cay_proc_wait(p, within(1), &peek, &err) == 0)
            break;
        fine += cay_file_put(sb, within(5000), "d/new", "x", 1, &w, &err) == 0;
        fine += cay_file_put(sb, within(5000), "d/sub/new", "x", 1, &w, &err) == 0;
        fine += cay_file_remove(sb, within(5000), "d/file", false, &err) == 0;
        fine += cay_file_mkdir(sb, within(5000), "d/a/b", 0777, true, &err) == 0;
        fine += cay_file_remove(sb, within(5000), "d/sub", true, &err) == 0;
        fine += cay_file_chmod(sb, within(5000), "d/file", 0777, &err) == 0;
    }
    note("%lu rounds of six calls, %lu calls worked", tries, fine);
    CHECK(tries > 20, "only %lu rounds", tries);
    CHECK(cay_proc_wait(p, within(20000), &end, &err) == 0 && end.code == 0,
          "the swapper ended by %d", end.code);
    cay_proc_unref(p);
    canary_check(dir);
    box_remove(sb);
}

static void s12_readonly(void)
{
    char dir[300], sub[400], gone[400], text[64];
    canary_make(dir, sizeof dir, "grant");
    snprintf(sub, sizeof sub, "%s/dir", dir);
    mkdir(sub, 0777);
    chmod(sub, 0777);
    cay_grant g = { .source = dir, .target = "/grant" };
    cay_create spec = { .size = sizeof spec, .files.grants = &g, .files.ngrants = 1 };
    cay_sandbox *sb = box_new(&spec);
    inside(sb, NULL, "readonly", "/grant", NULL);
    if (W.mode & MANY_IDS)
        inside(sb, "root", "readonly", "/grant", NULL);
    inside(sb, NULL, "root", "+/grant", W.home, NULL);
    inside(sb, NULL, "flags", NULL);
    cay_err err = CAY_ERR_INIT;
    cay_write w = { .size = sizeof w };
    CHECK(cay_file_put(sb, within(5000), "/grant/api", "x", 1, &w, &err) < 0,
          "the API writes into a read-only grant");
    snprintf(gone, sizeof gone, "%s/file", dir);
    CHECK(host_get(gone, text, sizeof text) && !strcmp(text, SECRET "\n"),
          "the granted file changed");
    box_remove(sb);
    rmdir(sub);
    canary_check(dir);
}

static struct {
    char real[300], link[300];
    volatile bool stop;
} X;

static void *exchange(void *arg)
{
    (void)arg;
    for (unsigned i = 0; !X.stop; nap(i++ % 3))
        syscall(SYS_renameat2, AT_FDCWD, X.real, AT_FDCWD, X.link, 2 /* RENAME_EXCHANGE */);
    return NULL;
}

/* Neither by name, nor by a link, nor by a name that is another directory at the next look. */
static void s12_refused(void)
{
    char boxes[400], link[400];
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb = NULL;
    pthread_t t;
    unsigned made = 0, tries = 0;
    snprintf(boxes, sizeof boxes, "%s/sandboxes", W.home);
    snprintf(link, sizeof link, "%s/link", W.dir);
    snprintf(X.real, sizeof X.real, "%.200s/swap", W.dir);
    snprintf(X.link, sizeof X.link, "%.200s/swap2", W.dir);
    if (symlink(W.home, link) < 0 || symlink(W.home, X.link) < 0 || mkdir(X.real, 0777) < 0)
        give_up("set-up: %s", strerror(errno));
    const char *never[] = { W.home,  W.dir,        boxes,         link,   W.sockets,  "/",
                            "/proc", "/proc/self", "/sys/kernel", "/dev", "/dev/pts", "/dev/null" };
    cay_grant g = { .target = "/grant", .rw = true };
    cay_create spec = { .size = sizeof spec, .files.grants = &g, .files.ngrants = 1 };
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        g.source = never[i];
        int rc = cay_client_create(W.client, within(10000), &spec, &sb, &err);
        CHECK(rc == CAY_EPERM || rc == CAY_ETYPE || rc == CAY_EINVAL || rc == CAY_ENOENT,
              "a grant of %s gives %s", never[i], cay_code_name(rc));
        if (rc == 0)
            box_remove(sb);
    }
    g.source = X.real;
    pthread_create(&t, NULL, exchange, NULL);
    for (int64_t end = now_ms() + 2000; now_ms() < end; tries++) {
        char mounts[4096] = "";
        if (cay_client_create(W.client, within(10000), &spec, &sb, &err) < 0)
            continue;
        made++;
        /* as the kernel names it: nobody inside may look into a directory that is its owner's alone
         */
        command(sb, NULL, "grep ' /grant ' /proc/self/mountinfo", mounts, sizeof mounts);
        bool bad = !strstr(mounts, "/swap");
        CHECK(!bad, "another directory is granted: %s", mounts);
        box_remove(sb);
        if (bad)
            break;
    }
    X.stop = true;
    pthread_join(t, NULL);
    note("%u of %u creates worked", made, tries);
    CHECK(tries > 20, "only %u tries", tries);
    unlink(link);
    for (int i = 0; i < 2; i++)
        if (unlink(i ? X.link : X.real) < 0)
            rmdir(i ? X.link : X.real);
}

/* A checkout that may be written: what the host's own tools obey there stays as it was, a file
 * ".git" too. */
static void s12_checkout(void)
{
    static const char *const obeyed[] = { "a/.git/config",
                                          "a/.git/hooks/x",
                                          "a/.git/modules/m/config",
                                          "a/.git/info/attributes",
                                          "a/.envrc",
                                          "a/.vscode/tasks.json",
                                          "b/.git" };
    static const char attack_on[] =
        "cd /a; for f in .git/config .git/hooks/x .git/modules/m/config .git/info/attributes "
        ".envrc .vscode/tasks.json; do "
        "echo evil >$f; echo evil >>$f; rm -f $f; ln -f $f link && echo evil >link; "
        "echo evil >new; mv -f new $f; cp --remove-destination new $f; done; "
        "mv .git old; rm -rf .git/hooks .git/config .vscode; mv .git/hooks .git/h; mv .vscode v; "
        "mkdir .git/hooks/y; "
        "cd /b; echo gitdir: /evil >.git; rm -f .git; mv .git old; echo evil >new; mv -f new .git; "
        "true";
    char dir[300], path[500], cmd[2400], text[64];
    snprintf(dir, sizeof dir, "%s/checkout", W.dir);
    snprintf(cmd, sizeof cmd,
             "mkdir -p %s/a/.git/hooks %s/a/.git/modules/m %s/a/.git/info %s/a/.vscode %s/b && cd "
             "%s && for f in a/.git/config "
             "a/.git/hooks/x a/.git/modules/m/config a/.git/info/attributes a/.envrc "
             "a/.vscode/tasks.json b/.git; do echo mine >$f; done; chmod -R a+rwX .",
             dir, dir, dir, dir, dir, dir);
    if (host_shell(cmd) != 0)
        give_up("set-up of %s", dir);
    char a[400], b[400];
    snprintf(a, sizeof a, "%s/a", dir);
    snprintf(b, sizeof b, "%s/b", dir);
    cay_grant g[] = { { .source = a, .target = "/a", .rw = true },
                      { .source = b, .target = "/b", .rw = true } };
    cay_create spec = { .size = sizeof spec, .files.grants = g, .files.ngrants = 2 };
    cay_sandbox *sb = box_new(&spec);
    command(sb, NULL, attack_on, NULL, 0);
    if (W.mode & MANY_IDS)
        command(sb, "root", attack_on, NULL, 0);
    CHECK(command(sb, W.mode & MANY_IDS ? "root" : NULL,
                  "echo x >/a/plain && echo x >/a/.git/HEAD && echo x >/b/plain", NULL, 0) == 0,
          "the rest of the checkout cannot be written");
    box_remove(sb);
    for (size_t i = 0; i < sizeof obeyed / sizeof *obeyed; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, obeyed[i]);
        CHECK(host_get(path, text, sizeof text) && !strcmp(text, "mine\n"), "%s now holds \"%s\"",
              obeyed[i], text);
    }
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    host_shell(cmd);
}

static void s13_special(void)
{
    static const char *const names[] = { "fifo", "sock",      "link",       "zero",
                                         "loop", "/dev/zero", "/workspace", "/proc/kmsg" };
    cay_err err = CAY_ERR_INIT;
    cay_sandbox *sb = box_new(NULL);
    inside(sb, NULL, "special", NULL);
    inside(sb, NULL, "nodes", NULL);
    if (W.mode & MANY_IDS)
        inside(sb, "root", "nodes", NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *data = NULL;
        size_t len = 0;
        int fd = -1;
        int64_t t = now_ms();
        int rc = cay_file_get(sb, within(30000), names[i], 1 << 20, &data, &len, &err);
        CHECK(rc < 0 && rc != CAY_ETIMEOUT, "get %s gives %d", names[i], rc);
        rc = cay_file_open_read(sb, within(30000), names[i], NULL, &fd, &err);
        CHECK(rc < 0 && rc != CAY_ETIMEOUT, "open %s gives %d", names[i], rc);
        if (fd >= 0)
            close(fd);
        CHECK(now_ms() - t < soon(300), "%s took %lld ms twice", names[i],
              (long long)(now_ms() - t));
        free(rc == 0 ? data : NULL);
    }
    bool yes = false;
    CHECK(cay_file_exists(sb, within(10000), "fifo", &yes, &err) == 0 && yes,
          "the worker hangs: %s", err.msg);
    box_remove(sb);
}

static void s14_propagation(void)
{
    char dir[300], sub[400], flag[500];
    canary_make(dir, sizeof dir, "shared");
    snprintf(sub, sizeof sub, "%s/late", dir);
    snprintf(flag, sizeof flag, "%s/flag", sub);
    mkdir(sub, 0777);
    chmod(sub, 0777);
    cay_grant g = { .source = dir, .target = "/grant", .rw = true };
    cay_create spec = { .size = sizeof spec, .files.grants = &g, .files.ngrants = 1 };
    cay_sandbox *sb = box_new(&spec), *later;
    if (!as_host("mount %s", sub))
        give_up("the host cannot mount");
    if (!host_put(flag, "x"))
        give_up("%s: %s", flag, strerror(errno));
    inside(sb, NULL, "appears", "/grant/late/flag", NULL);
    inside(sb, NULL, "root", "+/grant", W.home, NULL);
    later = box_new(&spec); /* asked for after the mount: still only the directory itself */
    inside(later, NULL, "root", "+/grant", W.home, NULL);
    as_host("umount %s", sub);
    for (unsigned i = 0; i < many(100); i++)
        box_remove(box_new(NULL)); /* the judge counts the host's mounts afterwards */
    box_remove(later);
    box_remove(sb);
    rmdir(sub);
    canary_check(dir);
}

static void make_root(char *root, size_t cap, const char *name)
{
    char cmd[2400];
    snprintf(root, cap, "%s/%s", W.dir, name);
    snprintf(cmd, sizeof cmd,
             "mkdir -p %s/bin %s/etc %s/tmp && chmod 1777 %s/tmp && cp %s/probe %s/bin/probe", root,
             root, root, root, W.bin, root);
    int status = -1, pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", cmd, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, &status, 0);
    if (status)
        give_up("make %s", root);
}

static void remove_root(const char *root)
{
    int pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", "--", root, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, NULL, 0);
}

static void s17_template(void)
{
    static const struct {
        const char *name, *link, *to;
        bool may_work;
    } lies[] = {
        { "lie-null", "dev/null", "/proc/sys/kernel/core_pattern", true },
        { "lie-proc", "proc", "/tmp", false },
        { "lie-dev", "dev", "/etc", false },
        { "lie-run", "run", "tmp", false },
        { "lie-etc", "etc", "/proc/sys/kernel", false },
        { "lie-workspace", "workspace", "/proc", false },
    };
    char before[256], after[256], root[300], link[400];
    host_get("/proc/sys/kernel/core_pattern", before, sizeof before);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        make_root(root, sizeof root, lies[i].name);
        snprintf(link, sizeof link, "%s/dev", root);
        if (!strncmp(lies[i].link, "dev/", 4))
            mkdir(link, 0755);
        snprintf(link, sizeof link, "%s/%s", root, lies[i].link);
        rmdir(link);
        if (symlink(lies[i].to, link) < 0)
            give_up("%s: %s", link, strerror(errno));
        cay_err err = CAY_ERR_INIT;
        cay_sandbox *sb = NULL;
        cay_create spec = { .size = sizeof spec, .from.root = root };
        int rc = cay_client_create(W.client, within(20000), &spec, &sb, &err);
        CHECK(rc < 0 || lies[i].may_work, "a template whose /%s is a link to %s is accepted",
              lies[i].link, lies[i].to);
        if (rc == 0) {
            inside_spec(sb, &(cay_spawn){ .argv = (const char *[]){ "/bin/probe", "masks", NULL },
                                          .cwd = "/" });
            inside_spec(sb, &(cay_spawn){ .argv = (const char *[]){ "/bin/probe", "devices", NULL },
                                          .cwd = "/" });
            box_remove(sb);
        } else {
            note("/%s as a link: %s", lies[i].link, err.msg);
        }
        remove_root(root);
    }
    host_get("/proc/sys/kernel/core_pattern", after, sizeof after);
    CHECK(!strcmp(before, after), "the host's core_pattern is now %s", after);
}

const attack fs_attacks[] = {
    { "S-08", "the root is the root", ALL, "old-root", NULL, s08_root },
    { "S-09", "the file API follows links inside only", ALL, NULL,
      "file operations are made by a worker inside the mount namespace; there is no check that "
      "could be left out",
      s09_links },
    { "S-10", "names that change under the file API", ALL, NULL, "as S-09", s10_race },
    { "S-12", "a read-only grant is read-only", ALL, "grant-ro", NULL, s12_readonly },
    { "S-12b", "a writable checkout keeps what the host obeys", ALL, "guard", NULL, s12_checkout },
    { "S-12c", "no grant of the state, the sockets, the kernel's views", ALL, "grant-race", NULL,
      s12_refused },
    { "S-13", "special files do not hold the API", ALL, "file-type", NULL, s13_special },
    { "S-14", "mounts do not propagate", ALL, "propagation", NULL, s14_propagation },
    { "S-17", "a template cannot bend mounts", ALL, "walk-links", NULL, s17_template },
    { 0 },
};
