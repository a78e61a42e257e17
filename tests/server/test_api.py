# SPDX-License-Identifier: Apache-2.0
"""The native API: every operation with every status that its document declares, and nothing that it does not."""
import base64
import http.client
import io
import json
import os
import re
import sqlite3
import sys
import tarfile
import threading
import time
import unittest
from urllib.parse import quote

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve import Server  # noqa: E402

BUILD = sys.argv.pop(1)
API = '/api/v1'
COMMON = {401, 403, 405, 413, 415, 429, 431, 500, 501, 502, 503, 504, 507}  # the document's "default"
MINE = {'sandboxes', 'processes', 'shells', 'files'}


class Document:
    """Checks each answer against the document, and remembers what was seen."""

    def __init__(self, doc):
        self.doc = doc
        self.ops = []
        self.seen = {}
        for path, methods in doc['paths'].items():
            pattern = re.compile('^' + re.sub(r'\{[^}]*\}', '[^/]+', path) + '$')
            for method, op in methods.items():
                self.ops.append((method.upper(), pattern, op, path.count('{')))
                self.seen[op['operationId']] = set()
        self.ops.sort(key=lambda o: o[3])

    def find(self, method, path):
        path = path[len(API):].split('?')[0]
        for m, pattern, op, _ in self.ops:
            if m == method and pattern.match(path):
                return op
        return None

    def fits(self, value, schema, where):
        if '$ref' in schema:
            schema = self.doc['components']['schemas'][schema['$ref'].rsplit('/', 1)[1]]
        if 'oneOf' in schema:
            for s in schema['oneOf']:
                try:
                    return self.fits(value, s, where)
                except AssertionError:
                    pass
            raise AssertionError('%s: %r is none of %r' % (where, value, schema['oneOf']))
        if 'const' in schema:
            assert value == schema['const'], where
        if 'enum' in schema:
            assert value in schema['enum'], '%s: %r' % (where, value)
        kinds = {'object': dict, 'array': list, 'string': str, 'integer': int, 'boolean': bool, 'null': type(None)}
        if isinstance(schema.get('type'), str):
            assert isinstance(value, kinds[schema['type']]), '%s: %r is no %s' % (where, value, schema['type'])
        if isinstance(value, list):
            for i, v in enumerate(value):
                self.fits(v, schema.get('items', {}), '%s[%d]' % (where, i))
        if isinstance(value, dict):
            props = schema.get('properties', {})
            for name in schema.get('required', []):
                assert name in value, '%s.%s is missing' % (where, name)
            for k, v in value.items():
                if k in props:
                    self.fits(v, props[k], where + '.' + k)
                else:
                    more = schema.get('additionalProperties', True)
                    assert more is not False, '%s.%s is not declared' % (where, k)
                    if isinstance(more, dict):
                        self.fits(v, more, where + '.' + k)

    def check(self, method, path, status, head, body):
        op = self.find(method, path)
        if not op:
            return
        declared = op['responses']
        assert str(status) in declared or status in COMMON, '%s %s: %d is not declared' % (method, path, status)
        self.seen[op['operationId']].add(status)
        content = declared.get(str(status), declared['default']).get('content')
        if not content:
            assert not body, '%s %s: a body with %d' % (method, path, status)
            return
        kind = head.get_content_type()
        assert kind in content, '%s %s: %s is not declared' % (method, path, kind)
        if kind.endswith('json'):
            self.fits(json.loads(body), content[kind]['schema'], op['operationId'])


class Base(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = S
        cls.box = BOX

    def ask(self, method, path, body=None, headers=None, key=True):
        status, head, data = self.s.ask(method, path, body, headers, key)
        DOC.check(method, path, status, head, data)
        return status, head, data

    def json(self, method, path, obj=None, headers=None, key=True, want=None):
        h = dict(headers or {})
        if obj is not None:
            h.setdefault('Content-Type', 'application/json')
        status, head, data = self.ask(method, path, json.dumps(obj) if obj is not None else None, h, key)
        value = json.loads(data) if data else None
        if want:
            self.assertEqual(status, want, value)
        return value

    def fails(self, method, path, status, reason, obj=None, key=True):
        p = self.json(method, path, obj, key=key, want=status)
        self.assertEqual(p['reason'], reason, p)
        return p

    def path(self, rest):
        return API + '/sandboxes/' + self.box + rest

    def run_in(self, line, **more):
        return self.json('POST', self.path('/run'), dict(shell=line, **more), want=200)

    def until(self, what, seconds=20):
        end = time.time() + seconds
        while not what():
            self.assertLess(time.time(), end, 'it did not come')
            time.sleep(0.02)


with open(os.path.join(BUILD, 'cay-server'), 'rb') as f:
    SANITIZED = b'__asan_init' in f.read()
NOT = 'caaaaaaaaaaaaaaaaaaa'


class Sandboxes(Base):
    def make(self, **spec):
        b = self.json('POST', API + '/sandboxes', spec, want=201)
        self.addCleanup(self.s.ask, 'DELETE', API + '/sandboxes/' + b['id'])
        return b

    def test_create_tells_what_was_asked_for(self):
        b = self.make(name='n', hostname='h', labels={'k': 'v'}, metadata={'a': [1, {'b': None}]}, limits={'memory': 1 << 28, 'pids': 50, 'io_read': 'unlimited'},
                      ttl_ms=3600000, idle_ms=600000, on_expiry='pause', env={'X': 'y z'}, auto_resume=True)
        got = self.json('GET', API + '/sandboxes/' + b['id'], want=200)
        for k, v in dict(name='n', hostname='h', labels={'k': 'v'}, metadata={'a': [1, {'b': None}]}, idle_ms=600000, on_expiry='pause', auto_resume=True).items():
            self.assertEqual(got[k], v)
        self.assertEqual((got['limits']['memory'], got['limits']['pids']), (1 << 28, 50))
        r = self.json('POST', API + '/sandboxes/%s/run' % b['id'], {'shell': 'echo "$X"; hostname'}, want=200)
        self.assertEqual(r['stdout'], 'y z\nh\n')

    def test_create_refuses_what_it_does_not_know(self):
        for body, reason, field in (({'nam': 'x'}, 'field_unknown', 'nam'), ({'limits': {'memory': -1}}, 'field_invalid', 'limits.memory'),
                                    ({'limits': {'mem': 1}}, 'field_unknown', 'limits.mem'), ({'env': {'A': 1}}, 'field_invalid', 'env.A'),
                                    ({'mounts': [{'source': '/tmp'}]}, 'field_missing', 'mounts[0].target'), ({'ttl_ms': 1.5}, 'field_invalid', 'ttl_ms'),
                                    ({'on_expiry': 'explode'}, 'field_invalid', 'on_expiry'), ({'require': 'x'}, 'field_invalid', 'require'),
                                    ({'name': 'a\0b'}, 'field_invalid', 'name'), ({'metadata': []}, 'field_invalid', 'metadata')):
            p = self.fails('POST', API + '/sandboxes', 400, reason, body)
            self.assertEqual(p['info']['field'], field)
        self.fails('POST', API + '/sandboxes', 400, 'field_invalid', {'net': ['pypi', 3]})
        self.assertEqual(self.json('POST', API + '/sandboxes', {'from': 'nothing-there'})['status'], 404)
        self.assertEqual(self.json('POST', API + '/sandboxes', {'isolation': 'vm'})['status'], 422)

    def test_what_reaches_into_the_host_is_the_operators(self):
        key = self.s.make_key('--scope', 'tenant')
        for body in ({'root': '/'}, {'on': '/tmp'}, {'mounts': [{'source': '/etc', 'target': '/x'}]}, {'provider': 'local'}, {'provider': 'process'}, {'isolation': 'none'},
                     {'secrets': [{'name': 'A', 'source': 'env:PATH', 'destination': 'x.example'}], 'net': ['x.example']}, {'tenant': 'other'}):
            self.fails('POST', API + '/sandboxes', 403, 'admin_only', body, key=key)
        got = self.json('GET', self.path(''), want=200, key=key)
        self.assertFalse({'pid', 'path'} & set(got))

    def test_the_same_idempotency_key_is_the_same_sandbox(self):
        h = {'Idempotency-Key': 'once-%d' % time.time_ns()}
        a = self.json('POST', API + '/sandboxes', {}, h, want=201)
        b = self.json('POST', API + '/sandboxes', {}, h, want=201)
        self.addCleanup(self.s.ask, 'DELETE', API + '/sandboxes/' + a['id'])
        self.assertEqual(a['id'], b['id'])

    def test_list_filters_and_goes_on(self):
        ids = [self.make(labels={'set': 'page', 'i': str(i)}, metadata={'n': i, 'of': 'page'})['id'] for i in range(3)]
        got, after = [], ''
        for _ in range(5):
            page = self.json('GET', API + '/sandboxes?label=set=page&state=running&state=paused&limit=2' + after, want=200)
            got += [b['id'] for b in page['items']]
            if 'next' not in page:
                break
            after = '&after=' + page['next']
        self.assertEqual(got, ids)
        one = self.json('GET', API + '/sandboxes?label=set%3Dpage&label=i=1', want=200)
        self.assertEqual([b['id'] for b in one['items']], [ids[1]])
        for want, found in (('{"n":2}', ids[2:]), ('{"of":"page","n":0}', ids[:1]), ('{"n":"2"}', [])):
            some = self.json('GET', API + '/sandboxes?label=set%3Dpage&metadata=' + quote(want), want=200)
            self.assertEqual([b['id'] for b in some['items']], found)
        for q in ('limit=0', 'limit=1001', 'limit=x', 'state=asleep', 'label=x', 'after=nothing', 'metadata=x', 'metadata=%5B%5D'):
            self.fails('GET', API + '/sandboxes?' + q, 400, 'bad_query')
        self.fails('GET', API + '/sandboxes?after=' + NOT, 404, 'sandbox_not_found')

    def test_boot_id_is_the_sandboxs_own_and_new_at_each_start(self):
        with open('/proc/sys/kernel/random/boot_id') as f:
            seen = {f.read().strip()}
        specs = [{}, {'idle_ms': 600000}]
        if S.apart: # it would be asked by a worker inside, which counts as use
            self.assertNotIn('boot_id', self.json('GET', API + '/sandboxes/' + self.make(**specs.pop())['id'], want=200))
        for p in [API + '/sandboxes/' + self.make(**spec)['id'] for spec in specs]:
            for start in range(2):
                own = self.json('GET', p, want=200)['boot_id']
                self.assertNotIn(own, seen)
                seen.add(own)
                r = self.json('POST', p + '/run', {'argv': ['cat', '/proc/sys/kernel/random/boot_id']}, want=200)
                self.assertEqual(r['stdout'], own + '\n')
                self.assertNotIn('boot_id', self.json('POST', p + '/kill', want=200))
                self.json('POST', p + '/resume', want=200)

    def test_life(self):
        b = self.make()
        p = API + '/sandboxes/' + b['id']
        self.assertEqual(self.json('POST', p + '/pause', want=200)['state'], 'paused')
        self.fails('POST', p + '/run', 409, 'sandbox_paused', {'argv': ['true']})
        self.fails('POST', p + '/processes', 409, 'sandbox_paused', {'argv': ['true']})
        self.fails('POST', p + '/pty', 409, 'sandbox_paused', {})
        self.fails('POST', p + '/shells', 409, 'sandbox_paused', {'name': 's'})
        self.assertEqual(self.json('POST', p + '/resume', {}, want=200)['state'], 'running')
        before = self.json('POST', p + '/extend', {'ttl_ms': 100000}, want=200)['deadline_ms']
        self.assertGreater(self.json('PATCH', p, {'ttl_ms': 200000}, want=200)['deadline_ms'], before)
        self.assertNotIn('deadline_ms', self.json('POST', p + '/extend', {'ttl_ms': 'unlimited'}, want=200))
        self.fails('POST', p + '/extend', 400, 'field_missing', {})
        self.fails('PATCH', p, 400, 'field_unknown', {'hostname': 'x'})
        got = self.json('PATCH', p, {'name': 'other', 'labels': {'x': 'y'}, 'metadata': {'k': [1]}}, want=200)
        self.assertEqual((got['name'], got['labels'], got['metadata']), ('other', {'x': 'y'}, {'k': [1]}))
        got = self.json('PATCH', p, {'labels': {}}, want=200)
        self.assertEqual((got['name'], got['labels'], got['metadata']), ('other', {}, {'k': [1]}))
        self.json('PATCH', p, {'labels': {'a=b\n': 'c'}}, want=400)
        self.assertEqual(self.json('GET', p + '/wait?timeout_ms=50', want=200), {'state': 'running'})
        self.fails('GET', p + '/wait?timeout_ms=600001', 400, 'bad_query')
        waits = []
        t = threading.Thread(target=lambda: waits.append(self.json('GET', p + '/wait', want=200)))
        t.start()
        self.assertEqual(self.json('GET', p, want=200)['isolation'], 'root')
        gone = self.json('POST', p + '/kill', want=200)
        self.assertEqual([gone[k] for k in ('state', 'isolation', 'level')], ['stopped', None, None])  # none would mean unprotected
        self.assertEqual([(b['isolation'], b['level']) for b in self.json('GET', API + '/sandboxes', want=200)['items'] if b['id'] == gone['id']], [(None, None)])
        t.join(20)
        self.assertEqual(waits, [{'state': 'stopped'}])
        for what in ('/pause', ):
            self.json('POST', p + what, want=409)
        self.json('POST', p + '/extend', {'ttl_ms': 1000}, want=409)
        self.json('PATCH', p, {'ttl_ms': 1000}, want=409)
        self.json('GET', p + '/usage', want=409)
        self.json('GET', p + '/processes', want=409)
        for what in ('', '/output', '/stream', '/wait'):
            self.fails('GET', p + '/processes/paaaaaaaaaaaaaaaaaaa' + what, 404, 'process_not_found')
        self.assertEqual(self.json('POST', p + '/resume', want=200)['state'], 'running')
        self.assertGreater(self.json('GET', p + '/usage', want=200)['memory'], 0)
        for what in ('/kill', '/pause', '/resume'):
            self.fails('POST', p + what, 400, 'field_unknown', {'x': 1})
        self.json('DELETE', p, want=204)
        self.json('GET', p, want=404)

    def test_fork_and_undo(self):
        b = self.make()
        p = API + '/sandboxes/' + b['id']
        self.ask('PUT', p + '/files?path=a', b'1')
        forks = self.json('POST', p + '/fork', {'count': 2, 'name': 'f', 'labels': {'l': 'm'}}, want=201)['items']
        for f in forks:
            self.addCleanup(self.s.ask, 'DELETE', API + '/sandboxes/' + f['id'])
            self.assertEqual(self.ask('GET', API + '/sandboxes/%s/files?path=a' % f['id'])[2], b'1')
        self.assertEqual([f['name'] for f in forks], ['f', 'f-2'])
        self.fails('POST', p + '/fork', 400, 'field_invalid', {'count': 0})
        self.fails('POST', p + '/undo', 409, 'undo_nothing')
        self.s.cay('snapshot', b['id'])
        self.ask('PUT', p + '/files?path=a', b'2')
        s = self.json('POST', p + '/undo', want=200)
        self.assertEqual(s['sandbox'], b['id'])
        self.assertEqual(self.ask('GET', p + '/files?path=a')[2], b'1')
        self.fails('POST', p + '/undo', 400, 'field_invalid', {'to': 1})

    def test_one_that_is_not_there(self):
        """And another tenant's is as one that is not there."""
        rows = [(m, op) for m, _, op, _ in DOC.ops if op['tags'][0] in MINE]
        for path, methods in DOC.doc['paths'].items():
            for method, op in methods.items():
                if op['tags'][0] not in MINE or '{id}' not in path:
                    continue
                p = API + path.replace('{id}', NOT).replace('{ref}', '1').replace('{name}', 'n')
                body = {'/signal': {}, '/resize': {'cols': 1, 'rows': 1}}.get(path[path.rfind('/'):])
                if path.endswith('/shells/{name}/run'):
                    body = {'line': 'x'}
                status, _, data = self.ask(method.upper(), p, json.dumps(body) if body is not None else None, {'Content-Type': 'application/json'} if body is not None else None)
                self.assertEqual(status, 404, (method, p, data))
        self.assertTrue(rows)

    def test_of_another_tenant(self):
        self.s.cay('tenant', 'create', 'strangers')
        key = self.s.make_key('--scope', 'tenant', '--tenant', 'strangers')
        for rest in ('', '/usage', '/processes', '/files?path=.', '/files/list?path=.', '/shells', '/wait'):
            self.assertEqual(self.ask('GET', self.path(rest), key=key)[0], 404, rest)
        for rest in ('/run', '/processes', '/fork', '/kill', '/pause', '/undo'):
            self.assertEqual(self.json('POST', self.path(rest), {}, key=key)['status'], 404, rest)
        self.assertEqual(self.ask('DELETE', self.path(''), key=key)[0], 404)
        self.assertEqual(self.json('GET', API + '/sandboxes', want=200, key=key)['items'], [])
        mine = self.json('POST', API + '/sandboxes', {}, want=201, key=key)
        self.addCleanup(self.s.ask, 'DELETE', API + '/sandboxes/' + mine['id'])
        self.assertEqual([b['id'] for b in self.json('GET', API + '/sandboxes', want=200, key=key)['items']], [mine['id']])
        snap = json.loads(self.s.cay('--json', 'snapshot', self.box))['id']
        self.assertEqual(self.json('POST', API + '/sandboxes', {'from': snap}, key=key)['status'], 404)

    def test_without_a_key(self):
        for path, methods in DOC.doc['paths'].items():
            for method, op in methods.items():
                if op.get('security') == []:
                    continue
                p = API + re.sub(r'\{[^}]*\}', NOT, path)
                self.assertEqual(self.ask(method.upper(), p, key=None)[0], 401, p)


class Bodies(Base):
    def post(self, data, kind='application/json'):
        return self.ask('POST', self.path('/run'), data, {'Content-Type': kind})

    def test_bombs_and_broken_ones(self):
        deep = b'{"env":' * 20000 + b'1' + b'}' * 20000
        for data in (b'{', b'[]', b'1', b'"x"', b'{"argv":["a"],"argv":["b"]}', b'{"argv":["\xff"]}', b'{} {}', deep, b'{"argv":' + b'[' * 100000 + b']' * 100000 + b'}',
                     b'{"timeout_ms":1e3}', b'{"timeout_ms":99999999999999999999}', b'{"argv":[]}', b'{"argv":null}'):
            status, _, body = self.post(data)
            self.assertEqual(status, 400, (data[:40], body))
        self.assertEqual(self.post(b'{"argv":["' + b'x' * (9 << 20) + b'"]}')[0], 413)
        self.assertEqual(self.post(b'{"argv":["true"]}', 'text/plain')[0], 415)
        self.assertIn(self.post(json.dumps({'argv': ['true'], 'env': {'k%d' % i: 'v' for i in range(20000)}}).encode())[0], (400, 413))

    def test_names_in_errors_are_harmless(self):
        p = self.fails('POST', self.path('/run'), 400, 'field_unknown', {'\x1b[31m' + 'x' * 5000: 1})
        self.assertNotIn('\x1b', p['detail'])
        self.assertLess(len(p['detail']), 300)


class Processes(Base):
    def test_run_collects(self):
        r = self.run_in('cat; echo e >&2; exit 4', input='héllo')
        self.assertEqual((r['code'], r['stdout'], r['stderr'], r['reason'], r['truncated']), (4, 'héllo', 'e\n', 'exit', False))
        r = self.json('POST', self.path('/run'), {'argv': ['cat'], 'input_base64': base64.b64encode(b'\xff\0x').decode()}, want=200)
        self.assertEqual(base64.b64decode(r['stdout_base64']), b'\xff\0x')
        self.assertNotIn('stdout', r)
        r = self.run_in('head -c 5000 /dev/zero | tr "\\0" a', max_output=10)
        self.assertEqual((r['stdout'], r['truncated']), ('a' * 10, True))
        r = self.run_in('sleep 30', timeout_ms=100)
        self.assertEqual(r['reason'], 'time')
        self.fails('POST', self.path('/run'), 404, 'exec_failed', {'argv': ['/no/such/program']})
        self.fails('POST', self.path('/run'), 400, 'field_unknown', {'argv': ['true'], 'stdin': 'pipe'})
        self.fails('POST', self.path('/run'), 400, 'command_missing', {})
        self.fails('POST', self.path('/run'), 400, 'field_invalid', {'argv': ['cat'], 'input_base64': 'a'})

    def start(self, line, **more):
        return self.json('POST', self.path('/processes'), dict(shell=line, **more), want=201)

    def proc(self, p, rest=''):
        return self.path('/processes/' + quote(str(p), safe='') + rest)

    def events(self, path, headers=None, limit=None):
        """Events of a stream as (id, event, data), until its end or so many."""
        c = self.s.connection()
        c.request('GET', path, headers=dict({'Authorization': 'Bearer ' + self.s.key}, **(headers or {})))
        r = c.getresponse()
        self.assertEqual((r.status, r.headers.get_content_type()), (200, 'text/event-stream'))
        op = DOC.find('GET', path)
        DOC.seen[op['operationId']].add(200)
        got, e = [], {}
        for line in r:
            line = line.decode().rstrip('\n')
            if line.startswith(':'):
                continue
            if line:
                k, _, v = line.partition(': ')
                e[k] = v
            elif e:
                got.append((e.get('id'), e['event'], json.loads(e['data'])))
                e = {}
                if limit and len(got) >= limit:
                    break
        c.close()
        return got

    def text(self, events, which='stdout'):
        return b''.join(d['text'].encode() if 'text' in d else base64.b64decode(d['base64']) for _, e, d in events if e == which)

    def test_stream_goes_on_after_any_event(self):
        p = self.start('for i in 1 2 3 4 5; do echo out$i; echo err$i >&2; sleep 0.02; done; exit 7')['id']
        all_ = self.events(self.proc(p, '/stream'))
        self.assertEqual(all_[-1][1], 'exit')
        self.assertEqual(all_[-1][2]['code'], 7)
        out, err = self.text(all_), self.text(all_, 'stderr')
        self.assertEqual(out, b''.join(b'out%d\n' % i for i in range(1, 6)))
        self.assertEqual(err, b''.join(b'err%d\n' % i for i in range(1, 6)))
        for i, (id_, _, _) in enumerate(all_[:-1]):
            rest = self.events(self.proc(p, '/stream'), {'Last-Event-ID': id_})
            self.assertEqual(self.text(all_[:i + 1]) + self.text(rest), out)
            self.assertEqual(self.text(all_[:i + 1], 'stderr') + self.text(rest, 'stderr'), err)
        self.assertEqual(self.text(self.events(self.proc(p, '/stream?stdout=10&stderr=now'))), out[10:])
        self.fails('GET', self.proc(p, '/stream?stdout=x'), 400, 'bad_query')

    def test_output_has_the_time_when_it_was_printed(self):
        """Told also to whoever comes after its end, and of both streams, so that they can be put in one order."""
        p = self.start('echo a; sleep 0.3; echo b >&2; sleep 0.3; echo c')['id']
        self.json('GET', self.proc(p, '/wait'), want=200)
        t = {d['text'].strip(): d['time_ms'] for _, e, d in self.events(self.proc(p, '/stream')) if e in ('stdout', 'stderr')}
        self.assertEqual(sorted(t, key=t.get), ['a', 'b', 'c'])
        self.assertTrue(t['b'] - t['a'] >= 250 and t['c'] - t['b'] >= 250, t)
        began = self.json('GET', self.proc(p, ''), want=200)['started_ms']
        self.assertTrue(began - 1000 <= t['a'] <= time.time() * 1000 + 1000, (began, t))

    def test_a_character_is_never_cut(self):
        p = self.start('printf "\\303"; sleep 0.1; printf "\\244"; sleep 0.1; printf "\\342\\202"')['id']
        got = self.events(self.proc(p, '/stream'))
        self.assertEqual([d.get('text', d.get('base64')) for _, e, d in got if e == 'stdout'], ['ä', base64.b64encode(b'\xe2\x82').decode()])

    def test_start_with_its_stream(self):
        status, head, body = self.ask('POST', self.path('/processes'), json.dumps({'argv': ['echo', 'x']}),
                                      {'Content-Type': 'application/json', 'Accept': 'text/event-stream'})
        self.assertEqual((status, head.get_content_type()), (200, 'text/event-stream'))
        self.assertRegex(body.decode(), r'(?s)event: start\ndata: {"id":"p.*event: stdout.*event: exit')

    def test_what_was_dropped_is_told(self):
        """A ring of 4 KiB and 1 MB printed before anybody listens."""
        p = self.start('head -c 1000000 /dev/zero | tr "\\0" x', ring_bytes=4096)['id']
        self.json('GET', self.proc(p, '/wait'), want=200)
        got = self.events(self.proc(p, '/stream'))
        lost = sum(d['bytes'] for _, e, d in got if e == 'lost')
        self.assertEqual(lost + len(self.text(got)), 1000000)
        self.assertEqual(got[0][1], 'lost')
        _, head, body = self.ask('GET', self.proc(p, '/output'))
        self.assertEqual(int(head['X-Cay-Offset']) + len(body), 1000000)
        self.assertEqual((head['X-Cay-Next'], head['X-Cay-Eof'], int(head['X-Cay-Lost'])), ('1000000', '1', 1000000 - len(body)))

    def test_a_slow_listener_of_one_that_waits_gets_all(self):
        size = 3000000
        p = self.start('head -c %d /dev/zero | tr "\\0" x' % size, on_full='block')['id']
        got = self.events(self.proc(p, '/stream'))
        self.assertEqual(len(self.text(got)) + sum(d['bytes'] for _, e, d in got if e == 'lost'), size)

    def test_output_of_one_stream(self):
        p = self.start('echo one; echo two >&2; sleep 0.2; echo three')['id']
        self.assertEqual(self.ask('GET', self.proc(p, '/output?follow=1'))[2], b'one\nthree\n')
        self.assertEqual(self.ask('GET', self.proc(p, '/output?follow=1&offset=4'))[2], b'three\n')
        self.assertEqual(self.ask('GET', self.proc(p, '/output?stream=stderr'))[2], b'two\n')
        self.assertEqual(self.ask('GET', self.proc(p, '/output?offset=now'))[2], b'')
        for q in ('stream=x', 'offset=-1'):
            self.fails('GET', self.proc(p, '/output?' + q), 400, 'bad_query')

    def test_input_signal_wait(self):
        p = self.start('read x; echo "got $x"; exec sleep 60', stdin='pipe', tag='in')['id']
        self.assertEqual(self.json('GET', self.proc(p, '/wait?timeout_ms=20'), want=200), {'ended': False})
        self.assertEqual(self.ask('POST', self.proc('in', '/stdin'), b'line\n')[0], 204)
        self.until(lambda: self.ask('GET', self.proc(p, '/output'))[2] == b'got line\n')
        self.assertEqual(self.json('GET', self.proc('in'), want=200)['tag'], 'in')
        self.json('POST', self.proc(p, '/signal'), {'signal': 'KILL', 'scope': 'tree'}, want=204)
        e = self.json('GET', self.proc(p, '/wait'), want=200)
        self.assertEqual((e['ended'], e['exit']['signal']), (True, 9))
        self.assertEqual(self.ask('POST', self.proc(p, '/stdin'), b'x')[0], 409)
        self.fails('POST', self.proc(p, '/signal'), 400, 'field_invalid', {'signal': 'NONE'})
        self.fails('GET', self.proc(p, '/wait?timeout_ms=x'), 400, 'bad_query')
        self.fails('GET', self.proc('nobody'), 404, 'process_not_found')
        self.fails('POST', self.path('/processes'), 400, 'field_invalid', {'argv': 'true'})
        self.json('POST', self.path('/processes'), {'argv': ['/no/such']}, want=404)

    def test_input_closes(self):
        p = self.start('wc -c', stdin='pipe')['id']
        data = b'x' * 300000
        self.assertEqual(self.ask('POST', self.proc(p, '/stdin?close=1'), data)[0], 204)
        self.json('GET', self.proc(p, '/wait'), want=200)
        self.assertEqual(self.ask('GET', self.proc(p, '/output'))[2].strip(), b'300000')

    def test_terminal(self):
        p = self.json('POST', self.path('/pty'), {'shell': 'stty size; read x; stty size; exit 3', 'cols': 101, 'rows': 33}, want=201)['id']
        self.until(lambda: b'33 101' in self.ask('GET', self.proc(p, '/output'))[2])
        self.json('POST', self.proc(p, '/resize'), {'cols': 90, 'rows': 20}, want=204)
        self.ask('POST', self.proc(p, '/stdin'), b'\n')
        self.assertEqual(self.json('GET', self.proc(p, '/wait'), want=200)['exit']['code'], 3)
        self.assertIn(b'20 90', self.ask('GET', self.proc(p, '/output'))[2])
        self.fails('POST', self.proc(p, '/resize'), 400, 'field_missing', {'cols': 9})
        self.fails('POST', self.path('/pty'), 400, 'field_unknown', {'x': 1})
        q = self.start('sleep 5')['id']
        self.json('POST', self.proc(q, '/resize'), {'cols': 9, 'rows': 9}, want=409)
        self.json('POST', self.proc(q, '/signal'), {'signal': 9}, want=204)
        status, _, body = self.ask('POST', self.path('/pty'), json.dumps({'argv': ['true']}), {'Content-Type': 'application/json', 'Accept': 'text/event-stream'})
        self.assertEqual(status, 200)
        self.assertIn(b'event: exit', body)

    def test_list(self):
        p = self.start('sleep 30', labels={'who': 'me'})
        got = [q for q in self.json('GET', self.path('/processes'), want=200)['items'] if q['id'] == p['id']]
        self.assertEqual((got[0]['labels'], got[0]['pid']), ({'who': 'me'}, p['pid']))
        self.json('POST', self.proc(p['id'], '/signal'), {'signal': 9, 'scope': 'tree'}, want=204)
        self.json('GET', self.proc(p['id'], '/wait'), want=200)
        self.until(lambda: any(q['id'] == p['id'] and q['state'] == 'ended' for q in self.json('GET', self.path('/processes?ended=1'), want=200)['items']))

    def test_a_run_dies_with_its_connection(self):
        c = self.s.connection()
        c.request('POST', self.path('/run'), json.dumps({'argv': ['sleep', '77']}), {'Content-Type': 'application/json', 'Authorization': 'Bearer ' + self.s.key})
        there = lambda: any('sleep 77' in q['command'] and q['state'] != 'ended' for q in self.json('GET', self.path('/processes'))['items'])
        self.until(there)
        c.close()
        self.until(lambda: not there())


class Socket:
    """A WebSocket of our own making: what is sent is masked, what comes is told whole."""

    def __init__(self, test, path):
        self.s = test.s.socket()
        self.s.sendall(('GET %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'
                        'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n' % (path, test.s.key)).encode())
        self.f = self.s.makefile('rb')
        test.assertIn(b' 101 ', self.f.readline())
        DOC.seen['connectProcess'].add(101)
        while self.f.readline().strip():
            pass

    def send(self, data, kind=2):
        n = len(data)
        size = bytes([0x80 | n]) if n < 126 else bytes([0x80 | 126]) + n.to_bytes(2, 'big') if n < 65536 else bytes([0x80 | 127]) + n.to_bytes(8, 'big')
        self.s.sendall(bytes([0x80 | kind]) + size + b'\0\0\0\0' + data)

    def tell(self, **obj):
        self.send(json.dumps(obj).encode(), 1)

    def next(self):
        """(kind, bytes); kind 8 is the end."""
        head = self.f.read(2)
        if len(head) < 2:
            return 8, b''
        n = head[1] & 127
        n = int.from_bytes(self.f.read(2), 'big') if n == 126 else int.from_bytes(self.f.read(8), 'big') if n == 127 else n
        return head[0] & 15, self.f.read(n)

    def rest(self):
        """What comes until the end: output by stream, and the messages."""
        out, told = {1: b'', 2: b''}, []
        while True:
            kind, data = self.next()
            if kind == 8:
                self.code = int.from_bytes(data[:2], 'big')
                self.close()
                return out, told
            if kind == 2:
                out[data[0]] += data[1:]
            elif kind == 1:
                told.append(json.loads(data))

    def close(self):
        self.f.close()
        self.s.close()


class Sockets(Base):
    def start(self, line, where='/processes', **more):
        return self.path('/processes/' + self.json('POST', self.path(where), dict(shell=line, **more), want=201)['id'])

    def test_output_input_and_end(self):
        w = Socket(self, self.start('echo err >&2; cat; exit 5', stdin='pipe') + '/ws')
        w.send(b'one')
        w.send(b'\0\xfftwo' * 50000)
        w.tell(type='close_stdin')
        out, told = w.rest()
        self.assertEqual((out[1] == b'one' + b'\0\xfftwo' * 50000, out[2]), (True, b'err\n'))
        self.assertEqual([t['type'] for t in told], ['start', 'exit'])
        self.assertEqual((told[0]['stdout'], told[1]['code'], w.code), (0, 5, 1000))

    def test_output_flows_while_input_waits(self):
        """It prints for a while before it reads what would fill its pipe many times."""
        w = Socket(self, self.start('for i in 1 2 3 4 5; do echo $i; sleep 0.05; done; wc -c', stdin='pipe') + '/ws')
        for _ in range(16):
            w.send(b'x' * 65000)
        w.tell(type='close_stdin')
        out, _ = w.rest()
        self.assertEqual(out[1].split(), [b'1', b'2', b'3', b'4', b'5', b'%d' % (16 * 65000)])

    def test_terminal(self):
        w = Socket(self, self.start('trap "stty size" WINCH; echo ready; while sleep 0.05; do :; done', '/pty', cols=80, rows=24) + '/ws')
        seen = b''
        while b'ready' not in seen:
            seen += w.next()[1][1:]
        w.tell(type='resize', cols=111, rows=22)
        while b'22 111' not in seen:
            seen += w.next()[1][1:]
        w.tell(type='signal', signal='KILL', scope='tree')
        _, told = w.rest()
        self.assertEqual((told[-1]['type'], told[-1]['signal']), ('exit', 9))

    def test_leaving_changes_nothing(self):
        p = self.start('read x; echo "$x"', stdin='pipe')
        w = Socket(self, p + '/ws')
        w.next()
        w.close()
        w = Socket(self, p + '/ws?stdout=now')
        w.send(b'back\n')
        self.assertEqual(w.rest()[0][1], b'back\n')

    def test_what_was_typed_before_leaving_arrives(self):
        """Whether one closes in order or just goes; more than a pipe holds, and the one byte of a key."""
        for i, bye in enumerate((True, False)):
            p = self.start('sleep 0.3; head -c 200000 | wc -c >left%d' % i, stdin='pipe')
            w = Socket(self, p + '/ws')
            w.next()
            w.send(b'x' * 200000)
            if bye:
                w.send(b'\x03\xe8', 8)
            w.close()
        p = self.start('head -c 20 >keys', stdin='pipe')
        for i in range(20):
            w = Socket(self, p + '/ws')
            w.send(b'%c' % (97 + i))
            w.send(b'\x03\xe8', 8)
            while w.next()[0] != 8:  # it said good-bye as well: what was sent is taken
                pass
            w.close()
        self.until(lambda: self.run_in('cat left0 left1; fold -w 1 keys | sort | tr -d "\\n"')['stdout'] == '200000\n200000\nabcdefghijklmnopqrst')  # each was another socket's: in any order

    def test_a_process_that_ends_with_its_sandbox_has_an_end(self):
        """In a stream and on a socket as for who waits, though the sandbox has nothing of it any more."""
        self.box = self.json('POST', API + '/sandboxes', {}, want=201)['id']
        self.addCleanup(self.s.ask, 'DELETE', API + '/sandboxes/' + self.box)
        p = self.start('echo there; sleep 60')
        w, c = Socket(self, p + '/ws'), self.s.connection()
        self.addCleanup(c.close)
        c.request('GET', p + '/stream', headers={'Authorization': 'Bearer ' + self.s.key})
        stream = c.getresponse()
        while w.next()[1][1:] != b'there\n':
            pass
        self.json('POST', self.path('/kill'), want=200)
        _, told = w.rest()
        self.assertEqual([(t['type'], t.get('signal'), t.get('reason')) for t in told], [('exit', 9, 'killed')])
        self.assertEqual(w.code, 1000)
        self.assertEqual(self.fails('GET', p, 404, 'process_not_found')['detail'].count('process p'), 1)
        self.assertRegex(stream.read().decode(), r'event: stdout\ndata: .*there.*\n\nid: 6\.0\nevent: exit\ndata: {"code":137,"signal":9,"reason":"killed".*\n\n$')

    def test_what_cannot_be_understood_ends_it(self):
        p = self.start('sleep 60')
        for message in (b'{', b'{}', b'{"type":"resize"}', b'{"type":"signal","signal":"x"}', b'{"type":"signal","more":1}', b'{"type":"close_stdin","more":1}', b'x' * 5000):
            w = Socket(self, p + '/ws')
            w.send(message, 1)
            w.rest()
            self.assertEqual(w.code, 1008, message)
        self.json('POST', p + '/signal', {'signal': 9}, want=204)
        self.fails('GET', p + '/ws?stdout=x', 400, 'bad_query')
        self.assertEqual(self.ask('GET', p + '/ws')[0], 426)


class Manifests(Base):
    def test_the_past_of_a_sandbox(self):
        id = self.json('POST', API + '/sandboxes', {}, want=201)['id']
        past, end, got = API + '/sandboxes/%s/usage/past' % id, time.monotonic() + 60, []
        while not got and time.monotonic() < end:  # it is looked at every fifteen seconds
            time.sleep(0.5)
            got = self.json('GET', past, want=200)['items']
        self.assertTrue(got and got[0]['memory'] > 0 and abs(got[0]['time_ms'] - time.time() * 1000) < 120000, got)
        self.assertEqual(self.json('GET', past + '?until_ms=1000', want=200)['items'], [])
        self.assertTrue(self.json('GET', API + '/usage/past', want=200)['items'])
        for path, status in ((past + '?since_ms=x', 400), (API + '/usage/past?since_ms=x', 400), (API + '/sandboxes/%s/usage/past' % ('c' + 'a' * 19), 404)):
            self.json('GET', path, want=status)
        self.s.ask('DELETE', API + '/sandboxes/' + id)

    def test_a_manifest_has_a_schema(self):
        s = self.json('GET', API + '/manifest/schema', want=200)
        self.assertEqual((s['type'], s['additionalProperties'], s['properties']['version']['enum']), ('object', False, [1]))
        kinds = {k['properties']['type']['const']: k for k in s['$defs']['entry']['oneOf']}
        self.assertTrue({'file', 'dir', 'git_repo', 'remote_dir', 's3_mount'} <= set(kinds))
        self.assertEqual(kinds['git_repo']['required'], ['type', 'repo'])

    def test_what_a_manifest_put_in_is_told(self):
        given = {'entries': {'a': {'type': 'file', 'content': 'secret-words'}, 'd': {'type': 'dir', 'children': {'b': {'type': 'file', 'content': ''}}}}, 'environment': {'X': '1'}}
        box = self.json('POST', API + '/sandboxes', {'manifest': given}, want=201)['id']
        told = self.json('GET', API + '/sandboxes/%s/manifest' % box, want=200)
        self.assertEqual((told['root'], told['entries'], told['variables']), ('/workspace', 2, 1))
        self.assertIn('/workspace/d/b', told['tree'])
        self.assertNotIn('secret-words', told['tree'])
        self.assertEqual(self.json('GET', API + '/sandboxes/%s/manifest' % self.box, want=200), {'root': '', 'entries': 0, 'variables': 0, 'tree': ''})  # made without one
        self.ask('DELETE', API + '/sandboxes/' + box)

    def test_a_sandbox_follows_a_manifest(self):
        one = {'entries': {'a.txt': {'type': 'file', 'content': 'hello'}}}
        box = self.json('POST', API + '/sandboxes', {'manifest': one}, want=201)['id']
        self.addCleanup(self.s.ask, 'DELETE', API + '/sandboxes/' + box)
        at = API + '/sandboxes/%s/manifest' % box
        self.assertEqual(list(self.json('GET', at + '/text', want=200)['entries']), ['a.txt'])
        two = {'entries': dict(one['entries'], **{'d/b.txt': {'type': 'file', 'content': 'more'}})}
        self.json('PUT', at, two, want=204)
        self.assertEqual(self.ask('GET', API + '/sandboxes/%s/files?path=d/b.txt' % box)[2], b'more')
        self.assertEqual(sorted(self.json('GET', at + '/text', want=200)['entries']), ['a.txt', 'd/b.txt'])
        other = {'entries': dict(two['entries'], **{'a.txt': {'type': 'file', 'content': 'other'}})}
        self.fails('PUT', at, 409, 'manifest_change_refused', other)
        self.json('PUT', at + '?replace=1', other, want=204)
        self.assertEqual(self.ask('GET', API + '/sandboxes/%s/files?path=a.txt' % box)[2], b'other')
        # It is recorded as what it is, somebody else's; and starts again.
        db = sqlite3.connect('file:%s?mode=ro' % os.path.join(self.s.home, 'store.db'), uri=True)
        notes = [json.loads(v) for v, in db.execute("SELECT value FROM notes WHERE space='manifest'")]
        db.close()
        self.assertEqual({n['trusted'] for n in notes if 'd/b.txt' in n['manifest'].get('entries', {})}, {False})
        self.json('POST', API + '/sandboxes/%s/kill' % box, {}, want=200)
        self.json('POST', API + '/sandboxes/%s/resume' % box, {}, want=200)
        for bad in ({'entries': {'x': {'type': 'local_file', 'src': '/etc/passwd'}}}, {'extra_path_grants': [{'path': '/etc'}]}, {'entries': {'/etc/x': {'type': 'dir'}}}):
            self.json('PUT', at, dict(other, **bad), want=400)  # the host is not a request's to name
        self.fails('GET', API + '/sandboxes/%s/manifest/text' % self.box, 404, 'manifest_missing')

    def test_a_manifest_is_judged(self):
        check = API + '/manifest/check'
        audit = len(self.json('GET', API + '/audit?last=1000', want=200)['items'])
        got = self.json('POST', check, {'entries': {'a.txt': {'type': 'file', 'content': 'hello'}, 'd': {'type': 'dir', 'children': {'b': {'type': 'file', 'content': '', 'ephemeral': True}}}}}, want=200)
        self.assertEqual({k: got[k] for k in ('root', 'entries', 'bytes', 'ephemeral', 'mounts', 'fetched')}, {'root': '/workspace', 'entries': 3, 'bytes': 5, 'ephemeral': 1, 'mounts': 0, 'fetched': 0})
        self.assertIn('a.txt', got['tree'])
        for manifest, reason, entry in (
                ({'entries': {'/etc/x': {'type': 'file', 'content': ''}}}, 'invalid_manifest_path', '/etc/x'), ({'entries': {'a/../../b': {'type': 'dir'}}}, 'invalid_manifest_path', 'a/../../b'),
                ({'entries': {'x': {'type': 'fiel'}}}, 'manifest_invalid', 'x'), ({'entries': {'x': {'type': 'file'}}}, 'manifest_invalid', 'x'), ({'entry': {}}, 'manifest_invalid', ''),
                ({'sudo': True}, 'manifest_invalid', ''), ({'extra_path_grants': [{'path': '/etc'}]}, 'manifest_invalid', '')):
            told = self.fails('POST', check, 400, reason, manifest)
            self.assertEqual(told['info']['entry'], entry, told)
            made = self.json('POST', API + '/sandboxes', {'manifest': manifest}, want=400)  # the same as when it is used
            self.assertEqual((made['reason'], made['detail'].split(': ', 1)[-1][-40:]), (reason, told['detail'].split(': ', 1)[-1][-40:]))
        there, gone = (self.json('POST', check, {'entries': {'x': {'type': 'local_file', 'src': src}}}, want=400) for src in ('/etc/passwd', '/etc/no-such-file'))
        self.assertEqual([t['reason'] for t in (there, gone)], [there['reason']] * 2)  # nobody learns what the host has
        self.assertEqual(self.ask('POST', check, '[]', {'Content-Type': 'application/json'})[0], 400)
        self.assertEqual(self.ask('POST', check, '{}', key=None)[0], 401)
        new = [a['action'] for a in self.json('GET', API + '/audit?last=1000', want=200)['items'][audit:] if 'manifest' in a['action'] and a['verdict'] != 'refused']
        self.assertEqual(new, [])  # it changed nothing


class Shells(Base):
    def test_a_shell_stays(self):
        s = self.json('POST', self.path('/shells'), {'name': 'a', 'cwd': '/tmp', 'env': {'V': '1'}}, want=200)
        self.assertEqual(s['name'], 'a')
        run = self.path('/shells/a/run')
        self.json('POST', run, {'line': 'cd /; W=2'}, want=200)
        r = self.json('POST', run, {'line': 'pwd; echo $V$W; echo e >&2; (exit 5)'}, want=200)
        self.assertEqual((r['stdout'], r['stderr'], r['code']), ('/\n12\n', 'e\n', 5))
        self.assertEqual(self.json('POST', run, {'line': 'sleep 30', 'timeout_ms': 100}, want=200)['reason'], 'time')
        self.assertEqual([x['id'] for x in self.json('GET', self.path('/shells'), want=200)['items']], [s['id']])
        self.fails('POST', run, 400, 'field_missing', {})
        self.json('DELETE', self.path('/shells/a'), want=204)
        self.fails('POST', run, 404, 'shell_not_found', {'line': 'x'})
        self.json('POST', self.path('/shells'), {'name': 'a b'}, want=400)


class Files(Base):
    def files(self, rest):
        return self.path('/files' + rest)

    def put(self, path, data, q='', status=201):
        got, _, body = self.ask('PUT', self.files('?path=%s%s' % (quote(path), q)), data)
        self.assertEqual(got, status, body)
        return json.loads(body)

    def get(self, path, **headers):
        return self.ask('GET', self.files('?path=' + quote(path)), headers={k.replace('_', '-'): v for k, v in headers.items()})

    def test_write_and_read(self):
        f = self.put('w/a', b'0123456789', '&parents=1&mode=0600')
        self.assertEqual((f['size'], f['mode'], f['type']), (10, '0600', 'file'))
        self.assertEqual(self.put('w/a', b'abc', status=200)['mode'], '0600')
        self.put('w/a', b'def', '&append=1', 200)
        status, head, body = self.get('w/a')
        self.assertEqual((status, body, head['Content-Length']), (200, b'abcdef', '6'))
        for known, status in ((head['ETag'], 304), ('"other", W/' + head['ETag'], 304), ('*', 304), ('"other"', 200), (head['ETag'][:-2] + '"', 200)):
            self.assertEqual(self.get('w/a', If_None_Match=known)[0], status, known)
        self.assertEqual(self.ask('PUT', self.files('?path=w/a&exclusive=1'), b'')[0], 409)
        self.assertEqual(self.ask('PUT', self.files('?path=w/no/a'), b'')[0], 404)
        self.assertEqual(self.ask('PUT', self.files('?path=w/b&mode=999'), b'')[0], 400)
        self.assertEqual(self.ask('PUT', self.files(''), b'')[0], 400)
        self.assertEqual(self.get('w')[0], 409)
        self.assertEqual(self.get('w/none')[0], 404)
        self.assertEqual(self.get('')[0], 400)
        self.assertIn(b'cpu', self.get('/proc/stat')[2])

    def test_ranges(self):
        self.put('r', b'0123456789')
        tag = self.get('r')[1]['ETag']
        for given, status, body in (('bytes=2-4', 206, b'234'), ('bytes=7-', 206, b'789'), ('bytes=-3', 206, b'789'), ('bytes=-99', 206, b'0123456789'), ('bytes=5-99', 206, b'56789'),
                                    ('bytes=0-0', 206, b'0'), ('bytes=4-2', 200, b'0123456789'), ('bytes=1-2,4-5', 200, b'0123456789'), ('lines=1-2', 200, b'0123456789')):
            got = self.get('r', Range=given)
            self.assertEqual((got[0], got[2]), (status, body), given)
        for given in ('bytes=10-', 'bytes=99-100', 'bytes=-0'):
            got = self.get('r', Range=given)
            self.assertEqual((got[0], got[1]['Content-Range']), (416, 'bytes */10'))
        self.assertEqual(self.get('r', Range='bytes=1-1', If_Range=tag)[2], b'1')
        self.assertEqual(self.get('r', Range='bytes=1-1', If_Range='"x"')[0], 200)

    def memory(self):
        with open('/proc/%d/status' % self.s.pid()) as f:
            return int(re.search(r'RssAnon:\s+(\d+)', f.read()).group(1)) * 1024

    def test_large_ones_need_no_memory(self):
        size, piece = 96 << 20, os.urandom(1 << 20)
        before = self.memory()
        peak = [before]

        def pieces():
            for i in range(size >> 20):
                if i % 16 == 0:
                    peak.append(self.memory())
                yield piece
        c = self.s.connection(60)
        c.request('PUT', self.files('?path=big'), pieces(), {'Authorization': 'Bearer ' + self.s.key, 'Content-Length': str(size)})
        r = c.getresponse()
        self.assertEqual((r.status, json.loads(r.read())['size']), (201, size))
        c.request('GET', self.files('?path=big'), headers={'Authorization': 'Bearer ' + self.s.key})
        r = c.getresponse()
        n = 0
        while True:
            data = r.read(len(piece))
            if not data:
                break
            self.assertEqual(data, piece[:len(data)])
            n += len(data)
            if n % (16 << 20) == 0:
                peak.append(self.memory())
        c.close()
        self.assertEqual(n, size)
        if not SANITIZED:  # their allocator keeps what was freed for a while
            self.assertLess(max(peak) - before, 24 << 20)
        self.ask('DELETE', self.files('?path=big'))

    def test_a_cut_upload_leaves_no_trace(self):
        self.put('cut', b'old')
        for head in (b'Content-Length: 200000\r\n\r\n' + b'x' * 100000, b'Transfer-Encoding: chunked\r\n\r\n10000\r\n' + b'x' * 65536 + b'\r\n'):
            with self.s.socket() as k:
                k.sendall(b'PUT %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n' % (self.files('?path=cut').encode(), self.s.key.encode()) + head)
                time.sleep(0.05)
        self.assertEqual(self.get('cut')[2], b'old')
        names = lambda: [f['path'] for f in self.json('GET', self.files('/list?path=.'))['items']]
        self.until(lambda: not [n for n in names() if 'cut' in n and n != 'cut'])

    def test_multipart(self):
        b = b'xxBOUNDxx'
        parts = (('a', 'm1.txt', b'one'), ('b', 'sub/m2.bin', bytes(range(256)) * 300))

        def form(items):
            return b''.join(b'--%s\r\nContent-Disposition: form-data; name="%s"; filename="%s"\r\n\r\n%s\r\n' % (b, n.encode(), f.encode(), d)
                            for n, f, d in items) + b'--%s--\r\n' % b
        kind = {'Content-Type': 'multipart/form-data; boundary=' + b.decode()}
        status, _, body = self.ask('POST', self.files('?path=up'), form(parts), kind)
        self.assertEqual(status, 200, body)
        self.assertEqual([(f['path'], f['size']) for f in json.loads(body)['items']], [('m1.txt', 3), ('sub/m2.bin', 76800)])
        self.assertEqual(self.get('up/sub/m2.bin')[2], parts[1][2])
        for bad in ('../x', '/etc/x', 'a/../../x', ''):
            self.assertEqual(self.ask('POST', self.files('?path=up'), form((('a', bad, b'1'),)), kind)[0], 400, bad)
        self.assertEqual(self.ask('POST', self.files('?path=up'), form(parts)[:-20], kind)[0], 400)
        for cut in (form((('a', 'half', b'1\r\n--%sx2' % b),)), form((('a', 'half', b'1'),))[:-4]):  # what only begins like a delimiter ends no file
            self.assertEqual(self.ask('POST', self.files('?path=up'), cut, kind)[0], 400)
            self.assertEqual(self.get('up/half')[0], 404)
        self.assertEqual(self.ask('POST', self.files('?path=up'), b'{}', {'Content-Type': 'application/json'})[0], 415)

    def test_look_and_change(self):
        self.json('POST', self.files('/mkdir'), {'path': 'l/d', 'parents': True, 'mode': '0750'}, want=201)
        self.put('l/d/f.txt', b'needle here\nno\nneedle too\n')
        self.json('POST', self.files('/symlink'), {'target': 'd/f.txt', 'path': 'l/s'}, want=201)
        st = self.json('GET', self.files('/stat?path=l/s'), want=200)
        self.assertEqual((st['type'], st['target']), ('link', 'd/f.txt'))
        self.assertEqual(self.json('GET', self.files('/stat?path=l/s&follow=1'), want=200)['type'], 'file')
        self.assertEqual([f['path'] for f in self.json('GET', self.files('/list?path=l'), want=200)['items']], ['d', 's'])
        self.assertEqual({f['path'] for f in self.json('GET', self.files('/list?path=l&depth=0'), want=200)['items']}, {'d', 's', 'd/f.txt'})
        self.assertEqual([f['path'] for f in self.json('GET', self.files('/glob?path=l&pattern=**/*.txt'), want=200)['items']], ['d/f.txt'])
        m = self.json('POST', self.files('/grep'), {'path': 'l', 'pattern': '^needle t'}, want=200)['items']
        self.assertEqual([(x['path'], x['line'], x['column'], x['text']) for x in m], [('d/f.txt', 3, 1, 'needle too')])
        self.json('POST', self.files('/chmod'), {'path': 'l/d/f.txt', 'mode': '0400'}, want=204)
        self.assertEqual(self.json('GET', self.files('/stat?path=l/d/f.txt'))['mode'], '0400')
        self.json('POST', self.files('/chown'), {'path': 'l/d/f.txt', 'uid': 1000}, want=204)
        self.json('POST', self.files('/rename'), {'from': 'l/d/f.txt', 'to': 'l/g'}, want=204)
        self.json('DELETE', self.files('?path=l/g'), want=204)
        self.json('DELETE', self.files('?path=l'), want=409)
        self.json('DELETE', self.files('?path=l&recursive=1'), want=204)

    def test_looking_and_changing_in_vain(self):
        self.put('v', b'')
        for method, rest, body, status in (
                ('GET', '/stat?path=none', None, 404), ('GET', '/stat', None, 400), ('GET', '/list?path=none', None, 404), ('GET', '/list?path=v', None, 409),
                ('GET', '/list?path=.&depth=x', None, 400), ('GET', '/glob?path=none&pattern=*', None, 404), ('GET', '/glob?path=.', None, 400),
                ('POST', '/grep', {'path': 'none', 'pattern': 'x'}, 404), ('POST', '/grep', {'path': '.', 'pattern': '('}, 400),
                ('POST', '/mkdir', {'path': 'v'}, 409), ('POST', '/mkdir', {'path': 'no/dir'}, 404), ('POST', '/mkdir', {'path': 'x', 'mode': 493}, 400),
                ('POST', '/symlink', {'target': 'x', 'path': 'v'}, 409), ('POST', '/symlink', {'target': 'x'}, 400), ('POST', '/symlink', {'target': 'x', 'path': 'no/x'}, 404),
                ('POST', '/rename', {'from': 'none', 'to': 'x'}, 404), ('POST', '/rename', {'from': 'x'}, 400),
                ('POST', '/chmod', {'path': 'none', 'mode': '0644'}, 404), ('POST', '/chmod', {'path': 'v'}, 400),
                ('POST', '/chown', {'path': 'none', 'uid': 1000}, 404), ('POST', '/chown', {'path': 'v', 'uid': 'root'}, 400),
                ('DELETE', '?path=none', None, 404), ('DELETE', '', None, 400), ('POST', '/patch', {'patch': 'nonsense'}, 400),
                ('POST', '/patch', {'patch': '*** Begin Patch\n*** Update File: none\n@@\n-a\n+b\n*** End Patch'}, 404),
                ('GET', '/xattrs?path=none', None, 404), ('GET', '/xattrs', None, 400), ('GET', '/xattr?path=v&name=user.none', None, 404), ('GET', '/xattr?path=v', None, 400),
                ('DELETE', '/xattr?path=none&name=user.x', None, 404), ('DELETE', '/xattr?path=v', None, 400), ('PUT', '/xattr?path=none&name=user.x', None, 404),
                ('PUT', '/xattr?path=v', None, 400), ('GET', '/watch?path=none', None, 404), ('GET', '/watch', None, 400), ('GET', '/tar?path=none', None, 404), ('GET', '/tar', None, 400)):
            p = self.json(method, self.files(rest), body)
            self.assertEqual(p['status'], status, (method, rest, p))

    def test_attributes(self):
        self.put('x', b'')
        a = self.files('/xattr?path=x&name=user.t')
        status, _, body = self.ask('PUT', a, b'\0value\xff')
        if status == 501 or (status != 204 and b'ENOTSUP' in body):
            self.skipTest('no extended attributes here')
        self.assertEqual(status, 204, body)
        self.assertEqual(self.ask('GET', a)[2], b'\0value\xff')
        self.assertEqual(self.json('GET', self.files('/xattrs?path=x'), want=200), {'items': ['user.t']})
        self.assertEqual(self.ask('PUT', a, b'x' * 70000)[0], 413)
        self.json('DELETE', a, want=204)
        self.json('GET', a, want=404)

    def test_patch(self):
        self.put('p.txt', b'a\nb\nc\n')
        text = '*** Begin Patch\n*** Update File: p.txt\n@@\n a\n-b\n+B\n*** Add File: q.txt\n+new\n*** End Patch'
        self.assertEqual(len(self.json('POST', self.files('/patch'), {'patch': text, 'dry': True}, want=200)['lines']), 2)
        self.assertEqual(self.get('p.txt')[2], b'a\nb\nc\n')
        self.json('POST', self.files('/patch'), {'patch': text}, want=200)
        self.assertEqual((self.get('p.txt')[2], self.get('q.txt')[2].strip()), (b'a\nB\nc\n', b'new'))

    def test_names_that_are_no_text(self):
        self.assertEqual(self.ask('PUT', self.files('?path=odd/%FFname&parents=1'), b'x')[0], 201)
        f = self.json('GET', self.files('/list?path=odd'), want=200)['items'][0]
        self.assertEqual(bytes.fromhex(f['path_hex']), b'\xffname')
        self.assertEqual(self.ask('GET', self.files('?path=odd/%FFname'))[2], b'x')

    def test_what_is_kept_of_one_that_is_stopped(self):
        b = self.json('POST', API + '/sandboxes', {}, want=201)['id']
        self.addCleanup(self.s.ask, 'DELETE', API + '/sandboxes/' + b)
        at = API + '/sandboxes/' + b
        self.json('POST', at + '/run', {'shell': 'mkdir -p d/e gone; echo old >a; echo 0123456789 >d/e/f; echo x >gone/y; ln -s /etc/passwd out; ln -s d to; mkfifo pipe; chmod 750 d'}, want=200)
        self.json('POST', at + '/snapshots', {}, want=201)
        self.json('POST', at + '/run', {'shell': 'echo new >a; rm -r gone; echo z >late; mkdir d/own; touch d/own/1 "odd $(printf "\\033")name"'}, want=200)
        self.fails('GET', at + '/files/list?path=/workspace&kept=1', 409, 'sandbox_alive')
        self.json('POST', at + '/kill', want=200)
        self.fails('GET', at + '/files/list?path=/workspace', 409, 'sandbox_stopped')
        found = {f['path']: f for f in self.json('GET', at + '/files/list?path=/workspace&kept=1', want=200)['items']}
        self.assertEqual(sorted(found), sorted(['a', 'd', 'late', 'odd \x1bname', 'out', 'pipe', 'to']))
        self.assertEqual((found['d']['type'], found['d']['mode'], found['out']['target'], found['pipe']['type'], found['a']['size']), ('directory', '0750', '/etc/passwd', 'other', 4))
        self.assertEqual([f['path'] for f in self.json('GET', at + '/files/list?path=/workspace/d&kept=1', want=200)['items']], ['e', 'own'])

        def read(path, **headers):
            return self.ask('GET', at + '/files?kept=1&path=' + quote(path), headers={k.replace('_', '-'): v for k, v in headers.items()})
        self.assertEqual(read('/workspace/a')[2], b'new\n')
        self.assertEqual(read('/workspace/d/e/f')[2], b'0123456789\n')
        got = read('/workspace/d/e/f', Range='bytes=3-5')
        self.assertEqual((got[0], got[2], got[1]['Content-Range']), (206, b'345', 'bytes 3-5/11'))
        self.assertEqual(read('/workspace/a', If_None_Match=read('/workspace/a')[1]['ETag'])[0], 304)
        self.assertEqual(read('/workspace/d/e/f', Range='bytes=99-')[0], 416)
        # No link is followed, nothing but a file is read, and nothing leads out.
        for path, status in (('/workspace/gone/y', 404), ('/workspace/out', 409), ('/workspace/to/e/f', 409), ('/workspace/pipe', 409), ('/workspace/d', 409), ('/workspace/../../etc/shadow', 400), ('/', 409)):
            self.assertEqual(read(path)[0], status, path)
        self.assertEqual(self.json('GET', at, want=200)['state'], 'stopped')
        self.json('POST', at + '/resume', want=200)
        self.assertEqual(self.json('POST', at + '/run', {'shell': 'cat a late'}, want=200)['stdout'], 'new\nz\n')

    def test_what_is_kept_is_read_where_it_is(self):
        size, b = 4 << 30, self.json('POST', API + '/sandboxes', {}, want=201)['id']
        self.addCleanup(self.s.ask, 'DELETE', API + '/sandboxes/' + b)
        at = API + '/sandboxes/' + b
        make = {'shell': 'truncate -s %d $F && printf tail | dd of=$F bs=1 seek=%d conv=notrunc' % (size, size - 4)}
        for name in ('below', 'above'):  # in the snapshot's layer, and in what was written since
            self.assertEqual(self.json('POST', at + '/run', dict(make, env={'F': name}), want=200)['code'], 0)
            if name == 'below':
                self.json('POST', at + '/snapshots', {}, want=201)
        self.json('POST', at + '/kill', want=200)

        def ask(name, **headers):
            c = self.s.connection()
            self.addCleanup(c.close)
            c.request('GET', at + '/files?kept=1&path=/workspace/' + name, headers=dict(headers, Authorization='Bearer ' + self.s.key))
            return c, c.getresponse()

        def until(status, *words, **headers):  # what was read before, or given up, may still be counted
            for _ in range(300):
                c, r = ask(*words, **headers)
                if r.status == status:
                    return c, r
                self.assertIn((r.status, status), ((429, 200), (429, 206)), r.read(300))
                c.close()
                time.sleep(0.1)
            self.fail('never %d' % status)
        for name in ('below', 'above'):
            r = until(206, name, Range='bytes=-4')[1]
            self.assertEqual((r.read(), r.headers['Content-Range']), (b'tail', 'bytes %d-%d/%d' % (size - 4, size - 1, size)))
        held = [until(200, name) for name in ('below', 'above') * 2]
        self.assertEqual([r.read(3) for _, r in held], [b'\0\0\0'] * 4)
        fds = '/proc/%d/fd/' % self.s.pid()
        stats = [os.stat(fds + n) for n in os.listdir(fds) if os.path.exists(fds + n)]
        self.assertEqual([st.st_blocks * 512 < 1 << 20 for st in stats if st.st_size == size], [True] * 4)
        self.assertEqual([n for n in os.listdir(fds) if os.path.islink(fds + n) and os.readlink(fds + n).startswith(self.s.home + '/#')], [])  # a copy without a name
        c, r = ask('above')
        self.assertEqual((r.status, json.loads(r.read())['reason']), (429, 'too_many_at_once'))
        for c, r in held:
            r.close()
            c.close()
        self.assertEqual(until(206, 'above', Range='bytes=-1')[1].read(), b'l')

    def test_tar_round_trip(self):
        long = '/'.join(['d' * 50] * 4)
        made = io.BytesIO()
        with tarfile.open(fileobj=made, mode='w', format=tarfile.PAX_FORMAT) as t:
            for name, data, mode in (('f', b'1' * 1000, 0o640), (long + '/deep', b'2', 0o644), ('empty', b'', 0o755)):
                i = tarfile.TarInfo(name)
                i.size, i.mode = len(data), mode
                t.addfile(i, io.BytesIO(data))
            i = tarfile.TarInfo('closed')
            i.type, i.mode = tarfile.DIRTYPE, 0o500
            t.addfile(i)
            i = tarfile.TarInfo('closed/in')
            i.size = 3
            t.addfile(i, io.BytesIO(b'abc'))
            i = tarfile.TarInfo('ln')
            i.type, i.linkname = tarfile.SYMTYPE, 'x' * 150
            t.addfile(i)
        status, _, body = self.ask('PUT', self.files('/tar?path=t'), made.getvalue())
        self.assertEqual((status, json.loads(body)), (200, {'files': 4, 'directories': 1, 'links': 1, 'bytes': 1004}))
        data = self.ask('GET', self.files('/tar?path=t'))[2]
        with tarfile.open(fileobj=io.BytesIO(data)) as t:
            got = {m.name: (m.type, m.mode, t.extractfile(m).read() if m.isfile() else m.linkname) for m in t}
        self.assertEqual(got['f'], (tarfile.REGTYPE, 0o640, b'1' * 1000))
        self.assertEqual(got[long + '/deep'][2], b'2')
        self.assertEqual(got['empty'], (tarfile.REGTYPE, 0o755, b''))
        self.assertEqual(got['closed'][1], 0o500)
        self.assertEqual(got['ln'][2], 'x' * 150)
        with tarfile.open(fileobj=io.BytesIO(self.ask('GET', self.files('/tar?path=t/f'))[2])) as t:
            self.assertEqual(t.getnames(), ['f'])
        self.json('POST', self.files('/chmod'), {'path': 't/closed', 'mode': '0700'}, want=204)

    def test_what_is_replaced_is_read_whole(self):
        """While others put files of other lengths in its place: the one or the other, never a part, and never a piece of a file that is being written."""
        good, over = {b'a' * 1000, b'b' * 3000, b'c' * 100000}, threading.Event()

        def turn():
            while not over.is_set():
                for data in good:
                    self.s.ask('PUT', self.files('?path=turn/f'), data)
        self.json('POST', self.files('/mkdir'), {'path': 'turn'}, want=201)
        self.s.ask('PUT', self.files('?path=turn/f'), b'a' * 1000)
        writers = [threading.Thread(target=turn) for _ in range(2)]
        for t in writers:
            t.start()
        try:
            for _ in range(100):
                status, _, data = self.get('turn/f')
                self.assertTrue(data in good or (status == 503 and json.loads(data)['reason'] == 'file_changing'), (status, len(data)))
                try:
                    data = self.ask('GET', self.files('/tar?path=turn'))[2]
                except http.client.IncompleteRead:
                    continue  # each of its tries met a writer; a cut is told
                with tarfile.open(fileobj=io.BytesIO(data)) as t:
                    self.assertIn([(m.name, t.extractfile(m).read() in good) for m in t], ([('f', True)], []))
        finally:
            over.set()
            for t in writers:
                t.join()

    def test_tar_that_leads_elsewhere(self):
        for name, kind in (('../x', b'0'), ('/abs', b'0'), ('a/../../x', b'0'), ('dev', b'3'), ('hard', b'1')):
            made = io.BytesIO()
            with tarfile.open(fileobj=made, mode='w') as t:
                i = tarfile.TarInfo(name)
                i.type = kind
                t.addfile(i)
            p = json.loads(self.ask('PUT', self.files('/tar?path=bad'), made.getvalue())[2])
            self.assertEqual((p['status'], p['reason'] in ('archive_path', 'archive_special')), (400, True), p)
        for data in (b'x' * 512, b'x' * 700, made.getvalue()[:300]):
            self.assertEqual(json.loads(self.ask('PUT', self.files('/tar?path=bad'), data)[2])['reason'], 'archive_corrupt')
        self.assertEqual(self.ask('PUT', self.files('/tar'), b'')[0], 400)

    def test_watch(self):
        self.json('POST', self.files('/mkdir'), {'path': 'watched', 'parents': True}, want=201)
        c = self.s.connection()
        c.request('GET', self.files('/watch?path=watched&recursive=1'), headers={'Authorization': 'Bearer ' + self.s.key})
        r = c.getresponse()
        DOC.seen['watchFiles'].add(r.status)
        self.assertEqual(r.readline(), b'event: ready\n')
        self.put('watched/new', b'x')
        seen = []
        while not any(e['path'] == 'new' and e['change'] == 'create' for e in seen) and len(seen) < 50:
            line = r.readline()
            if line.startswith(b'data: {"change"'):
                seen.append(json.loads(line[6:]))
        c.close()
        self.assertLess(len(seen), 50)


def unseen(doc, *tags):
    """Declared statuses of the operations under these tags that nobody has seen."""
    return ['%s %s' % (op['operationId'], status) for _, _, op, _ in doc.ops if op.get('tags', [''])[0] in tags for status in op['responses']
            if status != 'default' and int(status) not in doc.seen[op['operationId']]]


class Zlast(Base):
    """Runs last: was every declared status seen?"""

    def test_every_status_that_is_declared_was_seen(self):
        missing = []
        for _, _, op, _ in DOC.ops:
            if op['tags'][0] in MINE:
                declared = {int(s) for s in op['responses'] if s != 'default'}
                missing += ['%s %d' % (op['operationId'], s) for s in sorted(declared - DOC.seen[op['operationId']])]
        self.assertEqual(missing, [])


if __name__ == '__main__':
    with Server(BUILD) as S:
        status, _, doc = S.json('GET', API + '/openapi.json', key=None)
        assert status == 200 and doc['openapi'] == '3.1.0'
        DOC = Document(doc)
        BOX = S.json('POST', API + '/sandboxes', {})[2]['id']
        only = len(sys.argv) > 1
        loader = unittest.TestLoader()
        suite = loader.loadTestsFromNames(sys.argv[1:], sys.modules['__main__']) if only else loader.loadTestsFromModule(sys.modules['__main__'])
        ok = unittest.TextTestRunner(verbosity=1).run(suite).wasSuccessful()
    sys.exit(not ok)
