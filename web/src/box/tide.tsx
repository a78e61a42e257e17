// SPDX-License-Identifier: Apache-2.0
// The tide line: the sandbox's whole life. Strokes are commands (height is how long, by its logarithm), pebbles snapshots, a coral tick a refusal, the islet now.
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Box, Given } from '../api';
import { coast } from '../lib/islet';
import { clock, plural, safe, span } from '../lib/format';
import { href, go } from '../lib/router';
import { net, now, snaps } from '../live';
import { keptBy } from '../state';
import { land, lineOf } from '../ui';
import type { Stroke } from './inside';

const H = 46, Y = 25;

/** Moments far apart are drawn closer, so that a long night does not hide a busy minute. */
export function axis(times: number[], from: number, to: number, W: number): (t: number) => number {
  const all = [...new Set([from, ...times, to])].sort((a, b) => a - b), gaps = all.slice(1).map((t, i) => Math.log1p((t - all[i]!) / 1000));
  const sum = gaps.reduce((n, g) => n + g, 0) || 1, at = [0];
  for (const g of gaps) at.push(at.at(-1)! + (g / sum) * W);
  return t => {
    let lo = 0, hi = all.length - 1;
    while (hi - lo > 1) { const m = (lo + hi) >> 1; if (all[m]! <= t) lo = m; else hi = m; }
    const f = (t - all[lo]!) / Math.max(1, all[hi]! - all[lo]!);
    return at[lo]! + Math.max(0, Math.min(1, f)) * ((at[hi] ?? W) - at[lo]!);
  };
}

/** What is told of it holds what the pointer is shown. */
const Spot = ({ what = '', says, children, ...a }: { what?: string; says: string } & JSX.SVGAttributes<SVGAElement>) => <a {...(a as object)} aria-label={`${what} ${says}`.trim()}><title>{says}</title>{children}</a>;

export function Tide({ b, strokes, given }: { b: Box; strokes: Stroke[]; given?: Given | null }) {
  const ref = useRef<HTMLDivElement>(null), [W, size] = useState(0), [drag, setDrag] = useState('');
  useEffect(() => { const o = new ResizeObserver(() => size(ref.current!.clientWidth)); o.observe(ref.current!); return () => o.disconnect(); }, []);
  const pebbles = [...snaps.value.values()].filter(s => s.sandbox === b.id).sort((x, y) => x.created_ms - y.created_ms), no = (net.value.get(b.id) ?? []).slice(-60);
  const kept = keptBy(b, snaps.value);
  const right = Math.max(b.created_ms + 1, Math.floor(now.value / 5000) * 5000), x0 = 6, x1 = Math.max(60, W - 26);
  const x = axis([...strokes.map(p => p.t), ...pebbles.map(s => s.created_ms), ...no.map(r => r.t)].filter(t => t > b.created_ms && t < right), b.created_ms, right, x1 - x0), X = (t: number) => x0 + x(t);
  const put = given && given.entries + given.variables > 0 ? given : null, began = safe(b.template, 12) + (put ? ', manifest' : '');
  let free = 14 + began.length * 6.2;
  const named = new Set(pebbles.filter(s => s.label).reverse().filter(s => { const at = X(s.created_ms), half = Math.min(s.label.length, 22) * 3; const ok = !s.automatic && at + half < x1 - 10 && Math.abs(at - free) > 0; return ok; }).map(s => s.id));
  const labels: { id: string; at: number; text: string }[] = [];
  for (const s of pebbles) { const at = X(s.created_ms), half = Math.min(s.label.length, 22) * 3.1; if (named.has(s.id) && at - half > free) { labels.push({ id: s.id, at, text: safe(s.label, 22) }); free = at + half + 10; } }
  const toSnap = (id: string) => href(['sandbox', b.id, 'snapshots'], { b: id });
  return (
    <div class="tide" ref={ref}>{W > 0 && <svg viewBox={`0 0 ${W} ${H}`} height={H} role="group" aria-label={`Life of this sandbox: ${plural(strokes.length, 'command')}, ${plural(pebbles.length, 'snapshot')}, ${plural(no.length, 'refusal')}`}>
      <path d={`M0 ${Y}H${W - 14}`} stroke="var(--contour)" />
      {strokes.map((p, i) => { const h = 2.5 + Math.min(11, Math.log10(1 + Math.max(1, p.took)) * 2.3), x = X(p.t).toFixed(1); return <Spot key={p.id || i} href={href(['sandbox', b.id, 'timeline'], { span: p.id })} tabindex={-1} what="Command" says={`${clock(p.t)} ${safe(p.label, 120)}${p.on ? ', running' : `, ${span(p.took)}`}`}><path d={`M${x} ${(Y - h).toFixed(1)}V${(Y + h * 0.45).toFixed(1)}`} stroke="transparent" stroke-width="7" /><path d={`M${x} ${(Y - h).toFixed(1)}V${(Y + h * 0.45).toFixed(1)}`} stroke={p.bad ? 'var(--amber)' : 'var(--sea)'} stroke-opacity=".75" stroke-width="1.6" /></Spot>; })}
      {no.map((r, i) => <Spot key={i} href={href(['sandbox', b.id, 'network'], { to: r.name || r.addr })} tabindex={-1} says={`${clock(r.t)} refused ${safe(r.name || r.addr, 80)}`}><path d={`M${X(r.t).toFixed(1)} ${Y - 17}v12`} stroke="transparent" stroke-width="8" /><path d={`M${X(r.t).toFixed(1)} ${Y - 15}v8`} stroke="var(--coral)" stroke-width="2" /></Spot>)}
      <circle cx={x0} cy={Y} r="4.500" fill="var(--sand)" stroke="var(--bg)" stroke-width="2"><title>{`${clock(b.created_ms)} made from ${safe(b.template, 40)}`}</title></circle>{put && <circle cx={x0 + 12} cy={Y} r="4" fill="var(--sand)" stroke="var(--bg)" stroke-width="2"><title>{`manifest of ${plural(put.entries, 'entry', 'entries')}`}</title></circle>}<text x="0" y={Y + 18} class="tlabel" text-anchor="start">{began}</text>
      {pebbles.map(s => <Spot key={s.id} href={toSnap(s.id)} what={s.label && 'Snapshot'} says={`${clock(s.created_ms)} ${safe(s.label || `snapshot ${s.id.slice(0, 8)}`, 80)}, ${span(s.total_us / 1000)}`} onPointerDown={() => setDrag(s.id)} onPointerUp={e => { if (drag && drag !== s.id) { e.preventDefault(); go(href(['sandbox', b.id, 'snapshots'], { a: drag, b: s.id })); } setDrag(''); }} onDragStart={e => e.preventDefault()}><circle cx={X(s.created_ms)} cy={Y} r={s.automatic ? 3.5 : 5} fill={kept.has(s.id) ? 'var(--sand)' : 'var(--bg)'} stroke={kept.has(s.id) ? 'var(--bg)' : 'var(--ink3)'} stroke-width={kept.has(s.id) ? 2 : 1.3} stroke-dasharray={kept.has(s.id) ? undefined : '2 2'} /></Spot>)}
      {labels.map(l => <text key={l.id} x={l.at} y={Y + 18} class="tlabel" text-anchor="middle">{l.text}</text>)}
      <path class="land" d={coast(lineOf(b.id), W - 10, Y, 9)} {...land(b.state)}><title>now</title></path>
    </svg>}</div>
  );
}
