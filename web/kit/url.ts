// The address is the whole state of a screen: what can be chosen is a signal that reads it and writes it.
import { computed, signal } from '@preact/signals';

/** The address, as it is now. */
export const here = signal(new URL(location.href));
addEventListener('popstate', () => (here.value = new URL(location.href)));

/** Goes to another address of this page. What is typed replaces the entry of the history, what is chosen adds one. */
export function go(to: string | URL, { replace = false } = {}): void {
  const url = new URL(to, location.href);
  if (url.href === location.href) return;
  if (replace) history.replaceState(null, '', url);
  else history.pushState(null, '', url);
  here.value = url;
}

export interface Param {
  value: string;
  peek(): string;
}

/** One member of the query. Its usual value is left out of the address. */
export function param(name: string, usual = '', { replace = false } = {}): Param {
  const read = computed(() => here.value.searchParams.get(name) ?? usual);
  return {
    get value() {
      return read.value;
    },
    set value(text: string) {
      go(withParams({ [name]: text === usual ? '' : text }), { replace });
    },
    peek: () => read.peek(),
  };
}

/** The address with other members of its query; an empty one is left out. */
export function withParams(members: Readonly<Record<string, string>>, path?: string): URL {
  const url = new URL(here.peek());
  if (path !== undefined) url.pathname = path;
  for (const [name, text] of Object.entries(members)) {
    if (text === '') url.searchParams.delete(name);
    else url.searchParams.set(name, text);
  }
  return url;
}

/** Links below a path change the address and load nothing. */
export function keepLinks(base: string): void {
  addEventListener('click', (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = event.target instanceof Element ? event.target.closest('a') : null;
    if (link === null || link.origin !== location.origin || link.target !== '' || link.hasAttribute('download')) return;
    if (link.pathname !== base && !link.pathname.startsWith(`${base}/`)) return;
    event.preventDefault();
    go(link.href);
  });
}
