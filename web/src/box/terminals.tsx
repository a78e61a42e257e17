// SPDX-License-Identifier: Apache-2.0
// Terminals. Each is a process of the sandbox that lives without us: it is there again after a reload, with what it printed meanwhile.
import { useEffect, useRef, useState } from 'preact/hooks';
import { Terminal } from '@xterm/xterm';
import { FitAddon } from '@xterm/addon-fit';
import { WebLinksAddon } from '@xterm/addon-web-links';
import '@xterm/xterm/css/xterm.css';
import { ask, get, leave, lost, of, post, socket, type Box, type List, type Process } from '../api';
import { safe } from '../lib/format';
import { route, setQuery } from '../lib/router';
import { onBack } from '../live';
import { attempt, Btn, Icon, question, Trouble } from '../ui';
import { theme, token } from '../theme';
import { cli } from '../actions';

interface Tab { id: string; name: string; ended: boolean }
const LABEL = 'console';

export default function Terminals({ b }: { b: Box }) {
  const [tabs, set] = useState<Tab[] | null>(null), [error, fail] = useState<unknown>(null), chosen = route.value.query.get('term'), at = tabs?.find(t => t.id === chosen) ?? tabs?.at(-1);
  const open = async () => {
    try {
      const { id } = await post<{ id: string }>(of(b.id, '/pty'), { cols: 100, rows: 24, labels: { [LABEL]: '1' }, env: { TERM: 'xterm-256color', COLORTERM: 'truecolor' } });
      set(old => [...(old ?? []), { id, name: `shell ${(old?.length ?? 0) + 1}`, ended: false }]);
      setQuery({ term: id });
      fail(null);
    } catch (e) { fail(e); }
  };
  useEffect(() => {
    let gone = false;
    get<List<Process>>(of(b.id, '/processes')).then(async l => {
      if (gone) return;
      const old = l.items.filter(p => p.id && p.tty && p.labels?.[LABEL] && p.state !== 'ended').sort((x, y) => x.started_ms - y.started_ms).map((p, i) => ({ id: p.id, name: `shell ${i + 1}`, ended: false }));
      set(old);
      if (!old.length) await open();
    }).catch(fail);
    return () => { gone = true; };
  }, [b.id]);
  const close = (t: Tab) => { if (!t.ended) void post(of(b.id, `/processes/${t.id}/signal`), { signal: 'HUP', scope: 'tree' }).catch(() => undefined); set(old => old!.filter(x => x.id !== t.id)); };
  return (
    <div class="term"><div class="bar t"><div role={tabs?.length ? 'tablist' : undefined} aria-label={tabs?.length ? 'Terminals' : undefined} class="ftabs">{(tabs ?? []).map(t => <button type="button" key={t.id} role="tab" class="ftab" aria-selected={t.id === at?.id} onClick={() => setQuery({ term: t.id })}>{t.name}{t.ended && ' (ended)'}</button>)}</div><Btn kind="quiet icon small" icon="plus" label="New terminal" onClick={open} />{at && <Btn kind="quiet icon small" icon="x" label={`Close ${at.name}`} onClick={() => close(at)} />}<span class="dim right wide hint" id="size" /></div>
      {error ? <Trouble error={error} what="No terminal could be opened." again={open} /> : null}
      {tabs && !tabs.length && !error && <p class="pad dim">No terminal is open. <button type="button" class="plain" onClick={open}>Open one</button>, or <code>{cli.shell(b)}</code>.</p>}
      {(tabs ?? []).map(t => <Screen key={t.id} b={b} id={t.id} shown={t.id === at?.id} onEnd={() => set(old => old && old.map(x => (x.id === t.id ? { ...x, ended: true } : x)))} />)}</div>
  );
}

function colors() {
  const t = token, dark = theme.value === 'dark';
  return { background: t('bg'), foreground: t('ink'), cursor: t('sand'), cursorAccent: t('bg'), selectionBackground: dark ? '#2c4a50' : '#c9dcd6', black: dark ? '#22302f' : '#1a2729', red: t('coral'), green: t('palm'), yellow: t('amber'), blue: t('iris'), magenta: dark ? '#d7a3e0' : '#8a3a93', cyan: t('sea'), white: t('ink2'), brightBlack: t('ink3'), brightRed: t('coral'), brightGreen: t('palm'), brightYellow: t('sand'), brightBlue: t('iris'), brightMagenta: dark ? '#e6bdec' : '#8a3a93', brightCyan: t('sea'), brightWhite: t('ink') };
}

/** A link that a program printed leads where that program likes: it is shown before it is followed. */
function follow(_e: MouseEvent, uri: string) {
  if (!/^https?:\/\//i.test(uri)) return;
  question.value = { title: 'Open this address?', text: <p class="mono wrap">{safe(uri, 500)}</p>, yes: 'Open it', act: () => { window.open(uri, '_blank', 'noopener,noreferrer'); } };
}

function Screen({ b, id, shown, onEnd }: { b: Box; id: string; shown: boolean; onEnd: () => void }) {
  const host = useRef<HTMLDivElement>(null), term = useRef<Terminal>(), fit = useRef<FitAddon>(), send = useRef<(text: string) => void>(() => undefined), [cut, setCut] = useState<number | null>(null), [focus, setFocus] = useState(false), [ctrl, setCtrl] = useState(false), ctrlNow = useRef(false);
  ctrlNow.current = ctrl;
  useEffect(() => {
    const t = new Terminal({ theme: colors(), fontFamily: token('mono'), fontSize: 13, lineHeight: 1.25, scrollback: 8000, cursorBlink: !matchMedia('(prefers-reduced-motion: reduce)').matches, macOptionIsMeta: true, screenReaderMode: localStorage.getItem('screen-reader') === '1', linkHandler: { activate: follow, allowNonHttpProtocols: false } }), f = new FitAddon();
    t.loadAddon(f);
    t.loadAddon(new WebLinksAddon(follow));
    t.open(host.current!);
    t.textarea!.setAttribute('aria-label', 'Terminal');
    t.textarea!.addEventListener('focus', () => setFocus(true));
    t.textarea!.addEventListener('blur', () => setFocus(false));
    t.attachCustomKeyEventHandler(e => {
      if (e.ctrlKey && e.shiftKey && (e.key === 'Escape' || e.code === 'KeyC' || e.code === 'KeyV')) {
        if (e.type === 'keydown' && e.code === 'KeyC' && t.hasSelection()) { e.preventDefault(); void navigator.clipboard.writeText(t.getSelection()); }
        return false;
      }
      return !(e.ctrlKey && !e.shiftKey && e.key.toLowerCase() === 'k' && e.metaKey);
    });
    term.current = t;
    fit.current = f;
    const link = connect(b, id, t, { onEnd, onCut: setCut, ctrl: () => { if (!ctrlNow.current) return false; setCtrl(false); return true; } });
    send.current = link.send;
    const size = new ResizeObserver(() => { if (host.current?.offsetParent) { f.fit(); note(t); } });
    size.observe(host.current!);
    const off = onBack(link.again);
    return () => { off(); size.disconnect(); link.close(); t.dispose(); };
  }, [id]);
  useEffect(() => { if (term.current) term.current.options.theme = colors(); }, [theme.value]);
  useEffect(() => { if (shown) { fit.current?.fit(); if (term.current) note(term.current); } }, [shown]);
  const note = (t: Terminal) => { const el = document.getElementById('size'); if (el && host.current?.offsetParent) el.textContent = `${safe(b.user, 30)}@${safe(b.hostname, 30)} · ${t.cols}×${t.rows}`; };
  const keys: [string, string][] = [['Esc', '\x1b'], ['Tab', '\t'], ['↑', '\x1b[A'], ['↓', '\x1b[B'], ['←', '\x1b[D'], ['→', '\x1b[C']];
  return (
    <div class={`screen ${shown ? 'term shown' : ''}`} hidden={!shown}><div class="xterm-host" ref={host} />
      {cut !== null && lost.value > 0 && <div class="cutline" role="status"><Icon name="bang" class="warn" />Keys are not sent. Output goes on from byte {cut.toLocaleString('en')} when the server is back.</div>}
      {focus && <span class="leave wide"><kbd>Ctrl</kbd> <kbd>Shift</kbd> <kbd>Esc</kbd> leaves</span>}
      <div class="keyrow" role="toolbar" aria-label="Keys">{keys.slice(0, 2).map(([n, s]) => <button type="button" key={n} onClick={() => send.current(s)}>{n}</button>)}<button type="button" aria-pressed={ctrl} onClick={() => { setCtrl(!ctrl); term.current?.focus(); }}>Ctrl</button>{keys.slice(2).map(([n, s]) => <button type="button" key={n} aria-label={{ '↑': 'Up', '↓': 'Down', '←': 'Left', '→': 'Right' }[n]} onClick={() => send.current(s)}>{n}</button>)}</div></div>
  );
}

/** One process on one screen: reads on from the byte reached whenever the socket was gone. */
function connect(b: Box, id: string, t: Terminal, on: { onEnd: () => void; onCut: (at: number | null) => void; ctrl: () => boolean }) {
  let ws: WebSocket | null = null, at = 0, parsed = 0, quietTo = 0, closed = false, ended = false, timer: ReturnType<typeof setTimeout> | undefined, tries = 0;
  const enc = new TextEncoder(), path = of(b.id, `/processes/${id}`);
  const tellSize = () => { if (ws?.readyState === 1) ws.send(JSON.stringify({ type: 'resize', cols: t.cols, rows: t.rows })); };
  const sendBytes = (d: string) => { if (ws?.readyState === 1) ws.send(enc.encode(d)); };
  // What is printed again must not be answered again: a terminal answers some of what it is shown, and the shell would take that for typing.
  // And what is pasted does not say by itself that it has ended: the rest of it would be typed.
  const pasted = (d: string) => (d.startsWith('\x1b[200~') ? `\x1b[200~${d.slice(6, -6).replaceAll('\x1b', '')}\x1b[201~` : d);
  const d1 = t.onData(d => { if (parsed < quietTo) return; sendBytes(on.ctrl() && d.length === 1 ? String.fromCharCode(d.toUpperCase().charCodeAt(0) & 31) : pasted(d)); });
  const d2 = t.onBinary(d => { if (ws?.readyState === 1) ws.send(Uint8Array.from(d, c => c.charCodeAt(0))); });
  const d3 = t.onResize(tellSize);
  async function go() {
    clearTimeout(timer);
    if (closed || ended) return;
    try {
      if (!at) { const a = await ask('GET', path + '/output', { query: { offset: 'now' } }); quietTo = Number(a.headers.get('x-cay-offset') ?? 0); await leave(a); }
      const s = await socket(path + '/ws', { stdout: String(at) });
      if (closed) { s.close(); return; }
      ws = s;
      s.onopen = () => { tries = 0; on.onCut(null); tellSize(); };
      s.onmessage = e => {
        if (typeof e.data === 'string') { order(JSON.parse(e.data)); return; }
        const data = new Uint8Array(e.data as ArrayBuffer).subarray(1);
        at += data.length;
        t.write(data, () => { parsed += data.length; });
      };
      s.onclose = () => { if (ws === s) { ws = null; later(); } };
    } catch (e) { if ((e as { status?: number }).status === 404) { ended = true; on.onEnd(); } else later(); }
  }
  function order(m: { type: string; stdout?: number; bytes?: number; code?: number; signal?: number; message?: string }) {
    if (m.type === 'start') { if (m.stdout !== undefined && m.stdout > at) { at = m.stdout; parsed = at; } }
    else if (m.type === 'lost') { at += m.bytes ?? 0; parsed += m.bytes ?? 0; t.write(`\r\n\x1b[33m[${m.bytes} bytes were no longer kept]\x1b[0m\r\n`); }
    else if (m.type === 'exit') { ended = true; t.write(`\r\n\x1b[2m[ended${m.signal ? ` by signal ${m.signal}` : ` with ${m.code}`}]\x1b[0m\r\n`); on.onEnd(); }
    else if (m.type === 'error') t.write(`\r\n\x1b[31m[${safe(m.message, 200)}]\x1b[0m\r\n`);
  }
  function later() { if (closed || ended) return; on.onCut(at); timer = setTimeout(go, Math.min(8000, 500 * 2 ** tries++)); }
  void go();
  return { send: (d: string) => { sendBytes(d); t.focus(); }, again: () => { if (!ws) { tries = 0; void go(); } }, close: () => { closed = true; clearTimeout(timer); ws?.close(); d1.dispose(); d2.dispose(); d3.dispose(); } };
}
void attempt;
