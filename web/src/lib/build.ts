// SPDX-License-Identifier: Apache-2.0
// What a build says: its lines as they come, and as rows of steps. Pure.

export interface BuildLine { at: number; kind: string; text: string; step: number; t: number; cached: boolean } // at: its number, from 0
export interface BuildLog { lines: BuildLine[]; total: number; dropped: number; after: string; sure: number; steps: number; end: { state: string; error: string; reason: string; t: number } | null }
const KEPT_LINES = 3000;
const told = (v: unknown) => Number(v ?? 0) || 0;

/** The log with one event more; without one: as it was at the last mark, from which the stream goes on. */
export function buildLog(log: BuildLog = { lines: [], total: 0, dropped: 0, after: '', sure: 0, steps: 0, end: null }, m?: { id: string; event: string; data: string }): BuildLog {
  if (!m) { const lines = log.lines.filter(l => l.at < log.sure); return { ...log, lines, total: log.sure, dropped: log.sure - lines.length }; }
  let d: Record<string, unknown>;
  try { d = JSON.parse(m.data); } catch { return log; }
  if (m.event === 'at') return { ...log, after: m.id, sure: log.total };
  if (m.event === 'end') return { ...log, end: { state: String(d.state ?? ''), error: String(d.error ?? ''), reason: String(d.reason ?? ''), t: log.lines.at(-1)?.t ?? 0 } };
  if (!['step', 'out', 'err', 'note', 'warn', 'fail'].includes(m.event)) return log;
  const text = String(d.text ?? '').replace(/\n$/, ''), step = told(d.step), t = told(d.time_ms), cached = d.cached === true;
  const more = text.split('\n').map((x, i): BuildLine => ({ at: log.total + i, kind: m.event, text: x.replace(/\r$/, ''), step, t, cached })), all = [...log.lines, ...more], total = log.total + more.length;
  // The oldest lines go first; what steps there were stays known.
  let over = all.length - KEPT_LINES;
  const lines = over > 0 ? all.filter(l => l.kind === 'step' || over-- <= 0) : all;
  return { ...log, steps: Math.max(log.steps, told(d.steps)), lines, total, dropped: total - lines.length };
}

export interface BuildStep { n: number; text: string; state: 'done' | 'running' | 'failed'; cached: boolean; took: number | null; lines: { kind: string; text: string }[]; error: number }
/** Steps as rows, each with how long it took and what it printed; `error`: which of its lines tells first that it failed. What was said before the first is step 0. */
export function buildSteps(log: BuildLog, ended_ms: number, now: number): BuildStep[] {
  const rows: (BuildStep & { from: number })[] = [];
  for (const l of log.lines) {
    let row = rows.at(-1);
    if (l.kind === 'step') { rows.push({ n: l.step, text: l.text, state: 'done', cached: l.cached, took: null, lines: [], error: -1, from: l.t }); continue; }
    if (!row) { row = { n: 0, text: '', state: 'done', cached: false, took: null, lines: [], error: -1, from: l.t }; rows.push(row); }
    row.lines.push({ kind: l.kind, text: l.text });
  }
  const over = log.end ? ended_ms || log.end.t : 0;
  rows.forEach((r, i) => { const next = rows[i + 1]?.from ?? (over || (r.cached ? r.from : 0)); r.took = next ? Math.max(0, next - r.from) : Math.max(0, now - r.from); });
  const last = rows.at(-1);
  if (last && !log.end) last.state = 'running';
  if (last && log.end && ['failed', 'lost', 'canceled'].includes(log.end.state)) { last.state = 'failed'; last.error = firstError(last.lines); }
  return rows;
}
const trouble = /\b(error|fatal|failed|cannot|can't|denied|refused|not found|no such file|unable|traceback|panic)\b|^E:/i;
function firstError(lines: { kind: string; text: string }[]): number {
  const at = lines.findIndex(l => (l.kind === 'err' || l.kind === 'out') && trouble.test(l.text));
  return at >= 0 ? at : lines.findIndex(l => l.kind === 'fail');
}

/** What most often helps, by what was printed; the first that fits. */
const remedies: [RegExp, string, string][] = [
  [/could not resolve|temporary failure (in name resolution|resolving)|name or service not known|getaddrinfo|no rule names|refused by policy|network is unreachable/i, 'A step reaches debian, pypi and npm unless it is told otherwise. Name the host that it needs.', 'cay template build --net debian,pypi,npm,HOST -t NAME .'],
  [/no space left/i, 'Its disk was full. Give the steps more.', 'cay template build --disk 20g -t NAME .'],
  [/out of memory|cannot allocate memory|\bkilled\b|signal 9/i, 'Its memory ran out. Give the steps more.', 'cay template build --memory 4g -t NAME .'],
  [/timed? ?out|longer than it may|deadline/i, 'It took longer than a step may. Give it more time.', 'cay template build --step-timeout 2h -t NAME .'],
  [/command not found|: not found/i, 'A program is missing. Install it in an earlier step.', 'cay template build --keep-failed -t NAME .'],
  [/permission denied|operation not permitted/i, 'It may not do that as this user. USER root in the file changes who runs a step.', 'cay template build --keep-failed -t NAME .'],
  [/no such file|cannot stat|not in the context/i, 'A file is not where the step looks for it. COPY paths begin at the directory that is built.', 'cay template build --keep-failed -t NAME .'],
];
export function buildRemedy(step: { lines: { text: string }[] } | undefined, error: string): { text: string; cmd: string } {
  const said = [...(step?.lines ?? []).slice(-200).map(l => l.text), error].join('\n'), fit = remedies.find(([re]) => re.test(said));
  return fit ? { text: fit[1], cmd: fit[2] } : { text: 'Keep the sandbox of the step that failed and look around in it.', cmd: 'cay template build --keep-failed -t NAME .' };
}
