#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_interpreter.py PROGRAM SOURCE: the code interpreter by itself, in a network of its own: what HTTP it takes, and what it does with those who do not behave."""
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

program, source = (os.path.abspath(p) for p in sys.argv[1:3])
if 'ALONE' not in os.environ:
    alone = ['unshare', '-mn', *([] if os.geteuid() == 0 else ['-r']), 'sh', '-c', 'mount -t tmpfs none /home && mkdir /home/user && ip link set lo up && exec "$@"', 'sh']
    if subprocess.run([*alone, 'true'], capture_output=True).returncode:
        print('no namespaces of its own can be had here')
        sys.exit(77)
    sys.exit(subprocess.call([*alone, sys.executable, *sys.argv], env=dict(os.environ, ALONE='1')))

tmp = tempfile.mkdtemp(prefix='cay-interpreter-')
shutil.copy(program, tmp + '/interpreter')
for f in ('kernel.py', 'kernel.js'):
    shutil.copy(os.path.join(source, 'src/helper/interpreter', f), tmp)
failed = 0
JSON = {'content-type': 'application/json'}


def same(what, got, want):
    global failed
    if got != want:
        failed += 1
        print('FAILED: %s: %.600r instead of %.300r' % (what, got, want))


def ask(method, path, body=None, headers=JSON):
    c = http.client.HTTPConnection('localhost', 49999, timeout=60)
    try:
        c.request(method, path, body if isinstance(body, (bytes, type(None))) else json.dumps(body), headers)
        r = c.getresponse()
        return r.status, r.read()
    finally:
        c.close()


def events(body):
    return [json.loads(line) for line in body.splitlines()]


def run(code, **more):
    status, body = ask('POST', '/execute', dict(code=code, **more))
    return events(body) if status == 200 else (status, body)


def printed(got):
    return ''.join(e['text'] for e in got if e['type'] == 'stdout')


def raw(*pieces, until=None):
    """All that comes back for these bytes, each sent for itself."""
    with socket.create_connection(('127.0.0.1', 49999), timeout=60) as s:
        got = b''
        for p in pieces:
            s.sendall(p)
            time.sleep(0.01 if len(pieces) > 1 else 0)
        while data := s.recv(65536):
            got += data
            if until and until in got:
                break
        return got


def head(line, *fields, body=b''):
    return '\r\n'.join((line, 'host: localhost', *fields, '', '')).encode() + body


def comes(name):
    for _ in range(3000):
        if os.path.exists(os.path.join(tmp, name)):
            os.unlink(os.path.join(tmp, name))
            return
        time.sleep(0.02)
    same('a file ' + name, False, True)


def words_of_http():
    def status(b):
        return int(raw(b, until=b'\r\n\r\n').split(b' ')[1])
    bad = {'bare LF': b'GET /health HTTP/1.1\nhost: x\n\n', 'no Host': b'GET /health HTTP/1.1\r\n\r\n', 'two lengths': head('POST /execute HTTP/1.1', 'content-length: 2', 'content-length: 3'),
           'length and chunks': head('POST /execute HTTP/1.1', 'content-length: 2', 'transfer-encoding: chunked'), 'no HTTP': b'\x16\x03\x01\x02\r\n\r\n',
           'a bad chunk': head('POST /execute HTTP/1.1', 'transfer-encoding: chunked', 'content-type: application/json', body=b'zz\r\n')}
    for name, b in bad.items():
        same(name, status(b), 400)
    same('a head without end', status(b'GET /health HTTP/1.1\r\nhost: localhost\r\nx: ' + b'a' * 40000), 413)
    same('a body beyond', status(head('POST /execute HTTP/1.1', 'content-length: 9000000')), 413)
    same('chunks beyond', status(head('POST /execute HTTP/1.1', 'transfer-encoding: chunked', body=b''.join(b'100000\r\n' + b' ' * (1 << 20) + b'\r\n' for _ in range(10)))), 413)
    same('another name', status(head('GET /health HTTP/1.1').replace(b'localhost', b'evil.example')), 403)
    same('another path', [status(head('%s HTTP/1.1' % p, 'connection: close')) for p in ('GET /', 'GET /contexts/', 'DELETE /contexts//', 'PUT /contexts', 'GET /healthy', 'DELETE /contexts/a/b')], [404] * 6)
    two = head('GET /health HTTP/1.1') + head('GET /contexts HTTP/1.1', 'connection: close')
    same('who does not wait', raw(two).count(b'HTTP/1.1 200'), 1)
    c = http.client.HTTPConnection('localhost', 49999, timeout=60)
    got = []
    for path in ('/health', '/nothing', '/health', '/execute', '/health'):
        c.request('POST' if path == '/execute' else 'GET', path, b'{"code":"echo on","language":"bash"}' if path == '/execute' else None, JSON)
        r = c.getresponse()
        r.read()
        got.append((r.status, c.sock is not None))
    same('one connection for many', got, [(200, True), (404, True), (200, True), (200, True), (200, True)])
    c.close()
    body = b'{"code":"echo whole","language":"bash"}'
    for name, b in (('in pieces', [bytes([x]) for x in head('POST /execute HTTP/1.1', 'content-type: application/json', 'content-length: %d' % len(body), 'connection: close', body=body)]),
                    ('in chunks', [head('POST /execute HTTP/1.1', 'content-type: application/json', 'transfer-encoding: chunked', 'connection: close'), b'5\r\n' + body[:5] + b'\r\n', b'%x\r\n' % len(body[5:]) + body[5:], b'\r\n0\r\n\r\n']),
                    ('of HTTP/1.0', [b'POST /execute HTTP/1.0\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n' % len(body) + body])):
        got = raw(*b)
        same(name, [b'whole' in got, b'end_of_execution' in got, b'chunked' in got], [True, True, name != 'of HTTP/1.0'])
    same('who waits for leave', b'100 Continue' in raw(head('POST /contexts HTTP/1.1', 'content-length: 2', 'expect: 100-continue'), until=b'Continue'), True)


def words_of_json():
    wrong = [b'{', b'{"code"', b'{"code":}', b'{"code":"x",}', b'{"code":"\\q"}', b'{"code":"\\u12"}', b'{"code":"a\nb"}', b'{"code":"\xff"}', b'{"code":"\xc0\x80"}', b'{"code":"x"} x', b'{"code":"x","a":01}', b'{"code":"x","a":NaN}',
             b'{"code":"x","a":1.}', b'{"code":"x","a":-}', b'{"code":"x","a":tru}', b"{'code':1}", b'{"code":"x","a":' + b'[' * 100 + b']' * 100 + b'}', b'{"code":"x","a":{"b" 1}}', b'{"code":"x","a":[1 2]}', b'{"code":"x\0"}', b'"x"', b'7', b'[]', b'\0',
             b'{"code":7}', b'{"code":null}', b'{}', b'']
    same('no request', [ask('POST', '/execute', b)[0] for b in wrong], [400] * len(wrong))
    odd = b' {\r\n"env_vars" : {\n"A":\n"1", "B" : "\\u0041\\ud83d\\ude00" },\n "language":"bash", "x":[1,-2.5e+3,{"y":[]},true,false,null],\n"code":"echo \\"$A\\" $B \\u00e4\\n\\techo \xe2\x82\xac"}\n '
    same('an odd one', printed(events(ask('POST', '/execute', odd)[1])), '1 A\U0001F600 ä\n€\n')
    for language in ('bash', 'python', 'javascript') if shutil.which('node') else ('bash', 'python'):
        same('variables that are none', run('1', language=language, env_vars={'=': '1', '': '2', 'A B': '3'})[-1]['type'], 'end_of_execution')


def those_who_do_not_behave():
    made = [json.loads(ask('POST', '/contexts', dict(language='bash', cwd=tmp))[1])['id'] for _ in range(2)]
    body = json.dumps(dict(code='yes "$(head -c 1000 /dev/zero | tr "\\0" x)"', context_id=made[0])).encode()
    deaf = socket.create_connection(('127.0.0.1', 49999))
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.sendall(head('POST /execute HTTP/1.1', 'content-type: application/json', 'content-length: %d' % len(body), body=body))
    time.sleep(0.5)

    def held():
        with open('/proc/%d/status' % host.pid) as f:
            return int(next(line for line in f if line.startswith('VmRSS')).split()[1])
    before = held()
    same('another context meanwhile', printed(run('echo other', context_id=made[1])), 'other\n')
    time.sleep(0.5)
    same('what is not read is not kept', held() - before < 8192, True)
    deaf.close()  # that is an interrupt
    same('and the context is free again', printed(run('echo free', context_id=made[0])), 'free\n')
    slow = threading.Thread(target=lambda: same('the first', printed(run('touch at; until [ -e go ]; do sleep 0.02; done; echo first', context_id=made[0])), 'first\n'))
    slow.start()
    comes('at')
    body = json.dumps(dict(code='touch never', context_id=made[0])).encode()
    waits = socket.create_connection(('127.0.0.1', 49999))
    waits.sendall(head('POST /execute HTTP/1.1', 'content-type: application/json', 'content-length: %d' % len(body), body=body))
    waits.recv(100)  # it has its place
    waits.close()
    ask('GET', '/health')  # and that was seen, too
    open(tmp + '/go', 'w').close()
    slow.join()
    same('who went while waiting', [printed(run('echo next', context_id=made[0])), os.path.exists(tmp + '/never')], ['next\n', False])
    many = [threading.Thread(target=lambda: same('one of many', ask('GET', '/health')[0], 200)) for _ in range(200)]
    idle = [socket.create_connection(('127.0.0.1', 49999)) for _ in range(100)]
    for t in many:
        t.start()
    for t in many:
        t.join()
    for s in idle:
        s.close()
    for i in made:
        same('removed', ask('DELETE', '/contexts/' + i)[0], 204)


def alive(pid):
    try:
        with open('/proc/%d/stat' % pid) as f:
            return f.read().rsplit(')', 1)[1].split()[0] not in 'ZX'
    except OSError:
        return False


def ends():
    for language, code in (('python', 'import subprocess\nfor own in False, True: print(subprocess.Popen(["sleep", "1000"], start_new_session=own).pid)'), ('bash', 'sleep 1000 & echo $!; setsid sleep 1000 & echo $!')):
        i = json.loads(ask('POST', '/contexts', dict(language=language, cwd=tmp))[1])['id']
        pids = [int(p) for p in printed(run(code, context_id=i)).split()]
        same('they run', [len(pids), all(map(alive, pids))], [2, True])
        at_work = []
        t = threading.Thread(target=lambda: at_work.extend(run('import time; open("at", "w").close(); time.sleep(1000)' if language == 'python' else 'touch at; sleep 1000', context_id=i)))
        t.start()
        comes('at')
        same('restarted', ask('POST', '/contexts/%s/restart' % i)[0], 200)
        t.join()
        same('who was at it is told', at_work[-1].get('name'), 'UnexpectedEndOfExecution')
        for _ in range(200):
            if not any(map(alive, pids)):
                break
            time.sleep(0.02)
        same('what it started ends with it', [alive(p) for p in pids], [False, False])
        same('a new one', ask('DELETE', '/contexts/' + i)[0], 204)
    got = run('import os, signal\nos.kill(os.getpid(), signal.SIGKILL)')
    same('killed', [got[-1]['name'], got[-1]['value']], ['UnexpectedEndOfExecution', 'the kernel ended by signal 9 before the execution did'])
    same('started anew', printed(run('print("new")')), 'new\n')
    got = run('import os\n[os.close(f) for f in range(3, 64) if os.path.exists(f"/proc/self/fd/{f}") and "pipe" in os.readlink(f"/proc/self/fd/{f}")]\nwhile True: pass')
    same('one that says nothing any more', got[-1]['name'], 'UnexpectedEndOfExecution')
    same('what is not there', [ask('POST', '/contexts', dict(language='r'))[0], ask('POST', '/contexts', dict(cwd='/nowhere'))[0], ask('POST', '/contexts/none/restart')[0]], [501, 404, 404])


host = subprocess.Popen([tmp + '/interpreter', 'python', 'cobol'], stderr=subprocess.PIPE, text=True)
try:
    for _ in range(500):
        try:
            socket.create_connection(('::1', 49999)).close()
            break
        except OSError:
            time.sleep(0.01)
    same('a second one', subprocess.run([tmp + '/interpreter'], capture_output=True, text=True).stderr.startswith('port 49999 of loopback: Address '), True)
    words_of_http()
    words_of_json()
    those_who_do_not_behave()
    ends()
    same('it lives', host.poll(), None)
finally:
    host.send_signal(signal.SIGTERM)
    said = host.communicate()[1]
    shutil.rmtree(tmp, ignore_errors=True)
same('what it says of itself', [line for line in said.splitlines() if 'ERROR' in line or 'runtime error' in line or 'cobol' in line], ['language cobol is not known: there are python, javascript, typescript and bash'])
print('%d failed' % failed)
sys.exit(failed > 0)
