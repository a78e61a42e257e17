// SPDX-License-Identifier: Apache-2.0
// What a command printed, from its very start, each line with its time; and from a moment of the timeline straight to what was printed then.
import { signal } from '@preact/signals';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { of, stream, type Box, type Process } from '../api';
import { clock, exact, plural, span, word } from '../lib/format';
import { OutLines } from '../lib/output';
import { route, setQuery } from '../lib/router';
import { now } from '../live';
import { command } from '../state';
import { Btn, Cmd, copy, Said, Trouble } from '../ui';

const times = signal(localStorage.getItem('output-times') !== '0');
const flip = () => { times.value = !times.value; localStorage.setItem('output-times', times.value ? '1' : '0'); };
const bytesOf = (base64: string) => new TextDecoder().decode(Uint8Array.from(atob(base64), c => c.charCodeAt(0)));

export function Output({ b, p }: { b: Box; p: Process }) {
  const out = useMemo(() => new OutLines(), [p.id]), [, draw] = useState(0), [error, fail] = useState<unknown>(null), end = useRef<HTMLDivElement>(null), at = Number(route.value.query.get('at')) || 0, stays = useRef(!at), [over, ended] = useState(false);
  useEffect(() => {
    const stop = new AbortController();
    let due = 0;
    const show = () => { due ||= requestAnimationFrame(() => { due = 0; draw(n => n + 1); }); };
    stream(of(b.id, `/processes/${p.id}/stream`), {}, stop.signal, m => {
      const d = JSON.parse(m.data);
      if (m.event === 'stdout' || m.event === 'stderr') out.add(m.event === 'stderr', d.text ?? bytesOf(d.base64), d.time_ms ?? 0);
      else if (m.event === 'lost') out.add(true, `[${plural(d.bytes, 'byte')} ${d.bytes === 1 ? 'is' : 'are'} no longer kept]\n`);
      show();
    }).then(() => ended(true), e => { if (!stop.signal.aborted) fail(e); });
    return () => { stop.abort(); cancelAnimationFrame(due); };
  }, [p.id]);
  const lines = out.lines, found = at && out.timed ? out.at(at) : -1, mark = found >= 0 ? lines[found]!.n : -1;
  useEffect(() => { stays.current = !at; }, [at]);
  // Where it stands below the list, who chose a command is taken to it.
  useEffect(() => { if (matchMedia('(max-width: 1180px)').matches) end.current?.closest('.side')?.scrollIntoView({ block: 'start' }); }, [p.id]);
  useEffect(() => {
    const el = end.current, l = mark >= 0 ? el?.querySelector<HTMLElement>('.at') : null;
    if (l && el && !stays.current) el.scrollTop = Math.max(0, l.offsetTop - el.clientHeight / 3);
    else if (el && stays.current) el.scrollTop = el.scrollHeight;
  }, [lines.length, mark, lines.at(-1)?.text]);
  let before = '';
  const time = (t: number) => { const c = t ? clock(t) : '', same = c === before; before = c; return <time title={t ? `${exact(t)}.${String(t % 1000).padStart(3, '0')}, ${span(t - p.started_ms)} after its start` : undefined} onClick={() => t && setQuery({ at: String(t) })}>{same ? '' : c}</time>; };
  return (
    <><div class="outhead"><h2 class="cut"><Said mono text={command(p)} most={200} /></h2>{out.timed && <Btn kind="quiet small" pressed={times.value} onClick={flip}>Times</Btn>}<Btn kind="quiet icon small" icon="copy" label="Copy the output" onClick={() => copy(lines.map(OutLines.shown).join('\n'))} /></div>
      <p class="dim">{p.state === 'ended' ? <>{p.exit?.signal ? `ended by signal ${p.exit.signal}` : `ended with ${p.exit?.code}`}{p.ended_ms > 0 && ` after ${span(p.ended_ms - p.started_ms)}`}</> : `runs for ${span(now.value - p.started_ms)}`}, began <time title={exact(p.started_ms)}>{clock(p.started_ms)}</time>, <code>{p.id.slice(0, 8)}</code></p>
      {error ? <Trouble error={error} what="Its output cannot be read." /> : null}{out.dropped > 0 && <p class="dim">{plural(out.dropped, 'earlier line')} {out.dropped === 1 ? 'is' : 'are'} not shown.</p>}
      <div class={`console lines ${times.value && out.timed ? 'timed' : ''}`} ref={end} tabIndex={0} role="log" aria-label="Output" onScroll={e => { const t = e.currentTarget; stays.current = t.scrollHeight - t.scrollTop - t.clientHeight < 40; }}>{lines.length ? lines.map(l => <div key={l.n} class={`${l.err ? 'warn' : ''} ${l.n === mark ? 'at' : ''}`}>{times.value && out.timed && time(l.t)}<span>{OutLines.shown(l) || '\u00a0'}</span></div>) : <span class="dim">{over || p.state === 'ended' ? 'It printed nothing.' : 'It has printed nothing yet.'}</span>}</div>
      <Cmd text={`cay logs ${b.name ? word(b.name) : b.id} ${p.id}`} /></>
  );
}
