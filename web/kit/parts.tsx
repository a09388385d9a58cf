// Small parts that all pages share. Every value stands in a <bdi>, so that its direction is its own.
import { signal } from '@preact/signals';
import { Component, type ComponentChildren, type ComponentClass, type JSX, type TargetedKeyboardEvent, type TargetedMouseEvent } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

import { formatDay, formatMoney, formatNumber, localeInfo } from '@melmastoon/bff/values';
import type { Day as DayText, DayOptions, Money as Amount, MoneyOptions } from '@melmastoon/bff/values';

import { locale, own, say } from './i18n.js';
import { keyList, keysShown } from './keys.js';
import type { Loaded } from './load.js';

type Children = { children?: ComponentChildren };

/** A name, an id, anything that was not written by us. */
export const Bdi = ({ children, class: name, ltr = false }: Children & { class?: string; ltr?: boolean }) => (
  <bdi class={name} dir={ltr ? 'ltr' : undefined}>{children}</bdi>
);

export const Day = ({ day, ...options }: { day: DayText } & DayOptions) => (
  <time dateTime={day}><bdi dir={locale.direction}>{formatDay(day, locale, options)}</bdi></time>
);

export const Money = ({ money, ...options }: { money: Amount } & MoneyOptions) => <bdi dir={locale.direction} class="money">{formatMoney(money, locale, options)}</bdi>;

export const Num = ({ value }: { value: string | number }) => <bdi>{formatNumber(value, locale)}</bdi>;

const formats = new Map<string, Intl.DateTimeFormat>(); // making one takes longer than all else that a row needs

function inZone(zone: string | undefined, seconds: boolean): Intl.DateTimeFormat {
  const key = `${zone} ${seconds}`;
  let format = formats.get(key);
  if (format === undefined) {
    format = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', ...(seconds && { second: '2-digit' }), hourCycle: 'h23', ...(zone !== undefined && { timeZone: zone }) });
    formats.set(key, format);
  }
  return format;
}

/** The time of a day, by the hotel's clock where a zone is given, else by the reader's. */
export function Moment({ at, zone, seconds = false }: { at: Date | string; zone?: string; seconds?: boolean }) {
  const moment = typeof at === 'string' ? new Date(at) : at;
  const text = own(inZone(zone, seconds).format(moment));
  return <time dateTime={moment.toISOString()} title={moment.toISOString()}><bdi dir="ltr">{text}</bdi></time>;
}

/** The honesty line of a screen: as of when, what is missing and why. Give its words as children, in the page's language. */
export const Honesty = ({ at, stale = false, children }: Children & { at?: Date | string | undefined; stale?: boolean }) => (
  <p class={`honesty${stale ? ' stale' : ''}`} role="status">{at !== undefined && <Moment at={at} seconds />}{children}</p>
);

/** A component that is drawn again only when one of its properties is another: for rows of long lists. */
export function still<P extends object>(draw: (props: P) => ComponentChildren): ComponentClass<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      return (Object.keys(next) as (keyof P)[]).some((name) => next[name] !== this.props[name]);
    }
    override render() {
      return draw(this.props);
    }
  };
}

/** What stands where there is nothing to show. */
export const State = ({ title, children }: Children & { title: string }) => <div class="state"><strong>{title}</strong>{children}</div>;

/** Lines in the shape of what is on its way. */
export const Ghost = ({ lines = 3 }: { lines?: number }) => (
  <div class="stack close" aria-hidden="true">{Array.from({ length: lines }, (_, i) => <div key={i} class="ghost" />)}</div>
);

/** What is loaded, or why it is not. An answer that could not be renewed stays, and says so above. */
export function Shown<T>({ of, failed, children }: { of: Loaded<T>; failed: string; children: (data: T) => ComponentChildren }) {
  if (of.data === undefined) return of.error === undefined ? <Ghost /> : <div class="notice bad" role="alert"><span>{failed}</span><Bdi>{of.error}</Bdi></div>;
  return <>{of.error !== undefined && <div class="notice warm" role="status"><span>{failed}</span><Bdi>{of.error}</Bdi></div>}{children(of.data)}</>;
}

type Over = Children & { title: string; close: () => void; closeText?: string; kind?: 'drawer' | 'sheet' };

/** A part over the page, which lies still behind it. Escape, the button and a press beside it close it. */
export function Drawer({ title, close, closeText = 'Close', kind = 'drawer', children }: Over) {
  const dialog = useRef<HTMLDialogElement>(null);
  // Before the next key: one that came between drawing and opening would be lost.
  useLayoutEffect(() => {
    const from = document.activeElement;
    dialog.current?.showModal();
    return () => from instanceof HTMLElement && from.focus();
  }, []);
  const beside = (event: TargetedMouseEvent<HTMLDialogElement>): void => {
    if (event.target === event.currentTarget) close();
  };
  return (
    <dialog ref={dialog} class={kind} aria-label={title} onClose={close} onClick={beside}>
      <header><h2><bdi>{title}</bdi></h2><button class="quiet little" onClick={close}>{closeText} <kbd>Esc</kbd></button></header>
      <div class="inside">{children}</div>
    </dialog>
  );
}

/** The list of keys, while `?` asks for it. */
export function KeySheet({ title = 'Keys', closeText = 'Close' }) {
  if (!keysShown.value) return null;
  return (
    <Drawer kind="sheet" title={title} closeText={closeText} close={() => (keysShown.value = false)}>
      <table class="table"><tbody>
        {keyList.value.map(({ keys, does }) => <tr key={keys}><th scope="row">{keys.split(' ').map((key) => <kbd key={key}>{key}</kbd>)}</th><td>{does}</td></tr>)}
      </tbody></table>
    </Drawer>
  );
}

export interface Column<T> {
  readonly head: string;
  readonly cell: (row: T) => ComponentChildren;
  readonly number?: boolean;
}

/** A table. With `choose`, arrows, j and k move over its rows and Enter chooses one. */
export function Table<T>({ rows, columns, id, label, chosen, choose }: {
  rows: readonly T[]; columns: readonly Column<T>[]; id: (row: T) => string; label: string; chosen?: string | undefined; choose?: (row: T) => void;
}) {
  const move = (event: TargetedKeyboardEvent<HTMLTableRowElement>, row: T): void => {
    const to = { ArrowDown: 'nextElementSibling', j: 'nextElementSibling', ArrowUp: 'previousElementSibling', k: 'previousElementSibling' }[event.key];
    if (event.key === 'Enter' || event.key === ' ') choose?.(row);
    else if (to !== undefined) (event.currentTarget[to as 'nextElementSibling'] as HTMLElement | null)?.focus();
    else return;
    event.preventDefault();
  };
  return (
    <div class="scroll" tabIndex={choose === undefined ? 0 : undefined} role={choose === undefined ? 'region' : undefined} aria-label={choose === undefined ? label : undefined}><table class="table" aria-label={label}>
      <thead class="stuck"><tr>{columns.map(({ head, number }) => <th key={head} scope="col" class={number ? 'number' : undefined}>{head}</th>)}</tr></thead>
      <tbody>{rows.map((row) => (
        <tr key={id(row)} {...(choose !== undefined && { tabIndex: 0, onClick: () => choose(row), onKeyDown: (e: TargetedKeyboardEvent<HTMLTableRowElement>) => move(e, row), 'aria-current': id(row) === chosen })}>
          {columns.map(({ head, cell, number }) => <td key={head} class={number ? 'number' : undefined}>{cell(row)}</td>)}
        </tr>
      ))}</tbody>
    </table></div>
  );
}

/** Takes what was typed into a form, by the names of its fields. */
export const submitted = (take: (typed: (name: string) => string) => unknown) => (event: SubmitEvent & { currentTarget: HTMLFormElement }): void => {
  event.preventDefault();
  const fields = new FormData(event.currentTarget);
  void take((name) => String(fields.get(name) ?? ''));
};

/** Shares of a whole as bars beside each other; the text says the same. */
export const Bars = ({ shares, text }: { shares: readonly number[]; text: string }) => (
  <svg class="bars" viewBox={`0 0 ${shares.length * 8} 24`} role="img" aria-label={text}><title>{text}</title>
    {shares.map((share, i) => <rect key={i} x={i * 8 + 1} y={24 - 24 * share} width="6" height={Math.max(24 * share, 0.5)} rx="1" />)}
  </svg>
);

const toasts = signal<readonly { readonly n: number; readonly text: string }[]>([]);
let count = 0;

/** Says something for four seconds. */
export function toast(text: string): void {
  const n = ++count;
  toasts.value = [...toasts.peek(), { n, text }].slice(-3);
  setTimeout(() => (toasts.value = toasts.peek().filter((one) => one.n !== n)), 4000);
}

export const Toasts = () => <div class="toasts" role="status">{toasts.value.map(({ n, text }) => <p key={n} class="toast"><bdi>{text}</bdi></p>)}</div>;

export async function copy(text: string, said: string): Promise<void> {
  await navigator.clipboard.writeText(text);
  toast(said);
}

/** Keeps a choice where the server reads it for the first byte of the next page. */
export function keep(name: 'theme' | 'locale', value: string): void {
  document.cookie = `${name}=${value}; Path=/; Max-Age=31536000; SameSite=Lax`;
}

const languages = ['fa-AF', 'ps-AF', 'fa-IR', 'tg-TJ', 'ur', 'ar', 'ru', 'en', 'en-US'];

/** The languages that a page can be read in, each by its own name. */
export const Languages = ({ choose, ...more }: { choose: (tag: string) => void } & JSX.IntrinsicElements['select']) => (
  <select {...more} value={locale.locale} onChange={(event) => choose(event.currentTarget.value)}>
    {languages.map((tag) => <option key={tag} value={tag} lang={tag}>{localeInfo(tag).name}</option>)}
  </select>
);

/** Light, dark, or as the machine has it. */
export const theme = signal(document.documentElement.dataset.theme ?? '');

export function setTheme(to: string): void {
  theme.value = to;
  keep('theme', to);
  if (to === '') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = to;
}

/** What the switch says on a page in many languages. */
export const themeWords = (): Readonly<Record<string, string>> => ({ '': say('theme.machine'), light: say('theme.light'), dark: say('theme.dark') });

/** The switch of colours: what a press brings is its name. */
export function ThemeSwitch({ words = { '': 'Colours of the machine', light: 'Light colours', dark: 'Dark colours' } }: { words?: Readonly<Record<string, string>> }) {
  const next = { '': 'light', light: 'dark', dark: '' }[theme.value] ?? '';
  return <button class="quiet little" aria-label={words[next]} title={words[next]} onClick={() => setTheme(next)}>{{ '': '◐', light: '☀', dark: '☾' }[theme.value]}</button>;
}
