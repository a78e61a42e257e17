// SPDX-License-Identifier: Apache-2.0
// Charts by the published SDK, from matplotlib inside the sandbox, with ipykernel.
import { test, before, after } from 'node:test'
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { Sandbox } from '@e2b/code-interpreter'

const libs = ['x86_64', 'aarch64'].flatMap(m => ['blas', 'lapack'].map(l => `/usr/lib/${m}-linux-gnu/${l}`)).join(':') // Debian's alternatives, which borrowed packages have not
let box
before(async () => {
  box = await Sandbox.create({ timeoutMs: 170_000, envs: { LD_LIBRARY_PATH: libs, MATPLOTLIBRC: '/home/user/matplotlibrc' } })
  await box.files.write('matplotlibrc', readFileSync(`${process.env.BORROWED}/etc/matplotlibrc`, 'utf8'))
})
after(async () => { await box?.kill() })
const draw = async code => {
  const r = await box.runCode(`import matplotlib.pyplot as plt\n${code}`, { timeoutMs: 120_000 })
  assert.equal(r.error, undefined, r.error?.traceback)
  const [one] = r.results.slice(-1)
  assert.ok(one.png.startsWith('iVBOR')) // a PNG
  return one
}
test('it is ipykernel behind it', async () => {
  assert.equal((await box.runCode('get_ipython().__class__.__mro__[1].__name__', { timeoutMs: 120_000 })).text, 'ZMQInteractiveShell')
})
test('a line, with its labels, units, ticks and points', async () => {
  const { chart, formats } = await draw('plt.plot([1, 2, 3], [4, 5, 7], label="l"); plt.title("t"); plt.xlabel("time (s)"); plt.ylabel("y"); plt.show()').then(r => ({ chart: r.chart, formats: r.formats() }))
  assert.deepEqual([chart.type, chart.title, chart.x_label, chart.x_unit, chart.x_scale, chart.elements], ['line', 't', 'time (s)', 's', 'linear', [{ label: 'l', points: [[1, 4], [2, 5], [3, 7]] }]])
  assert.equal(chart.x_ticks.length, chart.x_tick_labels.length)
  assert.ok(formats.includes('png'), formats.join())
})
test('the other kinds', async () => {
  const of = async code => (await draw(`${code}; plt.show()`)).chart
  const scatter = await of('plt.scatter([1, 2], [3, 4], label="s")'), bar = await of('plt.bar(["a", "b"], [3, 4], label="g")'), pie = await of('plt.pie([1, 3], labels=["a", "b"])'),
    box_ = await of('plt.boxplot([[1, 2, 3, 4, 5, 99]], labels=["b"])'), several = await of('f, (a, b) = plt.subplots(1, 2); a.plot([1, 2]); b.bar(["x"], [1])')
  assert.deepEqual([scatter.type, scatter.elements[0].points], ['scatter', [[1, 3], [2, 4]]])
  assert.deepEqual([bar.type, bar.elements], ['bar', [{ label: 'a', group: 'g', value: 3 }, { label: 'b', group: 'g', value: 4 }]])
  assert.deepEqual([pie.type, pie.elements.map(e => Math.round(e.angle))], ['pie', [90, 270]])
  assert.deepEqual([box_.type, box_.elements[0].median, box_.elements[0].outliers], ['box_and_whisker', 3.5, [99]])
  assert.deepEqual([several.type, several.elements.map(e => e.type)], ['superchart', ['line', 'bar']])
})
