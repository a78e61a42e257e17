// SPDX-License-Identifier: Apache-2.0
// archive.js PACKAGES CAY DIRECTORY: workspaces of the published Agents SDK's unix-local client kept by cay as snapshots, and snapshots of cay put into its workspaces.
'use strict'
const { createRequire } = require('node:module'), { execFileSync } = require('node:child_process'), assert = require('node:assert'), fs = require('node:fs'), path = require('node:path')
const [packages, program, dir] = process.argv.slice(2), load = createRequire(packages + '/')
const { Manifest } = load('@openai/agents/sandbox'), { UnixLocalSandboxClient } = load('@openai/agents/sandbox/local')
const cay = (...args) => execFileSync(program, args, { stdio: ['ignore', 'pipe', 'inherit'], maxBuffer: 1 << 28 })
const text = (...args) => cay(...args).toString().trim()
const end = s => s.delete ? s.delete() : s.close()
const file = path.join(dir, 'w.json')

// A store of the SDK's own kind (save, load, exists, delete), with snapshots of cay behind it.
const store = {
  async save({ data }) {
    fs.writeFileSync(file, data)
    return { id: text('snapshot', 'import', file) }
  },
  async load({ id }) { return { data: new Uint8Array(cay('snapshot', 'export', id, '--format', 'js', '-o', '-')) } },
  async exists({ id }) { return text('snapshots', '-q').split('\n').includes(id) },
  async delete({ id }) { cay('snapshot', 'rm', id) },
}

const bytes = Buffer.from(Array.from({ length: 70_000 }, (_, i) => (i * 7919) & 255))
const tree = root => {
  const out = {}
  for (const e of fs.readdirSync(root, { recursive: true }).sort()) {
    const p = path.join(root, e), st = fs.lstatSync(p)
    out[e] = st.isDirectory() ? 'dir' : st.isFile() ? fs.readFileSync(p).toString('base64') : 'other'
  }
  return out
}

async function main() {
  const client = new UnixLocalSandboxClient({ workspaceBaseDir: dir })
  const m = () => new Manifest({ entries: { 'a.txt': { type: 'file', content: 'one\n' }, 'deep/er/ü.txt': { type: 'file', content: 'grün' }, pass: { type: 'file', content: 'x', ephemeral: true } } })

  // its archive, imported
  const s = await client.create(m()), root = s.state.workspaceRootPath
  fs.writeFileSync(path.join(root, 'bin'), bytes)
  fs.mkdirSync(path.join(root, 'empty'))
  fs.writeFileSync(path.join(root, 'none'), '')
  fs.writeFileSync(file, await s.persistWorkspace())
  const snap = text('snapshot', 'import', file, '--label', 'from-sdk')
  assert.match(snap, /^s[a-z2-7]{19}$/)
  assert.strictEqual(text('run', '--from', 'from-sdk', '--', 'sh', '-c', 'cat a.txt deep/er/ü.txt; sha256sum <bin; wc -c <none; ls -d empty; ls pass 2>&1 | grep -c No; id -un; stat -c %U a.txt; echo w >empty/w && cat empty/w'),
    ['one', 'grün' + require('node:crypto').createHash('sha256').update(bytes).digest('hex') + '  -', '0', 'empty', '1', 'user', 'user', 'w'].join('\n'))

  // what a sandbox made of it, put into another workspace of the SDK
  text('create', '--name', 'edit', '--from', 'from-sdk')
  text('exec', 'edit', '--', 'sh', '-c', 'echo two >a.txt; rm bin; mkdir -p n/e/w; head -c 3000000 /dev/zero >n/zero; ln -s a.txt link; chmod 755 a.txt')
  const out = cay('snapshot', 'export', 'edit', '--format', 'js', '-o', '-'), other = await client.create(new Manifest({}))
  fs.writeFileSync(path.join(other.state.workspaceRootPath, 'old'), 'goes')
  await other.hydrateWorkspace(new Uint8Array(out))
  const got = tree(other.state.workspaceRootPath)
  assert.deepStrictEqual(Object.keys(got).sort(), ['a.txt', 'deep', 'deep/er', 'deep/er/ü.txt', 'empty', 'n', 'n/e', 'n/e/w', 'n/zero', 'none'].sort())
  assert.strictEqual(Buffer.from(got['a.txt'], 'base64').toString(), 'two\n')
  assert.strictEqual(Buffer.from(got['n/zero'], 'base64').length, 3_000_000)

  // both ways are exact: what the SDK saves of it is what was exported
  const again = JSON.parse(Buffer.from(await other.persistWorkspace())), was = JSON.parse(out)
  assert.deepStrictEqual(again.directories.sort(), was.directories.sort())
  const byPath = l => l.map(f => [f.path, f.data]).sort()
  assert.deepStrictEqual(byPath(again.files), byPath(was.files))
  await end(other)
  await end(s)

  // the SDK's own session state with its snapshot in cay: saved, lost, resumed
  const kept = new UnixLocalSandboxClient({ workspaceBaseDir: dir, snapshot: { type: 'remote', store } })
  const t = await kept.create(m())
  fs.writeFileSync(path.join(t.state.workspaceRootPath, 'work'), 'done')
  const state = await kept.serializeSessionState(t.state)
  const id = state.snapshot.id
  assert.ok(await store.exists({ id }))
  assert.strictEqual(text('run', '--from', id, '--', 'cat', 'work'), 'done')
  await end(t)
  const back = await kept.resume(await kept.deserializeSessionState(JSON.parse(JSON.stringify(state))))
  assert.strictEqual(fs.readFileSync(path.join(back.state.workspaceRootPath, 'work')).toString(), 'done')
  await end(back)
  text('rm', '-f', 'edit')
  console.log('ok: workspaces go to cay and come back')
}
main().then(() => process.exit(0), e => { console.error(e); process.exit(1) })
