# SPDX-License-Identifier: Apache-2.0
"""A list that is kept is never an old one: whatever was acknowledged before it was asked for is in it, whoever did it."""
import os
import signal
import sqlite3
import sys
import threading
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve import Server  # noqa: E402

BUILD = sys.argv.pop(1)
API = '/api/v1/sandboxes'


def keeper(s):
    """The keeper of this server's state directory."""
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open('/proc/%s/cmdline' % pid, 'rb') as f:
                words = f.read().split(b'\0')
            with open('/proc/%s/comm' % pid) as f:
                comm = f.read().strip()
        except OSError:
            continue
        if comm == 'cay-keeper' and {s.home.encode(), s.home.encode() + b'.root'} & set(words):
            return int(pid)
    raise AssertionError('no keeper')


class List(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Server(BUILD).start()

    @classmethod
    def tearDownClass(cls):
        cls.s.__exit__()

    def items(self, query=''):
        status, _, obj = self.s.json('GET', API + query, conn=self.conn)
        self.assertEqual(status, 200, obj)
        return {i['id']: i for i in obj['items']}

    def warm(self, query=''):
        for _ in range(3):
            last = self.items(query)
        return last

    def make(self, **spec):
        status, _, made = self.s.json('POST', API, spec)
        self.assertEqual(status, 201, made)
        return made['id']

    def setUp(self):
        self.conn = self.s.connection()
        self.box = self.make()

    def tearDown(self):
        self.s.ask('DELETE', '%s/%s' % (API, self.box))
        self.assertNotIn(self.box, self.items())
        self.conn.close()

    def test_every_change_of_ours_is_in_the_next_list(self):
        box = self.box
        for _ in range(20):
            self.assertEqual(self.warm()[box]['state'], 'running')
            self.assertIn(box, self.warm('?state=running'))
            self.assertEqual(self.s.json('POST', '%s/%s/pause' % (API, box))[0], 200)
            self.assertEqual(self.items()[box]['state'], 'paused')
            self.assertNotIn(box, self.items('?state=running'))
            self.assertEqual(self.s.json('POST', '%s/%s/resume' % (API, box))[0], 200)
            self.assertEqual(self.items()[box]['state'], 'running')
        before = self.warm()[box].get('deadline_ms', 0)
        self.assertEqual(self.s.json('POST', '%s/%s/extend' % (API, box), {'ttl_ms': 3600000})[0], 200)
        self.assertGreater(self.items()[box]['deadline_ms'], before)
        self.assertEqual(self.s.json('PATCH', '%s/%s' % (API, box), {'name': 'renamed', 'labels': {'a': 'b'}})[0], 200)
        self.assertEqual((self.items()[box]['name'], self.items('?label=a%3Db').keys()), ('renamed', {box}))
        other = self.make()
        self.assertEqual(set(self.items()), {box, other})
        self.assertEqual(self.s.ask('DELETE', '%s/%s' % (API, other))[0], 204)
        self.assertEqual(set(self.items()), {box})

    def test_changes_of_other_programs_are(self):
        box = self.box
        for verb, state in (('pause', 'paused'), ('resume', 'running'), ('pause', 'paused'), ('resume', 'running')):
            self.warm()
            self.s.cay(verb, box)
            self.assertEqual(self.items()[box]['state'], state)
        self.assertEqual(self.warm()[box]['network'], 'off')
        for words, mode in ((('all',), 'all'), (('example.org', '!bad.example.org'), 'rules'), (('off',), 'off'), (('all',), 'all')):
            self.s.cay('net', 'set', box, *words)
            self.assertEqual(self.warm()[box]['network'], mode)
        self.warm()
        self.s.cay('kill', box)
        self.assertEqual((self.items()[box]['state'], self.items()[box]['network']), ('stopped', 'all'))

    def test_what_happens_by_itself_is(self):
        box = self.box
        pid = self.warm()[box]['pid']
        os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + 30
        while self.items()[box]['state'] != 'stopped' and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(self.items()[box]['state'], 'stopped')
        short = self.make(ttl_ms=300)
        while self.items()[short]['state'] != 'stopped' and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual((self.items()[short]['state'], self.items()[short]['reason']), ('stopped', 'ttl'))
        self.s.ask('DELETE', '%s/%s' % (API, short))

    def test_another_keeper_is_news(self):
        box = self.box
        pid = self.warm()[box]['pid']
        os.kill(keeper(self.s), signal.SIGKILL)
        os.kill(pid, signal.SIGKILL)  # nobody tells of it but the next keeper
        end = time.monotonic() + 30
        while self.items()[box]['state'] != 'stopped' and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(self.items()[box]['state'], 'stopped')

    def test_of_each_who_asks_its_own(self):
        self.s.cay('tenant', 'create', 'elsewhere')
        theirs = self.s.make_key('--tenant', 'elsewhere')
        for _ in range(3):
            self.assertEqual(self.s.json('GET', API, key=theirs)[2]['items'], [])
            self.assertTrue(self.items()[self.box]['pid'])
            mine = self.s.json('GET', API, key=self.s.make_key())[2]['items']
            self.assertEqual([i['id'] for i in mine], [self.box])
            self.assertNotIn('pid', mine[0])
        self.assertEqual(self.s.json('GET', API + '?limit=1')[2]['items'][0]['id'], self.box)

    def test_pages_stay_true(self):
        more = [self.make() for _ in range(3)]
        for _ in range(3):
            first = self.s.json('GET', API + '?limit=2')[2]
            rest = self.s.json('GET', API + '?limit=2&after=' + first['next'])[2]
            self.assertEqual([i['id'] for i in first['items'] + rest['items']], [self.box] + more)
            self.assertNotIn('next', rest)
        self.assertEqual(self.s.ask('DELETE', '%s/%s' % (API, more.pop(0)))[0], 204)  # the last of the first page: the next one goes on all the same
        self.assertEqual([i['id'] for i in self.s.json('GET', API + '?limit=2&after=' + first['next'])[2]['items']], more)
        self.assertEqual(self.s.json('GET', API + '?after=%s.99999999999999' % first['next'].split('.')[0])[2], {'items': []})
        for bad in ('x', first['next'] + 'x', first['next'].split('.')[0] + '.', 's' + first['next'][1:], ''):
            status, _, p = self.s.json('GET', API + '?after=' + bad)
            self.assertEqual((status, p.get('reason')), (400, 'bad_query'), bad)
        self.assertEqual(self.s.json('GET', API + '?after=' + first['next'].split('.')[0])[0], 404)  # an id alone does not tell where it was
        self.assertEqual(self.s.ask('DELETE', '%s/%s' % (API, more.pop()))[0], 204)
        self.assertEqual([i['id'] for i in self.s.json('GET', API + '?limit=3')[2]['items']], [self.box] + more)
        self.assertNotIn('next', self.s.json('GET', API + '?limit=3')[2])
        for b in more:
            self.s.ask('DELETE', '%s/%s' % (API, b))

    def test_a_list_under_changes_is_one_of_the_moments(self):
        """While somebody pauses and resumes, a lister that saw a change never sees the time before it again."""
        box, stop, seen = self.box, threading.Event(), []
        changed = -1

        def look():
            conn = self.s.connection()
            while not stop.is_set():
                seen.append(self.s.json('GET', API, conn=conn)[2]['items'][0])
            conn.close()

        t = [threading.Thread(target=look) for _ in range(3)]
        for x in t:
            x.start()
        try:
            for i in range(30):
                self.assertEqual(self.s.json('POST', '%s/%s/%s' % (API, box, 'pause' if i % 2 == 0 else 'resume'))[0], 200)
                one = self.items()[box]
                self.assertEqual(one['state'], 'paused' if i % 2 == 0 else 'running')
                self.assertGreaterEqual(one['changed_ms'], changed)
                changed = one['changed_ms']
        finally:
            stop.set()
            for x in t:
                x.join()
        self.assertEqual({i['id'] for i in seen}, {box})

    def test_a_list_of_e2b_stays_true(self):
        ask = lambda query='': self.s.json('GET', '/e2b/v2/sandboxes' + query)  # noqa: E731
        names = lambda query='': [i['sandboxID'] for i in ask(query)[2]]  # noqa: E731
        for _ in range(3):
            self.assertEqual(names(), [self.box])
            self.assertEqual([i['sandboxID'] for i in self.s.json('GET', '/e2b/sandboxes')[2]], [self.box])
        more = self.make()
        for _ in range(3):
            self.assertEqual(names(), [more, self.box])
            status, head, page = ask('?limit=1')
            self.assertEqual(([i['sandboxID'] for i in page], head['x-next-token'].split('.')[0]), ([more], more))
            for token in (head['x-next-token'], more):
                self.assertEqual(names('?limit=1&nextToken=' + token), [self.box])
        self.s.json('POST', '%s/%s/pause' % (API, more))
        self.assertEqual({i['sandboxID']: i['state'] for i in ask()[2]}, {self.box: 'running', more: 'paused'})
        self.assertEqual(self.s.ask('DELETE', '%s/%s' % (API, more))[0], 204)
        self.assertEqual(names(), [self.box])
        self.assertEqual(ask()[1]['x-next-token'], None)

    def test_a_store_that_others_write(self):
        box = self.box
        self.warm()
        db = sqlite3.connect(os.path.join(self.s.home, 'store.db'), timeout=20)
        with db:
            db.execute("UPDATE sandboxes SET name='from outside' WHERE id=?", (box,))
        db.close()
        self.assertEqual(self.items()[box]['name'], 'from outside')


if __name__ == '__main__':
    unittest.main()
