// SPDX-License-Identifier: Apache-2.0
// A server of our own, a browser, and steps that are told by name. Everything is waited for, nothing is timed.
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, mkdirSync, openSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const build = process.env.CAY_BUILD, packages = process.env.CAY_PACKAGES;
const require = createRequire(packages + '/');
export const { chromium } = require('playwright-core');
export const axeSource = require('axe-core').source;
export const shots = join(build, 'console-shots');
mkdirSync(shots, { recursive: true });
const SLOW = Number(process.env.CAY_WEB_SLOW ?? 90000), LOOK = 60; // how long something may take where much else goes on; how often is looked

export class Server {
  constructor() {
    this.tmp = mkdtempSync(join(tmpdir(), 'cay-web-'));
    this.log = join(shots, 'server.log');
    rmSync(this.log, { force: true });
    this.env = { ...process.env, CAY_HOME: join(this.tmp, 'home'), CAY_LIBEXEC: build };
  }
  async start(port = 0) {
    this.proc = spawn(join(build, 'cay-server'), ['--home', this.env.CAY_HOME, '--listen', `127.0.0.1:${port}`], { env: this.env, stdio: ['ignore', 'pipe', openSync(this.log, 'a')] });
    const one = this.proc;
    one.once('exit', (c, by) => { if (!one.asked) console.log(`     the server ended by itself (${by ?? c}): ${readFileSync(this.log, 'utf8').slice(-2000)}`); });
    this.url = await new Promise((yes, no) => {
      let said = '';
      this.proc.stdout.on('data', d => { said += d; const m = /listening on (http:\/\/\S+)/.exec(said); if (m) yes(m[1]); });
      this.proc.on('exit', c => no(new Error(`the server ended with ${c}: ${said}`)));
    });
    this.port = Number(this.url.split(':').pop());
  }
  /** By TERM it waits for streams to end; by KILL it is gone at once. */
  async stop(by = 'SIGTERM') {
    const p = this.proc;
    if (!p || p.exitCode !== null || p.signalCode) return;
    p.asked = true;
    const gone = new Promise(r => p.once('exit', r));
    p.kill(by);
    setTimeout(() => p.kill('SIGKILL'), 8000).unref();
    await gone;
  }
  cay(...words) { return execFileSync(join(build, 'cay'), words, { env: this.env, stdio: ['ignore', 'pipe', 'pipe'], timeout: SLOW }).toString().trim(); }
  link(...words) { return this.cay('open', '--print', ...words).split('\n')[0]; }
  async end() {
    await this.stop();
    try { const ids = this.cay('ls', '-q').split('\n').filter(Boolean); if (ids.length) this.cay('rm', '-f', ...ids); } catch { /* the directory goes anyway */ }
    for (let i = 0; i < 30; i++) { try { rmSync(this.tmp, { recursive: true, force: true }); return; } catch { await new Promise(r => setTimeout(r, 200)); } }
  }
}

let passed = 0;
const failures = [];
export async function step(name, page, f) {
  const began = Date.now();
  try {
    await f();
    passed++;
    console.log(`ok   ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
  } catch (e) {
    failures.push(name);
    console.log(`FAIL ${name}: ${String(e.message ?? e).split('\n').slice(0, 12).join('\n     ')}`);
    await page?.screenshot({ path: join(shots, `failed-${name.replace(/\W+/g, '-')}.png`) }).catch(() => undefined);
  }
}
export function verdict() {
  console.log(`${passed} passed, ${failures.length} failed${failures.length ? ': ' + failures.join('; ') : ''}`);
  return failures.length ? 1 : 0;
}

export const launch = () => chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--disable-dev-shm-usage'] });

/** A page that tells what goes wrong in it: errors of scripts, rules that were broken, requests that left. */
export async function open(browser, url, o = {}) {
  const ctx = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: 'dark', acceptDownloads: true, permissions: ['clipboard-read', 'clipboard-write'], ...o });
  const page = await ctx.newPage(), wrong = [], origin = new URL(url).origin;
  page.setDefaultTimeout(SLOW);
  count(page);
  page.on('pageerror', e => wrong.push(`script: ${e.message}`));
  page.on('console', m => { if (m.type() === 'error' && !/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE|ERR_EMPTY|ERR_CONNECTION_RESET|WebSocket connection|status of 50\d|status of 409/.test(m.text())) wrong.push(`console: ${m.text().slice(0, 300)} ${m.location().url.slice(0, 120)}`); });
  page.on('request', r => { const u = new URL(r.url()); if (u.origin !== origin && !/^(data|blob|about):/.test(r.url()) && !/-c[a-z2-7]{19}\.localhost$/.test(u.hostname)) wrong.push(`left the origin: ${r.url().slice(0, 120)}`); });
  await page.goto(url);
  return { ctx, page, wrong };
}
/** What was asked for and is not answered yet; streams are never done. */
const asked = new WeakMap();
function count(page) {
  const open = new Set(), done = r => open.delete(r);
  asked.set(page, open);
  page.on('request', r => { if (r.resourceType() === 'fetch' && r.headers().accept !== 'text/event-stream') open.add(r); });
  page.on('requestfinished', done);
  page.on('requestfailed', done);
}
/** Loads the page anew. What it had asked for before is told neither as done nor as failed, and nobody waits for it. */
export async function again(page) {
  const at = page.url();
  await page.goto('about:blank');
  asked.get(page).clear();
  await page.goto(at);
  await page.locator('.app').waitFor();
}
/** Nothing is on its way, nothing says that it loads, and what there is has been painted: twice in a row, since one answer may lead to another question. */
export async function settled(page) {
  let quiet = 0;
  await until('the page comes to rest', async () => {
    const loads = await page.evaluate(() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(!!document.querySelector('[aria-busy=true]'))))));
    quiet = loads || asked.get(page).size ? 0 : quiet + 1;
    return quiet > 1;
  }).catch(e => { throw new Error(`${e.message}; not answered: ${[...asked.get(page)].map(r => r.url()).join(' ') || 'nothing'}`); });
}
export const terminal = page => page.locator('.screen:not([hidden]) .xterm-rows');
export async function shows(page, text, in_ = terminal(page)) {
  const there = async () => (await in_.allInnerTexts()).join('\n').replace(/\u00a0/g, ' ');
  await until(`“${text}” appears`, async () => (await there()).includes(text)).catch(async e => { throw new Error(`${e.message}; there is: ${(await there()).trim().slice(-400)}`); });
}
export async function until(what, f) {
  for (const end = Date.now() + SLOW; Date.now() < end; await new Promise(r => setTimeout(r, LOOK))) { const v = await f(); if (v) return v; }
  throw new Error(`it did not come true: ${what}`);
}
/** Types a line into the terminal in sight. */
export async function type(page, line) {
  await page.locator('.screen:not([hidden]) textarea').focus();
  await page.keyboard.type(line);
  await page.keyboard.press('Enter');
}
export const equal = (a, b, what = '') => { if (a !== b) throw new Error(`${what}: ${JSON.stringify(a)} is not ${JSON.stringify(b)}`); };
export const truth = (v, what) => { if (!v) throw new Error(what); };
