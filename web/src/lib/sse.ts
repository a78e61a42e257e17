// SPDX-License-Identifier: Apache-2.0
// Server-sent events out of pieces of text. Pure.

export interface Message { id: string; event: string; data: string }

export class Events {
  private rest = '';
  private now: Message = { id: '', event: '', data: '' };
  private lines = 0;
  constructor(private fn: (m: Message) => void) {}
  push(piece: string) {
    this.rest += piece;
    for (let at; (at = this.rest.indexOf('\n')) >= 0;) {
      this.line(this.rest.slice(0, at).replace(/\r$/, ''));
      this.rest = this.rest.slice(at + 1);
    }
  }
  private line(s: string) {
    if (!s) {
      if (this.lines) this.fn({ ...this.now, event: this.now.event || 'message' });
      this.now = { id: this.now.id, event: '', data: '' };
      this.lines = 0;
      return;
    }
    const colon = s.indexOf(':');
    if (colon === 0) return;
    const name = colon < 0 ? s : s.slice(0, colon), value = colon < 0 ? '' : s.slice(colon + 1).replace(/^ /, '');
    if (name === 'id') this.now.id = value;
    else if (name === 'event') this.now.event = value;
    else if (name === 'data') { this.now.data += (this.lines++ ? '\n' : '') + value; }
  }
}
