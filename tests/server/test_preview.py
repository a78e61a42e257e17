# SPDX-License-Identifier: Apache-2.0
"""Previews: who may see them, what passes, and what hostile programs and peers cannot do through them."""
import base64
import hashlib
import http.client
import json
import os
import socket
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from serve import Server  # noqa: E402

BUILD = sys.argv.pop(1)
BULK = int(os.environ.get('CAY_TEST_BULK', 24 << 20))


def pattern(n):
    piece = bytes(range(256)) * 256
    return (piece * (n // len(piece) + 1))[:n]


class Preview(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = s = Server(BUILD).__enter__()
        try:
            cls.box = s.cay('create', '--net', 'off').strip()
            s.cay('cp', os.path.join(HERE, 'upstream.py'), cls.box + ':/workspace/upstream.py')
            s.cay('exec', '-d', cls.box, '--', 'python3', '/workspace/upstream.py', '8000')
            for _ in range(400):
                if '8000' in s.cay('port', 'ls', '-q', cls.box).split():
                    break
                time.sleep(0.05)
            cls.token = s.cay('port', 'expose', cls.box, '8000').strip()
        except BaseException:
            s.__exit__()
            raise
        cls.host = '8000-%s.localhost:%d' % (cls.box, s.port)
        cls.origin = 'http://' + cls.host
        cls.path = '/preview/%s/8000' % cls.box

    @classmethod
    def tearDownClass(cls):
        cls.s.__exit__()

    def tearDown(self):  # whatever happened, the next one is served
        self.assertEqual(self.get('/hello')[2], b'hello\n')

    def get(self, path, headers=None, method='GET', body=None, host=None, token=True, conn=None, chunked=False):
        h = dict(headers or {}, Host=host or self.host)
        if token:
            h['X-Cay-Token'] = self.token if token is True else token
        c = conn or self.s.connection()
        try:
            c.request(method, path, body=body, headers=h, encode_chunked=chunked)
            r = c.getresponse()
            return r.status, r.headers, r.read()
        finally:
            if not conn:
                c.close()

    def by_path(self, path, headers=None, **more):
        return self.get(self.path + path, headers, host='127.0.0.1:%d' % self.s.port, **more)

    def seen(self, *args, **more):
        status, _, body = self.get(*args, **more)
        self.assertEqual(status, 200)
        return json.loads(body)

    # -------------------------------------------------------------- who may
    def test_it_is_private(self):
        other = self.s.make_key('--scope', 'tenant', '--tenant', self.tenant('other'))
        for how, status, reason in (
                ({}, 401, 'preview_token_missing'),
                ({'X-Cay-Token': 'cayp_' + '0' * 64}, 403, 'token_refused'),
                ({'Authorization': 'Bearer cayp_' + '0' * 64}, 403, 'token_refused'),
                ({'Cookie': self.cookie() + '=cayp_' + '0' * 64}, 403, 'token_refused'),
                ({'X-API-Key': 'e2b_' + '0' * 72}, 401, 'key_invalid'),
                ({'X-API-Key': other}, 404, 'sandbox_not_found')):
            got, _, body = self.get('/hello', how, token=None)
            self.assertEqual(got, status, 'the preview opened by %r: %r' % (how, body[:60]))
            self.assertEqual(json.loads(body)['reason'], reason, how)
        self.assertEqual(self.get('/hello?cay_token=cayp_00', token=None)[0], 403)

    def test_what_does_not_exist_is_not_told_apart(self):
        gone = 'c' + 'a' * 19
        one = self.get('/hello', host='8000-%s.localhost' % gone, token='cayp_' + '0' * 64)
        two = self.get('/hello', token='cayp_' + '0' * 64)
        strip = lambda r: (r[0], {k: v for k, v in json.loads(r[2]).items() if k != 'request'})
        self.assertEqual(strip(one), strip(two))

    def test_a_token_is_for_one_port(self):
        self.assertEqual(self.get('/hello', host='8001-%s.localhost' % self.box)[0], 403)

    def test_ways_to_show_a_token(self):
        for how in ({'X-Cay-Token': self.token}, {'E2B-Traffic-Access-Token': self.token}, {'Authorization': 'Bearer ' + self.token},
                    {'Authorization': 'Bearer ' + self.s.key}, {'X-API-Key': self.s.key}, {'Cookie': 'x=1; %s=%s' % (self.cookie(), self.token)}):
            self.assertEqual(self.get('/hello', how, token=None)[0], 200, how)
        self.assertEqual(self.get('/hello?cay_token=' + self.token, token=None)[0], 200)

    def tenant(self, name):
        try:
            self.s.cay('tenant', 'create', name)
        except RuntimeError as e:
            if 'EEXIST' not in str(e) and 'there' not in str(e) and 'exists' not in str(e):
                raise
        return name

    def cookie(self):
        status, head, _ = self.get('/hello?a=1&cay_token=' + self.token + '&b=2', {'Accept': 'text/html'}, token=None)
        self.assertEqual(status, 303)
        self.assertEqual(head['Location'], self.origin + '/hello?a=1&b=2')
        name, rest = head['Set-Cookie'].split('=', 1)
        self.assertEqual(rest, self.token + '; Path=/; HttpOnly; SameSite=Strict')
        self.assertRegex(name, '^cay_[0-9a-f]{8}$')
        return name

    def test_a_link_from_elsewhere_gets_a_page_that_goes_on(self):
        status, head, body = self.get('//evil.test/"><script>?cay_token=' + self.token, {'Accept': 'text/html', 'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'navigate'},
                                      token=None)
        self.assertEqual(status, 200)
        self.assertIn('Set-Cookie', head)
        self.assertIn(('0;url=' + self.origin + '//evil.test/&quot;&gt;&lt;script&gt;"').encode(), body)
        self.assertNotIn(b'<script>', body)

    def test_the_cookie_of_a_frame(self):
        """None instead of Strict, for a frame of another site alone; for an hour, this host and this port."""
        frame = {'Accept': 'text/html', 'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'navigate', 'Sec-Fetch-Dest': 'iframe'}
        name, strict = self.cookie(), '; Path=/; HttpOnly; SameSite=Strict'
        status, head, _ = self.get('/hello?cay_token=' + self.token, frame, token=None)
        self.assertEqual((status, head.get_all('Set-Cookie')), (200, ['%s=%s; Path=/; HttpOnly; SameSite=None; Partitioned; Max-Age=3600; Secure' % (name, self.token)]))
        for change in ({'Sec-Fetch-Dest': 'document'}, {'Sec-Fetch-Dest': 'frame'}, {'Sec-Fetch-Dest': ''}, {'Sec-Fetch-Site': 'same-site'}, {'Sec-Fetch-Site': 'same-origin'}, {'Sec-Fetch-Site': 'none'}):
            self.assertEqual(self.get('/hello?cay_token=' + self.token, dict(frame, **change), token=None)[1].get_all('Set-Cookie'), [name + '=' + self.token + strict], change)
        status, head, _ = self.get('/hello?cay_token=cayp_' + '0' * 64, frame, token=None)
        self.assertEqual((status, head['Set-Cookie']), (403, None))
        for how in ({'Sec-Fetch-Mode': 'cors'}, {'Sec-Fetch-Mode': 'no-cors'}):  # no page but one that goes there gets one
            self.assertIsNone(self.get('/hello?cay_token=' + self.token, dict(frame, **how), token=None)[1]['Set-Cookie'])
        mine = dict(frame, Cookie='%s=%s' % (name, self.token))
        self.assertEqual(self.get('/hello', mine, token=None)[0], 200)
        for host in ('8001-%s.localhost' % self.box, '8000-%s.localhost' % ('c' + 'a' * 19)):  # one that carries it there by hand
            self.assertEqual(self.get('/hello', mine, host=host, token=None)[0], 403, host)
        self.assertIn(self.s.ask('GET', '/api/v1/sandboxes', headers={'Cookie': mine['Cookie']}, key=None)[0], (401,))

    def test_other_pages_cannot_use_the_cookie(self):
        mine = {'Cookie': '%s=%s' % (self.cookie(), self.token)}
        for how, status in (
                ({'Origin': self.origin}, 200),
                ({'Sec-Fetch-Site': 'same-origin', 'Sec-Fetch-Mode': 'cors'}, 200),
                ({'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'navigate'}, 200),
                ({'Origin': 'http://8001-%s.localhost:%d' % (self.box, self.s.port)}, 403),
                ({'Origin': 'http://localhost:%d' % self.s.port}, 403),
                ({'Origin': 'null'}, 403),
                ({'Sec-Fetch-Site': 'same-site', 'Sec-Fetch-Mode': 'no-cors'}, 403),
                ({'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'websocket'}, 403)):
            self.assertEqual(self.get('/hello', dict(mine, **how), token=None)[0], status, how)
        self.assertEqual(self.get('/hello', dict(mine, **{'Sec-Fetch-Site': 'cross-site', 'Sec-Fetch-Mode': 'navigate'}), method='POST', token=None)[0], 403)

    def test_taken_back_is_taken_back(self):
        self.s.cay('port', 'expose', self.box, '8002')
        token = self.s.cay('port', 'expose', self.box, '8002').strip()
        host = '8002-%s.localhost' % self.box
        self.assertEqual(self.get('/', host=host, token=token)[0], 502)
        self.s.cay('port', 'unexpose', self.box, '8002')
        until = time.monotonic() + 20
        while self.get('/', host=host, token=token)[0] != 403:
            self.assertLess(time.monotonic(), until)

    # -------------------------------------------------------------- what the program sees
    def test_the_head_is_written_anew(self):
        lines = self.seen('/seen?q=1', {
            'Connection': 'keep-alive, X-Drop', 'X-Drop': '1', 'Keep-Alive': '9', 'TE': 'trailers', 'Proxy-Authorization': 'x', 'X-Forwarded-For': '6.6.6.6', 'X_Forwarded_For': '6.6.6.6',
            'Forwarded': 'for=6.6.6.6', 'X-Real-IP': '6.6.6.6', 'Authorization': 'Bearer ' + self.s.key, 'X-API-Key': self.s.key, 'Cookie': 'a=1; %s=%s' % (self.cookie(), self.token),
            'Origin': self.origin, 'Referer': self.origin + '/?cay_token=' + self.token, 'X-Mine': 'yes'})['lines']
        self.assertEqual(lines[0], 'GET /seen?q=1 HTTP/1.1')
        fields = sorted(l for l in lines[1:] if not l.startswith('accept-encoding'))
        self.assertEqual(fields, ['cookie: a=1', 'host: localhost:8000', 'origin: http://localhost:8000', 'x-forwarded-for: 127.0.0.1', 'x-forwarded-host: ' + self.host,
                                  'x-forwarded-proto: http', 'x-mine: yes'])

    def test_no_secret_reaches_the_program(self):
        for how in ({'Authorization': 'Bearer ' + self.token}, {'E2B-Traffic-Access-Token': self.token}, {'Cookie': '%s=%s' % (self.cookie(), self.token)}):
            text = json.dumps(self.seen('/seen', how, token=None))
            self.assertNotIn('cayp_', text)
        self.assertNotIn('cayp_', json.dumps(self.seen('/seen?x&cay_token=' + self.token, token=None)))

    def test_smuggled_requests_stay_outside(self):
        """Each is refused, or is one request to the program: never two."""
        head = 'POST /seen HTTP/1.1\r\nHost: %s\r\nX-Cay-Token: %s\r\n' % (self.host, self.token)
        inner = 'GET /seen?smuggled HTTP/1.1\r\nHost: x\r\n\r\n'
        shapes = [
            'Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n', 'Content-Length: 0\r\nContent-Length: %d\r\n\r\n' % len(inner), 'Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n',
            'Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n', 'Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n', 'Transfer-Encoding:\tchunked\r\nTransfer-Encoding: cow\r\n\r\n0\r\n\r\n',
            'Content-Length: +%d\r\n\r\n' % len(inner), 'Content-Length: 0x10\r\n\r\n', 'X: y\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n', 'X: y\r\n Content-Length: 99\r\n\r\n',
            'Transfer-Encoding: chunked\r\n\r\n1;\nx\r\nZ\r\n0\r\n\r\n', 'Transfer-Encoding: chunked\r\n\r\n-1\r\n', 'Transfer-Encoding: chunked\r\n\r\n0\n\n', 'Host: elsewhere\r\n\r\n',
            'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 0\r\n\r\n',
            'Content-Length: %d\r\nConnection: content-length\r\n\r\n' % len(inner),
        ]
        for shape in shapes:
            with self.s.socket() as c:
                c.sendall((head + shape + inner).encode())
                c.shutdown(socket.SHUT_WR)
                data = b''
                while True:
                    try:
                        piece = c.recv(65536)
                    except ConnectionResetError:
                        break
                    if not piece:
                        break
                    data += piece
            # What is behind it may be read as a request to us, which has no token for it; the program never hears of it.
            self.assertNotIn(b'GET /seen?smuggled', data.replace(b'\\r', b''), shape)
        self.assertNotIn('smuggled', json.dumps(self.seen('/seen')))

    def test_methods_that_do_not_pass(self):
        for method in ('CONNECT', 'TRACE'):
            data = self.s.raw(('%s / HTTP/1.1\r\nHost: %s\r\nX-Cay-Token: %s\r\nConnection: close\r\n\r\n' % (method, self.host, self.token)).encode())
            self.assertIn(data.split()[1], (b'400', b'405', b'501'), method)

    # -------------------------------------------------------------- bodies
    def test_bodies_go_in(self):
        data = pattern(BULK)
        want = hashlib.sha256(data).hexdigest()
        for chunked in (False, True):
            body = iter([data[i:i + 100003] for i in range(0, len(data), 100003)]) if chunked else data
            got = self.seen('/seen', {'Transfer-Encoding': 'chunked'} if chunked else {}, method='PUT', body=body, chunked=chunked)
            self.assertEqual((got['sha256'], got['size']), (want, len(data)))

    def test_bodies_come_out(self):
        want = hashlib.sha256(pattern(BULK)).hexdigest()
        for path in ('/big', '/big-chunked'):
            status, _, body = self.get('%s?%d' % (path, BULK))
            self.assertEqual((status, len(body), hashlib.sha256(body).hexdigest()), (200, BULK, want), path)

    def test_a_peer_that_waits_is_told_to_go_on(self):
        with self.s.socket() as c:
            c.sendall(('POST /seen HTTP/1.1\r\nHost: %s\r\nX-Cay-Token: %s\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n' % (self.host, self.token)).encode())
            self.assertEqual(c.recv(100), b'HTTP/1.1 100 Continue\r\n\r\n')
            c.sendall(b'hello')
            self.assertIn(b'200 OK', c.recv(4096))

    def test_an_answer_may_come_before_the_question_is_said(self):
        with self.s.socket() as c:
            c.sendall(('POST /early HTTP/1.1\r\nHost: %s\r\nX-Cay-Token: %s\r\nContent-Length: 100000000\r\n\r\n' % (self.host, self.token)).encode())
            c.sendall(b'x' * 1000)
            data = b''
            while True:
                piece = c.recv(4096)
                if not piece:
                    break
                data += piece
        self.assertIn(b'413', data.split(b'\r\n')[0])
        self.assertIn(b'connection: close', data)

    def test_connections_are_kept_on_both_sides(self):
        c = self.s.connection()
        first = json.loads(self.get('/seen', conn=c)[2])['connection']
        mine = c.sock
        numbers = {json.loads(self.get('/seen', conn=c)[2])['connection'] for _ in range(5)}
        self.assertEqual((numbers, c.sock is mine), ({first}, True))
        c.close()
        # One that speaks out of turn is not used again.
        self.assertEqual(self.get('/behind')[2], b'one')
        self.assertEqual(self.get('/hello')[2], b'hello\n')
        for _ in range(3):  # also when that comes while it waits
            self.assertEqual(self.get('/bored')[2], b'one')
            time.sleep(0.1)
            self.assertEqual([self.get('/hello')[::2] for _ in range(3)], [(200, b'hello\n')] * 3)

    def test_a_body_on_a_kept_connection_waits_for_no_acknowledgement(self):
        c, took = self.s.connection(), []
        for _ in range(12):  # the first ones are acknowledged at once, later ones after 40 ms
            began = time.monotonic()
            self.get('/seen', conn=c, method='POST', body=b'x' * 10)
            took.append(time.monotonic() - began)
        c.close()
        self.assertLess(min(took[4:]), 0.03)

    def test_pipelined_requests_are_answered_in_order(self):
        one = 'GET /%s HTTP/1.1\r\nHost: ' + self.host + '\r\nX-Cay-Token: ' + self.token + '\r\n'
        data = self.s.raw((one % 'hello' + '\r\n' + one % 'chunked' + '\r\n' + one % 'hello' + 'Connection: close\r\n\r\n').encode())
        self.assertEqual(data.count(b'HTTP/1.1 200 OK'), 3)
        self.assertLess(data.index(b'hello\n'), data.index(b'transfer-encoding: chunked'))

    def test_framing_of_answers(self):
        self.assertEqual(self.get('/chunked')[2], b'hello world')
        self.assertEqual(self.get('/to-end')[2], b'until the end')
        self.assertEqual(self.get('/hints')[2], b'after hints')
        self.assertEqual(self.get('/none')[0], 204)
        status, head, body = self.get('/same')
        self.assertEqual((status, head['ETag'], body), (304, '"x"', b''))
        status, head, body = self.get('/hello', method='HEAD')
        self.assertEqual((status, head['Content-Length'], body), (200, '6', b''))
        old = self.s.raw(('GET /chunked HTTP/1.0\r\nHost: %s\r\nX-Cay-Token: %s\r\n\r\n' % (self.host, self.token)).encode())
        self.assertTrue(old.endswith(b'\r\n\r\nhello world'), old)

    def test_fields_of_one_connection_stay_there(self):
        _, head, _ = self.get('/hop')
        self.assertEqual([k for k in head.keys() if k.lower() in ('x-own', 'keep-alive', 'proxy-authenticate')], [])

    def test_redirects_stay_in_the_preview(self):
        for to, host, path in (('http://localhost:8000/a', self.origin + '/a', 'http://127.0.0.1:%d%s/a' % (self.s.port, self.path)),
                               ('/a', '/a', self.path + '/a'), ('//evil.test/', '//evil.test/', '//evil.test/'), ('https://other.test/', 'https://other.test/', 'https://other.test/'), ('a', 'a', 'a')):
            self.assertEqual(self.get('/redirect?' + to)[1]['Location'], host)
            self.assertEqual(self.by_path('/redirect?' + to)[1]['Location'], path)

    # -------------------------------------------------------------- hostile programs
    def test_answers_that_are_none(self):
        for path in ('/cut-head', '/nothing', '/no-http', '/two-lengths', '/length-and-chunks', '/coding', '/bare-lf', '/fold', '/blank-colon', '/huge-head', '/many-fields',
                     '/unasked-101', '/endless-hints', '/minus', '/status', '/version', '/null', '/endless-head'):
            status, head, body = self.get(path)
            self.assertEqual((status, json.loads(body)['reason']), (502, 'preview_upstream'), path)
        for path in ('/cut-body', '/cut-chunk', '/bad-chunk', '/huge-chunk'):
            with self.assertRaises((http.client.IncompleteRead, ConnectionResetError, http.client.RemoteDisconnected), msg=path):
                self.get(path)

    def test_endless_answers_cost_nothing(self):
        def resident():
            with open('/proc/%d/statm' % self.s.pid()) as f:
                return int(f.read().split()[1]) * 4096
        before = resident()
        held = []
        for _ in range(8):
            c = self.s.socket()
            c.sendall(('GET /endless HTTP/1.1\r\nHost: %s\r\nX-Cay-Token: %s\r\n\r\n' % (self.host, self.token)).encode())
            held.append(c)
        time.sleep(0.5)
        self.assertEqual(self.get('/hello')[0], 200)
        grown = resident() - before
        for c in held:
            c.close()
        if not os.environ.get('ASAN_OPTIONS') and grown > 32 << 20:
            self.fail('%d bytes for 8 endless answers' % grown)

    def test_who_listens_on_ipv6_alone_is_reached(self):
        for port, address in (('8006', "('::1', 8006, 0, 0)"), ('8007', "('::', 8007, 0, 0)")):
            only = int(port == '8006')
            self.s.cay('exec', '-d', self.box, '--', 'python3', '-c', 'import socket\ns = socket.socket(socket.AF_INET6)\ns.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, %d)\n'
                       's.bind(%s)\ns.listen()\nwhile True:\n c = s.accept()[0]\n c.recv(999)\n c.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 3\\r\\n\\r\\nsix")\n c.close()' % (only, address))
            for _ in range(400):
                if port in self.s.cay('port', 'ls', '-q', self.box).split():
                    break
                time.sleep(0.05)
            token = self.s.cay('port', 'expose', self.box, port).strip()
            status, _, body = self.get('/', host='%s-%s.localhost:%d' % (port, self.box, self.s.port), token=token)
            self.assertEqual((status, body), (200, b'six'))
        token = self.s.cay('port', 'expose', self.box, '8008').strip()
        self.assertEqual(self.get('/', host='8008-%s.localhost:%d' % (self.box, self.s.port), token=token)[0], 502)

    def test_a_silent_program_holds_nobody_up(self):
        held = []
        for _ in range(100):
            c = self.s.socket()
            c.sendall(('GET /silent HTTP/1.1\r\nHost: %s\r\nX-Cay-Token: %s\r\n\r\n' % (self.host, self.token)).encode())
            held.append(c)

        def silent():  # what the program says of itself
            status, _, body = self.get('/count')
            return int(body) if status == 200 else -1
        end = time.monotonic() + 60
        while silent() < 100 and time.monotonic() < end:
            time.sleep(0.1)
        self.assertGreaterEqual(silent(), 100)  # they are there, and whoever comes now is answered all the same
        for c in held[::2]:  # and those who say more while they wait burn nothing
            c.sendall(b'GET /hello HTTP/1.1\r\n')
        self.assertEqual(self.get('/hello')[0], 200)
        self.assertEqual(self.s.ask('GET', '/health')[0], 200)
        spent = self.cpu()
        time.sleep(0.5)
        self.assertLess(self.cpu() - spent, 0.25)
        for c in held:
            c.close()
        end = time.monotonic() + 60
        while silent() > 0 and time.monotonic() < end:  # the program learns that they left
            time.sleep(0.1)
        self.assertEqual(silent(), 0)

    def cpu(self):
        with open('/proc/%d/stat' % self.s.pid()) as f:
            return sum(map(int, f.read().rsplit(')', 1)[1].split()[11:13])) / os.sysconf('SC_CLK_TCK')

    def test_pages_are_separate(self):
        _, head, _ = self.get('/script')
        self.assertEqual(head.get_all('Set-Cookie'), ['a=b; Path=/'])
        for name in ('Clear-Site-Data', 'Strict-Transport-Security'):
            self.assertNotIn(name, head)
        status, head, _ = self.by_path('/script')
        self.assertEqual(status, 200)
        self.assertRegex(head['Content-Security-Policy'] or 'none', '^sandbox ')
        self.assertNotIn('allow-same-origin', head['Content-Security-Policy'])
        for name in ('Set-Cookie', 'Service-Worker-Allowed', 'Clear-Site-Data', 'Strict-Transport-Security'):
            self.assertNotIn(name, head)

    def test_by_path_no_cookie_passes_and_no_code_is_lent(self):
        self.assertEqual(self.by_path('/hello')[2], b'hello\n')
        status, _, body = self.by_path('/seen', {'Cookie': 'console=secret'})
        self.assertNotIn('secret', body.decode())
        self.assertEqual(self.by_path('/hello', {'Cookie': '%s=%s' % (self.cookie(), self.token)}, token=None)[0], 401)
        for how in ({'Sec-Fetch-Dest': 'serviceworker'}, {'Service-Worker': 'script'}, {'Sec-Fetch-Site': 'same-origin', 'Sec-Fetch-Dest': 'script'}):
            self.assertEqual(self.by_path('/script', how)[0], 403, how)
        status, head, _ = self.by_path('?x=1')
        self.assertEqual((status, head['Location']), (308, self.path + '/?x=1'))
        self.assertEqual(self.get('/preview/..%2f..%2fapi/8000/', host='localhost')[0], 404)

    def test_what_is_shown_instead(self):
        status, head, body = self.get('/', {'Accept': 'text/html'}, host='8009-%s.localhost' % self.box, token=None)
        self.assertEqual((status, head['Content-Type']), (401, 'text/html; charset=utf-8'))
        self.assertIn(b'This preview is private', body)
        self.assertIn("default-src 'none'", head['Content-Security-Policy'])
        status, _, body = self.get('/', {'Accept': 'text/html', 'X-API-Key': self.s.key}, host='8009-%s.localhost' % self.box, token=None)
        self.assertEqual(status, 502)
        self.assertIn(b'Nothing is listening here yet', body)
        box = self.s.cay('create').strip()
        self.s.cay('pause', box)
        key = {'X-API-Key': self.s.key, 'Accept': 'text/html'}
        self.assertEqual(self.get('/', key, host='80-%s.localhost' % box, token=None)[0], 503)
        self.s.cay('kill', box)
        status, _, body = self.get('/', key, host='80-%s.localhost' % box, token=None)
        self.assertEqual((status, b'The sandbox is stopped' in body), (503, True))
        self.s.cay('rm', '-f', box)
        self.assertEqual(self.get('/', key, host='80-%s.localhost' % box, token=None)[0], 404)

    # -------------------------------------------------------------- WebSockets
    def ws_open(self, extra='', path='/ws'):
        c = self.s.socket()
        c.sendall(('GET %s HTTP/1.1\r\nHost: %s\r\nX-Cay-Token: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n'
                   'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n%s\r\n' % (path, self.host, self.token, extra)).encode())
        return c

    @staticmethod
    def read_exactly(c, n):
        data = b''
        while len(data) < n:
            piece = c.recv(min(n - len(data), 1 << 20))
            if not piece:
                break
            data += piece
        return data

    def read_head(self, c):
        head = b''
        while not head.endswith(b'\r\n\r\n'):
            piece = c.recv(1)
            if not piece:
                break
            head += piece
        return head

    def test_a_websocket_passes_both_ways(self):
        with self.ws_open() as c:
            head = self.read_head(c)
            self.assertIn(b'101', head)
            self.assertIn(b's3pPLMBiTxaQ9kYGzzhZRbK+xOo=', head)
            for n in (5, 200, 70000):
                data = pattern(n)
                size = bytes([0x80 | n]) if n < 126 else b'\xfe' + n.to_bytes(2, 'big') if n < 65536 else b'\xff' + n.to_bytes(8, 'big')
                c.sendall(b'\x82' + size + bytes(4) + data)
                back = 2 + (0 if n < 126 else 2 if n < 65536 else 8) + n
                self.assertEqual(self.read_exactly(c, back)[-n:], data)
            c.sendall(b'\x88\x80' + bytes(4))
            self.assertEqual(self.read_exactly(c, 2), b'\x88\x00')
            self.assertEqual(c.recv(10), b'')

    def test_a_websocket_needs_the_token_too(self):
        with self.s.socket() as c:
            c.sendall(('GET /ws HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n' % self.host).encode())
            self.assertIn(b'401', self.read_head(c))
        with self.s.socket() as c:
            c.sendall(('GET /ws HTTP/1.1\r\nHost: %s\r\nCookie: %s=%s\r\nOrigin: http://evil.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n'
                       % (self.host, self.cookie(), self.token)).encode())
            self.assertIn(b'403', self.read_head(c))

    def test_other_upgrades_do_not_pass(self):
        data = self.s.raw(('GET /ws HTTP/1.1\r\nHost: %s\r\nX-Cay-Token: %s\r\nConnection: Upgrade, close\r\nUpgrade: h2c\r\n\r\n' % (self.host, self.token)).encode())
        self.assertIn(b'426', data.split(b'\r\n')[0])

    def test_what_is_said_too_early_behind_a_refused_upgrade_is_another_request(self):
        with self.ws_open(path='/hello') as c:
            self.assertIn(b'200', self.read_head(c))
            self.assertEqual(self.read_exactly(c, 6), b'hello\n')

    def test_a_slow_reader_of_a_websocket_is_waited_for(self):
        n, total = 60000, 3000
        frame = b'\x82\xfe' + n.to_bytes(2, 'big') + bytes(4) + bytes(n)
        with self.ws_open() as c:
            self.assertIn(b'101', self.read_head(c))
            c.settimeout(1)
            sent = 0
            try:  # it echoes; nobody reads; so at last it cannot be sent any more
                while sent < total:
                    c.sendall(frame)
                    sent += 1
            except socket.timeout:
                pass
            self.assertLess(sent, total)
            c.settimeout(20)
            self.assertEqual(len(self.read_exactly(c, (sent - 1) * (n + 4))), (sent - 1) * (n + 4))


if __name__ == '__main__':
    unittest.main()
