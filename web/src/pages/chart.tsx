// SPDX-License-Identifier: Apache-2.0
// The chart: every sandbox an islet, families together. An islet never jumps.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { coast, loop } from '../lib/islet';
import { bytes, safe } from '../lib/format';
import { href } from '../lib/router';
import { boxes, cpu, snaps, used } from '../live';
import { names, place, type Place } from '../lib/place';
import { failed, title } from '../state';
import { land } from '../ui';

/** Where everything was when it was drawn last, and in what width. */
let last: { W: number; put: Place[] } = { W: 0, put: [] };

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
    if (W) last = { W, put: place(boxes.value, snaps.value, W, H, id => by.get(id) ?? 7, last.W === W ? last.put : []) };
    return W ? last.put : [];
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
