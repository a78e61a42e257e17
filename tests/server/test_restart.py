# SPDX-License-Identifier: Apache-2.0
"""A server that is killed while a command of a client runs: the client has every byte and the exit code."""
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from serve import Server  # noqa: E402

build = sys.argv[1]
s = Server(build)
with s:
    env = dict(s.env, CAY_HOST='unix:' + s.unix, CAY_API_KEY=s.key, CAY_HOME=os.path.join(s.tmp, 'here'))
    cay = os.path.join(build, 'cay')
    made = subprocess.run([cay, 'create', '-q'], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, timeout=60)
    box = made.stdout.strip()
    assert made.returncode == 0 and box.startswith('c'), made
    p = subprocess.Popen([cay, 'exec', '-i', box, '--', 'sh', '-c', 'echo one; echo two; read _; echo three; exit 5'], env=env, stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, text=True)
    try:
        assert p.stdout.readline() == 'one\n' and p.stdout.readline() == 'two\n'
        key = s.key
        s.stop(signal.SIGKILL)
        s.start()
        s.key = key
        # What was asked before the new one listened is asked again; input goes to the same process.
        p.stdin.write('go on\n')
        p.stdin.flush()
        out, _ = p.communicate(timeout=40)
    finally:
        p.kill()
        p.wait()
    assert out == 'three\n', out
    assert p.returncode == 5, p.returncode
    print('ok   output and exit code survive the server')
