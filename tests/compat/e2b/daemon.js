// SPDX-License-Identifier: Apache-2.0
// What SDKs of other languages ask of a sandbox, and pages in a browser: asked here by hand, with what the published SDK made.
import { test, before, after } from 'node:test'
import assert from 'node:assert/strict'
import { request } from 'node:http'
import { Sandbox } from 'e2b'

const url = process.env.E2B_API_URL
let box, head
before(async () => {
  box = await Sandbox.create({ timeoutMs: 120_000, envs: { GREETING: 'hello', EMPTY: '' } })
  const r = await (await fetch(`${url}/sandboxes/${box.sandboxId}`, { headers: { 'x-api-key': process.env.E2B_API_KEY } })).json()
  head = { 'e2b-sandbox-id': box.sandboxId, 'e2b-sandbox-port': '49983', 'x-access-token': r.envdAccessToken }
})
after(async () => { await box?.kill() })
const ask = async (path, body, more = {}) => {
  const r = await fetch(url + path, { method: body === undefined ? 'GET' : 'POST', headers: { ...head, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...more }, body: body === undefined ? undefined : JSON.stringify(body) })
  const text = await r.text()
  return [r.status, text ? JSON.parse(text) : null, r.headers]
}
const rpc = (name, body, more) => ask(`/filesystem.Filesystem/${name}`, body, more)

test('a watcher is asked again and again, and removed', async () => {
  await box.files.makeDir('polled/below')
  const [status, made] = await rpc('CreateWatcher', { path: 'polled', recursive: true, includeEntry: true })
  assert.equal(status, 200)
  await box.files.write('polled/below/a', '12345')
  const events = []
  for (let i = 0; i < 200 && !events.some(e => e.name === 'below/a' && e.entry?.size === '5'); i++) {
    events.push(...(await rpc('GetWatcherEvents', { watcherId: made.watcherId }))[1].events)
    await new Promise(r => setTimeout(r, 25))
  }
  const seen = events.find(e => e.name === 'below/a' && e.entry?.size === '5')
  assert.equal(seen?.entry.path, '/home/user/polled/below/a')
  assert.deepEqual((await rpc('RemoveWatcher', { watcherId: made.watcherId }))[1], {})
  const [gone, err] = await rpc('GetWatcherEvents', { watcherId: made.watcherId })
  assert.deepEqual([gone, err.code], [404, 'not_found'])
  assert.equal((await rpc('RemoveWatcher', { watcherId: 'x' }))[0], 404)
  assert.equal((await rpc('CreateWatcher', { path: 'missing' }))[1].code, 'not_found')
  await box.files.write('plain', '')
  assert.equal((await rpc('CreateWatcher', { path: 'plain' }))[1].code, 'invalid_argument')
})
test('watchers have a limit, and are of their sandbox alone', async () => {
  const ids = []
  for (;;) {
    const [status, made] = await rpc('CreateWatcher', { path: '/home/user' })
    if (status !== 200) { assert.equal(made.code, 'resource_exhausted'); break }
    ids.push(made.watcherId)
    assert.ok(ids.length <= 64)
  }
  const other = await Sandbox.create({ timeoutMs: 60_000 })
  try {
    const r = await (await fetch(`${url}/sandboxes/${other.sandboxId}`, { headers: { 'x-api-key': process.env.E2B_API_KEY } })).json()
    assert.equal((await rpc('GetWatcherEvents', { watcherId: ids[0] }, { 'e2b-sandbox-id': other.sandboxId, 'x-access-token': r.envdAccessToken }))[0], 404)
  } finally { await other.kill() }
  for (const watcherId of ids) await rpc('RemoveWatcher', { watcherId })
})
test('a stream of changes describes what it tells of', async () => {
  await box.files.makeDir('described')
  const events = []
  const w = await box.files.watchDir('described', e => { events.push(e) }, { includeEntry: true })
  await box.files.write('described/ä b', 'xyz')
  for (let i = 0; i < 200 && !events.some(e => e.entry?.size === 3); i++) await new Promise(r => setTimeout(r, 25))
  await w.stop()
  assert.equal(events.find(e => e.entry?.size === 3)?.entry.path, '/home/user/described/ä b')
})
test('/envs, /metrics and /health', async () => {
  const [status, envs] = await ask('/envs')
  assert.deepEqual([status, envs.GREETING, envs.EMPTY], [200, 'hello', ''])
  const [, m] = await ask('/metrics')
  assert.ok(m.cpu_count >= 1 && m.mem_total > 0 && m.disk_total > 0 && m.ts > 1e9)
  assert.equal((await ask('/health'))[0], 204)
  assert.equal((await ask('/envs', undefined, { 'x-access-token': 'no' }))[0], 401)
  assert.equal((await ask('/init', {}))[0], 404) // as E2B's own proxy
})
test('several files become one', async () => {
  await box.files.write([{ path: 'c/1', data: 'one ' }, { path: 'c/2', data: 'two ' }, { path: 'c/3', data: '' }])
  const [status, info] = await ask('/files/compose', { source_paths: ['c/1', 'c/2', 'c/3', '/home/user/c/1'], destination: 'c/all' })
  assert.deepEqual([status, info.path], [200, '/home/user/c/all'])
  assert.equal(await box.files.read('c/all'), 'one two one ')
  assert.deepEqual((await box.files.list('c')).map(e => e.name), ['all'])
  assert.equal((await ask('/files/compose', { source_paths: ['c/none'], destination: 'c/x' }))[0], 404)
  assert.equal((await ask('/files/compose', { source_paths: [], destination: 'c/x' }))[0], 400)
  assert.equal((await ask('/files/compose', { source_paths: ['c/all'], destination: 'c/all' }))[0], 400)
  assert.equal(await box.files.read('c/all'), 'one two one ')
})
test('pages of other origins may ask with a token, and only the data plane', async () => {
  const origin = 'https://page.example'
  const pre = await fetch(url + '/process.Process/List', { method: 'OPTIONS', headers: { origin, 'access-control-request-method': 'POST', 'access-control-request-headers': 'content-type,e2b-sandbox-id,e2b-sandbox-port,x-access-token' } })
  assert.equal(pre.status, 204)
  assert.equal(pre.headers.get('access-control-allow-origin'), '*')
  assert.match(pre.headers.get('access-control-allow-headers'), /x-access-token/)
  const [status, , h] = await ask('/process.Process/List', {}, { origin })
  assert.deepEqual([status, h.get('access-control-allow-origin')], [200, '*'])
  const [refused, , h2] = await ask('/process.Process/List', {}, { origin, 'x-access-token': 'no' })
  assert.deepEqual([refused, h2.get('access-control-allow-origin')], [401, '*'])
  const control = await fetch(url + '/v2/sandboxes', { headers: { origin, 'x-api-key': process.env.E2B_API_KEY } })
  assert.deepEqual([control.status, control.headers.get('access-control-allow-origin')], [403, null])
})
test('the log tells what was done, in order, and can be searched', async () => {
  await box.commands.run('echo for the log')
  const get = async q => (await fetch(`${url}${q}`, { headers: { 'x-api-key': process.env.E2B_API_KEY } })).json()
  const v1 = await get(`/sandboxes/${box.sandboxId}/logs`)
  assert.ok(v1.logs.length > 1)
  for (const l of v1.logs) assert.ok(JSON.parse(l.line).level)
  const times = v1.logEntries.map(e => e.timestamp)
  assert.deepEqual(times, [...times].sort())
  const found = await get(`/v2/sandboxes/${box.sandboxId}/logs?search=FOR%20THE%20log&direction=backward&level=info`)
  assert.match(found.logs[0].message, /echo for the log/)
  assert.equal((await get(`/v2/sandboxes/${box.sandboxId}/logs?level=loud`)).code, 400)
  assert.equal((await get('/v2/sandboxes/caaaaaaaaaaaaaaaaaaa/logs')).code, 404)
})
// A client's stream: envelopes in one body that goes on.
const feed = (more = {}) => {
  const wrap = o => { const t = Buffer.from(typeof o === 'string' ? o : JSON.stringify(o)), h = Buffer.alloc(5); h.writeUInt32BE(t.length, 1); return Buffer.concat([h, t]) }
  const req = request(`${url}/process.Process/StreamInput`, { method: 'POST', headers: { ...head, 'content-type': 'application/connect+json', ...more } })
  const done = new Promise((resolve, reject) => {
    req.on('error', reject)
    req.on('response', r => { const parts = []; r.on('data', d => parts.push(d)); r.on('error', reject); r.on('end', () => {
      const all = Buffer.concat(parts), list = []
      if (r.headers['content-type'] !== 'application/connect+json') return resolve([r.statusCode, JSON.parse(all)])
      for (let at = 0; at < all.length;) { const n = all.readUInt32BE(at + 1); list.push([all[at], JSON.parse(all.subarray(at + 5, at + 5 + n))]); at += 5 + n }
      resolve([r.statusCode, list])
    }) })
  })
  done.catch(() => {})
  return { req, done, send: o => req.write(wrap(o)), raw: b => req.write(b), wrap }
}
const ends = async (f, code, word) => { const [status, list] = await f.done; assert.equal(status, 200); assert.deepEqual([list.at(-1)[0], list.at(-1)[1].error?.code], [2, code]); if (word) assert.match(list.at(-1)[1].error.message, word) }
const b64 = s => Buffer.from(s).toString('base64')
test('input as one long request: each message when it comes, in pieces, in one packet, and large ones', async () => {
  const h = await box.commands.run('cat', { background: true, stdin: true, timeoutMs: 0 }), f = feed()
  const seen = async (what) => { for (let i = 0; i < 400 && !h.stdout.endsWith(what); i++) await new Promise(r => setTimeout(r, 25)); assert.ok(h.stdout.endsWith(what), h.stdout.slice(-100)) }
  f.send({ start: { process: { pid: h.pid } } })
  f.send({ data: { input: { stdin: b64('first\n') } } })
  await seen('first\n')
  f.send({ keepalive: {} })
  const cut = f.wrap({ data: { input: { stdin: b64('second\n') } } })
  f.raw(cut.subarray(0, 3)); await new Promise(r => setTimeout(r, 30)); f.raw(cut.subarray(3, 20)); await new Promise(r => setTimeout(r, 30)); f.raw(cut.subarray(20))
  await seen('second\n')
  f.raw(Buffer.concat(Array.from({ length: 100 }, (_, i) => f.wrap({ data: { input: { stdin: b64(`n${i}\n`) } } }))))
  await seen('n99\n')
  const big = 'x'.repeat(1_000_000)
  f.send({ data: { input: { stdin: b64(big + '\n') } } })
  f.req.end()
  assert.deepEqual(await f.done, [200, [[0, {}], [2, {}]]])
  await box.commands.closeStdin(h.pid)
  const r = await h.wait()
  assert.equal(r.stdout, `first\nsecond\n${Array.from({ length: 100 }, (_, i) => `n${i}\n`).join('')}${big}\n`)
})
test('input as one long request: what is wrong is told', async () => {
  const h = await box.commands.run('cat', { background: true, stdin: true, timeoutMs: 0 }), start = { start: { process: { pid: h.pid } } }
  for (const [messages, code, word] of [
    [[], 'invalid_argument', /first message is start/], [[{ data: { input: { stdin: '' } } }], 'invalid_argument', /first message is start/],
    [[{ start: { process: { pid: 999999 } } }], 'not_found', /pid 999999/], [[{ start: { process: { tag: 'none' } } }], 'not_found'], [[{ start: {} }], 'invalid_argument'],
    [[start, start], 'invalid_argument', /once/], [[start, {}], 'invalid_argument'], [[start, '[]'], 'invalid_argument', /JSON object/], [[start, 'no'], 'invalid_argument'],
    [[start, { data: { input: { stdin: '***' } } }], 'invalid_argument', /base64/], [[start, { data: {} }], 'invalid_argument']]) {
    const f = feed()
    for (const m of messages) f.send(m)
    f.req.end()
    await ends(f, code, word)
  }
  for (const [bytes, code] of [[[1, 0, 0, 0, 2, 123, 125], 'unimplemented'], [[0, 255, 255, 255, 255], 'resource_exhausted'], [[0, 0, 0, 0, 9, 123], 'invalid_argument']]) {
    const f = feed()
    f.raw(Buffer.from(bytes)); f.req.end()
    await ends(f, code)
  }
  const plain = feed({ 'content-type': 'application/json' })
  plain.req.end()
  assert.deepEqual((await plain.done)[0], 400)
  const nobody = feed({ 'x-access-token': 'x' })
  nobody.req.end()
  await ends(nobody, 'unauthenticated')
  await h.kill()
})
test('input as one long request is cut when the sandbox dies', async () => {
  const other = await Sandbox.create({ timeoutMs: 60_000 })
  const r = await (await fetch(`${url}/sandboxes/${other.sandboxId}`, { headers: { 'x-api-key': process.env.E2B_API_KEY } })).json()
  const h = await other.commands.run('cat', { background: true, stdin: true, timeoutMs: 0 }), f = feed({ 'e2b-sandbox-id': other.sandboxId, 'x-access-token': r.envdAccessToken })
  f.send({ start: { process: { pid: h.pid } } })
  f.send({ data: { input: { stdin: b64('x\n') } } })
  for (let i = 0; i < 400 && h.stdout !== 'x\n'; i++) await new Promise(r => setTimeout(r, 25))
  await other.kill()
  f.send({ data: { input: { stdin: b64('y\n') } } })
  f.req.end()
  await assert.rejects(f.done)
  await h.wait().catch(() => {})
})
