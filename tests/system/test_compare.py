#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_compare.py BUILD: cay-layer tells exactly what differs, and `git apply` makes one side of the other.

Between two stacks, and between a stack and what a sandbox has written above it, whose upper is read without a mount.
"""
import os, shutil, stat, struct, subprocess, sys, tempfile
from layer_lab import ask, listing, rounds

ID = "c" + "a" * 19


def text(data, at):
    n, = struct.unpack_from("I", data, at)
    return data[at + 4:at + 4 + n].decode(), at + 5 + n


def changes(records):
    out = []
    for kind, data in records:
        if kind == 16:
            path, at = text(data, 8)
            origin, at = text(data, at)
            old, new, _, _, what = struct.unpack_from("QQQQQ", data, at)
            out.append((chr(data[0]), path, origin, old, new, what))
    return out


def patch(records):
    out = b""
    for kind, data in records:
        if kind == 17:
            n, = struct.unpack_from("I", data)
            out += data[4:4 + n]
    return out


def expect(seed, before, after, got):
    """Every path that differs is told once, and no other is."""
    a, b = {x[0]: x for x in before}, {x[0]: x for x in after}
    told = {}
    for kind, path, origin, old, new, what in got:
        assert path not in told, (seed, path, "told twice")
        told[path] = kind
    gone = [o for kind, _, o, _, _, _ in got if kind == "R"]
    moved = [(o, p) for kind, p, o, old, _, _ in got if kind == "R"]
    for path in sorted(set(a) | set(b)):
        if path in b and path not in a:
            want = "A"
        elif path in a and path not in b:
            want = "D"
        elif a[path] == b[path]:
            want = None
        else:
            want = "M" if a[path][1][:-4] == b[path][1][:-4] else "T"
        have = told.get(path)
        below = [p for o, p in moved if path == p or path.startswith(p + "/")]
        if any(path == g or path.startswith(g + "/") for g in gone) and have in (("A", "R", "M", "T") if path in b else (None,)):
            continue  # what was here is told where it went
        if want == "A" and below and have in ("R", "M", "T", None):
            continue
        if want != have:
            print("seed", seed, "path", path, "want", want, "have", have, "\n ", a.get(path), "\n ", b.get(path))
            print(got)
            sys.exit(1)


def same_by_git(seed, before, after, diff):
    """What git knows of: files, links, the executable bit."""
    if not shutil.which("git"):
        return
    top = tempfile.mkdtemp()
    shutil.copytree(before, top + "/w", symlinks=True)
    for path, _, _ in os.walk(top + "/w", topdown=False):  # which git does not know
        if not os.listdir(path) and path != top + "/w":
            os.rmdir(path)
    env = dict(os.environ, GIT_DIR="/nonexistent", GIT_CONFIG_NOSYSTEM="1", HOME=top)
    p = subprocess.run(["git", "apply", "--whitespace=nowarn", "--allow-empty", "-"], cwd=top + "/w", input=diff, env=env, capture_output=True)
    if p.returncode:
        print("seed", seed, p.stderr.decode(), diff.decode(errors="replace"))
        sys.exit(1)

    def known(top):
        return [(x[0], bool(int(x[1], 8) & 0o100), x[3]) for x in listing(top) if not stat.S_ISDIR(int(x[1], 8))]
    x, y = known(top + "/w"), known(after)
    if x != y:
        print("seed", seed, "\nby patch:", [e for e in x if e not in y], "\nwanted:  ", [e for e in y if e not in x], "\n" + diff.decode(errors="replace"))
        sys.exit(1)
    shutil.rmtree(top)


def once(seed, home):
    for _ in range(home.rnd.choice([0, 1, 2])):
        home.snapshot()
    middle = len(home.stack)
    for _ in range(home.rnd.choice([0, 1])):
        home.snapshot()
    upper = home.path + "/sandboxes/" + ID + "/upper"
    after = home.write(upper, home.path + "/sandboxes/" + ID + "/work")
    for old in {len(home.stack), middle, 1}:
        start = home.stack[:old]
        words = ["a=" + x for x in start] + ["b=" + x for x in home.stack] + ["b-top=sandboxes/" + ID + "/upper"]
        before = home.show("/view", start)
        expect(seed, listing(before), after, changes(ask(home.path, "diff", "every", *words)))
        os.rename(upper, home.path + "/layers/top")
        shown = home.show("/view2", home.stack + ["top"])
        expect(seed, listing(before), after, changes(ask(home.path, "diff", "every", *[w for w in words if "top" not in w], "b=top")))
        diff = patch(ask(home.path, "diff", "patch", *[w for w in words if "top" not in w], "b=top"))
        same_by_git(seed, before, shown, diff)
        subprocess.run(["umount", home.path + "/view2"], check=True)
        os.rename(home.path + "/layers/top", upper)
        diff = patch(ask(home.path, "diff", "patch", *words))
        shown = home.path + "/view2"
        os.rename(upper, home.path + "/layers/top")
        home.show("/view2", home.stack + ["top"])
        same_by_git(seed, before, shown, diff)
        subprocess.run(["umount", home.path + "/view2"], check=True)
        os.rename(home.path + "/layers/top", upper)
        subprocess.run(["umount", home.path + "/view"], check=True)


rounds(once, 12)
