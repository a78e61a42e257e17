// SPDX-License-Identifier: Apache-2.0
// What people do to a sandbox. It is done at once and offers a way back; only what has none asks first.
import { del, of, patch, post, type Box, type List, type Process, type Service, type Snapshot, get, put as putJson, type Policy } from './api';
import { plural, safe, span, word } from './lib/format';
import { go, href } from './lib/router';
import { boxes, dismiss, loadNet, put, putSnap, refresh, reloadSnaps, restore, snaps } from './live';
import { latest, lifted, ruleFor, title, type Refused } from './state';
import { attempt, question, toast } from './ui';

const named = (s: Snapshot) => (s.label ? `“${s.label}”` : s.id.slice(0, 8));

export const snapshot = (b: Box, label = '') => attempt('No snapshot was taken', async () => {
  const s = await post<Snapshot>(of(b.id, '/snapshots'), label ? { label } : {});
  putSnap(s);
  await refresh(b.id);
  toast(`Snapshot ${named(s)} in ${span(s.total_us / 1000)}. ${s.method === 'swap' ? 'Nothing was running, so nothing was copied.' : `Processes stood still for ${span(s.frozen_us / 1000)}.`}`);
  return s;
});

export const fork = (b: { id: string; name?: string }, count = 1, at?: string) => attempt('It was not forked', async () => {
  const began = performance.now(), base = b.name || 'fork', name = `${base}-${2 + [...boxes.value.values()].filter(x => x.name.startsWith(base + '-')).length}`;
  const made = at ? { items: [await post<Box>('/sandboxes', { from: at, name })] } : await post<List<Box>>(of(b.id, '/fork'), { count, ...(count === 1 ? { name } : {}) });
  for (const x of made.items) put(x);
  await reloadSnaps();
  await refresh(b.id);
  toast(`Forked to ${made.items.length === 1 ? title(made.items[0]!) : plural(made.items.length, 'sandbox', 'sandboxes')} in ${span(performance.now() - began)}.`);
  if (made.items.length === 1) go(href(['sandbox', made.items[0]!.id, 'snapshots']));
  return made.items;
});
export function askFork(b: Box) {
  question.value = { title: `Fork ${title(b)}`, text: <p class="soft">Each fork stands on the same layers and costs nothing until it writes.</p>, yes: 'Fork', input: { label: 'How many', value: '1', type: 'number' }, act: () => undefined, withInput: v => { const n = Number(v); if (!(n >= 1 && n <= 100)) throw new Error('between 1 and 100'); question.value = null; return fork(b, n); } };
}

/** What is kept running: those of which nobody has asked that they stay stopped. An undo ends them and starts them on the files of then. */
export const kept = (id: string): Promise<string[]> => get<List<Service>>(of(id, '/services')).then(l => l.items.filter(s => s.state !== 'stopped' && s.state !== 'stopping').map(s => s.name ?? ''), () => []);
export const several = (names: string[]) => (names.length < 4 ? names.map(n => safe(n, 40)).join(names.length === 2 ? ' and ' : ', ') : `${names.slice(0, 2).map(n => safe(n, 40)).join(', ')} and ${names.length - 2} others`);

/** The present is kept first, so that going back can be undone, too. */
export async function undo(b: Box, to?: Snapshot) {
  const target = to ?? latest(b, snaps.value);
  if (!target) { toast('There is no snapshot to go back to.'); return; }
  const procs = await get<List<Process>>(of(b.id, '/processes')).then(l => l.items.filter(p => p.pid !== 1 && (p.id || p.command !== 'cay-init')), () => []);
  const services = b.state === 'running' ? await kept(b.id) : [];
  await attempt('It did not go back', async () => {
    const before = await post<Snapshot>(of(b.id, '/snapshots'), { label: `before-undo-${b.id.slice(-4)}-${new Date().toTimeString().slice(0, 8).replace(/:/g, '')}` });
    await post<Snapshot>(of(b.id, '/undo'), { to: target.id });
    if (before) putSnap(before);
    await reloadSnaps();
    await refresh(b.id);
    const ended = procs.length ? ` ${plural(procs.length, 'process', 'processes')} ended.` : '';
    const again = services.length ? ` ${several(services)} ${services.length === 1 ? 'starts' : 'start'} again.` : '';
    toast(`Went back to ${named(target)}.${ended}${again}`, before && (() => attempt('It stayed as it was', async () => { await post(of(b.id, '/undo'), { to: before.id }); await refresh(b.id); toast('The present is back.'); })));
  });
}

/** Shown at once as it will be; as it was when that is refused. */
const boldly = async (b: Box, change: Partial<Box>, what: string, act: () => Promise<Box>) => {
  put({ ...b, ...change });
  const done = await attempt(what, act);
  put(done ?? b);
  return done;
};
export const pause = (b: Box) => {
  if (b.state === 'stopped') return start(b);
  put({ ...b, state: b.state === 'paused' ? 'running' : 'paused' });
  return attempt(b.state === 'paused' ? 'It was not resumed' : 'It was not paused', async () => { put(await post<Box>(of(b.id, b.state === 'paused' ? '/resume' : '/pause'))); }).then(() => refresh(b.id));
};
export const start = (b: Box) => attempt('It was not started', async () => { put(await post<Box>(of(b.id, '/resume'))); toast(`${title(b)} runs again.`); });
export const kill = (b: Box) => {
  question.value = {
    title: `Kill ${title(b)}?`, danger: true, yes: `Kill ${safe(title(b), 40)}`,
    text: <p class="soft">Its processes end at once and cannot be brought back. Its files stay, and it can be started again.</p>,
    act: async () => { put(await post<Box>(of(b.id, '/kill'))); await refresh(b.id); toast(`${title(b)} was killed; its files are kept.`); },
  };
};
export const remove = (b: Box) => {
  question.value = {
    title: `Delete ${title(b)}?`, danger: true, yes: `Delete ${safe(title(b), 40)}`, text: <p class="soft">Its processes end and its files go. Snapshots of it stay.</p>,
    act: async () => { await del(of(b.id)); const m = new Map(boxes.value); m.delete(b.id); boxes.value = m; toast(`${title(b)} is gone.`); go('#/sandboxes'); },
  };
};
export const rename = (b: Box) => { question.value = { title: 'Rename', text: null, yes: 'Rename', input: { label: 'Name', value: b.name }, act: () => undefined, withInput: v => { question.value = null; return boldly(b, { name: v }, 'It was not renamed', () => patch<Box>(of(b.id), { name: v })); } }; };
export const relabel = (s: Snapshot) => { question.value = { title: 'Rename the snapshot', text: <p class="soft">Letters, digits, dots, dashes; no other snapshot may have it.</p>, yes: 'Rename', input: { label: 'Label', value: s.label }, act: () => undefined, withInput: async v => { const was = s.label, to = (label: string) => patch<Snapshot>(`/snapshots/${s.id}`, { label }).then(putSnap); await to(v.trim()); toast(v.trim() ? `It is called ${v.trim()} now.` : 'It has no label any more.', () => attempt('It keeps its name', () => to(was))); } }; };
export const extend = (b: Box, ms = 3600000) => { const left = Math.max(0, (b.deadline_ms || Date.now()) - Date.now()) + ms; return boldly(b, { deadline_ms: Date.now() + left }, 'It was not extended', () => post<Box>(of(b.id, '/extend'), { ttl_ms: left })); };

// ------------------------------------------------------------------ the network

export const allow = (r: { box: string; key: string; name: string; port: number }, rule: string, ttl_ms?: number) => attempt(`${safe(r.name, 80)} was not allowed`, async () => {
  const policy = get<{ policy: Policy }>(of(r.box, '/net')).then(x => x.policy);
  dismiss(r as Refused); // it is off the list at once, and back when that is refused
  const before = await policy.catch(e => { restore(r as Refused); throw e; });
  const { revision } = await post<{ revision: number }>(of(r.box, '/net/rules'), ttl_ms ? { rules: [rule], ttl_ms } : { rules: [rule] }).catch(e => { restore(r as Refused); throw e; });
  const b = boxes.value.get(r.box);
  toast(`${rule} is allowed for ${b ? title(b) : r.box}${ttl_ms ? ` for ${span(ttl_ms)}` : ''}. Policy revision ${revision}.`, () => attempt('It stays allowed', async () => { await putJson(of(r.box, '/net'), before); restore(r as Refused); await loadNet(r.box); toast('The former policy holds again.'); }));
});
export const deny = (box: string, rule: string) => attempt('The rule was not added', async () => { const { revision } = await post<{ revision: number }>(of(box, '/net/rules'), { rules: ['!' + rule] }); toast(`${rule} is refused. Policy revision ${revision}.`); });
/** Nothing can be allowed that only the operator may lift. */
export function allowMenu(r: Refused): { text: string; note?: string; act: () => unknown; bad?: boolean }[] {
  const rule = ruleFor(r), isName = /[a-z]/i.test(r.name) && !r.name.includes(':');
  const keep = { text: 'Keep refusing', note: 'and do not show it again', act: () => dismiss(r) };
  if (!lifted(r.reason)) return [keep];
  return [
    { text: `Allow ${safe(rule, 60)}`, note: r.port ? undefined : 'ports 80 and 443', act: () => allow(r, rule) },
    ...(isName ? [{ text: 'This name and those below it', note: safe(ruleFor(r, true), 60), act: () => allow(r, ruleFor(r, true)) }] : []),
    { text: 'For ten minutes', note: 'then it is refused again', act: () => allow(r, rule, 600000) },
    keep,
  ];
}

/** What a button does, as one would type it. */
export const cli = {
  snapshot: (b: Box) => `cay snapshot ${b.name ? word(b.name) : b.id}`, fork: (b: Box) => `cay fork ${b.name ? word(b.name) : b.id}`, undo: (b: Box) => `cay undo ${b.name ? word(b.name) : b.id}`,
  pause: (b: Box) => `cay ${b.state === 'paused' ? 'resume' : 'pause'} ${b.name ? word(b.name) : b.id}`, kill: (b: Box) => `cay kill ${b.name ? word(b.name) : b.id}`, shell: (b: Box) => `cay shell ${b.name ? word(b.name) : b.id}`,
};
