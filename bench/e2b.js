// SPDX-License-Identifier: Apache-2.0
// e2b.js PACKAGES [quick]: a server (CAY_URL, CAY_KEY) through the published SDKs: E2B's own, and the Agents SDK's E2B client beside its own unix-local
// one, which isolates nothing. One JSON line per figure.
'use strict'
const { spawn } = require('node:child_process'), { once } = require('node:events'), { join } = require('node:path')
const { createRequire } = require('node:module')
const [packages, quick] = process.argv.slice(2), load = createRequire(packages + '/')
const E = { apiKey: process.env.CAY_KEY, apiUrl: process.env.CAY_URL, sandboxUrl: process.env.CAY_URL, timeoutMs: 600_000 }
Object.assign(process.env, { E2B_API_KEY: E.apiKey, E2B_API_URL: E.apiUrl, E2B_SANDBOX_URL: E.apiUrl })
const { Sandbox } = load('e2b')
const { Manifest } = load('@openai/agents/sandbox'), { UnixLocalSandboxClient } = load('@openai/agents/sandbox/local'), { E2BSandboxClient } = load('@openai/agents-extensions/sandbox/e2b')
const N = quick ? 5 : 100, RUNS = quick ? 10 : 300, FILES = quick ? 3 : 20, MEMORY = quick ? 64 : 1024

const now = () => Number(process.hrtime.bigint()) / 1e6
const at = (list, q) => [...list].sort((a, b) => a - b)[Math.min(list.length - 1, Math.floor(list.length * q))]
const sleep = ms => new Promise(r => setTimeout(r, ms))
// floor: what it is held against, in the same run; goal: it is to be that many times as fast.
const tell = (name, list, q = 0.5, floor = null, times = null) => {
  const value = at(list, q), ratio = floor === null ? null : floor / value
  console.log(JSON.stringify({ name, value: Number(value.toPrecision(6)), unit: 'ms', floor: floor === null ? null : Number(floor.toPrecision(6)), ratio: ratio === null ? null : Number(ratio.toPrecision(3)),
    goal: times === null ? null : `>= ${times} x as fast`, ok: times === null ? null : ratio >= times, n: list.length }))
}
const timed = async (n, fn) => { const list = []; for (let i = 0; i < n; i++) { const t = now(); await fn(i); list.push(now() - t) } return list }
const first = async boxes => { const s = await Sandbox.create(E); boxes.push(s); await s.commands.run('true') }
const end = async boxes => { for (const s of boxes.splice(0)) await s.kill() }

async function sdk() {
  const boxes = []
  await first(boxes)
  const one = await timed(N, () => first(boxes))
  await end(boxes)
  tell('e2b-first', one)
  tell('e2b-first-p99', one, 0.99)
  const many = []
  await Promise.all(Array.from({ length: N }, async () => { const t = now(); await first(boxes); many.push(now() - t) }))
  await end(boxes)
  tell('e2b-burst', many)
  tell('e2b-burst-p99', many, 0.99)

  const s = await Sandbox.create(E)
  await timed(5, () => s.commands.run('true'))
  tell('e2b-run', await timed(RUNS, () => s.commands.run('true')))
  const head = { 'content-type': 'application/json', 'e2b-sandbox-id': s.sandboxId, 'e2b-sandbox-port': '49999', 'e2b-traffic-access-token': s.trafficAccessToken }
  const code = async () => { if (!/"text":"2"/.test(await (await fetch(`${E.apiUrl}/execute`, { method: 'POST', headers: head, body: '{"code":"1 + 1"}' })).text())) throw new Error('another result') }
  await timed(5, code)
  tell('e2b-code', await timed(RUNS, code)) // of the interpreter inside, as runCode() asks it
  for (const [name, size, n] of [['e2b-file-1k', 1000, RUNS], ['e2b-file-10m', 10_000_000, FILES]]) {
    const data = new Blob([Buffer.alloc(size, 'x')])
    tell(name, await timed(n, async () => { await s.files.write('f', data); if ((await s.files.read('f', { format: 'bytes' })).length !== size) throw new Error('another length') }))
  }
  await s.files.makeDir('w')
  const seen = new Map(), w = await s.files.watchDir('w', e => seen.get(e.name)?.(now()), { timeoutMs: 0 }), delays = []
  for (let i = 0; i < RUNS; i++) {
    const told = new Promise(r => seen.set(`n${i}`, r)), t = now()
    await s.files.write(`w/n${i}`, '')
    delays.push((await told) - t)
  }
  await w.stop()
  tell('e2b-watch', delays) // from the asking to the hearing: the write is in it
  const h = await s.commands.run(`exec python3 -c "
import time
b = bytearray(${MEMORY} << 20)
b[::4096] = b'x' * len(b[::4096])
print('ready', flush=True)
time.sleep(1000)"`, { background: true, timeoutMs: 0 })
  while (!/ready/.test(h.stdout)) await sleep(20)
  const pauses = [], resumes = []
  for (let i = 0; i < FILES; i++) {
    pauses.push(...await timed(1, () => s.pause()))
    resumes.push(...await timed(1, async () => { await Sandbox.connect(s.sandboxId, E); await s.commands.run('true') }))
  }
  tell('e2b-pause', pauses)
  tell('e2b-resume', resumes) // to the first command after it
  await s.kill()
}

async function agents() {
  const manifest = () => new Manifest({ entries: { 'a.txt': { type: 'file', content: 'x'.repeat(1000) } } }), got = {}
  for (const [name, client] of [['local', new UnixLocalSandboxClient()], ['ours', new E2BSandboxClient({})]]) {
    const make = async () => { const s = await client.create(manifest()); await (s.delete ? s.delete() : s.close()) }
    await make()
    const create = await timed(FILES, make), s = await client.create(manifest())
    await s.execCommand({ cmd: 'true' })
    got[name] = { create, exec: await timed(quick ? 5 : 50, () => s.execCommand({ cmd: 'true' })), read: await timed(quick ? 5 : 50, () => s.readFile({ path: 'a.txt' })) }
    await (s.delete ? s.delete() : s.close())
  }
  for (const [what, times] of [['exec', 2], ['create', 7], ['read', 30]]) tell(`e2b-agents-${what}`, got.ours[what], 0.5, at(got.local[what], 0.5), times)
  await bound(manifest, got.local)
}

// What no server can be faster than: the same client before one that answers what ours said, and does nothing. Times are told beside unix-local's, as above.
async function bound(manifest, local) {
  const child = spawn(process.execPath, [join(__dirname, 'constant.js'), process.env.E2B_API_URL], { stdio: ['ignore', 'pipe', 'inherit'] })
  const url = (await once(child.stdout, 'data')).toString().trim(), before = process.env.E2B_API_URL, n = quick ? 3 : 30
  Object.assign(process.env, { E2B_API_URL: url, E2B_SANDBOX_URL: url })
  const client = new E2BSandboxClient({}), lists = { exec: [], create: [], read: [] }
  const life = async () => {
    const t = now(), s = await client.create(manifest()), made = now()
    await s.execCommand({ cmd: 'true' })
    const ran = now()
    await s.readFile({ path: 'a.txt' })
    const read = now()
    await s.delete()
    lists.create.push(made - t + now() - read); lists.exec.push(ran - made); lists.read.push(read - ran)
  }
  await life()
  await fetch(url + '/__constant')
  await timed(3, life) // until it is compiled
  for (const l of Object.values(lists)) l.length = 0
  await timed(n, life)
  for (const what of Object.keys(lists)) tell(`e2b-agents-${what}-client`, lists[what], 0.5, at(local[what], 0.5))
  Object.assign(process.env, { E2B_API_URL: before, E2B_SANDBOX_URL: before })
  child.kill()
}
sdk().then(agents).then(() => process.exit(0), e => { console.error(e); process.exit(1) })
