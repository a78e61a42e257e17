// SPDX-License-Identifier: Apache-2.0
// The tree of files. Directories are asked for when they are opened and again when something in them changes; only rows in sight are in the page.
import { signal } from '@preact/signals';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { address, all, del, Failed, filePath, get, of, post, save, stream, writeFile, type Box, type Change, type File, type List } from '../api';
import { bytes, safe } from '../lib/format';
import { dropped, type Dropped } from '../lib/drop';
import { route, setQuery } from '../lib/router';
import { lost } from '../api';
import { start } from '../actions';
import { boxes, snaps } from '../live';
import { oneByOne, order } from '../lib/order';
import { latest } from '../state';
import { moved } from './open';
import { attempt, Btn, Icon, Menu, question, toast, Trouble } from '../ui';

export interface Entry { path: string; name: string; type: string; size: number; depth: number; open: boolean; mark: string }
const OVER = 20, KEPT = 2000, rowHeight = () => (matchMedia('(max-width: 720px)').matches ? 44 : 26);
/** Of one that is stopped what it left is read, and nothing is written. */
export const keptOnly = (b: { state: string }) => b.state === 'stopped' || b.state === 'damaged';
/** A number that grows when a file below a sandbox's working directory changed, by path. */
export const changed = signal<ReadonlyMap<string, number>>(new Map());
export const join = (dir: string, name: string) => (dir.endsWith('/') ? dir + name : `${dir}/${name}`);

export function flatten(dirs: ReadonlyMap<string, File[]>, open: ReadonlySet<string>, root: string, marks: ReadonlyMap<string, string>): Entry[] {
  const out: Entry[] = [], above = new Set<string>(), gone = new Map<string, string[]>(); // what is no more, by its directory
  for (const [m, kind] of marks) if (kind === 'D') { const at = m.lastIndexOf('/'), dir = at < 0 ? root : join(root, m.slice(0, at)); (gone.get(dir) ?? gone.set(dir, []).get(dir)!).push(m.slice(at + 1)); }
  for (const m of marks.keys()) for (let at = m.lastIndexOf('/'); at > 0; at = m.lastIndexOf('/', at - 1)) { const d = m.slice(0, at); if (above.has(d)) break; above.add(d); }
  const walk = (dir: string, depth: number) => {
    for (const f of dirs.get(dir) ?? []) {
      const path = join(dir, f.path), rel = path.slice(root.length + 1), isOpen = f.type === 'directory' && open.has(path);
      out.push({ path, name: f.path, type: f.type, size: f.size, depth, open: isOpen, mark: marks.get(rel) ?? (f.type === 'directory' && !isOpen && above.has(rel) ? '·' : '') });
      if (isOpen) walk(path, depth + 1);
    }
    const left = gone.get(dir);
    if (left && dirs.has(dir)) { const there = new Set(dirs.get(dir)!.map(f => f.path)); for (const name of left) if (!there.has(name)) out.push({ path: join(dir, name), name, type: 'gone', size: 0, depth, open: false, mark: 'D' }); }
  };
  walk(root, 1);
  return out;
}

export function Files({ b }: { b: Box }) {
  const [dirs, setDirs] = useState<ReadonlyMap<string, File[]>>(new Map()), [open, setOpen] = useState<ReadonlySet<string>>(new Set()), [marks, setMarks] = useState<ReadonlyMap<string, string>>(new Map()), [error, fail] = useState<unknown>(null), [drop, over] = useState('');
  const chosen = route.value.query.get('file') ?? '', root = b.workdir, on = b.state === 'running', kept = keptOnly(b), openNow = useRef(open);
  openNow.current = open;
  const load = useMemo(() => oneByOne(async (dir: string) => {
    try {
      const l = await get<List<File>>(of(b.id, '/files/list'), { path: dir, kept: keptOnly(boxes.peek().get(b.id) ?? b) });
      const items = order(l.items);
      setDirs(m => new Map(m).set(dir, items));
      fail(null);
    } catch (e) { if (e instanceof Failed && !e.status) return; /* the server is away: what is shown stays */ if (dir === root) fail(e); else if (e instanceof Failed && e.status === 404) setDirs(m => { const n = new Map(m); n.delete(dir); return n; }); }
  }), [b.id]);
  const marks_ = useMemo(() => oneByOne((_: 0) => all<Change>('/diff', (s => ({ a: s?.id ?? b.id, b: s ? b.id : undefined }))(latest(boxes.peek().get(b.id) ?? b, snaps.peek()))).then(c => setMarks(new Map(c.map(x => [x.path, x.kind]))), () => undefined)), [b.id]), mark = () => marks_(0);
  useEffect(() => { if (on || kept) { void load(root); for (const d of open) void load(d); } }, [b.id, on, kept, lost.value === 0]);
  useEffect(() => { if (on || kept) void mark(); }, [b.id, on, kept, latest(b, snaps.value)?.id]);
  // Watch: what changed is asked for again, a moment later and once.
  useEffect(() => {
    if (!on || lost.value) return undefined;
    const stop = new AbortController(), soon = new Set<string>();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const seen: string[] = []; // a burst of changes is taken in at once: one copy of the map, not one for each
    const again = (path: string) => {
      soon.add(path);
      timer ??= setTimeout(() => {
        timer = undefined;
        const now = [...soon], paths = new Map(changed.value);
        for (const p of seen.splice(0)) { const n = (paths.get(p) ?? 0) + 1; paths.delete(p); paths.set(p, n); }
        changed.value = paths.size > KEPT ? new Map([...paths].slice(-KEPT)) : paths;
        soon.clear();
        for (const d of now) if (d === root || openNow.current.has(d)) void load(d);
        void mark();
      }, 250);
    };
    stream(of(b.id, '/files/watch'), { path: root, recursive: true }, stop.signal, m => {
      if (m.event !== 'change') return;
      const c = JSON.parse(m.data) as { change: string; path: string };
      if (c.change === 'remove' || c.change === 'rename') { const gone = c.path.startsWith('/') ? c.path : join(root, c.path); if (openNow.current.has(gone)) setOpen(o => new Set([...o].filter(p => p !== gone && !p.startsWith(gone + '/')))); }
      if (c.change === 'overflow') { for (const d of [root, ...openNow.current]) again(d); return; }
      const full = c.path.startsWith('/') ? c.path : join(root, c.path);
      seen.push(full);
      again(full.slice(0, full.lastIndexOf('/')) || '/');
    }).catch(() => undefined);
    return () => { stop.abort(); clearTimeout(timer); };
  }, [b.id, on, lost.value === 0]);

  const rows = useMemo(() => flatten(dirs, open, root, marks), [dirs, open, root, marks]);
  const toggle = (path: string) => { const s = new Set(open); if (!s.delete(path)) { s.add(path); void load(path); } setOpen(s); };
  const pick = (r: Entry) => (r.type === 'directory' ? toggle(r.path) : setQuery({ file: r.path, view: r.type === 'gone' ? 'diff' : null }));
  const target = () => { const r = rows.find(x => x.path === chosen); return r ? (r.type === 'directory' ? r.path : r.path.slice(0, r.path.lastIndexOf('/'))) : root; };
  const upload = (coming: Promise<Dropped[]>, dir: string) => attempt('Not all was uploaded', async () => {
    const some = await coming;
    for (const f of some) await writeFile(b.id, join(dir, f.path), f.file);
    if (some.length) toast(`${some.length === 1 ? some[0]!.path : `${some.length} files`} uploaded to ${dir}.`);
    await load(dir);
  });
  /** Where a drop would go: into the directory under the pointer. */
  const under = (e: DragEvent) => (e.target as Element).closest<HTMLElement>('[data-dir]')?.dataset.dir ?? root;
  const choose = () => { const i = document.createElement('input'); i.type = 'file'; i.multiple = true; i.onchange = () => upload(Promise.resolve([...(i.files ?? [])].map(file => ({ path: file.name, file }))), target()); i.click(); };
  const named = (title: string, value: string, act: (v: string) => Promise<unknown>) => { question.value = { title, text: null, yes: title.replace(/…$/, ''), input: { label: 'Path', value }, act: () => undefined, withInput: act }; };
  const cut = (p: string) => p.slice(0, p.lastIndexOf('/'));
  const fetch = () => save(chosen.split('/').pop()!, filePath(b.id, chosen, kept)), there = !!chosen && !rows.some(r => r.path === chosen && r.type === 'gone');
  const items = kept ? [...(there ? [{ text: 'Download', note: safe(chosen, 60), act: fetch }] : []), { text: 'Start it again', note: 'to change its files', act: () => start(b) }] : [
    { text: 'New file…', act: () => named('New file', join(target(), ''), async v => { await writeFile(b.id, v, ''); await load(cut(v)); setQuery({ file: v }); }) },
    { text: 'New directory…', act: () => named('New directory', join(target(), ''), async v => { await post(of(b.id, '/files/mkdir'), { path: v, parents: true }); await load(cut(v)); }) },
    ...(there ? [
      { text: 'Rename…', note: safe(chosen, 60), act: () => named('Rename', chosen, async v => { await post(of(b.id, '/files/rename'), { from: chosen, to: v }); moved(b, chosen, v); await load(cut(chosen)); await load(cut(v)); setQuery({ file: v }); }) },
      { text: 'Download', note: safe(chosen, 60), act: fetch },
      { text: 'Delete…', bad: true, act: () => { question.value = { title: 'Delete a file?', danger: true, yes: `Delete ${safe(chosen.split('/').pop(), 40)}`, text: <p class="soft mono">{safe(chosen)}</p>, act: async () => { await del(of(b.id, '/files'), { path: chosen, recursive: true }); moved(b, chosen); await load(cut(chosen)); setQuery({ file: null }); } }; } },
    ] : []),
    { text: 'Download all as tar', act: () => save(`${b.name || b.id}.tar`, address('/api/v1' + of(b.id, '/files/tar'), { path: root })) },
  ];
  return (
    <div class={`files ${drop ? 'drop' : ''}`} onDragOver={e => { e.preventDefault(); over(on ? under(e) : ''); }} onDragLeave={e => { if (!(e.currentTarget as Element).contains(e.relatedTarget as Node | null)) over(''); }} onDrop={e => { e.preventDefault(); over(''); if (on) void upload(dropped(e.dataTransfer), under(e)); }}>
      <div class="bar"><h2>Files</h2>{kept && <span class="dim">read-only</span>}{drop && <span class="dim cut" role="status">into {safe(drop, 60)}</span>}<span class="right" />{on && <Btn kind="quiet icon small" icon="up" label="Upload" onClick={choose} />}<Menu kind="quiet icon small" icon="more" label="More about files" items={items} /></div>
      {b.state === 'paused' && !dirs.has(root) ? <p class="pad dim">It is paused. Resume it to see its files.</p> : kept && error instanceof Failed && error.code === 'ENOTSUP' ? <div class="pad soft"><p>Its files can be seen only while it runs: {safe(error.message, 200)}.</p><p class="gapped"><Btn kind="small" icon="play" onClick={() => start(b)}>Start again</Btn></p></div> : error ? <Trouble error={error} what="The files cannot be listed." again={() => load(root)} /> : <Tree rows={rows} chosen={chosen} pick={pick} toggle={toggle} b={b} loaded={dirs.has(root)} into={drop} />}
    </div>
  );
}

function Tree({ rows, chosen, pick, toggle, b, loaded, into }: { rows: Entry[]; chosen: string; pick: (r: Entry) => void; toggle: (p: string) => void; b: Box; loaded: boolean; into: string }) {
  const box = useRef<HTMLDivElement>(null), [top, scroll] = useState(0), [h, height] = useState(400), [at, move] = useState(0), ROW = rowHeight();
  useEffect(() => {
    const el = box.current!, read = () => { scroll(el.scrollTop); height(el.clientHeight); }, o = new ResizeObserver(read);
    read();
    el.addEventListener('scroll', read, { passive: true });
    o.observe(el);
    return () => { el.removeEventListener('scroll', read); o.disconnect(); };
  }, []);
  const i = Math.min(at, Math.max(0, rows.length - 1)), from = Math.max(0, Math.floor(top / ROW) - OVER), to = Math.min(rows.length, Math.ceil((top + h) / ROW) + OVER);
  const step = (n: number) => { const to_ = Math.max(0, Math.min(rows.length - 1, n)), el = box.current!; move(to_); const y = to_ * ROW; if (y < el.scrollTop) el.scrollTop = y; else if (y + ROW > el.scrollTop + el.clientHeight) el.scrollTop = y + ROW - el.clientHeight; };
  const keys = (e: KeyboardEvent) => {
    const r = rows[i];
    if (!r) return;
    const act: Record<string, () => void> = { ArrowDown: () => step(i + 1), ArrowUp: () => step(i - 1), Home: () => step(0), End: () => step(rows.length - 1), Enter: () => pick(r), ' ': () => pick(r), ArrowRight: () => { if (r.type === 'directory' && !r.open) toggle(r.path); else step(i + 1); }, ArrowLeft: () => { if (r.open) toggle(r.path); else { for (let k = i - 1; k >= 0; k--) if (rows[k]!.depth < r.depth) { step(k); break; } } } };
    if (act[e.key]) { e.preventDefault(); e.stopPropagation(); act[e.key]!(); }
  };
  if (loaded && !rows.length) return <div class="tree" ref={box}><p class="pad dim">{keptOnly(b) ? '' : 'Nothing here yet. '}{keptOnly(b) ? 'It left no file in its working directory.' : 'Drop files to upload them, or write some in the terminal.'}</p></div>;
  const icon = (r: Entry) => (r.type === 'directory' ? 'dir' : r.type === 'link' ? 'link' : 'file');
  const tone: Record<string, string> = { A: 'ok', M: 'warn', D: 'bad', R: 'warn', T: 'warn', '·': 'warn' };
  return (
    <div class="tree" role="tree" aria-label="Files" ref={box} tabIndex={0} onKeyDown={keys} aria-activedescendant={rows[i] ? `f${i}` : undefined}><div class="tall" role="presentation" style={{ height: `${rows.length * ROW}px` }}>
      {rows.slice(from, to).map((r, k) => (
        <div key={r.path} id={`f${from + k}`} role="treeitem" aria-level={r.depth} aria-expanded={r.type === 'directory' ? r.open : undefined} aria-selected={r.path === chosen} class={`leaf ${from + k === i ? 'at' : ''} ${into && r.type === 'directory' && r.path === into ? 'into' : ''}`} data-dir={r.type === 'directory' ? r.path : r.path.slice(0, r.path.lastIndexOf('/'))} style={{ top: `${(from + k) * ROW}px`, paddingLeft: `${r.depth * 14 - 2}px` }} title={`${safe(r.path)}${r.type === 'file' ? `, ${bytes(r.size)}` : ''}`}
          draggable={r.type === 'file'} onDragStart={e => e.dataTransfer?.setData('DownloadURL', `application/octet-stream:${safe(r.name, 80).replace(/[:/]/g, '_')}:${location.origin}${filePath(b.id, r.path, keptOnly(b))}`)} onClick={() => { move(from + k); pick(r); }}>
          <Icon name={icon(r)} /><span class={`cut ${r.type === 'gone' ? 'struck' : ''}`}>{safe(r.name, 120)}</span>{r.mark && <span class={`m ${tone[r.mark] ?? ''}`}>{r.mark}</span>}</div>
      ))}</div></div>
  );
}
