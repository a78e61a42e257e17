// SPDX-License-Identifier: Apache-2.0
// Templates in the making: what was built, and what a build says, as it says it.
import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { all, Failed, post, stream, type Build } from '../api';
import { plural, safe, span } from '../lib/format';
import { route, setQuery } from '../lib/router';
import { now } from '../live';
import { buildLog, buildRemedy, buildSteps, type BuildLog, type BuildStep } from '../lib/build';
import { backoff } from '../state';
import { attempt, Blank, Btn, Cmd, Icon, Loading, Said, Sheet, toast, Trouble, useAsk, When } from '../ui';

const tone: Record<string, string> = { failed: 'bad', lost: 'bad', building: 'sandc', ready: 'ok' };
const works = (b: Build) => b.state === 'waiting' || b.state === 'building';

export function Builds({ onReady }: { onReady: () => void }) {
  const id = route.value.query.get('build') ?? '', l = useAsk(() => all<Build>('/builds'), [Math.floor(now.value / 4000)]), one = l.data?.find(b => b.id === id);
  const cancel = (b: Build) => attempt('It was not canceled', async () => { await post(`/builds/${b.id}/cancel`); l.again(); toast('The build is canceled.'); });
  return <>
    <Sheet title="Builds" note={l.data?.length || ''} class="gap">
      {l.error && !l.data ? <Trouble error={l.error} what="They cannot be listed." again={l.again} /> : !l.data ? <Loading rows={2} /> : l.data.length ? <ul class="plainlist">{l.data.slice(0, 50).map(b => <li key={b.id}><span class={`chip ${tone[b.state] ?? ''}`}>{safe(b.state, 20)}</span><button type="button" class="plain grow cut" aria-expanded={b.id === id} onClick={() => setQuery({ build: b.id === id ? null : b.id })}><Said text={b.names || b.id.slice(0, 8)} most={60} /></button><span class="dim wide">{b.steps ? `step ${b.step} of ${b.steps}${b.cached ? `, ${b.cached} cached` : ''}` : ''}</span><span class="dim nowrap">{b.ended_ms ? <>{span(b.ended_ms - b.started_ms)}, <When t={b.ended_ms} /></> : b.started_ms ? <When t={b.started_ms} /> : ''}</span>{works(b) && <Btn kind="quiet small" onClick={() => cancel(b)}>Cancel</Btn>}</li>)}</ul> : <Blank title="Nothing was built" text="A Dockerfile or a template file becomes a template, step by step, in sandboxes." cmd="cay template build -t NAME ." />}
    </Sheet>
    {id && <Sheet title={one?.names ? <Said text={one.names} most={60} /> : 'Build'} note={one ? <>{one.state === 'ready' ? 'built' : safe(one.state, 20)}{one.ended_ms > 0 && one.started_ms > 0 ? ` ${one.state === 'ready' ? 'in' : 'after'} ${span(one.ended_ms - one.started_ms)}` : ''}</> : undefined} class="gap" actions={<Btn kind="quiet icon small" icon="x" label="Close the log" onClick={() => setQuery({ build: null })} />}><Log key={id} id={id} build={one} onEnd={() => { l.again(); onReady(); }} /></Sheet>}
  </>;
}

/** Follows the stream to its end; after a break it goes on where it was. */
function Log({ id, build, onEnd }: { id: string; build?: Build; onEnd: () => void }) {
  const [log, set] = useState<BuildLog>(buildLog()), [error, fail] = useState<unknown>(null);
  useEffect(() => {
    const stop = new AbortController();
    let at = buildLog(), timer: ReturnType<typeof setTimeout> | undefined, tries = 0, due = 0;
    const show = () => { due = 0; set(at); };
    const follow = async () => {
      at = buildLog(at); // what came after the last mark comes again
      try {
        await stream(`/builds/${encodeURIComponent(id)}/log`, { after: at.after || undefined }, stop.signal, m => { at = buildLog(at, m); due ||= requestAnimationFrame(show); }, () => { tries = 0; fail(null); });
      } catch (e) {
        if (stop.signal.aborted) return;
        if (e instanceof Failed && e.status) { fail(e); return; }
      }
      if (stop.signal.aborted) return;
      if (at.end) onEnd();
      else timer = setTimeout(follow, backoff(tries++));
    };
    void follow();
    return () => { stop.abort(); clearTimeout(timer); cancelAnimationFrame(due); };
  }, [id]);
  if (error) return <Trouble error={error} what="Its log cannot be read." />;
  const steps = buildSteps(log, build?.ended_ms ?? 0, now.value), bad = steps.find(x => x.state === 'failed'), left = log.steps - Math.max(0, ...steps.map(x => x.n)), help = bad && log.end?.state === 'failed' ? buildRemedy(bad, log.end.error) : null, name = build?.names?.split(' ')[0] || 'NAME';
  return <>
    {log.dropped > 0 && <p class="pad dim">{plural(log.dropped, 'line')} of the beginning are no longer shown.</p>}
    <ol class="steps" aria-label="Steps of the build">{steps.map((x, i) => <Step key={`${i}.${x.n}`} x={x} of={log.steps} last={i === steps.length - 1}>
      {x === bad && log.end && <>{log.end.error && !x.lines.some(l => l.text.includes(log.end!.error)) && <p class="said bad"><Icon name="x" class="bad" /><span><Said text={log.end.error} most={600} /></span></p>}{help && <div class="said help"><Icon name="bang" class="warn" /><div class="grow">{help.text}<Cmd text={help.cmd.replace('NAME', name)} /></div></div>}</>}</Step>)}
      {left > 0 && log.end && <li class="left dim"><Icon name="more" />{plural(left, 'step was', 'steps were')} not reached</li>}</ol>
    {!steps.length && !log.end && <p class="pad dim">It has said nothing yet.</p>}
    {log.end && !bad && <p class="pad" role="status"><span class={`chip ${tone[log.end.state] ?? ''}`}>{safe(log.end.state, 20)}</span> {!bad && log.end.error && <Said text={log.end.error} most={400} />}</p>}
  </>;
}

/** One row; the one that works and the one that failed are open, the latter at the line that says first what was wrong. */
function Step({ x, of, last, children }: { x: BuildStep; of: number; last: boolean; children?: ComponentChildren }) {
  const wants = x.state !== 'done' || (last && !x.cached && x.lines.length > 0), [open, set] = useState(wants), touched = useRef(false), box = useRef<HTMLPreElement>(null), stays = useRef(true);
  useEffect(() => { if (!touched.current) set(wants); }, [wants]);
  useEffect(() => { const e = box.current; if (e && open && stays.current && x.state === 'running') e.scrollTop = e.scrollHeight; });
  useEffect(() => { if (open && x.error >= 0) { const e = box.current, l = e?.children[x.error] as HTMLElement | undefined; if (e && l) e.scrollTop = Math.max(0, l.offsetTop - e.offsetTop - 36); } }, [open, x.error, x.lines.length]);
  const icon = x.state === 'failed' ? <Icon name="x" class="bad" /> : x.state === 'running' ? <span class="mark starting" /> : <Icon name="ok" class="ok" />;
  return (
    <li class={x.state}><details open={open} onToggle={e => set(e.currentTarget.open)}><summary onClick={() => { touched.current = true; }}>{icon}{x.n > 0 && <span class="dim nowrap num">{x.n}{of ? ` of ${of}` : ''}</span>}<code class="grow cut" title={safe(x.text, 2000)}>{x.n || x.text ? safe(x.text, 300) : 'before the first step'}</code>{x.cached && <span class="chip">cached</span>}{x.state === 'failed' && <span class="chip bad">failed</span>}<span class="mono dim nowrap">{x.took !== null && !x.cached ? span(x.took) : ''}</span></summary>
      {x.lines.length > 0 ? <pre ref={box} class="console buildlog" tabIndex={0} role="log" aria-label={`What ${x.n ? `step ${x.n}` : 'it'} said`} onScroll={e => { const t = e.currentTarget; stays.current = t.scrollHeight - t.scrollTop - t.clientHeight < 40; }}>{x.lines.map((l, i) => <span key={i} class={i === x.error ? 'bad errline' : l.kind === 'fail' ? 'bad' : l.kind === 'warn' ? 'warn' : l.kind === 'note' ? 'dim' : ''}>{safe(l.text, 4000)}{'\n'}</span>)}</pre> : <p class="pad dim">{x.cached ? 'It was there already: nothing was run.' : 'It printed nothing.'}</p>}{children}</details></li>
  );
}
