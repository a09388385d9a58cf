import { formatNumber, isolate, localeInfo, plural } from '../values/index.js';

import { messages, type Language, type MessageKey } from './catalogue.js';
import { unanswered } from './unanswered.js';

export { messages, type Language, type MessageKey };

/** What is put into a text. */
export type MessageValues = Readonly<Record<string, string | number>>;

/** A failed call, such as a `ProblemError`. */
export interface Failure {
  readonly code: string;
  readonly problem?: { readonly userMessageKey: MessageKey } | undefined;
}

/**
 * The text for people in the language of a locale such as `fa-AF`, or in English: of whatever was caught, `message(error, locale)`, or of a key. Without an
 * answer (`NETWORK`, `TIMEOUT`) it says so. A key that is newer than this package has the text of `error.general.internal`, and so has what is no failure of a call.
 */
export function message<T>(what: T & (T extends string ? MessageKey : unknown), locale: string, values: MessageValues = {}): string {
  const { code, problem } = (typeof what === 'object' && what !== null ? what : {}) as Partial<Failure>;
  const key: string | undefined = typeof what === 'string' ? what : problem?.userMessageKey;
  const texts =
    key !== undefined && Object.hasOwn(messages, key)
      ? messages[key as MessageKey]
      : code !== undefined && Object.hasOwn(unanswered, code)
        ? unanswered[code as keyof typeof unanswered]
        : messages['error.general.internal'];
  const [language = 'en'] = localeInfo(locale).locale.split('-', 1);
  return formatMessage(texts[language as Language], locale, values);
}

/**
 * A text of your own with its values: `{name}`, and `{nights, plural, one {# night} other {# nights}}` with the forms that the language has. Numbers are written in
 * the digits of the locale, and every value keeps its direction.
 */
export function formatMessage(text: string, locale: string, values: MessageValues): string {
  return text.replace(/\{(\w+)(?:, plural, ((?:\w+ \{[^{}]*\} ?)+))?\}/g, (place, name: string, forms?: string) => {
    const value = Object.hasOwn(values, name) ? values[name] : undefined;
    if (value === undefined) return place; // seen in tests, and no half sentence
    const shown = typeof value === 'number' ? formatNumber(value, locale) : value;
    if (forms === undefined) return isolate(shown);
    const of = new Map(Array.from(forms.matchAll(/(\w+) \{([^{}]*)\}/g), ([, category, form]) => [category, form] as const));
    return (of.get(plural(value, locale)) ?? of.get('other') ?? place).replaceAll('#', () => isolate(shown));
  });
}
