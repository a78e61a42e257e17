// SPDX-License-Identifier: Apache-2.0
// The published code interpreter SDK, unmodified, against a cay server.
import { test, before, after } from 'node:test'
import assert from 'node:assert/strict'
import { Sandbox } from '@e2b/code-interpreter'

let box
before(async () => { box = await Sandbox.create({ timeoutMs: 120_000 }) })
after(async () => { await box?.kill() })

test('state lasts from one execution to the next', async () => {
  await box.runCode('x = 41')
  const r = await box.runCode('print("out"); x + 1')
  assert.equal(r.text, '42')
  assert.deepEqual(r.logs.stdout, ['out\n'])
  assert.equal(r.results[0].isMainResult, true)
})
test('an error has a name, a value and where it was', async () => {
  const r = await box.runCode('def f():\n  return 1/0\nf()')
  assert.equal(r.error.name, 'ZeroDivisionError')
  assert.match(r.error.traceback, /line 2, in f/)
})
test('what children print is told, and comes as it is made', async () => {
  const got = []
  await box.runCode('import os, time\nos.system("echo child")\nprint("ä€")', { onStdout: m => { got.push(m.line) } })
  assert.equal(got.join(''), 'child\nä€\n')
})
test('variables of one execution are of that one', async () => {
  assert.equal((await box.runCode('import os; os.environ["A"]', { envs: { A: 'b' } })).text, 'b')
  assert.equal((await box.runCode('os.environ.get("A", "gone")')).text, 'gone')
})
test('rich results by kind', async () => {
  const r = await box.runCode('class T:\n  def _repr_html_(self): return "<b>x</b>"\n  def _repr_png_(self): return b"\\x89PNG"\n  def __repr__(self): return "T"\nT()')
  assert.deepEqual([r.results[0].html, r.results[0].png, r.text], ['<b>x</b>', Buffer.from('\x89PNG', 'latin1').toString('base64'), 'T'])
})
test('contexts are apart, listed, restarted and removed', async () => {
  const c = await box.createCodeContext({ cwd: '/tmp' })
  assert.equal((await box.runCode('import os; os.getcwd()', { context: c })).text, '/tmp')
  assert.equal((await box.runCode('x', { context: c })).error.name, 'NameError')
  await box.runCode('y = 1', { context: c })
  await box.restartCodeContext(c)
  assert.equal((await box.runCode('y', { context: c })).error.name, 'NameError')
  assert.ok((await box.listCodeContexts()).some(o => o.id === c.id))
  await box.removeCodeContext(c)
  await assert.rejects(box.runCode('1', { context: c, requestTimeoutMs: 2000 }))
})
test('a kernel that dies is told, and the next execution has a new one', async () => {
  await box.runCode('import os; os._exit(1)').catch(() => {})
  const r = await box.runCode('1 + 1')
  assert.equal(r.text, '2')
})
test('too long is interrupted, and the context goes on', async () => {
  await assert.rejects(box.runCode('import time\ntime.sleep(60)', { timeoutMs: 800 }))
  assert.equal((await box.runCode('"back"')).text, 'back')
})
