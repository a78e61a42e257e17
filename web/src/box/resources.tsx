// SPDX-License-Identifier: Apache-2.0
// What it uses, its limits, and why a limit was reached.
import { lazy } from '../lib/lazy';
import { get, of, type Box, type Usage } from '../api';
import { bytes, plural, safe } from '../lib/format';
import { feed, now, samples } from '../live';
import { Range, usePast } from '../range';
import { Icon, Loading, Sheet, Trouble, useAsk, When } from '../ui';
import type { PlotProps } from '../plot';
import type { Point } from '../state';

const Plot = lazy<PlotProps>(() => import('../plot'));
const words: Record<string, string> = { oom: 'Memory ran out, and a process was ended', pids: 'No more processes could be started', disk: 'Its disk is full', time: 'A command took longer than it may', cpu: 'It was held back' };

export default function Resources({ b }: { b: Box }) {
  const u = useAsk(() => get<Usage>(of(b.id, '/usage')), [b.id, b.state, Math.floor(now.value / 4000)]);
  const s = samples.value, t = s.map(x => x.time_ms), one = (i: number) => s[i]?.items.find(x => x.id === b.id), limit = (v: unknown) => (typeof v === 'number' && v > 0 ? v : undefined);
  const flow = (f: (x: NonNullable<ReturnType<typeof one>>) => number) => s.map((x, i) => { const a = i ? one(i - 1) : undefined, c = one(i), d = i ? x.time_ms - s[i - 1]!.time_ms : 0; return a && c && d < 10000 ? (Math.max(0, f(c) - f(a)) / d) * 1000 : null; }), level = (f: (x: NonNullable<ReturnType<typeof one>>) => number) => s.map((_, i) => { const c = one(i); return c ? f(c) : null; });
  const hits = feed.value.filter(e => e.sandbox === b.id && e.kind === 'limit'), cpus = limit(b.limits.cpu_milli), x = u.data;
  // A limit that is far away would press the line to the ground.
  const near = (most: number | undefined, seen: number) => (most && seen > most / 5 ? most : undefined);
  const plots: [string, string, Omit<PlotProps, 'times' | 'sync' | 'label'>][] = [
    ['CPU', `of ${cpus ? cpus / 1000 : 'all'} cores`, { lines: [{ name: 'cores', color: 'sea', data: flow(i => i.cpu_us / 1e6), fill: true }], show: v => v.toFixed(2), limit: cpus && cpus / 1000, height: 140 }], ['Memory', limit(b.limits.memory) ? `of ${bytes(limit(b.limits.memory)!)}` : 'without a limit', { lines: [{ name: 'memory', color: 'sand', data: level(i => i.memory), fill: true }], show: bytes, height: 140, limit: near(limit(b.limits.memory), Math.max(x?.memory_peak ?? 0, ...s.map((_, i) => one(i)?.memory ?? 0))) }],
    ['Disk', limit(b.limits.disk) ? `of ${bytes(limit(b.limits.disk)!)}` : 'without a limit', { lines: [{ name: 'disk', color: 'iris', data: level(i => i.disk), fill: true }], show: bytes, height: 140 }], ['Network', 'out and in', { lines: [{ name: 'out', color: 'sea', data: flow(i => i.net_tx), fill: true }, { name: 'in', color: 'iris', data: flow(i => i.net_rx) }], show: bytes, height: 140 }],
  ];
  const past = usePast(of(b.id, '/usage/past')), kept = past.data, pick = (f: (q: Point) => number) => (kept?.at ?? []).map(q => (q ? f(q) : null));
  const data: Record<string, (number | null)[]> = { CPU: pick(q => q.cpu_milli / 1000), Memory: pick(q => q.memory), Disk: pick(q => q.disk), Network: pick(q => q.net_tx) };
  const row = (name: string, v: number | undefined, most: unknown, fmt: (n: number) => string, note = '') => <tr key={name}><td>{name}</td><td class="num">{v === undefined ? '–' : fmt(v)}</td><td class="num soft">{limit(most) ? fmt(limit(most)!) : 'no limit'}</td><td class="wide">{v !== undefined && limit(most) ? <span class="meter"><i class={v / limit(most)! > 0.85 ? 'hot' : ''} style={{ width: `${Math.min(100, (v / limit(most)!) * 100)}%` }} /></span> : null}{note && <span class="dim">{note}</span>}</td></tr>;
  return (
    <div class="scroll res" tabIndex={0} role="region" aria-label="Resources">{u.error && !x ? <Trouble error={u.error} what="Its use cannot be read." again={u.again} /> : null}
      <div class="rangebar"><Range />{past.range && <span class="dim">{kept ? (kept.times.length ? 'as the server kept it, also when no page was open' : 'nothing is kept of that time') : ''}</span>}</div>{past.error ? <Trouble error={past.error} what="The past cannot be read." again={past.again} /> : null}
      <div class="grid2">{plots.filter(([name]) => !past.range || data[name]).map(([name, note, p]) => <figure class="plot" key={name}><figcaption><b>{name}</b><span class="dim">{note}</span></figcaption>{past.range ? (!kept ? <Loading rows={2} /> : kept.times.length > 1 ? <Plot times={kept.times} sync={b.id} label={name} {...p} lines={p.lines.map((l, i) => ({ ...l, data: i ? pick(q => q.net_rx) : data[name]! }))} from={kept.since} to={kept.until} /> : <p class="dim">Nothing is kept of that time.</p>) : s.length > 1 && b.state === 'running' ? <Plot times={t} sync={b.id} label={name} {...p} /> : b.state === 'running' ? <Loading rows={2} /> : <p class="dim">It does not run.</p>}</figure>)}</div>
      <Sheet title="Limits" class="gap"><table class="plain"><thead><tr><th>What</th><th class="num">Used</th><th class="num">At most</th><th class="wide">Share</th></tr></thead><tbody>{row('Memory', x?.memory, b.limits.memory, bytes, x ? `at most ${bytes(x.memory_peak)} so far` : '')}{row('Processes', x?.pids, b.limits.pids, String)}{row('Disk', x?.disk, b.limits.disk, bytes)}{row('Files', x?.inodes, b.limits.inodes, n => n.toLocaleString('en'))}</tbody></table></Sheet>
      <Sheet title="Limits that were reached" note={x && x.oom_kills + x.pids_hits ? plural(x.oom_kills + x.pids_hits, 'time') : ''} class="gap">{hits.length ? <ul class="plainlist">{hits.map(e => <li key={e.id}><Icon name="bang" class="warn" /><span class="grow">{words[e.reason] ?? `A limit was reached: ${safe(e.reason, 60)}`}.</span><When t={e.time_ms} class="dim" /></li>)}</ul> : <p class="pad soft">{x && x.oom_kills + x.pids_hits ? `Out of memory ${plural(x.oom_kills, 'time')}, out of processes ${plural(x.pids_hits, 'time')}.` : 'None so far.'}</p>}</Sheet>
      <Sheet title="Isolation" note={b.layers.length ? `level ${b.level} ${b.isolation}` : 'told while it runs'} class="gap"><ul class="checks">{b.layers.map(l => <li key={l.name}><Icon name={l.state === 'on' ? 'ok' : 'bang'} class={l.state === 'on' ? 'ok' : 'warn'} /><b>{l.name}</b><span class="soft">{l.state === 'on' ? l.why || '' : `${l.state}: ${l.why ?? ''}`}</span></li>)}</ul></Sheet></div>
  );
}
