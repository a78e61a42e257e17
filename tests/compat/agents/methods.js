// SPDX-License-Identifier: Apache-2.0
// Every public method that the Agents SDK's E2B and Cloudflare clients declare: one good case, one with bad input, one with a sandbox that is gone. A method
// without its three cases fails the first test, so that a new version of the package cannot bring one unseen; so does a case that is left out without one of the few
// reasons there are.
import { test } from 'node:test'
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { Manifest } from '@openai/agents/sandbox'
import { CloudflareSandboxClient } from '@openai/agents-extensions/sandbox/cloudflare'
import { E2BSandboxClient } from '@openai/agents-extensions/sandbox/e2b'

const url = process.env.CAY_URL, key = process.env.CAY_KEY
const equal = async (p, want) => assert.deepEqual(await p, want), no = async p => assert.rejects(async () => p), text = b => new TextDecoder().decode(b)
const clients = {
  E2BSandbox: { make: () => new E2BSandboxClient({ exposedPorts: [8000] }), end: id => fetch(`${url}/sandboxes/${id}`, { method: 'DELETE', headers: { 'x-api-key': key } }), root: '/home/user/workspace' },
  CloudflareSandbox: { make: () => new CloudflareSandboxClient({ workerUrl: url, apiKey: key }), end: id => fetch(`${url}/v1/sandbox/${id}`, { method: 'DELETE', headers: { authorization: `Bearer ${key}` } }), root: '/workspace' },
}
const entries = () => ({ 'a.txt': { type: 'file', content: 'text' }, dir: { type: 'dir', children: {} } })
const png = new Uint8Array(Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64'))
const fresh = async c => c.client.create(new Manifest({ entries: entries() }))
// A command's failure is told to a model as text.
const failed = async p => { const r = await p.catch(e => e); assert.ok(r instanceof Error || /exited with code [1-9]|error|fail/i.test(String(r)), String(r)) }
const typed = async s => { const first = await s.execCommand({ cmd: 'read x; echo "got $x"', tty: true, yieldTimeMs: 400 }); return Number(/session ID (\d+)/.exec(first)?.[1]) }

// Why there can be no such case: which of the three it may stand for, and for which methods.
const why = {
  'nothing is given that could be bad': [[1], /^(running|persistWorkspace|prepareWorkspaceRoot|close|shutdown|delete|canReusePreservedOwnedSession)$/],
  'no server is asked': [[1, 2], /^(setArchiveLimits|createEditor|supportsPty|resolveExposedPort|serializeSessionState|canPersistOwnedSessionState|deserializeSessionState)$/],
  'it makes one that is not gone': [[2], /^create$/],
  'buckets are in tests/system/test_storage.sh': [[0], /^(mountBucket|unmountBucket)$/],
}
const [nothing, here, makes, buckets] = Object.keys(why)
// Of a sandbox that is gone there is nothing left to end: that is no error, and it stays gone.
const ends = method => async c => { const s = await fresh(c); await c.end(s.state.sandboxId); assert.equal(await s[method](), undefined); assert.equal(await s.running(), false) }

// c: {client, s: a session, d: one whose sandbox is gone, end, root}; name: [good, bad input, gone]
const session = {
  setArchiveLimits: [async c => { c.s.setArchiveLimits({ maxMembers: 1000 }); c.s.setArchiveLimits(null) }, async c => assert.throws(() => c.s.setArchiveLimits({ maxMembers: -1 })), here],
  createEditor: [async c => assert.equal(typeof c.s.createEditor().createFile, 'function'), here, here],
  supportsPty: [async c => assert.equal(c.s.supportsPty(), true), here, here],
  execCommand: [async c => assert.match(await c.s.execCommand({ cmd: 'echo ä' }), /ä/), async c => failed(c.s.execCommand({ cmd: 'exit 3' })), async c => failed(c.d.execCommand({ cmd: 'true' }))],
  writeStdin: [async c => { const id = await typed(c.s); assert.ok(id); let out = ''; for (let i = 0; i < 40 && !/got y/.test(out); i++) out += await c.s.writeStdin({ sessionId: id, chars: i ? '' : 'y\n', yieldTimeMs: 300 }); assert.match(out, /got y/) }, async c => failed(c.s.writeStdin({ sessionId: 987654, chars: 'x' })), async c => { await failed(c.d.execCommand({ cmd: 'cat', tty: true, yieldTimeMs: 200 })); const s = await fresh(c), id = await typed(s); assert.ok(id); await c.end(s.state.sandboxId); await failed(s.writeStdin({ sessionId: id, chars: 'x\n', yieldTimeMs: 300 })) }],
  viewImage: [async c => { await c.s.materializeEntry({ path: 'p.png', entry: { type: 'file', content: png } }); assert.equal((await c.s.viewImage({ path: 'p.png' })).type, 'image') }, async c => no(c.s.viewImage({ path: 'a.txt' })), async c => no(c.d.viewImage({ path: 'p.png' }))],
  readFile: [async c => assert.equal(text(await c.s.readFile({ path: 'a.txt' })), 'text'), async c => { await no(c.s.readFile({ path: 'none' })); await no(c.s.readFile({ path: '../../etc/passwd' })) }, async c => no(c.d.readFile({ path: 'a.txt' }))],
  pathExists: [async c => equal(c.s.pathExists('a.txt'), true), async c => { assert.equal(await c.s.pathExists('none'), false); await no(c.s.pathExists('../../etc/passwd')) }, async c => no(c.d.pathExists('a.txt'))],
  directoryExists: [async c => equal(c.s.directoryExists('dir'), true), async c => equal(c.s.directoryExists('a.txt'), false), async c => no(c.d.directoryExists('dir'))],
  running: [async c => equal(c.s.running(), true), nothing, async c => equal(c.d.running(), false)],
  resolveExposedPort: [async c => { const e = await c.s.resolveExposedPort(8000).catch(e => e); if (c.ports) assert.match(e.host, new RegExp(`^8000-${c.s.state.sandboxId}`)); else assert.ok(e instanceof Error) }, async c => no(c.s.resolveExposedPort(70000)), here],
  materializeEntry: [async c => { await c.s.materializeEntry({ path: 'm/new', entry: { type: 'file', content: 'x' } }); assert.equal(text(await c.s.readFile({ path: 'm/new' })), 'x') }, async c => no(c.s.materializeEntry({ path: '../out', entry: { type: 'file', content: 'x' } })), async c => no(c.d.materializeEntry({ path: 'x', entry: { type: 'file', content: 'x' } }))],
  applyManifest: [async c => { await c.s.applyManifest(new Manifest({ entries: { 'b.txt': { type: 'file', content: 'b' } } })); assert.equal(text(await c.s.readFile({ path: 'b.txt' })), 'b') }, async c => no(c.s.applyManifest(new Manifest({ entries: { x: { type: 'local_file', src: '/does/not/exist' } } }))), async c => no(c.d.applyManifest(new Manifest({ entries: { y: { type: 'file', content: '' } } })))],
  persistWorkspace: [async c => assert.ok((await c.s.persistWorkspace()).length > 500), nothing, async c => no(c.d.persistWorkspace())],
  hydrateWorkspace: [async c => { const tar = await c.s.persistWorkspace(); await c.s.execCommand({ cmd: 'rm a.txt' }); await c.s.hydrateWorkspace(tar); assert.equal(text(await c.s.readFile({ path: 'a.txt' })), 'text') }, async c => no(c.s.hydrateWorkspace(new TextEncoder().encode('no archive'.repeat(100)))), async c => no(c.d.hydrateWorkspace(await c.s.persistWorkspace()))],
  prepareWorkspaceRoot: [async c => c.s.prepareWorkspaceRoot(), nothing, async c => no(c.d.prepareWorkspaceRoot())],
  mountBucket: [buckets, async c => { await no(c.s.mountBucket({ bucket: 'b', mountPath: '/etc', options: { endpoint: 'http://127.0.0.1:9' } })); await no(c.s.mountBucket({ bucket: 'b', mountPath: 'data', options: {} })) }, async c => no(c.d.mountBucket({ bucket: 'b', mountPath: 'data', options: { endpoint: 'http://127.0.0.1:9' } }))],
  unmountBucket: [buckets, async c => no(c.s.unmountBucket('dir')), async c => no(c.d.unmountBucket('dir'))],
  close: [async c => { const s = await fresh(c); await s.close(); assert.equal(await s.running(), false) }, nothing, ends('close')],
  shutdown: [async c => { const s = await fresh(c); await s.shutdown(); assert.equal(await s.running(), c.ports); await s.delete() }, nothing, ends('shutdown')], // E2B's client ends terminals and mounts alone
  delete: [async c => { const s = await fresh(c); await s.delete(); assert.equal(await s.running(), false) }, nothing, ends('delete')],
}
const state = async c => JSON.parse(JSON.stringify(await c.client.serializeSessionState(c.s.state)))
const client = {
  create: [async c => (await fresh(c)).delete(), async c => no(c.client.create(new Manifest({ entries: { x: { type: 'local_file', src: '/does/not/exist' } } }))), makes],
  serializeSessionState: [async c => assert.equal((await state(c)).sandboxId, c.s.state.sandboxId), here, here],
  canPersistOwnedSessionState: [async c => equal(c.client.canPersistOwnedSessionState(c.s.state), false), here, here],
  canReusePreservedOwnedSession: [async c => equal(c.client.canReusePreservedOwnedSession(c.s.state), !c.ports), nothing, async c => equal(c.client.canReusePreservedOwnedSession(c.d.state), !c.ports)], // the client's own opinion, whoever lives
  deserializeSessionState: [async c => assert.equal((await c.client.deserializeSessionState(await state(c))).sandboxId, c.s.state.sandboxId), async c => { const r = await c.client.deserializeSessionState({ nonsense: 1 }).then(x => c.client.resume(x)).catch(e => e); assert.ok(r instanceof Error || r.state.sandboxId !== c.s.state.sandboxId); await r.delete?.() }, here],
  // The Cloudflare client refuses by itself to take up what was serialised.
  resume: [async c => { const again = await c.client.resume(await c.client.deserializeSessionState(await state(c))).catch(e => e); if (c.client.serializedSessionStateRequiresFreshCreation) assert.ok(again instanceof Error); else assert.equal(text(await again.readFile({ path: 'a.txt' })), 'text') }, async c => no(c.client.resume({})), async c => { if (!c.ports) return no(c.client.resume(c.d.state)); const r = await c.client.resume(c.d.state); assert.notEqual(r.state.sandboxId, c.d.state.sandboxId); assert.equal(await r.running(), true); await r.delete() }], // E2B's makes another
}
const editor = {
  createFile: [async c => { await c.s.createEditor().createFile({ type: 'create_file', path: 'e1', diff: '+one' }); assert.match(text(await c.s.readFile({ path: 'e1' })), /one/) }, async c => no(c.s.createEditor().createFile({ type: 'create_file', path: '../../e', diff: '+x' })), async c => no(c.d.createEditor().createFile({ type: 'create_file', path: 'e', diff: '+x' }))],
  updateFile: [async c => { await c.s.createEditor().createFile({ type: 'create_file', path: 'e2', diff: '+one\n+two' }); await c.s.createEditor().updateFile({ type: 'update_file', path: 'e2', diff: '@@\n one\n-two\n+three' }); assert.match(text(await c.s.readFile({ path: 'e2' })), /three/) }, async c => no(c.s.createEditor().updateFile({ type: 'update_file', path: 'a.txt', diff: '@@\n-not there\n+x' })), async c => no(c.d.createEditor().updateFile({ type: 'update_file', path: 'a.txt', diff: '@@\n-text\n+x' }))],
  deleteFile: [async c => { await c.s.materializeEntry({ path: 'e3', entry: { type: 'file', content: '' } }); await c.s.createEditor().deleteFile({ type: 'delete_file', path: 'e3' }); assert.equal(await c.s.pathExists('e3'), false) }, async c => no(c.s.createEditor().deleteFile({ type: 'delete_file', path: '../../etc/passwd' })), async c => no(c.d.createEditor().deleteFile({ type: 'delete_file', path: 'a.txt' }))],
}

const at = dirname(createRequire(import.meta.url).resolve('@openai/agents-extensions/sandbox/e2b'))
function declared(file, name) {
  const source = readFileSync(join(at, '..', file), 'utf8'), body = new RegExp(`^export declare (?:abstract )?class ${name}\\b[^]*?^\\}`, 'm').exec(source)?.[0]
  assert.ok(body, `${name} is not in ${file}`)
  return [...body.matchAll(/^ {4}((?:private |protected |static |abstract |async |readonly )*)(\w+)(?:<[^(]*>)?\(/gm)].filter(m => !/private|protected/.test(m[1]) && m[2] !== 'constructor').map(m => m[2])
}
const all = {
  E2BSandbox: { session: () => [...declared('e2b/sandbox.d.ts', 'E2BSandboxSession'), ...declared('shared/sessionBase.d.ts', 'RemoteSandboxSessionBase')], client: () => declared('e2b/sandbox.d.ts', 'E2BSandboxClient') },
  CloudflareSandbox: { session: () => declared('cloudflare/sandbox.d.ts', 'CloudflareSandboxSession'), client: () => declared('cloudflare/sandbox.d.ts', 'CloudflareSandboxClient') },
}
const used = name => ({ session: [...new Set(all[name].session())], client: [...new Set(all[name].client())], editor: declared('shared/editor.d.ts', 'RemoteSandboxEditor') })
const tables = { session, client, editor }
test('every method that is declared has its cases, and no other', () => {
  const seen = { session: new Set(), client: new Set(), editor: new Set() }
  for (const name of Object.keys(clients))
    for (const [kind, list] of Object.entries(used(name))) {
      assert.ok(list.length >= 3, `${name} ${kind}: only ${list}`)
      assert.deepEqual(list.filter(n => !tables[kind][n]), [], `${name} ${kind}`)
      for (const n of list) seen[kind].add(n)
    }
  for (const [kind, table] of Object.entries(tables)) {
    assert.deepEqual(Object.keys(table).filter(n => !seen[kind].has(n)), [], kind)
    for (const [name, three] of Object.entries(table)) {
      assert.equal(three.length, 3, name)
      for (const [i, one] of three.entries())
        if (typeof one !== 'function') assert.ok(why[one] && why[one][0].includes(i) && why[one][1].test(name), `${kind} ${name}: ${['good', 'bad', 'gone'][i]} has neither a case nor a reason that may be: ${one}`)
    }
  }
})
for (const [name, how] of Object.entries(clients))
  test(`${name}: good, bad, gone`, async t => {
    const c = { client: how.make(), end: how.end, root: how.root, ports: name === 'E2BSandbox' }
    c.s = await fresh(c)
    c.d = await fresh(c)
    await c.end(c.d.state.sandboxId)
    t.after(() => c.s.delete().catch(() => {}))
    for (const [kind, list] of Object.entries(used(name)))
      for (const method of list)
        for (const [i, what] of ['good', 'bad', 'gone'].entries())
          if (typeof tables[kind][method][i] === 'function') await t.test(`${kind} ${method}: ${what}`, { timeout: 60_000 }, () => tables[kind][method][i](c))
  })
