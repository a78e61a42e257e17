// SPDX-License-Identifier: Apache-2.0
// The Agents SDK's own sandbox clients for E2B and for the Cloudflare bridge, unmodified, against a cay server.
import { test, after } from 'node:test'
import assert from 'node:assert/strict'
import { Manifest } from '@openai/agents/sandbox'
import { CloudflareSandboxClient } from '@openai/agents-extensions/sandbox/cloudflare'
import { E2BSandboxClient } from '@openai/agents-extensions/sandbox/e2b'

const url = process.env.CAY_URL, key = process.env.CAY_KEY
const clients = {
  cloudflare: () => [new CloudflareSandboxClient({ workerUrl: url, apiKey: key }), '/workspace'],
  e2b: () => [new E2BSandboxClient({}), '/home/user/workspace'],
}
const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64')

for (const [name, make] of Object.entries(clients)) {
  const [client] = make()
  let session
  after(async () => { await session?.delete?.().catch(() => {}) })
  test(`${name}: create from a manifest`, async () => {
    session = await client.create(new Manifest({ entries: { 'a.txt': { type: 'file', content: 'from the manifest' }, dir: { type: 'dir', children: { b: { type: 'file', content: 'below' } } } }, environment: { GREETING: 'hello' } }))
    assert.equal(await session.running(), true)
    const text = new TextDecoder().decode(await session.readFile({ path: 'a.txt' }))
    assert.equal(text, 'from the manifest')
    assert.equal(new TextDecoder().decode(await session.readFile({ path: 'dir/b' })), 'below')
  })
  test(`${name}: commands`, async () => {
    const out = await session.execCommand({ cmd: 'echo $GREETING; echo ä€😀; cat a.txt; exit 3' })
    assert.match(out, /hello\nä€😀\nfrom the manifest/)
    assert.match(out, /exited with code 3/)
  })
  test(`${name}: as another user`, async () => assert.match(await session.execCommand({ cmd: 'id -un', runAs: 'root' }), /exited with code 0\nOutput:\nroot/))
  test(`${name}: files by the editor`, async () => {
    const editor = session.createEditor()
    await editor.createFile({ type: 'create_file', path: 'new.txt', diff: '+one\n+two' })
    await editor.updateFile({ type: 'update_file', path: 'new.txt', diff: '@@\n one\n-two\n+three' })
    assert.equal(new TextDecoder().decode(await session.readFile({ path: 'new.txt' })).trim(), 'one\nthree')
    await editor.deleteFile({ type: 'delete_file', path: 'new.txt' })
    assert.equal(await session.pathExists('new.txt'), false)
  })
  test(`${name}: an image is seen`, async () => {
    await session.materializeEntry({ path: 'p.png', entry: { type: 'file', content: new Uint8Array(png) } })
    const image = await session.viewImage({ path: 'p.png' })
    assert.equal(image.type, 'image')
  })
  test(`${name}: a terminal`, async () => {
    if (!session.supportsPty()) return
    const first = await session.execCommand({ cmd: 'read x; echo "got $x"', tty: true, yieldTimeMs: 400 })
    const id = Number(/session ID (\d+)/.exec(first)?.[1])
    assert.ok(id, first)
    let out = await session.writeStdin({ sessionId: id, chars: 'typed\n', yieldTimeMs: 400 })
    for (let i = 0; i < 30 && !/got typed/.test(out); i++) out += await session.writeStdin({ sessionId: id, chars: '', yieldTimeMs: 300 }).catch(() => '')
    assert.match(out, /got typed/)
  })
  test(`${name}: the workspace out and in`, async () => {
    const tar = await session.persistWorkspace()
    assert.ok(tar.length > 500)
    await session.execCommand({ cmd: 'rm -rf a.txt dir' })
    await session.hydrateWorkspace(tar)
    assert.equal(new TextDecoder().decode(await session.readFile({ path: 'a.txt' })), 'from the manifest')
  })
  test(`${name}: the end`, async () => {
    await session.delete()
    assert.equal(await session.running(), false)
  })
}
