#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_merge.py BUILD: a merged layer shows what its stack showed, whatever was done in between.

Real overlays are written to at random; what their uppers became is merged by cay-layer, and the kernel's view of the merged
layer is compared with that of the stack. As root, in a mount namespace of its own.
"""
import os, random, shutil, socket, stat, struct, subprocess, sys, tempfile

BUILD = sys.argv[1]
if os.geteuid() != 0:
    print("needs root")
    sys.exit(77)
if "MERGE_INSIDE" not in os.environ:
    os.environ["MERGE_INSIDE"] = "1"
    os.execvp("unshare", ["unshare", "-m", sys.executable, __file__, BUILD])

STORE = 0x70000000


def ask(home, verb, *args):
    mine, theirs = socket.socketpair()
    dirfd = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
    s, d = theirs.fileno(), dirfd
    p = subprocess.Popen(["bash", "-c", 'exec "$0" "$1" 3<&%d 4<&%d 5<&-' % (s, d), BUILD + "/cay-layer", verb], pass_fds=(s, d))
    os.close(dirfd)
    theirs.close()
    for a in args:
        mine.sendall(struct.pack("II", 1, len(a)) + a.encode())
    mine.sendall(struct.pack("II", 2, 0))
    data = b""
    while chunk := mine.recv(65536):
        data += chunk
    p.wait()
    kind, n = struct.unpack_from("II", data)
    if kind != 3:
        raise SystemExit("%s failed: %r" % (verb, data[8:8 + n]))
    return data[8:8 + n]


def mount(where, lowers, upper=None, work=None):
    opts = "redirect_dir=on,index=off,metacopy=off,lowerdir=" + ":".join(lowers)
    if upper:
        opts += ",upperdir=%s,workdir=%s" % (upper, work)
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", opts, where], check=True)


def listing(top):
    out = []
    for path, dirs, files in os.walk(top):
        dirs.sort()
        for name in sorted(dirs + files):
            p = os.path.join(path, name)
            st = os.lstat(p)
            what = open(p, "rb").read() if stat.S_ISREG(st.st_mode) else os.readlink(p) if stat.S_ISLNK(st.st_mode) else ""
            out.append((os.path.relpath(p, top), oct(st.st_mode), st.st_uid, what))
    return out


def act(rnd, top, n):
    """One random change, as a program inside would make it."""
    dirs, files = [top], []
    for path, ds, fs in os.walk(top):
        dirs += [os.path.join(path, d) for d in ds if not os.path.islink(os.path.join(path, d))]
        files += [os.path.join(path, f) for f in fs]
    kind = rnd.choice("wwwmmuurrrcldx")
    name = os.path.join(rnd.choice(dirs), rnd.choice("abcdefgh"))
    try:
        if kind == "w":
            with open(name, "w") as f:
                f.write("text %d\n" % n)
        elif kind == "m":
            os.mkdir(name)
        elif kind == "u" and files:
            os.unlink(rnd.choice(files))
        elif kind == "r" and len(dirs) > 1:
            os.rename(rnd.choice(dirs[1:]), name)
        elif kind == "x" and len(dirs) > 1:
            shutil.rmtree(rnd.choice(dirs[1:]))
        elif kind == "c" and files:
            os.chmod(rnd.choice(dirs[1:] + files), rnd.choice([0o700, 0o755, 0o644]))
        elif kind == "l":
            os.symlink("target%d" % n, name)
        elif kind == "d" and files:
            os.rename(rnd.choice(files), name)
    except OSError:
        pass


def once(seed):
    rnd = random.Random(seed)
    home = tempfile.mkdtemp(prefix="cay-merge-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    os.chmod(home, 0o700)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", home], check=True)
    os.chmod(home, 0o700)
    try:
        for d in ("layers", "layers/base", "work", "view", "view2"):
            os.mkdir(home + "/" + d)
        for i in range(60):
            act(rnd, home + "/layers/base", i)
        stack = ["base"]
        for k in range(rnd.choice([2, 3, 5])):
            upper, work = home + "/layers/s%d" % k, home + "/work/%d" % k
            os.mkdir(upper)
            os.mkdir(work)
            mount(home + "/view", [home + "/layers/" + s for s in reversed(stack)], upper, work)
            for i in range(rnd.choice([5, 20, 40])):
                act(rnd, home + "/view", 1000 * (k + 1) + i)
            subprocess.run(["umount", home + "/view"], check=True)
            stack.append("s%d" % k)
        ask(home, "merge", "base", "--", *stack[1:], "merged")
        os.mkdir(home + "/layers/empty")
        mount(home + "/view", [home + "/layers/" + s for s in reversed(stack)])
        mount(home + "/view2", [home + "/layers/" + s for s in ("merged", "base")])
        a, b = listing(home + "/view"), listing(home + "/view2")
        if a != b:
            print("seed", seed)
            for x in a:
                if x not in b:
                    print("  only in the stack: ", x)
            for x in b:
                if x not in a:
                    print("  only in the merged:", x)
            sys.exit(1)
        left = [x for x in os.listdir(home + "/layers") if x.startswith(".")]
        assert not left, left
        # What was merged once gives the same as what is merged in two steps.
        if len(stack) > 3:
            ask(home, "merge", "base", "--", *stack[1:3], "half")
            ask(home, "merge", "base", "--", "half", *stack[3:], "two")
            subprocess.run(["umount", home + "/view2"], check=True)
            mount(home + "/view2", [home + "/layers/" + s for s in ("two", "base")])
            assert a == listing(home + "/view2"), seed
    finally:
        for d in ("/view", "/view2", ""):
            subprocess.run(["umount", "-q", home + d], check=False)
        os.rmdir(home)


seeds = [int(os.environ["SEED"])] if "SEED" in os.environ else range(int(os.environ.get("MERGE_ROUNDS", "25")))
for s in seeds:
    once(s)
print("ok", len(seeds))
