// SPDX-License-Identifier: Apache-2.0
// What was done in and to the sandbox, since it was made, as a waterfall; under a command what it reached and what was refused meanwhile. A click opens the command's output.
import { useEffect, useMemo, useRef } from 'preact/hooks';
import { get, of, type AuditLine, type Box, type List, type NetRecord, type Process } from '../api';
import { clock, even, exact, plural, safe, span, word } from '../lib/format';
import { href, route, setQuery } from '../lib/router';
import { ends, feed, now, snaps } from '../live';
import { timeline, type Span } from '../state';
import { Blank, Btn, Icon, Loading, Said, Seg, Trouble, useAsk, type IconName } from '../ui';
import { Output } from './output';

const icons: Record<Span['kind'], IconName> = { exec: 'exec', snapshot: 'snap', op: 'audit', net: 'no' }, tones: Record<Span['kind'], string> = { exec: 'sea', snapshot: 'sand', op: 'iris', net: 'coral' };
const ranges: Record<string, number> = { '5m': 300000, '1h': 3600000, all: Infinity };

/** Five marks that differ, also within a few minutes: 1.5 min, 3 min. */
const shown = (ms: number) => (!ms ? '0' : ms >= 60000 && ms < 3600000 ? `${+(ms / 60000).toFixed(1)} min` : span(ms));

export default function Timeline({ b }: { b: Box }) {
  const beat = feed.value.filter(e => e.sandbox === b.id).length, range = route.value.query.get('range') ?? 'all';
  const d = useAsk(async () => {
    const [procs, audit, net] = await Promise.all([get<List<Process>>(of(b.id, '/processes'), { ended: true }).then(l => l.items, () => []), get<List<AuditLine>>('/audit', { object: b.id, last: 400 }).then(l => l.items, () => []), get<List<NetRecord>>(of(b.id, '/net/log'), { count: 1000 }).then(l => l.items, () => [])]);
    return { procs, audit, net };
  }, [b.id, beat]);
  const tick = Math.floor(now.value / 3000), mine = [...snaps.value.values()].filter(s => s.sandbox === b.id);
  const all = useMemo(() => (d.data ? timeline({ ...d.data, snaps: mine, ends: ends.value, now: now.peek() }) : []), [d.data, mine.length, ends.value, tick]);
  const at = Number(route.value.query.get('at')) || 0, since = now.peek() - ranges[range]!, spans = all.filter(s => s.start + (s.took ?? 0) >= since), chosen = route.value.query.get('span') ?? '', p = chosen ? d.data?.procs.find(x => x.id === (spans.find(s => s.id === chosen)?.process ?? chosen)) : undefined;
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => { if (chosen) document.getElementById(`span-${chosen}`)?.scrollIntoView({ block: 'nearest' }); }, [chosen, !!d.data]);
  if (d.error && !d.data) return <Trouble error={d.error} what="The timeline cannot be made." again={d.again} />;
  if (!d.data) return <Loading rows={8} />;
  if (!all.length) return <Blank title="Nothing has happened yet" text="Commands, snapshots, changes of the network and refusals will be here." cmd={`cay exec ${b.name ? word(b.name) : b.id} -- uname -a`} />;
  const t0 = Math.min(...spans.map(s => s.start)), t1 = Math.max(...spans.map(s => s.start + (s.took ?? 1))), took = Math.max(1, t1 - t0), wide = even(took / 5) * 5, pct = (t: number) => ((t - t0) / wide) * 100;
  return (
    <div class={`split even ${p ? 'beside' : 'whole'}`}><div class="scroll" ref={box} tabIndex={0} role="region" aria-label="Timeline"><div class="snapbar"><span class="dim">{plural(spans.length, 'entry', 'entries')} over {span(took)}</span>{!p && <span class="dim wide">Choose a command to see what it printed.</span>}<span class="right" /><Seg small label="Range" value={range} options={[['5m', '5 min'], ['1h', '1 h'], ['all', 'All']]} onPick={v => setQuery({ range: v === 'all' ? null : v })} /></div>
      {spans.length > 50 && <svg class="minimap" viewBox="0 0 1000 34" preserveAspectRatio="none" aria-hidden="true">{spans.map((s, i) => <rect key={s.id} x={pct(s.start) * 10} y={(i / spans.length) * 30 + 1} width={Math.max(2, ((s.took ?? 1) / wide) * 1000)} height="1.6" fill={`var(--${tones[s.kind]})`} />)}</svg>}
      <div class="wf"><span class="h">Operation</span><span class="h num">Took</span><span class="h b ticks">{[0, 1, 2, 3, 4].map(i => <em key={i}>{shown((wide / 5) * i)}</em>)}</span>
        {spans.slice(-600).map(s => <Row key={s.id} s={s} left={pct(s.start)} width={((s.took ?? 0) / wide) * 100} chosen={chosen === s.id || (!!at && !!s.process && s.process === p?.id && s.start === at)} b={b} at={at >= t0 && at <= t1 ? pct(at) : -1} />)}</div></div>
      {p && <div class="side out"><Btn kind="quiet icon small closer" icon="x" label="Close the output" onClick={() => setQuery({ span: null, at: null })} /><Egress b={b} all={all.filter(s => s.kind === 'net' && s.process === p.id)} /><Output b={b} p={p} key={p.id} /></div>}</div>
  );
}

/** What a command reached and was refused, beside what it printed. */
const Egress = ({ b, all }: { b: Box; all: Span[] }) => all.length ? <ul class="egress" aria-label="Network meanwhile">{all.slice(0, 12).map(s => <li key={s.id}><Icon name={s.bad ? 'no' : 'out'} class={s.bad ? 'bad' : 'ok'} /><a class="cut" href={href(['sandbox', b.id, 'network'], { to: s.to })}>{safe(s.label, 80)}</a><span class="dim nowrap">{s.note}</span></li>)}</ul> : null;

/** A click opens what the command printed, at the moment that was clicked. */
const Row = ({ s, left, width, chosen, b, at }: { s: Span; left: number; width: number; chosen: boolean; b: Box; at: number }) => {
  const open = () => setQuery({ span: s.kind === 'exec' ? s.id : s.process ?? null, at: s.kind === 'exec' ? null : String(s.start) }), note = s.note, flip = left + width > 72;
  return (
    <><span id={`span-${s.id}`} class={`wfname ${chosen ? 'sel' : ''} ${s.depth ? 'deep' : ''}`} title={`${exact(s.start)} ${safe(s.label)}`}><Icon name={s.kind === 'net' && !s.bad ? 'out' : icons[s.kind]} class={s.bad ? 'bad' : ''} />{s.kind === 'exec' ? <button type="button" class="plain mono cut" onClick={open}>{safe(s.label, 120)}</button> : s.snap ? <a class="cut" href={href(['sandbox', b.id, 'snapshots'], { b: s.snap })}>snapshot “{safe(s.label, 60)}”</a> : s.kind === 'net' ? (s.process ? <button type="button" class={`plain cut ${s.bad ? 'bad' : 'soft'}`} title="What it printed then" onClick={open}>{safe(s.label, 80)}</button> : <a class={`cut ${s.bad ? 'bad' : 'soft'}`} href={href(['sandbox', b.id, 'network'], { to: s.to })}>{safe(s.label, 80)}</a>) : <Said text={s.label} class="cut soft" />}</span>
      <span class={`num ${chosen ? 'sel' : ''}`} title={clock(s.start)}>{s.took === null ? '' : span(s.took)}</span><span class={`b ${chosen ? 'sel' : ''}`}>{chosen && at >= 0 && <em class="then" style={{ left: `${at}%` }} />}<i class={`bar-${s.kind === 'net' && !s.bad ? 'palm' : s.bad && s.kind === 'exec' ? 'amber' : tones[s.kind]}`} style={{ left: `${Math.min(99.6, left)}%`, width: `${Math.max(0.2, width)}%` }} /><span style={flip ? { right: `${100 - left}%`, paddingRight: '6px' } : { left: `${left + width}%` }}>{note}</span></span></>
  );
};
