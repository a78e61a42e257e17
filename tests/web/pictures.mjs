// SPDX-License-Identifier: Apache-2.0
// pictures.mjs DIR: the three pictures of the README, taken anew of a harbour that is made for them. Needs CAY_BUILD and CAY_PACKAGES as `browser` sets them.
import { join } from 'node:path';
import { launch, open, Server, settled, shows, type, until } from './lib.mjs';

const out = process.argv[2], s = new Server();
const jobs = 'import queue, time\n\nJOBS = queue.Queue()\n\n\ndef submit(job, *, retries=3):\n    """Put a job in line; it is tried again when it fails."""\n    JOBS.put((job, retries))\n\n\ndef work():\n    while not JOBS.empty():\n        job, left = JOBS.get()\n        try:\n            job()\n        except OSError:\n            if left:\n                time.sleep(0.2)\n                submit(job, retries=left - 1)\n';
const better = jobs.replace('                time.sleep(0.2)\n', '').replace('except OSError', 'except Exception') + '\n\ndef drain():\n    """Wait until nothing is left."""\n    while not JOBS.empty():\n        work()\n';
await s.start();
const browser = await launch();
try {
  const { page } = await open(browser, s.link());
  await page.locator('.app').waitFor();
  const api = (method, path, body) => page.evaluate(async ([m, p, b]) => { const { csrf } = await (await fetch('/console/session')).json(); const a = await fetch('/api/v1' + p, { method: m, headers: { 'X-Cay-Csrf': csrf, 'Content-Type': 'application/json' }, body: b ? JSON.stringify(b) : undefined }); return a.status === 204 ? null : a.json(); }, [method, path, body]);
  const make = async name => (await api('POST', '/sandboxes', { name })).id, run = (id, shell) => api('POST', `/sandboxes/${id}/run`, { shell, timeout_ms: 60000 }), put = (id, path, text) => run(id, `cat > ${path} <<'END'\n${text}END`), snap = (id, label) => api('POST', `/sandboxes/${id}/snapshots`, { label });
  const hold = (id, mib) => api('POST', `/sandboxes/${id}/processes`, { shell: `exec python3 -c "import time; x=bytearray(${mib}<<20); time.sleep(900)"` });
  for (const [name, forks, mib] of [['agent-swarm', 5, 60], ['docs-build', 2, 24], ['review-pr', 3, 40]]) { const id = await make(name); await run(id, 'echo start > a'); await snap(id, `${name}-ready`); await api('POST', `/sandboxes/${id}/fork`, { count: forks }); await hold(id, mib); }
  for (const [name, mib] of [['lint', 12], ['scratch', 6]]) await hold(await make(name), mib);
  await api('POST', `/sandboxes/${await make('nightly-eval')}/pause`);
  const main = await make('fix-flaky-tests');
  await put(main, 'jobs.py', jobs);
  await put(main, 'test_jobs.py', 'import jobs\n\n\ndef test_all():\n    jobs.submit(lambda: None)\n    jobs.work()\n');
  await run(main, 'mkdir docs; echo "# jobs" > README.md; echo usage > docs/use.md');
  await snap(main, 'checked-out');
  await put(main, 'jobs.py', jobs.replace('time.sleep(0.2)', 'time.sleep(2)'));
  await snap(main, 'sleep-longer');
  await api('POST', `/sandboxes/${main}/undo`, { to: 'checked-out' });
  await run(main, 'python3 -c "import jobs"');
  await put(main, 'jobs.py', better);
  await snap(main, 'retry-any-error');
  await api('POST', `/sandboxes/${main}/fork`, { name: 'try-threads', count: 1 });
  await put(main, 'test_jobs.py', 'import jobs\n\n\ndef test_all():\n    jobs.submit(lambda: None)\n    jobs.drain()\n    assert jobs.JOBS.empty()\n');
  await run(main, 'rm -r docs; echo "drain() waits" >> README.md');
  await snap(main, 'tests-green');
  await run(main, 'echo "and more" >> README.md');
  await api('PUT', `/sandboxes/${main}/net`, { mode: 'rules', rules: ['pypi.org', 'github'] });
  await run(main, 'python3 -c "import socket; socket.getaddrinfo(\'files.pythonhosted.org\', 443)" 2>/dev/null; true');
  await hold(main, 18);
  const go = hash => page.evaluate(h => { location.hash = h; }, hash), take = async name => { await settled(page); await page.screenshot({ path: join(out, name) }); };
  await page.locator('.inbox li', { hasText: 'files.pythonhosted.org' }).waitFor();
  const { items } = await api('GET', `/snapshots?sandbox=${main}`), of = label => items.find(x => x.label === label).id;
  await go('#/');
  await until('there is something to plot', async () => (await page.locator('.plots canvas').count()) === 4);
  await page.waitForTimeout(25000); // so that the lines are lines
  await page.evaluate(() => window.scrollTo(0, 70));
  await take('overview.png');
  await go(`#/sandbox/${main}?file=/workspace/jobs.py&view=diff&since=${of('checked-out')}`);
  await shows(page, '$');
  await type(page, 'clear; python3 -c "import test_jobs; test_jobs.test_all(); print(\'1 passed\')"; ls');
  await shows(page, '1 passed');
  await page.locator('.edit .add').first().waitFor();
  await page.keyboard.press('Control+Shift+Escape');
  await take('work.png');
  await go(`#/sandbox/${main}/snapshots?a=${of('checked-out')}&b=${of('tests-green')}`);
  await page.locator('.cmplist button').first().waitFor();
  await take('snapshots.png');
} finally { await browser.close(); await s.end(); }
