// SPDX-License-Identifier: Apache-2.0
// network.rules, told by the server that requests reach: the header is in the packet, and nowhere inside.
import { test, after } from 'node:test'
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { Sandbox, Secret } from 'e2b'

const stored = `sentinel-stored-${process.pid}`, plain = `sentinel-plain-${process.pid}`
const seen = path => readFileSync(process.env.SEEN, 'utf8').split('\n').filter(l => l.includes(` path=${path} `))
let box
after(async () => { await box?.kill() })
const rules = headers => ({ 'api.test': [{ transform: { headers } }] })
const ask = (url, ...more) => box.commands.run(`curl -sS -m 20 ${more.join(' ')} ${url}`).then(r => r.stdout)

test('the server far away gets the header, with a secret and as text; the program inside sees neither', async () => {
  await Secret.create('api-token', stored)
  box = await Sandbox.create({ timeoutMs: 120_000, network: { rules: rules({ Authorization: 'Bearer ${e2b.secrets.api-token}', 'X-One': plain }) } })
  const told = await ask('https://api.test/first', '-i', "-H 'X-One: own'", "-H 'Authorization: Bearer own'")
  assert.deepEqual(seen('/first'), [`GET api.test path=/first auth=Bearer ${stored} X-One=${plain}`])
  assert.match(told, /^HTTP\/1.1 200/)
  assert.ok(!told.includes('sentinel-'), told) // though the server says it back
  assert.match(told, /X-Echo: Bearer \*\*\*/i)
})
test('nothing inside has it: environments, arguments, files', async () => {
  const { stdout } = await box.commands.run("cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c sentine[l]; grep -rslI --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr sentine[l]- / || true", { user: 'root', timeoutMs: 60_000 })
  assert.equal(stdout.trim(), '0')
  assert.ok(!JSON.stringify(await box.getInfo()).includes('sentinel-'))
})
test('another name gets none', async () => {
  await ask('https://away.test/away', '-k')
  assert.deepEqual(seen('/away'), ['GET away.test path=/away auth=None'])
})
test('updateNetwork changes what is put in while the sandbox runs, and takes it away', async () => {
  await box.updateNetwork({ rules: rules({ 'X-Two': 'pre ${e2b.secrets.api-token} post' }) })
  await ask('https://api.test/second', "-H 'Authorization: Bearer own'")
  assert.deepEqual(seen('/second'), [`GET api.test path=/second auth=Bearer own X-Two=pre ${stored} post`])
  await box.updateNetwork({})
  await ask('https://api.test/third', '-k')
  assert.deepEqual(seen('/third'), ['GET api.test path=/third auth=None'])
})
test('a rule grants nothing', async () => {
  await box.updateNetwork({ denyOut: ['0.0.0.0/0'], rules: rules({ 'X-One': plain }) })
  await assert.rejects(ask('https://api.test/fourth', '-k'))
  assert.deepEqual(seen('/fourth'), [])
})
