#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_archives.py BUILD [CASE…]: snapshots as archives, and back; stores; what is refused; who dies in the middle."""
import base64, io, json, os, shutil, signal, subprocess, sys, tarfile, tempfile, time
import cases

build = os.path.abspath(sys.argv[1])
here = os.path.dirname(os.path.abspath(__file__))
tmp = tempfile.mkdtemp(prefix="cay-arch.")
home = tmp + "/home"
os.mkdir(home, 0o700)
os.environ.update(CAY_HOME=home, CAY_LIBEXEC=build, CAY_POOL="2")
for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "CAY_FAULT"):
    os.environ.pop(name, None)


def cay(*args, ok=True, env=None, **kw):
    p = subprocess.run([build + "/cay", *args], stdin=kw.pop("stdin", subprocess.DEVNULL), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                       env=dict(os.environ, **(env or {})), **kw)
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


MADE = """cd /workspace; mkdir -p d/empty; printf content-of-a >d/a; chmod 755 d/a; printf two >b; chmod 600 b; ln -s a d/l; ln -s /usr/bin/env abs; ln d/a hard
head -c 300000 /dev/zero >zeros; mkdir .hidden; printf '%s' 'odd name' >"$(printf 'a b\\303\\244\\n')" ; echo gone >gone; mkdir -p old/deep; echo x >old/deep/x; echo h >~/in-home; mkfifo pipe"""
LOOK = "cd /workspace; find . ! -type p -printf '%P|%y|%m|%u|%s|%n|%l\\n' | sort; cat d/a b; md5sum <zeros; ls -A ~"


def made():
    """A sandbox with two snapshots, made once."""
    if not hasattr(made, "it"):
        box = cay("create")
        cay("exec", box, "--", "sh", "-c", MADE)
        first = cay("snapshot", box)
        cay("exec", box, "--", "sh", "-c", "cd /workspace; rm gone; rm -rf old; mkdir old; echo new >old/n; echo three >b; mkdir more; echo m >more/m")
        made.it = box, first, cay("snapshot", box)
    return made.it


def look(snap):
    # sizes of directories are the filesystem's business, and so are link counts of theirs
    text = cay("run", "--from", snap, "--", "sh", "-c", LOOK)
    rows = [l.split("|") for l in text.splitlines()]
    return [r if len(r) < 7 or r[1] != "d" else r[:4] for r in rows]


def whole_archives_come_back_as_they_were():
    _, first, second = made()
    for snap in (first, second):
        out = cay("snapshot", "export", snap, "-o", tmp + "/w.tar.zst", "--json")
        digest = json.loads(out)["digest"]
        assert digest.startswith("sha256:") and len(digest) == 71
        new = cay("snapshot", "import", tmp + "/w.tar.zst")
        assert look(new) == look(snap), (look(new), look(snap))
        again = json.loads(cay("snapshot", "export", new, "-o", tmp + "/again.tar.zst", "--json"))
        assert again["digest"] == digest  # the same content has the same digest, wherever it is
    info = json.loads(cay("snapshot", "inspect", new))
    assert info["method"] == "import" and info["parent"] == ""


def owners_come_back_where_there_are_several():
    box = cay("create")
    told = cay("exec", "--user", "root", "--profile", "root", box, "--", "sh", "-c", "cd /workspace && echo 7 >seven && chown 7:8 seven && echo 0 >root", ok=None)
    snap = cay("snapshot", box)
    cay("rm", "-f", box)
    if not told:
        cay("snapshot", "export", snap, "-o", tmp + "/o.tar.zst")
        new = cay("snapshot", "import", tmp + "/o.tar.zst")
        assert cay("run", "--from", new, "--", "stat", "-c", "%u:%g", "/workspace/seven", "/workspace/root").split() == ["7:8", "0:0"]
    else:  # one id has nobody else
        assert os.geteuid() != 0 and "subuid" in told, told


def differences_stand_on_what_they_were_made_from():
    _, first, second = made()
    cay("snapshot", "export", second, "--since", first, "-o", tmp + "/d.tar.zst")
    assert os.path.getsize(tmp + "/d.tar.zst") < 3000
    new = cay("snapshot", "import", tmp + "/d.tar.zst")
    assert look(new) == look(second)
    assert json.loads(cay("snapshot", "inspect", new))["parent"] == first
    # on another machine: its parent first
    elsewhere = {"CAY_HOME": tmp + "/elsewhere"}
    os.mkdir(tmp + "/elsewhere", 0o700)
    assert first in refused("parent_missing", "snapshot", "import", tmp + "/d.tar.zst", env=elsewhere)
    cay("snapshot", "export", first, "-o", tmp + "/p.tar.zst")
    parent = cay("snapshot", "import", tmp + "/p.tar.zst", env=elsewhere)
    new = cay("snapshot", "import", tmp + "/d.tar.zst", env=elsewhere)
    assert json.loads(cay("snapshot", "inspect", new, env=elsewhere))["parent"] == parent
    text = cay("run", "--from", new, "--", "sh", "-c", "cd /workspace; cat b d/a; ls", env=elsewhere)
    assert "three" in text and "content-of-a" in text and "gone" not in text and "old" in text
    layers = os.listdir(tmp + "/elsewhere/layers")
    assert not [l for l in layers if l.startswith(".stage")], layers


def forged(archive, **fields):
    """The archive with other words in its cay.json, which its digest does not cover."""
    with open(archive, "rb") as f:
        plain = subprocess.run(["zstd", "-dqc"], input=f.read(), stdout=subprocess.PIPE, check=True).stdout
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(plain)) as t, tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as to:
        for m in t.getmembers():
            data = t.extractfile(m).read() if m.isreg() else b""
            if m.name == "cay.json":
                data = json.dumps({**json.loads(data), **fields}).encode()
                m.size = len(data)
            to.addfile(m, io.BytesIO(data) if m.isreg() else None)
    with open(tmp + "/forged.tar", "wb") as f:
        f.write(out.getvalue())
    return tmp + "/forged.tar"


def an_archive_does_not_choose_what_it_stands_on():
    _, first, second = made()
    elsewhere = {"CAY_HOME": tmp + "/forging"}
    os.mkdir(tmp + "/forging", 0o700)
    cay("snapshot", "export", first, "-o", tmp + "/p.tar.zst")
    cay("snapshot", "export", second, "-o", tmp + "/other.tar.zst")
    cay("snapshot", "export", second, "--since", first, "-o", tmp + "/d.tar.zst")
    # a directory of this host
    bad = forged(tmp + "/p.tar.zst", template="/etc")
    assert "--root" in refused("import_root", "snapshot", "import", bad)
    refused("import_root", "snapshot", "import", bad, "--root", "/etc/")
    assert cay("snapshot", "inspect", cay("snapshot", "import", bad, "--root", "/etc"))
    refused("archive_format", "snapshot", "import", forged(tmp + "/p.tar.zst", template="../x"))
    # another's content under the parent's id, before the right one comes
    refused("archive_corrupt", "snapshot", "import", forged(tmp + "/d.tar.zst", parent_digest=""))
    cay("snapshot", "import", forged(tmp + "/other.tar.zst", id=first), env=elsewhere)
    refused("parent_missing", "snapshot", "import", tmp + "/d.tar.zst", env=elsewhere)
    refused("parent_differs", "snapshot", "import", forged(tmp + "/d.tar.zst", parent=second), env={})
    parent = cay("snapshot", "import", tmp + "/p.tar.zst", env=elsewhere)
    cay("snapshot", "import", forged(tmp + "/other.tar.zst", id=first), env=elsewhere)
    new = cay("snapshot", "import", tmp + "/d.tar.zst", env=elsewhere)
    assert json.loads(cay("snapshot", "inspect", new, env=elsewhere))["parent"] == parent


def directories_far_away_and_marks_that_mean_nothing():
    # the second layer has a file below directories that did not change and whose path is long; user.overlay.* is the sandbox's own
    box = cay("create")
    far = "/".join(["x" * 200] * 3)
    cay("exec", box, "--", "sh", "-c", "cd /workspace; mkdir -p %s marked; echo in >marked/in" % far)
    first = cay("snapshot", box)
    mark = "import os; os.setxattr('marked', 'user.overlay.opaque', b'y')" if os.getuid() == 0 else ""
    cay("exec", box, "--", "sh", "-c", "cd /workspace; echo y >%s/y; echo more >marked/more; python3 -c \"%s\"" % (far, mark))
    second = cay("snapshot", box)
    cay("snapshot", "export", second, "--since", first, "-o", tmp + "/far.tar.zst")
    new = cay("snapshot", "import", tmp + "/far.tar.zst")
    text = cay("run", "--from", new, "--", "sh", "-c", "cd /workspace; cat %s/y marked/in marked/more" % far)
    assert text.split() == ["y", "in", "more"], text
    cay("rm", "-f", box)


def attributes_come_back_whatever_they_are_called():
    """Names that a tar's record cannot hold are left out; and there are as many as the filesystem takes."""
    box = cay("create")
    cay("exec", box, "--", "python3", "-c", """if True:
        import os
        os.chdir("/workspace")
        open("a", "w").close(), open("b", "w").close()
        for name, value in ((b"user.k=v", b"1"), (b"user.\\xff\\n", b"=\\n"), (b"user.none", b"")):
            os.setxattr("a", name, value)
        try:
            for i in range(400):
                os.setxattr("b", "user.%d" % i, b"")
        except OSError:
            assert i > 20""")
    snap = cay("snapshot", box)
    cay("rm", "-f", box)
    digest = json.loads(cay("snapshot", "export", snap, "-o", tmp + "/attr.tar.zst", "--json"))["digest"]
    new = cay("snapshot", "import", tmp + "/attr.tar.zst")
    assert json.loads(cay("snapshot", "export", new, "-o", tmp + "/attr.tar.zst", "--json"))["digest"] == digest
    have = cay("run", "--from", new, "--", "python3", "-c", "import os; print(sorted(map(os.fsencode, os.listxattr('/workspace/a'))), len(os.listxattr('/workspace/b')) > 20)")
    assert have == "[b'user.none', b'user.\\xff\\n'] True", have


def the_sdks_forms():
    _, first, second = made()
    with open(tmp + "/s.tar", "wb") as f:
        f.write(subprocess.run([build + "/cay", "snapshot", "export", second, "--format", "tar", "-o", "-"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout)
    with tarfile.open(tmp + "/s.tar") as t:
        names = {m.name: m for m in t.getmembers()}
        assert "." in names and names["./d/a"].mode == 0o755 and names["./d/l"].linkname == "a" and names["./d/empty"].isdir(), list(names)
        assert not any(m.islnk() or m.isdev() for m in names.values()) and "./gone" not in names
    out = subprocess.run([build + "/cay", "snapshot", "export", second, "--format", "js", "-o", "-"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True).stdout
    j = json.loads(out)
    files = {f["path"]: base64.b64decode(f["data"]) for f in j["files"]}
    assert j["version"] == 1 and files["b"] == b"three\n" and files["zeros"] == b"\0" * 300000 and "d/empty" in j["directories"]
    with open(tmp + "/w.json", "wb") as f:
        f.write(out)
    new = cay("snapshot", "import", tmp + "/w.json", "--label", "from-js")
    text = cay("run", "--from", "from-js", "--", "sh", "-c", "cd /workspace; cat b; stat -c '%U %a' b d; touch d/mine; ls -d d/empty")
    assert text.split() == ["three", "user", "644", "user", "755", "d/empty"], text


def sdk_tar(*members):
    f = io.BytesIO()
    with tarfile.open(fileobj=f, mode="w") as t:
        for name, kind, data, mode in members:
            i = tarfile.TarInfo(name)
            i.mode, i.type = mode, kind
            if kind == tarfile.REGTYPE:
                i.size = len(data)
                t.addfile(i, io.BytesIO(data))
            else:
                i.linkname = data.decode()
                t.addfile(i)
    path = tmp + "/in.tar"
    with open(path, "wb") as out:
        out.write(f.getvalue())
    return path


REG, SYM, LNK, DIR = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE


def a_foreign_tar_becomes_the_workspace():
    path = sdk_tar((".", DIR, b"", 0o755), ("./bin", DIR, b"", 0o755), ("./bin/run", REG, b"#!/bin/sh\necho ran\n", 0o755), ("./plain", REG, b"p", 0o644),
                   ("./secret", REG, b"s", 0o400), ("./lib64", SYM, b"bin", 0o777))
    new = cay("snapshot", "import", path)
    text = cay("run", "--from", new, "--", "sh", "-c", "cd /workspace; ./bin/run; ./lib64/run; stat -c '%a %U' bin/run plain secret; echo more >>secret")
    assert text.split() == ["ran", "ran", "755", "user", "644", "user", "600", "user"], text
    # and saved: a file that its owner may only read comes back writable, and only what could be run can be run
    box = cay("create", "--from", new)
    cay("exec", box, "--", "sh", "-c", "cd /workspace; chmod 400 secret; chmod 640 plain")
    cay("snapshot", "export", cay("snapshot", box), "--format", "tar", "-o", tmp + "/saved.tar")
    cay("rm", "-f", box)
    with tarfile.open(tmp + "/saved.tar") as t:
        assert [oct(t.getmember(n).mode) for n in ("./bin/run", "./plain", "./secret")] == ["0o755", "0o640", "0o400"]
    text = cay("run", "--from", cay("snapshot", "import", tmp + "/saved.tar"), "--", "sh", "-c", "cd /workspace; ./bin/run; stat -c %a bin/run plain secret; echo more >>secret; cat secret")
    assert text.split() == ["ran", "755", "640", "600", "smore"], text


def what_is_refused_leaves_nothing():
    snaps = cay("snapshots", "-q")
    layers = sorted(os.listdir(home + "/layers"))
    for members, word in (([("ok", REG, b"1", 0o644), ("../out", REG, b"2", 0o644)], "archive_path"), ([("/abs", REG, b"", 0o644)], "archive_path"),
                          ([("ok", REG, b"1", 0o644), ("C:\\x", REG, b"", 0o644)], "archive_path"), ([("ok", REG, b"1", 0o644), ("a\\b", REG, b"", 0o644)], "archive_path"),
                          ([("l", SYM, b"/etc", 0o777)], "archive_link"), ([("l", SYM, b"d", 0o777), ("l/x", REG, b"", 0o644)], "archive_link"),
                          ([("a", REG, b"1", 0o644), ("h", LNK, b"a", 0o644)], "archive_link"), ([("a", REG, b"1", 0o644), ("a", REG, b"2", 0o644)], "archive_duplicate"),
                          ([("dev", tarfile.CHRTYPE, b"", 0o644)], "archive_special"), ([("p", tarfile.FIFOTYPE, b"", 0o644)], "archive_special")):
        message = refused(word, "snapshot", "import", sdk_tar(*members))
        assert any(m[0] in message for m in members), message
    _, first, _ = made()
    cay("snapshot", "export", first, "-o", tmp + "/w.tar.zst")
    data = open(tmp + "/w.tar.zst", "rb").read()
    plain = subprocess.run(["zstd", "-dqc"], input=data, stdout=subprocess.PIPE).stdout
    for bad, words in ((data[:len(data) // 2], ("archive_corrupt",)), (b"", ("archive_corrupt",)), (b"junk" * 500, ("archive_format",)),
                       (plain.replace(b"content-of-a", b"content-of-b"), ("archive_digest",)), (plain[:plain.rindex(b"cay.sha256")] + b"\0" * 1024, ("archive_corrupt",)),
                       (plain.replace(b'"version":1', b'"version":9'), ("archive_format",))):
        with open(tmp + "/bad", "wb") as f:
            f.write(bad)
        text = cay("--json", "snapshot", "import", tmp + "/bad", ok=False)
        assert json.loads(text)["error"]["reason"] in words, (text, words)
    cay("snapshot", "import", tmp + "/w.tar.zst", "--label", "a b", ok=False)
    refused("archive_format", "snapshot", "export", first, "--format", "rar", "-o", tmp + "/x")
    refused("sandbox_not_found", "snapshot", "export", "nobody", "-o", tmp + "/x")
    assert cay("snapshots", "-q") == snaps and sorted(os.listdir(home + "/layers")) == layers and not os.path.exists(tmp + "/x")


def a_layer_that_changed_is_not_exported():
    box = cay("create")
    cay("exec", box, "--", "sh", "-c", "echo right >/workspace/f")
    snap = cay("snapshot", box)
    for i in range(200):
        if json.loads(cay("snapshot", "inspect", snap))["digest"]:
            break
        time.sleep(0.1)
    cay("snapshot", "export", snap, "-o", tmp + "/ok.tar.zst")
    path = home + "/layers/" + snap + "/workspace/f"
    try:
        with open(path, "r+b") as f:
            f.write(b"wrong")
    except PermissionError:  # of an id that only the keeper's namespace has
        return
    refused("snapshot_damaged", "snapshot", "export", snap, "-o", tmp + "/no.tar.zst")
    assert not os.path.exists(tmp + "/no.tar.zst")
    cay("rm", "-f", box)


def a_sandbox_is_exported_by_a_snapshot_that_goes_again():
    box, first, second = made()
    before = cay("snapshots", "-q")
    out = json.loads(cay("snapshot", "export", box, "-o", tmp + "/box.tar.zst", "--json"))
    cay("snapshot", "export", second, "-o", tmp + "/second.tar.zst")
    assert cay("snapshots", "-q") == before
    assert out["digest"] == json.loads(cay("snapshot", "export", second, "-o", tmp + "/second.tar.zst", "--json"))["digest"]


def stores():
    _, first, second = made()
    os.makedirs(tmp + "/store", exist_ok=True)
    where = cay("snapshot", "push", first, tmp + "/store")
    assert where == tmp + "/store/" + first + ".tar.zst" and os.listdir(tmp + "/store") == [first + ".tar.zst"]
    assert look(cay("snapshot", "pull", where)) == look(first)
    os.makedirs(tmp + "/peer", exist_ok=True)
    peer = subprocess.Popen([here + "/../support/s3peer", tmp + "/peer"], stdin=subprocess.DEVNULL)
    try:
        for i in range(200):
            if os.path.exists(tmp + "/peer/port"):
                break
            time.sleep(0.1)
        url = "http://127.0.0.1:" + open(tmp + "/peer/port").read()
        cay("snapshot", "push", second, url + "/x/second.tar.zst")
        assert look(cay("snapshot", "pull", url + "/x/second.tar.zst")) == look(second)
        refused("fetch_status", "snapshot", "pull", url + "/x/nothing")
        refused("fetch_status", "snapshot", "push", second, url + "/locked/a")
        cay("snapshot", "push", second, url + "/locked/a", "--auth", "env:KEY", env={"KEY": "Bearer key"})
        cay("snapshot", "push", second, url + "/cut/a")
        refused("fetch_failed", "snapshot", "pull", url + "/cut/a")
        refused("fetch_failed", "snapshot", "pull", "http://127.0.0.1:1/x")
        # cay-fetch dies: whoever asked is told, nothing new is here, and what the server has is whole or not there.
        cay("snapshot", "push", first, url + "/x/kill")
        for point in ["fetch.tool.ask", "fetch.tool.body", "fetch.tool.done"] if faults() else []:
            for args in (("pull", url + "/x/kill"), ("push", first, url + "/x/" + point)):
                before = cay("snapshots", "-q")
                p = subprocess.run([build + "/cay-full", "snapshot", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=dict(os.environ, CAY_FAULT=point + "=kill"), timeout=60)
                assert p.returncode or (args[0] == "push" and point == "fetch.tool.body"), (point, args, p)  # the answer to a push has no body
                assert not p.returncode or b": " in p.stderr, p.stderr
                assert cay("snapshots", "-q") == before, (point, args)
            cay("snapshot", "push", first, url + "/x/" + point)
            assert look(cay("snapshot", "pull", url + "/x/" + point)) == look(first), point
        if shutil.which("rclone"):
            s3 = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL": url, "AWS_REGION": "us-east-1", "AWS_CA_BUNDLE": "/nowhere"}
            cay("snapshot", "push", first, "s3://bucket/deep/first.tar.zst", env=s3)
            assert look(cay("snapshot", "pull", "s3://bucket/deep/first.tar.zst", env=s3)) == look(first)
            refused("store_failed", "snapshot", "pull", "s3://bucket/none", env=s3)
        for bad in ("s3://", "s3://bucket", "s3:///x"):
            refused("store_url", "snapshot", "pull", bad)
    finally:
        peer.kill()
        peer.wait()


def whoever_dies_leaves_all_or_nothing():
    """Killed at each point: the snapshot is there and whole, or it is not there; nothing half-made stays."""
    _, first, _ = made()
    cay("snapshot", "export", first, "-o", tmp + "/w.tar.zst")
    want = look(first)
    points = ["import.recorded", "import.made", "unpack.made", "unpack.published", "push.made", "push.linked", "pack.told"] if faults() else []
    os.makedirs(tmp + "/kill", exist_ok=True)
    for point in points:
        before = set(cay("snapshots", "-q").split())
        env = {"CAY_FAULT": point + "=kill"}
        args = ("push", first, tmp + "/kill") if point.startswith(("push", "pack")) else ("import", tmp + "/w.tar.zst")
        subprocess.run([build + "/cay-full", "snapshot", *args], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                       env=dict(os.environ, **env), timeout=60)
        new = set(cay("snapshots", "-q").split()) - before
        assert len(new) <= 1, (point, new)
        for s in new:
            assert look(s) == want, point
        whole = [f for f in os.listdir(tmp + "/kill") if not f.startswith(".")]
        for f in whole:
            assert look(cay("snapshot", "pull", tmp + "/kill/" + f)) == want
            os.unlink(tmp + "/kill/" + f)
    # and by a signal, whenever it comes
    for wait in (0.01, 0.03, 0.08, 0.15):
        before = set(cay("snapshots", "-q").split())
        p = subprocess.Popen([build + "/cay-full", "snapshot", "import", tmp + "/w.tar.zst"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(wait)  # no promise hangs on it: any moment will do
        p.send_signal(signal.SIGKILL)
        p.wait()
        for i in range(100):
            new = set(cay("snapshots", "-q").split()) - before
            if len(new) <= 1:
                break
        for s in new:
            assert look(s) == want
    for i in range(100):  # whoever imports next sweeps up; the dead one's reader may take a moment to see it
        cay("snapshot", "import", tmp + "/w.tar.zst")
        left = [l for l in os.listdir(home + "/layers") if l.startswith(".stage")]
        if not left:
            break
        time.sleep(0.2)
    assert not left, left


def faults():
    return b"import.recorded" in open(os.path.realpath(build + "/src/libcay.so"), "rb").read()


def nothing_runs_on():
    boxes = [b for b in os.listdir(home + "/sandboxes") if b[0] == "c"]
    known = cay("ls", "-q").split()
    for i in range(100):
        boxes = [b for b in os.listdir(home + "/sandboxes") if b[0] == "c" and b not in known]
        if not boxes:
            break
        time.sleep(0.1)
    assert not boxes, boxes


helpers = {cay, refused, made, look, sdk_tar, faults, forged}
good = cases.run(cases.of(globals(), helpers), sys.argv[2:])
cases.clean(build + "/cay-full", tmp, home, tmp + "/elsewhere", tmp + "/forging")
sys.exit(not good)
