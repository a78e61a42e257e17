// SPDX-License-Identifier: Apache-2.0
// A manifest while it is written: completed and marked by the server's schema, then judged by the server itself, as when it is sent.
import type { Completion, CompletionContext, CompletionResult } from '@codemirror/autocomplete';
import type { Diagnostic } from '@codemirror/lint';
import type { EditorView } from '@codemirror/view';
import { Failed, get, post } from '../api';
import { safe } from '../lib/format';
import { inside, mended, type Fix } from '../lib/fix';
import { read } from '../lib/jsontext';
import { Form, type Choice, type Schema } from '../lib/schema';

let coming: Promise<Form | null> | undefined;
/** Asked for once; without it the server's judgement is left. */
const form = () => (coming ??= get<Schema>('/manifest/schema').then(s => new Form(s), () => { coming = undefined; return null; }));

const empty: Record<string, string> = { string: '""', object: '{}', array: '[]', boolean: 'true', integer: '1' };
/** What is put in: a key brings its colon and an empty value of its type along, with the caret in it. */
function put(c: Choice): Completion['apply'] {
  if (c.value) return c.label.startsWith('"') || /^(true|false|[0-9])/.test(c.label) ? c.label : `"${c.label}"`;
  const v = empty[c.wants ?? ''] ?? '', text = `"${c.label}": ${v}`, back = v.length === 2 ? 1 : 0;
  return (view: EditorView, _c: Completion, from: number, to: number) => view.dispatch({ changes: { from, to, insert: text }, selection: { anchor: from + text.length - back }, userEvent: 'input.complete' });
}
export async function completions(c: CompletionContext): Promise<CompletionResult | null> {
  const f = await form(), text = c.state.doc.toString(), at = f?.at(read(text), c.pos);
  if (!at?.choices.length || (at.from === at.to && !c.explicit)) return null;
  return { from: at.from, to: at.to, filter: true, options: at.choices.map((x, i): Completion => ({ label: at.kind === 'key' ? `"${x.label}"` : x.label, displayLabel: x.label.replace(/^"|"$/g, ''), detail: safe(x.detail, 80), type: at.kind === 'key' ? 'property' : 'constant', boost: (x.needed ? 50 : 0) - i / 10, apply: put(x) })) };
}

/** Where it breaks only we know; what the schema can say is marked in its place; all else the server judges. */
export async function lint(text: string): Promise<Diagnostic[]> {
  if (!text.trim()) return [];
  const here = (from: number, n: number, message: string, fixes: Fix[] = []): Diagnostic => { const p = Math.max(0, Math.min(text.length - 1, from)); return { from: p, to: Math.min(text.length, p + Math.max(1, n)), severity: 'error', message: safe(message, 400), actions: fixes.map(f => ({ name: safe(f.name, 60), apply: view => view.dispatch({ changes: { from: f.from, to: f.to, insert: f.insert }, userEvent: 'input.fix' }) })) }; };
  let m: unknown;
  try { m = JSON.parse(text); } catch (e) {
    const said = (e as Error).message, at = /position (\d+)/.exec(said), line = /line (\d+) column (\d+)/.exec(said), fix = mended(text);
    return [here(at ? Number(at[1]) : line ? text.split('\n').slice(0, Number(line[1]) - 1).join('\n').length + Number(line[2]) : text.length - 1, 1, said, fix ? [fix] : [])];
  }
  const wrong = (await form())?.check(read(text), text) ?? [];
  if (wrong.length) return wrong.map(w => here(w.from, w.to - w.from, w.message, w.fixes));
  try { await post('/manifest/check', m); } catch (e) {
    if (!(e instanceof Failed) || e.status !== 400) return []; // it says nothing about the text
    const entry = String(e.info?.entry ?? ''), [at, n] = place(text, entry);
    return [here(at, n, e.message, inside(text, { from: at, to: at + n }, entry))];
  }
  return [];
}
/** Where the entry is that was refused, or its last part when it is a child. */
export function place(text: string, entry: string): [number, number] {
  for (const word of [entry, entry.split('/').pop() ?? '']) {
    const quoted = JSON.stringify(word), at = word ? text.indexOf(quoted) : -1;
    if (at >= 0) return [at, quoted.length];
  }
  return [0, 1];
}
