// SPDX-License-Identifier: Apache-2.0
// The published E2B SDK, unmodified, against a cay server: node --test e2b.js with E2B_API_URL, E2B_SANDBOX_URL, E2B_API_KEY set.
import { test, before, after } from 'node:test'
import assert from 'node:assert/strict'
import { Sandbox, CommandExitError, NotFoundError, FileNotFoundError, SandboxNotFoundError, TimeoutError, AuthenticationError, InvalidArgumentError } from 'e2b'

const alive = []
const make = async (o = {}) => { const s = await Sandbox.create({ timeoutMs: 120_000, ...o }); alive.push(s); return s }
let box
before(async () => { box = await make({ metadata: { team: 'a b&c', kind: 'main' }, envs: { GREETING: 'hello' } }) })
after(async () => { for (const s of alive) await s.kill().catch(() => {}) })

test('a command has output, a code, variables and a directory', async () => {
  const r = await box.commands.run('echo $GREETING $X; pwd; echo oops >&2; id -un', { envs: { X: 'you' }, cwd: '/tmp' })
  assert.deepEqual([r.stdout, r.stderr, r.exitCode], ['hello you\n/tmp\nuser\n', 'oops\n', 0])
  const d = await box.commands.run('pwd')
  assert.equal(d.stdout, '/home/user\n')
})
test('a code that is not 0 is an error with all that was said', async () => {
  await assert.rejects(box.commands.run('echo a; echo b >&2; exit 3'), e => e instanceof CommandExitError && e.exitCode === 3 && e.stdout === 'a\n' && e.stderr === 'b\n')
})
test('output comes as it is made, unicode and a lot of it', async () => {
  const got = []
  const r = await box.commands.run('printf "ä€😀\\n"; head -c 3000000 /dev/zero | tr "\\0" x', { onStdout: d => { got.push(d) } })
  assert.equal(r.stdout.length, 'ä€😀\n'.length + 3000000)
  assert.equal(got.join(''), r.stdout)
})
test('a time-out ends the command and says so', async () => {
  await assert.rejects(box.commands.run('sleep 30', { timeoutMs: 700 }), TimeoutError)
})
test('a directory that is not there is named', async () => {
  await assert.rejects(box.commands.run('true', { cwd: '/nowhere' }), e => e instanceof InvalidArgumentError && /nowhere/.test(e.message))
})
test('in the background: input, list, connect, kill', async () => {
  const h = await box.commands.run('cat; echo end', { background: true, stdin: true })
  await box.commands.sendStdin(h.pid, 'line\n')
  const listed = (await box.commands.list()).find(p => p.pid === h.pid)
  assert.deepEqual([listed.cmd, listed.args], ['/bin/bash', ['-l', '-c', 'cat; echo end']])
  const again = await box.commands.connect(h.pid)
  await box.commands.closeStdin(h.pid)
  assert.match((await h.wait()).stdout, /line\nend/)
  assert.equal((await again.wait()).exitCode, 0)
  const s = await box.commands.run('sleep 100', { background: true })
  assert.equal(await box.commands.kill(s.pid), true)
  await assert.rejects(s.wait(), CommandExitError)
  assert.equal(await box.commands.kill(999999), false)
})
test('a terminal', async () => {
  let out = ''
  const t = await box.pty.create({ cols: 90, rows: 20, onData: d => { out += new TextDecoder().decode(d) } })
  await box.pty.sendInput(t.pid, new TextEncoder().encode('stty size; echo re"ady"\n'))
  for (let i = 0; i < 100 && !/ready/.test(out); i++) await new Promise(r => setTimeout(r, 50))
  assert.match(out, /20 90/)
  await box.pty.resize(t.pid, { cols: 100, rows: 30 })
  await box.pty.sendInput(t.pid, new TextEncoder().encode('stty size; exit 0\n'))
  assert.equal((await t.wait()).exitCode, 0)
  assert.match(out, /30 100/)
})
test('files: text, bytes, empty, missing, many, metadata', async () => {
  const w = await box.files.write('notes/a.txt', 'grüße')
  assert.equal(w.path, '/home/user/notes/a.txt')
  assert.equal(await box.files.read('notes/a.txt'), 'grüße')
  const bytes = new Uint8Array(200_000).map((_, i) => i * 7)
  await box.files.write('b.bin', new Blob([bytes]))
  assert.deepEqual(await box.files.read('b.bin', { format: 'bytes' }), bytes)
  await box.files.write('empty', '')
  assert.equal(await box.files.read('empty'), '')
  await assert.rejects(box.files.read('missing'), e => e instanceof NotFoundError || e instanceof FileNotFoundError)
  const many = await box.files.write([{ path: 'm/1', data: 'one' }, { path: '/tmp/m2', data: 'two' }])
  assert.deepEqual(many.map(m => m.path), ['/home/user/m/1', '/tmp/m2'])
  assert.equal(await box.files.exists('m/1'), true)
  assert.equal(await box.files.exists('m/9'), false)
  assert.equal((await box.files.getInfo('m/1')).size, 3)
  assert.equal(await box.files.makeDir('new/deep'), true)
  assert.equal(await box.files.makeDir('new/deep'), false)
  await box.files.rename('m/1', 'moved/1')
  assert.deepEqual((await box.files.list('moved')).map(e => e.name), ['1'])
  await box.files.remove('moved')
  assert.equal(await box.files.exists('moved'), false)
  await assert.rejects(box.files.list('nothing'), e => e instanceof NotFoundError || e instanceof FileNotFoundError)
})
test('changes are seen', async () => {
  await box.files.makeDir('seen')
  const events = []
  const w = await box.files.watchDir('seen', e => { events.push(`${e.type} ${e.name}`) })
  await box.files.write('seen/x', '1')
  for (let i = 0; i < 100 && !events.some(e => / x$/.test(e)); i++) await new Promise(r => setTimeout(r, 50))
  await w.stop()
  assert.ok(events.some(e => / x$/.test(e)), events.join())
})
test('a signed address reads and writes without a key', async () => {
  const up = await box.uploadUrl('signed.txt', { useSignatureExpiration: 60 })
  const form = new FormData()
  form.append('file', new Blob(['by url']), 'signed.txt')
  assert.equal((await fetch(up, { method: 'POST', body: form })).status, 200)
  const down = await box.downloadUrl('signed.txt', { useSignatureExpiration: 60 })
  assert.equal(await (await fetch(down)).text(), 'by url')
  assert.equal((await fetch(down.replace('signed.txt', 'b.bin'))).status, 401)
})
test('a signed address ends when it says, and saying otherwise makes it void', async () => {
  const body = () => { const f = new FormData(); f.append('file', new Blob(['late'])); return f }
  const up = await box.uploadUrl('late.txt', { useSignatureExpiration: 1 }), down = await box.downloadUrl('signed.txt', { useSignatureExpiration: 1 })
  for (const [url, how] of [[up, () => ({ method: 'POST', body: body() })], [down, () => ({})]]) {
    let r
    for (let i = 0; i < 200 && (r = await fetch(url, how())).status === 200; i++) await new Promise(r => setTimeout(r, 50))
    assert.deepEqual([r.status, (await r.json()).message], [401, 'signature is already expired'])
    const later = new URL(url)
    later.searchParams.set('signature_expiration', '9999999999')
    assert.equal((await fetch(later, how())).status, 401)
    later.searchParams.delete('signature_expiration')
    assert.equal((await fetch(later, how())).status, 401)
    later.searchParams.set('signature_expiration', '')
    assert.equal((await fetch(later, how())).status, 401)
  }
})
test('lists, filters, details, time', async () => {
  const p = Sandbox.list({ query: { metadata: { team: 'a b&c' } } })
  const found = await p.nextItems()
  assert.deepEqual(found.map(s => s.sandboxId), [box.sandboxId])
  const info = await box.getInfo()
  assert.equal(info.metadata.kind, 'main')
  assert.equal(info.state, 'running')
  await box.setTimeout(600_000)
  const later = await box.getInfo()
  assert.ok(later.endAt - new Date() > 500_000)
  assert.equal(await box.isRunning(), true)
  assert.ok((await box.getMetrics()).length >= 0)
})
test('pause keeps processes, connect brings them back, and kill is the end', async () => {
  const s = await make()
  const h = await s.commands.run('sleep 1000', { background: true })
  assert.equal(await s.pause(), true)
  assert.equal(await s.isRunning(), false)
  const again = await Sandbox.connect(s.sandboxId)
  assert.ok((await again.commands.list()).some(p => p.pid === h.pid))
  assert.equal(await again.kill(), true)
  assert.equal(await again.kill(), false)
  assert.equal(await again.isRunning(), false)
  await assert.rejects(Sandbox.connect(s.sandboxId), e => e instanceof SandboxNotFoundError || e instanceof NotFoundError)
})
test('kill during a command cuts its stream', async () => {
  const s = await make()
  const running = assert.rejects(s.commands.run('sleep 1000', { timeoutMs: 10_000 }), TimeoutError)
  await new Promise(r => setTimeout(r, 300))
  await s.kill()
  await running
})
test('snapshots stand on their own', async () => {
  const s = await make()
  await s.files.write('state', 'one')
  const snap = await s.createSnapshot()
  await s.files.write('state', 'two')
  const old = await Sandbox.create(snap.snapshotId, { timeoutMs: 120_000 })
  alive.push(old)
  assert.equal(await old.files.read('state'), 'one')
  assert.equal(await s.files.read('state'), 'two')
  assert.equal(await Sandbox.deleteSnapshot(snap.snapshotId), true)
  assert.equal(await old.files.read('state'), 'one')
})
test('forks have what was there, and each goes its own way', async () => {
  const s = await make()
  await s.files.write('state', 'one')
  await s.commands.run('mkdir -p d/e; ln -s ../state d/link; chmod 750 d/e; head -c 100000 /dev/urandom > d/bytes')
  const sum = b => b.commands.run('sha256sum d/bytes state; readlink d/link; stat -c %a d/e').then(r => r.stdout), was = await sum(s)
  const forks = await s.fork({ count: 2, timeoutMs: 120_000 })
  alive.push(...forks)
  assert.equal(new Set([s, ...forks].map(b => b.sandboxId)).size, 3)
  for (const f of forks) assert.equal(await sum(f), was)
  await forks[0].files.write('state', 'first')
  await s.files.write('state', 'source')
  assert.deepEqual(await Promise.all([s, ...forks].map(b => b.files.read('state'))), ['source', 'first', 'one'])
  assert.equal(await s.isRunning(), true)
  await s.kill()
  assert.equal(await forks[1].files.read('state'), 'one')
})
test('a wrong key is refused', async () => {
  await assert.rejects(Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) }), AuthenticationError)
})
