// SPDX-License-Identifier: Apache-2.0
// compare.js PACKAGES URL SEEN CAY [times|all]: the same tasks through the SDK's runner with its unix-local client and through `cay agent` on
// provider local. Calls, outputs and workspaces agree, but for what `known` lists; times and all show more.
'use strict';
const { spawnSync } = require('node:child_process');
const { readFileSync } = require('node:fs');
const { createRequire } = require('node:module');
const [packages, url, seen, cay, show] = process.argv.slice(2);
const load = createRequire(packages + '/');
const OpenAI = load('openai');
const { Agent, OpenAIProvider, Runner, hostedMcpTool, setTracingDisabled, webSearchTool } = load('@openai/agents');
const { SandboxAgent, filesystem, shell } = load('@openai/agents/sandbox');
const { UnixLocalSandboxClient } = load('@openai/agents/sandbox/local');
setTracingDisabled(true);

// What differs, why, and how each side says it: [tool, theirs, ours]. docs/sdk-map.md tells the same in words.
const known = [
  // A patch that applied: the SDK says nothing (Responses) or "Patch applied." (Chat Completions); ours names the files, as its Python sister.
  ['apply_patch', /^$|^Patch applied\.$/, /^(Created|Updated|Deleted) [^\n]+$/],
  // One that did not: the same fault, in words that name the file.
  ['apply_patch', /^(Failed to apply patch: )?Invalid Context 0:\nfour$/, /^apply_patch failed: a\.txt: Invalid Context 0: .*four$/],
  ['apply_patch', /ENOENT: No such file or directory$/, /^apply_patch failed: none\.txt: there is no such file to change$/],
  ['apply_patch', /must not escape root\.$/, /^apply_patch failed: \.\.\/out\.txt: the path leaves the workspace$/],
  // Arguments that do not fit: ours tells what is wrong with them.
  ['exec_command', /^An error occurred while parsing tool arguments\. Please try again with valid JSON\.$/, /^An error occurred while parsing tool arguments\. Please try again with valid JSON\. Error: /],
  ['exec_command', /^An error occurred while running the tool\. Please try again\.$/, /valid JSON\. Error: lacks cmd$/],
  // What is left out of a long output: ASCII dots and the empty text behind the last newline as a line, in the JavaScript SDK.
  ['exec_command', /Total output lines: 401\n[^]*\.\.\.\d+ tokens truncated\.\.\./, /Total output lines: 400\n[^]*…\d+ tokens truncated…/],
  ['write_stdin', /write_stdin failed: session not found: 99999999$/, /no process has the session ID N; it ended, or was never started$/],
  // On a busy machine the SDK answers at the exit, before the terminal's last words are read.
  ['write_stdin', /exited with code 9\nOutput:\n(\^C)?$/, /exited with code 9\nOutput:\n\^Cstopped\n$/, 'at times'],
  ['write_stdin', /exited with code 0\nOutput:\n(seven\n)?$/, /exited with code 0\nOutput:\nseven\nthanks\n$/, 'at times'],
];

const LIST = "find . -mindepth 1 -printf '%y %p %l\\n' | LC_ALL=C sort; find . -type f | LC_ALL=C sort | xargs -r sha256sum";
const run = (argv, options) => {
  const p = spawnSync(argv[0], argv.slice(1), { encoding: 'utf8', timeout: 60000, ...options });
  if (p.status !== 0) throw new Error(`${argv.join(' ')}: ${p.status ?? p.error}\n${p.stderr}`);
  return p.stdout;
};

async function theirs(task, useResponses, scene) {
  const openAIClient = new OpenAI({ apiKey: 'sk-test', baseURL: `${url}/${scene}/v1`, maxRetries: 0 });
  const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient, useResponses }) });
  const client = new UnixLocalSandboxClient();
  const session = await client.create({});
  try {
    const agent = new SandboxAgent({ name: 'Worker', model: 'gpt-5.5', instructions: 'Work.', capabilities: [filesystem(), shell()] });
    const result = await runner.run(agent, task, { maxTurns: 30, sandbox: { client, session } });
    const tree = run(['sh', '-c', LIST], { cwd: session.state.workspaceRootPath });
    return { output: result.finalOutput, tree, root: session.state.workspaceRootPath };
  } finally {
    await session.close();
  }
}

function ours(task, api, scene, more = []) {
  const env = { ...process.env, XDG_CONFIG_HOME: '/nonexistent' };
  const args = ['agent', '--provider', 'local', '--keep', '--api', api, '--base-url', `${url}/${scene}/v1`, '--key', 'none', '--model', 'gpt-5.5', ...more, task];
  const output = run([cay, ...args], { env, stdio: ['ignore', 'pipe', 'pipe'] }).trimEnd();
  const id = run([cay, 'ls', '-q', '--provider', 'local'], { env }).trim();
  try {
    return { output, tree: run([cay, 'exec', '--provider', 'local', id, '--', 'sh', '-c', LIST], { env, stdio: ['ignore', 'pipe', 'pipe'] }) };
  } finally {
    run([cay, 'rm', '-f', '--provider', 'local', id], { env });
  }
}

// The last request of a scene; lines that are no objects tell of connections.
const last = (scene) => readFileSync(seen, 'utf8').split('\n').filter((l) => l.startsWith('{')).map((l) => JSON.parse(l)).filter((r) => r.path.startsWith(`/${scene}/`)).at(-1).body;

// What the last request of a run holds of the endpoint's own tools, and how they were defined.
async function hosted() {
  const tides = hostedMcpTool({ serverLabel: 'tides', serverUrl: 'https://tides.example/mcp', requireApproval: 'always', onApproval: async () => ({ approve: true }) });
  const openAIClient = new OpenAI({ apiKey: 'sk-test', baseURL: `${url}/hosted.sdk/v1`, maxRetries: 0 });
  const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient, useResponses: true }) });
  const result = await runner.run(new Agent({ name: 'Pilot', model: 'gpt-5.5', tools: [webSearchTool(), tides] }), 'do it');
  const defined = '{"type":"mcp","server_label":"tides","server_url":"https://tides.example/mcp","require_approval":"always"}';
  const b = ours('do it', 'responses', 'hosted.cay', ['--hosted', 'web_search', '--hosted', defined]);
  const sent = (scene) => {
    const body = last(scene);
    const item = ({ id, type, status, name, arguments: a, server_label, approve, approval_request_id, action }) => ({ id, type, status, name, a, server_label, approve, approval_request_id, query: action?.query });
    const mcp = body.tools.filter((t) => t.type === 'mcp').map(({ server_label, server_url, require_approval }) => ({ server_label, server_url, require_approval }));
    return JSON.stringify({ items: body.input.slice(1).map(item).map((i) => (i.type === 'mcp_approval_response' ? { ...i, id: undefined } : i)), mcp, web: body.tools.some((t) => t.type === 'web_search') });
  };
  const [x, y] = [sent('hosted.sdk'), sent('hosted.cay')];
  return [...(x === y ? [] : [`hosted:\n  SDK:  ${x}\n  cay:  ${y}`]), ...(result.finalOutput === b.output ? [] : [`hosted, answer: ${result.finalOutput} / ${b.output}`])];
}

// What tools were called with and what they answered, as the last request of the run tells it.
function dialogue(scene) {
  const body = last(scene);
  const calls = [], outputs = new Map();
  const text = (v) => (typeof v === 'string' ? v : (v ?? []).map((p) => p.text ?? p.type).join(''));
  for (const m of body.messages ?? []) {
    for (const c of m.tool_calls ?? []) calls.push({ id: c.id, name: c.function.name, args: c.function.arguments });
    if (m.role === 'tool') outputs.set(m.tool_call_id, text(m.content));
  }
  for (const i of body.input ?? []) {
    if (i.type === 'function_call') calls.push({ id: i.call_id, name: i.name, args: i.arguments });
    if (i.type === 'custom_tool_call') calls.push({ id: i.call_id, name: i.name, args: 'a patch' });
    if (i.type === 'apply_patch_call') calls.push({ id: i.call_id, name: 'apply_patch', args: 'a patch' });
    if (/_call_output$/.test(i.type)) outputs.set(i.call_id, text(i.output));
  }
  return calls.map(({ id, name, args }) => ({ name, args: args.replace(/"session_id": ?\d+/, '"session_id": N'), output: normal(outputs.get(id) ?? '(none)') }));
}

// Chances: ids, times, numbers of sessions, where the workspace is.
const normal = (s) => s.replace(/Chunk ID: [0-9a-f]{6}/, 'Chunk ID: X').replace(/Wall time: \d+\.\d{4} seconds/, 'Wall time: T seconds')
  .replace(/session ID \d+/g, 'session ID N').replace(/\r\n/g, '\n');

function judge(scene, a, b) {
  const lines = [], say = (where, x, y) => {
    const told = known.find((k) => k[0] === where && k[1].test(x) && k[2].test(y));
    if (told) told.used = true;
    else lines.push(`${scene}, ${where}:\n  SDK:  ${JSON.stringify(x)}\n  cay:  ${JSON.stringify(y)}`);
  };
  if (a.calls.length !== b.calls.length) say('number of calls', String(a.calls.length), String(b.calls.length));
  a.calls.forEach((c, k) => {
    const d = b.calls[k] ?? {};
    if (c.name !== d.name || c.args !== d.args) say(`call ${k + 1}`, c.name + c.args, d.name + d.args);
    if (c.output !== d.output) say(c.name, c.output, d.output ?? '');
  });
  if (a.output !== b.output) say('answer', a.output, b.output);
  if (a.tree !== b.tree) say('workspace', a.tree, b.tree);
  return lines;
}

(async () => {
  let wrong = [], compared = 0;
  for (const task of ['task-files', 'task-shell', 'task-session', 'task-wrong'])
    for (const api of ['responses', 'chat']) {
      const names = [`${task}.sdk${api}`, `${task}.cay${api}`];
      const begun = Date.now();
      const a = await theirs('do it', api === 'responses', names[0]);
      const middle = Date.now();
      const b = ours('do it', api, names[1]);
      if (show) console.log(task, api, middle - begun, Date.now() - middle);
      a.calls = dialogue(names[0]);
      b.calls = dialogue(names[1]);
      if (show === 'all') console.log(JSON.stringify({ task, api, a, b }, null, 1));
      compared += a.calls.length;
      wrong = wrong.concat(judge(`${task}.${api}`, a, b));
    }
  wrong = wrong.concat(await hosted());
  for (const k of known.filter((d) => !d.used && !d[3])) wrong.push(`no longer differs: ${k[0]} ${k[2]}`);
  console.log(wrong.length ? wrong.join('\n') : `${compared} calls agree, but for ${known.length} known differences`);
  process.exit(wrong.length ? 1 : 0); // its connections would keep it for seconds
})().catch((e) => { console.error(e); process.exit(1); });
