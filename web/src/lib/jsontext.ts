// SPDX-License-Identifier: Apache-2.0
// JSON as somebody types it: read with the places of its parts, and as far as it makes sense when it is not whole. Pure.

export interface Place { from: number; to: number }
export interface Member extends Place { key: string; colon: boolean; value?: Node } // the place is the key's
export type Node = Place & ({ kind: 'object'; members: Member[] } | { kind: 'array'; items: Node[] } | { kind: 'value'; value: unknown } | { kind: 'broken'; text: string });
const DEPTH = 100;

export function read(text: string): Node | undefined {
  let at = 0;
  const blank = () => { while (at < text.length && /\s/.test(text[at]!)) at++; };
  /** To the closing quote, or to the end of the line when there is none. */
  const quoted = (): { from: number; to: number; text: string; whole: boolean } => {
    const from = at++;
    while (at < text.length && text[at] !== '"' && text[at] !== '\n') at += text[at] === '\\' ? 2 : 1;
    const whole = text[at] === '"';
    at = Math.min(text.length, whole ? at + 1 : at);
    let s = text.slice(from + 1, whole ? at - 1 : at);
    try { s = JSON.parse(`"${s}"`) as string; } catch { /* as it stands */ }
    return { from, to: at, text: s, whole };
  };
  const bare = () => { const from = at; while (at < text.length && !/[\s,:{}[\]"]/.test(text[at]!)) at++; if (at === from) at++; return { from, to: at, text: text.slice(from, at) }; };
  const object = (depth: number): Node => {
    const from = at++, members: Member[] = [];
    for (;;) {
      blank();
      const c = text[at];
      if (c === undefined || c === ']') return { kind: 'object', from, to: at, members };
      if (c === '}') return { kind: 'object', from, to: ++at, members };
      if (c === ',') { at++; continue; }
      const k = c === '"' ? quoted() : bare(), m: Member = { key: k.text, from: k.from, to: k.to, colon: false };
      members.push(m);
      blank();
      if (text[at] !== ':') continue;
      m.colon = true;
      at++;
      blank();
      if (text[at] !== undefined && !/[,}\]]/.test(text[at]!)) m.value = value(depth + 1);
    }
  };
  const array = (depth: number): Node => {
    const from = at++, items: Node[] = [];
    for (;;) {
      blank();
      const c = text[at];
      if (c === undefined || c === '}') return { kind: 'array', from, to: at, items };
      if (c === ']') return { kind: 'array', from, to: ++at, items };
      if (c === ',' || c === ':') { at++; continue; }
      items.push(value(depth + 1));
    }
  };
  const value = (depth: number): Node => {
    const c = text[at];
    if (depth < DEPTH && c === '{') return object(depth);
    if (depth < DEPTH && c === '[') return array(depth);
    if (c === '"') { const q = quoted(); return q.whole ? { kind: 'value', from: q.from, to: q.to, value: q.text } : { kind: 'broken', from: q.from, to: q.to, text: q.text }; }
    const b = bare();
    try { return { kind: 'value', from: b.from, to: b.to, value: JSON.parse(b.text) }; } catch { return { kind: 'broken', ...b }; }
  };
  blank();
  return at < text.length ? value(0) : undefined;
}
