// SPDX-License-Identifier: Apache-2.0
// Keys and tenants. A new key is shown once, in this page alone, and forgotten when it is closed.
import { useState } from 'preact/hooks';
import { del, get, patch, post, session, type Key, type List, type Tenant } from '../api';
import { bytes, period, safe, size } from '../lib/format';
import { now } from '../live';
import { Blank, Btn, Cmd, Copy, Dialog, Loading, question, Said, Seg, Sheet, toast, Trouble, useAsk, When } from '../ui';
import { route, setQuery } from '../lib/router';

export default function Access() {
  const admin = session.value?.scope === 'admin', view = admin ? route.value.query.get('view') ?? 'keys' : 'keys';
  return <div class="page"><div class="head"><div><h1>Keys</h1><p>Whoever asks the server shows a key. Only its hash is stored.</p></div></div>{admin && <div class="filters"><Seg label="View" value={view} options={[['keys', 'Keys'], ['tenants', 'Tenants']]} onPick={v => setQuery({ view: v === 'keys' ? null : v })} /></div>}{view === 'tenants' ? <Tenants /> : <Keys admin={admin} />}</div>;
}

function Keys({ admin }: { admin: boolean }) {
  const l = useAsk(() => get<List<Key>>('/keys').then(x => x.items), []), [making, make] = useState(false), [old, showOld] = useState(false);
  const dead = (k: Key) => !!k.revoked_ms || (!!k.expires_ms && k.expires_ms < now.value), rows = (l.data ?? []).filter(k => old || !dead(k)).sort((a, b) => b.created_ms - a.created_ms);
  const revoke = (k: Key) => { const own = k.id === session.value?.key; question.value = { title: 'Revoke this key?', danger: true, yes: `Revoke ${k.id}`, text: <p class="soft">{own ? 'It is the one of this session: you will be logged out. ' : ''}<Said text={k.name || 'It has no name'} most={80} />. Whatever uses it is refused from now on.</p>, act: async () => { await del(`/keys/${k.id}`); l.again(); toast(`Key ${k.id} opens nothing any more.`); } }; };
  return (
    <><Sheet title="Keys" note={rows.length || ''} actions={<><label class="check wide"><input type="checkbox" checked={old} onChange={e => showOld(e.currentTarget.checked)} /> revoked and expired</label><Btn kind="small" icon="plus" onClick={() => make(true)}>New key</Btn></>}>
      {l.error ? <Trouble error={l.error} what="They cannot be listed." again={l.again} /> : !l.data ? <Loading /> : rows.length ? <div class="scroll" tabIndex={0} role="region" aria-label="Keys"><table class="plain stack"><thead><tr><th>Id</th><th>Name</th><th>Scope</th><th>Tenant</th><th>Opens</th><th class="num">Made</th><th class="num">Used</th><th class="num">Expires</th><th aria-label="Actions" /></tr></thead><tbody>{rows.map(k => <tr key={k.id}><td class="mono">{k.id}{k.id === session.value?.key && <span class="chip ok apart">this session</span>}</td><td class="cut"><Said text={k.name} most={60} /></td><td><span class={`chip ${k.scope === 'admin' ? 'warn' : ''}`}>{k.scope}</span></td><td class="soft" data-k="tenant">{safe(k.tenant, 60)}</td><td class="soft mono cut">{k.sandbox ? `${k.sandbox.slice(0, 8)}${k.port ? ':' + k.port : ''}${k.path ? safe(k.path, 40) : ''}` : k.from ? `as ${k.from}` : ''}</td><td class="num" data-k="made"><When t={k.created_ms} /></td><td class="num" data-k="used">{k.id === session.value?.key ? 'now' : k.used_ms ? <When t={k.used_ms} /> : <span class="dim">never</span>}</td><td class="num" data-k="expires">{k.revoked_ms ? <span class="bad">revoked</span> : k.expires_ms ? <When t={k.expires_ms} /> : 'never'}</td><td class="num act">{!dead(k) && <Btn kind="quiet small danger" onClick={() => revoke(k)}>Revoke…</Btn>}</td></tr>)}</tbody></table></div> : <Blank title="No key" text="Make one for a program that asks this server." cmd="cay key create --scope tenant" />}</Sheet>
      {making && <NewKey admin={admin} onClose={() => { make(false); l.again(); }} />}</>
  );
}

function NewKey({ admin, onClose }: { admin: boolean; onClose: () => void }) {
  const [text, told] = useState(''), [error, fail] = useState<unknown>(null), [scope, setScope] = useState(admin ? 'tenant' : 'sandbox'), tenants = useAsk(() => (admin ? get<List<Tenant>>('/tenants').then(l => l.items) : Promise.resolve([])), []);
  const make = async (e: Event) => {
    e.preventDefault();
    const f = new FormData(e.currentTarget as HTMLFormElement), ttl = String(f.get('ttl') ?? '').trim(), ms = ttl ? period(ttl) : 0;
    if (Number.isNaN(ms)) { fail(new Error('how long: 90 s, 10 min, 8 h or 7 d')); return; }
    try { const k = await post<{ key: string }>('/keys', { scope, name: String(f.get('name') ?? ''), ...(admin && f.get('tenant') ? { tenant: f.get('tenant') } : {}), ...(f.get('sandbox') ? { sandbox: f.get('sandbox') } : {}), ...(ms ? { ttl_ms: ms } : {}) }); told(k.key); fail(null); } catch (x) { fail(x); }
  };
  return (
    <Dialog label="New key" onClose={onClose} id="newkey">{text ? <><div class="dhead"><h2>The key, this once</h2></div><div class="pad"><p class="soft">Keep it now: nobody can show it again.</p><div class="cmd key"><code tabIndex={0} role="textbox" aria-readonly="true" aria-label="Key">{text}</code><Copy text={text} label="Copy the key" /></div></div><div class="dfoot"><span class="right"><Btn kind="prime" onClick={onClose}>I have it</Btn></span></div></> : <form onSubmit={make}><div class="dhead"><h2>New key</h2></div><div class="pad formgrid">
      <label class="field"><span>Name</span><input class="in" name="name" maxLength={100} placeholder="what uses it" autofocus autocomplete="off" /></label><label class="field"><span>Scope</span><select class="in" name="scope" value={scope} onChange={e => setScope(e.currentTarget.value)}>{admin && <><option value="tenant">tenant: all of one tenant</option><option value="admin">admin: everything</option></>}<option value="sandbox">sandbox: one sandbox</option></select></label>
      {scope === 'sandbox' && <label class="field"><span>Sandbox, its whole id</span><input class="in mono" name="sandbox" required /></label>}{admin && <label class="field"><span>Tenant</span><select class="in" name="tenant">{(tenants.data ?? []).map(t => <option key={t.name} value={t.name}>{safe(t.name, 60)}</option>)}</select></label>}<label class="field"><span>Expires after (empty: never)</span><input class="in" name="ttl" placeholder="7 d" /></label>{scope === 'admin' && <p class="chip warn">It opens everything, of all tenants.</p>}{error ? <Trouble error={error} what="No key was made." /> : null}</div>
      <div class="dfoot"><span class="right btns"><Btn onClick={onClose}>Leave</Btn><button class="btn prime" type="submit">Make the key</button></span></div></form>}</Dialog>
  );
}

function Tenants() {
  const l = useAsk(() => get<List<Tenant>>('/tenants').then(x => x.items), []), of_ = (used: number | undefined, most: number | undefined, f: (n: number) => string) => `${f(used ?? 0)}${most ? ` of ${f(most)}` : ''}`;
  const quota = (t: Tenant) => { question.value = { title: `Memory for ${t.name}`, text: <p class="soft">All its running sandboxes together; empty: no bound.</p>, yes: 'Set it', input: { label: 'Bytes', value: t.most.memory ? bytes(t.most.memory) : '' }, act: () => undefined, withInput: async v => { const n = v.trim() ? size(v) : 0; if (Number.isNaN(n)) throw new Error('512 MiB, 2 GiB'); await patch(`/tenants/${t.name}`, { most: { memory: n } }); l.again(); } }; };
  return <Sheet title="Tenants" note={l.data?.length ?? ''} actions={<Btn kind="small" icon="plus" onClick={() => { question.value = { title: 'New tenant', text: <p class="soft">Another tenant's sandboxes are not there for it.</p>, yes: 'Make it', input: { label: 'Name', value: '' }, act: () => undefined, withInput: async v => { await post('/tenants', { name: v.trim() }); l.again(); } }; }}>New tenant</Btn>}>{l.error ? <Trouble error={l.error} what="They cannot be listed." again={l.again} /> : !l.data ? <Loading /> : <div class="scroll" tabIndex={0} role="region" aria-label="Tenants"><table class="plain stack"><thead><tr><th>Name</th><th class="num">Sandboxes</th><th class="num">CPU</th><th class="num">Memory</th><th class="num">Disk</th><th class="num">Made</th><th aria-label="Actions" /></tr></thead><tbody>{l.data.map(t => <tr key={t.name}><td>{safe(t.name, 60)}</td><td class="num" data-k="sandboxes">{of_(t.used.sandboxes, t.most.sandboxes, String)}</td><td class="num" data-k="CPU">{of_(t.used.cpu_milli, t.most.cpu_milli, n => String(n / 1000))}</td><td class="num" data-k="memory">{of_(t.used.memory, t.most.memory, bytes)}</td><td class="num" data-k="disk">{of_(t.used.disk, t.most.disk, bytes)}</td><td class="num" data-k="made">{t.created_ms ? <When t={t.created_ms} /> : ''}</td><td class="num act"><Btn kind="quiet small" onClick={() => quota(t)}>Quota…</Btn></td></tr>)}</tbody></table></div>}<div class="pad"><Cmd text="cay tenant create NAME --sandboxes 20 --memory 8g" /></div></Sheet>;
}
