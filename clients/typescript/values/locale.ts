import type { components } from '../consumer/schema.js';

import { locales } from './locales.js';

/** How dates, numbers, amounts and lists are written in a locale, as `GET /session` has it in `localeInfo`. */
export type LocaleInfo = components['schemas']['LocaleInfo'];
export type Locale = LocaleInfo['locale'];

/**
 * The facts of the locale that a tag such as `fa-AF`, `prs` or `en-GB` leads to: that of its language, and English for languages that the platform
 * does not speak. Formatters take these facts or a tag. None of them asks `Intl`, which answers `ps` and `tg` in English in Chromium.
 */
export function localeInfo(locale: string | LocaleInfo): LocaleInfo {
  if (typeof locale !== 'string') return locale;
  const [language = '', ...rest] = locale.toLowerCase().replace(/^prs\b/, 'fa-af').split(/[-_]/);
  const region = rest.find((part) => part.length === 2);
  const ours = locales.filter((info) => info.locale.split('-', 1)[0] === language);
  const asked = ours.find((info) => info.locale.toLowerCase() === `${language}-${region}`);
  // Persian without a region is Iran's, English without one is everyone's.
  const usual = ours.find((info) => info.locale === language || info.locale === 'fa-IR') ?? ours[0];
  return asked ?? usual ?? localeInfo('en');
}

/** A name or a text of the services in the language of a locale, or as it was written first where there is no translation. */
export function localized(text: components['schemas']['LocalizedString'], locale: string | LocaleInfo): string {
  const { locale: tag } = localeInfo(locale);
  return text.localized?.[tag] ?? text.localized?.[tag.split('-', 1)[0] ?? ''] ?? text.default;
}

/** Digits of the locale for those of a text. */
export function withDigits(text: string, info: LocaleInfo): string {
  return info.digits.startsWith('0') ? text : text.replace(/[0-9]/g, (digit) => info.digits[Number(digit)] ?? digit);
}

/** ASCII digits for those that Persian and Arabic keyboards type: `+'۱۲'` is not a number. */
export function foldDigits(text: string): string {
  return text.replace(/[۰-۹٠-٩]/g, (digit) => String((digit.codePointAt(0) ?? 0) & 0xf));
}

/**
 * The text between marks that keep its direction from that of its neighbours (U+2068 … U+2069), for titles and attributes; in HTML write `<bdi>`. Every
 * date, amount and name within a sentence needs it. Telephone numbers and the like are `ltr`.
 */
export function isolate(text: string, direction?: LocaleInfo['direction']): string {
  return `${direction === 'ltr' ? '\u2066' : direction === 'rtl' ? '\u2067' : '\u2068'}${text}\u2069`;
}

/** The texts as a list: `هرات، بلخ، و کابل`. */
export function formatList(items: readonly string[], locale: string | LocaleInfo): string {
  const { two, start, middle, end } = localeInfo(locale).lists;
  const [first = '', ...others] = items;
  return others.reduce((list, item, i) => {
    const last = i === others.length - 1;
    const pattern = others.length === 1 ? two : last ? end : i === 0 ? start : middle;
    return pattern.replace(/\{[01]\}/g, (place) => (place === '{0}' ? list : item));
  }, first);
}

export type Plural = 'zero' | 'one' | 'two' | 'few' | 'many' | 'other';

/** The grammatical number that a count has in the language. Give counts with digits behind the point as text: `1.0` is not always `1`. */
export function plural(count: number | string, locale: string | LocaleInfo): Plural {
  const [whole = '', fraction = ''] = String(count).replace(/^-/, '').split('.');
  const operands: Record<string, number> = { n: Math.abs(Number(count)), i: Number(whole), v: fraction.length };
  for (const [category, rule] of Object.entries(localeInfo(locale).plurals)) {
    if (rule !== '' && rule.split(' or ').some((all) => all.split(' and ').every((relation) => holds(relation, operands)))) return category as Plural;
  }
  return 'other';
}

/** A relation of UTS 35, such as `i % 10 != 12..14`. */
function holds(relation: string, operands: Readonly<Record<string, number>>): boolean {
  const [, operand = '', divisor, not, low, high = low] = /^(\w)(?: % (\d+))? (!?)= (\d+)(?:\.\.(\d+))?$/.exec(relation) ?? [];
  if (low === undefined) throw new RangeError(`not a plural rule: ${relation}`);
  const value = (operands[operand] ?? NaN) % Number(divisor ?? Infinity);
  return (Number.isInteger(value) && value >= Number(low) && value <= Number(high)) !== (not === '!');
}
