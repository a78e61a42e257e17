# SPDX-License-Identifier: Apache-2.0
"""Bodies in, streams out, sockets both ways; by a server with a protocol of the tests' own (echo.c)."""
import base64
import gzip
import hashlib
import json
import os
import random
import socket
import struct
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve import Server  # noqa: E402

BUILD = sys.argv.pop(1)
WS_KEY = 'dGhlIHNhbXBsZSBub25jZQ=='


def until(what, timeout=20):
    end = time.monotonic() + timeout
    while not what():
        if time.monotonic() > end:
            raise AssertionError('it did not happen')
        time.sleep(0.02)


class Ws:
    """A client's side, as plain as can be."""
    def __init__(self, server, extra=''):
        self.c = server.socket()
        self.c.sendall(('GET /t/ws HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
                        'Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n%s\r\n' % (server.key, WS_KEY, extra)).encode())
        self.f = self.c.makefile('rb')
        self.status = int(self.f.readline().split()[1])
        self.head = {}
        while True:
            line = self.f.readline().strip()
            if not line:
                break
            k, v = line.split(b': ', 1)
            self.head[k.lower().decode()] = v.decode()

    def send(self, opcode, data, fin=True, mask=True, size=None):
        b = bytes([(0x80 if fin else 0) | opcode])
        n = len(data) if size is None else size
        bit = 0x80 if mask else 0
        b += bytes([bit | n]) if n < 126 else bytes([bit | 126]) + struct.pack('>H', n) if n < 65536 else bytes([bit | 127]) + struct.pack('>Q', n)
        key = b'abcd' if mask else b''
        if mask:
            full = (key * (len(data) // 4 + 1))[:len(data)]
            data = (int.from_bytes(data, 'big') ^ int.from_bytes(full, 'big')).to_bytes(len(data), 'big') if data else b''
        self.c.sendall(b + key + data)

    def recv(self):
        h = self.f.read(2)
        if len(h) < 2:
            return None, b''
        n = h[1] & 127
        if n == 126:
            n = struct.unpack('>H', self.f.read(2))[0]
        elif n == 127:
            n = struct.unpack('>Q', self.f.read(8))[0]
        return h[0] & 15, self.f.read(n)

    def close(self):
        self.f.close()
        self.c.close()


class Streams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Server(BUILD, program='tests/server/cay-server-echo').__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.s.__exit__()

    def counts(self):
        return self.s.json('GET', '/t/counts')[2]

    def tearDown(self):
        self.assertEqual(self.s.ask('GET', '/health')[0], 200)
        until(lambda: self.counts()['pumps'] == 0)

    def test_a_key_is_needed(self):
        self.assertEqual(self.s.ask('POST', '/t/json', '{}', {'Content-Type': 'application/json'}, key=None)[0], 401)
        self.assertEqual(self.s.ask('GET', '/t/loop', key=None)[0], 401)
        self.assertEqual(self.s.ask('GET', '/t/loop')[0], 200)

    def test_json_comes_and_goes(self):
        obj = {'a': [1, 2.5, None, 'ä'], 'b': {'c': True}}
        self.assertEqual(self.s.json('POST', '/t/json', obj)[2], obj)
        self.assertEqual(self.s.json('POST', '/t/json')[2], {})
        big = {'x': 'y' * 3000000}
        self.assertEqual(self.s.json('POST', '/t/json', big)[2], big)

    def test_json_that_is_none(self):
        ask = lambda body, kind='application/json': self.s.json('POST', '/t/json', headers={'Content-Type': kind}) if body is None else (  # noqa: E731
            lambda r: (r[0], json.loads(r[2])['reason']))(self.s.ask('POST', '/t/json', body, {'Content-Type': kind}))
        self.assertEqual(ask('[' * 10000 + ']' * 10000), (400, 'json_too_deep'))
        self.assertEqual(ask('{"a":[' + '[],' * 300000 + '1]}'), (413, 'json_too_big'))
        self.assertEqual(ask('{"a":"' + 'x' * (9 << 20) + '"}'), (413, 'body_too_big'))
        self.assertEqual(ask('{}', 'text/plain'), (415, 'content_type'))
        self.assertEqual(ask('[]')[0], 400)
        self.assertEqual(ask('{"a":1,"a":2}')[0], 400)
        self.assertEqual(ask(b'{"a":"\xff"}')[0], 400)
        self.assertEqual(ask(b'{}\x00')[0], 400)

    def test_a_slow_small_body_needs_no_worker(self):
        head = 'POST /t/json HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{' % self.s.key
        slow = [self.s.socket() for _ in range(100)]  # more than there are workers
        for c in slow:
            c.sendall(head.encode())
        self.assertEqual(self.s.json('POST', '/t/json', {})[0], 200)
        for c in slow:
            c.sendall(b'}')
        for c in slow:
            self.assertEqual(int(c.recv(4096).split()[1]), 200)
            c.close()

    def test_a_body_comes_back(self):
        data = random.randbytes(5000000)
        for path in ('/t/raw', '/t/raw?chunked'):
            self.assertEqual(self.s.ask('POST', path, data)[2], data)
            pieces = (data[i:i + 77777] for i in range(0, len(data), 77777))
            self.assertEqual(self.s.ask('POST', path, pieces)[2], data)
        self.assertEqual(self.s.ask('POST', '/t/raw', b'')[2], b'')

    def test_chunks_that_are_none(self):
        head = ('POST /t/raw HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n' % self.s.key).encode()
        for body in (b'5\nhello\r\n0\r\n\r\n', b'5\r\nhello0\r\n\r\n', b'0x5\r\nhello\r\n0\r\n\r\n', b'-5\r\n', b'\r\n', b'fffffffffffffffff\r\n', b'ffffffffffffffff\r\n', b'5;' + b'a' * 300 + b'\r\nhello\r\n0\r\n\r\n',
                     b'0\r\nA: ' + b'b' * 9000 + b'\r\n\r\n', b'5 \r\nhello\r\n0\r\n\r\n', b'0\r\n \r\n\r\n'):
            with self.subTest(body=body[:20]):
                got = self.s.raw(head + body + b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n')
                self.assertEqual(got.split()[1], b'400')
                self.assertEqual(got.count(b'HTTP/1.1'), 1)
        ok = self.s.raw(head.replace(b'HTTP/1.1\r\n', b'HTTP/1.1\r\nConnection: close\r\n') + b'5;ext=1\r\nhello\r\n0\r\nTrailer: x\r\n\r\n')
        self.assertTrue(ok.endswith(b'hello'), ok)

    def test_a_body_nobody_reads(self):
        c = self.s.connection()
        for n in (10, 60000):  # small ones are skipped, on the same connection
            self.assertEqual(self.s.ask('POST', '/t/unread', b'x' * n, conn=c)[2], b'unread')
        self.assertEqual(self.s.ask('POST', '/t/unread', b'x' * 3000000)[2], b'unread')
        c.close()

    def test_continue_is_said_when_the_body_is_waited_for(self):
        c = self.s.socket()
        c.sendall(('POST /t/raw HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n' % self.s.key).encode())
        self.assertEqual(c.recv(100), b'HTTP/1.1 100 Continue\r\n\r\n')
        c.sendall(b'ok')
        got = b''
        while not got.endswith(b'ok'):
            piece = c.recv(4096)
            self.assertTrue(piece)
            got += piece
        c.close()
        c = self.s.socket()
        c.sendall(b'POST /t/raw HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n')
        self.assertEqual(c.recv(4096).split()[1], b'401')
        c.close()

    def test_pipes(self):
        for path in ('/t/pipe?n=60000', '/t/pipe?n=60000&chunked'):
            self.assertEqual(self.s.ask('GET', path)[2], bytes(60000))
        self.assertEqual(self.s.ask('HEAD', '/t/pipe?n=60000')[1]['Content-Length'], '60000')

    def test_params(self):
        self.assertEqual(self.s.json('GET', '/t/item/a%20b/x/c/d%2Fe?q=1%2B1+x')[2], {'a': 'a b', 'b': 'c/d/e', 'q': '1+1 x'})
        for path in ('/t/item/a%2Fb/x/c', '/t/item/../x/c', '/t/item/%2e%2e/x/c', '/t/item/a/x/../c', '/t/item/a/x/%2e%2e/c', '/t/item/a%00/x/c', '/t/item/a%/x/c', '/t/item/a%zz/x/c'):
            with self.subTest(path=path):
                self.assertEqual(self.s.ask('GET', path)[0], 400)

    def test_a_field_is_one_line(self):
        self.assertEqual(self.s.ask('GET', '/t/field?v=a%0d%0aSet-Cookie:%20x')[1]['X-Echo'], 'a  Set-Cookie: x')

    def test_text_is_packed_for_who_asks(self):
        _, head, plain = self.s.ask('GET', '/t/text', headers={'Accept-Encoding': 'identity'})
        self.assertIsNone(head['Content-Encoding'])
        for ask in ('gzip', 'br;q=1, gzip;q=0.5', 'deflate, GZIP'):
            _, head, body = self.s.ask('GET', '/t/text', headers={'Accept-Encoding': ask})
            self.assertEqual((head['Content-Encoding'], head['Vary']), ('gzip', 'Accept-Encoding'))
            self.assertLess(len(body), len(plain) // 2)
            self.assertEqual(gzip.decompress(body), plain)
        self.assertIsNone(self.s.ask('GET', '/t/text', headers={'Accept-Encoding': 'gzip;q=0'})[1]['Content-Encoding'])

    def test_faults_tell_no_path(self):
        status, _, body = self.s.ask('GET', '/t/fault')
        self.assertEqual(status, 500)
        self.assertNotIn(b'/secret', body)

    def test_events(self):
        for path in ('/t/stream?n=5', '/t/stream?n=5&work'):
            status, head, body = self.s.ask('GET', path)
            self.assertEqual((status, head['Content-Type']), (200, 'text/event-stream'))
            self.assertEqual(body.decode(), ''.join('id: %d\nevent: count\ndata: number\ndata: %d\n\n' % (i, i) for i in range(5)))
        old = self.s.raw(('GET /t/stream?n=2 HTTP/1.0\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n' % self.s.key).encode())
        self.assertTrue(old.endswith(b'data: 1\n\n'))

    def test_streams_end_with_their_peer(self):
        for path in ('/t/stream?n=1000000', '/t/stream?n=1000000&work', '/t/flood'):
            c = self.s.connection()
            c.request('GET', path, headers={'Authorization': 'Bearer ' + self.s.key})
            r = c.getresponse()
            r.read(10)
            self.assertGreater(self.counts()['pumps'], 0)
            r.close()
            c.close()
            until(lambda: self.counts()['pumps'] == 0)

    def test_a_peer_that_reads_nothing_costs_little(self):
        c = self.s.socket()
        before = self.rss()
        c.sendall(('GET /t/flood HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n' % self.s.key).encode())
        until(lambda: self.counts()['pumps'] == 1)
        time.sleep(0.3)
        self.assertLess(self.rss() - before, 64 << 20)
        c.close()

    def rss(self):
        with open('/proc/%d/statm' % self.s.pid()) as f:
            return int(f.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')

    def test_who_hangs_up_cancels(self):
        before = self.counts()['canceled']
        for _ in range(3):
            c = self.s.socket()
            c.sendall(('GET /t/wait HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n' % self.s.key).encode())
            time.sleep(0.05)
            c.close()
        until(lambda: self.counts()['canceled'] == before + 3)

    def test_websocket(self):
        w = Ws(self.s)
        self.assertEqual(w.status, 101)
        self.assertEqual(w.head['sec-websocket-accept'], base64.b64encode(hashlib.sha1((WS_KEY + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').encode()).digest()).decode())
        for kind, data in ((1, 'hällo'.encode()), (2, random.randbytes(200)), (2, random.randbytes(300000)), (1, b'')):
            w.send(kind, data)
            self.assertEqual(w.recv(), (kind, data))
        w.send(1, b'in ', fin=False)
        w.send(9, b'ping')
        w.send(0, b'two')
        self.assertEqual(w.recv(), (10, b'ping'))
        self.assertEqual(w.recv(), (1, b'in two'))
        w.send(1, b'bye')
        self.assertEqual(w.recv(), (8, struct.pack('>H', 1000) + b'as asked'))
        self.assertEqual(w.recv(), (None, b''))
        w.close()

    def test_websocket_abuse(self):
        for code, send in ((1002, lambda w: w.send(1, b'plain', mask=False)), (1007, lambda w: w.send(1, b'\xff\xfe')), (1009, lambda w: w.send(2, b'x', size=1 << 40)), (None, lambda w: w.send(9, b'x' * 126)),
                           (1002, lambda w: w.send(3, b'')), (1002, lambda w: w.send(0, b'no start'))):
            w = Ws(self.s)
            w.c.settimeout(5)
            send(w)
            kind, data = w.recv()
            self.assertEqual((kind, struct.unpack('>H', data[:2])[0] if data else None), (8, code))
            w.close()
        w = Ws(self.s)
        w.send(8, struct.pack('>H', 1001))
        self.assertEqual(w.recv()[0], 8)
        self.assertEqual(w.recv(), (None, b''))
        w.close()

    def test_handshakes_that_are_none(self):
        base = {'Upgrade': 'websocket', 'Connection': 'Upgrade', 'Sec-WebSocket-Key': WS_KEY, 'Sec-WebSocket-Version': '13'}
        for change, want in (({'Upgrade': 'h2c'}, 426), ({'Sec-WebSocket-Version': '8'}, 426), ({'Sec-WebSocket-Key': 'short'}, 400), ({'Connection': 'close'}, 426), ({'Origin': 'https://evil.example'}, 403)):
            with self.subTest(change=change):
                self.assertEqual(self.s.ask('GET', '/t/ws', headers={**base, **change})[0], want)
        self.assertEqual(self.s.ask('GET', '/t/ws', headers=base, key=None)[0], 401)

    def test_tunnel(self):
        c = self.s.socket()
        c.sendall(('GET /t/tunnel HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nUpgrade: echo\r\nConnection: upgrade\r\n\r\nearly' % self.s.key).encode())
        got = b''
        while not got.endswith(b'early'):
            got += c.recv(4096)
        self.assertTrue(got.startswith(b'HTTP/1.1 101 '))
        data = random.randbytes(1000000)
        t = threading.Thread(target=lambda: (c.sendall(data), c.shutdown(socket.SHUT_WR)))
        t.start()
        back = b''
        while True:
            piece = c.recv(65536)
            if not piece:
                break
            back += piece
        t.join()
        c.close()
        self.assertEqual(back, data)

    def test_a_proxy_gets_the_body(self):
        c = self.s.connection()
        self.assertEqual(self.s.ask('GET', '/t/proxy', conn=c)[2], b'0')
        self.assertEqual(self.s.ask('POST', '/t/proxy', b'x' * 300000, conn=c)[2], b'300000')
        self.assertEqual(self.s.ask('PUT', '/t/proxy', (b'y' * 1000 for _ in range(50)), conn=c)[2], b'50000')
        self.assertEqual(self.s.ask('GET', '/health', conn=c)[0], 200)
        c.close()

    def test_many_at_once(self):
        failed = []

        def one(i):
            try:
                c = self.s.connection()
                for k in range(20):
                    obj = {'i': i, 'k': k}
                    if self.s.json('POST', '/t/json', obj, conn=c)[2] != obj:
                        failed.append((i, k))
                c.close()
            except Exception as e:
                failed.append(e)
        threads = [threading.Thread(target=one, args=(i,)) for i in range(16)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(failed, [])


class Uploads(unittest.TestCase):
    """Bodies that come slowly are bounded by tenant, and are not borne for ever."""
    def head(self, s, key, n):
        return ('POST /t/raw HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n' % (key, n)).encode()

    def test_one_tenant_does_not_take_all_workers(self):
        with Server(BUILD, '--workers', '8', program='tests/server/cay-server-echo') as s:
            s.cay('tenant', 'create', 'slow')
            theirs = s.make_key('--tenant', 'slow')
            held = []
            for _ in range(40):
                c = s.socket(60)
                c.sendall(self.head(s, theirs, 100000) + b'x')
                held.append(c)
            for _ in range(20):  # six workers are left for everybody else, however many of them wait
                self.assertEqual(s.ask('POST', '/t/raw', b'y' * 200000)[2], b'y' * 200000)
            for c in held[:20]:  # those that stood in line have their turn, as do those who come back
                c.close()
            for c in held[20:]:
                c.sendall(b'x' * 99999)
            for c in held[20:]:
                back = b''
                while len(back.partition(b'\r\n\r\n')[2]) < 100000:
                    piece = c.recv(65536)
                    self.assertTrue(piece, back[:200])
                    back += piece
                c.close()

    def test_a_trickle_is_cut(self):
        with Server(BUILD, '--body-ms', '1000', program='tests/server/cay-server-echo') as s:
            with s.socket(30) as c:
                c.sendall(self.head(s, s.key, 1000000) + b'x')
                c.settimeout(0.1)
                end, back = time.monotonic() + 20, b''
                while time.monotonic() < end and not back:  # a byte now and then would last for a day
                    try:
                        c.sendall(b'x')
                        back = c.recv(4096)
                    except TimeoutError:
                        pass
            self.assertEqual(int(back.split()[1]), 408, back)
            self.assertIn(b'body_too_slow', back)


class End(unittest.TestCase):
    """A server that is told to end: what streams without end is told to come back, what has an end comes to it."""
    def ask(self, s, path):
        c = s.socket()
        c.sendall(('GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n' % (path, s.key)).encode())
        return c

    def rest(self, c):
        out = b''
        while True:
            piece = c.recv(65536)
            if not piece:
                c.close()
                return out
            out += piece

    def test_streams_end_at_once(self):
        with Server(BUILD) as s:
            box = s.json('POST', '/api/v1/sandboxes', {})[2]['id']
            api = '/api/v1/sandboxes/%s' % box
            p = s.json('POST', api + '/processes', {'argv': ['sleep', '1000']})[2]['id']
            events = self.ask(s, '/api/v1/events')
            output = self.ask(s, '%s/processes/%s/stream' % (api, p))
            wait = self.ask(s, '%s/processes/%s/wait?timeout_ms=600000' % (api, p))
            box_wait = self.ask(s, '%s/wait?timeout_ms=600000' % api)
            for c in (events, output, wait, box_wait):
                got = b''
                while b'\r\n\r\n' not in got:
                    got += c.recv(4096)
            run = s.socket()  # a request that has an end has it
            body = json.dumps({'argv': ['sh', '-c', 'sleep 1; echo done']})
            run.sendall(('POST %s/run HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s'
                         % (api, s.key, len(body), body)).encode())
            until(lambda: any('sleep 1; echo' in x.get('command', '') for x in s.json('GET', api + '/processes')[2]['items']))
            began = time.monotonic()
            proc = s.proc
            self.assertEqual(s.stop(), 0)
            took = time.monotonic() - began
            self.assertIsNotNone(proc.returncode)
            for c in (events, output):
                self.assertTrue(self.rest(c).endswith(b'retry: 1000\n\n\r\n0\r\n\r\n'))
            self.assertIn(b'"ended":false', self.rest(wait))
            self.assertIn(b'"state":"running"', self.rest(box_wait))
            back = self.rest(run)
            self.assertIn(b' 200 ', back)
            self.assertIn(b'done', back)
            self.assertLess(took, 15)  # streams used to be waited for as long as 20 s
            s.start()

    def test_a_websocket_is_told_to_come_back(self):
        with Server(BUILD, program='tests/server/cay-server-echo') as s:
            w = Ws(s)
            w.send(1, b'hello')
            self.assertEqual(w.recv(), (1, b'hello'))
            t = threading.Thread(target=s.stop)
            t.start()
            op, data = w.recv()
            self.assertEqual((op, struct.unpack('>H', data[:2])[0]), (8, 1012))
            w.send(8, data[:2])
            t.join()
            w.close()


if __name__ == '__main__':
    unittest.main(verbosity=1)
