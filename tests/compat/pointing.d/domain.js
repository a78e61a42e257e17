// SPDX-License-Identifier: Apache-2.0
// E2B_DOMAIN: every part of a server has a name of its own, with TLS.
import { test, after } from 'node:test'
import assert from 'node:assert/strict'
import { Sandbox } from '@e2b/code-interpreter'

let box
after(async () => { await box?.kill() })
test('a sandbox by names: commands, files, code', async () => {
  box = await Sandbox.create({ timeoutMs: 120_000 })
  assert.equal((await box.commands.run('echo "by name"')).stdout, 'by name\n')
  await box.files.write('a', 'grüße')
  assert.equal(await box.files.read('a'), 'grüße')
  assert.equal((await box.runCode('6 * 7')).text, '42')
})
test('signed addresses have the sandbox in their name', async () => {
  const up = await box.uploadUrl('signed'), form = new FormData()
  assert.match(up, new RegExp(`^https://49983-${box.sandboxId}\\.${process.env.E2B_DOMAIN}/`))
  form.append('file', new Blob(['by url']), 'signed')
  assert.equal((await fetch(up, { method: 'POST', body: form })).status, 200)
  assert.equal(await (await fetch(await box.downloadUrl('signed', { useSignatureExpiration: 60 }))).text(), 'by url')
})
test('getHost() leads to a port', async () => {
  await box.commands.run('mkdir -p www; echo page > www/index.html; cd www; exec python3 -m http.server 8000', { background: true })
  let text
  for (let i = 0; i < 100 && text !== 'page\n'; i++) {
    text = await (await fetch(`https://${box.getHost(8000)}/`)).text().catch(() => '')
    await new Promise(r => setTimeout(r, 100))
  }
  assert.equal(text, 'page\n')
})
