// SPDX-License-Identifier: Apache-2.0
// File calls as another user: what may be done is what that user may, and what is made is that user's.
import { test, before, after } from 'node:test'
import assert from 'node:assert/strict'
import { Sandbox, AuthenticationError } from 'e2b'

const root = { user: 'root' }
let box
before(async () => {
  box = await Sandbox.create({ timeoutMs: 120_000 })
  await box.commands.run('mkdir -m 700 /srv/closed; echo closed > /srv/closed/f', root)
})
after(async () => { await box?.kill() })
const denied = p => assert.rejects(p, /permission_denied|403/)
const until = async what => { for (let i = 0; i < 400; i++) { if (await what()) return true; await new Promise(r => setTimeout(r, 25)) } return false }

test('root looks where user may not', async () => {
  const { files } = box
  assert.deepEqual((await files.list('/srv/closed', root)).map(e => [e.name, e.owner, e.group]), [['f', 'root', 'root']])
  assert.equal((await files.getInfo('/srv/closed/f', root)).size, 7)
  assert.equal(await files.exists('/srv/closed/f', root), true)
  assert.equal(await files.read('/srv/closed/f', root), 'closed\n')
  for (const as of [undefined, { user: 'user' }]) {
    await denied(files.list('/srv/closed', as))
    await denied(files.getInfo('/srv/closed/f', as))
    await denied(files.exists('/srv/closed/f', as))
    await denied(files.read('/srv/closed/f', as))
  }
})
test('sudo inside, as in E2B\'s own images', async () => {
  assert.equal((await box.commands.run('sudo id -un; sudo -u root sh -c "echo x > /srv/by-sudo"; cat /srv/by-sudo')).stdout, 'root\nx\n')
})
test('what is made belongs to who made it', async () => {
  const { files } = box, who = async (path, as) => { const i = await files.getInfo(path, as); return [i.owner, i.group, i.permissions] }
  assert.equal(await files.makeDir('/srv/closed/a/b', root), true)
  assert.equal(await files.makeDir('/srv/closed/a/b', root), false)
  assert.deepEqual([await who('/srv/closed/a', root), await who('/srv/closed/a/b', root)], Array(2).fill(['root', 'root', 'drwxr-xr-x']))
  await denied(files.makeDir('/srv/closed/c'))
  await denied(files.makeDir('/srv/made'))
  await files.makeDir('own/dir', { user: 'user' })
  assert.deepEqual(await who('/home/user/own/dir'), ['user', 'user', 'drwxr-xr-x'])
  // A home of one's own: paths that are not absolute begin there.
  await files.makeDir('mine', root)
  assert.deepEqual(await who('/root/mine', root), ['root', 'root', 'drwxr-xr-x'])
  await files.write('mine/f', 'x', root)
  assert.deepEqual((await files.list('~/mine', root)).map(e => [e.path, e.owner]), [['/root/mine/f', 'root']])
})
test('moved and removed by who may', async () => {
  const { files } = box
  await denied(files.rename('/srv/closed/f', '/home/user/f'))
  assert.equal((await files.rename('/srv/closed/f', '/srv/closed/deep/g', root)).owner, 'root')
  await denied(files.remove('/srv/closed/deep'))
  assert.equal(await files.exists('/srv/closed/deep/g', root), true)
  await files.remove('/srv/closed/deep', root)
  assert.equal(await files.exists('/srv/closed/deep', root), false)
})
test('watched by who may, as a stream and by asking', async () => {
  const { files } = box, events = []
  await denied(files.watchDir('/srv/closed', () => {}))
  const w = await files.watchDir('/srv/closed', e => { events.push(e) }, { ...root, includeEntry: true, recursive: true })
  await files.write('/srv/closed/seen', 'x', root)
  assert.ok(await until(() => events.some(e => e.name === 'seen' && e.entry?.owner === 'root')), JSON.stringify(events))
  await w.stop()
  const url = process.env.E2B_SANDBOX_URL, api = await (await fetch(`${process.env.E2B_API_URL}/sandboxes/${box.sandboxId}`, { headers: { 'x-api-key': process.env.E2B_API_KEY } })).json()
  const rpc = async (name, body, user) => { const r = await fetch(`${url}/filesystem.Filesystem/${name}`, { method: 'POST', headers: { 'content-type': 'application/json', 'e2b-sandbox-id': box.sandboxId, 'e2b-sandbox-port': '49983', 'x-access-token': api.envdAccessToken, ...(user ? { authorization: `Basic ${Buffer.from(`${user}:`).toString('base64')}` } : {}) }, body: JSON.stringify(body) }); return [r.status, await r.json()] }
  assert.deepEqual((await rpc('CreateWatcher', { path: '/srv/closed' })).map((v, i) => i ? v.code : v), [403, 'permission_denied'])
  const [, { watcherId }] = await rpc('CreateWatcher', { path: '/srv/closed', includeEntry: true }, 'root'), got = []
  await files.write('/srv/closed/asked', 'x', root)
  assert.ok(await until(async () => { got.push(...((await rpc('GetWatcherEvents', { watcherId }))[1].events ?? [])); return got.some(e => e.name === 'asked' && e.entry?.owner === 'root') }), JSON.stringify(got))
  assert.equal((await rpc('RemoveWatcher', { watcherId }))[0], 200)
})
test('an account that the sandbox made itself', async () => {
  const { files } = box, as = { user: 'app' }
  await box.commands.run("echo 'app:x:1001:1001::/srv/app:/bin/bash' >> /etc/passwd; echo 'team:x:1001:' >> /etc/group; mkdir /srv/app; chown 1001:1001 /srv/app", root)
  assert.equal((await box.commands.run('echo "$(id -un) $(id -gn) $PWD"', as)).stdout, 'app team /srv/app\n')
  await files.write('in/its/home', 'x', as)
  const i = await files.getInfo('in/its/home', as)
  assert.deepEqual([i.path, i.owner, i.group], ['/srv/app/in/its/home', 'app', 'team'])
  assert.deepEqual((await files.list('/srv', { depth: 2 })).filter(e => e.path.startsWith('/srv/app')).map(e => [e.path, e.owner]), [['/srv/app', 'app'], ['/srv/app/in', 'app']])
  await denied(files.write('/home/user/not-mine', 'x', as))
})
test('nobody: refused as such, everywhere', async () => {
  const { files } = box, as = { user: 'nobody-there' }, no = p => assert.rejects(p, AuthenticationError)
  await no(files.list('/', as))
  await no(files.getInfo('/etc', as))
  await no(files.exists('/etc', as))
  await no(files.makeDir('/tmp/x', as))
  await no(files.rename('/tmp/a', '/tmp/b', as))
  await no(files.remove('/tmp/x', as))
  await no(files.read('/etc/hostname', as))
  await no(files.write('/tmp/x', 'x', as))
  await no(files.watchDir('/tmp', () => {}, as))
  await no(box.commands.run('true', as))
})
test('a signed address and the token of ports are nobody else\'s by a header', async () => {
  const as = { authorization: `Basic ${Buffer.from('root:').toString('base64')}` }, { files } = box
  await files.write('s.txt', 'of user')
  await files.write('s.txt', 'of root', root)
  const down = await fetch(await box.downloadUrl('s.txt'), { headers: as })
  assert.deepEqual([down.status, await down.text()], [200, 'of user'])
  const form = new FormData()
  form.append('file', new Blob(['up']))
  assert.equal((await fetch(await box.uploadUrl('up.txt'), { method: 'POST', body: form, headers: as })).status, 200)
  assert.deepEqual([(await files.getInfo('/home/user/up.txt')).owner, await files.exists('/root/up.txt', root)], ['user', false])
  assert.equal(await (await fetch(await box.downloadUrl('s.txt', root))).text(), 'of root') // one that was signed for root is root's
  const run = await fetch(`${process.env.E2B_SANDBOX_URL}/execute`, { method: 'POST', body: '{"code":"id -un","language":"bash"}',
    headers: { ...as, 'content-type': 'application/json', 'e2b-sandbox-id': box.sandboxId, 'e2b-sandbox-port': '49999', 'e2b-traffic-access-token': box.trafficAccessToken } })
  assert.match(await run.text(), /"text":"user\b/)
})
