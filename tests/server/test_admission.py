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
