// SPDX-License-Identifier: Apache-2.0
// The SDK's template builder: steps, files by their hash, logs, tags, start and ready commands, what goes wrong.
import { test, after } from 'node:test'
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createHmac } from 'node:crypto'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Sandbox, Template, waitForFile, BuildError } from 'e2b'
import { Sandbox as Interpreter } from '@e2b/code-interpreter'

const dir = mkdtempSync(`${tmpdir()}/e2b-template-`), alive = []
const make = async (...o) => { const s = await Sandbox.create(...o); alive.push(s); return s }
after(async () => { for (const s of alive) await s.kill().catch(() => {}); rmSync(dir, { recursive: true }) })
mkdirSync(`${dir}/sub/deep`, { recursive: true })
writeFileSync(`${dir}/sub/a.txt`, 'file a')
writeFileSync(`${dir}/sub/deep/ä b`, 'deep')
writeFileSync(`${dir}/run.sh`, '#!/bin/sh\necho ran\n', { mode: 0o755 })
symlinkSync('a.txt', `${dir}/sub/link`)

test('a template from steps, and a sandbox of it', async () => {
  const logs = []
  const t = Template({ fileContextPath: dir }).fromBaseImage()
    .setEnvs({ GREETING: 'hello you', PLAIN: '1' })
    .runCmd('echo "$GREETING" > greeting; id -un > who')
    .copy('sub/', 'things/')
    .copy('run.sh', '/home/user/bin/', { mode: 0o700 })
    .setWorkdir('/home/user/things')
    .runCmd(['pwd > where', 'echo out; echo err >&2'])
    .makeDir('made').rename('made', 'moved').makeSymlink('a.txt', 'second')
  const info = await Template.build(t, 'compat-one', { cpuCount: 1, memoryMB: 512, onBuildLogs: l => { logs.push(l) } })
  assert.equal(info.name, 'compat-one')
  assert.ok(logs.some(l => /^out$/.test(l.message)), logs.map(l => l.message).join('\n'))
  assert.equal(await Template.exists('compat-one'), true)
  assert.equal(await Template.exists('compat-none'), false)
  const s = await make('compat-one', { timeoutMs: 60_000 })
  const r = await s.commands.run('pwd; cat ../greeting ../who where a.txt link second; echo "$GREETING"; ls -d moved; ../bin/run.sh; cat "deep/ä b"; nproc')
  assert.equal(r.stdout, '/home/user/things\nhello you\nuser\n/home/user/things\nfile afile afile ahello you\nmoved\nran\ndeep1\n')
  assert.equal((await s.getInfo()).templateId, 'compat-one')
  assert.equal((await s.files.getInfo('/home/user/bin/run.sh')).mode, 0o700)
})
test('the second time steps and files are there already', async () => {
  const logs = []
  const t = Template({ fileContextPath: dir }).fromTemplate('compat-one').copy('sub/a.txt', 'more.txt').runCmd('cat more.txt > copy')
  await Template.build(t, 'compat-two')
  await Template.build(t, 'compat-two', { onBuildLogs: l => { logs.push(l.message) } })
  assert.ok(logs.some(l => /CACHED/.test(l)), logs.join('\n'))
  const s = await make('compat-two', { timeoutMs: 60_000 })
  assert.equal(await s.files.read('/home/user/things/copy'), 'file a')
})
test('a start command runs in each sandbox, and is waited for', async () => {
  const t = Template().fromBaseImage().setStartCmd('sleep 0.5; touch /tmp/ready; exec sleep 1000', waitForFile('/tmp/ready'))
  await Template.build(t, 'compat-start')
  const s = await make('compat-start', { timeoutMs: 60_000 })
  assert.equal(await s.files.exists('/tmp/ready'), true)
  assert.ok((await s.commands.list()).some(p => /sleep 1000/.test(`${p.cmd} ${p.args.join(' ')}`)))
})
test('an interpreter that a template wants comes up with its sandboxes, and with those of what is built on it', async () => {
  const api = `${process.env.E2B_API_URL}/api/v1/builds`, headers = { authorization: `Bearer ${process.env.E2B_API_KEY}`, 'content-type': 'application/json' }
  const { id } = await (await fetch(`${api}?name=compat-warm`, { method: 'POST', headers, body: JSON.stringify({ from: 'host', run: ['true'], interpreter: ['python', 'cobol'] }) })).json()
  await (await fetch(`${api}/${id}/log`, { headers })).text() // until it ends
  await Template.build(Template().fromTemplate('compat-warm').runCmd('true'), 'compat-warmer')
  const services = (s, how) => fetch(`${process.env.E2B_API_URL}/api/v1/sandboxes/${s.sandboxId}/services`, { headers, ...how }), units = async s => (await (await services(s)).json()).items
  for (const [name, n] of [['compat-warm', 1], ['compat-warmer', 1], ['compat-start', 0]]) {
    const s = await Interpreter.create(name, { timeoutMs: 60_000 }), kernels = async () => (await s.commands.run('pgrep -f kernel[.]py || true')).stdout.trim().split('\n').filter(Boolean)
    alive.push(s)
    assert.deepEqual((await units(s)).map(u => [u.name, u.port]), n ? [['interpreter', 49999]] : [], name)
    let there = []
    for (const end = Date.now() + 20_000; there.length !== n && Date.now() < end;) there = await kernels() // it comes up with the sandbox
    assert.equal(there.length, n, name)
    assert.equal((await s.runCode('6 * 7')).text, '42')
    assert.deepEqual(n ? await kernels() : [], there) // it was that one
    if (!n) continue
    // Whoever kills it all finds it again: init sees to that.
    await s.commands.run('pkill -9 interpreter')
    assert.equal((await s.runCode('6 * 7')).text, '42')
    assert.equal((await units(s))[0].state, 'ready')
    await services(s, { method: 'POST', body: JSON.stringify({ op: 'stop', names: ['interpreter'] }) })
    while ((await units(s))[0].state !== 'stopped') ;
    await assert.rejects(s.runCode('1', { timeoutMs: 5000 }), /50[23]/)
  }
})
test('a step that fails is named, and leaves no template', async () => {
  const t = Template().fromBaseImage().runCmd('true').runCmd('echo so far; exit 7')
  await assert.rejects(Template.build(t, 'compat-bad'), e => e instanceof BuildError && /7/.test(e.message))
  assert.equal(await Template.exists('compat-bad'), false)
  await assert.rejects(Template.build(Template().fromTemplate('compat-none'), 'compat-bad'))
  for (const account of [undefined, { username: 'u', password: 'p' }])
    await assert.rejects(Template.build(Template().fromImage('no.such.registry.example/image:1', account), 'compat-bad'), e => e instanceof BuildError && /registry|no\.such/.test(e.message))
  await assert.rejects(Template.build(Template().fromAWSRegistry('1.dkr.ecr.example/i:1', { accessKeyId: 'a', secretAccessKey: 's', region: 'r' }), 'compat-bad'), /awsRegion/)
  await assert.rejects(Template.build(Template().fromGCPRegistry('europe-docker.pkg.dev.example/p/i:1', { serviceAccountJSON: { type: 'service_account' } }), 'compat-bad'), /serviceAccountJson/)
  await assert.rejects(Template.build(Template().fromBaseImage(), 'bad name'))
  await assert.rejects(Template.build(Template().fromBaseImage(), 'base'))
})
test('tags', async () => {
  await Template.assignTags('compat-one', ['v1', 'stable'])
  assert.deepEqual((await Template.getTags('compat-one')).map(t => t.tag).sort(), ['default', 'stable', 'v1'])
  const s = await make('compat-one:v1', { timeoutMs: 60_000 })
  assert.equal((await s.commands.run('cat a.txt')).stdout, 'file a')
  await Template.removeTags('compat-one', 'v1')
  assert.deepEqual((await Template.getTags('compat-one')).map(t => t.tag).sort(), ['default', 'stable'])
  await assert.rejects(make('compat-one:v1'))
  await assert.rejects(Template.assignTags('compat-none', ['x']))
})
test('every call of the builder makes steps that are read', async () => {
  const from = 'Alpine Arch Base Bun Debian Fedora Node Python Ubuntu'.split(' ').map(n => `from${n}Image`)
  const calls = { addMcpServer: null, betaDevContainerPrebuild: null, betaSetDevContainerStart: null, // they need templates of E2B's own
    aptInstall: ['curl'], bunInstall: ['zod'], copy: ['run.sh', '/x'], copyItems: [[{ src: 'run.sh', dest: '/y' }]], gitClone: ['https://git.example/r', 'r'], makeDir: ['d'], makeSymlink: ['a', 'b'], npmInstall: ['zod'],
    pipInstall: ['rich'], remove: ['d'], rename: ['a', 'c'], runCmd: ['true'], setEnvs: [{ A: 'b' }], setUser: ['root'], setWorkdir: ['/'], skipCache: [], setStartCmd: ['true', waitForFile('/x')], setReadyCmd: null,
    fromTemplate: null, fromImage: null, fromAWSRegistry: null, fromGCPRegistry: null, fromDockerfile: ['FROM e2bdev/base\nRUN true'] }
  const source = readFileSync(new URL('node_modules/e2b/dist/index.d.ts', import.meta.url), 'utf8'), body = /^declare class TemplateBase [^\n]*\n([\s\S]*?)^\}/m.exec(source)[1]
  const declared = [...new Set([...body.matchAll(/^ {2}((?:private |protected |static )*)(\w+)\(/gm)].filter(m => !m[1]).map(m => m[2]))]
  assert.deepEqual(declared.filter(n => !(n in calls) && !from.includes(n) && n !== 'constructor'), [])
  let t = Template({ fileContextPath: dir }).fromBaseImage().runCmd('false')
  for (const [name, args] of Object.entries(calls)) if (args && !name.startsWith('from')) t = t[name](...args)
  const steps = JSON.parse(await Template.toJSON(t)), head = { 'x-api-key': process.env.E2B_API_KEY, 'content-type': 'application/json' }, url = process.env.E2B_API_URL
  const build = async (name, body) => {
    const b = await (await fetch(`${url}/v3/templates`, { method: 'POST', headers: head, body: JSON.stringify({ name }) })).json()
    return (await fetch(`${url}/v2/templates/${b.templateID}/builds/${b.buildID}`, { method: 'POST', headers: head, body: JSON.stringify(body) })).status
  }
  assert.equal(await build('compat-all', { ...steps, fromImage: 'e2bdev/base', force: false }), 202)
  assert.equal(await build('compat-all', { steps: [{ type: 'VOLUME', args: ['/x'] }], fromImage: 'e2bdev/base' }), 400)
  assert.equal(await build('compat-all', { steps: [{ type: 'RUN', args: [] }], fromImage: 'e2bdev/base' }), 400)
  assert.equal(await build('compat-all', { steps: [] }), 400)
  for (const f of from) assert.ok(JSON.parse(await Template.toJSON(Template()[f]().runCmd('true'))).fromImage)
})
test('in the background; an upload wants its address; others see nothing', async () => {
  const url = process.env.E2B_API_URL, headers = { 'x-api-key': process.env.E2B_API_KEY }
  const b = await Template.buildInBackground(Template().fromBaseImage().runCmd('echo bg'), 'compat-bg')
  let status
  for (let i = 0; i < 600; i++) {
    status = await Template.getBuildStatus(b)
    if (!/waiting|building/.test(status.status)) break
    await new Promise(r => setTimeout(r, 100))
  }
  assert.equal(status.status, 'ready')
  await assert.rejects(Template.getBuildStatus({ ...b, buildId: 'baaaaaaaaaaaaaaaaaaa' }))
  const hash = '0'.repeat(64), at = (await (await fetch(`${url}/templates/x/files/${hash}`, { headers })).json()).url
  assert.equal((await fetch(at.replace(/token=./, 'token=x'), { method: 'PUT', body: 'x' })).status, 401)
  // Good for an hour, which cannot be made longer; one that ended is refused though its token is right.
  const until = Number(new URL(at).searchParams.get('until')), left = until - Date.now() / 1000
  assert.ok(left > 3000 && left <= 3601, `${left} s`)
  assert.equal((await fetch(at.replace(`until=${until}`, `until=${until + 1}`), { method: 'PUT', body: 'x' })).status, 401)
  assert.equal((await fetch(at.replace(/until=\d+&/, ''), { method: 'PUT', body: 'x' })).status, 401)
  const past = Math.floor(Date.now() / 1000) - 5, key = readFileSync(join(process.env.CAY_HOME, 'e2b.secret'))
  const token = createHmac('sha256', key).update(`cay e2b 1 upload archive.default.${hash} ${past}`).digest('hex')
  const ended = await fetch(at.replace(/until=.*/, `until=${past}&token=${token}`), { method: 'PUT', body: 'x' })
  assert.deepEqual([ended.status, (await ended.json()).message], [401, 'this address was good for an hour; ask for another'])
  assert.equal((await fetch(at, { method: 'PUT', body: 'x' })).status, 200)
  assert.equal((await fetch(`${url}/templates/x/files/nohash`, { headers })).status, 400)
  assert.ok((await (await fetch(`${url}/templates`, { headers })).json()).some(t => t.templateID === 'compat-bg'))
  assert.equal((await fetch(`${url}/templates/compat-bg`, { method: 'DELETE', headers })).status, 204)
  assert.equal((await fetch(`${url}/templates/compat-bg`, { method: 'DELETE', headers })).status, 404)
})
