// SPDX-License-Identifier: Apache-2.0
// The parts that all pages are made of.
import { signal } from '@preact/signals';
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Failed } from './api';
import { coast } from './lib/islet';
import { ago, exact, safe } from './lib/format';
import { boxes, now, snaps } from './live';
import { lineage, look } from './state';

// ------------------------------------------------------------------ icons

const paths = {
  chart: 'M8 1.800a6.200 6.200 0 1 0 0 12.400A6.200 6.200 0 0 0 8 1.800zM10.600 5.400 9.100 9.100 5.400 10.600l1.500-3.700z', cay: 'M2 10.200c1.200-3.600 3.400-5.600 6-5.600s4.800 2 6 5.600c-2 .8-10 .8-12 0zM1 13.200c2.400-.9 4.600-.9 7 0s4.600.9 7 0',
  layers: 'M8 2 14 5 8 8 2 5zM2.500 8.200 8 11l5.500-2.800M2.500 11.200 8 14l5.500-2.800', jobs: 'M2.500 4h11M2.500 8h11M2.500 12h6M12 10.500v3M10.500 12h3', key: 'M5 8.300a2.700 2.700 0 1 0 0 5.400 2.700 2.700 0 0 0 0-5.400zm2 .7 6-6M11 5l2 2',
  audit: 'M4 2.500h8v11H4zM6.500 5.500h3M6.500 8h3M6.500 10.500h2', pulse: 'M1.500 8.500h3L6.500 3l3 10 2-4.500h3', find: 'M7 2.700a4.300 4.300 0 1 0 0 8.600 4.300 4.300 0 0 0 0-8.600zm3.300 7.600 3.400 3.400', plus: 'M8 3v10M3 8h10',
  snap: 'M8 5.400a2.600 2.600 0 1 0 0 5.200 2.600 2.600 0 0 0 0-5.200zM8 1.500v3.900M8 10.600v3.900', fork: 'M3 8h3.500c2.500 0 2-4 5-4H13M6.500 8c2.500 0 2 4 5 4H13', undo: 'M5.500 3 2.500 6l3 3M2.500 6h7a4 4 0 0 1 0 8H6',
  pause: 'M5.500 3.500v9M10.500 3.500v9', play: 'M5 3.500v9l7-4.500z', x: 'm4 4 8 8M12 4l-8 8', ok: 'm3 8.500 3.300 3.300L13 5', bang: 'M8 2 1.800 13.200h12.400zM8 6.500v3M8 11.400v.1', no: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM4 12l8-8',
  copy: 'M5.500 5.500h8v8h-8zM10.500 5.500v-3h-8v8h3', file: 'M4 2h5l3 3v9H4zM9 2v3h3', dir: 'M1.800 4h4.500l1.400 1.600h6.500V13H1.800z', link: 'M9 3h4v4M13 3 7.500 8.500M11.500 9.500v3.500H3V4.500h3.500',
  out: 'M9 3h4v4M13 3 7.500 8.500M11.500 9.500v3.500H3V4.500h3.500', sun: 'M8 5.200a2.800 2.800 0 1 0 0 5.600 2.800 2.800 0 0 0 0-5.600zM8 1.500v1.500M8 13v1.500M1.500 8H3M13 8h1.500M3.400 3.400l1 1M11.600 11.600l1 1M3.400 12.600l1-1M11.600 4.400l1-1',
  more: 'M3 5h10M3 11h10', up: 'M8 12V3M4.500 6.500 8 3l3.500 3.500M3 14h10', down: 'M8 2v9M4.500 7.500 8 11l3.500-3.500M3 14h10', exec: 'm3 5 3 3-3 3M8 11.500h5', back: 'M10 3 5 8l5 5', edit: 'M3 13l.7-3L10.500 3.200l2.300 2.300L6 12.300z', bin: 'M3 4.500h10M6 4.500V3h4v1.500M4.500 4.500l.6 9h5.800l.6-9', clock: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 4.500V8l2.500 1.500',
};
export type IconName = keyof typeof paths;
export const Icon = ({ name, class: c = '' }: { name: IconName; class?: string }) => <svg class={`ic ${c}`} viewBox="0 0 16 16" aria-hidden="true"><path d={paths[name]} /></svg>;

export const Mark = () => (
  <svg viewBox="0 0 24 24" aria-hidden="true"><path d="M3 15.500C5 9.600 8.300 6.500 12 6.500s7 3.100 9 9c-3.500 1.300-14.500 1.300-18 0z" fill="var(--sand-fill)" stroke="var(--sand)" /><path d="M1.500 19.500c3.500-1.400 7-1.400 10.500 0s7 1.400 10.500 0" fill="none" stroke="var(--sea)" stroke-width="1.800" stroke-linecap="round" /></svg>
);

// ------------------------------------------------------------------ words and marks

/** Text that others wrote. */
export const Said = ({ text, most, class: c, mono }: { text: unknown; most?: number; class?: string; mono?: boolean }) => {
  const s = safe(text, most);
  return <span class={`${c ?? ''}${mono ? ' mono' : ''}`} title={safe(text, 2000)}>{s}</span>;
};
export const When = ({ t, class: c }: { t: number; class?: string }) => <time class={c} dateTime={new Date(t).toISOString()} title={exact(t)}>{ago(t, now.value)}</time>;
export const State = ({ state, bad }: { state: string; bad?: boolean }) => <span class={`state ${bad ? 'bad' : ''}`}><span class={`mark ${bad ? 'failed' : look(state)}`} />{state === 'damaged' ? 'failed' : state}</span>;

const lands = { running: { fill: 'var(--sand-fill)', stroke: 'var(--sand)' }, paused: { fill: 'var(--water)', stroke: 'var(--sand)', 'stroke-width': 1.4 }, stopped: { fill: 'none', stroke: 'var(--ink3)', 'stroke-dasharray': '2 2' }, failed: { fill: 'var(--coral)', stroke: 'var(--coral)' }, starting: { fill: 'none', stroke: 'var(--sea)' } };
export const land = (state: string) => lands[look(state)];
export const lineOf = (id: string) => lineage(id, boxes.value, snaps.value);
export const Islet = ({ id, state, size = 24 }: { id: string; state: string; size?: number }) => {
  const line = lineOf(id);
  return <svg class="islet" viewBox="0 0 32 32" width={size} height={size} aria-hidden="true"><path d={coast(line, 16, 16, 15.5)} fill="var(--shoal2)" /><path class="land" d={coast(line, 16, 16, 10.5)} {...land(state)} /></svg>;
};

export function Btn(p: { onClick?: (e: MouseEvent) => unknown; icon?: IconName; kind?: string; label?: string; children?: ComponentChildren; href?: string; title?: string; pressed?: boolean; type?: 'submit' | 'button'; id?: string; disabled?: boolean }) {
  const [busy, setBusy] = useState(false), alive = useRef(true);
  useEffect(() => () => { alive.current = false; }, []);
  const click = async (e: MouseEvent) => {
    if (busy) return;
    const r = p.onClick?.(e);
    if (r instanceof Promise) { setBusy(true); try { await r; } finally { if (alive.current) setBusy(false); } }
  };
  const inner = <>{p.icon && <Icon name={p.icon} />}{p.children}</>, c = `btn ${p.kind ?? ''}`;
  if (p.href) return <a class={c} href={p.href} title={p.title} aria-label={p.label}>{inner}</a>;
  return <button id={p.id} class={c} type={p.type ?? 'button'} onClick={click} title={p.title ?? p.label} aria-label={p.label} aria-busy={busy || undefined} aria-pressed={p.pressed} disabled={p.disabled}>{inner}</button>;
}

export async function copy(text: string) {
  try { await navigator.clipboard.writeText(text); toast('Copied.'); } catch { toast('The browser does not let us copy; select it instead.'); }
}
export const Copy = ({ text, label = 'Copy' }: { text: string; label?: string }) => <Btn kind="quiet icon small" icon="copy" label={label} onClick={() => copy(text)} />;
export const Cmd = ({ text }: { text: string }) => <div class="cmd"><code tabIndex={0} role="textbox" aria-readonly="true" aria-label="Command">{safe(text, 2000)}</code><Copy text={text} label="Copy the command" /></div>;
export const Seg = <X extends string>({ value, options, onPick, label, small }: { value: X; options: [X, ComponentChildren][]; onPick: (x: X) => void; label: string; small?: boolean }) => (
  <div class={`seg ${small ? 'small' : ''}`} role="group" aria-label={label}>{options.map(([v, t]) => <button key={v} type="button" aria-pressed={v === value} onClick={() => onPick(v)}>{t}</button>)}</div>
);

export const Sheet = ({ title, note, actions, children, class: c = '' }: { title: ComponentChildren; note?: ComponentChildren; actions?: ComponentChildren; children?: ComponentChildren; class?: string }) => (
  <section class={`sheet ${c}`}><div class="bar"><h2>{title}</h2>{note !== undefined && <span class={typeof note === 'number' ? 'dim count' : 'dim'}>{note}</span>}{actions && <span class="right acts">{actions}</span>}</div>{children}</section>
);

// ------------------------------------------------------------------ states of a page

export function Trouble({ error, what, again }: { error: unknown; what: string; again?: () => void }) {
  const e = error instanceof Failed ? error : null;
  return (
    <div class="trouble" role="alert"><Icon name="bang" class="bad" /><div class="grow"><b>{what}</b><p>{safe((error as Error)?.message ?? error, 600)}{/[.!?]$/.test((error as Error)?.message ?? '') ? '' : '.'}</p>
      {e && (e.code || e.request) && <p class="dim">{e.code && <code>{e.code}</code>} {e.reason && <code>{e.reason}</code>} {e.retry === 'yes' ? 'Trying again may help. ' : e.retry === 'no' ? 'Trying again does not help. ' : ''}{e.request && <>request <code>{e.request}</code> <Copy text={e.request} label="Copy the request's id" /></>}</p>}
    </div>{again && <Btn kind="small" onClick={again}>Try again</Btn>}</div>
  );
}
/** Nothing for 150 ms, then bars in the shape of what comes. */
export function Loading({ rows = 5 }: { rows?: number }) {
  const [on, set] = useState(false);
  useEffect(() => { const t = setTimeout(() => set(true), 150); return () => clearTimeout(t); }, []);
  return <div class="skel" role="status" aria-busy="true" aria-label="Loading">{on && Array.from({ length: rows }, (_, i) => <i key={i} style={{ width: `${40 + ((i * 37) % 50)}%` }} />)}</div>;
}
export const Blank = ({ title, text, cmd, children }: { title: string; text?: ComponentChildren; cmd?: string; children?: ComponentChildren }) => (
  <div class="blank"><svg class="sea" viewBox="0 0 220 110" aria-hidden="true"><path d={coast(['blank'], 110, 52, 54)} fill="var(--shoal)" /><path d={coast(['blank'], 110, 52, 40)} fill="none" stroke="var(--contour)" stroke-dasharray="1 5" stroke-linecap="round" /><path d={coast(['blank'], 110, 52, 22)} fill="none" stroke="var(--ink3)" stroke-dasharray="3 3" /></svg>
    <h2>{title}</h2>{text && <p>{text}</p>}{cmd && <Cmd text={cmd} />}{children && <div class="btns">{children}</div>}</div>
);

/** Data that a page asks for, and again when something it depends on changes. */
export function useAsk<X>(ask: (stop: AbortSignal) => Promise<X>, on: unknown[]): { data?: X; error?: unknown; again: () => void; set: (x: X) => void } {
  const [s, set] = useState<{ data?: X; error?: unknown }>({}), [n, more] = useState(0);
  useEffect(() => {
    const stop = new AbortController(), began = performance.now(), first = !('data' in s);
    // Bars that are shown (after 150 ms) are shown for 300 ms: what flashes by tells nothing.
    const calm = async (data: X) => { const t = performance.now() - began; if (first && t > 150 && t < 450) await new Promise(r => setTimeout(r, 450 - t)); return data; };
    ask(stop.signal).then(calm).then(data => { if (!stop.signal.aborted) set({ data }); }, error => { if (!stop.signal.aborted) set(old => ({ data: old.data, error })); });
    return () => stop.abort();
  }, [...on, n]);
  return { ...s, again: () => more(x => x + 1), set: data => set({ data }) };
}

// ------------------------------------------------------------------ what floats

export interface Toast { text: string; undo?: () => unknown; n: number }
export const toasts = signal<Toast | null>(null);
let count = 0, leaves: ReturnType<typeof setTimeout> | undefined;
/** It goes by itself, later when it offers a way back, and not while the pointer or the focus is on it. */
const stay = () => clearTimeout(leaves);
const leave = () => { stay(); leaves = setTimeout(() => { toasts.value = null; }, toasts.value?.undo ? 12000 : 6000); };
export function toast(text: string, undo?: () => unknown) { toasts.value = { text, undo, n: ++count }; leave(); }
export const Toaster = () => <div class="toasts" role="status" aria-live="polite">{toasts.value && <div class="toast" key={toasts.value.n} onPointerEnter={stay} onPointerLeave={leave} onFocusIn={stay} onFocusOut={leave}>{safe(toasts.value.text, 400)}{toasts.value.undo ? <Btn kind="small" onClick={() => { const u = toasts.value!.undo!; toasts.value = null; return u(); }}>Undo</Btn> : <Btn kind="quiet icon small" icon="x" label="Close" onClick={() => { toasts.value = null; }} />}</div>}</div>;

export function Dialog({ onClose, label, id, children }: { onClose: () => void; label: string; id?: string; children: ComponentChildren }) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    const d = ref.current!;
    d.showModal();
    return () => { d.close(); before?.focus?.(); }; // while it is open nothing behind it takes the focus
  }, []);
  return <dialog ref={ref} id={id} aria-label={label} onCancel={e => { e.preventDefault(); onClose(); }} onClick={e => { if (e.target === ref.current) onClose(); }}>{children}</dialog>;
}

/** Only for what cannot be undone; the button names the thing. */
export interface Question { title: string; text: ComponentChildren; yes: string; act: () => unknown; danger?: boolean; input?: { label: string; value: string; type?: string }; withInput?: (v: string) => unknown }
export const question = signal<Question | null>(null);
export function Asker() {
  const q = question.value, [error, fail] = useState<unknown>(null), input = useRef<HTMLInputElement>(null);
  useEffect(() => { fail(null); input.current?.select(); }, [q]);
  if (!q) return null;
  const close = () => { question.value = null; };
  const act = async () => { try { await (q.withInput ? q.withInput(input.current?.value ?? '') : q.act()); close(); } catch (e) { fail(e); } };
  return (
    <Dialog onClose={close} label={safe(q.title, 120)} id="question"><form onSubmit={e => { e.preventDefault(); void act(); }}>
      <div class="dhead"><h2>{safe(q.title, 120)}</h2></div><div class="pad">{q.text}{q.input && <label class="field"><span>{q.input.label}</span><input ref={input} class="in" name="value" type={q.input.type ?? 'text'} defaultValue={q.input.value} autofocus autocomplete="off" /></label>}{error ? <Trouble error={error} what="It was not done." /> : null}</div>
      <div class="dfoot"><span class="right btns"><Btn onClick={close}>Keep it</Btn><button type="submit" class={`btn ${q.danger ? 'danger solid' : 'prime'}`}>{q.yes}</button></span></div></form></Dialog>
  );
}

export function Menu({ label, icon, kind = 'small', items, children }: { label: string; icon?: IconName; kind?: string; items: { text: string; note?: string; act: () => unknown; bad?: boolean }[]; children?: ComponentChildren }) {
  const [at, open] = useState<{ x: number; y: number } | null>(null), list = useRef<HTMLDivElement>(null), button = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    if (!at) return undefined;
    const el = list.current!, r = el.getBoundingClientRect();
    el.style.left = `${Math.max(8, Math.min(at.x, innerWidth - r.width - 8))}px`;
    el.style.top = `${at.y + r.height > innerHeight - 8 ? Math.max(8, at.y - r.height - 36) : at.y}px`;
    (el.querySelector('button') as HTMLElement | null)?.focus();
    const away = (e: Event) => { if (!el.contains(e.target as Node)) open(null); };
    document.addEventListener('pointerdown', away);
    return () => document.removeEventListener('pointerdown', away);
  }, [at]);
  const close = () => { open(null); (button.current?.querySelector('button') as HTMLElement | null)?.focus(); };
  const keys = (e: JSX.TargetedKeyboardEvent<HTMLDivElement>) => {
    const all = [...list.current!.querySelectorAll('button')], i = all.indexOf(document.activeElement as HTMLButtonElement);
    if (e.key === 'Escape') { e.stopPropagation(); close(); }
    else if (e.key === 'ArrowDown' || e.key === 'ArrowUp') { e.preventDefault(); all[(i + (e.key === 'ArrowDown' ? 1 : all.length - 1)) % all.length]?.focus(); }
  };
  return (
    <span ref={button}><Btn kind={kind} icon={icon} label={children ? undefined : label} title={label} onClick={e => { const r = (e.currentTarget as HTMLElement).getBoundingClientRect(); open(at ? null : { x: r.right - 240, y: r.bottom + 4 }); }}>{children}</Btn>
      {at && <div class="menu" role="menu" aria-label={label} ref={list} onKeyDown={keys}>{items.map(i => <button role="menuitem" type="button" key={i.text} class={i.bad ? 'bad' : ''} onClick={() => { close(); void i.act(); }}><span>{i.text}</span>{i.note && <small>{i.note}</small>}</button>)}</div>}</span>
  );
}

/** What was not done, told above the page until it is read. */
export const notice = signal<{ what: string; error: unknown } | null>(null);
export const Notice = () => notice.value && <div class="notice"><Trouble what={notice.value.what} error={notice.value.error} /><Btn kind="quiet icon small" icon="x" label="Close" onClick={() => { notice.value = null; }} /></div>;
export async function attempt<X>(what: string, f: () => Promise<X>): Promise<X | undefined> {
  try { const x = await f(); notice.value = null; return x; } catch (error) { notice.value = { what, error }; return undefined; }
}
