// SPDX-License-Identifier: Apache-2.0
// Beside the work: refusals first, then resources, processes, ports, last commands.
import type { Box, Port, Process } from '../api';
import { bytes, plural, safe, span } from '../lib/format';
import { href } from '../lib/router';
import { bypass } from '../lib/settings';
import { allowMenu } from '../actions';
import { cpu, dismiss, ends, now, refused, samples, used } from '../live';
import { asker, command, lifted, why } from '../state';
import { Btn, Menu, Said } from '../ui';
import type { Inside } from './inside';

export function Spark({ data, color, max }: { data: number[]; color: string; max: number }) {
  const n = 60, d = data.slice(-n), y = (v: number) => 29 - Math.min(1, v / Math.max(max, 1e-9)) * 26, p = d.map((v, i) => `${((i + n - d.length) * 100 / (n - 1)).toFixed(1)} ${y(v).toFixed(1)}`).join('L');
  return <svg class="spark" viewBox="0 0 100 30" preserveAspectRatio="none" aria-hidden="true">{d.length > 1 && <><path d={`M${((n - d.length) * 100 / (n - 1)).toFixed(1)} 30L${p}L100 30z`} fill={`var(--${color})`} opacity=".12" /><path d={`M${p}`} fill="none" stroke={`var(--${color})`} stroke-width="1.4" vector-effect="non-scaling-stroke" /></>}</svg>;
}

export function history(id: string) {
  const s = samples.value, memory: number[] = [], cores: number[] = [];
  for (let i = 0; i < s.length; i++) {
    const x = s[i]!.items.find(q => q.id === id), p = i ? s[i - 1]!.items.find(q => q.id === id) : undefined;
    if (x) memory.push(x.memory);
    if (x && p) cores.push(Math.max(0, (x.cpu_us - p.cpu_us) / 1000 / Math.max(1, s[i]!.time_ms - s[i - 1]!.time_ms)));
  }
  return { memory, cores };
}

/** Who listens there, as one would call it: the program, without where it lies. */
export const listener = (p: Port, procs: Process[]) => { const words = procs.find(x => x.pid === p.pid && x.state !== 'ended')?.command.split(/\s+/) ?? []; return words[0] ? [words[0].split('/').pop(), ...words.slice(1)].join(' ') : ''; };

export function Glance({ b, inside: { procs, alive, ports } }: { b: Box; inside: Inside }) {
  const no = refused.value.filter(r => r.box === b.id), h = history(b.id), u = used.value.get(b.id), most = typeof b.limits.cpu_milli === 'number' ? b.limits.cpu_milli / 1000 : 1, mem = typeof b.limits.memory === 'number' ? b.limits.memory : 0, on = b.state === 'running', settings = Object.entries(b.settings ?? {});
  const over = procs.filter(p => p.state === 'ended' && p.id).sort((x, y) => y.started_ms - x.started_ms).slice(0, 5);
  const to = (t: string) => href(['sandbox', b.id, t]), by = no[0] && (procs.find(p => p.id && p.id === no[0]!.exec) ?? asker(no[0].last, procs, ends.value, now.peek()));
  return (
    <aside class="glance" aria-label="At a glance">
      <div aria-live="polite">{no[0] && <section><h2>Refused just now<a href={to('network')}>Network</a></h2><div class="ask"><b>{safe(no[0].name, 80)}{no[0].port ? `:${no[0].port}` : ''}</b>{plural(no[0].times, 'time')}{by && <> by <a class="mono" href={href(['sandbox', b.id, 'timeline'], { span: by.id })} title={safe(by.command, 400)}>{safe(by.command.split(/\s+/)[0]!.split('/').pop(), 24)}</a></>}. {why(no[0].reason)}<div>{lifted(no[0].reason) && <Menu label={`Allow ${safe(no[0].name, 60)}`} items={allowMenu(no[0])}>Allow…</Menu>}<Btn kind="quiet small" onClick={() => dismiss(no[0]!)}>Keep refusing</Btn></div></div>{no.length > 1 && <p class="dim small"><a href={to('network')}>{no.length - 1} more</a></p>}</section>}</div>
      {settings.length > 0 && <section><h2>Settings</h2><div class="kv">{settings.map(([k, v]) => <><span key={k}>{safe(k, 40)}</span><Said class={`cut${bypass(v) ? ' warn' : ''}`} mono text={v || 'not set'} most={60} /></>)}</div></section>}
      <section><h2>Resources<a href={to('resources')}>Details</a></h2><div class="kv"><span>CPU</span><span>{on ? (cpu.value.get(b.id) ?? 0).toFixed(2) : '–'} of {most}</span></div><Spark data={h.cores} color="sea" max={most} /><div class="kv"><span>Memory</span><span>{u ? bytes(u.memory) : '–'}{mem ? ` of ${bytes(mem)}` : ''}</span></div><Spark data={h.memory} color="sand" max={Math.max(...h.memory, 1) * 1.3} /></section>
      <section><h2>Processes<a href={to('processes')} aria-label={`${alive.length} processes`}>{alive.length}</a></h2><div class="kv">{alive.slice(0, 5).map(p => <><Said key={p.pid} class="cut" mono text={p.command} most={60} /><span>{span(now.value - p.started_ms)}</span></>)}</div>{!alive.length && <p class="dim small">{on ? 'Nothing runs but its init.' : 'It does not run.'}</p>}</section>
      <section><h2>Ports<a href={to('ports')} aria-label={`${ports.length} ports`}>{ports.length}</a></h2><div class="kv">{ports.slice(0, 5).map(p => <><span key={p.port} class="cut"><a class="mono" href={href(['sandbox', b.id, 'ports'], { port: String(p.port) })}>{p.port}</a> <Said class="soft" text={listener(p, procs)} most={40} /></span><span class="ok">listens</span></>)}</div>{!ports.length && <p class="dim small">Nobody listens.</p>}</section>
      <section><h2>Last commands<a href={to('timeline')}>Timeline</a></h2><div class="kv">{over.map(p => <><span key={p.id} class="cut"><code class={p.exit?.code || p.exit?.signal ? 'bad' : 'ok'}>{p.exit?.signal ? `-${p.exit.signal}` : p.exit?.code}</code> <a class="quietlink" href={href(['sandbox', b.id, 'timeline'], { span: p.id })}><Said mono text={command(p)} most={64} /></a></span><span>{ends.value.get(p.id) || p.ended_ms ? span((ends.value.get(p.id) ?? p.ended_ms) - p.started_ms) : ''}</span></>)}</div>{!over.length && <p class="dim small">{on ? 'None has ended yet.' : 'The timeline has what was asked of it.'}</p>}</section>
    </aside>
  );
}
