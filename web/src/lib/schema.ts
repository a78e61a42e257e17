// SPDX-License-Identifier: Apache-2.0
// What a JSON Schema says about a text at a place: what could stand there, and what is wrong. As much of it as the server's own schemas use. Pure.
import { added, rekey, retyped, swap, type Fix } from './fix';
import type { Member, Node, Place } from './jsontext';

export interface Schema { $ref?: string; $defs?: Record<string, Schema>; type?: string | string[]; description?: string; properties?: Record<string, Schema>; required?: string[]; additionalProperties?: boolean | Schema; items?: Schema; enum?: unknown[]; const?: unknown; minimum?: number; oneOf?: Schema[]; anyOf?: Schema[] }
export interface Choice { label: string; detail: string; value: boolean; wants?: string; needed?: boolean }
export interface Asked extends Place { kind: 'key' | 'value'; choices: Choice[] }
export interface Wrong extends Place { message: string; fixes: Fix[] }

/** Keys may come in camelCase. */
const snake = (k: string) => k.replace(/(?!^)[A-Z]/g, c => '_' + c).toLowerCase();
const textOf = (n?: Node) => (n?.kind === 'value' && typeof n.value === 'string' ? n.value : undefined);
const member = (n: Node | undefined, key: string): Member | undefined => (n?.kind === 'object' ? n.members.find(m => snake(m.key) === key) : undefined);
const typeOf = (n: Node): string => (n.kind !== 'value' ? n.kind : n.value === null ? 'null' : typeof n.value === 'number' ? (Number.isInteger(n.value) ? 'integer' : 'number') : typeof n.value);
const types = (s: Schema): string[] => (s.type === undefined ? [] : Array.isArray(s.type) ? s.type : [s.type]);
const spoken = (v: unknown) => (typeof v === 'string' ? v : JSON.stringify(v));

export class Form {
  private text = '';
  constructor(private root: Schema) {}

  /** The schemas that a node may have to fit; a "type" that is told already chooses among kinds. */
  private of(s: Schema, n?: Node): Schema[] {
    for (let i = 0; s.$ref && i < 20; i++) s = this.root.$defs?.[s.$ref.replace('#/$defs/', '')] ?? {};
    const some = s.oneOf ?? s.anyOf;
    if (!some) return [s];
    const all = some.flatMap(x => this.of(x, n)), told = textOf(member(n, 'type')?.value), kind = told === 'inline_file' ? 'file' : told;
    const fit = kind === undefined ? [] : all.filter(x => x.properties?.type?.const === kind);
    return fit.length ? fit : all;
  }
  private below(all: Schema[], key: string): Schema | undefined {
    const k = snake(key);
    for (const s of all) { const p = s.properties?.[k] ?? (typeof s.additionalProperties === 'object' ? s.additionalProperties : undefined); if (p) return p; }
    return undefined;
  }

  /** What could be written at a place. */
  at(n: Node | undefined, pos: number): Asked | undefined {
    return n ? this.walk(n, this.of(this.root, n), pos) : undefined;
  }
  private walk(n: Node, all: Schema[], pos: number): Asked | undefined {
    if (n.kind === 'object') {
      for (const m of n.members) {
        if (pos >= m.from && pos <= m.to) return { kind: 'key', from: m.from, to: m.to, choices: this.keys(n, all, m) };
        const v = m.value, s = this.below(all, m.key);
        if (v && pos >= v.from && pos <= v.to) return v.kind === 'object' || v.kind === 'array' ? (pos > v.from && s ? this.walk(v, this.of(s, v), pos) : undefined) : { kind: 'value', from: v.from, to: v.to, choices: this.values(m.key, all, s) };
        const next = n.members[n.members.indexOf(m) + 1];
        if (m.colon && !v && pos > m.to && pos <= (next?.from ?? n.to)) return { kind: 'value', from: pos, to: pos, choices: this.values(m.key, all, s) };
      }
      return pos > n.from && pos <= n.to ? { kind: 'key', from: pos, to: pos, choices: this.keys(n, all) } : undefined;
    }
    const item = n.kind === 'array' ? n.items.find(i => pos >= i.from && pos <= i.to) : undefined, s = all.find(x => x.items)?.items;
    return item && s && (item.kind === 'object' || item.kind === 'array') && pos > item.from ? this.walk(item, this.of(s, item), pos) : undefined;
  }
  private keys(n: Node, all: Schema[], self?: Member): Choice[] {
    const by = new Map<string, Choice>(), there = new Set(n.kind === 'object' ? n.members.filter(m => m !== self).map(m => snake(m.key)) : []);
    const told = all.length > 1 && all.every(s => s.properties?.type?.const !== undefined); // of kinds nothing but the type is common
    for (const s of all) for (const [k, p] of Object.entries(s.properties ?? {})) {
      if (there.has(k) || by.has(k) || (told && k !== 'type')) continue;
      by.set(k, { label: k, detail: told ? 'which kind of entry' : this.of(p)[0]!.description ?? p.description ?? '', value: self?.colon ?? false, wants: types(this.of(p)[0]!)[0] ?? (p.const !== undefined || p.enum ? 'string' : ''), needed: s.required?.includes(k) });
    }
    return [...by.values()].sort((a, b) => Number(b.needed ?? false) - Number(a.needed ?? false));
  }
  private values(key: string, all: Schema[], s?: Schema): Choice[] {
    const out = new Map<string, Choice>(), add = (v: unknown, detail = '') => { const label = JSON.stringify(v); if (v !== null && !out.has(label)) out.set(label, { label, detail, value: true }); };
    for (const x of all) { const p = x.properties?.[snake(key)]; if (p?.const !== undefined) add(p.const, p.description); }
    for (const p of s ? this.of(s) : []) { for (const v of p.enum ?? []) add(v, p.description); if (types(p).includes('boolean')) { add(true); add(false); } }
    return [...out.values()];
  }

  /** What is wrong with a text that is JSON, and where. */
  check(n: Node | undefined, text: string, most = 20): Wrong[] {
    const out: Wrong[] = [];
    this.text = text;
    if (n) this.judge(n, this.root, n, out);
    return out.slice(0, most);
  }
  private judge(n: Node, schema: Schema, where: Place, out: Wrong[]) {
    const all = this.of(schema, n), type = member(n, 'type');
    if (n.kind === 'broken' || !all.length) return;
    const say = (p: Place, message: string, fixes: Fix[] = []) => out.push({ from: p.from, to: p.to, message, fixes });
    const kinds = all.length > 1 ? all.map(s => s.properties?.type?.const).filter(x => x !== undefined) : [];
    if (kinds.length && n.kind === 'object') {
      if (!type) say(where, 'It has no type; write "type": "file", for instance.', added(n, 'type', 'string', kinds[0]));
      else if (type.value) say(type.value, `Type ${spoken((type.value as { value?: unknown }).value)} is not known; there are ${kinds.map(spoken).join(', ')}.`, swap(type.value, String((type.value as { value?: unknown }).value ?? ''), kinds));
      return;
    }
    if (all.length > 1) {
      const tries = all.map(s => { const w: Wrong[] = []; this.fit(n, s, where, w); return w; }), best = tries.reduce((a, b) => (b.length < a.length ? b : a)), same = all.findIndex(s => types(s).includes(typeOf(n)));
      out.push(...(best.length ? (same >= 0 ? tries[same]! : best) : []));
      return;
    }
    this.fit(n, all[0]!, where, out);
  }
  private fit(n: Node, s: Schema, where: Place, out: Wrong[]) {
    const t = typeOf(n), want = types(s), say = (p: Place, message: string, fixes: Fix[] = []) => out.push({ from: p.from, to: p.to, message, fixes });
    if (want.length && !want.includes(t) && !(t === 'integer' && want.includes('number'))) { say(n, `It is ${want.filter(x => x !== 'null').map(x => (/^[aio]/.test(x) ? 'an ' : 'a ') + x).join(' or ')}, not ${/^[aio]/.test(t) ? 'an' : 'a'} ${t}.`, retyped(n, want)); return; }
    if (n.kind === 'value') {
      if (n.value === null && want.includes('null')) return;
      const allowed = s.const !== undefined ? [s.const] : s.enum;
      if (allowed && !allowed.includes(n.value)) say(n, `It is one of ${allowed.filter(x => x !== null).map(spoken).join(', ')}.`, swap(n, String(n.value), allowed));
      if (s.minimum !== undefined && typeof n.value === 'number' && n.value < s.minimum) say(n, `It is ${s.minimum} or more.`, [{ from: n.from, to: n.to, name: `Write ${s.minimum}`, insert: String(s.minimum) }]);
    } else if (n.kind === 'array') for (const i of n.items) { if (s.items) this.judge(i, s.items, i, out); }
    else if (n.kind === 'object') {
      for (const m of n.members) {
        const p = s.properties?.[snake(m.key)] ?? (typeof s.additionalProperties === 'object' ? s.additionalProperties : undefined);
        if (!p && s.additionalProperties === false) say(m, `“${m.key}” is not known here; there are ${Object.keys(s.properties ?? {}).join(', ')}.`, rekey(this.text, m, Object.keys(s.properties ?? {})));
        else if (p && m.value) this.judge(m.value, p, m, out);
      }
      for (const k of s.required ?? []) if (!member(n, k)) say(where === n ? { from: n.from, to: n.from + 1 } : where, `${k} is missing.`, added(n, k, types(this.of(s.properties?.[k] ?? {})[0] ?? {})[0] ?? 'string'));
    }
  }
}
