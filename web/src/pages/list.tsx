// SPDX-License-Identifier: Apache-2.0
// All sandboxes, one row each. Only rows in sight are in the page, so that thousands scroll as smoothly as ten.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { bytes, plural, safe, span } from '../lib/format';
import { go, href, route, setQuery } from '../lib/router';
import { boxes, cpu, loaded, now, refreshAll, sorted, used } from '../live';
import { overlay, useKeys } from '../keys';
import { loose } from '../lib/settings';
import { bestDrop, failed, matches, title } from '../state';
import { attempt, Blank, Btn, Islet, Loading, question, Said, Seg, State, toast, When } from '../ui';
import { del, of, post, type Box } from '../api';

type Filter = '' | 'running' | 'paused' | 'stopped' | 'failed';
const ROW = 37, PHONE_ROW = 64, OVER = 12;

export default function List() {
  const q = route.value.query.get('q') ?? '', state = (route.value.query.get('state') ?? '') as Filter;
  const all = sorted.value, fits = (b: Box, f: Filter) => !f || (f === 'failed' ? failed(b) : b.state === f);
  // Under the pointer or the keyboard's mark nothing moves: what is new waits until it is wanted.
  const [held, hold] = useState<ReadonlySet<string> | null>(null), fit = useMemo(() => all.filter(b => matches(b, q) && fits(b, state)), [all, q, state]), found = useMemo(() => (held ? fit.filter(b => held.has(b.id)) : fit), [fit, held]), newer = fit.length - found.length;
  const still = () => { if (!held) hold(new Set(fit.map(b => b.id))); };
  const asked = useRef(q + state);
  useEffect(() => { if (asked.current !== q + state) { asked.current = q + state; hold(null); } }, [q, state]);
  const [at, move] = useState(0), [chosen, choose] = useState<ReadonlySet<string>>(new Set());
  const i = Math.min(at, Math.max(0, found.length - 1));
  useKeys({
    j: () => { still(); move(Math.min(found.length - 1, i + 1)); }, k: () => { still(); move(Math.max(0, i - 1)); }, ArrowDown: () => { still(); move(Math.min(found.length - 1, i + 1)); }, ArrowUp: () => { still(); move(Math.max(0, i - 1)); }, Enter: () => { if (found[i]) go(href(['sandbox', found[i]!.id])); },
    x: () => { const b = found[i]; if (b) choose(old => { const s = new Set(old); if (!s.delete(b.id)) s.add(b.id); return s; }); },
  });
  const drop = found.length ? undefined : bestDrop(all, q, state, b => fits(b, state));
  const count = (f: Filter) => all.filter(b => fits(b, f)).length;
  const some = [...chosen].map(id => boxes.value.get(id)).filter((b): b is Box => !!b);
  const each = (what: string, f: (b: Box) => Promise<unknown>) => attempt(`Not all were ${what}`, async () => { await Promise.all(some.map(f)); toast(`${plural(some.length, 'sandbox', 'sandboxes')} ${what}.`); choose(new Set()); });
  return (
    <div class="page"><div class="head"><div><h1>Sandboxes</h1></div></div>
      <div class="filters"><input type="search" class="in" placeholder="Name, id, template:host, network:all, label:a=b" aria-label="Search sandboxes" value={q} onInput={e => { setQuery({ q: e.currentTarget.value || null }); move(0); }} />
        <Seg label="State" value={state} onPick={v => { setQuery({ state: v || null }); move(0); }} options={[['', `All ${all.length}`], ['running', `Running ${count('running')}`], ['paused', `Paused ${count('paused')}`], ['stopped', `Stopped ${count('stopped')}`], ...(count('failed') ? [['failed', `Failed ${count('failed')}`] as [Filter, string]] : [])]} />
        <span class="dim right wide hint"><kbd>J</kbd> <kbd>K</kbd> move <kbd>X</kbd> select <kbd>↵</kbd> open</span></div>
      {some.length > 0 && <div class="chosen" role="status"><b>{some.length} selected</b><Btn kind="small" icon="pause" onClick={() => each('paused', b => post(of(b.id, '/pause')))}>Pause</Btn><Btn kind="small danger" icon="bin" onClick={() => { question.value = { title: `Delete ${plural(some.length, 'sandbox', 'sandboxes')}?`, danger: true, yes: `Delete ${some.length}`, text: <p class="soft">{some.slice(0, 6).map(title).join(', ')}{some.length > 6 ? ' and others' : ''}. Their files go with them.</p>, act: () => each('deleted', b => del(of(b.id))) }; }}>Delete…</Btn><Btn kind="quiet small" onClick={() => choose(new Set())}>Clear</Btn></div>}
      {newer > 0 && <p class="newer" role="status"><Btn kind="small" icon="up" onClick={() => { hold(null); move(0); }}>{newer} newer</Btn></p>}
      {!loaded.value ? <Loading rows={8} /> : found.length ? <Rows still={still} go={() => { if (!newer && at === 0 && !chosen.size) hold(null); }} all={found} at={i} chosen={chosen} pick={move} /> : all.length ? <section class="sheet"><Blank title="Nothing fits" text={<>No sandbox has {q && <>“<Said text={q} />”</>}{q && state && ' and '}{state && <>state {state}</>}.{drop && <> {plural(drop.n, 'sandbox fits', 'sandboxes fit')} without <code>{safe(drop.drop, 40)}</code>.</>}</>}>{drop && <Btn kind="prime" onClick={() => setQuery({ q: drop.q || null, state: drop.state || null })}>Show {drop.n === 1 ? 'the one' : `those ${drop.n}`} without {safe(drop.drop, 40)}</Btn>}<Btn onClick={() => setQuery({ q: null, state: null })}>{q ? 'Drop the search' : 'Show all'}</Btn></Blank></section>
        : <section class="sheet"><Blank title="No sandbox yet" text="It starts in milliseconds." cmd="cay create --name first"><Btn kind="prime" icon="plus" onClick={() => { overlay.value = 'create'; }}>New sandbox</Btn></Blank></section>}
    </div>
  );
}

function Rows({ all, at, chosen, pick, still, go }: { still: () => void; go: () => void; all: Box[]; at: number; chosen: ReadonlySet<string>; pick: (i: number) => void }) {
  const box = useRef<HTMLDivElement>(null), [top, scroll] = useState(0), [h, height] = useState(600), row = matchMedia('(max-width: 720px)').matches ? PHONE_ROW : ROW;
  useEffect(() => {
    const el = box.current!, on = () => { scroll(el.scrollTop); height(el.clientHeight); };
    on();
    el.addEventListener('scroll', on, { passive: true });
    const o = new ResizeObserver(on);
    o.observe(el);
    return () => { el.removeEventListener('scroll', on); o.disconnect(); };
  }, []);
  useEffect(() => { const el = box.current!, y = at * row; if (y < el.scrollTop) el.scrollTop = y; else if (y + 2 * row > el.scrollTop + el.clientHeight) el.scrollTop = y + 2 * row - el.clientHeight; }, [at]);
  const whose = useMemo(() => all.some(b => b.tenant !== 'default'), [all]), wide = whose ? 11 : 10; // where there is one tenant nobody is told
  const from = Math.max(0, Math.floor(top / row) - OVER), to = Math.min(all.length, Math.ceil((top + h) / row) + OVER);
  // Not everything that others change is an event: what is in sight is asked for again now and then, while somebody looks.
  const beat = Math.floor(now.value / 10000), first = useRef(beat);
  useEffect(() => { if (beat !== first.current && !document.hidden) void refreshAll(all.slice(from, to).map(b => b.id).slice(0, 100)).catch(() => undefined); }, [beat]);
  return (
    <><div class="sheet scroll rows" ref={box} onPointerMove={still} onPointerLeave={go} tabIndex={0} role="region" aria-label="Sandboxes"><table class="list"><thead><tr><th class="w36" aria-label="Shape" /><th>Name</th><th>State</th><th>Template</th><th>Isolation</th><th>CPU</th><th>Memory</th><th>Network</th>{whose && <th>Tenant</th>}<th class="num">Made</th><th class="num">Ends in</th></tr></thead>
      <tbody>{from > 0 && <tr class="space" style={{ height: `${from * row}px` }}><td colSpan={wide} /></tr>}{all.slice(from, to).map((b, i) => <Row key={b.id} b={b} whose={whose} sel={from + i === at} chosen={chosen.has(b.id)} pick={() => pick(from + i)} />)}{to < all.length && <tr class="space" style={{ height: `${(all.length - to) * row}px` }}><td colSpan={wide} /></tr>}</tbody></table></div>
    <p class="dim under">{plural(all.length, 'sandbox', 'sandboxes')}</p></>
  );
}

function Row({ b, whose, sel, chosen, pick }: { b: Box; whose: boolean; sel: boolean; chosen: boolean; pick: () => void }) {
  const u = used.value.get(b.id), share = cpu.value.get(b.id) ?? 0, most = typeof b.limits.cpu_milli === 'number' ? b.limits.cpu_milli / 1000 : 0, pct = most ? Math.min(100, (share / most) * 100) : 0, room = typeof b.limits.memory === 'number' ? b.limits.memory : 0, bad = failed(b);
  const ends = b.deadline_ms ? span(b.deadline_ms - now.value) : b.state === 'running' ? 'never' : 'kept';
  return (
    <tr class={`${sel ? 'sel' : ''} ${chosen ? 'chosen-row' : ''}`} aria-selected={chosen || undefined} onClick={pick} onDblClick={() => go(href(['sandbox', b.id]))}>
      <td><Islet id={b.id} state={bad ? 'damaged' : b.state} /></td><td class="cut name"><a href={href(['sandbox', b.id])}><Said text={title(b)} most={80} /></a>{!b.name && <span class="dim mono wide"> {b.id.slice(8)}</span>}</td><td><State state={b.state} bad={bad} /></td><td class="x soft cut"><Said text={b.template} most={40} />{loose(b).length > 0 && <span class="warn">, bypass</span>}</td><td class="x soft">{b.layers.length ? `${b.level} ${b.isolation}` : <span class="dim">–</span>}</td>
      <td class="x nowrap">{b.state !== 'running' ? <span class="dim">–</span> : <><span class="meter"><i class={pct > 85 ? 'hot' : ''} style={{ width: `${pct}%` }} /></span><span class="mono dim">{share.toFixed(2)}{most ? ` of ${most}` : ''}</span></>}</td><td class="x mono soft nowrap">{u ? <>{bytes(u.memory)}{room > 0 && <span class="dim"> of {bytes(room)}</span>}</> : '–'}</td><td class="x nowrap">{b.network === 'all' ? <span class="warn" title="It may reach everything but what is always closed">all </span> : b.network === 'rules' ? 'rules ' : null}{u && u.net_rx + u.net_tx ? <span class="mono soft">{bytes(u.net_rx + u.net_tx)}</span> : b.network === 'all' || b.network === 'rules' ? null : <span class="dim">–</span>}</td>{whose && <td class="x dim">{safe(b.tenant, 60)}</td>}<td class="x num soft"><When t={b.created_ms} /></td><td class="x num soft">{ends}</td>
      <td class="sub cut">{safe(b.template, 40)}{b.layers.length > 0 && `, level ${b.level} ${b.isolation}`}{u ? `, ${bytes(u.memory)}` : ''}{b.network === 'all' && <span class="warn">, network all</span>}{loose(b).length > 0 && <span class="warn">, bypass</span>}</td></tr>
  );
}
