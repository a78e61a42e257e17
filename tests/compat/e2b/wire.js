// SPDX-License-Identifier: Apache-2.0
// What the published SDK has no call for, or hides behind one: asked by hand beside it.
import { test, before, after } from 'node:test'
import assert from 'node:assert/strict'
import { request } from 'node:http'
import { gunzipSync, gzipSync } from 'node:zlib'
import { Sandbox } from 'e2b'

const url = process.env.E2B_API_URL, key = { 'x-api-key': process.env.E2B_API_KEY }
const alive = []
const make = async (o = {}) => { const s = await Sandbox.create({ timeoutMs: 120_000, ...o }); alive.push(s); return s }
const api = async (method, path, body) => {
  const r = await fetch(url + path, { method, headers: { ...key, ...(body === undefined ? {} : { 'content-type': 'application/json' }) }, body: body === undefined ? undefined : JSON.stringify(body) })
  const text = await r.text()
  return [r.status, text ? JSON.parse(text) : null]
}
const heads = async id => ({ 'e2b-sandbox-id': id, 'e2b-sandbox-port': '49983', 'x-access-token': (await api('GET', `/sandboxes/${id}`))[1].envdAccessToken })
const until = async what => { for (let i = 0; i < 400; i++) { if (await what()) return true; await new Promise(r => setTimeout(r, 25)) } return false }
let box, head
before(async () => { box = await make(); head = await heads(box.sandboxId) })
after(async () => { for (const s of alive) await s.kill().catch(() => {}) })

const rpc = async (name, body, more = {}) => {
  const r = await fetch(`${url}/process.Process/${name}`, { method: 'POST', headers: { ...head, 'content-type': 'application/json', ...more }, body: JSON.stringify(body) })
  return [r.status, await r.json()]
}
// A stream that the server sends: its messages as they come, then its last one.
const stream = (path, body, more = {}) => {
  const text = Buffer.from(JSON.stringify(body)), front = Buffer.alloc(5), seen = [], f = { seen, status: 0 }
  front.writeUInt32BE(text.length, 1)
  f.done = new Promise((resolve, reject) => {
    f.req = request(url + path, { method: 'POST', headers: { ...head, 'content-type': 'application/connect+json', ...more } }, r => {
      let held = Buffer.alloc(0)
      f.status = r.statusCode
      r.on('data', d => {
        held = Buffer.concat([held, d])
        for (let n; held.length >= 5 && held.length >= 5 + (n = held.readUInt32BE(1)); held = held.subarray(5 + n)) seen.push([held[0], JSON.parse(held.subarray(5, 5 + n))])
      })
      r.on('end', () => resolve(seen)); r.on('error', reject)
    })
    f.req.on('error', reject)
    f.req.end(Buffer.concat([front, text]))
  })
  f.done.catch(() => {})
  f.events = () => seen.filter(m => m[0] === 0).map(m => m[1].event)
  return f
}
const start = (cmd, tag, more) => stream('/process.Process/Start', { process: { cmd: '/bin/bash', args: ['-c', cmd] }, stdin: true, ...(tag ? { tag } : {}) }, more)
const printed = f => f.events().filter(e => e.data).map(e => Buffer.from(e.data.stdout ?? '', 'base64').toString()).join('')

test('refreshes: time is added, never taken', async () => {
  const s = await make({ timeoutMs: 60_000 }), left = async () => (await s.getInfo()).endAt - new Date(), ask = body => api('POST', `/sandboxes/${s.sandboxId}/refreshes`, body)
  assert.deepEqual(await ask({ duration: 900 }), [204, null])
  assert.ok(await left() > 800_000)
  assert.deepEqual([(await ask({ duration: 20 }))[0], (await ask({}))[0], (await ask())[0]], [204, 204, 204])
  assert.ok(await left() > 800_000)
  for (const duration of [-1, '60', 1.5, 3601]) assert.deepEqual([(await ask({ duration }))[0], (await ask({ duration }))[1].code], [400, 400])
  await s.kill()
  assert.deepEqual([(await ask({ duration: 60 }))[0], (await ask({ duration: 60 }))[1].code], [404, 404])
})
test('wrong kinds and words are refused, not taken for none', async () => {
  for (const count of ['2', 1.5, true, 0]) assert.equal((await api('POST', `/sandboxes/${box.sandboxId}/fork`, { count }))[0], 400, JSON.stringify(count))
  for (const q of ['state=foo', 'state=running,foo', 'state=runningpaused', 'nextToken=garbage', `nextToken=${box.sandboxId}.x`, `nextToken=${box.sandboxId}0.1`]) assert.equal((await api('GET', `/v2/sandboxes?${q}`))[0], 400, q)
  for (const q of ['state=running', 'state=paused,running', `nextToken=${box.sandboxId}.1`]) assert.equal((await api('GET', `/v2/sandboxes?${q}`))[0], 200, q)
})
test('paths are told clean', async () => {
  await box.files.write('q/x', '1')
  assert.deepEqual((await box.files.list('./q/../q/.')).map(e => e.path), ['/home/user/q/x'])
  assert.equal((await box.files.list('.')).find(e => e.name === 'q').path, '/home/user/q')
  assert.equal((await box.files.getInfo('/home/user/../user//q/./x')).path, '/home/user/q/x')
  assert.equal((await box.files.list('/..')).find(e => e.name === 'home').path, '/home')
})
test('files as gzip, up and down', async () => {
  const text = 'grüße €😀\n'.repeat(20_000), bytes = new Uint8Array(300_000).map((_, i) => i * 7 ^ i >> 8)
  await box.files.write('packed.txt', text, { gzip: true })
  assert.equal((await box.commands.run('wc -c < packed.txt')).stdout.trim(), String(Buffer.byteLength(text)))
  assert.equal(await box.files.read('packed.txt', { gzip: true }), text)
  await box.files.write('packed.bin', new Blob([bytes]), { gzip: true })
  assert.deepEqual(await box.files.read('packed.bin', { format: 'bytes', gzip: true }), bytes)
  assert.deepEqual(await box.files.read('packed.bin', { format: 'bytes' }), bytes)
  await box.files.write('packed.none', '', { gzip: true })
  assert.equal(await box.files.read('packed.none', { gzip: true }), '')
  // What went over the wire: asked for alone it is packed, among others the plain bytes come.
  const get = (path, coding) => new Promise((done, fail) => request(`${url}/files?path=${path}`, { headers: { ...head, ...(coding ? { 'accept-encoding': coding } : {}) } }, r => {
    const all = []
    r.on('data', d => all.push(d)); r.on('end', () => done([r.headers['content-encoding'], Buffer.concat(all), Number(r.headers['content-length'])])); r.on('error', fail)
  }).on('error', fail).end())
  const [coding, raw, length] = await get('packed.txt', 'gzip')
  assert.deepEqual([coding, length, gunzipSync(raw).toString() === text], ['gzip', raw.length, true])
  assert.ok(raw.length < text.length / 10)
  for (const other of [undefined, 'gzip, deflate', 'identity']) assert.deepEqual((await get('packed.txt', other)).slice(0, 2), [undefined, Buffer.from(text)])
  const put = (path, body) => fetch(`${url}/files?path=${path}`, { method: 'POST', headers: { ...head, 'content-type': 'application/octet-stream', 'content-encoding': 'gzip' }, body })
  for (const bad of [Buffer.from('no gzip at all'), gzipSync(text).subarray(0, 100), Buffer.alloc(0)]) assert.equal((await put('unsound', bad)).status, 400)
  assert.equal(await box.files.exists('unsound'), false)
})
test('metadata of files: told, replaced whole, refused before anything is written', async () => {
  const w = await box.files.write('noted', '1', { metadata: { Author: 'me', 'x.y': 'a b=c' } })
  assert.deepEqual(w.metadata, { author: 'me', 'x.y': 'a b=c' })
  assert.deepEqual((await box.files.getInfo('noted')).metadata, { author: 'me', 'x.y': 'a b=c' })
  assert.deepEqual((await box.files.list('/home/user')).find(e => e.name === 'noted').metadata, { author: 'me', 'x.y': 'a b=c' })
  await box.files.rename('noted', 'noted2')
  assert.equal((await box.files.getInfo('noted2')).metadata.author, 'me')
  await box.files.write('noted2', '2', { metadata: { only: 'this' } })
  assert.deepEqual((await box.files.getInfo('noted2')).metadata, { only: 'this' })
  await box.files.write('noted2', '3')
  assert.equal((await box.files.getInfo('noted2')).metadata, undefined)
  const many = await box.files.write([{ path: 'n/1', data: '' }, { path: 'n/2', data: '' }], { metadata: { of: 'both' } })
  assert.deepEqual(many.map(f => f.metadata), [{ of: 'both' }, { of: 'both' }])
  const put = more => fetch(`${url}/files?path=refused`, { method: 'POST', headers: { ...head, 'content-type': 'application/octet-stream', ...more }, body: 'x' }).then(r => r.status)
  for (const bad of [{ 'x-metadata-a': '\xe4' }, { 'x-metadata-a': 'x'.repeat(5000) }, { ['x-metadata-' + 'k'.repeat(247)]: 'v' }, { 'x-metadata-': 'v' }]) assert.equal(await put(bad), 400, JSON.stringify(bad).slice(0, 60))
  assert.equal(await box.files.exists('refused'), false)
})
test('secure: false is taken, and what is made is secured as ever', async () => {
  const s = await make({ secure: false })
  assert.equal((await s.commands.run('echo x')).stdout, 'x\n')
  const [status, made] = await api('POST', '/sandboxes', { templateID: 'base', timeout: 60, secure: false })
  assert.equal(status, 201)
  try {
    assert.ok(made.envdAccessToken)
    const list = token => fetch(`${url}/process.Process/List`, { method: 'POST', headers: { 'e2b-sandbox-id': made.sandboxID, 'e2b-sandbox-port': '49983', 'content-type': 'application/json', ...(token ? { 'x-access-token': token } : {}) }, body: '{}' }).then(r => r.status)
    assert.deepEqual([await list(), await list('no'), await list(head['x-access-token']), await list(made.envdAccessToken)], [401, 401, 401, 200])
  } finally { await api('DELETE', `/sandboxes/${made.sandboxID}`) }
})
test('a sandbox that is gone: 502 at every door of it', async () => {
  const s = await make(), its = await heads(s.sandboxId)
  const ask = (method, path, headers, body) => new Promise((done, fail) => request(url + path, { method, headers }, r => {
    const all = []
    r.on('data', d => all.push(d)); r.on('end', () => done([r.statusCode, Buffer.concat(all).toString()])); r.on('error', fail)
  }).on('error', fail).end(body))
  const doors = [['GET', '/health', its], ['GET', '/files?path=/etc/passwd', its], ['POST', '/files?path=x', { ...its, 'content-type': 'application/octet-stream' }, 'x'], ['GET', '/metrics', its], ['GET', '/envs', its],
    ['POST', '/process.Process/List', { ...its, 'content-type': 'application/json' }, '{}'], ['POST', '/filesystem.Filesystem/Stat', { ...its, 'content-type': 'application/json' }, '{"path":"/"}'],
    ['POST', '/process.Process/Start', { ...its, 'content-type': 'application/connect+json' }, Buffer.concat([Buffer.from([0, 0, 0, 0, 2]), Buffer.from('{}')])],
    ['GET', '/health', { ...its, 'e2b-sandbox-port': '49999' }], ['GET', '/contexts', { ...its, 'e2b-sandbox-port': '49999' }], ['POST', '/execute', { ...its, 'e2b-sandbox-port': '49999', 'content-type': 'application/json' }, '{"code":"1"}']]
  assert.deepEqual([(await ask(...doors[0]))[0], (await ask(...doors[1]))[0]], [204, 200])
  await s.pause()
  assert.equal((await ask(...doors[0]))[0], 502) // one that sleeps, too
  await Sandbox.connect(s.sandboxId)
  assert.equal((await ask(...doors[0]))[0], 204)
  await s.kill()
  for (const d of doors) {
    const [status, text] = await ask(...d)
    assert.equal(status, 502, `${d[0]} ${d[1]}: ${text}`)
  }
  const told = JSON.parse((await ask(...doors[1]))[1])
  assert.deepEqual([told.code, told.sandboxId, told.message], [502, s.sandboxId, 'The sandbox was not found'])
})
test('a process by its tag: list, connect, input, signals; SIGTERM asks and SIGKILL does not', async () => {
  const f = start('trap "echo asked; exit 7" TERM; read x; echo "got $x"; echo ready; while :; do sleep 0.05; done', 'mine')
  assert.ok(await until(() => f.events().some(e => e.start)))
  const pid = f.events()[0].start.pid
  assert.deepEqual((await rpc('List', {}))[1].processes.filter(p => p.tag).map(p => [p.tag, p.pid]), [['mine', pid]])
  const c = stream('/process.Process/Connect', { process: { tag: 'mine' } })
  assert.ok(await until(() => c.events().some(e => e.start)))
  assert.equal(c.events()[0].start.pid, pid)
  assert.deepEqual(await rpc('SendInput', { process: { tag: 'mine' }, input: { stdin: Buffer.from('in\n').toString('base64') } }), [200, {}])
  assert.ok(await until(() => /ready/.test(printed(f)) && /ready/.test(printed(c))))
  assert.deepEqual(await rpc('SendSignal', { process: { tag: 'mine' }, signal: 'SIGNAL_SIGTERM' }), [200, {}])
  for (const one of [f, c]) {
    const seen = await one.done
    assert.equal(printed(one), 'got in\nready\nasked\n')
    assert.deepEqual([seen.at(-2)[1].event.end, seen.at(-1)], [{ exitCode: 7, exited: true, status: 'exit status 7', error: 'exit status 7' }, [2, {}]])
  }
  const end = async (signal, tag) => {
    const g = start('sleep 1000', tag)
    assert.ok(await until(() => g.events().some(e => e.start)))
    assert.equal((await rpc('SendSignal', { process: { tag }, signal }))[0], 200)
    return (await g.done).at(-2)[1].event.end
  }
  assert.deepEqual(await end('SIGNAL_SIGTERM', 'second'), { exitCode: -1, exited: false, status: 'signal: terminated', error: 'signal: terminated' })
  assert.deepEqual(await end(9, 'third'), { exitCode: -1, exited: false, status: 'signal: killed', error: 'signal: killed' })
  assert.deepEqual([(await rpc('SendSignal', { process: { tag: 'none' }, signal: 'SIGNAL_SIGTERM' }))[1].code, (await rpc('SendSignal', { process: { pid: 1 }, signal: 'SIGNAL_SIGHUP' }))[1].code !== undefined], ['not_found', true])
})
test('silence is filled with keepalive events, and they do not count as output', async () => {
  const f = start('sleep 1000', 'quiet', { 'keepalive-ping-interval': '1' }), w = stream('/filesystem.Filesystem/WatchDir', { path: '/home/user' }, { 'keepalive-ping-interval': '1' })
  assert.ok(await until(() => f.events().filter(e => e.keepalive).length >= 2), JSON.stringify(f.seen))
  assert.ok(await until(() => w.seen.some(m => m[1].keepalive)), JSON.stringify(w.seen))
  assert.equal(f.events()[0].start !== undefined, true)
  w.req.destroy()
  await rpc('SendSignal', { process: { tag: 'quiet' }, signal: 'SIGNAL_SIGKILL' })
  assert.deepEqual((await f.done).at(-1), [2, {}])
  assert.equal(printed(f), '')
})
test('lists go on to their last page, whatever ends meanwhile; those that started later', async () => {
  const mark = { page: `p${process.pid}` }, before = new Date(), ids = []
  await new Promise(r => setTimeout(r, 5))
  for (let i = 0; i < 5; i++) ids.push((await make({ metadata: mark })).sandboxId)
  const all = async (o, between) => {
    const p = Sandbox.list({ query: { metadata: mark }, ...o }), pages = []
    while (p.hasNext) { pages.push((await p.nextItems()).map(s => s.sandboxId)); await between?.(pages) }
    await assert.rejects(p.nextItems(), /No more items/)
    return pages
  }
  const newest = [...ids].reverse()
  assert.deepEqual(await all({ limit: 2 }), [newest.slice(0, 2), newest.slice(2, 4), newest.slice(4)])
  assert.deepEqual(await all({ limit: 2, order: 'asc' }), [ids.slice(0, 2), ids.slice(2, 4), ids.slice(4)])
  assert.deepEqual(await all({ limit: 5 }), [newest])
  // The last one of a page ends before the next is asked for.
  const end = async pages => { if (pages.length === 1) { const id = pages[0].at(-1); await Sandbox.kill(id); ids.splice(ids.indexOf(id), 1); newest.splice(newest.indexOf(id), 1) } }
  const down = [...newest]
  assert.deepEqual((await all({ limit: 2 }, end)).flat(), down)
  const up = [...ids]
  assert.deepEqual((await all({ limit: 2, order: 'asc' }, end)).flat(), up)
  assert.deepEqual((await all({ query: { metadata: mark, startedAfter: before } })).flat(), newest)
  assert.deepEqual((await all({ query: { metadata: mark, startedAfter: new Date(Date.now() + 60_000) } })).flat(), [])
  for (const bad of ['startedAfter=yesterday', 'limit=0', 'limit=101', 'limit=x']) assert.equal((await api('GET', `/v2/sandboxes?${bad}`))[0], 400, bad)
  const snaps = []
  for (let i = 0; i < 3; i++) snaps.push((await box.createSnapshot()).snapshotId)
  const p = box.listSnapshots({ limit: 2 }), seen = []
  while (p.hasNext) seen.push((await p.nextItems()).map(s => s.snapshotId))
  assert.deepEqual([seen.map(l => l.length), seen.flat().sort()], [[2, 1], [...snaps].sort()])
  for (const s of snaps) assert.equal(await Sandbox.deleteSnapshot(s), true)
})
