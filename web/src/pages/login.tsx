// SPDX-License-Identifier: Apache-2.0
import { useState } from 'preact/hooks';
import { login } from '../api';
import { Cmd, Mark, Trouble } from '../ui';

export function Login() {
  const [error, fail] = useState<unknown>(() => { const said = sessionStorage.getItem('login'); sessionStorage.removeItem('login'); return said ? new Error(said) : null; });
  const enter = async (e: Event) => {
    e.preventDefault();
    const field = (e.currentTarget as HTMLFormElement).elements.namedItem('key') as HTMLInputElement, key = field.value.trim();
    field.value = '';
    try { await login({ key }); } catch (x) { fail(x); }
  };
  return (
    <main class="login"><div class="brand"><Mark />cay</div>
      <h1>Come ashore</h1><p>On the machine that runs the server, this prints a link that logs in once:</p><Cmd text="cay open --print" />
      <form onSubmit={enter}><label class="field"><span>Or show a key of scope tenant or admin</span><input class="in" name="key" type="password" autocomplete="off" spellcheck={false} placeholder="e2b_…" required /></label><button class="btn prime" type="submit">Log in</button></form>
      {error ? <Trouble error={error} what="That did not open it." /> : null}
      <p class="dim">The key becomes a cookie of this browser that no page can read, for seven days.</p></main>
  );
}
