// SPDX-License-Identifier: Apache-2.0
// The address holds what is seen: #/sandbox/ID/files?file=a.txt. So every view is a link, and Back works.
import { signal } from '@preact/signals';

export interface Route { path: string[]; query: URLSearchParams }

export function parse(hash: string): Route {
  const [path = '', query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  return { path: path.split('/').filter(Boolean).map(decodePart), query: new URLSearchParams(query) };
}
function decodePart(s: string): string {
  try { return decodeURIComponent(s); } catch { return s; }
}
export function href(path: (string | undefined)[], query: Record<string, string | null | undefined> = {}): string {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(query)) if (v) q.set(k, v);
  const tail = q.toString();
  return '#/' + path.filter(p => p !== undefined && p !== '').map(p => encodeURIComponent(p!)).join('/') + (tail ? '?' + tail : '');
}

export const route = signal<Route>({ path: [], query: new URLSearchParams() });
/** How far each page of the history was scrolled. Who goes back finds it so, as soon as the page is tall enough again; a link leads to the top. */
const scrolled = new Map<number, number>();
let entry = 0, entries = 0;
function scrollTo(y: number) {
  const until = performance.now() + 1500, again = () => { window.scrollTo(0, y); if (window.scrollY < y - 1 && performance.now() < until) requestAnimationFrame(again); };
  requestAnimationFrame(again);
}
export function start() {
  const read = () => {
    const back = history.state?.n as number | undefined;
    scrolled.set(entry, window.scrollY);
    entry = back ?? ++entries;
    if (back === undefined) history.replaceState({ n: entry }, '');
    route.value = parse(location.hash);
    scrollTo(back === undefined ? 0 : scrolled.get(back) ?? 0);
  };
  history.scrollRestoration = 'manual';
  entries = entry = Number(history.state?.n ?? 0);
  addEventListener('hashchange', read);
  read();
}
export const go = (to: string) => { location.hash = to; };
/** Another query of the same page, without a step in the history. */
export function setQuery(change: Record<string, string | null>) {
  const now = Object.fromEntries(route.value.query), to = href(route.value.path, { ...now, ...change });
  history.replaceState(history.state, '', to);
  route.value = parse(to);
}
