// SPDX-License-Identifier: Apache-2.0
// How strong the wall is here, in plain words; and how quick.
import { useState } from 'preact/hooks';
import { get, post, session, type Doctor as Found, type Speed as Measured, type Walls } from '../api';
import { plural, safe, span } from '../lib/format';
import { Btn, Cmd, Icon, Loading, Sheet, Trouble, useAsk, When } from '../ui';

const levels: [string, string][] = [['none', 'Plain processes. No wall; only when asked for by name.'], ['process', 'System call filter, Landlock and limits around each process.'], ['rootless', 'Namespaces of its own, made by an ordinary user.'], ['root', 'Own user ids, own groups, enforced limits.'], ['vm', 'A kernel of its own. Not there yet.']];
const plain: Record<string, string> = {
  'user-namespace': 'root inside is nobody outside', 'mount-namespace': 'it sees its own files and none of the host', 'pid-namespace': 'it sees its own processes alone', 'ipc-namespace': 'no shared memory with others', 'net-namespace': 'a loopback of its own', 'egress-policy': 'what leaves passes one door, which asks the policy',
  seccomp: 'system calls it has no need for are refused', capabilities: 'it holds no privilege', 'no-new-privs': 'no program gains any', landlock: 'a second lock on files', freeze: 'it can be held still', 'memory-limit': 'memory is bounded', 'pids-limit': 'processes are bounded', 'cpu-limit': 'CPU is bounded', 'io-limit': 'disk traffic is bounded', 'disk-quota': 'disk space is bounded', 'own-ids': 'user ids that nobody else has',
};
export default function Doctor() {
  const d = useAsk(() => get<Found>('/doctor'), []), x = d.data, admin = session.value?.scope === 'admin';
  // Each layer as a sandbox made for it sees it: nothing is ticked that was not looked at.
  const tried = useAsk(() => (admin ? post<Walls>('/doctor/walls') : Promise.resolve(null)), []), check = (name: string) => tried.data?.checks.find(c => c.name === name), again = () => { d.again(); tried.again(); };
  if (d.error) return <div class="page"><Trouble error={d.error} what="The host could not be examined." again={d.again} /></div>;
  if (!x) return <div class="page"><Loading rows={8} /></div>;
  const off = x.layers.filter(l => l.state === 'off'), soft = x.layers.filter(l => l.state === 'soft');
  return (
    <div class="page"><div class="head"><div><h1>{off.length ? `Level ${x.level}, with ${plural(off.length, 'layer')} off` : soft.length ? `Sound at level ${x.level}, with ${plural(soft.length, 'hint')}` : `Sound at level ${x.level}`}</h1><p>Sandboxes on this host get level {x.level}, {x.isolation}. {tried.data ? <>Tried <When t={tried.data.time_ms} /> in a sandbox made for it, in {span(tried.data.took_us / 1000)}.</> : <>Looked at <When t={x.time_ms} />.</>} Linux {safe(x.kernel, 60)} on {x.machine}, cay {x.version}, mode {x.mode}.</p></div><span class="right"><Btn onClick={again}>Look again</Btn></span></div>
      <section class="sheet"><ol class="ladder">{levels.map(([name, text], i) => <li key={name} class={i === x.level ? 'have now' : i < x.level ? 'have' : ''} aria-current={i === x.level ? 'true' : undefined}><b>{i} {name}{i === x.level && ', this host'}</b><p>{text}</p></li>)}</ol></section>
      {admin && <Speed />}
      <Sheet title="Layers" note={`${x.layers.length - off.length - soft.length} of ${x.layers.length} on${tried.data ? `, ${tried.data.checks.filter(c => c.ok).length} seen from inside` : ''}`} class="gap">{tried.error ? <Trouble error={tried.error} what="They could not be tried in a sandbox." again={tried.again} /> : null}<ul class="checks timed">{[...off, ...soft, ...x.layers.filter(l => l.state === 'on')].map(l => <li key={l.name}><Icon name={l.state === 'on' ? 'ok' : 'bang'} class={l.state === 'on' ? 'ok' : 'warn'} /><b>{l.name}</b><span class="soft">{l.state === 'on' ? <>{plain[l.name!] ?? ''}{l.why && !check(l.name!) && <span class="dim">{plain[l.name!] ? ', ' : ''}{safe(l.why, 200)}</span>}</> : <><span class="warn">{l.state === 'soft' ? 'Only watched' : 'Off'}: {safe(l.why ?? 'no reason given', 300)}.</span>{plain[l.name!] && ` With it ${plain[l.name!]}.`}</>}</span><span class={`chip ${l.state === 'on' ? '' : 'warn'}`}>{l.state}</span><span class="mono dim num">{(c => (c ? span(c.took_us / 1000) : ''))(check(l.name!))}</span>{(c => (c ? <span class={`found ${c.ok || l.state !== 'on' ? 'dim' : 'bad'}`}>{safe(c.found, 160)}</span> : null))(check(l.name!))}{l.remedy && <div class="remedy">{safe(l.remedy, 400)}</div>}</li>)}</ul></Sheet>
      <Sheet title="By hand" class="gap"><div class="pad"><Cmd text="cay doctor" /><Cmd text="cay doctor --server" /></div></Sheet></div>
  );
}

/** A sandbox is made, used and removed while one looks; beside it what the kernel takes for the same without one. */
function Speed() {
  const [s, set] = useState<Measured | null>(null), [error, fail] = useState<unknown>(null);
  const measure = async () => { try { set(await post<Measured>('/doctor/speed')); fail(null); } catch (e) { fail(e); } }, times = (us: number) => `${(us / Math.max(1, s!.spawn_us)).toFixed(1)} ×`;
  return (
    <Sheet title="Speed" note={s ? <>measured <When t={s.time_ms} /></> : 'a sandbox is made, used and removed'} actions={<Btn kind="small" onClick={measure}>{s ? 'Measure again' : 'Measure'}</Btn>} class="gap">
      {error ? <Trouble error={error} what="It could not be measured." again={measure} /> : null}
      {s ? <dl class="figs four"><div><dt>Create</dt><dd>{unit(s.create_us)}</dd><dd class="note">{times(s.create_us)} a bare spawn</dd></div><div><dt>Run true in it</dt><dd>{unit(s.exec_us)}</dd><dd class="note">{times(s.exec_us)} a bare spawn; the median of nine</dd></div><div><dt>Remove</dt><dd>{unit(s.remove_us)}</dd><dd class="note">{times(s.remove_us)} a bare spawn</dd></div><div><dt>A bare spawn</dt><dd>{unit(s.spawn_us)}</dd><dd class="note">true, without a sandbox</dd></div></dl> : !error && <p class="pad soft">Figures need a yardstick: each is told beside a bare spawn on this host.</p>}</Sheet>
  );
}
const unit = (us: number) => { const [v, u] = span(us / 1000).split(' '); return <>{v} <small>{u}</small></>; };
