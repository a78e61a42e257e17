// SPDX-License-Identifier: Apache-2.0
// How soon something is seen: the first paint of the overview and of a sandbox, on loopback, with nothing kept by the browser. A hundred milliseconds on a
// machine that has nothing else to do; how busy this one is, a fixed piece of work tells in the same run, as in many.mjs. Beside it what the same browser
// takes for a page of one word: what it takes anyway.
import { open, step } from './lib.mjs';
import { atBest } from './many.mjs';

const MOST = 100, TRIES = 5;
const first = page => page.evaluate(() => new Promise(r => { const look = () => { const p = performance.getEntriesByName('first-contentful-paint')[0]; if (p) r(p.startTime); else setTimeout(look, 5); }; look(); }));
const pace = page => page.evaluate(() => { const all = []; for (let k = 0; k < 12; k++) { const t = performance.now(); let x = 0; for (let i = 0; i < 4e6; i++) x = (x * 31 + i) | 0; window.sink = x; all.push(performance.now() - t); } return all.reduce((a, b) => a + b) / all.length / Math.min(...all); });

export async function paint(browser, s, page, id) {
  await step('something is seen within 100 ms', page, () => atBest(async () => {
    const { ctx, page: p } = await open(browser, s.link()), cdp = await ctx.newCDPSession(p);
    await p.locator('.app').waitFor();
    await cdp.send('Network.setCacheDisabled', { cacheDisabled: true });
    const best = async url => { let min = Infinity; for (let i = 0; i < TRIES; i++) { await p.goto('about:blank'); await p.goto(url); min = Math.min(min, await first(p)); } return min; };
    const base = new URL(s.link()).origin, word = await best(`${base}/api/v1/version`);
    for (const [name, hash] of [['overview', '#/'], ['sandbox', `#/sandbox/${id}`]]) {
      const before = await pace(p), ms = await best(`${base}/${hash}`), busy = Math.max(before, await pace(p)), may = MOST * busy;
      console.log(`     ${name}: first paint after ${ms.toFixed(0)} ms of ${may.toFixed(0)} (a page of one word: ${word.toFixed(0)} ms; this machine: ${busy.toFixed(2)} times as slow as at its best)`);
      if (ms > may) { await ctx.close(); throw Object.assign(new Error(`${name}: first paint after ${ms.toFixed(0)} ms`), { long: true }); }
    }
    await ctx.close();
  }));
}
