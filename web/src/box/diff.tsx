// SPDX-License-Identifier: Apache-2.0
// A patch as lines, in the colours of its language: each side of a hunk is read by itself, so that what was taken out does not colour what was put in.
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { safe } from '../lib/format';
import { cutBy, diffLines, sides, type DiffLine, type Tint } from '../state';

const LINES = 5000;

/** What cannot be seen is shown, but a tab is a tab. */
const plain = (s: string) => s.split('\t').map(x => safe(x, 1000)).join('\t');
const dressed = (l: DiffLine, tints?: Tint[]): ComponentChildren => (tints?.length && l.text.length < 1000 ? cutBy(l.text, tints).map(([text, c], i) => (c ? <span key={i} class={c}>{plain(text)}</span> : plain(text))) : plain(l.text));

export function DiffView({ path, patch }: { path: string; patch: string }) {
  const lines = useMemo(() => diffLines(patch).slice(0, LINES), [patch]), [tints, tint] = useState<ReadonlyMap<DiffLine, Tint[]> | null>(null);
  useEffect(() => {
    let gone = false;
    void import('../cm').then(cm => cm.colours(path)).then(colour => {
      if (!colour || gone) return;
      tint(new Map(sides(lines).flatMap(s => s.spread(colour(s.text)))));
    }, () => undefined);
    return () => { gone = true; };
  }, [path, lines]);
  return <div class="code" role="region" aria-label="Changes" tabIndex={0}>{lines.map((l, i) => l.kind === '@' ? <div key={i} class="hunk"><span /><span /><span /><span>{l.text ? safe(l.text, 200) : '…'}</span></div> : <div key={i} class={l.kind === '+' ? 'add' : l.kind === '-' ? 'del' : ''}><span>{l.old || ''}</span><span>{l.new || ''}</span><span>{l.kind === ' ' ? '' : l.kind}</span><span>{dressed(l, tints?.get(l))}</span></div>)}</div>;
}
