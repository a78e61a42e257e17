// SPDX-License-Identifier: Apache-2.0
// In which order: files in a directory, and questions that are asked faster than they are answered. Pure.

/** Directories first, then by name as people count: a2 before a10. By a key made once: a collator asked a hundred thousand times would hold the page up. */
export const order = <F extends { path: string; type: string }>(items: F[]): F[] => items.map(f => ({ f, dir: f.type === 'directory' ? 0 : 1, key: f.path.toLowerCase().replace(/\d+/g, d => d.padStart(12, '0')) })).sort((a, b) => a.dir - b.dir || (a.key < b.key ? -1 : a.key > b.key ? 1 : a.f.path < b.f.path ? -1 : 1)).map(x => x.f);
/** One at a time; whoever asks meanwhile is served by one more at the end. */
export function oneByOne<K>(work: (k: K) => Promise<unknown>): (k: K) => Promise<void> {
  const busy = new Map<K, { more: boolean; done: Promise<void> }>();
  return k => {
    const now = busy.get(k);
    if (now) { now.more = true; return now.done; }
    const mine = { more: true, done: Promise.resolve() };
    busy.set(k, mine);
    mine.done = (async () => { while (mine.more) { mine.more = false; await work(k); } busy.delete(k); })();
    return mine.done;
  };
}
