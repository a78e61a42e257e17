// SPDX-License-Identifier: Apache-2.0
// Which time plots show: what this page has seen, or what the server kept of the past day. In the address, as every view.
import { get, type List } from './api';
import { route, setQuery } from './lib/router';
import { now } from './live';
import { ranges, withHoles, type Point } from './state';
import { Seg, useAsk } from './ui';

export const range = () => { const r = route.value.query.get('range') ?? ''; return ranges[r] ? r : ''; };
export const Range = () => <Seg small label="Time" value={range()} options={[['', 'Live'], ['15m', '15 min'], ['1h', '1 h'], ['6h', '6 h'], ['24h', '24 h']]} onPick={v => setQuery({ range: v || null })} />;

/** What the server kept of that time; asked for again every quarter of a minute. */
export function usePast(path: string) {
  const r = range(), a = useAsk(async () => {
    if (!r) return null;
    const until = Date.now(), since = until - ranges[r]!, { items } = await get<List<Point>>(path, { since_ms: since, until_ms: until });
    return { since, until, ...withHoles(items, Math.max(60000, (ranges[r]! / 1000) * 4)) };
  }, [path, r, Math.floor(now.value / 15000)]);
  return { ...a, range: r, data: r ? a.data ?? undefined : undefined };
}
