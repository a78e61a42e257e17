#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_kernel.py SOURCE BUILD: the code interpreter's Python by itself, first alone and then with Debian's ipykernel and matplotlib, which are borrowed."""
import json
import os
import subprocess
import sys
import threading

source, build = (os.path.abspath(p) for p in sys.argv[1:3])
debs = os.path.join(build, 'borrowed-kernel')
failed = 0


class Kernel:
    def __init__(self, *before, **env):
        self.n = 0
        self.p = subprocess.Popen([*before, '/usr/bin/python3', '-u', os.path.join(source, 'src/helper/interpreter/kernel.py')], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                  env=dict(os.environ, HOME='/nonexistent', MPLCONFIGDIR=os.path.join(build, 'borrowed-mpl'), IPYTHONDIR=os.path.join(build, 'borrowed-ipython'), **env))

    def say(self, **o):
        self.p.stdin.write(json.dumps(o) + '\n')
        self.p.stdin.flush()

    def run(self, code, stop_after=None, **more):
        """All that one execution tells, by its kind."""
        self.n += 1
        self.say(id=str(self.n), code=code, **more)
        if stop_after:
            threading.Timer(stop_after, lambda: self.say(interrupt=str(self.n))).start()
        got = {'stdout': '', 'stderr': '', 'results': [], 'error': None}
        for line in self.p.stdout:
            o = json.loads(line)
            if o.get('id') != str(self.n):
                continue
            if o['type'] in ('stdout', 'stderr'):
                got[o['type']] += o['text']
            elif o['type'] == 'result':
                got['results'].append({k: v for k, v in o.items() if v is not None and k not in ('id', 'type')})
            elif o['type'] == 'error':
                got['error'] = o
            elif o['type'] == 'end_of_execution':
                return got
        return None  # it ended

    def text(self, code):
        return self.run(code)['results'][-1]['text']

    def end(self):
        self.p.stdin.close()
        self.p.wait(20)


def same(what, got, want):
    global failed
    if got != want:
        failed += 1
        print('FAILED: %s: %r instead of %r' % (what, got, want))


def both(k, name):
    for odd in ('{"id": "half', '{}{}', '7', '[]', '', '\udcff'):
        k.p.stdin.buffer.write(odd.encode('utf-8', 'surrogateescape') + b'\n')
    same(name + ': lines that are no request', k.text('"still"'), 'still')
    same(name + ': state', [k.run('x = 41')['results'], k.text('x + 1')], [[], '42'])
    same(name + ': quotes are not the value', k.text('"str"'), 'str')
    same(name + ': both streams', [k.run('import sys, os; print("o"); print("e", file=sys.stderr); os.system("echo c")')[s] for s in ('stdout', 'stderr')], ['o\nc\n', 'e\n'])
    e = k.run('def f():\n    return 1 / 0\nf()')['error']
    same(name + ': an error', [e['name'], e['value'], 'return 1 / 0' in e['traceback']], ['ZeroDivisionError', 'division by zero', True])
    same(name + ': no syntax', k.run('x = = 1')['error']['name'], 'SyntaxError')
    same(name + ': await', k.text('import asyncio\nawait asyncio.sleep(0, 8)'), '8')
    same(name + ': what is shown', k.run('display({"text/latex": "$x$"}, raw=True)')['results'], [{'is_main_result': False, 'latex': '$x$'}])
    kinds = k.run('class T:\n  def _repr_html_(self): return "<b>"\n  def _repr_png_(self): return b"abc"\n  def _repr_json_(self): return {"a": 1}\n  def __repr__(self): return "T"\nT()')['results'][0]
    same(name + ': kinds', kinds, {'is_main_result': True, 'text': 'T', 'html': '<b>', 'png': 'YWJj', 'json': {'a': 1}})
    same(name + ': bundles', k.run('class B:\n  def _repr_mimebundle_(self, include=None, exclude=None): return {"text/plain": "t", "x/y": {"a": 1}}\nB()')['results'][0]['extra'], {'x/y': {'a': 1}})
    same(name + ': the last value', k.text('_, x')[-4:-1], ' 41')
    same(name + ': a magic', k.text('%cd -q /\n%pwd') if name != 'alone' else k.text('%cd /\n%pwd'), '/')
    same(name + ': one that is none', k.run('%nothing')['error']['name'], 'UsageError')
    same(name + ': a command', [k.run('!echo a')['stdout'].strip(), k.text('y = !echo b; echo {x}\nlist(y)')], ['a', "['b', '41']"])
    same(name + ': a cell', k.run('%%bash\necho in $((1 + 1))')['stdout'], 'in 2\n')
    same(name + ': no input', k.run('input("x")')['error']['name'], 'StdinNotImplementedError')
    same(name + ': variables of one execution', [k.run('import os; os.environ["A"]', env={'A': 'b'})['results'][0]['text'], k.text('os.environ.get("A", "gone")')], ['b', 'gone'])
    same(name + ': an interrupt', [k.run('import time\ntime.sleep(60)', stop_after=0.7)['error']['name'], k.text('"back"')], ['KeyboardInterrupt', 'back'])
    same(name + ': an interrupt of what waits', [k.run('await asyncio.sleep(60)', stop_after=0.7)['error'] is not None, k.text('"again"')], [True, 'again'])


def charts(k):
    def chart(code):
        r = k.run('import matplotlib.pyplot as plt\n' + code)
        if r['error'] or not r['results']:
            return {'type': r['error']['traceback'][-300:] if r['error'] else 'nothing', 'elements': [], **dict.fromkeys(('title', 'x_label', 'x_unit', 'y_unit', 'x_scale', 'x_ticks', 'x_tick_labels'), '')}
        last = r['results'][-1]
        return last['chart'] if last['png'].startswith('iVBOR') else last
    c = chart('plt.plot([1, 2, 3], [4, 5, 7], label="l"); plt.title("t"); plt.xlabel("time (s)"); plt.ylabel("y"); plt.show()')
    same('line', [c['type'], c['title'], c['x_label'], c['x_unit'], c['y_unit'], c['elements'], c['x_scale'], len(c['x_ticks']) == len(c['x_tick_labels'])],
         ['line', 't', 'time (s)', 's', None, [{'label': 'l', 'points': [[1, 4], [2, 5], [3, 7]]}], 'linear', True])
    same('scatter', [(c := chart('plt.scatter([1, 2], [3, 4], label="s"); plt.show()'))['type'], c['elements'][0]['points']], ['scatter', [[1.0, 3.0], [2.0, 4.0]]])
    same('bar', [(c := chart('plt.bar(["a", "b"], [3, 4], label="g"); plt.show()'))['type'], c['elements']], ['bar', [{'label': 'a', 'group': 'g', 'value': 3.0}, {'label': 'b', 'group': 'g', 'value': 4.0}]])
    same('pie', [(c := chart('plt.pie([1, 3], labels=["a", "b"]); plt.show()'))['type'], [round(e['angle']) for e in c['elements']]], ['pie', [90, 270]])
    c = chart('plt.boxplot([[1, 2, 3, 4, 5, 99]], labels=["b"]); plt.show()')
    same('box', [c['type'], c['elements'][0]['label'], c['elements'][0]['median'], c['elements'][0]['outliers'], c['elements'][0]['max']], ['box_and_whisker', 'b', 3.5, [99.0], 5.0])
    c = chart('f, (a, b) = plt.subplots(1, 2); a.plot([1, 2]); b.bar(["x"], [1]); plt.show()')
    same('several', [c['type'], [e['type'] for e in c['elements']]], ['superchart', ['line', 'bar']])
    same('a figure as a value', chart('f = plt.figure(); f.gca().plot([1, 2]); plt.close(f)\nf')['type'], 'line')
    same('without show', chart('_ = plt.plot([3, 4])')['type'], 'line')
    c = chart('%matplotlib inline\nplt.plot([5, 6])')
    same('inline', c.get('type'), 'line')


alone = Kernel()
if alone.run('import importlib.util\nassert not importlib.util.find_spec("ipykernel")')['error']:
    print('ipykernel is installed here: the kernel alone is not tried')
else:
    both(alone, 'alone')
same('one that is killed', alone.run('import os\nos._exit(1)'), None)
got = subprocess.run([os.path.join(source, 'tools/borrow'), debs, 'python3-ipykernel', 'python3-matplotlib'], capture_output=True, text=True)
if got.returncode:
    print((got.stdout + got.stderr).strip())
    sys.exit(1 if failed else 77)
# Shown as if they were installed, to this one process.
over = ['unshare', '-m', 'sh', '-c', 'mount -t overlay borrowed -o "lowerdir=$0/usr:/usr" /usr && exec "$@"', debs]
if subprocess.run([*over, 'true'], capture_output=True).returncode:
    print('borrowed packages can be shown by root with overlayfs only: ipykernel is not tried')
    sys.exit(1 if failed else 77)
libs = '/usr/lib/x86_64-linux-gnu/blas:/usr/lib/x86_64-linux-gnu/lapack:/usr/lib/aarch64-linux-gnu/blas:/usr/lib/aarch64-linux-gnu/lapack'  # Debian's alternatives
env = {'LD_LIBRARY_PATH': libs, 'MATPLOTLIBRC': os.path.join(debs, 'etc/matplotlibrc')}
k = Kernel(*over[:4], over[4].replace('exec', 'mount -t tmpfs none /usr/lib/python3/dist-packages/ipykernel && exec'), debs, **env)
same('one that cannot be imported is none', k.text('get_ipython().__class__.__name__'), 'Shell')
charts(k)
k.end()
k = Kernel(*over, **env)
same('it is ipykernel', k.text('get_ipython().__class__.__mro__[1].__name__'), 'ZMQInteractiveShell')
both(k, 'ipykernel')
same('an extension', k.run('%load_ext autoreload')['error'], None)
charts(k)
same('ipykernel: one that is killed', k.run('import os\nos._exit(1)'), None)
k.end()
print('%d failed' % failed)
sys.exit(failed > 0)
