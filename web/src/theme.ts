// SPDX-License-Identifier: Apache-2.0
import { effect, signal } from '@preact/signals';

const kept = localStorage.getItem('theme'), dark = matchMedia('(prefers-color-scheme: dark)');
export const theme = signal<'dark' | 'light'>(kept === 'dark' || kept === 'light' ? kept : dark.matches ? 'dark' : 'light');
dark.addEventListener('change', () => { if (!localStorage.getItem('theme')) theme.value = dark.matches ? 'dark' : 'light'; });
effect(() => { document.documentElement.dataset.theme = theme.value; });
export function toggleTheme() {
  theme.value = theme.value === 'dark' ? 'light' : 'dark';
  localStorage.setItem('theme', theme.value);
}
/** A token's colour now, for what draws by itself. */
export const token = (name: string) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
