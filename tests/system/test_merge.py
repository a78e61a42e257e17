#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_merge.py BUILD: a merged layer shows what its stack showed, whatever was done in between.

Real overlays are written to at random; what their uppers became is merged by cay-layer, and the kernel's view of the merged
layer is compared with that of the stack.
"""
import errno, os, struct, subprocess, sys
from layer_lab import ask, listing, rounds


ACLS = ("system.posix_acl_access", "system.posix_acl_default")
LIST = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, may, who) for tag, may, who in
                                      ((1, 7, 0xffffffff), (2, 7, 1234), (4, 5, 0xffffffff), (16, 7, 0xffffffff), (32, 5, 0xffffffff)))


def give_lists(layer):
    """Who else may enter: a directory that gives it on, and one in that which has none."""
    os.makedirs(layer + "/listed/plain")
    try:
        for name in ACLS:
            os.setxattr(layer + "/listed", name, LIST)
    except OSError as e:
        if e.errno != errno.ENOTSUP:
            raise


def lists(layer):
    return [[(x, os.getxattr(layer + d, x)) for x in os.listxattr(layer + d) if x in ACLS] for d in ("/listed", "/listed/plain")]


def once(seed, home):
    for _ in range(home.rnd.choice([2, 3, 5])):
        home.snapshot()
    stack = home.stack
    last, merged = (home.path + "/layers/" + name for name in (stack[-1], "merged"))
    give_lists(last)
    ask(home.path, "merge", "base", "--", *stack[1:], "merged")
    assert lists(last) == lists(merged), (seed, lists(last), lists(merged))
    a, b = listing(home.show("/view", stack)), listing(home.show("/view2", ["base", "merged"]))
    if a != b:
        print("seed", seed)
        for x in a:
            if x not in b:
                print("  only in the stack: ", x)
        for x in b:
            if x not in a:
                print("  only in the merged:", x)
        sys.exit(1)
    # Above a directory of the host what hides stays, whether it hides something today or not.
    ask(home.path, "merge", home.path + "/layers/base", "--", *stack[1:], "kept")
    subprocess.run(["umount", home.path + "/view2"], check=True)
    assert a == listing(home.show("/view2", ["base", "kept"])), seed
    left = [x for x in os.listdir(home.path + "/layers") if x.startswith(".")]
    assert not left, left
    # What was merged once gives the same as what is merged in two steps.
    if len(stack) > 3:
        ask(home.path, "merge", "base", "--", *stack[1:3], "half")
        ask(home.path, "merge", "base", "--", "half", *stack[3:], "two")
        subprocess.run(["umount", home.path + "/view2"], check=True)
        assert a == listing(home.show("/view2", ["base", "two"])), seed


rounds(once, 25)
