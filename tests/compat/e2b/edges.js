// SPDX-License-Identifier: Apache-2.0
// What is large, many, odd, or happens in the middle of something else.
import { test, before, after } from 'node:test'
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { Sandbox, SandboxNotFoundError, NotFoundError } from 'e2b'

const alive = []
const make = async (o = {}) => { const s = await Sandbox.create({ timeoutMs: 180_000, ...o }); alive.push(s); return s }
const until = async (what, times = 400) => { for (let i = 0; i < times; i++) { if (await what()) return true; await new Promise(r => setTimeout(r, 50)) } return false }
const sha = b => createHash('sha256').update(b).digest('hex')
let box
before(async () => { box = await make() })
after(async () => { for (const s of alive) await s.kill().catch(() => {}) })

test('names and contents of any kind', async () => {
  const names = ['ünïcödé €😀', ' blanks  ', "quote'\"`$x", 'per%20cent', '-rf', 'new\nline', 'x'.repeat(255), '日本語/深い/ファイル']
  for (const n of names) {
    await box.files.write(`names/${n}`, n)
    assert.equal(await box.files.read(`names/${n}`), n)
  }
  const seen = (await box.files.list('names', { depth: 5 })).map(e => e.path.slice('/home/user/names/'.length))
  for (const n of names) assert.ok(seen.includes(n), n)
  const all = new Uint8Array(65536).map((_, i) => i ^ i >> 8)
  await box.files.write('bytes', all.buffer)
  assert.deepEqual(await box.files.read('bytes', { format: 'bytes' }), all)
  const r = await box.commands.run(`printf '\\377\\000x'; printf 'ä' | head -c 1; echo; true`)
  assert.ok(r.stdout.endsWith('\n'))
  assert.deepEqual([(await box.commands.run('')).stdout, (await box.commands.run(':')).exitCode], ['', 0])
  await assert.rejects(box.files.write(`names/${'x'.repeat(256)}`, ''))
  await assert.rejects(box.files.read('a\u0000b'))
})
test('100 MB up and down', async () => {
  const big = Buffer.alloc(100 << 20)
  for (let i = 0; i < big.length; i += 4096) big.writeUInt32LE(i, i)
  await box.files.write('big', new Blob([big]), { requestTimeoutMs: 120_000 })
  assert.equal((await box.commands.run('sha256sum < big', { timeoutMs: 120_000 })).stdout.slice(0, 64), sha(big))
  const hash = createHash('sha256')
  for await (const piece of await box.files.read('big', { format: 'stream', requestTimeoutMs: 120_000 })) hash.update(piece)
  assert.equal(hash.digest('hex'), sha(big))
  await box.files.remove('big')
})
test('10,000 entries', async () => {
  await box.commands.run('mkdir many && cd many && seq -f %05.0f 10000 | xargs touch')
  const list = await box.files.list('many', { requestTimeoutMs: 120_000 })
  assert.equal(new Set(list.map(e => e.name)).size, 10000)
})
test('long commands one after the other on one connection', async () => {
  const long = 'x'.repeat(60_000)
  for (let i = 0; i < 12; i++) assert.equal((await box.commands.run(`: ${long}; echo ${i}`, { timeoutMs: 20_000 })).stdout, `${i}\n`)
})
test('100 commands at once, each with its own output', async () => {
  const r = await Promise.all(Array.from({ length: 100 }, (_, i) => box.commands.run(`echo ${i}; sleep 0.2; echo ${i} >&2`, { timeoutMs: 120_000 })))
  assert.deepEqual(r.map(x => x.stdout + x.stderr), Array.from({ length: 100 }, (_, i) => `${i}\n${i}\n`))
})
test('a command that is left and found again gives all that comes', async () => {
  const h = await box.commands.run('until [ -e go ]; do sleep 0.05; done; seq 200000', { background: true, timeoutMs: 0 })
  await h.disconnect()
  const again = await box.commands.connect(h.pid, { timeoutMs: 0 })
  await box.files.write('go', '')
  const r = await again.wait()
  assert.equal(sha(r.stdout), sha(Array.from({ length: 200000 }, (_, i) => `${i + 1}\n`).join('')))
})
test('a watch under load misses no file', async () => {
  await box.files.makeDir('load')
  const seen = new Set()
  const w = await box.files.watchDir('load', e => { seen.add(e.name) }, { recursive: true, timeoutMs: 0 })
  await box.commands.run('cd load; for d in 1 2 3 4; do (mkdir d$d; for i in $(seq 200); do echo $i > f$d.$i; done) & done; wait')
  assert.ok(await until(() => [...seen].filter(n => /^f\d\.\d+$/.test(n)).length === 800), `${seen.size} were seen`)
  await w.stop()
})
test('a pause without memory keeps files, and the next start is another boot', async () => {
  const s = await make()
  await s.files.write('kept', 'yes')
  const boot = (await s.commands.run('cat /proc/sys/kernel/random/boot_id; sleep 1000 >/dev/null 2>&1 &')).stdout
  assert.equal(await s.pause({ keepMemory: false }), true)
  assert.equal(await s.pause(), false)
  const again = await Sandbox.connect(s.sandboxId)
  assert.equal(await again.files.read('kept'), 'yes')
  assert.notEqual((await again.commands.run('cat /proc/sys/kernel/random/boot_id')).stdout, boot)
  assert.equal((await again.commands.run('pgrep -c sleep || true')).stdout, '0\n')
})
test('a pause at its time without memory, and a start without what was kept', async () => {
  const boot = async s => (await s.commands.run('cat /proc/sys/kernel/random/boot_id')).stdout
  const s = await make({ timeoutMs: 1500, lifecycle: { onTimeout: { action: 'pause', keepMemory: false } } })
  await s.files.write('kept', 'yes')
  const first = await boot(s), info = await s.getInfo()
  assert.equal(info.lifecycle?.onTimeout, 'pause')
  assert.ok(await until(async () => (await s.getInfo()).state === 'paused'))
  assert.equal(await s.isRunning(), false)
  const again = await Sandbox.connect(s.sandboxId), second = await boot(again)
  assert.deepEqual([await again.files.read('kept'), first === second], ['yes', false])
  // Paused with its memory, it may still be started from its files alone.
  await again.commands.run('sleep 1000', { background: true })
  await again.pause()
  const api = body => fetch(`${process.env.E2B_API_URL}/v2/sandboxes/${s.sandboxId}/connect`, { method: 'POST', headers: { 'x-api-key': process.env.E2B_API_KEY, 'content-type': 'application/json' }, body: JSON.stringify(body) }).then(r => r.status)
  assert.deepEqual([await api({ memory: 'no' }), await api({ memory: false }), await api({ memory: false })], [400, 201, 200])
  assert.notEqual(await boot(again), second)
  assert.equal((await again.commands.list()).length, 0)
  await assert.rejects(make({ lifecycle: { onTimeout: { action: 'pause', keepMemory: false }, autoResume: true } }))
})
test('members of a request: of another kind they are refused, unknown ones are passed over as E2B does', async () => {
  const create = async more => { const r = await fetch(`${process.env.E2B_API_URL}/v2/sandboxes`, { method: 'POST', headers: { 'x-api-key': process.env.E2B_API_KEY, 'content-type': 'application/json' }, body: JSON.stringify({ templateID: 'base', timeout: 60, ...more }) }); return [r.status, await r.json()] }
  for (const bad of [{ allow_internet_access: 'no' }, { autoPause: 1 }, { autoPauseMemory: 'x' }, { autoResume: true }, { autoResume: { enabled: 'yes' } }, { timeout: '60' }, { timeout: 1.5 }, { metadata: [] }, { metadata: { a: 1 } },
    { envVars: 'A=b' }, { volumeMounts: {} }, { network: [] }, { network: { allowPublicTraffic: 'no' } }, { network: { other: 1 } }, { templateID: 7 }, { secure: 'yes' }]) {
    const [status, told] = await create(bad)
    assert.deepEqual([status, told.code], [400, 400], JSON.stringify(bad))
    assert.match(told.message, new RegExp(Object.keys(bad)[0].split('.')[0]), JSON.stringify(told))
  }
  for (const mcp of [{}, { browserbase: {} }]) {
    const [status, told] = await create({ templateID: 'mcp-gateway', mcp })
    assert.equal(status, 501)
    assert.match(told.message, /^mcp is not supported/)
  }
  const [status, made] = await create({ notAFieldOfAnyVersion: { a: 1 }, iam: null, mcp: null })
  assert.equal(status, 201)
  await Sandbox.kill(made.sandboxID)
})
test('time is up: killed, or paused and woken by who uses it', async () => {
  const gone = await make({ timeoutMs: 1000 }), kept = await make({ timeoutMs: 1000, lifecycle: { onTimeout: 'pause', autoResume: true } })
  await kept.files.write('f', '1')
  assert.ok(await until(async () => !(await gone.isRunning())))
  await assert.rejects(Sandbox.connect(gone.sandboxId), e => e instanceof SandboxNotFoundError || e instanceof NotFoundError)
  assert.ok(await until(async () => (await kept.getInfo()).state === 'paused'))
  assert.equal(await kept.files.read('f'), '1')
  assert.equal((await kept.getInfo()).state, 'running')
})

test('metrics of the past: one every few seconds, by their time, kept while it is paused', async () => {
  const s = await make({ timeoutMs: 120_000 }), began = new Date(Date.now() - 1000)
  let list = []
  for (let i = 0; i < 300 && (list = await s.getMetrics({ end: new Date(Date.now() - 3000) })).length < 2; i++) await new Promise(r => setTimeout(r, 200))
  assert.ok(list.length >= 2, `${list.length}`)
  assert.ok(list.every((m, i) => m.timestamp > began && (!i || m.timestamp > list[i - 1].timestamp) && m.memUsed > 0 && m.cpuCount >= 1 && m.cpuUsedPct >= 0))
  assert.deepEqual((await s.getMetrics({ start: new Date(+list[1].timestamp - 1000), end: new Date(+list[1].timestamp + 1000) })).map(m => +m.timestamp), [+list[1].timestamp])
  assert.ok((await s.getMetrics({ start: list[0].timestamp })).length > list.length - 1)
  assert.deepEqual(await s.getMetrics({ end: new Date(began - 10_000) }), [])
  await assert.rejects(s.getMetrics({ start: new Date(), end: began }))
  await s.pause()
  assert.ok((await Sandbox.getMetrics(s.sandboxId)).length >= 2)
  await s.kill()
})
