#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_egress.py EGRESS NETBOX [NAME…]: cay-egress alone, with a test that plays keeper. egress_lab.py makes the world around it."""
import os, sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from egress_lab import *

RULES = "cay-net 1\nmode rules\n"


def rules(*words):
    return RULES + "".join(f"rule {w}\n" for w in words)


def host(lab, name, n):
    """A name with both families, at hosts number n."""
    lab.resolver.table[name] = [HOST4 % n, HOST6 % n]
    return HOST4 % n, HOST6 % n


def reset(s):
    """What became of a socket whose other end is cut: 'reset', 'end' or what it read."""
    try:
        d = s.recv(65536)
        return d if d else "end"
    except ConnectionResetError:
        return "reset"
    except socket.timeout:
        return "nothing"


def said(s, data):
    try:
        s.sendall(data)
    except ConnectionResetError:
        return "reset"
    return reset(s)


def the_namespace_is_fed_as_asked(lab):
    """2 is TPROXY, 1 is nat (3, a listener for each port: test_egress_ports.py); a test that asks for nat by a fault must get it."""
    b = lab.box(rules("x.test"))
    assert b.how == (1 if "tproxy=fail" in os.environ.get("CAY_FAULT", "") else 2), b.how


def names_get_a_pair_and_others_nothing(lab):
    b = lab.box(rules("good.test", "**.wild.test"))
    before = len(lab.resolver.log)
    assert b.look_up("good.test") == "198.18.1.1" and b.look_up("GOOD.test.", 28) == "fd63:6179:0:1::1"
    assert b.look_up("a.wild.test") == "198.18.1.2" and b.look_up("wild.test") == "198.18.1.3"
    assert b.look_up("good.test") == "198.18.1.1", "numbers stay"
    for server in ("127.0.0.53", "8.8.8.8", "2001:4860:4860::8888", "::1", "192.168.1.1"):
        for tcp in (False, True):
            a = b.query("secret.evil.test", server=server, tcp=tcp)
            assert a[3] & 15 == 3 and b"\0\x0f\0" in a, (server, tcp, a)
            assert b.query("good.test", server=server, tcp=tcp)[-11 - 4 : -11] == bytes([198, 18, 1, 1]), (server, tcp)
    for kind in (65, 64, 16, 255, 33, 15, 6, 2):
        a = b.query("good.test", kind)
        assert a[3] & 15 == 0 and a[6:8] == b"\0\0", kind
    for raw in (b"", b"\x12\x34", b"\x42\x42\x01\0\0\1\0\0\0\0\0\0\xff\xff", b"\x42\x42\x81\0\0\1\0\0\0\0\0\0\0\0\1\0\1"):
        try:
            a = b.query("", raw=raw or b"\0", timeout=0.2)
            assert a[3] & 15 == 1, (raw, a)
        except socket.timeout:
            pass
    assert b.query("1.1.18.198.in-addr.arpa", 12).count(b"\4good\4test\0") == 1
    assert b.query("9.9.9.9.in-addr.arpa", 12)[3] & 15 == 3
    assert b.look_up("localhost") == "127.0.0.1"
    assert len(lab.resolver.log) == before, "a question left"
    r = b.last(event="dns", verdict="deny", name="secret.evil.test")
    assert r["reason"] == "default_deny"


def eight_thousand_names_and_no_more(lab):
    b = lab.box(rules("*.wild.test"))

    def ask():
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(5)
        s.connect(("127.0.0.53", 53))
        last = None
        for i in range(8195):
            s.send(struct.pack(">6H", i, 0x100, 1, 0, 0, 0) + name_bytes(f"n{i}.wild.test") + b"\0\1\0\1")
            last = s.recv(2048)
            assert (last[3] & 15 == 0) == (i < 8192), i
        s.send(struct.pack(">6H", 1, 0x100, 1, 0, 0, 0) + name_bytes("n8191.wild.test") + b"\0\1\0\1")
        assert s.recv(2048)[-4:] == bytes([198, 18, 33, 0])

    inside(b.ns, ask)
    lab.kill()
    lab.restart()
    assert b.look_up("n8191.wild.test") == "198.18.33.0", "the map survives"
    assert b.look_up("n0.wild.test", 28) == "fd63:6179:0:1::1"


def bytes_go_both_ways(lab):
    a4, a6 = host(lab, "tcp.test", 10)
    for a in (a4, a6):
        lab.serve(a, 5000, echo)
    b = lab.box(rules("tcp.test:5000"))
    for kind in (1, 28):
        s = b.connect(b.look_up("tcp.test", kind), 5000)
        s.sendall(b"hello")
        assert exactly(s, 5) == b"hello"
        s.shutdown(socket.SHUT_WR)
        assert s.recv(100) == b"", "half-closed, and ended in order"
    r = b.last(event="end", verdict="closed")
    assert r["up"] == r["down"] == 5 and r["name"] == "tcp.test" and r["rule"] == "tcp.test:5000" and r["addr"] in (a4, a6)
    s = b.connect("tcp.test", 5001)
    assert reset(s) == "reset"
    b.last(event="connect", verdict="deny", port=5001, reason="default_deny")


def addresses_need_a_rule(lab):
    lab.serve(HOST4 % 20, 5000, echo)
    lab.serve(HOST6 % 20, 5000, echo)
    b = lab.box(rules("tcp://203.0.113.20/30:5000", "tcp://[2001:db8::20]:5000"))
    for where, good in ((HOST4 % 20, 1), (HOST4 % 24, 0)):
        s = b.connect(where, 5000)
        assert (said(s, b"x") == b"x") == bool(good), where
    assert b.last(event="connect", verdict="deny")["addr"] == HOST4 % 24
    assert reset(b.connect("198.18.1.77", 5000)) == "reset"
    b.last(verdict="deny", addr="198.18.1.77", reason="unknown_address")


def blocked_ranges_stay_blocked(lab):
    b = lab.box("cay-net 1\nmode all\n")
    lab.resolver.table["wide.test"] = ["169.254.169.254", "10.1.2.3", "127.0.0.1", "192.168.1.1", "100.64.0.1", "172.16.0.1", "0.0.0.0", "fd00::1",
                                       "::1", "::ffff:10.0.0.1", "fe80::1", "64:ff9b::a00:1", "::a00:1", "ff02::1"]
    before = lab.capture.so_far()
    for a in ("169.254.169.254", "10.1.2.3", "127.0.0.1", "198.18.0.1", "192.168.1.1", "100.64.0.1", "172.16.0.1", "169.254.170.2", "100.100.100.200",
              "fd00::1", "fd00:ec2::254", "64:ff9b::a00:1", "fd63:6179::1"):
        for port in (15001, 80):
            try:
                s = b.connect(a, port, 3)
            except OSError:
                continue
            if port == 80:
                s.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            got = reset(s)
            assert got == "reset" or b"blocked_range" in got, (a, port, got)
    for one in lab.resolver.table["wide.test"]:
        lab.resolver.table["one.test"] = [one]
        s = b.connect("one.test", 8080)
        assert reset(s) == "reset", one
    s = b.connect("wide.test", 80)
    s.sendall(b"GET / HTTP/1.1\r\nHost: wide.test\r\n\r\n")
    assert b"blocked_range" in reset(s)
    out = {x for x in lab.capture.seen - before if x[1:] != (RESOLVER, 53)}
    assert not out, out
    for own, family in (("192.0.2.1", socket.AF_INET), ("2001:db8:ffff::1", socket.AF_INET6)):  # egress's own host, which is in no such range
        listener = inside(lab.up.fd, lambda: socket.create_server((own, 8080), family=family))
        listener.setblocking(False)
        lab.resolver.table["own.test"] = [own]
        assert reset(b.connect(own, 8080)) == "reset"
        assert reset(b.connect("own.test", 8080)) == "reset"
        try:
            raise AssertionError(f"{own} was reached from {listener.accept()[1]}")
        except BlockingIOError:
            listener.close()
        b.last(event="connect", verdict="deny", addr=own, reason="own_address")


def a_private_range_is_lifted_by_the_operator_alone(lab):
    lab.serve("10.1.2.3", 5000, echo)
    lab.serve("169.254.169.254", 5000, echo)
    b = lab.box(rules("tcp://10.0.0.0/8:5000", "tcp://169.254.169.254:5000"))
    assert reset(b.connect("10.1.2.3", 5000)) == "reset"
    assert lab.operator_set("lift 10.1.0.0/16\n")["code"] == 0
    s = b.connect("10.1.2.3", 5000)
    s.sendall(b"x")
    assert reset(s) == b"x"
    assert reset(b.connect("10.2.2.3", 5000)) == "reset"
    bad = lab.operator_set("lift nonsense\n")
    assert bad["code"] < 0 and bad["msg"], bad
    s.sendall(b"y")
    assert reset(s) == b"y", "a bad file changed something"
    assert lab.operator_set("")["code"] == 0
    assert reset(s) == "reset", "the flow was not cut"


def hello(lab):
    t = getattr(lab, "tls", None)
    if not t:
        t = lab.tls = Tls(lab)
        a4, a6 = host(lab, "tls.test", 30)
        lab.resolver.table["other.test"] = lab.resolver.table["tls.test"]
        lab.ctx = t.context("tls.test", "other.test", "*.wild.test", alpn=["http/1.1"])
        for a in (a4, a6):
            t.serve(a, 443, lab.ctx, http)
    return t


def tls_names_have_to_agree(lab):
    t = hello(lab)
    b = lab.box(rules("tls.test", "other.test"))
    good = ssl.create_default_context(cafile=t.ca)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        good.maximum_version = version
        with good.wrap_socket(b.connect("tls.test", 443), server_hostname="tls.test") as c:
            c.sendall(b"GET / HTTP/1.1\r\nHost: tls.test\r\n\r\n")
            assert b"host=tls.test" in c.recv(4096)
    try:
        good.wrap_socket(b.connect("tls.test", 443), server_hostname="other.test")
        raise AssertionError("another name passed")
    except ssl.SSLError as e:
        assert "UNRECOGNIZED_NAME" in str(e), e
    r = b.last(event="connect", verdict="deny")
    assert r["reason"] == "tls_name_mismatch" and r["seen"] == "other.test"
    for h, reason in ((client_hello(None), "tls_no_name"), (client_hello("tls.test", ech=True), "tls_ech"), (b"SSH-2.0-x\r\n" + bytes(20), "tls_unreadable"),
                      (b"GET / HTTP/1.1\r\nHost: tls.test\r\n\r\n", "tls_unreadable")):
        s = b.connect("tls.test", 443)
        s.sendall(h)
        got = reset(s)
        assert got == bytes.fromhex("15030300020270") or (reason == "tls_unreadable" and (got == "reset" or b"tls_unreadable" in got)), (reason, got)
        b.last(event="connect", verdict="deny", reason=reason)
    b.set(rules("tls+opaque://tls.test:443"))
    for h in (client_hello(None), client_hello("tls.test", ech=True)):
        s = b.connect("tls.test", 443)
        s.sendall(h)
        assert reset(s)[:1] == b"\x16", "a server's hello"


def a_hello_in_pieces(lab):
    hello(lab)
    b = lab.box(rules("tls.test"))
    for h, cut in ((client_hello("tls.test"), 7), (client_hello("tls.test", pad=1800), 500), (client_hello("tls.test"), 1)):
        s = b.connect("tls.test", 443)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(0, len(h), cut):
            s.sendall(h[i : i + cut])
            if cut > 1 or i % 50 == 0:
                time.sleep(0.002)
        assert reset(s)[:1] == b"\x16"
    body = client_hello("tls.test")[5:]
    s = b.connect("tls.test", 443)
    s.sendall(b"".join(b"\x16\x03\x01" + struct.pack(">H", len(body[i : i + 100])) + body[i : i + 100] for i in range(0, len(body), 100)))
    assert reset(s)[:1] == b"\x16", "several records"
    s = b.connect("tls.test", 443)
    s.sendall(body[:3])
    ticks = lambda: sum(int(x) for x in open(f"/proc/{lab.proc.pid}/stat").read().split()[13:15])
    s = b.connect("tls.test", 443)
    s.sendall(client_hello("tls.test")[:100])
    before = ticks()
    time.sleep(0.5)
    assert ticks() - before < 10, "it spins on half a hello"
    s.shutdown(socket.SHUT_WR)
    assert reset(s) != "nothing"


def every_request_names_its_host(lab):
    a4, a6 = host(lab, "web.test", 40)
    lab.resolver.table["evil.test"] = [a4]
    for a in (a4, a6):
        lab.serve(a, 80, http)
    b = lab.box(rules("web.test"))

    def ask(*requests, pause=0.0):
        s = b.connect("web.test", 80)
        for r in requests:
            s.sendall(r)
            time.sleep(pause)
        s.settimeout(3)
        got = b""
        try:
            while d := s.recv(65536):
                got += d
                if got.count(b"HTTP/1.1 200") == len(requests):
                    break
        except ConnectionResetError:
            got += b"RESET"
        except socket.timeout:
            got += b"TIMEOUT"
        return got

    get = lambda h, target="/": f"GET {target} HTTP/1.1\r\nHost: {h}\r\n\r\n".encode()
    assert b"host=web.test" in ask(get("web.test"))
    assert ask(get("web.test"), get("WEB.test:80"), get("web.test", "http://web.test/x")).count(b"200 OK") == 3
    for bad in (get("evil.test"), get("web.test", "http://evil.test/"), get("web.test", "http://web.test@evil.test/"), b"GET / HTTP/1.1\r\n\r\n",
                b"GET / HTTP/1.1\r\nHost: web.test\r\nHost: evil.test\r\n\r\n", b"CONNECT evil.test:443 HTTP/1.1\r\nHost: web.test\r\n\r\n",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
        got = ask(bad)
        assert b"403 Forbidden" in got and b"cay net allow" in got and b"host=" not in got, (bad, got)
    for pause in (0, 0.05):
        got = ask(get("web.test"), get("evil.test"), pause=pause)
        assert b"host=evil" not in got and got.endswith(b"RESET"), got
    post = b"POST / HTTP/1.1\r\nHost: web.test\r\nContent-Length: %d\r\n\r\n" % 200000 + bytes(200000)
    got = ask(post, get("web.test"))
    assert got.count(b"200 OK") == 2, got
    got = ask(get("web.test")[:-10], get("web.test")[-10:], pause=0.05)
    assert got.count(b"200 OK") == 1, got
    assert reset(b.connect("evil.test", 80)) if b.look_up("evil.test") else True
    r = b.last(event="end", verdict="cut", reason="http_host_mismatch")
    assert r["name"] == "web.test"


def a_websocket_passes_when_the_server_agrees(lab):
    def server(c):
        head = c.recv(65536)
        if b"/yes" in head:
            c.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n")
            echo(c)
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        http(c)

    a4, a6 = host(lab, "ws.test", 41)
    for a in (a4, a6):
        lab.serve(a, 80, server)
    b = lab.box(rules("ws.test"))
    up = b"GET /%s HTTP/1.1\r\nHost: ws.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    s = b.connect("ws.test", 80)
    s.sendall(up % b"yes")
    assert b"101" in s.recv(4096)
    s.sendall(b"\0\1binary\r\n\r\n")
    assert s.recv(100) == b"\0\1binary\r\n\r\n"
    s = b.connect("ws.test", 80)
    s.sendall(up % b"no" + b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n")
    got = b""
    try:
        while d := s.recv(4096):
            got += d
    except OSError:
        pass
    assert b"evil" not in got, got


def a_rebinding_name_is_caught(lab):
    lab.serve(HOST4 % 50, 5000, echo)
    turn = []

    def flip():
        turn.append(1)
        return [HOST4 % 50] if len(turn) <= 2 else ["127.0.0.1", "169.254.169.254"]

    lab.resolver.table["flip.test"] = flip
    b = lab.box(rules("flip.test:5000"))
    s = b.connect("flip.test", 5000)
    s.sendall(b"x")
    assert reset(s) == b"x"
    assert reset(b.connect("flip.test", 5000)) == "reset"
    b.last(event="connect", verdict="deny", reason="blocked_range")


def a_changed_policy_holds_when_it_is_acknowledged(lab):
    lab.serve(HOST4 % 51, 5000, echo)
    lab.resolver.table["a.test"] = lab.resolver.table["b.test"] = [HOST4 % 51]
    b = lab.box(rules("a.test:5000", "b.test:5000"))
    sa, sb = b.connect("a.test", 5000), b.connect("b.test", 5000)
    for s in (sa, sb):
        s.sendall(b"1")
        assert reset(s) == b"1"
    bad = b.set("cay-net 1\nmode rules\nrule *.*.test\n")
    assert bad["code"] < 0 and bad["revision"] == 1, bad
    a = b.set(rules("a.test:5000"), revision=9)
    assert a["code"] == 0 and a["revision"] == 9
    assert reset(sb) == "reset" and b.look_up("b.test") is None
    sa.sendall(b"2")
    assert reset(sa) == b"2", "what is still allowed was cut"
    assert b.set(rules("b.test:5000"), revision=3)["reason"] == "policy_older"
    assert b.set("cay-net 1\nmode off\n", revision=10)["code"] == 0
    assert reset(sa) == "reset" and b.look_up("a.test") is None


def a_dead_egress_is_no_clean_end(lab):
    def forever(c):
        while True:
            c.sendall(bytes(65536))

    lab.serve(HOST4 % 52, 5000, forever)
    lab.serve(HOST4 % 52, 5001, echo)
    lab.resolver.table["big.test"] = [HOST4 % 52]
    b = lab.box(rules("big.test:5000", "big.test:5001"))
    flows = [b.connect("big.test", 5000) for _ in range(8)]
    quiet = b.connect("big.test", 5001)
    quiet.sendall(b"x")
    assert quiet.recv(1) == b"x"
    for s in flows:
        s.recv(1000)
    lab.kill()
    waiting = inside(b.ns, lambda: socket.create_connection(("198.18.1.1", 5001), 10))
    waiting.sendall(b"later")
    for s in flows + [quiet]:
        end = None
        while end is None:
            got = reset(s)
            end = got if isinstance(got, str) else None
        assert end == "reset", end
    lab.restart()
    assert exactly(waiting, 5) == b"later", "it was not taken up"
    assert b.look_up("big.test") == "198.18.1.1"


def a_new_keeper_changes_nothing(lab):
    lab.serve(HOST4 % 53, 5000, echo)
    lab.resolver.table["k.test"] = [HOST4 % 53]
    b = lab.box(rules("k.test:5000"))
    s = b.connect("k.test", 5000)
    s.sendall(b"1")
    assert s.recv(1) == b"1"
    old, n = lab.keeper, lab.fds()
    lab.dial()
    assert b.lend()["code"] == 0
    old.s.close()
    s.sendall(b"2")
    assert s.recv(1) == b"2"
    until(lambda: lab.fds() == n, "descriptors were lost")
    for junk in (b"x", b"", struct.pack("IHHII", MAGIC, 1, LEND, 0, 0), struct.pack("IHHII", MAGIC, 1, 99, 0, 0) + bytes(80)):
        k = Keeper(lab.dir + "/egress")
        k.s.send(junk)
        try:
            assert k.s.recv(100) == b""
        except ConnectionResetError:
            pass
    assert b.look_up("k.test")
    lie = lab.box(rules("k.test:5000"), lend=False)
    lie.cookie += 1
    assert lie.lend()["code"] < 0, "a listener of another namespace"


def a_fetch_and_why(lab):
    lab.serve(HOST4 % 54, 443, echo)
    lab.resolver.table["fetch.test"] = [HOST4 % 54]
    lab.resolver.table["in.test"] = ["10.0.0.1"]
    b = lab.box("cay-net 1\nmode off\n")
    k = lab.keeper
    assert k.host(DIAL, b, "fetch.test", 443)["reason"] == "off"
    a = k.host(DIAL, b, "fetch.test", 443, flags=2)
    assert a["code"] == 0 and a["fds"], a
    s = socket.socket(fileno=a["fds"][0])
    s.sendall(b"hi")
    assert s.recv(2) == b"hi"
    s.close()
    for name in ("in.test", "localhost", "127.0.0.1", "169.254.169.254", "::1", "0x7f.1", "2130706433", "::ffff:10.0.0.1", "0177.0.0.1", "localhost.", "a b"):
        a = k.host(DIAL, b, name, 80, flags=2)
        assert a["code"] < 0 and not a["fds"], (name, a)
    assert k.host(DIAL, b, "nowhere.test", 443, flags=2)["reason"] == "no_such_name"
    assert lab.operator_set("deny fetch.test\n")["code"] == 0
    assert k.host(DIAL, b, "fetch.test", 443, flags=2)["reason"] == "operator_deny"
    assert lab.operator_set("")["code"] == 0
    b.set(rules("*.fetch.test", "!x.fetch.test"))
    for name, code, reason, msg in (("a.fetch.test", 0, "allowed", "*.fetch.test"), ("x.fetch.test", -3, "tenant_deny", "!x.fetch.test"), ("y.test", -3, "default_deny", "")):
        a = k.host(WHY, b, name, 443)
        assert (a["code"], a["reason"]) == (code, reason) and a["msg"].startswith(msg), a


def a_service_of_the_host_has_a_name(lab):
    s = inside(lab.up.fd, socket.create_server, ("127.0.0.1", 7000))

    def serve():
        try:
            echo(s.accept()[0])
        except OSError:
            pass

    threading.Thread(target=serve, daemon=True).start()
    assert lab.operator_set("service db.host:5432 127.0.0.1:7000\n")["code"] == 0
    b, c = lab.box(rules("db.host:5432")), lab.box(rules("other.test"))
    x = b.connect("db.host", 5432)
    x.sendall(b"x")
    assert reset(x) == b"x"
    assert c.look_up("db.host") is None
    assert lab.operator_set("service db.host:5432 127.0.0.1:7001\n")["code"] == 0
    assert reset(x) == "reset", "the service is another"
    threading.Thread(target=serve, daemon=True).start()
    assert lab.operator_set("service db.host:5432 127.0.0.1:7000\n")["code"] == 0
    x = b.connect("db.host", 5432)
    x.sendall(b"x")
    assert reset(x) == b"x"
    assert lab.operator_set("")["code"] == 0
    assert reset(x) == "reset", "the service was taken away"


def limits_hold(lab):
    lab.serve(HOST4 % 55, 5000, echo)

    def flood(c):
        while True:
            c.sendall(bytes(65536))

    lab.serve(HOST4 % 55, 5001, flood)
    lab.resolver.table["lim.test"] = [HOST4 % 55]
    b = lab.box(rules("lim.test:5000", "lim.test:5001") + "connections 3\nrate down 1000000\n")
    some = [b.connect("lim.test", 5000) for _ in range(3)]
    for s in some:
        s.sendall(b"x")
        assert reset(s) == b"x"
    assert reset(b.connect("lim.test", 5000)) == "reset"
    b.last(event="connect", verdict="deny", reason="connections_limit")
    n = lab.fds()
    for s in some:
        s.close()
    until(lambda: lab.fds() <= n - 2 * len(some), "closed flows are still held")
    s = b.connect("lim.test", 5001)
    got, began = 0, time.time()
    while time.time() - began < 1.5:
        got += len(s.recv(65536))
    took = time.time() - began
    assert 1e5 < got < (took + 0.7) * 1e6, f"{got} bytes in {took} s at 1 MB/s"
    s.close()
    # The same for what leaves, counted where it arrives.
    arrived = []

    def drain(c):
        while d := c.recv(65536):
            arrived.append(len(d))

    lab.serve(HOST4 % 55, 5002, drain)
    b.set(rules("lim.test:5002") + "rate up 1000000\n")
    s = b.connect("lim.test", 5002)
    s.setblocking(False)
    began = time.time()
    while time.time() - began < 1.5:
        try:
            s.send(bytes(65536))
        except BlockingIOError:
            time.sleep(0.005)
    got, took = sum(arrived), time.time() - began
    assert 1e5 < got < (took + 0.7) * 1e6, f"{got} bytes left in {took} s at 1 MB/s"


def silence_and_slowness(lab):
    def slow(c):
        c.recv(100)
        for i in range(5):
            time.sleep(0.2)
            c.sendall(b"%d" % i)

    lab.serve(HOST4 % 56, 5000, slow)
    lab.resolver.table["slow.test"] = [HOST4 % 56]
    b = lab.box(rules("slow.test:5000", "gone.test:5000", "broken.test:80", "slow.test:5999"))
    s = b.connect("slow.test", 5000)
    s.sendall(b"x")
    s.shutdown(socket.SHUT_WR)
    assert exactly(s, 5) == b"01234" and s.recv(1) == b""
    assert reset(b.connect("gone.test", 5000)) == "reset"
    b.last(event="connect", verdict="fail", reason="no_such_name")
    assert reset(b.connect("slow.test", 5999)) == "reset"
    b.last(event="connect", verdict="fail", reason="connect_failed")
    lab.resolver.table["broken.test"] = "servfail"
    s = b.connect("broken.test", 80, 30)
    s.sendall(b"GET / HTTP/1.1\r\nHost: broken.test\r\n\r\n")
    got = reset(s)
    assert b"502" in got and b"resolver_failed" in got, got
    lab.resolver.cut = True
    s = b.connect("slow.test", 5000)
    s.sendall(b"x")
    assert s.recv(1) == b"0", "an answer that was cut is asked for by TCP"
    lab.resolver.cut = False


def half_open_connections_end_and_hold_nobody_up(lab):
    """Who says nothing, who says half of it, and a place that takes every packet and answers none: each ends, with its reason, all in one time-out."""
    lab.serve(HOST4 % 61, 5000, echo)
    lab.serve(HOST4 % 61, 443, echo)
    for name in ("half.test", "mute.test"):
        lab.resolver.table[name] = [HOST4 % 61]
    lab.world.ip("route", "add", "blackhole", "198.51.100.99", "table", "local")
    lab.resolver.table["hole.test"] = ["198.51.100.99"]
    b = lab.box(rules("half.test:5000", "mute.test", "hole.test:5000", "hole.test:80"))
    b.look_up("mute.test"), b.look_up("hole.test")
    b.last(event="dns", name="hole.test")  # so the file of its records is open, which comes after the answer
    n, before, began = lab.fds(), lab.capture.so_far(), time.time()
    silent = [b.connect("mute.test", 443, 40) for _ in range(40)]
    for s in silent[:10]:
        s.sendall(client_hello("mute.test")[:60])
    heads = [b.connect("mute.test", 80, 40) for _ in range(10)]
    for s in heads:
        s.sendall(b"GET / HTTP/1.1\r\nHost: mu")
    dialled = [b.connect("hole.test", 5000, 40) for _ in range(40)]
    web = b.connect("hole.test", 80, 40)
    web.sendall(b"GET / HTTP/1.1\r\nHost: hole.test\r\n\r\n")
    live = b.connect("half.test", 5000)
    for _ in range(3):
        assert said(live, b"x") == b"x", "others wait for them"
        answers(b, b.look_up("half.test"))
    # One whose other end vanishes later is asked after by the kernel.
    out = subprocess.run(["nsenter", f"--net=/proc/{lab.up.pid}/ns/net", "ss", "-tno", "dst", HOST4 % 61], capture_output=True, text=True).stdout
    assert "keepalive" in out, out
    for s in silent + heads:
        assert reset(s) == "reset"
    assert time.time() - began > 9, "before its time"
    b.last(event="connect", verdict="deny", name="mute.test", port=443, reason="hello_timeout")
    b.last(event="connect", verdict="deny", name="mute.test", port=80, reason="hello_timeout")
    for s in dialled:
        assert reset(s) == "reset"
    b.last(event="connect", verdict="fail", name="hole.test", port=5000, reason="connect_timeout")
    got = reset(web)
    assert b" 504 " in got and b"connect_timeout" in got, got
    assert said(live, b"y") == b"y", "a live one was ended, too"
    new = {x for x in lab.capture.so_far() - before if x[1:] != (RESOLVER, 53)}
    assert new == {(6, "198.51.100.99", 5000), (6, "198.51.100.99", 80), (6, HOST4 % 61, 5000)}, new
    for s in (live, web):
        s.close()
    until = time.time() + 10
    while lab.fds() > n and time.time() < until:
        time.sleep(0.05)
    assert lab.fds() <= n, "descriptors were lost"


def records_are_escaped_and_bounded(lab):
    b = lab.box(rules("x.test"))
    b.query("", raw=struct.pack(">6H", 1, 0x100, 1, 0, 0, 0) + b'\x08a"\n\x1b[31m\x04test\0\0\1\0\1')
    r = b.last(event="dns", verdict="deny")
    assert r["reason"] == "no_host_name" and "\x1b" not in r["name"], r

    def flood():
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(2)
        s.connect(("1.2.3.4", 53))
        for i in range(20000):
            s.send(struct.pack(">6H", 1, 0x100, 1, 0, 0, 0) + name_bytes("y" * 60 + "." + "z" * 60 + f".evil{i}.test") + b"\0\1\0\1")
            s.recv(2048)

    inside(b.ns, flood)
    time.sleep(1.1)
    b.query("again.test")
    b.last(event="lost")
    assert sum(r.get("count", 0) for r in b.log()) > 100
    for end in (".jsonl", ".jsonl.1"):
        p = f"{lab.audit}/{b.id}{end}"
        assert not os.path.exists(p) or os.path.getsize(p) <= 1 << 20
    b.drop()
    assert not os.path.exists(f"{lab.audit}/{b.id}.jsonl") and b.id in open(f"{lab.audit}/past.jsonl").read()


def answers(b, addr, within=20):
    """One byte there and back."""
    began = time.time()
    s = b.connect(addr, 5000)
    s.sendall(b"x")
    assert s.recv(1) == b"x" and time.time() - began < within, time.time() - began
    s.close()


def past(lab, b, reason):
    until = time.time() + 5
    while time.time() < until:
        p = f"{lab.audit}/past.jsonl"
        if os.path.exists(p) and any(b.id in l and reason in l for l in open(p)):
            return
        time.sleep(0.05)
    raise AssertionError(f"no {reason} of {b.id}")


def a_listener_that_init_tampers_with_hurts_nobody_else(lab):
    import fcntl
    lab.serve(HOST4 % 58, 5000, echo)
    lab.resolver.table["tamper.test"] = [HOST4 % 58]
    good = lab.box(rules("tamper.test:5000"))
    addr = good.look_up("tamper.test")

    def poke(b):
        def go():
            s = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            s.connect_ex((addr, 5000))
            return s
        return inside(b.ns, go)

    for which in (0, 1, 2):
        bad = lab.box(rules("tamper.test:5000"))
        bad.look_up("tamper.test")
        if which == 0:
            fcntl.fcntl(bad.fds[0], fcntl.F_SETFL, os.O_RDWR)
        else:
            s = socket.socket(fileno=os.dup(bad.fds[0 if which == 1 else 2]))
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        held = poke(bad)
        past(lab, bad, "listener_tampered")
        answers(good, addr)
        held.close()
    # Flipped all the time, so that it blocks between a look at it and the accept.
    bad = lab.box(rules("tamper.test:5000"))
    bad.look_up("tamper.test")
    end = time.time() + 6

    def flip():
        while time.time() < end:
            for _ in range(50):
                fcntl.fcntl(bad.fds[0], fcntl.F_SETFL, os.O_RDWR)
                fcntl.fcntl(bad.fds[0], fcntl.F_SETFL, os.O_RDWR | os.O_NONBLOCK)

    t = threading.Thread(target=flip)
    t.start()
    held = []
    while time.time() < end:
        held.append(poke(bad))
        answers(good, addr)
        time.sleep(0.02)
    t.join()
    past(lab, bad, "listener_tampered")
    for s in held:
        s.close()


def what_is_judged_is_what_is_sent(lab):
    """SO_PEEK_OFF of the listener is its children's too: the hello that is looked at would not be the first."""
    got = []

    def take(c):
        got.append(c.recv(4096))
    lab.serve(HOST4 % 59, 443, take)
    lab.resolver.table["peek.test"] = [HOST4 % 59]
    b = lab.box(rules("peek.test"))
    addr = b.look_up("peek.test")
    evil, fair = client_hello("evil.test"), client_hello("peek.test")
    s = socket.socket(fileno=os.dup(b.fds[0]))
    s.setsockopt(socket.SOL_SOCKET, 42, len(evil))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1 << 20)
    s.detach()
    c = b.connect(addr, 443)
    c.sendall(evil + fair)
    b.last(event="connect", verdict="deny", reason="tls_name_mismatch", seen="evil.test")
    c.close()
    c = b.connect(addr, 443)
    c.sendall(fair)
    until = time.time() + 5
    while not got and time.time() < until:
        time.sleep(0.02)
    assert got == [fair], "a fair one passes"
    c.close()


def a_damaged_map_is_an_empty_one(lab):
    lab.resolver.table["map.test"] = [HOST4 % 58]
    b = lab.box(rules("map.test:5000"), lend=False)
    os.pwrite(b.map, b"\xff" * 8, 0)
    assert b.lend()["code"] == 0
    assert b.look_up("map.test") == "198.18.1.1"


def a_keeper_that_leaves_in_the_middle(lab):
    """Its fetches end with the sandbox, and the answers have nowhere to go."""
    lab.resolver.mute = True
    for _ in range(5):
        b = lab.box("cay-net 1\nmode off\n")
        k = Keeper(lab.dir + "/egress")
        for i in range(4):
            k.send(DIAL, struct.pack("Q24sHHI", i + 1, b.id.encode(), 443, 0, 2), b"mute.test")
        k.send(DROP, struct.pack("Q24sQQII", 9, b.id.encode(), b.cookie, 1, 0, 0))
        k.s.close()
        b.drop()
    lab.resolver.mute = False
    assert lab.proc.poll() is None


def a_lost_interceptor_is_asked_for(lab):
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    k = Keeper(lab.dir + "/egress")
    assert k.box(INTERCEPT, None, [its.fileno()])["code"] == 0
    its.close()
    ours.close()
    time.sleep(0.2)
    assert k.box(DROP, None, [])["code"] == 0 and k.pairs == 1
    k.s.close()


def what_an_interceptor_tells_is_recorded(lab):
    """Its notes and ends; of what is no such message nothing is believed, and the socket is kept."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    k = Keeper(lab.dir + "/egress")
    b = lab.box(rules("told.test"))
    assert k.box(INTERCEPT, None, [its.fileno()])["code"] == 0
    its.close()

    def tell(kind, body):
        ours.send(struct.pack("=IHHII", 0x31796163, 1, kind, 0, 0) + body)

    def end(name, reason=b"closed", lost=0, id=b.id):
        return struct.pack("=24sQQQQ16sHHI256s36sI", id.encode(), 7, 11, 22, 33, bytes(10) + b"\xff\xff" + bytes([93, 184, 216, 34]), 443, 1, 1, name, reason, lost)

    for body in (b"", b"x", end(b"odd.test")[:-1], end(b"odd.test") + b"\0", end(b"odd.test", id="c" + "x" * 19), b"\xff" * 392):
        tell(55, body)
        tell(54, body)
        tell(99, body)
    tell(55, end(b"n" * 256, b"r" * 36))
    tell(54, struct.pack("=24sQ256s64sHH36s", b.id.encode(), 7, b"told.test", b'K"EY', 443, 1, b"added"))
    tell(55, end(b"told.test", lost=5))
    r = b.last(event="end", name="told.test")
    assert (r["verdict"], r["reason"], r["flow"], r["up"], r["down"], r["ms"], r["addr"], r["port"], r["proto"], r["rule"]) == (
        "closed", "closed", 7, 11, 22, 33, "93.184.216.34", 443, "tls", "told.test"), r
    assert b.last(event="credential")["secret"] == 'K"EY'
    assert b.last(event="end", name="n" * 255)["reason"] == "r" * 35
    assert not [r for r in b.log() if r.get("name") == "odd.test"] and k.pairs == 0
    time.sleep(1)
    tell(55, end(b"told.test"))
    assert b.last(event="lost")["count"] == 5
    ours.close()
    k.s.close()


def what_an_interceptor_has_is_counted(lab):
    """Its flows are of the same limit and bandwidth as the others, and have an end when it dies."""
    lab.serve(HOST4 % 59, 80, echo)

    def flood(c):
        while True:
            c.sendall(bytes(65536))

    lab.serve(HOST4 % 59, 5001, flood)
    lab.resolver.table["had.test"] = [HOST4 % 59]
    k = Keeper(lab.dir + "/egress")
    b = lab.box(rules("had.test:80", "had.test:5001") + "bind KEY http://had.test\nconnections 3\nrate down 1000000\n")

    def pair():
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        assert k.box(INTERCEPT, None, [its.fileno()])["code"] == 0
        its.close()
        ours.settimeout(10)
        return ours

    def tell(kind, number=0, reason=b""):
        body = struct.pack("=24sQQQQ16sHHI256s36sI", b.id.encode(), number, 11, 22, 33, bytes(10) + b"\xff\xff" + bytes([93, 184, 216, 59]), 80, 2, 0, b"had.test", reason, 0)
        ours.send(struct.pack("=IHHII", 0x31796163, 1, kind, 0, 0) + (body if number else b""))

    def give():
        """A flow to the interceptor: its number, and its sockets."""
        s = b.connect("had.test", 80)
        s.sendall(b"GET / HTTP/1.1\r\nHost: had.test\r\n\r\n")
        data, fds, _, _ = socket.recv_fds(ours, 1024, 4)
        assert data[6] == 53 and len(fds) == 2, data
        return struct.unpack("=Q", data[40:48])[0], [s, *(socket.socket(fileno=fd) for fd in fds)]

    def refused():
        s = b.connect("had.test", 5001)
        got = reset(s)
        s.close()
        return got == "reset"

    END, LIVE, SPENT = 55, 56, 57
    ours = pair()
    (one, _a), (two, _b) = give(), give()
    plain = b.connect("had.test", 5001)
    plain.recv(1)
    assert refused(), "two that it has and a plain one are three"
    b.last(event="connect", verdict="deny", reason="connections_limit")
    # Bandwidth: what it lets through is missing here, and the other way round.
    got, began = 0, time.time()
    while time.time() - began < 0.6:
        got += len(plain.recv(65536))
    heard = 0
    ours.setblocking(False)
    try:
        while True:
            m = ours.recv(1024)
            assert m[6] == SPENT, m
            heard += struct.unpack("=Q", m[48:56])[0]
    except BlockingIOError:
        ours.setblocking(True)
    assert got * 0.6 < heard <= got + 300000, (got, heard)
    ours.send(struct.pack("=IHHII", 0x31796163, 1, SPENT, 0, 0) + struct.pack("=24sQQ", b.id.encode(), 0, 1 << 62))
    began, got = time.time(), 0
    while got < 500000 and time.time() - began < 5:
        got += len(plain.recv(65536))
    assert time.time() - began > 0.2, "half a second's worth, some of which waits in buffers, and an eighth of debt"
    plain.close()
    # An end makes room; one that another pair names stays; those that it does not name, and those of one that is gone, are over.
    tell(END, one, b"closed")
    assert b.last(event="end", flow=one)["up"] == 11
    former, ours = ours, pair()
    former.close()
    tell(LIVE, two)
    three, _c = give()
    tell(LIVE)
    four, _d = give()
    assert refused(), "three that it has"
    assert not [r for r in b.log() if r["event"] == "end" and r["flow"] in (two, three, four)]
    former, ours = ours, pair()
    former.close()
    tell(LIVE, three)
    tell(LIVE)
    r = b.last(event="end", flow=four)
    assert (r["verdict"], r["reason"], r["name"], r["port"], r["proto"], r["rule"]) == ("cut", "interceptor_died", "had.test", 80, "http", "had.test:80") and "up" not in r and r["ms"] >= 0, r
    b.last(event="end", flow=two, reason="interceptor_died")
    five, _e = give()
    six, _f = give()
    assert refused() and six > five > four, "and three again"
    ours.close()
    time.sleep(2.2) # nobody comes after it
    assert b.last(event="end", flow=three)["reason"] == b.last(event="end", flow=six)["reason"] == "interceptor_died"
    s = b.connect("had.test", 5001)
    assert s.recv(1), "none is counted any more"
    s.close()
    # The sandbox's end is theirs, too.
    ours = pair()
    seven, _g = give()
    b.drop()
    past(lab, b, f'"reason":"sandbox_gone","flow":{seven}')
    ours.close()
    k.s.close()


def memory_stays_small(lab):
    lab.serve(HOST4 % 57, 5000, echo)
    lab.resolver.table["m.test"] = [HOST4 % 57]
    boxes = [lab.box(rules("m.test:5000")) for _ in range(int(os.environ.get("EGRESS_BOXES", "10")))]
    socks = []
    for b in boxes:
        b.look_up("m.test")

    def some(n):
        out = []
        for _ in range(n):
            s = socket.socket()
            s.connect(("198.18.1.1", 5000))
            out.append(s)
        return out

    for b in boxes:
        socks += inside(b.ns, some, 2000 // len(boxes))
    for s in socks:
        s.sendall(b"x")
    for s in socks:
        s.settimeout(10)
        assert s.recv(1) == b"x"
    kb = lab.private_kb()
    print(f"     {len(boxes)} sandboxes, {len(socks)} flows: {kb} kB private")
    assert kb < 8192 or "ASAN_OPTIONS" in os.environ, kb
    for s in socks:
        s.close()


TESTS = [v for k, v in list(globals().items()) if callable(v) and getattr(v, "__module__", "") == "__main__" and k not in ("rules", "host", "reset", "hello", "said", "answers", "past")]
if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], [t for t in TESTS if not sys.argv[3:] or t.__name__ in sys.argv[3:]])
