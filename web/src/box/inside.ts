// SPDX-License-Identifier: Apache-2.0
// What goes on inside the sandbox in view: asked for once, for its head, its life as a line and the glance.
import { get, of, type AuditLine, type Box, type Given, type List, type Port, type Process } from '../api';
import { useEffect } from 'preact/hooks';
import { ends, feed, now, refresh } from '../live';
import { useAsk } from '../ui';
import { command } from '../state';

export interface Stroke { id: string; t: number; took: number; label: string; bad: boolean; on: boolean }
export interface Inside { procs: Process[]; alive: Process[]; ports: Port[]; strokes: Stroke[]; given?: Given | null }

/** init's own helpers, which serve files, are no work of anybody's. */
const ofTenant = (p: Process) => p.pid !== 1 && (!!p.id || p.command !== 'cay-init');
const ran = /\/sandboxes\/\{id\}\/(run|processes|pty|shells\/\{name\}\/run)$/;

export function useInside(b: Box): Inside {
  const on = b.state === 'running', beat = feed.value.filter(e => e.sandbox === b.id).length;
  const procs = useAsk(() => (on ? get<List<Process>>(of(b.id, '/processes'), { ended: true }).then(l => l.items, () => []) : Promise.resolve([])), [b.id, on, beat, Math.floor(now.value / 5000)]); // what a shell starts is no event
  const ports = useAsk(() => (on ? get<List<Port>>(of(b.id, '/ports')).then(l => l.items, () => []) : Promise.resolve([])), [b.id, on, beat, Math.floor(now.value / 6000)]);
  useEffect(() => { void refresh(b.id).catch(() => undefined); }, [b.id, Math.floor(now.value / 15000)]); // not everything that others change is an event
  const given = useAsk(() => get<Given>(of(b.id, '/manifest')).catch(() => null), [b.id]);
  // Of one that does not run nobody has the processes any more; what was asked of it is in the audit.
  const past = useAsk(() => (on ? Promise.resolve([]) : get<List<AuditLine>>('/audit', { object: b.id, last: 400 }).then(l => l.items.filter(a => ran.test(a.action)), () => [])), [b.id, on]);
  const all = procs.data ?? [], alive = all.filter(p => p.state !== 'ended' && ofTenant(p));
  const strokes = on ? all.filter(p => p.id).map((p): Stroke => ({ id: p.id, t: p.started_ms, took: (ends.value.get(p.id) ?? (p.ended_ms || (p.state === 'ended' ? p.started_ms + 20 : now.value))) - p.started_ms, label: command(p), bad: !!p.exit && (p.exit.code !== 0 || p.exit.signal !== 0), on: p.state !== 'ended' }))
    : (past.data ?? []).map((a): Stroke => ({ id: '', t: a.time_ms - a.us / 1000, took: a.us / 1000, label: 'a command', bad: a.verdict !== 'ok', on: false }));
  return { procs: all, alive, ports: ports.data ?? [], strokes, given: given.data };
}
