# SPDX-License-Identifier: Apache-2.0
"""The server is killed while clients use it, who keep a ledger of their own: what was acknowledged is there, once, and nothing else is.

    test_crash.py BUILD

In a tree without fault points: 6 kills at random moments, CAY_CRASH_KILLS for another number (make soak: 1,000). With them: one at each of some points, and
CAY_CRASH_FULL=1 for all.
"""
import hashlib
import http.client
import json
import os
import random
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve import Server  # noqa: E402

BUILD = sys.argv[1]
API = '/api/v1'
# Where the server may die while it answers; what it starts has points of its own (tests/system/test_crash.sh). The second time that it comes there, "!": the first.
POINTS = ['store.before-commit', 'store.committed', 'create.recorded', 'client.create.answered', 'create.moved', 'snapshot.recorded', 'client.snapshot.answered', 'snapshot.ready',
          'remove.intended!', 'remove.wiped!', 'answer.kept', 'server.answer']
MORE = ['client.create.send', 'create.made', 'create.applied', 'audit.written', 'client.snapshot.send', 'snapshot.made', 'client.destroy.send!', 'client.stop.send!', 'pause.done', 'resume.done',
        'kill.done!']


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__('localhost', timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Client:
    """One client with its ledger. What it does not know the fate of it asks again, with the same Idempotency-Key."""

    def __init__(self, s, n):
        self.s, self.n, self.count, self.lives = s, n, 0, 0
        self.boxes, self.snaps, self.jobs, self.keys = {}, {}, {}, {}
        self.error = None

    def ask(self, method, path, body=None, once=None, fine=(), raw=False):
        head = {'Authorization': 'Bearer ' + self.s.key}
        if once:
            head['Idempotency-Key'] = once
        if body is not None:
            head['Content-Type'] = 'application/octet-stream' if raw else 'application/json'
            body = body if raw else json.dumps(body)
        end = time.monotonic() + 90
        while True:
            c = Unix(self.s.unix)
            try:
                c.request(method, API + path, body=body, headers=head)
                r = c.getresponse()
                data = r.read()
                if r.status < 300 or r.status in fine:
                    return r.status, data
                if r.status not in (409, 503):
                    raise AssertionError('%s %s: %d %s' % (method, path, r.status, data[:300]))
                last = data
            except (OSError, http.client.HTTPException) as e:
                last = e
            finally:
                c.close()
            if time.monotonic() > end:
                raise AssertionError('%s %s: no answer: %s' % (method, path, last))
            time.sleep(0.02)

    def name(self, kind):
        self.count += 1
        return '%s-%d-%d' % (kind, self.n, self.count)

    def life(self):
        """A sandbox, a file, a snapshot, a job; now and then it goes again."""
        name = self.name('box')
        self.lives += 1
        box = json.loads(self.ask('POST', '/sandboxes', {'name': name, 'ttl_ms': 'unlimited'}, once=name)[1])['id']
        self.boxes[box] = {'name': name, 'files': {}}
        text = os.urandom(500)
        self.ask('PUT', '/sandboxes/%s/files?path=kept' % box, text, raw=True)
        self.boxes[box]['files']['kept'] = hashlib.sha256(text).hexdigest()
        snap = self.name('snap')
        self.snaps[json.loads(self.ask('POST', '/sandboxes/%s/snapshots' % box, {'label': snap}, once=snap)[1])['id']] = snap
        key = self.name('key')
        self.keys[key] = json.loads(self.ask('POST', '/keys', {'name': key}, once=key)[1])['key']
        job = self.name('job')
        self.jobs[json.loads(self.ask('POST', '/jobs', {'kind': 'kill', 'sandbox': box, 'in_ms': 3600000}, once=job)[1])['id']] = box
        self.ask('POST', '/sandboxes/%s/pause' % box, {}, fine=(409,))
        self.ask('POST', '/sandboxes/%s/resume' % box, {}, fine=(409,))
        if self.lives % 3 == 0:
            self.ask('DELETE', '/sandboxes/' + box, fine=(404,))
            del self.boxes[box]
            gone = [j for j, b in self.jobs.items() if b == box]
            for j in gone:
                self.ask('POST', '/jobs/%s/cancel' % j, {}, fine=(404, 409))
                del self.jobs[j]
        elif self.lives % 3 == 1:
            self.ask('POST', '/sandboxes/%s/kill' % box, {})

    def run(self, stop, most):
        try:
            for _ in range(most):
                if stop.is_set():
                    break
                self.life()
        except BaseException as e:  # told by the main thread
            self.error = e


def check(s, clients):
    """The ledgers and the server say the same."""
    me = clients[0]
    boxes = {k: v for c in clients for k, v in c.boxes.items()}
    there = json.loads(me.ask('GET', '/sandboxes?limit=1000')[1])['items']
    names = [x['name'] for x in there]
    assert len(set(names)) == len(names), 'made twice: %s' % sorted(names)
    assert {x['id'] for x in there} == set(boxes), 'sandboxes: %s there, %s acknowledged' % (len(there), len(boxes))
    for box, b in boxes.items():
        for path, digest in b['files'].items():
            status, data = me.ask('GET', '/sandboxes/%s/files?path=%s' % (box, path), fine=(409, 404))
            if status == 409:
                me.ask('POST', '/sandboxes/%s/resume' % box, {})
                status, data = me.ask('GET', '/sandboxes/%s/files?path=%s' % (box, path))
            assert status == 200 and hashlib.sha256(data).hexdigest() == digest, 'file of %s: %s' % (box, status)
    snaps = {k: v for c in clients for k, v in c.snaps.items()}
    got = {x['id']: x['label'] for x in json.loads(me.ask('GET', '/snapshots?limit=1000')[1])['items']}
    assert got == snaps, 'snapshots: %s there, %s acknowledged' % (got, snaps)
    jobs = {k for c in clients for k in c.jobs}
    got = {x['id'] for x in json.loads(me.ask('GET', '/jobs?state=waiting&kind=kill&limit=1000')[1])['items']}
    assert jobs <= got, 'jobs that were lost: %s' % (jobs - got)
    keys = {v[4:12]: k for c in clients for k, v in c.keys.items()}
    got = {x['id']: x['name'] for x in json.loads(me.ask('GET', '/keys')[1])['items'] if x['name'].startswith('key-')}
    assert keys.items() <= got.items() and len(set(got.values())) == len(got), 'keys: %s there, %s acknowledged' % (got, keys)
    proof = json.loads(me.ask('GET', '/audit/proof')[1])
    assert proof['sound'], proof



class Crashing(Server):
    """Its key outlives it; nothing but its process begins anew."""

    def start(self):
        key = getattr(self, 'key', None)
        self.make_key = (lambda *w: key) if key else super().make_key
        return super().start()

    def die(self, fault):
        """It ends at this moment; the next one may have a fault."""
        self.stop(signal.SIGKILL)
        self.env.pop('CAY_FAULT', None)
        if fault:
            self.env['CAY_FAULT'] = fault
        self.start()
        self.env.pop('CAY_FAULT', None)


def load(s, clients, most):
    stop = threading.Event()
    threads = [threading.Thread(target=c.run, args=(stop, most)) for c in clients]
    for t in threads:
        t.start()
    return stop, threads


def finish(clients, stop, threads):
    stop.set()
    for t in threads:
        t.join(120)
    for c in clients:
        if c.error:
            raise c.error


def at_points(s, clients, points):
    missed = []
    for point in points:
        s.die(point.rstrip('!') + '=kill' + ('' if point.endswith('!') else '@2'))
        stop, threads = load(s, clients, 3)
        end = time.monotonic() + 60
        while s.proc.poll() is None and any(t.is_alive() for t in threads) and time.monotonic() < end:
            time.sleep(0.01)
        died = s.proc.poll() is not None
        s.die(None)
        finish(clients, stop, threads)
        check(s, clients)
        print('%-28s %s' % (point.rstrip('!'), 'killed there' if died else 'not reached'), flush=True)
        if not died:
            missed.append(point)
        if sum(len(c.boxes) for c in clients) > 60:
            forget(clients)
    assert not missed, 'not reached: %s' % missed


def at_random(s, clients, kills):
    stop, threads = load(s, clients, 10 ** 6)
    for i in range(kills):
        time.sleep(random.uniform(0.02, 0.4))
        s.die(None)
        if sum(len(c.boxes) for c in clients) > 60:  # the machine is not what is tested
            finish(clients, stop, threads)
            check(s, clients)
            forget(clients)
            stop, threads = load(s, clients, 10 ** 6)
    finish(clients, stop, threads)
    check(s, clients)
    print('%d kills at random moments, %d requests of life acknowledged' % (kills, sum(c.count for c in clients)), flush=True)


def forget(clients):
    for c in clients:
        for box in list(c.boxes):
            c.ask('DELETE', '/sandboxes/' + box, fine=(404,))
            del c.boxes[box]
        for snap in list(c.snaps):
            c.ask('DELETE', '/snapshots/' + snap, fine=(404,))
            del c.snaps[snap]
        for job in list(c.jobs):  # or there are more than a list tells at once
            c.ask('POST', '/jobs/%s/cancel' % job, {}, fine=(404, 409))
            del c.jobs[job]


def leftovers(s):
    """Directories of sandboxes that nobody has; those that are parked for the next one begin with a dot."""
    return [d for d in os.listdir(os.path.join(s.home, 'sandboxes')) if not d.startswith('.')]


def adopted(s, client, n):
    """A server that begins anew knows n sandboxes at once."""
    names = ['many-%d' % i for i in range(n)]
    for name in names:
        client.boxes[json.loads(client.ask('POST', '/sandboxes', {'name': name}, once=name)[1])['id']] = {'name': name, 'files': {}}
    s.stop(signal.SIGKILL)
    began = time.monotonic()
    s.start()
    there = json.loads(client.ask('GET', '/sandboxes?limit=1000&state=running')[1])['items']
    took = time.monotonic() - began
    assert len(there) == n, len(there)
    for x in random.sample(there, 5):
        out = json.loads(client.ask('POST', '/sandboxes/%s/run' % x['id'], {'argv': ['echo', x['name']]})[1])
        assert out['stdout'] == x['name'] + '\n', out
    print('%d sandboxes were known %.2f s after the start of a new server' % (n, took), flush=True)
    # The promise is 2 s; a machine that has ten other things to do is given more.
    assert took < (2 if os.getloadavg()[0] < os.cpu_count() else 15), took


def main():
    kills = int(os.environ.get('CAY_CRASH_KILLS', '6'))
    s = Crashing(BUILD)
    with s:
        clients = [Client(s, i) for i in range(3)]
        with open(os.path.join(BUILD, 'meson-info', 'intro-buildoptions.json')) as f:
            faults = any(o['name'] == 'faults' and o['value'] for o in json.load(f))
        if faults:
            at_points(s, clients, POINTS + (MORE if os.environ.get('CAY_CRASH_FULL') else []))
        else:
            at_random(s, clients, kills)
        forget(clients)
        check(s, clients)
        end = time.monotonic() + 30
        while (left := leftovers(s)) and time.monotonic() < end:
            s.cay('gc')
            time.sleep(0.2)
        assert not left, 'left behind: %s' % left
        if not faults:
            adopted(s, clients[0], 100)
            forget(clients)
    print('ok')


if __name__ == '__main__':
    main()
