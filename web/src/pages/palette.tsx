// SPDX-License-Identifier: Apache-2.0
// Find or run: actions on the sandbox in view, sandboxes, files, templates, pages. Tab shows the command behind an action.
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { get, of, type File, type List } from '../api';
import { safe, word } from '../lib/format';
import { go, href, route } from '../lib/router';
import { askFork, cli, kill, pause, rename, snapshot, undo } from '../actions';
import { boxes, sorted, templates } from '../live';
import { overlay } from '../keys';
import { fuzzy, title } from '../state';
import { Dialog, Icon, type IconName } from '../ui';
import { toggleTheme } from '../theme';
import { tabs } from '../box/page';

/** What stands together and is of one kind, under its name. */
const runs = (all: Item[]) => all.reduce<[string, [Item, number][]][]>((out, x, k) => { if (out.at(-1)?.[0] !== x.group) out.push([x.group, []]); out.at(-1)![1].push([x, k]); return out; }, []);
interface Item { text: string; note: string; icon: IconName; cmd?: string; act: () => unknown; group: string }

export default function Palette() {
  const [q, setQ] = useState(''), [at, move] = useState(0), [cmd, showCmd] = useState(false), [files, setFiles] = useState<string[]>([]), list = useRef<HTMLDivElement>(null), close = () => { overlay.value = ''; };
  const b = route.value.path[0] === 'sandbox' ? boxes.value.get(route.value.path[1] ?? '') : undefined;
  useEffect(() => { if (b?.state === 'running') get<List<File>>(of(b.id, '/files/list'), { path: b.workdir, depth: 3 }).then(l => setFiles(l.items.filter(f => f.type === 'file').slice(0, 3000).map(f => f.path)), () => undefined); }, [b?.id]);
  const items = useMemo((): Item[] => {
    const name = b ? (b.name ? word(b.name) : b.id) : '';
    return [
      ...(b ? ([['Snapshot', 'snap', () => snapshot(b), cli.snapshot(b)], ['Fork', 'fork', () => askFork(b), cli.fork(b)], ['Undo', 'undo', () => undo(b), cli.undo(b)], [b.state === 'paused' ? 'Resume' : 'Pause', 'pause', () => pause(b), cli.pause(b)], ['Rename', 'edit', () => rename(b), ''], ['Kill', 'x', () => kill(b), cli.kill(b)]] as [string, IconName, () => unknown, string][]).map(([text, icon, act, c]): Item => ({ text: `${text} ${title(b)}`, note: '', icon, act, cmd: c || undefined, group: 'This sandbox' })) : []),
      ...(b ? tabs.map((t): Item => ({ text: t[0]!.toUpperCase() + t.slice(1), note: 'tab', icon: 'back', act: () => go(href(['sandbox', b.id, t])), group: 'This sandbox' })) : []),
      ...files.map((f): Item => ({ text: f, note: 'file', icon: 'file', act: () => go(href(['sandbox', b!.id], { file: `${b!.workdir}/${f}` })), cmd: `cay files cat ${name} ${word(f)}`, group: 'Files' })),
      ...sorted.value.slice(0, 2000).map((x): Item => ({ text: title(x), note: `${x.state}, ${x.id.slice(0, 8)}`, icon: 'cay', act: () => go(href(['sandbox', x.id])), cmd: `cay shell ${x.name ? word(x.name) : x.id}`, group: 'Sandboxes' })),
      { text: 'New sandbox', note: '', icon: 'plus', act: () => { overlay.value = 'create'; }, cmd: 'cay create', group: 'Do' }, { text: 'Dark or light', note: '', icon: 'sun', act: toggleTheme, group: 'Do' }, { text: `Terminals for screen readers: ${localStorage.getItem('screen-reader') === '1' ? 'off' : 'on'}`, note: 'setting', icon: 'sun', act: () => { localStorage.setItem('screen-reader', localStorage.getItem('screen-reader') === '1' ? '0' : '1'); location.reload(); }, group: 'Do' }, { text: 'Keys', note: 'of the keyboard', icon: 'more', act: () => { overlay.value = 'keys'; }, group: 'Do' },
      ...templates.value.map((t): Item => ({ text: t.name, note: 'template', icon: 'layers', act: () => go('#/templates'), cmd: `cay create --template ${word(t.name)}`, group: 'Templates' })),
      ...([['Overview', '', 'chart'], ['Sandboxes', 'sandboxes', 'cay'], ['Templates', 'templates', 'layers'], ['Jobs', 'jobs', 'jobs'], ['Keys and tenants', 'keys', 'key'], ['Audit', 'audit', 'audit'], ['Doctor', 'doctor', 'pulse']] as const).map(([text, p, icon]): Item => ({ text, note: 'page', icon, act: () => go('#/' + p), group: 'Pages', cmd: { sandboxes: 'cay ls', audit: 'cay audit ls', doctor: 'cay doctor', jobs: 'cay jobs ls', keys: 'cay key ls' }[p as string] })),
    ];
  }, [b, files, sorted.value, templates.value]);
  const found = useMemo(() => items.map((item, i) => ({ item, cost: fuzzy(item.text + ' ' + item.note, q) + (item.group === 'This sandbox' ? -3 : 0), i })).filter(x => x.cost > -1 || x.item.group === 'This sandbox' && x.cost >= -3 && fuzzy(x.item.text + ' ' + x.item.note, q) >= 0).sort((a, c) => a.cost - c.cost || a.i - c.i).slice(0, 40).map(x => x.item), [items, q]);
  const i = Math.min(at, Math.max(0, found.length - 1)), run = (x?: Item) => { if (!x) return; close(); void x.act(); };
  useEffect(() => { list.current?.querySelector('[aria-selected=true]')?.scrollIntoView({ block: 'nearest' }); }, [i]);
  const keys = (e: KeyboardEvent) => {
    if (e.key === 'ArrowDown') { e.preventDefault(); move((i + 1) % Math.max(1, found.length)); } else if (e.key === 'ArrowUp') { e.preventDefault(); move((i + found.length - 1) % Math.max(1, found.length)); } else if (e.key === 'Enter') { e.preventDefault(); run(found[i]); } else if (e.key === 'Tab') { e.preventDefault(); showCmd(!cmd); }
  };
  return (
    <Dialog id="palette" label="Find or run" onClose={close}><input autofocus role="combobox" aria-expanded="true" aria-controls="found" aria-activedescendant={found[i] ? `found-${i}` : undefined} aria-label="Find or run" placeholder="Find or run…" value={q} onInput={e => { setQ(e.currentTarget.value); move(0); }} onKeyDown={keys} spellcheck={false} />
      <div class="res" id="found" role="listbox" aria-label="Found" ref={list}>{runs(found).map(([name, some]) => <div key={name + some[0]![1]} role="group" aria-label={name}>{some.map(([x, k]) => <div key={x.group + x.text + k} id={`found-${k}`} class="found" role="option" aria-selected={k === i} onPointerMove={() => move(k)} onClick={() => run(x)}><Icon name={x.icon} /><span class="cut">{safe(x.text, 80)}</span><span class="dim cut">{k === i && cmd && x.cmd ? <code>{safe(x.cmd, 90)}</code> : safe(x.note, 60)}</span></div>)}</div>)}{!found.length && <div class="found dim" role="option" aria-selected="false" aria-disabled="true">Nothing is called that.</div>}</div>
      <div class="pfoot dim"><kbd>↑</kbd> <kbd>↓</kbd> choose <kbd>↵</kbd> run <kbd>Tab</kbd> show the command <kbd>Esc</kbd> back</div></Dialog>
  );
}
