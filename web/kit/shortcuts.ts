// Keys by a map that a service gives. A key is where it is on the keyboard (`code`), whatever alphabet is chosen: G stays G while the keyboard writes Dari.
import { computed, signal } from '@preact/signals';

import { typing } from './keys.js';

export interface Shortcut {
  readonly action: string;
  readonly keys: string; // of two in a row, such as `G A`, or one with others held, such as `Mod+K`; none where it is empty
  readonly customised?: boolean;
}

export const shortcuts = signal<readonly Shortcut[]>([]);
/** Whether the list of keys is shown. */
export const sheet = signal(false);

/** What an action does now; false says that there is nothing to do it with, and another action of the same keys may be meant. */
type Run = () => boolean | void;
const runs = new Map<string, Run>();

/** Has actions of the map do something. */
export function on(actions: Readonly<Record<string, Run>>): void {
  for (const [action, run] of Object.entries(actions)) runs.set(action, run);
}

/** Those that this page knows. */
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

/** What can be chosen now: of what lies over the page, where something does. */
function items(): HTMLElement[] {
  const of = document.querySelector('dialog[open]') ?? document;
  return [...of.querySelectorAll<HTMLElement>('[data-item]')].filter((one) => one.offsetParent !== null);
}

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

/** Does something with the thing that has the focus, if it is of a kind. */
export const withFocused = (kind: string, run: (id: string) => boolean | void) => (): boolean | void => {
  const id = focused(kind);
  return id === undefined ? false : run(id);
};
