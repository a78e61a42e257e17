// SPDX-License-Identifier: Apache-2.0
// editor.mjs URL TEXT COMMAND…: code-server at URL, in headless Chromium: /workspace/note.txt is opened, TEXT is typed at its end, and it is saved, which COMMAND sees
// by ending with 0. Needs CAY_PACKAGES.
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
const { chromium } = createRequire(process.env.CAY_PACKAGES + '/')('playwright-core');
const [url, text, ...seen] = process.argv.slice(2), SLOW = 90000;

const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-dev-shm-usage'] });
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(SLOW);
  await page.goto(url + '/?folder=/workspace', { timeout: SLOW });
  await page.locator('.monaco-workbench').waitFor();
  await page.getByRole('button', { name: /Yes, I trust/ }).click(); // a browser that is new to it is always asked
  const file = page.locator('.explorer-folders-view .monaco-list-row', { hasText: 'note.txt' });
  await file.dblclick();
  const lines = page.locator('.editor-instance .view-lines');
  await lines.filter({ hasText: 'before' }).waitFor();
  await lines.click();
  await page.keyboard.press('Control+End');
  await page.keyboard.type(text);
  await lines.filter({ hasText: new RegExp(text.replaceAll(' ', '.')) }).waitFor(); // blanks are shown as others
  await page.keyboard.press('Control+s');
  for (const end = Date.now() + SLOW; spawnSync(seen[0], seen.slice(1)).status !== 0; await page.waitForTimeout(100))
    if (Date.now() > end) throw new Error('it is not saved');
} finally {
  await browser.close();
}
