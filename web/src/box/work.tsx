// SPDX-License-Identifier: Apache-2.0
// Where the work is: files, editor, terminals, and at a glance what else goes on.
import { signal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { lazy } from '../lib/lazy';
import type { Box } from '../api';
import { pause } from '../actions';
import { Files, keptOnly } from './files';
import { Glance } from './glance';
import type { Inside } from './inside';
import { Btn, Loading } from '../ui';

const Terminals = lazy<{ b: Box }>(() => import('./terminals')), Editor = lazy<{ b: Box }>(() => import('./editor'));

const kept = (name: string, none: number) => Number(localStorage.getItem('pane-' + name)) || none;
const panes = { tree: signal(kept('tree', 216)), term: signal(kept('term', 244)) };

/** A line between two panes that can be dragged, or moved by the arrows. */
function Splitter({ name, upright, min, max }: { name: keyof typeof panes; upright: boolean; min: number; max: number }) {
  const pane = panes[name], set = (v: number) => { pane.value = Math.round(Math.max(min, Math.min(max, v))); localStorage.setItem('pane-' + name, String(pane.value)); };
  const down = (e: PointerEvent) => {
    const from = upright ? e.clientX : e.clientY, was = pane.value, el = e.currentTarget as HTMLElement;
    el.setPointerCapture(e.pointerId);
    el.onpointermove = m => set(upright ? was + m.clientX - from : was - (m.clientY - from));
    el.onpointerup = () => { el.onpointermove = null; };
  };
  return <div class={`split-line ${upright ? 'upright' : ''} at-${name}`} role="separator" tabIndex={0} aria-orientation={upright ? 'vertical' : 'horizontal'} aria-label={name === 'tree' ? 'Width of the files' : 'Height of the terminals'} aria-valuenow={pane.value} aria-valuemin={min} aria-valuemax={max} onPointerDown={down} onKeyDown={e => { const d = { ArrowLeft: -16, ArrowRight: 16, ArrowUp: 16, ArrowDown: -16 }[e.key]; if (d) { e.preventDefault(); e.stopPropagation(); set(pane.value + d); } }} />;
}

export function Work({ b, inside, stopped }: { b: Box; inside: Inside; stopped: ComponentChildren }) {
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => { const s = ref.current!.style; s.setProperty('--tree-w', `${panes.tree.value}px`); s.setProperty('--term-h', `${panes.term.value}px`); }, [panes.tree.value, panes.term.value]);
  return (
    <div class="work" ref={ref}>
      <Files b={b} /><Splitter name="tree" upright min={140} max={480} />
      <Editor b={b} />
      <Splitter name="term" upright={false} min={120} max={700} />
      {b.state === 'running' ? <Terminals b={b} /> : <div class="term asleep">{b.state === 'paused' ? <div class="pad soft"><p>It is paused: its processes stand still, and nothing is lost.</p><p class="gapped"><Btn kind="prime" icon="play" onClick={() => pause(b)}>Resume</Btn></p></div> : keptOnly(b) ? stopped : <div class="pad soft"><Loading /></div>}</div>}
      <Glance b={b} inside={inside} />
    </div>
  );
}
