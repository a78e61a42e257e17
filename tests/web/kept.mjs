// SPDX-License-Identifier: Apache-2.0
// What the server keeps for those who run it: who may reach everything, dead jobs, the audit's proof, tenants, links of previews; and what a terminal offers to open.
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { equal, open, settled, shows, step, truth, type, until } from './lib.mjs';

export async function kept(browser, page, api, s, id, wrong) {
  const go = hash => page.evaluate(h => { location.hash = h; }, hash), button = (name, in_ = page) => in_.getByRole('button', { name });
  await step('who may reach everything is seen in the list, while that is so', page, async () => {
    const b = (await api('POST', '/sandboxes', { name: 'open-sea' })).id, row = page.locator('.list tr', { hasText: 'open-sea' }), warn = row.locator('td .warn').first();
    await go('#/sandboxes');
    await row.waitFor();
    equal(await warn.count(), 0, 'a warning about one that reaches nothing');
    s.cay('net', 'set', b, 'all'); // by somebody else
    await warn.getByText('all').waitFor();
    await go('#/sandboxes?q=network:all');
    await page.locator('.list tbody tr').first().waitFor();
    equal(await page.locator('.list tbody tr').count(), 1, 'sandboxes whose network is all');
    s.cay('net', 'set', b, 'off');
    await page.getByText('Nothing fits').waitFor();
    await go('#/sandboxes');
    await row.waitFor();
    equal(await warn.count(), 0, 'a warning about one that reaches nothing again');
    await api('DELETE', `/sandboxes/${b}`);
  });
  await step('a job that gave up is seen, and replayed', page, async () => {
    // What a worker writes that has tried often enough.
    execFileSync('python3', ['-c', `import sqlite3,sys
c = sqlite3.connect(sys.argv[1], timeout=30)
c.execute("INSERT INTO tasks(id,kind,subject,tenant,key,detail,state,due_ms,attempts,most,backoff_ms,fence,owner,lease_ms,error,created_ms,changed_ms) VALUES('jaaaaaaaaaaaaaaaaaaa','gc','','default','','{}','dead',1,5,5,1000,1,'',0,'the disk <b>said</b> no',1,1)")
c.commit()`, join(s.env.CAY_HOME, 'store.db')]);
    await go('#/jobs?state=dead');
    const row = page.locator('tr', { hasText: 'the disk <b>said</b> no' });
    await button('Replay', row).click();
    await page.locator('.toast', { hasText: 'It is tried again' }).waitFor();
    await until('it left the dead', async () => (await api('GET', '/jobs/jaaaaaaaaaaaaaaaaaaa')).state !== 'dead');
    await row.waitFor({ state: 'detached' });
  });
  await step('the audit is proved, and held against a head that was kept elsewhere', page, async () => {
    await go('#/audit');
    await page.locator('.proof .ok', { hasText: /Lines 1 to \d+ follow each other/ }).waitFor();
    const head = page.getByLabel('A head that was kept elsewhere');
    const before = wrong.length;
    await head.fill(`1:${'0'.repeat(64)}`);
    await button('Verify now').click();
    await page.locator('.proof').getByText(/not sound|could not be verified/).waitFor();
    wrong.length = before; // a refusal is an error in the browser's console, too
    await head.fill('');
    await button('Verify now').click();
    await page.locator('.proof .ok').waitFor();
  });
  await step('a tenant is made and bounded', page, async () => {
    await go('#/keys?view=tenants');
    await button('New tenant').click();
    await page.locator('#question input').fill('lagoon-crew');
    await page.keyboard.press('Enter');
    const row = page.locator('tr', { hasText: 'lagoon-crew' });
    await row.getByRole('button').click();
    await page.locator('#question input').fill('3 GiB');
    await page.keyboard.press('Enter');
    await row.getByText('of 3 GiB').waitFor();
  });
  await step('the link of a preview is copied, tells how long it is good, and closes', page, async () => {
    await go(`#/sandbox/${id}/ports`);
    await page.locator('.portlist').getByRole('button', { name: '8000' }).click();
    await page.getByLabel('How long the link is good').selectOption({ label: 'for 10 min' });
    await button('New link').click();
    await page.locator('.portlist', { hasText: /link for (9|10) min/ }).waitFor();
    await page.getByRole('button', { name: 'Copy the link', exact: true }).click();
    const link = await page.evaluate(() => navigator.clipboard.readText());
    truth(/^http:\/\/8000-c[a-z2-7]{19}\.localhost/.test(link) && link.includes('cay_token='), link);
    await button('Close', page.locator('.portlist')).click();
    await page.locator('.toast', { hasText: 'Port 8000 is private again' }).waitFor();
    equal((await api('GET', `/sandboxes/${id}/exposed`)).items.length, 0, 'links');
  });
  await step('an address in a terminal is shown before it is opened', page, async () => {
    await go(`#/sandbox/${id}`);
    await shows(page, '$');
    await type(page, 'clear; echo see http://""elsewhere.test/a?b=c');
    await shows(page, 'http://elsewhere.test/a?b=c');
    const at = await page.locator('.screen:not([hidden]) .xterm-rows > div', { hasText: 'see http://elsewhere.test' }).last().boundingBox();
    const before = page.context().pages().length;
    await page.mouse.move(at.x + 80, at.y + at.height / 2);
    await page.locator('.screen:not([hidden]) .xterm-cursor-pointer').waitFor({ state: 'attached' });
    await page.mouse.click(at.x + 80, at.y + at.height / 2);
    await page.locator('#question', { hasText: 'http://elsewhere.test/a?b=c' }).waitFor();
    equal(page.context().pages().length, before, 'pages before anybody said yes');
    await page.keyboard.press('Escape');
  });
  await step('who leaves is out', page, async () => {
    const other = await open(browser, s.link()), p = other.page;
    await p.locator('.app').waitFor();
    await p.getByRole('button', { name: 'Log out' }).first().click();
    await p.getByLabel(/key/i).first().waitFor();
    equal(await p.evaluate(async () => (await (await fetch('/console/session')).json()).scope), null, 'who is in');
    await other.ctx.close();
  });
  await settled(page);
}
