import { foldDigits, localeInfo, withDigits, type LocaleInfo } from './locale.js';

/** A decimal number for people, with all digits of a text and at most three behind the point of a `number`. */
export function formatNumber(value: string | number | bigint, locale: string | LocaleInfo): string {
  const text = typeof value === 'number' ? value.toFixed(3).replace(/\.?0+$/, '') : String(value);
  const [, sign, whole = '', fraction] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text) ?? [];
  if (whole === '') throw new RangeError('not a decimal number');
  const info = localeInfo(locale);
  const { decimal, group, minus } = info.numbers;
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, group);
  return (sign === '' || /^[-0.]*$/.test(text) ? '' : minus) + withDigits(grouped + (fraction === undefined ? '' : decimal + fraction), info);
}

/**
 * What a person typed as a decimal text such as `-1234.5`, or undefined if it is no number. It takes Persian and Arabic digits and the separators of the
 * locale. Groups must have three digits: `1,5` is not fifteen.
 */
export function parseNumber(typed: string, locale: string | LocaleInfo): string | undefined {
  const comma = localeInfo(locale).numbers.decimal === ',';
  const text = foldDigits(typed)
    .replace(/[\u200e\u200f\u061c\u2066-\u2069]/g, '')
    .trim()
    .replace(/^[−-]\s*/, '-')
    .replace(comma ? /[,٫]/ : /٫/, '.')
    .replace(comma ? /[\s٬]/g : /[\s٬,]/g, ',');
  if (!/^-?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?$/.test(text)) return undefined;
  return text.replace(/,/g, '');
}
