// SPDX-License-Identifier: Apache-2.0
// Processes as a tree, a signal for each, and the output of those that were started through cay from its very start.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ask, get, of, post, stream, type Box, type List, type Process } from '../api';
import { bytes, safe, span } from '../lib/format';
import { route, setQuery } from '../lib/router';
import { feed, now } from '../live';
import { attempt, Blank, Icon, Loading, Menu, Said, toast, Trouble, useAsk, When } from '../ui';

/** init's own helpers, which serve files, are no work of anybody's. */
export const ofTenant = (p: Process) => !!p.id || p.command !== 'cay-init' || p.pid === 1;
export function nest(all: Process[]): { p: Process; depth: number }[] {
  const by = new Map<number, Process[]>(), alive = all.filter(p => p.state !== 'ended'), known = new Set(alive.map(p => p.pid)), out: { p: Process; depth: number }[] = [], seen = new Set<Process>();
  for (const p of alive) { const up = known.has(p.ppid) && p.ppid !== p.pid ? p.ppid : 0; by.set(up, [...(by.get(up) ?? []), p]); }
  const walk = (pid: number, depth: number) => { for (const p of (by.get(pid) ?? []).sort((a, b) => a.pid - b.pid)) { if (seen.has(p)) continue; seen.add(p); out.push({ p, depth }); if (p.pid) walk(p.pid, depth + 1); } };
  walk(0, 0);
  return [...out, ...all.filter(p => p.state === 'ended').sort((a, b) => b.started_ms - a.started_ms).map(p => ({ p, depth: 0 }))];
}

export default function Processes({ b }: { b: Box }) {
  const beat = feed.value.filter(e => e.sandbox === b.id).length, [ended, showEnded] = useState(true);
  const l = useAsk(() => get<List<Process>>(of(b.id, '/processes'), { ended }).then(x => x.items), [b.id, ended, beat, Math.floor(now.value / 3000)]);
  const chosen = route.value.query.get('p') ?? '', rows = nest((l.data ?? []).filter(ofTenant)), p = chosen ? (l.data ?? []).find(x => x.id === chosen) : undefined;
  const kill = (x: Process, signal: string) => attempt('The signal was not sent', async () => { await post(of(b.id, `/processes/${x.id || x.pid}/signal`), { signal, scope: 'tree' }); toast(`SIG${signal} sent to ${safe(x.command, 40)} and below.`); l.again(); });
  return (
    <div class="split"><div class="scroll" tabIndex={0} role="region" aria-label="Processes">{l.error && !l.data ? <Trouble error={l.error} what="They cannot be listed." again={l.again} /> : null}
      {!l.data ? <Loading /> : <table class="plain"><thead><tr><th>Command</th><th class="num">Pid</th><th>User</th><th>State</th><th class="num">Memory</th><th class="num">Started</th><th aria-label="Actions" /></tr></thead><tbody>{rows.map(({ p: x, depth }) => (
        <tr key={x.id || x.pid} class={x.id && x.id === chosen ? 'sel' : ''}><td class="cut cmdcell" style={{ paddingLeft: `${12 + depth * 16}px` }}>{x.tty && <Icon name="exec" class="dim inline" />}{x.id ? <button type="button" class="plain mono cut" onClick={() => setQuery({ p: x.id })}>{safe(x.command, 120)}</button> : <Said mono text={x.command} most={120} class="soft" />}</td><td class="num">{x.pid || ''}</td><td class="soft">{x.user}</td>
          <td>{x.state === 'ended' ? <span class={x.exit?.code || x.exit?.signal ? 'bad' : 'dim'}>{x.exit?.signal ? `signal ${x.exit.signal}` : `ended with ${x.exit?.code}`}</span> : <span class="soft">{x.state}</span>}</td><td class="num">{x.rss ? bytes(x.rss) : ''}</td><td class="num"><When t={x.started_ms} /></td>
          <td class="num">{x.state !== 'ended' && x.pid !== 1 && <Menu kind="quiet small" label={`Signal ${safe(x.command, 40)}`} items={[{ text: 'Ask it to end', note: 'TERM', act: () => kill(x, 'TERM') }, { text: 'Interrupt', note: 'INT', act: () => kill(x, 'INT') }, { text: 'Reload', note: 'HUP', act: () => kill(x, 'HUP') }, { text: 'Stop', note: 'STOP', act: () => kill(x, 'STOP') }, { text: 'Go on', note: 'CONT', act: () => kill(x, 'CONT') }, { text: 'Kill', note: 'KILL', bad: true, act: () => kill(x, 'KILL') }]}>Signal</Menu>}</td></tr>
      ))}</tbody></table>}
      <label class="check pad"><input type="checkbox" checked={ended} onChange={e => showEnded(e.currentTarget.checked)} /> those that ended, too</label></div>
      <div class="side out">{p ? <Output b={b} p={p} key={p.id} /> : <Blank title="Output" text="Choose a command to see what it printed, from its start." />}</div></div>
  );
}

/** What a command printed. Nothing of it is obeyed: colours and cursor moves are left out, what cannot be seen is shown. */
export const plainText = (s: string) => s.replace(/\x1b\[[0-9;?]*[ -/]*[@-~]/g, '').replace(/\x1b\][^\x07\x1b]*(\x07|\x1b\\)?/g, '').replace(/\x1b[@-_]/g, '').replace(/\r\n/g, '\n').replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, c => (c === '\r' ? '' : `\\x${c.charCodeAt(0).toString(16).padStart(2, '0')}`));

export function Output({ b, p }: { b: Box; p: Process }) {
  const [lines, set] = useState<{ err: boolean; text: string }[]>([]), [error, fail] = useState<unknown>(null), end = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const stop = new AbortController();
    const add = (err: boolean, text: string) => set(old => { const last = old.at(-1), all = last && last.err === err ? [...old.slice(0, -1), { err, text: (last.text + text).slice(-262144) }] : [...old, { err, text }]; return all.slice(-400); });
    void ask;
    stream(of(b.id, `/processes/${p.id}/stream`), {}, stop.signal, m => {
      const d = JSON.parse(m.data);
      if (m.event === 'stdout' || m.event === 'stderr') add(m.event === 'stderr', plainText(d.text ?? atob(d.base64)));
      else if (m.event === 'lost') add(true, `[${d.bytes} bytes are no longer kept]\n`);
    }).catch(e => { if (!stop.signal.aborted) fail(e); });
    return () => stop.abort();
  }, [p.id]);
  useEffect(() => { const el = end.current; if (el && el.scrollHeight - el.scrollTop - el.clientHeight < 80) el.scrollTop = el.scrollHeight; }, [lines]);
  return (
    <><h2 class="cut"><Said mono text={p.command} most={200} /></h2><p class="dim">{p.state === 'ended' ? (p.exit?.signal ? `ended by signal ${p.exit.signal}` : `ended with ${p.exit?.code}`) : `runs for ${span(now.value - p.started_ms)}`}, {p.id}</p>
      {error ? <Trouble error={error} what="Its output cannot be read." /> : null}<div class="console" ref={end} tabIndex={0} role="log" aria-label="Output">{lines.length ? lines.map((l, i) => <span key={i} class={l.err ? 'warn' : ''}>{l.text}</span>) : <span class="dim">It printed nothing.</span>}</div></>
  );
}
