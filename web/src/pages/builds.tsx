// SPDX-License-Identifier: Apache-2.0
// Templates in the making: what was built, and what a build says, as it says it.
import { useEffect, useRef, useState } from 'preact/hooks';
import { all, Failed, post, stream, type Build } from '../api';
import { plural, safe, span } from '../lib/format';
import { route, setQuery } from '../lib/router';
import { now } from '../live';
import { backoff, buildLog, type BuildLog } from '../state';
import { attempt, Blank, Btn, Loading, Said, Sheet, toast, Trouble, useAsk, When } from '../ui';

const tone: Record<string, string> = { failed: 'bad', lost: 'bad', building: 'sandc', ready: 'ok' };
const works = (b: Build) => b.state === 'waiting' || b.state === 'building';

export function Builds({ onReady }: { onReady: () => void }) {
  const id = route.value.query.get('build') ?? '', l = useAsk(() => all<Build>('/builds'), [Math.floor(now.value / 4000)]), one = l.data?.find(b => b.id === id);
  const cancel = (b: Build) => attempt('It was not canceled', async () => { await post(`/builds/${b.id}/cancel`); l.again(); toast('The build is canceled.'); });
  return <>
    <Sheet title="Builds" note={l.data?.length || ''} class="gap">
      {l.error && !l.data ? <Trouble error={l.error} what="They cannot be listed." again={l.again} /> : !l.data ? <Loading rows={2} /> : l.data.length ? <ul class="plainlist">{l.data.slice(0, 50).map(b => <li key={b.id}><span class={`chip ${tone[b.state] ?? ''}`}>{safe(b.state, 20)}</span><button type="button" class="plain grow cut" aria-expanded={b.id === id} onClick={() => setQuery({ build: b.id === id ? null : b.id })}><Said text={b.names || b.id.slice(0, 8)} most={60} /></button><span class="dim wide">{b.steps ? `step ${b.step} of ${b.steps}${b.cached ? `, ${plural(b.cached, 'was', 'were')} there` : ''}` : ''}</span><span class="dim nowrap">{b.ended_ms ? <>{span(b.ended_ms - b.started_ms)}, <When t={b.ended_ms} /></> : b.started_ms ? <When t={b.started_ms} /> : ''}</span>{works(b) && <Btn kind="quiet small" onClick={() => cancel(b)}>Cancel</Btn>}</li>)}</ul> : <Blank title="Nothing was built" text="A Dockerfile or a template file becomes a template, step by step, in sandboxes." cmd="cay template build -t NAME ." />}
    </Sheet>
    {id && <Sheet title={<>What {one?.names ? <Said text={one.names} most={60} /> : 'it'} said</>} class="gap" actions={<Btn kind="quiet icon small" icon="x" label="Close the log" onClick={() => setQuery({ build: null })} />}><Log key={id} id={id} onEnd={() => { l.again(); onReady(); }} /></Sheet>}
  </>;
}

/** Follows the stream to its end; after a break it goes on where it was. */
function Log({ id, onEnd }: { id: string; onEnd: () => void }) {
  const [log, set] = useState<BuildLog>(buildLog()), [error, fail] = useState<unknown>(null), box = useRef<HTMLPreElement>(null), stays = useRef(true);
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
  useEffect(() => { const e = box.current; if (e && stays.current) e.scrollTop = e.scrollHeight; });
  if (error) return <Trouble error={error} what="Its log cannot be read." />;
  return <>
    <pre ref={box} class="console buildlog" tabIndex={0} role="log" aria-label="Log of the build" onScroll={e => { const t = e.currentTarget; stays.current = t.scrollHeight - t.scrollTop - t.clientHeight < 40; }}>{log.dropped > 0 && <span class="dim">{plural(log.dropped, 'line')} before this{'\n'}</span>}{log.lines.map((x, i) => <span key={log.dropped + i} class={x.kind === 'step' ? 'sandc' : x.kind === 'fail' ? 'bad' : x.kind === 'warn' ? 'warn' : ''}>{safe(x.text, 4000)}{'\n'}</span>)}</pre>
    {log.end && <p class="pad" role="status"><span class={`chip ${tone[log.end.state] ?? ''}`}>{safe(log.end.state, 20)}</span> {log.end.error && <Said text={log.end.error} most={400} />}</p>}
  </>;
}
