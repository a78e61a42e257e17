// SPDX-License-Identifier: Apache-2.0
// CodeMirror as the console wears it: colours from the tokens, so that it changes with the theme by itself.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionSource } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { json } from '@codemirror/lang-json';
import { bracketMatching, HighlightStyle, indentOnInput, StreamLanguage, syntaxHighlighting, type StreamParser } from '@codemirror/language';
import { linter, lintGutter, lintKeymap, type Diagnostic } from '@codemirror/lint';
import { highlightSelectionMatches, searchKeymap } from '@codemirror/search';
import { Compartment, EditorState, type Extension } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from '@codemirror/view';
import { tags as g } from '@lezer/highlight';

const look = EditorView.theme({
  '&': { height: '100%', backgroundColor: 'var(--panel)', color: 'var(--ink)', fontSize: 'var(--t-xs)' }, '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '19px' }, '.cm-content': { caretColor: 'var(--sand)', padding: '6px 0' },
  '.cm-gutters': { backgroundColor: 'var(--panel)', color: 'var(--ink3)', border: 'none' }, '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'color-mix(in srgb, var(--hover) 55%, transparent)' }, '.cm-cursor': { borderLeftColor: 'var(--sand)' },
  '&.cm-focused .cm-selectionBackground, .cm-selectionBackground, .cm-content ::selection': { backgroundColor: 'color-mix(in srgb, var(--sea) 26%, transparent) !important' }, '&.cm-focused': { outline: 'none' },
  '.cm-tooltip': { backgroundColor: 'var(--raised)', border: 'none', boxShadow: 'var(--shadow)', borderRadius: '5px' }, '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--sea-wash)', color: 'var(--ink)' }, '.cm-panels': { backgroundColor: 'var(--raised)', color: 'var(--ink)' },
  '.cm-searchMatch': { backgroundColor: 'var(--amber-wash)', outline: '1px solid var(--amber)' }, '.cm-diagnostic': { borderLeftColor: 'var(--coral)' }, '.cm-textfield': { backgroundColor: 'var(--bg)', color: 'var(--ink)' }, '.cm-button': { backgroundImage: 'none', backgroundColor: 'var(--raised)', color: 'var(--ink)' },
});
const paint = syntaxHighlighting(HighlightStyle.define([
  { tag: [g.keyword, g.modifier, g.operatorKeyword], color: 'var(--iris)' }, { tag: [g.string, g.special(g.string), g.regexp], color: 'var(--palm)' }, { tag: [g.comment, g.meta], color: 'var(--ink3)' }, { tag: [g.number, g.bool, g.null, g.atom], color: 'var(--amber)' },
  { tag: [g.function(g.variableName), g.definition(g.variableName), g.propertyName, g.attributeName], color: 'var(--sea)' }, { tag: [g.typeName, g.className, g.tagName, g.heading], color: 'var(--sand)' }, { tag: g.invalid, color: 'var(--coral)' }, { tag: g.link, textDecoration: 'underline' }, { tag: g.strong, fontWeight: '600' },
]));

const modes: [RegExp, () => Promise<StreamParser<unknown>>][] = [
  [/\.pyi?$/, () => import('@codemirror/legacy-modes/mode/python').then(m => m.python)], [/\.(m?[jt]sx?|cjs)$/, () => import('@codemirror/legacy-modes/mode/javascript').then(m => m.typescript)],
  [/\.(c|h)$/, () => import('@codemirror/legacy-modes/mode/clike').then(m => m.c)], [/\.(cc|cpp|hpp|cxx)$/, () => import('@codemirror/legacy-modes/mode/clike').then(m => m.cpp)], [/\.java$/, () => import('@codemirror/legacy-modes/mode/clike').then(m => m.java)],
  [/\.rs$/, () => import('@codemirror/legacy-modes/mode/rust').then(m => m.rust)], [/\.go$/, () => import('@codemirror/legacy-modes/mode/go').then(m => m.go)], [/\.(sh|bash|zsh|profile)$|(^|\/)\.(bash|z)\w+$|(^|\/)Makefile$/, () => import('@codemirror/legacy-modes/mode/shell').then(m => m.shell)],
  [/\.ya?ml$/, () => import('@codemirror/legacy-modes/mode/yaml').then(m => m.yaml)], [/\.(toml|lock)$/, () => import('@codemirror/legacy-modes/mode/toml').then(m => m.toml)], [/\.(html?|xml|svg)$/, () => import('@codemirror/legacy-modes/mode/xml').then(m => m.html)], [/\.css$/, () => import('@codemirror/legacy-modes/mode/css').then(m => m.css)],
  [/(^|\/)Dockerfile$/, () => import('@codemirror/legacy-modes/mode/dockerfile').then(m => m.dockerFile)], [/\.sql$/, () => import('@codemirror/legacy-modes/mode/sql').then(m => m.standardSQL)], [/\.rb$/, () => import('@codemirror/legacy-modes/mode/ruby').then(m => m.ruby)], [/\.lua$/, () => import('@codemirror/legacy-modes/mode/lua').then(m => m.lua)],
];
async function language(path: string): Promise<Extension> {
  if (/\.(json|jsonl|webmanifest)$/.test(path)) return json();
  const mode = modes.find(([re]) => re.test(path));
  return mode ? StreamLanguage.define(await mode[1]()) : [];
}

export interface Made { view: EditorView; set: (text: string) => void; text: () => string }
export function make(o: { parent: HTMLElement; text: string; path: string; nonce: string; readOnly?: boolean; label: string; onChange: (text: string) => void; onSave?: () => void; check?: (text: string) => Promise<Diagnostic[]>; onProblems?: (all: Diagnostic[]) => void; complete?: CompletionSource }): Made {
  const lang = new Compartment();
  const view = new EditorView({
    parent: o.parent,
    state: EditorState.create({ doc: o.text, extensions: [
      lineNumbers(), highlightActiveLine(), highlightActiveLineGutter(), history(), drawSelection(), indentOnInput(), bracketMatching(), closeBrackets(), highlightSelectionMatches(), look, paint, lang.of([]), EditorView.cspNonce.of(o.nonce), EditorState.readOnly.of(!!o.readOnly), o.text.includes('\r\n') ? EditorState.lineSeparator.of('\r\n') : [], EditorView.contentAttributes.of({ 'aria-label': o.label }),
      keymap.of([{ key: 'Mod-s', preventDefault: true, run: () => { o.onSave?.(); return true; } }, { key: 'Escape', run: v => { v.contentDOM.blur(); return true; } }, ...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...completionKeymap, indentWithTab]),
      EditorView.updateListener.of(u => { if (u.docChanged) o.onChange(u.state.sliceDoc()); }), o.check ? [linter(async v => { const all = await o.check!(v.state.doc.toString()); o.onProblems?.(all); return all; }, { delay: 300 }), lintGutter(), keymap.of(lintKeymap)] : [], autocompletion(o.complete ? { override: [o.complete] } : {}),
    ] }),
  });
  void language(o.path).then(x => view.dispatch({ effects: lang.reconfigure(x) }));
  return { view, set: text => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }), text: () => view.state.sliceDoc() };
}
export const nonce = () => document.querySelector<HTMLMetaElement>('meta[name=csp-nonce]')?.content ?? '';
