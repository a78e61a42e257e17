# SPDX-License-Identifier: Apache-2.0
"""A small internet for cay-egress: three net namespaces, and a keeper that is played.

    box --(lent sockets)-- cay-egress in `up` ==veth== `world`: servers with public addresses, and a resolver that logs

Everything lives in namespaces of child processes, so nothing is left when they end. Frames on the wire between up and world are
captured in world; that is the only way out of up.
"""
import array, ctypes, json, os, socket, ssl, struct, subprocess, sys, tempfile, threading, time

libc = ctypes.CDLL(None, use_errno=True)
MAGIC, VERSION = 0x31796163, 1
LEND, POLICY, DROP, DIAL, OPERATOR, WHY, INTERCEPT = 1, 2, 3, 4, 5, 6, 7
PAIR = 60
RESOLVER, HOST4, HOST6 = "192.0.2.53", "203.0.113.%d", "2001:db8::%x"


def with_us():
    """For preexec_fn: ends when we do, however that is."""
    libc.prctl(1, 9)


def sh(*argv):
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)


def until(fact, otherwise, seconds=20):
    """Waits for a fact; fails with a sentence when it does not come."""
    end = time.time() + seconds
    while not fact():
        assert time.time() < end, otherwise
        time.sleep(0.02)


def setns(fd):
    if libc.setns(fd, 0x40000000) < 0:
        raise OSError(ctypes.get_errno(), "setns")


def inside(ns, fn, *args):
    """Runs fn in that net namespace; sockets that it makes stay there."""
    out = []

    def go():
        try:
            setns(ns)
            out.append((fn(*args), None))
        except BaseException as e:
            out.append((None, e))

    t = threading.Thread(target=go)
    t.start()
    t.join()
    if out[0][1]:
        raise out[0][1]
    return out[0][0]


class Space:
    """A net namespace, held by a sleeping child."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "-n", "sleep", "3600"], preexec_fn=with_us, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        host = os.readlink("/proc/self/ns/net")
        while os.readlink(f"/proc/{self.holder.pid}/ns/net") == host:
            time.sleep(0.005)
        self.pid = self.holder.pid
        self.fd = os.open(f"/proc/{self.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def ip(self, *args):
        sh("nsenter", f"--net=/proc/{self.pid}/ns/net", "ip", *args)

    def end(self):
        self.holder.kill()
        self.holder.wait()
        os.close(self.fd)


def name_bytes(name):
    return b"".join(bytes([len(l)]) + l.encode() for l in name.split(".") if l) + b"\0"


class Resolver:
    """Answers from a table; logs every question. A value is a list of addresses, or a function that gives one."""

    def __init__(self, world):
        self.table, self.log, self.ttl, self.mute, self.cut = {}, [], 0, False, False
        self.udp = inside(world.fd, socket.socket, socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((RESOLVER, 53))
        self.tcp = inside(world.fd, socket.create_server, (RESOLVER, 53))
        threading.Thread(target=self.serve_udp, daemon=True).start()
        threading.Thread(target=self.serve_tcp, daemon=True).start()

    def answer(self, q):
        at, labels = 12, []
        while q[at]:
            labels.append(q[at + 1 : at + 1 + q[at]].decode())
            at += 1 + q[at]
        kind = struct.unpack(">H", q[at + 1 : at + 3])[0]
        name = ".".join(labels).lower()
        self.log.append((name, kind))
        found = self.table.get(name)
        found = found() if callable(found) else found
        head = lambda flags, n: q[:2] + struct.pack(">5H", flags, 1, n, 0, 0) + q[12 : at + 5]
        if found is None:
            return head(0x8183, 0)
        if found == "servfail":
            return head(0x8182, 0)
        rr = []
        for a in found:
            six = ":" in a
            if (kind == 28) == six and kind in (1, 28):
                data = socket.inet_pton(socket.AF_INET6 if six else socket.AF_INET, a)
                rr.append(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, self.ttl, len(data)) + data)
        return head(0x8180, len(rr)) + b"".join(rr)

    def serve_udp(self):
        while True:
            q, who = self.udp.recvfrom(4096)
            if self.mute:
                continue
            a = self.answer(q)
            if self.cut:
                a = a[:2] + b"\x83\x80" + a[4:6] + b"\0\0" + a[8:]
            self.udp.sendto(a, who)

    def serve_tcp(self):
        while True:
            c, _ = self.tcp.accept()
            with c:
                c.settimeout(2)
                try:
                    n = struct.unpack(">H", c.recv(2, socket.MSG_WAITALL))[0]
                    a = self.answer(c.recv(n, socket.MSG_WAITALL))
                    c.sendall(struct.pack(">H", len(a)) + a)
                except OSError:
                    pass


class Capture:
    """Every frame that reaches world: what left egress's namespace."""

    def __init__(self, world, dev):
        self.s = inside(world.fd, socket.socket, socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.s.bind((dev, 0))
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 20)
        self.seen = set()
        threading.Thread(target=self.run, daemon=True).start()

    def so_far(self):
        """All that was sent until now, by whom ever: frames wait in a queue before they are looked at."""
        time.sleep(0.5)
        return set(self.seen)

    def run(self):
        while True:
            try:
                f, who = self.s.recvfrom(65536)
            except OSError:  # the lab ends
                return
            if who[2] == socket.PACKET_OUTGOING:
                continue
            kind = struct.unpack(">H", f[12:14])[0]
            if kind == 0x0800:
                ihl, proto, dst = (f[14] & 15) * 4, f[23], socket.inet_ntop(socket.AF_INET, f[30:34])
                port = struct.unpack(">H", f[14 + ihl + 2 : 14 + ihl + 4])[0] if proto in (6, 17) else 0
                self.seen.add((proto, dst, port))
            elif kind == 0x86DD:
                proto, dst = f[20], socket.inet_ntop(socket.AF_INET6, f[38:54])
                port = struct.unpack(">H", f[56:58])[0] if proto in (6, 17) else 0
                # The link's own words come with its life: neighbours (58), and what groups it listens to (behind a hop-by-hop header).
                if proto != 58 and dst != "ff02::16":
                    self.seen.add((proto, dst, port))


class Gone:
    def recv(self, *a):
        raise ConnectionResetError

    def sendall(self, d):
        pass

    def close(self):
        pass


def exactly(s, n):
    got = b""
    while len(got) < n and (d := s.recv(n - len(got))):
        got += d
    return got


class Box:
    """What a sandbox is to egress, and a place to run programs in."""

    count = 0

    def __init__(self, lab, policy, netbox, lend=True):
        Box.count += 1
        n, text = Box.count, ""
        for _ in range(19):
            text += "abcdefghijklmnopqrstuvwxyz234567"[n % 32]
            n //= 32
        self.lab, self.id, self.revision = lab, "c" + text, 1
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.proc = subprocess.Popen([netbox, str(b.fileno()), "sleep", "3600"], pass_fds=[b.fileno()], preexec_fn=with_us, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        b.close()
        a.settimeout(10)
        data, self.fds, _, _ = socket.recv_fds(a, 64, 8)
        a.close()
        if len(data) != 16:
            sys.exit(77)
        self.how, self.cookie = struct.unpack("QQ", data)
        *self.fds, self.map = self.fds
        self.ns = os.open(f"/proc/{self.proc.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.policy_fd = self.policy_file(policy)
        lab.boxes.append(self)
        if lend:
            self.lend()

    def policy_file(self, text):
        fd = os.memfd_create("policy", os.MFD_CLOEXEC)
        os.write(fd, text.encode())
        return fd

    def lend(self):
        fds = list(self.fds) + [self.map, self.policy_fd]
        return self.lab.keeper.box(LEND, self, fds, {1: 1, 2: 0, 3: 4}[self.how])

    def set(self, policy, revision=None):
        self.revision = revision or self.revision + 1
        os.close(self.policy_fd)
        self.policy_fd = self.policy_file(policy)
        return self.lab.keeper.box(POLICY, self, [self.policy_fd])

    def drop(self):
        self.end()
        return self.lab.keeper.box(DROP, self, [])

    def end(self):
        if self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()
            for fd in list(self.fds) + [self.map, self.ns, self.policy_fd]:
                os.close(fd)
        if self in self.lab.boxes:
            self.lab.boxes.remove(self)

    def run(self, *argv, timeout=20, **kw):
        """A program in the box: its completed process."""
        env = dict(os.environ, **kw.pop("env", {}))
        return subprocess.run(["nsenter", f"--net=/proc/{self.proc.pid}/ns/net", *argv], timeout=timeout, capture_output=True,
                              stdin=subprocess.DEVNULL, env=env, **kw)

    def start(self, *argv, **kw):
        return subprocess.Popen(["nsenter", f"--net=/proc/{self.proc.pid}/ns/net", *argv], stdin=subprocess.DEVNULL, **kw)

    def connect(self, addr, port, timeout=10):
        """A connected socket from inside; a name is asked of egress."""

        def go():
            where = addr
            if not addr.replace(".", "").isdigit() and ":" not in addr:
                where = self.look_up(addr)
                if not where:
                    raise OSError("NXDOMAIN")
            s = socket.socket(socket.AF_INET6 if ":" in where else socket.AF_INET, socket.SOCK_STREAM)
            s.settimeout(timeout)
            try:
                s.connect((where, port))
            except ConnectionResetError:  # refused before we looked: the next read would say the same
                s.close()
                return Gone()
            return s

        return inside(self.ns, go)

    def query(self, name, kind=1, edns=True, server="127.0.0.53", tcp=False, raw=None, timeout=3):
        """The raw answer to a DNS question."""
        q = raw or (struct.pack(">6H", 0x4242, 0x100, 1, 0, 0, 1 if edns else 0) + name_bytes(name) + struct.pack(">HH", kind, 1) +
                    (b"\0" + struct.pack(">HHIH", 41, 1232, 0, 0) if edns else b""))

        def go():
            six = ":" in server
            s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
            with s:
                s.settimeout(timeout)
                s.connect((server, 53))
                s.send((struct.pack(">H", len(q)) if tcp else b"") + q)
                if not tcp:
                    return s.recv(4096)
                head = s.recv(2, socket.MSG_WAITALL)
                return s.recv(struct.unpack(">H", head)[0], socket.MSG_WAITALL) if len(head) == 2 else b""

        return inside(self.ns, go)

    def look_up(self, name, kind=1):
        """The one synthetic address, or None."""
        a = self.query(name, kind, edns=False)
        if a[3] & 15 or not struct.unpack(">H", a[6:8])[0]:
            return None
        return socket.inet_ntop(socket.AF_INET6, a[-16:]) if kind == 28 else socket.inet_ntop(socket.AF_INET, a[-4:])

    def log(self):
        """The records so far."""
        out = []
        for end in (".jsonl.1", ".jsonl"):
            try:
                out += [json.loads(l) for l in open(f"{self.lab.audit}/{self.id}{end}")]
            except FileNotFoundError:
                pass
        return out

    def last(self, **want):
        """The newest record with these fields; waits a moment for it."""
        for _ in range(100):
            for r in reversed(self.log()):
                if all(r.get(k) == v for k, v in want.items()):
                    return r
            time.sleep(0.02)
        raise AssertionError(f"no record {want}; the last are {self.log()[-4:]}")


class Keeper:
    def __init__(self, path):
        self.s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.s.settimeout(10)
        self.s.connect(path)
        self.seq = self.pairs = 0

    def send(self, kind, body, tail=b"", fds=()):
        data = struct.pack("IHHII", MAGIC, VERSION, kind, len(tail), 0) + body + tail
        self.s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])

    def recv(self):
        data, fds, _, _ = socket.recv_fds(self.s, 65536, 4)
        if not data:
            raise ConnectionError("egress hung up")
        kind = struct.unpack("H", data[6:8])[0]
        if kind == PAIR:
            self.pairs += 1
            return self.recv()
        seq, bid, revision, code, sys_ = struct.unpack("Q24sQii", data[16 : 16 + 48])
        text = lambda b: b.split(b"\0")[0].decode()
        return dict(kind=kind, seq=seq, revision=revision, code=code, sys=sys_, reason=text(data[64:104]), msg=text(data[104:320]), fds=fds)

    def box(self, kind, box, fds, flags=0):
        self.seq += 1
        self.send(kind, struct.pack("Q24sQQII", self.seq, box.id.encode() if box else b"", box.cookie if box else 0,
                                    box.revision if box else 0, flags, 0), b"", fds)
        return self.recv()

    def host(self, kind, box, name, port, proto=0, flags=0):
        self.seq += 1
        self.send(kind, struct.pack("Q24sHHI", self.seq, box.id.encode(), port, proto, flags), name.encode())
        return self.recv()


class Lab:
    def __init__(self, egress, netbox, operator="", nofile=None):
        if os.geteuid() != 0:
            print("needs root: it makes net namespaces with a wire between them")
            sys.exit(77)
        for tool in ("ip", "nsenter", "unshare"):
            if subprocess.run(["sh", "-c", f"command -v {tool}"], stdout=subprocess.DEVNULL).returncode:
                print(f"{tool} is not installed: make deps")
                sys.exit(77)
        self.program, self.netbox, self.nofile = os.path.abspath(egress), os.path.abspath(netbox), nofile
        self.boxes, self.proc, self.keeper = [], None, None
        self.dir = tempfile.mkdtemp(prefix="cay-lab-", dir="/dev/shm")
        self.audit = self.dir + "/net"
        os.mkdir(self.audit)
        os.chmod(self.dir, 0o755)
        os.chown(self.audit, 65534, 65534)
        self.up, self.world = Space(), Space()
        self.wire()
        self.resolver = Resolver(self.world)
        self.capture = Capture(self.world, "w0")
        self.operator = f"cay-net 1\nresolver {RESOLVER}\n" + operator
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(self.dir + "/egress")
        self.listener.listen(8)
        self.start()

    def wire(self):
        u, w = self.up, self.world
        for s in (u, w):
            s.ip("link", "set", "lo", "up")
        u.ip("link", "add", "u0", "type", "veth", "peer", "name", "w0", "netns", str(w.pid))
        u.ip("addr", "add", "192.0.2.1/24", "dev", "u0")
        u.ip("addr", "add", "2001:db8:ffff::1/64", "dev", "u0", "nodad")
        w.ip("addr", "add", "192.0.2.2/24", "dev", "w0")
        w.ip("addr", "add", "2001:db8:ffff::2/64", "dev", "w0", "nodad")
        u.ip("link", "set", "u0", "addrgenmode", "none")
        w.ip("link", "set", "w0", "addrgenmode", "none")
        u.ip("link", "set", "u0", "address", "02:00:00:00:00:01")
        w.ip("link", "set", "w0", "address", "02:00:00:00:00:02")
        u.ip("link", "set", "u0", "up")
        w.ip("link", "set", "w0", "up")
        # Neighbours know each other: a first question that is lost would let a packet wait a second and be seen when nobody expects it any more.
        for a in ("192.0.2.2", "2001:db8:ffff::2"):
            u.ip("neigh", "replace", a, "lladdr", "02:00:00:00:00:02", "dev", "u0", "nud", "permanent")
        for a in ("192.0.2.1", "2001:db8:ffff::1"):
            w.ip("neigh", "replace", a, "lladdr", "02:00:00:00:00:01", "dev", "w0", "nud", "permanent")
        u.ip("route", "add", "default", "via", "192.0.2.2")
        u.ip("-6", "route", "add", "default", "via", "2001:db8:ffff::2")
        # The world is everywhere: also where nothing may go, so that a packet there is seen and answered.
        for net in ("1.0.0.0/8", "8.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "198.51.100.0/24", "203.0.113.0/24"):
            w.ip("route", "add", "local", net, "dev", "lo")
        w.ip("addr", "add", RESOLVER + "/32", "dev", "lo")
        for net in ("2001:db8::/48", "fc00::/8", "64:ff9b::/96"):
            w.ip("-6", "route", "add", "local", net, "dev", "lo")

    def start(self):
        op = os.memfd_create("operator")
        os.write(op, self.operator.encode())
        audit = os.open(self.audit, os.O_RDONLY | os.O_DIRECTORY)
        listener = self.listener.fileno()

        def child():
            import resource
            with_us()
            setns(self.up.fd)
            high = [os.dup(fd) + 0 for fd in (listener, audit, op)]
            high = [__import__("fcntl").fcntl(fd, 0, 100) for fd in high]
            for i, fd in enumerate(high):
                os.dup2(fd, 3 + i)
            if self.nofile:
                resource.setrlimit(resource.RLIMIT_NOFILE, (self.nofile, self.nofile))
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)

        self.proc = subprocess.Popen([self.program], preexec_fn=child, close_fds=False, env=dict(self.environ()))
        os.close(op)
        os.close(audit)
        self.dial()

    def environ(self):
        return {k: v for k, v in os.environ.items() if k.startswith(("ASAN", "UBSAN"))}

    def dial(self):
        self.keeper = Keeper(self.dir + "/egress")

    def kill(self):
        self.proc.kill()
        self.proc.wait()

    def restart(self):
        """As a keeper does: a new one, and everything lent again."""
        self.start()
        for b in self.boxes:
            a = b.lend()
            assert a["code"] == 0, a

    def box(self, policy, **kw):
        b = Box(self, policy, self.netbox, lend=False)
        a = b.lend() if kw.get("lend", True) else None
        assert not a or a["code"] == 0, a
        return b

    def operator_set(self, text):
        fd = os.memfd_create("operator")
        os.write(fd, (f"cay-net 1\nresolver {RESOLVER}\n" + text).encode())
        a = self.keeper.box(OPERATOR, None, [fd])
        os.close(fd)
        return a

    def serve(self, addr, port, fn):
        """A server in the world: fn(socket) in a thread for each connection."""
        fam = socket.AF_INET6 if ":" in addr else socket.AF_INET
        s = inside(self.world.fd, socket.socket, fam, socket.SOCK_STREAM)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.setsockopt(*((socket.IPPROTO_IPV6, 78, 1) if fam == socket.AF_INET6 else (socket.IPPROTO_IP, 15, 1)))  # FREEBIND
        s.bind((addr, port))
        s.listen(4096)

        def one(c):
            try:
                with c:
                    fn(c)
            except OSError:
                pass

        def loop():
            while True:
                c, _ = s.accept()
                threading.Thread(target=one, args=(c,), daemon=True).start()

        threading.Thread(target=loop, daemon=True).start()
        return s

    def private_kb(self):
        total = 0
        for line in open(f"/proc/{self.proc.pid}/smaps_rollup"):
            if line.startswith("Private_"):
                total += int(line.split()[1])
        return total

    def fds(self):
        return len(os.listdir(f"/proc/{self.proc.pid}/fd"))

    def end(self):
        for b in list(self.boxes):
            b.end()
        if self.proc and self.proc.poll() is None:
            self.proc.kill()
            self.proc.wait()
        self.up.end()
        self.world.end()
        subprocess.run(["rm", "-rf", self.dir])


def echo(c):
    while True:
        d = c.recv(65536)
        if not d:
            return
        c.sendall(d)


def http(c):
    """A server that keeps connections: tells Host and path."""
    buf = b""
    while True:
        while b"\r\n\r\n" not in buf:
            d = c.recv(65536)
            if not d:
                return
            buf += d
        head, buf = buf.split(b"\r\n\r\n", 1)
        length = 0
        host = b""
        for l in head.split(b"\r\n")[1:]:
            if l.lower().startswith(b"content-length:"):
                length = int(l.split(b":")[1])
            if l.lower().startswith(b"host:"):
                host = l.split(b":", 1)[1].strip()
        while len(buf) < length:
            buf += c.recv(65536)
        buf = buf[length:]
        body = b"host=" + host + b" line=" + head.split(b"\r\n")[0] + b"\n"
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        if head.split()[1] == b"/close":
            return


class Tls:
    """A CA and servers with certificates of it."""

    def __init__(self, lab):
        self.lab, self.dir = lab, lab.dir
        q = dict(check=True, stderr=subprocess.DEVNULL)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=lab",
                        "-keyout", f"{self.dir}/ca.key", "-out", f"{self.dir}/ca.pem"], **q)
        self.ca = f"{self.dir}/ca.pem"

    def context(self, *names, alpn=None):
        base = f"{self.dir}/{names[0]}"
        q = dict(check=True, stderr=subprocess.DEVNULL)
        subprocess.run(["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={names[0]}", "-keyout", base + ".key",
                        "-out", base + ".csr"], **q)
        with open(base + ".ext", "w") as f:
            f.write("subjectAltName=" + ",".join("DNS:" + n for n in names))
        subprocess.run(["openssl", "x509", "-req", "-in", base + ".csr", "-CA", self.ca, "-CAkey", f"{self.dir}/ca.key", "-CAcreateserial", "-days", "2",
                        "-extfile", base + ".ext", "-out", base + ".pem"], **q)
        ctx = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        ctx.load_cert_chain(base + ".pem", base + ".key")
        if alpn:
            ctx.set_alpn_protocols(alpn)
        return ctx

    def serve(self, addr, port, ctx, fn):
        def one(c):
            with ctx.wrap_socket(c, server_side=True) as t:
                fn(t)
                try:
                    t.unwrap()
                except OSError:
                    pass

        return self.lab.serve(addr, port, one)


def client_hello(name, ech=False, pad=0):
    """A hello as bytes; `name` None: without a server name."""
    ctx = ssl.create_default_context()
    ctx.check_hostname, ctx.verify_mode = False, ssl.CERT_NONE
    i, o = ssl.MemoryBIO(), ssl.MemoryBIO()
    t = ctx.wrap_bio(i, o, server_hostname=name)
    try:
        t.do_handshake()
    except ssl.SSLWantReadError:
        pass
    h = bytearray(o.read())
    extra = b""
    if ech:
        extra += struct.pack(">HH", 0xFE0D, 40) + bytes(40)
    if pad:
        extra += struct.pack(">HH", 0x7A7A, pad) + bytes(pad)
    if extra:
        h += extra
        at = 5 + 4 + 34
        at += 1 + h[at]
        at += 2 + struct.unpack(">H", h[at : at + 2])[0]
        at += 1 + h[at]
        for where, size in ((at, 2), (6, 3), (3, 2)):
            v = int.from_bytes(h[where : where + size], "big") + len(extra)
            h[where : where + size] = v.to_bytes(size, "big")
    return bytes(h)


def main(egress, netbox, tests, operator="", nofile=None):
    """Runs functions of (lab); prints a line for each; exits 1 when one fails."""
    import traceback
    lab = Lab(egress, netbox, operator, nofile)
    bad = 0
    try:
        for fn in tests:
            began = time.time()
            try:
                fn(lab)
                if lab.proc.poll() is not None:
                    raise AssertionError(f"egress ended with {lab.proc.returncode}")
                print(f"ok   {fn.__name__}  {time.time() - began:.2f} s", flush=True)
            except Exception:
                bad += 1
                print(f"FAIL {fn.__name__}", flush=True)
                traceback.print_exc(file=sys.stdout)
                if lab.proc.poll() is not None:
                    lab.restart()
            for b in list(lab.boxes):
                b.drop()
    finally:
        lab.end()
    print(f"{len(tests) - bad} passed, {bad} failed")
    sys.exit(1 if bad else 0)
