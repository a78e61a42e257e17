// SPDX-License-Identifier: Apache-2.0
// The page's rules let a <style> in only with this load's nonce; xterm and CodeMirror make theirs by createElement.
const nonce = document.querySelector<HTMLMetaElement>('meta[name=csp-nonce]')?.content ?? '';
const make = Document.prototype.createElement;
Document.prototype.createElement = function (this: Document, name: string, o?: ElementCreationOptions) {
  const e = make.call(this, name, o);
  if (name.toLowerCase() === 'style') (e as HTMLStyleElement).nonce = nonce;
  return e;
} as typeof make;
export {};
