// SPDX-License-Identifier: Apache-2.0
// One sandbox: what it is, its whole life as a line, and a tab for each way to look at it.
import { useEffect, useRef, useState } from 'preact/hooks';
import { lazy } from '../lib/lazy';
import { all, get, of, type AuditLine, type Box, type Change, type List } from '../api';
import { bytes, plural, safe, span } from '../lib/format';
import { go, href } from '../lib/router';
import { loose } from '../lib/settings';
import { allow, askFork, extend, fork, kept, kill, pause, remove, rename, several, snapshot, start, undo } from '../actions';
import { boxes, feed, loadNet, loaded, now, put, refused, snaps } from '../live';
import { useKeys } from '../keys';
import { failed, latest, lifted, ruleFor, title } from '../state';
import { Blank, Btn, Copy, Islet, Loading, Menu, Said, Trouble, useAsk, When } from '../ui';
import { keptOnly } from './files';
import { Glance } from './glance';
import { useInside } from './inside';
import { Tide } from './tide';
import { Work } from './work';

const Network = lazy(() => import('./network')), Snapshots = lazy(() => import('./snapshots')), Timeline = lazy(() => import('./timeline')), Processes = lazy(() => import('./processes')), Ports = lazy(() => import('./ports')), Resources = lazy(() => import('./resources'));

export const tabs = ['work', 'network', 'snapshots', 'timeline', 'processes', 'ports', 'resources', 'glance'] as const; // the last one where there is no room for it beside the work
type Tab = (typeof tabs)[number];

export default function BoxPage({ id, tab: asked }: { id: string; tab: string }) {
  const b = boxes.value.get(id), tab: Tab = (tabs as readonly string[]).includes(asked) ? (asked as Tab) : 'work';
  const first = useAsk(async () => { const x = await get<Box>(of(id)); put(x); return x; }, [id]);
  useEffect(() => { if (b) void loadNet(id).catch(() => undefined); }, [id, !!b]);
  if (!b) {
    if (first.error) return <Gone id={id} error={first.error} />;
    if (!loaded.value || !first.data) return <div class="page"><Loading rows={9} /></div>;
    return <Gone id={id} error={null} />;
  }
  return <Shown b={b} tab={tab} />;
}

/** Who ended it, when, why, and what is kept. */
const Gone = ({ id, error }: { id: string; error: unknown }) => {
  const left = [...snaps.value.values()].filter(s => s.sandbox === id), told = feed.value.find(e => e.sandbox === id && (e.kind === 'removed' || e.kind === 'stopped'));
  const opened = useRef(now.peek()), tries = Math.min(4, Math.floor((now.value - opened.current) / 1500)); // the line may be written after the event
  const last = useAsk(() => get<List<AuditLine>>('/audit', { object: id, last: 50 }).then(l => [...l.items].reverse().find(a => a.verdict === 'ok' && (a.action.startsWith('DELETE ') || a.action.endsWith('/kill'))), () => undefined), [id, tries]), a = last.data;
  const how = a ? <><code>{safe(a.actor, 60)}</code> {a.action.startsWith('DELETE ') ? 'deleted' : 'killed'} it <When t={a.time_ms} />. </> : told ? <>It was {told.kind} <When t={told.time_ms} />{told.reason ? <>: {safe(told.reason, 60)}</> : ''}. </> : null;
  return <div class="page"><section class="sheet"><Blank title="It is gone" text={<>There is no sandbox <code>{id.slice(0, 24)}</code> any more. {how}{left.length ? `${plural(left.length, 'snapshot')} of it ${left.length === 1 ? 'is' : 'are'} kept: a new sandbox can begin there.` : 'Nothing of it is kept.'}</>}>
    {left.slice(-1).map(s => <Btn key={s.id} kind="prime" icon="fork" onClick={() => fork({ id, name: s.label }, 1, s.id)}>Begin at {s.label || s.id.slice(0, 8)}</Btn>)}<Btn href={href(['audit'], { object: id })}>All that was asked of it</Btn><Btn href="#/sandboxes">All sandboxes</Btn></Blank>{error && !(error as any).status ? <Trouble error={error} what="It could not be asked for." /> : null}</section></div>;
};

/** Undo, and before it is pressed what it would end and put back. */
function UndoBtn({ b, alive }: { b: Box; alive: number }) {
  const [paths, told] = useState<number | null>(null), [units, setUnits] = useState<string[]>([]), [near, come] = useState(false), last = latest(b, snaps.value);
  const look = () => { come(true); if (last) void all<Change>('/diff', { a: last.id, b: b.id }).then(c => told(c.length), () => undefined); if (b.state === 'running') void kept(b.id).then(setUnits); };
  return <span class="undo" onPointerEnter={look} onPointerLeave={() => come(false)} onFocusIn={look} onFocusOut={() => come(false)}><Btn icon="undo" onClick={() => undo(b)} title="">Undo <kbd aria-hidden="true">U</kbd></Btn>{near && <span class="would" role="status">{last ? <>Back to {safe(last.label || last.id.slice(0, 8), 40)}: it would end {alive ? plural(alive, 'process', 'processes') : 'nothing'}{paths !== null && <>{units.length ? ', ' : ' and '}put back {paths ? plural(paths, 'file') : 'no file'}</>}{units.length > 0 && <> and start {several(units)} again</>}. The present is kept first.</> : 'There is no snapshot to go back to.'}</span>}</span>;
}

function Shown({ b, tab }: { b: Box; tab: Tab }) {
  const no = refused.value.filter(r => r.box === b.id), mine = [...snaps.value.values()].filter(s => s.sandbox === b.id).length, bad = failed(b), on = b.state === 'running', to = (t: string) => href(['sandbox', b.id, t === 'work' ? undefined : t]);
  const inside = useInside(b), count: Partial<Record<Tab, number>> = { snapshots: mine, processes: inside.alive.length, ports: inside.ports.length };
  useKeys({
    ...Object.fromEntries(tabs.slice(0, 7).map((t, i) => [String(i + 1), () => go(to(t))])),
    s: () => snapshot(b), f: () => fork(b), u: () => undo(b), p: () => pause(b),
    a: () => { const r = no.find(x => lifted(x.reason)); if (r) void allow(r, ruleFor(r)); },
    Enter: () => { const t = document.querySelector<HTMLElement>('.term.shown textarea'); if (t) t.focus(); else go(to('work')); },
  });
  // The chosen tab is in sight, also when numbers beside the others have come: to the side only, what was scrolled down stays.
  useEffect(() => {
    const t = document.getElementById(`tab-${tab}`)!, p = t.parentElement!, r = t.getBoundingClientRect(), q = p.getBoundingClientRect();
    p.scrollLeft += r.left < q.left ? r.left - q.left - 8 : Math.max(0, r.right - q.right + 8);
  }, [tab, !no.length, ...Object.values(count).map(n => !n)]);
  const limits = b.limits, n = (v: unknown) => (typeof v === 'number' ? v : 0), soft = b.layers.filter(l => l.state !== 'on');
  return (
    <div class="sb">
      <div class="sbhead"><Islet id={b.id} state={bad ? 'damaged' : b.state} size={44} />
        <div class="grow"><h1><span class="cut"><Said text={title(b)} most={80} /></span><span class={`chip ${bad ? 'bad' : 'sandc'}`}><span class={`mark ${bad ? 'failed' : b.state === 'creating' ? 'starting' : b.state}`} />{bad ? 'failed' : b.state}</span>{b.network === 'all' && <a class="chip warn" href={to('network')} title="It may reach everything but what is always closed">network all</a>}{loose(b).map(([k]) => <span class="chip warn" key={k} title="What runs in it asks nobody before it acts">{safe(k, 40)} bypass</span>)}</h1>
          <div class="facts"><span class="mono idchip">{b.id} <Copy text={b.id} label="Copy the id" /></span><span><b><Said text={b.template} most={30} /></b> template</span><span>{!b.layers.length ? 'its level is told while it runs' : <>level <b>{b.level} {b.isolation}</b>, {soft.length ? <a href={to('resources')} title={soft.map(l => `${l.name}: ${l.state}${l.why ? `, ${l.why}` : ''}`).join('\n')}>all but {plural(soft.length, 'layer')}</a> : `all ${b.layers.length} layers`}</>}</span>
            <span class="wide">{n(limits.cpu_milli) > 0 && <><b>{n(limits.cpu_milli) / 1000}</b> CPU, </>}{n(limits.memory) > 0 && <b>{bytes(n(limits.memory))}</b>}{n(limits.disk) > 0 && <>, <b>{bytes(n(limits.disk))}</b> disk</>}</span>
            <span>{on ? 'up' : 'made'} <b>{span(now.value - b.created_ms)}</b>{!on && ' ago'}</span>{b.deadline_ms > 0 && on && <span>{b.on_expiry === 'pause' ? 'pauses' : 'ends'} in <b>{span(b.deadline_ms - now.value)}</b> <button type="button" class="plain" onClick={() => extend(b)}>extend</button></span>}{!on && b.reason && <span>ended: <b>{safe(b.reason, 80)}</b></span>}</div></div>
        <div class="acts"><Btn icon="snap" onClick={() => snapshot(b)}>Snapshot <kbd aria-hidden="true">S</kbd></Btn><Btn icon="fork" onClick={() => fork(b)}>Fork <kbd aria-hidden="true">F</kbd></Btn><UndoBtn b={b} alive={inside.alive.length} />
          {on ? <Btn kind="icon wide" icon="pause" label="Pause" onClick={() => pause(b)} /> : <Btn kind="icon" icon="play" label={b.state === 'paused' ? 'Resume' : 'Start again'} onClick={() => (b.state === 'paused' ? pause(b) : start(b))} />}<Btn kind="danger" onClick={() => (b.state === 'stopped' ? remove(b) : kill(b))}>{b.state === 'stopped' ? 'Delete…' : 'Kill…'}</Btn>
          <Menu kind="icon quiet wide" icon="more" label="More" items={[{ text: 'Rename…', act: () => rename(b) }, { text: 'Fork many…', act: () => askFork(b) }, { text: 'One more hour', act: () => extend(b) }, ...(on ? [{ text: 'Pause', act: () => pause(b) }] : []), { text: 'Delete…', bad: true, act: () => remove(b) }]} /></div></div>
      <Tide b={b} strokes={inside.strokes} given={inside.given} />
      <div class="tabs" role="tablist" aria-label="Views of this sandbox">{tabs.map(t => <a key={t} role="tab" href={to(t)} aria-selected={t === tab} id={`tab-${t}`}>{t[0]!.toUpperCase() + t.slice(1)} {t === 'network' && no.length > 0 && <span class="n bad">{no.length} refused</span>}{(count[t] ?? 0) > 0 && <span class="n">{count[t]}</span>}</a>)}</div>
      <div class={`tab tab-${tab}`} role="tabpanel" aria-labelledby={`tab-${tab}`}>{keptOnly(b) && (tab === 'processes' || tab === 'ports') ? <Stopped b={b} /> : tab === 'work' ? <Work b={b} inside={inside} stopped={<Stopped b={b} />} /> : tab === 'network' ? <Network b={b} /> : tab === 'snapshots' ? <Snapshots b={b} alive={inside.alive.length} /> : tab === 'timeline' ? <Timeline b={b} /> : tab === 'processes' ? <Processes b={b} /> : tab === 'ports' ? <Ports b={b} procs={inside.procs} /> : tab === 'glance' ? <Glance b={b} inside={inside} /> : <Resources b={b} />}</div>
    </div>
  );
}

/** What ended a sandbox, as somebody would say it. */
const ended: Record<string, string> = { killed: 'It was killed', ttl: 'Its time was over', idle: 'Nobody used it for long enough', oom: 'Its memory ran out', reboot: 'The host was started anew', crash: 'It crashed', init: 'Its init ended', restarted: 'The server was started anew' };
const Stopped = ({ b }: { b: Box }) => <Blank title={failed(b) ? 'It failed' : 'It is stopped'} text={<>{ended[b.reason] ?? (b.reason ? `It ended: ${safe(b.reason, 80)}` : 'It ended')}{b.changed_ms > 0 && <> <When t={b.changed_ms} /></>}. Its files, timeline and snapshots are kept.</>}><Btn kind="prime" icon="play" onClick={() => start(b)}>Start again</Btn><Btn href={href(['sandbox', b.id, 'snapshots'])}>Snapshots</Btn></Blank>;
