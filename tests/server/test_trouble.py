# SPDX-License-Identifier: Apache-2.0
"""Disk full, keeper gone, egress gone, a store that somebody holds: answers stay correct and say what is wrong, and all is well again afterwards."""
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve import Server  # noqa: E402

BUILD = sys.argv.pop(1)


def until(fine, what, seconds=40):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if fine():
            return
        time.sleep(0.1)
    raise AssertionError(what)


def look(pid):
    """(program's name, its words, its parent), or None when it has gone."""
    try:
        with open('/proc/%s/cmdline' % pid, 'rb') as f:
            words = f.read()
        with open('/proc/%s/stat' % pid) as f:
            stat = f.read()
        return stat[stat.index('(') + 1:stat.rindex(')')], words, int(stat[stat.rindex(')') + 2:].split()[1])
    except (OSError, ValueError):
        return None


def programs(s, name):
    """Processes of this server's state directory: those that name it, and their children."""
    seen = {int(pid): p for pid in filter(str.isdigit, os.listdir('/proc')) if (p := look(pid))}
    ours = {pid for pid, p in seen.items() if s.home.encode() in p[1]}
    return [pid for pid, p in seen.items() if p[0] == name and (pid in ours or p[2] in ours)]


class Trouble(unittest.TestCase):
    def well(self, s):
        """A whole life works."""
        status, _, made = s.json('POST', '/api/v1/sandboxes', {})
        self.assertEqual(status, 201, made)
        status, _, out = s.json('POST', '/api/v1/sandboxes/%s/run' % made['id'], {'argv': ['echo', 'well']})
        self.assertEqual((status, out.get('stdout')), (200, 'well\n'), out)
        self.assertEqual(s.ask('DELETE', '/api/v1/sandboxes/' + made['id'])[0], 204)

    def problem(self, answer, statuses):
        status, head, body = answer
        self.assertIn(status, statuses, body)
        self.assertEqual(head['Content-Type'], 'application/problem+json', body)
        return body

    @unittest.skipUnless(os.geteuid() == 0, 'needs root for a small file system')
    def test_a_full_disk(self):
        s = Server(BUILD)
        os.mkdir(s.home)
        subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=48m,mode=700', 'cay-test', s.home], check=True)
        self.addCleanup(subprocess.run, ['umount', '-l', s.home])
        with s:
            box = s.json('POST', '/api/v1/sandboxes', {})[2]['id']
            self.assertEqual(s.ask('PUT', '/api/v1/sandboxes/%s/files?path=before' % box, b'kept')[0], 201)
            filler = os.path.join(s.home, 'filler')
            with open(filler, 'wb', buffering=0) as f:
                try:
                    while True:
                        f.write(b'\0' * 65536)
                except OSError:
                    pass
            # A file that does not fit is told so, and leaves no trace.
            body = self.problem(self.put(s, box, 'big', b'x' * 500000), (507,))
            self.assertEqual(body['code'], 'ENOSPACE', body)
            # What needs no room works; what does needs room says so.
            self.assertEqual(s.ask('GET', '/health')[0], 200)
            self.assertEqual(s.ask('GET', '/api/v1/sandboxes/%s/files?path=before' % box)[2], b'kept')
            status, _, made = s.json('POST', '/api/v1/sandboxes', {})
            if status != 201:
                self.assertIn(status, (507, 500, 503), made)
                self.assertIn('request', made)
            else:
                s.ask('DELETE', '/api/v1/sandboxes/' + made['id'])
            os.unlink(filler)
            self.assertEqual(s.ask('GET', '/api/v1/sandboxes/%s/files/stat?path=big' % box)[0], 404)
            self.assertEqual(self.put(s, box, 'big', b'x' * 500000)[0], 201)
            self.well(s)
            s.ask('DELETE', '/api/v1/sandboxes/' + box)

    def put(self, s, box, path, data):
        status, head, body = s.ask('PUT', '/api/v1/sandboxes/%s/files?path=%s' % (box, path), data)
        return status, head, json.loads(body)

    def test_the_keeper_is_gone(self):
        with Server(BUILD) as s:
            box = s.json('POST', '/api/v1/sandboxes', {})[2]['id']
            p = s.json('POST', '/api/v1/sandboxes/%s/processes' % box, {'shell': 'echo begun; sleep 3; echo over; exit 4'})[2]['id']
            self.assertTrue(programs(s, 'cay-keeper'))
            for pid in programs(s, 'cay-keeper'):
                os.kill(pid, signal.SIGKILL)
            # The next request starts another, which adopts what there is.
            status, _, out = s.json('POST', '/api/v1/sandboxes/%s/run' % box, {'argv': ['echo', 'still']})
            self.assertEqual((status, out.get('stdout')), (200, 'still\n'), out)
            status, _, end = s.json('GET', '/api/v1/sandboxes/%s/processes/%s/wait?timeout_ms=30000' % (box, p))
            self.assertEqual((status, end['ended'], end['exit']['code']), (200, True, 4))
            self.assertEqual(s.ask('GET', '/api/v1/sandboxes/%s/processes/%s/output' % (box, p))[2], b'begun\nover\n')
            self.well(s)
            s.ask('DELETE', '/api/v1/sandboxes/' + box)

    def test_egress_is_gone(self):
        with Server(BUILD) as s:
            status, _, made = s.json('POST', '/api/v1/sandboxes', {'net': ['example.org']})
            if status == 422:
                self.skipTest(made['detail'])
            self.assertEqual(status, 201, made)
            box = made['id']
            until(lambda: programs(s, 'cay-egress'), 'egress did not start')
            for pid in programs(s, 'cay-egress'):
                os.kill(pid, signal.SIGKILL)
            # The policy is the sandbox's, not egress's: it is told, changed, and held by the next one.
            status, _, net = s.json('GET', '/api/v1/sandboxes/%s/net' % box)
            self.assertEqual(status, 200, net)
            until(lambda: s.json('POST', '/api/v1/sandboxes/%s/net/rules' % box, {'rules': ['example.com']})[0] == 200, 'the policy cannot be changed any more')
            until(lambda: programs(s, 'cay-egress'), 'egress did not come back')
            out = s.json('POST', '/api/v1/sandboxes/%s/run' % box, {'argv': ['getent', 'hosts', 'forbidden.example']})[2]
            self.assertNotEqual(out['code'], 0, 'a name that is not allowed was looked up')
            self.well(s)
            s.ask('DELETE', '/api/v1/sandboxes/' + box)

    def test_a_store_that_somebody_holds(self):
        with Server(BUILD) as s:
            db = sqlite3.connect(os.path.join(s.home, 'store.db'), isolation_level=None, timeout=5)
            box = s.json('POST', '/api/v1/sandboxes', {})[2]['id']
            db.execute('BEGIN IMMEDIATE')
            try:
                # Reading goes on; what has to write waits, then says whether a retry helps.
                self.assertEqual(s.ask('GET', '/api/v1/sandboxes/' + box)[0], 200)
                self.assertEqual(s.json('POST', '/api/v1/sandboxes/%s/run' % box, {'argv': ['true']})[0], 200)
                status, _, body = s.json('POST', '/api/v1/sandboxes', {'name': 'held'})
                self.assertIn(status, (409, 503), body)
                self.assertEqual((body['code'], body['retry']), ('EBUSY', 'yes'), body)
            finally:
                db.execute('ROLLBACK')
                db.close()
            self.assertEqual(s.json('GET', '/api/v1/sandboxes')[2]['items'][0]['id'], box)
            self.well(s)
            s.ask('DELETE', '/api/v1/sandboxes/' + box)


if __name__ == '__main__':
    unittest.main()
