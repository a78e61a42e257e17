// SPDX-License-Identifier: Apache-2.0
// What a template leaves to whoever makes a sandbox of it. Pure.
import { bytes } from './format';

/** One without choices is free text. */
export interface Setting { name: string; about: string; choices: string[]; initial: string }
type Named = { name?: string; names?: string[]; config?: Record<string, unknown> };

/** Whether a template is called that; without a tag the latest is meant. */
export const called = (t: Named, name: string) => t.name === name || [name, `${name}:latest`].some(n => t.names?.includes(n));

const object = (v: unknown): Record<string, unknown> => (v && typeof v === 'object' && !Array.isArray(v) ? (v as Record<string, unknown>) : {}), text = (v: unknown) => (typeof v === 'string' ? v : '');
export const settingsOf = (t: Named | undefined): Setting[] => Object.entries(object(t?.config?.settings)).map(([name, s]) => ({ name, about: text(object(s).description), choices: Object.keys(object(object(s).choices)), initial: text(object(s).default) }));

/** The limits of a sandbox that asks for none: the template's, else the usual ones, as docs/man/cay-create.1 has them. */
export function limitsOf(t: Named | undefined) {
  const of = object(t?.config?.limits), n = (name: string, usual: number) => { const v = of[name]; return typeof v === 'number' && v > 0 ? v : usual; };
  return { cpu: String(n('cpu_milli', 2000) / 1000), memory: bytes(n('memory', 2 * 2 ** 30)), disk: bytes(n('disk', 10 * 2 ** 30)) };
}

/** What is asked for: only what differs from what the template would do by itself. */
export const chosen = (all: Setting[], picked: Record<string, string>): [string, string][] => all.map((s): [string, string] => [s.name, (picked[s.name] ?? s.initial).trim()]).filter(([name, v]) => v !== all.find(s => s.name === name)!.initial);
/** What a free text may not have, so that no value leaves the quotes of a file. */
export const outside = /[^A-Za-z0-9._:/@+=,?&%~-]/g;
/** The choice by which our templates let a program do all it wants without asking. */
export const bypass = (value: string) => value === 'bypass';
/** Settings of a sandbox by which it asks nobody. */
export const loose = (b: { settings?: Record<string, string> }) => Object.entries(b.settings ?? {}).filter(([, v]) => bypass(v));
