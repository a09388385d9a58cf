// Keys of a page: one letter, or two in a row such as `g r`. None works while a reader types, and `?` lists them.
import { signal } from '@preact/signals';

export interface Key {
  readonly keys: string; // as `KeyboardEvent.key` names it; `g r` is one after the other
  readonly does: string; // for the list
  readonly group?: string;
  run(event: KeyboardEvent): void;
}

const registered = signal<readonly Key[]>([]);
/** Whether the list of keys is shown. */
export const keysShown = signal(false);

/** The keys that work now, later ones over earlier ones. */
export const keyList = registered;

/** Makes keys work until the returned function is called: `useEffect(() => keys(…), [])`. */
export function keys(...added: readonly Key[]): () => void {
  registered.value = [...registered.peek(), ...added];
  return () => (registered.value = registered.peek().filter((key) => !added.includes(key)));
}

/** Whether keys are text there. */
export const typing = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && (target.isContentEditable || (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName) && !/^(checkbox|radio|button)$/.test((target as HTMLInputElement).type)));

let before = '';
let forget: ReturnType<typeof setTimeout> | undefined;

addEventListener('keydown', (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (typing(event.target)) {
    if (event.key === 'Escape' && event.target instanceof HTMLElement) event.target.blur();
    return;
  }
  // What lies over the page has its own keys: Escape closes it.
  if (document.querySelector('dialog[open]') !== null) return;
  // Space and Enter belong to the control that has the focus.
  if ((event.key === ' ' || event.key === 'Enter') && event.target instanceof HTMLElement && event.target.closest('a, button, summary, label, [role=row]')) return;
  const name = event.key === ' ' ? 'Space' : event.key;
  const find = (wanted: string): Key | undefined => registered.peek().findLast(({ keys }) => keys === wanted);
  const found = (before === '' ? undefined : find(`${before} ${name}`)) ?? find(name);
  clearTimeout(forget);
  before = found === undefined && registered.peek().some(({ keys }) => keys.startsWith(`${name} `)) ? name : '';
  forget = setTimeout(() => (before = ''), 1500);
  if (found === undefined) return;
  event.preventDefault();
  found.run(event);
});

keys({ keys: '?', does: 'these keys', run: () => (keysShown.value = true) });
