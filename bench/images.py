#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""images.py BUILD [quick]: images and builds. A 300 MB image of 10 layers (quick: 12 MB) is put into Debian's docker-registry on loopback; then, in turns, `cay template
pull`, `skopeo copy` with `umoci unpack`, and `docker pull` where an engine runs ($DOCKER_HOST, by tests/docker/with) get it, each into an empty store; sandboxes are made of it; a
template is built, again with all steps cached, and again after one file changed. One JSON line for each figure."""
import json, os, random, shutil, socket, statistics, subprocess, sys, tempfile, time

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here + "/../tests/support")
from images import *

build, quick = os.path.abspath(sys.argv[1]), len(sys.argv) > 2
work = tempfile.mkdtemp(prefix="images.", dir=os.environ.get("BENCH_DIR", "/dev/shm"))
os.environ.update(CAY_HOME=work + "/home", CAY_LIBEXEC=build)
os.mkdir(work + "/home", 0o700)
null = subprocess.DEVNULL


def figure(name, unit, value, floor=None, ratio=None, goal=None, n=1, **peers):
    ok = True if goal is None else ratio <= float(goal[2:]) if goal[0] == "<" else ratio >= float(goal[2:])
    line = {"name": name, "value": round(value, 3), "unit": unit, "floor": floor and round(floor, 3), "ratio": ratio and round(ratio, 3), "goal": goal, "ok": ok, "n": n}
    peers = {k: round(v, 3) for k, v in peers.items() if v}
    print(json.dumps(dict(line, peers=peers) if peers else line, separators=(",", ":")), flush=True)


def run(*argv, **kw):
    p = subprocess.run(argv, stdin=null, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **kw)
    if p.returncode:
        sys.exit("bench: %s: %s" % (" ".join(argv[:4]), p.stderr.decode(errors="replace")[-300:]))
    return p.stdout.decode(errors="replace").strip()


def timed(*argv, **kw):
    t = time.monotonic()
    run(*argv, **kw)
    return time.monotonic() - t


def cay(*args):
    return run(build + "/cay", *args)


def made():
    """Ten layers of files as distributions have them: half of it is like text, many are small, some are large."""
    rnd, total = random.Random(1), (12 if quick else 300) << 20
    words = [rnd.randbytes(rnd.randrange(3, 12)) for _ in range(2000)]
    # what is inside is read as a program is: the benchmark's own
    layers = [[ent("opt", "d"), ent("opt/true", data=open(build + "/bench/bench-true", "rb").read(), mode=0o755), ent("bin", "d"), ent("bin/sh", data=busybox(), mode=0o755)]]
    for n in range(10):
        l, size = layers[0] if n == 0 else [], 0
        while size < total // 10:
            k = rnd.choice((800, 3000, 3000, 12000, 40000, 200000, 2000000))
            data = rnd.randbytes(k) if rnd.random() < 0.4 else b"".join(rnd.choices(words, k=k // 7))
            l.append(ent("usr/l%d/d%d/f%d" % (n, len(l) // 50, len(l)), data=data))
            size += len(data)
        if n:
            layers.append(l)
    return layers


def tools():
    if not all(map(shutil.which, ("docker-registry", "skopeo", "umoci"))):
        at = os.environ["BORROWED"] = build + "/borrowed-images"
        run(here + "/../tools/borrow", at, "docker-registry", "skopeo", "umoci")
        os.environ["PATH"] += ":" + at + "/usr/bin"


def registry():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
    s.close()
    open(work + "/registry.yml", "w").write("version: 0.1\nlog:\n  accesslog:\n    disabled: true\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: %s/registry\nhttp:\n  addr: 127.0.0.1:%d\n" % (work, port))
    p = subprocess.Popen(["docker-registry", "serve", work + "/registry.yml"], stdin=null, stdout=null, stderr=null)
    for i in range(300):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            time.sleep(0.1)
    return p, "localhost:%d" % port


def pulls(ref):
    ours, theirs, docker, unpacked_bytes = [], [], [], 0
    for i in range(1 if quick else 5):
        ours.append(timed(build + "/cay", "-q", "template", "pull", ref, "--as", "bench:1"))
        t = timed("skopeo", "--insecure-policy", "copy", "-q", "--src-tls-verify=false", "docker://" + ref, "oci:%s/copy:t" % work, env=borrowed_env())
        theirs.append(t + timed("umoci", "raw", "unpack", "--image", work + "/copy:t", work + "/root"))
        shutil.rmtree(work + "/copy")
        shutil.rmtree(work + "/root")
        if os.environ.get("DOCKER_HOST"):
            docker.append(timed("curl", "-sf", "--unix-socket", os.environ["DOCKER_HOST"][7:], "-X", "POST", "http://engine/v1.41/images/create?fromImage=%s&tag=1" % ref.rsplit(":", 1)[0]))
            run("curl", "-sf", "--unix-socket", os.environ["DOCKER_HOST"][7:], "-X", "DELETE", "http://engine/v1.41/images/%s" % ref)
        if i + 1 < (1 if quick else 5):
            cay("template", "rm", "bench:1")
            while any(x[0] == "l" for x in os.listdir(work + "/home/layers")):
                cay("gc")
    a, b = statistics.median(ours), statistics.median(theirs)
    c = statistics.median(docker) if docker else 0
    figure("image-pull", "s", a, floor=b, ratio=b / a, goal=">=1.0", n=len(ours), skopeo_umoci=b, docker=c)
    if c:
        figure("image-pull-docker", "s", a, floor=c, ratio=c / a, goal=">=1.0", n=len(ours))


def builds():
    ctx = work + "/context"
    os.makedirs(ctx + "/src")
    for i in range(200):
        open("%s/src/f%d" % (ctx, i), "w").write("%d\n" % i * 100)
    open(ctx + "/Dockerfile", "w").write("FROM bench:1\nRUN [\"/bin/sh\", \"-c\", \"echo 1 >/one\"]\nRUN [\"/bin/sh\", \"-c\", \"echo 2 >/two\"]\nCOPY src /src\nRUN [\"/bin/sh\", \"-c\", \"cat /src/* >/all\"]\nENV A=1\nCMD [\"/bin/sh\"]\n")
    go = (build + "/cay", "-q", "template", "build", "-t", "built:1", ctx)
    first = timed(*go)
    bare = [timed(build + "/cay", "run", "--template", "bench:1", "--", "/bin/sh", "-c", ":") for i in range(5)]
    n = 3 if quick else 30
    cached = [timed(*go) for i in range(n)]
    figure("build-cached", "ms", statistics.median(cached) * 1000, floor=first * 1000, ratio=statistics.median(cached) * 1000, goal="<=50", n=n)
    changed = []
    for i in range(n):
        open(ctx + "/src/f7", "w").write("changed %d\n" % i)
        changed.append(timed(*go))
    # what no way of doing it can save: the copy and the command behind it
    figure("build-changed", "ms", statistics.median(changed) * 1000, floor=2 * statistics.median(bare) * 1000, n=n, first=first * 1000)


def main():
    if busybox() is None:
        sys.exit("bench: needs /bin/busybox (package busybox-static)")
    tools()
    p, host = registry()
    try:
        l = Layout(work + "/image", made(), name="t")
        ref = host + "/bench:1"
        run("skopeo", "--insecure-policy", "copy", "-q", "--dest-tls-verify=false", "oci:%s:t" % l.path, "docker://" + ref, env=borrowed_env())
        shutil.rmtree(l.path)
        pulls(ref)
        run_create = subprocess.run([build + "/bench/bench-images", "bench:1", build + "/bench/bench-true"] + (["5"] if quick else []), stdin=null)
        builds()
        return run_create.returncode
    finally:
        p.terminate()
        p.wait()
        shutil.rmtree(work, ignore_errors=True)  # the keeper leaves when it sees that


sys.exit(main())
