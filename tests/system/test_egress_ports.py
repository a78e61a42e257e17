#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_egress_ports.py EGRESS NETBOX: cay-egress where a kernel has no nftables, so that each port of the policy has its own listener."""
import os, sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from egress_lab import *


def rules(*words):
    return "cay-net 1\nmode rules\n" + "".join(f"rule {w}\n" for w in words)


def refused(b, where, port):
    try:
        b.connect(where, port).close()
    except ConnectionRefusedError:
        return True
    return False


def answers(b, where, port):
    with b.connect(where, port) as s:
        s.sendall(b"hello")
        return exactly(s, 5) == b"hello"


def two_names(lab, n, *ports):
    for name, at in (("one.test", n), ("two.test", n + 1)):
        lab.resolver.table[name] = [HOST4 % at, HOST6 % at]
        for a in lab.resolver.table[name]:
            for p in ports:
                lab.serve(a, p, echo)


def ports_of_the_policy_are_served_and_no_others(lab):
    two_names(lab, 10, 5000, 5001)
    b = lab.box(rules("one.test:5000"))
    assert b.how == 3
    assert answers(b, "one.test", 5000) and answers(b, b.look_up("one.test", 28), 5000)
    assert refused(b, "one.test", 5001) and refused(b, HOST4 % 10, 443)
    s = b.connect(HOST4 % 10, 5000)  # the port is there, the address is not allowed
    try:
        got = s.recv(1)
        raise AssertionError(got)
    except ConnectionResetError:
        pass
    assert b.last(event="connect", verdict="deny", reason="default_deny")["addr"] == HOST4 % 10


def a_new_policy_opens_new_ports(lab):
    two_names(lab, 20, 5000, 5001)
    b = lab.box(rules("one.test:5000"))
    assert answers(b, "one.test", 5000) and refused(b, "one.test", 5001)
    assert b.set(rules("one.test:5000", "two.test:5001"))["code"] == 0
    assert answers(b, "two.test", 5001) and answers(b, "one.test", 5000)
    assert b.set(rules("two.test:5001"))["code"] == 0
    assert b.look_up("one.test") is None and answers(b, "two.test", 5001)


def what_means_every_port_is_refused_whole(lab):
    two_names(lab, 30, 5000)
    b = lab.box(rules("one.test:5000"))
    for wide in ("cay-net 1\nmode all\n", rules("two.test:1-65535"), rules(*[f"two.test:{p}" for p in range(6000, 6009)])):
        a = b.set(wide)
        assert a["code"] and a["reason"] == "too_many_ports", a
        assert answers(b, "one.test", 5000), "the former policy holds"
    assert b.set(rules(*[f"two.test:{p}" for p in range(6000, 6007)]))["code"] == 0, "seven and the one before"
    assert b.set(rules("two.test:7000"))["reason"] == "too_many_ports", "none is left"


def a_port_that_a_program_holds_is_named(lab):
    two_names(lab, 40, 5000)
    b = lab.box(rules("one.test:5000"))

    def hold():
        s = socket.socket()
        s.bind(("0.0.0.0", 5001))
        s.listen(1)
        return s

    s = inside(b.ns, hold)
    a = b.set(rules("one.test:5000", "two.test:5001"))
    assert a["reason"] == "policy_port_taken" and "5001" in a["msg"], a
    s.close()
    assert b.set(rules("one.test:5000", "two.test:5001"))["code"] == 0


def the_next_egress_goes_on(lab):
    two_names(lab, 50, 5000)
    b = lab.box(rules("one.test:5000"))
    assert answers(b, "one.test", 5000)
    lab.kill()
    waiting = inside(b.ns, lambda: socket.create_connection(("198.18.1.1", 5000), 10))
    waiting.sendall(b"later")
    lab.restart()
    assert exactly(waiting, 5) == b"later", "it was not taken up"
    n = lab.fds()
    assert b.lend()["code"] == 0 and answers(b, "one.test", 5000)
    b.drop()
    for _ in range(100):
        if lab.fds() <= n - 8:
            return
        time.sleep(0.02)
    raise AssertionError((n, lab.fds()))


TESTS = [v for k, v in list(globals().items()) if callable(v) and getattr(v, "__module__", "") == "__main__" and k not in ("rules", "refused", "answers", "two_names")]
if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], TESTS)
