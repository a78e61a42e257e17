# SPDX-License-Identifier: Apache-2.0
"""Sandboxes that are ready before anybody asks: filled between the marks, given to who asks for such a one, nobody's until then."""
import json
import os
import re
import signal
import sqlite3
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve import Server  # noqa: E402
from test_api import BUILD, Document  # noqa: E402
from test_api2 import Stream  # noqa: E402

API = '/api/v1'
WEB = {'web': {'command': 'echo up >/tmp/up; exec sleep 100000', 'health': {'command': 'test -e /tmp/up', 'interval_ms': 100}}}


class Pools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Server(BUILD).start()
        cls.doc = Document(cls.s.json('GET', API + '/openapi.json')[2])
        cls.build('one')

    @classmethod
    def tearDownClass(cls):
        for p in cls.s.json('GET', API + '/pools')[2]['items']:
            cls.s.json('DELETE', API + '/pools?template=' + p['template'])
        cls.s.__exit__()

    @classmethod
    def build(cls, mark, name='svc'):
        with tempfile.TemporaryDirectory() as d:
            with open(d + '/template.json', 'w') as f:
                json.dump({'from': 'host', 'files': {'/etc/mark': mark}, 'services': WEB}, f)
            cls.s.cay('template', 'build', '-q', '-t', name, d, timeout=120)

    def ask(self, method, path, body=None, want=None, head=None, key=True):
        status, h, data = self.s.ask(method, API + path, None if body is None else json.dumps(body), dict({'Content-Type': 'application/json'} if body is not None else {}, **head or {}), key)
        if '/pools' in path and key is True:
            self.doc.check(method, API + path, status, h, data)
        if want:
            self.assertEqual(status, want, data)
        return json.loads(data) if data else None

    def pool(self, name='svc'):
        return next((p for p in self.ask('GET', '/pools', want=200)['items'] if p['template'] == name), None)

    def until(self, what, seconds=60):
        end = time.monotonic() + seconds
        while not what():
            if time.monotonic() > end:
                raise AssertionError('it did not happen: %s' % self.pool())
            time.sleep(0.05)

    def full(self, n, name='svc'):
        self.until(lambda: self.pool(name)['ready'] == n and not self.pool(name)['making'])

    def put(self, low, high, name='svc'):
        p = self.ask('PUT', '/pools', {'template': name, 'low': low, 'high': high}, want=200)
        self.assertEqual((p['template'], p['low'], p['high'], p['tenant']), (name, low, high, 'default'))

    def store(self, sql):
        """What is recorded, without our own code."""
        db = sqlite3.connect('file:%s?mode=ro' % os.path.join(self.s.home, 'store.db'), uri=True, timeout=20)
        try:
            return db.execute(sql).fetchall()
        finally:
            db.close()

    def rows(self):
        return self.store("SELECT id,name,state FROM sandboxes WHERE tenant='.warm'")

    def learnt(self):
        """What the pool keeps, and what it would turn to if it were asked for again."""
        note = next(n for n in (json.loads(v) for v, in self.store("SELECT value FROM notes WHERE space='warm'")) if n['template'] == 'svc')
        return {k: v for k, v in note['request'].items() if k != 'template'}, note.get('other')

    def counts(self):
        text = self.s.ask('GET', '/metrics')[2].decode()
        return tuple(int(re.search(r'^cay_warm_%s_total (\d+)$' % k, text, re.M).group(1)) for k in ('taken', 'missed'))

    def make(self, want=201, key=True, head=None, **spec):
        return self.ask('POST', '/sandboxes', dict({'template': 'svc'}, **spec), want=want, key=key, head=head)

    def end(self, *boxes):
        for b in boxes:
            self.ask('DELETE', '/sandboxes/' + b['id'])

    def test_between_the_marks(self):
        self.put(1, 2)
        self.full(2)
        ids = {r[0] for r in self.rows()}
        self.assertEqual(len(ids), 2)
        self.assertFalse(ids & {x['id'] for x in self.ask('GET', '/sandboxes')['items']})
        self.assertFalse(ids & set(self.s.cay('ls', '-q').split()))
        self.assertEqual(self.ask('GET', '/sandboxes?tenant=default')['items'], [])
        before = self.counts()
        one = self.make(name='mine', labels={'a': 'b'}, metadata={'c': 1}, ttl_ms=600000, isolation='rootless')
        self.assertIn(one['id'], ids)
        self.assertEqual((one['name'], one['labels'], one['metadata'], one['state'], one['tenant']), ('mine', {'a': 'b'}, {'c': 1}, 'running', 'default'))
        self.assertGreater(one['deadline_ms'], time.time() * 1000 + 300000)
        self.assertLess(abs(one['created_ms'] - time.time() * 1000), 60000)
        units = self.ask('GET', '/sandboxes/%s/services' % one['id'])['items']
        self.assertEqual([(u['name'], u['ready']) for u in units], [('web', True)])  # at once: it was ready before it was asked for
        self.assertEqual(self.counts(), (before[0] + 1, before[1]))
        self.assertEqual(self.pool()['ready'], 1)  # not below the low mark: none is made
        two = self.make()
        self.assertIn(two['id'], ids)
        self.assertEqual([x['id'] for x in self.ask('GET', '/sandboxes')['items']], [one['id'], two['id']])  # in the order in which they came to be somebody's
        self.full(2)  # below it: up to the high one
        self.assertTrue(any(j['kind'] == 'warm' and j['state'] == 'done' for j in self.ask('GET', '/jobs?kind=warm')['items']))
        self.put(1, 1)
        self.full(1)  # what is too many goes
        text = self.s.ask('GET', '/metrics')[2].decode()
        self.assertIn('cay_warm_ready{template="svc",tenant="default"} 1\n', text)
        self.end(one, two)

    def test_only_what_is_alike_is_given(self):
        self.put(1, 1)
        self.full(1)
        before = self.counts()
        other = self.make(env={'A': 'b'}, workdir='/tmp')
        self.assertEqual(self.ask('POST', '/sandboxes/%s/run' % other['id'], {'shell': 'echo $A; pwd'})['stdout'], 'b\n/tmp\n')
        self.assertEqual((self.counts(), self.pool()['ready']), ((before[0], before[1] + 1), 1))
        plain = self.s.json('POST', API + '/sandboxes', {})[2]  # another template: no pool's business
        self.assertEqual(self.counts(), (before[0], before[1] + 1))
        self.end(other, plain)

    def test_a_pool_turns_to_what_is_asked_for(self):
        self.put(1, 1)
        self.full(1)
        made = [self.make(workdir='/var') for _ in range(2)]
        taken = self.counts()[0]
        self.until(lambda: self.pool()['ready'] == 1)

        def hit():
            made.append(self.make(workdir='/var'))
            return self.counts()[0] > taken
        self.until(hit)
        self.assertEqual(self.ask('POST', '/sandboxes/%s/run' % made[-1]['id'], {'shell': 'pwd'})['stdout'], '/var\n')
        made += [self.make(workdir='/tmp') for _ in range(3)]
        self.assertEqual(self.learnt()[0].get('workdir'), '/var')  # not again in the next minutes
        self.end(*made)
        self.ask('DELETE', '/pools?template=svc', want=204)

    def test_what_no_pool_turns_to(self):
        self.ask('DELETE', '/pools?template=svc')
        self.put(1, 1)
        kept = self.learnt()
        self.assertIsNone(kept[1])
        for t, most in (('tight', '1'), ('wide', '9')):
            self.s.cay('tenant', 'create', t, '--sandboxes', most)
        tight, wide = (self.s.make_key('--tenant', t) for t in ('tight', 'wide'))
        made = [self.make(key=tight)]
        for _ in range(3):  # refused
            self.assertEqual(self.make(want=429, key=tight, workdir='/srv')['reason'], 'quota_exceeded')
        made += [self.make(key=wide, workdir='/srv') for _ in range(2)]  # of a tenant whose pool it is not
        other = {'mine': {'command': 'exec sleep 100000'}}
        for spec in ({'services': other}, {'net': ['example.com']}, {'env': {'A': 'b'}}, {'limits': {'memory': 3 << 30}}, {'limits': {'cpu_milli': 2001}}):
            made += [self.make(**spec) for _ in range(2)]
        self.assertEqual(self.learnt(), kept)
        self.full(1)
        made += [self.make(limits={'memory': 1 << 30})]  # less than it has: of that kind it may be
        self.assertEqual(self.learnt()[1]['limits'], {'memory': 1 << 30})
        self.end(*made)

    def test_whoever_takes_one_hears_of_it(self):
        self.ask('DELETE', '/pools?template=svc')
        self.s.cay('tenant', 'create', 'hears')
        key = self.s.make_key('--tenant', 'hears')
        every = Stream(self.s, API + '/events?kind=created')
        self.put(1, 1)
        self.full(1)
        ready = self.rows()[0][0]
        every.until(lambda e: e[2].get('sandbox') == ready)  # heard while it was nobody's
        every.close()
        box = self.make(key=key)
        self.assertEqual(box['id'], ready)
        self.ask('POST', '/sandboxes/%s/run' % ready, {'shell': 'exit 3'}, want=200, key=key)

        def heard():
            past, seen = Stream(self.s, API + '/events?after=0', key=key), []
            past.until(lambda e: seen.append(e[2]) or e[1] == 'now')
            past.close()
            return (ready, 'exit', 3) in [(e.get('sandbox'), e.get('kind'), e.get('code')) for e in seen]
        self.until(heard)
        self.end(box)

    def test_quotas_are_asked_in_the_same_moment(self):
        self.s.cay('tenant', 'create', 'small', '--sandboxes', '1')
        key = self.s.make_key('--tenant', 'small')
        self.put(2, 2)
        self.full(2)
        ids = {r[0] for r in self.rows()}
        one = self.make(key=key)
        self.assertIn(one['id'], ids)
        self.assertEqual(one['tenant'], 'small')
        self.assertEqual(self.make(want=429, key=key)['reason'], 'quota_exceeded')
        self.assertEqual(len({r[0] for r in self.rows()} & ids), 1)  # nobody's, as before
        self.assertEqual(self.ask('GET', '/pools', want=403, key=key)['reason'], 'scope_too_narrow')
        self.end(one)

    def test_asked_twice_is_given_once(self):
        self.put(2, 2)
        self.full(2)
        a, b = (self.make(head={'Idempotency-Key': 'the same'}) for _ in range(2))
        self.assertEqual(a['id'], b['id'])
        self.end(a)

    def test_one_that_died_is_not_given(self):
        self.put(1, 1)
        self.full(1)
        dead = self.rows()[0][0]
        self.s.cay('kill', dead)
        box = self.make()
        self.assertNotEqual(box['id'], dead)
        self.assertEqual(box['state'], 'running')
        self.until(lambda: dead not in {r[0] for r in self.rows()})
        self.full(1)
        self.end(box)

    def test_a_name_that_moves_takes_its_pool_along(self):
        self.put(1, 1)
        self.full(1)
        old = self.rows()[0][0]
        self.build('two')
        self.until(lambda: self.pool()['ready'] == 1 and self.rows()[0][0] != old)
        box = self.make()
        self.assertEqual(self.ask('POST', '/sandboxes/%s/run' % box['id'], {'argv': ['cat', '/etc/mark']})['stdout'], 'two')
        self.end(box)

    def test_a_template_that_is_gone_is_told(self):
        self.build('short', 'brief')
        self.put(1, 1, 'brief')
        self.full(1, 'brief')
        self.s.cay('template', 'rm', 'brief')
        self.until(lambda: self.pool('brief')['ready'] == 0 and 'brief' in self.pool('brief').get('error', ''))
        self.assertIn('brief', self.s.cay('pool', 'ls'))
        self.s.cay('pool', 'rm', 'brief')
        self.assertIsNone(self.pool('brief'))

    def test_killed_while_it_fills(self):
        self.put(3, 4)
        self.until(lambda: self.rows())
        key = self.s.key
        self.s.stop(signal.SIGKILL)
        self.s.start()
        self.s.key = key
        self.full(4)
        self.assertEqual(sorted(r[2] for r in self.rows()), ['running'] * 4)
        self.assertEqual(len({r[1] for r in self.rows()}), 1)  # of one kind, none half made
        self.ask('DELETE', '/pools?template=svc', want=204)
        self.assertEqual(self.rows(), [])

    def test_what_is_no_pool_is_refused(self):
        self.ask('PUT', '/pools', {'template': 'none:1', 'high': 1}, want=404)
        self.ask('PUT', '/pools', {'template': 'svc', 'low': 3, 'high': 2}, want=400)
        self.ask('PUT', '/pools', {'template': 'svc', 'high': 65}, want=400)
        self.ask('PUT', '/pools', {'high': 1}, want=400)
        self.assertEqual(self.ask('PUT', '/pools', {'template': 'svc', 'high': 1, 'tenant': 'nobody'}, want=404)['reason'], 'tenant_not_found')
        self.assertIn('needs no pool', self.ask('PUT', '/pools', {'template': 'host', 'high': 1}, want=400)['detail'])
        self.ask('DELETE', '/pools', want=400)
        self.ask('DELETE', '/pools?template=none', want=404)
        self.s.cay('pool', 'set', 'svc', '--low', '1')
        p = json.loads(self.s.cay('pool', 'ls', '--json'))[0]
        self.assertEqual((p['template'], p['low'], p['high']), ('svc', 1, 2))

    def test_zz_every_status_that_is_declared_was_seen(self):
        missing = ['%s %s' % (op['operationId'], status) for _, _, op, _ in self.doc.ops if op.get('tags', [''])[0] == 'pools' for status in op['responses']
                   if status != 'default' and int(status) not in self.doc.seen[op['operationId']]]
        self.assertEqual(missing, [])


if __name__ == '__main__':
    unittest.main(verbosity=1)
