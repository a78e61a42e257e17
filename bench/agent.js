// SPDX-License-Identifier: Apache-2.0
// agent.js PACKAGES URL TURNS RUNS: the dialogues of agent.c through the published SDK; one line of numbers.
'use strict';
const { createRequire } = require('node:module');
const [packages, url, turns, runs] = process.argv.slice(2);
const load = createRequire(packages + '/');
const OpenAI = load('openai');
const { Agent, OpenAIProvider, Runner, Usage, setTracingDisabled, tool } = load('@openai/agents');
const { z } = load('zod');
setTracingDisabled(true);
const N = Number(turns), R = Number(runs);

const message = { type: 'message', role: 'assistant', status: 'completed', content: [{ type: 'output_text', text: 'done' }] };
// Says what the server would, in this process.
class Played {
  constructor(wide) { this.wide = wide; this.at = 0; }
  async getResponse() {
    const k = this.at++;
    const call = (i) => ({ type: 'function_call', callId: `call_${k}_${i}`, name: 'add', arguments: '{"a":1}', status: 'completed' });
    const output = this.wide ? (k ? [message] : Array.from({ length: this.wide }, (_, i) => call(i))) : k < N ? [call(0)] : [message];
    return { usage: new Usage({ requests: 1, inputTokens: 10, outputTokens: 1, totalTokens: 11 }), output, responseId: `resp_${k}` };
  }
}

const add = tool({ name: 'add', description: 'adds', parameters: z.object({ a: z.number() }), execute: () => 'sum 42' });
const agentOf = (model) => new Agent({ name: 'A', instructions: 'Add.', model, tools: [add] });
const cpu = () => { const u = process.cpuUsage(); return u.user + u.system; };

async function measure(make) {
  for (let i = 0; i < Math.min(R, 20); i++) await make(); // until it is compiled
  const c = cpu(), t = process.hrtime.bigint();
  for (let i = 0; i < R; i++) await make();
  return [Number(process.hrtime.bigint() - t) / 1e3 / R, (cpu() - c) / R];
}

(async () => {
  const runner = new Runner();
  const [turnWall, turnCpu] = await measure(() => runner.run(agentOf(new Played(0)), 'go', { maxTurns: N + 2 }));
  const [wideWall] = await measure(() => runner.run(agentOf(new Played(20)), 'go', { maxTurns: 3 }));
  const http = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: new OpenAI({ apiKey: 'k', baseURL: `${url}/turns/${N}/v1`, maxRetries: 0 }), useResponses: true }) });
  const [httpWall, httpCpu] = await measure(() => http.run(agentOf('m'), 'go', { maxTurns: N + 2 }));
  const streamed = new Runner({ modelProvider: new OpenAIProvider({ openAIClient: new OpenAI({ apiKey: 'k', baseURL: `${url}/first/0/v1`, maxRetries: 0 }), useResponses: true }) });
  const first = [];
  for (let i = 0; i < Math.max(R, 10); i++) {
    const result = await streamed.run(agentOf('m'), 'go', { stream: true });
    for await (const ev of result)
      if (ev.type === 'raw_model_stream_event' && ev.data.type === 'output_text_delta') first.push(Number(process.hrtime.bigint() - BigInt(ev.data.delta)) / 1e3);
  }
  first.sort((a, b) => a - b);
  console.log(turnWall / (N + 1), turnCpu / (N + 1), wideWall / 20, httpWall / (N + 1), httpCpu / (N + 1), first[first.length >> 1] ?? 0, process.resourceUsage().maxRSS);
  process.exit(0);
})().catch((e) => { console.error(e); process.exit(1); });
