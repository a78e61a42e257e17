// SPDX-License-Identifier: Apache-2.0
// The frame: who is in, where we are, and what is always there.
import './nonce';
import { effect } from '@preact/signals';
import { render, type ComponentChildren } from 'preact';
import { lazy, Suspense } from './lib/lazy';
import { lost, login, logout, session, who } from './api';
import { clock, safe, span } from './lib/format';
import { href, parse, route, setQuery, start } from './lib/router';
import { begin, boxes, deadJobs, doctor, now, retryAt, samples, templates, tryNow } from './live';
import { Keys, overlay, listenKeys } from './keys';
import { Asker, Btn, Icon, Loading, Mark, notice, Notice, Toaster, type IconName } from './ui';
import { Login } from './pages/login';
import { Overview } from './pages/overview';
import { theme, toggleTheme } from './theme';
import { title } from './state';

const List = lazy(() => import('./pages/list')), BoxPage = lazy(() => import('./box/page')), Templates = lazy(() => import('./pages/templates')), Jobs = lazy(() => import('./pages/jobs')),
  KeysPage = lazy(() => import('./pages/access')), Audit = lazy(() => import('./pages/audit')), DoctorPage = lazy(() => import('./pages/doctor')), More = lazy(() => import('./pages/more')),
  Palette = lazy(() => import('./pages/palette')), Create = lazy(() => import('./pages/create'));

const nav: [string, string, IconName, (() => ComponentChildren)?][] = [
  ['', 'Overview', 'chart'],
  ['sandboxes', 'Sandboxes', 'cay', () => boxes.value.size || ''],
  ['templates', 'Templates', 'layers', () => templates.value.length || ''],
  ['jobs', 'Jobs', 'jobs', () => (deadJobs.value.length ? <span class="bad">{deadJobs.value.length} dead</span> : '')],
  ['keys', 'Keys', 'key'], ['audit', 'Audit', 'audit'],
  ['doctor', 'Doctor', 'pulse', () => { const n = doctor.value?.layers.filter(l => l.state !== 'on').length; return n ? `${n} hint${n === 1 ? '' : 's'}` : ''; }],
];

const page = () => route.value.path[0] ?? '';
const current = (p: string) => (page() === p || (p === 'sandboxes' && page() === 'sandbox') ? 'page' as const : undefined);

function View() {
  switch (page()) {
    case '': return <Overview />;
    case 'sandboxes': return <List />;
    case 'sandbox': return <BoxPage id={route.value.path[1] ?? ''} tab={route.value.path[2] ?? ''} key={route.value.path[1]} />;
    case 'templates': return <Templates />;
    case 'jobs': return <Jobs />;
    case 'keys': return <KeysPage />;
    case 'audit': return <Audit />;
    case 'doctor': return <DoctorPage />;
    case 'more': return <More />;
    default: return <div class="page"><div class="head"><div><h1>There is no such page</h1><p><a href="#/">Overview</a></p></div></div></div>;
  }
}

function Crumb() {
  if (page() !== 'sandbox') return <div class="crumb"><b>{nav.find(n => n[0] === page())?.[1] ?? (page() === 'more' ? 'More' : 'Overview')}</b></div>;
  const b = boxes.value.get(route.value.path[1] ?? '');
  return <div class="crumb"><a href="#/sandboxes">Sandboxes</a><span aria-hidden="true">/</span><b class="cut">{safe(b ? title(b) : route.value.path[1], 80)}</b></div>;
}

const Host = () => {
  const s = session.value!, d = doctor.value, up = samples.value.at(-1)?.uptime_s;
  return <div class="host"><div class="state"><span class="mark" />{lost.value ? 'Reconnecting' : 'Live'}</div><b class="cut">{s.host}</b>{d && <> · level {d.level} {d.isolation}</>}<br />cay {s.version}{up !== undefined && <> · up {span(up * 1000)}</>}<br /><button type="button" class="plain" onClick={logout}>Log out{s.scope === 'tenant' ? ` of ${s.tenant}` : ''}</button></div>;
};

const Lost = () => lost.value ? <div class="lost" role="status"><Icon name="bang" /><div class="grow"><b>The server does not answer.</b> Sandboxes keep running without it. What you see is from {clock(lost.value)}{retryAt.value > now.value ? `; trying again in ${Math.ceil((retryAt.value - now.value) / 1000)} s.` : '; trying again.'}</div><Btn kind="small" onClick={tryNow}>Try now</Btn></div> : null;

function App() {
  if (!session.value) return <Loading />;
  if (!session.value.scope) return <Login />;
  return (
    <>
      <a class="skip" href="#main" onClick={e => { e.preventDefault(); document.getElementById('main')!.focus(); }}>Skip to content</a>
      <div class={`app ${lost.value ? 'off' : ''}`}>
        <aside class="rail"><a class="brand" href="#/"><Mark />cay</a>
          <nav class="nav" aria-label="Main">{nav.map(([p, name, icon, n], i) => <>{i === 4 && <hr />}<a key={p} href={'#/' + p} aria-current={current(p)}><Icon name={icon} />{name}<span class="n">{n?.()}</span></a></>)}</nav><Host /></aside>
        <header class="top"><Crumb />
          <button class="find" type="button" onClick={() => { overlay.value = 'palette'; }} aria-label="Find or run… Ctrl K"><Icon name="find" /><span>Find or run…</span><kbd>Ctrl K</kbd></button>
          <Btn kind="quiet icon" icon="sun" label={`Switch to ${theme.value === 'dark' ? 'light' : 'dark'}`} onClick={toggleTheme} />
          <Btn kind="prime" icon="plus" onClick={() => { overlay.value = 'create'; }}>New <span class="wide">sandbox</span> <kbd aria-hidden="true">C</kbd></Btn></header>
        <main id="main" tabIndex={-1}><Lost /><Notice /><div class="live"><Suspense fallback={<div class="page"><Loading rows={8} /></div>}><View /></Suspense></div></main>
        <nav class="foot" aria-label="Pages">{([['', 'Overview', 'chart'], ['sandboxes', 'Sandboxes', 'cay'], ['templates', 'Templates', 'layers'], ['more', 'More', 'more']] as const).map(([p, name, icon]) => <a key={p} href={'#/' + p} aria-current={current(p)}><Icon name={icon} />{name}</a>)}</nav>
      </div>
      <Suspense fallback={null}>{overlay.value === 'palette' ? <Palette /> : overlay.value === 'create' ? <Create /> : overlay.value === 'keys' ? <Keys /> : null}</Suspense>
      <Asker /><Toaster />
    </>
  );
}

/** A link's token is behind the #, so no server and no log has seen it; it is taken out of the address before anything else. */
async function enter() {
  const r = parse(location.hash), token = r.query.get('in');
  if (token) {
    r.query.delete('in');
    history.replaceState(null, '', href(r.path, Object.fromEntries(r.query)));
    try { await login({ token }); return; } catch (e) { sessionStorage.setItem('login', (e as Error).message); }
  }
  await who();
}

start();
listenKeys();
render(<App />, document.body);
/** A link may open what floats: #/?dialog=create. It is taken out of the address, so that it is not open again after a reload. */
effect(() => { const d = route.value.query.get('dialog'); if (d && session.value?.scope) { if (d === 'create' || d === 'palette' || d === 'keys') overlay.value = d; setQuery({ dialog: null }); } });
/** What was not done is told on its page, not on the next one. */
let seen = '';
effect(() => { const p = route.value.path.join('/'); if (p !== seen) { seen = p; notice.value = null; } });
let begun = false;
effect(() => { if (session.value?.scope && !begun) { begun = true; begin(); } else if (session.value && !session.value.scope) begun = false; });
effect(() => {
  const b = page() === 'sandbox' ? boxes.value.get(route.value.path[1] ?? '') : undefined;
  document.title = `${b ? safe(title(b), 80) : nav.find(n => n[0] === page())?.[1] ?? 'cay'} · cay`;
});
const boot = () => enter().catch(() => { setTimeout(boot, 1500); });
void boot();
