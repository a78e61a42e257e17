// SPDX-License-Identifier: Apache-2.0
// A server that ends while somebody listens: the stream is cut, never ended as if it were whole; the command goes on and is found at the next one.
import assert from 'node:assert/strict'
import { createInterface } from 'node:readline'
import { once } from 'node:events'
import { Sandbox } from '@e2b/code-interpreter'

const lines = createInterface({ input: process.stdin })
const box = await Sandbox.create({ timeoutMs: 120_000, metadata: { k: 'v' } })
await box.runCode('kept = 41')
let out = ''
const h = await box.commands.run('echo begun; until [ -e go ]; do sleep 0.05; done; seq 50000; exit 5', { background: true, timeoutMs: 0, onStdout: d => { out += d } })
const cut = h.wait().then(() => 'ended', e => e.name)
while (!/begun/.test(out)) await new Promise(r => setTimeout(r, 20))
console.log('restart')
const [line] = await once(lines, 'line')
const [url, apiKey] = line.split(' ')
assert.match(await cut, /Error/)
const at = { apiUrl: url, sandboxUrl: url, apiKey }
const again = await Sandbox.connect(box.sandboxId, at)
assert.equal((await again.getInfo()).metadata.k, 'v')
assert.equal((await again.runCode('kept + 1')).text, '42') // nobody inside noticed
const found = await again.commands.connect(h.pid, { timeoutMs: 0 })
await again.files.write('go', '')
const r = await found.wait().catch(e => e)
assert.equal(r.exitCode, 5)
assert.equal(r.stdout.split('\n').length, 50001)
await again.kill()
console.log('ok')
process.exit(0)
