// SPDX-License-Identifier: Apache-2.0
// kernel.js CODE_FD SAID_FD MARK: what node runs for src/helper/interpreter/host.c. Code comes as {"code","env","typescript"} with a zero byte behind it; results and
// errors go out so, {"type":"end"} last, after the mark on both streams. node's own REPL evaluates: names stay, await works at the top.
'use strict'
const fs = require('node:fs'), net = require('node:net'), repl = require('node:repl'), util = require('node:util'), { PassThrough, Writable } = require('node:stream')
const [codeFd, saidFd, mark] = [Number(process.argv[2]), Number(process.argv[3]), process.argv[4]]
const KINDS = { 'text/html': 'html', 'text/markdown': 'markdown', 'image/svg+xml': 'svg', 'image/png': 'png', 'image/jpeg': 'jpeg', 'application/pdf': 'pdf', 'text/latex': 'latex', 'application/json': 'json', 'application/javascript': 'javascript', 'text/plain': 'text' }
const say = event => {
  for (let left = Buffer.from(JSON.stringify(event) + '\0'); left.length;) left = left.subarray(fs.writeSync(saidFd, left))
}
const r = repl.start({ prompt: '', input: new PassThrough(), output: new Writable({ write(c, e, cb) { process.stderr.write(c); cb() } }), terminal: false, useColors: false, useGlobal: true, breakEvalOnSigint: true })
r.on('exit', () => process.exit(0))

async function result(value, main) {
  const event = { type: 'result', is_main_result: main, extra: null, data: null, chart: null }
  for (const kind of Object.values(KINDS)) event[kind] = null
  const display = value?.[Symbol.for('Jupyter.display')]
  if (typeof display === 'function') {
    for (const [mime, data] of Object.entries(await display.call(value))) {
      if (KINDS[mime]) event[KINDS[mime]] = data
      else event.extra = { ...event.extra, [mime]: data }
    }
  }
  event.text ??= typeof value === 'string' ? value : util.inspect(value)
  say(event)
}
global.display = async value => { await result(value, false) }

const strip = code => {
  const { stripTypeScriptTypes } = require('node:module')
  if (!stripTypeScriptTypes) throw new Error(`typescript needs node 22.13 or later; this is ${process.version}`)
  return stripTypeScriptTypes(code)
}
let interrupt = null
// What is thrown goes to the REPL's domain, not to who asked; later, when nobody asks any more, it is only told.
r._domain.removeAllListeners('error')
r._domain.on('error', e => { if (interrupt) interrupt(e); else process.stderr.write(`Uncaught ${util.inspect(e)}\n`) })
// While code runs without waiting, node itself interrupts it, which takes nobody else listening for the signal; while it waits, we do.
const stop = () => interrupt?.(Object.assign(new Error('execution was interrupted'), { name: 'Interrupted' }))
process.on('SIGINT', stop)

async function evaluate(code) {
  process.off('SIGINT', stop)
  await new Promise(setImmediate)
  const value = new Promise((done, fail) => {
    interrupt = fail
    r.eval(code + '\n', r.context, 'cell', (err, value) => err ? fail(err.err ?? err) : done(value))
  })
  process.on('SIGINT', stop)
  return value
}
async function run({ code, env, typescript }) {
  const before = { ...process.env }
  Object.assign(process.env, env)
  try {
    const value = await evaluate(typescript ? strip(code) : code)
    if (value !== undefined) await result(value, true)
  } catch (e) {
    const known = e !== null && typeof e === 'object' && 'stack' in e
    say({ type: 'error', name: known ? String(e.name) : 'Error', value: known ? String(e.message) : util.inspect(e), traceback: known ? String(e.stack) : util.inspect(e) })
  }
  interrupt = null
  for (const k of Object.keys(env)) if (k in before) process.env[k] = before[k]; else delete process.env[k]
  await new Promise(done => process.stdout.write(`\x1e${mark}\x1e`, done))
  await new Promise(done => process.stderr.write(`\x1e${mark}\x1e`, done))
  say({ type: 'end' })
}
let held = Buffer.alloc(0), queue = Promise.resolve()
// By the loop: a thread that waits in read() would keep process.exit() from ending.
new net.Socket({ fd: codeFd, readable: true, writable: false }).on('data', data => {
  held = Buffer.concat([held, data])
  for (let at; (at = held.indexOf(0)) >= 0; held = held.subarray(at + 1)) {
    const request = JSON.parse(held.subarray(0, at).toString())
    queue = queue.then(() => run(request))
  }
}).on('end', () => process.exit(0))
