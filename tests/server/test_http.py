# SPDX-License-Identifier: Apache-2.0
"""The HTTP core: what is refused, what is kept apart, and what is survived."""
import json
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve import Server  # noqa: E402

BUILD = sys.argv.pop(1)
OK = b'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'
LAST = b'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'


def statuses(data):
    """The status of every answer in what came back."""
    found = []
    while data:
        head, _, rest = data.partition(b'\r\n\r\n')
        found.append(int(head.split()[1]))
        fields = {k.lower(): v for k, v in (line.split(b': ', 1) for line in head.split(b'\r\n')[1:])}
        data = rest[int(fields.get(b'content-length', 0)):]
    return found


class Http(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Server(BUILD).__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.s.__exit__()

    def tearDown(self):  # whatever was sent, the next client is served
        self.assertEqual(self.s.ask('GET', '/health')[0], 200)

    def test_health_is_open_and_tells_its_id(self):
        status, head, body = self.s.ask('GET', '/health', key=None)
        self.assertEqual((status, json.loads(body)), (200, {'status': 'ok'}))
        self.assertRegex(head['X-Request-Id'], '^r[a-z2-7]{19}$')

    def test_errors_are_problem_documents(self):
        status, head, body = self.s.json('GET', '/nothing/here')
        self.assertEqual((status, head['Content-Type'], body['reason']), (404, 'application/problem+json', 'no_such_route'))
        self.assertEqual(body['request'], head['X-Request-Id'])

    def test_a_wrong_method_tells_the_right_ones(self):
        status, head, body = self.s.json('POST', '/health', {})
        self.assertEqual((status, head['Allow'], body['reason']), (405, 'GET', 'method_not_allowed'))

    def test_head_has_no_body(self):
        status, head, body = self.s.ask('HEAD', '/health')
        self.assertEqual((status, head['Content-Length'], body), (200, '16', b''))

    def test_requests_in_one_packet_are_answered_in_order(self):
        self.assertEqual(statuses(self.s.raw(OK + OK + b'GET /no HTTP/1.1\r\nHost: localhost\r\n\r\n' + LAST)), [200, 200, 404, 200])

    def test_requests_without_end_are_all_answered(self):
        """A part of the next one is behind each piece that is read, whatever is its size."""
        body = b'POST /no HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello'  # answered on the lane as well, once its body is there
        for one, n in ((OK[:-2] + b'X-Filler: ' + b'x' * 97 + b'\r\n\r\n', 5000), (body, 3000)):
            with self.s.socket() as c:
                told = threading.Thread(target=c.sendall, args=(one * n + LAST,))
                told.start()
                got, piece = [], True
                while piece:
                    piece = c.recv(65536)
                    got.append(piece)
                told.join()
            self.assertEqual(len(statuses(b''.join(got))), n + 1)

    def test_a_head_may_come_byte_by_byte(self):
        with self.s.socket() as c:
            for i in range(len(LAST)):
                c.sendall(LAST[i:i + 1])
            self.assertEqual(int(c.recv(4096).split()[1]), 200)

    def test_a_body_that_nobody_reads_is_not_the_next_request(self):
        inner = b'GET /inner HTTP/1.1\r\nHost: localhost\r\n\r\n'
        for framing in (b'Content-Length: %d\r\n\r\n' % len(inner) + inner, b'Transfer-Encoding: chunked\r\n\r\n%x\r\n' % len(inner) + inner + b'\r\n0\r\n\r\n'):
            got = statuses(self.s.raw(b'POST /health HTTP/1.1\r\nHost: localhost\r\n' + framing + LAST))
            self.assertEqual(got, [405, 200])

    def test_smuggling_shapes_are_refused_and_end_the_connection(self):
        tail = b'\r\n\r\n0\r\n\r\n' + OK
        for head in (b'Content-Length: 4\r\nTransfer-Encoding: chunked', b'Content-Length: 4\r\nContent-Length: 4', b'Content-Length: 4, 4', b'Content-Length: +4',
                     b'Content-Length: 0x4', b'Content-Length: 99999999999999999999', b'Transfer-Encoding: xchunked', b'Transfer-Encoding: chunked, chunked',
                     b'Transfer-Encoding: identity', b'Transfer-Encoding : chunked', b'Transfer-Encoding:\x0bchunked', b' Transfer-Encoding: chunked',
                     b'X: a\r\n folded', b'X\x00Y: a', b'X: a\rTransfer-Encoding: chunked', b'X: a\nTransfer-Encoding: chunked', b'Host: 127.0.0.1', b'X: \x00', b': empty'):
            with self.subTest(head=head):
                got = statuses(self.s.raw(b'POST /health HTTP/1.1\r\nHost: localhost\r\n' + head + tail))
                self.assertEqual(len(got), 1)
                self.assertIn(got[0], (400, 501))

    def test_first_lines_that_are_none(self):
        for line, want in ((b'GET  /health HTTP/1.1', 400), (b'GET /health', 400), (b'GET health HTTP/1.1', 400), (b'GET http://a/health HTTP/1.1', 400), (b'G\x00T / HTTP/1.1', 400),
                           (b'GET /\xc3\xa9 HTTP/1.1', 400), (b'GET / HTTP/2.0', 505), (b'GET / HTTP/1.2', 505), (b'GET / HTTP/1.1 ', 400), (b'\r\nGET / HTTP/1.1', 400),
                           (b'A' * 64 + b' / HTTP/1.1', 400), (b'GET /a#b HTTP/1.1', 400), (b'CONNECT a:1 HTTP/1.1', 400)):
            with self.subTest(line=line):
                self.assertEqual(statuses(self.s.raw(line + b'\r\nHost: localhost\r\n\r\n')), [want])
        self.assertEqual(statuses(self.s.raw(b'GET /health HTTP/1.1\r\n\r\n')), [400])
        self.assertEqual(statuses(self.s.raw(b'GET /health HTTP/1.1\nHost: a\n\n')), [400])

    def test_old_clients_are_answered(self):
        self.assertEqual(statuses(self.s.raw(b'GET /health HTTP/1.0\r\n\r\n')), [200])

    def test_path_tricks(self):
        for path, want in ((b'/../health', 404), (b'/./health', 404), (b'//health', 404), (b'/health/', 404), (b'/%68ealth', 404), (b'/health%00', 404), (b'/health;x', 404), (b'/health?x', 200)):
            with self.subTest(path=path):
                self.assertEqual(statuses(self.s.raw(b'GET ' + path + b' HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')), [want])

    def test_huge_heads(self):
        for head in (b'X: ' + b'a' * 65536, b'\r\n'.join(b'X%d: a' % i for i in range(200)), b'\r\n'.join(b'X: a' for _ in range(100000))):
            self.assertEqual(statuses(self.s.raw(b'GET /health HTTP/1.1\r\nHost: localhost\r\n' + head + b'\r\n\r\n')), [431])

    def test_a_huge_body_is_answered_before_it_is_sent(self):
        got = self.s.raw(b'POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10737418240\r\n\r\n' + b'x' * 100000)
        self.assertEqual(statuses(got), [405])

    def test_expect_is_not_promised_where_nothing_is_read(self):
        got = self.s.raw(b'POST /health HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n')
        self.assertEqual(statuses(got), [405])

    def test_a_host_that_is_not_ours_is_refused(self):
        self.assertEqual(statuses(self.s.raw(b'GET /health HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n')), [421])

    def test_unix_socket(self):
        c = socket.socket(socket.AF_UNIX)
        c.settimeout(20)
        c.connect(self.s.unix)
        c.sendall(LAST)
        self.assertEqual(int(c.recv(4096).split()[1]), 200)
        c.close()
        self.assertEqual(os.stat(self.s.unix).st_mode & 0o777, 0o600)


class Slow(unittest.TestCase):
    """With limits that a test can wait for."""
    def test_slow_heads_and_bodies_end(self):
        with Server(BUILD, '--head-ms', '1500', '--body-ms', '1500') as s:
            key = 'Authorization: Bearer %s\r\n' % s.key
            begin = time.monotonic()
            head, body = s.socket(), s.socket()
            raw = s.socket()
            body.sendall(('POST /api/v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n%sContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{' % key).encode())
            raw.sendall(('GET /health HTTP/1.1\r\nHost: localhost\r\n').encode())
            ended = {}
            while len(ended) < 3 and time.monotonic() - begin < 30:
                for name, c in (('head', head), ('body', body), ('raw', raw)):
                    if name in ended:
                        continue
                    try:
                        if name == 'head':
                            c.sendall(b'G')
                        c.settimeout(0.1)
                        if not c.recv(1000):
                            ended[name] = time.monotonic() - begin
                    except TimeoutError:
                        pass
                    except OSError:
                        ended[name] = time.monotonic() - begin
            for c in (head, body, raw):
                c.close()
            self.assertEqual(len(ended), 3, ended)
            self.assertGreater(min(ended.values()), 1.0)
            self.assertEqual(s.ask('GET', '/health')[0], 200)

    def test_many_slow_ones_do_not_hold_up_others(self):
        with Server(BUILD) as s:
            slow = []
            for _ in range(500):
                c = s.socket()
                c.sendall(b'GET /health HTTP/1.1\r\nX')
                slow.append(c)
            times = []
            c = s.connection()
            for i in range(200):
                slow[i].sendall(b'x')
                t = time.monotonic()
                self.assertEqual(s.ask('GET', '/health', conn=c)[0], 200)
                times.append(time.monotonic() - t)
            c.close()
            for c in slow:
                c.close()
            self.assertLess(sorted(times)[190], 1.0)  # a slow one would cost 15 s

    def test_too_many_connections_are_told_so(self):
        with Server(BUILD, '--connections', '4') as s:
            held = [s.socket() for _ in range(4)]
            for c in held:
                c.sendall(OK)
                self.assertIn(b' 200 ', c.recv(1000))
            got = s.raw(b'')
            self.assertEqual(got.split()[1], b'503')
            self.assertIn(b'Retry-After', got)
            for c in held:
                c.close()


class Life(unittest.TestCase):
    def test_a_restart_refuses_nobody(self):
        with socket.socket() as door:
            door.bind(('127.0.0.1', 0))
            door.listen(100)
            door.set_inheritable(True)
            port = door.getsockname()[1]
            ask = lambda: socket.create_connection(('127.0.0.1', port), 20)  # noqa: E731
            with Server(BUILD, '--listen', 'fd:%d' % door.fileno(), pass_fds=(door.fileno(),)) as s:
                for _ in range(3):
                    with ask() as c:
                        c.sendall(LAST)
                        self.assertIn(b' 200 ', c.recv(1000))
                    self.assertEqual(s.stop(), 0)
                    c = ask()  # nobody is there, and it waits
                    c.sendall(LAST)
                    s.start()
                    self.assertIn(b' 200 ', c.recv(1000))
                    c.close()

    def test_one_that_begins_anew_refuses_nobody(self):
        with Server(BUILD) as s:
            box = s.json('POST', '/api/v1/sandboxes', {})[2]['id']
            over, bad, count = threading.Event(), [], [0, 0]

            def ask(i):
                while not over.is_set():
                    try:
                        if i:
                            c = socket.create_connection(('127.0.0.1', s.port), 60)
                        else:
                            c = socket.socket(socket.AF_UNIX)
                            c.settimeout(60)
                            c.connect(s.unix)
                        with c:
                            c.sendall(LAST)
                            got = b''
                            while piece := c.recv(1000):
                                got += piece
                        if b' 200 ' not in got:
                            bad.append(got)
                        count[i] += 1
                    except OSError as e:
                        bad.append(e)

            threads = [threading.Thread(target=ask, args=(i,)) for i in (0, 1)]
            for t in threads:
                t.start()
            pid = s.proc.pid
            for _ in range(3):
                # What is being answered is answered first.
                c = s.connection()
                c.request('POST', '/api/v1/sandboxes/%s/run' % box, json.dumps({'shell': 'sleep 0.4; echo done'}),
                          {'Authorization': 'Bearer ' + s.key, 'Content-Type': 'application/json'})
                time.sleep(0.1)
                before = list(count)
                s.proc.send_signal(signal.SIGUSR2)
                self.assertEqual(json.loads(c.getresponse().read())['stdout'], 'done\n')
                c.close()
                said = [s.proc.stdout.readline() for _ in range(2)]  # the next one tells where it is: at the same places
                self.assertEqual(said, ['listening on %s\n' % s.url, 'listening on unix:%s\n' % s.unix])
                end = time.monotonic() + 60
                while not all(n > b for n, b in zip(count, before)) and time.monotonic() < end:
                    time.sleep(0.02)
            over.set()
            for t in threads:
                t.join(60)
            self.assertEqual((bad[:3], s.proc.poll(), s.proc.pid), ([], None, pid))
            self.assertEqual(s.json('GET', '/api/v1/sandboxes/' + box)[2]['state'], 'running')
            self.assertEqual(s.stop(), 0)
            self.assertFalse(os.path.exists(s.unix))

    def test_signals_while_it_begins_anew(self):
        with Server(BUILD, '--log', '-') as s:
            def look():
                """(how many filters of system calls it has, how often standard error is open)"""
                fds = '/proc/%d/fd/' % s.pid()
                with open('/proc/%d/status' % s.pid()) as f:
                    told = dict(line.rstrip('\n').split(':\t', 1) for line in f if ':\t' in line)
                where = os.readlink(fds + '2')
                return told.get('Seccomp_filters'), sum(os.readlink(fds + n) == where for n in os.listdir(fds) if os.path.lexists(fds + n))

            before = look()
            with s.socket() as idle:
                s.proc.send_signal(signal.SIGUSR2)
                self.assertEqual(idle.recv(1), b'')  # it is at it
                s.proc.send_signal(signal.SIGHUP)
                s.proc.send_signal(signal.SIGUSR2)
            for _ in range(4):  # and once more
                self.assertTrue(s.proc.stdout.readline().startswith('listening on '))
            self.assertEqual(s.ask('GET', '/health')[0], 200)
            self.assertEqual(look(), before)
            self.assertEqual(s.stop(), 0)

    def test_the_log_tells_every_request(self):
        with tempfile.TemporaryDirectory() as d:
            path = os.path.join(d, 'log')
            with Server(BUILD, '--log', path) as s:
                rid = s.ask('GET', '/health?token=secret')[1]['X-Request-Id']
                os.rename(path, path + '.1')
                s.proc.send_signal(signal.SIGHUP)
                for _ in range(200):  # the file is there a moment before the server writes to it
                    again = s.ask('GET', '/nothing')[1]['X-Request-Id']
                    if os.path.exists(path) and os.path.getsize(path):
                        break
                    time.sleep(0.05)
                s.stop()
                with open(path + '.1') as f:
                    line = next(x for x in map(json.loads, f) if x['id'] == rid)
                self.assertEqual((line['status'], line['path'], line['method']), (200, '/health', 'GET'))
                with open(path) as f:
                    self.assertEqual([x['id'] for x in map(json.loads, f)][-1], again)

    def test_tls_and_another_certificate(self):
        with tempfile.TemporaryDirectory() as d:
            cert, key = os.path.join(d, 'cert.pem'), os.path.join(d, 'key.pem')

            def make(name):
                subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', key, '-out', cert, '-days', '2', '-subj', '/CN=' + name,
                                '-addext', 'subjectAltName=DNS:' + name], check=True, capture_output=True)

            def ask(name, data=LAST):
                ctx = ssl.create_default_context(cafile=cert)
                with socket.create_connection(('127.0.0.1', s.port), 20) as plain, ctx.wrap_socket(plain, server_hostname=name) as c:
                    c.sendall(data)
                    out = b''
                    while True:
                        piece = c.recv(65536)
                        if not piece:
                            return out
                        out += piece
            make('localhost')
            with open(os.path.join(d, 'said'), 'w') as said, Server(BUILD, '--tls', cert + ',' + key, program='tests/server/cay-server-echo', stderr=said) as s:
                self.assertTrue(s.url.startswith('https://'))
                self.assertEqual(statuses(ask('localhost')), [200])
                self.assertEqual(statuses(ask('localhost', OK + OK + LAST)), [200, 200, 200])
                many = (OK[:-2] + b'X-Filler: ' + b'x' * 97 + b'\r\n\r\n') * 3000
                ctx = ssl.create_default_context(cafile=cert)
                with socket.create_connection(('127.0.0.1', s.port), 20) as plain, ctx.wrap_socket(plain, server_hostname='localhost') as c:
                    got = b''
                    for at in range(0, len(many), 10000):  # a part of a request at the end of each piece
                        c.sendall(many[at:at + 10000])
                        while got.count(b'HTTP/1.1 200') < min(at + 10000, len(many)) // (len(many) // 3000):
                            got += c.recv(65536)
                data = os.urandom(3000000)
                back = ask('localhost', ('POST /t/raw HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n' % (s.key, len(data))).encode() + data)
                self.assertTrue(back.endswith(data))
                self.assertEqual(s.raw(LAST)[:8].find(b'HTTP'), -1)
                make('other.localhost')
                s.proc.send_signal(signal.SIGHUP)
                for _ in range(100):
                    try:
                        self.assertEqual(statuses(ask('other.localhost')), [200])
                        break
                    except ssl.SSLError:
                        time.sleep(0.05)
                else:
                    self.fail('the certificate stayed')
                held = socket.create_connection(('127.0.0.1', s.port), 20)
                with ssl.create_default_context(cafile=cert).wrap_socket(held, server_hostname='other.localhost') as open_one:
                    os.rename(cert, cert + '.good')
                    for text, why in ((None, 'cert.pem: No such file or directory'), ('rubbish', 'cert.pem: no start line')):  # the old one serves on, new connections and open ones
                        if text:
                            with open(cert, 'w') as f:
                                f.write(text)
                        s.proc.send_signal(signal.SIGHUP)
                        end = time.time() + 20
                        while why not in pathlib.Path(said.name).read_text():
                            self.assertLess(time.time(), end, 'the bad certificate was not told')
                            time.sleep(0.02)
                        ctx = ssl.create_default_context(cafile=cert + '.good')
                        with socket.create_connection(('127.0.0.1', s.port), 20) as plain, ctx.wrap_socket(plain, server_hostname='other.localhost') as c:
                            c.sendall(LAST)
                            self.assertEqual(statuses(c.recv(65536)), [200])
                        open_one.sendall(OK)
                        self.assertEqual(statuses(open_one.recv(65536)), [200])

    def test_an_idle_connection_does_not_hold_the_end_up(self):
        with Server(BUILD) as s:
            c = s.connection()
            self.assertEqual(s.ask('GET', '/health', conn=c)[0], 200)
            self.assertEqual(s.stop(), 0)
            self.assertFalse(os.path.exists(s.unix))
            c.close()

    def test_listeners_have_the_protocols_of_their_places(self):
        cay = [os.path.join(BUILD, 'cay'), 'serve']
        with tempfile.TemporaryDirectory() as d:
            env = dict(os.environ, CAY_LIBEXEC=os.path.abspath(BUILD), CAY_HOME=os.path.join(d, 'home'))
            two = ['--dialect', 'e2b', '--as', 'default', '--listen', 'unix:' + d + '/a', '--dialect', 'sandbox-server', '--as', 'default', '--listen', 'unix:' + d + '/b']
            for words, want in ((two, [('a', ' for e2b, without a key, as tenant default'), ('b', ' for sandbox-server, without a key, as tenant default')]),
                                (['--listen', 'unix:' + d + '/a', '--listen', 'unix:' + d + '/b', '--dialect', 'e2b'], [('a', ''), ('b', ' for e2b')])):
                with subprocess.Popen(cay + words, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True) as p:
                    try:
                        self.assertEqual([p.stdout.readline() for _ in want], ['listening on unix:%s/%s%s\n' % (d, n, more) for n, more in want])
                    finally:
                        p.terminate()
            r = subprocess.run(cay + two + ['--dialect', 'e2b'], env=env, capture_output=True, text=True, timeout=20)
            self.assertEqual((r.returncode, 'as often as --listen' in r.stderr), (2, True), r.stderr)

    def test_an_address_beyond_this_machine_needs_more(self):
        with Server(BUILD) as s:
            r = subprocess.run([os.path.join(BUILD, 'cay-server'), '--home', s.home, '--listen', '0.0.0.0:0'], capture_output=True, text=True, timeout=20)
            self.assertEqual(r.returncode, 1)
            self.assertIn('--tls', r.stderr)
            for words, said in ((['--dialect', 'sandbox-server', '--as', 'nobody'], '--as nobody: there is no such tenant'), (['--domain', '-x-'], '--domain -x-'),
                                (['--allow-origin', 'https://a.example/'], 'nothing behind it'), (['--allow-host', 'a:80'], 'without a port')):
                r = subprocess.run([os.path.join(BUILD, 'cay-server'), '--home', s.home, '--listen', '127.0.0.1:0', *words], capture_output=True, text=True, timeout=20)
                self.assertEqual((r.returncode, said in r.stderr, r.stdout), (2, True, ''), r.stderr)


if __name__ == '__main__':
    unittest.main(verbosity=1)
