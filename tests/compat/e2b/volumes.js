// SPDX-License-Identifier: Apache-2.0
// Volumes, secrets and network options of the published SDK.
import { test, after } from 'node:test'
import assert from 'node:assert/strict'
import { Sandbox, Volume, Secret, VolumeNotFoundError, VolumePathNotFoundError, SecretNotFoundError } from 'e2b'

const alive = []
const make = async (o = {}) => { const s = await Sandbox.create({ timeoutMs: 120_000, ...o }); alive.push(s); return s }
after(async () => { for (const s of alive) await s.kill().catch(() => {}); await Volume.destroy('compat').catch(() => {}) })

test('a volume: files by themselves and in sandboxes', async () => {
  const v = await Volume.create('compat')
  assert.ok((await Volume.list()).some(o => o.name === 'compat'))
  await assert.rejects(Volume.create('compat'))
  await assert.rejects(Volume.create('no/name'))
  await v.makeDir('/d')
  const w = await v.writeFile('/d/ä.txt', 'grüße', { mode: 0o600 })
  assert.deepEqual([w.path, w.type, w.size, w.mode], ['/d/ä.txt', 'file', 7, 0o600])
  assert.equal(await v.readFile('/d/ä.txt'), 'grüße')
  await assert.rejects(v.writeFile('/deep/er/x', '1'))
  await v.writeFile('/deep/er/x', '1', { force: true })
  assert.equal((await v.updateMetadata('/d/ä.txt', { mode: 0o644 })).mode, 0o644)
  assert.deepEqual((await v.list('/')).map(e => e.path).sort(), ['/d', '/deep'])
  assert.deepEqual((await v.list('/', { depth: 3 })).map(e => e.path).sort(), ['/d', '/d/ä.txt', '/deep', '/deep/er', '/deep/er/x'])
  const s = await make({ volumeMounts: { '/data': v } })
  assert.equal((await s.commands.run('cat "/data/d/ä.txt"; echo inside > /data/new')).stdout, 'grüße')
  assert.equal(await v.readFile('/new'), 'inside\n')
  const big = new Uint8Array(3_000_000).map((_, i) => i * 31)
  await v.writeFile('/big', new Blob([big]))
  assert.deepEqual(await v.readFile('/big', { format: 'bytes' }), big)
  assert.equal(await v.exists('/none'), false)
  await assert.rejects(v.readFile('/none'), VolumePathNotFoundError)
  await assert.rejects(v.readFile('/../etc/passwd'))
  await v.remove('/deep')
  assert.equal(await v.exists('/deep'), false)
  const other = new Volume('compat', 'compat', '0'.repeat(64), v.domain)
  await assert.rejects(other.readFile('/new'))
  await assert.rejects(Volume.destroy('compat'), /used|sandbox/)
  await s.kill()
  assert.equal(await Volume.destroy('compat'), true)
  assert.equal(await Volume.destroy('compat'), false)
  await assert.rejects(Volume.connect('compat'), VolumeNotFoundError)
  await assert.rejects(make({ volumeMounts: { '/data': 'compat' } }))
})
test('secrets: their names are told, their values are not', async () => {
  const made = await Secret.create('compat-api.token', 'first-value', { metadata: { for: 'test' } })
  assert.deepEqual([made.name, made.version, made.metadata.for], ['compat-api.token', 1, 'test'])
  await assert.rejects(Secret.create('compat-api.token', 'x'))
  await assert.rejects(Secret.create('EMPTY_ONE', ''))
  assert.equal((await Secret.update('compat-api.token', 'second-value')).version, 2)
  const page = await Secret.list({ limit: 1 }).nextItems()
  assert.equal(JSON.stringify(page).includes('value'), false)
  assert.equal(await Secret.exists('compat-api.token'), true)
  assert.equal(await Secret.exists('NOT_THERE'), false)
  await assert.rejects(Secret.update('NOT_THERE', 'x'), SecretNotFoundError)
})
const policy = async s => (await (await fetch(`${process.env.E2B_API_URL}/api/v1/sandboxes/${s.sandboxId}/net`, { headers: { authorization: `Bearer ${process.env.E2B_API_KEY}` } })).json()).policy
test('rules for headers become bindings, and values stay outside', async () => {
  const s = await make({ network: { rules: { 'api.example.com': [{ transform: { headers: { Authorization: 'Bearer ${e2b.secrets.compat-api.token}' } } }], 'other.example.com': [{ transform: { headers: { 'X-Key': 'plain-value' } } }] } } })
  const p = await policy(s)
  assert.deepEqual(p.bindings.map(b => b.destination).sort(), ['https://api.example.com:443/,bearer', 'https://other.example.com:443/,header:X-Key'].sort())
  const inside = (await s.commands.run('env; cat /proc/self/mountinfo')).stdout
  assert.equal(/second-value|plain-value/.test(inside), false)
  assert.equal(JSON.stringify(await s.getInfo()).includes('plain-value'), false)
  await s.updateNetwork({ denyOut: ['0.0.0.0/0'] })
  assert.deepEqual((await policy(s)).bindings ?? [], [])
  const to = async () => (await policy(s)).bindings.map(b => b.destination.replace(':443/', '')).sort()
  // Others while it runs: several fields, names below one, a secret within a text; and what stood for a value stands for it again.
  await s.updateNetwork({ rules: { '*.example.com': [{ transform: { headers: { A: 'first', B: 'x ${e2b.secrets.compat-api.token} y' } } }, { transform: { headers: { a: 'second-A' } } }], 'api.example.com': [{ transform: { headers: { Authorization: 'Bearer own-token' } } }] } })
  assert.deepEqual(await to(), ['https://*.example.com,header:B', 'https://*.example.com,header:a', 'https://api.example.com,bearer'])
  const { rules } = (await s.getInfo()).network
  assert.equal(/second-A|own-token/.test(JSON.stringify(rules)), false)
  await s.updateNetwork({ rules: { 'api.example.com': rules['api.example.com'], 'b.example.com': [{ transform: { headers: { C: 'c' } } }] } })
  assert.deepEqual(await to(), ['https://api.example.com,bearer', 'https://b.example.com,header:C'])
  await assert.rejects(s.updateNetwork({ rules: { 'api.example.com': rules['*.example.com'] } }), /400.*does not have/)
  for (const bad of ['*', 'a.*.example', 'a b', 'x/y', 'x,y']) await assert.rejects(s.updateNetwork({ rules: { [bad]: [{ transform: { headers: { A: 'b' } } }] } }), /400/)
  for (const bad of ['Host', 'Content-Length', 'a b', '']) await assert.rejects(s.updateNetwork({ rules: { 'a.example': [{ transform: { headers: { [bad]: 'b' } } }] } }), /400/)
  for (const bad of ['', 'a\nb', '${e2b.secrets.}', '${e2b.secrets.NOT_THERE}']) await assert.rejects(s.updateNetwork({ rules: { 'a.example': [{ transform: { headers: { A: bad } } }] } }))
  await assert.rejects(s.updateNetwork({ rules: { '*.example.com': [{ transform: { headers: { A: 'b' } } }], 'a.example.com': [] } }), /400.*of its own/)
  await assert.rejects(s.updateNetwork({ rules: { 'a.example': [{ transform: { headers: { A: '${e2b.identity.tokens.x}' } } }] } }), /501/)
  assert.deepEqual(await to(), ['https://api.example.com,bearer', 'https://b.example.com,header:C'])
  await s.updateNetwork({})
  assert.deepEqual((await policy(s)).bindings ?? [], [])
  await s.kill()
  assert.equal(await Secret.destroy('compat-api.token'), true)
  assert.equal(await Secret.destroy('compat-api.token'), false)
  assert.deepEqual((await Secret.list().nextItems()).map(o => o.name), [])
})
const why = async (s, host) => (await (await fetch(`${process.env.E2B_API_URL}/api/v1/sandboxes/${s.sandboxId}/net/why?host=${host}&port=80`, { headers: { authorization: `Bearer ${process.env.E2B_API_KEY}` } })).json()).allow
test('what is allowed wins over what is denied', async () => {
  const s = await make({ network: { denyOut: ['192.0.2.0/24', '198.51.100.7'], allowOut: ['192.0.2.64/26', '192.0.2.9'] } })
  const got = {}
  for (const a of ['192.0.2.1', '192.0.2.9', '192.0.2.63', '192.0.2.64', '192.0.2.127', '192.0.2.128', '198.51.100.7', '198.51.100.8']) got[a] = await why(s, a)
  assert.deepEqual(got, { '192.0.2.1': false, '192.0.2.9': true, '192.0.2.63': false, '192.0.2.64': true, '192.0.2.127': true, '192.0.2.128': false, '198.51.100.7': false, '198.51.100.8': true })
  await assert.rejects(make({ network: { denyOut: ['no address'] } }))
  await assert.rejects(make({ network: { allowOut: ['example.com'] } }))
  for (const maskRequestHost of ['a b', 'x\r\ny: z', 'a/b', '${port}', 'x'.repeat(300)]) await assert.rejects(make({ network: { maskRequestHost } }), /400/)
  await assert.rejects(make({ network: { egressProxy: { address: 'h:1' } } }), /501/)
})
test('ports are open as with E2B, or want the token', async () => {
  const port = new URL(process.env.E2B_API_URL).port
  const look = (s, headers = {}) => new Promise(async (done, fail) => {
    const { request } = await import('node:http')
    request({ host: '127.0.0.1', port, path: '/', headers: { host: `8123-${s.sandboxId}.localhost:${port}`, ...headers } }, r => { r.resume(); done(r.statusCode) }).on('error', fail).end()
  })
  for (const open of [true, false]) {
    const s = await make({ network: { allowPublicTraffic: open } })
    await s.commands.run('exec python3 -m http.server 8123', { background: true })
    let status
    for (let i = 0; i < 100; i++) {
      status = await look(s, open ? {} : { 'e2b-traffic-access-token': s.trafficAccessToken })
      if (status === 200) break
      await new Promise(r => setTimeout(r, 100))
    }
    assert.equal(status, 200)
    if (!open) assert.equal(await look(s), 401)
    await s.updateNetwork({ denyOut: ['192.0.2.1'] }) // of what it reaches, not of who reaches it
    assert.equal(await look(s), open ? 200 : 401)
    assert.equal(await look(s, { 'e2b-traffic-access-token': 'f'.repeat(64) }), 401)
    await s.kill()
  }
})

test('programs behind a port are told the Host that was asked for', async () => {
  const port = new URL(process.env.E2B_API_URL).port, { Agent, request } = await import('node:http')
  const agent = new Agent({ keepAlive: true, maxSockets: 1 }), boxes = [] // all on one connection: nothing of one request is left for the next
  after(() => agent.destroy())
  const look = (s, headers = {}) => new Promise((done, fail) => request({ agent, host: '127.0.0.1', port, path: '/', headers: { host: `8124-${s.sandboxId}.localhost:${port}`, ...headers } }, r => {
    let text = ''
    r.on('data', d => { text += d }); r.on('end', () => done([r.statusCode, text]))
  }).on('error', fail).end())
  for (const [network, host] of [[{ maskRequestHost: 'app-${PORT}.example:${PORT}' }, 'app-8124.example:8124'], [{}, 'localhost:8124']]) {
    const s = await make({ network })
    await s.files.write('h.py', 'import http.server\nclass H(http.server.BaseHTTPRequestHandler):\n  def do_GET(self):\n    b = self.headers["Host"].encode()\n    self.send_response(200); self.send_header("Content-Length", str(len(b))); self.end_headers(); self.wfile.write(b)\nhttp.server.HTTPServer(("127.0.0.1", 8124), H).serve_forever()\n')
    await s.commands.run('python3 h.py', { background: true, timeoutMs: 0 })
    let got
    for (let i = 0; i < 400 && (got = await look(s))[0] !== 200; i++) await new Promise(r => setTimeout(r, 50))
    assert.deepEqual(got, [200, host])
    assert.equal((await s.getInfo()).network?.maskRequestHost, network.maskRequestHost)
    boxes.push([s, host])
  }
  for (let i = 0; i < 4; i++) assert.deepEqual(await look(boxes[i % 2][0]), [200, boxes[i % 2][1]])
})
