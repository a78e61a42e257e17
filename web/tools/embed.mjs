// SPDX-License-Identifier: Apache-2.0
// embed.mjs DIST OUT.c OUT.S: the built console as a table for the server; each file by gzip, the page as it is.
import { createHash } from 'node:crypto';
import { readFileSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';

const [dist, outC, outS] = process.argv.slice(2);
const types = { js: 'text/javascript; charset=utf-8', css: 'text/css; charset=utf-8', svg: 'image/svg+xml', html: 'text/html; charset=utf-8' };
const keep = (path, data) => { writeFileSync(`${path}.${process.pid}`, data); renameSync(`${path}.${process.pid}`, path); };

const rows = [], parts = [];
const add = (name, data, type) => {
  const n = rows.length, etag = createHash('sha256').update(data).digest('hex').slice(0, 24), path = join(dist, `packed-${n}`);
  keep(path, data);
  parts.push(`    .global cay__console_${n}, cay__console_${n}_end\ncay__console_${n}:\n    .incbin "${path}"\ncay__console_${n}_end:\n`);
  rows.push({ n, row: `    { "${name}", "${type}", "\\"${etag}\\"", cay__console_${n}, cay__console_${n}_end },` });
};

add('', readFileSync(join(dist, 'index.html')), types.html);
for (const name of readdirSync(join(dist, 'assets')).sort()) {
  const type = types[name.split('.').pop()];
  if (!type || !/^[\w.-]+$/.test(name)) throw new Error(`${name}: what is this?`);
  add(name, gzipSync(readFileSync(join(dist, 'assets', name)), { level: 9 }), type);
}
keep(outS, `    .section .rodata\n    .balign 16\n${parts.join('')}    .section .note.GNU-stack,"",@progbits\n`);
keep(outC, `#include <server/console.h>\n${rows.map(r => `extern const unsigned char cay__console_${r.n}[], cay__console_${r.n}_end[];`).join('\n')}\n` +
  `const cay__console_file cay__console_files[] = {\n${rows.map(r => r.row).join('\n')}\n    { 0 },\n};\n`);
