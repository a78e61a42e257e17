// SPDX-License-Identifier: Apache-2.0
// Whole runs of the Agents SDK in sandboxes of ours, with a model behind HTTP that says what a script has; and sessions that are taken up again
// from what was serialised.
import { test, before, after } from 'node:test'
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import OpenAI from 'openai'
import { OpenAIProvider, Runner, setTracingDisabled } from '@openai/agents'
import { Manifest, SandboxAgent } from '@openai/agents/sandbox'
import { CloudflareSandboxClient } from '@openai/agents-extensions/sandbox/cloudflare'
import { E2BSandboxClient } from '@openai/agents-extensions/sandbox/e2b'

setTracingDisabled(true)
const clients = { cloudflare: () => new CloudflareSandboxClient({ workerUrl: process.env.CAY_URL, apiKey: process.env.CAY_KEY }), e2b: () => new E2BSandboxClient({}) }
const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64')

// The model: each answer is the next of `script`, given what was sent.
let model, script, seen, n = 0
before(async () => {
  model = createServer(async (q, a) => {
    let body = ''
    for await (const piece of q) body += piece
    const sent = JSON.parse(body), k = n++
    seen.push(sent)
    const output = script.length ? script.shift()(sent, k) : [{ type: 'message', id: `msg_${k}`, role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'nothing is left to say', annotations: [] }] }]
    a.setHeader('content-type', 'application/json')
    a.end(JSON.stringify({ id: `resp_${k}`, object: 'response', created_at: 1, status: 'completed', model: sent.model, output, parallel_tool_calls: false, tools: [], tool_choice: 'auto', usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2, input_tokens_details: { cached_tokens: 0 }, output_tokens_details: { reasoning_tokens: 0 } } }))
  }).listen(0, '127.0.0.1')
  await new Promise(r => model.on('listening', r))
})
after(() => model.close())
const call = (name, args) => (sent, k) => [{ type: 'function_call', id: `fc_${k}`, call_id: `call_${k}`, name, arguments: JSON.stringify(args), status: 'completed' }]
const patch = operation => (sent, k) => sent.tools.some(t => t.type === 'apply_patch') ? [{ type: 'apply_patch_call', id: `apc_${k}`, call_id: `call_${k}`, status: 'completed', operation }] : call('apply_patch', { operation })(sent, k)
const say = text => (sent, k) => [{ type: 'message', id: `msg_${k}`, role: 'assistant', status: 'completed', content: [{ type: 'output_text', text, annotations: [] }] }]
const answers = () => seen.at(-1).input.filter(i => /output$/.test(i.type)).map(i => typeof i.output === 'string' ? i.output : JSON.stringify(i.output))

for (const [name, make] of Object.entries(clients)) {
  test(`${name}: an agent works with its tools`, async () => {
    script = [call('exec_command', { cmd: 'cat notes/a.txt; echo wörld; exit 3' }), patch({ type: 'create_file', path: 'made.txt', diff: '+one\n+two\n' }), patch({ type: 'update_file', path: 'made.txt', diff: '@@\n one\n-two\n+three\n' }),
      call('exec_command', { cmd: 'cat made.txt' }), call('view_image', { path: 'p.png' }), patch({ type: 'delete_file', path: 'made.txt' }), call('exec_command', { cmd: 'ls made.txt' }), say('all done')]
    seen = []
    const client = make(), session = await client.create(new Manifest({ entries: { notes: { type: 'dir', children: { 'a.txt': { type: 'file', content: 'from the manifest\n' } } }, 'p.png': { type: 'file', content: new Uint8Array(png) } } }))
    try {
      const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: new OpenAI({ apiKey: 'k', baseURL: `http://127.0.0.1:${model.address().port}/v1`, maxRetries: 0 }), useResponses: true }) })
      const result = await runner.run(new SandboxAgent({ name: 'A', instructions: 'Work.', model: 'm' }), 'go', { maxTurns: 12, sandbox: { client, session } })
      assert.equal(result.finalOutput, 'all done')
      const said = answers()
      assert.match(said[0], /from the manifest\nwörld/)
      assert.match(said[0], /code 3/)
      assert.match(said[3], /one\nthree/)
      assert.ok(said[4].includes(png.toString('base64')), said[4].slice(0, 200)) // the model sees the very bytes
      assert.match(said[6], /No such file/)
    } finally { await session.delete() }
  })
  test(`${name}: an agent types into a terminal, and stops what runs there`, async () => {
    let text = '', id
    // What the last call gave is added to the text; the model waits for what it wants to see by empty calls, as models do.
    const sees = (want, then) => function step(sent, k) {
      text += answers().at(-1)
      id ??= Number(/session ID (\d+)/.exec(text)?.[1]) || undefined
      if (want.test(text)) return then(sent, k)
      script.unshift(step)
      return call('write_stdin', { session_id: id, chars: '', yield_time_ms: 250 })(sent, k)
    }
    const types = chars => (sent, k) => call('write_stdin', { session_id: id, chars, yield_time_ms: 250 })(sent, k)
    script = [call('exec_command', { cmd: 'test -t 0 && echo "a ter""minal"; read x; echo "g""ot $x"; trap "echo sto""pped; exit 5" INT; echo "wai""ts"; while :; do sleep 0.05; done', tty: true, yield_time_ms: 250 }),
      sees(/a terminal/, types('typed wörld\n')), sees(/got typed wörld[^]*waits/, types('\u0003')), sees(/stopped/, types('exit 6\n')), sees(/exited with code 6/, say('all typed'))] // terminals are a shell's, and outlive the command
    seen = []
    const client = make(), session = await client.create(new Manifest({}))
    try {
      const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: new OpenAI({ apiKey: 'k', baseURL: `http://127.0.0.1:${model.address().port}/v1`, maxRetries: 0 }), useResponses: true }) })
      const result = await runner.run(new SandboxAgent({ name: 'A', instructions: 'Work.', model: 'm' }), 'go', { maxTurns: 200, sandbox: { client, session } })
      assert.equal(result.finalOutput, 'all typed')
      assert.ok(['exec_command', 'write_stdin', 'view_image'].every(n => seen[0].tools.some(t => t.name === n)), JSON.stringify(seen[0].tools.map(t => t.name ?? t.type)))
    } finally { await session.delete() }
  })
  test(`${name}: a session is taken up again from its state`, async t => {
    const client = make(), session = await client.create(new Manifest({ entries: { 'a.txt': { type: 'file', content: 'kept' } } }))
    try {
      await session.execCommand({ cmd: 'echo more > b.txt' })
      const state = JSON.parse(JSON.stringify(await client.serializeSessionState(session.state, { preserveOwnedSession: true })))
      let again
      try {
        again = await client.resume(await client.deserializeSessionState(state))
      } catch (e) {
        if (client.serializedSessionStateRequiresFreshCreation) return t.skip(`the SDK itself refuses: ${e.message}`)
        throw e
      }
      assert.match(await again.execCommand({ cmd: 'cat a.txt b.txt' }), /keptmore/)
    } finally { await session.delete() }
  })
}

// The envelope around a state, as the SDK writes and reads it in what a run leaves behind.
const { deserializeSandboxSessionStateEntry, toSessionStateEnvelope } = await import(new URL('./sandbox/runtime/sessionState.mjs', import.meta.resolve('@openai/agents-core')))
const cay = (words, input) => execFileSync(process.env.CAY_PROGRAM, words, { input, env: { ...process.env, CAY_HOST: '', CAY_API_KEY: '' }, stdio: ['pipe', 'pipe', 'inherit'] }).toString().trim()
test('e2b: a session goes to cay and comes from it, by its envelope', async () => {
  const client = clients.e2b(), session = await client.create(new Manifest({ entries: { 'a.txt': { type: 'file', content: 'sdk' } } }))
  const m = JSON.stringify({ entries: { 'in.txt': { type: 'file', content: 'kept', permissions: 'rw-r-----' }, b: { type: 'file', encoding: 'base64', content: 'AAEC/w==' }, e: { type: 'file', content: 's', ephemeral: true } }, environment: { A_B: '1' } })
  writeFileSync('m.json', m)
  const id = cay(['create', '--manifest', 'm.json'])
  try {
    const its = toSessionStateEnvelope('e2b', session.state, await client.serializeSessionState(session.state))
    assert.equal(JSON.parse(cay(['--json', 'resume', '--state', '-'], JSON.stringify(its))).how, 'alive')
    cay(['exec', id, '--', 'sh', '-c', 'echo made >out.txt'])
    const ours = JSON.parse(cay(['state', '--js', '--snapshot', id])), state = await deserializeSandboxSessionStateEntry(client, { backendId: 'e2b', sessionState: ours }, undefined, {})
    assert.deepEqual(Object.keys(state.manifest.entries).sort(), ['b', 'in.txt'])
    assert.deepEqual([...state.manifest.entries.b.content], [0, 1, 2, 255])
    assert.equal(state.manifest.environment.A_B.value, '1')
    const again = await client.resume(state)
    assert.equal(again.state.sandboxId, id)
    assert.match(await again.execCommand({ cmd: 'cat /workspace/in.txt /workspace/out.txt' }), /keptmade/)
    // what it writes of that one is enough for cay to make it again
    const back = toSessionStateEnvelope('e2b', again.state, await client.serializeSessionState(again.state))
    cay(['rm', '-f', id])
    assert.equal(JSON.parse(cay(['--json', 'resume', '--state', '-', '--manifest', 'm.json'], JSON.stringify(back))).how, 'rebuilt')
    assert.equal(cay(['exec', id, '--', 'cat', 'in.txt', 'out.txt', 'e']), 'keptmade\ns')
  } finally {
    cay(['rm', '-f', id])
    await session.delete()
  }
})
