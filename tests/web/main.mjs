// SPDX-License-Identifier: Apache-2.0
// What somebody does at the console in their first minutes, and what must never happen there.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { escapes } from './escapes.mjs';
import { keyboard } from './keyboard.mjs';
import { kept } from './kept.mjs';
import { later } from './later.mjs';
import { many } from './many.mjs';
import { narrow, pages } from './pages.mjs';
import { paint } from './paint.mjs';
import { phone } from './phone.mjs';
import { again, equal, launch, open, Server, settled, shots, shows, step, terminal, truth, type, until, verdict } from './lib.mjs';

/** The browser says aloud that a request was refused: that, and no other error, was meant. */
const refused = wrong => wrong.splice(0, wrong.length, ...wrong.filter(w => !/status of 400/.test(w)));
const s = new Server();
await s.start();
const browser = await launch();
let code = 1;
try { code = await main(); } finally { await browser.close(); await s.end(); }
process.exit(code);

async function main() {
  const link = s.link(), { page, wrong } = await open(browser, link);
  let id = '', forked = '';
  const go = async hash => { await page.evaluate(h => { location.hash = h; }, hash); };
  const api = (method, path, body) => page.evaluate(async ([m, p, b]) => { const { csrf } = await (await fetch('/console/session')).json(); const a = await fetch('/api/v1' + p, { method: m, headers: { 'X-Cay-Csrf': csrf, ...(b ? { 'Content-Type': 'application/json' } : {}) }, body: b ? JSON.stringify(b) : undefined }); return a.status === 204 ? null : a.json(); }, [method, path, body]);
  const button = name => page.getByRole('button', { name });

  await step('the link logs in once, and is gone from the address', page, async () => {
    await page.locator('.app').waitFor();
    truth(!page.url().includes('in='), page.url());
    await page.getByText('Your first islet').waitFor();
    const again = await open(browser, link);
    await again.page.getByText('That did not open it').waitFor();
    await again.ctx.close();
  });
  if (!await page.locator('.app').count()) return verdict();

  await step('a sandbox is made by keyboard alone', page, async () => {
    await page.locator('#main').focus();
    await page.keyboard.press('c');
    await page.locator('#create').waitFor();
    await page.keyboard.type('reef');
    await page.keyboard.press('Enter');
    await page.locator('.sbhead h1').getByText('reef').waitFor();
    id = page.url().match(/sandbox\/(c[a-z2-7]{19})/)[1];
  });
  await step('typing in a terminal', page, async () => {
    await shows(page, '$');
    await type(page, 'echo sum $((6*7)) > a.txt; cat a.txt');
    await shows(page, 'sum 42');
  });
  await step('a full-screen program', page, async () => {
    const screen = async () => (await terminal(page).allInnerTexts()).join('\n').replace(/\u00a0/g, ' ');
    await type(page, 'htop');
    await until('it fills the screen', async () => /F1Help/.test(await screen()) && /PID/.test(await screen()));
    await page.keyboard.press('F1'); // what a terminal sends for a key beyond letters
    await until('its help', async () => /Released under the GNU/.test(await screen()));
    await page.keyboard.press('Escape');
    await until('it is back', async () => /F1Help/.test(await screen()));
    await page.screenshot({ path: join(shots, 'full-screen.png') });
    await page.keyboard.press('q');
    // What is typed while such a program ends is thrown away by it: the shell has to be there first.
    await until('the shell is back', async () => !/F1Help/.test(await screen()) && /\$\s*$/.test((await screen()).trimEnd()));
    await type(page, 'clear; echo ba""ck');
    await shows(page, 'back');
  });
  await step('a file is edited and saved', page, async () => {
    await page.getByRole('treeitem', { name: /^a\.txt/ }).click();
    await page.locator('.cm-content').click();
    await page.keyboard.press('Control+End');
    await page.keyboard.type('written in the console');
    await page.keyboard.press('Control+s');
    await page.getByText('a.txt saved.').waitFor();
    await type(page, 'clear; tail -n 1 a.txt | rev');
    await shows(page, 'elosnoc eht ni nettirw');
  });
  await step('a file that was changed inside meanwhile is not overwritten', page, async () => {
    await page.locator('.cm-content').click();
    await page.keyboard.press('Control+End');
    await page.keyboard.type(' and more');
    await api('POST', `/sandboxes/${id}/run`, { shell: 'echo theirs > a.txt' });
    await page.getByText('It was changed inside meanwhile').waitFor();
    await button('Take theirs').click();
    await page.locator('.cm-content').getByText('theirs').waitFor();
  });
  await step('upload and download', page, async () => {
    const [chooser] = await Promise.all([page.waitForEvent('filechooser'), button('Upload').click()]);
    await chooser.setFiles([{ name: 'up.bin', mimeType: 'application/octet-stream', buffer: Buffer.from([0, 1, 2, 255]) }, { name: 'app.py', mimeType: 'text/plain', buffer: readFileSync(new URL('./app.py', import.meta.url)) }]);
    await page.getByRole('treeitem', { name: 'up.bin' }).click();
    await page.getByText('This is no text').waitFor();
    const [download] = await Promise.all([page.waitForEvent('download'), button('Download').click()]);
    equal(readFileSync(await download.path()).toString('hex'), '000102ff', 'the bytes');
    // By drag: into the directory that is under the pointer.
    await api('POST', `/sandboxes/${id}/files/mkdir`, { path: '/workspace/harbour' });
    const dot = 'iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAYAAABytg0kAAAAEklEQVR42mP8z8BQz0AEYBxVSF8A0HgGAdPzEQAAAAAASUVORK5CYII=', carried = await page.evaluateHandle(b64 => { const d = new DataTransfer(); d.items.add(new File([Uint8Array.from(atob(b64), c => c.charCodeAt(0))], 'dot.png', { type: 'image/png' })); return d; }, dot), dir = page.getByRole('treeitem', { name: 'harbour' });
    await dir.waitFor();
    await dir.dispatchEvent('dragover', { dataTransfer: carried });
    await page.locator('.files .bar').getByText('into /workspace/harbour').waitFor();
    await dir.dispatchEvent('drop', { dataTransfer: carried });
    await page.locator('.toast', { hasText: 'dot.png uploaded to /workspace/harbour' }).waitFor();
    await dir.click();
    await page.getByRole('treeitem', { name: 'dot.png' }).click();
    await until('the picture is shown', () => page.locator('.picture img').evaluate(e => e.complete && e.naturalWidth === 2).catch(() => false));
    await page.getByRole('button', { name: 'More about files' }).click();
    await page.getByRole('menuitem', { name: /^Rename/ }).click();
    await page.locator('#question input').fill('/workspace/buoy.png');
    await page.keyboard.press('Enter');
    await page.getByRole('treeitem', { name: 'buoy.png' }).waitFor();
    await page.locator('.edit').getByRole('button', { name: 'buoy.png' }).waitFor(); // what is open has the new name, too
    equal(await page.locator('.edit').getByRole('button', { name: 'dot.png' }).count(), 0, 'the old one');
    await button('Close the file').click();
  });
  await step('a snapshot', page, async () => {
    await page.locator('#main').focus();
    await page.keyboard.press('s');
    await page.locator('.toast', { hasText: /Snapshot .* in/ }).waitFor();
  });
  await step('a preview of a page with a WebSocket, on an origin of its own', page, async () => {
    await type(page, 'clear; python3 app.py 8000 &');
    await shows(page, '[1]');
    await go(`#/sandbox/${id}/ports`);
    await page.locator('.portlist').getByRole('button', { name: '8000' }).click();
    const frame = page.frameLocator('iframe.shown-frame');
    await frame.getByText('echo: ahoy').waitFor();
    const inside = page.frames().find(f => f.url().includes('8000-'));
    truth(new URL(inside.url()).origin !== new URL(page.url()).origin, 'the preview has our origin');
    truth(!inside.url().includes('cay_token'), 'the token is still in its address');
    // S-55: what a page of a sandbox may try
    const before = wrong.length, had = (await api('GET', '/sandboxes')).items.length;
    const tried = await inside.evaluate(async base => {
      const out = {};
      for (const [k, f] of Object.entries({ parent: () => parent.document.body.innerHTML, cookie: () => document.cookie, storage: () => parent.localStorage.length, top: () => { top.location.href; return top.location.href; } })) { try { out[k] = String(f()); } catch { out[k] = 'refused'; } }
      try { const a = await fetch(base + '/api/v1/sandboxes', { credentials: 'include' }); out.api = `${a.status}`; } catch { out.api = 'refused'; }
      try { const a = await fetch(base + '/api/v1/sandboxes', { method: 'POST', mode: 'no-cors', credentials: 'include', body: '{}' }); out.post = a.type; } catch { out.post = 'refused'; }
      return out;
    }, s.url);
    equal(JSON.stringify([tried.parent, tried.cookie, tried.storage, tried.top, tried.api, tried.post]), JSON.stringify(['refused', '', 'refused', 'refused', 'refused', 'opaque']), 'what a preview reaches');
    equal((await api('GET', '/sandboxes')).items.length, had, 'sandboxes after a page inside asked for one');
    await page.screenshot({ path: join(shots, 'ports.png') });
    wrong.length = before; // the browser said aloud what it refused
  });
  await step('a blocked host is seen and allowed with one click', page, async () => {
    await go(`#/sandbox/${id}`);
    await api('PUT', `/sandboxes/${id}/net`, { mode: 'rules', rules: ['example.org'] });
    await api('POST', `/sandboxes/${id}/run`, { shell: 'python3 -c "import socket; socket.getaddrinfo(\'blocked.test\', 443)" 2>&1 | tail -1', timeout_ms: 20000 });
    await page.locator('.glance .ask', { hasText: 'blocked.test' }).waitFor();
    await page.locator('.glance').getByRole('button', { name: /Allow/ }).click();
    await page.getByRole('menuitem', { name: /^Allow blocked.test/ }).click();
    await page.locator('.toast', { hasText: 'blocked.test is allowed' }).waitFor();
    truth(JSON.stringify((await api('GET', `/sandboxes/${id}/net`)).policy).includes('blocked.test'), 'the policy does not name it');
    await go(`#/sandbox/${id}/network`);
    await page.locator('.rules').getByText('blocked.test').waitFor();
  });
  await step('fork, undo and compare', page, async () => {
    await api('POST', `/sandboxes/${id}/run`, { shell: 'echo changed > b.txt' });
    await go(`#/sandbox/${id}/snapshots`);
    await page.locator('.cmplist').getByRole('button', { name: 'b.txt' }).waitFor();
    await page.locator('.cmplist').getByRole('button', { name: 'b.txt' }).click();
    await page.locator('.diffcell').getByText('changed').waitFor();
    await page.screenshot({ path: join(shots, 'compare.png') });
    await button('Fork here').click();
    forked = await until('another sandbox', () => page.url().match(/sandbox\/(c[a-z2-7]{19})\/snapshots/)?.[1] !== id && page.url().match(/sandbox\/(c[a-z2-7]{19})\/snapshots/)?.[1]);
    await page.locator('.snapmap .pname', { hasText: 'reef' }).first().waitFor();
    await go(`#/sandbox/${id}/snapshots`);
    await button('Undo to here').click();
    await page.locator('.toast', { hasText: 'Went back to' }).hover(); // it stays as long as the pointer does
    equal((await api('POST', `/sandboxes/${id}/run`, { shell: 'cat b.txt 2>/dev/null; echo -' })).stdout, '-\n', 'b.txt after undo');
    await page.locator('.toast').getByRole('button', { name: 'Undo' }).click();
    await page.locator('.toast', { hasText: 'The present is back' }).waitFor();
    equal((await api('POST', `/sandboxes/${id}/run`, { shell: 'cat b.txt' })).stdout, 'changed\n', 'b.txt after undo of undo');
  });
  await step('names and output full of markup and escapes stay text', page, async () => {
    const evil = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>';
    await api('POST', `/sandboxes/${id}/run`, { argv: ['sh', '-c', `printf '%s\\033]52;c;aGFja2Vk\\007\\033]0;title\\007\\n' "$1"; touch "$1" 2>/dev/null; mkdir -p "d<i>" && touch "d<i>/\\033[31m$(printf '\\342\\200\\256')txt"; true`, 'sh', evil.replace(/\//g, '_')] });
    s.cay('snapshot', 'reef');
    for (const tab of ['', '/processes', '/timeline', '/snapshots']) { await go(`#/sandbox/${id}${tab}`); await page.waitForTimeout(700); }
    await go(`#/sandbox/${id}/processes`);
    await page.locator('.cmdcell button', { hasText: 'sh -c printf' }).first().click();
    await shows(page, '<img src=x onerror', page.locator('.side .console'));
    for (const hash of ['#/', '#/sandboxes', '#/audit', `#/sandbox/${id}`]) { await go(hash); await settled(page); }
    await page.getByRole('treeitem').first().waitFor();
    const found = await page.evaluate(() => ({ hacked: window.hacked, tags: document.querySelectorAll('main img, main script, main u, main i[onerror], main b > b').length, title: document.title }));
    equal(found.hacked, undefined, 'a script ran');
    equal(found.tags, 0, 'elements out of data');
  });
  await step('a sandbox whose name, labels and reason are markup, escapes and directions is text', page, async () => {
    // This server takes no such names; another one, or one of tomorrow, may tell them.
    const evil = '\u202e<img src=x onerror="window.hacked=2">${7*7}</a><script>window.hacked=2</script>', shown = '<img src=x onerror="window.hacked=2">${7*7}</a>';
    truth((await api('POST', '/sandboxes', { name: evil })).status === 400, 'it was taken');
    refused(wrong);
    const other = await open(browser, s.link()), p = other.page;
    await p.locator('.app').waitFor();
    const worse = x => ({ ...x, name: evil, hostname: evil, template: evil, tenant: evil, reason: evil, workdir: '/"><img src=x>', labels: { 'javascript:window.hacked=2': '"><svg onload="window.hacked=2">', team: '<b>bold</b>\u0007\u001b[31m' }, metadata: { note: evil } });
    await p.route(u => /^\/api\/v1\/sandboxes(\/c[a-z2-7]{19})?$/.test(u.pathname), async r => { if (r.request().method() !== 'GET') return r.continue(); const a = await r.fetch({ url: r.request().url().replace('cay.localhost', '127.0.0.1') }), j = await a.json(); await r.fulfill({ json: j.items ? { ...j, items: j.items.map(worse) } : worse(j) }); });
    // Templates, snapshots and keys are somebody's words, too; of templates there are more than fit at once.
    const told = { templates: x => [...Array(12).keys()].map(i => ({ ...x[0], name: `${evil}${i}`, about: evil })), snapshots: x => x.map(y => ({ ...y, label: evil })), keys: () => [{ id: 'k1', name: evil, tenant: evil, scope: 'tenant', created_ms: 1, expires_ms: 0, used_ms: 0 }] };
    await p.route(u => /^\/api\/v1\/(templates|snapshots|keys)$/.test(u.pathname), async r => { if (r.request().method() !== 'GET') return r.continue(); const a = await r.fetch({ url: r.request().url().replace('cay.localhost', '127.0.0.1') }), j = await a.json(); await r.fulfill({ json: { ...j, items: told[new URL(r.request().url()).pathname.split('/').pop()](j.items) } }); });
    await again(p);
    const harm = () => p.evaluate(() => JSON.stringify([window.hacked ?? 0, document.querySelectorAll('img, svg[onload], [href^="javascript:"], b > b, body script:not([src])').length, (/.{0,60}[\u202e\u001b\u0007].{0,60}/.exec(`${document.body.innerText}\n${document.title}`) ?? [''])[0]]));
    for (const hash of ['#/', '#/?chart=list', '#/sandboxes', ...['', '/network', '/snapshots', '/timeline', '/processes', '/ports', '/resources'].map(t => `#/sandbox/${id}${t}`)]) {
      await p.evaluate(h => { location.hash = h; }, hash);
      await p.locator('#main').getByText(shown).first().waitFor({ state: 'attached' });
      equal(await harm(), '[0,0,""]', hash);
    }
    for (const hash of ['#/templates', '#/keys', `#/sandbox/${id}/snapshots?as=list`]) {
      await p.evaluate(h => { location.hash = h; }, hash);
      await p.locator('#main :is(li, td)').getByText('<img src=x onerror').first().waitFor();
      equal(await harm(), '[0,0,""]', hash);
    }
    await p.locator('#main').focus();
    await p.keyboard.press('c');
    await p.locator('#create').waitFor();
    equal(await p.locator('#create .pick input[name=template]').count(), 12, 'templates that are offered');
    await p.locator('#create .pick label').last().click();
    equal(await harm(), '[0,0,""]', 'the dialog');
    await p.keyboard.press('Escape');
    await p.locator('#create').waitFor({ state: 'detached' });
    await p.evaluate(h => { location.hash = h; }, `#/sandbox/${id}/resources`);
    await p.locator('#main').focus();
    await p.keyboard.press('Control+k');
    await p.locator('#palette input').fill('onerror');
    await p.locator('#palette').getByText(shown).first().waitFor();
    equal(await harm(), '[0,0,""]', 'the palette');
    await p.keyboard.press('Escape');
    await p.getByRole('button', { name: 'Kill…' }).click();
    await p.locator('#question').getByText('<img src=x').first().waitFor();
    equal(await harm(), '[0,0,""]', 'the question');
    await other.ctx.close();
  });
  await step('the server judges a manifest while it is written', page, async () => {
    const draft = m => page.evaluate(d => sessionStorage.setItem('draft', JSON.stringify({ manifest: d })), m);
    await draft('{ "entries": { "a": { "type": "file", "content": "" }, "wrong one": { "type": "fiel" } } }');
    await page.locator('#main').focus();
    await page.keyboard.press('c');
    const marked = page.locator('#create .cm-lintRange-error');
    await marked.getByText('"fiel"').waitFor(); // by the schema, in its place
    await page.locator('#create .cm-lint-marker-error').hover();
    await page.locator('.cm-tooltip', { hasText: 'there are file, dir' }).waitFor();
    await page.locator('#create').getByRole('button', { name: 'Close' }).click();
    await draft('{ "entries": { "a": { "type": "file", "content": "" }, "../out": { "type": "dir" } } }');
    await page.locator('#main').focus();
    await page.keyboard.press('c');
    await marked.getByText('"../out"').waitFor(); // by the server, which knows more
    await page.locator('#create').getByRole('button', { name: 'Close' }).click();
    await draft('');
    refused(wrong);
  });
  await step('a manifest is completed while it is written', page, async () => {
    await page.locator('#main').focus();
    await page.keyboard.press('c');
    const text = page.locator('#create .cm-content'), offer = name => page.locator('.cm-tooltip-autocomplete li[aria-selected]', { hasText: new RegExp(`^${name}`) });
    await text.click();
    // What has just appeared is not taken by an Enter that was meant for a line: it has to be there for 75 ms.
    const choose = async (typed, name) => { await page.keyboard.type(typed); await offer(name).waitFor(); await page.waitForTimeout(150); await page.keyboard.press('Enter'); await offer(name).waitFor({ state: 'detached' }); };
    await page.keyboard.type('{');
    await choose('"entr', 'entries');
    await page.keyboard.type('"note.txt": {');
    await choose('"ty', 'type');
    await choose('fi', 'file');
    await page.keyboard.type(', ');
    await choose('"cont', 'content');
    await page.keyboard.type('ahoy');
    await until('all of it is there', async () => (await page.evaluate(() => JSON.parse(sessionStorage.getItem('draft') ?? '{}').manifest)).replace(/\s/g, '') === '{"entries":{"note.txt":{"type":"file","content":"ahoy"}}}');
    await page.locator('#create input[name=name]').fill('made-of-a-manifest');
    await page.keyboard.press('Enter');
    await page.locator('.sbhead h1').getByText('made-of-a-manifest').waitFor();
    await page.getByRole('treeitem', { name: /^note\.txt/ }).waitFor();
    await shows(page, '$');
    const made = page.url().match(/sandbox\/(c[a-z2-7]{19})/)[1];
    await api('POST', `/sandboxes/${made}/snapshots`, { label: 'on-a-manifest' });
    await go(`#/sandbox/${made}/snapshots`);
    await page.getByRole('img', { name: 'Manifest of 1 entry' }).waitFor(); // a pebble between the template and the first snapshot
    await page.locator('.tide').getByText('host, manifest').waitFor();
    await page.locator('.kv', { hasText: 'Durable' }).getByText('yes').waitFor(); // and it is told by itself when it is on the disk
    await button('Rename…').click();
    await page.locator('#question input').fill('first-light');
    await page.keyboard.press('Enter');
    await page.locator('.snapmap .pname', { hasText: 'first-light' }).waitFor();
    equal((await api('GET', '/snapshots/first-light')).sandbox, made, 'whose it is');
    await go('#/');
    await settled(page);
    await api('DELETE', `/sandboxes/${made}`);
  });
  await step('a build is followed as it speaks', page, async () => {
    const b = await page.evaluate(async text => { const { csrf } = await (await fetch('/console/session')).json(); const a = await fetch('/api/v1/builds?name=lagoon', { method: 'POST', headers: { 'X-Cay-Csrf': csrf, 'Content-Type': 'text/plain' }, body: text }); return a.json(); }, 'FROM host\nRUN echo "first <img src=x onerror=window.hacked=3>"; until [ -e /tmp/never ] || [ $((n=n+1)) -gt 20 ]; do sleep 0.1; done; echo la"st"\n');
    await go('#/templates');
    await page.getByRole('button', { name: 'lagoon' }).click();
    const log = page.getByRole('log');
    await log.getByText(/^first <img src=x/).waitFor();
    await log.getByText(/^last/).waitFor();
    await page.locator('.chip', { hasText: 'ready' }).first().waitFor();
    await page.locator('.tall-list', { hasText: 'lagoon' }).waitFor();
    equal(await page.evaluate(() => [window.hacked, document.querySelectorAll('main img').length].join()), ',0', 'elements out of a log');
    await page.screenshot({ path: join(shots, 'build.png') });
    truth(page.url().includes(b.id), page.url());
  });
  await step('two browsers see one sandbox', page, async () => {
    const other = await open(browser, s.link('reef'));
    await other.page.locator('.app').waitFor();
    await shows(other.page, '$');
    await go(`#/sandbox/${id}`);
    await shows(page, '$');
    await type(page, 'clear; echo to""gether');
    await shows(page, 'together');
    await shows(other.page, 'together');
    await type(other.page, 'echo and ba""ck'); // either types, both see
    await shows(page, 'and back');
    await other.page.locator('#main').focus();
    await other.page.keyboard.press('p');
    await page.locator('.sbhead .chip', { hasText: 'paused' }).waitFor();
    await other.page.keyboard.press('p');
    await page.locator('.sbhead .chip', { hasText: 'running' }).waitFor();
    await shows(page, '$');
    await other.ctx.close();
  });
  await step('the timeline tells what was done before the page was opened', page, async () => {
    await api('POST', `/sandboxes/${id}/run`, { shell: 'sleep 0.4; python3 -c "import socket; socket.getaddrinfo(\'older.test\', 443)"; echo what it said', timeout_ms: 60000 });
    const late = await open(browser, s.link()), p = late.page;
    await p.locator('.app').waitFor();
    await p.locator('.feed').getByText('a command ended').first().waitFor(); // what just happened is told to who comes later, too
    await p.evaluate(h => { location.hash = h; }, `#/sandbox/${id}/timeline`);
    const row = p.locator('.wfname', { hasText: 'sleep 0.4' });
    await row.getByRole('button').click();
    await shows(p, 'what it said', p.locator('.side .console'));
    const took = await p.locator('.wfname.sel + .num').innerText();
    truth(/^\d/.test(took) && !/^[0-3]?\d\d? ms/.test(took), `it took ${took}`);
    await p.locator('.egress').getByText('refused older.test').click();
    await p.locator('.inbox li.sel', { hasText: 'older.test' }).waitFor();
    await late.ctx.close();
  });
  await step('a restart of the server loses nothing on screen', page, async () => {
    await type(page, 'clear; for i in $(seq 100 199); do printf "%d " $i; sleep 0.03; done; echo d""one');
    await shows(page, '103 ');
    await s.stop('SIGKILL');
    await page.locator('.lost').waitFor();
    await page.locator('.cutline', { hasText: /Keys are not sent\. Output goes on from byte [\d,]+/ }).waitFor();
    await page.screenshot({ path: join(shots, 'disconnected.png') });
    await s.start(s.port);
    await page.locator('.lost').waitFor({ state: 'detached' });
    await shows(page, 'done');
    // All that was printed while nobody listened, once and in its order. Lines end where the screen does.
    const text = await page.evaluate(() => [...document.querySelectorAll('.screen:not([hidden]) .xterm-rows > div')].map(d => d.innerText.replace(/\u00a0/g, ' ').replace(/\n/g, '')).join(''));
    equal(text.replace(/\s/g, '').match(/100(\d{3})*done/)?.[0], Array.from({ length: 100 }, (_, i) => 100 + i).join('') + 'done', 'what the terminal shows');
  });
  await step('the palette finds and runs', page, async () => {
    await page.keyboard.press('Control+Shift+Escape');
    await page.keyboard.press('Control+k');
    await page.locator('#palette input').fill('doctor');
    await page.keyboard.press('Tab');
    await page.locator('#palette code', { hasText: 'cay doctor' }).waitFor();
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: /level/i }).first().waitFor();
    await page.keyboard.press('g');
    await page.keyboard.press('s');
    await page.getByRole('heading', { name: 'Sandboxes' }).waitFor();
  });
  await step('kill asks, and names what it kills', page, async () => {
    await go(`#/sandbox/${forked}`);
    await button('Kill…').click();
    await page.locator('#question').getByRole('button', { name: /^Kill / }).click();
    await page.locator('.chip', { hasText: 'stopped' }).waitFor();
    await page.getByRole('heading', { name: 'It is stopped' }).waitFor();
  });
  await step('a pebble that is pulled out is a fork', page, async () => {
    await go(`#/sandbox/${id}/snapshots`);
    await settled(page);
    const peb = page.locator('.snapmap .pebble').first(), at = await peb.boundingBox();
    await page.mouse.move(at.x + at.width / 2, at.y + at.height / 2);
    await page.mouse.down();
    await page.mouse.move(at.x + 20, at.y + 40, { steps: 4 });
    await page.mouse.move(at.x + 40, at.y + 90, { steps: 4 });
    await page.getByText('let go to fork here').waitFor();
    await page.mouse.up();
    const made = await until('another sandbox', () => { const x = page.url().match(/sandbox\/(c[a-z2-7]{19})\/snapshots/)?.[1]; return x !== id && x !== forked && x; });
    await page.locator('.sbhead h1').waitFor();
    await settled(page);
    await go('#/sandboxes');
    await settled(page);
    await api('DELETE', `/sandboxes/${made}`);
  });
  await step('the past is the server\'s: of a sandbox and of the host', page, async () => {
    await until('the server has looked twice', async () => (await api('GET', `/sandboxes/${id}/usage/past`)).items.length > 1);
    await go(`#/sandbox/${id}/resources?range=15m`);
    await page.locator('.res .plot', { hasText: 'Memory' }).locator('canvas').waitFor();
    await page.getByRole('img', { name: /^Memory: memory \d/ }).waitFor();
    await page.getByRole('button', { name: '6 h' }).click();
    truth(page.url().includes('range=6h'), page.url());
    await go('#/?range=1h');
    await page.locator('.plots .plot', { hasText: 'Started' }).locator('canvas').waitFor();
    await page.getByRole('img', { name: /^Memory: memory \d/ }).waitFor();
  });
  await step('what is new waits while somebody looks at the list, and Back finds the page as it was', page, async () => {
    await go('#/sandboxes');
    await settled(page);
    const rows = await page.locator('.list tbody tr').count();
    await page.locator('.rows').hover();
    const b = (await api('POST', '/sandboxes', { name: 'latecomer' })).id;
    await page.getByRole('button', { name: '1 newer' }).waitFor();
    equal(await page.locator('.list tbody tr').count(), rows, 'rows');
    await page.getByRole('button', { name: '1 newer' }).click();
    await page.locator('.list').getByText('latecomer').waitFor();
    await api('DELETE', `/sandboxes/${b}`);
    await go('#/audit');
    await settled(page);
    await page.evaluate(() => window.scrollTo(0, 60));
    const was = await page.evaluate(() => window.scrollY);
    await go('#/keys');
    await settled(page);
    equal(await page.evaluate(() => window.scrollY), 0, 'a new page begins at its top');
    await page.goBack();
    await until('as it was', async () => (await page.evaluate(() => window.scrollY)) === was);
  });
  await escapes(page, api, id);
  await later(page, api, s, id, wrong);
  await kept(browser, page, api, s, id, wrong);
  await keyboard(page, api, id);
  await paint(browser, s, page, id);
  await many(browser, s, page, api, id);
  await phone(page, api, id);
  await pages(page, id, api);
  await narrow(page, id);
  // axe makes functions of text, which the page's rules rightly refuse.
  await step('nothing went wrong in the page meanwhile', page, async () => { equal(wrong.filter(w => !w.startsWith('script: Evaluating a string')).join('\n'), '', 'errors'); });
  return verdict();
}
