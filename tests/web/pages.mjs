// SPDX-License-Identifier: Apache-2.0
// Every page, at two sizes and in two themes: nothing sticks out, and whoever cannot see or use a mouse gets along.
import { join } from 'node:path';
import { unreachable } from './keyboard.mjs';
import { axeSource, equal, settled, shots, step } from './lib.mjs';

const views = id => [['overview', '#/'], ['sandboxes', '#/sandboxes'], ['work', `#/sandbox/${id}?file=/workspace/a.txt`], ['network', `#/sandbox/${id}/network`], ['snapshots', `#/sandbox/${id}/snapshots`], ['timeline', `#/sandbox/${id}/timeline`], ['processes', `#/sandbox/${id}/processes`], ['ports-list', `#/sandbox/${id}/ports`], ['resources', `#/sandbox/${id}/resources`], ['glance', `#/sandbox/${id}/glance`], ['past', `#/sandbox/${id}/resources?range=1h`], ['overview-past', '#/?range=1h'], ['templates', '#/templates'], ['jobs', '#/jobs'], ['keys', '#/keys'], ['tenants', '#/keys?view=tenants'], ['audit', '#/audit'], ['doctor', '#/doctor'], ['more', '#/more']];

export async function pages(page, id) {
  await page.evaluate(axeSource);
  for (const [width, height, theme] of [[1280, 800, 'dark'], [360, 740, 'light'], [1280, 800, 'light'], [360, 740, 'dark']]) {
    await step(`every page at ${width} × ${height}, ${theme}`, page, async () => {
      await page.setViewportSize({ width, height });
      await page.emulateMedia({ colorScheme: theme });
      const found = [];
      for (const [name, hash] of views(id)) {
        await page.evaluate(h => { location.hash = h; }, hash);
        await settled(page);
        await page.screenshot({ path: join(shots, `${name}-${width}-${theme}.png`) });
        found.push(...[...await sticksOut(page), ...await unreachable(page), ...await axe(page)].map(v => `${name}: ${v}`));
      }
      equal(found.join('\n'), '', 'findings');
    });
  }
}
/** Also where a phone is smallest, and where panels go below. */
export async function narrow(page, id) {
  await step('no page sticks out at 320 and 1024 pixels', page, async () => {
    const found = [];
    for (const width of [320, 1024]) {
      await page.setViewportSize({ width, height: 740 });
      for (const [name, hash] of views(id)) { await page.evaluate(h => { location.hash = h; }, hash); await settled(page); found.push(...(await sticksOut(page)).map(v => `${name} at ${width}: ${v}`)); }
    }
    equal(found.join('\n'), '', 'findings');
  });
}
/** The page scrolls down, never sideways; and what a button says is whole. */
const sticksOut = page => page.evaluate(() => {
  const over = document.documentElement.scrollWidth - innerWidth, cut = [...document.querySelectorAll('button:not(.cut, .plain), a.btn')].filter(e => e.offsetParent && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== 'visible');
  return [...(over > 0 ? [`${over} pixels too wide`] : []), ...cut.map(e => `“${e.textContent.slice(0, 40)}” is cut`)];
});
async function axe(page) {
  const r = await page.evaluate(() => window.axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa'], resultTypes: ['violations'], iframes: false }));
  return r.violations.filter(v => ['serious', 'critical'].includes(v.impact)).map(v => `${v.id} ${v.nodes.slice(0, 3).map(n => n.target.join(' ') + ' ' + (n.any[0]?.message ?? '').slice(0, 120)).join(' | ')}`);
}
