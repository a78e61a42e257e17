// SPDX-License-Identifier: Apache-2.0
import { get, type List, type Template } from '../api';
import { bytes, plural, safe } from '../lib/format';
import { setQuery } from '../lib/router';
import { called, settingsOf } from '../lib/settings';
import { overlay } from '../keys';
import { boxes } from '../live';
import { Builds } from './builds';
import { useState } from 'preact/hooks';
import { lazy, Suspense } from '../lib/lazy';
import { Btn, Cmd, Icon, Loading, Sheet, Trouble, useAsk, When } from '../ui';

const NewTemplate = lazy<{ onClose: () => void; onMade: () => void }>(() => import('./newtemplate'));

export default function Templates() {
  const t = useAsk(() => get<List<Template>>('/templates').then(l => l.items), []), used = (x: Template) => [...boxes.value.values()].filter(b => called(x, b.template)).length, [making, make] = useState(false), [made, again] = useState(0);
  return (
    <div class="page"><div class="head"><div><h1>Templates</h1><p>What a sandbox starts from. Layers are shared: a hundred sandboxes on one template hold it once.</p></div><span class="right"><Btn icon="plus" onClick={() => make(true)}>New template</Btn></span></div>
      {t.error ? <Trouble error={t.error} what="They cannot be listed." again={t.again} /> : !t.data ? <Loading /> : <Sheet title="On this host" note={t.data.length}><ul class="plainlist tall-list">{t.data.map(x => <li key={x.name}><Icon name="layers" class="sandc" /><span class="grow"><b class="mono">{safe(x.name, 60)}</b><br /><span class="soft">{safe(x.about, 300)}{x.about && x.bytes ? ', ' : ''}{x.bytes ? <span class="dim">{bytes(x.bytes)} in {plural(x.layers?.length ?? 0, 'layer')}</span> : null}{settingsOf(x).length > 0 && <span class="dim">, {plural(settingsOf(x).length, 'setting')}</span>}{x.created_ms ? <span class="dim">{x.about || x.bytes ? ', ' : ''}made <When t={x.created_ms} /></span> : null}</span></span><a class="dim wide" href={`#/sandboxes?q=template:${encodeURIComponent(x.name.replace(/:latest$/, ''))}`}>{used(x)} in use</a><Btn kind="small" onClick={() => { setQuery({ template: x.name }); overlay.value = 'create'; }}>Use it</Btn></li>)}</ul></Sheet>}
      <Builds key={made} onReady={t.again} />
      <Sheet title="By hand" class="gap"><div class="pad"><Cmd text="cay create --template host --name NAME" /><Cmd text="cay template build -t NAME ." /></div></Sheet>{making && <Suspense fallback={null}><NewTemplate onClose={() => make(false)} onMade={() => again(made + 1)} /></Suspense>}</div>
  );
}
