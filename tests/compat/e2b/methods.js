// SPDX-License-Identifier: Apache-2.0
// Every public method that the packages' type declarations have: one good case, one with bad input, one with a sandbox that is gone. A method
// without its three cases fails the first test, so that a new version of a package cannot bring one unseen; so does a case that is left out without one of
// the few reasons there are.
import { test } from 'node:test'
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { NotFoundError, Sandbox, Volume, Secret } from '@e2b/code-interpreter'

const soon = { requestTimeoutMs: 2000 } // an error leaves its timer behind, which node waits for
const equal = async (p, want) => assert.deepEqual(await p, want), no = p => assert.rejects(p), ok = async p => assert.ok(await p)
const text = s => new TextEncoder().encode(s)
let b, d, volume, lost, snap // a sandbox, one that is gone, a volume, one that is gone, …
const running = async () => b.commands.run('cat', { background: true, stdin: true })
const terminal = async () => b.pty.create({ cols: 80, rows: 24, onData() {} })
const ended = async p => { const h = await p; await h.kill(); await h.wait().catch(() => {}); return h }

const dying = async f => { const s = await Sandbox.create({ timeoutMs: 60_000, requestTimeoutMs: 4000 }), made = await f(s); await s.kill(); return made }
const orphan = () => dying(s => s.commands.run('cat', { background: true, stdin: true })) // a command's handle that outlived its sandbox
const dead = e => /not found|not running|killed/.test(e.message)

// Why there can be no such case: which of the three it may stand for, and for which methods.
const why = {
  'nothing is given that could be bad': [[1], /^(WatchHandle\.stop|Commands\.list|CommandHandle\.disconnect|Sandbox\.(kill|pause|betaPause|getInfo|isRunning|listCodeContexts)|Volume\.static list)$/],
  'no server is asked': [[1, 2], /^(Sandbox\.(getHost|getMcpUrl)|Secret\.static (fill|iamToken))$/],
  'it is of no sandbox': [[2], /^(Secret\.static|SecretPaginator|Volume\.static create|SandboxApi\.static deleteSnapshot)\b/],
  'abstract: those that are made of it have theirs': [[0, 1, 2], /^Paginator\./],
}
const [nothing, here, apartFrom, abstract] = Object.keys(why)

// name: [good, bad input, gone]
const cases = {
  'Filesystem.exists': [() => equal(b.files.exists('/etc'), true), () => no(b.files.exists('a/\u0000b')), () => no(d.files.exists('/etc'))],
  'Filesystem.getInfo': [async () => equal(b.files.getInfo('/etc').then(i => i.type), 'dir'), () => no(b.files.getInfo('missing')), () => no(d.files.getInfo('/etc'))],
  'Filesystem.list': [() => ok(b.files.list('/')), () => no(b.files.list('/etc/passwd')), () => no(d.files.list('/'))],
  'Filesystem.makeDir': [() => equal(b.files.makeDir('m/n'), true), () => no(b.files.makeDir('/etc/passwd')), () => no(d.files.makeDir('m'))],
  'Filesystem.read': [() => ok(b.files.read('/etc/passwd')), () => no(b.files.read('/etc')), () => no(d.files.read('/etc/passwd'))],
  'Filesystem.remove': [async () => { await b.files.write('gone', ''); await b.files.remove('gone') }, () => no(b.files.remove('/usr/bin/env')), () => no(d.files.remove('x'))],
  'Filesystem.rename': [async () => { await b.files.write('r1', ''); await equal(b.files.rename('r1', 'r2').then(i => i.name), 'r2') }, () => no(b.files.rename('missing', 'x')), () => no(d.files.rename('a', 'b'))],
  'Filesystem.watchDir': [async () => (await b.files.watchDir('/home/user', () => {})).stop(), () => no(b.files.watchDir('missing', () => {})), () => no(d.files.watchDir('/', () => {}))],
  'Filesystem.write': [() => equal(b.files.write('w', 'x').then(i => i.path), '/home/user/w'), () => no(b.files.write('/etc', 'x')), () => no(d.files.write('w', 'x'))],
  'Filesystem.writeFiles': [() => equal(b.files.writeFiles([{ path: 'a1', data: '1' }, { path: 'a2', data: '2' }]).then(l => l.length), 2), () => no(b.files.writeFiles([{ path: 'same', data: '' }, { path: 'same', data: '' }])), () => no(d.files.writeFiles([{ path: 'a', data: '' }]))],
  'WatchHandle.stop': [async () => { const w = await b.files.watchDir('/home/user', () => {}); await w.stop(); await w.stop() }, nothing, async () => (await dying(s => s.files.watchDir('/home/user', () => {}))).stop()],
  'Commands.run': [() => equal(b.commands.run('echo x').then(r => r.stdout), 'x\n'), () => no(b.commands.run('exit 3')), () => no(d.commands.run('true'))],
  'Commands.list': [async () => { const h = await running(); assert.ok((await b.commands.list()).some(p => p.pid === h.pid)); await h.kill() }, nothing, () => no(d.commands.list())],
  'Commands.connect': [async () => { const h = await running(), c = await b.commands.connect(h.pid); await h.kill(); await no(c.wait()) }, () => no(b.commands.connect(999999)), () => no(d.commands.connect(1))],
  'Commands.kill': [async () => equal(b.commands.kill((await running()).pid), true), () => equal(b.commands.kill(999999), false), () => no(d.commands.kill(1))],
  'Commands.sendStdin': [async () => { const h = await running(); await b.commands.sendStdin(h.pid, 'in'); await h.kill() }, () => no(b.commands.sendStdin(999999, 'x')), () => no(d.commands.sendStdin(1, 'x'))],
  'Commands.closeStdin': [async () => { const h = await running(); await b.commands.closeStdin(h.pid); await equal(h.wait().then(r => r.exitCode), 0) }, () => no(b.commands.closeStdin(999999)), () => no(d.commands.closeStdin(1))],
  'CommandHandle.wait': [async () => equal((await b.commands.run('true', { background: true })).wait().then(r => r.exitCode), 0), async () => no((await b.commands.run('false', { background: true })).wait()), async () => assert.rejects((await orphan()).wait(), dead)],
  'CommandHandle.disconnect': [async () => { const h = await running(); await h.disconnect(); await ok(b.commands.kill(h.pid)) }, nothing, async () => { const h = await orphan(); await h.disconnect(); await no(h.wait()) }],
  'CommandHandle.kill': [async () => equal((await running()).kill(), true), async () => equal((await ended(running())).kill(), false), async () => assert.rejects((await orphan()).kill(), dead)],
  'CommandHandle.sendStdin': [async () => { const h = await running(); await h.sendStdin('a\n'); await h.closeStdin(); await equal(h.wait().then(r => r.stdout), 'a\n') }, async () => no((await ended(running())).sendStdin('x')), async () => assert.rejects((await orphan()).sendStdin('x'), dead)],
  'CommandHandle.closeStdin': [async () => { const h = await running(); await h.closeStdin(); await h.wait() }, async () => { const t = await terminal(); await no(b.commands.closeStdin(t.pid)); await ended(t) }, async () => assert.rejects((await orphan()).closeStdin(), dead)],
  'Pty.create': [async () => ended(terminal()), () => no(b.pty.create({ cols: 80, rows: 24, onData() {}, cwd: '/nowhere' })), () => no(d.pty.create({ cols: 80, rows: 24, onData() {} }))],
  'Pty.connect': [async () => { const t = await terminal(), c = await b.pty.connect(t.pid, { onData() {} }); await c.disconnect(); await ended(t) }, () => no(b.pty.connect(999999, { onData() {} })), () => no(d.pty.connect(1, { onData() {} }))],
  'Pty.sendInput': [async () => { const t = await terminal(); await b.pty.sendInput(t.pid, text('exit 0\n')); await equal(t.wait().then(r => r.exitCode), 0) }, async () => { await no(b.pty.sendInput(999999, text('x'))); await assert.rejects(b.pty.sendInput((await ended(terminal())).pid, text('x')), NotFoundError) }, () => no(d.pty.sendInput(1, text('x')))],
  'Pty.resize': [async () => { const t = await terminal(); await b.pty.resize(t.pid, { cols: 100, rows: 30 }); await ended(t) }, async () => { await no(b.pty.resize(999999, { cols: 1, rows: 1 })); await assert.rejects(b.pty.resize((await ended(terminal())).pid, { cols: 1, rows: 1 }), NotFoundError) }, () => no(d.pty.resize(1, { cols: 1, rows: 1 }))],
  'Pty.kill': [async () => equal(b.pty.kill((await terminal()).pid), true), () => equal(b.pty.kill(999999), false), () => no(d.pty.kill(1))],
  'Sandbox.static create': [async () => ok((await Sandbox.create({ timeoutMs: 30_000 })).kill()), () => no(Sandbox.create('no-such-template')), () => no(Sandbox.create(`${d.sandboxId}:default`))],
  'Sandbox.static connect': [async () => equal(Sandbox.connect(b.sandboxId).then(s => s.sandboxId), b.sandboxId), () => no(Sandbox.connect('x/../y')), () => no(Sandbox.connect(d.sandboxId))],
  'Sandbox.static list': [async () => ok((await Sandbox.list().nextItems()).some(s => s.sandboxId === b.sandboxId)), () => no(Sandbox.list({ limit: 100_000 }).nextItems()), async () => ok(!(await Sandbox.list().nextItems()).some(s => s.sandboxId === d.sandboxId))],
  'Sandbox.static fork': [async () => { const [f] = await Sandbox.fork(b.sandboxId); await f.kill() }, () => no(Sandbox.fork(b.sandboxId, { count: 1000 })), () => no(Sandbox.fork(d.sandboxId))],
  'SandboxApi.static kill': [async () => equal(Sandbox.kill((await Sandbox.create({ timeoutMs: 30_000 })).sandboxId), true), () => equal(Sandbox.kill('nobody'), false), () => equal(Sandbox.kill(d.sandboxId), false)],
  'SandboxApi.static getInfo': [() => equal(Sandbox.getInfo(b.sandboxId).then(i => i.state), 'running'), () => no(Sandbox.getInfo('nobody')), () => no(Sandbox.getInfo(d.sandboxId))],
  'SandboxApi.static getFullInfo': [() => equal(Sandbox.getFullInfo(b.sandboxId).then(i => i.sandboxId), b.sandboxId), () => no(Sandbox.getFullInfo('nobody')), () => no(Sandbox.getFullInfo(d.sandboxId))],
  'SandboxApi.static getMetrics': [() => ok(Sandbox.getMetrics(b.sandboxId).then(l => l.length >= 1)), () => no(Sandbox.getMetrics('nobody')), () => no(Sandbox.getMetrics(d.sandboxId))],
  'SandboxApi.static setTimeout': [() => Sandbox.setTimeout(b.sandboxId, 300_000), () => no(Sandbox.setTimeout(b.sandboxId, -5000)), () => no(Sandbox.setTimeout(d.sandboxId, 1000))],
  'SandboxApi.static updateNetwork': [() => Sandbox.updateNetwork(b.sandboxId, { denyOut: ['192.0.2.1'] }), () => no(Sandbox.updateNetwork(b.sandboxId, { denyOut: ['?'] })), () => no(Sandbox.updateNetwork(d.sandboxId, {}))],
  'SandboxApi.static pause': [async () => { await ok(Sandbox.pause(b.sandboxId)); await Sandbox.connect(b.sandboxId) }, () => no(Sandbox.pause('nobody')), () => no(Sandbox.pause(d.sandboxId))],
  'SandboxApi.static betaPause': [async () => { await ok(Sandbox.betaPause(b.sandboxId)); await Sandbox.connect(b.sandboxId) }, () => no(Sandbox.betaPause('nobody')), () => no(Sandbox.betaPause(d.sandboxId))],
  'SandboxApi.static createSnapshot': [async () => { const s = await Sandbox.createSnapshot(b.sandboxId); await ok(Sandbox.deleteSnapshot(s.snapshotId)) }, () => no(Sandbox.createSnapshot('nobody')), () => no(Sandbox.createSnapshot(d.sandboxId))],
  'SandboxApi.static listSnapshots': [async () => ok((await Sandbox.listSnapshots({ sandboxId: b.sandboxId }).nextItems()).some(s => s.snapshotId === snap)), () => no(Sandbox.listSnapshots({ limit: 100_000 }).nextItems()), () => equal(Sandbox.listSnapshots({ sandboxId: d.sandboxId }).nextItems(), [])],
  'SandboxApi.static deleteSnapshot': [async () => equal(Sandbox.deleteSnapshot((await b.createSnapshot()).snapshotId), true), () => equal(Sandbox.deleteSnapshot('none:default'), false), apartFrom],
  'SandboxPaginator.nextItems': [() => ok(Sandbox.list({ limit: 1 }).nextItems()), () => no(Sandbox.list({ nextToken: 'x', limit: -1 }).nextItems()), async () => equal(Sandbox.list({ query: { metadata: await dying(async s => ({ never: s.sandboxId })) } }).nextItems(), [])],
  'SnapshotPaginator.nextItems': [() => ok(b.listSnapshots().nextItems()), () => no(b.listSnapshots({ limit: -1 }).nextItems()), () => equal(d.listSnapshots().nextItems(), [])],
  'SecretPaginator.nextItems': [() => ok(Secret.list().nextItems()), () => no(Secret.list({ limit: -1 }).nextItems()), apartFrom],
  'Paginator.nextItems': [abstract, abstract, abstract],
  'Sandbox.connect': [async () => equal((await b.connect()).sandboxId, b.sandboxId), () => no(b.connect({ timeoutMs: -5000 })), () => no(d.connect())],
  'Sandbox.kill': [async () => equal((await Sandbox.create({ timeoutMs: 30_000 })).kill(), true), nothing, () => equal(d.kill(), false)],
  'Sandbox.pause': [async () => { await ok(b.pause()); await b.connect() }, nothing, () => no(d.pause())],
  'Sandbox.betaPause': [async () => { await ok(b.betaPause()); await b.connect() }, nothing, () => no(d.betaPause())],
  'Sandbox.fork': [async () => { const l = await b.fork({ count: 2 }); assert.equal(l.length, 2); for (const f of l) await f.kill() }, () => no(b.fork({ count: 0 })), () => no(d.fork())],
  'Sandbox.createSnapshot': [async () => { const s = await b.createSnapshot({ name: 'named' }); assert.deepEqual(s.names, ['named']); await Sandbox.deleteSnapshot(s.snapshotId) }, () => no(b.createSnapshot({ name: 'a\nb' })), () => no(d.createSnapshot())],
  'Sandbox.listSnapshots': [async () => ok((await b.listSnapshots().nextItems()).some(s => s.snapshotId === snap)), () => no(b.listSnapshots({ limit: -1 }).nextItems()), () => equal(d.listSnapshots().nextItems(), [])],
  'Sandbox.getInfo': [() => equal(b.getInfo().then(i => i.templateId), 'base'), nothing, () => no(d.getInfo())],
  'Sandbox.getMetrics': [() => equal(b.getMetrics({ end: new Date(1000) }), []), () => no(b.getMetrics({ start: new Date(), end: new Date(1000) })), () => no(d.getMetrics())],
  'Sandbox.isRunning': [() => equal(b.isRunning(), true), nothing, () => equal(d.isRunning(), false)],
  'Sandbox.setTimeout': [() => b.setTimeout(300_000), () => no(b.setTimeout(-1000)), () => no(d.setTimeout(1000))],
  'Sandbox.updateNetwork': [() => b.updateNetwork({ allowInternetAccess: false }), () => no(b.updateNetwork({ allowOut: ['example.com'] })), () => no(d.updateNetwork({}))],
  'Sandbox.downloadUrl': [async () => ok((await fetch(await b.downloadUrl('/etc/passwd'))).ok), async () => equal(fetch((await b.downloadUrl('/etc/passwd')) + 'x').then(r => r.status), 401), async () => equal(fetch(await d.downloadUrl('/etc/passwd')).then(r => r.ok), false)],
  'Sandbox.uploadUrl': [async () => { const f = new FormData(); f.append('file', new Blob(['x'])); await ok((await fetch(await b.uploadUrl('up'), { method: 'POST', body: f })).ok) }, async () => equal(fetch(await b.uploadUrl('up'), { method: 'POST', body: 'x' }).then(r => r.status), 400), async () => equal(fetch(await d.uploadUrl('up'), { method: 'POST', body: 'x' }).then(r => r.ok), false)],
  'Sandbox.getHost': [async () => assert.match(b.getHost(80), new RegExp(`^80-${b.sandboxId}\\.`)), here, here],
  'Sandbox.getMcpUrl': [async () => assert.match(b.getMcpUrl(), /^https:\/\/50005-.*\/mcp$/), here, here],
  'Sandbox.getMcpToken': [async () => { await b.files.write('/etc/mcp-gateway/.token', 'tok', { user: 'root' }); await equal(b.getMcpToken(), 'tok') }, async () => { await b.commands.run('rm /etc/mcp-gateway/.token', { user: 'root' }); await no((await Sandbox.connect(b.sandboxId)).getMcpToken()) }, () => no(d.getMcpToken())], // no gateway wrote one
  'Sandbox.runCode': [() => equal(b.runCode('1+1').then(r => r.text), '2'), () => no(b.runCode('1', { language: 'cobol', timeoutMs: 2000, ...soon })), () => no(d.runCode('1', { timeoutMs: 2000, ...soon }))],
  'Sandbox.createCodeContext': [async () => b.removeCodeContext(await b.createCodeContext()), () => no(b.createCodeContext({ cwd: '/nowhere', ...soon })), () => no(d.createCodeContext())],
  'Sandbox.removeCodeContext': [async () => b.removeCodeContext((await b.createCodeContext()).id), () => no(b.removeCodeContext('nobody')), () => no(d.removeCodeContext('x'))],
  'Sandbox.listCodeContexts': [() => ok(b.listCodeContexts()), nothing, () => no(d.listCodeContexts())],
  'Sandbox.restartCodeContext': [async () => { const c = await b.createCodeContext(); await b.restartCodeContext(c); await b.removeCodeContext(c) }, () => no(b.restartCodeContext('nobody')), () => no(d.restartCodeContext('x'))],
  'Volume.static create': [async () => { await Volume.create('m1'); await Volume.destroy('m1') }, () => no(Volume.create('a b')), apartFrom],
  'Volume.static connect': [() => equal(Volume.connect('methods').then(v => v.name), 'methods'), () => no(Volume.connect('none')), () => no(Volume.connect(lost.volumeId))],
  'Volume.static getInfo': [() => equal(Volume.getInfo('methods').then(v => v.name), 'methods'), () => no(Volume.getInfo('none')), () => no(Volume.getInfo(lost.volumeId))],
  'Volume.static list': [async () => ok((await Volume.list()).some(v => v.name === 'methods')), nothing, async () => ok(!(await Volume.list()).some(v => v.volumeId === lost.volumeId))],
  'Volume.static destroy': [async () => { await Volume.create('m2'); await equal(Volume.destroy('m2'), true) }, () => equal(Volume.destroy('none'), false), () => equal(Volume.destroy(lost.volumeId), false)],
  'Volume.exists': [() => equal(volume.exists('/'), true), () => equal(volume.exists('/none'), false), () => equal(lost.exists('/'), false)],
  'Volume.getInfo': [() => equal(volume.getInfo('/').then(i => i.type), 'directory'), () => no(volume.getInfo('/none')), () => no(lost.getInfo('/'))],
  'Volume.list': [() => ok(volume.list('/')), () => no(volume.list('/none')), () => no(lost.list('/'))],
  'Volume.makeDir': [() => equal(volume.makeDir('/d1').then(i => i.path), '/d1'), () => no(volume.makeDir('/d1')), () => no(lost.makeDir('/d'))],
  'Volume.readFile': [async () => { await volume.writeFile('/f', 'x'); await equal(volume.readFile('/f'), 'x') }, () => no(volume.readFile('/')), () => no(lost.readFile('/f'))],
  'Volume.writeFile': [() => equal(volume.writeFile('/e', '').then(i => i.size), 0), () => no(volume.writeFile('/', 'x')), () => no(lost.writeFile('/f', 'x'))],
  'Volume.remove': [async () => { await volume.writeFile('/r', ''); await volume.remove('/r') }, () => no(volume.remove('/none')), () => no(lost.remove('/f'))],
  'Volume.updateMetadata': [() => equal(volume.updateMetadata('/', { mode: 0o755 }).then(i => i.mode), 0o755), () => no(volume.updateMetadata('/', { mode: 0o1000000 })), () => no(lost.updateMetadata('/', { mode: 0o755 }))],
  'Secret.static create': [async () => { await Secret.create('S1', 'v'); await Secret.destroy('S1') }, () => no(Secret.create('a b', 'v')), apartFrom],
  'Secret.static update': [async () => { await Secret.create('S2', 'v'); await equal(Secret.update('S2', 'w').then(s => s.version), 2); await Secret.destroy('S2') }, () => no(Secret.update('none', 'v')), apartFrom],
  'Secret.static getInfo': [async () => { await Secret.create('S3', 'v'); await equal(Secret.getInfo('S3').then(s => s.name), 'S3'); await Secret.destroy('S3') }, () => no(Secret.getInfo('none')), apartFrom],
  'Secret.static exists': [() => equal(Secret.exists('none'), false), () => no(Secret.exists('a b')), apartFrom],
  'Secret.static destroy': [async () => { await Secret.create('S4', 'v'); await equal(Secret.destroy('S4'), true) }, () => equal(Secret.destroy('none'), false), apartFrom],
  'Secret.static list': [() => ok(Secret.list().nextItems()), () => no(Secret.list({ limit: 0.5 }).nextItems()), apartFrom],
  'Secret.static fill': [async () => assert.equal(Secret.fill('x-y'), '${e2b.secrets.x-y}'), here, here],
  'Secret.static iamToken': [async () => ok(Secret.iamToken('x')), () => no(Sandbox.create({ iam: { tokens: { x: { audience: 'a', tokenType: 'JWT-SVID' } } } })), here],
  'Git.init': [() => b.git.init('repo', { initialBranch: 'main' }), () => no(b.git.init('/etc/passwd')), () => no(d.git.init('r'))],
  'Git.configureUser': [() => b.git.configureUser('N', 'n@example.com'), () => no(b.git.configureUser('', '')), () => no(d.git.configureUser('N', 'n@e'))],
  'Git.add': [async () => { await b.files.write('repo/f', '1'); await b.git.add('repo') }, () => no(b.git.add('nowhere')), () => no(d.git.add('r'))],
  'Git.commit': [() => b.git.commit('repo', 'first'), () => no(b.git.commit('repo', 'nothing to commit')), () => no(d.git.commit('r', 'm'))],
  'Git.status': [() => equal(b.git.status('repo').then(s => s.currentBranch), 'main'), () => no(b.git.status('/tmp')), () => no(d.git.status('r'))],
  'Git.branches': [() => equal(b.git.branches('repo').then(l => l.branches), ['main']), () => no(b.git.branches('/tmp')), () => no(d.git.branches('r'))],
  'Git.createBranch': [() => b.git.createBranch('repo', 'side'), () => no(b.git.createBranch('repo', 'main')), () => no(d.git.createBranch('r', 'x'))],
  'Git.checkoutBranch': [() => b.git.checkoutBranch('repo', 'main'), () => no(b.git.checkoutBranch('repo', 'none')), () => no(d.git.checkoutBranch('r', 'x'))],
  'Git.deleteBranch': [() => b.git.deleteBranch('repo', 'side'), () => no(b.git.deleteBranch('repo', 'none')), () => no(d.git.deleteBranch('r', 'x'))],
  'Git.remoteAdd': [async () => { await b.git.init('bare', { bare: true }); await b.git.remoteAdd('repo', 'origin', '/home/user/bare') }, () => no(b.git.remoteAdd('repo', 'origin', '/x')), () => no(d.git.remoteAdd('r', 'o', 'u'))],
  'Git.remoteGet': [() => equal(b.git.remoteGet('repo', 'origin'), '/home/user/bare'), () => equal(b.git.remoteGet('repo', 'none'), undefined), () => no(d.git.remoteGet('r', 'o'))],
  'Git.push': [() => b.git.push('repo', { remote: 'origin', branch: 'main', setUpstream: true }), () => no(b.git.push('repo', { remote: 'none', branch: 'main' })), () => no(d.git.push('r'))],
  'Git.pull': [() => b.git.pull('repo', { remote: 'origin', branch: 'main' }), () => no(b.git.pull('repo', { remote: 'none', branch: 'main' })), () => no(d.git.pull('r'))],
  'Git.clone': [() => b.git.clone('/home/user/bare', { path: 'copy' }), () => no(b.git.clone('/nowhere', { path: 'c2' })), () => no(d.git.clone('/x'))],
  'Git.reset': [() => b.git.reset('repo', { mode: 'hard' }), () => no(b.git.reset('repo', { target: 'none' })), () => no(d.git.reset('r'))],
  'Git.restore': [() => b.git.restore('repo', { paths: ['f'] }), () => no(b.git.restore('repo', { paths: ['none'] })), () => no(d.git.restore('r', { paths: ['f'] }))],
  'Git.setConfig': [() => b.git.setConfig('my.key', 'v', { scope: 'local', path: 'repo' }), () => no(b.git.setConfig('nokey', 'v')), () => no(d.git.setConfig('a.b', 'v'))],
  'Git.getConfig': [() => equal(b.git.getConfig('my.key', { scope: 'local', path: 'repo' }), 'v'), () => equal(b.git.getConfig('no.such'), undefined), () => no(d.git.getConfig('a.b'))],
  'Git.dangerouslyAuthenticate': [() => b.git.dangerouslyAuthenticate({ username: 'u', password: 'p' }), () => no(b.git.dangerouslyAuthenticate({ username: '', password: '' })), () => no(d.git.dangerouslyAuthenticate({ username: 'u', password: 'p' }))],
}
// What asks no server: clients' own insides, and what only tells of an answer. The builder's calls are templates.js'.
const apart = /^(ConnectionConfig|VolumeConnectionConfig|ReadyCmd|LogEntry|TemplateBase|OutputMessage|Result|Execution)\./

function declared(file) {
  const found = new Set(), source = readFileSync(file, 'utf8')
  for (const [, name, body] of source.matchAll(/^declare (?:abstract )?class (\w+)[^\n{]*\{\n([\s\S]*?)^\}/gm))
    for (const [, words, method] of body.matchAll(/^ {2}((?:private |protected |static |abstract |async )*)(\w+)(?:<[^(]*>)?\(/gm))
      if (!/private|protected/.test(words) && method !== 'constructor') found.add(`${name}.${/static/.test(words) ? 'static ' : ''}${method}`)
  return [...found].filter(n => !apart.test(n))
}
test('every method that is declared has its cases, and no other', () => {
  const at = f => new URL(`node_modules/${f}`, import.meta.url)
  const all = [...new Set([...declared(at('e2b/dist/index.d.ts')), ...declared(at('@e2b/code-interpreter/dist/index.d.ts'))])]
  assert.ok(all.length > 90, `only ${all.length} were found`)
  assert.deepEqual(all.filter(n => !cases[n]), [])
  assert.deepEqual(Object.keys(cases).filter(n => !all.includes(n)), [])
  for (const [name, three] of Object.entries(cases)) {
    assert.equal(three.length, 3, name)
    for (const [i, one] of three.entries())
      if (typeof one !== 'function') assert.ok(why[one] && why[one][0].includes(i) && why[one][1].test(name), `${name}: ${['good', 'bad', 'gone'][i]} has neither a case nor a reason that may be: ${one}`)
  }
})
test('good, bad, gone', async t => {
  b = await Sandbox.create('base', { timeoutMs: 300_000 })
  d = await Sandbox.create({ timeoutMs: 60_000, requestTimeoutMs: 4000 })
  await d.kill()
  volume = await Volume.create('methods')
  lost = await Volume.create('lost')
  await Volume.destroy('lost')
  snap = (await b.createSnapshot()).snapshotId
  t.after(async () => { await b.kill(); await Volume.destroy('methods'); await Sandbox.deleteSnapshot(snap) })
  for (const [name, three] of Object.entries(cases))
    for (const [i, what] of ['good', 'bad', 'gone'].entries())
      if (typeof three[i] === 'function') await t.test(`${name}: ${what}`, { timeout: 60_000 }, three[i])
})
