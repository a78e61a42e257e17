// SPDX-License-Identifier: Apache-2.0
// A template out of a Dockerfile or a template file that is written here. What it copies has to be sent by the command line.
import { useEffect, useRef, useState } from 'preact/hooks';
import { ask } from '../api';
import { setQuery } from '../lib/router';
import { word } from '../lib/format';
import { Btn, Cmd, Dialog, Trouble } from '../ui';

const example = 'FROM host\nRUN echo hello > /opt/hello\n', KEPT = 'template-draft';

export default function NewTemplate({ onClose, onMade }: { onClose: () => void; onMade: () => void }) {
  const host = useRef<HTMLDivElement>(null), text = useRef(sessionStorage.getItem(KEPT) ?? example), [name, setName] = useState(''), [error, fail] = useState<unknown>(null);
  useEffect(() => {
    let gone = false, end: (() => void) | undefined;
    void import('../cm').then(cm => { if (gone || !host.current) return; const made = cm.make({ parent: host.current, text: text.current, path: 'Dockerfile', nonce: cm.nonce(), label: 'Dockerfile', onChange: t => { text.current = t; sessionStorage.setItem(KEPT, t); } }); end = () => made.view.destroy(); });
    return () => { gone = true; end?.(); };
  }, []);
  const send = async () => {
    if (!name.trim()) { fail(new Error('It needs a name')); return; }
    try {
      const { id } = await (await ask('POST', '/builds', { query: { name: name.trim() }, raw: text.current, headers: { 'Content-Type': 'text/plain' } })).json() as { id: string };
      sessionStorage.removeItem(KEPT);
      onMade();
      onClose();
      setQuery({ build: id });
    } catch (e) { fail(e); }
  };
  return (
    <Dialog id="newtemplate" label="New template" onClose={onClose}><form onSubmit={e => { e.preventDefault(); void send(); }} onKeyDownCapture={e => { if ((e.ctrlKey || e.metaKey) && e.key === 'Enter') { e.preventDefault(); e.stopPropagation(); void send(); } }}>
      <div class="dhead"><h2>New template</h2><span class="right"><Btn kind="quiet icon small" icon="x" label="Close" onClick={onClose} /></span></div>
      <div class="pad formgrid"><label class="field"><span>Name</span><input class="in" name="name" value={name} onInput={e => setName(e.currentTarget.value)} placeholder="tools:1" autofocus autocomplete="off" spellcheck={false} /></label>
        <div class="field"><span>Dockerfile, or a template file as JSON. Its steps run in sandboxes.</span><div class="cm-host manifest small" ref={host} /></div>
        {error ? <Trouble error={error} what="Nothing is built." /> : null}</div>
      <div class="dfoot"><div class="grow"><Cmd text={`cay template build -t ${word(name.trim() || 'NAME')} .`} /></div><button class="btn prime" type="submit">Build</button></div></form></Dialog>
  );
}
