#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# plugin.py SOCKET DIRECTORY: a volume driver as engines know them, whose volumes are directories. What it was told of each is in DIRECTORY/NAME.json. Like a real
# one it keeps its volumes when it is started again. With option fail it does not mount, and says every option in its error.
import http.server, json, os, shutil, socketserver, sys

sock, top = sys.argv[1:3]


class Driver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        said = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "{}")
        name = os.path.basename(said.get("Name") or "none")
        at, told = os.path.join(top, name), os.path.join(top, name + ".json")
        call, answer = self.path.rsplit(".", 1)[-1], {"Err": ""}
        if self.path == "/Plugin.Activate":
            answer = {"Implements": ["VolumeDriver"]}
        elif call == "Capabilities":
            answer = {"Capabilities": {"Scope": "local"}}
        elif call == "Create":
            os.makedirs(at, exist_ok=True)
            open(os.path.join(at, "from"), "w").write("the driver")
            os.chmod(at, 0o777)
            json.dump(said.get("Opts") or {}, open(told, "w"))
        elif call == "List":
            answer["Volumes"] = [{"Name": n[:-5], "Mountpoint": os.path.join(top, n[:-5])} for n in os.listdir(top) if n.endswith(".json")]
        elif not os.path.exists(told):
            answer["Err"] = "no such volume"
        elif call == "Remove":
            os.remove(told)
            shutil.rmtree(at)
        elif call in ("Mount", "Path"):
            opts = json.load(open(told))
            answer = {"Mountpoint": at, "Err": "cannot mount: %s" % opts if call == "Mount" and "fail" in opts else ""}
        elif call == "Get":
            answer["Volume"] = {"Name": name, "Mountpoint": at}
        text = json.dumps(answer).encode()
        self.send_response(500 if answer.get("Err") else 200)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Content-Type", "application/vnd.docker.plugins.v1.1+json")
        self.end_headers()
        self.wfile.write(text)

    def address_string(self):
        return "engine"

    def log_message(self, *a):
        pass


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


os.makedirs(top, exist_ok=True)
if os.path.exists(sock):
    os.remove(sock)
Server(sock, Driver).serve_forever()
