// SPDX-License-Identifier: Apache-2.0
// One sandbox: what it is, its whole life as a line, and a tab for each way to look at it.
import { useEffect } from 'preact/hooks';
import { lazy } from '../lib/lazy';
import { get, of, type Box } from '../api';
import { bytes, plural, safe, span } from '../lib/format';
import { go, href, route } from '../lib/router';
import { allow, askFork, extend, fork, kill, pause, remove, rename, snapshot, start, undo } from '../actions';
import { boxes, loadNet, loaded, now, put, refused, snaps } from '../live';
import { useKeys } from '../keys';
import { failed, latest, lifted, ruleFor, title } from '../state';
import { Blank, Btn, Copy, Islet, Loading, Menu, Said, Trouble, useAsk } from '../ui';
import { Glance } from './glance';
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

const Gone = ({ id, error }: { id: string; error: unknown }) => {
  const kept = [...snaps.value.values()].filter(s => s.sandbox === id);
  return <div class="page"><section class="sheet"><Blank title="It is gone" text={<>There is no sandbox <code>{id.slice(0, 24)}</code> any more. {kept.length ? `${plural(kept.length, 'snapshot')} of it ${kept.length === 1 ? 'is' : 'are'} kept: a new sandbox can begin there.` : 'Nothing of it is kept here; the audit tells who ended it.'}</>}>
    {kept.slice(-1).map(s => <Btn key={s.id} kind="prime" icon="fork" onClick={() => fork({ id, name: s.label }, 1, s.id)}>Begin at {s.label || s.id.slice(0, 8)}</Btn>)}<Btn href={href(['audit'], { object: id })}>Who ended it</Btn><Btn href="#/sandboxes">All sandboxes</Btn></Blank>{error && !(error as any).status ? <Trouble error={error} what="It could not be asked for." /> : null}</section></div>;
};

function Shown({ b, tab }: { b: Box; tab: Tab }) {
  const no = refused.value.filter(r => r.box === b.id), mine = [...snaps.value.values()].filter(s => s.sandbox === b.id).length, bad = failed(b), on = b.state === 'running', to = (t: string) => href(['sandbox', b.id, t === 'work' ? undefined : t]);
  const last = latest(b, snaps.value);
  useKeys({
    ...Object.fromEntries(tabs.slice(0, 7).map((t, i) => [String(i + 1), () => go(to(t))])),
    s: () => snapshot(b), f: () => fork(b), u: () => undo(b), p: () => pause(b),
    a: () => { const r = no.find(x => lifted(x.reason)); if (r) void allow(r, ruleFor(r)); },
    Enter: () => { const t = document.querySelector<HTMLElement>('.term.shown textarea'); if (t) t.focus(); else go(to('work')); },
  });
  const limits = b.limits, n = (v: unknown) => (typeof v === 'number' ? v : 0), soft = b.layers.filter(l => l.state !== 'on');
  return (
    <div class="sb">
      <div class="sbhead"><Islet id={b.id} state={bad ? 'damaged' : b.state} size={44} />
        <div class="grow"><h1><span class="cut"><Said text={title(b)} most={80} /></span><span class={`chip ${bad ? 'bad' : 'sandc'}`}><span class={`mark ${bad ? 'failed' : b.state === 'creating' ? 'starting' : b.state}`} />{bad ? 'failed' : b.state}</span></h1>
          <div class="facts"><span class="mono idchip">{b.id} <Copy text={b.id} label="Copy the id" /></span><span><b><Said text={b.template} most={30} /></b> template</span><span>level <b>{b.level} {b.isolation}</b>, {soft.length ? <a href="#/doctor" title={soft.map(l => `${l.name}: ${l.state}`).join('\n')}>all but {plural(soft.length, 'layer')}</a> : `all ${b.layers.length} layers`}</span>
            <span class="wide">{n(limits.cpu_milli) > 0 && <><b>{n(limits.cpu_milli) / 1000}</b> CPU, </>}{n(limits.memory) > 0 && <b>{bytes(n(limits.memory))}</b>}{n(limits.disk) > 0 && <>, <b>{bytes(n(limits.disk))}</b> disk</>}</span>
            <span>{on ? 'up' : 'made'} <b>{span(now.value - b.created_ms)}</b>{!on && ' ago'}</span>{b.deadline_ms > 0 && on && <span>{b.on_expiry === 'pause' ? 'pauses' : 'ends'} in <b>{span(b.deadline_ms - now.value)}</b> <button type="button" class="plain" onClick={() => extend(b)}>extend</button></span>}{!on && b.reason && <span>ended: <b>{safe(b.reason, 80)}</b></span>}</div></div>
        <div class="acts"><Btn icon="snap" onClick={() => snapshot(b)}>Snapshot <kbd aria-hidden="true">S</kbd></Btn><Btn icon="fork" onClick={() => fork(b)}>Fork <kbd aria-hidden="true">F</kbd></Btn><Btn icon="undo" onClick={() => undo(b)} title={last ? `Back to ${last.label || 'the last snapshot'}; the present is kept as a snapshot first` : 'There is no snapshot to go back to'}>Undo <kbd aria-hidden="true">U</kbd></Btn>
          {on ? <Btn kind="icon wide" icon="pause" label="Pause" onClick={() => pause(b)} /> : <Btn kind="icon" icon="play" label={b.state === 'paused' ? 'Resume' : 'Start again'} onClick={() => (b.state === 'paused' ? pause(b) : start(b))} />}<Btn kind="danger" onClick={() => (b.state === 'stopped' ? remove(b) : kill(b))}>{b.state === 'stopped' ? 'Delete…' : 'Kill…'}</Btn>
          <Menu kind="icon quiet wide" icon="more" label="More" items={[{ text: 'Rename…', act: () => rename(b) }, { text: 'Fork many…', act: () => askFork(b) }, { text: 'One more hour', act: () => extend(b) }, ...(on ? [{ text: 'Pause', act: () => pause(b) }] : []), { text: 'Delete…', bad: true, act: () => remove(b) }]} /></div></div>
      <Tide b={b} />
      <div class="tabs" role="tablist" aria-label="Views of this sandbox">{tabs.map(t => <a key={t} role="tab" href={to(t)} aria-selected={t === tab} id={`tab-${t}`}>{t[0]!.toUpperCase() + t.slice(1)} {t === 'network' && no.length > 0 && <span class="n bad">{no.length} refused</span>}{t === 'snapshots' && mine > 0 && <span class="n">{mine}</span>}</a>)}</div>
      <div class={`tab tab-${tab}`} role="tabpanel" aria-labelledby={`tab-${tab}`}>{b.state === 'stopped' && tab !== 'snapshots' && tab !== 'timeline' && tab !== 'network' && tab !== 'resources' ? <Stopped b={b} /> : tab === 'work' ? <Work b={b} /> : tab === 'network' ? <Network b={b} /> : tab === 'snapshots' ? <Snapshots b={b} /> : tab === 'timeline' ? <Timeline b={b} /> : tab === 'processes' ? <Processes b={b} /> : tab === 'ports' ? <Ports b={b} /> : tab === 'glance' ? <Glance b={b} /> : <Resources b={b} />}</div>
    </div>
  );
}

const Stopped = ({ b }: { b: Box }) => <Blank title={failed(b) ? 'It failed' : 'It is stopped'} text={<>It ended {b.reason ? <>because of <code>{safe(b.reason, 80)}</code></> : 'some time ago'}. Its files, timeline and snapshots are kept.</>}><Btn kind="prime" icon="play" onClick={() => start(b)}>Start again</Btn><Btn href={href(['sandbox', b.id, 'snapshots'])}>Snapshots</Btn></Blank>;
void route;
