#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_trees.py BUILD WALK: what cay shows of a pulled image is what dockerd unpacks of it: names, modes, ids, links, attributes, sizes, hashes. Run by tests/docker/with.

Images are made here and by the engine, pushed into Debian's docker-registry, pulled by both. One program (tests/support/walk.c) tells both trees: the engine's from its own
layers, cay's from inside a sandbox; as root, and as a user with a range of ids.
test_trees.py --cay BUILD REGISTRY WANTED: cay's half, as whoever runs it."""
import http.client, io, json, os, random, shutil, socket, subprocess, sys, tarfile, tempfile, time

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here + "/../support")
from images import *

# What a sandbox has of its own, and what a container gets of the engine.
OURS = {"etc/hosts", "etc/hostname", "etc/resolv.conf", "workspace", "proc", "dev", "run", "sys", "tmp", "etc"}
MOUNTS = ("proc/", "dev/", "run/", "sys/")


def rows(text):
    out = {}
    for line in text.splitlines():
        name, kind, mode, uid, gid, size, mtime, links, to, dev, sha, attrs = line.split("|")
        if name in OURS or name.startswith(MOUNTS):
            continue
        # a directory's time is when something in it was last made, where nobody says otherwise
        out[name] = [kind, mode, uid, gid, size, "" if kind == "40000" else mtime, links, to, dev, sha, attrs]
    return out


def differences(got, want):
    return [(p, got.get(p), want.get(p)) for p in sorted(set(got) | set(want)) if got.get(p) != want.get(p)]


def cays_half(build, registry, wanted):
    """Pulls each image and compares; prints one line for each, and fails when one differs."""
    home = tempfile.mkdtemp(prefix="cay-trees.")
    os.environ.update(CAY_HOME=home, CAY_LIBEXEC=build, CAY_POOL="2")
    me = subprocess.run(["id", "-un"], stdout=subprocess.PIPE, text=True).stdout.strip()
    bad = 0

    def cay(*args):
        p = subprocess.run([build + "/cay", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        if p.returncode:
            raise AssertionError("cay %s: %s" % (" ".join(args), p.stderr.decode(errors="replace")))
        return p.stdout.decode()

    try:
        for name, want in json.load(open(wanted)).items():
            try:
                cay("-q", "template", "pull", "%s/%s:1" % (registry, name), "--as", name)
                got = rows(cay("run", "--template", name, "--user", "root", "--", "/walk", "/"))
                diff = differences(got, want)
            except AssertionError as e:
                diff = [str(e)]
            print("%s: %s as %s: %d names%s" % ("FAIL" if diff else "ok", name, me, len(want), "".join("\n  got %s\n  not %s" % (d[1:], d[0]) if len(d) == 3 else "\n  " + d for d in diff[:5])), flush=True)
            bad |= bool(diff)
    finally:
        for pid in subprocess.run(["pgrep", "-f", "cay-keeper " + home], stdout=subprocess.PIPE, text=True).stdout.split():
            os.kill(int(pid), 15)
            for i in range(100):
                if not os.path.exists("/proc/" + pid):
                    break
                time.sleep(0.1)
        shutil.rmtree(home, ignore_errors=True)
    return bad


# ------------------------------------------------------------------ images

def described(layers):
    """With an entry for each directory that a layer goes through, as engines write them, and no removal of what the layer itself has: dockerd makes directories that
    nobody describes anew (containerd and umoci take those below, as cay does), and cannot read such a removal, nor a directory that is told twice."""
    dirs, out = {}, []
    for entries in layers:
        own = {e["name"] for e in entries if not os.path.basename(e["name"]).startswith(".wh.")}
        told, done = [], set()
        last = {e["name"]: dict(e, xattr={k: v for k, v in e["xattr"].items() if k != "security.selinux"}) for e in entries}  # labels are left out by cay, and told so
        for e in last.values():
            if e["kind"] == "h":  # as every tar has it; dockerd gives the file what its last name says
                e.update({k: last[e["to"]][k] for k in ("mode", "uid", "gid", "mtime")})
        for e in (last[e["name"]] for e in entries):
            if e in told:
                continue
            base = os.path.basename(e["name"])
            if base.startswith(".wh.") and os.path.join(os.path.dirname(e["name"]), base[4:]) in {x["name"] for x in told}:
                continue
            for p in reversed(list(parents(e["name"]))):
                if p not in own and p not in done:
                    told.append(dirs.get(p) or ent(p, "d"))
                    done.add(p)
            told.append(e)
        for e in told:
            if e["kind"] == "d":
                dirs[e["name"]] = e
        out.append(told)
    return out


def whiteouts():
    """Removals of every kind: of a file, a link, a hard link, a directory with all that is in it, what is not there; opaque, empty and filled anew; and what comes after."""
    a = [ent("f", data=b"f"), ent("g", data=b"g"), ent("l", "l", to="f"), ent("h1", data=b"h" * 5000), ent("h2", "h", to="h1"), ent("h3", "h", to="h1"), ent("d", "d", mode=0o750, uid=7),
         ent("d/x", data=b"x"), ent("d/s", "d"), ent("d/s/deep", data=b"deep"), ent("e", "d"), ent("e/x", data=b"x"), ent("o", "d", mode=0o2711, gid=9), ent("o/x", data=b"x"),
         ent("o/s", "d"), ent("o/s/y", data=b"y"), ent("p", "d"), ent("p/x", data=b"x"), ent("to-dir", data=b"file"), ent("to-file", "d"), ent("to-file/in", data=b"in"),
         ent("to-link", "d"), ent("to-link/in", data=b"in"), ent("again", "d"), ent("again/1", data=b"1")]
    return [a,
            [ent(".wh.f"), ent(".wh.l"), ent(".wh.h2"), ent(".wh.d"), ent("e/.wh.x"), ent("o/.wh..wh..opq"), ent("o/new", data=b"n"), ent("p/.wh..wh..opq")],
            [ent(".wh.to-dir"), ent(".wh.to-file"), ent(".wh.to-link"), ent(".wh.again")],
            [ent("to-dir", "d", mode=0o700), ent("to-dir/in", data=b"dir"), ent("to-file", data=b"now a file"), ent("to-link", "l", to="o"), ent("again", "d", uid=3), ent("again/2", data=b"2")],
            [ent("f", data=b"back", mode=0o600), ent("d", "d", mode=0o711), ent("d/other", data=b"o"), ent("h1", data=b"changed")],
            [ent("o/.wh.new"), ent("o/s", "d"), ent("o/s/back", data=b"b"), ent("e/.wh.nothing"), ent("again/.wh.2"), ent("again/.wh.1")],
            [ent("g", "d"), ent("g/was-a-file", data=b"g"), ent(".wh.h3"), ent("o/.wh..wh..opq"), ent("o/last", data=b"l")]]


def all_images():
    cap = "\x01\0\0\x02\0\x20\0\0" + 12 * "\0"  # cap_net_raw, effective
    rnd = random.Random(3)
    names = [ent("n" * 255, data=b"long"), ent("wörter", "d"), ent("wörter/日本 語", data=b"u"), ent("a b\tc", data=b"blank"), ent("back\\slash", data=b"b"), ent("-dash", data=b"-"),
             ent("nl\nin", data=b"n"), ent("/".join(["deep"] * 60) + "/f", data=b"deep"), ent("links", "d"), ent("links/abs", "l", to="/etc/passwd"), ent("links/up", "l", to="../../../../x"),
             ent("links/loop", "l", to="loop"), ent("links/long", "l", to="t/" * 1900 + "t"), ent("links/one", data=b"1" * 9999), ent("links/two", "h", to="links/one"), ent("links/three", "h", to="links/one"),
             ent("links/sym", "l", to="one")]
    modes = [ent("m%o" % m, data=b"%o" % m, mode=m, uid=u, gid=g) for m, u, g in ((0, 0, 0), (0o4755, 0, 0), (0o4711, 1000, 1000), (0o2755, 33, 8), (0o6777, 65534, 65534), (0o400, 65535, 1))]
    modes += [ent("dm%o" % m, "d", mode=m, uid=5, gid=6) for m in (0o1777, 0o2775, 0o700, 0o3711)]
    modes += [ent("attrs", "d", xattr={"user.on.dir": "v"}), ent("attrs/cap", data=b"c", mode=0o755, xattr={"security.capability": cap}), ent("attrs/many", data=b"m", xattr={"user.%d" % i: "v" * i for i in range(1, 30)}),
              ent("attrs/empty", data=b"e", xattr={"user.none": ""}), ent("lown", "l", to="attrs", uid=12, gid=13)]
    data = [ent("zeros", data=b"\0" * (3 << 20)), ent("holes", data=b"x" * 300000 + b"\0" * (2 << 20) + b"y"), ent("noise", data=rnd.randbytes(2 << 20)), ent("none", data=b"")] + [
        ent("many/%02d/%04d" % (i % 20, i), data=b"%d" % i, mtime=1 + i * 1000003, uid=i % 7) for i in range(1500)]
    return {"forty": (many_layers(40), {}), "whiteouts": (whiteouts(), {}), "names": ([names, [ent("links/two", data=b"a file of its own"), ent("links/abs", "l", to="/etc")]], {}),
            "modes": ([modes, [ent("m4755", data=b"less", mode=0o755), ent("attrs/cap", data=b"without")]], {"packs": ("plain",)}), "data": ([data, [ent("holes", data=b"\0" * 5000)]], {"packs": ("gzip", "plain")})}


# ------------------------------------------------------------------ the engine

class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(os.environ["ENGINE_DIR"] + "/sock")


def engine(method, path, body=None, kind="application/json", **headers):
    c = Unix("engine", timeout=120)
    c.request(method, "/v1.41" + path, body, {"Content-Type": kind, **headers})
    r = c.getresponse()
    data = r.read()
    assert r.status < 300 and b'"errorDetail"' not in data, (method, path, r.status, data[-400:])
    return data


def engines_tree(image, walk):
    """Walks the layers that the engine has, mounted as it would mount them, without what a container adds."""
    data = os.environ["ENGINE_DIR"] + "/data"
    id = json.loads(engine("POST", "/containers/create", json.dumps({"Image": image, "Cmd": ["/walk"]})))["Id"]
    try:
        info = json.loads(engine("GET", "/containers/%s/json" % id))
        if info["GraphDriver"]["Name"] != "overlay2":
            print("the engine keeps its layers by %s here, not overlay2" % info["GraphDriver"]["Name"])
            sys.exit(77)
        own = os.path.basename(os.path.dirname(info["GraphDriver"]["Data"]["UpperDir"]))
        lower = open("%s/overlay2/%s/lower" % (data, own)).read().strip().split(":")[1:]  # the first has what a container adds
        if len(lower) == 1:
            return subprocess.run([walk, os.path.realpath("%s/overlay2/%s" % (data, lower[0]))], check=True, stdout=subprocess.PIPE, text=True).stdout
        at = os.environ["ENGINE_DIR"] + "/look"
        os.makedirs(at, exist_ok=True)
        return subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-ec", 'mount -t overlay -o "ro,lowerdir=$1" overlay "$2"; exec "$3" "$2"', "sh", ":".join(lower), at, walk],
                              cwd=data + "/overlay2", check=True, stdout=subprocess.PIPE, text=True).stdout
    finally:
        engine("DELETE", "/containers/%s?force=1" % id)


DOCKERFILE = r"""FROM localhost/cay-test:latest
COPY walk /walk
RUN mkdir -p /opt/a/b /srv && for i in 1 2 3 4 5 6 7 8 9; do echo $i >/opt/a/$i; done && ln /opt/a/1 /opt/a/hard && ln -s a/1 /opt/sym && chmod 4755 /opt/a/2 && chown 1000:7 /opt/a/3
RUN rm /opt/a/4 && rm -r /opt/a/b && mkdir /opt/a/b && echo anew >/opt/a/b/anew && mv /opt/a/5 /opt/moved && echo more >>/opt/a/1
COPY --chown=33:33 some /srv/some
RUN rm -rf /srv/some/dir && rm -r /opt/a && mkdir -m 711 /opt/a && chmod 0 /opt/moved && rm /usr/bin/mawk && touch -d @1 /srv/some/file
RUN rm /opt/sym && mkdir /opt/sym && echo dir >/opt/sym/now && rm -r /var/tmp && ln -s /tmp /var/tmp
"""


def built_by_the_engine(walk):
    """By its own builder, as people's images are."""
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as t:
        for name, data, mode in (("Dockerfile", DOCKERFILE.encode(), 0o644), ("walk", open(walk, "rb").read(), 0o755), ("some/file", b"file", 0o640), ("some/dir/x", b"x", 0o644)):
            i = tarfile.TarInfo(name)
            i.size, i.mode, i.mtime = len(data), mode, 1000000000
            t.addfile(i, io.BytesIO(data))
    engine("POST", "/build?t=localhost/cay-built:1&networkmode=none", context.getvalue(), "application/x-tar")
    return "localhost/cay-built"


def registry(tmp):
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
    s.close()
    open(tmp + "/registry.yml", "w").write("version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: %s/registry\nhttp:\n  addr: 127.0.0.1:%d\n" % (tmp, port))
    p = subprocess.Popen(["docker-registry", "serve", tmp + "/registry.yml"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(tmp + "/registry.log", "w"))
    for i in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return p, "localhost:%d" % port
        except OSError:
            time.sleep(0.1)
    raise AssertionError(open(tmp + "/registry.log").read())


def main(build, walk):
    tmp = tempfile.mkdtemp(prefix="trees.")
    os.chmod(tmp, 0o755)
    if not (shutil.which("docker-registry") and shutil.which("skopeo")):
        at = os.environ.setdefault("BORROWED", build + "/borrowed-images")
        p = subprocess.run([here + "/../../tools/borrow", at, "docker-registry", "skopeo", "umoci"], stdout=subprocess.PIPE, text=True)
        if p.returncode:
            print(p.stdout.strip())
            return 77
        os.environ["PATH"] += ":" + at + "/usr/bin"
    server, host = registry(tmp)
    walker = ent("walk", data=open(walk, "rb").read(), mode=0o755)
    wanted, bad = {}, 0
    try:
        for n, (name, (layers, how)) in enumerate(all_images().items()):
            layers = described(layers)
            l = Layout("%s/%s" % (tmp, name), [[walker] + layers[0]] + layers[1:], name="t", **how)
            subprocess.run(["skopeo", "--insecure-policy", "copy", "-q", "--dest-tls-verify=false", "--format", ("v2s2", "oci")[n % 2], "oci:%s:t" % l.path, "docker://%s/%s:1" % (host, name)], check=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=borrowed_env())
            engine("POST", "/images/create?fromImage=%s/%s&tag=1" % (host, name))
            wanted[name] = rows(engines_tree("%s/%s:1" % (host, name), walk))
        engine("POST", "/images/%s:1/tag?repo=%s/built&tag=1" % (built_by_the_engine(walk), host))
        engine("POST", "/images/%s/built/push?tag=1" % host, **{"X-Registry-Auth": "e30="})
        wanted["built"] = rows(engines_tree(host + "/built:1", walk))
        assert len(wanted) >= 6 and all(len(w) > 10 for w in wanted.values()), {n: len(w) for n, w in wanted.items()}
        json.dump(wanted, open(tmp + "/wanted", "w"))
        os.chmod(tmp + "/wanted", 0o644)
        for user in ("root", "cay-range"):
            rc = subprocess.run([here + "/../provider/run-as", user, os.path.abspath(__file__), "--cay", build, host, tmp + "/wanted"]).returncode
            if rc == 77:
                print("not as %s" % user)
            bad |= rc not in (0, 77)
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(tmp, ignore_errors=True)
    return bad


if __name__ == "__main__":
    sys.exit(cays_half(*sys.argv[2:]) if sys.argv[1] == "--cay" else main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])))
