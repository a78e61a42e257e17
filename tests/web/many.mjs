// SPDX-License-Identifier: Apache-2.0
// A thousand sandboxes, and a directory of ten thousand files: the page is never held up for long. How long is long is measured in the
// same run: a fixed piece of work, again and again, tells for how long others have the processor meanwhile. The files are real. The sandboxes are what the
// server would tell of a thousand, made of its own answer about one: all that is tried here is the page, and a thousand real ones would hold up everybody else.
// With CAY_WEB_REAL=1, as `make soak` sets it, they are real, too.
import { again, equal, open, settled, step, truth, until } from './lib.mjs';

const LONG = 100, BOXES = 1000;

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
  if (most > may) throw Object.assign(new Error(`${what}: a task of ${most} ms`), { long: true });
}
/** What holds the page up does so each time; what only once was too long was held up by others. */
export async function atBest(f) {
  for (let left = 2; ; left--) { try { await f(); return; } catch (e) { if (!e.long || !left) throw e; } }
}

export async function many(browser, s, page, api, id) {
  await step('ten thousand files in a directory are a few rows, without a long task', page, () => atBest(async () => {
    await page.evaluate(() => { location.hash = '#/sandboxes'; });
    await page.evaluate(h => { location.hash = h; }, `#/sandbox/${id}`);
    await page.getByRole('treeitem').first().waitFor();
    await watch(page);
    await api('POST', `/sandboxes/${id}/run`, { shell: 'mkdir -p many && cd many && seq -f "file-%05g" 10000 | xargs touch', timeout_ms: 90000 });
    await page.getByRole('treeitem', { name: 'many' }).click();
    await page.getByRole('treeitem', { name: 'file-00001' }).waitFor();
    truth(await page.getByRole('treeitem').count() < 150, 'all of them are in the page');
    for (const key of ['End', 'Home']) { await page.locator('.tree').press(key); await page.getByRole('treeitem', { name: key === 'End' ? 'file-09999' : 'file-00001' }).waitFor(); }
    await page.getByRole('treeitem', { name: 'many' }).click();
    await api('POST', `/sandboxes/${id}/run`, { shell: 'rm -r many', timeout_ms: 90000 });
    await page.getByRole('treeitem', { name: 'many' }).waitFor({ state: 'detached' });
    await judge(page, '10,000 files');
  }));
  await step('a thousand sandboxes are listed, scroll, change and are drawn, without a long task', page, () => atBest(async () => {
    const other = await open(browser, s.link()), p = other.page, samples = process.env.CAY_WEB_REAL ? await real(p, api) : await pretend(p, await api('GET', `/sandboxes/${id}`));
    await p.locator('.app').waitFor();
    await again(p);
    await watch(p);
    await p.evaluate(() => { location.hash = '#/sandboxes'; });
    await p.getByText(/^1,00\d sandboxes/).waitFor();
    const rows = () => p.locator('.list tbody tr').count(), seen = samples();
    truth(await rows() < 120, 'all rows are in the page');
    for (let i = 0; i <= 20; i++) await p.locator('.rows').evaluate((e, f) => new Promise(r => { e.scrollTop = (e.scrollHeight - e.clientHeight) * f; requestAnimationFrame(r); }), i / 20);
    await p.locator('.list').getByText('shoal-0', { exact: true }).waitFor(); // the oldest one
    await until('what they use has changed twice', () => samples() > seen + 1);
    await p.locator('input[type=search]').fill('shoal-777');
    await until('the search is done', async () => await rows() === 1);
    await p.locator('input[type=search]').fill('state:paused');
    await p.getByText(`${BOXES / 10} sandboxes`).waitFor();
    await p.evaluate(() => { location.hash = '#/'; });
    await p.locator('.chart svg a').first().waitFor();
    truth(await p.locator('.chart svg a').count() <= 150, 'more islets than the chart holds');
    const drawn = samples();
    await until('they were drawn again', () => samples() > drawn + 1);
    await settled(p);
    equal(other.wrong.join('\n'), '', 'errors');
    try { await judge(p, '1,000 sandboxes'); } finally { await other.ctx.close(); if (process.env.CAY_WEB_REAL) await away(api); }
  }));
}

/** A thousand of them, every tenth paused; ten at a time. */
async function real(p, api) {
  let asked = 0;
  p.on('request', r => { if (r.url().endsWith('/console/sample')) asked++; });
  for (let i = 0; i < BOXES; i += 10) await Promise.all(Array.from({ length: 10 }, async (_, k) => { const b = await api('POST', '/sandboxes', { name: `shoal-${i + k}`, limits: { memory: 64 << 20 } }); if (!k) await api('POST', `/sandboxes/${b.id}/pause`); }));
  return () => asked;
}
async function away(api) {
  for (let all; (all = (await api('GET', '/sandboxes?limit=1000')).items.filter(b => b.name.startsWith('shoal-'))).length;) for (let i = 0; i < all.length; i += 10) await Promise.all(all.slice(i, i + 10).map(b => api('DELETE', `/sandboxes/${b.id}`)));
}

/** The answers about one sandbox become those about a thousand: nine of ten run and use something, every fourth is a fork. How many times was asked what they use. */
async function pretend(p, one) {
  const letters = 'abcdefghijklmnopqrstuvwxyz234567', name = (kind, n) => kind + 'shoal'.padEnd(15, 'a') + [...Array(4)].map((_, k) => letters[(n >> (5 * k)) & 31]).join(''), began = Date.now();
  const boxes = Array.from({ length: BOXES }, (_, i) => ({ ...one, id: name('c', i), name: `shoal-${i}`, state: i % 10 ? 'running' : 'paused', created_ms: began - (BOXES - i) * 1000, from: i % 4 ? '' : name('s', i - (i % 40)), labels: { n: String(i) } }));
  const snaps = boxes.filter((_, i) => i % 40 === 0).map((b, i) => ({ id: name('s', i * 40), sandbox: b.id, parent: '', label: `of-${b.name}`, method: 'swap', created_ms: b.created_ms + 500, total_us: 900, files: 3, bytes: 4096, durable: true, automatic: false }));
  let asked = 0;
  const use = () => ({ time_ms: Date.now(), cpus: 2, memory: 8e9, memory_free: 4e9, uptime_s: 1000, items: boxes.filter(b => b.state === 'running').map((b, i) => ({ id: b.id, cpu_us: asked * 1e6 * ((i * 7 + asked) % 5), memory: (1 << 20) * (1 + ((i * 13 + asked * 31) % 900)), pids: 3, disk: 4096 * i, net_rx: asked * i, net_tx: asked * i })) });
  const answers = [[/^\/api\/v1\/sandboxes$/, () => ({ items: boxes })], [/^\/api\/v1\/sandboxes\/c[a-z2-7]{19}\/net\/log$/, () => ({ items: [] })], [/^\/api\/v1\/snapshots$/, () => ({ items: snaps })], [/^\/console\/sample$/, () => { asked++; return use(); }]];
  for (const [path, answer] of answers) await p.route(u => path.test(u.pathname), r => (r.request().method() === 'GET' ? r.fulfill({ json: answer() }) : r.continue()));
  return () => asked;
}
