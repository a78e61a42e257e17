// SPDX-License-Identifier: Apache-2.0
import { get, type Doctor as Found } from '../api';
import { plural, safe } from '../lib/format';
import { Btn, Cmd, Icon, Loading, Sheet, Trouble, useAsk } from '../ui';

const levels: [string, string][] = [['none', 'Plain processes. No wall; only when asked for by name.'], ['process', 'System call filter, Landlock and limits around each process.'], ['rootless', 'Namespaces of its own, made by an ordinary user.'], ['root', 'Own user ids, own groups, enforced limits.'], ['vm', 'A kernel of its own. Not there yet.']];
const plain: Record<string, string> = {
  'user-namespace': 'root inside is nobody outside', 'mount-namespace': 'it sees its own files and none of the host', 'pid-namespace': 'it sees its own processes alone', 'ipc-namespace': 'no shared memory with others', 'net-namespace': 'a loopback of its own', 'egress-policy': 'what leaves passes one door, which asks the policy',
  seccomp: 'system calls it has no need for are refused', capabilities: 'it holds no privilege', 'no-new-privs': 'no program gains any', landlock: 'a second lock on files', freeze: 'it can be held still', 'memory-limit': 'memory is bounded', 'pids-limit': 'processes are bounded', 'cpu-limit': 'CPU is bounded', 'io-limit': 'disk traffic is bounded', 'disk-quota': 'disk space is bounded', 'own-ids': 'user ids that nobody else has',
};
export default function Doctor() {
  const d = useAsk(() => get<Found>('/doctor'), []), x = d.data;
  if (d.error) return <div class="page"><Trouble error={d.error} what="The host could not be examined." again={d.again} /></div>;
  if (!x) return <div class="page"><Loading rows={8} /></div>;
  const off = x.layers.filter(l => l.state === 'off'), soft = x.layers.filter(l => l.state === 'soft');
  return (
    <div class="page"><div class="head"><div><h1>{off.length ? `Level ${x.level}, with ${plural(off.length, 'layer')} off` : soft.length ? `Sound at level ${x.level}, with ${plural(soft.length, 'hint')}` : `Sound at level ${x.level}`}</h1><p>Sandboxes on this host get level {x.level}, {x.isolation}. Linux {safe(x.kernel, 60)} on {x.machine}, cay {x.version}, mode {x.mode}.</p></div><span class="right"><Btn onClick={d.again}>Look again</Btn></span></div>
      <section class="sheet"><ol class="ladder">{levels.map(([name, text], i) => <li key={name} class={i === x.level ? 'have now' : i < x.level ? 'have' : ''} aria-current={i === x.level ? 'true' : undefined}><b>{i} {name}</b><p>{text}</p></li>)}</ol></section>
      <Sheet title="Layers" note={`${x.layers.length - off.length - soft.length} of ${x.layers.length} on`} class="gap"><ul class="checks">{[...off, ...soft, ...x.layers.filter(l => l.state === 'on')].map(l => <li key={l.name}><Icon name={l.state === 'on' ? 'ok' : 'bang'} class={l.state === 'on' ? 'ok' : 'warn'} /><b>{l.name}</b><span class="soft">{l.state === 'on' ? plain[l.name!] ?? '' : <><span class="warn">{l.state === 'soft' ? 'Only watched' : 'Off'}: {safe(l.why ?? 'no reason given', 300)}.</span>{plain[l.name!] && ` With it ${plain[l.name!]}.`}</>}</span><span class={`chip ${l.state === 'on' ? '' : 'warn'}`}>{l.state}</span>{l.remedy && <div class="remedy">{safe(l.remedy, 400)}</div>}</li>)}</ul></Sheet>
      <Sheet title="By hand" class="gap"><div class="pad"><Cmd text="cay doctor" /></div></Sheet></div>
  );
}
