# SPDX-License-Identifier: Apache-2.0
"""cay e2b env, cay cloudflare env, make run: what they print is read by a shell, and a client with nothing else finds the server."""
import http.client
import json
import os
import subprocess
import sys
import unittest
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from serve import Server  # noqa: E402

BUILD = os.path.abspath(sys.argv.pop(1))
NAMES = {'e2b': ['E2B_API_KEY', 'E2B_API_URL', 'E2B_SANDBOX_URL', 'E2B_VOLUME_API_URL'], 'cloudflare': ['CLOUDFLARE_SANDBOX_API_KEY', 'CLOUDFLARE_SANDBOX_WORKER_URL']}


def ask(url, method, path, body=None, **head):
    u = urllib.parse.urlsplit(url)
    c = http.client.HTTPConnection(u.hostname, u.port, timeout=60)
    c.request(method, path, None if body is None else json.dumps(body), dict({} if body is None else {'Content-Type': 'application/json'}, **{k.replace('_', '-'): v for k, v in head.items()}))
    r = c.getresponse()
    text = r.read()
    c.close()
    return r.status, json.loads(text) if text else None


class Env(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Server(BUILD)
        cls.s.start()
        cls.addClassCleanup(cls.s.__exit__)

    def words(self, who, *words):
        """The variables as a shell has them after it read what is printed."""
        script = 'said=$("$@") || exit; eval "$said"; for n in %s; do eval "echo \\"\\$$n\\""; done' % ' '.join(NAMES[who])
        r = subprocess.run(['env', '-i', *('%s=%s' % p for p in self.s.env.items() if not p[0].startswith(('E2B_', 'CLOUDFLARE_'))), 'sh', '-c', script, 'sh', os.path.join(BUILD, 'cay'), who, 'env', *words],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertEqual(r.returncode, 0, r.stderr)
        return dict(zip(NAMES[who], r.stdout.splitlines()))

    def keys(self):
        return len(self.s.cay('key', 'ls', '-q').split())

    def test_e2b(self):
        v = self.words('e2b', '--listen', ':%d' % self.s.port)
        self.assertEqual({v[n] for n in NAMES['e2b'][1:]}, {'http://127.0.0.1:%d' % self.s.port})
        status, made = ask(v['E2B_API_URL'], 'POST', '/v2/sandboxes', {'templateID': 'base', 'timeout': 60}, X_API_Key=v['E2B_API_KEY'])
        self.assertEqual(status, 201, made)
        head = {'E2b_Sandbox_Id': made['sandboxID'], 'E2b_Sandbox_Port': '49983', 'X_Access_Token': made['envdAccessToken']}
        self.assertEqual(ask(v['E2B_SANDBOX_URL'], 'POST', '/filesystem.Filesystem/Stat', {'path': '/home/user'}, **head)[1]['entry']['name'], 'user')
        self.assertEqual(ask(v['E2B_VOLUME_API_URL'], 'GET', '/volumes', X_API_Key=v['E2B_API_KEY']), (200, []))
        self.assertEqual(ask(v['E2B_API_URL'], 'DELETE', '/sandboxes/' + made['sandboxID'], X_API_Key=v['E2B_API_KEY'])[0], 204)
        self.assertEqual(ask(v['E2B_API_URL'], 'GET', '/v2/sandboxes', X_API_Key='e2b_' + '0' * 40)[0], 401)

    def test_cloudflare(self):
        v = self.words('cloudflare', '--listen', '127.0.0.1:%d' % self.s.port)
        url, head = v['CLOUDFLARE_SANDBOX_WORKER_URL'], {'Authorization': 'Bearer ' + v['CLOUDFLARE_SANDBOX_API_KEY']}
        status, made = ask(url, 'POST', '/v1/sandbox', **head)
        self.assertEqual(status, 200, made)
        self.assertEqual(ask(url, 'GET', '/v1/sandbox/%s/running' % made['id'], **head), (200, {'running': True}))
        self.assertEqual(ask(url, 'DELETE', '/v1/sandbox/' + made['id'], **head)[0], 204)

    def test_forms(self):
        port = self.s.port
        for given, host in (('%d', '127.0.0.1'), ('0.0.0.0:%d', '127.0.0.1'), ('*:%d', '127.0.0.1'), ('localhost:%d', 'localhost'), ('[::]:%d', '[::1]'), ('[::1]:%d', '[::1]'), ('::1:%d', '[::1]')):
            self.assertEqual(self.words('cloudflare', '--listen', given % port)['CLOUDFLARE_SANDBOX_WORKER_URL'], 'http://%s:%d' % (host, port), given)
        self.assertEqual(self.words('e2b', '--url', 'https://box.example:9')['E2B_SANDBOX_URL'], 'https://box.example:9')
        self.assertEqual(self.words('e2b')['E2B_API_URL'], 'http://127.0.0.1:8090')

    def test_make_run(self):
        with subprocess.Popen([os.path.join(HERE, '..', '..', 'tools', 'run-server'), BUILD, '--listen', '127.0.0.1:0'], env=self.s.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as p:
            lines = []
            while not lines or not lines[-1].startswith('docs/wire/native.md'):
                lines.append(p.stdout.readline())
                self.assertTrue(lines[-1], lines)
            script = ''.join(l for l in lines if l.startswith(('url=', 'id=', 'curl')))
            said = subprocess.run(['sh', '-c', script], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60).stdout.splitlines()
            self.assertEqual(len(said), 3, said)
            self.assertIn('Linux cay ', json.loads(said[1])['stdout'])
            self.assertIn(said[0], [b['id'] for b in json.loads(said[2])['items']])
            url = next(l for l in lines if l.startswith('listening on http')).split()[2]
            self.assertTrue(any(l.startswith('http://cay.localhost:%s/#/?in=e2b_' % url.rsplit(':', 1)[1]) for l in lines), lines)
            p.terminate()  # whoever ends the script ends the server
            p.stdout.read()
            self.assertEqual(p.wait(30), 0)
            with self.assertRaises(ConnectionRefusedError):
                ask(url, 'GET', '/health')

    def test_bad(self):
        before = self.keys()
        for bad in ('', 'x', ':', ':0', ':70000', ':80x', 'a b:80', '$(id):80', 'http://x:80', 'a:b:80', '[]:80', 'unix:/run/x', 'fd:3', 'x' * 300 + ':80'):
            for who in NAMES:
                r = subprocess.run([os.path.join(BUILD, 'cay'), who, 'env', '--listen', bad], env=self.s.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
                self.assertEqual((r.returncode, r.stdout), (2, ''), bad)
                self.assertIn('--listen', r.stderr)
        r = subprocess.run([os.path.join(BUILD, 'cay'), 'e2b', 'env', '--listen', ':80', '--url', 'http://x:80'], env=self.s.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertEqual((r.returncode, r.stdout), (2, ''))
        self.assertIn('one of them', r.stderr)
        self.assertEqual(self.keys(), before)  # nothing was made


if __name__ == '__main__':
    unittest.main()
