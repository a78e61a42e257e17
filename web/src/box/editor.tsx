// SPDX-License-Identifier: Apache-2.0
// One file at a time: its text, its picture, or what changed in it since a snapshot. A file that somebody changed meanwhile is never overwritten silently.
import { useEffect, useRef, useState } from 'preact/hooks';
import { all, ask, Failed, filePath, leave, of, readFile, save, writeFile, type Box, type Change, type Snapshot } from '../api';
import { bytes, safe, word } from '../lib/format';
import { route, setQuery } from '../lib/router';
import { boxes, snaps } from '../live';
import { counts, family, latest } from '../state';
import { Blank, Btn, Icon, Loading, question, Seg, toast, Trouble, useAsk } from '../ui';
import { DiffView } from './diff';
import { changed, keptOnly } from './files';
import { forget, keyOf, opened, show, unsaved } from './open';
import { make, nonce, type Made } from '../cm';

const pictures: Record<string, string> = { png: 'image/png', jpg: 'image/jpeg', jpeg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp', svg: 'image/svg+xml', ico: 'image/x-icon' };
const kind = (path: string) => pictures[path.split('.').pop()!.toLowerCase()];

// ------------------------------------------------------------------ which are open, and what is not saved yet

function close(b: Box, path: string) {
  const l = opened.peek().get(b.id) ?? [], i = l.indexOf(path), rest = l.filter(p => p !== path), go = () => { forget(b, path); opened.value = new Map(opened.peek()).set(b.id, rest); setQuery({ file: rest[Math.min(Math.max(0, i), rest.length - 1)] ?? null, view: null }); };
  if (unsaved.peek().has(keyOf(b, path))) question.value = { title: 'Close without saving?', danger: true, yes: `Drop the changes of ${safe(path.split('/').pop(), 40)}`, text: <p class="soft">What was typed here and not saved would be lost.</p>, act: go };
  else go();
}
addEventListener('beforeunload', e => { if (unsaved.peek().size) e.preventDefault(); });

export default function Editor({ b }: { b: Box }) {
  const path = route.value.query.get('file') ?? '', diff = route.value.query.get('view') === 'diff';
  useEffect(() => show(b, path), [b.id, path]);
  if (!path) return <div class="edit"><Blank title="No file is open" text={keptOnly(b) ? 'Choose one at the left: it is shown as it was left.' : 'Choose one at the left, or drop some there to upload them.'} cmd={keptOnly(b) ? undefined : `cay cp FILE ${b.name ? word(b.name) : b.id}:`} /></div>;
  return diff ? <Diff b={b} path={path} /> : kind(path) ? <Picture b={b} path={path} /> : <Text key={b.id + path + keptOnly(b)} b={b} path={path} />;
}

function Bar({ b, path, children, view }: { b: Box; path: string; children?: any; view: 'edit' | 'diff' }) {
  const all = opened.value.get(b.id) ?? [], list = all.includes(path) ? all : [...all, path];
  return <div class="bar t"><div class="ftabs" role="group" aria-label="Open files">{list.map(p => <button type="button" key={p} class={`ftab ${p === path ? 'on' : ''}`} aria-current={p === path ? 'true' : undefined} title={safe(p)} onClick={() => { if (p !== path) setQuery({ file: p, view: null }); }}><span class="cut">{safe(p.split('/').pop(), 60)}</span>{unsaved.value.has(keyOf(b, p)) && <i title="not saved" />}</button>)}</div><span class="right" />{children}<Seg small label="Text or changes" value={view} options={[['edit', 'Edit'], ['diff', 'Diff']]} onPick={v => setQuery({ view: v === 'diff' ? 'diff' : null })} /><Btn kind="quiet icon small" icon="x" label="Close the file" onClick={() => close(b, path)} /></div>;
}

function Text({ b, path }: { b: Box; path: string }) {
  const host = useRef<HTMLDivElement>(null), made = useRef<Made | null>(null), [state, set] = useState<{ text: string; etag: string } | { error: unknown } | { raw: number; whole: boolean } | null>(null), [theirs, conflict] = useState(false), [failed, fail] = useState<unknown>(null);
  const kept = useRef({ etag: '', text: '', dirty: false, saving: false }), left = keptOnly(b), key = keyOf(b, path), dirty = unsaved.value.has(key);
  const note = (text: string) => { const d = text !== kept.current.text; kept.current.dirty = d; if (d) unsaved.value = new Map(unsaved.peek()).set(key, { text, etag: kept.current.etag, base: kept.current.text }); else forget(b, path); };
  const load = async (drop = false) => {
    try {
      const f = await readFile(b.id, path, undefined, left);
      let text: string;
      try { if (!f.whole || f.data.includes(0)) throw 0; text = new TextDecoder('utf-8', { fatal: true }).decode(f.data); } catch { set({ raw: f.data.length, whole: f.whole }); return; }
      // What was typed before and not saved is still there, on what it was typed on.
      const draft = drop || left ? undefined : unsaved.peek().get(key);
      if (!draft) forget(b, path);
      kept.current = { ...kept.current, etag: draft?.etag ?? f.etag, text: draft?.base ?? text, dirty: !!draft };
      if (made.current) made.current.set(draft?.text ?? text);
      set({ text: draft?.text ?? text, etag: f.etag });
      conflict(!!draft && draft.etag !== f.etag && draft.base !== text);
      fail(null);
    } catch (error) { set({ error }); }
  };
  useEffect(() => { void load(); }, [path]);
  const there = !!state && 'text' in state;
  useEffect(() => {
    if (!there || !host.current) return undefined;
    made.current = make({ parent: host.current, text: (state as { text: string }).text, path, nonce: nonce(), readOnly: left, label: `Text of ${safe(path, 100)}`, onSave: () => void store(false), onChange: note });
    return () => { made.current?.view.destroy(); made.current = null; };
  }, [there]);
  const isOther = async () => { const a = await ask('GET', of(b.id, '/files'), { query: { path }, headers: { 'If-None-Match': kept.current.etag, Range: 'bytes=0-0' } }).catch((e: unknown) => { if (e instanceof Failed && (e.status === 304 || e.status === 416)) return null; throw e; }); if (a) await leave(a); return !!a && a.headers.get('etag') !== kept.current.etag; };
  // Somebody wrote to it: take it when nothing is lost by that, else say so.
  const n = changed.value.get(path) ?? 0;
  useEffect(() => { if (n && there && !kept.current.saving) void isOther().then(o => { if (o) { if (kept.current.dirty) conflict(true); else void load(); } }, () => undefined); }, [n]);
  const store = async (force: boolean) => {
    if (!made.current) return;
    kept.current.saving = true;
    try {
      if (!force && await isOther()) { conflict(true); return; }
      const text = made.current.text();
      await writeFile(b.id, path, text);
      const a = await readFile(b.id, path);
      kept.current = { etag: a.etag, text, dirty: false, saving: false };
      note(made.current?.text() ?? text); // something may have been typed meanwhile
      conflict(false);
      fail(null);
      toast(`${path.split('/').pop()} saved.`);
    } catch (e) { fail(e); } finally { kept.current.saving = false; }
  };
  return (
    <div class="edit"><Bar b={b} path={path} view="edit">{left ? <span class="dim nowrap">as it was left</span> : <Btn kind={`small ${dirty ? 'prime' : ''}`} onClick={() => store(false)} title="Ctrl S">Save</Btn>}</Bar>
      {theirs && <div class="conflict" role="alert"><Icon name="bang" class="warn" /><span class="grow">It was changed inside meanwhile.</span><Btn kind="small" onClick={() => load(true)}>Take theirs</Btn><Btn kind="small" onClick={() => store(true)}>Keep mine</Btn></div>}
      {failed ? <Trouble error={failed} what="It was not saved." again={() => store(false)} /> : null}
      {!state ? <Loading /> : 'error' in state ? <Trouble error={state.error} what="It cannot be read." again={() => void load()} /> : 'raw' in state ? <Blank title="This is no text" text={`${state.whole ? bytes(state.raw) : 'More than 4 MiB'}; it can be downloaded.`}><Btn icon="down" onClick={() => save(path.split('/').pop()!, filePath(b.id, path, left))}>Download</Btn></Blank> : <div class="cm-host" ref={host} />}</div>
  );
}

function Picture({ b, path }: { b: Box; path: string }) {
  const p = useAsk(async () => { const f = await readFile(b.id, path, 32 << 20, keptOnly(b)); return { url: URL.createObjectURL(new Blob([f.data as BlobPart], { type: kind(path) })), size: f.data.length }; }, [path, changed.value.get(path) ?? 0]);
  useEffect(() => () => { if (p.data) URL.revokeObjectURL(p.data.url); }, [p.data?.url]);
  return <div class="edit"><Bar b={b} path={path} view="edit">{p.data && <span class="dim">{bytes(p.data.size)}</span>}</Bar>{p.error ? <Trouble error={p.error} what="It cannot be shown." again={p.again} /> : p.data ? <div class="picture"><img src={p.data.url} alt={safe(path.split('/').pop(), 80)} /></div> : <Loading />}</div>;
}

function Diff({ b, path }: { b: Box; path: string }) {
  const root = family(b.id, boxes.value, snaps.value), mine = [...snaps.value.values()].filter(s => s.sandbox === b.id || s.id === b.from || family(s.sandbox, boxes.value, snaps.value) === root).sort((x, y) => y.created_ms - x.created_ms), since = route.value.query.get('since') ?? latest(b, snaps.value)?.id ?? '', rel = path.slice(b.workdir.length + 1);
  const d = useAsk(() => all<Change>('/diff', { a: since || b.id, b: since ? b.id : undefined, patch: true }).then(c => c.find(x => x.path === rel)), [b.id, path, since, changed.value.get(path) ?? 0]);
  const [plus, minus] = d.data?.patch ? counts(d.data.patch) : [0, 0], label = (s: Snapshot) => `${s.label || s.id.slice(0, 8)}${s.sandbox === b.id ? '' : ` of ${boxes.value.get(s.sandbox)?.name || s.sandbox.slice(0, 8)}`}`;
  return (
    <div class="edit"><Bar b={b} path={path} view="diff"><span class="dim nowrap wide">{plus > 0 && <span class="ok">+{plus}</span>} {minus > 0 && <span class="bad">−{minus}</span>}</span><select class="in small" aria-label="Since which snapshot" value={since} onChange={e => setQuery({ since: e.currentTarget.value || null })}><option value="">since it was made</option>{mine.map(s => <option key={s.id} value={s.id}>since {safe(label(s), 40)}</option>)}</select></Bar>
      {d.error ? <Trouble error={d.error} what="It cannot be compared." again={d.again} /> : !('data' in d) ? <Loading /> : d.data?.patch ? <DiffView path={path} patch={d.data.patch} /> : <Blank title={d.data ? 'Changed, but not as text' : 'Nothing changed'} text={d.data ? 'The new content is not text, or too long to be shown.' : 'It is as it was then.'} />}</div>
  );
}
