/* SPDX-License-Identifier: Apache-2.0 */
/* S-22 to S-27: system calls, and the programs that must work in spite of the filter. */
#include "attack.h"
#include <dirent.h>

static void both(const char *name)
{
    cay_sandbox *sb = box_new(NULL);
    inside(sb, NULL, name, NULL);
    if (W.mode & MANY_IDS)
        inside(sb, "root", name, NULL);
    box_remove(sb);
}

static void s22_iouring(void)
{
    both("iouring");
}

static void s23_mounts(void)
{
    both("mounts");
}

static void s24_table(void)
{
    both("table");
}

static void s25_families(void)
{
    both("families");
}

static void s26_abi(void)
{
    both("abi");
}

static int parent_of(int pid)
{
    char path[64], text[8192], *at;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    return host_get(path, text, sizeof text) && (at = strstr(text, "\nPPid:")) ? atoi(at + 6) : 0;
}

/* From outside: init and all that descends from it. */
static void filtered_on_host(int init)
{
    DIR *d = opendir("/proc");
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[300], text[8192], *mode;
        int pid = atoi(e->d_name), up = pid;
        snprintf(path, sizeof path, "/proc/%s/status", e->d_name);
        while (up > 1 && up != init)
            up = parent_of(up);
        if (pid <= 0 || up != init || !host_get(path, text, sizeof text) || !(mode = strstr(text, "\nSeccomp:")))
            continue;
        n++;
        CHECK(mode[10] == '2', "process %s has no filter: %.60s", e->d_name, text);
        CHECK(strstr(text, "\nNoNewPrivs:\t1"), "process %s may gain privileges: %.60s", e->d_name, text);
    }
    if (d)
        closedir(d);
    CHECK(n > 3, "no process of a sandbox was seen");
}

static void s27_coverage(void)
{
    static const struct {
        const char *needs, *line;
    } programs[] = {
        { "/usr/bin/python3", "/usr/bin/python3 -c 'import threading,subprocess,json,socket; t=threading.Thread(target=print); t.start(); t.join(); print(subprocess.run([\"echo\",\"hi\"]).returncode)'" },
        { "/usr/bin/perl", "perl -e 'print `echo hi`'" },
        { "/usr/bin/node", "node -e 'require(\"child_process\").execSync(\"true\"); new (require(\"worker_threads\").Worker)(\"1\",{eval:true}); require(\"fs\").promises.readFile(\"/etc/passwd\").then(x=>console.log(x.length))'" },
        { "/usr/bin/java", "java -version" },
        { "/usr/bin/gcc", "printf '#include <stdio.h>\\nint main(void){puts(\"hi\");}' >a.c && gcc -O1 -o a a.c && ./a" },
        { "/usr/bin/git", "git init -q r && cd r && git config user.email a@b && git config user.name a && echo x >f && git add f && git commit -qm x && git gc -q && git log --oneline" },
        { "/usr/bin/sqlite3", "sqlite3 t.db 'pragma journal_mode=wal; create table t(a); insert into t values(1); select * from t;'" },
        { "/usr/bin/npm", "npm --version" },
        { "/usr/bin/apt", "apt --version" },
        { "/usr/bin/dash", "x=$(mktemp) && (sleep 0.01 & wait) && seq 1000 | sort -R | xargs -P2 -n100 echo | wc -l && tar cf - /etc | gzip | gzip -d | tar tf - | wc -l" },
    };
    cay_sandbox *sb = box_new(NULL);
    cay_proc *p = inside_start(sb, NULL, "idle", "2", NULL);
    inside(sb, NULL, "filter", NULL);
    filtered_on_host(box_init_pid(sb));
    cay_proc_unref(p);
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        char out[4096] = "";
        if (access(programs[i].needs, X_OK) < 0) {
            note("%s is not on this host", programs[i].needs);
            continue;
        }
        int rc = command(sb, NULL, programs[i].line, out, sizeof out);
        CHECK(rc == 0, "%s ended by %d: %.300s", programs[i].needs, rc, out);
    }
    box_remove(sb);
}

const attack sys_attacks[] = {
    { "S-22", "no io_uring", ALL, "seccomp-iouring", NULL, s22_iouring },
    { "S-23", "no mount call", ALL, "seccomp-mount", NULL, s23_mounts },
    { "S-24", "every denied number", ALL, "seccomp-off seccomp-modules seccomp-keyctl seccomp-handle seccomp-clock seccomp-prctl", NULL, s24_table },
    { "S-25", "socket families and upper-layer protocols", ALL, "seccomp-socket seccomp-ulp", NULL, s25_families },
    { "S-26", "no foreign ABI", ALL, "seccomp-abi", NULL, s26_abi },
    { "S-27", "the filter is everywhere, and programs work", ALL, "seccomp-none", NULL, s27_coverage },
    { 0 },
};
