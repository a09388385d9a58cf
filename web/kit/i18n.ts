// Texts of web/messages in the reader's language; the server puts those of the page into the first byte. `{name}` stands for a value and
// `{n, plural, one {# room} other {# rooms}}` for a form that a count chooses, by the rules that the platform has for ps and tg, too.
import { formatNumber, isolate, localeInfo, plural, type LocaleInfo } from '@melmastoon/bff/values';

/** The reader's locale, as the server has chosen it. */
export const locale: LocaleInfo = localeInfo(document.documentElement.lang);

const messages: Readonly<Record<string, string>> = read('messages') ?? {};

/** What the server put into the page under an id, as JSON. */
export function read<T>(id: string): T | undefined {
  const text = document.getElementById(id)?.textContent;
  return text ? (JSON.parse(text) as T) : undefined;
}

/** A text with its values between marks that keep their direction from that of the text. Numbers are written in the reader's digits. */
export function say(key: string, values: Readonly<Record<string, string | number>> = {}): string {
  return pieces(key, values).join('');
}

/** The same in pieces, for values that are elements. */
export function pieces<V>(key: string, values: Readonly<Record<string, string | number | V>>): (string | V)[] {
  const text = messages[key];
  if (text === undefined) throw new RangeError(`no text: ${key}`);
  return fill(text, values);
}

const written = <V>(value: string | number | V | undefined): string | V =>
  typeof value === 'number' ? formatNumber(value, locale) : typeof value === 'string' ? isolate(value) : value ?? '';

/** A word that a service has for something, such as a state; one that is newer than this page is shown as it is. */
export function word(group: string, value: string): string {
  const key = `${group}.${value}`;
  return messages[key] === undefined ? value.replaceAll(/[_.-]/g, ' ') : say(key);
}

/** A text of digits, such as a room or a time of day, as the reader writes it. */
export const own = (text: string): string => text.replace(/\d/g, (digit) => [...locale.digits][Number(digit)] ?? digit);

function fill<V>(text: string, values: Readonly<Record<string, string | number | V>>): (string | V)[] {
  const parts: (string | V)[] = [];
  let at = 0;
  for (const [from, to] of braces(text)) {
    parts.push(text.slice(at, from));
    const inside = text.slice(from + 1, to);
    const [, name = '', forms] = /^(\w+)(?:, plural, ([\s\S]*))?$/.exec(inside) ?? [];
    const value = values[name];
    if (forms === undefined) {
      parts.push(written(value));
    } else {
      const texts = Object.fromEntries(braces(forms).map(([f, t], i, all) => [forms.slice(all[i - 1] === undefined ? 0 : all[i - 1]![1] + 1, f).trim(), forms.slice(f + 1, t)]));
      const form = texts[plural(Number(value), locale)] ?? texts.other ?? '';
      parts.push(...fill(form.replaceAll('#', `{${name}}`), values));
    }
    at = to + 1;
  }
  parts.push(text.slice(at));
  return parts;
}

/** Where the outermost braces open and close. */
function braces(text: string): [number, number][] {
  const found: [number, number][] = [];
  let depth = 0;
  let from = 0;
  for (let i = 0; i < text.length; i++) {
    if (text[i] === '{' && depth++ === 0) from = i;
    if (text[i] === '}' && --depth === 0) found.push([from, i]);
  }
  return found;
}
