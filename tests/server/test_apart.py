# SPDX-License-Identifier: Apache-2.0
"""S-45: a server that is not root beside a keeper of root's (cay serve --user NAME --root-keeper): what it is, and what whoever took it over does not get."""
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.path.realpath(sys.argv.pop(1))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
os.environ['CAY_TEST_APART'] = USER = 'cay-single'
from serve import Server  # noqa: E402

API = '/api/v1'
CAY = BUILD + '/cay'


def why_not():
    if os.getuid():
        return 'only root becomes another'
    try:
        pwd.getpwnam(USER)
    except KeyError:
        return 'there is no user %s; tools/test-users makes it' % USER
    if subprocess.run(['setpriv', '--reuid=' + USER, '--regid=' + USER, '--init-groups', 'test', '-x', CAY]).returncode:
        return '%s may not reach %s' % (USER, CAY)
    return None


@unittest.skipIf(why_not(), why_not())
class Apart(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.s = Server(BUILD).__enter__()
        cls.who = pwd.getpwnam(USER)
        cls.tree = cls.s.home + '.root'

    @classmethod
    def tearDownClass(cls):
        cls.s.__exit__()

    def theirs(self, *words, **more):
        return subprocess.run([*self.s.become, *words], env=self.s.env, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, **more)

    def status_of(self, pid):
        with open('/proc/%d/status' % pid) as f:
            return dict(line.rstrip('\n').split(':\t', 1) for line in f if ':\t' in line)

    def test_the_server_has_no_right_and_sandboxes_have_level_3(self):
        told = self.status_of(self.s.pid())
        self.assertEqual(told['Uid'].split() + told['Gid'].split(), [str(self.who.pw_uid)] * 4 + [str(self.who.pw_gid)] * 4)
        self.assertEqual([int(told[k], 16) for k in ('CapEff', 'CapPrm', 'CapInh', 'CapAmb')], [0] * 4)
        self.assertEqual((told['NoNewPrivs'], told['Seccomp']), ('1', '2'))
        status, _, box = self.s.json('POST', API + '/sandboxes', {})
        self.assertEqual((status, box['isolation'], box['level']), (201, 'root', 3), box)
        r = self.s.json('POST', API + '/sandboxes/%s/run' % box['id'], {'argv': ['cat', '/proc/self/uid_map']})[2]
        self.assertEqual(r['stdout'].split()[2], '65536', r)  # ids of its own, though that user has none to give
        self.assertEqual(self.s.ask('DELETE', API + '/sandboxes/' + box['id'])[0], 204)
        # The keeper, and what it starts, have what is left of root's rights.
        self.assertEqual(self.status_of(self.s.proc.pid)['Uid'].split(), ['0'] * 4)

    def test_what_it_is_refused(self):
        self.s.cay('volume', 'create', 'mine')
        r = self.theirs(BUILD + '/tests/server/apart_ask', self.s.home, 'mine')
        self.assertEqual(r.returncode, 0, r)
        told = dict(line.split(': ') for line in r.stdout.splitlines())
        if told.get('covered volume') == 'not here':  # a host that gives ordinary users no namespaces
            told['covered volume'] = 'grant_refused'
        self.assertEqual(told, {
            'tool apply': 'apart_refused', 'tool on': 'apart_refused', 'tool purge': 'apart_refused', 'tool ../cay-keeper': 'apart_refused', 'tool ': 'apart_refused',
            'a directory for a tool': 'apart_refused', "a file of the kernel's": 'apart_refused', 'clone elsewhere': 'EINVAL', 'quota elsewhere': 'EINVAL', 'no verb': 'EINVAL',
            'merge on the host': 'apart_refused', 'diff with the host': 'apart_refused', 'look at the host': 'apart_refused', 'look above': 'layer_invalid', 'look beside': 'EINVAL',
            'diff above': 'EINVAL', 'diff on nothing': 'apart_refused', 'pack above the host': 'apart_refused',
            'a plan that changes': 'protocol', 'a plan with a link': 'EINVAL', 'a plan with a way up': 'protocol', 'a user that is a path': 'protocol',
            'a volume elsewhere': 'layer_invalid', 'create': 'done', 'volume': 'done', 'root': 'grant_refused', 'grant': 'grant_refused', 'copy-on-write': 'grant_refused',
            'mount': 'grant_refused', 'disk': 'grant_refused', 'false volume': 'grant_refused', 'covered volume': 'grant_refused'})

        self.assertFalse(os.path.exists('/etc/cay-escaped'))

    def test_roots_programs_see_nothing_of_the_host(self):
        p = subprocess.Popen([*self.s.become, BUILD + '/tests/server/apart_ask', self.s.home, 'hold'], env=self.s.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.assertEqual(p.stdout.readline(), 'held\n')
            for _ in range(500):  # it is being executed
                with open('/proc/%d/task/%d/children' % (self.s.proc.pid, self.s.proc.pid)) as f:
                    below = [int(x) for x in f.read().split()]
                for one in below:
                    try:
                        with open('/proc/%d/task/%d/children' % (one, one)) as f:
                            below += [int(x) for x in f.read().split()]
                    except FileNotFoundError:
                        continue
                tool = [x for x in below if os.path.exists('/proc/%d/exe' % x) and os.readlink('/proc/%d/exe' % x).endswith('cay-pack')]
                if tool:
                    break
                time.sleep(0.01)
            root = '/proc/%d/root' % tool[0]
            top = self.s.home.split('/')[1]
            self.assertEqual(set(os.listdir(root)) - {'lib', 'lib32', 'lib64', 'etc'}, {'t', 'usr', 'proc', 'tmp', top})
            self.assertEqual(set(os.listdir(root + '/t')), {'layers', 'sandboxes', 'volumes'})
            self.assertLessEqual(set(os.listdir(root + '/etc')), {'ld.so.cache'})
            self.assertEqual(set(os.listdir(os.path.dirname(root + self.s.home))), {'home'})
            self.assertFalse(os.path.exists(root + '/proc/%d' % os.getpid()) and os.readlink(root + '/proc/1/exe').endswith('init'))
            # What it makes has the modes that the server chose: until it is whole nobody else gets there.
            layers = self.tree + '/layers/'
            for _ in range(500):
                stages = [x for x in os.listdir(layers) if x.startswith('.stage-')]
                if stages and os.listdir(layers + stages[0]):
                    break
                time.sleep(0.01)
            st = os.stat(layers + stages[0])
            self.assertEqual((st.st_uid, st.st_mode & 0o777, os.listdir(layers + stages[0])), (0, 0o700, ['t']))
            self.assertNotEqual(self.theirs('ls', layers + stages[0] + '/t').returncode, 0)
            rights = int(self.status_of(tool[0])['CapEff'], 16)
            self.assertEqual(rights & ~(1 << 0 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 21 | 1 << 27 | 1 << 31), 0, hex(rights))  # CHOWN … SYS_ADMIN, MKNOD, SETFCAP
        finally:
            p.communicate('', 60)
        self.assertEqual(p.returncode, 0)
        self.assertEqual([(os.stat(self.tree + d).st_uid, os.stat(self.tree + d).st_mode & 0o7777) for d in ('/layers', '/volumes', '')], [(0, 0o751), (0, 0o711), (0, 0o710)])

    def test_no_directory_of_the_host_is_given(self):
        for more in ({'mounts': [{'source': '/usr/share', 'target': '/x'}]}, {'root': '/usr'}, {'on': '/usr/share'}):
            status, _, e = self.s.json('POST', API + '/sandboxes', more)
            self.assertEqual((status, e.get('reason')), (501, 'grant_refused'), (more, e))
        r = self.theirs(CAY, 'create', '--mount', '/etc:/x')
        self.assertEqual((r.returncode != 0, 'grants no directory of the host' in r.stderr), (True, True), r)

    def test_only_files_of_that_user_are_copied(self):
        inside = tempfile.mkdtemp(dir=self.s.home)
        outside = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, outside)
        for d in (inside, outside):
            os.chmod(d, 0o755)
        for d, owner, reason in ((outside, self.who.pw_uid, 'apart_refused'), (inside, 0, 'apart_refused'), (inside, self.who.pw_uid, None)):
            with open(d + '/file', 'w') as f:
                f.write('secret')
            os.chown(d + '/file', owner, -1)
            with open(d + '/m.json', 'w') as f:
                json.dump({'entries': {'copy': {'type': 'local_file', 'src': d + '/file'}}}, f)
            r = self.theirs(CAY, '--json', 'create', '--manifest', d + '/m.json', cwd=d)
            if reason:
                self.assertNotEqual(r.returncode, 0, 'it was copied: %s' % r.stdout)
                self.assertEqual(json.loads(r.stderr)['error']['reason'], reason, (d, r))
            else:
                self.assertEqual(r.returncode, 0, r)
                self.assertEqual(self.s.cay('exec', json.loads(r.stdout)['id'], '--', 'cat', 'copy'), 'secret')

    def test_a_file_that_it_moves_there_is_not_read_for_it(self):
        for runs in (False, True):
            box = self.s.json('POST', API + '/sandboxes', {})[2]['id']
            self.s.cay('exec', box, '--', 'chmod', '777', '.')
            if runs:
                self.s.cay('exec', '-d', box, '--', 'sleep', '1000')
            with open(self.s.home + '/of-root', 'w') as f:  # in a directory of that user's: it can be moved, and not read
                f.write('secret of root')
            os.chmod(self.s.home + '/of-root', 0o600)
            r = self.theirs('mv', self.s.home + '/of-root', self.tree + '/sandboxes/%s/upper/workspace/k' % box)
            self.assertEqual(r.returncode, 0, r)
            self.assertNotIn('secret', self.theirs(CAY, 'diff', '--patch', box).stdout)
            r = self.theirs(CAY, '--json', 'snapshot', box)
            if runs:  # it would be copied
                self.assertNotEqual(r.returncode, 0, r)
            else:  # it stays where it is
                r = self.theirs(CAY, 'snapshot', 'export', json.loads(r.stdout)['id'], '-o', self.s.home + '/out.tar')
                self.assertNotEqual(r.returncode, 0, r)
            self.assertEqual(self.s.ask('DELETE', API + '/sandboxes/' + box)[0], 204)

    def test_what_a_killed_start_left_is_made_whole_and_nothing_else_is_taken(self):
        modes = {'': 0o710, '/layers': 0o751, '/sandboxes': 0o751, '/volumes': 0o711, '/net': 0o2750}
        for left in ((), ('',), ('', 'apart'), ('', 'apart', 'layers', 'net'), ('', 'others')):
            with tempfile.TemporaryDirectory() as d:
                os.chmod(d, 0o755)
                os.mkdir(d + '/home')
                os.chown(d + '/home', self.who.pw_uid, self.who.pw_gid)
                tree = d + '/home.root'
                for name in left:
                    if name in ('apart', 'others'):
                        open(tree + '/' + name, 'w').close()
                    else:
                        os.mkdir(tree + '/' + name, 0o700)
                r = subprocess.run([BUILD + '/cay-hand', USER, d + '/home', '/bin/true'], env=self.s.env, capture_output=True, text=True, timeout=60)
                if 'others' in left:
                    self.assertEqual((r.returncode, 'holds something else' in r.stderr, os.listdir(tree), os.stat(tree).st_gid), (1, True, ['others'], 0), r)
                    continue
                self.assertEqual(r.returncode, 0, (left, r))
                self.assertEqual({k: (os.stat(tree + k).st_uid, os.stat(tree + k).st_gid, os.stat(tree + k).st_mode & 0o7777) for k in modes},
                                 {k: (0, self.who.pw_gid, v) for k, v in modes.items()}, left)

    def test_nobody_else_is_heard_and_nothing_of_roots_is_written(self):
        connect = "import socket,os\ns=socket.socket(socket.AF_UNIX,socket.SOCK_SEQPACKET)\ntry:\n s.connect(%r)\nexcept PermissionError:\n print('refused')" % (self.tree + '/hand.sock')
        for user, said in (('nobody', 'refused\n'), (USER, '')):
            r = subprocess.run(['setpriv', '--reuid=' + user, '--clear-groups', '--regid=' + str(pwd.getpwnam(user).pw_gid), 'python3', '-c', connect], capture_output=True, text=True, timeout=60)
            self.assertEqual((r.returncode, r.stdout), (0, said), r)
        for words in (['touch', self.tree + '/x'], ['mv', self.tree, self.tree + '.old'], ['touch', self.tree + '/layers/x'], ['touch', self.tree + '/volumes/x'], ['rm', self.tree + '/apart'],
                      ['ls', self.tree], ['mkdir', self.tree + '/sandboxes/x']):
            self.assertNotEqual(self.theirs(*words).returncode, 0, words)
        # Root's own commands do not take it for theirs.
        r = subprocess.run([CAY, '--home', self.tree, 'ls'], capture_output=True, text=True, timeout=60)
        self.assertEqual((r.returncode, 'for a server that is not root' in r.stderr), (1, True), r)

    def test_y_one_that_crashes_is_started_again_and_only_one_serves(self):
        r = subprocess.run([BUILD + '/cay-hand', USER, self.s.home, '/bin/true'], capture_output=True, text=True, timeout=60)
        self.assertEqual((r.returncode, 'already' in r.stderr), (1, True), r)
        box = self.s.json('POST', API + '/sandboxes', {})[2]
        first = self.s.pid()
        os.kill(first, signal.SIGKILL)
        line = 'x'
        while line and 'http://' not in line:
            line = self.s.proc.stdout.readline()
        self.s.port = int(line.rsplit(':', 1)[1])
        self.assertNotEqual(self.s.pid(), first)
        self.assertEqual(self.s.ask('GET', API + '/sandboxes/' + box['id'])[0], 200)

    def test_z_without_its_server_the_store_is_read_and_that_is_all(self):
        box = self.s.json('POST', API + '/sandboxes', {})[2]['id']
        self.assertEqual(self.s.stop(), 0)
        try:
            self.assertTrue(self.s.make_key('--scope', 'admin').startswith('e2b_'))
            r = self.theirs(CAY, 'exec', box, '--', 'true')
            self.assertEqual((r.returncode != 0, 'start it again' in r.stderr), (True, True), r)
        finally:
            self.s.start()
        self.assertEqual(self.s.json('GET', API + '/sandboxes/' + box)[2]['state'], 'running')  # it lived on

    def test_a_directory_on_a_way_that_others_change_is_refused(self):
        with tempfile.TemporaryDirectory() as d:
            os.chmod(d, 0o755)
            os.mkdir(d + '/way')
            os.mkdir(d + '/way/home')
            for path in (d + '/way', d + '/way/home'):
                os.chown(path, self.who.pw_uid, self.who.pw_gid)
            r = subprocess.run([CAY, '--home', d + '/way/home', 'serve', '--user', USER, '--root-keeper', '--listen', '127.0.0.1:0'], env=dict(os.environ, CAY_LIBEXEC=BUILD), capture_output=True, text=True, timeout=60)
            self.assertEqual((r.returncode, 'not root' in r.stderr), (1, True), r)
            r = subprocess.run([CAY, 'serve', '--root-keeper'], capture_output=True, text=True, timeout=60)
            self.assertEqual((r.returncode, '--user' in r.stderr), (2, True), r)


if __name__ == '__main__':
    unittest.main()
