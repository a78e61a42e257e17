# SPDX-License-Identifier: Apache-2.0
"""The API as somebody meets it who should not: cases S-45 to S-51, S-53 and S-55 of the security specification."""
import http.client
import json
import os
import pwd
import re
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve import Server  # noqa: E402

BUILD = sys.argv.pop(1)
SOURCE = os.path.dirname(os.path.abspath(__file__)) + '/../..'
API = '/api/v1'
OPEN = {'/openapi.json', '/version'}
SHARED = ('/volumes', '/secrets', '/snapshots/import')  # the service's, not a tenant's


class Guard(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = s = Server(BUILD)
        cls.log = os.path.join(s.tmp, 'log')
        s.args = ('--log', cls.log)
        s.env['CAY_SECRET_KEY'] = os.path.join(s.tmp, 'secret.key')
        s.__enter__()
        try:
            s.cay('tenant', 'create', 'other')
            cls.other = s.make_key('--scope', 'tenant', '--tenant', 'other')
            cls.box = s.json('POST', API + '/sandboxes', {'name': 'mine'})[2]['id']
            cls.snap = s.json('POST', API + '/sandboxes/%s/snapshots' % cls.box, {'label': 'mine'})[2]['id']
            cls.doc = s.json('GET', API + '/openapi.json')[2]
        except BaseException:
            s.__exit__()
            raise

    @classmethod
    def tearDownClass(cls):
        cls.s.__exit__()

    def tearDown(self):
        self.assertEqual(self.s.ask('GET', '/health')[0], 200)

    def routes(self):
        for path, item in self.doc['paths'].items():
            path = path[len(API):] if path.startswith(API) else path
            for method in item:
                if method in ('get', 'post', 'put', 'patch', 'delete'):
                    yield method.upper(), path

    def place(self, path):
        """The route with things that exist in its braces."""
        path = path.replace('/sandboxes/{id}', '/sandboxes/' + self.box).replace('/snapshots/{ref}', '/snapshots/' + self.snap).replace('{port}', '8000')
        return API + re.sub(r'\{[a-z]+\*?\}', 'thing', path)

    def ask(self, method, path, key):
        body = '{}' if method in ('POST', 'PUT', 'PATCH') else None
        status, head, data = self.s.ask(method, path, body, {'Content-Type': 'application/json', 'Idempotency-Key': 'x'} if body else {}, key=key)
        return status, json.loads(data) if data and 'json' in head.get('Content-Type', '') else None

    # -------------------------------------------------------------- S-45
    def test_s45_every_route_wants_a_key(self):
        n = 0
        for method, path in self.routes():
            if path in OPEN:
                continue
            for key in (None, 'e2b_' + '0' * 72, 'nonsense', self.s.key[:-1] + ('0' if self.s.key[-1] != '0' else '1')):
                status, body = self.ask(method, self.place(path), key)
                self.assertEqual(status, 401, (method, path, key))
                self.assertEqual(body['code'], 'EAUTH', (method, path, key))
            n += 1
        self.assertGreater(n, 60)
        self.assertEqual(self.s.ask('GET', '/metrics', key=None)[0], 401)
        self.assertEqual(self.s.ask('GET', '/metrics', key=self.other)[0], 403)
        self.assertEqual(self.s.ask('GET', '/health', key=None)[0], 200)

    def test_s45_another_tenant_finds_nothing(self):
        for method, path in self.routes():
            if '{id}' not in path and '/snapshots/{ref}' not in path:
                continue
            status, body = self.ask(method, self.place(path), self.other)
            if (method, path.replace(API, '')) == ('PUT', '/sandboxes/{id}/secrets'):
                # Refused before any sandbox is looked up: the answer says nothing about this one.
                none = self.ask(method, self.place(path).replace(self.box, 'c' + 'a' * 19), self.other)
                self.assertEqual((status, none[0], body['detail']), (403, 403, none[1]['detail']))
                continue
            # A body or query that is wrong for anybody may be said first; nothing else is.
            self.assertIn(status, (400, 404), (method, path, body))
            self.assertNotIn('mine', json.dumps(body))
        for path in SHARED:
            for method in ('GET', 'POST') if path == '/volumes' else ('POST',) if 'import' in path else ('GET',):
                self.assertEqual(self.ask(method, API + path, self.other)[0], 403, path)
        self.assertEqual(self.s.json('GET', API + '/sandboxes/' + self.box)[0], 200)

    def test_s45_lists_show_ones_own(self):
        mine = self.s.json('POST', API + '/sandboxes', {}, key=self.other)[2]['id']
        listed = [b['id'] for b in self.s.json('GET', API + '/sandboxes', key=self.other)[2]['items']]
        self.assertEqual(listed, [mine])
        self.assertEqual(self.s.json('GET', API + '/snapshots', key=self.other)[2]['items'], [])
        self.assertEqual(self.s.ask('GET', API + '/diff?a=' + self.box, key=self.other)[0], 404)
        self.assertEqual(self.s.ask('GET', API + '/diff?a=%s&b=%s' % (mine, self.snap), key=self.other)[0], 404)
        self.assertEqual(self.s.json('POST', API + '/sandboxes', {'from': 'mine'}, key=self.other)[0], 404)
        self.assertEqual(self.s.json('POST', API + '/sandboxes/%s/fork' % self.snap, {}, key=self.other)[0], 404)
        self.assertEqual(self.s.json('DELETE', API + '/sandboxes/' + mine, key=self.other)[0], 204)

    # -------------------------------------------------------------- S-46
    def test_s46_only_a_hash_is_kept(self):
        token = self.s.json('POST', API + '/sandboxes/%s/ports/8000/expose' % self.box, {})[2]['token']
        self.s.ask('PUT', API + '/secrets/GUARDED', '{"value":"sesame-sesame-sesame-1"}', {'Content-Type': 'application/json'})
        for secret in (self.s.key, self.other, token, 'sesame-sesame-sesame-1'):
            tail = secret[12:].encode()
            with open(self.log, 'rb') as f:
                self.assertNotIn(tail, f.read())
            for root, _, names in os.walk(self.s.home):
                for name in names:
                    path = os.path.join(root, name)
                    if os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path) < 64 << 20:
                        with open(path, 'rb') as f:
                            self.assertNotIn(tail, f.read(), path)
        with sqlite3.connect('file:%s?mode=ro' % os.path.join(self.s.home, 'store.db'), uri=True) as db:
            self.assertNotIn(self.s.key[12:], '\n'.join(db.iterdump()))
        for path in ('/secrets', '/secrets/GUARDED'):
            self.assertNotIn(b'sesame', self.s.ask('GET', API + path)[2])

    # -------------------------------------------------------------- S-47
    def resident(self):
        with open('/proc/%d/statm' % self.s.pid()) as f:
            return int(f.read().split()[1]) * 4096

    def test_s47_too_much(self):
        before = self.resident()
        head = 'POST %s/sandboxes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nConnection: close\r\n' % (API, self.s.key)

        def status(data, reason=''):
            try:
                answer = self.s.raw(data)
            except OSError as e:
                self.fail('no answer to %r: %s' % (data[-40:], e))
            self.assertIn(reason.encode(), answer)
            return int(answer.split()[1])
        self.assertEqual(status((head + 'Content-Length: %d\r\n\r\n{' % (10 << 30)).encode()), 413)
        chunk = b'10000\r\n' + b' ' * 65536 + b'\r\n'
        self.assertEqual(status((head + 'Transfer-Encoding: chunked\r\n\r\n').encode() + chunk * (80 << 4)), 413)
        self.assertEqual(status((head + 'X-A: b\r\n' * 2000 + '\r\n').encode()), 431)
        self.assertEqual(status((head + 'X-A: ' + 'b' * 65536 + '\r\n\r\n').encode()), 431)
        for n in (10000, 100):  # the second is shallow enough for any parser
            deep = b'{"metadata":' + b'{"a":' * n + b'1' + b'}' * n + b'}'
            self.assertEqual(status((head + 'Content-Length: %d\r\n\r\n' % len(deep)).encode() + deep, 'json_too_deep'), 400)
        if not os.environ.get('ASAN_OPTIONS'):
            self.assertLess(self.resident() - before, 96 << 20)

    # -------------------------------------------------------------- S-48
    def test_s48_slow_clients_hold_nobody_up(self):
        slow = []
        for i in range(200):
            c = self.s.socket()
            c.sendall(b'GET /health HTTP/1.1\r\nX: ' + b'y' * (i % 7))
            slow.append(c)
        worst = 0
        for _ in range(30):
            for c in slow[:20]:
                c.sendall(b'y')
            began = time.monotonic()
            self.assertEqual(self.s.ask('GET', API + '/sandboxes/' + self.box)[0], 200)
            worst = max(worst, time.monotonic() - began)
        for c in slow:
            c.close()
        self.assertLess(worst, 10)

    # -------------------------------------------------------------- S-49
    @unittest.skipIf(os.getuid(), 'root has something to give up')
    def test_s45_a_server_of_roots_has_no_right_over_the_machine(self):
        gone = (16, 17, 22, 25, 26, 20, 34, 30, 29, 37, 32, 33, 35, 36, 9, 28, 11, 15, 38, 39, 40)  # SYS_MODULE, SYS_RAWIO, SYS_BOOT, …: linux/capability.h
        mask = sum(1 << n for n in gone)
        for who in [self.s.pid()] + [int(p) for p in os.listdir('/proc') if p.isdigit() and self.keeper(p)]:  # and what it starts
            with open('/proc/%d/status' % who) as f:
                told = dict(line.rstrip('\n').split(':\t', 1) for line in f if ':\t' in line)
            self.assertEqual((told['NoNewPrivs'], told['Seccomp'].strip()), ('1', '2'), who)
            for sets in ('CapBnd', 'CapPrm', 'CapEff', 'CapInh', 'CapAmb'):
                self.assertEqual(int(told[sets], 16) & mask, 0, (who, sets))
        # A plain process that it starts has no filter but this one: of a module that is not there root would hear that.
        status, _, b = self.s.json('POST', API + '/sandboxes', {'provider': 'local', 'isolation': 'none'})
        self.assertEqual(status, 201, b)
        call = {'x86_64': (176, 169, 321), 'aarch64': (106, 142, 280)}[os.uname().machine]  # delete_module, reboot, bpf
        code = 'import ctypes\nc = ctypes.CDLL(None, use_errno=True)\nfor n, a in zip(%r, (b"cay_none", 0, 0)):\n print(c.syscall(n, a, 0, 0), ctypes.get_errno())' % (call,)
        r = self.s.json('POST', API + '/sandboxes/%s/run' % b['id'], {'argv': ['python3', '-c', code]})[2]
        self.s.json('DELETE', API + '/sandboxes/' + b['id'])
        self.assertEqual(r['stdout'].split(), ['-1', '1'] * 3, r)

    @unittest.skipIf(os.getuid(), 'root has something to give up')
    def test_s45_what_a_server_of_roots_gives_up_is_none_of_a_sandboxes(self):
        # A parent reads its own child, as docs/seccomp.md lets it.
        code = '''import ctypes, os
c = ctypes.CDLL(None, use_errno=True)
class V(ctypes.Structure):
    _fields_ = [('p', ctypes.c_void_p), ('n', ctypes.c_size_t)]
text = ctypes.create_string_buffer(b'before')
r, w = os.pipe()
child = os.fork()
if not child:
    text.value = b'inside'
    os.write(w, b'x')
    os.read(os.pipe()[0], 1)
os.read(r, 1)
into = ctypes.create_string_buffer(7)
n = c.process_vm_readv(child, ctypes.byref(V(ctypes.addressof(into), 6)), 1, ctypes.byref(V(ctypes.addressof(text), 6)), 1, 0)
print(n, ctypes.get_errno() if n < 0 else 0, into.value.decode())
os.kill(child, 9)
'''
        status, _, r = self.s.json('POST', API + '/sandboxes/%s/run' % self.box, {'argv': ['python3', '-c', code]})
        self.assertEqual((status, r['stdout']), (200, '6 0 inside\n'), r)
        # and so with every other: what the page gives in any profile is not refused from outside
        with open(SOURCE + '/src/base/harden.c') as f:
            refused = set(re.findall(r'SYS_(\w+)', re.search(r'int calls\[\] = \{(.*?)\n\};', f.read(), re.S).group(1)))
        with open(SOURCE + '/docs/seccomp.md') as f:
            page = f.read().split('## Level 1')[0]
        given = set(re.findall(r'`(\w+)`', ' '.join(line for line in page.split('\n') if line.startswith('Allowed in every') or re.match(r'\| `.*\| (allowed|by arguments) \|', line))))
        self.assertGreater(len(refused), 25)
        self.assertGreater(len(given), 250)
        self.assertEqual(refused & given, set())

    @unittest.skipIf(os.getuid(), 'only root becomes another')
    def test_s45_a_server_that_root_starts_as_another_user_is_that_user(self):
        try:
            who = pwd.getpwnam('cay-range')
        except KeyError:
            self.skipTest('there is no user cay-range; tools/test-users makes it')
        cay = os.path.realpath(BUILD) + '/cay'
        become = ['setpriv', '--reuid=cay-range', '--regid=cay-range', '--init-groups']
        if subprocess.run(become + ['test', '-x', cay]).returncode:
            self.skipTest('cay-range may not reach ' + cay)
        with tempfile.TemporaryDirectory() as d:
            os.chmod(d, 0o755)
            env = dict(os.environ, CAY_LIBEXEC=os.path.realpath(BUILD))
            env.pop('CAY_HOME', None)
            serve = [cay, '--home', d + '/state', 'serve', '--user', 'cay-range', '--listen', '127.0.0.1:0']
            os.mkdir(d + '/state')  # root's
            r = subprocess.run(serve, env=env, capture_output=True, text=True, timeout=60)
            self.assertEqual((r.returncode, 'is not cay-range' in r.stderr), (1, True), r)
            os.rmdir(d + '/state')
            for bad in ('root', 'no-such-user'):
                self.assertEqual(subprocess.run([cay, 'serve', '--user', bad], env=env, capture_output=True, timeout=60).returncode, 2)
            r = subprocess.run(serve + ['--log', 'log'], env=env, capture_output=True, text=True, timeout=60)
            self.assertEqual((r.returncode, 'a path begins with /' in r.stderr), (2, True), r)
            with open('/etc/shadow') as shadow, socket.create_server(('127.0.0.1', 0)) as door:
                p = subprocess.Popen(serve + ['--listen', 'fd:%d' % door.fileno()], env=dict(env, OF_ROOT='x'), stdout=subprocess.PIPE, text=True, cwd='/root',
                                     pass_fds=(shadow.fileno(), door.fileno()))
            theirs = dict(env, CAY_HOME=d + '/state', XDG_RUNTIME_DIR='/run/cay-cay-range', HOME=d + '/state')
            try:
                port = int(p.stdout.readline().rsplit(':', 1)[1])
                with open('/proc/%d/status' % p.pid) as f:
                    told = dict(line.rstrip('\n').split(':\t', 1) for line in f if ':\t' in line)
                self.assertEqual(told['Uid'].split(), [str(who.pw_uid)] * 4)
                self.assertEqual(int(told['CapEff'], 16) | int(told['CapPrm'], 16), 0)
                # Nothing that root had: but the socket, which was named.
                self.assertTrue(p.stdout.readline().startswith('listening on http://127.0.0.1:'))
                proc = '/proc/%d/' % p.pid
                self.assertEqual(os.readlink(proc + 'cwd'), '/')
                self.assertNotIn('/etc/shadow', [os.readlink(proc + 'fd/' + n) for n in os.listdir(proc + 'fd') if os.path.lexists(proc + 'fd/' + n)])
                with open(proc + 'environ', 'rb') as f:
                    names = {v.split(b'=')[0] for v in f.read().split(b'\0')}
                self.assertTrue({b'PATH', b'CAY_LIBEXEC', b'HOME'} <= names and b'OF_ROOT' not in names, names)
                key = subprocess.run(become + [cay, 'key', 'create', '--scope', 'admin'], env=theirs, capture_output=True, text=True, timeout=60).stdout.strip()
                conn = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
                self.addCleanup(conn.close)
                ask = lambda method, path, body=None: Server.ask(self.s, method, API + path, body, {'Content-Type': 'application/json'}, key, conn)  # noqa: E731
                status, _, body = ask('POST', '/sandboxes', '{}')
                box = json.loads(body)
                self.assertEqual((status, box['isolation']), (201, 'rootless'), body)
                r = json.loads(ask('POST', '/sandboxes/%s/run' % box['id'], '{"argv":["echo","hi"]}')[2])
                self.assertEqual(r['stdout'], 'hi\n', r)
                self.assertEqual(ask('DELETE', '/sandboxes/' + box['id'])[0], 204)
            finally:
                p.terminate()
                p.wait(60)
                p.stdout.close()
                subprocess.run(become + [cay, 'purge', '--yes', '--force'], env=theirs, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
                try:
                    os.rmdir(theirs['XDG_RUNTIME_DIR'] + '/cay')  # unless another test is there
                    os.rmdir(theirs['XDG_RUNTIME_DIR'])
                except OSError:
                    pass

    def keeper(self, pid):
        """Of this server's state directory."""
        try:
            with open('/proc/%s/cmdline' % pid, 'rb') as f:
                return f.read().split(b'\0')[:2] == [os.path.realpath(BUILD + '/cay-keeper').encode(), self.s.home.encode()]
        except OSError:
            return False

    def test_s49_hosts_and_origins(self):
        for host in ('evil.test', 'localhost.evil.test', 'xlocalhost', '127.0.0.1.nip.io'):
            self.assertIn(self.s.ask('GET', API + '/sandboxes', headers={'Host': host})[0], (403, 421), host)
        for origin in ('http://evil.test', 'null', 'http://localhost', 'https://127.0.0.1:%d' % (self.s.port + 1), 'file://', 'http://8000-%s.localhost:%d' % (self.box, self.s.port)):
            for method, path in (('GET', '/sandboxes'), ('POST', '/sandboxes'), ('OPTIONS', '/sandboxes'), ('GET', '/events')):
                status, head, _ = self.s.ask(method, API + path, headers={'Origin': origin})
                self.assertIn(status, (403, 405, 421), (origin, method))
                self.assertNotIn('Access-Control-Allow-Origin', head)
        status, head, _ = self.s.ask('GET', API + '/sandboxes', headers={'Origin': 'http://127.0.0.1:%d' % self.s.port, 'Host': '127.0.0.1:%d' % self.s.port})
        self.assertEqual(status, 200)

    # -------------------------------------------------------------- S-51
    def test_s51_names_that_are_none(self):
        bad = ['..', '%2e%2e', '.', '%2e', 'a%2fb', '..%2f..%2fetc%2fpasswd', '%00', 'a%00b', "'", '%22', '%3Cscript%3E', '%F0%9F%92%A9', '%ff', '$(id)', '`id`', ';id', '|id', '%0a', '%0d%0aX:%20y',
               '-rf', '--help', 'c' * 300, self.box.upper(), self.box + 'a', self.box[:-1], '*', '%25', '%', '%zz', ' '.replace(' ', '%20')]
        routes = [('GET', '/sandboxes/%s'), ('DELETE', '/sandboxes/%s'), ('GET', '/sandboxes/%s/ports'), ('GET', '/snapshots/%s'), ('DELETE', '/snapshots/%s'), ('GET', '/volumes/%s'),
                  ('DELETE', '/volumes/%s'), ('DELETE', '/secrets/%s'), ('GET', '/sandboxes/' + self.box + '/processes/%s'), ('POST', '/sandboxes/' + self.box + '/ports/%s/expose'),
                  ('GET', '/diff?a=%s'), ('GET', '/snapshots?sandbox=%s')]
        for name in bad:
            for method, route in routes:
                data = self.s.raw(('%s %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n'
                                   % (method, API + route % name, self.s.key)).encode('latin-1'))
                self.assertIn(int(data.split()[1]), (400, 404, 405, 409), (method, route, name, data[:300]))
        for name in ('../x', 'a/b', '', '.', '-x', 'é', 'a' * 49, 'a b', 'a\n', '$(id)'):
            self.assertEqual(self.s.json('POST', API + '/volumes', {'name': name})[0], 400, name)
        for name in ('a%2fb', '%2e%2e', 'a%20b', '%00', 'x' * 200):
            self.assertEqual(self.s.json('PUT', API + '/secrets/' + name, {'value': 'x'})[0], 400, name)
        self.assertEqual(self.s.json('GET', API + '/sandboxes/' + self.box)[0], 200)

    # -------------------------------------------------------------- S-53
    def upgrade(self, path, extra):
        return int(self.s.raw(('GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: %s\r\nSec-WebSocket-Version: 13\r\n'
                               'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n%s\r\n' % (path, 'cay-tcp' if 'connect' in path else 'websocket', extra)).encode()).split()[1])

    def test_s53_upgrades_and_forms(self):
        for path in ('/sandboxes/%s/processes/1/ws', '/sandboxes/%s/ports/8000/connect'):
            path = API + path % self.box
            self.assertEqual(self.upgrade(path, 'Connection: close\r\n'), 401)
            self.assertIn(self.upgrade(path, 'Authorization: Bearer %s\r\nOrigin: http://evil.test\r\nConnection: close\r\n' % self.s.key), (403, 421))
        for kind in ('application/x-www-form-urlencoded', 'text/plain', 'multipart/form-data; boundary=x'):
            for path, method in (('/sandboxes', 'POST'), ('/volumes', 'POST'), ('/sandboxes/%s/net' % self.box, 'PUT')):
                status, _, _ = self.s.ask(method, API + path, '{"name":"x"}', {'Content-Type': kind})
                self.assertIn(status, (400, 415), (kind, path))
                self.assertEqual(self.s.ask(method, API + path, '{"name":"x"}', {'Content-Type': kind}, key=None)[0], 401)

    # -------------------------------------------------------------- S-55
    def test_s55_a_preview_is_somebody_else(self):
        token = self.s.json('POST', API + '/sandboxes/%s/ports/8000/expose' % self.box, {})[2]['token']
        host = '8000-%s.localhost:%d' % (self.box, self.s.port)
        head = self.s.ask('GET', '/?cay_token=' + token, headers={'Host': host, 'Accept': 'text/html'}, key=None)[1]
        cookie = head['Set-Cookie'].split(';')[0]
        self.assertNotIn('domain', head['Set-Cookie'].lower())
        # Neither its cookie nor its token opens the API, on any name.
        for how in ({'Cookie': cookie}, {'Authorization': 'Bearer ' + token}, {'X-API-Key': token}, {'X-Cay-Token': token}):
            self.assertEqual(self.s.ask('GET', API + '/sandboxes', headers=how, key=None)[0], 401, how)
        # On its own name there is no API, whatever the path.
        for path in (API + '/sandboxes', '/health', '/metrics', '/preview/%s/8000/' % self.box):
            status, _, body = self.s.ask('GET', path, headers={'Host': host, 'X-Cay-Token': token}, key=None)
            self.assertEqual((status, json.loads(body)['reason']), (502, 'port_not_found'), path)
        # A page of it that asks the API is refused before its key is looked at.
        self.assertEqual(self.s.ask('GET', API + '/sandboxes', headers={'Origin': 'http://' + host})[0], 403)


if __name__ == '__main__':
    unittest.main()
