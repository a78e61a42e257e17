#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_egress_load.py EGRESS NETBOX [NAME…]: cay-egress under load: many flows, kills, flips of the policy, few descriptors, real programs.

EGRESS_FULL=1 takes the full counts (make soak); else a tenth.
"""
import asyncio, os, shutil, sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from egress_lab import *

FULL = bool(os.environ.get("EGRESS_FULL"))
ME = os.path.abspath(__file__)


def rules(*words):
    return "cay-net 1\nmode rules\n" + "".join(f"rule {w}\n" for w in words)


# ---- programs that run in a namespace: test_egress_load.py --as ROLE ARGS… ----


async def echo_server(addr, port):
    async def one(r, w):
        try:
            while d := await r.read(65536):
                w.write(d)
                await w.drain()
            w.close()
        except OSError:
            w.transport.abort()

    s = await asyncio.start_server(one, addr, int(port), backlog=4096)
    print("ready", flush=True)
    await s.serve_forever()


async def many(addr, port, total, at_once):
    """Connections that each say something, hear it back and end in order; all `at_once` are open together before one ends."""
    total, at_once, bad = int(total), int(at_once), []
    for _ in range(0, total, at_once):
        gate, open_ = asyncio.Event(), []

        async def one(i):
            try:
                r, w = await asyncio.wait_for(asyncio.open_connection(addr, int(port)), 60)
                word = b"%08d" % i
                w.write(word)
                got = await asyncio.wait_for(r.readexactly(8), 60)
                open_.append(i)
                if len(open_) == at_once:
                    gate.set()
                await asyncio.wait_for(gate.wait(), 60)
                w.write_eof()
                end = await asyncio.wait_for(r.read(1), 60)
                if got != word or end:
                    bad.append((i, got, end))
                w.close()
            except Exception as e:
                bad.append((i, repr(e)))
                gate.set()

        await asyncio.gather(*(one(i) for i in range(at_once)))
    print(json.dumps({"total": total, "bad": len(bad), "some": [str(b) for b in bad[:5]]}))


async def churn(addr, port, seconds, flag="/nonexistent"):
    """Flows of random length that must be whole or reset, never cut short cleanly; tells what happened to each."""
    stop, count = time.time() + float(seconds), {"whole": 0, "reset": 0, "short": 0, "other": 0}
    blob = os.urandom(1 << 20)

    async def worker(n):
        while time.time() < stop and not os.path.exists(flag):
            size = (n * 7919 + count["whole"] * 104729) % len(blob) + 1
            got = 0
            try:
                r, w = await asyncio.wait_for(asyncio.open_connection(addr, int(port)), 10)

                async def feed():
                    try:
                        w.write(blob[:size])
                        await w.drain()
                        w.write_eof()
                    except OSError:
                        pass  # the reader hears of it

                t = asyncio.ensure_future(feed())
                while d := await asyncio.wait_for(r.read(65536), 10):
                    if d != blob[got : got + len(d)]:
                        count["other"] += 1
                    got += len(d)
                await t
                count["whole" if got == size else "short"] += 1
                w.close()
            except (ConnectionError, asyncio.IncompleteReadError):
                count["reset"] += 1
            except Exception as e:
                count["other"] += 1
                count["last"] = repr(e)

    await asyncio.gather(*(worker(n) for n in range(16)))
    print(json.dumps(count))


def role(ns, name, *args):
    cmd = ["nsenter", f"--net=/proc/{ns}/ns/net", sys.executable, ME, "--as", name, *map(str, args)]
    return subprocess.Popen(cmd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, preexec_fn=with_us)


def world_echo(lab, addr, port):
    p = role(lab.world.pid, "echo_server", addr, port)
    assert p.stdout.readline() == "ready\n"
    return p


# ---- tests ----


def ten_thousand_connections(lab):
    lab.resolver.table["many.test"] = [HOST4 % 10]
    srv = world_echo(lab, HOST4 % 10, 5000)
    b = lab.box(rules("many.test:5000"))
    addr = b.look_up("many.test")
    n = lab.fds()
    try:
        p = role(b.proc.pid, "many", addr, 5000, 10500 if FULL else 3000, 1500)
        out = json.loads(p.communicate(timeout=150)[0])
        assert out["bad"] == 0, out
        until(lambda: lab.fds() <= n + 2, "descriptors were lost")
    finally:
        srv.kill()
        srv.wait()


def a_large_transfer(lab):
    import zlib
    size = (1 << 30) if FULL else (256 << 20)
    blob = os.urandom(1 << 20)
    want = 0
    for _ in range(size >> 20):
        want = zlib.crc32(blob, want)

    def down(c):
        for _ in range(size >> 20):
            c.sendall(blob)

    def up(c):
        crc, n = 0, 0
        while d := c.recv(1 << 20):
            crc, n = zlib.crc32(d, crc), n + len(d)
        c.sendall(struct.pack("QI", n, crc))

    lab.serve(HOST4 % 11, 5000, down)
    lab.serve(HOST4 % 11, 5001, up)
    lab.resolver.table["big.test"] = [HOST4 % 11]
    b = lab.box(rules("big.test:5000", "big.test:5001"))
    s = b.connect("big.test", 5000, 60)
    crc, n = 0, 0
    while d := s.recv(1 << 20):
        crc, n = zlib.crc32(d, crc), n + len(d)
    assert (n, crc) == (size, want), n
    s = b.connect("big.test", 5001, 60)
    down(s)
    s.shutdown(socket.SHUT_WR)
    assert struct.unpack("QI", exactly(s, 12)) [0:2] == (size, want)
    assert lab.private_kb() < 8192 or "ASAN_OPTIONS" in os.environ


def stuck_flows_cost_nothing(lab):
    def never(c):
        time.sleep(30)

    lab.serve(HOST4 % 12, 5000, never)
    lab.resolver.table["stuck.test"] = [HOST4 % 12]
    b = lab.box(rules("stuck.test:5000"))
    flows = []
    for _ in range(100):
        s = b.connect("stuck.test", 5000)
        s.setblocking(False)
        flows.append(s)
    for _ in range(60):
        for s in flows:
            try:
                s.send(bytes(65536))
            except BlockingIOError:
                pass
    ticks = lambda: sum(int(x) for x in open(f"/proc/{lab.proc.pid}/stat").read().split()[13:15])
    time.sleep(0.5)
    before = ticks()
    time.sleep(0.5)
    assert ticks() - before < 10, "it spins"
    assert lab.private_kb() < 8192 or "ASAN_OPTIONS" in os.environ, lab.private_kb()
    # A client that resets, and one whose server never reads, leave nothing behind.
    for s in flows:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()


def killed_under_load(lab):
    """Whole or reset, never short; nothing outside the policy leaves; what waited is taken up."""
    times = 200 if FULL else 20
    lab.resolver.table["kill.test"] = [HOST4 % 13]
    srv = world_echo(lab, HOST4 % 13, 5000)
    b = lab.box(rules("kill.test:5000"))
    addr = b.look_up("kill.test")
    before = lab.capture.so_far()
    try:
        p = role(b.proc.pid, "churn", addr, 5000, times * 0.2 + 1)
        q = role(b.proc.pid, "churn", "203.0.113.99", 5000, times * 0.2 + 1)  # has no rule
        time.sleep(0.4)
        for i in range(times):
            lab.kill()
            time.sleep(0.02)
            lab.restart()
            time.sleep(0.13)
        out = json.loads(p.communicate(timeout=60)[0])
        no = json.loads(q.communicate(timeout=60)[0])
    finally:
        srv.kill()
        srv.wait()
    print(f"     {times} kills: {out}")
    assert out["short"] == 0 and out["other"] == 0 and out["whole"] > times, out
    assert no["whole"] == 0 and no["short"] == 0, no
    new = {x for x in lab.capture.seen - before if x[1] != RESOLVER}
    assert new <= {(6, HOST4 % 13, 5000)}, new
    assert b.look_up("kill.test") == addr


def flips_under_load(lab):
    """A forbidden byte after the acknowledgement is one too many."""
    times = 1000 if FULL else 100
    seen = {"a": 0, "b": 0}

    def count(which):
        def fn(c):
            while d := c.recv(65536):
                seen[which] += len(d)
                c.sendall(d)

        return fn

    lab.serve(HOST4 % 14, 5000, count("a"))
    lab.serve(HOST4 % 15, 5000, count("b"))
    lab.resolver.table["a.test"], lab.resolver.table["b.test"] = [HOST4 % 14], [HOST4 % 15]
    both, one = rules("a.test:5000", "b.test:5000"), rules("a.test:5000")
    b = lab.box(both)
    na, nb = b.look_up("a.test"), b.look_up("b.test")
    flag = lab.dir + "/stop"
    load = [role(b.proc.pid, "churn", x, 5000, 600, flag) for x in (na, nb)]
    time.sleep(0.5)
    longest = 0.0
    for i in range(times):
        assert b.set(one)["code"] == 0
        began = quiet = time.time()
        at = seen["b"]
        while time.time() - quiet < 0.03:  # what was in the kernel's hands, or the server's, still arrives
            if seen["b"] != at:
                at, quiet = seen["b"], time.time()
                assert quiet - began < 2, f"flip {i}: bytes {quiet - began:.2f} s after the acknowledgement"
            time.sleep(0.002)
        longest = max(longest, quiet - began)
        assert b.set(both)["code"] == 0
        until = time.time() + 5
        while seen["b"] == at and time.time() < until:
            time.sleep(0.002)
        assert seen["b"] > at, f"flip {i}: what is allowed again does not pass"
    open(flag, "w").close()
    a = json.loads(load[0].communicate(timeout=120)[0])
    load[1].communicate(timeout=120)
    print(f"     {times} flips: last byte at most {longest * 1000:.0f} ms after the acknowledgement; allowed throughout: {a}")
    assert a["reset"] == 0 and a["short"] == 0 and a["other"] == 0, a


def few_descriptors(lab):
    """At the limit a flow is refused with a reason, and none hangs."""
    tight = Lab(lab.program, lab.netbox, nofile=512)
    srv = world_echo(tight, HOST4 % 16, 5000)
    try:
        tight.resolver.table["few.test"] = [HOST4 % 16]
        b = tight.box(rules("few.test:5000"))
        addr = b.look_up("few.test")
        good = bad = 0
        socks = [b.connect(addr, 5000) for _ in range(400)]
        for s in socks:
            try:
                s.sendall(b"x")
                good += s.recv(1) == b"x"
            except OSError as e:
                assert not isinstance(e, socket.timeout), "it hangs"
                bad += 1
        assert good + bad == 400 and good > 150 and bad > 100, (good, bad)
        b.last(event="connect", verdict="deny", reason="descriptors_limit")
        n = tight.fds()
        for s in socks:
            s.close()
        until(lambda: tight.fds() <= n - good, "closed flows are still held")
        s = inside(b.ns, lambda: socket.create_connection((addr, 5000), 10))
        s.sendall(b"x")
        assert s.recv(1) == b"x", "it did not recover"
        assert tight.proc.poll() is None
    finally:
        srv.kill()
        srv.wait()
        tight.end()


def one_that_dials_nowhere_leaves_room(lab):
    """A flow under way holds more than one descriptor; the other sandbox has its share all the same."""
    tight = Lab(lab.program, lab.netbox, nofile=512)
    srv = world_echo(tight, HOST4 % 16, 5000)
    try:
        tight.resolver.table["few.test"] = [HOST4 % 16]
        hog, other = tight.box(rules("*.hog.test:5000")), tight.box(rules("few.test:5000"))
        addr = other.look_up("few.test")
        tight.resolver.mute = True
        names = [hog.look_up(f"n{i}.hog.test") for i in range(300)]
        held = [hog.connect(a, 5000) for a in names]
        hog.last(event="connect", verdict="deny", reason="descriptors_limit")
        tight.resolver.mute = False
        socks = [other.connect(addr, 5000) for _ in range(60)]
        for s in socks:
            s.sendall(b"x")
            assert s.recv(1) == b"x"
        for s in socks + held:
            s.close()
    finally:
        srv.kill()
        srv.wait()
        tight.end()


def leaves_with_its_state_directory(lab):
    """Without a keeper, and with nobody who could send another, what is lent must not hold it for ever."""
    own = Lab(lab.program, lab.netbox)
    try:
        own.box("cay-net 1\nmode all\n")
        own.keeper.s.close()
        shutil.rmtree(own.audit)
        assert own.proc.wait(30) == 0
    finally:
        own.end()


def real_programs(lab):
    """curl, git, python, node: against servers with certificates of the lab's own CA."""
    t = Tls(lab)
    a4, a6 = HOST4 % 60, HOST6 % 60
    for n in ("web.test", "git.test", "idx.test"):
        lab.resolver.table[n] = [a4, a6]
    ctx = t.context("web.test", "git.test", "idx.test")
    site = lab.dir + "/site"
    os.makedirs(site + "/pkg")
    q = dict(check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    env = dict(os.environ, GIT_AUTHOR_NAME="x", GIT_AUTHOR_EMAIL="x@x", GIT_COMMITTER_NAME="x", GIT_COMMITTER_EMAIL="x@x", HOME=lab.dir)
    subprocess.run(["git", "init", "-q", site + "/src"], **q)
    open(site + "/src/file", "w").write("in git\n")
    for cmd in (["add", "."], ["commit", "-qm", "x"]):
        subprocess.run(["git", "-C", site + "/src", *cmd], env=env, **q)
    subprocess.run(["git", "clone", "-q", "--bare", site + "/src", site + "/repo.git"], **q)
    subprocess.run(["git", "-C", site + "/repo.git", "update-server-info"], **q)
    import http.server

    class Quiet(http.server.SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def __init__(self, *a, **k):
            super().__init__(*a, directory=site, **k)

        def log_message(self, *a):
            pass

    def serve(c):
        Quiet(c, ("", 0), None)

    for a in (a4, a6):
        t.serve(a, 443, ctx, serve)
        lab.serve(a, 80, serve)
    open(site + "/hello", "w").write("hello\n")
    b = lab.box(rules("web.test", "git.test"))
    resolv = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc/resolv.conf && exec "$@"', lab.dir + "/resolv.conf"]
    open(lab.dir + "/resolv.conf", "w").write("nameserver 127.0.0.53\noptions timeout:2 attempts:2\n")
    home = {"HOME": lab.dir, "no_proxy": "*"}

    def run(*argv, **kw):
        return b.run(*resolv, *argv, env=dict(home, **kw), timeout=60)

    ran = []
    for extra in ([], ["--tls-max", "1.2"], ["-4"], ["-6"]):
        r = run("curl", "-sS", "--cacert", t.ca, *extra, "https://web.test/hello")
        assert r.stdout == b"hello\n", r
    assert run("curl", "-sS", "http://web.test/hello").stdout == b"hello\n"
    r = run("curl", "-sS", "http://evil.test/hello")
    assert r.returncode == 6, r  # no such host
    r = run("curl", "-sS", "--cacert", t.ca, "--connect-to", "web.test:443:git.test:443", "https://web.test/hello")
    assert r.returncode == 35 and b"unrecognized name" in r.stderr, r
    r = run("curl", "-sS", "-o", "-", "-H", "Host: evil.test", "http://web.test/hello")
    assert b"cay net allow" in r.stdout, r
    ran.append("curl")
    r = run("git", "clone", "-q", "https://git.test/repo.git", lab.dir + "/clone", GIT_SSL_CAINFO=t.ca)
    assert r.returncode == 0 and open(lab.dir + "/clone/file").read() == "in git\n", r
    ran.append("git")
    r = run(sys.executable, "-c", "import urllib.request as u; print(u.urlopen('https://web.test/hello').read())", SSL_CERT_FILE=t.ca)
    assert b"hello" in r.stdout, r
    r = run(sys.executable, "-c", "import socket; print(socket.getnameinfo(socket.getaddrinfo('web.test', 443)[0][4], socket.NI_NAMEREQD))")
    assert b"web.test" in r.stdout, r
    ran.append("python")
    if shutil.which("node"):
        r = run("node", "-e", "fetch('https://web.test/hello').then(r => r.text()).then(t => console.log(t))", NODE_EXTRA_CA_CERTS=t.ca)
        assert b"hello" in r.stdout, r
        r = run("node", "-e", "fetch('https://evil.test/').catch(e => console.log(e.cause.code))")
        assert b"ENOTFOUND" in r.stdout, r
        srv = f"""const h=require('http2'),fs=require('fs');const s=h.createSecureServer({{key:fs.readFileSync('{lab.dir}/h2.test.key'),
            cert:fs.readFileSync('{lab.dir}/h2.test.pem')}});s.on('stream',(q)=>{{q.respond({{':status':200}});q.end('two\\n')}});s.listen(443,'{HOST4 % 61}',()=>console.log('up'))"""
        t.context("h2.test")
        lab.resolver.table["h2.test"] = [HOST4 % 61]
        b.set(rules("web.test", "h2.test"))
        p = subprocess.Popen(["nsenter", f"--net=/proc/{lab.world.pid}/ns/net", "node", "-e", srv], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        try:
            assert p.stdout.readline() == b"up\n"
            r = run("curl", "-sS", "--http2", "--cacert", t.ca, "-w", "%{http_version}", "https://h2.test/")
            assert r.stdout == b"two\n2", r
        finally:
            p.kill()
            p.wait()
        ran.append("node, HTTP/2")
    print("     " + ", ".join(ran))


TESTS = [ten_thousand_connections, a_large_transfer, stuck_flows_cost_nothing, killed_under_load, flips_under_load, few_descriptors, one_that_dials_nowhere_leaves_room, leaves_with_its_state_directory, real_programs]
if __name__ == "__main__":
    if sys.argv[1] == "--as":
        asyncio.run(globals()[sys.argv[2]](*sys.argv[3:]))
    else:
        main(sys.argv[1], sys.argv[2], [t for t in TESTS if not sys.argv[3:] or t.__name__ in sys.argv[3:]])
