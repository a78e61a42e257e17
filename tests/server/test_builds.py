# SPDX-License-Identifier: Apache-2.0
"""Templates built over HTTP: a context is sent, its log is followed, it is canceled, and a server that ends loses none."""
import io
import json
import os
import select
import signal
import sys
import tarfile
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from serve import Server  # noqa: E402
from test_api import BUILD, Document, unseen  # noqa: E402

API = '/api/v1'


class Stream:
    """Events of an SSE answer, one by one: {'event', 'data', 'id'}."""

    def __init__(self, s, path, headers=None):
        self.c = s.connection(timeout=60)
        self.c.request('GET', path, headers=dict(headers or {}, Authorization='Bearer ' + s.key))
        self.r = self.c.getresponse()
        self.status = self.r.status

    def next(self):
        event = {}
        while True:
            line = self.r.readline().decode()
            if not line:
                raise AssertionError('the stream ended')
            line = line.rstrip('\n')
            if not line and 'data' in event:
                return event
            if line and not line.startswith(':'):
                name, _, value = line.partition(': ')
                event[name] = value


def tar(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w:gz') as t:
        for name, text in files.items():
            m = tarfile.TarInfo(name)
            m.size = len(text)
            t.addfile(m, io.BytesIO(text.encode()))
    return out.getvalue()


class Builds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Server(BUILD).start()
        cls.doc = Document(cls.s.json('GET', API + '/openapi.json')[2])

    @classmethod
    def tearDownClass(cls):
        cls.s.__exit__()

    def ask(self, method, path, body=None, type_='application/x-tar', key=None):
        h = {'Authorization': 'Bearer ' + (key or self.s.key)}
        if body is not None:
            h['Content-Type'] = type_
        status, head, data = self.s.ask(method, API + path, body, headers=h)
        self.doc.check(method, API + path, status, head, data)
        return status, json.loads(data) if data else None

    def submit(self, files, query='', **more):
        body = tar(files) if isinstance(files, dict) else files
        status, b = self.ask('POST', '/builds' + query, body, **more)
        self.assertEqual(status, 202, b)
        return b['id']

    def follow(self, id, **more):
        """All events, and the last one."""
        seen, s = [], Stream(self.s, API + '/builds/%s/log' % id, **more)
        self.assertEqual(s.status, 200)
        self.doc.seen['streamBuildLog'].add(s.status)
        while True:
            e = s.next()
            seen.append((e['event'], json.loads(e['data']), e.get('id')))
            if e['event'] == 'end':
                s.c.close()
                return seen, seen[-1][1]

    def steps(self, id, **more):
        """The snapshots that a build left."""
        return [x for x in self.ask('GET', '/snapshots', **more)[1]['items'] if (json.loads(x['metadata']) if isinstance(x['metadata'], str) else x['metadata']).get('build') == id]

    def run_in(self, template, *argv):
        status, b = self.s.json('POST', API + '/sandboxes', {'template': template, 'user': 'root'})[::2]
        self.assertEqual(status, 201, b)
        r = self.s.json('POST', API + '/sandboxes/%s/run' % b['id'], {'argv': list(argv)})[2]
        self.s.json('DELETE', API + '/sandboxes/' + b['id'])
        return r

    def test_a_context_becomes_a_template(self):
        files = {'Dockerfile': 'FROM host\nARG WHO\nCOPY in /out/\nRUN echo "$WHO: $(cat /out/a)" | tee /said\n', 'in/a': 'text\n', 'in/b.o': 'x', '.dockerignore': '**/*.o\n'}
        id = self.submit(files, '?name=sent:1&arg=WHO=me')
        seen, end = self.follow(id)
        self.assertEqual(end['state'], 'ready', end)
        self.assertEqual([d['text'] for k, d, _ in seen if k == 'step'], ['COPY in /out/', 'RUN echo "$WHO: $(cat /out/a)" | tee /said'])
        self.assertEqual([d['text'] for k, d, _ in seen if k == 'out'], ['me: text'])
        status, b = self.ask('GET', '/builds/' + id)
        self.assertEqual((status, b['state'], b['template'], b['steps'], b['cached']), (200, 'ready', end['template'], 2, 0))
        self.assertIn('me: text', self.run_in('sent:1', 'sh', '-c', 'cat /said; ls /out')['stdout'])
        # Again, from the cache; the log goes on where somebody left it.
        again = self.submit(files, '?name=sent:1&arg=WHO=me')
        seen, end2 = self.follow(again)
        self.assertEqual((end2['template'], all(d['cached'] for k, d, _ in seen if k == 'step')), (end['template'], True))
        at = [i for k, _, i in seen if k == 'at'][-1]
        self.assertEqual([k for k, _, _ in self.follow(again, headers={'Last-Event-ID': at})[0]], ['end'])
        self.assertIn(id, [x['id'] for x in self.ask('GET', '/builds')[1]['items']])
        self.assertEqual(self.s.json('GET', API + '/sandboxes')[2]['items'], [])

    def test_a_file_without_context(self):
        id = self.submit(json.dumps({'from': 'host', 'name': 'alone', 'files': {'/etc/x': 'y'}}).encode(), type_='application/json')
        self.assertEqual(self.follow(id)[1]['state'], 'ready')
        self.assertEqual(self.run_in('alone', 'cat', '/etc/x')['stdout'], 'y')
        id = self.submit(b'FROM host\nRUN echo hi >/hi\n', '?name=plain', type_='text/plain')
        self.assertEqual(self.follow(id)[1]['state'], 'ready')
        self.assertEqual(self.run_in('plain', 'cat', '/hi')['stdout'], 'hi\n')

    def test_settings_are_each_sandboxs_own(self):
        config = {'from': 'host', 'name': 'agent', 'run': ['true'], 'settings': {'permissions': {'default': 'ask', 'choices': {'ask': {'p': 'on'}, 'bypass': {'p': 'never'}}}},
                  'setting_files': {'/home/user/conf': {'content': 'p=${permissions.p}'}}}
        self.assertEqual(self.follow(self.submit(json.dumps(config).encode(), type_='application/json'))[1]['state'], 'ready')
        for given, told, text in ((None, 'ask', 'p=on'), ({'permissions': 'bypass'}, 'bypass', 'p=never')):
            status, b = self.ask('POST', '/sandboxes', json.dumps({'template': 'agent', **({'settings': given} if given else {})}).encode(), 'application/json')
            self.assertEqual((status, b['settings']), (201, {'permissions': told}))
            self.assertEqual(self.ask('GET', '/sandboxes/' + b['id'])[1]['settings'], {'permissions': told})
            self.assertEqual(self.s.json('POST', API + '/sandboxes/%s/run' % b['id'], {'argv': ['cat', '/home/user/conf']})[2]['stdout'], text)
            self.assertEqual(self.ask('DELETE', '/sandboxes/' + b['id'])[0], 204)
        for given, reason in (({'permissions': 'all'}, 'setting_invalid'), ({'other': 'x'}, 'setting_unknown')):
            status, p = self.ask('POST', '/sandboxes', json.dumps({'template': 'agent', 'settings': given}).encode(), 'application/json')
            self.assertEqual((status, p['reason']), (400, reason))
        wrong = dict(config, setting_files={'/x': {'content': '${nosuch}'}})
        end = self.follow(self.submit(json.dumps(wrong).encode(), type_='application/json'))[1]
        self.assertEqual((end['state'], end['reason']), ('failed', 'template_config'))

    def test_what_fails_is_told(self):
        status, p = self.ask('POST', '/builds', b'FROM host\nNOPE\n', type_='text/plain')
        self.assertEqual((status, p['reason']), (400, 'dockerfile_unsupported'))
        status, p = self.ask('POST', '/builds', b'', type_='application/x-tar')
        self.assertEqual((status, p['reason']), (400, 'build_context'))
        self.assertEqual(self.ask('POST', '/builds?arg=x', tar({'Dockerfile': 'FROM host'}))[0], 400)
        self.assertEqual(self.ask('POST', '/builds', b'#' * (2 << 20), type_='text/plain')[0], 413)
        for body, word in ((tar({'x': 'y'}), 'neither template.json nor Dockerfile'), (b'garbage' * 100, 'cannot be unpacked'),
                           (tar({'Dockerfile': 'FROM host\nRUN echo why >&2; exit 3\n'}), 'Dockerfile:2: RUN: exit code 3: why'),
                           (tar({'Dockerfile': 'FROM host\nCOPY ../../etc/hostname /x\n'}), 'is not there')):
            end = self.follow(self.submit(body))[1]
            self.assertEqual(end['state'], 'failed')
            self.assertIn(word, end['error'])
        for path in ('/builds/bbbbbbbbbbbbbbbbbbbb', '/builds/bbbbbbbbbbbbbbbbbbbb/log'):
            self.assertEqual(self.ask('GET', path)[0], 404)
        self.assertEqual(self.ask('POST', '/builds/bbbbbbbbbbbbbbbbbbbb/cancel')[0], 404)
        end = time.monotonic() + 60  # a build is told as failed while its sandbox still goes
        while self.s.json('GET', API + '/sandboxes')[2]['items'] and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(self.s.json('GET', API + '/sandboxes')[2]['items'], [])

    def test_one_is_canceled(self):
        id = self.submit(b'FROM host\nRUN while :; do sleep 0.1; done\n', type_='text/plain')
        s = Stream(self.s, API + '/builds/%s/log' % id)
        while s.next()['event'] != 'step':
            pass
        self.assertEqual(self.ask('POST', '/builds/%s/cancel' % id)[0], 200)
        while True:
            e = s.next()
            if e['event'] == 'end':
                break
        self.assertEqual(json.loads(e['data'])['state'], 'canceled')
        self.assertEqual(self.ask('POST', '/builds/%s/cancel' % id)[0], 409)
        for _ in range(300):
            left = self.s.json('GET', API + '/sandboxes')[2]['items']
            if not left:
                break
            time.sleep(0.1)
        self.assertEqual(left, [])

    def test_one_that_is_sent_again_is_one(self):
        h = {'Authorization': 'Bearer ' + self.s.key, 'Content-Type': 'text/plain', 'Idempotency-Key': 'build-1'}
        ids = [json.loads(self.s.ask('POST', API + '/builds?name=once:1', b'FROM host\nRUN true\n', headers=h)[2])['id'] for _ in range(2)]
        self.assertEqual(ids[0], ids[1])
        self.assertEqual(self.follow(ids[0])[1]['state'], 'ready')

    def test_the_sandbox_of_a_failed_step_is_kept(self):
        id = self.submit(b'FROM host\nRUN echo look >/tmp/here; exit 4\n', '?keep_failed=1&step_ms=60000&memory=268435456', type_='text/plain')
        self.assertEqual(self.follow(id)[1]['state'], 'failed')
        b = self.ask('GET', '/builds/' + id)[1]
        r = self.s.json('POST', API + '/sandboxes/%s/run' % b['sandbox'], {'argv': ['cat', '/tmp/here']})[2]
        self.assertEqual(r['stdout'], 'look\n', b)
        self.s.json('DELETE', API + '/sandboxes/' + b['sandbox'])

    def test_a_day_for_a_step_is_the_operators(self):
        key = self.s.make_key('--scope', 'tenant')
        for ms, who, want in ((3600001, key, 400), (3600000, key, 202), (3600001, None, 202), (86400001, None, 400)):
            status, b = self.ask('POST', '/builds?step_ms=%d' % ms, b'FROM host\nRUN true\n', 'text/plain', who)
            self.assertEqual(status, want, (ms, b))
            if status == 202:
                self.ask('POST', '/builds/%s/cancel' % b['id'])

    def test_what_there_is_without_waiting(self):
        id = self.submit(b'FROM host\nRUN echo here; sleep 60\n', '?no_cache=1', type_='text/plain')
        end = time.monotonic() + 60
        while True:
            status, head, data = self.s.ask('GET', API + '/builds/%s/log?follow=0' % id)
            if b'"text":"here"' in data or time.monotonic() > end:
                break
            time.sleep(0.1)
        self.assertIn(b'"text":"here"', data)
        self.assertNotIn(b'event: end', data)
        self.assertEqual(self.ask('GET', '/builds/%s/log?after=x' % id)[0], 400)
        self.assertEqual(self.ask('POST', '/builds/%s/cancel' % id)[0], 200)
        self.assertEqual(self.follow(id)[1]['state'], 'canceled')

    def test_prune_and_gc(self):
        key = self.s.make_key('--scope', 'tenant')

        def labels():
            return {x['label'] for x in self.s.json('GET', API + '/snapshots?limit=1000', key=key)[2]['items'] if x.get('label')}
        # What builds left goes. What somebody else labelled so stays, and so do a tenant's while a build of it is at work.
        self.assertEqual(self.follow(self.submit(b'FROM host\nRUN echo left\n', type_='text/plain'))[1]['state'], 'ready')
        box = self.s.json('POST', API + '/sandboxes', {})[2]['id']
        mine = {'build.mine', 'build.' + 'a' * 56, 'build.' + 'b' * 57}
        for label in mine:
            self.assertEqual(self.s.json('POST', API + '/sandboxes/%s/snapshots' % box, {'label': label, 'metadata': {'why': 'mine'}})[0], 201)
        id = self.submit(b'FROM host\nRUN echo first\nRUN echo second; sleep 600\n', '?no_cache=1', type_='text/plain')
        for _ in range(600):
            if b'"text":"second"' in self.s.ask('GET', API + '/builds/%s/log?follow=0' % id)[2]:
                break
            time.sleep(0.1)
        before = labels()
        self.assertTrue(mine < before, before)
        self.assertEqual(self.ask('GET', '/builds/caches', key=key), (200, {'items': []}))
        self.assertEqual(self.ask('POST', '/builds/prune', key=key)[1]['removed'], 0)
        self.assertEqual(labels(), before)
        self.assertEqual(self.ask('POST', '/builds/%s/cancel' % id)[0], 200)
        self.assertEqual(self.follow(id)[1]['state'], 'canceled')
        removed = 0
        for _ in range(300):  # until its builder has put its things away
            removed += self.ask('POST', '/builds/prune', key=key)[1]['removed']
            if labels() == mine:
                break
            time.sleep(0.1)
        self.assertEqual(labels(), mine)
        self.assertGreaterEqual(removed, 2)
        self.s.json('DELETE', API + '/sandboxes/' + box)
        self.assertGreaterEqual(self.ask('POST', '/gc')[1]['removed'], 0)
        self.s.cay('tenant', 'create', 'sweeper')
        self.assertEqual(self.ask('POST', '/gc', key=self.s.make_key('--tenant', 'sweeper'))[0], 403)

    def test_another_tenant_sees_nothing(self):
        self.s.cay('tenant', 'create', 'other')
        other = self.s.make_key('--tenant', 'other')
        mine = self.submit(b'FROM host\nRUN echo secret\n', type_='text/plain')
        self.follow(mine)
        self.assertEqual(self.ask('GET', '/builds/' + mine, key=other)[0], 404)
        self.assertEqual(self.ask('GET', '/builds', key=other)[1]['items'], [])
        self.assertEqual(self.ask('POST', '/builds/%s/cancel' % mine, key=other)[0], 404)
        theirs = self.submit(b'FROM host\nRUN echo secret\n', '?name=theirs', type_='text/plain', key=other)
        seen, end = self.follow(theirs)
        self.assertEqual(end['state'], 'ready')
        self.assertEqual([d['cached'] for k, d, _ in seen if k == 'step'], [False], 'a step of another tenant is nobody else\'s')

    def test_a_label_of_another_tenant_is_no_step(self):
        # Whoever knows the file knows the labels of its steps: a snapshot that another tenant gave such a label is not taken for one.
        text = b'FROM host\nRUN echo good >/home/user/mark\n'
        id = self.submit(text, '?name=planted', type_='text/plain')
        self.assertEqual(self.follow(id)[1]['state'], 'ready')
        step = self.steps(id)
        self.assertEqual(self.ask('DELETE', '/templates/planted')[0], 204)
        self.assertEqual(self.ask('DELETE', '/snapshots/' + step[0]['id'])[0], 200)
        self.s.cay('tenant', 'create', 'planter')
        key = {'Authorization': 'Bearer ' + self.s.make_key('--tenant', 'planter'), 'Content-Type': 'application/json'}
        box = json.loads(self.s.ask('POST', API + '/sandboxes', '{}', headers=key)[2])['id']
        self.assertEqual(self.s.ask('PUT', API + '/sandboxes/%s/files?path=/home/user/mark' % box, b'evil', headers=dict(key, **{'Content-Type': 'application/octet-stream'}))[0], 201)
        status, _, body = self.s.ask('POST', API + '/sandboxes/%s/snapshots' % box, json.dumps({'label': step[0]['label']}), headers=key)
        self.assertEqual(status, 201, body)
        self.s.ask('DELETE', API + '/sandboxes/' + box, headers=key)
        with tempfile.TemporaryDirectory() as d:  # the operator, who is no tenant
            with open(d + '/Dockerfile', 'wb') as f:
                f.write(text)
            self.s.cay('template', 'build', '-t', 'planted', d)
        self.assertEqual(self.run_in('planted', 'cat', '/home/user/mark')['stdout'], 'good\n')
        seen, end = self.follow(self.submit(text, '?name=planted&no_cache=true', type_='text/plain'))
        self.assertEqual((end['state'], [d['cached'] for k, d, _ in seen if k == 'step']), ('ready', [False]), end)

    def test_a_label_of_tenant_default_is_no_step(self):
        # Names of tenant default are found where no tenant is named: they are for none of the others either.
        text, build = b'FROM host\nRUN echo good >/home/user/mark\n', lambda: self.submit(text, '?name=mine', type_='text/plain', key=key)
        self.s.cay('tenant', 'create', 'builder')
        key = self.s.make_key('--tenant', 'builder')
        id = build()
        self.assertEqual(self.follow(id)[1]['state'], 'ready')
        step = self.steps(id, key=key)[0]
        self.assertEqual(self.ask('DELETE', '/templates/mine', key=key)[0], 204)
        self.assertEqual(self.ask('DELETE', '/snapshots/' + step['id'], key=key)[0], 200)
        box = self.s.json('POST', API + '/sandboxes', {})[2]['id']
        status, _, planted = self.s.json('POST', API + '/sandboxes/%s/snapshots' % box, {'label': step['label']})
        self.assertEqual(status, 201, planted)
        self.addCleanup(self.s.ask, 'DELETE', API + '/snapshots/' + planted['id'])
        self.s.ask('DELETE', API + '/sandboxes/' + box)
        seen, end = self.follow(build())
        self.assertEqual((end['state'], [d['cached'] for k, d, _ in seen if k == 'step']), ('ready', [False]), end)

    def test_y_one_tenant_does_not_keep_the_others_waiting(self):
        for name in ('crowded', 'friend', 'modest'):
            self.s.cay('tenant', 'create', name)
        many, friend, one = (self.s.make_key('--tenant', t) for t in ('crowded', 'friend', 'modest'))

        def send(key, text):
            return self.s.ask('POST', API + '/builds', text, {'Content-Type': 'text/plain'}, key=key)

        sent, refused = [], None
        for i in range(40):  # two are built, sixteen wait
            status, head, body = send(many, b'FROM host\nRUN sleep 300 # %d\n' % i)
            if status != 202:
                refused = status, head, json.loads(body)
                break
            sent.append(json.loads(body)['id'])
        status, head, problem = refused
        self.assertEqual((status, problem['code'], problem['reason'], problem['retry']), (429, 'ERATE', 'queue_full', 'yes'), problem)
        self.assertEqual(problem['info'], {'queue': 16, 'most': 16})
        self.assertGreater(int(head['Retry-After']), 0)
        self.assertGreaterEqual(len(sent), 16)
        # Another tenant's is taken, and is done at once although two are at work and sixteen came before it.
        status, _, body = send(one, b'FROM host\nRUN echo mine\n')
        self.assertEqual(status, 202, body)
        mine = json.loads(body)['id']
        building = lambda: [i for i in sent if self.s.json('GET', API + '/builds/' + i)[2]['state'] == 'building']  # noqa: E731
        for _ in range(600):
            if len(building()) == 2:
                break
            time.sleep(0.1)
        for _ in range(900):
            b = self.s.json('GET', API + '/builds/' + mine)[2]
            if b['state'] in ('ready', 'failed'):
                break
            time.sleep(0.1)
        self.assertEqual(b['state'], 'ready', b)
        self.assertEqual(len(building()), 2)
        # Nor do two that act together, who have all three between them.
        sent.append(json.loads(send(friend, b'FROM host\nRUN sleep 300\n')[2])['id'])
        for _ in range(600):
            if len(building()) == 3:
                break
            time.sleep(0.1)
        mine = json.loads(send(one, b'FROM host\nRUN echo mine too\n')[2])['id']
        for _ in range(900):
            b = self.s.json('GET', API + '/builds/' + mine)[2]
            if b['state'] in ('ready', 'failed'):
                break
            time.sleep(0.1)
        self.assertEqual((b['state'], len(building())), ('ready', 3), b)
        for i in sent:
            self.s.ask('POST', API + '/builds/%s/cancel' % i)

    def test_y_uploads_at_once_are_counted(self):
        head = ('POST %s/builds HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/x-tar\r\nContent-Length: 1000000\r\n\r\n')
        self.s.cay('tenant', 'create', 'sender')
        theirs = self.s.make_key('--tenant', 'sender')

        def upload():
            c = self.s.socket()
            c.sendall((head % (API, theirs)).encode() + b'x' * 70000)
            return c
        open_ = [upload() for _ in range(4)]
        for _ in range(300):  # until all four are at work; one that met our own question in its place comes again
            for c in select.select(open_, [], [], 0)[0]:
                c.close()
                open_[open_.index(c)] = upload()
            status, answer, body = self.s.ask('POST', API + '/builds', b'FROM host\n', {'Content-Type': 'text/plain'}, key=theirs)
            if status == 429:
                break
            self.s.ask('POST', API + '/builds/%s/cancel' % json.loads(body)['id'])
            time.sleep(0.1)
        self.assertEqual((status, json.loads(body)['reason'], json.loads(body)['info']), (429, 'too_many_at_once', {'queue': 4, 'most': 4}), body)
        self.assertGreater(int(answer['Retry-After']), 0)
        status, _, body = self.s.ask('POST', API + '/builds', b'FROM host\n', {'Content-Type': 'text/plain'})  # another tenant's
        self.assertEqual(status, 202, body)
        for c in open_:
            c.close()
        for _ in range(300):  # and those that ended are not counted any more
            status = self.s.ask('POST', API + '/builds', b'FROM host\n', {'Content-Type': 'text/plain'}, key=theirs)[0]
            if status == 202:
                break
            time.sleep(0.1)
        self.assertEqual(status, 202)

    def test_zz_every_status_that_is_declared_was_seen(self):
        self.assertEqual(unseen(self.doc, 'builds'), [])

    def test_z_a_server_that_ends_leaves_it_to_the_next(self):
        text = b'FROM host\nRUN echo one >/one\nRUN test -e /workspace/../one && sleep 3\n'
        id = self.submit(text, '?name=survivor', type_='text/plain')
        s = Stream(self.s, API + '/builds/%s/log' % id)
        steps = 0
        while steps < 2:
            steps += s.next()['event'] == 'step'
        self.s.proc.send_signal(signal.SIGKILL)
        self.s.proc.wait()
        self.s.start()
        # The lease of who was killed runs out first; the queue then gives it to this one.
        for _ in range(1200):
            b = self.ask('GET', '/builds/' + id)[1]
            if b['state'] not in ('waiting', 'building', 'lost'):
                break
            time.sleep(0.1)
        self.assertEqual(b['state'], 'ready', b)
        self.assertEqual(b['cached'], 1, 'it went on from the step that was done')
        self.assertEqual(self.run_in('survivor', 'cat', '/one')['stdout'], 'one\n')


if __name__ == '__main__':
    unittest.main()
