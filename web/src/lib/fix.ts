// SPDX-License-Identifier: Apache-2.0
// Another text for a place that is wrong, with a name for the button that puts it there. Pure.
import type { Member, Node, Place } from './jsontext';

export interface Fix extends Place { name: string; insert: string }

/** How many letters have to be changed, added or taken out to make one word of another. */
export function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let k = 1; k <= b.length; k++) next[k] = Math.min(row[k]! + 1, next[k - 1]! + 1, row[k - 1]! + (a[i - 1] === b[k - 1] ? 0 : 1));
    row = next;
  }
  return row[b.length]!;
}
/** The word that was meant, when one is near enough. */
export function nearest(word: string, all: string[]): string | undefined {
  const w = word.toLowerCase(), by = all.map(x => ({ x, d: x.toLowerCase().startsWith(w) && w.length > 1 ? 1 : distance(w, x.toLowerCase()) })).sort((p, q) => p.d - q.d)[0];
  return by && by.d <= Math.max(1, Math.floor(Math.max(word.length, by.x.length) / 2)) ? by.x : undefined;
}

/** Another value of a few. */
export const swap = (at: Place, value: string, all: unknown[]): Fix[] => {
  const words = all.filter((x): x is string => typeof x === 'string'), near = nearest(value, words) ?? words[0], pick = near ?? all.find(x => x !== null);
  return pick === undefined ? [] : [{ ...at, name: `Write ${JSON.stringify(pick)}`, insert: JSON.stringify(pick) }];
};
/** A key that is not known: the one that was meant, or none. */
export function rekey(text: string, m: Member, all: string[]): Fix[] {
  const near = nearest(m.key, all);
  return [...(near ? [{ from: m.from, to: m.to, name: `Call it “${near}”`, insert: JSON.stringify(near) }] : []), { ...without(text, m), name: 'Take it out', insert: '' }];
}
/** A member with its value and the comma that goes with it. */
function without(text: string, m: Member): Place {
  let from = m.from, to = m.value?.to ?? m.to;
  const after = /^\s*,/.exec(text.slice(to)), before = /,\s*$/.exec(text.slice(0, from));
  if (after) to += after[0].length; else if (before) from -= before[0].length;
  return { from, to };
}
const blank: Record<string, string> = { string: '""', object: '{}', array: '[]', boolean: 'true', integer: '1', number: '1' };
/** A member that is missing, at the end of its object. */
export function added(n: Node, key: string, type: string, value?: unknown): Fix[] {
  if (n.kind !== 'object') return [];
  const last = n.members.at(-1), at = last ? last.value?.to ?? last.to : n.from + 1, text = `${JSON.stringify(key)}: ${value === undefined ? blank[type] ?? '""' : JSON.stringify(value)}`;
  return [{ from: at, to: at, name: `Add ${key}`, insert: last ? `, ${text}` : ` ${text} ` }];
}
/** The same value as another type, where that is plain. */
export function retyped(n: Node, want: string[]): Fix[] {
  if (n.kind !== 'value') return want.includes('object') && n.kind === 'array' && !n.items.length ? [{ from: n.from, to: n.to, name: 'Write {}', insert: '{}' }] : [];
  const v = n.value, to: string[] = [];
  if (want.includes('string') && v !== null) to.push(JSON.stringify(String(v)));
  if (want.includes('boolean') && /^(true|yes|1)$/i.test(String(v))) to.push('true');
  if (want.includes('boolean') && /^(false|no|0)$/i.test(String(v))) to.push('false');
  if ((want.includes('integer') || want.includes('number')) && typeof v === 'string' && /^-?\d+$/.test(v)) to.push(v);
  if (want.includes('array') && v !== null) to.push(`[${JSON.stringify(v)}]`);
  return to.slice(0, 1).map(x => ({ from: n.from, to: n.to, name: `Write ${x.length < 24 ? x : 'it so'}`, insert: x }));
}

/** What most often breaks JSON, and how it is whole again: tried until the text parses. */
export function mended(text: string): Fix | undefined {
  const tries: [string, RegExp, string][] = [['Take the last comma out', /,(\s*[}\]])/, '$1'], ['Use double quotes', /'([^'"\n]*)'/, '"$1"'], ['Put the name in quotes', /([{,]\s*)([A-Za-z_]\w*)(\s*:)/, '$1"$2"$3'], ['Put a comma between', /(["}\]0-9el])(\s*\n\s*")/, '$1,$2']];
  for (const [name, what, by] of tries) {
    const all = new RegExp(what.source, 'g'), next = text.replace(all, by);
    if (next !== text && parses(next)) return { from: 0, to: text.length, name, insert: next };
  }
  const open = unclosed(text);
  return open && parses(text + open) ? { from: text.length, to: text.length, name: `Close it with ${open}`, insert: open } : undefined;
}
const parses = (s: string) => { try { JSON.parse(s); return true; } catch { return false; } };
function unclosed(text: string): string {
  const open: string[] = [];
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i]!;
    if (quoted) { if (c === '\\') i++; else if (c === '"') quoted = false; }
    else if (c === '"') quoted = true;
    else if (c === '{') open.push('}');
    else if (c === '[') open.push(']');
    else if (c === '}' || c === ']') open.pop();
  }
  return (quoted ? '"' : '') + open.reverse().join('');
}
/** A path of an entry that may not be: the same below the workspace. */
export function inside(text: string, at: Place, entry: string): Fix[] {
  const parts = entry.split('/').filter(p => p && p !== '.' && p !== '..'), good = parts.join('/');
  return good && good !== entry && text.slice(at.from, at.to) === JSON.stringify(entry) ? [{ ...at, name: `Call it “${good.slice(0, 40)}”`, insert: JSON.stringify(good) }] : [];
}
