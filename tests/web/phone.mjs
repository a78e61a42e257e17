// SPDX-License-Identifier: Apache-2.0
// What only somebody with a small screen meets: what is chosen is in sight, names are whole, and what failed is told where they are.
import { equal, settled, step, truth, until } from './lib.mjs';

export async function phone(page, api, id) {
  const go = hash => page.evaluate(h => { location.hash = h; }, hash), inside = e => page.locator(e).evaluate(x => { const r = x.getBoundingClientRect(); return r.left >= 0 && r.right <= innerWidth + 1 && r.top >= 0 && r.bottom <= innerHeight; });
  await page.setViewportSize({ width: 360, height: 740 });
  await step('on a phone the chosen tab is in sight', page, async () => {
    for (const tab of ['processes', 'ports', 'resources', 'glance', 'network']) {
      await go(`#/sandbox/${id}/${tab}`);
      await until(`${tab} is in sight`, () => inside(`#tab-${tab}[aria-selected=true]`).catch(() => false));
    }
  });
  await step('on a phone a long command ends in dots, and so does what was kept of it', page, async () => {
    await api('POST', `/sandboxes/${id}/run`, { shell: `echo ${'a command of many words '.repeat(5)}` });
    await go(`#/sandbox/${id}/processes`);
    const cell = page.locator('.cmdcell', { hasText: /many words.*…$/ }).first();
    await cell.waitFor();
    truth(await cell.evaluate(x => x.getBoundingClientRect().right <= innerWidth && x.scrollWidth <= x.clientWidth && getComputedStyle(x.querySelector('button')).textOverflow === 'ellipsis'), 'it is cut');
  });
  await step('on a phone a sandbox without a name has one line', page, async () => {
    const { id: b } = await api('POST', '/sandboxes', {});
    await go('#/sandboxes');
    await settled(page);
    const name = page.locator('.list td.name', { hasText: b.slice(0, 8) });
    await name.waitFor();
    equal((await name.innerText()).trim(), b.slice(0, 8), 'its name');
    await page.locator('.list tr', { hasText: b.slice(0, 8) }).click({ position: { x: 200, y: 45 } }); // all of the row leads there
    await page.locator('.idchip', { hasText: b }).waitFor();
    await go('#/');
    await settled(page);
    await api('DELETE', `/sandboxes/${b}`);
  });
  await step('what failed is told where somebody is, and not on the next page', page, async () => {
    await go(`#/sandbox/${id}/glance`);
    await settled(page);
    await page.route('**/snapshots', r => (r.request().method() === 'POST' ? r.fulfill({ status: 503, json: { message: 'no more today' } }) : r.continue()));
    await page.evaluate(() => window.scrollTo(0, 400));
    truth(await page.evaluate(() => window.scrollY > 100), 'it does not scroll');
    await page.locator('#main').evaluate(e => e.focus({ preventScroll: true }));
    await page.keyboard.press('s');
    await page.locator('.notice').waitFor();
    truth(await inside('.notice'), 'it is out of sight');
    await go(`#/sandbox/${id}/timeline`);
    await page.locator('.notice').waitFor({ state: 'detached' });
    await page.unroute('**/snapshots');
  });
  await page.setViewportSize({ width: 1280, height: 800 });
}
