// SPDX-License-Identifier: Apache-2.0
// What it may reach and what it was refused, with why and one click to allow.
import { useEffect, useState } from 'preact/hooks';
import { get, of, post, put, type Box, type List, type NetRecord, type Policy, type Process } from '../api';
import { bytes, plural, safe, word } from '../lib/format';
import { href, route } from '../lib/router';
import { allowMenu, deny } from '../actions';
import { dismissed, ends, feed, net, now, refused, restore } from '../live';
import { asker, lifted, refusals, remedy, ruleFor, why, type Refused } from '../state';
import { attempt, Blank, Btn, Cmd, Icon, Loading, Menu, Said, Seg, toast, Trouble, useAsk, When } from '../ui';

interface Passed { key: string; name: string; port: number; times: number; up: number; down: number; last: number; rule: string; event: string }
export function passed(records: NetRecord[]): Passed[] {
  const by = new Map<string, Passed>();
  for (const r of records) {
    if (r.verdict === 'deny' || !(r.name || r.addr)) continue; // what names no destination is no journey
    const name = r.name || r.addr || '?', port = r.event === 'dns' ? 0 : r.port ?? 0, key = `${name}:${port}`, o = by.get(key) ?? by.set(key, { key, name, port, times: 0, up: 0, down: 0, last: 0, rule: r.rule ?? '', event: r.event }).get(key)!;
    o.times++; o.up += r.up ?? 0; o.down += r.down ?? 0; o.last = Math.max(o.last, r.t); o.rule ||= r.rule ?? '';
  }
  return [...by.values()].sort((a, b) => b.last - a.last);
}

export default function Network({ b }: { b: Box }) {
  const beat = feed.value.filter(e => e.sandbox === b.id && e.kind === 'net').length;
  const log = useAsk(() => get<List<NetRecord>>(of(b.id, '/net/log'), { count: 2000 }).then(l => l.items), [b.id, Math.floor(beat / 3)]);
  const pol = useAsk(() => get<{ revision: number; policy: Policy }>(of(b.id, '/net')), [b.id, beat, refused.value.length]);
  const procs = useAsk(() => (b.state === 'running' ? get<List<Process>>(of(b.id, '/processes'), { ended: true }).then(l => l.items, () => []) : Promise.resolve([])), [b.id, b.state, beat]), who = (r: Refused) => { const p = (procs.data ?? []).find(x => x.id && x.id === r.exec) ?? asker(r.last, procs.data ?? [], ends.value, now.peek()); return p && <>, while <a class="mono" href={href(['sandbox', b.id, 'timeline'], { span: p.id })} title={safe(p.command, 400)}>{safe(p.command, 40)}</a> ran <span class="dim">({p.id.slice(0, 8)})</span></>; };
  const presets = useAsk(() => get<Record<string, string[]>>('/net/presets'), []);
  const to = route.value.query.get('to') ?? '', at = (name: string) => (to && name === to ? 'sel' : ''), no = refused.value.filter(r => r.box === b.id), open = no.find(r => lifted(r.reason)), yes = passed(log.data ?? []), [rule, setRule] = useState(''), [bad, fail] = useState<unknown>(null), p = pol.data?.policy;
  useEffect(() => { fail(null); }, [b.id]);
  const change = async (next: Policy, said: string) => { const before = p; await attempt('The policy was not changed', async () => { const { revision } = await put<{ revision: number }>(of(b.id, '/net'), next); pol.again(); toast(`${said} Policy revision ${revision}.`, before && (async () => { await put(of(b.id, '/net'), before); pol.again(); })); }); };
  const add = async (e: Event) => { e.preventDefault(); try { const { revision } = await post<{ revision: number }>(of(b.id, '/net/rules'), { rules: [rule.trim()] }); setRule(''); fail(null); pol.again(); toast(`${rule.trim()} holds now. Policy revision ${revision}.`); } catch (x) { fail(x); } };
  // What somebody decided to keep refusing is decided, not forgotten.
  const name = b.name ? word(b.name) : b.id, allowed = new Set(p?.rules ?? []), keptOut = refusals(net.value.get(b.id) ?? [], b.id).filter(r => dismissed.value.has(r.box + r.key) && p?.mode !== 'all' && !allowed.has(ruleFor(r)) && !allowed.has(ruleFor(r, true)));
  return (
    <div class="split"><div class="scroll" tabIndex={0} role="region" aria-label="Decisions">
      {log.error ? <Trouble error={log.error} what="The log cannot be read." again={log.again} /> : null}
      <section class="flat"><div class="bar"><h2>Refused</h2><span class="dim">{no.length ? plural(no.length, 'destination') : ''}</span></div>
        {no.length ? <ul class="inbox wide-inbox">{no.map(r => <li key={r.key} class={at(r.name)}><Icon name="no" class="bad" /><b class="cut mono"><Said text={r.name} most={80} />{r.port ? `:${r.port}` : ''}</b><p>{plural(r.times, 'time')}, last <When t={r.last} />{r.lookup && ', as its name was looked up'}{who(r)}. {why(r.reason)}</p>{lifted(r.reason) ? <Menu label={`Allow ${safe(r.name, 60)}`} items={allowMenu(r)}>Allow…</Menu> : <span class="dim nowrap">{remedy(r.reason)}</span>}</li>)}</ul> : <p class="pad soft">{keptOut.length ? 'Nothing waits for you' : `Nothing was refused${p?.mode === 'all' ? ', because everything is allowed' : ''}`}.</p>}
        {keptOut.length > 0 && <details class="keptout"><summary>{plural(keptOut.length, 'destination')} that you keep refusing</summary><ul class="inbox wide-inbox">{keptOut.map(r => <li key={r.key} class={at(r.name)}><Icon name="no" class="dim" /><b class="cut mono"><Said text={r.name} most={80} />{r.port ? `:${r.port}` : ''}</b><p>{plural(r.times, 'time')}, last <When t={r.last} />{who(r)}. {why(r.reason)}</p><Btn kind="small" onClick={() => restore(r)}>Ask me again</Btn></li>)}</ul></details>}</section>
      <section class="flat"><div class="bar"><h2>Reached</h2><span class="dim">{yes.length ? plural(yes.length, 'destination') : ''}</span></div>
        {!log.data ? <Loading /> : yes.length ? <table class="plain stack"><thead><tr><th>Destination</th><th>By rule</th><th class="num">Times</th><th class="num">Out</th><th class="num">In</th><th class="num">Last</th><th aria-label="Actions" /></tr></thead><tbody>{yes.slice(0, 200).map(r => <tr key={r.key} class={at(r.name)}><td class="mono cut"><Said text={r.name} most={80} />{r.port ? `:${r.port}` : ''}</td><td class="mono dim cut"><Said text={r.rule || (r.event === 'dns' ? 'name' : '')} most={60} /></td><td class="num" data-k="times">{r.times}</td><td class="num" data-k="out">{bytes(r.up)}</td><td class="num" data-k="in">{bytes(r.down)}</td><td class="num"><When t={r.last} /></td><td class="num act"><Btn kind="quiet small" onClick={async () => { await deny(b.id, r.name + (r.port && r.port !== 443 && r.port !== 80 ? ':' + r.port : '')); pol.again(); }}>Deny</Btn></td></tr>)}</tbody></table> : <Blank title="It reached nobody" text={p?.mode === 'off' ? 'It has no network: only its own loopback.' : 'Nothing has left this sandbox yet.'} />}</section></div>
      <div class="side" tabIndex={0} role="region" aria-label="Policy"><section><h2>Policy {pol.data && <span class="dim">revision {pol.data.revision}</span>}</h2>
        {pol.error ? <Trouble error={pol.error} what="The policy cannot be read." again={pol.again} /> : !p ? <Loading rows={3} /> : <>
          <Seg label="What it may reach" value={p.mode === 'all' ? 'all' : p.mode === 'off' ? 'off' : 'rules'} options={[['off', 'Nothing'], ['rules', 'Rules'], ['all', 'Everything']]} onPick={m => change({ ...p, mode: m, rules: m === 'rules' ? p.rules : [] }, m === 'all' ? 'It may reach everything but what is always closed.' : m === 'off' ? 'It may reach nothing.' : 'Only rules count.')} />
          {p.mode === 'all' && <p class="chip warn gapped">everything is allowed</p>}
          <ul class="rules">{p.rules.map((r, i) => <li key={r + i}><Icon name={r.startsWith('!') ? 'no' : 'ok'} class={r.startsWith('!') ? 'bad' : 'ok'} /><Said text={r.replace(/^!/, '')} class="cut" most={60} /><span class="right"><Btn kind="quiet icon tiny" icon="x" label={`Remove ${safe(r, 60)}`} onClick={() => change({ ...p, rules: p.rules.filter((_, k) => k !== i) }, `${r} is gone.`)} /></span></li>)}</ul>{p.mode !== 'all' && !p.rules.length && <p class="dim">No rule yet.</p>}
          <form class="addrule" onSubmit={add}><input class="in" aria-label="A rule" placeholder="*.npmjs.org, !evil.test" value={rule} onInput={e => setRule(e.currentTarget.value)} list="presets" spellcheck={false} autocapitalize="off" /><datalist id="presets">{Object.keys(presets.data ?? {}).map(k => <option key={k} value={k} />)}</datalist><button class="btn" type="submit">Add</button></form>{bad ? <Trouble error={bad} what="That is no rule." /> : null}
          {presets.data && <p class="dim presets">Presets: {Object.keys(presets.data).map(k => <button type="button" class="plain" key={k} title={presets.data![k]!.join('\n')} onClick={() => setRule(k)}>{k}</button>)}</p>}</>}</section>
        <section><h2>By hand</h2><Cmd text={`cay net allow ${name} ${open ? word(ruleFor(open)) : 'HOST'}`} /><Cmd text={`cay net why ${name} ${no[0] ? word(no[0].name) : 'HOST'}`} /></section></div></div>
  );
}
