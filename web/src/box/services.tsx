// SPDX-License-Identifier: Apache-2.0
// What a sandbox keeps running by itself: how each does, and start, stop and restart. One without services shows nothing of them.
import { get, of, post, type Box, type List, type Service } from '../api';
import { plural, safe, span, word } from '../lib/format';
import { href, setQuery } from '../lib/router';
import { feed, now } from '../live';
import { attempt, Btn, Cmd, Said, toast, useAsk, When } from '../ui';

const tone: Record<string, string> = { ready: 'ok', done: 'ok', failed: 'bad', unhealthy: 'bad', backoff: 'warn', starting: 'sandc', waiting: '', stopping: '', stopped: '' };
/** Why it is not ready, in a few words. */
const because = (s: Service, t: number) => (s.state === 'backoff' ? `ended${s.code ? ` with ${s.code}` : ''}; again in ${span(Math.max(0, (s.since_ms ?? 0) + (s.wait_ms ?? 0) - t))}` : s.state === 'failed' || s.state === 'unhealthy' ? s.reason ?? '' : s.restarts ? `started again ${plural(s.restarts, 'time')}` : '');

export function Services({ b }: { b: Box }) {
  const beat = feed.value.filter(e => e.sandbox === b.id).length, l = useAsk(() => get<List<Service>>(of(b.id, '/services')).then(x => x.items, () => []), [b.id, b.state, beat, Math.floor(now.value / 3000)]);
  const act = (s: Service, op: 'start' | 'stop' | 'restart', done: string) => attempt(`${safe(s.name, 40)} did not ${op}`, async () => { l.set((await post<List<Service>>(of(b.id, '/services'), { op, names: [s.name] })).items); toast(`${s.name} ${done}.`); });
  if (!l.data?.length) return null;
  return (
    <section class="flat"><div class="bar"><h2>Services</h2><span class="dim">kept running by the sandbox itself</span></div><div class="scroll" tabIndex={0} role="region" aria-label="Services"><table class="plain stack"><thead><tr><th>Name</th><th>State</th><th class="num">Port</th><th class="num">Since</th><th aria-label="Actions" /></tr></thead><tbody>{l.data.map(s => <tr key={s.name}><td class="cut">{s.process ? <button type="button" class="plain mono cut" onClick={() => setQuery({ p: s.process! })}>{safe(s.name, 60)}</button> : <Said mono text={s.name} most={60} />}</td><td><span class={`chip ${tone[s.state ?? ''] ?? ''}`}>{s.state}</span> <span class="dim">{safe(because(s, now.value), 120)}</span></td><td class="num" data-k="port">{s.port ? <a href={href(['sandbox', b.id, 'ports'], { port: String(s.port) })}>{s.port}</a> : ''}</td><td class="num" data-k="since">{s.since_ms ? <When t={s.since_ms} /> : ''}</td>
      <td class="num act">{s.state === 'stopped' || s.state === 'failed' || s.state === 'done' ? <Btn kind="quiet small" onClick={() => act(s, 'start', 'starts')}>Start</Btn> : <><Btn kind="quiet small" onClick={() => act(s, 'restart', 'starts again')}>Restart</Btn><Btn kind="quiet small" onClick={() => act(s, 'stop', 'is stopped')}>Stop</Btn></>}</td></tr>)}</tbody></table></div><div class="pad"><Cmd text={`cay services ${b.name ? word(b.name) : b.id}`} /></div></section>
  );
}
