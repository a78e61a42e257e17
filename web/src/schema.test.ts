// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import test from 'node:test';
import { distance, inside, mended, nearest } from './lib/fix';
import { read } from './lib/jsontext';
import { Form, type Schema } from './lib/schema';

const text = { type: ['string', 'null'], description: 'some text' };
const schema: Schema = {
  type: 'object', additionalProperties: false,
  properties: { version: { type: 'integer', enum: [1] }, sudo: { type: 'boolean' }, users: { type: 'array', items: { anyOf: [{ type: 'string' }, { type: 'object' }] } }, entries: { type: 'object', additionalProperties: { $ref: '#/$defs/entry' } } },
  $defs: { entry: { oneOf: [
    { type: 'object', required: ['type'], additionalProperties: false, properties: { type: { const: 'file', description: 'a file' }, content: text, max_bytes: { type: 'integer', minimum: 1 } } },
    { type: 'object', required: ['type'], additionalProperties: false, properties: { type: { const: 'dir', description: 'a directory' }, children: { type: 'object', additionalProperties: { $ref: '#/$defs/entry' } } } },
    { type: 'object', required: ['type', 'url'], additionalProperties: false, properties: { type: { const: 'remote' }, url: text, format: { type: 'string', enum: ['tar', 'zip'] } } },
  ] } },
};
const form = new Form(schema);
/** What is offered where the bar stands. */
const offered = (s: string) => { const pos = s.indexOf('|'), a = form.at(read(s.replace('|', '')), pos); return a && [a.kind, s.slice(a.from, pos) + s.slice(pos + 1, a.to + 1), a.choices.map(c => c.label).join(' ')]; };
/** The text after the first fix of the first thing that is wrong. */
const fixed = (s: string) => { const f = form.check(read(s), s)[0]?.fixes[0]; return f && `${f.name}: ${s.slice(0, f.from)}${f.insert}${s.slice(f.to)}`; };
const wrong = (s: string) => form.check(read(s), s).map(w => `${s.slice(w.from, w.to)}: ${w.message}`);

test('what is offered in a manifest that is being written', () => {
  assert.deepEqual(offered('{ "|" }'), ['key', '""', 'version sudo users entries']);
  assert.deepEqual(offered('{ en| }'), ['key', 'en', 'version sudo users entries']);
  assert.deepEqual(offered('{ "sudo": | }'), ['value', '', 'true false']);
  assert.deepEqual(offered('{ "sudo": true, | }'), ['key', '', 'version users entries']);
  assert.deepEqual(offered('{ "entries": { "a": { "|" } } }'), ['key', '""', 'type']);
  assert.deepEqual(offered('{ "entries": { "a": { "type": "|" } } }'), ['value', '""', '"file" "dir" "remote"']);
  assert.deepEqual(offered('{ "entries": { "a": { "type": "remote", "|'), ['key', '"', 'url format']);
  assert.deepEqual(offered('{ "entries": { "a": { "type": "remote", "format": "|" } } }'), ['value', '""', '"tar" "zip"']);
  assert.deepEqual(offered('{ "entries": { "d": { "type": "dir", "children": { "b": { "type": "file", "con|": "x" } } } } }'), ['key', '"con"', 'content max_bytes']);
  assert.equal(offered('{ "entries": { "|" } }')?.[2], ''); // names of files are the writer's own
  assert.equal(offered('|'), undefined);
});

test('what is wrong is told in its place', () => {
  assert.deepEqual(wrong('{ "entries": { "a": { "type": "file", "content": "x" } }, "users": ["u", { "name": "v" }], "version": 1 }'), []);
  assert.deepEqual(wrong('{ "entrys": {} }'), ['"entrys": “entrys” is not known here; there are version, sudo, users, entries.']);
  assert.deepEqual(wrong('{ "entries": { "a": { "type": "fiel" } } }'), ['"fiel": Type fiel is not known; there are file, dir, remote.']);
  assert.deepEqual(wrong('{ "entries": { "a": {} } }'), ['"a": It has no type; write "type": "file", for instance.']);
  assert.deepEqual(wrong('{ "entries": { "a": { "type": "remote" } } }'), ['"a": url is missing.']);
  assert.deepEqual(wrong('{ "sudo": 1, "version": 2 }'), ['1: It is a boolean, not an integer.', '2: It is one of 1.']);
  assert.deepEqual(wrong('{ "entries": { "a": { "type": "file", "maxBytes": 0, "content": null } } }'), ['0: It is 1 or more.']);
  assert.deepEqual(wrong('{ "users": [3] }'), ['3: It is a string, not an integer.']);
});

test('whatever is typed is read to its end', () => {
  for (const s of ['', ' ', '{', '[', '"', '{"', '{"a', '{"a"', '{"a":', '{"a":}', '{:', '{]', '[}', '{"a":[{"b":', '}}', ',', '{"a" "b"}', '{"\\u12"', '{,,}', '[1,,2', '\\', '{"a":\\']) read(s);
  const n = read('{ "a\\u0041": [1, "two\\n", nul, { "b" }'); // not closed
  assert.equal(n?.kind, 'object');
  if (n?.kind !== 'object') return;
  assert.deepEqual([n.members[0]!.key, n.members[0]!.value?.kind === 'array' && n.members[0]!.value.items.map(i => i.kind)], ['aA', ['value', 'value', 'broken', 'object']]);
  read('['.repeat(100000)); // and never too deep
});

test('what is wrong can be mended by one press', () => {
  assert.deepEqual([distance('fiel', 'file'), nearest('contnet', ['type', 'content']), nearest('zzz', ['type', 'content'])], [2, 'content', undefined]);
  assert.equal(fixed('{ "entrys": {} }'), 'Call it “entries”: { "entries": {} }');
  assert.equal(fixed('{ "entries": { "a": { "type": "fiel" } } }'), 'Write "file": { "entries": { "a": { "type": "file" } } }');
  assert.equal(fixed('{ "entries": { "a": {} } }'), 'Add type: { "entries": { "a": { "type": "file" } } }');
  assert.equal(fixed('{ "entries": { "a": { "type": "remote" } } }'), 'Add url: { "entries": { "a": { "type": "remote", "url": "" } } }');
  assert.equal(fixed('{ "version": "1" }'), 'Write 1: { "version": 1 }');
  assert.equal(fixed('{ "sudo": "yes" }'), 'Write true: { "sudo": true }');
  assert.equal(fixed('{ "entries": { "a": { "type": "file", "maxBytes": 0 } } }'), 'Write 1: { "entries": { "a": { "type": "file", "maxBytes": 1 } } }');
  const out = (s: string) => { const f = form.check(read(s), s)[0]!.fixes.at(-1)!; return s.slice(0, f.from) + f.insert + s.slice(f.to); };
  assert.equal(out('{ "sudo": true, "qqqqqq": [1, 2] }'), '{ "sudo": true }');
  assert.equal(out('{ "qqqqqq": 1, "sudo": true }'), '{  "sudo": true }');
});
test('JSON that is almost one becomes one', () => {
  const m = (s: string) => { const f = mended(s); return f && s.slice(0, f.from) + f.insert + s.slice(f.to); };
  assert.equal(m('{ "a": 1, }'), '{ "a": 1 }');
  assert.equal(m("{ 'a': 'b' }"), '{ "a": "b" }');
  assert.equal(m('{ a: 1, b_c: { d: 2 } }'), '{ "a": 1, "b_c": { "d": 2 } }');
  assert.equal(m('{ "a": 1\n  "b": 2 }'), '{ "a": 1,\n  "b": 2 }');
  assert.equal(m('{ "a": [1, {"b": "c'), '{ "a": [1, {"b": "c"}]}');
  assert.equal(m('{ "a": nonsense'), undefined);
  const t = '{"entries":{"../out":{}}}', at = t.indexOf('"../out"');
  assert.deepEqual(inside(t, { from: at, to: at + 8 }, '../out').map(f => [f.name, f.insert]), [['Call it “out”', '"out"']]);
  assert.deepEqual(inside(t, { from: 0, to: 1 }, '../..'), []);
});
