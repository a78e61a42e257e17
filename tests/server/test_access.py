# SPDX-License-Identifier: Apache-2.0
"""Who may ask for what: keys, tenants, quotas, the same answer again, jobs, and what the audit log tells of it all."""
import http.client
import io
import json
import os
import socket
import sqlite3
import sys
import tarfile
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import test_api  # noqa: E402
from serve import Server  # noqa: E402

API = '/api/v1'
NOT = 'caaaaaaaaaaaaaaaaaaa'
MINE = {'access', 'jobs', 'audit'}
S = DOC = None


class Base(unittest.TestCase):
    def ask(self, method, path, obj=None, key=True, headers=None, want=None, conn=None):
        """(the answer as JSON, its head)"""
        h = dict(headers or {})
        if obj is not None:
            h.setdefault('Content-Type', 'application/json')
        status, head, data = S.ask(method, path, json.dumps(obj) if obj is not None else None, h, key, conn)
        if status != 421: # of a request that is not ours at all
            DOC.check(method, path, status, head, data)
        value = json.loads(data) if data else None
        if want:
            self.assertEqual(status, want, (method, path, value))
        return value, head

    def fails(self, method, path, status, reason, obj=None, key=True, headers=None):
        value, head = self.ask(method, path, obj, key, headers, status)
        self.assertEqual(value['reason'], reason, value)
        return value, head

    def until(self, what, seconds=20):
        end = time.time() + seconds
        while not what():
            self.assertLess(time.time(), end, 'it did not come')
            time.sleep(0.05)

    @classmethod
    def tenant(cls, name, **most):
        """Makes one, and gives a key of it."""
        status, _, value = S.json('POST', API + '/tenants', {'name': name, 'most': most})
        assert status == 201, value
        DOC.seen['createTenant'].add(status)
        status, _, value = S.json('POST', API + '/keys', {'tenant': name, 'name': 'test'})
        assert status == 201, value
        return value['key']


class Keys(Base):
    def test_every_route_wants_a_key(self):
        wrong = 'e2b_' + '0' * 72
        for method, path in (('GET', '/sandboxes'), ('POST', '/sandboxes'), ('GET', '/sandboxes/' + NOT), ('DELETE', '/sandboxes/' + NOT), ('GET', '/keys'),
                             ('POST', '/keys'), ('GET', '/tenants'), ('GET', '/jobs'), ('GET', '/audit'), ('GET', '/audit/proof')):
            self.fails(method, API + path, 401, 'key_missing', key=None)
            for k in (wrong, 'x', 'e2b_', S.key[:-1] + ('0' if S.key[-1] != '0' else '1'), S.key + '0', S.key.upper()):
                self.fails(method, API + path, 401, 'key_invalid', key=k)
        self.assertEqual(S.ask('GET', '/health', key=None)[0], 200)

    def test_a_key_lives_and_ends(self):
        made, _ = self.ask('POST', API + '/keys', {'name': 'short'}, want=201)
        used = lambda: [k.get('used_ms', 0) for k in self.ask('GET', API + '/keys', want=200)[0]['items'] if k['id'] == made['id']][0]
        self.assertEqual(used(), 0)
        self.ask('GET', API + '/sandboxes', key=made['key'], want=200)
        self.ask('GET', API + '/sandboxes', key=None, headers={'X-API-Key': made['key']}, want=200)
        listed, _ = self.ask('GET', API + '/keys', want=200)
        self.assertIn(made['id'], [k['id'] for k in listed['items']])
        self.assertLess(abs(used() - time.time() * 1000), 60000)
        self.assertNotIn(made['key'][12:], json.dumps(listed))
        self.ask('DELETE', API + '/keys/' + made['id'], want=204)
        self.fails('GET', API + '/sandboxes', 401, 'key_invalid', key=made['key'])
        other = S.make_key('--name', 'by the command')
        self.ask('GET', API + '/sandboxes', key=other, want=200)
        S.cay('key', 'revoke', other[4:12])
        self.until(lambda: S.ask('GET', API + '/sandboxes', key=other)[0] == 401)
        self.fails('DELETE', API + '/keys/00000000', 404, 'key_not_found')
        self.fails('DELETE', API + '/keys/xyz', 400, 'key_spec')
        self.fails('POST', API + '/keys', 400, 'key_spec', {'scope': 'sandbox'})
        self.fails('POST', API + '/keys', 404, 'sandbox_not_found', {'scope': 'sandbox', 'sandbox': NOT})
        self.fails('POST', API + '/keys', 404, 'tenant_not_found', {'tenant': 'nobody'})

    def test_narrow_keys_open_one_thing(self):
        box = self.ask('POST', API + '/sandboxes', {}, want=201)[0]['id']
        other = self.ask('POST', API + '/sandboxes', {}, want=201)[0]['id']
        one = self.ask('POST', API + '/keys', {'scope': 'sandbox', 'sandbox': box}, want=201)[0]['key']
        self.ask('GET', API + '/sandboxes/' + box, key=one, want=200)
        for method, path in (('GET', '/sandboxes'), ('POST', '/sandboxes'), ('GET', '/sandboxes/' + other), ('GET', '/keys'), ('GET', '/audit'), ('POST', '/keys')):
            self.fails(method, API + path, 403, 'scope_too_narrow', key=one)
        files = API + '/sandboxes/%s/files' % box
        for name in ('data', 'database'):
            self.ask('POST', files + '/mkdir', {'path': '/workspace/' + name, 'parents': True}, want=201)
        self.assertEqual(S.ask('PUT', files + '?path=/workspace/data/f', b'hello')[0], 201)
        self.assertEqual(S.ask('PUT', files + '?path=/workspace/database/g', b'secret')[0], 201)
        k = self.ask('POST', API + '/keys', {'scope': 'file', 'sandbox': box, 'path': '/workspace/data'}, want=201)[0]['key']
        self.assertEqual(S.ask('GET', files + '?path=/workspace/data/f', key=k)[2], b'hello')
        self.assertEqual(S.ask('PUT', files + '?path=/workspace/data/h', b'x', key=k)[0], 201)
        for p in ('/workspace/database/g', '/workspace/data/../database/g', '/workspace/data/./f', 'data/f', '/workspace/data%2f..%2fdatabase/g', '/etc/passwd', ''):
            self.assertEqual(S.ask('GET', files + '?path=' + p, key=k)[0], 403, p)
        # With the rights of the sandbox's own user alone: a link in it opens nothing more.
        self.assertEqual(S.ask('PUT', files + '?path=/root/hidden&user=root', b'r')[0], 201)
        self.ask('POST', API + '/sandboxes/%s/run' % box, {'argv': ['ln', '-s', '/root/hidden', '/workspace/data/l']}, want=200)
        for user in ('', '&user=root', '&user=', '&us%65r=root'):
            self.assertEqual(S.ask('GET', files + '?path=/workspace/data/l' + user, key=k)[0], 403, user)
        self.assertEqual(S.ask('PUT', files + '?path=/workspace/data/i&user=root', b'x', key=k)[0], 403)
        self.fails('GET', API + '/sandboxes/' + box, 403, 'scope_too_narrow', key=k)
        self.fails('POST', files + '/rename', 403, 'scope_too_narrow', {'from': '/workspace/data/f', 'to': '/x'}, key=k)
        for b in (box, other):
            self.ask('DELETE', API + '/sandboxes/' + b, want=204)
        self.until(lambda: S.ask('GET', API + '/sandboxes/' + box, key=one)[0] == 401) # it went with its sandbox


    def test_links_of_an_archive_do_not_widen_a_key_of_files(self):
        box = self.ask('POST', API + '/sandboxes', {}, want=201)[0]['id']
        files = API + '/sandboxes/%s/files' % box
        self.ask('POST', files + '/mkdir', {'path': '/workspace/data/below', 'parents': True}, want=201)
        self.assertEqual(S.ask('PUT', files + '?path=/workspace/secret', b'secret')[0], 201)
        self.assertEqual(S.ask('PUT', files + '?path=/workspace/data/below/f', b'hello')[0], 201)
        k = self.ask('POST', API + '/keys', {'scope': 'file', 'sandbox': box, 'path': '/workspace/data'}, want=201)[0]['key']

        def send(target, key):
            out = io.BytesIO()
            with tarfile.open(fileobj=out, mode='w') as t:
                link = tarfile.TarInfo('below/link')
                link.type, link.linkname = tarfile.SYMTYPE, target
                t.addfile(link)
            return S.ask('PUT', files + '/tar?path=/workspace/data', out.getvalue(), {'Content-Type': 'application/x-tar'}, key=key)

        for target in ('/', '/workspace/secret', '/workspace', '../../secret', '..', '../..', 'x/../../../secret', 'f/..', './..'):
            status, _, data = send(target, k)
            self.assertEqual((status, json.loads(data)['reason']), (403, 'scope_too_narrow'), target)
            self.assertEqual(S.ask('GET', files + '/stat?path=/workspace/data/below/link')[0], 404, target)
        self.assertEqual(send('f', k)[0], 200)
        self.assertEqual(S.ask('GET', files + '?path=/workspace/data/below/link', key=k)[2], b'hello')
        self.assertEqual(send('../../secret', True)[0], 200)  # who has the whole sandbox may
        self.ask('DELETE', API + '/sandboxes/' + box, want=204)

    def test_a_tenant_neither_sees_nor_revokes_what_opens_more(self):
        for tenant in ('default', 'wide'):
            mine = self.tenant(tenant) if tenant != 'default' else S.make_key('--scope', 'tenant')
            peer = S.make_key('--scope', 'tenant', '--tenant', tenant)
            admin = S.make_key('--scope', 'admin', '--tenant', tenant)
            wide = {admin[4:12]: admin}
            own = {peer[4:12], mine[4:12]}
            for name, given in (('wide', {'key': admin}), ('wide', {'token': self.link()}), ('own', {'key': peer})):
                status, _, _ = S.json('POST', '/console/session', given, key=None)
                self.assertEqual(status, 201)
                session = [k['id'] for k in self.ask('GET', API + '/keys', want=200)[0]['items'] if k['scope'] == 'session'][-1]
                own.add(session) if name == 'own' else wide.update({session: None})
            link = self.link()
            wide[link[4:12]] = None
            listed = {k['id'] for k in self.ask('GET', API + '/keys', key=mine, want=200)[0]['items']}
            self.assertEqual(listed & set(wide), set())
            self.assertEqual(own - listed, set())
            for id in wide:
                self.fails('DELETE', API + '/keys/' + id, 404, 'key_not_found', key=mine)
            self.ask('GET', API + '/tenants', key=admin, want=200)
            for id in own - {mine[4:12]}:
                self.ask('DELETE', API + '/keys/' + id, key=mine, want=204)
            self.fails('GET', API + '/sandboxes', 401, 'key_invalid', key=peer)

    def test_a_name_that_a_key_of_one_sandbox_gave_stands_in_for_no_template(self):
        mine = self.tenant('namer')
        good, evil = (self.ask('POST', API + '/sandboxes', {}, key=mine, want=201)[0]['id'] for _ in 'ab')
        for box in good, evil:
            self.assertEqual(S.ask('PUT', API + '/sandboxes/%s/files?path=/workspace/who' % box, box.encode(), key=mine)[0], 201)
        narrow = self.ask('POST', API + '/keys', {'scope': 'sandbox', 'sandbox': evil}, key=mine, want=201)[0]['key']
        self.ask('POST', API + '/sandboxes/%s/snapshots' % evil, {'label': 'early'}, key=narrow, want=201)
        for name in 'early', 'late':
            self.ask('POST', API + '/templates', {'from': good, 'names': [name + ':default']}, key=mine, want=201)
        self.assertEqual(S.json('POST', '/e2b/sandboxes/%s/snapshots' % evil, {'name': 'late'}, key=narrow)[0], 201)
        for name in 'early', 'late', 'early:default', 'late:default':
            status, _, made = S.json('POST', '/e2b/sandboxes', {'templateID': name}, key=mine)
            self.assertEqual(status, 201, made)
            self.assertEqual(S.ask('GET', API + '/sandboxes/%s/files?path=/workspace/who' % made['sandboxID'], key=mine)[2], good.encode(), name)
            self.ask('DELETE', API + '/sandboxes/' + made['sandboxID'], key=mine, want=204)
        # What has no template's name is what it was.
        self.assertEqual(S.json('POST', '/e2b/sandboxes/%s/snapshots' % evil, {'name': 'own'}, key=narrow)[0], 201)
        status, _, made = S.json('POST', '/e2b/sandboxes', {'templateID': 'own'}, key=mine)
        self.assertEqual(S.ask('GET', API + '/sandboxes/%s/files?path=/workspace/who' % made['sandboxID'], key=mine)[2], evil.encode())
        self.assertEqual(S.ask('DELETE', '/e2b/templates/late', key=mine)[0], 204)
        self.assertIn('late', [s['label'] for s in self.ask('GET', API + '/snapshots', key=mine, want=200)[0]['items']])
        for box in good, evil, made['sandboxID']:
            self.ask('DELETE', API + '/sandboxes/' + box, key=mine, want=204)

    def link(self):
        return S.cay('open', '--print', '--url', S.url).strip().rsplit('=', 1)[1]

    def test_who_wakes_a_sandbox_does_not_own_what_is_put_into_it(self):
        manifest = {'entries': {'now': {'type': 'file', 'content': 'x', 'ephemeral': True}}}
        box = self.ask('POST', API + '/sandboxes', {'auto_resume': True, 'manifest': manifest}, want=201)[0]['id']
        stat = API + '/sandboxes/%s/files/stat?path=/workspace/now' % box
        own = self.ask('GET', stat, want=200)[0]
        self.ask('POST', API + '/sandboxes/%s/run' % box, {'argv': ['rm', '/workspace/now']}, want=200)
        self.ask('POST', API + '/sandboxes/%s/kill' % box, {})
        self.until(lambda: self.ask('GET', API + '/sandboxes/' + box, want=200)[0]['state'] == 'stopped')
        again = self.ask('GET', stat + '&user=root', want=200)[0]
        self.assertEqual((again['uid'], again['gid']), (own['uid'], own['gid']))
        self.ask('DELETE', API + '/sandboxes/' + box, want=204)


class Tenants(Base):
    @classmethod
    def setUpClass(cls):
        cls.red, cls.blue = cls.tenant('red'), cls.tenant('blue')

    def test_another_tenants_things_are_not_there(self):
        box = self.ask('POST', API + '/sandboxes', {}, key=self.red, want=201)[0]
        self.assertEqual(box['tenant'], 'red')
        for method, rest in (('GET', ''), ('DELETE', ''), ('POST', '/pause'), ('POST', '/kill'), ('POST', '/fork'), ('GET', '/usage'), ('GET', '/processes'),
                             ('GET', '/files?path=/etc/passwd'), ('GET', '/files/list?path=/')):
            a, _ = self.ask(method, API + '/sandboxes/' + box['id'] + rest, key=self.blue, want=404)
            b, _ = self.ask(method, API + '/sandboxes/' + NOT + rest, key=self.blue, want=404)
            self.assertEqual(a['detail'].replace(box['id'], NOT), b['detail'])
            self.assertEqual(a['reason'], b['reason'])
        self.assertEqual(self.ask('GET', API + '/sandboxes', key=self.blue, want=200)[0]['items'], [])
        self.assertEqual(self.ask('GET', API + '/sandboxes?tenant=red', key=self.blue, want=200)[0]['items'], [])
        self.assertEqual([b['id'] for b in self.ask('GET', API + '/sandboxes?tenant=red', want=200)[0]['items']], [box['id']])
        self.fails('POST', API + '/jobs', 404, 'sandbox_not_found', {'kind': 'kill', 'sandbox': box['id']}, key=self.blue)
        job = self.ask('POST', API + '/jobs', {'kind': 'kill', 'sandbox': box['id'], 'in_ms': 600000}, key=self.red, want=201)[0]
        self.fails('GET', API + '/jobs/' + job['id'], 404, 'task_not_found', key=self.blue)
        self.fails('POST', API + '/jobs/' + job['id'] + '/cancel', 404, 'task_not_found', key=self.blue)
        self.assertEqual(self.ask('GET', API + '/jobs', key=self.blue, want=200)[0]['items'], [])
        key = self.ask('POST', API + '/keys', {'scope': 'sandbox', 'sandbox': box['id']}, key=self.red, want=201)[0]
        self.fails('DELETE', API + '/keys/' + key['id'], 404, 'key_not_found', key=self.blue)
        self.fails('POST', API + '/keys', 404, 'sandbox_not_found', {'scope': 'sandbox', 'sandbox': box['id']}, key=self.blue)
        self.fails('POST', API + '/keys', 403, 'admin_only', {'tenant': 'red'}, key=self.blue)
        self.fails('POST', API + '/keys', 403, 'admin_only', {'scope': 'admin'}, key=self.blue)
        self.fails('GET', API + '/tenants', 403, 'scope_too_narrow', key=self.blue)
        self.fails('GET', API + '/audit/proof', 403, 'scope_too_narrow', key=self.blue)
        self.assertFalse([l for l in self.ask('GET', API + '/audit?last=1000', key=self.blue, want=200)[0]['items'] if l.get('tenant') != 'blue'])
        self.fails('DELETE', API + '/tenants/red', 409, 'tenant_in_use')
        self.ask('DELETE', API + '/sandboxes/' + box['id'], key=self.red, want=204)

    def test_quotas(self):
        key = self.tenant('small', sandboxes=1, memory=1 << 30)
        p, head = self.fails('POST', API + '/sandboxes', 429, 'quota_exceeded', {}, key=key)  # 2 GiB is what one has unless it says less
        self.assertEqual((p['retry'], head['Retry-After']), ('no', None))  # however long one waits
        p, _ = self.fails('POST', API + '/sandboxes', 429, 'quota_exceeded', {'limits': {'memory': 'unlimited'}}, key=key)
        self.assertEqual((p['retry'], p['info']['most'], p['info']['asked']), ('no', 1 << 30, 'unlimited'))
        little = {'limits': {'memory': 256 << 20}}
        box = self.ask('POST', API + '/sandboxes', little, key=key, want=201)[0]['id']
        p, head = self.fails('POST', API + '/sandboxes', 429, 'quota_exceeded', little, key=key)
        self.assertEqual((p['info']['quota'], p['retry'], head['Retry-After']), ('sandboxes', 'yes', '1'))
        t, _ = self.ask('PATCH', API + '/tenants/small', {'most': {'sandboxes': 5, 'creates_per_min': 1}}, want=200)
        self.assertEqual((t['most']['sandboxes'], t['most']['memory'], t['used']['sandboxes']), (5, 1 << 30, 1))
        second = self.ask('POST', API + '/sandboxes', little, key=key, want=201)[0]['id']
        _, head = self.fails('POST', API + '/sandboxes', 429, 'create_rate', little, key=key)
        self.assertTrue(1 <= int(head['Retry-After']) <= 61)
        for b in (box, second):
            self.ask('DELETE', API + '/sandboxes/' + b, key=key, want=204)
        self.ask('DELETE', API + '/tenants/small', want=204)
        self.fails('GET', API + '/sandboxes', 401, 'key_invalid', key=key)

    def test_tenants_are_made_and_changed(self):
        self.fails('POST', API + '/tenants', 409, 'tenant_exists', {'name': 'red'})
        self.fails('POST', API + '/tenants', 400, 'tenant_invalid', {'name': 'A b'})
        self.fails('PATCH', API + '/tenants/nobody', 404, 'tenant_not_found', {'most': {}})
        self.fails('PATCH', API + '/tenants/red', 400, 'field_missing', {})
        self.fails('DELETE', API + '/tenants/nobody', 404, 'tenant_not_found')
        self.fails('DELETE', API + '/tenants/A', 400, 'tenant_invalid')
        names = [t['name'] for t in self.ask('GET', API + '/tenants', want=200)[0]['items']]
        self.assertTrue({'default', 'red', 'blue'} <= set(names))


class Door(Base):
    def test_host_and_origin(self):
        for host in ('evil.test', 'localhost.evil.test', 'evil.test:%d' % S.port):
            self.fails('GET', API + '/sandboxes', 421, 'host_not_allowed', headers={'Host': host})
        for origin in ('null', 'http://evil.test', 'http://8080-%s.localhost:%d' % (NOT, S.port)):
            self.fails('GET', API + '/sandboxes', 403, 'origin_not_allowed', headers={'Origin': origin})
        _, head = self.ask('GET', API + '/sandboxes', headers={'Origin': 'http://127.0.0.1:%d' % S.port}, want=200)
        self.assertNotEqual(head.get('Access-Control-Allow-Origin'), '*')

    def test_too_many_requests(self):
        key = self.ask('POST', API + '/keys', {'name': 'greedy'}, want=201)[0]['key']
        head = 'GET /api/v1/keys HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n' % key
        seen = []

        def flood():
            with S.socket() as s:
                f = s.makefile('rb')
                while not seen and time.time() < end:
                    s.sendall(head.encode() * 50)
                    for _ in range(50):
                        status, h = int(f.readline().split()[1]), http.client.parse_headers(f)
                        f.read(int(h['Content-Length']))
                        if status == 429:
                            seen.append(h['Retry-After'])

        end = time.time() + 10
        threads = [threading.Thread(target=flood, daemon=True) for _ in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(20)
        if not seen: # a machine that is busy may be too slow to be too fast
            self.skipTest('this machine answers fewer requests than the bound')
        self.assertTrue(int(seen[0]) >= 1)
        self.ask('GET', API + '/keys', want=200) # others are not concerned


class Once(Base):
    def test_the_same_answer_again(self):
        h = {'Idempotency-Key': 'order-1'}
        a, head = self.ask('POST', API + '/sandboxes', {'name': 'one'}, headers=h, want=201)
        self.assertIsNone(head.get('Idempotent-Replayed'))
        b, head = self.ask('POST', API + '/sandboxes', {'name': 'one'}, headers=h, want=201)
        self.assertEqual(head['Idempotent-Replayed'], 'true')
        self.assertEqual(a, b)
        self.assertEqual(S.ask('POST', API + '/sandboxes', json.dumps({'name': 'two'}), dict(h, **{'Content-Type': 'application/json'}))[0], 409)
        self.ask('DELETE', API + '/sandboxes/' + a['id'], want=204)
        # what failed may be tried again
        self.fails('POST', API + '/sandboxes', 404, 'snapshot_not_found', {'from': 'nothing'}, headers={'Idempotency-Key': 'order-2'})
        self.fails('POST', API + '/sandboxes', 404, 'snapshot_not_found', {'from': 'nothing'}, headers={'Idempotency-Key': 'order-2'})

    def test_a_key_is_told_again_to_who_asked(self):
        h = {'Idempotency-Key': 'key-1'}
        a, head = self.ask('POST', API + '/keys', {'name': 'again'}, headers=h, want=201)
        self.assertIsNone(head.get('Idempotent-Replayed'))
        b, head = self.ask('POST', API + '/keys', {'name': 'again'}, headers=h, want=201)
        self.assertEqual((b, head['Idempotent-Replayed']), (a, 'true'))
        self.assertEqual([k['id'] for k in self.ask('GET', API + '/keys', want=200)[0]['items'] if k['name'] == 'again'], [a['id']])
        self.ask('GET', API + '/sandboxes', key=a['key'], want=200)
        self.fails('POST', API + '/keys', 409, 'idempotency_conflict', {'name': 'other'}, headers=h)
        # Another key of the same tenant is told nothing of it, and nothing is made.
        other = S.make_key('--scope', 'admin')
        self.fails('POST', API + '/keys', 409, 'idempotency_conflict', {'name': 'again'}, headers=h, key=other)
        # By the store alone nobody has it.
        db = sqlite3.connect('file:%s?mode=ro' % os.path.join(S.home, 'store.db'), uri=True)
        rows = db.execute("SELECT body FROM answers WHERE key='key-1'").fetchall()
        db.close()
        self.assertEqual(len(rows), 1)
        self.assertNotIn(a['key'][12:].encode(), rows[0][0])
        self.assertNotIn(a['id'].encode(), rows[0][0])
        # what failed is not kept
        self.fails('POST', API + '/keys', 404, 'tenant_not_found', {'tenant': 'nobody'}, headers={'Idempotency-Key': 'key-2'})
        self.ask('POST', API + '/keys', {'name': 'then'}, headers={'Idempotency-Key': 'key-2'}, want=201)

    def test_what_an_admin_was_told_is_not_a_tenants(self):
        self.tenant('told')
        mine = S.make_key('--scope', 'tenant')
        made = []
        for n, (path, body) in enumerate((('/sandboxes', {}), ('/sandboxes', {'tenant': 'told'}), ('/volumes', {'name': 'told'}), ('/tenants', {'name': 'tolder'}),
                                          ('/templates', {'from': None}), ('/jobs', {'kind': 'kill', 'sandbox': None, 'in_ms': 600000}))):
            if None in body.values():
                body = {k: made[0]['id'] if v is None else v for k, v in body.items()}
            h = {'Idempotency-Key': 'admin-%d' % n}
            made.append(self.ask('POST', API + path, body, headers=h, want=201)[0])
            again, head = self.ask('POST', API + path, body, headers=h, want=201)
            self.assertEqual((again, head['Idempotent-Replayed']), (made[-1], 'true'))
            status, head, data = S.ask('POST', API + path, json.dumps(body), dict(h, **{'Content-Type': 'application/json'}), key=mine)
            self.assertIn((status, json.loads(data)['reason']), ((409, 'idempotency_conflict'), (403, 'scope_too_narrow')), path)
            self.assertIsNone(head.get('Idempotent-Replayed'))
        self.assertIn('pid', made[0])  # told to scope admin alone
        # Nor the other way: an admin is told more than that.
        box, _ = self.ask('POST', API + '/sandboxes', {}, headers={'Idempotency-Key': 'tenant-1'}, key=mine, want=201)
        self.assertEqual(S.ask('POST', API + '/sandboxes', '{}', {'Idempotency-Key': 'tenant-1', 'Content-Type': 'application/json'})[0], 409)
        for b in made[0], made[1], box:
            self.ask('DELETE', API + '/sandboxes/' + b['id'], want=204)
        self.ask('DELETE', API + '/volumes/told', want=204)

    def test_at_once(self):
        h = {'Idempotency-Key': 'order-3', 'Content-Type': 'application/json'}
        got = []

        def run():
            for _ in range(200):
                status, _, data = S.ask('POST', API + '/sandboxes', '{}', h)
                if status != 409:
                    break
                time.sleep(0.02)
            got.append((status, json.loads(data).get('id')))

        threads = [threading.Thread(target=run) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual({s for s, _ in got}, {201})
        self.assertEqual(len({i for _, i in got}), 1)
        self.ask('DELETE', API + '/sandboxes/' + got[0][1], want=204)


class Jobs(Base):
    def state(self, box):
        return self.ask('GET', API + '/sandboxes/' + box, want=200)[0]['state']

    def test_later(self):
        box = self.ask('POST', API + '/sandboxes', {'auto_resume': True}, want=201)[0]['id']
        first = self.ask('POST', API + '/jobs', {'kind': 'pause', 'sandbox': box, 'in_ms': 600000}, want=201)[0]
        self.ask('POST', API + '/jobs', {'kind': 'pause', 'sandbox': box, 'in_ms': 300}, want=201) # takes its place
        self.assertEqual(self.ask('GET', API + '/jobs/' + first['id'], want=200)[0]['state'], 'canceled')
        self.until(lambda: self.state(box) == 'paused')
        # What cannot be read wakes nobody.
        self.assertEqual(S.ask('POST', API + '/sandboxes/%s/processes/1/signal' % box, '{"signal":"NOPE"}', {'Content-Type': 'application/json'})[0], 400)
        for q in ('output?offset=x', 'output?stream=x', 'wait?timeout_ms=x', 'stream?stdout=x'):
            self.assertEqual(S.ask('GET', API + '/sandboxes/%s/processes/1/%s' % (box, q))[0], 400, q)
        self.assertEqual(self.state(box), 'paused')
        self.assertEqual(self.ask('POST', API + '/sandboxes/%s/run' % box, {'argv': ['true']}, want=200)[0]['code'], 0) # used: it wakes
        self.assertEqual(self.state(box), 'running')
        self.fails('POST', API + '/jobs', 400, 'field_invalid', {'kind': 'dance', 'sandbox': box})
        self.fails('POST', API + '/jobs', 404, 'sandbox_not_found', {'kind': 'kill', 'sandbox': NOT})
        self.fails('POST', API + '/jobs', 400, 'field_invalid', {'kind': 'kill', 'sandbox': box, 'in_ms': 600000, 'due_ms': 5})
        for q, reason in (('limit=x', 'bad_query'), ('limit=0', 'bad_query'), ('state=asleep', 'task_spec')):
            self.fails('GET', API + '/jobs?' + q, 400, reason)
        for verb in ('cancel', 'replay'):
            self.fails('POST', API + '/jobs/jaaaaaaaaaaaaaaaaaaa/' + verb, 404, 'task_not_found')
        later = self.ask('POST', API + '/jobs', {'kind': 'remove', 'sandbox': box, 'in_ms': 600000}, want=201)[0]['id']
        self.fails('POST', API + '/jobs/%s/replay' % later, 409, 'task_state')
        self.assertEqual(self.ask('POST', API + '/jobs/%s/cancel' % later, want=200)[0]['state'], 'canceled')
        self.fails('POST', API + '/jobs/%s/cancel' % later, 409, 'task_state')
        self.assertEqual(self.ask('POST', API + '/jobs/%s/replay' % later, want=200)[0]['state'], 'waiting') # and is due now
        self.until(lambda: S.ask('GET', API + '/sandboxes/' + box)[0] == 404)
        self.until(lambda: self.ask('GET', API + '/jobs/' + later)[0]['state'] == 'done')
        self.assertIn(later, [j['id'] for j in self.ask('GET', API + '/jobs?kind=remove&sandbox=' + box, want=200)[0]['items']])


class Zaudit(Base):
    def test_what_was_done_is_told(self):
        box, head = self.ask('POST', API + '/sandboxes', {}, want=201)
        self.ask('DELETE', API + '/sandboxes/' + box['id'], want=204)
        self.fails('DELETE', API + '/sandboxes/' + box['id'], 404, 'sandbox_not_found')
        self.fails('POST', API + '/sandboxes', 401, 'key_missing', {}, key=None)
        lines = self.ask('GET', API + '/audit?object=' + box['id'], want=200)[0]['items']
        self.assertEqual([(l['action'], l['verdict'], l['actor'], l['status']) for l in lines],
                         [('POST /api/v1/sandboxes', 'ok', 'key:' + S.key[4:12], 201), ('DELETE /api/v1/sandboxes/{id}', 'ok', 'key:' + S.key[4:12], 204),
                          ('DELETE /api/v1/sandboxes/{id}', 'failed', 'key:' + S.key[4:12], 404)])
        self.assertEqual(lines[0]['request'], head['X-Request-Id'])
        last = self.ask('GET', API + '/audit?last=1', want=200)[0]['items'][0]
        self.assertEqual((last['verdict'], last['actor']), ('refused', 'nobody'))
        self.fails('GET', API + '/audit?last=x', 400, 'bad_query')
        proof, _ = self.ask('GET', API + '/audit/proof', want=200)
        self.assertTrue(proof['sound'])
        self.ask('GET', API + '/audit/proof?head=%d:%s' % (proof['last'], proof['head']), want=200)
        self.fails('GET', API + '/audit/proof?head=1', 400, 'audit_head')
        self.assertIn('follow each other', S.cay('audit', 'verify'))
        self.assertIn('127.0.0.1:%d answers' % S.port, S.cay('doctor', '--server'))  # wherever it listens
        path = os.path.join(S.home, 'audit', '00000001.jsonl')
        with open(path) as f:
            text = f.read()
        self.assertNotIn(S.key[12:], text)
        # One word in a line, and a line that is not there: told with its place, by the command as by the server.
        lines = text.splitlines(True)
        for wrong, at in ((lines[:1] + [lines[1].replace('"verdict":"', '"verdict":"x')] + lines[2:], 3), (lines[:1] + lines[2:], 2)):
            with open(path, 'w') as f:
                f.write(''.join(wrong))
            with self.assertRaises(RuntimeError) as caught:
                S.cay('audit', 'verify')
            self.assertRegex(str(caught.exception), r'the audit log was changed: 00000001.jsonl, line %d: [^\n]*\n$' % at)  # and nothing of sandboxes
            proof, _ = self.ask('GET', API + '/audit/proof', want=200)
            self.assertEqual((proof['sound'], 'line %d' % at in proof['why']), (False, True), proof)
        with open(path, 'w') as f:
            f.write(text)
        self.assertTrue(self.ask('GET', API + '/audit/proof', want=200)[0]['sound'])


    def test_tokens_that_a_get_makes_are_told(self):
        status, _, box = S.json('POST', '/sandbox-server/sandboxes/create', {'user_id': 'somebody'})
        self.assertEqual(status, 200, box)
        for path in '/urls', '/status':
            self.assertEqual(S.json('GET', '/sandbox-server/sandboxes/%s%s' % (box['sandbox_id'], path))[0], 200)
        lines = self.ask('GET', API + '/audit?object=' + box['sandbox_id'], want=200)[0]['items']
        self.assertEqual([(l['action'], l['verdict']) for l in lines], [('GET /sandbox-server/sandboxes/{id}/urls', 'ok')])
        self.assertEqual(S.ask('DELETE', '/sandbox-server/sandboxes/' + box['sandbox_id'])[0], 200)


class Zlast(Base):
    def test_every_status_that_is_declared_was_seen(self):
        missing = []
        for _, _, op, _ in DOC.ops:
            if op['tags'][0] in MINE:
                declared = {int(s) for s in op['responses'] if s != 'default'}
                missing += ['%s %d' % (op['operationId'], s) for s in sorted(declared - DOC.seen[op['operationId']])]
        self.assertEqual(missing, [])


class Again(unittest.TestCase):
    """A server that dies between the deed and its answer: whoever asks again with the same Idempotency-Key is told what was made."""

    @staticmethod
    def dead():
        """A server that is no more, as the store names it."""
        return json.dumps({'creator': {'pid': 4194303, 'start': 1, 'space': os.stat('/proc/self/ns/pid').st_ino, 'boot_ms': 1}})

    def rows(self, s, sql, *values):
        db = sqlite3.connect(os.path.join(s.home, 'store.db'), timeout=20)
        with db:
            c = db.execute(sql, values)
            rows, n = c.fetchall(), c.rowcount
        db.close()
        self.assertIn(n, (1, -1))
        return rows

    def forget(self, s, key):
        """As a server leaves it that was killed just before it kept the answer."""
        self.rows(s, "UPDATE answers SET owner=?, status=0, type='', body=x'' WHERE key=?", self.dead(), key)

    def test_what_one_died_at_is_not_another_keys(self):
        with Server(test_api.BUILD) as s:
            h, body = {'Idempotency-Key': 'orphan'}, {'name': 'orphan'}
            self.assertEqual(s.json('POST', API + '/keys', body, h)[0], 201)
            row = lambda: self.rows(s, "SELECT owner, status, body FROM answers WHERE key='orphan'")  # noqa: E731
            self.rows(s, "UPDATE answers SET owner=? WHERE key='orphan'", self.dead())
            before = row()
            status, _, told = s.json('POST', API + '/keys', body, h, key=s.make_key('--scope', 'admin'))
            self.assertEqual((status, told['reason']), (409, 'idempotency_conflict'))
            self.assertEqual(row(), before)
            self.assertEqual(s.json('POST', API + '/keys', body, h)[0], 201)  # who asked then

    def test_without_a_key_no_secret_is_told_again(self):
        with Server(test_api.BUILD) as s:
            bare = os.path.join(s.tmp, 'bare')
            s.stop()
            s.args = ('--dialect', 'native', '--as', 'default', '--listen', 'unix:' + bare)
            s.start()
            s.proc.stdout.readline()
            text = b'POST /keys HTTP/1.1\r\nHost: localhost\r\nIdempotency-Key: bare\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}'
            for _ in range(8):
                for _ in range(8):  # after others who showed one, in every lane
                    self.assertEqual(s.ask('GET', '/health')[0], 200)
                with socket.socket(socket.AF_UNIX) as c:
                    c.settimeout(60)
                    c.connect(bare)
                    c.sendall(text)
                    got = b''
                    while piece := c.recv(4096):
                        got += piece
                self.assertIn(b' 400 ', got.split(b'\r\n')[0])
                self.assertIn(b'"idempotency_key"', got)

    def test_without_a_key_a_host_that_names_a_sandbox_wants_its_token(self):
        with Server(test_api.BUILD) as s:
            bare = os.path.join(s.tmp, 'bare')
            s.stop()
            s.args = ('--dialect', 'e2b', '--as', 'default', '--listen', 'unix:' + bare)
            s.start()
            s.proc.stdout.readline()
            s.cay('tenant', 'create', 'other')
            box = s.json('POST', '/e2b/sandboxes', {'templateID': 'base'}, key=s.make_key('--tenant', 'other'))[2]

            def get(path, host, **more):
                with socket.socket(socket.AF_UNIX) as c:
                    c.settimeout(60)
                    c.connect(bare)
                    c.sendall(('GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n'
                               % (path, host, ''.join('%s: %s\r\n' % kv for kv in more.items()))).encode())
                    return int(c.makefile('rb').read().split()[1])

            for port, path in (('49983', '/envs'), ('49983', '/files?path=/etc/passwd'), ('49999', '/contexts')):
                host = '%s-%s.localhost' % (port, box['sandboxID'])
                self.assertEqual(get(path, host), 401, host)
                self.assertEqual(get(path, host, **{'X-Access-Token': '0' * 64}), 401, host)
                self.assertEqual(get(path, host, **{'X-Access-Token': box['envdAccessToken']}), 200, host)

    def test_tokens_of_e2b_are_sealed(self):
        with Server(test_api.BUILD) as s:
            h, body = {'Idempotency-Key': 'e2b'}, {'templateID': 'base'}
            status, _, first = s.json('POST', '/e2b/sandboxes', body, h)
            self.assertEqual(status, 201, first)
            status, head, again = s.json('POST', '/e2b/sandboxes', body, h)
            self.assertEqual((status, head['Idempotent-Replayed'], again), (201, 'true', first))
            self.assertEqual(s.json('POST', '/e2b/sandboxes', body, h, key=s.make_key('--scope', 'admin'))[0], 409)
            kept = self.rows(s, "SELECT body FROM answers WHERE key='e2b'")[0][0]
            for token in ('envdAccessToken', 'trafficAccessToken'):
                self.assertTrue(first[token])
                self.assertNotIn(first[token].encode(), kept)

    def test_volumes_and_tenants_are_made_once(self):
        with Server(test_api.BUILD) as s:
            for path, body in (('/volumes', {'name': 'shells'}), ('/tenants', {'name': 'crusoe', 'most': {'sandboxes': 3}})):
                h = {'Idempotency-Key': 'k' + path[1:]}
                status, _, first = s.json('POST', API + path, body, h)
                self.assertEqual(status, 201, first)
                self.forget(s, h['Idempotency-Key'])
                status, _, again = s.json('POST', API + path, body, h)
                self.assertEqual((status, again['name'], again['created_ms']), (201, first['name'], first['created_ms']), again)
                status, head, third = s.json('POST', API + path, body, h)
                self.assertEqual((status, head['Idempotent-Replayed'], third), (201, 'true', again))
                # Another's word, or none, does not make it theirs.
                for other in ({}, {'Idempotency-Key': 'other'}):
                    self.assertEqual(s.json('POST', API + path, body, other)[0], 409)
                # One that was there before the request is not what the request made.
                self.forget(s, h['Idempotency-Key'])
                self.assertEqual(s.ask('DELETE', API + path + '/' + body['name'])[0], 204)
                self.assertEqual(s.json('POST', API + path, body)[0], 201)
                self.assertEqual(s.json('POST', API + path, body, h)[0], 409)


if __name__ == '__main__':
    with Server(test_api.BUILD) as S:
        DOC = test_api.Document(S.json('GET', API + '/openapi.json', key=None)[2])
        loader = unittest.TestLoader()
        only = sys.argv[1:]
        suite = loader.loadTestsFromNames(only, sys.modules['__main__']) if only else loader.loadTestsFromModule(sys.modules['__main__'])
        ok = unittest.TextTestRunner(verbosity=1).run(suite).wasSuccessful()
    sys.exit(not ok)
