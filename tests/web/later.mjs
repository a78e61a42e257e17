// SPDX-License-Identifier: Apache-2.0
// What is there besides the first minutes: builds step by step, fixes that are offered, what a stopped sandbox left, and what others do meanwhile.
import { join } from 'node:path';
import { again, equal, settled, shots, step, truth, until } from './lib.mjs';

const send = (page, name, text) => page.evaluate(async ([n, t]) => { const { csrf } = await (await fetch('/console/session')).json(); const a = await fetch(`/api/v1/builds?name=${n}`, { method: 'POST', headers: { 'X-Cay-Csrf': csrf, 'Content-Type': 'text/plain' }, body: t }); return a.json(); }, [name, text]);

export async function later(page, api, s, id, wrong) {
  const go = hash => page.evaluate(h => { location.hash = h; }, hash), button = name => page.getByRole('button', { name });
  await step('a build that failed is rows of steps, open at what was wrong, with what helps; it waits on the overview', page, async () => {
    const { id: b } = await send(page, 'wreck', 'FROM host\nRUN echo fine > /opt/a\nRUN echo before; echo "make: frobnicate: command not found" >&2; exit 3\nRUN never\n');
    await until('it failed', async () => (await api('GET', `/builds/${b}`)).state === 'failed');
    await go(`#/templates?build=${b}`);
    const bad = page.locator('.steps li.failed');
    await bad.locator('.errline', { hasText: 'frobnicate: command not found' }).waitFor();
    equal(await bad.locator('details').evaluate(e => e.open), true, 'it is open');
    await bad.getByText('Install it in an earlier step').waitFor();
    await page.locator('.steps .left', { hasText: 'not reached' }).waitFor();
    const done = page.locator('.steps li.done', { hasText: 'echo fine' });
    equal(await done.locator('details').evaluate(e => e.open), false, 'one that went well is closed');
    truth(/\d (ms|s)\b/.test(await done.innerText()), 'how long it took');
    const { id: second } = await send(page, 'reeflet', 'FROM host\nRUN echo fine > /opt/a\n');
    await until('it is ready', async () => (await api('GET', `/builds/${second}`)).state === 'ready');
    await go(`#/templates?build=${second}`);
    await page.locator('.steps li', { hasText: 'echo fine' }).locator('.chip', { hasText: 'cached' }).waitFor();
    await page.screenshot({ path: join(shots, 'build-steps.png') });
    await again(page);
    await go('#/');
    await page.locator('.inbox li', { hasText: 'Build of wreck failed' }).getByRole('link', { name: 'See log' }).click();
    await bad.waitFor();
  });
  await step('what is wrong in a draft is named, and mended by one press', page, async () => {
    await page.evaluate(d => sessionStorage.setItem('draft', JSON.stringify(d)), { manifest: '{ "entries": {\n  "a": { "type": "fiel", "content": "x" } } }', memory: '512 mibs' });
    await page.locator('#main').focus();
    await page.keyboard.press('c');
    const form = page.locator('#create');
    await form.getByText('Memory: 512 MiB, 2 GiB').waitFor();
    await form.getByRole('button', { name: 'Write 512 MiB' }).click();
    equal(await form.locator('input[name=memory]').inputValue(), '512 MiB', 'the field');
    await form.locator('.mend', { hasText: 'line 2' }).waitFor();
    await form.getByRole('button', { name: 'Create' }).click(); // takes one there instead
    await form.getByText('manifest, line 2: Type fiel').waitFor();
    truth(await page.evaluate(() => !!document.activeElement?.closest('.cm-editor')), 'the caret is where it is wrong');
    await form.getByRole('button', { name: 'Write "file"' }).click();
    await until('it is mended', async () => (await page.evaluate(() => JSON.parse(sessionStorage.getItem('draft')).manifest)).includes('"file"'));
    await form.locator('.mend').waitFor({ state: 'detached' });
    await form.getByRole('button', { name: 'Close' }).click();
    await page.evaluate(() => sessionStorage.removeItem('draft'));
  });
  await step('another file is looked at while one is not saved', page, async () => {
    await api('POST', `/sandboxes/${id}/run`, { shell: 'echo one > one.txt; printf "two\\r\\nlines\\r\\n" > two.txt' });
    await go(`#/sandbox/${id}?file=/workspace/one.txt`);
    await page.locator('.cm-content').getByText('one').waitFor();
    await page.locator('.cm-content').click();
    await page.keyboard.press('Control+End');
    await page.keyboard.type('and a half');
    await go(`#/sandbox/${id}?file=/workspace/two.txt`);
    await page.locator('.cm-content').getByText('lines').waitFor();
    await page.locator('.cm-content').click();
    await page.keyboard.press('Control+End');
    await page.keyboard.type('more');
    await page.keyboard.press('Control+s');
    await page.getByText('two.txt saved.').waitFor();
    equal((await api('POST', `/sandboxes/${id}/run`, { shell: 'od -c two.txt | grep -c "r  .n"' })).stdout, '1\n', 'line ends stay as they were');
    await page.locator('.edit').getByRole('button', { name: 'one.txt' }).click();
    await page.locator('.cm-content').getByText('and a half').waitFor();
    await button('Close the file').click();
    await page.locator('#question').getByRole('button', { name: /^Drop the changes/ }).click();
    await page.locator('.edit').getByRole('button', { name: 'one.txt' }).waitFor({ state: 'detached' });
  });
  await step('a snapshot that somebody takes elsewhere appears by itself', page, async () => {
    await go(`#/sandbox/${id}/snapshots`);
    await settled(page);
    s.cay('snapshot', '--label', 'from-elsewhere', id);
    await page.locator('.snapmap .pname', { hasText: 'from-elsewhere' }).waitFor();
  });
  await step('before undo is pressed it tells what it would end and put back', page, async () => {
    await api('POST', `/sandboxes/${id}/run`, { shell: 'echo more >> one.txt; rm two.txt' });
    await go(`#/sandbox/${id}`);
    await page.getByRole('treeitem', { name: 'two.txt' }).locator('.struck').waitFor(); // what was deleted since is still told
    await button(/^Undo/).hover();
    await page.locator('.would', { hasText: /put back 2 files/ }).waitFor();
    await page.mouse.move(5, 300);
  });
  await step('a stopped sandbox shows what it left, read-only, and can be started again', page, async () => {
    const { id: b } = await api('POST', '/sandboxes', { name: 'wrack' });
    await api('POST', `/sandboxes/${b}/run`, { shell: 'mkdir d; echo kept words > d/kept.txt' });
    await go(`#/sandbox/${b}`);
    await page.getByRole('treeitem', { name: /^d/ }).waitFor();
    await api('POST', `/sandboxes/${b}/kill`);
    await page.getByRole('heading', { name: 'It is stopped' }).waitFor();
    await page.getByRole('treeitem', { name: /^d/ }).click();
    await page.getByRole('treeitem', { name: 'kept.txt' }).click();
    await page.locator('.cm-content').getByText('kept words').waitFor();
    await page.getByText('as it was left').waitFor();
    equal(await page.locator('.cm-content').getAttribute('aria-readonly') ?? await page.locator('.cm-content').getAttribute('contenteditable'), 'true', 'it cannot be written');
    equal((await api('GET', `/sandboxes/${b}`)).state, 'stopped', 'nobody started it');
    await page.screenshot({ path: join(shots, 'stopped.png') });
    await button('Start again').first().click();
    await page.locator('.chip', { hasText: 'running' }).waitFor();
    await api('DELETE', `/sandboxes/${b}`);
    await page.getByRole('heading', { name: 'It is gone' }).waitFor();
    await page.getByText(/deleted it/).waitFor();
    await go('#/sandboxes');
  });
  await step('output has times, both streams are in one order, and the timeline leads to a moment of it', page, async () => {
    const { id: p } = await api('POST', `/sandboxes/${id}/processes`, { shell: 'echo first; sleep 0.2; echo trouble >&2; sleep 0.2; python3 -c "import socket; socket.getaddrinfo(\'moment.test\', 443)" 2>/dev/null; echo last' });
    await until('it ended', async () => (await api('GET', `/sandboxes/${id}/processes/${p}`)).state === 'ended');
    await go(`#/sandbox/${id}/processes?p=${p}`);
    const lines = page.locator('.console.lines.timed > div');
    await until('all of it is there', async () => (await lines.locator('span').allInnerTexts()).join() === 'first,trouble,last');
    truth(/^\d\d:\d\d:\d\d$/.test((await lines.first().locator('time').innerText()).trim()), 'the time of a line');
    await go(`#/sandbox/${id}/timeline?span=${p}`);
    await page.locator('.wfname.deep', { hasText: 'refused moment.test' }).getByRole('button').click();
    truth(/at=\d{13}/.test(page.url()) && page.url().includes(p), page.url());
    await page.locator('.console.lines .at', { hasText: 'last' }).waitFor(); // what was printed then, or next
    await page.getByRole('button', { name: 'Times' }).click();
    await page.locator('.console.lines:not(.timed)').waitFor();
    await page.getByRole('button', { name: 'Times' }).click();
  });
  await step('a diff wears the colours of its language', page, async () => {
    await api('POST', `/sandboxes/${id}/run`, { shell: 'printf \'def a():\\n\\treturn "a\\\\tb"  # why\\n\' > c.py' });
    await go(`#/sandbox/${id}?file=/workspace/c.py&view=diff`);
    await page.locator('.code .add .hl-k', { hasText: 'def' }).waitFor();
    equal(await page.locator('.code .add').nth(1).locator('> span').last().innerText(), '\treturn "a\\tb"  # why', 'a tab is a tab, and what looks like one is not');
  });
  await step('the doctor measures this host beside a bare spawn', page, async () => {
    await go('#/doctor');
    await page.getByText(/Tried .* in a sandbox made for it, in \d/).waitFor();
    const row = page.locator('.checks li', { hasText: 'seccomp' });
    truth(/\d (µs|ms|s)\b/.test(await row.locator('.num').innerText()) && /Seccomp: 2/.test(await row.locator('.found').innerText()), await row.innerText()); // tried, with how long that took
    await button('Measure').click();
    await page.locator('.figs.four div', { hasText: 'Run true in it' }).getByText(/× a bare spawn/).waitFor();
  });
  await step('services are seen, stopped and started', page, async () => {
    const { id: b } = await api('POST', '/sandboxes', { name: 'lighthouse', manifest: { services: { lamp: { command: ['python3', '-m', 'http.server', '8080'], port: 8080 } } } }), row = page.getByRole('region', { name: 'Services' }).locator('tr', { hasText: 'lamp' });
    await go(`#/sandbox/${b}/processes`);
    await row.locator('.chip', { hasText: 'ready' }).waitFor();
    await row.getByRole('button', { name: 'Stop' }).click();
    await row.locator('.chip', { hasText: 'stopped' }).waitFor();
    await row.getByRole('button', { name: 'Start' }).click();
    await row.locator('.chip', { hasText: 'ready' }).waitFor();
    // An undo names what it starts again.
    await api('POST', `/sandboxes/${b}/snapshots`, { label: 'lit' });
    await go(`#/sandbox/${b}/snapshots`);
    await page.locator('.side', { hasText: 'Undo would' }).getByText(/start lamp again/).waitFor();
    await button('Undo to here').click();
    await page.locator('.toast', { hasText: /Went back to “lit”.* lamp starts again/ }).waitFor();
    await go(`#/sandbox/${b}/processes`);
    await row.locator('.chip', { hasText: 'ready' }).waitFor();
    await go('#/sandboxes');
    await settled(page);
    await api('DELETE', `/sandboxes/${b}`);
  });
  await step('a template is built from what is written in the page', page, async () => {
    await go('#/templates');
    await button('New template').click();
    const form = page.locator('#newtemplate');
    await form.getByRole('button', { name: 'Build' }).click();
    await form.getByText('It needs a name').waitFor();
    await form.locator('input[name=name]').fill('jetty');
    await form.locator('.cm-content').click();
    await page.keyboard.press('Control+End');
    await page.keyboard.type('RUN echo planks > /opt/jetty');
    await page.keyboard.press('Control+Enter');
    await page.locator('.steps li', { hasText: 'echo planks' }).waitFor();
    await page.locator('.tall-list', { hasText: 'jetty:latest' }).waitFor();
    truth(!(await page.locator('.tall-list').innerText()).includes(', made'), 'what is said of a template begins with a comma');
  });
  await step('settings of a template are chosen and seen, and a manifest tells how far it is', page, async () => {
    const { id: base } = await api('POST', '/sandboxes', {}), form = page.locator('#create'), choice = form.locator('select[name="set.permissions"]'), model = form.locator('input[name="set.model"]');
    await api('POST', '/templates', { from: base, names: ['pilot'], config: { limits: { memory: 96 << 20 }, settings: { permissions: { default: 'ask', description: 'bypass: it <b>asks</b> nobody', choices: { ask: {}, bypass: {} } }, model: { texts: {} } }, setting_files: { '/home/user/pilot': { content: '${permissions} ${model}' } } } });
    await api('DELETE', `/sandboxes/${base}`);
    await page.evaluate(m => sessionStorage.setItem('draft', JSON.stringify({ template: 'host', name: 'piloted', manifest: m })), '{ "entries": { "a": { "type": "file", "content": "ahoy" } } }');
    await page.locator('#main').focus();
    await page.keyboard.press('c');
    await form.locator('label', { hasText: 'pilot:latest' }).click(); // it came after the page was opened
    equal(await choice.inputValue(), 'ask', 'what is chosen at first');
    equal(await form.locator('input[name=memory]').getAttribute('placeholder'), '96 MiB', "the template's own limit");
    await form.locator('input[name=disk]').fill('512 MiB');
    await choice.selectOption('bypass');
    await form.locator('.field.amber', { hasText: 'bypass: it <b>asks</b> nobody' }).waitFor();
    await model.fill('one "two');
    await form.getByRole('button', { name: 'Write onetwo' }).click();
    equal(await model.inputValue(), 'onetwo', 'the model');
    await form.getByText('--set permissions=bypass --set model=onetwo --disk 512m').waitFor();
    // The answer is held back, so that there is time to look.
    await page.evaluate(() => { const ask = window.fetch; window.fetch = async (...a) => { const answer = await ask(...a); if (!a[0].endsWith('/sandboxes')) return answer; window.fetch = ask; while (!(window.told = document.querySelector('.putting')?.innerText)) await new Promise(requestAnimationFrame); return answer; }; });
    await page.keyboard.press('Control+Enter');
    await page.locator('.sbhead .chip.warn', { hasText: 'permissions bypass' }).waitFor();
    truth((await page.evaluate(() => window.told)).includes('1 of 1 entry, 4 B of 4 B'), 'how far it was');
    await page.locator('.glance section', { hasText: 'Settings' }).getByText('onetwo').waitFor();
    const b = page.url().match(/sandbox\/(c[a-z2-7]{19})/)[1], { limits } = await api('GET', `/sandboxes/${b}`);
    equal([limits.memory, limits.disk, limits.cpu_milli].join(), [96 << 20, 512 << 20, 2000].join(), 'limits: of the template, written, usual');
    equal((await api('POST', `/sandboxes/${b}/run`, { shell: 'cat ~/pilot' })).stdout, 'bypass onetwo', 'the file that the template writes');
    await go('#/sandboxes');
    await page.locator('.list tr', { hasText: 'piloted' }).locator('td.x .warn', { hasText: 'bypass' }).waitFor();
    await api('DELETE', `/sandboxes/${b}`);
  });
  await step('what somebody keeps refusing is still told, and can be asked again', page, async () => {
    await api('POST', `/sandboxes/${id}/run`, { shell: 'python3 -c "import socket; socket.getaddrinfo(\'siren.test\', 443)" 2>&1 | tail -1', timeout_ms: 20000 });
    await go(`#/sandbox/${id}/network`);
    const asked = page.locator('.inbox:not(.keptout *) li', { hasText: 'siren.test' });
    await asked.getByRole('button', { name: /Allow/ }).click();
    await page.getByRole('menuitem', { name: /^Keep refusing/ }).click();
    await asked.waitFor({ state: 'detached' });
    await page.locator('.keptout summary').click();
    await page.locator('.keptout li', { hasText: 'siren.test' }).getByRole('button', { name: 'Ask me again' }).click();
    await asked.waitFor();
  });
  await step('keys tell when they were used, and a link opens a dialog', page, async () => {
    const { key, id: k } = await api('POST', '/keys', { name: 'buoy' });
    await go('#/keys');
    const row = page.getByRole('region', { name: 'Keys' }).locator('tr', { hasText: 'buoy' });
    await row.getByText('never').first().waitFor();
    equal((await fetch(`${s.url}/api/v1/version`, { headers: { Authorization: `Bearer ${key}` } })).status, 200, 'with the key');
    await fetch(`${s.url}/api/v1/sandboxes`, { headers: { Authorization: `Bearer ${key}` } });
    await go('#/audit');
    await settled(page);
    await go('#/keys');
    await until('its use is told', async () => /now|ago/.test(await row.locator('td[data-k=used]').innerText()));
    await api('DELETE', `/keys/${k}`);
    await go('#/keys?dialog=create');
    await page.locator('#create').waitFor();
    truth(!page.url().includes('dialog'), page.url());
    await page.keyboard.press('Escape');
    await page.locator('#create').waitFor({ state: 'detached' });
  });
  wrong.splice(0, wrong.length, ...wrong.filter(w => !/status of (404|409|410|400)/.test(w))); // the browser says aloud what is not there any more
}
