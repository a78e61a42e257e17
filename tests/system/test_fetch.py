#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""test_fetch.py BUILD DRIVER [CASE…]: what manifests want from elsewhere (S-36, S-62 to S-65, S-67). Run it in tests/support/netlab with
tests/support/gitserver as its world."""
import base64, json, os, shutil, subprocess, sys, tempfile, time
import cases

build, driver = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
lab = os.environ.get("NETLAB")
if not lab:
    print("test_fetch.py runs inside tests/support/netlab")
    sys.exit(77)
for tool in ("git", "openssl"):
    if not shutil.which(tool):
        print(tool + " is not installed: make deps")
        sys.exit(77)
for i in range(240):
    if os.path.exists(lab + "/ready"):
        break
    time.sleep(0.25)
home = tempfile.mkdtemp(prefix="cay-fetch.")
os.chmod(home, 0o700)
TOKEN = "sentinel-TOKEN-never-inside"
os.environ.update(CAY_HOME=home, CAY_LIBEXEC=build, CAY_POOL="2", TOKEN=TOKEN)
with open(home + "/egress.conf", "w") as f:
    f.write("roots %s/ca.pem\n" % lab)
HTTP, TLS = "http://git.test:8081", "https://git.test:8444"


def run(verb, kind, url, *more):
    """(ok, text, directory)"""
    d = tempfile.mkdtemp(dir=home, prefix="out.")
    p = subprocess.run([driver, verb, kind, url, d, *more], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    assert p.returncode in (0, 1), (p.returncode, p.stderr)
    return p.returncode == 0, p.stdout.strip(), d


def good(kind, url, *more):
    ok, text, d = run("fetch", kind, url, *more)
    assert ok, text
    return text, d


def refused(kind, url, word, *more, verb="fetch"):
    ok, text, d = run(verb, kind, url, *more)
    assert not ok, "accepted %s: %s" % (url, text)
    assert text.startswith(word + ":"), text
    assert TOKEN not in text
    return text


def commits():
    return open(lab + "/commits").read().split()


def tree(d):
    return sorted(os.path.relpath(os.path.join(b, n), d) for b, ds, fs in os.walk(d) for n in ds + fs if ".git/" not in os.path.join(b, n) + "/")


def read(*path):
    with open(os.path.join(*path)) as f:
        return f.read()


def seen():
    return read(lab, "seen")


def a_branch_is_cloned_with_its_links_and_modes():
    text, d = good("git", HTTP + "/repo.git", "ref=main")
    assert text == "git:" + commits()[1] and read(d, "README") == "two\n"
    assert os.access(d + "/run.sh", os.X_OK) and not os.access(d + "/README", os.X_OK)
    assert os.readlink(d + "/out") == "/etc" and os.readlink(d + "/sub/link") == "../other"  # S-65: kept as links, followed by nobody
    assert os.path.isdir(d + "/.git") and not os.listdir(d + "/.git/hooks" if os.path.isdir(d + "/.git/hooks") else d + "/.git/refs/tags")
    log = subprocess.run(["git", "-c", "safe.directory=*", "-C", d, "log", "--oneline"], stdout=subprocess.PIPE, text=True).stdout
    assert len(log.splitlines()) == 1


def the_default_branch_tags_commits_and_depth():
    assert good("git", HTTP + "/repo.git")[0] == "git:" + commits()[1]
    text, d = good("git", HTTP + "/repo.git", "ref=v1")
    assert text == "git:" + commits()[0] and read(d, "README") == "one\n"
    text, d = good("git", HTTP + "/repo.git", "ref=" + commits()[0], "depth=5")
    assert read(d, "README") == "one\n"
    text, d = good("git", HTTP + "/repo.git", "ref=main", "whole=1")
    log = subprocess.run(["git", "-c", "safe.directory=*", "-C", d, "log", "--oneline"], stdout=subprocess.PIPE, text=True).stdout
    assert len(log.splitlines()) >= 2


def subpath_and_sparse():
    _, d = good("git", HTTP + "/repo.git", "ref=main", "subpath=sub")
    assert tree(d) == ["b", "deep", "deep/a", "link"], tree(d)
    _, d = good("git", HTTP + "/repo.git", "ref=main", "sparse=sub/deep")
    assert os.path.exists(d + "/sub/deep/a") and not os.path.exists(d + "/other")
    refused("git", HTTP + "/repo.git", "git_copy_error", "ref=main", "subpath=nowhere")
    refused("git", HTTP + "/repo.git", "git_copy_error", "ref=main", "subpath=out")  # a link to /etc
    refused("git", HTTP + "/repo.git", "git_copy_error", "ref=main", "subpath=out/ssl")
    for bad in ("../x", "/etc", "a/../b"):
        refused("git", HTTP + "/repo.git", "git_subpath_error", "ref=main", "subpath=" + bad)
    refused("git", HTTP + "/repo.git", "git_subpath_error", "sparse=--upload-pack=x")


def identity_follows_the_remote():
    ok, one, _ = run("identity", "git", HTTP + "/repo.git", "ref=main")
    ok2, tag, _ = run("identity", "file", HTTP + "/tagged")
    assert ok and ok2 and one == "git:" + commits()[-1] and tag.startswith('etag:'), (one, tag)
    urlopen("/turn")
    ok, two, _ = run("identity", "git", HTTP + "/repo.git", "ref=main")
    ok2, tag2, _ = run("identity", "file", HTTP + "/tagged")
    assert two == "git:" + commits()[-1] and two != one and tag2 != tag
    # the commit that was named stays the one that is brought
    text, d = good("git", HTTP + "/repo.git", "ref=main", "identity=" + one)
    assert text == one and read(d, "README") == "two\n"
    text, d = good("file", HTTP + "/tagged", "identity=" + tag2)
    assert text == tag2
    refused("file", HTTP + "/tagged", "fetch_changed", "identity=" + tag)
    for url, want in (("/weak", ""), ("/file", "")):
        ok, text, _ = run("identity", "file", HTTP + url)
        assert ok and text == want, text
    ok, text, _ = run("identity", "file", HTTP + "/file", "sha256=" + "AB" * 32)
    assert text == "sha256:" + "ab" * 32
    before = seen()
    ok, text, _ = run("identity", "git", HTTP + "/repo.git", "ref=" + commits()[0])
    assert text == "git:" + commits()[0] and seen() == before


def urlopen(path):
    import urllib.request
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener.open("http://93.184.216.39:8081" + path, data=b"", timeout=60).read()


def refs_that_are_none():
    refused("git", HTTP + "/repo.git", "git_ref_not_found", "ref=nowhere")
    refused("git", HTTP + "/repo.git", "git_ref_not_found", "ref=" + commits()[0][:9])
    refused("git", HTTP + "/nowhere.git", "git_clone_error", "ref=main")
    refused("git", HTTP + "/repo.git", "git_ref_not_found", "ref=" + "0123456789" * 4)


def s62_transports_and_options():
    for url in ("ext::sh -c id", "fd::3", "file:///etc", "/etc", "ssh://git.test/x", "git://git.test/x", "-u", "--upload-pack=touch /tmp/owned", "git@git.test:x",
                "http://user:pw@git.test/x"):
        for verb in ("identity", "fetch"):
            ok, text, _ = run(verb, "git", url)
            assert not ok and not text.startswith("git_clone_error"), (url, text)
    for ref in ("--upload-pack=id", "-x", "a..b", "a b", "x:y", "@{1}", ""):
        refused("git", HTTP + "/repo.git", "git_ref_not_found", "ref=" + ref)


def s63_s64_nothing_of_a_repository_runs():
    text, d = good("git", HTTP + "/evil.git", "ref=main")
    assert os.path.exists(d + "/.gitmodules") and not os.listdir(d + "/x")  # the submodule is a directory with nothing in it
    assert not os.path.exists("/tmp/owned")
    config = read(d, ".git/config")
    assert "ext::" not in config and "fsmonitor" not in config and "touch" not in config


def s67_a_token_never_enters():
    text, d = good("git", TLS + "/private/repo.git", "ref=main", "credentials=env:TOKEN")
    assert "Basic" in seen() and not subprocess.run(["grep", "-rsq", TOKEN, home]).returncode == 0
    refused("git", TLS + "/private/repo.git", "git_clone_error", "ref=main")
    os.environ["WRONG"] = "another"
    refused("git", TLS + "/private/repo.git", "git_clone_error", "ref=main", "credentials=env:WRONG")
    ok, text, _ = run("fetch", "git", TLS + "/private/repo.git", "ref=main", "credentials=env:NOT_SET")
    assert not ok and "NOT_SET" in text, text
    text, d = good("file", TLS + "/key", "header=X-Key:env:TOKEN")
    assert read(d, "file") == "keyed"
    # a redirect elsewhere takes no header with it
    before = len(seen())
    good("file", TLS + "/to?" + TLS + "/key", "header=X-Key:env:TOKEN")
    ok, text, _ = run("fetch", "file", TLS + "/to?http://elsewhere.test:8081/key", "header=X-Key:env:TOKEN", "net=" + rule("http://elsewhere.test:8081"))
    assert not ok and text.startswith("redirect_refused"), text
    good("file", HTTP + "/to?http://elsewhere.test:8081/file", "header=X-Key:open", "net=" + rule("http://elsewhere.test:8081"))
    assert seen()[before:].splitlines()[-1].endswith("/file None None"), seen()[before:]
    assert not subprocess.run(["grep", "-rsq", TOKEN, home]).returncode == 0


def rule(r):
    return "cay-net 1\nmode rules\nrule %s\n" % r


def files_and_archives():
    text, d = good("file", HTTP + "/file")
    assert read(d, "file") == "plain bytes\n"
    good("file", HTTP + "/file", "sha256=" + text.split(":")[1])
    refused("file", HTTP + "/file", "fetch_digest", "sha256=" + "0" * 64)
    refused("file", HTTP + "/big", "fetch_too_big", "max=299999")
    good("file", HTTP + "/big", "max=300000")
    refused("file", HTTP + "/nowhere", "fetch_status")
    _, d = good("dir", HTTP + "/tree.tar.gz")
    assert tree(d) == ["else", "else/b", "top", "top/a", "top/run"] and os.access(d + "/top/run", os.X_OK)
    _, d = good("dir", HTTP + "/tree.tar.gz", "subpath=top")
    assert tree(d) == ["a", "run"]
    refused("dir", HTTP + "/tree.tar.gz", "archive_path", "subpath=nowhere")
    _, d = good("dir", HTTP + "/tree.zip", "format=zip")
    assert read(d, "top/z") == "zip"
    refused("dir", HTTP + "/tree.zip", "archive_corrupt", "format=tar")
    refused("dir", HTTP + "/out.tar", "archive_path")
    refused("dir", HTTP + "/file", "archive_format")


def s36_places_that_are_nobodys():
    for host in ("127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "[::1]", "localhost.", "localhost", "[::ffff:127.0.0.1]", "169.254.169.254", "meta.test", "lo.test",
                 "inside.test", "mapped.test", "10.0.0.5"):
        for kind in ("file", "git"):
            ok, text, _ = run("fetch", kind, "http://%s/x" % host)
            assert not ok, (host, text)
    for url in ("file:///etc/passwd", "gopher://git.test/x", "unix:/run/x", "ftp://git.test/x", "dict://git.test/"):
        ok, text, _ = run("fetch", "file", url)
        assert not ok and not text.startswith("fetch_failed"), text
    refused("file", HTTP + "/to?http://169.254.169.254/latest", "redirect_refused")
    refused("file", HTTP + "/to?http://127.0.0.1/", "redirect_refused")
    refused("file", HTTP + "/to?http://elsewhere.test:8081/file", "redirect_refused")
    good("file", HTTP + "/to?http://elsewhere.test:8081/file", "net=" + rule("http://elsewhere.test:8081"))
    good("file", HTTP + "/to?/to?/file")
    refused("file", HTTP + "/loop", "too_many_redirects")
    refused("file", TLS + "/to?http://git.test:8081/file", "fetch_failed")  # nobody here trusts the lab's authority without a binding
    ok, text, _ = run("fetch", "file", HTTP + "/to?file:///etc/passwd")
    assert not ok
    with open(home + "/egress.conf", "a") as f:
        f.write("deny git.test\n")
    try:
        refused("file", HTTP + "/file", "fetch_refused")
    finally:
        with open(home + "/egress.conf", "w") as f:
            f.write("roots %s/ca.pem\n" % lab)


def cay(*args):
    p = subprocess.run([build + "/cay", *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
    return p.returncode, p.stdout.strip(), p.stderr


def a_manifest_brings_them_in():
    """Cache truth: what moved is seen by the second sandbox; what did not is not fetched again."""
    m = {"entries": {"repo": {"type": "git_repo", "host": "git.test:8444", "repo": "private/repo", "ref": "main", "credentials": "env:TOKEN"},
                     "part": {"type": "git_repo", "host": "git.test:8444", "repo": "private/repo", "ref": "v1", "subpath": "sub", "credentials": "env:TOKEN"},
                     "f": {"type": "remote_file", "url": HTTP + "/tagged"}, "t": {"type": "remote_dir", "url": HTTP + "/tree.tar.gz", "subpath": "top"}}}
    path = home + "/m.json"
    with open(path, "w") as f:
        json.dump(m, f)
    look = "cd /workspace; cat repo/README part/b f t/a; git -C repo log --oneline | wc -l; test -w repo/README && echo mine; env; cat repo/.git/config"
    for turn in range(2):
        code, out, err = cay("run", "--manifest", path, "--", "sh", "-c", look)
        assert code == 0, err
        assert out.startswith("two\nsub/b") and "tar1\nmine" in out.replace("\n1\nmine", "1\nmine") and TOKEN not in out, out
        was, now = (now if turn else None), out[out.index("sub/b"):].split("tar")[0]
        if not turn:
            before = seen().count("GET /tagged")
            code, out, err = cay("run", "--manifest", path, "--", "true")
            assert code == 0 and seen().count("GET /tagged") == before, "an unchanged file was fetched again"
            urlopen("/turn")
    assert was != now, (was, now)
    # What one credential brought is nobody's who has none, or another: the remote is asked, and refuses.
    for other in (None, "env:WRONG"):
        part = {k: v for k, v in m["entries"]["part"].items() if k != "credentials"}
        m["entries"] = {"part": {**part, **({"credentials": other} if other else {})}}
        with open(path, "w") as f:
            json.dump(m, f)
        code, out, err = cay("run", "--manifest", path, "--", "cat", "part/b")
        assert code and "sub/b" not in out and "part" in err, (code, out, err)
        m["entries"] = {"part": {**part, "credentials": "env:TOKEN"}}
    m["entries"] = {"x": {"type": "remote_file", "url": "http://169.254.169.254/x"}}
    with open(path, "w") as f:
        json.dump(m, f)
    code, out, err = cay("run", "--manifest", path, "--", "true")
    assert code and "x" in err and "169.254.169.254" in err, err
    assert subprocess.run(["grep", "-rsq", TOKEN, home]).returncode
    assert not os.path.isdir(home + "/fetch") or not os.listdir(home + "/fetch")


def a_sandbox_clones_with_a_credential():
    """git inside asks as anybody; who it is stands in the request only when it has left."""
    where = ("--net", "tls://git.test:8444", "--secret", "TOKEN=env:TOKEN@git.test:8444/private,basic:x-access-token")
    clone = "git clone -q %s/private/repo.git r && cat r/README && git -C r fetch -q --all; echo $?; env; cat r/.git/config; ls -a ~" % TLS
    code, out, err = cay("run", *where, "--", "sh", "-c", clone)
    assert code == 0 and "\n0\n" in out, (out, err)
    assert TOKEN not in out + err and "x-access-token" not in out, out
    assert "/private/repo.git/git-upload-pack Basic " + base64.b64encode(b"x-access-token:" + TOKEN.encode()).decode() in seen(), seen()[-2000:]
    code, out, err = cay("run", *where[:2], "--", "sh", "-c", "GIT_SSL_NO_VERIFY=1 GIT_TERMINAL_PROMPT=0 git clone -q %s/private/repo.git r" % TLS)
    assert code and "Username" in err, (out, err)  # without a binding the server asks


def the_sandboxes_are_gone():
    p = subprocess.run([build + "/cay-full", "ls", "--json"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    boxes = home + "/sandboxes"
    for i in range(100):
        left = [n for n in os.listdir(boxes) if n[0] != "."] if os.path.isdir(boxes) else []  # .pool-…: made ahead
        if not left:
            break
        time.sleep(0.1)
    assert not left, left
    assert '"id"' not in p.stdout, p.stdout


helpers = {run, good, refused, commits, tree, read, seen, urlopen, rule, cay}
good = cases.run(cases.of(globals(), helpers), sys.argv[3:])
cases.end_keepers(home)
shutil.rmtree(home, ignore_errors=True)
sys.exit(not good)
