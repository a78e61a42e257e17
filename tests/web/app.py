# SPDX-License-Identifier: Apache-2.0
"""A page that says something over a WebSocket and shows what comes back; nothing but the standard library."""
import base64
import hashlib
import http.server
import sys

PAGE = b'''<!doctype html><title>app</title><h1>A sandbox's own page</h1><p id=out>waiting</p>
<script>const w = new WebSocket(location.href.replace(/^http/, 'ws') + 'ws'); w.onopen = () => w.send('ahoy'); w.onmessage = e => { document.getElementById('out').textContent = e.data; };</script>'''


class App(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        if self.headers.get('Upgrade', '').lower() != 'websocket':
            self.send_response(200)
            self.send_header('Content-Type', 'text/html')
            self.send_header('Content-Length', str(len(PAGE)))
            self.end_headers()
            self.wfile.write(PAGE)
            return
        key = self.headers['Sec-WebSocket-Key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
        self.send_response(101)
        self.send_header('Upgrade', 'websocket')
        self.send_header('Connection', 'Upgrade')
        self.send_header('Sec-WebSocket-Accept', base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        head = self.rfile.read(2)
        mask, data = self.rfile.read(4), self.rfile.read(head[1] & 127)
        said = b'echo: ' + bytes(b ^ mask[i % 4] for i, b in enumerate(data))
        self.wfile.write(bytes([0x81, len(said)]) + said)
        self.rfile.read(1)

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), App).serve_forever()
