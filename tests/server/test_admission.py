# SPDX-License-Identifier: Apache-2.0
"""Every operation of every dialect refuses a request without a credential, and one with the credential of another sandbox, before its handler runs.

The server under test is cay-server-walk: its handlers only say that they were reached (X-Reached)."""
import hashlib
import hmac
import os
import re
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve import Server  # noqa: E402

BUILD = os.path.abspath(sys.argv.pop(1))
PORTS = {'e2b-envd': '49983', 'e2b-code': '49999'}
HASH = '0' * 64


class Admission(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Server(BUILD, program='tests/server/cay-server-walk').__enter__()
        cls.box, cls.other = (cls.s.cay('create', '--name', n).split()[0] for n in ('one', 'two'))
        cls.narrow = cls.s.make_key('--scope', 'sandbox', '--sandbox', cls.other)
        cls.s.cay('tenant', 'create', 'guest')
        cls.guest = cls.s.make_key('--scope', 'tenant', '--tenant', 'guest')
        cls.tenant = cls.s.make_key('--scope', 'tenant')
        cls.routes = cls.s.json('GET', '/routes', key=None)[2]

    @classmethod
    def tearDownClass(cls):
        cls.s.__exit__()

    def token(self, kind, what):
        path = os.path.join(self.s.home, 'e2b.secret')
        if not os.path.exists(path):
            self.s.ask('GET', '/metrics', headers=self.envd(self.box, 'x'), key=None)
        with open(path, 'rb') as f:
            return hmac.new(f.read(), ('cay e2b 1 %s %s' % (kind, what)).encode(), hashlib.sha256).hexdigest()

    def envd(self, box, token=None, port='49983'):
        head = {'E2b-Sandbox-Id': box, 'E2b-Sandbox-Port': port}
        return dict(head, **{'X-Access-Token': token}) if token else head

    def ask(self, row, key=None, head=None, query=''):
        base = row['base'] if row['dialect'] not in PORTS else ''
        path = row['path'].replace('{id}', 'vol' if '/volumecontent/' in row['path'] else self.box).replace('{hash}', HASH).replace('{tenant}', 'default')
        path = base + re.sub(r'\{[a-z]+\*?\}', '8000', path) + query
        fields = dict(self.envd(self.box, port=PORTS[row['dialect']]) if row['dialect'] in PORTS else {}, **(head or {}))
        method = 'GET' if row['method'] == '*' else row['method']
        body = '{}' if method in ('POST', 'PUT', 'PATCH') else None
        if body:
            fields['Content-Type'] = 'application/json'
        status, answer, _ = self.s.ask(method, path, body, fields, key=key)
        return status, answer.get('X-Reached')

    def guarded(self):
        return [r for r in self.routes if not r['open']]

    def test_without_a_credential_no_handler_is_reached(self):
        for row in self.guarded():
            status, reached = self.ask(row)
            self.assertEqual((status, reached), (401, None), row)
        self.assertGreater(len(self.guarded()), 250)

    def test_another_sandboxs_key_reaches_no_handler(self):
        for row in self.guarded():
            status, reached = self.ask(row, key=self.narrow)
            self.assertIn(status, (401, 403), row)
            self.assertIsNone(reached, row)

    def test_another_sandboxs_token_reaches_no_handler(self):
        rows = [r for r in self.guarded() if r['token']]
        self.assertEqual(len(rows), 35)
        late = int(time.time()) + 100
        for row in rows:
            wrong = {'X-Access-Token': self.token('envd', self.other), 'E2b-Traffic-Access-Token': self.token('traffic', self.other),
                     'Authorization': 'Bearer ' + self.token('volume', 'other')}
            status, reached = self.ask(row, head=wrong, query='?path=/x&until=%d&token=%s' % (late, self.token('upload', 'x')))
            self.assertEqual((status, reached), (401, None), row)

    def of_box(self, scope, *more):
        return self.s.make_key('--scope', scope, '--sandbox', self.box, *more)

    def test_what_is_no_key_of_the_api_reaches_no_handler(self):
        link = self.s.cay('open', '--print', '--url', self.s.url).strip().rsplit('=', 1)[1]
        gone = self.s.make_key('--scope', 'admin')
        self.s.ask('DELETE', '/api/v1/keys/' + gone[4:12])
        self.s.cay('key', 'revoke', gone[4:12])
        port = self.of_box('port', '--port', '8000')
        time.sleep(1.2)  # a key that another program revoked is believed for a second
        for key in (link, gone, port, 'cays_' + link[4:], 'cayp_' + link[4:], self.s.key + '0', self.s.key.upper()):
            for row in self.guarded():
                status, reached = self.ask(row, key=key)
                self.assertEqual((status in (401, 403), reached), (True, None), (row, key[:14]))

    def test_a_key_of_one_sandbox_reaches_what_says_so(self):
        key = self.of_box('sandbox')
        for row in self.guarded():
            _, reached = self.ask(row, key=key)
            self.assertEqual(reached is not None, row['box'], row)
            self.assertTrue(not row['box'] or row['path'].startswith('/sandboxes/{id}'), row)

    def test_a_key_of_files_reaches_what_is_below(self):
        key = self.of_box('file', '--path', '/workspace/data')
        for row in self.guarded():
            self.assertTrue(row['box'] or not row['file'], row)
            for query, good in (('?path=/workspace/data', True), ('?path=/workspace/data/x', True), ('', False), ('?path=/workspace/database', False), ('?path=/workspace', False),
                                ('?path=/workspace/data/../x', False), ('?path=/workspace/data/%2e%2e', False), ('?path=/x&path=/workspace/data', False),
                                ('?p%61th=/x&path=/workspace/data', False), ('?path=/workspace/data&user=root', False), ('?path=/workspace/data&us%65r=', False)):
                _, reached = self.ask(row, key=key, query=query)
                self.assertEqual(reached is not None, row['file'] and good, (row, query))

    def test_a_tenant_reaches_neither_the_operators_nor_the_services(self):
        n = 0
        for row in self.guarded():
            if not row['token']:
                n += row['admin'] + row['shared']
                self.assertEqual(self.ask(row, key=self.tenant)[1] is None, row['admin'], row)
                # What names a sandbox finds it before the handler, and there is none of another tenant.
                status, reached = self.ask(row, key=self.guest)
                self.assertEqual(reached is None, row['admin'] or row['shared'] or row['find'], row)
                self.assertEqual(status == 404, row['find'] and not row['admin'] and not row['shared'], (row, status))
        self.assertGreater(n, 25)

    def test_other_spellings_reach_no_handler(self):
        def spelled(path):
            yield '/' + path
            yield path.replace('/', '//', 2)
            yield path + '/'
            yield path + '%00'
            yield '/.' + path
            yield '/health/..' + path
            yield '/health%2f..' + path
            yield '/%2e%2e' + path
            yield path.replace('/', '%2f')
            yield '/%' + '%02x' % ord(path[1]) + path[2:]
            yield path.upper()
        for row in self.guarded():
            base = row['base'] if row['dialect'] not in PORTS else ''
            path = base + re.sub(r'\{[a-z]+\*?\}', '8000', row['path'].replace('{id}', self.box))
            head = self.envd(self.box, port=PORTS[row['dialect']]) if row['dialect'] in PORTS else {}
            for method in {row['method'].replace('*', 'GET'), 'GET', 'HEAD', 'OPTIONS', 'POST', 'DELETE', 'BREW'}:
                for other in ([path] if method != row['method'] else [path, *spelled(path)]):
                    status, answer, _ = self.s.ask(method, other, None, dict(head, **{'X-HTTP-Method-Override': row['method']}), key=None)
                    reached = answer.get('X-Reached')
                    self.assertTrue(reached is None or self.is_open(method, other, reached), (method, other, reached))

    def is_open(self, method, path, dialect):
        """Is there an open row of that dialect that this is?"""
        for row in self.routes:
            form = re.sub(r'\\\{[a-z]+\\\*?\\\}', '[^/]+', re.escape((row['base'] if row['dialect'] not in PORTS else '') + row['path']))
            if row['open'] and row['dialect'] == dialect and row['method'] in (method.replace('HEAD', 'GET'), '*') and re.fullmatch(form, path):
                return True
        return False

    def test_a_request_is_judged_by_the_protocol_that_answers_it(self):
        """Host and headers that lead to another protocol bring its rules, not its rights."""
        where = [{'E2b-Sandbox-Id': self.box, 'E2b-Sandbox-Port': p} for p in ('49983', '49999', '8000')]
        where += [{'Host': '%s-%s.localhost:%d' % (p, self.box, self.s.port)} for p in ('49983', '49999')]
        own = {r['path'] for r in self.routes if r['dialect'] in PORTS}
        for row in self.guarded():
            path = row['base'] + re.sub(r'\{[a-z]+\*?\}', '8000', row['path'].replace('{id}', self.box))
            for head in where:
                for key in (None, self.narrow, self.guest):
                    status, answer, _ = self.s.ask(row['method'].replace('*', 'GET'), path, None, head, key=key)
                    reached = answer.get('X-Reached')
                    if key != self.guest or reached in PORTS or row['admin'] or row['shared']:
                        self.assertTrue(reached is None or self.is_open(row['method'], path, reached), (row, head, reached))
        self.assertIn('/files', own)

    def test_the_right_credential_does(self):
        late = int(time.time()) + 100
        upload = self.token('upload', 'archive.default.%s %d' % (HASH, late))
        for row in self.guarded():
            if row['token']:
                right = {'X-Access-Token': self.token('envd', self.box), 'Authorization': 'Bearer ' + self.token('volume', 'vol')}
                status, reached = self.ask(row, head=right, query='?path=/x&until=%d&token=%s' % (late, upload))
            else:
                status, reached = self.ask(row, key=self.s.key)
            self.assertEqual((status, reached), (200, row['dialect']), row)
        for row in self.routes:
            if row['open']:
                self.assertEqual(self.ask(row), (200, row['dialect']), row)


if __name__ == '__main__':
    unittest.main()
