# SPDX-License-Identifier: Apache-2.0
"""The sandbox-server protocol as its clients speak it."""
import http.client
import http.server
import json
import os
import re
import socket
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve import Server  # noqa: E402

BASE = "/sandbox-server"
failures = []
server = None


def ok(what, good, *more):
    print(("ok   " if good else "FAIL ") + what, *([] if good else more), flush=True)
    if not good:
        failures.append(what)


def ask(method, path, body=None, headers=None, key=True):
    """(status, headers, bytes)"""
    h = dict(headers or {})
    if isinstance(body, dict):
        body, h["Content-Type"] = json.dumps(body).encode(), "application/json"
    return server.ask(method, BASE + path, body, h, key)


def call(method, path, body=None, headers=None):
    """(status, the answer as JSON)"""
    status, _, data = ask(method, path, body, headers)
    try:
        return status, json.loads(data)
    except ValueError:
        return status, {"not json": data[:200]}


def form(parts):
    out = b""
    for name, filename, data in parts:
        out += b'--b0undary\r\nContent-Disposition: form-data; name="%s"' % name.encode()
        if filename is not None:
            out += b'; filename="%s"\r\nContent-Type: application/octet-stream' % filename.encode()
        out += b"\r\n\r\n" + data + b"\r\n"
    return out + b"--b0undary--\r\n", {"Content-Type": "multipart/form-data; boundary=b0undary"}


class World(http.server.BaseHTTPRequestHandler):
    """The place that URLs name: a file, a redirect, a thing to PUT to."""
    got = {}

    def do_GET(self):
        if self.path == "/away":
            self.send_response(302)
            self.send_header("Location", "http://169.254.169.254/latest/meta-data")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = b"from the world\n" if self.path == "/file" else b"no"
        self.send_response(200 if self.path == "/file" else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        n = self.headers.get("Content-Length")
        World.got[self.path] = (n, self.rfile.read(int(n)) if n else None)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *a):
        pass


def errors():
    s, _, d = ask("GET", "/health", key=None)
    ok("health needs no key", s == 200 and json.loads(d) == {"status": "healthy"}, s, d)
    s, _, d = ask("POST", "/sandboxes/create", {"user_id": "u"}, key=None)
    ok("without a key: 401 and a detail", s == 401 and "detail" in json.loads(d), s, d)
    for path, body in (("/sandboxes/create", {}), ("/sandboxes/connect", {}), ("/sandboxes/run-cmd", {"command": "true"}),
                       ("/sandboxes/create", {"user_id": 7})):
        s, j = call("POST", path, body)
        ok("%s %s: 400 and a detail" % (path, body), s == 400 and isinstance(j.get("detail"), str), s, j)
    for id in ("00000000-0000-4000-8000-000000000000", "nonsense", "caaaaaaaaaaaaaaaaaaa"):
        s, j = call("POST", "/sandboxes/connect", {"sandbox_id": id})
        ok("unknown sandbox %s: 404" % id, s == 404 and "detail" in j, s, j)
    s, j = call("POST", "/sandboxes/create", {"user_id": "u", "sandbox_template_id": "no-such-template"})
    ok("an unknown template is refused", s in (400, 404) and "detail" in j, s, j)
    s, _, d = ask("POST", "/sandboxes/run-cmd", b"{", {"Content-Type": "application/json"})
    ok("a broken body: 400", s == 400 and "detail" in json.loads(d), s, d)


def commands(id):
    s, j = call("POST", "/sandboxes/run-cmd", {"sandbox_id": id, "command": "echo out; echo err >&2; exit 3"})
    ok("run-cmd tells streams and code", s == 200 and j["success"] is True and j["stdout"] == "out\n" and j["stderr"] == "err\n" and j["exit_code"] == 3
       and j["timed_out"] is False and j["output"] == "out\nerr\n", s, j)
    s, j = call("POST", "/sandboxes/run-cmd", {"sandbox_id": id, "command": r"printf 'a\377b'"})
    ok("what is no UTF-8 is marked", s == 200 and j["stdout"] == "a\ufffdb", s, j)
    s, j = call("POST", "/sandboxes/run-cmd", {"sandbox_id": id, "command": "echo late >bg.txt; exec sleep 600", "background": True})
    ok("background returns at once", s == 200 and j["success"] and j["pid"] > 0, s, j)
    until = time.time() + 60
    while time.time() < until:
        s, j = call("POST", "/sandboxes/read-file", {"sandbox_id": id, "file_path": "bg.txt"})
        if s == 200 and j["content"] == "late\n":
            break
        time.sleep(0.05)
    ok("and goes on", s == 200 and j.get("content") == "late\n", s, j)


def files(id):
    w = lambda path, **m: call("POST", "/sandboxes/write-file", {"sandbox_id": id, "file_path": path, **m})
    rd = lambda path: call("POST", "/sandboxes/read-file", {"sandbox_id": id, "file_path": path})
    s, j = w("/workspace/d/e/f.txt", content="héllo\n")
    ok("write-file makes parents", s == 200 and j["success"] is True, s, j)
    ok("read-file", rd("d/e/f.txt") == (200, {"success": True, "content": "héllo\n"}), rd("d/e/f.txt"))
    ok("an empty file is a file", w("empty", content="")[0] == 200 and rd("empty") == (200, {"success": True, "content": ""}))
    s, j = w("x")
    ok("missing content: 400", s == 400 and "content" in j["detail"], s, j)
    ok("a missing file: 404", rd("nowhere")[0] == 404)
    ok("a directory is no file: 400", rd("d")[0] == 400, rd("d"))
    big = os.urandom(3 << 20)
    body, h = form([("sandbox_id", None, id.encode()), ("file_path", None, b"/workspace/up/big.bin"), ("file", "x", big)])
    s, j = call("POST", "/sandboxes/upload-file", body, h)
    ok("upload-file", s == 200 and j["success"], s, j)
    s, h2, d = ask("POST", "/sandboxes/download-file-stream", {"sandbox_id": id, "file_path": "up/big.bin"})
    ok("download-file-stream brings it back", s == 200 and d == big and h2["Content-Type"].startswith("application/octet-stream"), s, len(d))
    body, h = form([("file", "x", b"second"), ("file_path", None, b"/workspace/up/big.bin"), ("sandbox_id", None, id.encode())])
    s, j = call("POST", "/sandboxes/upload-file", body, h)
    ok("the file may come first, and overwrites", s == 200 and rd("up/big.bin")[1].get("content") == "second", s, j)
    body, h = form([("file_path", None, b"y"), ("file", "x", b"")])
    ok("upload without sandbox_id: 400", call("POST", "/sandboxes/upload-file", body, h)[0] == 400)
    ok("a cut form: 400", call("POST", "/sandboxes/upload-file", body[:-10], h)[0] == 400)
    dl = lambda fmt: ask("POST", "/sandboxes/download-file", {"sandbox_id": id, "file_path": "d/e/f.txt", "format": fmt})
    s, h2, d = dl("bytes")
    ok("download-file bytes", s == 200 and d == "héllo\n".encode() and 'filename="f.txt"' in h2["Content-Disposition"], s, d)
    ok("download-file text", json.loads(dl("text")[2])["content"] == "héllo\n")
    ok("download-file stream: 400", dl("stream")[0] == 400)
    mk = lambda q: call("POST", "/sandboxes/create-directory?" + urllib.parse.urlencode({"sandbox_id": id, **q}))
    ok("create-directory", mk({"directory_path": "new/dir"})[0] == 200 and mk({"directory_path": "new/dir"})[0] == 400)
    ok("exist_ok", mk({"directory_path": "new/dir", "exist_ok": "true"})[0] == 200 and mk({"directory_path": "empty", "exist_ok": "true"})[0] == 400)
    ok("directory_path is needed", mk({})[0] == 400)


def urls(id, world):
    up = lambda url: call("POST", "/sandboxes/upload-file-from-url", {"sandbox_id": id, "file_path": "fetched", "url": url})
    for bad in ("file:///etc/passwd", "gopher://x/", "http://127.0.0.1:%d/file" % world, "http://169.254.169.254/", "http://[::1]/", "http://10.0.0.1/", "nonsense"):
        s, j = up(bad)
        ok("%s is refused: 400" % bad, s == 400 and "detail" in j, s, j)
    s, j = call("POST", "/sandboxes/read-file", {"sandbox_id": id, "file_path": "fetched"})
    ok("and nothing was written", s == 404, s, j)
    put = lambda url, path="d/e/f.txt": call("POST", "/sandboxes/download-to-presigned-url", {"sandbox_id": id, "sandbox_path": path, "presigned_url": url})
    ok("nor is anything sent to this machine: 400", put("http://127.0.0.1:%d/p" % world)[0] == 400 and not World.got)
    ok("a missing file is not sent: 404", put("http://world:%d/p" % world, "nowhere")[0] == 404)
    s, j = up("http://world:%d/file" % world)
    ok("upload-file-from-url", s == 200 and j["success"], s, j)
    s, j = call("POST", "/sandboxes/read-file", {"sandbox_id": id, "file_path": "fetched"})
    ok("brings the bytes", j.get("content") == "from the world\n", s, j)
    ok("a redirect to elsewhere is refused: 400", up("http://world:%d/away" % world)[0] == 400, up("http://world:%d/away" % world))
    s, j = up("http://world:%d/none" % world)
    ok("what is not there: 404", s == 404, s, j)
    s, j = put("http://world:%d/p?sig=1" % world)
    ok("download-to-presigned-url sends it with a length", s == 200 and World.got.get("/p?sig=1") == ("7", "héllo\n".encode()), s, j, World.got)
    s, j = put("http://world:%d/e" % world, "empty")
    ok("an empty file, too", s == 200 and World.got.get("/e", ("", 1))[1] in (b"", None), s, j, World.got)


def life():
    s, made = call("POST", "/sandboxes/create", {"user_id": "user-7"})
    ok("create", s == 200 and made.get("success") is True and made["status"] == "running", s, made)
    id, own = made["sandbox_id"], made["provider_sandbox_id"]
    ok("its id is a UUID", re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", id) is not None, id)
    s, j = call("GET", "/sandboxes/%s/status" % id)
    ok("status", s == 200 and j["status"] == "running" and j["sandbox_id"] == id and j["provider_sandbox_id"] == own, s, j)
    s, j = call("GET", "/sandboxes/%s/status" % own)
    ok("by its own id, too", s == 200 and j["provider_sandbox_id"] == own, s, j)
    s, j = call("GET", "/sandboxes/%s/info" % id)
    ok("info", s == 200 and j["id"] == id and j["user_id"] == "user-7" and j["created_at"].startswith("20") and j["stopped_at"] is None and j["last_activity_at"],
       s, j)
    s, j = call("POST", "/sandboxes/schedule-timeout", {"sandbox_id": id, "timeout_seconds": 3600})
    ok("schedule-timeout", s == 200 and j["success"], s, j)
    ok("a timeout out of range: 400", call("POST", "/sandboxes/schedule-timeout", {"sandbox_id": id, "timeout_seconds": 0})[0] == 400)
    s, j = call("POST", "/sandboxes/expose-port", {"sandbox_id": id, "port": 8000})
    ok("expose-port gives the preview", s == 200 and j["url"].startswith("http") and "8000-" + own in j["url"] and "cay_token=" in j["url"], s, j)
    ok("a port that is none: 400", call("POST", "/sandboxes/expose-port", {"sandbox_id": id, "port": 0})[0] == 400)
    s, j = call("GET", "/sandboxes/%s/urls" % id)
    ok("urls", s == 200 and "6060-" in j["mcp_url"] and "9000-" in j["vscode_url"], s, j)
    return id, own


def pauses(id):
    s, j = call("POST", "/sandboxes/%s/pause?reason=manual" % id)
    if s == 500:
        print("skip pause: not on this host:", j.get("detail"))
        return
    ok("pause", s == 200 and j["success"], s, j)
    s, j = call("GET", "/sandboxes/%s/info" % id)
    ok("is told", s == 200 and j["status"] == "paused" and j["stopped_at"], s, j)
    s, j = call("POST", "/sandboxes/run-cmd", {"sandbox_id": id, "command": "echo back"})
    ok("work resumes it", s == 200 and j["stdout"] == "back\n", s, j)
    ok("again", call("POST", "/sandboxes/%s/pause" % id)[0] == 200)
    s, j = call("POST", "/sandboxes/connect", {"sandbox_id": id})
    ok("connect resumes it", s == 200 and j["status"] == "running", s, j)
    call("POST", "/sandboxes/schedule-timeout", {"sandbox_id": id, "timeout_seconds": 1})
    until = time.time() + 60
    while time.time() < until and j.get("status") != "paused":
        time.sleep(0.1)
        s, j = call("GET", "/sandboxes/%s/status" % id)
    ok("its timeout pauses it", j.get("status") == "paused", s, j)
    s, j = call("POST", "/sandboxes/read-file", {"sandbox_id": id, "file_path": "bg.txt"})
    ok("and it comes back with its files", s == 200 and j["content"] == "late\n", s, j)
    call("POST", "/sandboxes/schedule-timeout", {"sandbox_id": id, "timeout_seconds": 3600})


class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(self.host)


def own_root(path):
    """A listener of its own: no base path, no key, one tenant."""
    def there(method, target, body=None):
        c = Unix(path)
        c.request(method, target, json.dumps(body) if body else None, {"Content-Type": "application/json", "Host": "localhost"} if body else {"Host": "localhost"})
        r = c.getresponse()
        data = r.read()
        c.close()
        return r.status, json.loads(data)
    ok("with a root of its own: health", there("GET", "/health") == (200, {"status": "healthy"}))
    s, j = there("POST", "/sandboxes/create", {"user_id": "u"})
    ok("create without a key", s == 200 and j["success"], s, j)
    ok("both ways see it", call("GET", "/sandboxes/%s/status" % j["sandbox_id"])[0] == 200)
    # The address of an exposed port is one of this listener's: it opens there, with its token alone.
    own, port = j["provider_sandbox_id"], 8000
    s, e = there("POST", "/sandboxes/expose-port", {"sandbox_id": j["sandbox_id"], "port": port})
    u = urllib.parse.urlsplit(e["url"])
    there("POST", "/sandboxes/run-cmd", {"sandbox_id": j["sandbox_id"], "background": True, "command": "mkdir www; cd www; echo '{\"seen\": 1}' >index.html; exec python3 -m http.server %d" % port})
    until, got = time.time() + 30, (0, None)
    while time.time() < until and got[0] != 200:
        time.sleep(0.1)
        s, _, data = server.ask("GET", "/preview/%s/%d/" % (own, port))
        got = s, data
    for target, status in (("/?" + u.query, 303), ("/", 401), ("/?cay_token=cayp_00", 403)):
        c = Unix(path)
        c.request("GET", target, headers={"Host": u.netloc, "Accept": "text/html", "Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate"})
        r = c.getresponse()
        ok("the preview on that listener: %s is %d" % (target[:12], status), r.status == status, r.status, r.read()[:200])
        c.close()
    c = Unix(path)
    c.request("GET", "/", headers={"Host": u.netloc, "X-Cay-Token": urllib.parse.parse_qs(u.query)["cay_token"][0]})
    ok("and shows the page", json.loads(c.getresponse().read()) == {"seen": 1})
    c.close()
    s, e = there("GET", "/preview/%s/%d/" % (own, port))
    ok("paths there are the protocol's own", s == 404 and "detail" in e, s, e)
    s, j = there("DELETE", "/sandboxes/" + j["sandbox_id"])
    ok("and delete", s == 200, s, j)
    s, j = there("GET", "/nowhere")
    ok("an unknown path: 404 and a detail", s == 404 and "detail" in j, s, j)


def main():
    global server
    world = http.server.ThreadingHTTPServer(("127.0.0.1", 0), World)
    threading.Thread(target=world.serve_forever, daemon=True).start()
    server = Server(sys.argv[1])
    root = os.path.join(server.tmp, "root.sock")
    server.args = ("--dialect", "sandbox-server", "--as", "default", "--listen", "unix:" + root)
    os.makedirs(server.home, 0o700)
    with open(os.path.join(server.home, "egress.conf"), "w") as f:
        f.write("service world:%d 127.0.0.1:%d\n" % (world.server_port, world.server_port))
    with server:
        errors()
        own_root(root)
        id, own = life()
        commands(id)
        files(id)
        urls(id, world.server_port)
        pauses(id)
        server.cay("kill", own)
        s, j = call("POST", "/sandboxes/run-cmd", {"sandbox_id": id, "command": "true"})
        ok("one that was stopped by others: 422", s == 422 and "detail" in j, s, j)
        s, j = call("DELETE", "/sandboxes/%s" % id)
        ok("delete", s == 200 and j["success"], s, j)
        ok("then it is not there: 404", call("GET", "/sandboxes/%s/status" % id)[0] == 404 and call("DELETE", "/sandboxes/%s" % id)[0] == 404)
    world.shutdown()
    sys.exit(1 if failures else 0)


main()
