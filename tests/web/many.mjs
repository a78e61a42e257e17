// SPDX-License-Identifier: Apache-2.0
// A thousand sandboxes that are there, and a directory of ten thousand files: the page is never held up for long. How long is long is measured in the
// same run: a fixed piece of work, again and again, tells for how long others have the processor meanwhile.
import { freemem } from 'node:os';
import { equal, open, settled, step, truth, until } from './lib.mjs';

// As many as there is memory and time for: a quiet machine makes a thousand in that time, and CAY_WEB_MAKING=SECONDS gives more of it.
const LONG = 100, BOXES = freemem() > 6e9 ? 1000 : 300, MAKING = 1000 * Number(process.env.CAY_WEB_MAKING ?? 15);

/** From now on the page notes its long tasks; those with work of our own in them are not among them. */
const watch = page => page.evaluate(() => {
  window.long = [];
  new PerformanceObserver(l => { for (const e of l.getEntries()) window.long.push([Math.round(e.startTime), Math.round(e.duration)]); }).observe({ type: 'longtask', buffered: false });
  const own = [], work = () => { const t = performance.now(); let x = 0; for (let i = 0; i < 4e6; i++) x = (x * 31 + i) | 0; window.sink = x; own.push([t, performance.now() - t]); };
  for (let i = 0; i < 5; i++) work();
  const at = setInterval(work, 150);
  window.unwatch = () => { clearInterval(at); const paces = own.map(o => o[1]); return { long: window.long.filter(([t, ms]) => !own.some(o => o[0] >= t - 2 && o[0] <= t + ms)), best: Math.min(...paces), mean: paces.reduce((a, b) => a + b) / paces.length, worst: Math.max(...paces) }; };
});
/** The longest task, and what it may take on a machine that is that busy. */
async function judge(page, what) {
  const { long, best, mean, worst } = await page.evaluate(() => window.unwatch()), most = long.reduce((n, e) => Math.max(n, e[1]), 0), may = LONG * (mean / best) + worst - best; // its share of the processor, and one time without it
  console.log(`     ${what}: ${long.length} long tasks, the longest ${most} ms of ${Math.round(may)} (this machine: ${best.toFixed(1)} to ${worst.toFixed(1)}, mostly ${mean.toFixed(1)} ms for the same work)`);
  truth(most <= may, `${what}: a task of ${most} ms`);
}

export async function many(browser, s, page, api, id) {
  await step('ten thousand files in a directory are a few rows, without a long task', page, async () => {
    await page.evaluate(h => { location.hash = h; }, `#/sandbox/${id}`);
    await page.getByRole('treeitem').first().waitFor();
    await watch(page);
    await api('POST', `/sandboxes/${id}/run`, { shell: 'mkdir -p many && cd many && seq -f "file-%05g" 10000 | xargs touch', timeout_ms: 90000 });
    await page.getByRole('treeitem', { name: 'many' }).click();
    await page.getByRole('treeitem', { name: 'file-00001' }).waitFor();
    truth(await page.getByRole('treeitem').count() < 150, 'all of them are in the page');
    for (const key of ['End', 'Home']) { await page.locator('.tree').press(key); await page.getByRole('treeitem', { name: key === 'End' ? 'file-09999' : 'file-00001' }).waitFor(); }
    await judge(page, '10,000 files');
    await page.getByRole('treeitem', { name: 'many' }).click();
    await api('POST', `/sandboxes/${id}/run`, { shell: 'rm -r many', timeout_ms: 90000 });
  });
  await step('up to a thousand sandboxes are there, scroll and are drawn, without a long task', page, async () => {
    const base = (await api('POST', '/sandboxes', { name: 'shoal' })).id, before = (await api('GET', '/sandboxes?limit=1000')).items.length, end = Date.now() + MAKING;
    let there = before;
    while (there < BOXES && Date.now() < end) { const l = await api('POST', `/sandboxes/${base}/fork`, { count: Math.min(20, BOXES - there) }); truth(l.items, JSON.stringify(l)); there += l.items.length; }
    console.log(`     ${there} sandboxes run, ${Math.round((there - before) / Math.max(1, (MAKING - end + Date.now()) / 1000))} made in a second`);
    const other = await open(browser, s.link()), p = other.page;
    await p.locator('.app').waitFor();
    await watch(p);
    await p.evaluate(() => { location.hash = '#/sandboxes'; });
    await p.getByText(`${there.toLocaleString('en')} sandboxes`).waitFor();
    truth(await p.locator('.list tbody tr').count() < 120, 'all rows are in the page');
    for (let i = 0; i <= 20; i++) await p.locator('.rows').evaluate((e, f) => new Promise(r => { e.scrollTop = (e.scrollHeight - e.clientHeight) * f; requestAnimationFrame(r); }), i / 20);
    await p.locator('.list').getByText('shoal', { exact: true }).or(p.locator('.list').getByText('reef', { exact: true })).first().waitFor();
    await p.locator('input[type=search]').fill('shoal');
    await until('the search is done', async () => await p.locator('.list tbody tr').count() < 5);
    await p.evaluate(() => { location.hash = '#/'; });
    await p.locator('.chart svg a').first().waitFor();
    await settled(p);
    await judge(p, `${there} sandboxes`);
    equal(other.wrong.join('\n'), '', 'errors');
    await other.ctx.close();
    const all = (await api('GET', '/sandboxes?limit=1000')).items.filter(b => b.id !== id && (b.from || b.name === 'shoal')).map(b => b.id).filter(b => b !== id);
    for (let i = 0; i < all.length; i += 8) await Promise.all(all.slice(i, i + 8).map(b => api('DELETE', `/sandboxes/${b}`)));
  });
}
