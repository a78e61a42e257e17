// SPDX-License-Identifier: Apache-2.0
// Routes of the Cloudflare bridge that the JavaScript client does not ask for: by hand.
import { test, before, after } from 'node:test'
import assert from 'node:assert/strict'

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
  const left = new AbortController(), going = await exec('echo on; sleep 1000', sid, { fetch: { signal: left.signal } })
  await going.body.getReader().read()
  left.abort()
  assert.equal(printed(await (await exec('echo "$x"')).text()).stdout, '7\n')
  assert.equal((await exec('true', 'a..b')).status, 400)
  assert.equal((await exec('true', 'x'.repeat(129))).status, 400)
  assert.equal((await ask('DELETE', `/v1/sandbox/${id}/session/${sid}`))[1].success, true)
  assert.equal((await ask('DELETE', `/v1/sandbox/${id}/session/${sid}`))[1].success, false)
})
