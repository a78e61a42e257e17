# SPDX-License-Identifier: Apache-2.0
"""The native API's other half: ports, snapshots, changes, volumes, secrets, the network, events, the host."""
import http.server
import json
import os
import pty
import re
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from serve import Server  # noqa: E402
from test_api import BUILD, Document  # noqa: E402

API = '/api/v1'
MINE = {'about', 'ports', 'services', 'snapshots', 'volumes', 'secrets', 'network', 'events'}


class Stream:
    """Events of an SSE answer, one by one."""

    def __init__(self, s, path, headers=None, key=True):
        self.c = s.connection(timeout=20)
        h = dict(headers or {}, Authorization='Bearer ' + (s.key if key is True else key))
        self.c.request('GET', path, headers=h)
        self.r = self.c.getresponse()
        self.status = self.r.status

    def next(self):
        event = {}
        while True:
            line = self.r.readline().decode().rstrip('\n')
            if line.startswith(':') or (not line and not event):
                continue
            if not line:
                return event.get('id'), event.get('event'), json.loads(event['data'])
            name, _, value = line.partition(':')
            event[name] = value[1:] if value.startswith(' ') else value

    def until(self, want):
        while True:
            got = self.next()
            if want(got):
                return got

    def close(self):
        self.c.close()


class Api(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = s = Server(BUILD)
        s.env['CAY_SECRET_KEY'] = os.path.join(s.tmp, 'secret.key')
        s.__enter__()
        try:
            cls.doc = Document(s.json('GET', API + '/openapi.json')[2])
            cls.box = s.json('POST', API + '/sandboxes', {})[2]['id']
        except BaseException:
            s.__exit__()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.s.__exit__()

    def ask(self, method, path, body=None, headers=None, **more):
        """Every answer is what the document says."""
        status, head, data = self.s.ask(method, path, body, headers, **more)
        self.doc.check(method, path, status, head, data)
        return status, head, data

    def jsn(self, method, path, obj=None, **more):
        h = dict(more.pop('headers', {}), **({'Content-Type': 'application/json'} if obj is not None else {}))
        status, head, data = self.ask(method, path, json.dumps(obj) if obj is not None else None, h, **more)
        return status, head, json.loads(data) if data else None

    def call(self, method, path, obj=None, want=200, **more):
        status, _, body = self.jsn(method, API + path, obj, **more)
        self.assertEqual(status, want, body)
        return body

    def stranger(self):
        self.s.cay('tenant', 'create', 'stranger')
        return 'stranger'

    def run_in(self, box, line):
        return self.call('POST', '/sandboxes/%s/run' % box, {'shell': line})

    # -------------------------------------------------------------- ports
    def test_ports(self):
        b = '/sandboxes/' + self.box
        self.call('POST', b + '/processes',
                  {'shell': 'exec python3 -c "\nimport socket\ns = socket.create_server((\'127.0.0.1\', 8000))\nwhile True:\n    c = s.accept()[0]\n    d = c.recv(1 << 16)\n    while d:\n'
                            '        c.sendall(d[::-1])\n        d = c.recv(1 << 16)\n    c.close()"'}, want=201)
        for _ in range(400):
            ports = self.call('GET', b + '/ports')['items']
            if ports:
                break
            time.sleep(0.05)
        self.assertEqual([(p['port'], p['address']) for p in ports], [(8000, '127.0.0.1')])
        with self.s.socket() as c:
            c.sendall(('GET %s%s/ports/8000/connect HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: cay-tcp\r\n\r\nearly' % (API, b, self.s.key)).encode())
            data = b''
            while not data.endswith(b'ylrae'):
                piece = c.recv(4096)
                self.assertTrue(piece, data)
                data += piece
            self.assertTrue(data.startswith(b'HTTP/1.1 101 '), data)
            c.sendall(b'abc')
            self.assertEqual(c.recv(10), b'cba')
            c.shutdown(1)  # the other side hears it, and ends, too
            self.assertEqual(c.recv(10), b'')
        self.assertEqual(self.call('GET', b + '/ports/8000/connect', want=400)['reason'], 'upgrade_missing')
        for port in ('0', '65536', 'x', '-1', '08000x'):
            self.assertEqual(self.call('POST', b + '/ports/%s/expose' % port, {}, want=400)['reason'], 'port_invalid')

    # -------------------------------------------------------------- services
    def test_services(self):
        web = {'command': ['python3', '-m', 'http.server', '8100'], 'port': 8100}
        made = self.call('POST', '/sandboxes', {'services': {'web': web, 'once': {'command': 'true', 'restart': 'no'}, 'never': {'command': 'exec sleep 1000', 'port': 8999}}}, want=201)
        b = '/sandboxes/' + made['id'] + '/services'
        w = self.call('GET', b + '/wait?name=web&timeout_ms=60000')
        self.assertEqual((w['ready'], w['items'][0]['state'], w['items'][0]['port']), (True, 'ready', 8100))
        self.assertFalse(self.call('GET', b + '/wait?timeout_ms=100')['ready'])
        self.assertEqual([u['name'] for u in self.call('GET', b)['items']], ['web', 'once', 'never'])
        self.call('POST', b, {'op': 'stop', 'names': ['web', 'never']})
        self.assertFalse(self.call('GET', b + '/wait?name=web')['ready'])
        self.assertTrue(self.call('GET', b + '/wait?timeout_ms=60000')['ready'])
        self.call('POST', b, {'op': 'start', 'names': ['web']})
        self.assertTrue(self.call('GET', b + '/wait?name=web&timeout_ms=60000')['ready'])
        self.assertEqual(self.call('POST', b, {'op': 'stop', 'names': ['nobody']}, want=404)['reason'], 'service_not_found')
        self.assertEqual(self.call('GET', b + '/wait?name=nobody', want=404)['reason'], 'service_not_found')
        self.call('POST', b, {'op': 'hop'}, want=400)
        self.call('GET', b + '/wait?timeout_ms=x', want=400)
        self.assertEqual(self.call('POST', '/sandboxes', {'services': {'Web': web}}, want=400)['reason'], 'services_invalid')
        self.call('POST', '/sandboxes/%s/kill' % made['id'], {})
        self.call('GET', b, want=409)
        self.call('GET', b + '/wait', want=409)
        self.call('POST', b, {'op': 'stop'}, want=409)

    def test_exposed_ports(self):
        b = '/sandboxes/' + self.box
        e = self.call('POST', b + '/ports/9000/expose', {'ttl_ms': 60000}, want=201)
        self.assertRegex(e['token'], '^cayp_[0-9a-f]{64}$')
        self.assertEqual(e['expires_ms'] - e['created_ms'], 60000)
        self.assertEqual(e['url'], 'http://9000-%s.localhost:%d/' % (self.box, self.s.port))
        listed = [x for x in self.call('GET', b + '/exposed')['items'] if x['port'] == 9000]
        self.assertEqual([sorted(x) for x in listed], [['created_ms', 'expires_ms', 'port', 'url']])
        self.call('DELETE', b + '/ports/9000/expose', want=204)
        self.assertEqual(self.call('DELETE', b + '/ports/9000/expose', want=404)['reason'], 'port_not_exposed')
        self.call('POST', b + '/ports/9000/expose', {'ttl_ms': 8 * 86400000}, want=400)
        self.call('POST', b + '/ports/9000/expose', {'what': 1}, want=400)
        h = {'Idempotency-Key': 'port'}
        one = self.call('POST', b + '/ports/9001/expose', {}, headers=h, want=201)
        self.assertEqual(self.call('POST', b + '/ports/9001/expose', {}, headers=h, want=201), one)
        self.call('POST', b + '/ports/9001/expose', {'ttl_ms': 60000}, headers=h, want=409)

    # -------------------------------------------------------------- snapshots
    def test_snapshots(self):
        box = self.call('POST', '/sandboxes', {}, want=201)['id']
        b = '/sandboxes/' + box
        self.run_in(box, 'echo one > a; echo x > gone')
        one = self.call('POST', b + '/snapshots', {'label': 'first', 'metadata': {'n': 1}}, want=201)
        self.assertEqual((one['sandbox'], one['label'], one['metadata']), (box, 'first', {'n': 1}))
        self.call('POST', b + '/snapshots', {'label': 'first'}, want=409)
        self.run_in(box, 'echo two > a; rm gone; echo new > b')
        two = self.call('POST', b + '/snapshots', {}, want=201)
        self.assertEqual(self.call('GET', '/snapshots/first')['id'], one['id'])
        mine = self.call('GET', '/snapshots?sandbox=' + box)
        self.assertEqual([s['id'] for s in mine['items']], [one['id'], two['id']])
        page = self.call('GET', '/snapshots?limit=1&sandbox=' + box)
        self.call('GET', '/snapshots?after=s' + 'a' * 19, want=404)
        self.assertEqual(self.call('GET', '/snapshots?after=s%s.99999999999999' % ('a' * 19))['items'], [])
        self.assertEqual((len(page['items']), page['next']), (1, '%s.%d' % (one['id'], one['created_ms'])))
        page = self.call('GET', '/snapshots?limit=1&sandbox=%s&after=%s' % (box, page['next']))
        self.assertEqual(([s['id'] for s in page['items']], 'next' in page), ([two['id']], False))
        self.changes(box, one, two)
        self.archives(one)
        since = self.ask('GET', API + '/snapshots/%s/export?since=%s' % (two['id'], one['id']))[2]
        self.assertEqual(self.call('PATCH', '/snapshots/first', {'label': 'erst'})['id'], one['id'])
        self.call('GET', '/snapshots/first', want=404)
        self.call('PATCH', '/snapshots/' + two['id'], {'label': 'erst'}, want=409)
        for wrong in ({}, {'label': 'a b'}, {'label': 'x' * 64}, {'label': None}, {'name': 'first'}):
            self.call('PATCH', '/snapshots/erst', wrong, want=400)
        self.call('PATCH', '/snapshots/nosuch', {'label': 'x'}, want=404)
        self.s.cay('tenant', 'create', 'namers')
        self.call('PATCH', '/snapshots/' + one['id'], {'label': 'x'}, want=404, key=self.s.make_key('--tenant', 'namers'))
        self.assertEqual(self.call('PATCH', '/snapshots/erst', {'label': ''})['label'], '')
        self.assertEqual(self.call('PATCH', '/snapshots/' + one['id'], {'label': 'first'})['label'], 'first')
        # What changed is counted once it is settled, also where the taking counted nothing.
        for _ in range(600):
            if self.call('GET', '/snapshots/' + one['id'])['durable']:
                break
            time.sleep(0.05)
        self.assertGreaterEqual(self.call('GET', '/snapshots/' + one['id'])['files'], 2)
        self.assertEqual(self.call('DELETE', '/snapshots/first'), {'deferred': True})
        self.call('GET', '/snapshots/first', want=404)
        self.call('DELETE', '/snapshots/again')
        status, _, body = self.ask('POST', API + '/snapshots/import', since)
        self.assertEqual((status, json.loads(body)['reason']), (404, 'parent_missing'))
        self.call('DELETE', b, want=204)

    def changes(self, box, one, two):
        got = self.call('GET', '/diff?a=%s&b=%s' % (one['id'], two['id']))['items']
        self.assertEqual([(c['kind'], c['path']) for c in got], [('M', 'a'), ('A', 'b'), ('D', 'gone')])
        self.assertEqual((got[0]['content'], got[0]['new']['size'], got[1]['old'], got[2]['new']), (True, 4, None, None))
        self.assertEqual([c['path'] for c in self.call('GET', '/diff?a=' + box)['items']], ['a', 'b'])
        status, head, patch = self.ask('GET', API + '/diff/patch?a=%s&b=%s' % (one['id'], two['id']))
        self.assertEqual((status, head['Content-Type']), (200, 'text/x-diff'))
        self.assertIn(b'-one\n+two\n', patch)
        self.assertIn('+two', self.call('GET', '/diff?patch=1&a=%s&b=%s' % (one['id'], two['id']))['items'][0]['patch'])
        self.call('GET', '/diff', want=400)
        self.call('GET', '/diff/patch', want=400)
        self.call('GET', '/diff/patch?a=nothing', want=404)
        self.call('GET', '/diff?a=cccccccccccccccccccc', want=404)

    def archives(self, one):
        status, head, data = self.ask('GET', API + '/snapshots/%s/export' % one['id'])
        self.assertEqual(status, 200)
        self.assertTrue(head['X-Cay-Digest'].startswith('sha256:'))
        status, _, body = self.ask('POST', API + '/snapshots/import?label=again', data, {'Content-Type': 'application/octet-stream'})
        back = json.loads(body)
        self.assertEqual((status, back.get('label'), back.get('method')), (201, 'again', 'import'), body)
        self.assertEqual(self.ask('POST', API + '/snapshots/import?label=again', data)[0], 409)
        box = self.call('POST', '/sandboxes', {'from': 'again'}, want=201)['id']
        self.assertEqual(self.run_in(box, 'cat a')['stdout'], 'one\n')
        self.call('DELETE', '/sandboxes/' + box, want=204)
        for bad in (b'', b'no archive', data[:len(data) // 2]):
            self.assertIn(self.ask('POST', API + '/snapshots/import', bad)[0], (400, 413, 502))
        self.assertEqual(self.ask('GET', API + '/snapshots/%s/export?format=zip' % one['id'])[0], 400)

    # -------------------------------------------------------------- volumes, templates, secrets
    def test_volumes(self):
        v = self.call('POST', '/volumes', {'name': 'cache', 'limit': 64 << 20}, want=201)
        self.assertEqual((v['name'], v['limit'], v['users']), ('cache', 64 << 20, []))
        self.call('POST', '/volumes', {'name': 'cache'}, want=409)
        self.call('POST', '/volumes', {}, want=400)
        box = self.call('POST', '/sandboxes', {'volumes': [{'name': 'cache', 'target': '/cache', 'rw': True}]}, want=201)['id']
        self.run_in(box, 'echo kept > /cache/x')
        self.assertEqual(self.call('GET', '/volumes/cache')['users'], [box])
        self.assertIn(self.jsn('DELETE', API + '/volumes/cache')[0], (409, 503))
        self.call('DELETE', '/sandboxes/' + box, want=204)
        self.assertEqual([x['name'] for x in self.call('GET', '/volumes')['items']], ['cache'])
        self.call('DELETE', '/volumes/cache', want=204)
        self.call('GET', '/volumes/cache', want=404)

    def test_templates(self):
        names = [t['name'] for t in self.call('GET', '/templates')['items']]
        self.assertIn('host', names)
        box = self.call('POST', '/sandboxes', {'template': names[0]}, want=201)['id']
        self.call('DELETE', '/sandboxes/' + box, want=204)

    def test_secrets_go_in_and_never_out(self):
        self.call('PUT', '/secrets/TOKEN_A', {'value': 'open sesame'}, want=204)
        self.call('PUT', '/secrets/TOKEN_B', {'value_base64': 'c2VzYW1lIGI='}, want=204)
        listed = self.call('GET', '/secrets')
        self.assertEqual([sorted(x) for x in listed['items']], [['changed_ms', 'name']] * 2)
        self.assertNotIn('sesame', json.dumps(listed))
        for bad in ({}, {'value': 'a', 'value_base64': 'YQ=='}, {'value': 1}, {'value_base64': '!'}):
            body = self.call('PUT', '/secrets/TOKEN_A', bad, want=400)
            self.assertNotIn('sesame', json.dumps(body))
        self.call('GET', '/secrets/TOKEN_A', want=405)
        self.call('DELETE', '/secrets/TOKEN_A', want=204)
        self.call('DELETE', '/secrets/TOKEN_A', want=404)
        self.call('DELETE', '/secrets/TOKEN_B', want=204)

    # -------------------------------------------------------------- the network
    def test_policies(self):
        box = self.call('POST', '/sandboxes', {}, want=201)['id']
        n = '/sandboxes/%s/net' % box
        self.assertEqual(self.call('GET', n)['policy']['mode'], 'off')
        first = self.call('PUT', n, {'mode': 'rules', 'rules': ['example.com', '!evil.example.com'], 'connections': 7})['revision']
        held = self.call('GET', n)
        self.assertEqual((held['policy']['mode'], held['policy']['connections'], held['revision']), ('rules', 7, first))
        self.assertGreater(self.call('POST', n + '/rules', {'rules': ['pypi']})['revision'], first)
        self.assertTrue(self.call('GET', n + '/why?host=pypi.org&port=443')['allow'])
        no = self.call('GET', n + '/why?host=other.test&port=443')
        self.assertEqual((no['allow'], no['reason'], no['port']), (False, 'default_deny', 443))
        for bad in ({'rules': ['http:///']}, {'mode': 'some'}, {'what': 1}, {'mode': 'off', 'rules': ['a.test']}):
            self.call('PUT', n, bad, want=400)
        self.call('POST', n + '/rules', {}, want=400)
        self.call('GET', n + '/why', want=400)
        self.call('GET', n + '/why?host=a&port=99999', want=400)
        self.assertIn('pypi', self.call('GET', '/net/presets'))
        self.network_log(box, n)
        self.call('DELETE', '/sandboxes/' + box, want=204)

    def network_log(self, box, n):
        ask = 'python3 -c "import socket\ntry:\n socket.getaddrinfo(\'%s.refused.test\', 443)\nexcept OSError: pass"'
        self.run_in(box, ask % 'one')
        for _ in range(100):
            got = [x for x in self.call('GET', n + '/log?denied=1')['items'] if x.get('name') == 'one.refused.test']
            if got:
                break
            time.sleep(0.05)
        self.assertTrue(got)
        self.assertEqual(len(self.call('GET', n + '/log?count=1')['items']), 1)
        live = Stream(self.s, API + n + '/log?follow=1&denied=1')
        live.until(lambda e: e[1] == 'record' and e[2].get('name') == 'one.refused.test')
        self.run_in(box, ask % 'two')
        live.until(lambda e: e[1] == 'record' and e[2].get('name') == 'two.refused.test')
        live.close()

    # -------------------------------------------------------------- events
    def test_events_go_on_where_they_were(self):
        live = Stream(self.s, API + '/events?kind=created&kind=removed')
        self.assertEqual(live.status, 200)
        a = self.call('POST', '/sandboxes', {}, want=201)['id']
        at, kind, data = live.until(lambda e: e[2].get('sandbox') == a)
        self.assertEqual((kind, data['kind'], sorted(data)), ('created', 'created', ['code', 'kind', 'process', 'reason', 'sandbox', 'seq', 'time_ms']))
        live.close()
        b = self.call('POST', '/sandboxes', {}, want=201)['id']
        self.call('DELETE', '/sandboxes/' + a, want=204)
        again = Stream(self.s, API + '/events?kind=created&kind=removed', {'Last-Event-ID': at})
        seen = [again.next()[1:] for _ in range(2)]
        self.assertEqual([(k, d['sandbox']) for k, d in seen], [('created', b), ('removed', a)])
        again.close()
        old = Stream(self.s, API + '/events', {'Last-Event-ID': '00000000.17'})
        self.assertEqual(old.next()[1], 'lost')
        old.close()
        self.call('GET', '/events?after=nonsense', want=400)
        self.call('DELETE', '/sandboxes/' + b, want=204)

    def test_what_happened_before_somebody_listened(self):
        self.s.cay('tenant', 'create', 'late')
        key = self.s.make_key('--scope', 'tenant', '--tenant', 'late')
        Stream(self.s, API + '/events').close()  # from the first listener on it is kept
        mine = self.call('POST', '/sandboxes', {}, want=201, key=key)['id']
        other = self.call('POST', '/sandboxes', {}, want=201)['id']
        self.run_in(other, 'exit 4')
        # It is kept when it was heard, which is a moment later.
        live = Stream(self.s, API + '/sandboxes/%s/events?after=0' % other)
        _, _, end = live.until(lambda e: e[1] == 'exit')
        self.assertEqual((end['code'], end['sandbox']), (4, other))
        live.close()
        late = Stream(self.s, API + '/events?after=0')
        seen = []
        at, _, _ = late.until(lambda e: seen.append(e[2]) or e[1] == 'now')
        self.assertTrue({mine, other} <= {e.get('sandbox') for e in seen})
        self.assertIn(('exit', 4), [(e['kind'], e.get('code')) for e in seen])
        new = self.call('POST', '/sandboxes', {}, want=201)['id']
        self.assertEqual(late.until(lambda e: e[1] == 'created')[2]['sandbox'], new)
        late.close()
        again = Stream(self.s, API + '/events?kind=created', {'Last-Event-ID': at})
        self.assertEqual(again.next()[2]['sandbox'], new)
        again.close()
        theirs, seen = Stream(self.s, API + '/events?after=0', key=key), []
        theirs.until(lambda e: seen.append(e[2]) or e[1] == 'now')
        self.assertEqual({e['sandbox'] for e in seen if e.get('sandbox')}, {mine})
        theirs.close()
        self.call('DELETE', '/sandboxes/' + mine, want=204, key=key)
        for x in (other, new):
            self.call('DELETE', '/sandboxes/' + x, want=204)

    def test_a_snapshot_is_told_whoever_took_it(self):
        box = self.call('POST', '/sandboxes', {}, want=201)['id']
        live, one = Stream(self.s, API + '/events?kind=snapshot'), Stream(self.s, API + '/sandboxes/%s/events?kind=snapshot' % box)
        taken = [re.search('s[a-z2-7]{19}', self.s.cay('snapshot', box)).group(), self.call('POST', '/sandboxes/%s/snapshots' % box, {}, want=201)['id']]
        for stream in (live, one):
            for want in taken:
                _, _, e = stream.until(lambda x: x[2].get('snapshot') == want)
                self.assertEqual((e['sandbox'], e['kind'], e['reason']), (box, 'snapshot', 'swap'))
        # The newest is forgotten: whoever draws them is told, and what comes after it is told again.
        self.call('DELETE', '/snapshots/' + taken[1], want=200)
        live.until(lambda x: x[2]['reason'] == 'removed' and x[2]['snapshot'] == taken[1])
        later = self.call('POST', '/sandboxes/%s/snapshots' % box, {}, want=201)['id']
        live.until(lambda x: x[2].get('snapshot') == later)
        live.close()
        one.close()
        self.call('DELETE', '/sandboxes/' + box, want=204)

    def test_how_far_a_manifest_is(self):
        """Told to who listens, to no other tenant, and by the key of the request."""
        self.s.cay('tenant', 'create', 'builders')
        key = self.s.make_key('--scope', 'tenant', '--tenant', 'builders')
        live, theirs = Stream(self.s, API + '/events?kind=progress'), Stream(self.s, API + '/events?kind=progress', key=key)

        def made(word, **how):
            files = {'f%d' % i: {'type': 'file', 'content': word * 100} for i in range(50)}
            return self.s.json('POST', API + '/sandboxes', {'manifest': {'entries': files}}, {'Idempotency-Key': word}, **how)[2]['id']
        boxes = [made('mine'), made('their', key=key)]
        _, kind, e = live.until(lambda e: e[2]['entries'] == e[2]['entries_total'])
        self.assertEqual((kind, e['key'], e['reason'], e['entries'], e['bytes'], e['bytes_total']), ('progress', 'mine', 'manifest', 50, 20000, 20000), e)
        self.assertEqual(theirs.next()[2]['key'], 'their')
        live.close()
        theirs.close()
        for box in boxes:
            self.s.json('DELETE', API + '/sandboxes/' + box)

    def test_a_command_shows_how_far_it_is(self):
        """`cay --host create` has its bar from the server's events; a server that says nothing changes nothing."""
        said = threading.Event()

        class Far(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'
            key, begun = None, threading.Event()

            def log_message(self, *a):
                pass

            def answer(self, status, body):
                self.send_response(status)
                self.send_header('Content-Type', 'application/json')
                self.send_header('Content-Length', str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_GET(self):
                if not self.path.startswith(API + '/events?kind=progress'):
                    return self.answer(404, b'{}')
                self.send_response(200)
                self.send_header('Content-Type', 'text/event-stream')
                self.send_header('Connection', 'close')
                self.end_headers()
                self.wfile.flush()
                Far.begun.wait(20)
                for n in (1, 4, 7):  # a bar shows nothing of what is done at once
                    for whose in (Far.key, 'another'):
                        e = {'key': whose, 'entries': n, 'entries_total': 8, 'bytes': (n if whose == Far.key else 8) << 20, 'bytes_total': 8 << 20}
                        self.wfile.write(b'event: progress\ndata: ' + json.dumps(e).encode() + b'\n\n')
                    self.wfile.flush()
                    time.sleep(0.4)
                said.set()

            def do_POST(self):
                self.rfile.read(int(self.headers['Content-Length']))
                Far.key = self.headers['Idempotency-Key']
                Far.begun.set()
                said.wait(20)
                self.answer(201, b'{"id":"caaaaaaaaaaaaaaaaaaa","state":"running"}')
        with http.server.ThreadingHTTPServer(('127.0.0.1', 0), Far) as far, tempfile.NamedTemporaryFile('w', suffix='.json') as m:
            threading.Thread(target=far.serve_forever, daemon=True).start()
            m.write('{"entries":{"f":{"type":"file","content":"x"}}}')
            m.flush()
            env = dict(self.s.env, CAY_HOME=self.s.tmp + '/of-the-command', CAY_HOST='http://127.0.0.1:%d' % far.server_port, CAY_API_KEY='k', TERM='xterm')
            main, sub = pty.openpty()
            p = subprocess.Popen([os.path.join(BUILD, 'cay'), 'create', '--manifest', m.name], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=sub)
            os.close(sub)
            drawn = b''
            try:
                while piece := os.read(main, 65536):
                    drawn += piece
            except OSError:  # its end
                pass
            os.close(main)
            out = p.communicate(timeout=30)[0]
            far.shutdown()
        self.assertEqual((p.returncode, out.split()), (0, [b'caaaaaaaaaaaaaaaaaaa']), drawn)
        self.assertRegex(drawn, rb'\[#+\.+\] [47](\.0)? MiB of 8')
        self.assertNotIn(b'] 8', drawn)

    def test_events_of_one_sandbox(self):
        box = self.call('POST', '/sandboxes', {}, want=201)['id']
        live = Stream(self.s, API + '/sandboxes/%s/events' % box)
        other = self.call('POST', '/sandboxes', {}, want=201)['id']
        self.run_in(other, 'true')
        self.run_in(box, 'exit 3')
        _, kind, data = live.until(lambda e: e[1] == 'exit')
        self.assertEqual((data['sandbox'], data['code']), (box, 3))
        live.close()
        for x in (box, other):
            self.call('DELETE', '/sandboxes/' + x, want=204)

    def test_a_tenant_hears_of_its_own(self):
        self.s.cay('tenant', 'create', 'ears')
        key = self.s.make_key('--scope', 'tenant', '--tenant', 'ears')
        live = Stream(self.s, API + '/events?kind=created', key=key)
        self.call('DELETE', '/sandboxes/' + self.call('POST', '/sandboxes', {}, want=201)['id'], want=204)
        mine = self.call('POST', '/sandboxes', {}, want=201, key=key)['id']
        self.assertEqual(live.next()[2]['sandbox'], mine)
        live.close()
        self.call('DELETE', '/sandboxes/' + mine, want=204, key=key)

    def test_many_listen(self):
        streams = [Stream(self.s, API + '/events?kind=created') for _ in range(20)]
        box = self.call('POST', '/sandboxes', {}, want=201)['id']
        found = []

        def wait(one):
            one.until(lambda e: e[2].get('sandbox') == box)
            found.append(1)
        threads = [threading.Thread(target=wait, args=(x,)) for x in streams]
        for t in threads:
            t.start()
        for t in threads:
            t.join(20)
        self.assertEqual(len(found), 20)
        for x in streams:
            x.close()
        self.call('DELETE', '/sandboxes/' + box, want=204)

    # -------------------------------------------------------------- commands in sessions (docs/wire/cloudflare.md)
    def session(self, box, line, name, key, **body):
        c = self.s.connection(timeout=90)
        c.request('POST', '/cloudflare/v1/sandbox/%s/exec' % box, json.dumps(dict({'argv': ['eval', line]}, **body)),
                  {'Authorization': 'Bearer ' + key, 'Content-Type': 'application/json', 'Session-Id': name})
        return c, c.getresponse()

    def test_one_tenant_has_not_all_the_sessions(self):
        self.s.cay('tenant', 'create', 'talker')
        key = self.s.make_key('--tenant', 'talker')
        box = self.s.json('POST', API + '/sandboxes', {}, key=key)[2]['id']
        open_ = [self.session(box, 'sleep 300', 'one', key) for _ in range(32)]
        self.assertEqual({r.status for _, r in open_}, {200})
        c, r = self.session(box, 'true', 'two', key)
        self.assertEqual(r.status, 503, r.read())
        c.close()
        c, r = self.session(self.box, 'echo mine', 'mine', self.s.key)
        self.assertEqual((r.status, b'bWluZQo=' in r.read()), (200, True))
        c.close()
        for c, r in open_:
            r.close()
            c.close()
        for _ in range(600):  # who left takes its command along
            c, r = self.session(box, 'true', 'two', key)
            c.close()
            if r.status == 200:
                break
            time.sleep(0.1)
        self.assertEqual(r.status, 200)
        self.s.json('DELETE', API + '/sandboxes/' + box, key=key)

    def test_time_of_a_command_in_a_session_ends_though_nobody_reads(self):
        c, r = self.session(self.box, 'yes', 'full', self.s.key, timeout_ms=1000)
        self.assertEqual(r.status, 200)
        d, other = self.session(self.box, 'echo free', 'full', self.s.key)  # the same shell, so after it
        self.assertIn(b'ZnJlZQo=', other.read())
        d.close()
        events = r.read().decode().split('\n\n')  # what was told before is whole, and so is the end
        self.assertTrue(events[-2].startswith('event: error\n'), events[-2][:200])
        kinds = {e.split('\n')[0] for e in events[:-2] if e and e[0] != ':'}
        self.assertIn('event: stdout', kinds)
        self.assertLessEqual(kinds, {'event: stdout', 'event: stderr'})  # yes may still say why it could not write
        c.close()

    # -------------------------------------------------------------- the host
    def test_the_host(self):
        v = self.call('GET', '/version', key=None)
        self.assertEqual(v['api'], 'v1')
        self.assertEqual(self.call('GET', '/openapi.json', key=None)['openapi'], '3.1.0')
        self.assertGreaterEqual(self.call('POST', '/gc')['removed'], 0)
        self.assertIn('items', self.call('GET', '/usage/past'))
        self.assertEqual(self.jsn('GET', API + '/usage/past?since_ms=x')[0], 400)
        self.assertEqual(self.jsn('GET', API + '/usage/past', key=self.s.make_key('--scope', 'tenant'))[0], 403)
        d = self.call('GET', '/doctor')
        self.assertTrue(d['layers'] and d['isolation'] and d['kernel'] and d['home'] == self.s.home)
        self.assertTrue(d['time_ms'] > 1.6e12 and 0 <= d['took_us'] < 60e6, d)
        tenant = self.s.make_key('--scope', 'tenant')
        self.assertNotIn('home', self.call('GET', '/doctor', key=tenant))
        # What anybody may ask for is not measured for each of them.
        self.assertEqual({self.call('GET', '/doctor', key=tenant)['spawn_us'] for _ in range(4)}, {d['spawn_us']})
        before = {x['id'] for x in self.call('GET', '/sandboxes?limit=1000')['items']}
        self.assertEqual([x['id'] for x in self.call('GET', '/sandboxes?id=%s&id=c%s' % (self.box, 'a' * 19))['items']], [self.box])  # what is not there is left out
        self.assertEqual(self.call('GET', '/sandboxes?id=' + self.box, key=self.s.make_key('--tenant', self.stranger()))['items'], [])
        self.assertEqual([self.jsn('GET', API + '/sandboxes?id=' + x)[0] for x in ('nobody', self.box + '&id=c' * 100)], [400, 400])
        speed = self.call('POST', '/doctor/speed', {})
        self.assertTrue(all(speed[k] > 0 for k in ('create_us', 'exec_us', 'remove_us', 'spawn_us')), speed)
        self.assertEqual({x['id'] for x in self.call('GET', '/sandboxes?limit=1000')['items']}, before)  # nothing stays
        self.assertEqual(self.jsn('POST', API + '/doctor/speed', {}, key=tenant)[0], 403)
        walls = self.call('POST', '/doctor/walls', {})
        layers = json.loads(self.s.cay('inspect', self.box))['layers']
        on = {x['name'] for x in layers if x['state'] == 'on'}
        self.assertGreaterEqual(len(walls['checks']), 12)
        self.assertEqual([c for c in walls['checks'] if c['name'] in on and not c['ok']], [])  # what is said to be on shows itself
        soft = {x['name'] for x in layers if x['state'] != 'on'}
        self.assertEqual([c for c in walls['checks'] if c['name'] in soft and c['ok']], [])  # and what is not, does not
        self.assertTrue(all(c['found'] for c in walls['checks']) and sum(c['took_us'] for c in walls['checks']) > 0, walls)
        self.assertEqual({x['id'] for x in self.call('GET', '/sandboxes?limit=1000')['items']}, before)
        self.assertEqual(self.jsn('POST', API + '/doctor/walls', {}, key=tenant)[0], 403)
        paths = self.call('GET', '/openapi.json', key=None)['paths']
        self.assertEqual(['dempotency' in json.dumps(paths[p]['post']) for p in ('/sandboxes', '/doctor/speed')], [True, False])  # each time anew
        self.assertEqual(self.jsn('GET', API + '/doctor?provider=nowhere')[0], 404)
        u = self.call('GET', '/usage', key=tenant)
        self.assertEqual(u['tenant'], 'default')
        self.assertGreater(u['used']['sandboxes'], 0)
        self.assertEqual(self.jsn('GET', API + '/usage?tenant=nobody')[0], 404)


    def test_ya_wrong_things(self):
        none = '/sandboxes/c' + 'a' * 19
        for method, path, body in (('GET', '/ports', None), ('GET', '/ports/80/connect', None), ('POST', '/ports/80/expose', {}), ('DELETE', '/ports/80/expose', None), ('GET', '/exposed', None), ('GET', '/manifest', None), ('GET', '/services', None), ('GET', '/services/wait', None), ('POST', '/services', {'op': 'stop'}),
                                   ('POST', '/snapshots', {}), ('POST', '/secrets/renew', {}), ('PUT', '/secrets', {'secrets': []}), ('GET', '/net', None), ('PUT', '/net', {}), ('POST', '/net/rules', {'rules': []}),
                                   ('GET', '/net/why?host=a', None), ('GET', '/net/log', None), ('GET', '/events', None), ('GET', '/endpoints', None), ('GET', '/ports/80/endpoint', None)):
            more = {'headers': {'Connection': 'Upgrade', 'Upgrade': 'cay-tcp'}} if 'connect' in path else {}
            status, _, data = self.ask(method, API + none + path, json.dumps(body) if body is not None else None, dict({'Content-Type': 'application/json'}, **more.get('headers', {})))
            self.assertEqual(status, 404, (method, path, data))
        b = '/sandboxes/' + self.box
        for method, path, body in (('GET', '/snapshots?limit=0', None), ('GET', '/snapshots?after=x', None), ('GET', '/volumes/a%20b', None), ('DELETE', '/volumes/a%20b', None), ('DELETE', '/secrets/a%20b', None),
                                   ('GET', b + '/net/log?count=x', None), ('GET', b + '/events?after=x', None), ('DELETE', b + '/ports/x/expose', None), ('POST', b + '/snapshots', {'label': 'a b'}),
                                   ('GET', '/snapshots?label=%zz', None), ('POST', b + '/net/rules', {'rules': ['://']})):
            self.call(method, path, body, want=400)
        self.assertEqual(self.call('GET', b + '/endpoints', want=200)['items'], [])  # native publishes none
        self.call('GET', b + '/ports/80/endpoint', want=404)
        self.call('GET', b + '/ports/x/endpoint', want=400)
        for path in ('/volumes/nothing', '/snapshots/nothing'):
            self.call('DELETE', path, want=404)
        self.call('GET', '/snapshots/nothing/export', want=404)

    def test_yb_other_secrets(self):
        for name in ('BIND_A', 'BIND_B'):
            self.call('PUT', '/secrets/' + name, {'value': 'sesame'}, want=204)
        use = lambda name, to, source=None: {'name': name, 'source': source or 'store:' + name, 'destination': to}
        box = self.call('POST', '/sandboxes', {'net': ['example.com', 'evil.test'], 'secrets': [use('BIND_A', 'example.com')]}, want=201)['id']
        b = '/sandboxes/' + box
        bound = lambda: [(x['name'], x['destination'].split(',')[0]) for x in self.call('GET', b + '/net')['policy'].get('bindings', [])]
        self.call('PUT', b + '/secrets', {'secrets': [use('BIND_B', 'example.com')]}, want=204)
        self.assertEqual([name for name, _ in bound()], ['BIND_B'])
        policy = self.call('GET', b + '/net')['policy']
        self.call('PUT', b + '/secrets', {'secrets': [use('BIND_B', 'elsewhere.test')]}, want=400)  # no rule leads there
        self.call('PUT', b + '/secrets', {}, want=400)
        self.assertEqual(self.call('GET', b + '/net')['policy'], policy)  # all or nothing
        # Who says where a secret goes can have it: a key of the sandbox may not, by either way.
        key = self.call('POST', '/keys', {'scope': 'sandbox', 'sandbox': box}, want=201)['key']
        tenant = self.call('POST', '/keys', {'scope': 'tenant', 'tenant': 'default'}, want=201)['key']
        self.call('PUT', b + '/secrets', {'secrets': []}, key=key, want=403)
        self.call('PUT', b + '/secrets', {'secrets': [use('BIND_B', 'example.com', 'file:/etc/shadow')]}, key=tenant, want=403)
        self.call('PUT', b + '/net', dict(policy, bindings=[dict(policy['bindings'][0], destination='evil.test')]), key=key, want=403)
        headers = {'denyOut': ['0.0.0.0/0'], 'allowOut': ['evil.test'], 'rules': {'evil.test': [{'transform': {'headers': {'X-A': '${e2b.secrets.any}'}}}]}}
        self.assertEqual(self.jsn('PUT', '/e2b/sandboxes/%s/network' % box, headers, key=key)[0], 403)
        self.assertEqual(self.call('GET', b + '/net')['policy'], policy)
        self.call('PUT', b + '/net', policy, key=key)  # as they are
        self.call('PUT', b + '/net', dict(policy, bindings=[]), key=key)
        self.call('PUT', b + '/secrets', {'secrets': [], 'net': {'mode': 'off'}}, key=tenant, want=204)
        self.assertEqual((bound(), self.call('GET', b + '/net')['policy']['mode']), ([], 'off'))
        self.call('DELETE', b, want=204)
        for name in ('BIND_A', 'BIND_B'):
            self.call('DELETE', '/secrets/' + name, want=204)

    def test_yc_a_stopped_one(self):
        self.call('PUT', '/secrets/TOKEN_C', {'value': 'sesame c'}, want=204)
        b = '/sandboxes/' + self.call('POST', '/sandboxes', {'net': ['example.com'], 'secrets': [{'name': 'TOKEN_C', 'source': 'store:TOKEN_C', 'destination': 'example.com'}]}, want=201)['id']
        self.call('POST', b + '/secrets/renew', {}, want=204)
        self.call('POST', b + '/kill', {})
        self.call('GET', b + '/ports', want=409)
        self.assertEqual(self.ask('GET', API + b + '/ports/80/connect', None, {'Connection': 'Upgrade', 'Upgrade': 'cay-tcp'})[0], 409)
        self.call('POST', b + '/secrets/renew', {}, want=409)
        self.assertEqual(self.call('PUT', b + '/net', {'mode': 'all'})['revision'], 0)
        self.assertEqual(self.call('GET', b + '/net')['policy']['mode'], 'all')
        self.call('DELETE', b, want=204)
        self.call('DELETE', '/secrets/TOKEN_C', want=204)

    def test_zz_every_status_that_is_declared_was_seen(self):
        missing = []  # streams and upgrades are looked at by hand
        for method, _, op, _ in self.doc.ops:
            if op.get('tags', [''])[0] in MINE:
                for status in op['responses']:
                    if status != 'default' and 'text/event-stream' not in op['responses'][status].get('content', {}) and int(status) not in {101} | self.doc.seen[op['operationId']]:
                        missing.append('%s %s' % (op['operationId'], status))
        elsewhere = {'getEndpoint 200', 'getEndpoint 502'}  # only an engine publishes ports: tests/docker
        self.assertEqual(set(missing) - elsewhere, set(), missing)


if __name__ == '__main__':
    unittest.main()
