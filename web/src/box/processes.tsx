// SPDX-License-Identifier: Apache-2.0
// Processes as a tree, a signal for each, and the output of those that were started through cay from its very start.
import { useState } from 'preact/hooks';
import { get, of, post, type Box, type List, type Process } from '../api';
import { bytes, safe, word } from '../lib/format';
import { route, setQuery } from '../lib/router';
import { feed, now } from '../live';
import { command } from '../state';
import { attempt, Btn, Cmd, Icon, Loading, Menu, Said, toast, Trouble, useAsk, When } from '../ui';
import { Output } from './output';
import { Services } from './services';

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
    <div class={`split even ${p ? 'beside' : 'whole'}`}><div class="scroll" tabIndex={0} role="region" aria-label="Processes"><Services b={b} />{l.error && !l.data ? <Trouble error={l.error} what="They cannot be listed." again={l.again} /> : null}
      {!l.data ? <Loading /> : <table class="plain stack procs"><thead><tr><th>Command</th><th class="num y">Pid</th><th class="x">User</th><th>State</th><th class="num x">Memory</th><th class="num y">Started</th><th aria-label="Actions" /></tr></thead><tbody>{rows.map(({ p: x, depth }) => (
        <tr key={x.id || x.pid} class={x.id && x.id === chosen ? 'sel' : ''}><td class="cut cmdcell" style={{ paddingLeft: `${12 + depth * 16}px` }}>{x.tty && <Icon name="exec" class="dim inline" />}{x.id ? <button type="button" class="plain mono cut" onClick={() => setQuery({ p: x.id })}>{safe(command(x), 120)}</button> : <Said mono text={command(x)} most={120} class="soft" />}</td><td class="num y" data-k="pid">{x.pid || ''}</td><td class="soft x">{safe(x.user, 32)}</td>
          <td>{x.state === 'ended' ? <span class={x.exit?.code || x.exit?.signal ? 'bad' : 'dim'}>{x.exit?.signal ? `signal ${x.exit.signal}` : `ended with ${x.exit?.code}`}</span> : <span class="soft">{x.state}</span>}</td><td class="num x">{x.rss ? bytes(x.rss) : ''}</td><td class="num y"><When t={x.started_ms} /></td>
          <td class="num act">{x.state !== 'ended' && x.pid !== 1 && <Menu kind="quiet small" label={`Signal ${safe(x.command, 40)}`} items={[{ text: 'Ask it to end', note: 'TERM', act: () => kill(x, 'TERM') }, { text: 'Interrupt', note: 'INT', act: () => kill(x, 'INT') }, { text: 'Reload', note: 'HUP', act: () => kill(x, 'HUP') }, { text: 'Stop', note: 'STOP', act: () => kill(x, 'STOP') }, { text: 'Go on', note: 'CONT', act: () => kill(x, 'CONT') }, { text: 'Kill', note: 'KILL', bad: true, act: () => kill(x, 'KILL') }]}>Signal</Menu>}</td></tr>
      ))}</tbody></table>}
      <div class="pad under"><label class="check"><input type="checkbox" checked={ended} onChange={e => showEnded(e.currentTarget.checked)} /> those that ended, too</label>{!p && <span class="dim">Choose a command to see what it printed, from its start.</span>}</div><div class="pad"><Cmd text={`cay ps ${b.name ? word(b.name) : b.id}`} /></div></div>
      {p && <div class="side out"><Btn kind="quiet icon small closer" icon="x" label="Close the output" onClick={() => setQuery({ p: null, at: null })} /><Output b={b} p={p} key={p.id} /></div>}</div>
  );
}
