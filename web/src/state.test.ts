// SPDX-License-Identifier: Apache-2.0
import assert from 'node:assert/strict';
import test from 'node:test';
import type { Box, NetRecord, Process, Snapshot } from './api';
import { asker, backoff, bestDrop, command as command_, counts, cutBy, diffLines, effect, fuzzy, keptBy, lifted, lineage, manifestDone, matches, refusals, remedy, ruleFor, sides, tally, timeline, tree, why, withBoxes, withHoles, type Tint } from './state';
import { buildLog, buildRemedy, buildSteps } from './lib/build';
import { ago, bytes, even, period, safe, size, span, word } from './lib/format';
import { coast, radii } from './lib/islet';
import { oneByOne, order } from './lib/order';
import { place, type Place } from './lib/place';
import { OutLines, plainText } from './lib/output';
import { href, parse } from './lib/router';
import { called, chosen, limitsOf, loose, outside, settingsOf } from './lib/settings';
import { Events, type Message } from './lib/sse';

const box = (id: string, more: Partial<Box> = {}) => ({ id, name: '', state: 'running', reason: '', template: 'host', tenant: 'default', labels: {}, created_ms: 1, from: '', ...more }) as Box;
const snap = (id: string, sandbox: string, parent = '', t = 1) => ({ id, sandbox, parent, label: id, created_ms: t, total_us: 1000, method: 'swap' }) as Snapshot;
const map = <X extends { id: string }>(...x: X[]) => new Map(x.map(i => [i.id, i]));

test('numbers are written as people read them', () => {
  assert.deepEqual([0, 1023, 1536, 1 << 20, 24 * 2 ** 30, 10.4 * 2 ** 30].map(bytes), ['0 B', '1023 B', '1.5 KiB', '1 MiB', '24 GiB', '10 GiB']);
  assert.deepEqual([0.84, 2.1, 310, 6200, 45000, 2520000, 4680000, 86400000 * 9 + 4 * 3600000, -5].map(span), ['0.84 ms', '2.1 ms', '310 ms', '6.2 s', '45 s', '42 min', '1 h 18 min', '9 d 4 h', '0.00 ms']);
  assert.equal(ago(1000, 1500), 'now');
  assert.equal(ago(0, 120000), '2 min ago');
  assert.deepEqual([ago(7 * 86400000, 0), ago(90 * 86400000, 0).slice(0, 5)], ['in 7 d', '1970-']);
  assert.deepEqual(['512 MiB', '2g', '1.5 GB', '1024', 'x', '-1'].map(size), [536870912, 2147483648, 1610612736, 1024, NaN, NaN]);
  assert.deepEqual(['90 s', '10min', '2h', '1d', '5', 'soon'].map(period), [90000, 600000, 7200000, 86400000, NaN, NaN]);
  assert.deepEqual(['a', "it's", '$(id)'].map(word), ['a', "'it'\\''s'", "'$(id)'"]);
});

test('an answer that is older than the end of a sandbox does not bring it back', () => {
  const all = map(box('a'), box('b')), ids = (m: ReadonlyMap<string, Box>) => [...m.keys()].sort().join();
  assert.equal(ids(withBoxes(all, ['b', 'c'], [box('c')], new Set())), 'a,c');
  assert.equal(ids(withBoxes(all, ['b'], [box('b', { state: 'deleting' })], new Set(['b']))), 'a');
  assert.equal(withBoxes(all, [], [box('a', { state: 'paused' })], new Set()).get('a')!.state, 'paused');
});

test('foreign text shows what cannot be seen, and is cut', () => {
  assert.equal(safe('a\x1b]52;c;x\x07b'), 'a\\e]52;c;x\\x07b');
  assert.equal(safe('\u202egpj.exe\u2066\u200b'), '\\u202egpj.exe\\u2066\\u200b');
  assert.equal(safe('\x9b31m\x00\n\t'), '\\x9b31m\\x00\\n\\t');
  assert.equal(safe('<img src=x onerror=alert(1)>'), '<img src=x onerror=alert(1)>'); // text stays text: nobody makes markup of it
  assert.equal(safe('x'.repeat(1000), 10), 'x'.repeat(10) + '…');
  assert.equal(safe(undefined), '');
});

test('an islet is always the same, and a fork resembles its parent', () => {
  assert.equal(coast(['cabc'], 0, 0, 10), coast(['cabc'], 0, 0, 10));
  assert.notEqual(coast(['cabc'], 0, 0, 10), coast(['cabd'], 0, 0, 10));
  const a = radii(['cabc']), b = radii(['cabc', 'cfork']);
  const same = a.filter((v, i) => v === b[i]).length;
  assert.ok(same >= 7 && same < 9, `${same} of 9 points are the same`);
  assert.ok([...a, ...b].every(v => v >= 0.5 && v <= 1));
});

test('an address holds the view', () => {
  assert.deepEqual(parse('#/sandbox/cabc/network?q=a%20b').path, ['sandbox', 'cabc', 'network']);
  assert.equal(parse(href(['sandbox', 'a/b'], { file: '/x y&z', none: null })).path[1], 'a/b');
  assert.equal(parse(href(['sandbox', 'a'], { file: '/x y&z=?' })).query.get('file'), '/x y&z=?');
  assert.deepEqual(parse('').path, []);
  assert.deepEqual(parse('#/%zz').path, ['%zz']);
});

test('events are put together from any pieces', () => {
  const got: Message[] = [], text = ': hello\nid: 1.2\nevent: exit\ndata: {"a":\ndata: 1}\n\nevent: lost\r\ndata: x\r\n\r\ndata: plain\n\n';
  for (let n = 1; n < 9; n++) {
    got.length = 0;
    const e = new Events(m => got.push(m));
    for (let i = 0; i < text.length; i += n) e.push(text.slice(i, i + n));
    assert.deepEqual(got, [{ id: '1.2', event: 'exit', data: '{"a":\n1}' }, { id: '1.2', event: 'lost', data: 'x' }, { id: '1.2', event: 'message', data: 'plain' }]);
  }
});

test('what an event changes', () => {
  assert.deepEqual(['created', 'paused', 'removed', 'lost', 'exec', 'net'].map(kind => effect({ kind, sandbox: 'c' })), ['ask', 'ask', 'gone', 'all', 'none', 'none']);
  assert.equal(effect({ kind: 'progress', sandbox: '' }), 'none'); // ten a second: nothing is asked for again
  assert.deepEqual(['policy', 'connect'].map(event => effect({ kind: 'net', sandbox: 'c', net: { event } })), ['ask', 'none']);
  assert.deepEqual([0, 1, 2, 3, 4, 9].map(backoff), [1000, 2000, 4000, 8000, 15000, 15000]);
});

test('what a template leaves to choose, and what is asked for of it', () => {
  const t = { name: 'codex:latest', names: ['codex:latest', 'c'], config: { settings: { permissions: { default: 'ask', description: 'bypass: it asks nobody', choices: { ask: {}, bypass: {} } }, model: { texts: {} }, odd: 7 } } }, all = settingsOf(t);
  assert.deepEqual(all, [{ name: 'permissions', about: 'bypass: it asks nobody', choices: ['ask', 'bypass'], initial: 'ask' }, { name: 'model', about: '', choices: [], initial: '' }, { name: 'odd', about: '', choices: [], initial: '' }]);
  assert.deepEqual(limitsOf({ config: { limits: { memory: 256 * 2 ** 20, cpu_milli: 500, disk: '1G' } } }), { cpu: '0.5', memory: '256 MiB', disk: '10 GiB' });
  assert.deepEqual([limitsOf(undefined), limitsOf({ config: { limits: [1] } })], Array(2).fill({ cpu: '2', memory: '2 GiB', disk: '10 GiB' }));
  assert.deepEqual([settingsOf(undefined), settingsOf({ name: 'host' }), settingsOf({ config: { settings: ['a'] } })], [[], [], []]);
  assert.deepEqual(chosen(all, {}), []);
  assert.deepEqual(chosen(all, { permissions: 'ask', model: ' gpt-5 ', gone: 'x' }), [['model', 'gpt-5']]); // not the default, and not what another template had
  assert.deepEqual(chosen(all, { permissions: 'bypass' }), [['permissions', 'bypass']]);
  assert.equal('a b"$c:/@'.replace(outside, ''), 'abc:/@');
  assert.deepEqual(['codex', 'codex:latest', 'c', 'code'].map(n => called(t, n)), [true, true, true, false]);
  assert.deepEqual([loose({}), loose({ settings: { permissions: 'bypass', model: 'bypassing' } })], [[], [['permissions', 'bypass']]]);
});

test('how far a manifest is', () => {
  const at = (e: object) => manifestDone({ kind: 'progress', ...e } as never);
  assert.deepEqual(at({ entries: 3, entries_total: 40 }), { text: '3 of 40 entries', part: 3 / 40 });
  assert.deepEqual(at({ entries: 0, entries_total: 1, bytes: 1 << 20, bytes_total: 4 << 20 }), { text: '0 of 1 entry, 1 MiB of 4 MiB', part: 0.25 });
  assert.equal(at({}).part, 0);
});

test('marks are set where people expect them', () => {
  assert.deepEqual([7, 81000, 61000, 59000, 400000, 3599999, 5000000, 86400000 * 3.2].map(even), [8, 90000, 90000, 60000, 480000, 3600000, 5400000, 86400000 * 4]);
  for (let ms = 0.2; ms < 1e10; ms *= 1.37) assert.ok(even(ms) >= ms && even(ms) <= ms * 2, String(ms));
});

test('search takes words and keys', () => {
  const b = box('cabcdef', { name: 'Fix-Flaky', state: 'paused', network: 'all', labels: { team: 'sea' } });
  for (const q of ['', 'flaky', 'cabc', 'state:paused', 'state:pau template:ho', 'label:team=sea', 'network:all', 'fix state:paused']) assert.ok(matches(b, q), q);
  for (const q of ['other', 'state:running', 'template:base', 'network:off', 'label:team=land', 'flaky state:failed']) assert.ok(!matches(b, q), q);
  assert.ok(matches(box('c', { state: 'stopped', reason: 'oom' }), 'state:failed'));
  assert.ok(fuzzy('fix-flaky-tests', 'flaky') < fuzzy('fix-flaky-tests', 'fft'));
  assert.equal(fuzzy('abc', 'x'), -1);
});

test('a search that finds nothing tells which word to drop', () => {
  const all = [box('ca', { name: 'reef', state: 'failed' as Box['state'] }), box('cb', { name: 'reef', template: 'cloud' }), box('cc', { name: 'bay', template: 'cloud' })], run = (b: Box) => b.state === 'running';
  assert.deepEqual(bestDrop(all, 'bay template:host', '', () => true), { drop: 'template:host', q: 'bay', state: '', n: 1 });
  assert.deepEqual(bestDrop(all, 'bay', 'paused', () => false), { drop: 'state paused', q: 'bay', state: '', n: 1 });
  assert.equal(bestDrop(all, 'nothing', '', run), undefined);
});
test('families follow from the snapshots that sandboxes stand on', () => {
  const snaps = map(snap('s1', 'ca'), snap('s2', 'ca', 's1', 2), snap('s3', 'cb', 's2', 3)), boxes = map(box('ca', { from: 's2' }), box('cb', { from: 's3' }), box('cc', { from: 's3' }), box('cd'));
  assert.deepEqual(lineage('cb', boxes, snaps), ['ca', 'cb']);
  assert.deepEqual(lineage('cc', boxes, snaps), ['ca', 'cb', 'cc']);
  assert.deepEqual(lineage('cd', boxes, snaps), ['cd']);
  const loop = map(snap('s1', 'ca', 's2'), snap('s2', 'cb', 's1'));
  assert.ok(lineage('ca', map(box('ca', { from: 's2' }), box('cb', { from: 's1' })), loop).length <= 3); // a circle ends
});

test('the tree has a lane for each sandbox and sets apart what was undone', () => {
  const snaps = map(snap('s1', 'ca', '', 1), snap('s2', 'ca', 's1', 2), snap('s3', 'ca', 's1', 3), snap('s4', 'cb', 's1', 4)), boxes = map(box('ca', { from: 's3' }), box('cb', { from: 's4', created_ms: 5 }));
  const t = tree('ca', boxes, snaps), of = (id: string) => t.pebbles.find(p => p.snap.id === id)!;
  assert.deepEqual(t.pebbles.map(p => [p.snap.id, p.undone]), [['s1', false], ['s2', true], ['s3', false], ['s4', false]]);
  assert.notEqual(of('s4').lane, of('s3').lane);
  assert.notEqual(of('s2').lane, of('s3').lane);
  assert.deepEqual(t.edges.filter(e => e.undone).map(e => e.to), ['s2']);
  assert.deepEqual(t.ends.map(e => [e.box.id, e.from]).sort(), [['ca', 's3'], ['cb', 's4']]);
  assert.equal(t.template, 'host');
  assert.deepEqual(t.edges.filter(e => e.from === '').map(e => e.to), ['s1']); // what stands on nothing else stands on the template
  const given = tree('ca', boxes, snaps, 'even', true).edges; // or on what a manifest put on top of it
  assert.deepEqual([given.filter(e => e.from === '').map(e => e.to), given.filter(e => e.from === '+').map(e => e.to)], [['+'], ['s1']]);
});
test('both streams of a command are lines in the order of their times', () => {
  const o = new OutLines(), text = () => o.lines.map(l => `${l.t}${l.err ? '!' : ' '}${OutLines.shown(l)}`);
  o.add(false, 'one\ntw', 10);
  o.add(false, 'o\nthree\n', 30); // two began before it was whole
  o.add(true, 'oops\n', 20);
  assert.deepEqual(text(), ['10 one', '10 two', '20!oops', '30 three']);
  assert.deepEqual([o.at(15), o.at(30), o.at(99), new OutLines().at(1)], [2, 3, 3, -1]);
  const bar = new OutLines();
  bar.add(false, '10 %\r20 %');
  bar.add(false, '\r30 %\r\ndone\r\n');
  assert.deepEqual(bar.lines.map(OutLines.shown), ['30 %', 'done']); // written over, as a terminal would
  assert.equal(bar.timed, false);
  for (let i = 0; i < 4000; i++) bar.add(false, `${i}\n`, i + 1);
  assert.deepEqual([bar.lines.length, bar.dropped, bar.lines.at(-1)!.text], [3000, 1002, '3999']);
  const cut = new OutLines();
  cut.add(false, 'red \x1b[3');
  cut.add(false, '1mword\x1b[0m \u202ereversed\n'); // a colour that came in two pieces
  assert.deepEqual(cut.lines.map(OutLines.shown), ['red word \\u202ereversed']);
  assert.equal(plainText('a\x1b]52;c;aGFja2Vk\x07b\x07'), 'ab\\x07');
});
test('each side of a hunk is coloured by itself, and its colours find their lines again', () => {
  const lines = diffLines('@@ -1,3 +1,3 @@ f\n same\n-old "x\n+new 1\n end\n@@ -9 +9 @@\n-gone'), all = sides(lines), word = (s: string): Tint[] => [...s.matchAll(/\w+/g)].map(m => [m.index, m.index + m[0].length, m[0]]);
  assert.deepEqual(all.map(s => s.text), ['same\nold "x\nend', 'same\nnew 1\nend', 'gone']);
  assert.deepEqual(all[0]!.spread(word(all[0]!.text)).map(([l, t]) => [l.text, t]), [['same', [[0, 4, 'same']]], ['old "x', [[0, 3, 'old'], [5, 6, 'x']]], ['end', [[0, 3, 'end']]]]);
  assert.deepEqual(all[0]!.spread([[2, 9, 'c']]).map(([, t]) => t), [[[2, 4, 'c']], [[0, 4, 'c']], []]); // over the end of a line
  assert.deepEqual(cutBy('a new 1', [[2, 5, 'k'], [6, 7, 'n']]), [['a ', ''], ['new', 'k'], [' ', ''], ['1', 'n']]);
  assert.deepEqual(cutBy('', []), []);
});

test('refusals are gathered by destination', () => {
  const r = (t: number, name: string, port: number | undefined, event = 'tcp', reason = 'default_deny'): NetRecord => ({ t, event, verdict: 'deny', name, port, reason });
  const got = refusals([r(1, 'a.test', 443), r(2, 'a.test', 443), r(3, 'b.test', undefined, 'dns'), { ...r(4, 'c.test', 1), verdict: 'allow' }], 'ca');
  assert.deepEqual(got.map(x => [x.key, x.times]), [['b.test:0', 1], ['a.test:443', 2]]);
  assert.deepEqual([ruleFor({ name: 'a.test', port: 443 }), ruleFor({ name: 'a.test', port: 5432 }), ruleFor({ name: 'a.test', port: 0 }, true)], ['a.test', 'a.test:5432', '**.a.test']);
  assert.deepEqual(['default_deny', 'off', 'tenant_deny', 'operator_deny', 'blocked_range', 'own_address', 'tls_ech', 'http_no_host', 'policy_changed', 'new_word'].filter(lifted), ['default_deny', 'off']);
  assert.deepEqual([remedy('operator_deny'), remedy('tenant_deny'), remedy('tls_ech')], ['operator only', 'see its rules', 'no rule helps']);
  assert.match(why('new_word'), /new word/);
  assert.match(why('default_deny'), /No rule/);
});

test('the timeline hangs refusals under the command that ran then', () => {
  const p = (id: string, started_ms: number, code = 0) => ({ id, command: id, started_ms, state: 'ended', exit: { code, signal: 0 } }) as Process;
  const spans = timeline({ procs: [p('p1', 1000), p('p2', 5000, 1)], snaps: [snap('s1', 'ca', '', 3000)], audit: [], net: [{ t: 1200, event: 'tcp', verdict: 'deny', name: 'x.test', port: 443 }, { t: 1300, event: 'tcp', verdict: 'deny', name: 'x.test', port: 443 }], ends: new Map([['p1', 2000], ['p2', 5600]]), now: 9000 });
  assert.deepEqual(spans.map(s => [s.id.slice(0, 2), s.depth, s.took]), [['p1', 0, 1000], ['n1', 1, 100], ['s1', 0, 1], ['p2', 0, 600]]);
  assert.equal(spans[1]!.note, '2 times');
  assert.ok(spans[3]!.bad);
});
test('a snapshot hangs under the command that ran when it was taken, and a refusal has who could have asked', () => {
  const proc = (id: string, t: number, more: Partial<Process> = {}) => ({ id, started_ms: t, state: 'ended', command: id, pid: 0, tty: false, ...more }) as Process, ends = new Map([['p1', 900], ['p2', 300]]);
  const procs = [proc('p0', 0, { tty: true, state: 'running' }), proc('p1', 100), proc('p2', 200)];
  const rows = timeline({ procs, snaps: [snap('s1', 'c', '', 500), snap('s2', 'c', '', 2000)], audit: [], net: [], ends, now: 5000 });
  assert.deepEqual(rows.map(r => [r.id, r.depth]), [['p0', 0], ['p1', 0], ['s1', 1], ['p2', 0], ['s2', 0]]);
  assert.deepEqual([250, 700, 4000, -500].map(t => asker(t, procs, ends, 5000)?.id), ['p2', 'p1', 'p0', undefined]);
});
test('what a command reached hangs under it, with how much', () => {
  const p = { id: 'p1', command: 'curl', started_ms: 1000, state: 'ended', exit: { code: 0, signal: 0 } } as Process, r = (t: number, event: string, more: Partial<NetRecord> = {}): NetRecord => ({ t, event, verdict: 'allow', name: 'a.test', port: 443, ...more });
  const spans = timeline({ procs: [p], snaps: [], audit: [], net: [r(1100, 'dns'), r(1110, 'connect'), r(1400, 'end', { up: 100, down: 924, ms: 300 }), r(1600, 'end', { up: 0, down: 1024, ms: 100 }), r(9000, 'connect', { name: 'b.test', port: 80 })], ends: new Map([['p1', 2000]]), now: 9000 });
  assert.deepEqual(spans.map(s => [s.label, s.depth, s.start, s.took, s.note, s.bad]), [['curl', 0, 1000, 1000, 'ended with 0', false], ['reached a.test:443', 1, 1100, 500, '2 times, 2 KiB', false], ['reached b.test:80', 0, 9000, 1, '', false]]);
});

test('a patch becomes numbered lines', () => {
  const patch = 'diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@ def f():\n a\n-b\n+c\n d\n\\ No newline at end of file\n';
  assert.deepEqual(diffLines(patch).map(l => [l.kind, l.old, l.new, l.text]), [['@', 0, 0, 'def f():'], [' ', 1, 1, 'a'], ['-', 2, 0, 'b'], ['+', 0, 2, 'c'], [' ', 3, 3, 'd']]);
  assert.deepEqual(counts(patch), [1, 1]);
  assert.deepEqual(diffLines('--- nothing'), []);
});

const said = (event: string, d: object, id = '') => ({ id, event, data: JSON.stringify(d) });
test('the log of a build goes on where it broke', () => {
  const say = (text: string) => said('out', { text });
  let l = [said('step', { step: 1, steps: 2, cached: true, text: 'FROM host' }), say('a\n'), said('at', {}, '7'), say('b\nc\n'), { id: '7', event: 'out', data: '{' }, said('other', {})].reduce((x, e) => buildLog(x, e), buildLog());
  assert.deepEqual(l.lines.map(x => x.text), ['FROM host', 'a', 'b', 'c']);
  l = buildLog(l);
  assert.deepEqual([l.lines.map(x => x.text), l.after], [['FROM host', 'a'], '7']);
  for (let i = 0; i < 4000; i++) l = buildLog(l, say(`${i}`));
  assert.deepEqual([l.lines.length, l.dropped, l.lines[0]!.text, l.lines[1]!.text], [3000, 1002, 'FROM host', '1001']); // the steps stay
  assert.deepEqual(buildLog(l).lines.map(x => x.text), ['FROM host']); // all else that is left came after the mark
  assert.equal(buildLog(l, said('end', { state: 'failed', error: 'why' })).end?.error, 'why');
});
test('a build is rows of steps, the failed one with its first error and what helps', () => {
  const events = [said('note', { time_ms: 5, text: 'from templates' }), said('step', { step: 1, steps: 3, cached: true, time_ms: 10, text: 'FROM host' }), said('step', { step: 2, steps: 3, time_ms: 20, text: 'RUN make' }), said('out', { step: 2, time_ms: 30, text: 'fine' }), said('err', { step: 2, time_ms: 40, text: 'E: Temporary failure resolving deb.test' })];
  const on = events.reduce((x, e) => buildLog(x, e), buildLog()), brief = (l: typeof on, end = 0) => buildSteps(l, end, 100).map(s => [s.n, s.text, s.state, s.cached, s.took, s.lines.length, s.error]);
  assert.deepEqual(brief(on), [[0, '', 'done', false, 5, 1, -1], [1, 'FROM host', 'done', true, 10, 0, -1], [2, 'RUN make', 'running', false, 80, 2, -1]]);
  const off = buildLog(on, said('end', { state: 'failed', error: 'step 2 ended with 100' }));
  assert.deepEqual(brief(off, 70)[2], [2, 'RUN make', 'failed', false, 50, 2, 1]);
  assert.match(buildRemedy(buildSteps(off, 70, 100)[2], '').cmd, /--net/);
  assert.match(buildRemedy(undefined, 'it ended with 1').cmd, /--keep-failed/);
  assert.deepEqual(brief(buildLog(on, said('end', { state: 'ready' })), 70)[2]!.slice(2, 5), ['done', false, 50]);
});

test('plots of the past have holes, and counts by the minute', () => {
  const p = (time_ms: number) => ({ time_ms, cpu_milli: 1, memory: 2, disk: 3 });
  assert.deepEqual(withHoles([p(0), p(15), p(100), p(115)], 60).times, [0, 15, 16, 100, 115]);
  assert.deepEqual(withHoles([p(0), p(15), p(100)], 60).at.map(x => x?.time_ms ?? null), [0, 15, null, 100]);
  assert.deepEqual(withHoles([], 60), { times: [], at: [] });
  assert.deepEqual(tally([-1, 0, 9, 10, 99, 100], 0, 100, 10), [2, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
});

test('files are ordered as people count, directories first, and ten thousand of them at once', () => {
  const f = (path: string, type = 'file') => ({ path, type });
  assert.deepEqual(order([f('a10'), f('b', 'directory'), f('a2'), f('A1'), f('a01')]).map(x => x.path), ['b', 'A1', 'a01', 'a2', 'a10']);
  const many = Array.from({ length: 10000 }, (_, i) => f(`file-${(i * 7919) % 10000}`));
  assert.deepEqual(order(many).slice(9998).map(x => x.path), ['file-9998', 'file-9999']);
});

test('who asks while an answer is on its way is served by one more', async () => {
  let asked = 0, answer: () => void = () => undefined;
  const ask = oneByOne((_: string) => { asked++; return new Promise<void>(r => { answer = r; }); });
  const first = ask('a');
  for (let i = 0; i < 100; i++) void ask('a');
  assert.equal(asked, 1);
  answer();
  await new Promise(r => setTimeout(r));
  assert.equal(asked, 2);
  answer();
  await first;
  void ask('a');
  assert.equal(asked, 3);
});

test('an islet stays where it is when others come and go', () => {
  const some = Array.from({ length: 12 }, (_, i) => box(`c${i}`, { created_ms: i })), size = () => 12, at = (p: Place[]) => new Map(p.map(x => [x.box.id, `${x.x} ${x.y}`]));
  let all = map(...some), known = map<Snapshot>(), now = place(all, known, 860, 326, size);
  assert.deepEqual(at(place(all, known, 860, 326, size)), at(now)); // by ids alone, as long as nothing is remembered
  const stays = (what: string, H = 326) => { const next = place(all, known, 860, H, size, now), before = at(now), after = at(next); for (const [id, xy] of after) assert.ok(!before.has(id) || before.get(id) === xy, `${what} moved ${id}`); assert.equal(next.length, all.size); now = next; };
  all = map(...some, box('cnew', { created_ms: 20 }));
  stays('one more');
  known = map(snap('sfork', 'c3'));
  all = map(...all.values(), box('cfork', { created_ms: 30, from: 'sfork' }));
  stays('a fork');
  const [a, b] = ['c3', 'cfork'].map(id => now.find(p => p.box.id === id)!);
  assert.ok(Math.hypot(a!.x - b!.x, a!.y - b!.y) < 200, 'a fork is beside what it came from');
  stays('a lower chart', 320);
  all = new Map([...all].filter(([id]) => id !== 'c5'));
  stays('one less');
  for (const p of now) for (const q of now) assert.ok(p === q || Math.hypot(p.x - q.x, (p.y - q.y) * 1.2) > p.R + q.R, `${p.box.id} over ${q.box.id}`);
});

test('a command that was kept in part says so', () => {
  const p = (state: string, command: string) => command_({ state, command } as Process);
  assert.deepEqual([p('ended', 'ls'), p('ended', 'x'.repeat(63)), p('running', 'x'.repeat(63))], ['ls', 'x'.repeat(63) + '…', 'x'.repeat(63)]);
});

test('a snapshot that was forgotten leaves those below it on the line', () => {
  const all = map(snap('s1', 'a', '', 1), snap('s2', 'a', 's1', 2));
  assert.deepEqual([...keptBy(box('a', { from: 'forgotten' }), all)].sort(), ['s1', 's2']);
  assert.deepEqual([...keptBy(box('a', { from: 's1' }), all)], ['s1']);
  assert.deepEqual([...keptBy(box('a'), all)], []);
});
