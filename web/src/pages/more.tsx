// SPDX-License-Identifier: Apache-2.0
import { logout, session } from '../api';
import { deadJobs, doctor } from '../live';
import { overlay } from '../keys';
import { Btn, Icon, type IconName } from '../ui';
import { theme, toggleTheme } from '../theme';
import { useState } from 'preact/hooks';

const pages: [string, string, IconName][] = [['jobs', 'Jobs', 'jobs'], ['keys', 'Keys', 'key'], ['audit', 'Audit', 'audit'], ['doctor', 'Doctor', 'pulse']];
export default function More() {
  const [reader, setReader] = useState(localStorage.getItem('screen-reader') === '1');
  return <div class="page"><div class="head"><div><h1>More</h1><p>{session.value!.host}, cay {session.value!.version}{doctor.value && `, level ${doctor.value.level}`}</p></div></div><section class="sheet"><ul class="plainlist tall-list">{pages.map(([p, name, icon]) => <li key={p}><Icon name={icon} /><a class="grow" href={'#/' + p}>{name}</a>{p === 'jobs' && deadJobs.value.length > 0 && <span class="bad">{deadJobs.value.length} dead</span>}</li>)}</ul></section><div class="btns gap"><Btn onClick={toggleTheme}>{theme.value === 'dark' ? 'Light' : 'Dark'}</Btn><Btn onClick={() => { overlay.value = 'keys'; }}>Keyboard</Btn><Btn pressed={reader} onClick={() => { localStorage.setItem('screen-reader', reader ? '0' : '1'); setReader(!reader); }}>Terminals for screen readers: {reader ? 'on' : 'off'}</Btn><Btn onClick={logout}>Log out</Btn></div></div>;
}
