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
