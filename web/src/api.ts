// SPDX-License-Identifier: Apache-2.0
// The one door to the server. The cookie says who we are; changes carry the token that only our own pages can read.
import { signal } from '@preact/signals';
import type * as T from './api.gen';

export type Box = Required<T.Sandbox>;
export type Snapshot = Required<T.Snapshot>;
export type Process = Required<T.Process>;
export type File = Required<T.File>;
export type Change = Required<T.Change> & { patch?: string; from?: string };
export type Usage = Required<T.Usage>;
export type Port = Required<T.Port>;
export type Exposed = Required<T.Exposed>;
export type Key = Required<T.Key>;
export type Job = Required<T.Job>;
export type Tenant = Required<T.Tenant>;
export type AuditLine = Required<T.AuditLine>;
export type AuditProof = Required<T.AuditProof>;
export type Doctor = Required<T.Doctor>;
export type Layer = Required<T.Layer>;
export type Speed = Required<T.Speed>;
export type Service = T.Service;
export type Given = Required<T.ManifestGiven>;
export type Walls = { time_ms: number; took_us: number; checks: Required<T.Wall>[] };
export type Template = Required<T.Template>;
export type Build = Required<T.Build>;
export type Create = T.Create;
export type Result = Required<T.Result>;
/** A line of a sandbox's network log. */
export interface NetRecord { t: number; box?: string; event: string; verdict: string; reason?: string; name?: string; addr?: string; port?: number; proto?: string; rule?: string; up?: number; down?: number; ms?: number; exec?: string; execs?: number }
export interface Policy { mode: string; rules: string[]; rate_up?: number; rate_down?: number; connections?: number; bindings?: { name: string; destination: string }[] }
export interface List<X> { items: X[]; next?: string }

export interface Session { scope: 'admin' | 'tenant' | null; tenant?: string; key?: string; csrf?: string; version?: string; instance: string; domain: string; host?: string }
export const session = signal<Session | null>(null);
/** Set while the server does not answer: since when. */
export const lost = signal(0);

export class Failed extends Error {
  constructor(public status: number, message: string, public code = '', public reason = '', public retry = '', public request = '', public info: Record<string, unknown> = {}) { super(message); }
}

type Options = { query?: Record<string, string | number | boolean | string[] | undefined>; body?: unknown; raw?: BodyInit; headers?: Record<string, string>; signal?: AbortSignal; base?: string };

export function address(path: string, query: Options['query'] = {}): string {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(query)) for (const x of Array.isArray(v) ? v : [v]) if (x !== undefined && x !== false && x !== '') q.append(k, x === true ? '1' : String(x));
  const tail = q.toString();
  return path + (tail ? '?' + tail : '');
}

export async function ask(method: string, path: string, o: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { ...o.headers };
  if (o.body !== undefined) headers['Content-Type'] = 'application/json';
  if (method !== 'GET' && session.value?.csrf) headers['X-Cay-Csrf'] = session.value.csrf;
  let answer: Response;
  try {
    answer = await fetch(address((o.base ?? '/api/v1') + path, o.query), { method, headers, body: o.body !== undefined ? JSON.stringify(o.body) : o.raw, signal: o.signal, credentials: 'same-origin', cache: 'no-store' });
  } catch (e) {
    if (o.signal?.aborted) throw e;
    if (!lost.value) lost.value = Date.now();
    throw new Failed(0, 'the server does not answer', 'ELOST', 'lost', 'yes');
  }
  if (answer.ok) return answer;
  let p: Record<string, any> = {};
  try { p = await answer.json(); } catch { /* not one of ours */ }
  if (answer.status === 401 && session.value?.scope) session.value = { ...session.value, scope: null };
  throw new Failed(answer.status, p.detail || p.title || `the server answered ${answer.status}`, p.code, p.reason, p.retry, p.request || answer.headers.get('x-request-id') || '', p.info);
}

/** Of an answer only the head was wanted. A body that nobody reads would keep its connection, and a browser has six. */
export const leave = (a: Response) => a.body?.cancel().catch(() => undefined);

async function json<X>(method: string, path: string, o: Options = {}): Promise<X> {
  const a = await ask(method, path, o);
  return (a.status === 204 ? undefined : await a.json()) as X;
}
export const get = <X>(path: string, query?: Options['query'], signal?: AbortSignal) => json<X>('GET', path, { query, signal });
export const post = <X>(path: string, body: unknown = {}, headers?: Record<string, string>) => json<X>('POST', path, { body, headers });
export const put = <X>(path: string, body: unknown) => json<X>('PUT', path, { body });
export const patch = <X>(path: string, body: unknown) => json<X>('PATCH', path, { body });
export const del = <X>(path: string, query?: Options['query']) => json<X>('DELETE', path, { query });
export const of = (id: string, tail = '') => `/sandboxes/${encodeURIComponent(id)}${tail}`;

export async function all<X>(path: string, query: Options['query'] = {}): Promise<X[]> {
  const items: X[] = [];
  for (let after: string | undefined; ;) {
    const page: List<X> = await get(path, { ...query, limit: 1000, after });
    items.push(...page.items);
    if (!page.next) return items;
    after = page.next;
  }
}

// ------------------------------------------------------------------ in and out

const own = <X>(method: string, path: string, body?: unknown) => json<X>(method, path, { base: '/console', body });
export async function who(): Promise<Session> { return (session.value = await own<Session>('GET', '/session')); }
export async function login(by: { token: string } | { key: string }): Promise<void> { session.value = await own<Session>('POST', '/session', by); }
export async function logout(): Promise<void> { await own('DELETE', '/session'); await who(); }

/** A socket's ticket is good once. */
export async function socket(path: string, query: Options['query'] = {}): Promise<WebSocket> {
  const { ticket } = await own<{ ticket: string }>('POST', '/ticket', {});
  const ws = new WebSocket(address(`${location.origin.replace(/^http/, 'ws')}/api/v1${path}`, { ...query, ticket }));
  ws.binaryType = 'arraybuffer';
  return ws;
}

// ------------------------------------------------------------------ streams

import { Events, type Message } from './lib/sse';
/** Reads a stream until it ends or is stopped; resolves at its end. */
export async function stream(path: string, query: Options['query'], stop: AbortSignal, fn: (m: Message) => void, opened?: () => void): Promise<void> {
  const a = await ask('GET', path, { query, signal: stop, headers: { Accept: 'text/event-stream' } });
  opened?.();
  const reader = a.body!.pipeThrough(new TextDecoderStream()).getReader(), events = new Events(fn);
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    events.push(value);
  }
}

// ------------------------------------------------------------------ files

/** kept: of one that is stopped, as it was left. */
export const filePath = (id: string, path: string, kept = false) => address('/api/v1' + of(id, '/files'), { path, kept });
export async function readFile(id: string, path: string, most = 4 << 20, kept = false): Promise<{ data: Uint8Array; etag: string; whole: boolean }> {
  const a = await ask('GET', of(id, '/files'), { query: { path, kept }, headers: { Range: `bytes=0-${most - 1}` } }).catch(async e => {
    if (e instanceof Failed && e.status === 416) return ask('GET', of(id, '/files'), { query: { path, kept } }); // an empty file has no range
    throw e;
  });
  const data = new Uint8Array(await a.arrayBuffer());
  const total = Number(/\/(\d+)$/.exec(a.headers.get('content-range') ?? '')?.[1] ?? data.length);
  return { data, etag: a.headers.get('etag') ?? '', whole: data.length >= total };
}
export const writeFile = (id: string, path: string, data: BodyInit) => json<File>('PUT', of(id, '/files'), { query: { path, parents: true }, raw: data, headers: { 'Content-Type': 'application/octet-stream' } });

/** Saves bytes through the browser. */
export function save(name: string, href: string) {
  const a = document.createElement('a');
  a.href = href;
  a.download = name.replace(/[^\w.@+-]+/g, '_') || 'file';
  document.body.append(a);
  a.click();
  a.remove();
}
