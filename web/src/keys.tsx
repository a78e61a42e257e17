// SPDX-License-Identifier: Apache-2.0
// The keyboard: keys of the whole console, and those that a page adds while it is shown.
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { go } from './lib/router';
import { Btn, Dialog, question } from './ui';
import { toggleTheme } from './theme';

export const overlay = signal<'' | 'palette' | 'create' | 'keys'>('');
const pages: Record<string, string> = { o: '#/', s: '#/sandboxes', t: '#/templates', j: '#/jobs', k: '#/keys', a: '#/audit', d: '#/doctor' };
const added: Map<string, () => unknown>[] = [];

/** Keys that hold while the component is there; the last one added wins. */
export function useKeys(keys: Record<string, () => unknown>) {
  useEffect(() => {
    const m = new Map(Object.entries(keys));
    added.push(m);
    return () => { added.splice(added.indexOf(m), 1); };
  });
}

const typing = (e: Element | null) => !!e?.closest('input, textarea, select, [contenteditable=true], .xterm, .cm-editor');
let g = 0;

export function listenKeys() {
  addEventListener('keydown', e => {
    if ((e.ctrlKey || e.metaKey) && !e.shiftKey && e.key.toLowerCase() === 'k') { e.preventDefault(); overlay.value = 'palette'; return; }
    if (e.ctrlKey && e.shiftKey && e.key === 'Escape') { e.preventDefault(); (document.activeElement as HTMLElement | null)?.blur(); document.getElementById('main')?.focus(); return; }
    if (e.ctrlKey || e.metaKey || e.altKey || typing(e.target as Element) || overlay.value || question.value) return;
    const key = e.key.length === 1 ? e.key.toLowerCase() : e.key;
    if (g && Date.now() - g < 900) { g = 0; if (pages[key]) { e.preventDefault(); go(pages[key]!); } return; }
    const act = [...added].reverse().find(m => m.has(key))?.get(key);
    if (act) { if (key === 'Enter' && (e.target as Element).closest('a, button, summary')) return; e.preventDefault(); act(); return; }
    switch (key) {
      case 'g': g = Date.now(); break;
      case 'c': e.preventDefault(); overlay.value = 'create'; break;
      case 't': toggleTheme(); break;
      case '?': overlay.value = 'keys'; break;
      case '/': { const i = document.querySelector<HTMLInputElement>('main input[type=search]'); if (i) { e.preventDefault(); i.focus(); } break; }
    }
  });
}

const groups: [string, [string, string][]][] = [
  ['Anywhere', [['Ctrl K', 'find or run'], ['C', 'new sandbox'], ['/', 'search'], ['T', 'dark or light'], ['?', 'these keys']]],
  ['Go to', [['G O', 'overview'], ['G S', 'sandboxes'], ['G T', 'templates'], ['G J', 'jobs'], ['G K', 'keys'], ['G A', 'audit'], ['G D', 'doctor']]],
  ['List', [['J K', 'move'], ['X', 'select'], ['↵', 'open']]],
  ['Sandbox', [['1 … 7', 'tabs'], ['S', 'snapshot'], ['F', 'fork'], ['U', 'undo'], ['P', 'pause or resume'], ['A', 'allow the newest refusal'], ['↵', 'into the terminal'], ['Ctrl Shift Esc', 'out of it']]],
];
export const Keys = () => {
  const close = () => { overlay.value = ''; };
  return <Dialog id="keys" label="Keys" onClose={close}><div class="dhead"><h2>Keys</h2><span class="right"><Btn kind="quiet icon small" icon="x" label="Close" onClick={close} /></span></div><div class="cols">{groups.map(([name, rows]) => <section key={name}><h3>{name}</h3>{rows.map(([k, what]) => <div key={k}><span>{what}</span><span>{k.split(' ').map(x => <kbd key={x}>{x}</kbd>)}</span></div>)}</section>)}</div></Dialog>;
};
