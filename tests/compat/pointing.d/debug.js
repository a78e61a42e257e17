// SPDX-License-Identifier: Apache-2.0
// E2B_DEBUG: a sandbox of this machine that nobody asked for, without keys and tokens.
import { test } from 'node:test'
import assert from 'node:assert/strict'
import { Sandbox } from '@e2b/code-interpreter'

test('many at once mean the same one', async () => {
  const boxes = await Promise.all(Array.from({ length: 8 }, () => Sandbox.create()))
  await Promise.all(boxes.map((b, i) => b.files.write(`f${i}`, String(i))))
  assert.equal((await boxes[0].files.list('/home/user')).filter(e => /^f\d$/.test(e.name)).length, 8)
})
test('commands, code, details', async () => {
  const box = await Sandbox.create()
  assert.equal(box.sandboxId, 'debug_sandbox_id')
  assert.equal((await box.commands.run('cat f3; id -un')).stdout, '3user\n')
  assert.equal((await box.runCode('6 * 7')).text, '42')
  assert.equal((await box.getInfo()).state, 'running')
})
test('pages of other origins are refused where no token is needed', async () => {
  const r = await fetch('http://localhost:49983/envs', { headers: { origin: 'https://page.example' } })
  assert.equal(r.status, 403)
})
