// SPDX-License-Identifier: Apache-2.0
// S-54, the browser's part: what a program in a sandbox prints into a terminal steers neither the page nor the clipboard, and what is pasted stays pasted.
import { equal, settled, shows, step, terminal, truth, type, until } from './lib.mjs';

export async function escapes(page, api, id) {
  const go = hash => page.evaluate(h => { location.hash = h; }, hash), clip = text => page.evaluate(t => navigator.clipboard.writeText(t), text), ctx = page.context();
  await step('escapes in a terminal steer neither the page nor the clipboard', page, async () => {
    await go(`#/sandbox/${id}`);
    await settled(page);
    await shows(page, '$');
    await clip('untouched');
    const title = await page.title(), windows = ctx.pages().length;
    // A clipboard (OSC 52), a title (OSC 0 and 2), a link (OSC 8) to a script, DCS with and without an answer, reports of cursor, device and window.
    await api('POST', `/sandboxes/${id}/run`, { shell: `printf '%b' '\\033]52;c;aGFja2Vk\\007\\033]0;hacked\\007\\033]2;hacked\\033\\\\\\033]8;;javascript:window.hacked=4\\007press-here\\033]8;;\\007 \\033P$q"p\\033\\\\\\033Pqjunk\\033\\\\\\033[6n\\033[c\\033[21t\\033[14t<img src=x onerror=window.hacked=4> the-%s\\n' > esc` });
    await type(page, 'clear; printf "$(cat esc)" end');
    await shows(page, 'the-end');
    const at = await terminal(page).getByText('press-here').first().boundingBox();
    await page.mouse.move(at.x + 20, at.y + 6, { steps: 4 });
    await page.mouse.click(at.x + 22, at.y + 6);
    equal(await page.evaluate(() => [window.hacked, document.querySelectorAll('.xterm img').length].join()), ',0', 'a script, an element');
    equal(await page.evaluate(() => navigator.clipboard.readText()), 'untouched', 'the clipboard');
    equal(await page.title(), title, 'the title');
    equal(ctx.pages().length, windows, 'windows');
    truth(!await page.locator('#question').count(), 'it asks to open a script');
    await page.locator('.screen:not([hidden]) textarea').focus();
    await page.keyboard.press('Control+c'); // what the terminal answered is not run
    await type(page, 'clear; echo cl""ean');
    await shows(page, 'clean');
  });
  await step('what is pasted does not end the paste by itself', page, async () => {
    await type(page, 'rm -f ran; clear; bind "set enable-bracketed-paste on"; echo rea""dy');
    await shows(page, 'ready');
    await page.locator('.screen:not([hidden]) textarea').focus();
    await page.locator('.screen:not([hidden]) textarea').evaluate(e => { const d = new DataTransfer(); d.setData('text/plain', 'echo one\x1b[201~\recho t""wo > ran\r'); e.dispatchEvent(new ClipboardEvent('paste', { clipboardData: d, bubbles: true, cancelable: true })); });
    await shows(page, 'echo one');
    await page.keyboard.press('Control+c');
    await type(page, 'clear; ls ran; echo lo""oked');
    await shows(page, 'looked');
    await until('nothing ran', async () => (await api('POST', `/sandboxes/${id}/run`, { shell: 'test -e ran; echo $?' })).stdout.trim() === '1');
  });
}
