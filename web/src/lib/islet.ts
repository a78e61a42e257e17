// SPDX-License-Identifier: Apache-2.0
// The islet: every sandbox has a coast drawn from its id. A fork keeps its parent's and changes two points of it. Pure.

export type Random = () => number;
export function random(seed: string): Random {
  let h = 2166136261;
  for (let i = 0; i < seed.length; i++) h = Math.imul(h ^ seed.charCodeAt(i), 16777619);
  if (!h) h = 1;
  for (let i = 0; i < 4; i++) { h ^= h << 13; h ^= h >>> 17; h ^= h << 5; }
  return () => { h ^= h << 13; h ^= h >>> 17; h ^= h << 5; return (h >>> 0) / 4294967296; };
}

const POINTS = 9;
/** line: ids from the oldest ancestor to the sandbox itself. */
export function radii(line: string[]): number[] {
  const r = random(line[0] ?? ''), a = Array.from({ length: POINTS }, () => 0.5 + 0.5 * r());
  for (const id of line.slice(1)) {
    const q = random(line[0] + id);
    for (let i = 0; i < 2; i++) a[Math.floor(q() * POINTS)] = 0.5 + 0.5 * q();
  }
  return a;
}

/** A closed curve through the points. */
export function loop(p: [number, number][]): string {
  const n = p.length, at = (i: number) => p[(i + n) % n]!, f = (v: number) => v.toFixed(1);
  let d = '';
  for (let i = 0; i < n; i++) {
    const [x0, y0] = at(i - 1), [x1, y1] = at(i), [x2, y2] = at(i + 1), [x3, y3] = at(i + 2);
    d += (i ? '' : `M${f(x1)} ${f(y1)}`) + `C${f(x1 + (x2 - x0) / 6)} ${f(y1 + (y2 - y0) / 6)} ${f(x2 - (x3 - x1) / 6)} ${f(y2 - (y3 - y1) / 6)} ${f(x2)} ${f(y2)}`;
  }
  return d + 'z';
}

export function coast(line: string[], cx: number, cy: number, R: number, squash = 0.82): string {
  return loop(radii(line).map((k, i) => {
    const t = (i / POINTS) * 2 * Math.PI;
    return [cx + Math.cos(t) * k * R, cy + Math.sin(t) * k * R * squash];
  }));
}
