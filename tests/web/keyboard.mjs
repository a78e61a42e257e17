// SPDX-License-Identifier: Apache-2.0
// By the keyboard alone: what people do there, without a pointer and without a focus that was set for them.
import { equal, settled, shows, step, terminal, truth, until } from './lib.mjs';

const named = () => { const e = document.activeElement; return e && e !== document.body ? (e.getAttribute('aria-label') || e.querySelector(':scope > title')?.textContent || e.labels?.[0]?.innerText || e.innerText || e.value || '').trim().slice(0, 80) : ''; };
/** Presses Tab until something of that name has the focus, as somebody would. */
async function tabTo(page, name) {
  const seen = [];
  for (let i = 0; i < 200; i++) { await page.keyboard.press('Tab'); const at = await page.evaluate(named); if (name.test(at)) return; seen.push(at); }
  throw new Error(`no Tab leads to ${name}; it came by ${[...new Set(seen)].join(' | ').slice(0, 600)}`);
}
const at = async (page, hash) => { await page.evaluate(h => { document.activeElement?.blur(); location.hash = h; }, hash); await settled(page); };
/** From the main part on: the way there through the frame is the skip link's. */
async function begin(page, hash) { await at(page, hash); await page.evaluate(() => window.scrollTo(0, 0)); await tabTo(page, /^Skip to content/); await page.keyboard.press('Enter'); }

export async function keyboard(page, api, id) {
  const toast = text => page.locator('.toast', { hasText: text }).waitFor();
  await step('by keyboard: a rule is added and taken away', page, async () => {
    await begin(page, `#/sandbox/${id}/network`);
    await tabTo(page, /^A rule/);
    await page.keyboard.type('keys.test');
    await page.keyboard.press('Enter');
    await page.locator('.rules').getByText('keys.test').waitFor();
    await tabTo(page, /^Remove keys\.test/);
    await page.keyboard.press('Enter');
    await page.locator('.rules').getByText('keys.test').waitFor({ state: 'detached' });
  });
  await step('by keyboard: a process gets a signal, and its output is read', page, async () => {
    const { id: p } = await api('POST', `/sandboxes/${id}/processes`, { shell: 'echo it ran; exec sleep 600' });
    await begin(page, `#/sandbox/${id}/processes`);
    await tabTo(page, /sleep 600/);
    await page.keyboard.press('Enter');
    await shows(page, 'it ran', page.locator('.side .console'));
    await until('it is chosen', () => page.url().includes(p));
    await page.setViewportSize({ width: 360, height: 740 }); // where there is no room beside the list it is below, and one is taken there
    await begin(page, `#/sandbox/${id}/processes`);
    await tabTo(page, /sleep 600/);
    await page.keyboard.press('Enter');
    await until('its output is in sight', () => page.evaluate(() => { const r = document.querySelector('.side.out')?.getBoundingClientRect(); return !!r && r.top < innerHeight / 2; }));
    await page.setViewportSize({ width: 1280, height: 800 });
    await begin(page, `#/sandbox/${id}/processes`);
    await tabTo(page, /sleep 600/);
    await tabTo(page, /^Signal/);
    await page.keyboard.press('Enter');
    await page.getByRole('menuitem', { name: /Ask it to end/ }).waitFor();
    await until('kill is chosen', async () => { // the last one
      if (await page.evaluate(() => document.activeElement?.getAttribute('role') === 'menuitem' && /kill/i.test(document.activeElement.textContent))) return true;
      await page.keyboard.press('ArrowUp');
      return false;
    });
    await page.keyboard.press('Enter');
    await toast('SIGKILL sent');
    await until('it ended', async () => (await api('GET', `/sandboxes/${id}/processes?ended=1`)).items.find(x => x.id === p)?.state === 'ended');
  });
  await step('by keyboard: tabs, a file, into the terminal and out', page, async () => {
    await begin(page, `#/sandbox/${id}/resources`);
    await page.keyboard.press('1');
    await page.getByRole('treeitem').first().waitFor();
    await tabTo(page, /^Files/); // the tree
    await page.keyboard.press('End');
    await page.keyboard.press('Enter');
    await until('a file is open', () => page.url().includes('file='));
    await page.keyboard.press('Control+Shift+Escape');
    await terminal(page).waitFor();
    await page.keyboard.press('Enter');
    await until('the terminal has the keys', async () => (await page.evaluate(named)) === 'Terminal');
    await page.keyboard.type('echo by ke""ys');
    await page.keyboard.press('Enter');
    await shows(page, 'by keys');
    await page.keyboard.press('Control+Shift+Escape');
    equal(await page.evaluate(() => document.activeElement?.id), 'main', 'where the focus is');
  });
  await step('by keyboard: the tree of snapshots, and its table', page, async () => {
    await begin(page, `#/sandbox/${id}/snapshots`);
    await tabTo(page, /^Snapshot \d{4}-/);
    const first = await page.evaluate(named);
    await page.keyboard.press('ArrowRight');
    await until('the next pebble', async () => (await page.evaluate(named)) !== first);
    await begin(page, `#/sandbox/${id}/snapshots`);
    await tabTo(page, /^Table$/);
    await page.keyboard.press('Enter');
    await page.getByRole('region', { name: 'Snapshots' }).waitFor();
  });
  await step('by keyboard: a key is made, seen once and revoked', page, async () => {
    await begin(page, '#/keys');
    await tabTo(page, /^New key/);
    await page.keyboard.press('Enter');
    await page.locator('#newkey').waitFor();
    await page.keyboard.type('for a keyboard');
    await page.keyboard.press('Enter');
    await page.locator('#newkey').getByText(/^e2b_[0-9a-f]{72}$/).waitFor();
    await tabTo(page, /^I have it/);
    await page.keyboard.press('Enter');
    await page.locator('#newkey').waitFor({ state: 'detached' });
    await page.getByText('for a keyboard').waitFor();
    await begin(page, '#/keys');
    await tabTo(page, /^Revoke/);
    await page.keyboard.press('Enter');
    await page.locator('#question').waitFor();
    await page.keyboard.press('Escape');
    await page.locator('#question').waitFor({ state: 'detached' });
    truth(/^Revoke/.test(await page.evaluate(named)), 'the focus is not back');
  });
}
/** Whatever a pointer can press, a Tab can reach; or it is in something that arrows walk. */
export const unreachable = page => page.evaluate(() => [...document.querySelectorAll('main *, aside *, header *')].filter(e => e.checkVisibility() && getComputedStyle(e).cursor === 'pointer' && !e.closest('a[href], button, input, select, textarea, label, summary, [tabindex], iframe, .xterm, .cm-editor') && !(e.parentElement && getComputedStyle(e.parentElement).cursor === 'pointer')).map(e => `no key reaches ${e.tagName.toLowerCase()}.${e.className}`).concat([...document.querySelectorAll('main button, main a[href]')].filter(e => e.checkVisibility() && e.tabIndex < 0 && !e.closest('.tide, [role=listbox]')).map(e => `Tab passes by “${(e.getAttribute('aria-label') || e.textContent).slice(0, 40)}”`)));
