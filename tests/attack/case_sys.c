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
        if (pid <= 0 || up != init || !host_get(path, text, sizeof text) ||
            !(mode = strstr(text, "\nSeccomp:")))
            continue;
        n++;
        CHECK(mode[10] == '2', "process %s has no filter: %.60s", e->d_name, text);
        CHECK(strstr(text, "\nNoNewPrivs:\t1"), "process %s may gain privileges: %.60s", e->d_name,
              text);
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
        { "/usr/bin/python3", "/usr/bin/python3 -c 'import "
                              "threading,subprocess,json,socket,multiprocessing,tempfile,asyncio; "
                              "t=threading.Thread(target=print); t.start(); t.join(); "
                              "assert subprocess.run([\"echo\",\"hi\"]).returncode == 0; "
                              "p=multiprocessing.Process(target=print); p.start(); p.join(); "
                              "asyncio.run(asyncio.sleep(0.01)); "
                              "s=socket.socket(); s.bind((\"127.0.0.1\",0)); s.listen(); "
                              "c=socket.create_connection(s.getsockname()); print(p.exitcode)'" },
        { "/usr/bin/pip3",
          "mkdir -p pk && printf 'from setuptools import "
          "setup\\nsetup(name=\"pk\",version=\"1\",py_modules=[\"pk\"])\\n' >pk/setup.py && echo "
          "'x=42' >pk/pk.py && "
          "/usr/bin/pip3 install -q --no-index --no-build-isolation --target=t ./pk && "
          "PYTHONPATH=t /usr/bin/python3 -c 'import pk; assert pk.x == 42'" },
        { "/usr/bin/perl", "perl -e 'print `echo hi`'" },
        { "/usr/bin/node",
          "node -e 'require(\"child_process\").execSync(\"true\"); new "
          "(require(\"worker_threads\").Worker)(\"1\",{eval:true}); const "
          "h=require(\"http\").createServer((q,r)=>r.end(\"hi\"));"
          "h.listen(0,()=>require(\"http\").get({port:h.address().port},r=>{r.resume();r.on("
          "\"end\",()=>h.close())})); "
          "require(\"fs\").promises.readFile(\"/etc/passwd\").then(x=>console.log(x.length))'" },
        { "/usr/bin/npm",
          "mkdir -p m app && echo '{\"name\":\"m\",\"version\":\"1.0.0\",\"main\":\"i.js\"}' "
          ">m/package.json && echo 'module.exports=42' >m/i.js && cd app && "
          "npm init -y >/dev/null && npm install --offline --no-audit --no-fund ../m && node -e "
          "'if (require(\"m\") !== 42) process.exit(1)'" },
        { "/usr/bin/java", "java -Xint -version" },
        { "/usr/bin/javac", "echo 'class A { public static void main(String[] a) throws Exception "
                            "{ Thread t = new Thread(() -> System.out.println(42)); t.start(); "
                            "t.join(); } }' >A.java && javac A.java && java A" },
        { "/usr/local/go/bin/go", "HOME=/tmp /usr/local/go/bin/go env GOROOT && printf 'package "
                                  "a\n' | /usr/local/go/bin/gofmt" },
        { "/usr/bin/gcc", "printf '#include <stdio.h>\\nint main(void){puts(\"hi\");}' >a.c && gcc "
                          "-O1 -o a a.c && ./a" },
        { "/usr/bin/make",
          "printf 'all: b c\\nb c:\\n\\ttouch $@\\n' >Makefile && make -j2 && test -e b" },
        { "/usr/bin/gdb", "gdb -batch -nx -ex 'break main' -ex run -ex bt -ex kill ./a" },
        { "/usr/bin/strace", "strace -f -o tr sh -c 'true; /bin/true' && grep -q exit_group tr" },
        { "/usr/bin/git",
          "git init -q r && cd r && git config user.email a@b && git config user.name a && echo x "
          ">f && git add f && git commit -qm x && git gc -q && "
          "git clone -q . ../r2 && git -C ../r2 log --oneline" },
        { "/usr/bin/sqlite3", "sqlite3 t.db 'pragma journal_mode=wal; create table t(a); insert "
                              "into t values(1); select * from t;'" },
        { "/usr/bin/apt", "apt --version && apt-get --version" },
        { "/usr/bin/dpkg-deb",
          "mkdir -p d/DEBIAN d/opt && printf 'Package: a\\nVersion: 1\\nArchitecture: "
          "all\\nMaintainer: a <a@b>\\nDescription: a\\n' >d/DEBIAN/control && "
          "echo x >d/opt/x && dpkg-deb -b d a.deb && dpkg-deb -x a.deb out && test -e out/opt/x" },
        { "/usr/bin/tmux", "tmux -L t new -d 'sleep 5' && tmux -L t ls && tmux -L t kill-server" },
        { "/usr/bin/ssh-keygen", "ssh-keygen -q -t ed25519 -N '' -f key && test -s key.pub" },
        { "/usr/bin/curl", "echo hi >h && curl -s file://$PWD/h" },
        { "/usr/bin/chromium", "chromium --headless --no-sandbox --disable-gpu --dump-dom "
                               "'data:text/html,<p>42</p>' | grep -q 42" },
        { "/usr/bin/dash",
          "x=$(mktemp) && (sleep 0.01 & wait) && seq 1000 | sort -R | xargs -P2 -n100 echo | wc -l "
          "&& tar cf - /etc | gzip | gzip -d | tar tf - | wc -l" },
    };
    cay_sandbox *sb = box_new(NULL);
    cay_proc *p = inside_start(sb, NULL, "idle", "2", NULL);
    inside(sb, NULL, "filter", NULL);
    filtered_on_host(box_init_pid(sb));
    cay_proc_unref(p);
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
        char out[4096] = "";
        if (access(programs[i].needs, X_OK) < 0) {
            note("not shown: %s is not on this host", programs[i].needs);
            continue;
        }
        int64_t t = now_ms();
        int rc = command(sb, NULL, programs[i].line, out, sizeof out);
        if (now_ms() - t > 5000)
            note("%s took %lld ms", programs[i].needs, (long long)(now_ms() - t));
        CHECK(rc == 0, "%s ended by %d: %.300s", programs[i].needs, rc, out);
    }
    box_remove(sb);
}

const attack sys_attacks[] = {
    { "S-22", "no io_uring", ALL, "seccomp-iouring", NULL, s22_iouring },
    { "S-23", "no mount call", ALL, "seccomp-mount", NULL, s23_mounts },
    { "S-24", "every denied number", ALL,
      "seccomp-off seccomp-modules seccomp-keyctl seccomp-handle seccomp-clock seccomp-prctl", NULL,
      s24_table },
    { "S-25", "socket families and upper-layer protocols", ALL, "seccomp-socket seccomp-ulp", NULL,
      s25_families },
    { "S-26", "no foreign ABI", ALL, "seccomp-abi", NULL, s26_abi },
    { "S-27", "the filter is everywhere, and programs work", ALL, "seccomp-none", NULL,
      s27_coverage },
    { 0 },
};
