// SPDX-License-Identifier: Apache-2.0
// What a command printed, as lines in the order in which they came, each with its time. Pure.

export interface OutLine { n: number; t: number; err: boolean; text: string; open: boolean; shown?: string } // n: its own for ever; t: 0 when no time is known
const KEPT = 3000, LONG = 16384;

/** Nothing of it is obeyed: colours and cursor moves are left out, what cannot be seen is shown. */
export const plainText = (s: string) => s.replace(/\x1b\[[0-9;?]*[ -/]*[@-~]/g, '').replace(/\x1b\][^\x07\x1b]*(\x07|\x1b\\)?/g, '').replace(/\x1b[@-_]/g, '').replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, c => (c === '\r' ? '' : c.charCodeAt(0) < 256 ? `\\x${c.charCodeAt(0).toString(16).padStart(2, '0')}` : `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`));
/** A line that is written over, as a bar that grows, is what it was written over with last. */
const last = (s: string) => s.slice(s.lastIndexOf('\r', s.length - 2) + 1);

export class OutLines {
  lines: OutLine[] = [];
  dropped = 0;
  timed = false; // any of them has a time
  private count = 0;
  private ends: [OutLine | null, OutLine | null] = [null, null]; // the last line of each stream, while it goes on

  add(err: boolean, text: string, t = 0) {
    const i = Number(err), parts = text.split('\n');
    this.timed ||= t > 0;
    parts.forEach((part, k) => {
      let l = this.ends[i];
      if (!l && (part || k < parts.length - 1)) { l = { n: this.count++, t, err, text: '', open: true }; this.put(l); this.ends[i] = l; }
      if (!l) return;
      l.text = last(l.text + part);
      if (l.text.length > LONG) l.text = l.text.slice(0, LONG) + '…';
      l.shown = undefined;
      if (k < parts.length - 1) { l.open = false; this.ends[i] = null; }
    });
    const over = this.lines.length - KEPT;
    if (over > 0) { this.lines.splice(0, over); this.dropped += over; }
  }
  /** Both streams are told one after the other; by their times they are one again. */
  private put(l: OutLine) {
    let at = this.lines.length;
    if (l.t) while (at > 0 && this.lines[at - 1]!.t > l.t) at--;
    this.lines.splice(at, 0, l);
  }
  static shown(l: OutLine): string { return (l.shown ??= plainText(l.text)); }
  /** The first line that came at that time or later; the last one when all came before, -1 without any. */
  at(t: number): number { const i = this.lines.findIndex(l => l.t >= t); return i < 0 ? this.lines.length - 1 : i; }
}
