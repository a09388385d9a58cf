// Keys by the map of the server, with the operator's own. A key is where it is on the keyboard (`code`), whatever alphabet is chosen: G stays G while the keyboard writes Dari.
import { computed, signal } from '@preact/signals';

import type { Schemas } from '@melmastoon/bff/backoffice';

import { desk, explain, phase } from './service.js';

export type Shortcut = Schemas['Shortcuts']['shortcuts'][number];

export const shortcuts = signal<readonly Shortcut[]>([]);
export const sheet = signal(false);

export async function readShortcuts(): Promise<void> {
  try {
    shortcuts.value = (await desk.call('listShortcuts')).data.shortcuts;
    document.documentElement.dataset.keys = 'known';
  } catch (error) {
    explain(error);
    setTimeout(() => phase.peek() === 'open' && void readShortcuts(), 15_000);
  }
}

/** What an action does now; false says that there is nothing to do it with, and another action of the same keys may be meant. */
type Run = () => boolean | void;
const runs = new Map<string, Run>();

/** Has actions of the map do something. */
export function on(actions: Readonly<Record<string, Run>>): void {
  for (const [action, run] of Object.entries(actions)) runs.set(action, run);
}

/** Those that this desk knows. */
export const usable = computed(() => shortcuts.value.filter(({ action, keys }) => keys !== '' && runs.has(action)));
/** The keys of an action, for the button that does the same. */
export const keysOf = (action: string): string => usable.value.find((one) => one.action === action)?.keys ?? '';

const mac = /Mac/.test(navigator.userAgent);
/** Keys as they stand on the keyboard. */
export const shown = (keys: string): string => keys.replaceAll('Mod', mac ? '⌘' : 'Ctrl').replace('Shift+Slash', '?').replace('Slash', '/');

function chord(event: KeyboardEvent): string {
  const key = event.code.replace(/^(Key|Digit|Arrow|Numpad(?=Enter))/, '');
  const mod = mac ? event.metaKey : event.ctrlKey;
  return [mod && 'Mod', event.altKey && 'Alt', event.shiftKey && 'Shift', key].filter(Boolean).join('+');
}

const typing = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (/^(SELECT|TEXTAREA)$/.test(target.tagName) || (target instanceof HTMLInputElement && !/^(checkbox|radio)$/.test(target.type)));

let before = '';
let forget: ReturnType<typeof setTimeout> | undefined;

addEventListener('keydown', (event) => {
  if (event.isComposing || event.repeat) return;
  const pressed = chord(event);
  if (typing(event.target) && !pressed.startsWith('Mod+')) return;
  // Enter belongs to the control that has the focus.
  if (pressed === 'Enter' && event.target instanceof HTMLElement && event.target.closest('a, button, summary') !== null) return;
  const of = (keys: string): boolean => usable.peek().some((one) => one.keys === keys && runs.get(one.action)?.() !== false);
  const both = `${before} ${pressed}`;
  clearTimeout(forget);
  const done = (before !== '' && of(both)) || of(pressed);
  before = !done && usable.peek().some(({ keys }) => keys.startsWith(`${pressed} `)) ? pressed : '';
  forget = setTimeout(() => (before = ''), 1_500);
  if (!done) return;
  event.preventDefault();
  event.stopImmediatePropagation();
}, { capture: true });

const items = (): HTMLElement[] => [...(document.querySelector('dialog[open]') ?? document).querySelectorAll<HTMLElement>('[data-item]')].filter((one) => one.offsetParent !== null);

/** Moves the focus over everything that can be chosen, in the order of the screen. */
export function step(by: 1 | -1): void {
  const all = items();
  const at = all.indexOf(document.activeElement?.closest<HTMLElement>('[data-item]') ?? document.body);
  all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)]?.focus();
}

/** The thing that has the focus, if it is of a kind. */
export function focused(kind: string): string | undefined {
  const item = document.activeElement?.closest<HTMLElement>('[data-item]');
  return item?.dataset.item === kind ? item.dataset.id : undefined;
}
