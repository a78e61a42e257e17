# SPDX-License-Identifier: Apache-2.0
"""How a case in a guest works and what becomes of it: `case` registers it, a `Box` is what it gets, `run_cases` prints a verdict for each.

    ok    what was promised is there
    no    cay refused by name: the cause and the remedy are cay's own words
    FAIL  anything else; the last commands and their output follow

Every case has a state directory of its own, and a keeper that goes with it.
"""
import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import traceback

USERS = ('root', 'session', 'plain', 'cron')
CASES = []
PATIENCE = int(os.environ.get('PATIENCE', '180'))  # seconds for one command; nothing is measured here


class Failed(Exception):
    pass


class No(Exception):
    """A refusal that names its cause and its remedy."""

    def __init__(self, cause, remedy):
        super().__init__(cause)
        self.cause, self.remedy = cause, remedy


class Result:
    def __init__(self, words, code, out, err):
        self.words, self.code, self.out, self.err = words, code, out, err

    def __str__(self):
        return '$ %s\n%s%s[status %s]' % (' '.join(self.words), self.out[-700:], self.err[-1500:], self.code)


def case(capability, title, users=USERS, short=False):
    def register(fn):
        CASES.append((fn.__name__, capability, title, users, short, fn))
        return fn
    return register


class Box:
    def __init__(self, user):
        self.user = user
        self.system = open('/payload/system').read().strip()
        self.dir = tempfile.mkdtemp(prefix='case-', dir=pwd.getpwuid(os.getuid()).pw_dir)
        self.home = self.dir + '/home'
        self.env = dict(os.environ, CAY_HOME=self.home, LANG='C.UTF-8')
        self.log = []
        self.others = []  # processes that the case started

    # ---- commands
    def sh(self, *words, input=None, code=0, timeout=PATIENCE):
        """Runs it and gives the Result; a status other than `code` (None: any) fails the case."""
        try:
            r = subprocess.run(words, input=input, stdin=subprocess.DEVNULL if input is None else None, capture_output=True, text=True, errors='replace',
                               timeout=timeout, env=self.env, cwd=self.dir)
            r = Result(words, r.returncode, r.stdout, r.stderr)
        except subprocess.TimeoutExpired as e:
            r = Result(words, 'time-out', (e.stdout or b'').decode('utf-8', 'replace'), (e.stderr or b'').decode('utf-8', 'replace'))
        self.log.append(r)
        if code is not None and r.code != code:
            raise Failed('status %s, not %s' % (r.code, code))
        return r

    def cay(self, *words, **how):
        return self.sh('cay', *words, **how)

    def create(self, *words):
        return self.cay('create', *words).out.strip()

    def inside(self, id, script, **how):
        return self.cay('exec', id, '--', 'sh', '-c', script, **how).out

    def start(self, *words):
        """A process that runs along with the case, and ends with it."""
        p = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=self.env, cwd=self.dir)
        self.others.append(p)
        return p

    # ---- judging
    def same(self, what, got, want):
        if got != want:
            raise Failed('%s: %r, not %r' % (what, got, want))

    def holds(self, what, text, *parts):
        for part in parts:
            if part not in text:
                raise Failed('%s: no %r in %r' % (what, part, text[-600:]))

    def until(self, what, condition, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while True:
            found = condition()
            if found:
                return found
            if time.monotonic() > end:
                raise Failed('%s: it did not happen in time' % what)
            time.sleep(0.2)

    def doctor(self):
        return json.loads(self.cay('doctor', '--json').out)

    def layer(self, name):
        for row in self.doctor()['layers']:
            if row['name'] == name:
                return row
        raise Failed('doctor knows no layer %s' % name)

    def limit(self, name):
        """Returns where doctor says that the limit is on; a refusal where systemd delegates nothing to this user."""
        row = self.layer(name)
        if row['state'] == 'on':
            return
        cause = 'doctor: %s is %s: %s' % (name, row['state'], row['why'])
        if self.user in ('root', 'session') and 'v1' not in self.system:
            raise Failed(cause)
        if not row['why'] or not row['remedy']:
            raise Failed('%s, without cause or remedy' % cause)
        raise No(row['why'], row['remedy'])

    def keepers(self, home=None):
        found = []
        for p in os.listdir('/proc'):
            try:
                with open('/proc/%s/cmdline' % p, 'rb') as f:
                    words = f.read().split(b'\0')
            except (OSError, ValueError):
                continue
            if words[0].endswith(b'cay-keeper') and (home or self.home).encode() in words:
                found.append(int(p))
        return found

    def end(self):
        """Nothing of the case stays; says what did not go."""
        for p in self.others:
            p.terminate()
            try:
                p.wait(30)
            except subprocess.TimeoutExpired:
                p.kill()
        left = self.end_sandboxes()
        subprocess.run(['chmod', '-R', 'u+rwx', self.dir], stderr=subprocess.DEVNULL)
        shutil.rmtree(self.dir, ignore_errors=True)
        return left

    def end_sandboxes(self):
        left = []
        if os.path.exists(self.home):
            ids = self.cay('ls', '-q', code=None).out.split()
            if ids:
                self.cay('rm', '-f', *ids, code=None)
            for pid in self.keepers():
                os.kill(pid, signal.SIGTERM)
            try:
                self.until('keepers end', lambda: not self.keepers(), 60)
            except Failed:
                left.append('the keeper does not obey SIGTERM')
                for pid in self.keepers():
                    os.kill(pid, signal.SIGKILL)
        return left


def report(**row):
    print('\x1d' + json.dumps(row), flush=True)


def refusal(log):
    """The last command's refusal, when cay named a cause and a remedy: in its one line behind a semicolon, or in the lines below. A pointer to
    doctor is no remedy."""
    lines = [l.strip() for l in log[-1].err.splitlines() if l.strip()] if log else []
    cause = next((l[5:] for l in lines if l.startswith('cay: ')), '')
    remedy = ' '.join(l for l in lines if not l.startswith('cay: ') and 'cay doctor' not in l)
    if not remedy and '; ' in cause:
        cause, remedy = cause.split('; ', 1)
    if not cause or not remedy or remedy.startswith('`cay doctor`'):
        return None
    return No(cause, remedy)


def run_cases(user, names=(), short=False, may_refuse=lambda user, system: False):
    """`user` is one of USERS, or last: root, for cases after which the machine is not what it was."""
    failed = 0
    row_user = 'root' if user == 'last' else user
    none_at_all = None  # why this user has no sandboxes on this system
    for name, capability, title, users, in_short, fn in CASES:
        if user not in users or (names and name not in names) or (short and not names and not in_short):
            continue
        row = dict(user=row_user, case=name, capability=capability, title=title, verdict='ok', why='', remedy='', output='')
        if none_at_all:
            report(**dict(row, verdict='no', why=none_at_all.cause, remedy=none_at_all.remedy))
            continue
        box = Box(row_user)
        began = time.monotonic()
        try:
            fn(box)
        except No as e:
            row.update(verdict='no', why=e.cause, remedy=e.remedy)
        except Exception as e:  # noqa: BLE001 - whatever it is, the next case has its turn
            why = str(e) if isinstance(e, Failed) else traceback.format_exc(limit=-2)
            no = refusal(box.log) if name == 'first' and may_refuse(user, box.system) else None
            if no:
                none_at_all = no
                row.update(verdict='no', why=no.cause, remedy=no.remedy)
            else:
                row.update(verdict='FAIL', why=why, output='\n'.join(str(r) for r in box.log[-3:]) + keeper_errors(box))
        left = box.end()
        if left and row['verdict'] != 'FAIL':
            row.update(verdict='FAIL', why='; '.join(left))
        failed += row['verdict'] == 'FAIL'
        report(**row, seconds=round(time.monotonic() - began))
    return failed


def keeper_errors(box):
    try:
        with open(box.home + '/keeper.err', errors='replace') as f:
            return '\nkeeper.err: ' + f.read()[-1500:]
    except OSError:
        return ''
