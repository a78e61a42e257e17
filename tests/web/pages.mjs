// SPDX-License-Identifier: Apache-2.0
// Every page, at six sizes and in two themes: nothing sticks out, and whoever cannot see or use a mouse gets along.
import { join } from 'node:path';
import { unreachable } from './keyboard.mjs';
import { axeSource, equal, settled, shots, step, terminal, until } from './lib.mjs';

const views = id => [['overview', '#/'], ['sandboxes', '#/sandboxes'], ['work', `#/sandbox/${id}?file=/workspace/long.txt`], ['network', `#/sandbox/${id}/network`], ['snapshots', `#/sandbox/${id}/snapshots`], ['timeline', `#/sandbox/${id}/timeline`], ['processes', `#/sandbox/${id}/processes`], ['ports-list', `#/sandbox/${id}/ports`], ['resources', `#/sandbox/${id}/resources`], ['glance', `#/sandbox/${id}/glance`], ['past', `#/sandbox/${id}/resources?range=1h`], ['overview-past', '#/?range=1h'], ['templates', '#/templates'], ['jobs', '#/jobs'], ['keys', '#/keys'], ['tenants', '#/keys?view=tenants'], ['audit', '#/audit'], ['doctor', '#/doctor'], ['more', '#/more'], ['create', '#/?dialog=create'], ['palette', '#/?dialog=palette'], ['keyboard', '#/?dialog=keys']];

const both = ['dark', 'light'], some = process.env.CAY_WEB_REAL ? both : ['dark']; // what depends on the size alone is seen in both themes by `make soak`
/** Each page in those themes, one after the other: it is visited once. */
async function visit(page, id, width, height, themes, look) {
  const found = [];
  await page.setViewportSize({ width, height });
  for (const [name, hash] of views(id)) {
    await page.evaluate(h => { location.hash = h; }, hash);
    await settled(page);
    const dialog = /dialog=(\w+)/.exec(hash)?.[1];
    if (dialog) { await page.locator(`#${dialog}`).waitFor(); await settled(page); }
    if (name === 'work') await until('the terminal is drawn', async () => (await terminal(page).innerText()).trim().length > 0);
    for (const theme of themes) {
      await page.emulateMedia({ colorScheme: theme });
      await until('the theme', () => page.evaluate(x => document.documentElement.dataset.theme === x, theme));
      await page.evaluate(() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r))));
      if (look !== sticksOut) await page.screenshot({ path: join(shots, `${name}-${width}-${theme}.png`) });
      found.push(...(await look(page)).map(v => `${name}, ${theme}: ${v}`));
    }
    if (dialog) { await page.keyboard.press('Escape'); await page.locator(`#${dialog}`).waitFor({ state: 'detached' }); }
  }
  equal(found.join('\n'), '', 'findings');
}
export async function pages(page, id, api) {
  await api('POST', `/sandboxes/${id}/run`, { shell: 'seq 200 > long.txt' }); // longer than its pane
  await api('POST', '/sandboxes', {}); // one that nobody named
  await page.evaluate(axeSource);
  for (const [width, height, themes] of [[1280, 800, both], [360, 740, some]]) {
    await step(`every page at ${width} × ${height}, ${themes.join(' and ')}`, page, () => visit(page, id, width, height, themes, async p => [...await sticksOut(p), ...await unreachable(p), ...await axe(p)]));
  }
}
/** Also where a phone is smallest, where panels go below, and where there is room. */
export async function narrow(page, id) {
  await step('no page sticks out at 320, 390, 1024 and 1440 pixels', page, async () => {
    for (const [width, height] of [[320, 640], [390, 844], [1024, 740], [1440, 900]]) await visit(page, id, width, height, some, sticksOut).catch(e => { throw new Error(`at ${width}: ${e.message}`); });
  });
}
/** The page scrolls down, never sideways; what a button says is whole; and where fingers point there is room for one. Links within a text are as high as it is, and in the list all of a row is the link. */
const sticksOut = page => page.evaluate(() => {
  const over = document.documentElement.scrollWidth - innerWidth, cut = [...document.querySelectorAll('button:not(.cut, .plain), a.btn')].filter(e => e.offsetParent && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== 'visible');
  const small = innerWidth > 720 ? [] : [...document.querySelectorAll(document.querySelector('dialog') ? 'dialog :is(a, button)' : '.foot a, main :is(a, button, summary):not(svg *)')].filter(e => e.offsetParent && e.getBoundingClientRect().height < 43.5 && !e.closest('p:not(.presets), .facts, .ask, .list'));
  return [...small.map(e => `“${(e.ariaLabel ?? e.textContent).slice(0, 40)}” ${e.className} in ${e.parentElement.className || e.parentElement.tagName} is ${Math.round(e.getBoundingClientRect().height)} high`), ...(over > 0 ? [`${over} pixels too wide`] : []), ...cut.map(e => `“${e.textContent.slice(0, 40)}” is cut`)];
});
async function axe(page) {
  const r = await page.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations'], iframes: false }));
  return r.violations.map(v => `${v.id} ${v.nodes.slice(0, 3).map(n => n.target.join(' ') + ' ' + (n.any[0]?.message ?? '').slice(0, 120)).join(' | ')}`);
}
