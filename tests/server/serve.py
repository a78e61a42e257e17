# SPDX-License-Identifier: Apache-2.0
"""A server of our own for a test: a free port, a state directory of its own, ended and cleaned up whatever happens.

    with Server(build) as s:
        status, head, body = s.ask('GET', '/health')
        status, head, obj = s.json('POST', '/api/v1/sandboxes', {'name': 'x'})

With CAY_TEST_APART=NAME, as root, it is one of that user's beside a keeper of root's (cay serve --user NAME --root-keeper).
"""
import http.client
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time


class Server:
    def __init__(self, build, *args, env=None, program='cay-server', pass_fds=(), stderr=None):
        self.build = os.path.abspath(build)
        self.args = args
        self.pass_fds = pass_fds
        self.stderr = stderr
        self.program = os.path.join(self.build, program)
        self.env = dict(os.environ, CAY_LIBEXEC=self.build, **(env or {}))
        self.tmp = tempfile.mkdtemp(prefix='cay-server-')
        self.home = os.path.join(self.tmp, 'home')
        self.unix = os.path.join(self.tmp, 'sock')
        self.proc = None
        self.env['CAY_HOME'] = self.home
        self.become = []
        self.apart = os.environ.get('CAY_TEST_APART') if os.getuid() == 0 else None
        if self.apart:
            self.set_apart(pwd.getpwnam(self.apart))
        self.env.setdefault('CAY_SECRET_KEY', os.path.join(self.tmp, 'secret.key'))  # not that of this machine

    def set_apart(self, who):
        run = os.path.join(self.tmp, 'run')
        os.chmod(self.tmp, 0o1777)
        for path in (self.home, run):
            os.mkdir(path, 0o700)
            os.chown(path, who.pw_uid, who.pw_gid)
        self.env.update(XDG_RUNTIME_DIR=run, HOME=self.home)
        self.become = ['setpriv', '--reuid=%d' % who.pw_uid, '--regid=%d' % who.pw_gid, '--init-groups']

    def start(self):
        first = [os.path.join(self.build, 'cay-hand'), self.apart, self.home] if self.apart else []
        self.proc = subprocess.Popen([*first, self.program, '--home', self.home, '--listen', '127.0.0.1:0', '--listen', 'unix:' + self.unix,
                                      *self.args], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, env=self.env, text=True, pass_fds=self.pass_fds,
                                     stderr=self.stderr)
        self.url = None
        for line in self.proc.stdout:
            m = re.match(r'listening on (https?://\S+)', line)
            if m and not self.url:
                self.url = m.group(1)
            if line.startswith('listening on unix:' + self.unix):
                break
        if not self.url:
            raise RuntimeError('the server did not start')
        self.port = int(self.url.rsplit(':', 1)[1])
        self.key = self.make_key('--scope', 'admin')
        return self

    def cay(self, *words, timeout=60, key=None):
        """The command line on the same state directory; what it says on standard output. key: for --host."""
        r = subprocess.run([*self.become, os.path.join(self.build, 'cay'), *words], env=dict(self.env, CAY_API_KEY=key) if key else self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
        if r.returncode:
            raise RuntimeError('cay %s: %s' % (' '.join(words), r.stderr))
        return r.stdout

    def make_key(self, *words):
        return self.cay('key', 'create', *words).strip()

    def stop(self, sig=signal.SIGTERM):
        if not self.proc:
            return None
        server = self.pid()
        self.proc.send_signal(sig)
        try:
            rc = self.proc.wait(40)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()
            rc = None
        self.proc.stdout.close()
        self.proc = None
        while self.apart and os.path.exists('/proc/%d' % server):  # it ends with its parent, and a moment later
            time.sleep(0.01)
        return rc

    def pid(self):
        """Of the server itself, which may have a parent of root's."""
        if not self.apart:
            return self.proc.pid
        with open('/proc/%d/task/%d/children' % (self.proc.pid, self.proc.pid)) as f:
            for one in f.read().split():
                with open('/proc/%s/comm' % one) as name:
                    if name.read().startswith('cay-server'):
                        return int(one)
        return self.proc.pid

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *exc):
        if not self.apart:
            self.stop()
        cay = [*self.become, os.path.join(self.build, 'cay')]  # sandboxes live on without the server
        try:
            ids = subprocess.run([*cay, 'ls', '-q'], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30).stdout.split()
            if ids:
                subprocess.run([*cay, 'rm', '-f', *ids], env=self.env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            pass
        self.stop()
        for _ in range(50):  # a keeper that is leaving may still write
            shutil.rmtree(self.tmp, ignore_errors=True)
            if not os.path.exists(self.tmp):
                break
            time.sleep(0.1)

    # -------------------------------------------------------------- asking
    def socket(self, timeout=20):
        s = socket.create_connection(('127.0.0.1', self.port), timeout)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def raw(self, data, timeout=20):
        """Bytes as they are; what comes back until the server closes."""
        with self.socket(timeout) as s:
            try:
                s.sendall(data)
            except OSError:
                pass
            out = b''
            while True:
                try:
                    piece = s.recv(65536)
                except ConnectionResetError:
                    break
                if not piece:
                    break
                out += piece
            return out

    def connection(self, timeout=30):
        return http.client.HTTPConnection('127.0.0.1', self.port, timeout=timeout)

    def ask(self, method, path, body=None, headers=None, key=True, conn=None):
        """(status, headers, bytes); key: True for the server's own, None for none, else the text of one."""
        h = dict(headers or {})
        if key:
            h.setdefault('Authorization', 'Bearer ' + (self.key if key is True else key))
        c = conn or self.connection()
        try:
            c.request(method, path, body=body, headers=h)
            r = c.getresponse()
            return r.status, r.headers, r.read()
        finally:
            if not conn:
                c.close()

    def json(self, method, path, obj=None, headers=None, key=True, conn=None):
        """(status, headers, object): the body is JSON, and so is the answer, if it has any."""
        h = dict(headers or {})
        body = None
        if obj is not None:
            body = json.dumps(obj)
            h.setdefault('Content-Type', 'application/json')
        status, head, data = self.ask(method, path, body, h, key, conn)
        return status, head, json.loads(data) if data else None
