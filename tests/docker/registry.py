#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""registry.py DIR ARCH: a registry of images for tests, on a free port of 127.0.0.1 that is written to DIR/port.

/v2/open/… is for all; /v2/closed/… for user me with password "pass word"; the layer of /v2/slow/… never ends, and DIR/begun is made when somebody
fetches it; /v2/other/… is for another architecture.
"""
import base64, hashlib, http.server, io, json, os, sys, tarfile

where, arch = sys.argv[1:3]
made = io.BytesIO()
with tarfile.open(fileobj=made, mode="w") as tar:
    for name in ("hello", "etc"):
        member = tarfile.TarInfo(name)
        if name == "etc":
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(member)
        else:
            member.size = 5
            tar.addfile(member, io.BytesIO(b"world"))
layer = made.getvalue()


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def image(of):
    # The layer of the slow one is another: what the engine has of this one must not help it.
    body = layer if of != "slow" else layer + b"\0" * 10240
    config = json.dumps({"architecture": "s390x" if of == "other" and arch != "s390x" else arch, "os": "linux", "config": {}, "comment": of,
                         "rootfs": {"type": "layers", "diff_ids": [digest(body)]}}).encode()
    manifest = json.dumps({"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
                           "config": {"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config), "digest": digest(config)},
                           "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar", "size": len(body), "digest": digest(body)}]}).encode()
    return manifest, config, body


class Registry(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status, body=b"", kind="application/json", **more):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for k, v in more.items():
            self.send_header(k.replace("_", "-"), v)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        parts = self.path.split("?")[0].strip("/").split("/")
        of = parts[1] if len(parts) > 1 else ""
        # Asked for at the door, as registries do: an engine sends what it has from then on.
        want = "Basic " + base64.b64encode(b"me:pass word").decode()
        if (of == "closed" or not of) and self.headers.get("Authorization") != want and (of or os.path.exists(where + "/closed")):
            return self.say(401, b'{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}', WWW_Authenticate='Basic realm="test"')
        if not of:
            return self.say(200, b"{}")
        manifest, config, body = image(of)
        if parts[2] == "manifests":
            return self.say(200, manifest, "application/vnd.docker.distribution.manifest.v2+json", Docker_Content_Digest=digest(manifest))
        if parts[-1] == digest(config):
            return self.say(200, config)
        if parts[-1] == digest(body) and of != "slow":
            return self.say(200, body, "application/octet-stream")
        if parts[-1] != digest(body):
            return self.say(404, b'{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}')
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body[:512])
        self.wfile.flush()
        open(where + "/begun", "w").close()
        self.connection.recv(1)  # ends when the other side does
        self.close_connection = True

    do_HEAD = do_GET


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Registry)
server.daemon_threads = True
with open(where + "/.port", "w") as f:
    f.write(str(server.server_address[1]))
os.rename(where + "/.port", where + "/port")
server.serve_forever()
