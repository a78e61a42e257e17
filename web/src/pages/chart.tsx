// SPDX-License-Identifier: Apache-2.0
// The chart: every sandbox an islet, families together. Positions follow from ids, so that an islet never jumps.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { Box, Snapshot } from '../api';
import { coast, loop, random } from '../lib/islet';
import { bytes, safe } from '../lib/format';
import { href } from '../lib/router';
import { boxes, cpu, snaps, used } from '../live';
import { failed, lineage, title, type Boxes } from '../state';
import { land } from '../ui';

interface Place { box: Box; line: string[]; x: number; y: number; R: number; first: boolean; more: number }
const MOST = 150;

/** Families that are too many to be drawn one by one become one islet with a count. */
export function groups(all: Boxes, known: ReadonlyMap<string, Snapshot>): { root: string; members: Box[]; lines: Map<string, string[]> }[] {
  const by = new Map<string, { root: string; members: Box[]; lines: Map<string, string[]> }>();
  for (const b of [...all.values()].sort((a, c) => a.created_ms - c.created_ms)) {
    const line = lineage(b.id, all, known), root = line[0]!;
    const g = by.get(root) ?? by.set(root, { root, members: [], lines: new Map() }).get(root)!;
    g.members.push(b);
    g.lines.set(b.id, line);
  }
  return [...by.values()];
}

export function place(all: Boxes, known: ReadonlyMap<string, Snapshot>, W: number, H: number, sizeOf: (id: string) => number): Place[] {
  const put: Place[] = [], fam = groups(all, known), collapse = all.size > MOST, narrow = W < 600, scale = (narrow ? 0.75 : 1) * Math.min(1.7, Math.max(1, Math.sqrt(24 / Math.max(1, all.size))));
  const free = (x: number, y: number, R: number, gap: number) => x > R + 12 && x < W - R - 12 && y > R + 12 && y < H - R - 26 && !put.some(p => Math.hypot(p.x - x, (p.y - y) * 1.2) < (p.R + R) * gap + (p.first ? 14 : 4));
  const shown = fam.sort((a, b) => b.members.length - a.members.length || (a.root < b.root ? -1 : 1)).slice(0, MOST);
  for (const f of shown) {
    const r = random('at' + f.root), big = f.members.length > 1, members = collapse ? f.members.slice(0, 1) : f.members;
    let cx = W / 2, cy = H / 2;
    for (let i = 0, k = 0; i < members.length; i++) {
      const box = members[i]!, q = i ? random(f.root + box.id) : r, R = Math.min(30, sizeOf(box.id)) * scale * (i || !big ? 1 : 1.25);
      let x = 0, y = 0, ok = false;
      for (k = 0; k < 240 && !ok; k++) {
        if (i) { const t = q() * 6.283, d = (narrow ? 24 : 38) + k * 0.6 + q() * 22; x = cx + Math.cos(t) * d * 1.6; y = cy + Math.sin(t) * d; ok = free(x, y, R, 1.5) && !(Math.abs(x - cx) < 50 && y > cy && y < cy + 44); }
        else { const pad = big ? 70 * scale : 30; x = pad + q() * (W - 2 * pad); y = pad * 0.8 + q() * (H - 1.8 * pad); ok = free(x, y, R, big ? 3.4 - k / 120 : 2 - k / 240); }
      }
      if (!ok && put.length > 40) continue;
      if (!i) { cx = x; cy = y; }
      put.push({ box, line: f.lines.get(box.id)!, x, y, R, first: i === 0, more: i === 0 && big ? f.members.length : 0 });
    }
  }
  return put;
}

/** Names of families, and of all where there are few: inside of the chart, and none over another. */
export function names(put: Place[], W: number): { p: Place; x: number; y: number }[] {
  const out: { p: Place; x: number; y: number; half: number }[] = [];
  for (const p of put.filter(q => q.more > 1 || (put.length <= 24 && q.first)).sort((a, b) => b.more - a.more || b.R - a.R)) {
    const half = Math.min(28, title(p.box).length) * 3.4 + (p.more > 1 ? 10 : 0), x = Math.max(half + 4, Math.min(W - half - 4, p.x)), y = p.y + p.R * 0.82 + 18;
    if (!out.some(o => Math.abs(o.y - y) < 15 && Math.abs(o.x - x) < o.half + half + 4)) out.push({ p, x, y, half });
  }
  return out;
}

export function Chart() {
  const ref = useRef<HTMLDivElement>(null), [{ W, H }, size] = useState({ W: 0, H: 0 });
  useEffect(() => {
    const o = new ResizeObserver(() => size({ W: ref.current!.clientWidth, H: ref.current!.clientHeight }));
    o.observe(ref.current!);
    return () => o.disconnect();
  }, []);
  // Memory in powers of four, so that a breath does not move the coast.
  const sizeKey = [...boxes.value.keys()].map(id => { const m = used.value.get(id)?.memory ?? 0; return m ? Math.round(Math.log2(m / 262144 + 1) / 2) : 0; });
  const put = useMemo(() => {
    const ids = [...boxes.value.keys()], by = new Map(ids.map((id, i) => [id, 7 + sizeKey[i]! * 2.6]));
    return W ? place(boxes.value, snaps.value, W, H, id => by.get(id) ?? 7) : [];
  }, [boxes.value, snaps.value, W, H, sizeKey.join()]);
  const families = put.filter(p => p.more > 1).map(p => ({ head: p, all: put.filter(q => q.line[0] === p.line[0]) }));
  return (
    <div class="chart" ref={ref}>{W > 0 && <svg viewBox={`0 0 ${W} ${H}`} role="group" aria-label="All sandboxes as a chart">
      {families.map(f => <Shore key={f.head.box.id} all={f.all} narrow={W < 600} />)}
      {Array.from({ length: Math.floor(W / 40) }, (_, i) => <path key={i} d={`M${i * 40} ${H}v${i % 2 ? -3 : -6}`} stroke="var(--contour)" />)}
      {put.map(p => <Isle key={p.box.id} p={p} />)}
      {names(put, W).map(({ p, x, y }) => <text key={p.box.id} class="isle-name" x={x} y={y}>{safe(title(p.box), 28)}{p.more > 1 && <tspan dx="5">{p.more}</tspan>}</text>)}
    </svg>}{boxes.value.size > put.length && <span class="chart-more dim">{put.length} of {boxes.value.size} drawn; <a href="#/sandboxes">the list</a> has all</span>}</div>
  );
}

const Shore = ({ all, narrow }: { all: Place[]; narrow: boolean }) => {
  const cx = all.reduce((s, p) => s + p.x, 0) / all.length, cy = all.reduce((s, p) => s + p.y, 0) / all.length;
  const ring = (pad: number) => loop(Array.from({ length: 20 }, (_, i) => {
    const t = (i / 20) * 6.2832, c = Math.cos(t), s = Math.sin(t), d = Math.max(...all.map(p => (p.x - cx) * c + (p.y - cy) * s + p.R)) + pad + 3 * Math.sin(i * 2.4 + cx);
    return [cx + c * d, cy + s * d] as [number, number];
  }));
  return <g><path d={ring(narrow ? 15 : 34)} fill="none" stroke="var(--contour)" stroke-opacity=".5" stroke-dasharray="1 5" stroke-linecap="round" /><path d={ring(narrow ? 7 : 18)} fill="var(--shoal)" fill-opacity=".35" stroke="var(--contour)" /></g>;
};

const Isle = ({ p }: { p: Place }) => {
  const { box, line, x, y, R } = p, state = failed(box) ? 'damaged' : box.state, busy = Math.min(3, Math.round((cpu.value.get(box.id) ?? 0) * 3)), u = used.value.get(box.id);
  const name = `${safe(title(box), 60)}, ${state === 'damaged' ? 'failed' : box.state}${u ? `, ${bytes(u.memory)}` : ''}`;
  return (
    <a href={href(['sandbox', box.id])} aria-label={name}><title>{name}</title>
      <path d={coast(line, x, y, R * 1.55)} fill="var(--shoal)" /><path d={coast(line, x, y, R * 1.28)} fill="var(--shoal2)" /><path class="land" d={coast(line, x, y, R)} {...land(state)} />
      {box.state === 'running' && Array.from({ length: busy }, (_, i) => <path key={i} d={coast(line, x, y, R * (0.72 - i * 0.24))} fill="none" stroke="var(--bg)" stroke-opacity=".42" />)}
    </a>
  );
};
