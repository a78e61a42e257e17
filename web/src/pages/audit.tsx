// SPDX-License-Identifier: Apache-2.0
import { get, session, type AuditLine, type AuditProof, type List } from '../api';
import { exact, clock, plural, safe, span, word } from '../lib/format';
import { href, route, setQuery } from '../lib/router';
import { boxes } from '../live';
import { title } from '../state';
import { useEffect, useState } from 'preact/hooks';
import { Blank, Btn, Cmd, Copy, Icon, Loading, Said, Sheet, Trouble, useAsk } from '../ui';

export default function Audit() {
  const object = route.value.query.get('object') ?? '', action = route.value.query.get('action') ?? '', l = useAsk(() => get<List<AuditLine>>('/audit', { object: object || undefined, action: action || undefined, last: 500 }).then(x => [...x.items].reverse()), [object, action]);
  return (
    <div class="page"><div class="head"><div><h1>Audit</h1><p>Every request that changed something and every one that was refused. Each line holds the hash of the one before it.</p></div></div>
      {session.value?.scope === 'admin' && <Proof />}
      <div class="filters gap"><input type="search" class="in" placeholder="Object: a sandbox, key, snapshot" aria-label="Object" value={object} onChange={e => setQuery({ object: e.currentTarget.value.trim() || null })} /><input type="search" class="in" placeholder="Action begins with: POST /api/v1" aria-label="Action" value={action} onChange={e => setQuery({ action: e.currentTarget.value.trim() || null })} /><Btn onClick={l.again}>Read again</Btn></div>
      {l.error ? <Trouble error={l.error} what="It cannot be read." again={l.again} /> : !l.data ? <Loading rows={8} /> : l.data.length ? <div class="sheet scroll audit" tabIndex={0} role="region" aria-label="Audit"><table class="plain stack"><thead><tr><th class="num x">No.</th><th>When</th><th>Who</th><th>What</th><th>To what</th><th>Verdict</th><th class="num">Took</th><th class="wide">Hash</th></tr></thead><tbody>{l.data.map(a => <tr key={a.seq}><td class="num x">{a.seq}</td><td class="mono dim when" title={exact(a.time_ms)}>{clock(a.time_ms)}</td><td class="mono soft cut"><Said text={a.actor} most={40} /></td><td class="mono cut"><Said text={a.action.replace('/api/v1', '')} most={70} /></td><td class="cut">{boxes.value.has(a.object) ? <a href={href(['sandbox', a.object])}>{safe(title(boxes.value.get(a.object)!), 40)}</a> : <Said mono text={a.object ?? ''} most={24} />}</td><td><span class={`chip ${a.verdict === 'ok' ? '' : 'bad'}`}>{a.verdict}{a.status && a.verdict !== 'ok' ? ` ${a.status}` : ''}</span></td><td class="num">{a.us ? span(a.us / 1000) : ''}</td><td class="mono dim wide">{a.hash.slice(0, 8)}</td></tr>)}</tbody></table></div> : <section class="sheet"><Blank title="Nothing fits" text="No line has that object and action."><Btn onClick={() => setQuery({ object: null, action: null })}>Show all</Btn></Blank></section>}</div>
  );
}

function Proof() {
  const [p, set] = useState<AuditProof | null>(null), [error, fail] = useState<unknown>(null), [head, setHead] = useState('');
  const verify = async () => { try { set(await get<AuditProof>('/audit/proof', { head: head.trim() || undefined })); fail(null); } catch (e) { set(null); fail(e); } };
  useEffect(() => { void verify(); }, []);
  return (
    <Sheet title="Proof" note="that no line was changed, taken out or put in" actions={<Btn kind="small" onClick={verify}>Verify now</Btn>}><div class="pad proof">
      {p ? <p class={p.sound ? 'ok' : 'bad'}><Icon name={p.sound ? 'ok' : 'bang'} class="inline" /> {p.sound ? `Lines ${p.first} to ${p.last} follow each other.` : `It is not sound: ${safe(p.why ?? '', 300)}`}{p.torn > 0 && ` ${plural(p.torn, 'line')} cut by a crash.`}{p.dropped > 0 && ` ${p.dropped} refused requests were only counted.`} {p.head && <span class="dim mono">head {p.last}:{safe(p.head, 100)} <Copy text={`${p.last}:${p.head}`} label="Copy the head" /></span>}</p> : <p class="soft">Keep the head of a proof elsewhere and give it back later: then nobody can have written the whole log anew.</p>}
      {error ? <Trouble error={error} what="It could not be verified." again={verify} /> : null}<label class="field"><span>A head that was kept elsewhere (SEQ:HASH)</span><input class="in mono" value={head} onInput={e => setHead(e.currentTarget.value)} spellcheck={false} /></label><Cmd text={`cay audit verify${head.trim() ? ` --head ${word(head.trim())}` : ''}`} /></div></Sheet>
  );
}
