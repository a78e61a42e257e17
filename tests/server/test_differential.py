# SPDX-License-Identifier: Apache-2.0
"""Our reading of HTTP against llhttp's, the parser in node: whatever bytes come, the requests that we saw are the first of those that it saw. Either may refuse what the other
takes, and end the connection; but what both take is the same, so that we never see another request, or one more, than a proxy in front of us would have sent.
CAY_CASES for another number of cases, CAY_SEED to see one again."""
import json
import os
import random
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve import Server  # noqa: E402

BUILD = sys.argv[1]
NODE = r'''
const http = require('http');
const seen = {};
const server = http.createServer((req, res) => {
  const port = req.socket.remotePort;
  (seen[port] = seen[port] || []).push(req.method + ' ' + req.url);
  req.resume();
  req.on('end', () => res.end());
});
server.on('checkContinue', (req, res) => { res.writeContinue(); server.emit('request', req, res); });
server.on('upgrade', (req, socket) => { (seen[socket.remotePort] = seen[socket.remotePort] || []).push(req.method + ' ' + req.url, 'refused more'); socket.destroy(); });
server.on('connect', (req, socket) => { (seen[socket.remotePort] = seen[socket.remotePort] || []).push(req.method + ' ' + req.url, 'refused more'); socket.destroy(); });
server.on('clientError', (e, socket) => { (seen[socket.remotePort] = seen[socket.remotePort] || []).push('refused ' + e.code); socket.destroy(); });
server.keepAliveTimeout = 200;
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
require('readline').createInterface({ input: process.stdin }).on('line', (port) => { console.log(JSON.stringify(seen[port] || [])); delete seen[port]; });
'''
SECOND = b'GET /second HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
LINES = [b'Content-Length: 5', b'Content-Length: 0', b'Content-Length: +5', b'Content-Length: 5, 5', b'Content-Length: 5\r\nContent-Length: 6', b'Content-Length:5', b'Content-Length : 5',
         b'Content-Length: 0x5', b'Content-Length: 5\t', b'Transfer-Encoding: chunked', b'Transfer-Encoding: Chunked', b'Transfer-Encoding: chunked, identity', b'Transfer-Encoding: identity',
         b'Transfer-Encoding: xchunked', b'Transfer-Encoding:\tchunked', b'Transfer-Encoding: \x0bchunked', b'Transfer-Encoding: chunked\r\nContent-Length: 5',
         b'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked', b'Transfer-Encoding : chunked', b'X: y\r\n Transfer-Encoding: chunked', b'X: y\nTransfer-Encoding: chunked',
         b'X: y\r\nTransfer-Encoding: chunked', b'Host: other', b'X\x00: y', b'X: \x00', b': y', b'X', b'Connection: close', b'Connection: keep-alive', b'Connection: content-length',
         b'Expect: 100-continue', b'Upgrade: websocket\r\nConnection: upgrade', b'X: ' + b'a' * 300]
BODIES = [b'', b'hello', b'5\r\nhello\r\n0\r\n\r\n', b'5;a=b\r\nhello\r\n0\r\n\r\n', b'5\nhello\n0\n\n', b'05\r\nhello\r\n0\r\n\r\n', b'5\r\nhello\r\n0\r\nX: y\r\n\r\n', b'5 \r\nhello\r\n0\r\n\r\n',
          b'0x5\r\nhello\r\n0\r\n\r\n', b'5\r\nhelloXX0\r\n\r\n', b'ffffffffffffffff5\r\nhello\r\n0\r\n\r\n', b'0\r\n\r\n', b'-1\r\n\r\n', b'GET /inner HTTP/1.1\r\nHost: localhost\r\n\r\n']
FIRSTS = [b'GET /first HTTP/1.1', b'POST /first HTTP/1.1', b'PUT /first?x=1 HTTP/1.1', b'HEAD /first HTTP/1.1', b'GET /first HTTP/1.0', b'GET  /first HTTP/1.1', b'GET /first  HTTP/1.1', b'GET /first HTTP/1.2',
          b'GET http://localhost/first HTTP/1.1', b'get /first HTTP/1.1', b'OPTIONS * HTTP/1.1', b'GET /fi\trst HTTP/1.1', b'\r\nGET /first HTTP/1.1', b'GET /first HTTP/1.1 ', b'GET /first']
# llhttp knows the methods that there are and refuses others; we take any word, and say that nothing is there.
METHODS = set(subprocess.run([shutil.which('node') or shutil.which('nodejs') or 'true', '-p', "require('http').METHODS.join(' ')"], stdout=subprocess.PIPE, text=True).stdout.split())
BYTES = b'\r\n \t:;,0159af\x00\x0b\x0c\x7f\x80\xff/.GH'


def case(r):
    ends = r.choice([b'\r\n'] * 12 + [b'\n', b'\r', b'\r\r\n'])
    lines = [r.choice(FIRSTS) if r.random() < 0.3 else r.choice(FIRSTS[:3]), b'Host: localhost'] + r.choices(LINES, k=r.choice((0, 0, 1, 1, 1, 2, 3)))
    if r.random() < 0.2:
        r.shuffle(lines[1:])
    data = bytearray(ends.join(lines) + ends + ends + r.choice(BODIES) + SECOND)
    for _ in range(r.choice((0, 0, 0, 1, 1, 2))):
        at = r.randrange(len(data))
        how = r.random()
        if how < 0.4:
            data[at] = r.choice(BYTES)
        elif how < 0.7:
            data.insert(at, r.choice(BYTES))
        else:
            del data[at]
    return bytes(data)


def send(port, data):
    """Everything at once, then our side is closed; the other side ends it. The port that it came from."""
    with socket.create_connection(('127.0.0.1', port), 20) as s:
        mine = s.getsockname()[1]
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536):
                pass
        except OSError:
            pass
        return mine


def main():
    node = shutil.which('node') or shutil.which('nodejs')
    if not node:
        print('SKIP: there is no node here (package nodejs)')
        sys.exit(77)
    seed = int(os.environ.get('CAY_SEED', random.randrange(1 << 32)))
    cases = int(os.environ.get('CAY_CASES', '1500'))
    r = random.Random(seed)
    peer = subprocess.Popen([node, '-e', NODE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    s = Server(BUILD)
    log = os.path.join(s.tmp, 'log')
    s.args = ('--log', log)
    ours_in_all = theirs_in_all = refused = 0
    try:
        port = int(peer.stdout.readline())
        with s, open(log) as f:
            f.read()
            for i in range(cases):
                data = case(r)
                mine = send(port, data)
                peer.stdin.write('%d\n' % mine)
                theirs = [x.split(' ', 1) for x in json.loads(peer.stdout.readline())]
                theirs = [(m, p.split('?')[0]) for m, p in theirs]
                if ('refused' in [m for m, _ in theirs]):
                    theirs = theirs[:[m for m, _ in theirs].index('refused') + 1]
                send(s.port, data)
                answered = [json.loads(x) for x in f.read().splitlines()]
                ours = [(x['method'], x['path']) for x in answered if x['method']]  # without a method: what was no request
                strange = next((k for k, (m, _) in enumerate(ours) if m not in METHODS), len(ours))
                ours = ours[:strange]
                if theirs and theirs[-1][0] == 'refused':  # a proxy would have sent no more
                    theirs.pop()
                    ours = ours[:len(theirs)]
                refused += len(ours) < len(theirs)
                assert ours == theirs[:len(ours)], 'seed %d, case %d: %r: we saw %s, llhttp %s' % (seed, i, data, ours, theirs)
                ours_in_all += len(ours)
                theirs_in_all += len(theirs)
    finally:
        peer.kill()
        peer.wait()
    print('%d cases (seed %d): llhttp saw %d requests, we %d, alike as far as we read; %d times we were stricter' % (cases, seed, theirs_in_all, ours_in_all, refused))
    assert ours_in_all > cases / 8, 'hardly anything was compared'


if __name__ == '__main__':
    main()
