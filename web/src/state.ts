// SPDX-License-Identifier: Apache-2.0
// What the pages show, made from what the server said. Pure: live.ts brings the data.
import type { Box, NetRecord, Process, Snapshot, AuditLine } from './api';
import { bytes as size } from './lib/format';

export interface Happening { id: string; time_ms: number; sandbox: string; kind: string; reason: string; process: string; code: number; net?: NetRecord; snapshot?: string; key?: string; entries?: number; entries_total?: number; bytes?: number; bytes_total?: number }

// ------------------------------------------------------------------ the set of sandboxes

export type Boxes = ReadonlyMap<string, Box>;
/** What an event says about the set: a sandbox to ask for again, one that is gone, or neither. */
export function effect(e: { kind: string; sandbox: string; net?: { event: string } }): 'ask' | 'gone' | 'all' | 'none' {
  switch (e.kind) {
    case 'removed': return 'gone';
    case 'lost': return 'all';
    case 'snapshot': case 'progress': return 'none';
    case 'net': return e.net?.event === 'policy' ? 'ask' : 'none';
    case 'created': case 'paused': case 'resumed': case 'extended': case 'stopped': case 'limit': return 'ask';
    default: return e.sandbox || e.kind === 'lost' ? 'none' : 'all';
  }
}
/** What was asked for, as it is told. No id is used twice: who was heard to be gone stays so, for an answer may be older than that. */
export function withBoxes(all: Boxes, asked: string[], there: Box[], gone: ReadonlySet<string>): Boxes {
  const m = new Map(all);
  for (const id of asked) m.delete(id);
  for (const b of there) if (!gone.has(b.id)) m.set(b.id, b);
  return m;
}
export function withoutBox(all: Boxes, id: string): Boxes { const m = new Map(all); m.delete(id); return m; }

/** How far a manifest is, in words and as a share of one; what is large tells it by its bytes. */
export function manifestDone(e: Happening): { text: string; part: number } {
  const { entries = 0, entries_total: all = 0, bytes = 0, bytes_total: most = 0 } = e;
  return { text: `${entries} of ${all} ${all === 1 ? 'entry' : 'entries'}${most ? `, ${size(bytes)} of ${size(most)}` : ''}`, part: Math.min(1, most ? bytes / most : all ? entries / all : 0) };
}

export const title = (b: { name?: string; id: string }) => b.name || b.id.slice(0, 8);
/** How a state looks; those on their way somewhere turn. */
export function look(state: string): 'running' | 'paused' | 'stopped' | 'failed' | 'starting' {
  return state === 'running' || state === 'paused' || state === 'stopped' ? state : state === 'damaged' ? 'failed' : state === 'gone' ? 'stopped' : 'starting';
}
/** Ended against somebody's will. */
export const failed = (b: Box) => b.state === 'damaged' || (b.state === 'stopped' && ['oom', 'crash', 'init'].includes(b.reason));

// ------------------------------------------------------------------ search: words, state:, template:, label:

export function matches(b: Box, search: string): boolean {
  return search.trim().toLowerCase().split(/\s+/).filter(Boolean).every(w => {
    const at = w.indexOf(':'), key = at > 0 ? w.slice(0, at) : '', value = w.slice(at + 1);
    switch (key) {
      case 'state': return b.state.startsWith(value) || (value === 'failed' && failed(b));
      case 'template': return b.template.toLowerCase().includes(value);
      case 'network': return (b.network ?? '').startsWith(value);
      case 'tenant': return b.tenant.toLowerCase().includes(value);
      case 'label': return Object.entries(b.labels ?? {}).some(([k, v]) => `${k}=${v}`.toLowerCase().includes(value));
      default: return b.name.toLowerCase().includes(w) || b.id.startsWith(w) || b.template.toLowerCase() === w;
    }
  });
}

/** Of a search that finds nothing: which one word, or the state, is best left out, and how many there are without it. */
export function bestDrop(all: Box[], search: string, state: string, fits: (b: Box) => boolean): { drop: string; q: string; state: string; n: number } | undefined {
  const words = search.trim().split(/\s+/).filter(Boolean), count = (q: string, s: boolean) => all.filter(b => matches(b, q) && (!s || fits(b))).length;
  const tries = [...words.map((w, i) => { const q = words.filter((_, k) => k !== i).join(' '); return { drop: w, q, state, n: count(q, !!state) }; }), ...(state ? [{ drop: `state ${state}`, q: search, state: '', n: count(search, false) }] : [])];
  return words.length + (state ? 1 : 0) > 1 ? tries.filter(t => t.n).sort((a, b) => a.n - b.n || Number(b.drop.includes(':')) - Number(a.drop.includes(':')))[0] : undefined;
}

/** Which letters of a search are in a text, in order; lower is better, -1: they are not. */
export function fuzzy(text: string, search: string): number {
  const t = text.toLowerCase(), s = search.toLowerCase().trim();
  if (!s) return 0;
  const at = t.indexOf(s);
  if (at >= 0) return at + (at && /\w/.test(t[at - 1]!) ? 20 : 0);
  let i = -1, cost = 40;
  for (const c of s) {
    const next = t.indexOf(c, i + 1);
    if (next < 0) return -1;
    cost += next - i - 1;
    i = next;
  }
  return cost;
}

// ------------------------------------------------------------------ families

/** Ids from the oldest ancestor that is known to the sandbox itself, by the snapshots they stand on. */
export function lineage(id: string, boxes: Boxes, snaps: ReadonlyMap<string, Snapshot>): string[] {
  const line = [id], seen = new Set(line);
  for (let at: string | undefined = id; at;) {
    const root = rootSnapshot(at, boxes.get(at)?.from, snaps), up: string = root ? root.sandbox : '';
    if (!up || seen.has(up)) break;
    line.unshift(up);
    seen.add(up);
    at = up;
  }
  return line;
}
/** The snapshot of another sandbox that this one began with: walk up from what it stands on, past its own. */
function rootSnapshot(id: string, from: string | undefined, snaps: ReadonlyMap<string, Snapshot>): Snapshot | undefined {
  let s = from ? snaps.get(from) : undefined;
  for (let n = 0; s && n < 500; n++) {
    if (s.sandbox !== id) return s;
    s = s.parent ? snaps.get(s.parent) : undefined;
  }
  return undefined;
}
export const family = (id: string, boxes: Boxes, snaps: ReadonlyMap<string, Snapshot>) => lineage(id, boxes, snaps)[0]!;

/** What was taken while processes ran is a copy beside the sandbox, which does not stand on it; only a swap leaves the line when it is undone. */
const beside = (s: Snapshot) => s.method !== 'swap';
/** What it stands on. When that was forgotten, nobody tells what was below: most likely the newest that is left. */
function ground(b: Box, snaps: ReadonlyMap<string, Snapshot>): Snapshot | undefined {
  return snaps.get(b.from) ?? (b.from ? [...snaps.values()].filter(s => s.sandbox === b.id).sort((x, y) => y.created_ms - x.created_ms)[0] : undefined);
}
/** Ids of a sandbox's own snapshots that its present follows from, and of those above it. */
export function keptBy(b: Box, snaps: ReadonlyMap<string, Snapshot>): Set<string> {
  const kept = new Set<string>();
  for (let s = ground(b, snaps); s && !kept.has(s.id); s = snaps.get(s.parent)) kept.add(s.id);
  for (const s of snaps.values()) if (s.sandbox === b.id && beside(s)) kept.add(s.id);
  return kept;
}
/** The last snapshot before now; undefined without one. */
export function latest(b: Box, snaps: ReadonlyMap<string, Snapshot>): Snapshot | undefined {
  const kept = keptBy(b, snaps);
  return [...snaps.values()].filter(s => s.sandbox === b.id && kept.has(s.id)).sort((x, y) => y.created_ms - x.created_ms)[0] ?? snaps.get(b.from);
}

// ------------------------------------------------------------------ the pebble tree

export interface Pebble { snap: Snapshot; lane: number; undone: boolean; x: number }
export interface End { box: Box; lane: number; from: string; x: number }
export interface Tree { pebbles: Pebble[]; ends: End[]; lanes: number; edges: { from: string; to: string; undone: boolean }[]; template: string; given: boolean } // template: what the first of the family began with, its pebble's id is ''; given: a manifest came on top of it, whose id is '+'

/** The snapshots of a sandbox's family: time to the right, a lane for each sandbox, below it those that nobody stands on any more. */
export function tree(root: string, boxes: Boxes, snaps: ReadonlyMap<string, Snapshot>, order: 'even' | 'time' = 'even', given = false): Tree {
  const members = new Set([...boxes.keys()].filter(id => family(id, boxes, snaps) === root));
  members.add(root);
  const mine = [...snaps.values()].filter(s => members.has(s.sandbox)).sort((a, b) => a.created_ms - b.created_ms);
  const known = new Set(mine.map(s => s.id));
  // What a live end stands on, all the way up, is on a line; what nobody stands on was undone.
  const kept = new Set<string>();
  for (const id of members) if (boxes.has(id)) for (const k of keptBy(boxes.get(id)!, snaps)) if (known.has(k)) kept.add(k);
  const lanes = new Map<string, number>(), low = new Map<string, number>();
  const boxLane = (id: string) => { if (!lanes.has(id)) lanes.set(id, lanes.size); return lanes.get(id)!; };
  boxLane(root);
  for (const b of [...boxes.values()].filter(x => members.has(x.id)).sort((a, b) => a.created_ms - b.created_ms)) boxLane(b.id);
  const pebbles = mine.map((snap, i): Pebble => ({ snap, lane: boxLane(snap.sandbox), undone: !kept.has(snap.id) && boxes.has(snap.sandbox), x: i }));
  // An undone one must not lie on the line that goes on without it.
  for (const p of pebbles) if (p.undone) { low.set(p.snap.id, 1); p.lane += 0.45; }
  const ends = [...members].filter(id => boxes.has(id)).map((id): End => ({ box: boxes.get(id)!, lane: boxLane(id), from: boxes.get(id)!.from ?? '', x: 0 }));
  const first = mine[0]?.created_ms ?? 0, last = mine.at(-1)?.created_ms ?? 1;
  if (order === 'time') for (const p of pebbles) p.x = ((p.snap.created_ms - first) / Math.max(1, last - first)) * Math.max(1, mine.length - 1);
  for (const e of ends) e.x = Math.max(mine.length - 0.2, 0.8);
  // On a lane each stands on the one before; the first on what it was forked from.
  const before = (p: Pebble) => pebbles.filter(q => q.snap.sandbox === p.snap.sandbox && !q.undone && q.snap.created_ms < p.snap.created_ms).at(-1)?.snap.id, newest = (id: string) => pebbles.filter(q => q.snap.sandbox === id && !q.undone).at(-1)?.snap.id;
  const edges = [...pebbles.map(p => ({ from: p.undone ? p.snap.parent : before(p) ?? p.snap.parent, to: p.snap.id, undone: p.undone })), ...ends.map(e => ({ from: newest(e.box.id) ?? e.from, to: e.box.id, undone: false }))].filter(e => known.has(e.from));
  // What stands on nothing else stands on the template, or on what a manifest put on top of it.
  const template = (boxes.get(root) ?? ends[0]?.box)?.template ?? '', ends_ = new Set(edges.map(e => e.to));
  if (template) for (const to of [...pebbles.map(p => p.snap.id), ...ends.map(e => e.box.id)]) if (!ends_.has(to)) edges.push({ from: given ? '+' : '', to, undone: pebbles.some(p => p.snap.id === to && p.undone) });
  if (template && given) edges.push({ from: '', to: '+', undone: false });
  return { pebbles, ends, lanes: Math.max(1, lanes.size), edges, template, given: given && !!template };
}

// ------------------------------------------------------------------ what was refused

export interface Refused { key: string; name: string; port: number; box: string; times: number; first: number; last: number; reason: string; proto: string; lookup: boolean; exec?: string }
/** By destination, the newest first. A name that could not even be looked up is refused for every port. */
export function refusals(records: NetRecord[], box: string): Refused[] {
  const by = new Map<string, Refused>();
  for (const r of records) {
    if (r.verdict !== 'deny') continue;
    const name = r.name || r.addr || '?', port = r.event === 'dns' ? 0 : r.port ?? 0, key = `${name}:${port}`;
    const old = by.get(key);
    if (old) { old.times++; old.last = Math.max(old.last, r.t); old.first = Math.min(old.first, r.t); old.exec = r.exec ?? old.exec; }
    else by.set(key, { key, name, port, box, times: 1, first: r.t, last: r.t, reason: r.reason ?? '', proto: r.proto ?? '', lookup: r.event === 'dns', ...(r.exec ? { exec: r.exec } : {}) });
  }
  return [...by.values()].sort((a, b) => b.last - a.last);
}
/** The command that ran when something was refused, the one that began last; a terminal only when nothing else did. Nobody tells who asked: this is who could have. */
export function asker(t: number, procs: Process[], ends: ReadonlyMap<string, number>, now: number): Process | undefined {
  const on = procs.filter(p => p.id && p.started_ms - 50 <= t && (ends.get(p.id) ?? (p.ended_ms || (p.state === 'ended' ? p.started_ms + 2000 : now))) + 200 >= t).sort((a, b) => a.started_ms - b.started_ms);
  return on.filter(p => !p.tty).at(-1) ?? on.at(-1);
}
/** What a word of the network log means to a person: docs/network.md has them all. */
const reasons: Record<string, string> = {
  off: 'This sandbox has no network.', default_deny: 'No rule names it.', tenant_deny: 'A rule of this sandbox forbids it; take that rule away first.', operator_deny: 'The operator forbids it.',
  blocked_range: 'Its address is in a range that is always closed; only the operator can open it.', own_address: 'It is an address of the host itself, or one without a route.', unknown_address: 'The address stands for no name; look the name up again.',
  no_host_name: 'No host can have that name.', names_limit: 'This sandbox has looked up as many names as it may.', connections_limit: 'It has as many connections as it may.', descriptors_limit: 'There were too many connections at once.',
  tls_name_mismatch: 'It may be reached, but the connection named another host.', tls_no_name: 'It may be reached, but the connection named no host.', tls_ech: 'It may be reached, but the connection hid the name of its host.', tls_unreadable: 'It may be reached by TLS, and this was none.',
  http_host_mismatch: 'It may be reached, but the request named another host.', http_no_host: 'It may be reached, but the request named no host.', http_two_hosts: 'It may be reached, but the request named two hosts.', http_connect: 'It may be reached, but not as a proxy.', http_unreadable: 'It may be reached by HTTP, and this was none.', http_head_too_long: 'The head of the request was too long.', http_late_upgrade: 'It asked for another protocol after its first request.',
  no_interceptor: 'A credential is bound to it, and what would put it in is not there.', policy_changed: 'The policy changed meanwhile; it can try again.', listener_tampered: 'Its sockets were tampered with from inside: it is served no more.',
};
export const why = (reason: string) => reasons[reason] ?? (reason ? `It was refused: ${reason.replace(/_/g, ' ')}.` : 'It was refused.');
/** Another rule of the sandbox would let it through. Deny wins over allow, and what was said there no rule mends. */
export const lifted = (reason: string) => reason === 'default_deny' || reason === 'off';
/** Where no rule helps, who or what does. */
export const remedy = (reason: string) => (reason === 'operator_deny' || reason === 'blocked_range' ? 'operator only' : reason === 'tenant_deny' ? 'see its rules' : 'no rule helps');
/** The rule that lets a refused destination through. */
export const ruleFor = (r: { name: string; port: number }, below = false) => `${below ? '**.' : ''}${r.name}${r.port && r.port !== 443 && r.port !== 80 ? ':' + r.port : ''}`;

// ------------------------------------------------------------------ the timeline

export interface Span { id: string; kind: 'exec' | 'snapshot' | 'op' | 'net'; label: string; start: number; took: number | null; note: string; bad: boolean; depth: number; process?: string; snap?: string; count?: number; bytes?: number; to?: string }
const verbs: [RegExp, string][] = [
  [/^POST \/api\/v1\/sandboxes\/\{id\}\/(pause|resume|kill|undo|fork|extend)$/, '$1'], [/^PUT \/api\/v1\/sandboxes\/\{id\}\/net$/, 'network policy'], [/^POST \/api\/v1\/sandboxes\/\{id\}\/net\/rules$/, 'network rule'],
  [/^PUT \/api\/v1\/sandboxes\/\{id\}\/files$/, 'write file'], [/^POST \/api\/v1\/sandboxes\/\{id\}\/files$/, 'upload'], [/^DELETE \/api\/v1\/sandboxes\/\{id\}\/files$/, 'delete file'], [/^PUT \/api\/v1\/sandboxes\/\{id\}\/files\/tar$/, 'unpack'],
  [/^POST \/api\/v1\/sandboxes$/, 'create'], [/^PATCH \/api\/v1\/sandboxes\/\{id\}$/, 'change'], [/^POST \/api\/v1\/sandboxes\/\{id\}\/ports\/\{port\}\/expose$/, 'expose port'],
];
/** What it ran. Of one that has ended 63 bytes are kept: where that was not all, it says so. */
export const command = (p: Process): string => (p.state === 'ended' && new TextEncoder().encode(p.command).length > 59 ? `${p.command}…` : p.command);
const runs = /\/sandboxes\/\{id\}\/(run|processes|pty|shells\/\{name\}\/run)$/;

/** Commands, snapshots, what was asked of the sandbox, and under each command what it reached and what was refused meanwhile. */
export function timeline(d: { procs: Process[]; snaps: Snapshot[]; audit: AuditLine[]; net: NetRecord[]; ends: ReadonlyMap<string, number>; now: number }): Span[] {
  const spans: Span[] = [];
  const ran = d.audit.filter(a => runs.test(a.action)).map(a => ({ from: a.time_ms - a.us / 1000, us: a.us, shell: !/\/(processes|pty)$/.test(a.action) }));
  for (const p of d.procs) {
    if (!p.id) continue;
    const ended = d.ends.get(p.id) ?? (p.ended_ms || undefined), near = ran.find(a => a.shell && Math.abs(a.from - p.started_ms) < 400);
    const took = ended ? ended - p.started_ms : p.state !== 'ended' ? d.now - p.started_ms : near ? near.us / 1000 : null;
    const bad = !!p.exit && (p.exit.code !== 0 || p.exit.signal !== 0);
    spans.push({ id: p.id, kind: 'exec', label: command(p), start: p.started_ms, took, depth: 0, process: p.id, bad, note: p.state !== 'ended' ? 'running' : p.exit?.signal ? `ended by signal ${p.exit.signal}` : `ended with ${p.exit?.code ?? 0}` });
  }
  // A snapshot that was taken while a command ran hangs under it; a terminal is always open and says nothing.
  const hung = new Map<string, Span[]>(), during = (t: number) => d.procs.filter(p => p.id && !p.tty && p.started_ms <= t && (d.ends.get(p.id) ?? (p.ended_ms || (p.state === 'ended' ? 0 : d.now))) >= t).at(-1);
  for (const s of d.snaps) { const owner = during(s.created_ms), list = owner ? hung.get(owner.id) ?? hung.set(owner.id, []).get(owner.id)! : spans; list.push({ id: s.id, kind: 'snapshot', label: s.label || (s.automatic ? 'automatic' : s.id.slice(0, 8)), start: s.created_ms, took: (s.total_us ?? 0) / 1000, depth: owner ? 1 : 0, note: s.method, bad: false, snap: s.id, process: owner?.id }); }
  for (const a of d.audit) {
    const verb = verbs.find(([re]) => re.test(a.action));
    if (verb) spans.push({ id: `a${a.seq}`, kind: 'op', label: a.action.replace(verb[0], verb[1]), start: a.time_ms - a.us / 1000, took: a.us / 1000, depth: 0, note: a.verdict === 'ok' ? '' : a.verdict, bad: a.verdict !== 'ok' });
  }
  spans.sort((a, b) => a.start - b.start);
  return withNet(spans, d.net, hung);
}
/** Under each command what left the sandbox or was refused while it ran: one line for each destination. */
function withNet(spans: Span[], net: NetRecord[], hung: ReadonlyMap<string, Span[]>): Span[] {
  const under = new Map<string, Map<string, Span>>(), alone: Span[] = [], ended = new Set(net.filter(r => r.event === 'end').map(r => `${r.name || r.addr}:${r.port}`));
  const execs = spans.filter(s => s.kind === 'exec'), said = (n: number, bytes: number) => [n > 1 ? `${n} times` : '', bytes ? `${size(bytes)}` : ''].filter(Boolean).join(', ');
  for (const r of net) {
    const no = r.verdict === 'deny', to = `${r.name || r.addr || '?'}${r.port && r.event !== 'dns' ? ':' + r.port : ''}`;
    if (!no && !(r.event === 'end' || (r.event === 'connect' && !ended.has(`${r.name || r.addr}:${r.port}`)))) continue; // an end tells more than the beginning
    const took = r.event === 'end' ? r.ms ?? 0 : r.ms ?? 1, start = r.event === 'end' ? r.t - took : r.t, bytes = (r.up ?? 0) + (r.down ?? 0);
    const owner = execs.filter(s => s.start - 50 <= start && (s.took === null ? s.start + 2000 : s.start + s.took + 200) >= start).at(-1);
    const label = `${no ? 'refused' : 'reached'} ${to}`, key = owner?.id ?? '', seen = under.get(key) ?? under.set(key, new Map()).get(key)!, old = seen.get(label);
    if (old) { old.count!++; old.bytes! += bytes; old.took = Math.max(old.took ?? 0, start + (r.ms ?? 0) - old.start); old.note = said(old.count!, old.bytes!); continue; }
    const s: Span = { id: `n${r.t}${label}`, kind: 'net', label, start, took, depth: owner ? 1 : 0, bad: no, note: said(1, bytes), count: 1, bytes, process: owner?.process, to: r.name || r.addr || '' };
    seen.set(label, s);
    if (!owner) alone.push(s);
  }
  return [...[...spans, ...alone].sort((a, b) => a.start - b.start)].flatMap(s => [s, ...(s.kind === 'exec' ? [...(hung.get(s.id) ?? []), ...(under.get(s.id)?.values() ?? [])].sort((a, b) => a.start - b.start) : [])]);
}

// ------------------------------------------------------------------ patches as lines

export interface DiffLine { kind: ' ' | '+' | '-' | '@'; old: number; new: number; text: string }
export function diffLines(patch: string): DiffLine[] {
  const out: DiffLine[] = [];
  let a = 0, b = 0, in_ = false;
  for (const line of patch.split('\n')) {
    const m = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)/.exec(line);
    if (m) { a = Number(m[1]); b = Number(m[2]); in_ = true; out.push({ kind: '@', old: 0, new: 0, text: m[3] ?? '' }); continue; }
    if (!in_ || line.startsWith('\\')) continue;
    if (line.startsWith('diff ')) { in_ = false; continue; }
    const k = line[0];
    if (k === '+') out.push({ kind: '+', old: 0, new: b++, text: line.slice(1) });
    else if (k === '-') out.push({ kind: '-', old: a++, new: 0, text: line.slice(1) });
    else if (k === ' ') out.push({ kind: ' ', old: a++, new: b++, text: line.slice(1) });
  }
  return out;
}
/** A stretch of a text and what it wears. */
export type Tint = [from: number, to: number, wears: string];
/** Each side of each hunk as one text, so that it can be read as a language; spread() gives what was found there back to the lines. */
export function sides(lines: DiffLine[]): { text: string; spread: (tints: Tint[]) => [DiffLine, Tint[]][] }[] {
  const hunks = lines.reduce<DiffLine[][]>((all, l) => { if (l.kind === '@' || !all.length) all.push([]); if (l.kind !== '@') all.at(-1)!.push(l); return all; }, []);
  return hunks.flatMap(h => (['-', '+'] as const).map(k => h.filter(l => l.kind === ' ' || l.kind === k))).filter(h => h.length).map(h => ({
    text: h.map(l => l.text).join('\n'),
    spread: tints => {
      let at = 0, i = 0;
      return h.map((l): [DiffLine, Tint[]] => {
        const from = at, to = at + l.text.length, mine: Tint[] = [];
        at = to + 1;
        while (i < tints.length && tints[i]![0] < to) { const [a, b, c] = tints[i]!; if (b > from) mine.push([Math.max(0, a - from), Math.min(b, to) - from, c]); if (b > to) break; i++; }
        return [l, mine];
      });
    },
  }));
}
/** A text in pieces: what wears something and what does not. */
export function cutBy(text: string, tints: Tint[]): [string, string][] {
  const out: [string, string][] = [];
  let at = 0;
  for (const [from, to, c] of tints) { if (from > at) out.push([text.slice(at, from), '']); if (to > Math.max(at, from)) out.push([text.slice(Math.max(at, from), to), c]); at = Math.max(at, to); }
  if (at < text.length) out.push([text.slice(at), '']);
  return out;
}
export function counts(patch: string): [number, number] {
  const l = diffLines(patch);
  return [l.filter(x => x.kind === '+').length, l.filter(x => x.kind === '-').length];
}

// ------------------------------------------------------------------ the past, as plots need it

export interface Point { time_ms: number; cpu_milli: number; memory: number; disk: number; net_rx: number; net_tx: number }
export const ranges: Record<string, number> = { '15m': 900000, '1h': 3600000, '6h': 21600000, '24h': 86400000 };
/** Points with a hole wherever more than `most` is between two: a line through it would be a lie. */
export function withHoles(all: Point[], most: number): { times: number[]; at: (Point | null)[] } {
  const times: number[] = [], at: (Point | null)[] = [];
  for (const [i, p] of all.entries()) {
    const before = all[i - 1];
    if (before && p.time_ms - before.time_ms > most) { times.push(before.time_ms + 1); at.push(null); }
    times.push(p.time_ms);
    at.push(p);
  }
  return { times, at };
}
/** How many of some moments fall into each of n equal parts of a time. */
export function tally(moments: number[], since: number, until: number, n: number): number[] {
  const out = Array.from({ length: n }, () => 0);
  for (const t of moments) if (t >= since && t < until) out[Math.min(n - 1, Math.floor(((t - since) / (until - since)) * n))]!++;
  return out;
}

/** How long to wait before the n-th try to reach the server again. */
export const backoff = (n: number) => Math.min(15000, 1000 * 2 ** Math.max(0, n));
