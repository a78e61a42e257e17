// SPDX-License-Identifier: Apache-2.0
// A new sandbox: what it starts from, what it may use and reach, when it ends, what is put into it. The draft survives a reload.
import { useEffect, useRef, useState } from 'preact/hooks';
import { Failed, get, post, type Box, type Create } from '../api';
import type { Diagnostic } from '@codemirror/lint';
import type { EditorView } from '@codemirror/view';
import { mended } from '../lib/fix';
import { completions, lint } from './manifest';
import { bytes, period, plural, safe, size, span, word } from '../lib/format';
import { go, href, route } from '../lib/router';
import { bypass, called, chosen, limitsOf, outside, settingsOf, type Setting } from '../lib/settings';
import { doctor, progress, put, reloadTemplates, templates } from '../live';
import { manifestDone, type Happening } from '../state';
import { overlay } from '../keys';
import { Btn, Cmd, Dialog, Icon, Trouble, useAsk, toast } from '../ui';

interface Draft { name: string; template: string; settings: Record<string, string>; cpu: string; memory: string; disk: string; net: string; rules: string; ttl: string; expiry: 'kill' | 'pause'; isolation: string; manifest: string }
const empty: Draft = { name: '', template: 'host', settings: {}, cpu: '', memory: '', disk: '', net: 'off', rules: '', ttl: '', expiry: 'kill', isolation: '', manifest: '' };
const example = '{\n  "entries": {\n    "hello.txt": { "type": "file", "content": "hello\\n" }\n  }\n}\n';
const kept = (): Draft => { try { return { ...empty, ...JSON.parse(sessionStorage.getItem('draft') ?? '{}') }; } catch { return empty; } };

/** What is wrong, in which field, and another value for it. */
interface Wrong { field: keyof Draft | `set.${string}`; message: string; fix: { name: string; change: Partial<Draft> } }
const wrong = (field: keyof Draft, message: string, value: string, name = `Write ${value}`): Wrong => ({ field, message, fix: { name, change: { [field]: value } } });
/** The number in what somebody wrote, with the unit that was most likely meant. */
const meant = (text: string, unit: string, none: string) => { const n = /\d+(\.\d+)?/.exec(text)?.[0], g = /\d\s*(g|t)/i.test(text); return n && Number(n) > 0 ? `${n} ${g && unit === 'MiB' ? 'GiB' : unit}` : none; };

/** The request of a draft, or what is wrong with it, where, and what would mend it. */
export function request(d: Draft, settings: Setting[] = []): { body: Create; cmd: string } | Wrong {
  const body: Create = {}, cmd = ['cay create'], limits: Record<string, number> = {};
  if (d.name.trim()) { body.name = d.name.trim(); cmd.push(`--name ${word(d.name.trim())}`); }
  if (d.template && d.template !== 'host') { body.template = d.template; cmd.push(`--template ${word(d.template)}`); }
  for (const [name, value] of chosen(settings, d.settings)) {
    const clean = value.replace(outside, '');
    if (clean !== value) return { field: `set.${name}`, message: `${name}: letters, digits and . _ : / @ + = , ? & % ~ -`, fix: { name: clean ? `Write ${safe(clean, 40)}` : 'Leave it out', change: { settings: { ...d.settings, [name]: clean } } } };
    (body.settings ??= {})[name] = value;
    cmd.push(`--set ${word(`${name}=${value}`)}`);
  }
  const cpu = Number(d.cpu), own = limitsOf(undefined); // a limit that is not written is the template's, or what is usual
  if (d.cpu && !(cpu > 0 && cpu <= 1024)) return wrong('cpu', 'CPUs: a number such as 2 or 0.5', /\d+(\.\d+)?/.exec(d.cpu.replace(',', '.'))?.[0]?.replace(/^0+(?=\d)/, '') || own.cpu);
  if (d.cpu) { limits.cpu_milli = Math.round(cpu * 1000); cmd.push(`--cpus ${cpu}`); }
  for (const k of ['memory', 'disk'] as const) {
    const n = d[k].trim() ? size(d[k]) : 0;
    if (Number.isNaN(n)) return wrong(k, `${k[0]!.toUpperCase()}${k.slice(1)}: 512 MiB, 2 GiB`, meant(d[k], 'MiB', own[k]));
    if (n) { limits[k] = n; cmd.push(`--${k} ${bytes(n).replace(' ', '').replace(/iB$/, '').toLowerCase()}`); }
  }
  if (Object.keys(limits).length) body.limits = limits;
  const rules = d.net === 'all' ? ['all'] : d.net === 'rules' ? d.rules.split(/[\s,]+/).filter(Boolean) : [];
  if (d.net === 'rules' && !rules.length) return { field: 'rules', message: 'Name a host or a preset, or choose no network', fix: { name: 'No network', change: { net: 'off' } } };
  if (rules.length) { body.net = rules as Create['net']; for (const r of rules) cmd.push(`--net ${word(r)}`); }
  if (d.ttl.trim()) {
    const ms = period(d.ttl);
    if (Number.isNaN(ms) || ms < 1000) return wrong('ttl', 'Ends after: 10 min, 2 h', meant(d.ttl, /h/i.test(d.ttl) ? 'h' : 'min', '10 min'));
    body.ttl_ms = ms as Create['ttl_ms'];
    cmd.push(`--ttl ${d.ttl.replace(/\s+/g, '').replace('min', 'm')}`);
    if (d.expiry === 'pause') { body.on_expiry = 'pause'; cmd.push('--on-expiry pause'); }
  }
  if (d.isolation) { body.isolation = d.isolation as Create['isolation']; cmd.push(`--isolation ${d.isolation}`); }
  if (d.manifest.trim()) {
    try { body.manifest = JSON.parse(d.manifest); } catch (e) { const fix = mended(d.manifest); return { field: 'manifest', message: `The manifest is no JSON: ${(e as Error).message}`, fix: fix ? { name: fix.name, change: { manifest: d.manifest.slice(0, fix.from) + fix.insert + d.manifest.slice(fix.to) } } : { name: 'Take it out', change: { manifest: '' } } }; }
    cmd.push('--manifest manifest.json');
  }
  return { body, cmd: cmd.join(' ') };
}

export default function CreateDialog() {
  const [d, setD] = useState<Draft>(() => { const k = kept(), t = route.value.query.get('template'); return t && t !== k.template ? { ...k, template: t, settings: {} } : k; }), [error, fail] = useState<unknown>(null), [bad, setBad] = useState<Wrong['field'] | ''>(''), [busy, work] = useState(''), all = templates.value.length ? templates.value : [{ name: 'host', about: '', bytes: 0 }], own = templates.value.find(t => called(t, d.template)), settings = settingsOf(own), limits = limitsOf(own), presets = useAsk(() => get<Record<string, string[]>>('/net/presets'), []), form = useRef<HTMLFormElement>(null), picks = useRef<HTMLDivElement>(null), [seed, plant] = useState(0); // another text from outside is another editor: what is typed must not be
  useEffect(() => { void reloadTemplates().catch(() => undefined); }, []); // one that was built since the page was opened
  useEffect(() => { const p = picks.current!, on = p.querySelector<HTMLElement>('label:has(:checked)'); if (on) p.scrollTop = on.offsetTop - p.offsetTop - 4; }, [templates.value.length]);
  const set = (change: Partial<Draft>) => setD(old => { const n = { ...old, ...change }; sessionStorage.setItem('draft', JSON.stringify(n)); return n; }), close = () => { overlay.value = ''; }, r = request(d, settings);
  const at = (f: Wrong['field']) => form.current?.querySelector<HTMLElement>(f === 'manifest' ? '.at-manifest .cm-content' : `[name="${f}"]`);
  const editor = useRef<EditorView | null>(null), mend = (w: Wrong) => { set(w.fix.change); setBad(''); fail(null); if ('manifest' in w.fix.change) plant(seed + 1); else at(w.field)?.focus(); };
  /** To the first thing that is wrong in the manifest, if anything is. */
  const toManifest = async () => {
    const first = d.manifest.trim() ? (await lint(d.manifest).catch(() => []))[0] : undefined, view = editor.current;
    if (!first) return false;
    setBad('manifest');
    fail(new Error(`manifest, line ${d.manifest.slice(0, first.from).split('\n').length}: ${first.message}`));
    if (view) { view.dispatch({ selection: { anchor: Math.min(first.from, view.state.doc.length) }, scrollIntoView: true }); view.focus(); }
    return true;
  };
  const send = async () => {
    if (busy) return;
    if (!('field' in r) && await toManifest()) return;
    if ('field' in r) { setBad(r.field); fail(new Error(r.message)); at(r.field)?.focus(); return; }
    const began = performance.now(), key = [...crypto.getRandomValues(new Uint8Array(16))].map(x => x.toString(16).padStart(2, '0')).join('');
    try {
      work(key); // by it the events tell how far the manifest is
      const b = await post<Box>('/sandboxes', r.body, { 'Idempotency-Key': key });
      sessionStorage.removeItem('draft');
      put(b);
      close();
      toast(`${b.name || b.id.slice(0, 8)} is there, in ${span(performance.now() - began)}.`);
      go(href(['sandbox', b.id]));
    } catch (e) { fail(e); setBad(e instanceof Failed && /manifest/.test(e.reason) ? 'manifest' : ''); } finally { work(''); }
  };
  const field = (k: Exclude<keyof Draft, 'settings'>, label: string, more: Record<string, unknown> = {}) => <label class="field"><span>{label}</span><input class={`in ${bad === k ? 'wrong' : ''}`} name={k} value={d[k]} onInput={e => set({ [k]: e.currentTarget.value } as Partial<Draft>)} autocomplete="off" spellcheck={false} aria-invalid={bad === k || undefined} {...more} /></label>;
  return (
    <Dialog id="create" label="New sandbox" onClose={close}><form ref={form} onSubmit={e => { e.preventDefault(); void send(); }} onKeyDownCapture={e => { if ((e.ctrlKey || e.metaKey) && e.key === 'Enter') { e.preventDefault(); e.stopPropagation(); void send(); } }}><div class="dhead"><h2>New sandbox</h2><span class="right"><Btn kind="quiet icon small" icon="x" label="Close" onClick={close} /></span></div>
      <div class="form"><div>{field('name', 'Name', { placeholder: 'optional', autofocus: true, maxLength: 100 })}
        <fieldset><legend>Template</legend><div class="pick all" ref={picks}>{all.map(t => <label key={t.name}><input type="radio" name="template" checked={called(t, d.template)} onChange={() => set({ template: t.name, settings: {} })} /><b class="cut">{safe(t.name, 40)}</b><span class="clamp">{safe(t.about, 100) || (t.bytes ? bytes(t.bytes) : '')}</span></label>)}</div></fieldset>
        {settings.length > 0 && <fieldset class="settings"><legend>Settings of {safe(d.template, 40)}</legend>{settings.map(s => <Choice key={s.name} s={s} bad={bad === `set.${s.name}`} value={d.settings[s.name] ?? s.initial} onPick={v => set({ settings: { ...d.settings, [s.name]: v } })} />)}</fieldset>}
        <div class="threes">{field('cpu', 'CPUs', { inputMode: 'decimal', placeholder: limits.cpu })}{field('memory', 'Memory', { placeholder: limits.memory })}{field('disk', 'Disk', { placeholder: limits.disk })}</div>
        <fieldset><legend>Network</legend><div class="pick three">{([['off', 'None', 'loopback only'], ['rules', 'Rules', 'by name'], ['all', 'All', 'but closed ranges']] as const).map(([v, n, t]) => <label key={v} class={v === 'all' ? 'amber' : ''}><input type="radio" name="net" checked={d.net === v} onChange={() => set({ net: v })} /><b>{n}</b>{t}</label>)}</div>
          {d.net === 'rules' && <>{field('rules', 'Hosts or presets', { placeholder: 'pypi.org *.npmjs.org github', class: `in mono ${bad === 'rules' ? 'wrong' : ''}` })}<p class="presets dim">{Object.keys(presets.data ?? {}).map(p => <button type="button" class="plain" key={p} title={presets.data![p]!.join('\n')} onClick={() => set({ rules: `${d.rules} ${p}`.trim() })}>{p}</button>)}</p></>}</fieldset>
        <div class="threes">{field('ttl', 'Ends after', { placeholder: 'never' })}<label class="field"><span>Then</span><select class="in" value={d.expiry} onChange={e => set({ expiry: e.currentTarget.value as 'kill' })}><option value="kill">it ends</option><option value="pause">it pauses</option></select></label><label class="field"><span>Least level</span><select class="in" value={d.isolation} onChange={e => set({ isolation: e.currentTarget.value })}><option value="">any{doctor.value ? ` (${doctor.value.level})` : ''}</option><option value="process">1 process</option><option value="rootless">2 rootless</option><option value="root">3 root</option></select></label></div></div>
        <div class="at-manifest"><div class="bar"><h2>Manifest</h2><span class="dim">what is put into it; JSON, optional</span><span class="right">{!d.manifest && <Btn kind="small" onClick={() => { set({ manifest: example }); plant(seed + 1); }}>Begin with an example</Btn>}</span></div><Manifest key={seed} text={d.manifest} onChange={t => set({ manifest: t })} view={editor} /></div></div>
      {busy && progress.value?.key === busy && <Put e={progress.value} />}{error ? <Trouble error={error} what="It was not made." /> : null}
      <div class="dfoot"><div class="grow">{'cmd' in r ? <Cmd text={r.cmd} /> : <p class="bad mendrow"><Icon name="bang" class="inline" /> <span>{r.message}</span> <Btn kind="small" onClick={() => mend(r)}>{r.fix.name}</Btn></p>}</div><button class="btn prime" type="submit" aria-busy={!!busy || undefined}>Create <kbd aria-hidden="true" class="wide">Ctrl ↵</kbd></button></div></form></Dialog>
  );
}

/** What it is for stands below it; a bypass is amber, with its words. */
const Choice = ({ s, value, bad, onPick }: { s: Setting; value: string; bad: boolean; onPick: (v: string) => void }) => {
  const care = bypass(value) ? 'amber' : '', about = `about-${s.name}`;
  return <label class={`field ${care}`}><span>{safe(s.name, 40)}</span>{s.choices.length ? <select class="in" name={`set.${s.name}`} aria-describedby={about} value={value} onChange={e => onPick(e.currentTarget.value)}>{s.choices.map(c => <option key={c} value={c}>{safe(c, 60)}{c === s.initial ? ' (default)' : ''}</option>)}</select> : <input class={`in ${bad ? 'wrong' : ''}`} name={`set.${s.name}`} aria-describedby={about} aria-invalid={bad || undefined} value={value} placeholder="not set" onInput={e => onPick(e.currentTarget.value)} autocomplete="off" spellcheck={false} />}{s.about && <small id={about}>{care && <Icon name="bang" class="inline" />} {safe(s.about, 300)}</small>}</label>;
};
/** How far the manifest is. */
const Put = ({ e }: { e: Happening }) => { const { text, part } = manifestDone(e); return <p class="putting" role="status"><span class="meter"><i style={{ width: `${part * 100}%` }} /></span>Putting the manifest in place: {text}</p>; };

function Manifest({ text, onChange, view: out }: { text: string; onChange: (t: string) => void; view: { current: EditorView | null } }) {
  const host = useRef<HTMLDivElement>(null), [ready, set] = useState(false), [wrong, found] = useState<Diagnostic[]>([]);
  useEffect(() => {
    let gone = false;
    void import('../cm').then(cm => {
      if (gone || !host.current) return;
      out.current = cm.make({ parent: host.current, text, path: 'manifest.json', nonce: cm.nonce(), label: 'Manifest', onChange, check: lint, onProblems: found, complete: completions }).view;
      set(true);
    });
    return () => { gone = true; out.current?.destroy(); out.current = null; };
  }, []);
  const first = wrong[0], view = out.current, line = first && view ? view.state.doc.lineAt(Math.min(first.from, view.state.doc.length)).number : 0;
  return <><div class="cm-host manifest" ref={host} aria-busy={!ready} />{first && view && <div class="said mend" role="status"><Icon name="bang" class="bad" /><span class="grow"><button type="button" class="plain" onClick={() => { view.dispatch({ selection: { anchor: Math.min(first.from, view.state.doc.length) }, scrollIntoView: true }); view.focus(); }}>line {line}</button>: {safe(first.message, 300)}{wrong.length > 1 && <span class="dim"> {plural(wrong.length - 1, 'other')}.</span>}</span>{first.actions?.slice(0, 2).map(a => <Btn key={a.name} kind="small" onClick={() => { a.apply(view, first.from, first.to); view.focus(); }}>{a.name}</Btn>)}</div>}</>;
}
