// SPDX-License-Identifier: Apache-2.0
// Which files are open, by sandbox, and what was typed in them and is not saved.
import { signal } from '@preact/signals';
import type { Box } from '../api';

/** Paths that are open, by sandbox; and texts that were changed here and not saved: another file may be looked at meanwhile. */
export const opened = signal<ReadonlyMap<string, string[]>>(new Map()), unsaved = signal<ReadonlyMap<string, { text: string; etag: string; base: string }>>(new Map());
export const keyOf = (b: Box, path: string) => `${b.id} ${path}`;
export const forget = (b: Box, path: string) => { if (unsaved.peek().has(keyOf(b, path))) { const m = new Map(unsaved.peek()); m.delete(keyOf(b, path)); unsaved.value = m; } };
export const show = (b: Box, path: string) => { const l = opened.peek().get(b.id) ?? []; if (path && !l.includes(path)) opened.value = new Map(opened.peek()).set(b.id, [...l, path].slice(-12)); };
/** A file, or all below a directory, has another name now, or none: what is open of it goes along, with what was not saved; or closes. */
export function moved(b: Box, from: string, to?: string) {
  const name = (p: string) => (p === from ? to : p.startsWith(from + '/') ? to && to + p.slice(from.length) : p), drafts = new Map(unsaved.peek());
  for (const [k, v] of unsaved.peek()) { const path = k.slice(b.id.length + 1), now = k.startsWith(b.id + ' ') ? name(path) : path; if (now !== path) { drafts.delete(k); if (now) drafts.set(keyOf(b, now), v); } }
  unsaved.value = drafts;
  opened.value = new Map(opened.peek()).set(b.id, [...new Set((opened.peek().get(b.id) ?? []).map(name).filter((p): p is string => !!p))]);
}
