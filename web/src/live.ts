// SPDX-License-Identifier: Apache-2.0
// What the server has and what happens there, kept up to date by one stream. When it is gone: again after 1, 2, 4, 8, at most 15 s, and at once when
// the browser is back online or the page is looked at.
import { batch, computed, signal } from '@preact/signals';
import * as api from './api';
import { backoff, effect, refusals, withBoxes, withoutBox, type Boxes, type Happening, type Refused } from './state';

export const boxes = signal<Boxes>(new Map());
export const snaps = signal<ReadonlyMap<string, api.Snapshot>>(new Map());
export const loaded = signal(false);
export const feed = signal<Happening[]>([]);            // the newest first
export const ends = signal<ReadonlyMap<string, number>>(new Map()); // when processes ended, by id
export const net = signal<ReadonlyMap<string, api.NetRecord[]>>(new Map()); // what was refused, by sandbox
export const deadJobs = signal<api.Job[]>([]);
export const builds = signal<api.Build[]>([]);           // the newest first
export const progress = signal<Happening | null>(null);  // of the manifest that was heard of last
export const doctor = signal<api.Doctor | null>(null);
export const templates = signal<api.Template[]>([]);
export const retryAt = signal(0);
export const now = signal(Date.now());
const hidden = (): string[] => { try { return JSON.parse(localStorage.getItem('dismissed') ?? '[]'); } catch { return []; } };
/** What somebody has decided about, kept per browser. */
export const dismissed = signal<ReadonlySet<string>>(new Set(hidden()));
function hide(s: Set<string>) { dismissed.value = s; localStorage.setItem('dismissed', JSON.stringify([...s].slice(-500))); }

export interface Sample { time_ms: number; cpus: number; memory: number; memory_free: number; uptime_s: number; items: { id: string; cpu_us: number; memory: number; pids: number; disk: number; net_rx: number; net_tx: number }[]; tally?: Tally }
/** What happened since the sample before. */
export interface Tally { created: number; exec: number; refused: number }
let tally: Tally = { created: 0, exec: 0, refused: 0 };
export const samples = signal<Sample[]>([]);            // the oldest first
const SAMPLES = 450, SAMPLE_MS = 2000, FEED = 200, RECORDS = 400, LOOKS = 300;

export const sorted = computed(() => [...boxes.value.values()].sort((a, b) => b.created_ms - a.created_ms));
export const refused = computed((): Refused[] => [...net.value].flatMap(([id, r]) => refusals(r, id)).filter(r => boxes.value.has(r.box) && !dismissed.value.has(r.box + r.key)).sort((a, b) => b.last - a.last));

export function dismiss(r: Refused) { hide(new Set(dismissed.value).add(r.box + r.key)); }
export function restore(r: Refused) { const s = new Set(dismissed.value); s.delete(r.box + r.key); hide(s); }
const gone = new Set<string>(); // sandboxes, by what was heard
export function put(b: api.Box) { boxes.value = withBoxes(boxes.value, [], [b], gone); }
export function putSnap(s: api.Snapshot) { snaps.value = new Map(snaps.value).set(s.id, s); settleSoon(); }
export function dropSnap(id: string) { const m = new Map(snaps.value); m.delete(id); snaps.value = m; }

export async function refresh(id: string): Promise<api.Box | undefined> {
  return (await refreshAll([id]))[0];
}
/** As they are now; those that are gone again are no error. */
export async function refreshAll(ids: string[]): Promise<api.Box[]> {
  const { items } = await api.get<api.List<api.Box>>('/sandboxes', { id: ids }).catch(() => ({ items: null })), asked = new Set(ids);
  if (!items) return []; // the server is away: what is known stays
  const there = items.filter(b => asked.has(b.id));
  boxes.value = withBoxes(boxes.peek(), ids, there, gone);
  return there;
}
export async function reloadSnaps() { snaps.value = new Map((await api.all<api.Snapshot>('/snapshots')).map(s => [s.id, s])); settleSoon(); }

/** What changed in a snapshot and whether it is on the disk is known a little after it was taken: young ones are asked for again until it is. */
const YOUNG = 120000, AT_ONCE = 20;
let settling: ReturnType<typeof setTimeout> | undefined;
function settleSoon(wait = 1500) {
  const young = (): api.Snapshot[] => [...snaps.peek().values()].filter(s => !s.durable && Date.now() - s.created_ms < YOUNG).slice(-AT_ONCE);
  if (settling || !young().length) return;
  settling = setTimeout(() => {
    void Promise.all(young().map(s => api.get<api.Snapshot>(`/snapshots/${s.id}`).catch(() => null))).then(now => {
      settling = undefined;
      const there = now.filter((s): s is api.Snapshot => !!s && snaps.peek().has(s.id));
      if (there.some(s => s.durable)) { const m = new Map(snaps.peek()); for (const s of there) m.set(s.id, s); snaps.value = m; }
      settleSoon(Math.min(15000, wait * 2));
    });
  }, wait);
}
export async function reloadJobs() { deadJobs.value = (await api.get<api.List<api.Job>>('/jobs', { state: 'dead' })).items; }

export async function reloadBuilds() { builds.value = (await api.get<api.List<api.Build>>('/builds')).items.slice(0, 50); }

export async function reloadTemplates() { templates.value = (await api.get<api.List<api.Template>>('/templates')).items; }

async function loadAll() {
  const [b, s] = await Promise.all([api.all<api.Box>('/sandboxes'), api.all<api.Snapshot>('/snapshots')]);
  batch(() => {
    boxes.value = withBoxes(new Map(), [], b, gone);
    snaps.value = new Map(s.map(x => [x.id, x]));
    loaded.value = true;
  });
  settleSoon();
  const quiet = (p: Promise<unknown>) => p.catch(() => undefined);
  await Promise.all([
    quiet(reloadJobs()),
    quiet(reloadBuilds()),
    quiet(api.get<api.Doctor>('/doctor').then(d => { doctor.value = d; })),
    quiet(reloadTemplates()),
    quiet(loadRefused(b)),
  ]);
}
/** What was refused before we looked: those that run first, then the others, the newest first; a few at once, and no more than LOOKS of them. */
async function loadRefused(all: api.Box[]) {
  const queue = [...all].sort((a, b) => Number(b.state === 'running') - Number(a.state === 'running') || b.changed_ms - a.changed_ms).slice(0, LOOKS);
  const look = async () => {
    for (let b = queue.shift(); b; b = queue.shift()) {
      const { id } = b, r = await api.get<api.List<api.NetRecord>>(api.of(id, '/net/log'), { denied: true, count: 50 }).catch(() => null);
      if (r?.items.length) net.value = new Map(net.value).set(id, r.items);
    }
  };
  await Promise.all(Array.from({ length: 4 }, look));
}
export async function loadNet(id: string) {
  const r = await api.get<api.List<api.NetRecord>>(api.of(id, '/net/log'), { denied: true, count: RECORDS });
  net.value = new Map(net.value).set(id, r.items);
}

// ------------------------------------------------------------------ events

const asking = new Set<string>();
let soon: ReturnType<typeof setTimeout> | undefined;
/** What comes together is asked for together. */
function askSoon(id: string) {
  asking.add(id);
  soon ??= setTimeout(() => { soon = undefined; const ids = [...asking].slice(0, 50); for (const x of ids) asking.delete(x); void refreshAll(ids); if (asking.size) askSoon([...asking][0]!); }, 80);
}

/** What happened before we listened: it is told and changes nothing, since everything is asked for as it is now. */
export function takePast(all: Happening[]) {
  const known = new Set(feed.value.map(e => e.id));
  batch(() => {
    feed.value = [...feed.value, ...all.filter(e => !known.has(e.id) && e.kind !== 'lost' && e.kind !== 'progress' && !(e.kind === 'net' && e.net?.verdict !== 'deny')).reverse()].slice(0, FEED);
    ends.value = new Map([...all.filter(e => e.kind === 'exit' && e.process).map((e): [string, number] => [e.process, e.time_ms]), ...ends.value]);
  });
}
export function take(e: Happening) {
  if (e.kind === 'progress') { progress.value = e; return; }
  batch(() => {
    if (e.kind === 'created' || e.kind === 'exec') tally[e.kind]++;
    if (e.net?.verdict === 'deny') tally.refused++;
    if (!(e.kind === 'net' && e.net?.verdict !== 'deny')) feed.value = [e, ...feed.value].slice(0, FEED);
    if (e.kind === 'exit' && e.process) ends.value = new Map(ends.value).set(e.process, e.time_ms);
    if (e.kind === 'net' && e.net?.verdict === 'deny') net.value = new Map(net.value).set(e.sandbox, [...(net.value.get(e.sandbox) ?? []), e.net].slice(-RECORDS));
    if (e.kind === 'snapshot') { void hearSnap(e); return; }
    const what = effect(e);
    if (what === 'gone') { gone.add(e.sandbox); boxes.value = withoutBox(boxes.value, e.sandbox); }
    else if (what === 'ask') askSoon(e.sandbox);
    else if (what === 'all') void loadAll().catch(() => undefined);
  });
}

/** One was taken, here or elsewhere, or the newest was forgotten. */
async function hearSnap(e: Happening) {
  try {
    if (!e.snapshot || e.reason === 'removed') { await reloadSnaps(); return; }
    if (!snaps.peek().has(e.snapshot)) putSnap(await api.get<api.Snapshot>(`/snapshots/${e.snapshot}`));
    if (boxes.peek().has(e.sandbox)) await refresh(e.sandbox); // what it stands on is another one now
  } catch { /* it is gone again */ }
}

let stop: AbortController | null = null, after = '', tries = 0, timer: ReturnType<typeof setTimeout> | undefined;

async function listen() {
  clearTimeout(timer);
  stop?.abort();
  const mine = (stop = new AbortController());
  let past: Happening[] | null = after ? null : [];
  try {
    await api.stream('/events', { after: after || '0' }, mine.signal, m => {
      if (m.event === 'now') { takePast(past ?? []); past = null; }
      after = past ? after : m.id || after;
      try { const e = { ...JSON.parse(m.data), id: m.id } as Happening; if (past) past.push(e); else if (m.event !== 'now') take(e); } catch { /* a comment of another version */ }
    }, () => {
      const was = api.lost.value;
      batch(() => { tries = 0; api.lost.value = 0; retryAt.value = 0; });
      if (was || !loaded.value) void loadAll().then(back, () => undefined);
    });
  } catch (e) {
    if (mine.signal.aborted) return;
    if (e instanceof api.Failed && e.status === 400) after = ''; // its memory does not go back that far
    if (e instanceof api.Failed && e.status === 401) return;
  }
  if (mine.signal.aborted) return;
  const wait = backoff(tries++);
  batch(() => { if (!api.lost.value && tries > 1) api.lost.value = Date.now(); retryAt.value = Date.now() + wait; });
  timer = setTimeout(listen, wait);
}
/** Whoever holds something of the server's own (a socket) takes it up again. */
const backs = new Set<() => void>();
function back() { for (const f of backs) f(); }
export function onBack(f: () => void): () => void { backs.add(f); return () => backs.delete(f); }

export function tryNow() { tries = 0; void listen(); }

// ------------------------------------------------------------------ samples

async function sample() {
  if (document.hidden || api.lost.value || !api.session.value?.scope) return;
  try {
    const s = await (await api.ask('GET', '/sample', { base: '/console' })).json() as Sample;
    s.tally = tally;
    tally = { created: 0, exec: 0, refused: 0 };
    samples.value = [...samples.value, s].slice(-SAMPLES);
  } catch { /* the stream tells */ }
}
/** Shares of CPUs that a sandbox used between the last two samples. */
export const cpu = computed(() => {
  const m = new Map<string, number>(), [a, b] = samples.value.slice(-2);
  if (!a || !b) return m;
  const old = new Map(a.items.map(i => [i.id, i.cpu_us]));
  for (const i of b.items) if (old.has(i.id)) m.set(i.id, Math.max(0, (i.cpu_us - old.get(i.id)!) / 1000 / Math.max(1, b.time_ms - a.time_ms)));
  return m;
});
export const used = computed(() => new Map(samples.value.at(-1)?.items.map(i => [i.id, i]) ?? []));

export function begin() {
  void listen();
  void sample();
  setInterval(sample, SAMPLE_MS);
  setInterval(() => { if (!document.hidden && !api.lost.value && api.session.value?.scope) void reloadBuilds().catch(() => undefined); }, 30000);
  setInterval(() => { if (!document.hidden) now.value = Date.now(); }, 1000);
  addEventListener('online', tryNow);
  document.addEventListener('visibilitychange', () => { if (!document.hidden) { now.value = Date.now(); if (api.lost.value) tryNow(); } });
}
