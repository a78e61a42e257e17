# SPDX-License-Identifier: Apache-2.0
"""What a test runs inside a sandbox behind a preview: a server that says what each path asks for, right or wrong, byte by byte.

upstream.py PORT: prints "ready" when it listens.
"""
import base64
import hashlib
import json
import socket
import socketserver
import struct
import sys
import threading
import time

served = silent = 0
lock = threading.Lock()


def answer(body, head=b'', status=b'200 OK'):
    return b'HTTP/1.1 ' + status + b'\r\nContent-Length: ' + str(len(body)).encode() + b'\r\n' + head + b'\r\n' + body


WRONG = {  # whole answers that are no answers
    '/cut-head': b'HTTP/1.1 200 OK\r\nContent-',
    '/cut-body': b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this',
    '/cut-chunk': b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n64\r\nonly this',
    '/nothing': b'',
    '/no-http': b'SSH-2.0-OpenSSH_9.2\r\n\r\n',
    '/two-lengths': b'HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde',
    '/length-and-chunks': b'HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    '/coding': b'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
    '/bare-lf': b'HTTP/1.1 200 OK\nContent-Length: 0\n\n',
    '/fold': b'HTTP/1.1 200 OK\r\nX-A: a\r\n b\r\nContent-Length: 0\r\n\r\n',
    '/blank-colon': b'HTTP/1.1 200 OK\r\nSet-Cookie : a=b\r\nContent-Length: 0\r\n\r\n',
    '/bad-chunk': b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n',
    '/huge-chunk': b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nabc',
    '/huge-head': b'HTTP/1.1 200 OK\r\nX-A: ' + b'a' * 70000 + b'\r\nContent-Length: 0\r\n\r\n',
    '/many-fields': b'HTTP/1.1 200 OK\r\n' + b'X-A: a\r\n' * 200 + b'Content-Length: 0\r\n\r\n',
    '/unasked-101': b'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
    '/endless-hints': b'HTTP/1.1 103 Early Hints\r\n\r\n' * 100,
    '/minus': b'HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n',
    '/status': b'HTTP/1.1 99 Low\r\nContent-Length: 0\r\n\r\n',
    '/version': b'HTTP/9.9 200 OK\r\nContent-Length: 0\r\n\r\n',
    '/null': b'HTTP/1.1 200 OK\r\nX-A: a\x00b\r\nContent-Length: 0\r\n\r\n',
}
FINE = {
    '/hello': answer(b'hello\n', b'Content-Type: text/plain\r\n'),
    '/script': answer(b'<script>alert(1)</script>', b'Content-Type: text/html\r\nSet-Cookie: a=b; Domain=localhost; Path=/\r\nSet-Cookie: cay_00000000=evil\r\n'
                      b'Service-Worker-Allowed: /\r\nClear-Site-Data: "*"\r\nStrict-Transport-Security: max-age=99\r\n'),
    '/hop': answer(b'', b'Connection: X-Own\r\nX-Own: secret\r\nKeep-Alive: timeout=9\r\nProxy-Authenticate: x\r\n'),
    '/chunked': b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;ext="a"\r\nhello\r\n6\r\n world\r\n0\r\nX-Trailer: t\r\n\r\n',
    '/hints': b'HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n' + answer(b'after hints'),
    '/none': b'HTTP/1.1 204 No Content\r\n\r\n',
    '/same': b'HTTP/1.1 304 Not Modified\r\nETag: "x"\r\nContent-Length: 99\r\n\r\n',
    '/behind': answer(b'one') + answer(b'two nobody asked for'),
}


class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        global served
        with lock:
            served += 1
            self.number = served
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while self.one():
            pass

    def head(self):
        lines = []
        while True:
            line = self.rfile.readline()
            if not line or line == b'\r\n':
                return lines
            lines.append(line.decode('latin-1').rstrip('\r\n'))

    def body(self, fields):
        """The bytes of the request's body, piece by piece."""
        if fields.get('transfer-encoding') == 'chunked':
            while True:
                n = int(self.rfile.readline().split(b';')[0], 16)
                if not n:
                    self.rfile.readline()
                    return
                yield self.rfile.read(n)
                self.rfile.readline()
        left = int(fields.get('content-length', 0))
        while left:
            piece = self.rfile.read(min(left, 65536))
            if not piece:
                raise EOFError
            left -= len(piece)
            yield piece

    def one(self):
        global silent
        lines = self.head()
        if not lines:
            return False
        method, target, _ = lines[0].split(' ')
        fields = {}
        for line in lines[1:]:
            k, v = line.split(':', 1)
            fields[k.lower()] = v.strip()
        path = target.split('?')[0]
        w = self.wfile
        if path == '/early':
            w.write(answer(b'no', status=b'413 Content Too Large'))
            return False
        if path == '/ws':
            return self.websocket(fields)
        digest, size = hashlib.sha256(), 0
        for piece in self.body(fields):
            digest.update(piece)
            size += len(piece)
        if path in WRONG:
            w.write(WRONG[path])
            return False
        if path in FINE:
            w.write(FINE[path] if method != 'HEAD' else FINE[path].split(b'\r\n\r\n')[0] + b'\r\n\r\n')
            return path not in ('/behind',)
        if path == '/seen':
            w.write(answer(json.dumps({'lines': lines, 'sha256': digest.hexdigest(), 'size': size, 'connection': self.number}).encode()))
            return True
        if path == '/bored':  # and says so a moment after its answer, as servers do to who asks nothing
            w.write(answer(b'one'))
            time.sleep(0.03)
            w.write(answer(b'nobody asked', status=b'408 Request Timeout'))
            return False
        if path == '/redirect':
            w.write(answer(b'', b'Location: ' + target.split('?')[1].encode() + b'\r\n', b'302 Found'))
            return True
        if path == '/to-end':
            w.write(b'HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nuntil the end')
            return False
        if path in ('/big', '/big-chunked'):
            n, piece = int(target.split('?')[1]), bytes(range(256)) * 256
            chunked = path == '/big-chunked'
            w.write(b'HTTP/1.1 200 OK\r\n' + (b'Transfer-Encoding: chunked' if chunked else b'Content-Length: %d' % n) + b'\r\n\r\n')
            while n:
                part = piece[:n]
                w.write(b'%x\r\n%s\r\n' % (len(part), part) if chunked else part)
                n -= len(part)
            if chunked:
                w.write(b'0\r\n\r\n')
            return True
        if path == '/endless':
            w.write(b'HTTP/1.1 200 OK\r\n\r\n')
            while True:
                w.write(b'x' * 65536)
        if path == '/endless-head':
            w.write(b'HTTP/1.1 200 OK\r\n')
            while True:
                w.write(b'X-A: ' + b'a' * 1000 + b'\r\n')
        if path == '/silent':
            with lock:
                silent += 1
            self.rfile.read(1)
            with lock:
                silent -= 1
            return False
        if path == '/count':
            w.write(answer(b'%d' % silent))
            return True
        w.write(answer(b'not here', status=b'404 Not Found'))
        return True

    def frame(self):
        head = self.rfile.read(2)
        if len(head) < 2:
            return None, b''
        n = head[1] & 127
        if n == 126:
            n = struct.unpack('>H', self.rfile.read(2))[0]
        elif n == 127:
            n = struct.unpack('>Q', self.rfile.read(8))[0]
        mask = self.rfile.read(4) if head[1] & 128 else bytes(4)
        data = self.rfile.read(n)
        key = (mask * (n // 4 + 1))[:n]
        return head[0] & 15, (int.from_bytes(data, 'big') ^ int.from_bytes(key, 'big')).to_bytes(n, 'big')

    def websocket(self, fields):
        if fields.get('upgrade', '').lower() != 'websocket':
            self.wfile.write(answer(b'no upgrade came', status=b'426 Upgrade Required'))
            return True
        accept = base64.b64encode(hashlib.sha1(fields['sec-websocket-key'].encode() + b'258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest())
        self.wfile.write(b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ' + accept + b'\r\n\r\n')
        while True:
            op, data = self.frame()
            if op is None:
                return False
            n = len(data)
            size = bytes([n]) if n < 126 else b'\x7e' + struct.pack('>H', n) if n < 65536 else b'\x7f' + struct.pack('>Q', n)
            self.wfile.write(bytes([0x80 | op]) + size + data)
            if op == 8:
                return False


class Threads(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass


with Threads(('127.0.0.1', int(sys.argv[1])), Handler) as server:
    print('ready', flush=True)
    server.serve_forever()
