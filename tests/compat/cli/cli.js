// SPDX-License-Identifier: Apache-2.0
// E2B's own command line, unmodified, against a cay server.
import { test, before, after } from 'node:test'
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'

const home = mkdtempSync(`${tmpdir()}/e2b-cli-`), env = { ...process.env, HOME: home, TERM: 'xterm', NO_COLOR: '1' }, bin = new URL('node_modules/.bin/e2b', import.meta.url).pathname
const start = (file, args) => {
  const p = spawn(file, args, { env }), r = { p, out: '', err: '' }
  p.stdout.on('data', d => { r.out += d })
  p.stderr.on('data', d => { r.err += d })
  r.end = new Promise(done => p.on('close', code => { r.code = code; done(r) }))
  return r
}
const e2b = (args, input = '') => { const r = start(bin, args); r.p.stdin.on('error', () => {}).end(input); return r.end }
let id
before(async () => {
  const r = await e2b(['sandbox', 'create', '--detach', 'base'])
  id = /c[a-z2-7]{19}/.exec(r.out)?.[0]
  assert.ok(id, r.out + r.err)
})
after(async () => { if (id) await e2b(['sandbox', 'kill', id]); rmSync(home, { recursive: true }) })

test('list, info, templates', async () => {
  const [list, info, templates] = await Promise.all([e2b(['sandbox', 'list', '--format', 'json']), e2b(['sandbox', 'info', id]), e2b(['template', 'list'])])
  assert.deepEqual(JSON.parse(list.out).map(s => [s.sandboxId, s.state]), [[id, 'running']])
  assert.match(info.out, /State: running/)
  assert.match(templates.out, /base/)
})
test('exec: output, code, input; a sandbox that is not there', async () => {
  const [hi, three, cat, none] = await Promise.all([e2b(['sandbox', 'exec', id, '--', 'echo', 'hi', 'there']), e2b(['sandbox', 'exec', id, 'echo oops >&2; exit 3']), e2b(['sandbox', 'exec', id, 'cat'], 'from stdin\n'),
    e2b(['sandbox', 'exec', 'caaaaaaaaaaaaaaaaaaa', 'true'])])
  assert.deepEqual([hi.out, hi.code], ['hi there\n', 0])
  assert.match(three.err, /oops/)
  assert.equal(three.code, 3)
  assert.equal(cat.out, 'from stdin\n')
  assert.notEqual(none.code, 0)
})
test('connect: a terminal', async () => {
  const t = start('script', ['-qec', `${bin} sandbox connect ${id}`, '/dev/null'])
  const until = async what => { for (let i = 0; i < 400 && !what.test(t.out); i++) await new Promise(r => setTimeout(r, 50)); assert.match(t.out, what) }
  await until(/\$ $|user@/)
  t.p.stdin.write('echo re"ady" $((6*7)); tty\n')
  await until(/ready 42/)
  await until(/\/dev\/pts\//)
  t.p.stdin.write('exit\n')
  await t.end
})
test('logs, metrics, snapshots; pause and resume', async () => {
  const [logs, metrics, snap] = await Promise.all([e2b(['sandbox', 'logs', id]), e2b(['sandbox', 'metrics', id]), e2b(['sandbox', 'snapshot', 'create', id])])
  assert.match(logs.out, /echo hi there/)
  assert.match(metrics.out, /CPU: /)
  const name = /s[a-z2-7]{19}/.exec(snap.out)?.[0]
  const [list, pause] = await Promise.all([e2b(['sandbox', 'snapshot', 'list']), e2b(['sandbox', 'pause', id])])
  assert.match(list.out, new RegExp(name))
  assert.match(pause.out, /paused/)
  const [resume] = await Promise.all([e2b(['sandbox', 'resume', id]), e2b(['sandbox', 'snapshot', 'delete', '-y', name])])
  assert.match(resume.out, /resumed/)
})
test('a template from a Dockerfile', async () => {
  writeFileSync(`${home}/e2b.Dockerfile`, 'FROM e2bdev/base\nENV A=b\nCOPY hello.txt /home/user/hello.txt\nRUN echo built > /home/user/built\n')
  writeFileSync(`${home}/hello.txt`, 'hi\n')
  const made = await e2b(['template', 'create', '-p', home, 'compat-cli'])
  assert.equal(made.code, 0, made.out + made.err)
  const box = /c[a-z2-7]{19}/.exec((await e2b(['sandbox', 'create', '--detach', 'compat-cli'])).out)[0]
  assert.equal((await e2b(['sandbox', 'exec', box, 'cat built hello.txt; echo $A'])).out, 'built\nhi\nb\n')
  await Promise.all([e2b(['sandbox', 'kill', box]), e2b(['template', 'delete', '-y', 'compat-cli'])])
})
test('kill', async () => {
  assert.match((await e2b(['sandbox', 'kill', id])).out, /killed/)
  assert.match((await e2b(['sandbox', 'list'])).out, /No sandboxes/)
  id = undefined
})
