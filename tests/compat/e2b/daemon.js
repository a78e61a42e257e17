// SPDX-License-Identifier: Apache-2.0
// What SDKs of other languages ask of a sandbox, and pages in a browser: asked here by hand, with what the published SDK made.
import { test, before, after } from 'node:test'
import assert from 'node:assert/strict'
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
