// SPDX-License-Identifier: Apache-2.0
// Snapshots as a picture: time runs right, a lane for each sandbox, a pebble's area is what changed, islets are live ends. And as a table, for whoever prefers that.
import { useEffect, useRef, useState } from 'preact/hooks';
import { address, all, del, get, of, save, type Box, type Change, type Given, type Snapshot } from '../api';
import { coast } from '../lib/islet';
import { bytes, clock, exact, plural, safe, span, word } from '../lib/format';
import { href, route, setQuery } from '../lib/router';
import { fork, kept, relabel, several, snapshot, undo } from '../actions';
import { boxes, dropSnap, feed, reloadSnaps, snaps } from '../live';
import { counts, family, latest, title, tree, type Tree } from '../state';
import { Blank, Btn, Cmd, land, lineOf, Loading, question, Said, Seg, toast, Trouble, useAsk, When } from '../ui';
import { DiffView } from './diff';

const label = (s: Snapshot) => s.label || (s.automatic ? 'automatic' : s.id.slice(0, 8));

export default function Snapshots({ b, alive }: { b: Box; alive: number }) {
  const root = family(b.id, boxes.value, snaps.value), given = useAsk(() => (boxes.peek().has(root) ? get<Given>(of(root, '/manifest')).catch(() => null) : Promise.resolve(null)), [root]).data, t = tree(root, boxes.value, snaps.value, 'even', !!given && given.entries + given.variables > 0), asList = route.value.query.get('as') === 'list';
  const chosenB = snaps.value.get(route.value.query.get('b') ?? '') ?? latest(b, snaps.value), chosenA = snaps.value.get(route.value.query.get('a') ?? '');
  useEffect(() => { void reloadSnaps().catch(() => undefined); }, [b.id]);
  const newest = latest(b, snaps.value)?.id, beat = feed.value.filter(e => e.sandbox === b.id && (e.kind === 'exit' || e.kind === 'resumed')).length, since = useAsk(() => (newest ? all<Change>('/diff', { a: newest, b: b.id }).then(c => c.length, () => undefined) : Promise.resolve(undefined)), [b.id, newest, beat]).data;
  const pick = (id: string, shift: boolean) => setQuery(shift ? { a: id === chosenA?.id ? null : id } : { b: id });
  if (!t.pebbles.length) return <Blank title="No snapshot yet" text="A snapshot of a quiet sandbox takes a millisecond, whatever it holds; it can be gone back to, forked and compared." cmd={`cay snapshot ${b.name ? word(b.name) : b.id}`}><Btn kind="prime" icon="snap" onClick={() => snapshot(b)}>Snapshot</Btn></Blank>;
  return (
    <div class="split"><div class="snap"><div class="snapbar"><span class="dim wide">{asList ? '' : 'Time runs right. Click chooses B, Shift-click A; pull a pebble out to fork it.'}</span><span class="right" /><Seg small label="Picture or table" value={asList ? 'list' : 'tree'} options={[['tree', 'Tree'], ['list', 'Table']]} onPick={v => setQuery({ as: v === 'list' ? 'list' : null })} /></div>
      {asList ? <Table t={t} a={chosenA} b={chosenB} pick={pick} /> : <Picture t={t} a={chosenA} b={chosenB} pick={pick} here={b} given={given ?? undefined} since={since} />}
      <Compare a={chosenA} b={chosenB} here={b} /></div>
      <div class="side" tabIndex={0} role="region" aria-label="The chosen snapshot">{chosenB ? <Chosen s={chosenB} b={b} a={chosenA} alive={alive} /> : <p class="dim">Choose a snapshot.</p>}</div></div>
  );
}

const Table = ({ t, a, b, pick }: { t: Tree; a?: Snapshot; b?: Snapshot; pick: (id: string, shift: boolean) => void }) => (
  <div class="scroll grow" tabIndex={0} role="region" aria-label="Snapshots"><table class="plain stack"><thead><tr><th>Label</th><th>Of</th><th class="num">Taken</th><th class="num">Took</th><th>How</th><th class="num">Files</th><th aria-label="Compare" /></tr></thead><tbody>{[...t.pebbles].reverse().map(p => <tr key={p.snap.id} class={p.snap.id === b?.id ? 'sel' : ''}><td class="cut"><button type="button" class="plain" onClick={e => pick(p.snap.id, e.shiftKey)}>{safe(label(p.snap), 60)}</button>{p.undone && <span class="dim"> undone</span>}</td><td class="soft cut">{safe(boxes.value.get(p.snap.sandbox)?.name || p.snap.sandbox.slice(0, 8), 40)}</td><td class="num"><When t={p.snap.created_ms} /></td><td class="num" data-k="took">{span(p.snap.total_us / 1000)}</td><td class="soft">{p.snap.method}</td><td class="num" data-k="files">{p.snap.files || ''}</td><td class="num act">{p.snap.id === a?.id ? <span class="ab">A</span> : p.snap.id === b?.id ? <span class="ab b">B</span> : <Btn kind="quiet small" onClick={() => pick(p.snap.id, true)}>as A</Btn>}</td></tr>)}</tbody></table></div>
);

const PULL = 46; // pixels from which a drag is a fork
function Picture({ t, a, b, pick, here, given, since }: { t: Tree; a?: Snapshot; b?: Snapshot; pick: (id: string, shift: boolean) => void; here: Box; given?: Given; since?: number }) {
  const ref = useRef<HTMLDivElement>(null), [{ w, h }, size] = useState({ w: 820, h: 330 });
  useEffect(() => { const o = new ResizeObserver(() => size({ w: ref.current!.clientWidth, h: ref.current!.clientHeight })); o.observe(ref.current!); return () => o.disconnect(); }, []);
  const [pull, setPull] = useState<{ id: string; x0: number; y0: number; dx: number; dy: number } | null>(null), far = !!pull && Math.hypot(pull.dx, pull.dy) > PULL;
  const grab = (e: PointerEvent, id: string) => { if (e.button || e.pointerType === 'touch') return; (e.currentTarget as Element).setPointerCapture(e.pointerId); setPull({ id, x0: e.clientX, y0: e.clientY, dx: 0, dy: 0 }); };
  const move = (e: PointerEvent) => { if (pull) setPull({ ...pull, dx: e.clientX - pull.x0, dy: e.clientY - pull.y0 }); };
  const drop = () => { if (pull && far) void fork(here, 1, pull.id); setPull(null); };
  const n = t.pebbles.length, first = t.given ? 1.7 : 0.7, W = Math.max(w, 196 + (n + first) * 94), lanes = Math.max(1, Math.max(...t.ends.map(e => e.lane), ...t.pebbles.map(p => Math.ceil(p.lane))) + 1), H = Math.max(h, 120 + lanes * 104), step = (W - 190) / (n + first), X = (x: number) => 64 + (x < 0 ? 0 : x + first) * step, Y = (lane: number) => Math.min(H - 80, 72 + (H - 130) * ((lane + 0.15) / lanes));
  useEffect(() => { ref.current!.scrollLeft = 99999; }, [n, W]);
  const at = new Map<string, [number, number]>([['', [X(-1), Y(0)]], ['+', [X(-1) + step * 0.85, Y(0)]], ...t.pebbles.map(p => [p.snap.id, [X(p.x), Y(p.lane)]] as [string, [number, number]]), ...t.ends.map(e => [e.box.id, [W - 74, Y(e.lane)]] as [string, [number, number]])]);
  const edge = (from: [number, number], to: [number, number]) => { const [x1, y1] = from, [x2, y2] = to, bend = Math.min(110, Math.max(40, x2 - x1)); return y1 === y2 ? `M${x1} ${y1}L${x2} ${y2}` : `M${x1} ${y1}C${x1 + bend * 0.9} ${y1} ${x1 + bend * 0.35} ${y2} ${x1 + bend} ${y2}L${Math.max(x2, x1 + bend)} ${y2}`; };
  const order = t.pebbles.map(p => p.snap.id), keys = (e: KeyboardEvent) => {
    const focus = document.activeElement?.id.replace('peb-', '') ?? '', i = order.indexOf(order.includes(focus) ? focus : b?.id ?? ''), to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: order.length - 1 }[e.key];
    if (to !== undefined && order[to]) { e.preventDefault(); e.stopPropagation(); pick(order[to]!, e.shiftKey); document.getElementById(`peb-${order[to]}`)?.focus(); }
  };
  const r = (s: Snapshot) => Math.max(5.5, Math.min(14, 5 + Math.log2(1 + (s.files || s.bytes / 4096 || 1)) * 0.9)), times = t.pebbles.length > 1 ? [0, Math.floor((n - 1) / 2), n - 1].filter((x, i, l) => l.indexOf(x) === i) : [0];
  return (
    <div class="snapmap" ref={ref} onKeyDown={keys}><svg viewBox={`0 0 ${W} ${H}`} width={W} height={H} role="group" aria-label="Snapshots as a tree">
      {t.edges.map(e => at.has(e.from) && at.has(e.to) && <path key={e.from + e.to} d={edge(at.get(e.from)!, at.get(e.to)!)} fill="none" stroke={e.undone ? 'var(--ink3)' : 'var(--sand-fill)'} stroke-width={e.undone ? 1.2 : 2} stroke-dasharray={e.undone ? '3 4' : undefined} />)}
      {t.template && <a href="#/templates"><title>{`made from template ${safe(t.template, 80)}`}</title><circle class="ground" cx={X(-1)} cy={Y(0)} r="8" fill="var(--sand-fill)" stroke="var(--water)" stroke-width="2" /><text x={X(-1)} y={Y(0) + 32} class="pname">{safe(t.template, 17)}</text><text x={X(-1)} y={Y(0) + 47} class="psub">template</text></a>}
      {t.given && given && (([x, y]) => <g role="img" aria-label={`Manifest of ${plural(given.entries, 'entry', 'entries')}`}><title>{safe(given.tree, 2000)}</title><circle class="ground" cx={x} cy={y} r="7" fill="var(--sand)" stroke="var(--water)" stroke-width="2" /><text x={x} y={y + 32} class="pname">manifest</text><text x={x} y={y + 47} class="psub">{given.entries ? plural(given.entries, 'entry', 'entries') : plural(given.variables, 'variable')}</text></g>)(at.get('+')!)}
      {t.pebbles.map(p => { const [x, y] = at.get(p.snap.id)!, ring = p.snap.id === b?.id ? 'sea' : p.snap.id === a?.id ? 'iris' : '', R = r(p.snap); return (
        <a key={p.snap.id} id={`peb-${p.snap.id}`} href={href(['sandbox', here.id, 'snapshots'], { b: p.snap.id })} onClick={e => { e.preventDefault(); pick(p.snap.id, e.shiftKey); }} onDragStart={e => e.preventDefault()} onPointerDown={e => grab(e, p.snap.id)} onPointerMove={move} onPointerUp={drop} onPointerCancel={() => setPull(null)}><title>{`Snapshot ${exact(p.snap.created_ms)} ${safe(label(p.snap))}${p.undone ? ', undone' : ''}`}</title>
          {ring && <circle cx={x} cy={y} r={R + 6} fill="none" stroke={`var(--${ring})`} stroke-width="2" />}<circle class="pebble" cx={x} cy={y} r={R} fill={p.undone ? 'var(--water)' : 'var(--sand)'} stroke={p.undone ? 'var(--ink3)' : 'var(--water)'} stroke-width={p.undone ? 1.3 : 2} stroke-dasharray={p.undone ? '2 3' : undefined} />
          {ring && <><circle cx={x + R + 7} cy={y - R - 7} r="9" fill={`var(--${ring})`} /><text x={x + R + 7} y={y - R - 3} text-anchor="middle" class="abtext" fill={ring === 'sea' ? 'var(--on-sea)' : 'var(--bg)'}>{ring === 'sea' ? 'B' : 'A'}</text></>}
          <text x={x} y={y + 32} class={`pname ${ring ? 'strong' : ''} ${p.undone ? 'dimtext' : ''}`}>{safe(label(p.snap), 17)}</text><text x={x} y={y + 47} class="psub">{p.undone ? 'undone' : p.snap.files ? plural(p.snap.files, 'file') : clock(p.snap.created_ms).slice(0, 5)}</text></a>
      ); })}
      {t.ends.map(e => { const [x, y] = at.get(e.box.id)!, line = lineOf(e.box.id); return <a key={e.box.id} href={href(['sandbox', e.box.id])}><title>{`${e.box.id === here.id ? 'now, ' : ''}${safe(title(e.box), 60)}, ${e.box.state}`}</title><path d={coast(line, x, y, 25)} fill="var(--shoal)" /><path d={coast(line, x, y, 21)} fill="var(--shoal2)" /><path class="land" d={coast(line, x, y, 15)} {...land(e.box.state)} /><text x={x} y={y - 28} class="pname ital">{e.box.id === here.id ? 'now' : safe(title(e.box), 18)}</text><text x={x} y={y + 34} class="psub">{e.box.id !== here.id ? `fork, ${e.box.state}` : since === undefined || e.box.state !== 'running' ? e.box.state : since ? `${plural(since, 'file')} since` : 'nothing since'}</text></a>; })}
      {pull && far && at.has(pull.id) && (([x, y]) => <g class="pull"><path d={`M${x} ${y}L${x + pull.dx} ${y + pull.dy}`} stroke="var(--sea)" stroke-width="2" stroke-dasharray="4 4" /><circle cx={x + pull.dx} cy={y + pull.dy} r="9" fill="var(--sea)" /><text x={x + pull.dx} y={y + pull.dy - 16} class="pname strong">let go to fork here</text></g>)(at.get(pull.id)!)}
      {times.map(i => t.pebbles[i] && <g key={i}><path d={`M${X(t.pebbles[i]!.x)} ${H}v-6`} stroke="var(--contour)" /><text x={X(t.pebbles[i]!.x)} y={H - 11} class="psub">{clock(t.pebbles[i]!.snap.created_ms).slice(0, 5)}</text></g>)}
    </svg></div>
  );
}

function Chosen({ s, b, a, alive }: { s: Snapshot; b: Box; a?: Snapshot; alive: number }) {
  const of_ = boxes.value.get(s.sandbox);
  const since = useAsk(() => all<Change>('/diff', { a: s.id, b: b.id }).then(c => c.length), [s.id, b.id, b.from]), up = snaps.value.get(s.parent), units = useAsk(() => (b.state === 'running' ? kept(b.id) : Promise.resolve([])), [b.id, b.state, alive]).data ?? [];
  const drop = () => { question.value = { title: 'Delete this snapshot?', danger: true, yes: `Delete ${safe(label(s), 40)}`, text: <p class="soft">Nothing can go back to it any more. Sandboxes and snapshots that stand on it keep their files.</p>, act: async () => { await del(`/snapshots/${s.id}`); dropSnap(s.id); setQuery({ b: null }); toast('The snapshot is gone.'); } }; };
  return (
    <><section><h2><span class="ab b">B</span> <Said text={label(s)} most={60} /></h2><div class="kv"><span>Id</span><code>{s.id}</code><span>Of</span><span>{of_ ? <a href={href(['sandbox', of_.id])}>{safe(title(of_), 40)}</a> : 'a sandbox that is gone'}</span><span>Taken</span><span title={exact(s.created_ms)}>{clock(s.created_ms)}{s.automatic && ', automatically'}</span>{up && <><span>Parent</span><span><button type="button" class="plain cut" onClick={() => setQuery({ b: up.id })}>{safe(label(up), 40)}</button></span></>}{s.files > 0 && <><span>Changed</span><span>{plural(s.files, 'file')}, {bytes(s.bytes)}</span></>}<span>Cost</span><span>{span(s.total_us / 1000)}, {s.method === 'swap' ? 'a swap: nothing was running' : s.method}</span><span>Durable</span><span class={s.durable ? 'ok' : ''}>{s.durable ? 'yes' : 'not yet synced'}</span></div>
      <div class="btnrow"><Btn icon="fork" onClick={() => fork(b, 1, s.id)}>Fork here</Btn><Btn icon="undo" onClick={() => undo(b, s)}>Undo to here</Btn><Btn icon="down" onClick={() => save(`${label(s)}.tar.zst`, address(`/api/v1/snapshots/${s.id}/export`))}>Export</Btn><Btn icon="edit" onClick={() => relabel(s)}>Rename…</Btn></div><p class="gapped"><Btn kind="quiet small danger" onClick={drop}>Delete…</Btn></p></section>
      <section><h2>Undo would</h2><p class="soft">end {b.state === 'running' ? (alive ? <>{plural(alive, 'process', 'processes')} of {safe(title(b), 40)}</> : 'nothing, since nothing runs') : 'nothing'}{since.data !== undefined && <>{units.length ? ', ' : ' and '}put back {since.data ? plural(since.data, 'file') : 'no file'}</>}{units.length > 0 && <> and start <span class="mono">{several(units)}</span> again</>}. A snapshot of the present is taken first, so undo can be undone.</p></section>
      <section><h2>By hand</h2><Cmd text={a ? `cay diff ${a.id} ${s.id}` : `cay diff ${s.id} ${b.name ? word(b.name) : b.id}`} /><Cmd text={`cay undo ${b.name ? word(b.name) : b.id} ${s.id}`} /></section></>
  );
}

function Compare({ a, b, here }: { a?: Snapshot; b?: Snapshot; here: Box }) {
  const [open, show] = useState(''), from = a ?? b, to = a && b ? b.id : here.id;
  const d = useAsk(() => (from ? all<Change>('/diff', { a: from.id, b: to, patch: true }) : Promise.resolve([])), [from?.id, to, here.from]);
  useEffect(() => show(''), [from?.id, to]);
  if (!from) return null;
  const rows = d.data ?? [], sum = rows.reduce((n, c) => { const [p, m] = c.patch ? counts(c.patch) : [0, 0]; return [n[0]! + p, n[1]! + m]; }, [0, 0]), tone: Record<string, string> = { A: 'ok', M: 'warn', D: 'bad', R: 'warn', T: 'warn' };
  return (
    <div class="cmp"><div class="bar"><span class="ab">A</span><Said text={label(from)} class="cut" most={40} /><span class="dim">to</span>{a && b ? <><span class="ab b">B</span><Said text={label(b)} class="cut" most={40} /></> : <b>now</b>}<span class="dim wide">{d.data ? plural(rows.length, 'path') : ''}</span><span class="pm wide"><span class="ok">+{sum[0]}</span> <span class="bad">−{sum[1]}</span></span><span class="right acts"><Btn kind="small" onClick={() => save('changes.patch', address('/api/v1/diff/patch', { a: from.id, b: to }))}>As patch</Btn></span></div>
      {d.error ? <Trouble error={d.error} what="They cannot be compared." again={d.again} /> : !d.data ? <Loading rows={2} /> : rows.length === 0 ? <p class="pad soft">Nothing is different.</p> : <div class="scroll cmplist" tabIndex={0} role="region" aria-label="What changed"><table><tbody>{rows.slice(0, 400).map(c => { const [p, m] = c.patch ? counts(c.patch) : [0, 0], blocks = Math.min(5, p + m), plus = p + m ? Math.round((p / (p + m)) * blocks) : 0; return <><tr key={c.path}><td class={`mono ${tone[c.kind]} w24`}>{c.kind}</td><td class="mono cut"><button type="button" class="plain mono cut" aria-expanded={open === c.path} onClick={() => show(open === c.path ? '' : c.path)}>{safe(c.path, 160)}</button></td><td class="num"><span class="ok">+{p}</span> <span class="bad">−{m}</span><span class="blocks wide" aria-hidden="true">{Array.from({ length: 5 }, (_, i) => <i key={i} class={i < plus ? 'a' : i < blocks ? 'd' : ''} />)}</span></td></tr>{open === c.path && <tr><td colSpan={3} class="diffcell">{c.patch ? <DiffView path={c.path} patch={c.patch} /> : <p class="pad dim">Not shown as text.</p>}</td></tr>}</>; })}</tbody></table></div>}</div>
  );
}
