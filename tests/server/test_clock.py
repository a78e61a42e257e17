# SPDX-License-Identifier: Apache-2.0
"""The wall clock jumps under a server (libfaketime): deadlines of sandboxes do not move, what is told by the clock follows it, jobs and keys obey it."""
import glob
import json
import os
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve import Server  # noqa: E402

BUILD = sys.argv.pop(1)
API = '/api/v1'
HOUR = 3600000


def library():
    """Debian's, from this machine or unpacked beside the build."""
    at = os.path.join(os.path.abspath(BUILD), 'borrowed-clock')
    for look in ('', at):
        if look:
            subprocess.run([os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../tools/borrow'), at, 'libfaketime'], timeout=120)
        found = sorted(glob.glob(look + '/usr/lib/*/faketime/libfaketimeMT.so.1'))
        if found:
            return found[0]
    return None


def sanitized():
    with open(os.path.join(BUILD, 'meson-info', 'intro-buildoptions.json')) as f:
        return any(o['name'] == 'b_sanitize' and o['value'] not in ('none', []) for o in json.load(f))


class Clock(unittest.TestCase):
    def setUp(self):
        self.file = os.path.join('/tmp', 'cay-clock-%d' % os.getpid())
        self.set(0)
        # Only the wall clock of the server: its keeper is static and keeps the real one, as a machine's other programs do.
        self.s = Server(BUILD, env={'FAKETIME_TIMESTAMP_FILE': self.file, 'FAKETIME_NO_CACHE': '1', 'FAKETIME_DONT_FAKE_MONOTONIC': '1', 'DONT_FAKE_MONOTONIC': '1'})
        plain = self.s.cay
        self.s.env['LD_PRELOAD'] = LIBRARY
        self.s.start()
        del self.s.env['LD_PRELOAD']
        self.s.cay = plain

    def tearDown(self):
        self.s.__exit__()
        os.unlink(self.file)

    def set(self, hours):
        with open(self.file + '.new', 'w') as f:
            f.write('%+dh\n' % hours)
        os.replace(self.file + '.new', self.file)

    def server_now(self):
        """By the Date of an answer, in ms."""
        from email.utils import parsedate_to_datetime
        return parsedate_to_datetime(self.s.ask('GET', '/health', key=None)[1]['Date']).timestamp() * 1000

    def until(self, fine, what, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if fine():
                return
            time.sleep(0.05)
        self.fail(what)

    def state(self, box):
        return self.s.json('GET', '%s/sandboxes/%s' % (API, box))[2]['state']

    def test_a_jump(self):
        s = self.s
        real = time.time() * 1000
        box = s.json('POST', API + '/sandboxes', {'ttl_ms': 2 * HOUR})[2]['id']
        for hours in (5, -5, 0):
            self.set(hours)
            self.until(lambda: abs(self.server_now() - real - hours * HOUR) < 10 * 60000, 'the clock of the server did not jump to %+d h' % hours)
            self.assertEqual(self.state(box), 'running')  # although two hours have passed by that clock
            listed = {i['id']: i for i in s.json('GET', API + '/sandboxes')[2]['items']}
            self.assertEqual(listed[box]['state'], 'running')
            out = s.json('POST', '%s/sandboxes/%s/run' % (API, box), {'argv': ['echo', 'well']})
            self.assertEqual((out[0], out[2]['stdout']), (200, 'well\n'))
            made = s.json('POST', API + '/sandboxes', {}, {'Idempotency-Key': 'at%d' % hours})
            self.assertEqual(made[0], 201, made[2])
            self.assertEqual(s.json('POST', API + '/sandboxes', {}, {'Idempotency-Key': 'at%d' % hours})[2]['id'], made[2]['id'])
            self.assertEqual(s.ask('DELETE', '%s/sandboxes/%s' % (API, made[2]['id']))[0], 204)

    def test_a_short_life_ends_in_its_own_time(self):
        s = self.s
        box = s.json('POST', API + '/sandboxes', {'ttl_ms': 1500})[2]['id']
        self.set(-5)
        self.until(lambda: self.state(box) == 'stopped', 'a clock that was set back stretched a life')

    def test_jobs_are_by_the_wall_clock(self):
        s = self.s
        box = s.json('POST', API + '/sandboxes', {})[2]['id']
        job = s.json('POST', API + '/jobs', {'kind': 'kill', 'sandbox': box, 'in_ms': 2 * HOUR})[2]['id']
        self.assertEqual(s.json('GET', API + '/jobs/' + job)[2]['state'], 'waiting')
        self.set(3)
        self.until(lambda: s.json('GET', API + '/jobs/' + job)[2]['state'] == 'done', 'a job that is due was not done')
        self.assertEqual(self.state(box), 'stopped')

    def test_a_key_that_ran_out(self):
        s = self.s
        box = s.json('POST', API + '/sandboxes', {})[2]['id']
        key = s.json('POST', API + '/keys', {'scope': 'sandbox', 'sandbox': box, 'ttl_ms': 2 * HOUR})[2]['key']
        path = '%s/sandboxes/%s' % (API, box)
        self.assertEqual(s.ask('GET', path, key=key)[0], 200)
        self.set(3)
        self.until(lambda: s.ask('GET', path, key=key)[0] == 401, 'a key outlived its time')
        self.set(-3)
        self.until(lambda: s.ask('GET', path, key=key)[0] == 200, 'the clock did not come back')


if __name__ == '__main__':
    if sanitized():
        print('skip: the sanitizer wants to be the first library, and so does the clock')
        sys.exit(77)
    LIBRARY = library()
    if not LIBRARY:
        print('skip: libfaketime is not there (apt-get install libfaketime)')
        sys.exit(77)
    unittest.main()
