// SPDX-License-Identifier: Apache-2.0
// peer.js PACKAGES URL: the test server is what the published clients take for the real one, streamed and whole, in both APIs, and over a WebSocket.
'use strict';
const assert = require('node:assert/strict');
const { createRequire } = require('node:module');
const load = createRequire(process.argv[2] + '/');
const url = process.argv[3];
const OpenAI = load('openai');
const { ResponsesWS } = load('openai/resources/responses/ws');
const { Agent, OpenAIProvider, Runner, hostedMcpTool, setTracingDisabled, tool, webSearchTool } = load('@openai/agents');
const { z } = load('zod');
setTracingDisabled(true);

let runs = 0;
const client = (scene, more) => new OpenAI({ apiKey: 'sk-test', baseURL: `${url}/${scene}/v1`, maxRetries: 0, ...more });
const fresh = (scene, variant = '') => `${scene}.${++runs}${variant}`;
const parameters = { type: 'object', properties: { town: { type: 'string' } }, required: ['town'], additionalProperties: false };
const weather = { type: 'function', name: 'weather', description: 'The weather of a town.', parameters, strict: true };
const known = { 'Köln €': 'rain', Oslo: 'snow' };
const model = 'gpt-5.5';
// Without what differs from run to run, and what the client adds for its own use.
const plain = (value) => JSON.parse(JSON.stringify(value, (k, v) => (['id', 'call_id', 'parsed', 'parsed_arguments'].includes(k) ? undefined : v)));

// ---------------------------------------------------------------- openai

// Both turns of the dialogue; ask() gives a whole response, however it came.
async function responses(ask) {
  const input = [{ role: 'user', content: 'What is the weather?' }];
  const first = await ask({ model, input, tools: [weather], store: false, include: ['reasoning.encrypted_content'] });
  assert.equal(first.status, 'completed');
  assert.deepEqual(first.output.map((i) => i.type), ['reasoning', 'message', 'function_call', 'function_call']);
  assert.equal(first.output[1].content[0].text, 'Let me see, wörld.');
  assert.deepEqual(first.output.slice(2).map((c) => JSON.parse(c.arguments).town), Object.keys(known));
  assert.equal(new Set(first.output.map((i) => i.id)).size, 4);
  input.push(...first.output);
  for (const c of first.output.slice(2)) {
    const { town } = JSON.parse(c.arguments);
    input.push({ type: 'function_call_output', call_id: c.call_id, output: `${town}: ${known[town]}` });
  }
  const last = await ask({ model, input, tools: [weather], store: false });
  assert.equal(last.output_text ?? last.output[0].content[0].text, 'Rain in Köln, snow in Oslo.');
  assert.deepEqual([last.usage.input_tokens, last.usage.input_tokens_details.cached_tokens, last.usage.total_tokens], [250, 100, 262]);
  return plain(first.output);
}

async function chat(ask) {
  const messages = [{ role: 'user', content: 'What is the weather?' }];
  const { type, ...f } = weather;
  const tools = [{ type, function: f }];
  const first = await ask({ model, messages, tools });
  const said = first.choices[0].message;
  assert.equal(first.choices[0].finish_reason, 'tool_calls');
  assert.equal(said.content, 'Let me see, wörld.');
  assert.deepEqual(said.tool_calls.map((c) => JSON.parse(c.function.arguments).town), Object.keys(known));
  messages.push({ role: 'assistant', content: said.content, tool_calls: said.tool_calls.map(({ id, type: t, function: g }) => ({ id, type: t, function: { name: g.name, arguments: g.arguments } })) });
  for (const c of said.tool_calls) {
    const { town } = JSON.parse(c.function.arguments);
    messages.push({ role: 'tool', tool_call_id: c.id, content: `${town}: ${known[town]}` });
  }
  const last = await ask({ model, messages, tools });
  assert.equal(last.choices[0].message.content, 'Rain in Köln, snow in Oslo.');
  assert.equal(last.usage.total_tokens, 262);
}

async function openai() {
  const a = client(fresh('talk'));
  const whole = await responses((q) => a.responses.create(q));
  for (const variant of ['', '+order', '+slow']) {
    const b = client(fresh('talk', variant));
    assert.deepEqual(await responses((q) => b.responses.stream(q).finalResponse()), whole, `streamed${variant}`);
  }
  const c = client(fresh('talk'));
  await chat((q) => c.chat.completions.create(q));
  for (const variant of ['', '+slow']) { // its helper wants the calls one behind the other
    const d = client(fresh('talk', variant));
    await chat(async (q) => d.chat.completions.stream({ ...q, stream_options: { include_usage: true } }).finalChatCompletion());
  }

  // Every kind of event, numbered; a free-form tool.
  const e = client(fresh('freeform'));
  const custom = { type: 'custom', name: 'note', description: 'Keeps a note.' };
  const seen = [];
  let item;
  for await (const ev of await e.responses.create({ model, input: 'keep it', tools: [custom], stream: true })) {
    assert.equal(ev.sequence_number, seen.length);
    seen.push(ev.type);
    if (ev.type === 'response.output_item.done') item = ev.item;
    if (ev.type === 'response.custom_tool_call_input.done') assert.equal(ev.input, 'a "quoted" line\nand another: €');
  }
  assert.equal(seen[0], 'response.created');
  assert.equal(seen.at(-1), 'response.completed');

  // An answer that the server keeps is gone on with by its id.
  const f = client(fresh('freeform'));
  const kept = await f.responses.create({ model, input: 'keep it', tools: [custom] });
  const outputs = [{ type: 'custom_tool_call_output', call_id: kept.output[0].call_id, output: 'noted' }];
  const on = await f.responses.create({ model, previous_response_id: kept.id, input: outputs, tools: [custom] });
  assert.equal(on.output_text, 'Kept.');
  assert.equal(item.name, 'note');

  const names = [];
  for await (const m of await client('hello').models.list()) names.push(m.id);
  assert.deepEqual([names[0], names.length], ['gpt-5.5', 3]);

  // What the service refuses, and how.
  const bad = (what, call) => assert.rejects(call, what);
  const g = client('hello');
  await bad(OpenAI.BadRequestError, g.responses.create({ model, input: [{ type: 'function_call_output', call_id: 'x', output: '' }] }));
  await bad(OpenAI.BadRequestError, g.responses.create({ model, input: [{ type: 'function_call', call_id: 'x', name: 'y', arguments: '{}' }] }));
  await bad(OpenAI.BadRequestError, g.responses.create({ model, input: 'x', previous_response_id: 'resp_none' }));
  await bad(OpenAI.BadRequestError, g.chat.completions.create({ model, messages: [{ role: 'tool', tool_call_id: 'x', content: '' }] }));
  await bad(OpenAI.AuthenticationError, client('auth').responses.create({ model, input: 'x' }));
  await bad(OpenAI.InternalServerError, client('storm').chat.completions.create({ model, messages: [] }));
  await bad(OpenAI.RateLimitError, client('wait').responses.create({ model, input: 'x' }));
  await assert.rejects(client(fresh('one', '+cut')).responses.create({ model, input: 'x' }), 'a body is cut');
  const half = await client(fresh('one', '+cut')).responses.stream({ model, input: 'x' }).finalResponse(); // which does not mind
  assert.equal(half.status, 'in_progress');
  const patient = await client('busy', { maxRetries: 3 }).responses.create({ model, input: 'x' });
  assert.equal(patient.output_text, 'hello, wörld €');
  await socket(whole);
}

// The same dialogue on one connection of the client's own WebSocket helper; what the service refuses is an event there.
async function socket(whole) {
  for (const variant of ['', '+order']) {
    const ws = new ResponsesWS(client(fresh('talk', variant)));
    const events = ws.stream()[Symbol.asyncIterator](); // one for all turns: a loop that is left would end it
    const ask = async (q) => {
      const seen = [];
      ws.send({ type: 'response.create', ...q });
      for (let ev; (ev = (await events.next()).value);) {
        if (ev.type === 'error') throw ev.error;
        if (ev.type !== 'message') continue;
        assert.equal(ev.message.sequence_number, seen.length);
        seen.push(ev.message.type);
        if (ev.message.type === 'response.completed') return ev.message.response;
      }
      throw new Error('it was closed');
    };
    assert.deepEqual(await responses(ask), whole, `by WebSocket${variant}`);
    await assert.rejects(ask({ model, input: [{ type: 'function_call_output', call_id: 'x', output: '' }] }), /No tool call found/);
    ws.close();
  }
}

// ---------------------------------------------------------------- @openai/agents

globalThis.WebSocket ??= load('ws').WebSocket; // which the SDK's own transport wants

async function overSocket() {
  const asked = [];
  const agent = new Agent({
    name: 'Forecaster', model, instructions: 'Tell the weather.',
    tools: [tool({ name: 'weather', description: 'The weather of a town.', parameters: z.object({ town: z.string() }),
      execute: ({ town }) => { asked.push(town); return `${town}: ${known[town]}`; } })],
  });
  for (const stream of [false, true]) {
    const modelProvider = new OpenAIProvider({ openAIClient: client(fresh('talk')), useResponses: true, useResponsesWebSocket: true });
    const result = await new Runner({ modelProvider }).run(agent, 'What is the weather?', { stream });
    if (stream) await result.completed;
    assert.equal(result.finalOutput, 'Rain in Köln, snow in Oslo.');
    await modelProvider.close();
  }
  assert.deepEqual(asked, [...Object.keys(known), ...Object.keys(known)]);
}

// Tools that the endpoint runs, with an approval in the middle.
async function hosted() {
  for (const stream of [false, true]) {
    const asked = [];
    const tides = hostedMcpTool({ serverLabel: 'tides', serverUrl: 'https://tides.example/mcp', requireApproval: 'always',
      onApproval: async (context, item) => { asked.push(item.rawItem.name); return { approve: true }; } });
    const agent = new Agent({ name: 'Pilot', model, tools: [webSearchTool(), tides] });
    const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: client(fresh('hosted')), useResponses: true }) });
    const result = await runner.run(agent, 'When is high tide?', { stream });
    if (stream) await result.completed;
    assert.equal(result.finalOutput, 'High tide is at seven.');
    assert.equal(asked.length, 1);
  }
}

async function agents() {
  for (const useResponses of [true, false])
    for (const stream of [false, true])
      for (const variant of stream ? ['', '+order'] : ['']) {
        const asked = [];
        const agent = new Agent({
          name: 'Forecaster', model, instructions: 'Tell the weather.',
          tools: [tool({ name: 'weather', description: 'The weather of a town.', parameters: z.object({ town: z.string() }),
            execute: ({ town }) => { asked.push(town); return `${town}: ${known[town]}`; } })],
        });
        const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: client(fresh('talk', variant)), useResponses }) });
        const result = await runner.run(agent, 'What is the weather?', { stream });
        if (stream) await result.completed;
        assert.equal(result.finalOutput, 'Rain in Köln, snow in Oslo.');
        assert.deepEqual(asked, Object.keys(known));
        assert.deepEqual([result.state.usage.requests, result.state.usage.inputTokens, result.state.usage.outputTokens], [2, 350, 19]);
      }
  const lost = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: client(fresh('one', '+cut')), useResponses: true }) });
  await assert.rejects(lost.run(new Agent({ name: 'Lost', model }), 'x'));
}

openai().then(agents).then(overSocket).then(hosted).then(() => { console.log('the published clients are satisfied'); process.exit(0); }, (e) => { console.error(e); process.exit(1); });
