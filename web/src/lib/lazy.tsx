// SPDX-License-Identifier: Apache-2.0
// A part that is loaded when it is first shown. (preact/compat's would bring the rest of compat along.)
import { createContext, type ComponentType, type ComponentChildren } from 'preact';
import { useContext, useEffect, useState } from 'preact/hooks';

const Wait = createContext<ComponentChildren>(null);
export const Suspense = ({ fallback, children }: { fallback: ComponentChildren; children: ComponentChildren }) => <Wait.Provider value={fallback}>{children}</Wait.Provider>;

export function lazy<P extends object>(load: () => Promise<{ default: ComponentType<P> }>): ComponentType<P> & { load: () => Promise<unknown> } {
  let got: ComponentType<P> | undefined, coming: Promise<unknown> | undefined;
  const fetch = () => (coming ??= load().then(m => { got = m.default; }, e => { coming = undefined; throw e; }));
  function Lazy(props: P) {
    const [, again] = useState(0), [error, fail] = useState<unknown>(null), wait = useContext(Wait);
    useEffect(() => { if (!got) fetch().then(() => again(1), fail); }, []);
    if (got) { const C = got; return <C {...props} />; }
    return error ? <div class="page"><p>A part of the console could not be loaded. <button type="button" class="btn small" onClick={() => location.reload()}>Load the page again</button></p></div> : <>{wait}</>;
  }
  return Object.assign(Lazy, { load: fetch });
}
