# SPDX-License-Identifier: Apache-2.0
"""What tests of cay-layer share: asking it, real overlays, random changes. As root, in a mount namespace of their own."""
import os, random, shutil, socket, stat, struct, subprocess, sys, tempfile

BUILD = sys.argv[1]
if os.geteuid() != 0:
    print("needs root")
    sys.exit(77)
if "LAYER_LAB" not in os.environ:
    os.environ["LAYER_LAB"] = "1"
    os.execvp("unshare", ["unshare", "-m", sys.executable] + sys.argv)


def ask(home, verb, *args):
    """The records of the answer, as (type, bytes)."""
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
    records = []
    while data:
        kind, n = struct.unpack_from("II", data)
        records.append((kind, data[8:8 + n]))
        data = data[8 + n:]
    if not records or records[-1][0] != 3:
        raise SystemExit("%s failed: %r" % (verb, records[-1:]))
    return records


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


class Home:
    """A state directory on a file system of its own, with a base layer that has something in it."""

    def __init__(self, rnd):
        self.path = tempfile.mkdtemp(prefix="cay-lab-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", self.path], check=True)
        os.chmod(self.path, 0o700)
        self.rnd, self.stack, self.mounts = rnd, ["base"], []
        for d in ("layers", "layers/base", "work", "view", "view2", "sandboxes"):
            os.mkdir(self.path + "/" + d)
        for i in range(60):
            act(rnd, self.path + "/layers/base", i)

    def layers(self, names):
        return [self.path + "/layers/" + s for s in reversed(names)]

    def write(self, upper, work):
        """A sandbox at work on the stack."""
        os.makedirs(upper)
        os.makedirs(work)
        mount(self.path + "/view", self.layers(self.stack), upper, work)
        for i in range(self.rnd.choice([5, 20, 40])):
            act(self.rnd, self.path + "/view", 1000 * len(self.stack) + i)
        after = listing(self.path + "/view")
        subprocess.run(["umount", self.path + "/view"], check=True)
        return after

    def snapshot(self):
        name = "s%d" % len(self.stack)
        after = self.write(self.path + "/layers/" + name, self.path + "/work/" + name)
        self.stack.append(name)
        return after

    def show(self, where, names):
        if len(names) == 1:
            os.makedirs(self.path + "/layers/nothing", exist_ok=True)
            names = ["nothing"] + names
        mount(self.path + where, self.layers(names))
        return self.path + where

    def close(self):
        for d in ("/view", "/view2", ""):
            subprocess.run(["umount", "-q", self.path + d], check=False)
        os.rmdir(self.path)


def rounds(once, n):
    seeds = [int(os.environ["SEED"])] if "SEED" in os.environ else range(int(os.environ.get("ROUNDS", n)))
    for s in seeds:
        home = Home(random.Random(s))
        try:
            once(s, home)
        finally:
            home.close()
    print("ok", len(seeds))
