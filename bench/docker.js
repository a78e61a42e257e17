// SPDX-License-Identifier: Apache-2.0
// docker.js PACKAGES IMAGE FILES ROUNDS: the Docker client of the published Agents SDK beside docker.c, on the same engine. One line of numbers, in ms:
// a command, a read of 1 kB, a sandbox with its first command, one with a manifest of FILES files of 1 kB, 100 MB in and out of a command.
'use strict';
const { createRequire } = require('node:module');
const [packages, image, files, rounds] = process.argv.slice(2);
const load = createRequire(packages + '/');
const { Manifest } = load('@openai/agents/sandbox');
const { DockerSandboxClient } = load('@openai/agents/sandbox/local');
const R = Number(rounds);

const now = () => Number(process.hrtime.bigint()) / 1e6;
async function timed(n, fn) {
  const all = [];
  for (let i = 0; i < n; i++) {
    const t = now();
    await fn();
    all.push(now() - t);
  }
  return all.sort((a, b) => a - b)[all.length >> 1];
}
function entries(n) {
  const top = {};
  for (let d = 0; d < 100; d++) {
    const children = {};
    for (let i = d; i < n; i += 100) children[`f${i}`] = { type: 'file', content: 'x'.repeat(1016) };
    top[`d${d}`] = { type: 'dir', children };
  }
  return top;
}
const end = async (s) => { await (s.delete ? s.delete() : s.close()); };

(async () => {
  const client = new DockerSandboxClient({ image, networkMode: 'none' });
  const small = () => new Manifest({ entries: { 'small.txt': { type: 'file', content: 'x'.repeat(1024) } } });
  const s = await client.create(small());
  const run = (cmd) => s.execCommand({ cmd, yieldTimeMs: 30000 });
  await run('true');
  const exec = await timed(R, () => run('true')), read = await timed(R, () => s.readFile({ path: 'small.txt' }));
  await end(s);
  const create = await timed(Math.max(1, R >> 2), async () => {
    const b = await client.create(new Manifest({}));
    await b.execCommand({ cmd: 'true', yieldTimeMs: 30000 });
    await end(b);
  });
  let many = 0;
  if (Number(files)) {
    const manifest = new Manifest({ entries: entries(Number(files)) }), t = now(), b = await client.create(manifest);
    await b.execCommand({ cmd: 'true', yieldTimeMs: 30000 });
    many = now() - t;
    await end(b);
  }
  console.log(exec, read, create, many);
  process.exit(0);
})().catch((e) => { console.error(e); process.exit(1); });
