// SPDX-License-Identifier: Apache-2.0
// The home page: what waits for a person, then the picture of what exists, then how it goes.
import type { ComponentChildren } from 'preact';
import { signal } from '@preact/signals';
import { useEffect, useState } from 'preact/hooks';
import { get, of, post, session, type AuditLine, type List, type Process } from '../api';
import { bytes, clock, exact, plural, safe, span } from '../lib/format';
import { href, route, setQuery } from '../lib/router';
import { lazy } from '../lib/lazy';
import { allowMenu } from '../actions';
import { boxes, builds, deadJobs, dismiss, doctor, feed, loaded, now, put, refused, samples, snaps, sorted } from '../live';
import { overlay } from '../keys';
import { command, failed, lifted, tally, title, why, type Happening, type Point } from '../state';
import { attempt, Blank, Btn, Icon, Islet, Loading, Menu, Said, Sheet, Seg, State, toast, Trouble, useAsk, type IconName } from '../ui';
import { Chart } from './chart';
import type { PlotProps } from '../plot';
import { Range, range, usePast } from '../range';

const Plot = lazy<PlotProps>(() => import('../plot'));

export function Overview() {
  const all = sorted.value, running = all.filter(b => b.state === 'running').length, waits = waiting();
  if (!loaded.value) return <div class="page"><Loading rows={9} /></div>;
  return (
    <div class="page">
      <div class="head"><div><h1>{running ? `${plural(running, 'sandbox is', 'sandboxes are')} running` : all.length ? 'Nothing is running' : 'No sandbox yet'}</h1>
        <p>{waits.length ? `All is well on ${session.value!.host}, except for ${plural(waits.length, 'thing that waits', 'things that wait')} for you.` : `All is well on ${session.value!.host}.`}</p></div></div>
      {all.length === 0 ? <First /> : <><Figures /><div class="two"><ChartSheet /><Inbox items={waits} /></div><Plots /></>}
      <Feed />
    </div>
  );
}

const First = () => (
  <section class="sheet"><Blank title="Your first islet" text="A sandbox starts in milliseconds, can be forked and undone for nothing, and reaches only what you allow." cmd="cay create --name first">
    <Btn kind="prime" icon="plus" onClick={() => { overlay.value = 'create'; }}>New sandbox</Btn></Blank></section>
);

function quantile(sortedAll: number[], q: number) { return sortedAll.length ? sortedAll[Math.min(sortedAll.length - 1, Math.floor(q * sortedAll.length))]! : NaN; }

function Figures() {
  const all = sorted.value, s = samples.value.at(-1), count = (x: string) => all.filter(b => b.state === x).length;
  const audit = useAsk(() => get<List<AuditLine>>('/audit', { last: 1000 }), [boxes.value.size]);
  const made = (audit.data?.items ?? []).filter(a => a.action === 'POST /api/v1/sandboxes' && a.verdict === 'ok').map(a => a.us / 1000).sort((a, b) => a - b);
  const ran = (audit.data?.items ?? []).filter(a => /\/(run|processes|pty)$/.test(a.action) && a.verdict === 'ok' && a.time_ms > now.peek() - 3600000).length;
  const began = (audit.data?.items ?? []).filter(a => /\/(processes|pty)$/.test(a.action) && a.verdict === 'ok').map(a => a.us / 1000).sort((a, b) => a - b);
  const memory = s?.items.reduce((n, i) => n + i.memory, 0) ?? 0, out = s?.items.reduce((n, i) => n + i.net_tx, 0) ?? 0, back = s?.items.reduce((n, i) => n + i.net_rx, 0) ?? 0;
  const unit = (text: string): ComponentChildren => { const [v, u] = text.split(' '); return <>{v} <small>{u}</small></>; };
  const no = refused.value.reduce((n, r) => n + r.times, 0), bad = all.filter(failed).length;
  return (
    <dl class="figs">
      <div><dt>Running</dt><dd>{count('running')} <small>of {all.length}</small></dd><dd class="note">{count('paused')} paused, {count('stopped')} stopped{bad > 0 && <>, <span class="bad">{bad} failed</span></>}</dd></div>
      <div><dt>Create, median</dt><dd>{made.length ? unit(span(quantile(made, 0.5))) : '–'}</dd><dd class="note">{made.length ? `p99 ${span(quantile(made, 0.99))} over ${plural(made.length, 'create')}` : audit.data ? 'None yet over the API' : '\u00a0'}</dd></div>
      <div><dt>Command start, median</dt><dd>{began.length ? unit(span(quantile(began, 0.5))) : '–'}</dd><dd class="note">{began.length && doctor.value?.spawn_us ? `${(quantile(began, 0.5) * 1000 / doctor.value.spawn_us).toPrecision(2)} × a bare spawn; ` : began.length ? `p99 ${span(quantile(began, 0.99))}; ` : ''}{audit.data ? `${plural(ran, 'command')} in the past hour` : '\u00a0'}</dd></div>
      <div><dt>Memory</dt><dd>{s ? unit(bytes(memory)) : '–'} {s && <small>of {bytes(s.memory)}</small>}</dd><dd class="note">{s && s.items.length ? `${bytes(memory / s.items.length)} a running sandbox; ${bytes(s.memory_free)} are free` : 'Nothing runs'}</dd></div>
      <div><dt>Left this host</dt><dd>{unit(bytes(out))}</dd><dd class="note">{bytes(back)} came back; {no ? <span class="bad">{no} refused</span> : 'nothing refused'}</dd></div>
    </dl>
  );
}

function ChartSheet() {
  const list = route.value.query.get('chart') === 'list';
  return (
    <Sheet title="Chart" note={<span class="wide cut chartnote">size is memory, rings are CPU, the shape is the sandbox's own</span>} actions={<><span class="legend wide">{['running', 'paused', 'stopped', 'failed'].map(s => <span class="state" key={s}><span class={`mark ${s}`} />{s}</span>)}</span><Seg small label="Chart or list" value={list ? 'list' : 'chart'} options={[['chart', 'Chart'], ['list', 'List']]} onPick={v => setQuery({ chart: v === 'list' ? 'list' : null })} /></>}>
      {list ? <ul class="plainlist scroll chartlist">{sorted.value.slice(0, 200).map(b => <li key={b.id}><Islet id={b.id} state={failed(b) ? 'damaged' : b.state} /><a class="grow cut" href={href(['sandbox', b.id])}><Said text={title(b)} /></a><State state={b.state} bad={failed(b)} /></li>)}</ul> : <Chart />}
    </Sheet>
  );
}

// ------------------------------------------------------------------ waiting for you

interface Wait { key: string; icon: IconName; tone: string; title: ComponentChildren; text: ComponentChildren; act: ComponentChildren }
function waiting(): Wait[] {
  const name = (id: string) => { const b = boxes.value.get(id); return <a href={href(['sandbox', id, 'network'])}>{safe(b ? title(b) : id, 60)}</a>; };
  const no: Wait[] = refused.value.slice(0, 5).map(r => ({
    key: r.box + r.key, icon: 'no', tone: 'bad', title: <span class="cut" title={safe(r.name)}>{safe(r.name, 60)}{r.port ? `:${r.port}` : ''}</span>,
    text: <>{name(r.box)} was refused {r.times === 1 ? 'once' : `${r.times} times in ${span(Math.max(1000, r.last - r.first)).replace(' ', '\u00a0')}`}. {why(r.reason)}</>,
    act: lifted(r.reason) ? <Menu label={`Allow ${safe(r.name, 60)}`} items={allowMenu(r)}>Allow…</Menu> : <Btn kind="small quiet" onClick={() => dismiss(r)}>Hide</Btn>,
  }));
  const dead: Wait[] = deadJobs.value.slice(0, 3).map(j => ({
    key: j.id, icon: 'bang', tone: 'warn', title: <>A job gave up after {plural(j.attempts, 'try', 'tries')}</>, text: <><code>{safe(j.kind)}</code>{j.subject && <> of <code>{safe(j.subject, 24)}</code></>}: {safe(j.error, 160)}</>, act: <Btn kind="small" href="#/jobs">Open</Btn>,
  }));
  const bad: Wait[] = sorted.value.filter(failed).slice(0, 3).map(b => ({ key: b.id, icon: 'x', tone: 'bad', title: <Said text={title(b)} class="cut" />, text: <>It ended: {safe(b.reason)}. Its files are kept.</>, act: <Btn kind="small" href={href(['sandbox', b.id])}>Look</Btn> }));
  // A build that failed waits until a later one of the same name is ready.
  const built: Wait[] = builds.value.filter((b, i, l) => b.state === 'failed' && b.ended_ms > now.value - 86400000 && !l.slice(0, i).some(x => x.names === b.names)).slice(0, 3).map(b => ({ key: b.id, icon: 'x', tone: 'bad', title: <>Build of <Said text={b.names || b.id.slice(0, 8)} most={40} /> failed</>, text: <>{b.steps > 0 && `Step ${b.step} of ${b.steps}: `}{safe(b.error, 160)}</>, act: <Btn kind="small" href={href(['templates'], { build: b.id })}>See log</Btn> }));
  return [...no, ...bad, ...built, ...dead];
}

function Inbox({ items }: { items: Wait[] }) {
  const soon = sorted.value.filter(b => b.state === 'running' && b.deadline_ms && b.deadline_ms - now.value < 600000).sort((a, b) => a.deadline_ms - b.deadline_ms).slice(0, 4);
  const extend = (id: string) => attempt('It was not extended', async () => { const b = await post<any>(of(id, '/extend'), { ttl_ms: Math.max(0, boxes.value.get(id)!.deadline_ms - Date.now()) + 3600000 }); put(b); toast(`${title(b)} now ends at ${clock(b.deadline_ms).slice(0, 5)}.`); });
  return (
    <Sheet title="Waiting for you" note={items.length || ''}>
      {items.length === 0 && <p class="pad soft">Nothing waits for you.</p>}
      <ul class="inbox" aria-live="polite" aria-relevant="additions">{items.map(i => <li key={i.key}><Icon name={i.icon} class={i.tone} /><b class="cut">{i.title}</b><p>{i.text}</p>{i.act}</li>)}</ul>
      {soon.length > 0 && <><div class="bar topline"><h2>Ending soon</h2></div><ul class="inbox">{soon.map(b => <li key={b.id}><Icon name="cay" /><b class="cut"><a href={href(['sandbox', b.id])}><Said text={title(b)} /></a></b><p>{b.on_expiry === 'pause' ? 'Pauses' : 'Ends'} in {span(b.deadline_ms - now.value)}.</p><Btn kind="small" onClick={() => extend(b.id)}>+1 h</Btn></li>)}</ul></>}
    </Sheet>
  );
}

// ------------------------------------------------------------------ plots

const Plots = () => {
  const admin = session.value?.scope === 'admin';
  return <>{admin && <div class="rangebar gap"><h2>How it goes</h2><span class="right" /><Range /></div>}{admin && range() ? <PastPlots /> : <LivePlots />}</>;
};

const PARTS = 120;
/** What the server kept: also of the time when no page was open. */
function PastPlots() {
  const past = usePast('/usage/past'), d = past.data, audit = useAsk(() => (d ? get<List<AuditLine>>('/audit', { since_ms: d.since, last: 10000 }).then(l => l.items) : Promise.resolve([])), [d?.since]), cpus = samples.value.at(-1)?.cpus;
  if (past.error) return <Trouble error={past.error} what="The past cannot be read." again={past.again} />;
  if (!d) return <div class="plots"><Loading rows={3} /></div>;
  const parts = Array.from({ length: PARTS }, (_, i) => d.since + ((i + 0.5) * (d.until - d.since)) / PARTS), count = (f: (a: AuditLine) => boolean) => tally((audit.data ?? []).filter(f).map(a => a.time_ms), d.since, d.until, PARTS), n = (v: number) => String(Math.round(v));
  const per = span((d.until - d.since) / PARTS), at = (f: (q: Point) => number) => d.at.map(q => (q ? f(q) : null));
  const plots: (Shown & { times: number[] })[] = [
    { name: 'Started', note: `how many in each ${per}`, times: parts, keys: [['sea', 'commands'], ['sand', 'sandboxes']], p: { lines: [{ name: 'commands', color: 'sea', data: count(a => /\/(run|processes|pty)$/.test(a.action) && a.verdict === 'ok'), fill: true }, { name: 'sandboxes', color: 'sand', data: count(a => a.action === 'POST /api/v1/sandboxes' && a.verdict === 'ok') }], show: n } },
    { name: 'CPU', times: d.times, keys: [['sea', `of ${cpus ?? '?'} cores`]], p: { lines: [{ name: 'cores', color: 'sea', data: at(q => q.cpu_milli / 1000), fill: true }], show: v => v.toFixed(v < 10 ? 1 : 0), limit: cpus } },
    { name: 'Memory', times: d.times, keys: [['sand', 'of all that ran']], p: { lines: [{ name: 'memory', color: 'sand', data: at(q => q.memory), fill: true }], show: bytes } },
    { name: 'Egress', times: d.times, keys: [['sea', 'out'], ['iris', 'in, a second']], p: { lines: [{ name: 'out', color: 'sea', data: at(q => q.net_tx), fill: true }, { name: 'in', color: 'iris', data: at(q => q.net_rx) }], show: bytes } },
  ];
  return <div class="plots">{plots.map(({ times, ...x }) => <Figure key={x.name} {...x}>{times.length > 1 ? <Plot times={times} sync="overview" label={x.name} {...x.p} from={d.since} to={d.until} /> : <p class="dim">Nothing is kept of that time.</p>}</Figure>)}</div>;
}

interface Shown { name: string; note?: string; keys: [string, string][]; p: Omit<PlotProps, 'times' | 'sync' | 'label'> }
const Figure = ({ name, note, keys, children }: Shown & { children: ComponentChildren }) => <figure class="plot"><figcaption><b title={note}>{name}</b>{keys.map(([c, k], i) => <span key={k} class={`key key-${c} ${i ? 'dash' : ''}`}>{k}</span>)}</figcaption>{children}</figure>;

function LivePlots() {
  const s = samples.value, t = s.map(x => x.time_ms);
  const same = (x: (typeof s)[number], p: (typeof s)[number], f: (i: (typeof s)[number]['items'][number]) => number) => { const old = new Map(p.items.map(i => [i.id, f(i)])); return x.items.reduce((n, i) => n + (old.has(i.id) ? Math.max(0, f(i) - old.get(i.id)!) : 0), 0); };
  const flow = (f: (i: (typeof s)[number]['items'][number]) => number) => s.map((x, i) => { const p = s[i - 1], d = p ? x.time_ms - p.time_ms : 0; return p && d < 10000 ? (same(x, p, f) / d) * 1000 : null; });
  const per = (k: 'created' | 'exec') => s.map((x, i) => (i ? x.tally?.[k] ?? 0 : null));
  const plots: Shown[] = [
    { name: 'Started', keys: [['sea', 'commands'], ['sand', 'sandboxes']], p: { lines: [{ name: 'commands', color: 'sea', data: per('exec'), fill: true }, { name: 'sandboxes', color: 'sand', data: per('created') }], show: v => String(Math.round(v)) } },
    { name: 'CPU', keys: [['sea', `of ${s.at(-1)?.cpus ?? 1} cores`]], p: { lines: [{ name: 'cores', color: 'sea', data: flow(i => i.cpu_us / 1e6), fill: true }], show: v => v.toFixed(v < 10 ? 1 : 0), limit: s.at(-1)?.cpus } },
    { name: 'Memory', keys: [['sand', `of ${bytes(s.at(-1)?.memory ?? 0)}`]], p: { lines: [{ name: 'memory', color: 'sand', data: s.map(x => x.items.reduce((n, i) => n + i.memory, 0)), fill: true }], show: bytes } },
    { name: 'Egress', keys: [['sea', 'out'], ['iris', 'in, a second']], p: { lines: [{ name: 'out', color: 'sea', data: flow(i => i.net_tx), fill: true }, { name: 'in', color: 'iris', data: flow(i => i.net_rx) }], show: v => bytes(v) } },
  ];
  return <div class="plots">{plots.map(x => <Figure key={x.name} {...x}>{s.length > 1 ? <Plot times={t} sync="overview" label={x.name} {...x.p} /> : <Loading rows={2} />}</Figure>)}</div>;
}

// ------------------------------------------------------------------ just now

const kinds: Record<string, [IconName, string, string]> = { created: ['plus', '', 'created'], paused: ['pause', '', 'paused'], resumed: ['play', '', 'resumed'], stopped: ['x', '', 'stopped'], removed: ['bin', '', 'removed'], exec: ['exec', '', 'started a command'], exit: ['ok', 'ok', 'a command ended'], limit: ['bang', 'warn', 'reached a limit'], net: ['no', 'bad', 'refused'], snapshot: ['snap', 'sandc', 'a snapshot was taken'], lost: ['bang', 'warn', 'events were lost'] };
export function tell(e: Happening): string {
  if (e.kind === 'net') return `refused ${e.net?.name || e.net?.addr || '?'}${e.net?.port ? ':' + e.net.port : ''}, ${why(e.net?.reason ?? '').toLowerCase().replace(/\.$/, '')}`;
  const p = e.process ? commands.value.get(e.process) : undefined;
  if (e.kind === 'exec' && p) return p.command;
  if (e.kind === 'exit') return `${p?.command ?? 'a command'}${e.code || !p ? ` ended${e.code ? ` with ${e.code}${e.reason && e.reason !== 'exit' ? `, ${e.reason}` : ''}` : ''}` : ''}`;
  if (e.kind === 'snapshot') { const s = e.snapshot ? snaps.value.get(e.snapshot) : undefined; return e.reason === 'removed' ? 'a snapshot was deleted' : `snapshot ${s?.label ? `“${s.label}”` : (e.snapshot ?? '').slice(0, 8)}${s?.files ? `, ${plural(s.files, 'file')} changed` : ''}`; }
  return `${kinds[e.kind]?.[2] ?? e.kind}${e.reason && e.kind !== 'created' && e.reason !== e.kind ? `: ${e.reason}` : ''}`;
}
/** What commands of the feed are called, and how long they took: events tell only their ids. Asked for once a sandbox, when something of it is unknown. */
const commands = signal<ReadonlyMap<string, { command: string; took: number }>>(new Map()), asked = new Set<string>();
function useCommands(items: Happening[]) {
  const missing = [...new Set(items.filter(e => e.process && boxes.value.get(e.sandbox)?.state === 'running' && !asked.has(e.process + e.kind)).map(e => e.sandbox))];
  useEffect(() => {
    for (const e of items) if (e.process) asked.add(e.process + e.kind);
    if (asked.size > 5000) asked.clear();
    const still = (id: string) => boxes.peek().get(id)?.state === 'running', ask = (id: string) => get<List<Process>>(of(id, '/processes'), { ended: true }).then(l => { const m = new Map([...commands.peek()].slice(-2000)); for (const p of l.items) if (p.id) m.set(p.id, { command: command(p), took: p.ended_ms ? p.ended_ms - p.started_ms : 0 }); commands.value = m; }, () => undefined);
    setTimeout(() => { for (const id of missing) if (still(id)) void ask(id); }, 400); // many come together, and some go at once
  }, [missing.join()]);
}
const spoken = (a: AuditLine) => a.action.replace(/^(\w+) \/api\/v1\//, '$1 ').replace('sandboxes/{id}', 'sandbox');

function Feed() {
  const [more, show] = useState(false);
  const old = useAsk(() => get<List<AuditLine>>('/audit', { last: 30 }), []);
  const over = new Set(feed.value.filter(e => e.kind === 'exit').map(e => e.process)), all = feed.value.filter(e => !(e.kind === 'exec' && over.has(e.process)) && !(e.process && !boxes.value.has(e.sandbox))), items = all.slice(0, more ? 100 : 12); // a command is one line, while its sandbox is there
  useCommands(items);
  const name = (id: string) => { const b = boxes.value.get(id); return b ? title(b) : id ? id.slice(0, 10) : 'server'; };
  return (
    <Sheet title="Just now" note="as it happens" actions={<a href="#/audit">All requests</a>} class="gap">
      <div class="feed" aria-live="off">
        {items.map(e => { const [icon, tone] = e.kind === 'exit' && e.code ? ['x', 'bad'] as const : kinds[e.kind] ?? ['pulse', '']; return <FeedRow key={e.id} t={e.time_ms} icon={icon as IconName} tone={tone} who={e.sandbox ? <a class="cut" href={href(['sandbox', e.sandbox, e.kind === 'net' ? 'network' : e.kind === 'snapshot' ? 'snapshots' : undefined])}>{safe(name(e.sandbox), 40)}</a> : <span />} what={tell(e)} mono={!!commands.value.get(e.process)} note={(took => (took ? span(took) : e.process ? e.process.slice(0, 8) : ''))(e.kind === 'exit' ? commands.value.get(e.process)?.took ?? 0 : 0)} />; })}
        {items.length < 8 && [...(old.data?.items ?? [])].reverse().filter(a => !feed.value.some(e => Math.abs(e.time_ms - a.time_ms) < 1500 && e.sandbox === a.object)).slice(0, 12 - items.length).map(a => <FeedRow key={a.seq} t={a.time_ms} icon={a.verdict === 'ok' ? 'audit' : 'no'} tone={a.verdict === 'ok' ? '' : 'bad'} who={boxes.value.has(a.object) ? <a class="cut" href={href(['sandbox', a.object])}>{safe(name(a.object), 40)}</a> : <span class="cut dim">{safe(a.object, 24)}</span>} what={spoken(a)} note={a.us ? span(a.us / 1000) : ''} />)}
      </div>
      {all.length > items.length && <p class="pad"><Btn kind="small" onClick={() => show(true)}>{all.length - items.length} older</Btn></p>}
    </Sheet>
  );
}
const FeedRow = ({ t, icon, tone, who, what, note, mono }: { t: number; icon: IconName; tone: string; who: ComponentChildren; what: string; note: string; mono?: boolean }) => <><time class="mono dim" title={exact(t)}>{clock(t)}</time><Icon name={icon} class={tone} />{who}<span class={`cut soft ${mono ? 'mono' : ''}`} title={safe(what, 2000)}>{safe(what, 200)}</span><code class="dim">{safe(note, 40)}</code></>;
