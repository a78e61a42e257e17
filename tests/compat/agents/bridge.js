// SPDX-License-Identifier: Apache-2.0
// Routes of the Cloudflare bridge that the JavaScript client does not ask for: by hand.
import { test, before, after } from 'node:test'
import assert from 'node:assert/strict'
import { request } from 'node:http'
import WebSocket from 'ws'

const url = process.env.CAY_URL, headers = { authorization: `Bearer ${process.env.CAY_KEY}` }
const ask = async (method, path, body) => {
  const r = await fetch(url + path, { method, headers: { ...headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) }, body: body === undefined ? undefined : JSON.stringify(body) })
  const text = await r.text()
  return [r.status, text && /json/.test(r.headers.get('content-type')) ? JSON.parse(text) : text]
}
let id
before(async () => { id = (await ask('POST', '/v1/sandbox'))[1].id })
after(async () => { await ask('DELETE', `/v1/sandbox/${id}`) })

test('pool and document', async () => {
  const [status, stats] = await ask('GET', '/v1/pool/stats')
  assert.ok(status === 200 && stats.assigned >= 1 && stats.total >= stats.assigned)
  assert.deepEqual(await ask('POST', '/v1/pool/prime'), [200, { ok: true }])
  assert.deepEqual(await ask('POST', '/v1/pool/shutdown-prewarmed'), [200, { ok: true }])
  const [, doc] = await ask('GET', '/v1/openapi.json')
  assert.ok(Object.keys(doc.paths).some(p => p.endsWith('/v1/sandbox/{id}/exec')), Object.keys(doc.paths).join())
  assert.equal((await fetch(`${url}/v1/openapi.html?token=${process.env.CAY_KEY}`)).status, 200)
  for (const p of ['/v1/pool/stats', '/v1/openapi.json', '/v1/openapi?token=no']) assert.equal((await fetch(url + p)).status, 401)
})
test('mounts: bad ones are 400, those that fail 502; tests/system/test_storage.sh has real ones', async () => {
  const mount = b => ask('POST', `/v1/sandbox/${id}/mount`, b), good = { bucket: 'b', mountPath: '/workspace/data', options: { endpoint: 'http://127.0.0.1:9', credentials: { accessKeyId: 'a', secretAccessKey: 'b' } } }
  for (const bad of [{ ...good, mountPath: 'data' }, { ...good, mountPath: '/' }, { ...good, mountPath: '/etc' }, { ...good, mountPath: '/workspace/../etc' }, { ...good, options: {} }, { ...good, options: { endpoint: 'x' } },
    { ...good, options: { ...good.options, s3fsOptions: ['a'] } }, { ...good, options: { ...good.options, credentials: { accessKeyId: 1 } } }, { ...good, bucket: '' }, { binding: 'R2', mountPath: '/workspace/d' }]) assert.equal((await mount(bad))[0], 400, JSON.stringify(bad))
  assert.deepEqual((await ask('POST', `/v1/sandbox/${id}/unmount`, { mountPath: '/workspace/data' }).then(([s, b]) => [s, b.code])), [502, 'unmount_error'])
  assert.equal((await ask('POST', `/v1/sandbox/${id}/unmount`, { mountPath: '/' }))[0], 400)
  assert.equal((await ask('POST', '/v1/sandbox/caaaaaaaaaaaaaaaaaaa/mount', good))[0], 404)
})
test('files, sessions and tunnels have their limits', async () => {
  assert.equal((await ask('GET', `/v1/sandbox/${id}/file/etc/passwd`))[0], 403)
  assert.equal((await ask('GET', `/v1/sandbox/${id}/file/workspace/none`))[1].code, 'workspace_read_not_found')
  assert.equal((await ask('POST', `/v1/sandbox/${id}/exec`, { argv: [] }))[0], 400)
  assert.equal((await ask('POST', `/v1/sandbox/${id}/exec`, { argv: ['true'], cwd: '/etc' }))[0], 403)
  assert.equal((await ask('POST', `/v1/sandbox/${id}/session`, { id: 'a/b' }))[0], 400)
  assert.equal((await ask('DELETE', `/v1/sandbox/${id}/session/none`))[1].success, false)
  assert.deepEqual((await ask('POST', `/v1/sandbox/${id}/session`, { cwd: '/not/there' }).then(([s, b]) => [s, b.code])), [502, 'session_error'])
  assert.deepEqual((await ask('GET', `/v1/sandbox/${id}/file/workspace`).then(([s, b]) => [s, b.code])), [502, 'exec_transport_error'])
  assert.deepEqual((await fetch(`${url}/v1/sandbox/${id}/file/workspace`, { method: 'PUT', headers, body: 'x' }).then(async r => [r.status, (await r.json()).code])), [502, 'workspace_archive_write_error'])
  for (const [method, path] of [['GET', '/running'], ['DELETE', ''], ['POST', '/persist'], ['POST', '/exec']]) assert.deepEqual((await ask(method, `/v1/sandbox/No-id-at-all${path}`, method === 'POST' ? { argv: ['true'] } : undefined).then(([s, b]) => [s, b.code])), [400, 'invalid_request'], method + path)
  assert.equal((await ask('POST', `/v1/sandbox/${id}/tunnel/8000`, { name: 'my-app' }))[1].name, 'my-app')
  for (const name of ['', '-a', 'a-', 'A', 'a.b', 'x'.repeat(64), 7]) assert.equal((await ask('POST', `/v1/sandbox/${id}/tunnel/8000`, { name }))[0], 400, String(name))
  for (const port of ['80', '3000', '70000', 'x']) assert.equal((await ask('POST', `/v1/sandbox/${id}/tunnel/${port}`))[0], 400)
  assert.equal((await ask('POST', `/v1/sandbox/${id}/tunnel/8000`))[1].port, 8000)
  assert.equal((await ask('DELETE', '/v1/sandbox/caaaaaaaaaaaaaaaaaaa'))[0], 204)
  assert.equal((await ask('GET', '/v1/sandbox/caaaaaaaaaaaaaaaaaaa/running'))[0], 404)
})
test('a session: its commands share a shell, and their output comes as it is printed', async () => {
  const sid = 'long.'.repeat(20), other = sid.replace(/.$/, '_') // ids that differ at their ends alone
  assert.equal((await ask('POST', `/v1/sandbox/${id}/session`, { id: sid, env: { WHO: 'me' } }))[1].id, sid)
  const exec = (cmd, session = sid, more = {}) => fetch(`${url}/v1/sandbox/${id}/exec`, { method: 'POST', headers: { ...headers, 'content-type': 'application/json', 'session-id': session }, body: JSON.stringify({ argv: ['eval', cmd], ...more.body }), ...more.fetch })
  const events = text => text.split('\n\n').filter(e => e.startsWith('event:')).map(e => [/^event: (.*)$/m.exec(e)[1], e.split('\n').filter(l => l.startsWith('data: ')).map(l => l.slice(6)).join('')])
  const printed = text => Object.fromEntries(['stdout', 'stderr'].map(n => [n, Buffer.concat(events(text).filter(e => e[0] === n).map(e => Buffer.from(e[1], 'base64'))).toString()]))
  await (await exec('cd /tmp; x=7')).text()
  const shared = await (await exec('echo "$WHO $x $PWD"; echo bad >&2; (exit 3)')).text()
  assert.deepEqual([printed(shared), events(shared).at(-1)], [{ stdout: 'me 7 /tmp\n', stderr: 'bad\n' }, ['exit', '{"exit_code":3}']])
  assert.equal(printed(await (await exec('echo "[$x]"', other)).text()).stdout, '[]\n')
  // The first line is here while the command waits for us.
  const r = await exec('echo ein; while [ ! -e /workspace/go ]; do sleep 0.02; done; echo zwei'), reader = r.body.getReader()
  let text = ''
  while (!printed(text).stdout) text += Buffer.from((await reader.read()).value).toString()
  assert.equal(printed(text).stdout, 'ein\n')
  assert.equal((await fetch(`${url}/v1/sandbox/${id}/file/workspace/go`, { method: 'PUT', headers, body: 'x' })).status, 200)
  for (let p; !(p = await reader.read()).done;) text += Buffer.from(p.value).toString()
  assert.equal(printed(text).stdout, 'ein\nzwei\n')
  // Much output, whole and in order; a time-out; a client that leaves takes its command along, and the shell stays.
  const much = printed(await (await exec('for i in $(seq 60000); do echo "zeile $i ü"; done')).text()).stdout.split('\n')
  assert.deepEqual([much.length, much[59999]], [60001, 'zeile 60000 ü'])
  assert.equal(events(await (await exec('sleep 1000', sid, { body: { timeout_ms: 200 } })).text()).at(-1)[0], 'error')
  for (const timeout_ms of ['x', -1, -0.5, true]) assert.equal((await exec('true', sid, { body: { timeout_ms } })).status, 400, String(timeout_ms))
  const left = new AbortController(), going = await exec('echo on; sleep 1000', sid, { fetch: { signal: left.signal } })
  await going.body.getReader().read()
  left.abort()
  assert.equal(printed(await (await exec('echo "$x"')).text()).stdout, '7\n')
  assert.equal((await exec('true', 'a..b')).status, 400)
  assert.equal((await exec('true', 'x'.repeat(129))).status, 400)
  assert.equal((await ask('DELETE', `/v1/sandbox/${id}/session/${sid}`))[1].success, true)
  assert.equal((await ask('DELETE', `/v1/sandbox/${id}/session/${sid}`))[1].success, false)
})
const until = async what => { for (let i = 0; i < 400; i++) { if (await what()) return true; await new Promise(r => setTimeout(r, 25)) } return false }
const run = async cmd => { const r = await fetch(`${url}/v1/sandbox/${id}/exec`, { method: 'POST', headers: { ...headers, 'content-type': 'application/json' }, body: JSON.stringify({ argv: ['sh', '-c', cmd] }) }); assert.match(await r.text(), /"exit_code":0/) }
const members = tar => { // names of an archive's members
  const names = []
  for (let at = 0; at + 512 <= tar.length && tar[at]; at += 512 + 512 * Math.ceil(parseInt(tar.toString('latin1', at + 124, at + 136), 8) / 512)) names.push(tar.toString('utf8', at, tar.indexOf(0, at)))
  return names
}
test('persist leaves out what it is told to, and only that', async () => {
  await run('cd /workspace && mkdir -p skip/deep keep/skip odd && touch a.txt b.log skip/x skip/deep/y keep/x keep/y keep/skip/z "odd/with blank" && ln -s ../a.txt keep/link')
  const persist = async q => { const r = await fetch(`${url}/v1/sandbox/${id}/persist${q}`, { method: 'POST', headers }); return [r.status, Buffer.from(await r.arrayBuffer())] }
  const names = async q => { const [status, tar] = await persist(q); assert.equal(status, 200); return members(tar).filter(n => n !== './').map(n => n.replace(/^\.\/|\/$/g, '')).sort() }
  const all = await names(''), gone = all.filter(n => /^skip(\/|$)|^keep\/y$|^odd\/with/.test(n))
  assert.ok(['a.txt', 'keep/link', 'keep/skip/z', 'keep/y', 'odd/with blank', 'skip/deep/y', 'skip/x'].every(n => all.includes(n)), all.join())
  assert.deepEqual(await names(`?excludes=${encodeURIComponent('skip,keep/y,odd/with blank')}`), all.filter(n => !gone.includes(n)))
  assert.deepEqual(await names('?excludes=none'), all)
  assert.deepEqual(await names('?excludes='), all)
  for (const bad of ['../etc', 'a,b/../../c', Array(200).fill('x').join()]) assert.equal((await persist(`?excludes=${encodeURIComponent(bad)}`))[0], 400, bad.slice(0, 20))
  // What is brought back by it is what was there.
  const [, tar] = await persist('?excludes=skip')
  await run('cd /workspace && rm -rf keep skip')
  assert.equal((await fetch(`${url}/v1/sandbox/${id}/hydrate`, { method: 'POST', headers, body: tar })).status, 200)
  const big = await new Promise((done, fail) => { // told by its length alone
    const q = request(`${url}/v1/sandbox/${id}/hydrate`, { method: 'POST', headers: { ...headers, 'content-length': 33 << 20 } }, r => { let text = ''; r.on('data', d => { text += d }).on('end', () => { done([r.statusCode, text]); q.destroy() }).on('error', fail) }).on('error', fail)
    q.flushHeaders()
  })
  assert.equal(big[0], 400)
  assert.match(big[1], /at most 32 MiB/)
  await run('cd /workspace && [ -e keep/skip/z ] && [ "$(readlink keep/link)" = ../a.txt ] && [ ! -e skip ]')
})
const terminal = (query, more = { headers }) => new Promise((done, fail) => {
  const t = { text: '', said: [], ws: new WebSocket(`${url.replace('http', 'ws')}/v1/sandbox/${id}/pty?${query}`, more) }
  t.closed = new Promise(r => t.ws.on('close', code => r(code)))
  t.type = s => t.ws.send(Buffer.from(s), { binary: true })
  t.prints = async what => assert.ok(await until(() => what.test(t.text)), `${what}: ${JSON.stringify(t.text)}`)
  t.ws.on('message', (data, binary) => { if (binary) t.text += data; else t.said.push(JSON.parse(data)) })
  t.ws.on('open', () => done(t)); t.ws.on('error', fail)
})
test('a terminal: its size changes, and by its session it is found again with what it printed', async () => {
  const a = await terminal('session=term-1&cols=90&rows=20')
  assert.ok(await until(() => a.said.some(m => m.type === 'ready')))
  a.type('x=7; echo "size $(stty size)"\n')
  await a.prints(/size 20 90/)
  a.ws.send(JSON.stringify({ type: 'resize', cols: 101, rows: 31 }))
  assert.ok(await until(async () => { a.type('echo "size $(stty size)"\n'); await new Promise(r => setTimeout(r, 50)); return /size 31 101/.test(a.text) }))
  for (const bad of ['{"type":"resize","cols":0,"rows":1}', '{"type":"resize","cols":99999,"rows":1}', '{"type":"other"}', 'no']) a.ws.send(bad)
  assert.ok(await until(() => a.said.filter(m => m.type === 'error').length === 4), JSON.stringify(a.said))
  a.type('(sleep 0.2; echo "wh""ile away") &\n')
  a.ws.terminate()
  await a.closed
  const b = await terminal('session=term-1')
  await b.prints(/size 20 90[^]*size 31 101[^]*while away/)
  b.type('echo "still $x, $(stty size)"\n')
  await b.prints(/still 7, 31 101/)
  const other = await terminal('session=term-2'), none = await terminal('', {}).then(() => assert.fail(), e => e.message), query = await terminal(`authorization=${encodeURIComponent(`Bearer ${process.env.CAY_KEY}`)}`, {})
  for (const t of [other, query]) { t.type('echo "other [$x]"\n'); await t.prints(/other \[\]/); assert.ok(!/still 7/.test(t.text)) }
  assert.match(none, /401/)
  b.type('exit 3\n')
  assert.equal(await b.closed, 1000)
  assert.deepEqual(b.said.at(-1), { type: 'exit', code: 3 })
  const none2 = await terminal('shell=/no/such/shell')
  assert.deepEqual([await none2.closed, none2.said.map(m => m.type), none2.said[0]?.message !== ''], [1011, ['error'], true])
  // One that ended is not found again: the session gets a new one.
  const next = await terminal('session=term-1')
  next.type('echo "new [$x]"\n')
  await next.prints(/new \[\]/)
  assert.ok(!/still 7/.test(next.text))
  next.ws.terminate()
  await next.closed
  for (const bad of ['cols=x', 'cols=99999', 'session=a/b']) await assert.rejects(terminal(bad), /400/, bad)
  for (const t of [other, query]) { t.ws.terminate(); await t.closed }
})
test('a tunnel is there until it is taken away', async () => {
  const port = Number(new URL(url).port)
  const get = (u, cookie) => new Promise((done, fail) => request({ host: '127.0.0.1', port, path: u.pathname + u.search, headers: { host: u.host, ...(cookie ? { cookie } : {}) } }, r => { r.resume(); r.on('end', () => done(r)) }).on('error', fail).end())
  await run('cd /tmp && setsid python3 -m http.server 8123 >/dev/null 2>&1 & ')
  const [status, made] = await ask('POST', `/v1/sandbox/${id}/tunnel/8123`)
  assert.deepEqual([status, made.port, new URL(made.url).host], [200, 8123, made.hostname])
  const u = new URL(made.url)
  let first
  assert.ok(await until(async () => (first = await get(u)).statusCode < 400), String(first?.statusCode))
  const cookie = first.headers['set-cookie']?.[0].split(';')[0], plain = new URL('/', u)
  if (cookie) assert.equal((await get(plain, cookie)).statusCode, 200)
  assert.equal((await get(plain)).statusCode, 401)
  assert.equal((await ask('DELETE', `/v1/sandbox/${id}/tunnel/8123`))[0], 204)
  assert.deepEqual([(await get(u)).statusCode, (await get(plain, cookie)).statusCode], [403, 401])
  assert.equal((await ask('DELETE', `/v1/sandbox/${id}/tunnel/8123`))[0], 204)
  for (const bad of ['80', '3000', '70000', 'x']) assert.equal((await ask('DELETE', `/v1/sandbox/${id}/tunnel/${bad}`))[0], 400, bad)
  assert.equal((await ask('DELETE', '/v1/sandbox/caaaaaaaaaaaaaaaaaaa/tunnel/8123'))[0], 404)
  const [, again] = await ask('POST', `/v1/sandbox/${id}/tunnel/8123`)
  assert.notEqual(new URL(again.url).search, u.search) // what was taken away does not come back
})
