// SPDX-License-Identifier: Apache-2.0
import { get, post, type Job, type List } from '../api';
import { exact, plural, safe, span } from '../lib/format';
import { href, route, setQuery } from '../lib/router';
import { boxes, now, reloadJobs } from '../live';
import { title } from '../state';
import { attempt, Blank, Btn, Cmd, Loading, Said, Seg, Trouble, toast, useAsk } from '../ui';

const tone: Record<string, string> = { dead: 'bad', running: 'sandc', waiting: '', done: 'ok', canceled: '' };
export default function Jobs() {
  const state = route.value.query.get('state') ?? '', l = useAsk(() => get<List<Job>>('/jobs', { state: state || undefined, limit: 500 }).then(x => x.items), [state, Math.floor(now.value / 5000)]);
  const act = (j: Job, what: 'replay' | 'cancel') => attempt(`The job was not ${what === 'replay' ? 'tried again' : 'canceled'}`, async () => { await post(`/jobs/${j.id}/${what}`); l.again(); await reloadJobs().catch(() => undefined); toast(what === 'replay' ? 'It is tried again.' : 'It is canceled.'); });
  const count = (x: string) => (l.data ?? []).filter(j => j.state === x).length, told = state || !l.data?.length ? '' : ([['running', 'run', 'runs'], ['waiting', 'wait', 'waits'], ['dead', 'gave up', 'gave up']] as const).map(([x, many, one]) => { const n = count(x); return n ? `${n} ${n === 1 ? one : many}` : ''; }).filter(Boolean).join(', '), rank = (j: Job) => ['dead', 'running', 'waiting'].indexOf(j.state) + 1 || 9;
  return (
    <div class="page"><div class="head"><div><h1>Jobs</h1><p>{told ? `${told}. ` : ''}What the server does later by itself: pauses, removals, cleaning. A job that gave up stays here until somebody replays it.</p></div></div>
      <div class="filters"><Seg label="State" value={state} options={[['', 'All'], ['waiting', 'Waiting'], ['running', 'Running'], ['dead', 'Dead'], ['done', 'Done']]} onPick={v => setQuery({ state: v || null })} /></div>
      {l.error && !l.data ? <Trouble error={l.error} what="They cannot be listed." again={l.again} /> : !l.data ? <Loading /> : l.data.length ? <div class="sheet scroll" tabIndex={0} role="region" aria-label="Jobs"><table class="plain stack"><thead><tr><th>Kind</th><th>Of</th><th>State</th><th class="num">Due</th><th class="num">Tries</th><th>Error</th><th aria-label="Actions" /></tr></thead><tbody>{[...l.data].sort((x, y) => rank(x) - rank(y)).map(j => { const b = boxes.value.get(j.subject); return <tr key={j.id}><td class="mono">{safe(j.kind, 40)}</td><td class="cut">{b ? <a href={href(['sandbox', b.id])}>{safe(title(b), 40)}</a> : j.kind === 'build' && j.subject ? <a class="mono" href={href(['templates'], { build: j.subject })}>{safe(j.subject, 24)}</a> : <Said mono text={j.subject || '–'} most={24} />}</td><td><span class={`chip ${tone[j.state] ?? ''}`}>{j.state}</span></td><td class="num" data-k="due" title={exact(j.due_ms)}>{j.due_ms > now.value ? `in ${span(j.due_ms - now.value)}` : `${span(now.value - j.due_ms)} ago`}</td><td class="num" data-k="tries">{j.attempts} of {j.most}</td><td class="cut soft err"><Said text={j.error ?? ''} most={120} /></td><td class="num act">{j.state === 'dead' && <Btn kind="small" onClick={() => act(j, 'replay')}>Replay</Btn>}{(j.state === 'waiting' || j.state === 'running') && <Btn kind="quiet small" onClick={() => act(j, 'cancel')}>Cancel</Btn>}</td></tr>; })}</tbody></table></div> : <section class="sheet"><Blank title={state ? `No job is ${state}` : 'No job waits'} text="Timeouts and cleaning appear here when they are due." cmd="cay jobs ls" /></section>}
      {l.data && l.data.length > 0 && <p class="dim under">{plural(l.data.length, 'job')}</p>}<Cmd text="cay jobs replay JOB" /></div>
  );
}
