import { localeInfo, type LocaleInfo } from './locale.js';
import { formatNumber, parseNumber } from './number.js';

/** An amount as the services send it: a whole number of ISO 4217 minor units in a decimal string. */
export interface Money {
  readonly minor: string;
  readonly currency: string;
}

// Currencies whose minor unit is not a hundredth. `Intl` cannot be asked: it counts cash, and says that an afghani has no minor unit.
const otherDigits: Readonly<Record<string, number>> = {
  BHD: 3, IQD: 3, JOD: 3, KWD: 3, LYD: 3, OMR: 3, TND: 3,
  BIF: 0, CLP: 0, DJF: 0, GNF: 0, ISK: 0, JPY: 0, KMF: 0, KRW: 0, PYG: 0, RWF: 0, UGX: 0, VND: 0, VUV: 0, XAF: 0, XOF: 0, XPF: 0,
};

/** How many digits the minor unit of a currency has in ISO 4217. */
export function minorDigits(currency: string): number {
  return otherDigits[currency] ?? 2;
}

/** The amount in major units, exactly: `299476` of AFN is `2994.76`. */
export function toDecimal({ minor, currency }: Money): string {
  const [, sign, digits] = /^(-?)(\d+)$/.exec(minor) ?? [];
  if (digits === undefined) throw new RangeError('the amount is no whole number of minor units');
  const places = minorDigits(currency);
  const padded = digits.padStart(places + 1, '0');
  return sign + padded.slice(0, padded.length - places) + (places > 0 ? `.${padded.slice(-places)}` : '');
}

/** The amount in minor units, exactly: `2994.76` AFN is `299476`. Throws if it is no whole number of them. */
export function toMinor(decimal: string, currency: string): Money {
  const places = minorDigits(currency);
  const [, sign, whole, fraction = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(decimal) ?? [];
  if (whole === undefined || fraction.length > places) throw new RangeError(`${currency} has ${places} digits behind the point at most`);
  const minor = (whole + fraction.padEnd(places, '0')).replace(/^0+(?=\d)/, '');
  return { minor: (minor === '0' ? '' : sign) + minor, currency };
}

/** The sum of amounts of one currency. */
export function sum(first: Money, ...others: readonly Money[]): Money {
  let total = BigInt(first.minor);
  for (const { minor, currency } of others) {
    if (currency !== first.currency) throw new RangeError(`${currency} cannot be added to ${first.currency}`);
    total += BigInt(minor);
  }
  return { minor: String(total), currency: first.currency };
}

export interface MoneyOptions {
  /** `code` writes `AFN` where readers may not know the sign. */
  readonly currencyDisplay?: 'symbol' | 'code';
  /** Write minor units also where they are zero, as in columns. */
  readonly trailingZeros?: boolean;
}

/** The amount for people, exactly. Minor units are left out where they are zero. */
export function formatMoney(money: Money, locale: string | LocaleInfo, { currencyDisplay = 'symbol', trailingZeros = false }: MoneyOptions = {}): string {
  const info = localeInfo(locale);
  const decimal = toDecimal(money);
  const negative = decimal.startsWith('-') && /[1-9]/.test(decimal);
  const number = formatNumber(decimal.slice(decimal.startsWith('-') ? 1 : 0).replace(trailingZeros ? /^$/ : /\.0+$/, ''), info);
  const sign = (currencyDisplay === 'code' ? undefined : info.money.signs[money.currency]) ?? money.currency;
  const { pattern } = info.money;
  const signFirst = pattern.indexOf('¤') < pattern.indexOf('#');
  const minus = negative ? info.numbers.minus : '';
  const spaced = /\p{L}$/u.test(sign) ? pattern.replace('¤#', '¤\u00a0#') : pattern; // AFN 12, but $12
  return (signFirst ? minus : '') + spaced.replace(/[#¤]/g, (place) => (place === '¤' ? sign : (signFirst ? '' : minus) + number));
}

/** The amount that a person typed, or undefined if it is none: `۱۲٬۳۴۵٫۶۰` of AFN is `1234560`. */
export function parseMoney(typed: string, currency: string, locale: string | LocaleInfo): Money | undefined {
  const decimal = parseNumber(typed, locale);
  const fraction = decimal?.split('.')[1] ?? '';
  return decimal === undefined || fraction.length > minorDigits(currency) ? undefined : toMinor(decimal, currency);
}
