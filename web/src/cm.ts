// SPDX-License-Identifier: Apache-2.0
// CodeMirror as the console wears it: colours from the tokens, so that it changes with the theme by itself.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap, type CompletionSource } from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { json, jsonLanguage } from '@codemirror/lang-json';
import { bracketMatching, HighlightStyle, indentOnInput, StreamLanguage, syntaxHighlighting, type Language, type StreamParser } from '@codemirror/language';
import { linter, lintGutter, lintKeymap, type Diagnostic } from '@codemirror/lint';
import { highlightSelectionMatches, searchKeymap } from '@codemirror/search';
import { Compartment, EditorState, type Extension } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from '@codemirror/view';
import { highlightTree, tags as g } from '@lezer/highlight';

const look = EditorView.theme({
  '&': { height: '100%', backgroundColor: 'var(--panel)', color: 'var(--ink)', fontSize: 'var(--t-xs)' }, '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '19px' }, '.cm-content': { caretColor: 'var(--sand)', padding: '6px 0' },
  '.cm-gutters': { backgroundColor: 'var(--panel)', color: 'var(--ink3)', border: 'none' }, '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'color-mix(in srgb, var(--hover) 55%, transparent)' }, '.cm-cursor': { borderLeftColor: 'var(--sand)' },
  '&.cm-focused .cm-selectionBackground, .cm-selectionBackground, .cm-content ::selection': { backgroundColor: 'color-mix(in srgb, var(--sea) 26%, transparent) !important' }, '&.cm-focused': { outline: 'none' },
  '.cm-tooltip': { backgroundColor: 'var(--raised)', border: 'none', boxShadow: 'var(--shadow)', borderRadius: '5px' }, '.cm-tooltip-autocomplete ul li[aria-selected]': { backgroundColor: 'var(--sea-wash)', color: 'var(--ink)' }, '.cm-panels': { backgroundColor: 'var(--raised)', color: 'var(--ink)' },
  '.cm-searchMatch': { backgroundColor: 'var(--amber-wash)', outline: '1px solid var(--amber)' }, '.cm-diagnostic': { borderLeftColor: 'var(--coral)' }, '.cm-textfield': { backgroundColor: 'var(--bg)', color: 'var(--ink)' }, '.cm-button': { backgroundImage: 'none', backgroundColor: 'var(--raised)', color: 'var(--ink)' },
});
const style = HighlightStyle.define([ // colours are in code.css: a diff wears them, too
  { tag: [g.keyword, g.modifier, g.operatorKeyword], class: 'hl-k' }, { tag: [g.string, g.special(g.string), g.regexp], class: 'hl-s' }, { tag: [g.comment, g.meta], class: 'hl-c' }, { tag: [g.number, g.bool, g.null, g.atom], class: 'hl-n' },
  { tag: [g.function(g.variableName), g.definition(g.variableName), g.propertyName, g.attributeName], class: 'hl-f' }, { tag: [g.typeName, g.className, g.tagName, g.heading], class: 'hl-t' }, { tag: g.invalid, class: 'hl-x' }, { tag: g.link, class: 'hl-l' }, { tag: g.strong, class: 'hl-b' },
]), paint = syntaxHighlighting(style);

const modes: [RegExp, () => Promise<StreamParser<unknown>>][] = [
  [/\.pyi?$/, () => import('@codemirror/legacy-modes/mode/python').then(({ python }) => python)], [/\.(m?[jt]sx?|cjs)$/, () => import('@codemirror/legacy-modes/mode/javascript').then(({ typescript }) => typescript)],
  [/\.(c|h)$/, () => import('@codemirror/legacy-modes/mode/clike').then(({ c }) => c)], [/\.(cc|cpp|hpp|cxx)$/, () => import('@codemirror/legacy-modes/mode/clike').then(({ cpp }) => cpp)], [/\.java$/, () => import('@codemirror/legacy-modes/mode/clike').then(({ java }) => java)],
  [/\.rs$/, () => import('@codemirror/legacy-modes/mode/rust').then(({ rust }) => rust)], [/\.go$/, () => import('@codemirror/legacy-modes/mode/go').then(({ go }) => go)], [/\.(sh|bash|zsh|profile)$|(^|\/)\.(bash|z)\w+$|(^|\/)Makefile$/, () => import('@codemirror/legacy-modes/mode/shell').then(({ shell }) => shell)],
  [/\.ya?ml$/, () => import('@codemirror/legacy-modes/mode/yaml').then(({ yaml }) => yaml)], [/\.(toml|lock)$/, () => import('@codemirror/legacy-modes/mode/toml').then(({ toml }) => toml)], [/\.(html?|xml|svg)$/, () => import('@codemirror/legacy-modes/mode/xml').then(({ html }) => html)], [/\.css$/, () => import('@codemirror/legacy-modes/mode/css').then(({ css }) => css)],
  [/(^|\/)Dockerfile$/, () => import('@codemirror/legacy-modes/mode/dockerfile').then(({ dockerFile }) => dockerFile)], [/\.sql$/, () => import('@codemirror/legacy-modes/mode/sql').then(({ standardSQL }) => standardSQL)], [/\.rb$/, () => import('@codemirror/legacy-modes/mode/ruby').then(({ ruby }) => ruby)], [/\.lua$/, () => import('@codemirror/legacy-modes/mode/lua').then(({ lua }) => lua)],
];
const isJson = (path: string) => /\.(json|jsonl|webmanifest)$/.test(path), defined = new Map<RegExp, Promise<Language>>();
async function languageOf(path: string): Promise<Language | undefined> {
  if (isJson(path)) return jsonLanguage;
  const mode = modes.find(([re]) => re.test(path));
  return mode && (defined.get(mode[0]) ?? defined.set(mode[0], mode[1]().then(StreamLanguage.define)).get(mode[0])!);
}
const language = async (path: string): Promise<Extension> => (isJson(path) ? json() : await languageOf(path) ?? []);

/** Where a text wears which colour, as classes of the editor: [from, to, class], in order. */
export async function colours(path: string): Promise<((text: string) => [number, number, string][]) | undefined> {
  const lang = await languageOf(path);
  if (!lang) return undefined;
  return text => { const out: [number, number, string][] = []; highlightTree(lang.parser.parse(text), style, (from, to, c) => out.push([from, to, c])); return out; };
}

export interface Made { view: EditorView; set: (text: string) => void; text: () => string }
export function make(o: { parent: HTMLElement; text: string; path: string; nonce: string; readOnly?: boolean; label: string; onChange: (text: string) => void; onSave?: () => void; check?: (text: string) => Promise<Diagnostic[]>; onProblems?: (all: Diagnostic[]) => void; complete?: CompletionSource }): Made {
  const lang = new Compartment();
  const view = new EditorView({
    parent: o.parent,
    state: EditorState.create({ doc: o.text, extensions: [
      lineNumbers(), highlightActiveLine(), highlightActiveLineGutter(), history(), drawSelection(), indentOnInput(), bracketMatching(), closeBrackets(), highlightSelectionMatches(), look, paint, lang.of([]), EditorView.cspNonce.of(o.nonce), EditorState.readOnly.of(!!o.readOnly), o.text.includes('\r\n') ? EditorState.lineSeparator.of('\r\n') : [], EditorView.contentAttributes.of({ 'aria-label': o.label, tabindex: '0' }),
      keymap.of([{ key: 'Mod-s', preventDefault: true, run: () => { o.onSave?.(); return true; } }, { key: 'Escape', run: v => { v.contentDOM.blur(); return true; } }, ...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...completionKeymap, indentWithTab]),
      EditorView.updateListener.of(u => { if (u.docChanged) o.onChange(u.state.sliceDoc()); }), o.check ? [linter(async v => { const all = await o.check!(v.state.doc.toString()); o.onProblems?.(all); return all; }, { delay: 300 }), lintGutter(), keymap.of(lintKeymap)] : [], autocompletion(o.complete ? { override: [o.complete] } : {}),
    ] }),
  });
  void language(o.path).then(x => view.dispatch({ effects: lang.reconfigure(x) }));
  return { view, set: text => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }), text: () => view.state.sliceDoc() };
}
export const nonce = () => document.querySelector<HTMLMetaElement>('meta[name=csp-nonce]')?.content ?? '';
