// SPDX-License-Identifier: Apache-2.0
// Who listens inside, and what they show: always on an origin of its own, never on ours.
import { useEffect, useState } from 'preact/hooks';
import { del, get, of, post, type Box, type Exposed, type List, type Port, type Process } from '../api';
import { listener } from './glance';
import { safe, span, word } from '../lib/format';
import { route, setQuery } from '../lib/router';
import { now } from '../live';
import { attempt, Blank, Btn, Cmd, Copy, Loading, Said, toast, Trouble, useAsk } from '../ui';

interface Shown { port: number; token: string; url: string; expires_ms: number }
/** Tokens that this page made, told once: they are in no storage. */
const made = new Map<string, Shown>();

export default function Ports({ b, procs }: { b: Box; procs: Process[] }) {
  const l = useAsk(async () => { const [ports, exposed] = await Promise.all([get<List<Port>>(of(b.id, '/ports')), get<List<Exposed>>(of(b.id, '/exposed'))]); return { ports: ports.items, exposed: exposed.items }; }, [b.id, Math.floor(now.value / 4000)]);
  const port = Number(route.value.query.get('port')) || 0, [shown, show] = useState<Shown | null>(made.get(b.id + port) ?? null), [error, fail] = useState<unknown>(null), [n, reload] = useState(0);
  useEffect(() => { show(made.get(b.id + port) ?? null); fail(null); }, [port]);
  const [ttl, setTtl] = useState(3600000);
  const open = async (p: number) => {
    setQuery({ port: String(p) });
    try { const x = await post<Shown>(of(b.id, `/ports/${p}/expose`), { ttl_ms: ttl }); made.set(b.id + p, x); show(x); fail(null); l.again(); } catch (e) { fail(e); }
  };
  const end = (p: number) => attempt('It is still open', async () => { await del(of(b.id, `/ports/${p}/expose`)); made.delete(b.id + p); show(null); l.again(); toast(`Port ${p} is private again.`); });
  const all = [...new Set([...(l.data?.ports ?? []).map(p => p.port), ...(l.data?.exposed ?? []).map(p => p.port)])].sort((x, y) => x - y), link = shown ? `${shown.url}${shown.url.includes('?') ? '&' : '?'}cay_token=${shown.token}` : '';
  const host = shown ? new URL(shown.url) : null, here = host ? `${location.protocol}//${host.hostname}${location.port ? ':' + location.port : ''}${host.pathname}` : '';
  return (
    <div class="split ports"><div class="preview">{error ? <Trouble error={error} what="It could not be opened." again={() => port && open(port)} /> : null}
      {shown && shown.port === port ? <><div class="url"><Btn kind="quiet icon small" icon="undo" label="Load again" onClick={() => reload(n + 1)} /><input class="in" readOnly value={here} aria-label="Address of the preview" /><Copy text={link} label="Copy the link with its token" /><a class="btn quiet icon small" href={link} target="_blank" rel="noopener noreferrer" aria-label="Open in a tab of its own" title="Open in a tab of its own"><svg class="ic" viewBox="0 0 16 16" aria-hidden="true"><path d="M9 3h4v4M13 3 7.500 8.500M11.500 9.500v3.500H3V4.500h3.500" /></svg></a></div><iframe key={`${port}.${n}`} class="shown-frame" title={`Preview of port ${port}`} src={`${here}?cay_token=${shown.token}`} sandbox="allow-scripts allow-forms allow-same-origin allow-popups allow-modals" referrerpolicy="no-referrer" /></> : port ? <Blank title={`Port ${port}`} text="A preview opens to whoever has its link, until the link expires. It is on an address of its own and cannot reach this console."><Expiry ttl={ttl} set={setTtl} /><Btn kind="prime" onClick={() => open(port)}>Show it here</Btn></Blank> : <Blank title={all.length ? 'Choose a port' : 'Nobody listens'} text={all.length ? 'What a program serves inside is shown here.' : 'Start a server in the terminal and it appears here.'} cmd={all.length ? undefined : `cay exec -d ${b.name ? word(b.name) : b.id} -- python3 -m http.server 8000`} />}</div>
      <div class="side" tabIndex={0} role="region" aria-label="Ports"><section><h2>Ports</h2>{l.error && !l.data ? <Trouble error={l.error} what="They cannot be listed." again={l.again} /> : !l.data ? <Loading rows={3} /> : all.length ? <ul class="portlist">{all.map(p => { const who = l.data!.ports.find(x => x.port === p), open_ = l.data!.exposed.find(x => x.port === p); return <li key={p} class={p === port ? 'sel' : ''}><button type="button" class="plain mono" onClick={() => (made.has(b.id + p) ? setQuery({ port: String(p) }) : open(p))}>{p}</button><span class="grow dim cut">{who ? <Said text={`${listener(who, procs) || (who.pid ? `pid ${who.pid}` : 'somebody')} on ${who.address}`} /> : 'nobody listens'}{open_ && <>, link for {span(open_.expires_ms - now.value)}</>}</span>{open_ && <Btn kind="quiet small" onClick={() => end(p)}>Close</Btn>}</li>; })}</ul> : <p class="dim">Nobody listens inside.</p>}</section>
        {shown && <section><h2>The link</h2><p class="soft">Whoever has it sees port {shown.port} for {span(shown.expires_ms - now.value)}.</p><div class="cmd link gapped"><code tabIndex={0} role="textbox" aria-readonly="true" aria-label="Link">{safe(link, 400)}</code><Copy text={link} label="Copy the link" /></div><div class="btnrow"><Expiry ttl={ttl} set={setTtl} /><Btn onClick={() => open(shown.port)}>New link</Btn></div></section>}
        <section><h2>By hand</h2><Cmd text={`cay port expose ${b.name ? word(b.name) : b.id} ${port || 8000}`} /><Cmd text={`cay port forward ${b.name ? word(b.name) : b.id} ${port || 8000}`} /></section></div></div>
  );
}

const Expiry = ({ ttl, set }: { ttl: number; set: (ms: number) => void }) => <select class="in" aria-label="How long the link is good" value={ttl} onChange={e => set(Number(e.currentTarget.value))}>{[600000, 3600000, 28800000, 86400000, 604800000].map(ms => <option key={ms} value={ms}>for {span(ms)}</option>)}</select>;
