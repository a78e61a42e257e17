// SPDX-License-Identifier: Apache-2.0
// workspace.js PACKAGES DIRECTORY [quick]: the Agents SDK's own unix-local client, which isolates nothing, on the work of bench-workspace: 10,000 files of 1 kB by a
// manifest, 100 of 1 MB from a directory, its workspace saved and put into another. The peer's figures, without a goal: one JSON line each.
'use strict'
const { createRequire } = require('node:module'), fs = require('node:fs'), path = require('node:path')
const [packages, dir, quick] = process.argv.slice(2), load = createRequire(packages + '/')
const { Manifest } = load('@openai/agents/sandbox'), { UnixLocalSandboxClient } = load('@openai/agents/sandbox/local')
const N = quick ? 200 : 10_000, BIG = quick ? 5 : 100

const now = () => Number(process.hrtime.bigint()) / 1e6
const tell = (name, value) => console.log(JSON.stringify({ name: `workspace-sdk-${name}`, value: Number(value.toPrecision(6)), unit: 'ms', floor: null, ratio: null, goal: null, ok: true, n: 1 }))
const timed = async (name, fn) => { const t = now(), got = await fn(); tell(name, now() - t); return got }
const end = s => s.delete ? s.delete() : s.close()

async function main() {
  process.env.TMPDIR = dir
  process.chdir(dir)
  const client = new UnixLocalSandboxClient({ workspaceBaseDir: dir }), entries = {}
  for (let i = 0; i < N; i++) entries[`d${i % 100}/f${i}`] = { type: 'file', content: String(i).padEnd(1000, 'x') }
  const s = await timed('manifest', () => client.create(new Manifest({ entries })))
  const saved = await timed('save', () => s.persistWorkspace())
  const other = await client.create(new Manifest({}))
  await timed('restore', () => other.hydrateWorkspace(saved))
  await end(other)
  await end(s)
  const big = path.join(dir, 'big')
  fs.mkdirSync(big)
  for (let i = 0; i < BIG; i++) fs.writeFileSync(path.join(big, `f${i}`), Buffer.alloc(1_000_000, i + 1))
  const m = new Manifest({ entries: { big: { type: 'local_dir', src: big } } })
  await end(await timed('local-dir', () => client.create(m)))
}
main().then(() => process.exit(0), e => { console.error(e); process.exit(1) })
