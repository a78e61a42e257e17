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
export function start() {
  const read = () => { route.value = parse(location.hash); };
  addEventListener('hashchange', read);
  read();
}
export const go = (to: string) => { location.hash = to; };
/** Another query of the same page, without a step in the history. */
export function setQuery(change: Record<string, string | null>) {
  const now = Object.fromEntries(route.value.query), to = href(route.value.path, { ...now, ...change });
  history.replaceState(null, '', to);
  route.value = parse(to);
}
