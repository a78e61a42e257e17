# SPDX-License-Identifier: Apache-2.0
"""The console's door: cases S-52, S-53 and S-55 of the security specification as far as the server decides them. tests/web has the browser's part."""
import contextlib
import gzip
import json
import os
import re
import sqlite3
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve import Server  # noqa: E402

BUILD = sys.argv.pop(1)
API = '/api/v1'


class Console(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = s = Server(BUILD)
        s.args = ('--log', os.path.join(s.tmp, 'log'))
        s.__enter__()
        try:
            cls.box = s.json('POST', API + '/sandboxes', {'name': 'mine'})[2]['id']
            cls.host = '127.0.0.1:%d' % s.port
            cls.origin = 'http://' + cls.host
            cls.cookie, cls.csrf = cls.enter()
        except BaseException:
            s.__exit__()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.s.__exit__()

    @classmethod
    def token(cls):
        return re.search(r'in=(e2b_[0-9a-f]+)', cls.s.cay('open', '--print')).group(1)

    @classmethod
    def post_session(cls, body, **headers):
        return cls.s.ask('POST', '/console/session', json.dumps(body), {'Content-Type': 'application/json', 'Host': cls.host, **headers}, key=None)

    @classmethod
    def enter(cls):
        status, head, body = cls.post_session({'token': cls.token()}, Origin=cls.origin)
        assert status == 201, (status, body)
        cls.set_cookie = head['Set-Cookie']
        return cls.set_cookie.split(';')[0], json.loads(body)['csrf']

    def ask(self, method, path, body=None, cookie=None, **headers):
        h = {'Host': self.host, 'Cookie': cookie or self.cookie, **{k.replace('_', '-'): v for k, v in headers.items()}}
        if body is not None:
            h['Content-Type'] = 'application/json'
        return self.s.ask(method, path, None if body is None else json.dumps(body), h, key=None)

    # -------------------------------------------------------------- the page
    def test_the_page_and_its_rules(self):
        status, head, body = self.s.ask('GET', '/', headers={'Host': self.host}, key=None)
        if status == 404:
            self.skipTest('built without the console: ' + body.decode())
        csp = head['Content-Security-Policy']
        nonce = re.search(r"'nonce-([0-9a-f]{32})'", csp).group(1)
        self.assertIn(nonce.encode(), body)
        self.assertNotIn('unsafe', csp)
        for rule in ("default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", 'frame-src http://*.localhost:%d;' % self.s.port):
            self.assertIn(rule, csp)
        self.assertEqual(head['X-Frame-Options'], 'DENY')
        self.assertEqual(re.findall(rb'<script(?![^>]* src=)', body), [])
        self.assertEqual([u for u in re.findall(rb'(?:src|href)="([^"]*)"', body) if not u.startswith(b'/assets/')], [])
        again = self.s.ask('GET', '/', headers={'Host': self.host}, key=None)[1]['Content-Security-Policy']
        self.assertNotIn(nonce, again)
        for name in re.findall(rb'/assets/[^"]+', body):
            name = name.decode()
            status, head, packed = self.s.ask('GET', name, headers={'Accept-Encoding': 'gzip'}, key=None)
            self.assertEqual((status, head['Content-Encoding']), (200, 'gzip'))
            self.assertIn('immutable', head['Cache-Control'])
            self.assertEqual(self.s.ask('GET', name, key=None)[2], gzip.decompress(packed))
            self.assertEqual(self.s.ask('GET', name, headers={'If-None-Match': head['ETag']}, key=None)[0], 304)
        for name in ('/assets/', '/assets/none.js', '/assets/..%2fetc', '/assets/%2e%2e'):
            self.assertIn(self.s.ask('GET', name, key=None)[0], (400, 404), name)

    def test_the_cookie(self):
        self.assertRegex(self.set_cookie, r'^cay_[0-9a-f]{8}=cays_[0-9a-f]{72}; Path=/; HttpOnly; SameSite=Strict; Max-Age=604800$')
        status, _, body = self.ask('GET', '/console/session')
        self.assertEqual((status, json.loads(body)['scope']), (200, 'admin'))
        self.assertEqual(self.ask('GET', API + '/sandboxes')[0], 200)
        self.assertEqual(self.ask('GET', '/metrics')[0], 200)
        self.assertLessEqual({'version', 'host', 'csrf', 'tenant'}, set(json.loads(body)))
        nobody = json.loads(self.s.ask('GET', '/console/session', key=None)[2])  # nothing of the host, nor of what runs on it
        self.assertEqual((nobody['scope'], set(nobody)), (None, {'scope', 'instance', 'domain'}))
        with open(os.path.join(self.s.tmp, 'log')) as f:
            self.assertNotIn(self.cookie.split('=')[1][12:], f.read())

    # -------------------------------------------------------------- the link
    def test_a_link_logs_in_once(self):
        token = self.token()
        self.assertEqual(self.s.ask('GET', API + '/sandboxes', key=token)[0], 403)  # it opens nothing by itself
        self.assertEqual(self.s.ask('GET', API + '/keys', key=token)[0], 403)
        self.assertEqual(self.post_session({'token': token}, Origin=self.origin)[0], 201)
        for _ in range(3):
            status, head, body = self.post_session({'token': token}, Origin=self.origin)
            self.assertEqual(status, 401, 'the link logs in again')
            self.assertEqual(json.loads(body)['reason'], 'link_invalid')
            self.assertNotIn('Set-Cookie', head)
        for bad in ('', 'x', 'e2b_' + '0' * 72, self.s.key):
            self.assertIn(self.post_session({'token': bad}, Origin=self.origin)[0], (400, 401), bad)

    def test_open_gives_the_link_to_a_browser(self):
        program, told = os.path.join(self.s.tmp, 'browser'), os.path.join(self.s.tmp, 'told')
        with open(program, 'w') as f:
            f.write('#!/bin/sh\nprintf %%s "$1" >"%s"\n' % told)
        os.chmod(program, 0o755)
        was = dict(self.s.env)
        try:
            self.s.env.update(BROWSER=program)
            self.assertEqual(self.s.cay('open', 'mine'), '')  # nothing to copy: it is open
            with open(told) as f:
                self.assertRegex(f.read(), r'^http://cay\.localhost:%d/#/sandbox/%s\?in=e2b_[0-9a-f]+$' % (self.s.port, self.box))
            self.s.env.update(BROWSER='/nonexistent', PATH=self.s.tmp)  # nobody who could show it
            self.assertRegex(self.s.cay('open'), r'^http://cay\.localhost:%d/#/\?in=e2b_[0-9a-f]+\n$' % self.s.port)
        finally:
            self.s.env.clear()
            self.s.env.update(was)

    def test_of_many_who_come_with_one_link_one_gets_in(self):
        token, got = self.token(), []
        threads = [threading.Thread(target=lambda: got.append(self.post_session({'token': token}, Origin=self.origin)[0])) for _ in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(sorted(got)[:1] + [got.count(201)], [201, 1])

    def test_a_key_logs_in(self):
        key = self.s.make_key('--scope', 'tenant')
        status, head, body = self.post_session({'key': key}, Origin=self.origin)
        self.assertEqual((status, json.loads(body)['scope']), (201, 'tenant'))
        mine = head['Set-Cookie'].split(';')[0]
        self.assertEqual(self.ask('GET', API + '/tenants', cookie=mine)[0], 403)
        self.assertEqual(self.post_session({'key': self.s.make_key('--scope', 'sandbox', '--sandbox', self.box)}, Origin=self.origin)[0], 403)
        self.assertEqual(self.post_session({'key': 'nonsense'}, Origin=self.origin)[0], 401)

    def test_the_cookie_is_no_key(self):
        """What a browser keeps is neither the key that was typed in nor one of its own kind, and opens nothing but these pages."""
        key = self.s.make_key('--scope', 'admin')
        status, head, body = self.post_session({'key': key}, Origin=self.origin)
        self.assertEqual(status, 201)
        for cookie in (head['Set-Cookie'], self.set_cookie):
            secret = cookie.split(';')[0].split('=')[1]
            self.assertRegex(secret, '^cays_[0-9a-f]{72}$')
            self.assertNotIn(key[4:], cookie)
            self.assertNotIn(key[12:], body.decode())
            self.assertNotIn(secret, body.decode())
            for shown in (secret, 'e2b_' + secret[5:]):
                for how in ({'Authorization': 'Bearer ' + shown}, {'X-API-Key': shown}):
                    for path in (API + '/sandboxes', API + '/keys', '/e2b/sandboxes', '/preview/%s/8000/' % self.box):
                        self.assertEqual(self.s.ask('GET', path, headers=how, key=None)[0], 401, (path, how))
                self.assertEqual(self.post_session({'key': shown}, Origin=self.origin)[0], 401)
                self.assertEqual(self.post_session({'token': shown}, Origin=self.origin)[0], 401)
        name = self.cookie.split('=')[0]
        for text in (key, 'cays_' + key[4:], self.token(), secret[:-1], secret + '0', 'cays_' + '0' * 72):
            self.assertEqual(self.ask('GET', API + '/sandboxes', cookie='%s=%s' % (name, text))[0], 401, text)
        for f in os.listdir(self.s.home):
            if f.startswith('store.db'):
                with open(os.path.join(self.s.home, f), 'rb') as d:
                    self.assertNotIn(secret[13:].encode(), d.read())
        self.assertEqual(self.s.json('POST', API + '/keys', {'scope': 'session'})[0], 400)
        with self.assertRaisesRegex(RuntimeError, 'scope'):
            self.s.make_key('--scope', 'session')

    def test_a_session_dies_with_its_key(self):
        key = self.s.make_key('--scope', 'tenant')
        mine, yours = ({'cookie': h['Set-Cookie'].split(';')[0], 'X_Cay_Csrf': json.loads(b)['csrf']} for _, h, b in (self.post_session({'key': key}, Origin=self.origin) for _ in range(2)))
        id = json.loads(self.ask('GET', '/console/session', **mine)[2])['key']
        listed = {k['id']: k for k in self.s.json('GET', API + '/keys')[2]['items']}[id]
        self.assertEqual((listed['scope'], listed['from'], listed['expires_ms'] - listed['created_ms']), ('session', key[4:12], 7 * 86400000))
        self.assertEqual(self.ask('DELETE', '/console/session', **mine)[0], 204)
        self.assertEqual(self.ask('GET', API + '/sandboxes', **mine)[0], 401)
        self.assertEqual(self.ask('GET', API + '/sandboxes', **yours)[0], 200)  # another session of the same key, and the key, stay
        self.assertEqual(self.s.ask('GET', API + '/sandboxes', key=key)[0], 200)
        self.assertEqual(self.s.ask('DELETE', API + '/keys/' + key[4:12])[0], 204)
        self.assertEqual(self.ask('GET', API + '/sandboxes', **yours)[0], 401)
        self.assertIsNone(json.loads(self.ask('GET', '/console/session', **yours)[2])['scope'])
        cookie, _ = self.enter()  # one of a link is ended by its id
        id = json.loads(self.ask('GET', '/console/session', cookie=cookie)[2])['key']
        self.assertEqual(self.s.ask('DELETE', API + '/keys/' + id)[0], 204)
        self.assertEqual(self.ask('GET', API + '/sandboxes', cookie=cookie)[0], 401)

    def test_a_session_that_has_expired_opens_nothing(self):
        cookie, csrf = self.enter()
        self.assertEqual(self.ask('GET', API + '/sandboxes', cookie=cookie)[0], 200)
        id = json.loads(self.ask('GET', '/console/session', cookie=cookie)[2])['key']
        with contextlib.closing(sqlite3.connect(os.path.join(self.s.home, 'store.db'), timeout=20)) as db, db:
            self.assertEqual(db.execute('UPDATE keys SET expires_ms=1000 WHERE id=? AND scope=?', (id, 'session')).rowcount, 1)
        end = time.monotonic() + 20  # what is known is asked again after a second
        while self.ask('GET', API + '/sandboxes', cookie=cookie)[0] == 200 and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual(self.ask('GET', API + '/sandboxes', cookie=cookie)[0], 401)
        self.assertEqual(self.ask('POST', API + '/sandboxes', {}, cookie=cookie, X_Cay_Csrf=csrf)[0], 401)
        self.assertEqual(self.ask('POST', '/console/ticket', {}, cookie=cookie, X_Cay_Csrf=csrf)[0], 401)
        self.assertIsNone(json.loads(self.ask('GET', '/console/session', cookie=cookie)[2])['scope'])
        self.assertEqual(self.ask('GET', API + '/sandboxes')[0], 200)

    def test_another_page_logs_nobody_in(self):
        for headers in ({'Origin': 'http://evil.test'}, {'Origin': 'null'}, {'Origin': 'http://8000-%s.localhost:%d' % (self.box, self.s.port)}, {'Sec-Fetch-Site': 'cross-site'}, {'Sec-Fetch-Site': 'same-site'}):
            status, head, _ = self.post_session({'key': self.s.key}, **headers)
            self.assertIn(status, (403, 421), headers)
            self.assertNotIn('Set-Cookie', head)
        for kind in ('text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x'):
            status, head, _ = self.s.ask('POST', '/console/session', '{"key":"%s"}' % self.s.key, {'Content-Type': kind, 'Host': self.host}, key=None)
            self.assertIn(status, (400, 415), kind)
            self.assertNotIn('Set-Cookie', head)

    # -------------------------------------------------------------- S-53: what the cookie alone does not do
    def test_a_change_needs_the_token(self):
        for method, path, body in (('POST', '/sandboxes', {}), ('DELETE', '/sandboxes/' + self.box, None), ('PUT', '/sandboxes/%s/net' % self.box, {'mode': 'all'}), ('PATCH', '/sandboxes/' + self.box, {'name': 'x'})):
            for extra in ({}, {'X_Cay_Csrf': ''}, {'X_Cay_Csrf': '0' * 32}, {'X_Cay_Csrf': self.csrf[:-1]}, {'X_Cay_Csrf': self.csrf + '0'}, {'Origin': self.origin}):
                status, _, data = self.ask(method, API + path, body, **extra)
                self.assertEqual((status, json.loads(data)['reason']), (403, 'csrf_token'), (method, path, extra))
        self.assertEqual(self.ask('PATCH', API + '/sandboxes/' + self.box, {'name': 'mine'}, X_Cay_Csrf=self.csrf, Origin=self.origin)[0], 200)
        other = self.enter()
        self.assertEqual(self.ask('PATCH', API + '/sandboxes/' + self.box, {'name': 'mine'}, X_Cay_Csrf=other[1])[0], 403)
        self.assertEqual(self.ask('POST', '/console/ticket', {})[0], 403)

    def test_a_foreign_page_gets_nothing_by_the_cookie(self):
        for headers in ({'Origin': 'http://evil.test'}, {'Origin': 'null'}, {'Origin': 'http://localhost:3000'}, {'Origin': 'http://8000-%s.localhost:%d' % (self.box, self.s.port)}, {'Sec_Fetch_Site': 'cross-site'}, {'Sec_Fetch_Site': 'same-site'}, {'Sec_Fetch_Site': 'nonsense'}):
            for path in ('/sandboxes', '/events', '/keys', '/sandboxes/%s/files?path=/etc/hostname' % self.box):
                status, head, _ = self.ask('GET', API + path, **headers)
                self.assertEqual(status, 403, (headers, path))
                self.assertNotIn('Access-Control-Allow-Origin', head)
            self.assertEqual(self.ask('POST', API + '/sandboxes', {}, X_Cay_Csrf=self.csrf, **headers)[0], 403)
        self.assertIsNone(json.loads(self.ask('GET', '/console/session', Sec_Fetch_Site='cross-site')[2])['scope'])

    def test_an_allowed_origin_may_not_use_the_cookie(self):
        with Server(BUILD, '--allow-origin', 'https://friend.test') as s:
            token = re.search(r'in=(e2b_[0-9a-f]+)', s.cay('open', '--print')).group(1)
            h = {'Content-Type': 'application/json', 'Host': '127.0.0.1:%d' % s.port}
            status, head, _ = s.ask('POST', '/console/session', json.dumps({'token': token}), h, key=None)
            self.assertEqual(status, 201)
            h['Cookie'] = head['Set-Cookie'].split(';')[0]
            self.assertEqual(s.ask('GET', API + '/sandboxes', headers={**h, 'Origin': 'https://friend.test'}, key=None)[0], 403)
            self.assertEqual(s.ask('GET', API + '/sandboxes', headers={'Origin': 'https://friend.test'})[0], 200)

    def upgrade(self, path, *lines):
        head = ('GET %s HTTP/1.1', 'Host: ' + self.host, 'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==', *lines, '', '')
        with self.s.socket() as c:
            c.sendall(('\r\n'.join(head) % path).encode())
            return int(c.recv(4096).split()[1])

    def ticket(self, cookie=None, csrf=None):
        return json.loads(self.ask('POST', '/console/ticket', {}, cookie=cookie, X_Cay_Csrf=csrf or self.csrf)[2])['ticket']

    def test_a_socket_needs_a_ticket_once(self):
        proc = self.s.json('POST', API + '/sandboxes/%s/processes' % self.box, {'argv': ['true']})[2]['id']
        path, mine = API + '/sandboxes/%s/processes/%s/ws' % (self.box, proc), 'Cookie: ' + self.cookie
        self.assertEqual(self.upgrade(path, mine), 403)
        self.assertEqual(self.upgrade(path + '?ticket=', mine), 403)
        self.assertEqual(self.upgrade(path + '?ticket=' + '0' * 32, mine), 403)
        self.assertEqual(self.upgrade(path + '?ticket=' + self.ticket(), mine, 'Origin: http://evil.test'), 403)
        self.assertEqual(self.upgrade(path + '?ticket=' + self.ticket()), 401)  # without the cookie it is nothing
        other = self.enter()
        self.assertEqual(self.upgrade(path + '?ticket=' + self.ticket(*other), mine), 403)  # another session's
        t = self.ticket()
        self.assertEqual(self.upgrade(path + '?ticket=' + t, mine, 'Origin: ' + self.origin), 101)
        self.assertEqual(self.upgrade(path + '?ticket=' + t, mine, 'Origin: ' + self.origin), 403)
        self.assertEqual(self.upgrade(path, 'Authorization: Bearer ' + self.s.key), 101)  # a key needs none

    def test_other_protocols_do_not_know_the_cookie(self):
        for path in ('/e2b/sandboxes', '/v2/sandboxes', '/sandbox-server/sandboxes'):
            self.assertIn(self.ask('GET', path)[0], (401, 404, 405), path)
        self.assertNotIn(self.cookie.split('=')[1].encode(), self.ask('GET', '/preview/%s/8000/' % self.box)[2])

    # -------------------------------------------------------------- out
    def test_logging_out(self):
        cookie, csrf = self.enter()
        self.assertEqual(self.ask('DELETE', '/console/session', cookie=cookie)[0], 403)
        status, head, _ = self.ask('DELETE', '/console/session', cookie=cookie, X_Cay_Csrf=csrf)
        self.assertEqual(status, 204)
        self.assertIn('Max-Age=0', head['Set-Cookie'])
        self.assertEqual(self.ask('GET', API + '/sandboxes', cookie=cookie)[0], 401)
        self.assertEqual(self.ask('GET', API + '/sandboxes')[0], 200)

    def test_a_sample(self):
        d = json.loads(self.ask('GET', '/console/sample')[2])
        self.assertIn(self.box, [i['id'] for i in d['items']])
        self.assertGreater(d['cpus'], 0)
        self.assertEqual(self.s.ask('GET', '/console/sample', key=None)[0], 401)
        self.s.cay('tenant', 'create', 'other')
        self.assertEqual(self.s.json('GET', '/console/sample', key=self.s.make_key('--scope', 'tenant', '--tenant', 'other'))[2]['items'], [])

    # -------------------------------------------------------------- allow for ten minutes
    def rules(self):
        return self.s.json('GET', API + '/sandboxes/%s/net' % self.box)[2]['policy']['rules']

    def test_a_rule_for_a_while(self):
        path = API + '/sandboxes/%s/net/rules' % self.box
        self.assertEqual(self.s.json('POST', path, {'rules': ['stays.test']})[0], 200)
        before = self.rules()
        self.assertEqual(self.s.json('POST', path, {'rules': ['goes.test', 'stays.test', 'bad rule'], 'ttl_ms': 1000})[0], 400)
        self.assertEqual((self.rules(), self.s.json('GET', API + '/jobs?state=waiting&kind=net-end')[2]['items']), (before, []))
        self.assertEqual(self.s.json('POST', path, {'rules': ['goes.test', 'stays.test'], 'ttl_ms': 1500})[0], 200)
        self.assertTrue(any('goes.test' in r for r in self.rules()))
        for _ in range(300):
            if self.rules() == before:
                break
            time.sleep(0.1)
        self.assertEqual(self.rules(), before)

    def test_open_needs_a_server(self):
        with self.assertRaisesRegex(RuntimeError, '--url'):
            self.s.cay('--home', os.path.join(self.s.tmp, 'elsewhere'), 'open', '--print')
        self.assertIn('/#/sandbox/%s?in=' % self.box, self.s.cay('open', '--print', 'mine'))
        # Ports of one host share their cookies, so the console's is of a host of its own.
        for url in ('http://127.0.0.1:8', 'http://localhost:8/', 'http://[::1]:8'):
            self.assertTrue(self.s.cay('open', '--print', '--url', url).startswith('http://cay.localhost:8/#/?in='), url)
        for url in ('https://127.0.0.1:8', 'http://127.0.0.1.example:8', 'http://10.0.0.1:8'):
            self.assertTrue(self.s.cay('open', '--print', '--url', url).startswith(url + '/#/?in='), url)
        status, head, _ = self.s.ask('POST', '/console/session', json.dumps({'token': self.token()}),
                                     headers={'Host': 'cay.localhost:%d' % self.s.port, 'Origin': 'http://cay.localhost:%d' % self.s.port, 'Content-Type': 'application/json'})
        self.assertEqual(status, 201)


if __name__ == '__main__':
    unittest.main()
