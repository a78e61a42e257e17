// SPDX-License-Identifier: Apache-2.0
// Where the chart's islets are. The first places follow from ids; from then on an islet stays where it is, and who comes looks for room beside. Pure.
import type { Box, Snapshot } from '../api';
import { lineage, title, type Boxes } from '../state';
import { random } from './islet';

export interface Place { box: Box; line: string[]; x: number; y: number; R: number; first: boolean; more: number }
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

/** was: the places of before, in a chart of the same width. Who turns out to be of another family goes there. */
export function place(all: Boxes, known: ReadonlyMap<string, Snapshot>, W: number, H: number, sizeOf: (id: string) => number, was: readonly Place[] = []): Place[] {
  const put: Place[] = [], collapse = all.size > MOST, narrow = W < 600, scale = (narrow ? 0.75 : 1) * Math.min(1.7, Math.max(1, Math.sqrt(24 / Math.max(1, all.size))));
  const shown = groups(all, known).sort((a, b) => b.members.length - a.members.length || (a.root < b.root ? -1 : 1)).slice(0, MOST).map(f => ({ ...f, some: collapse ? f.members.slice(0, 1) : f.members }));
  const drawn = new Map(shown.flatMap(f => f.some.map(b => [b.id, f.root]))), held = was.filter(p => drawn.get(p.box.id) === p.line[0] && p.y < H - 30), old = new Map(held.map(p => [p.box.id, p])), least = all.size > 40 ? 0 : 12 * scale; // room to grow, where there is room
  const far = (p: Place, x: number, y: number, R: number, gap: number) => Math.hypot(p.x - x, (p.y - y) * 1.2) >= (Math.max(least, p.R) + Math.max(least, R)) * gap + (p.first ? 14 : 4);
  const free = (x: number, y: number, R: number, gap: number) => x > R + 12 && x < W - R - 12 && y > R + 12 && y < H - R - 26 && put.every(p => far(p, x, y, R, gap)) && held.every(p => far(p, x, y, R, gap));
  for (const f of shown) {
    const r = random('at' + f.root), big = f.members.length > 1;
    let cx = W / 2, cy = H / 2;
    for (let i = 0, k = 0; i < f.some.length; i++) {
      const box = f.some[i]!, q = i ? random(f.root + box.id) : r, R = Math.min(30, sizeOf(box.id)) * scale * (i || !big ? 1 : 1.25), kept = old.get(box.id);
      let x = kept?.x ?? 0, y = kept?.y ?? 0, ok = !!kept;
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
