# SPDX-License-Identifier: Apache-2.0
"""The HTTP core: what is refused, what is kept apart, and what is survived."""
import json
import os
import sys
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
        self.assertEqual(body['id'], head['X-Request-Id'])

    def test_a_wrong_method_tells_the_right_ones(self):
        status, head, body = self.s.json('POST', '/health', {})
        self.assertEqual((status, head['Allow'], body['reason']), (405, 'GET', 'method_not_allowed'))

    def test_head_has_no_body(self):
        status, head, body = self.s.ask('HEAD', '/health')
        self.assertEqual((status, head['Content-Length'], body), (200, '16', b''))

    def test_requests_in_one_packet_are_answered_in_order(self):
        self.assertEqual(statuses(self.s.raw(OK + OK + b'GET /no HTTP/1.1\r\nHost: localhost\r\n\r\n' + LAST)), [200, 200, 404, 200])

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
        import socket
        c = socket.socket(socket.AF_UNIX)
        c.settimeout(20)
        c.connect(self.s.unix)
        c.sendall(LAST)
        self.assertEqual(int(c.recv(4096).split()[1]), 200)
        c.close()
        self.assertEqual(os.stat(self.s.unix).st_mode & 0o777, 0o600)


class Life(unittest.TestCase):
    def test_an_idle_connection_does_not_hold_the_end_up(self):
        with Server(BUILD) as s:
            c = s.connection()
            self.assertEqual(s.ask('GET', '/health', conn=c)[0], 200)
            self.assertEqual(s.stop(), 0)
            self.assertFalse(os.path.exists(s.unix))
            c.close()

    def test_an_address_beyond_this_machine_needs_more(self):
        import subprocess
        with Server(BUILD) as s:
            r = subprocess.run([os.path.join(BUILD, 'cay-server'), '--home', s.home, '--listen', '0.0.0.0:0'], capture_output=True, text=True, timeout=20)
            self.assertEqual(r.returncode, 1)
            self.assertIn('--tls', r.stderr)


if __name__ == '__main__':
    unittest.main(verbosity=1)
