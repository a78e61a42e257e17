#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_merge.py BUILD: a merged layer shows what its stack showed, whatever was done in between.

Real overlays are written to at random; what their uppers became is merged by cay-layer, and the kernel's view of the merged
layer is compared with that of the stack.
"""
import os, subprocess, sys
from layer_lab import ask, listing, rounds


def once(seed, home):
    for _ in range(home.rnd.choice([2, 3, 5])):
        home.snapshot()
    stack = home.stack
    ask(home.path, "merge", "base", "--", *stack[1:], "merged")
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
    left = [x for x in os.listdir(home.path + "/layers") if x.startswith(".")]
    assert not left, left
    # What was merged once gives the same as what is merged in two steps.
    if len(stack) > 3:
        ask(home.path, "merge", "base", "--", *stack[1:3], "half")
        ask(home.path, "merge", "base", "--", "half", *stack[3:], "two")
        subprocess.run(["umount", home.path + "/view2"], check=True)
        assert a == listing(home.show("/view2", ["base", "two"])), seed


rounds(once, 25)
