// SPDX-License-Identifier: Apache-2.0
// Numbers, times and foreign text as people read them. Pure.

const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
export function bytes(n: number): string {
  let i = 0;
  while (n >= 1024 && i < units.length - 1) { n /= 1024; i++; }
  return `${i === 0 || n >= 100 || Number.isInteger(n) ? Math.round(n) : n.toFixed(n < 10 ? 1 : 0)} ${units[i]}`;
}

/** A length of time from milliseconds: 0.84 ms, 310 ms, 6.2 s, 42 min, 1 h 18 min, 9 d 4 h. */
export function span(ms: number): string {
  if (ms < 0) ms = 0;
  if (ms < 10) return `${ms.toFixed(ms < 1 ? 2 : 1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s < 10 ? s.toFixed(1).replace(/\.0$/, '') : Math.round(s)} s`;
  const min = Math.floor(s / 60);
  if (min < 60) return `${min} min`;
  const h = Math.floor(min / 60);
  if (h < 24) return min % 60 ? `${h} h ${min % 60} min` : `${h} h`;
  return h % 24 ? `${Math.floor(h / 24)} d ${h % 24} h` : `${h / 24} d`;
}

/** The next length of time that marks are set by, of which people know the fifths: 90 s, 2 min, 6 h. */
export function even(ms: number): number {
  const unit = ms <= 1000 ? 10 ** Math.floor(Math.log10(Math.max(ms, 0.1))) : ms <= 60000 ? 1000 : ms <= 3600000 ? 60000 : ms <= 86400000 ? 3600000 : 86400000;
  return unit * ([1, 1.5, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60].find(n => unit * n >= ms) ?? Math.ceil(ms / unit));
}

const two = (n: number) => String(n).padStart(2, '0');
export function clock(t: number): string {
  const d = new Date(t);
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}
export function exact(t: number): string {
  const d = new Date(t);
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${clock(t)}`;
}
/** Relative up to a day, then the date; what is still to come by how long that is. */
export function ago(t: number, now: number): string {
  const d = now - t;
  if (d < -2000) return d > -30 * 86400000 ? `in ${span(-d)}` : exact(t).slice(0, 16);
  if (d < 2000) return 'now';
  return d < 86400000 ? `${span(d)} ago` : exact(t).slice(0, 16);
}

/** What others wrote, without anything that changes how text around it looks: controls and direction marks become visible. */
const unseen = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const names: Record<string, string> = { '\n': '\\n', '\t': '\\t', '\r': '\\r', '\x1b': '\\e' };
export function safe(text: unknown, most = 300): string {
  let s = typeof text === 'string' ? text : text == null ? '' : String(text);
  if (s.length > most) s = s.slice(0, most) + '…';
  return s.replace(unseen, c => names[c] ?? (c.charCodeAt(0) < 256 ? `\\x${c.charCodeAt(0).toString(16).padStart(2, '0')}` : `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`));
}

export const plural = (n: number, one: string, many = one + 's') => `${n.toLocaleString('en')} ${n === 1 ? one : many}`;

/** A word for a shell, quoted when it needs to be. */
export const word = (s: string) => (/^[\w@%+=:,./-]+$/.test(s) ? s : `'${s.replace(/'/g, `'\\''`)}'`);

/** "512 MiB", "2g", "1.5 GB" to bytes; NaN when it is none. */
export function size(text: string): number {
  const m = /^\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?\s*$/i.exec(text);
  return m ? Math.round(Number(m[1]) * 1024 ** ' kmgt'.indexOf((m[2] || ' ').toLowerCase())) : NaN;
}
/** "90 s", "10min", "1h" to milliseconds; NaN when it is none. */
export function period(text: string): number {
  const m = /^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)\s*$/i.exec(text);
  const of: Record<string, number> = { ms: 1, s: 1000, m: 60000, min: 60000, h: 3600000, d: 86400000 };
  return m ? Math.round(Number(m[1]) * of[m[2]!.toLowerCase()]!) : NaN;
}
