// SPDX-License-Identifier: Apache-2.0
// types.mjs < openapi.json > src/api.gen.ts: the server's shapes as types. `make test` compares; tools/console-types writes it anew.
import { readFileSync } from 'node:fs';

const doc = JSON.parse(readFileSync(0, 'utf8'));
const ref = s => s.$ref.split('/').pop();

function type(s) {
  if (!s || s === true) return 'unknown';
  if (s.$ref) return ref(s);
  if ('const' in s) return JSON.stringify(s.const);
  if (s.enum) return s.enum.map(v => JSON.stringify(v)).join(' | ');
  for (const k of ['oneOf', 'anyOf']) if (s[k]) return s[k].map(type).join(' | ');
  if (Array.isArray(s.type)) return s.type.map(t => type({ ...s, type: t })).join(' | ');
  switch (s.type) {
    case 'string': return 'string';
    case 'integer': case 'number': return 'number';
    case 'boolean': return 'boolean';
    case 'null': return 'null';
    case 'array': { const t = type(s.items); return /[|]/.test(t) ? `(${t})[]` : `${t}[]`; }
    case 'object': return s.additionalProperties ? `Record<string, ${type(s.additionalProperties)}>` : s.properties ? body(s) : 'Record<string, unknown>';
  }
  return 'unknown';
}

function body(s) {
  const need = new Set(s.required || []);
  const rows = Object.entries(s.properties || {}).map(([k, v]) => `  ${/^\w+$/.test(k) ? k : JSON.stringify(k)}${need.has(k) ? '' : '?'}: ${type(v)};${v.description ? ` // ${v.description}` : ''}`);
  return `{\n${rows.join('\n')}\n}`;
}

const out = ['// Made by web/tools/types.mjs from /api/v1/openapi.json: do not edit.', ''];
for (const [name, s] of Object.entries(doc.components.schemas)) {
  if (s.description) out.push(`/** ${s.description} */`);
  out.push(s.properties ? `export interface ${name} ${body(s)}` : `export type ${name} = ${type(s)};`, '');
}
process.stdout.write(out.join('\n'));
