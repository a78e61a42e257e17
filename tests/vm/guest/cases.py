# SPDX-License-Identifier: Apache-2.0
"""The promises of cay, one case each. Every case works alone; `box.user` is one of root, session, plain and cron (guest/prepare)."""
import base64
import http.client
import json
import os
import pty
import select
import signal
import struct

from judge import Failed, No, case, refusal


@case('run', 'the first command of somebody who has just installed cay', short=True)
def first(box):
    box.same('output', box.cay('run', '-q', '--', 'sh', '-c', 'echo hello; id -un').out, 'hello\nuser\n')


@case('run', 'streams, status, environment and input of a command', short=True)
def run(box):
    r = box.cay('run', '-q', '-e', 'A=1', '--', 'sh', '-c', 'echo out $A; echo err >&2; exit 7', code=7)
    box.same('output', r.out, 'out 1\n')
    box.same('errors', r.err, 'err\n')
    box.same('input', box.cay('run', '-q', '-i', '--', 'wc', '-c', input='x' * 100000).out.strip(), '100000')
    box.cay('run', '-q', '--', '/no/such', code=127)
    box.same('left', box.cay('ls', '-q').out, '')


@case('doctor', 'doctor says of every wall what a sandbox has', short=True)
def doctor(box):
    d = box.doctor()
    state = {row['name']: row for row in d['layers']}
    for row in d['layers']:
        if row['state'] != 'on' and not row['why']:
            raise Failed('%s is %s, and doctor does not say why' % (row['name'], row['state']))
    id = box.create()
    status = dict(l.split(':', 1) for l in box.inside(id, 'cat /proc/self/status').splitlines() if ':' in l)
    checks = {
        'seccomp': status['Seccomp'].strip() == '2',
        'no-new-privs': status['NoNewPrivs'].strip() == '1',
        'capabilities': int(status['CapBnd'], 16) == 0 or int(status['CapEff'], 16) == 0,
        'net-namespace': box.inside(id, 'tail -n +3 /proc/net/dev | cut -d: -f1').split() == ['lo'],
    }
    for kind in ('user', 'mnt', 'pid', 'ipc'):
        name = {'mnt': 'mount'}.get(kind, kind) + '-namespace'
        checks[name] = box.inside(id, 'readlink /proc/self/ns/%s' % kind).strip() != os.readlink('/proc/self/ns/%s' % kind)
    for name, there in checks.items():
        if (state[name]['state'] == 'on') != there:
            raise Failed('doctor says %s is %s, and a sandbox %s it' % (name, state[name]['state'], 'has' if there else 'lacks'))
    uid_map = box.inside(id, 'cat /proc/self/uid_map').split()
    ids = int(uid_map[2]) if len(uid_map) == 3 else sum(int(n) for n in uid_map[2::3])
    if (state['own-ids']['state'] == 'off') != (ids == 1) and d['mode'] != 'root':
        raise Failed('own-ids is %s, and a sandbox has %d ids' % (state['own-ids']['state'], ids))


@case('run', 'a sandbox that stays: create, exec, list, inspect, remove', short=True)
def create(box):
    id = box.create('--name', 'demo', '--ttl', '1h')
    box.inside(id, 'echo 42 >answer')
    box.same('file', box.inside('demo', 'cat answer'), '42\n')
    box.holds('list', box.cay('ls').out, id, 'demo', 'running')
    box.holds('inspect', box.cay('inspect', id).out, id)
    tag = box.cay('exec', '-d', '--tag', 'nap', id, '--', 'sleep', '1000').out.strip()
    box.holds('processes', box.cay('ps', id).out, tag, 'nap')
    box.cay('rm', id, code=1)
    box.cay('rm', '-f', id)
    box.same('left', box.cay('ls', '-q').out, '')


@case('terminal', 'a terminal inside: size, job control, exit status', short=True)
def terminal(box):
    id = box.create()
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(box.dir)
        os.execvpe('cay', ['cay', 'exec', '-it', id, '--', 'sh'], box.env)
    said = b''
    os.write(fd, b'tty && stty size && echo "pid-$$-end"; exit 5\n')
    def more():
        nonlocal said
        if select.select([fd], [], [], 0.5)[0]:
            try:
                data = os.read(fd, 65536)
            except OSError:
                return True
            said += data
            return not data
        return False
    try:
        box.until('the shell ends', more)
    finally:
        os.close(fd)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    text = said.decode('utf-8', 'replace')
    box.holds('terminal', text, '/dev/pts/', 'pid-')
    box.same('status', code, 5)


@case('files', 'files in and out, listed, read, written', short=True)
def files(box):
    id = box.create()
    data = os.urandom(300000)
    with open(box.dir + '/in', 'wb') as f:
        f.write(data)
    box.cay('cp', 'in', id + ':there')
    box.same('size', box.inside(id, 'wc -c <there').strip(), '300000')
    box.cay('cp', id + ':there', 'out')
    with open(box.dir + '/out', 'rb') as f:
        box.same('bytes come back', f.read() == data, True)
    box.cay('files', 'put', id, 'note', '-', input='noted')
    box.same('read', box.cay('files', 'cat', id, 'note').out, 'noted')
    box.holds('list', box.cay('files', 'ls', id).out, 'note', 'there')
    os.makedirs(box.dir + '/tree/sub')
    for i in range(20):
        with open('%s/tree/sub/%d' % (box.dir, i), 'w') as f:
            f.write(str(i))
    box.cay('cp', 'tree', id + ':tree')
    box.same('a tree', box.inside(id, 'cat tree/sub/* | wc -c').strip(), '30')


@case('pause', 'pause holds every process still; resume lets it go on; a stopped sandbox starts again on its files', short=True)
def pause(box):
    id = box.create()
    box.cay('exec', '-d', id, '--', 'sh', '-c', 'i=0; while :; do i=$((i+1)); echo $i >count; sleep 0.1; done')
    box.until('it counts', lambda: box.cay('exec', id, '--', 'cat', 'count', code=None).out.strip())
    box.cay('pause', id)
    box.holds('state', box.cay('ls').out, 'paused')
    one = box.cay('files', 'cat', id, 'count').out
    two = box.cay('files', 'cat', id, 'count').out
    box.same('count while paused', two, one)
    box.cay('resume', id)
    box.until('it counts on', lambda: box.inside(id, 'cat count').strip() not in ('', one.strip()))
    box.cay('kill', id)
    box.cay('resume', id)
    box.holds('file after a stop', box.inside(id, 'ls'), 'count')


@case('time-outs', 'a time-out ends a command and all that it started', short=True)
def timeout(box):
    id = box.create()
    r = box.cay('exec', '--timeout', '2s', id, '--', 'sh', '-c', 'setsid sleep 1000 & trap "" TERM; sleep 1001', code=None)
    if not isinstance(r.code, int) or r.code < 128:
        raise Failed('status %s' % r.code)
    box.holds('reason', r.err, 'time-out')
    box.until('the tree is gone', lambda: 'sleep 100' not in box.cay('ps', id).out)
    box.same('the sandbox lives', box.inside(id, 'echo yes'), 'yes\n')


@case('memory', 'a memory limit kills its command with the reason', short=True)
def memory(box):
    box.limit('memory-limit')
    id = box.create('--memory', '64m')
    r = box.cay('exec', id, '--', 'python3', '-c', 'x = bytearray(300 << 20); print(len(x))', code=None)
    box.same('status', r.code, 137)
    box.holds('reason', r.err, 'out of memory')
    box.same('the sandbox lives', box.inside(id, 'echo yes'), 'yes\n')


@case('processes', 'a limit on processes holds against a fork storm, with the reason', short=True)
def pids(box):
    box.limit('pids-limit')
    id = box.create('--pids', '30')
    r = box.cay('exec', id, '--', 'sh', '-c', 'i=0; while [ $i -lt 100 ]; do sleep 1000 & i=$((i+1)); done; exit 3', code=None)
    if r.code == 3:
        raise Failed('100 processes started under a limit of 30')
    box.holds('reason', r.err, 'process limit')
    box.cay('signal', '-s', 'KILL', id, '1', code=None)
    box.cay('rm', '-f', id)


def group_of(box, id):
    """The directory of the group that a process inside is in, in the hierarchy of version 2."""
    box.cay('exec', '-d', '--tag', 'mark', id, '--', 'sleep', '987654')
    for p in os.listdir('/proc'):
        try:
            with open('/proc/%s/cmdline' % p, 'rb') as f:
                if f.read() != b'sleep\0987654\0':
                    continue
            with open('/proc/%s/cgroup' % p) as f:
                return next('/sys/fs/cgroup' + l.strip().split(':', 2)[2] for l in f if l.startswith('0::'))
        except (OSError, StopIteration):
            continue
    raise Failed('the process is not seen from outside')


@case('cpu', 'a CPU limit is in the kernel')
def cpu(box):
    box.limit('cpu-limit')
    id = box.create('--cpus', '0.5')
    group = group_of(box, id)
    seen = []
    while group.startswith('/sys/fs/cgroup/'):
        try:
            with open(group + '/cpu.max') as f:
                quota, period = f.read().split()
            seen.append('%s %s' % (quota, period))
            if quota != 'max':
                box.same('half a CPU', int(quota) * 2, int(period))
                return
        except OSError:
            pass
        group = os.path.dirname(group)
    raise Failed('no quota from the process up: %s' % seen)


@case('disk', 'a disk limit ends what goes beyond it, or is refused where it is required')
def disk(box):
    fill = 'i=0; while head -c 1000000 /dev/zero >f$i; do i=$((i+1)); [ $i -lt 60 ] || break; done; echo $i'
    row = box.layer('disk-quota')
    if row['state'] == 'on':
        id = box.create('--disk', '20m', '--require', 'disk-quota')
        n = int(box.inside(id, fill, code=None).split()[-1])
        if n >= 60:
            raise Failed('%d MB are in a sandbox of 20' % n)
        return
    r = box.cay('create', '--disk', '20m', '--require', 'disk-quota', code=None)
    if r.code == 0:
        raise Failed('doctor says %s, and a sandbox that requires it is made' % row['state'])
    if not row['why'] or not row['remedy']:
        raise Failed('no cause or remedy: %s' % row)
    raise No(row['why'], row['remedy'])


@case('network', 'nothing without a policy; with one, names that it has and no others', short=True)
def network(box):
    ask = 'curl -sS -m 60 http://%s/'
    id = box.create()
    if 'hello' in box.cay('exec', id, '--', 'sh', '-c', ask % 'good.test', code=None).out:
        raise Failed('a sandbox without a policy reaches the world')
    if box.layer('egress-policy')['state'] != 'on':
        row = box.layer('egress-policy')
        raise No(row['why'], row['remedy'])
    id = box.create('--net', 'good.test:80')
    box.holds('allowed', box.inside(id, ask % 'good.test'), 'hello from 93.184.216.34')
    for where in ('other.test', '93.184.216.35'):
        if 'hello' in box.cay('exec', id, '--', 'sh', '-c', ask % where, code=None).out:
            raise Failed('%s, which no rule has, is reached' % where)
    box.holds('refusals', box.cay('net', 'blocked', id).out, 'other.test')


@case('snapshots', 'snapshot, undo and fork', short=True)
def snapshots(box):
    id = box.create()
    box.inside(id, 'mkdir d; echo one >d/f; seq 1000 >numbers')
    s = box.cay('snapshot', '--label', 'first', id).out.strip()
    box.inside(id, 'echo two >d/f; rm numbers; mv d e')
    box.cay('undo', id)
    box.same('files after undo', box.inside(id, 'cat d/f; wc -l <numbers; ls'), 'one\n1000\nd\nnumbers\n')
    forks = box.cay('fork', '-n', '2', s).out.split()
    for f in forks:
        box.same('files of a fork', box.inside(f, 'cat d/f; echo mine >d/f; cat d/f'), 'one\nmine\n')
    box.same('files of the first', box.inside(id, 'cat d/f'), 'one\n')
    for i in range(3):  # a stack of several layers
        box.inside(id, 'echo %d >layer%d' % (i, i))
        box.cay('snapshot', id)
    box.same('a stack', box.inside(id, 'cat layer0 layer1 layer2 d/f'), '0\n1\n2\none\n')
    box.same('run --from', box.cay('run', '-q', '--from', 'first', '--', 'cat', 'd/f').out, 'one\n')
    box.until('durable', lambda: '"durable": true' in box.cay('snapshot', 'inspect', 'first').out)


@case('snapshots', 'a snapshot beside a process that writes, and a checkpoint after each command')
def checkpoints(box):
    id = box.create('--checkpoint')
    box.inside(id, 'echo precious >notes')
    box.inside(id, 'rm notes')
    box.cay('undo', id)
    box.same('undone', box.inside(id, 'cat notes'), 'precious\n')
    box.cay('exec', '-d', id, '--', 'sh', '-c', 'while :; do echo x >>grow; sleep 0.05; done')
    box.until('it writes', lambda: box.cay('exec', id, '--', 'test', '-s', 'grow', code=None).code == 0)
    r = box.cay('snapshot', id, code=None)
    if r.code and box.layer('freeze')['state'] != 'on':  # without a group of its own processes are stopped only when asked for
        box.cay('snapshot', '--stop', id)
    elif r.code:
        raise Failed('snapshot beside a process')


@case('workspaces', 'a directory worked on as a copy: diff, apply, nothing else touched', short=True)
def workspaces(box):
    d = box.dir + '/project'
    os.mkdir(d)
    for name, text in (('a', 'one\n'), ('b', 'two\n')):
        with open(d + '/' + name, 'w') as f:
            f.write(text)
    box.cay('run', '-q', '--on', d, '--id-file', 'id', '--', 'sh', '-c', 'sed -i s/one/1/ a; rm b; echo new >c')
    with open(box.dir + '/id') as f:
        id = f.read().strip()
    box.same('untouched', sorted(os.listdir(d)), ['a', 'b'])
    box.same('diff', sorted(box.cay('diff', id).out.split('\n')[:-1]), ['A c', 'D b', 'M a'])
    box.cay('apply', id, '--yes')
    box.same('applied', sorted(os.listdir(d)), ['a', 'c'])
    with open(d + '/a') as f:
        box.same('file', f.read(), '1\n')


@case('manifests', 'a manifest of 1,000 files, twice', short=True)
def manifests(box):
    entries = {'d%d/f%d' % (i % 10, i): {'type': 'file', 'content': 'file %d' % i} for i in range(1000)}
    with open(box.dir + '/m.json', 'w') as f:
        json.dump({'entries': entries}, f)
    for _ in range(2):
        id = box.create('--manifest', 'm.json')
        box.same('files', box.inside(id, 'find . -type f | wc -l; cat d7/f777').split('\n')[:2], ['1000', 'file 777'])


def tiny_root(box):
    """A root filesystem of one static program."""
    root = box.dir + '/root'
    for d in ('bin', 'etc', 'proc', 'dev', 'tmp', 'run'):
        os.makedirs(root + '/' + d)
    box.sh('cp', '/bin/busybox', root + '/bin/busybox')
    for name in ('sh', 'cat', 'echo', 'id', 'ls'):
        os.symlink('busybox', root + '/bin/' + name)
    return root


def needs_range(box, r):
    """An image has files of several users: somebody with one id is refused, with the remedy behind the last colon."""
    if r.code and box.user == 'plain' and 'subuid' in r.err:
        raise No(*r.err.splitlines()[0].replace('cay: ', '').rsplit(': ', 1))
    if r.code:
        raise Failed('status %s' % r.code)


@case('templates', 'an imported root filesystem')
def imported(box):
    root = tiny_root(box)
    needs_range(box, box.cay('template', 'import', root, 'tiny', code=None))
    box.same('inside', box.cay('run', '-q', '--template', 'tiny', '--', '/bin/sh', '-c', 'ls /bin | /bin/busybox wc -l').out.strip(), '6')


@case('templates', 'a Dockerfile, built and used')
def built(box):
    os.mkdir(box.dir + '/ctx')
    with open(box.dir + '/ctx/Dockerfile', 'w') as f:
        f.write('FROM host\nCOPY note /opt/note\nRUN echo built >>/opt/note\nRUN wc -l </opt/note >/opt/lines\nENV WHO=me\n')
    with open(box.dir + '/ctx/note', 'w') as f:
        f.write('copied\n')
    needs_range(box, box.cay('template', 'build', '-t', 'app:1', 'ctx', code=None))
    box.same('inside', box.cay('run', '-q', '--template', 'app:1', '--', 'sh', '-c', 'cat /opt/note /opt/lines; echo $WHO').out, 'copied\nbuilt\n2\nme\n')


@case('services', 'a service is kept running and restarted')
def services(box):
    with open(box.dir + '/m.json', 'w') as f:
        json.dump({'services': {'count': {'command': 'echo started; exec sleep 1000', 'restart': 'always'}}}, f)
    id = box.create('--manifest', 'm.json')
    box.cay('services', 'wait', id)

    def state(field):
        return next(s for s in json.loads(box.cay('services', '--json', id).out) if s['name'] == 'count')[field]
    box.inside(id, 'pkill -KILL -x sleep; true')
    box.until('restarted', lambda: state('restarts') >= 1 and state('state') in ('running', 'ready'))


@case('agent', 'the agent harness with a scripted model', short=True)
def agent(box):
    with open(box.dir + '/script.json', 'w') as f:
        json.dump({'turns': [{'calls': [{'name': 'exec_command', 'arguments': {'cmd': 'echo made by a model >hello.txt; cat hello.txt'}}]},
                             {'expect': {'last': ['made by a model']}, 'text': 'finished'}]}, f)
    r = box.sh('setsid', '-w', 'cay', 'agent', '--model', 'scripted:script.json', 'say hello')
    box.same('answer', r.out.strip(), 'finished')
    box.same('left', box.cay('ls', '-q').out, '')


# ---- the server

def ask(method, path, body=None, key=None, port=8090, headers=None):
    c = http.client.HTTPConnection('127.0.0.1', port, timeout=120)
    h = {'Content-Type': 'application/json', **({'X-API-Key': key} if key else {}), **(headers or {})}
    c.request(method, path, json.dumps(body) if isinstance(body, dict) else body, h)
    r = c.getresponse()
    data = r.read()
    c.close()
    return r.status, data


def e2b_run(port, key, id, token, script):
    """A command as E2B's SDK asks for it: a stream of messages with five bytes before each."""
    message = json.dumps({'process': {'cmd': '/bin/sh', 'args': ['-c', script]}}).encode()
    status, data = ask('POST', '/process.Process/Start', struct.pack('>BI', 0, len(message)) + message, None, port, {
        'Content-Type': 'application/connect+json', 'Connect-Protocol-Version': '1', 'E2b-Sandbox-Id': id, 'E2b-Sandbox-Port': '49983', 'X-Access-Token': token or '',
        'Authorization': 'Basic ' + base64.b64encode(b'user:').decode()})
    if status != 200:
        raise Failed('Start: %d %s' % (status, data[:300]))
    out, at = b'', 0
    while at + 5 <= len(data):
        n = struct.unpack('>I', data[at + 1:at + 5])[0]
        event = json.loads(data[at + 5:at + 5 + n] or '{}').get('event', {})
        out += base64.b64decode(event.get('data', {}).get('stdout', ''))
        at += 5 + n
    return out.decode()


def use_server(box, port, key):
    def healthy():
        try:
            return ask('GET', '/health', port=port)[0] == 200
        except OSError:
            return False
    box.until('the server answers', healthy)
    status, data = ask('GET', '/', port=port)
    box.same('console page', (status, b'<html' in data.lower() or b'<!doctype' in data.lower()), (200, True))
    status, data = ask('POST', '/e2b/sandboxes', {'templateID': 'base', 'timeout': 600}, key, port)
    box.same('E2B create: %s' % data[:300], status, 201)
    made = json.loads(data)
    box.same('E2B run', e2b_run(port, key, made['sandboxID'], made.get('envdAccessToken'), 'echo $((6*7))'), '42\n')
    return made


@case('server', 'a server of this user: E2B create and run, and a kill -9 that loses nothing', short=True)
def server(box):
    key = box.cay('key', 'create', '--scope', 'admin').out.strip()
    port = 18000 + os.getuid() % 1000

    def serve():
        p = box.start('cay', 'serve', '--listen', '127.0.0.1:%d' % port)
        return p
    p = serve()
    made = use_server(box, port, key)
    p.kill()
    p.wait()
    box.holds('the sandbox outlives the server', box.cay('ls').out, 'running')
    serve()

    def again():
        try:
            return ask('GET', '/health', port=port)[0] == 200
        except OSError:
            return False
    box.until('a new server answers', again)
    status, data = ask('DELETE', '/e2b/sandboxes/' + made['sandboxID'], key=key, port=port)
    box.same('E2B kill: %s' % data[:300], status, 204)


@case('units', 'cay.socket starts the server when somebody asks', users=('root',), short=True)
def socket_unit(box):
    del box.env['CAY_HOME']
    use_unit(box, 'cay', '/var/lib/cay', ['cay'])


@case('units', 'cay-rootless.socket: the same as an ordinary user', users=('root',))
def rootless_unit(box):
    box.sh('sh', '-c', 'grep -q ^cay: /etc/subuid || echo cay:400000:65536 | tee -a /etc/subuid >>/etc/subgid')
    use_unit(box, 'cay-rootless', '/var/lib/cay-rootless',
             ['runuser', '-u', 'cay', '--', 'env', 'CAY_HOME=/var/lib/cay-rootless', 'XDG_RUNTIME_DIR=/run/cay-rootless', 'HOME=/var/lib/cay-rootless', 'cay'])


@case('units', 'cay-apart.socket: a server without rights beside a keeper of root', users=('root',))
def apart_unit(box):
    box.sh('sh', '-c', 'grep -q ^cay: /etc/passwd || useradd --system --no-create-home cay; install -d -m 700 -o cay -g cay /var/lib/cay-apart')
    use_unit(box, 'cay-apart', '/var/lib/cay-apart', ['runuser', '-u', 'cay', '--', 'cay', '--home', '/var/lib/cay-apart'])


def use_unit(box, unit, home, cay):
    box.sh('systemctl', 'start', unit + '.socket')
    try:
        box.until('the server answers', lambda: ask('GET', '/health')[0] == 200)
        key = box.sh(*cay, 'key', 'create', '--scope', 'admin').out.strip()
        use_server(box, 8090, key)
        box.sh('systemctl', 'restart', unit + '.service')
        box.until('the server answers again', lambda: ask('GET', '/health')[0] == 200)
        box.holds('sandboxes outlive a restart', box.sh(*cay, 'ls').out, 'running')
        ids = box.sh(*cay, 'ls', '-q').out.split()
        box.sh(*cay, 'rm', '-f', *ids)
    except Failed:
        box.sh('journalctl', '-u', unit + '.service', '-n', '30', '--no-pager', '-o', 'cat', code=None)
        raise
    finally:
        box.sh('systemctl', 'stop', unit + '.socket', unit + '.service', code=None)
        for pid in box.keepers(home):
            os.kill(pid, signal.SIGTERM)


# ---- what it survives

@case('survival', 'kill -9 of the keeper loses neither sandbox nor process nor exit code', short=True)
def keeper_killed(box):
    id = box.create()
    box.cay('exec', '-d', '--tag', 'long', id, '--', 'sh', '-c', 'until [ -e go ]; do sleep 0.1; done; echo done; exit 9')
    killed = box.keepers()
    box.same('one keeper', len(killed), 1)
    os.kill(killed[0], signal.SIGKILL)
    box.holds('the process lives', box.cay('ps', id).out, 'long')
    box.inside(id, 'echo mine >file; touch go')
    box.until('it ends', lambda: 'long' not in box.cay('ps', id).out)
    box.holds('exit code', box.cay('ps', '-a', id).out, '9')
    box.same('output', box.cay('logs', id, 'long').out, 'done\n')
    box.same('files', box.inside(id, 'cat file'), 'mine\n')


def scope_of(box):
    """The scope of the user's systemd that the keeper is in."""
    with open('/proc/%d/cgroup' % box.keepers()[0]) as f:
        path = next((l.strip()[3:] for l in f if l.startswith('0::')), '')
    box.holds('a scope of the own manager', path, '/user@%d.service/' % os.getuid(), '.scope/cay-keeper')
    return path.split('/')[-2]


@case('survival', 'the keeper is in a scope of the user, the next one finds it again, and limits hold', users=('session', 'plain'), short=True)
def own_scope(box):
    box.limit('memory-limit')
    eat = ('--', 'python3', '-c', 'x = bytearray(300 << 20)')
    id = box.create('--memory', '64m')
    scope = scope_of(box)
    os.kill(box.keepers()[0], signal.SIGKILL)
    box.same('status of the adopted', box.cay('exec', id, *eat, code=None).code, 137)
    box.same('scope of the next keeper', scope_of(box), scope)
    box.same('status of a new one', box.cay('exec', box.create('--memory', '64m'), *eat, code=None).code, 137)
    box.sh('systemctl', '--user', 'daemon-reload')
    box.same('after a reload', box.inside(id, 'echo yes'), 'yes\n')
    os.kill(box.keepers()[0], signal.SIGTERM)
    box.until('the keeper leaves when it is asked', lambda: not box.keepers())
    box.same('its sandbox stays', box.inside(id, 'echo yes'), 'yes\n')


@case('survival', 'a scope that systemd stops takes its sandboxes along, at once and with their files', users=('session', 'plain'), short=True)
def scope_stopped(box):
    box.limit('memory-limit')
    id = box.create('--ttl', '1h')
    box.inside(id, 'echo kept >file')
    box.cay('exec', '-d', id, '--', 'sh', '-c', 'trap "" TERM; while :; do sleep 1; done')
    scope = scope_of(box)
    box.sh('systemctl', '--user', 'stop', scope)
    # A process that systemd has to kill names a failure of the scope.
    r = box.sh('journalctl', '--user', '--no-pager', '-o', 'cat', '-u', scope, code=None)
    if 'SIGKILL' in r.out:
        raise Failed('systemd had to kill: %s' % r.out[-600:])
    box.holds('reason', box.cay('ls').out, id, 'stopped', 'host-stopped')
    box.cay('resume', id)
    box.same('file', box.inside(id, 'cat file'), 'kept\n')


@case('own ids', 'files of one sandbox belong to ids that no other has', users=('root',))
def own_ids(box):
    row = box.layer('own-ids')
    maps = [box.inside(box.create(), 'cat /proc/self/uid_map').split()[1] for _ in range(2)]
    if row['state'] == 'on':
        box.same('ranges differ', maps[0] != maps[1], True)
        return
    r = box.cay('create', '--require', 'own-ids', code=None)
    if r.code == 0:
        raise Failed('doctor says own-ids is %s, and a sandbox that requires it is made' % row['state'])
    raise No(row['why'], row['remedy'])


# ---- places and states that a machine may be in

def on_filesystem(box, mount):
    """The life of a sandbox with the state directory on a filesystem that `mount` puts at ./fs."""
    at = box.dir + '/fs'
    os.mkdir(at)
    box.sh('sh', '-euc', mount, 'sh', at)
    box.home = box.env['CAY_HOME'] = at + '/home'
    try:
        r = box.cay('create', code=None)
        no = refusal(box.log)
        if r.code and no:
            raise no
        id = r.out.strip()
        box.inside(id, 'mkdir d; echo one >d/f')
        s = box.cay('snapshot', id).out.strip()
        box.inside(id, 'echo two >d/f')
        box.same('a fork', box.inside(box.cay('fork', s).out.strip(), 'cat d/f'), 'one\n')
        box.cay('undo', id)
        box.same('after undo', box.inside(id, 'cat d/f'), 'one\n')
    finally:
        left = box.end_sandboxes()
        box.sh('sh', '-c', 'for i in 1 2 3 4 5 6 7 8 9 10; do umount "$1" && break; sleep 1; done', 'sh', at, code=None)
    if left:
        raise Failed('; '.join(left))


@case('state on tmpfs', 'the state directory on a tmpfs', users=('root',))
def on_tmpfs(box):
    on_filesystem(box, 'mount -t tmpfs tmpfs "$1"')


@case('state on btrfs', 'the state directory on btrfs', users=('root',))
def on_btrfs(box):
    on_filesystem(box, 'truncate -s 400M "$1.img"; mkfs.btrfs -q "$1.img"; mount -o loop "$1.img" "$1"')


@case('state on xfs', 'the state directory on xfs', users=('root',))
def on_xfs(box):
    on_filesystem(box, 'truncate -s 400M "$1.img"; mkfs.xfs -q "$1.img"; mount -o loop "$1.img" "$1"')


@case('state on overlayfs', 'the state directory on an overlay, as in a container', users=('root',))
def on_overlay(box):
    on_filesystem(box, 'mkdir "$1.u" "$1.w" "$1.l"; mount -t overlay overlay -o "lowerdir=$1.l,upperdir=$1.u,workdir=$1.w" "$1"')


@case('read-only /sys', 'control groups that may be read and not changed: a sandbox, and the truth about its limits', users=('root',))
def sys_read_only(box):
    hidden = ['unshare', '--mount', '--propagation', 'private', 'sh', '-c',
              'mount -o remount,bind,ro /sys/fs/cgroup 2>/dev/null || mount --bind -o ro /sys/fs/cgroup /sys/fs/cgroup; mount -o remount,bind,ro /sys/fs/cgroup; exec "$@"', 'sh']
    row = next(r for r in json.loads(box.sh(*hidden, 'cay', 'doctor', '--json').out)['layers'] if r['name'] == 'memory-limit')
    if row['state'] == 'on':
        raise Failed('doctor says that memory is limited')
    r = box.sh(*hidden, 'cay', 'run', '-q', '--require', 'memory-limit', '--', 'true', code=None)
    if r.code == 0:
        raise Failed('a sandbox that requires memory-limit is made')
    box.same('a sandbox', box.sh(*hidden, 'cay', 'run', '-q', '--', 'echo', 'made').out, 'made\n')
    if not row['why'] or not row['remedy']:
        raise Failed('no cause or remedy: %s' % row)


# ---- packages, after all else

def debs(name):
    return ['%s/%s' % (name, f) for f in sorted(os.listdir(name))]


def apt(box, *words):
    box.env['DEBIAN_FRONTEND'] = 'noninteractive'
    box.sh('apt-get', '-y', *words)


@case('packages', 'an upgrade leaves sandboxes running, and the new programs work in them', users=('last',))
def upgraded(box):
    del box.env['CAY_HOME']
    id = box.create('--name', 'stays')
    box.cay('exec', '-d', '--tag', 'long', id, '--', 'sh', '-c', 'echo kept >file; exec sleep 100000')
    old = box.keepers('/var/lib/cay')
    apt(box, 'install', *debs('/payload/newer'))
    box.holds('version', box.sh('dpkg-query', '-W', 'cay').out, '+again')
    box.holds('the process lives', box.cay('ps', id).out, 'long')
    box.same('files', box.inside(id, 'cat file'), 'kept\n')
    box.same('a new sandbox', box.cay('run', '-q', '--', 'echo', 'new').out, 'new\n')
    box.same('the keeper is the same', box.keepers('/var/lib/cay'), old)
    os.kill(old[0], signal.SIGKILL)
    box.holds('a keeper of the new package adopts it', box.cay('ps', id).out, 'long')
    box.same('files', box.inside(id, 'cat file'), 'kept\n')


@case('packages', 'removed: sandboxes end, their files stay, and come back with the package; purged: nothing stays', users=('last',))
def removed(box):
    del box.env['CAY_HOME']
    id = box.create('--name', 'comes-back')
    box.inside(id, 'echo kept >file')
    apt(box, 'remove', 'cay')
    box.until('no process of cay', lambda: not box.keepers('/var/lib/cay'))
    box.sh('systemctl', 'cat', 'cay.socket', code=1)
    apt(box, 'install', *debs('/payload/debs'), '--allow-downgrades')
    box.holds('it is listed', box.cay('ls').out, 'comes-back', 'stopped')
    box.cay('resume', id)
    box.same('files', box.inside(id, 'cat file'), 'kept\n')
    apt(box, 'purge', 'cay')
    box.same('state', os.path.exists('/var/lib/cay'), False)
    box.until('no process of cay', lambda: not box.sh('pgrep', '-f', 'libexec/cay|lib/cay', code=None).out.strip())
