#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_registry.py BUILD [CASE…]: images pulled from Debian's docker-registry, filled by skopeo, and from registries that lie."""
import base64, http.server, json, os, shutil, signal, socket, subprocess, sys, tempfile, threading, time

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here + "/../support")
import cases
from images import *

build = os.path.abspath(sys.argv[1])
tmp = tempfile.mkdtemp(prefix="cay-reg.")
home = tmp + "/home"
os.mkdir(home, 0o700)
os.environ.update(CAY_HOME=home, CAY_LIBEXEC=build, CAY_POOL="2", HOME=tmp, DOCKER_CONFIG=tmp + "/docker")
for name in ("CAY_FAULT", "CAY_HOST", "http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
    os.environ.pop(name, None)
borrowed = os.environ.get("BORROWED", "")
os.environ["PATH"] += ":" + borrowed + "/usr/bin"
if busybox() is None:
    print("needs /bin/busybox (package busybox-static)")
    sys.exit(77)


def cay(*args, ok=True, env=None):
    p = subprocess.run([build + "/cay", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, env=dict(os.environ, **(env or {})))
    if ok is True and p.returncode:
        raise AssertionError("cay %s: %s" % (" ".join(args), p.stderr.decode(errors="replace")))
    if ok is False and not p.returncode:
        raise AssertionError("cay %s: succeeded" % " ".join(args))
    return p.stdout.decode(errors="replace").strip() if ok else p.stderr.decode(errors="replace").strip()


def refused(word, *args, env=None):
    text = cay("--json", *args, ok=False, env=env)
    e = json.loads(text[text.index("{"):])["error"]
    assert e["reason"] == word, e
    return e["message"]


def conf(text):
    open(home + "/templates.conf", "w").write(text)


def shell_image(path, mark, name="test:1", more=()):
    return Layout(tmp + "/" + path, [many_layers(1)[0], [ent("mark", data=mark)], *more], name=name, config={"Env": ["PATH=/bin"]})


# ------------------------------------------------------------------ a registry that is one

def debian():
    """Debian's, on a free port; None where it cannot be had."""
    if hasattr(debian, "port"):
        return debian.port
    debian.port = None
    if not shutil.which("docker-registry") or not shutil.which("skopeo"):
        return None
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
    s.close()
    open(tmp + "/registry.yml", "w").write("version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: %s/registry\nhttp:\n  addr: 127.0.0.1:%d\n" % (tmp, port))
    debian.p = subprocess.Popen(["docker-registry", "serve", tmp + "/registry.yml"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(tmp + "/registry.log", "w"))
    for i in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.1)
    else:
        raise AssertionError(open(tmp + "/registry.log").read())
    debian.port = port
    return port


def push(layout, ref, *more):
    doc = json.load(open(layout.path + "/index.json"))
    doc["manifests"][0]["annotations"] = {"org.opencontainers.image.ref.name": "t"}
    json.dump(doc, open(layout.path + "/index.json", "w"))
    subprocess.run(["skopeo", "--insecure-policy", "copy", "-q", "--dest-tls-verify=false", *more, "oci:%s:t" % layout.path, "docker://" + ref], check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, env=borrowed_env())


def images_come_from_debians_registry():
    port = debian()
    if not port:
        print("# docker-registry or skopeo cannot be had; skipped")
        return
    forty = Layout(tmp + "/forty", many_layers(40), config={"Env": ["PATH=/bin", "X=y"]})
    host = "localhost:%d" % port
    push(forty, host + "/deep/forty:1")
    t = json.loads(cay("template", "pull", host + "/deep/forty:1", "--json"))
    assert t["names"] == [host + "/deep/forty:1"] and len(t["layers"]) == 40 and t["source"].startswith("registry:"), t
    out = cay("run", "--template", host + "/deep/forty:1", "--", "/bin/sh", "-c", "cd /; find . -xdev | sort")
    got = {l[2:] for l in out.splitlines() if len(l) > 2}
    ours = {"etc/hosts", "etc/hostname", "etc/resolv.conf", "workspace", "proc", "dev", "run", "sys", "tmp"}
    want = set(unpacked(forty.layers))
    assert got - ours == want - ours, (got ^ want) - ours
    assert os.listdir(home + "/blobs") == []
    for n, how in enumerate(("--format=v2s2", "--format=oci", "--dest-compress-format=zstd")):
        l = shell_image("fmt%d" % n, b"%d" % n)
        push(l, "%s/fmt:%d" % (host, n), *([how] if n < 2 else ["--format=oci", how]))
        cay("template", "pull", "%s/fmt:%d" % (host, n), "--as", "fmt:%d" % n)
        assert cay("run", "--template", "fmt:%d" % n, "--", "/bin/cat", "/mark") == str(n)
    # by digest, and again: nothing is fetched twice
    digest = json.loads(cay("template", "inspect", "fmt:1"))["digest"]
    t = json.loads(cay("template", "pull", "%s/fmt@%s" % (host, digest), "--json"))
    assert t["digest"] == digest and t["names"] == ["%s/fmt@%s" % (host, digest)]
    refused("image_unknown", "template", "pull", host + "/deep/forty:2")
    refused("image_unknown", "template", "pull", host + "/nothing/here:1")
    refused("image_unknown", "template", "pull", "%s/fmt@sha256:%s" % (host, "0" * 64))


def names_are_searched_and_have_aliases():
    port = debian()
    if not port:
        return
    l = shell_image("alias", b"aliased")
    push(l, "localhost:%d/library/python:3.11" % port)
    conf("# where names without a host are\nsearch localhost:%d/library\nalias debian:12.9 python:3.11\n" % port)
    cay("template", "pull", "python:3.11")
    assert cay("run", "--template", "python:3.11", "--", "/bin/cat", "/mark") == "aliased"
    assert cay("run", "--template", "debian:12.9", "--", "/bin/cat", "/mark") == "aliased"
    refused("template_not_found", "create", "--template", "debian:12.8")
    conf("nonsense\n")
    assert "line 1" in refused("templates_conf", "template", "pull", "python:3.11")
    conf("")


# ------------------------------------------------------------------ registries that are ours, and odd

class Odd(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *a):
        pass

    def say(self, status, body=b"", **headers):
        self.send_response(status)
        for k, v in headers.items():
            self.send_header(k.replace("_", "-"), v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        o = self.server.odd
        o["asked"].append((self.path, self.headers.get("Authorization"), self.headers.get("Range")))
        try:
            o["do"](self)
        except (BrokenPipeError, ConnectionResetError):
            pass


def odd(layout, **how):
    """A registry of one image; `how` says in which way it is odd."""
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    s.daemon_threads = True
    state = dict(asked=[], cuts={}, **how)

    def auth(h):
        kind, got = state.get("auth"), h.headers.get("Authorization")
        if kind == "token" and h.path.startswith("/token"):
            if state.get("login") and got != "Basic " + base64.b64encode(state["login"].encode()).decode():
                return h.say(401)
            return h.say(200, json.dumps({"token": "tok-123"}).encode())
        if kind == "token" and got != "Bearer tok-123":
            return h.say(401, WWW_Authenticate='Bearer realm="http://localhost:%d/token?x=1",service="odd, one",scope="repository:a:pull"' % s.server_port)
        if kind == "basic" and got != "Basic " + base64.b64encode(state["login"].encode()).decode():
            return h.say(401, WWW_Authenticate='Basic realm="odd"')
        return True

    def do(h):
        if auth(h) is not True:
            return
        part = h.path.split("/")[-1]
        if "/manifests/" in h.path:
            data = json.dumps(layout.manifest).encode() if not part.startswith("sha256:") else open(layout.path + "/blobs/sha256/" + part[7:], "rb").read()
            return h.say(200, state.get("manifest", data))
        file = layout.path + "/blobs/sha256/" + part[7:]
        if "redirect" in state and part != layout.manifest["config"]["digest"]:
            return h.say(307, Location=state["redirect"])
        if not os.path.isfile(file):
            return h.say(404)
        data = open(file, "rb").read()
        if part == layout.manifest["config"]["digest"]:
            return h.say(200, data)
        if "blob" in state:
            data = state["blob"](data)
        if state.get("slow"):
            h.send_response(200)
            h.send_header("Content-Length", str(len(data)))
            h.end_headers()
            h.wfile.write(data[:1])
            h.wfile.flush()
            state["slow"].wait(30)
            return
        start = int(h.headers["Range"][6:-1]) if h.headers.get("Range") and not state.get("no_range") else 0
        if state.get("cut") and state["cuts"].get(part, 0) < state["cut"]:  # the connection ends in the middle
            state["cuts"][part] = state["cuts"].get(part, 0) + 1
            h.send_response(206 if start else 200)
            h.send_header("Content-Length", str(len(data) - start))
            h.end_headers()
            h.wfile.write(data[start:start + max(1, (len(data) - start) // 2)])
            h.close_connection = True
            return
        h.say(206 if start else 200, data[start:])

    state["do"] = do
    s.odd = state
    threading.Thread(target=s.serve_forever, daemon=True).start()
    return s, state, "localhost:%d/a/b:1" % s.server_port


def logins_are_asked_for_and_kept_to_whom_they_belong():
    l = shell_image("login", b"login")
    for kind in ("token", "basic"):
        s, state, ref = odd(l, auth=kind, login="me:secret")
        refused("registry_auth", "template", "pull", ref)
        os.makedirs(tmp + "/docker", exist_ok=True)
        json.dump({"auths": {ref.split("/")[0]: {"auth": base64.b64encode(b"me:secret").decode()}}}, open(tmp + "/docker/config.json", "w"))
        cay("template", "pull", ref, "--as", "login:1")
        os.unlink(tmp + "/docker/config.json")
        cay("template", "rm", "login:1")
        cay("template", "pull", "--auth", "env:LOGIN", ref, "--as", "login:1", env={"LOGIN": "me:secret"})
        refused("registry_auth", "template", "pull", "--auth", "env:LOGIN", ref, env={"LOGIN": "me:wrong"})
        if kind == "token":  # the password goes to the token server, the token to the registry
            for path, auth, _ in state["asked"]:
                assert not auth or auth.startswith("Basic ") == path.startswith("/token"), (path, auth)
            assert any("service=odd%2C%20one" in path and "scope=repository%3Aa%2Fb%3Apull" in path and "x=1" in path for path, _, _ in state["asked"]), state["asked"]
        s.shutdown()
        cay("template", "rm", "login:1")
        cay("gc")


def blobs_go_on_where_they_were_cut():
    for no_range in (False, True):
        l = shell_image("cut%d" % no_range, b"cut%d" % no_range, more=[[ent("random", data=os.urandom(200000))]])
        s, state, ref = odd(l, cut=3, no_range=no_range)
        cay("template", "pull", ref, "--as", "cut:1")
        assert cay("run", "--template", "cut:1", "--", "/bin/cat", "/mark") == "cut%d" % no_range
        assert any(r for _, _, r in state["asked"]), state["asked"]
        s.shutdown()
    assert os.listdir(home + "/blobs") == []


def registries_that_lie_are_refused():
    l = shell_image("lies", b"lies", more=[[ent("random", data=os.urandom(50000))]])
    before = cay("template", "ls", "-q")

    def no(word, **how):
        s, state, ref = odd(l, **how)
        msg = refused(word, "template", "pull", ref)
        s.shutdown()
        return msg

    no("image_digest", blob=lambda d: d[:-1] + bytes([d[-1] ^ 1]))
    no("image_digest", blob=lambda d: d + b"x")
    no("net_cut", blob=lambda d: d[:-10])
    no("image_invalid", manifest=b"{}")
    no("image_invalid", manifest=b"not json")
    no("image_invalid", manifest=b'{"schemaVersion":2,"schemaVersion":2}')
    no("image_schema", manifest=b'{"schemaVersion":1}')
    # where a redirect may not lead
    for where in ("http://127.0.0.1:1/x", "https://127.0.0.1:1/x", "https://[::1]:1/x", "https://169.254.169.254/latest/meta-data", "https://10.0.0.1/", "http://example.org/x",
                  "https://[::ffff:10.0.0.1]/"):
        no("registry_private", redirect=where)
    for where in ("file:///etc/passwd", "gopher://x", "//evil", "https://user@127.0.0.1/"):
        no("registry_answer", redirect=where)
    assert "without end" in no("registry_answer", redirect="/v2/a/b/blobs/round")
    assert cay("template", "ls", "-q") == before
    # one that says nothing
    done = threading.Event()
    s, state, ref = odd(l, slow=done)
    conf("idle 1\n")
    refused("net_timeout", "template", "pull", ref)
    done.set()
    s.shutdown()
    conf("")
    refused("net_unreachable", "template", "pull", "localhost:1/a/b:1")


def operators_egress_rules_hold_for_registries():
    l = shell_image("egress", b"egress")

    def no(text, **how):
        s, state, ref = odd(l, **how)
        port = ref.split("/")[0].split(":")[1]
        open(home + "/egress.conf", "w").write(text.replace("PORT", port))
        msg = refused("registry_denied", "template", "pull", ref)
        assert "egress.conf" in msg, msg
        s.shutdown()
        return state

    assert not no("deny 127.0.0.0/8\ndeny [::1/128]\n")["asked"]          # by its address, after look-up
    assert not no("mode rules\nrule pypi\n")["asked"]                    # not among what may be reached at all
    assert not no("mode off\n")["asked"]
    # a redirect and a token server are held against them, too
    no("deny **.example.org\n", redirect="https://blobs.example.org/x")
    s, state, ref = odd(l)
    open(home + "/egress.conf", "w").write("no such word\n")
    refused("policy_invalid", "template", "pull", ref)                    # what cannot be read allows nothing
    assert not state["asked"]
    open(home + "/egress.conf", "w").write("mode rules\nrule 127.0.0.1:%s\n" % ref.split("/")[0].split(":")[1])
    cay("template", "pull", ref, "--as", "egress:1")
    os.unlink(home + "/egress.conf")
    s.shutdown()


def builds_get_what_they_stand_on():
    passwd = [ent("etc/passwd", data=b"root:x:0:0::/:/bin/sh\nana:x:1200:1200::/:/bin/sh\n"), ent("etc/group", data=b"root:x:0:\nana:x:1200:\nshop:x:1300:ana\nmore:x:1400:ana\n")]
    l = shell_image("from", b"from afar", more=[passwd])
    s, state, ref = odd(l)
    dir = tmp + "/from-build"
    os.makedirs(dir)

    def build(text, *more, name="Dockerfile", ok=True):
        open(dir + "/" + name, "w").write(text)
        try:
            return cay("template", "build", "-f", name, *more, dir, ok=ok) if ok is True else refused(ok, "template", "build", "-f", name, *more, dir)
        finally:
            os.unlink(dir + "/" + name)

    who = "FROM %s\nRUN [\"/bin/sh\", \"-c\", \"mkdir /out; chmod 777 /out\"]\nUSER ana:more\nRUN id -u >/out/who; id -G >>/out/who\nUSER 1200:1300\nRUN id -G >>/out/who\nUSER ana\nRUN id -G >>/out/who\n"
    assert "--no-pull" not in build(who % ref, "--no-pull", ok="template_not_found") and not state["asked"]
    conf("pull never\n")
    assert "pull never" in build(who % ref, ok="template_not_found") and not state["asked"]
    conf("alias shop/base:2 %s\n" % ref)
    build(who % "shop/base:2", "-t", "fromed:1")  # an alias, of an image that is not here
    assert any("/manifests/" in path for path, _, _ in state["asked"]), state["asked"]
    assert cay("run", "--template", "fromed:1", "--user", "root", "--", "/bin/cat", "/out/who").split() == ["1200", "1400", "1300", "1200", "1300", "1400"]
    asked = len(state["asked"])
    build("FROM scratch\nCOPY --from=%s /mark /bin /\n" % "shop/base:2", "-t", "fromed:2")  # it is here now, by that name
    assert len(state["asked"]) == asked and cay("run", "--template", "fromed:2", "--", "/cat", "/mark") == "from afar"
    conf("")
    state["manifest"] = b"{}"
    build("FROM %s-other\n" % ref, ok="template_not_found")
    s.shutdown()
    assert "came" in build("FROM localhost:1/none:1\n", ok="template_not_found")
    # what a template starts, and when it is ready
    build(json.dumps({"from": "host", "start": "sleep 0.2; echo up >/tmp/up; exec sleep 1000", "ready": "test -s /tmp/up"}), "-t", "starts:1", name="template.json")
    id = cay("create", "--template", "starts:1")
    cay("services", "wait", id)
    assert cay("exec", id, "--", "cat", "/tmp/up") == "up"
    got = json.loads(cay("inspect", id))["services"]
    assert [(x["name"], x["state"]) for x in got] == [("start", "ready")], got
    cay("rm", "-f", id)
    build(json.dumps({"from": "host", "ready": "test -e /tmp/go"}), "-t", "starts:2", name="template.json")
    id = cay("create", "--template", "starts:2")
    cay("exec", id, "--", "touch", "/tmp/go")
    cay("services", "wait", id)
    cay("rm", "-f", id)
    build(json.dumps({"from": "host", "start": "true", "services": {"start": {"command": "true"}}}), name="template.json", ok="template_file_invalid")
    for t in ("fromed:1", "fromed:2", "starts:1", "starts:2", "shop/base:2"):
        cay("template", "rm", t)


FULL = r"""mount -t tmpfs -o size=110m,mode=700 none "$1" || exit 77
export CAY_HOME=$1 CAY_POOL=1
for what in "pull $3 --as full:1" "import $4 full:2" "build -t full:3 $5"; do
    timeout 100 "$2" --json template $what </dev/null 2>&1 | tail -n 1
    echo "left: $("$2" template ls -q) $("$2" ls -q)"
    rm -rf "$1/blobs"
done
"$2" run -- true && echo works
for pid in $(pgrep -f "cay-keeper $1"); do kill $pid; while kill -0 $pid 2>/dev/null; do sleep 0.1; done; done
umount "$1"
"""


def full_disk_is_told_and_leaves_nothing():
    if os.geteuid() != 0:
        return
    l = Layout(tmp + "/full-image", [many_layers(1)[0], [ent("big%d" % i, data=os.urandom(1 << 20) * 30) for i in range(5)]], packs=("plain",))
    os.makedirs(tmp + "/full-context")
    open(tmp + "/full-context/Dockerfile", "w").write("FROM host\nRUN head -c 200000000 /dev/zero >/big\n")
    os.makedirs(tmp + "/full")
    s, state, ref = odd(l)
    p = subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-c", FULL, "sh", tmp + "/full", build + "/cay", ref, l.path, tmp + "/full-context"], stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)
    s.shutdown()
    if p.returncode == 77:
        print("# no tmpfs can be mounted here; skipped")
        return
    said = p.stdout.splitlines()
    assert said[1::2][:3] == ["left:  "] * 3 and said[-1] == "works", p.stdout
    for line in said[0:6:2]:
        e = json.loads(line)["error"]
        assert "No space left on device" in e["message"] or e["code"] == "ENOSPACE", e
    shutil.rmtree(l.path)


def killed_pulls_go_on_or_are_gone():
    l = shell_image("kill", b"kill", more=[[ent("random", data=os.urandom(300000))]])
    s, state, ref = odd(l)
    points = fault_points("template_pull.c", "image_make.c", "template.c", "../../helper/layer/image.c") if os.environ.get("FAULTS") == "1" else []
    assert not points or len(points) >= 9, points
    for point in points:
        subprocess.run([build + "/cay-full", "template", "pull", ref, "--as", "killed:1"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60,
                       env=dict(os.environ, CAY_FAULT=point + "=kill"))
        if "killed:1" in cay("template", "ls"):
            assert cay("run", "--template", "killed:1", "--", "/bin/cat", "/mark") == "kill"
        cay("template", "pull", ref, "--as", "killed:1")
        assert cay("run", "--template", "killed:1", "--", "/bin/cat", "/mark") == "kill"
        for t in [x.split()[1] for x in cay("template", "ls").splitlines() if x.startswith("killed:1")]:
            cay("template", "rm", t)
    for wait in (0.05, 0.1, 0.2):
        p = subprocess.Popen([build + "/cay-full", "template", "pull", ref, "--as", "killed:2"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(wait)  # no promise hangs on it: any moment will do
        p.send_signal(signal.SIGKILL)
        p.wait()
    cay("template", "pull", ref, "--as", "killed:2")
    assert cay("run", "--template", "killed:2", "--", "/bin/cat", "/mark") == "kill"
    s.shutdown()


helpers = {cay, refused, conf, shell_image, debian, push, odd}
try:
    good = cases.run(cases.of(globals(), helpers), sys.argv[2:])
finally:
    if getattr(debian, "port", None):
        debian.p.terminate()
        debian.p.wait()
    cases.end_keepers(home)
    shutil.rmtree(tmp, ignore_errors=True)
sys.exit(not good)
