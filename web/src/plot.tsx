// SPDX-License-Identifier: Apache-2.0
// A plot: one or two series over time, from 0, the last value at the line's end, gaps for what is missing; cross-hairs of a row move together.
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { clock } from './lib/format';
import { theme, token } from './theme';

export interface Line { name: string; color: string; data: (number | null)[]; fill?: boolean }
export interface PlotProps { times: number[]; lines: Line[]; height?: number; limit?: number; sync: string; show: (v: number) => string; label: string; from?: number; to?: number }

const tint = (c: string) => (c.length === 7 ? c + '1d' : c);

export default function Plot({ times, lines, height = 104, limit, sync, show, label, from, to }: PlotProps) {
  const host = useRef<HTMLDivElement>(null), plot = useRef<uPlot | null>(null), latest = useRef({ lines, limit, show });
  latest.current = { lines, limit, show };
  const top = Math.max(limit ?? 0, 1e-9, ...lines.flatMap(l => l.data.map(v => v ?? 0))) * 1.18;
  useEffect(() => {
    const el = host.current!, ink3 = token('ink3'), ink = token('ink'), rule = token('line'), amber = token('amber');
    const o: uPlot.Options = {
      width: el.clientWidth || 300, height, padding: [14, 58, 0, 0], legend: { show: false },
      cursor: { sync: { key: sync, setSeries: false }, y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: { x: { time: true }, y: { range: (_u, _min, max) => [0, max] } },
      axes: [
        { stroke: ink3, grid: { show: false }, ticks: { show: false }, size: 18, gap: 3, font: '11px system-ui, sans-serif', values: () => [] },
        { show: false, grid: { show: true } },
      ],
      series: [{}, ...lines.map((l, i): uPlot.Series => ({ stroke: token(l.color), width: 1.5, fill: l.fill ? tint(token(l.color)) : undefined, dash: i ? [3, 3] : undefined, points: { show: false }, spanGaps: false }))],
      hooks: { draw: [u => {
        const c = u.ctx, r = devicePixelRatio, { left, top: t, width, height: h } = u.bbox, now = latest.current;
        c.save();
        c.font = `${11 * r}px system-ui, sans-serif`;
        c.textAlign = 'left'; c.textBaseline = 'alphabetic'; // uPlot leaves those of its axis
        c.strokeStyle = rule;
        c.setLineDash([2 * r, 4 * r]);
        for (const f of [0, 0.5]) { c.beginPath(); c.moveTo(left, t + h * f); c.lineTo(left + width, t + h * f); c.stroke(); }
        c.setLineDash([]);
        c.fillStyle = ink3;
        c.fillText(now.show(u.scales.y!.max ?? 0), left, t - 4 * r);
        c.fillText(clock((u.scales.x!.min ?? 0) * 1000).slice(0, 5), left, t + h + 14 * r);
        c.textAlign = 'right';
        c.fillText(clock((u.scales.x!.max ?? 0) * 1000).slice(0, 5), left + width, t + h + 14 * r);
        c.textAlign = 'left';
        if (now.limit) { const y = u.valToPos(now.limit, 'y', true); c.strokeStyle = amber; c.setLineDash([5 * r, 3 * r]); c.beginPath(); c.moveTo(left, y); c.lineTo(left + width, y); c.stroke(); c.setLineDash([]); c.fillStyle = amber; c.fillText(now.show(now.limit), left + width + 6 * r, y + 4 * r); }
        const taken: number[] = [];
        for (const l of now.lines) {
          const v = l.data.at(-1);
          if (v == null) continue;
          const y = u.valToPos(v, 'y', true);
          let ty = Math.min(y + 4 * r, t + h - 2 * r);
          while (taken.some(k => Math.abs(k - ty) < 12 * r)) ty -= 12 * r;
          taken.push(ty);
          c.fillStyle = token(l.color); c.beginPath(); c.arc(left + width, y, 2.5 * r, 0, 7); c.fill();
          c.fillStyle = ink; c.fillText(now.show(v), left + width + 6 * r, ty);
        }
        c.restore();
      }] },
    };
    plot.current = new uPlot(o, [[0], ...lines.map(() => [0])] as uPlot.AlignedData, el);
    const size = new ResizeObserver(() => { if (el.clientWidth) plot.current?.setSize({ width: el.clientWidth, height }); });
    size.observe(el);
    return () => { size.disconnect(); plot.current?.destroy(); plot.current = null; };
  }, [theme.value, lines.length, height]);
  useEffect(() => {
    const u = plot.current;
    if (!u || !times.length) return;
    u.batch(() => { u.setData([times.map(t => t / 1000), ...lines.map(l => l.data)] as uPlot.AlignedData, false); const first = (from ?? times[0]!) / 1000; u.setScale('x', { min: first, max: Math.max((to ?? times.at(-1)!) / 1000, first + 10) }); u.setScale('y', { min: 0, max: top }); });
  });
  return <div ref={host} class="uplot-host" style={{ height: `${height}px` }} role="img" aria-label={`${label}: ${lines.map(l => `${l.name} ${l.data.at(-1) == null ? 'unknown' : show(l.data.at(-1)!)}`).join(', ')}`} />;
}
