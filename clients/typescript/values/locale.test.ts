import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { addDays, foldDigits, formatDay, formatList, formatMoney, formatNumber, fromSolarHijri, isolate, localeInfo, localized, minorDigits, parseMoney, parseNumber, plural, toSolarHijri } from './index.js';
import { locales } from './locales.js';

/** What ICU is asked for: our English is everyone's, and our Arabic that of the Emirates. */
const icu = (locale: string): string => ({ en: 'en-001', ar: 'ar-AE', ur: 'ur-PK' })[locale] ?? locale;

// Node has all of ICU's data; a browser has not. Where our words differ on purpose, docs/locales.md says why.
const differ: Readonly<Record<string, string>> = {
  'fa-AF persian 6': 'سنبله', // CLDR writes it as before a genitive
  'ps-AF persian 3': 'غبرګولی', // with the letter of Pashto
  'ps-AF persian 4': 'چنګاښ',
};

const dayIn = (calendar: string, month: number): Date => new Date(calendar === 'gregory' ? Date.UTC(2026, month - 1, 15) : Date.UTC(2026, 2, 21) + (month - 1) * 30.6 * 86_400_000 + 5 * 86_400_000);

test('months and weekdays are those of ICU', () => {
  for (const { locale, months, weekdays } of locales) {
    for (let m = 1; m <= 12; m++) {
      const at = dayIn('gregory', m);
      const { long, short = long, standalone = long } = months.gregory;
      assert.equal(long[m - 1], nameOf(locale, { day: 'numeric', month: 'long' }, at), locale);
      if (locale !== 'ps-AF') assert.equal(standalone[m - 1], nameOf(locale, { month: 'long' }, at), locale); // CLDR has two spellings there
      if (months.gregory.short) assert.equal(short[m - 1], nameOf(locale, { day: 'numeric', month: 'short' }, at), locale);
      if (['fa-AF', 'fa-IR', 'ps-AF'].includes(locale)) {
        assert.equal(months.persian.long[m - 1], differ[`${locale} persian ${m}`] ?? nameOf(locale, { day: 'numeric', month: 'long' }, dayIn('persian', m), 'persian'), locale);
      }
    }
    for (let d = 0; d < 7; d++) {
      const at = new Date(Date.UTC(2026, 10, 2 + d));
      assert.equal(weekdays.long[d], nameOf(locale, { weekday: 'long' }, at));
      if (weekdays.short) assert.equal(weekdays.short[d], nameOf(locale, { weekday: 'short' }, at));
    }
  }
});

function nameOf(locale: string, options: Intl.DateTimeFormatOptions, at: Date, calendar = 'gregory'): string | undefined {
  const type = 'weekday' in options ? 'weekday' : 'month';
  return new Intl.DateTimeFormat(`${icu(locale)}-u-ca-${calendar}`, { ...options, timeZone: 'UTC' }).formatToParts(at).find((part) => part.type === type)?.value;
}

test('numbers, lists and plurals are those of ICU', () => {
  for (const { locale } of locales) {
    const tag = icu(locale);
    for (const n of [0, 7, 999, 1000, 1234.5, -1234567.891]) assert.equal(formatNumber(n, locale), new Intl.NumberFormat(tag).format(n), locale);
    for (const items of [[], ['A'], ['A', 'B'], ['A', 'B', 'C'], ['A', 'B', 'C', '{0}']]) {
      const want = new Intl.ListFormat(tag).format(items);
      assert.equal(formatList(items, locale), locale === 'tg-TJ' && items.length > 2 ? want.replace(/, (.{1,3})$/, ' ва $1') : want, locale);
    }
    if (locale === 'tg-TJ') continue; // not even ICU has plurals for it
    const rules = new Intl.PluralRules(tag);
    const { plurals } = localeInfo(locale);
    assert.deepEqual(Object.keys(plurals).sort(), [...rules.resolvedOptions().pluralCategories].sort());
    for (let n = 0; n <= 1200; n++) assert.equal(plural(n, locale), rules.select(n), `${locale} ${n}`);
    for (const n of [0.5, 1.5, 2.1, 3.5, 10.25, -1]) assert.equal(plural(n, locale), rules.select(n), `${locale} ${n}`);
    assert.equal(plural('1.0', locale), new Intl.PluralRules(tag, { minimumFractionDigits: 1 }).select(1), locale);
  }
  assert.deepEqual([0, 1, 2].map((n) => plural(n, 'tg')), ['other', 'one', 'other']);
});

test('amounts are those of ICU, with our minor digits', () => {
  for (const { locale, money } of locales) {
    for (const [currency, digits] of Object.entries(money.minorDigits)) {
      assert.equal(minorDigits(currency), digits);
      const sign = money.signs[currency] ?? '';
      const want = new Intl.NumberFormat(icu(locale), { style: 'currency', currency, minimumFractionDigits: 2 })
        .formatToParts(12345.6)
        .map(({ type, value }) => (type === 'currency' ? sign : value))
        .join('');
      const plain = (text: string): string => text.replace(/[\s\u200e\u200f]/g, '');
      assert.equal(plain(formatMoney({ minor: '1234560', currency }, locale)), plain(want), `${locale} ${currency}`);
    }
  }
});

test('week facts are those of ICU', () => {
  for (const { locale, direction, firstDay, weekend } of locales) {
    // Members of Node 20, and functions later.
    const facts = new Intl.Locale(icu(locale)) as unknown as Record<'weekInfo' | 'textInfo', { firstDay: number; weekend: number[]; direction: string }> & { getWeekInfo(): unknown; getTextInfo(): unknown };
    const { weekInfo = facts.getWeekInfo() as typeof facts.weekInfo, textInfo = facts.getTextInfo() as typeof facts.textInfo } = facts;
    assert.deepEqual([firstDay, weekend, direction], [weekInfo.firstDay, weekInfo.weekend, textInfo.direction], locale);
  }
});

test('every day of the years 1300 to 1500 is where ICU has it', () => {
  const { firstYear, begins } = JSON.parse(readFileSync(new URL('../../../../contracts/locales/solar-hijri.json', import.meta.url), 'utf8')) as { firstYear: number; begins: number[] };
  const persian = new Intl.DateTimeFormat('en-u-ca-persian-nu-latn', { year: 'numeric', month: 'numeric', day: 'numeric', timeZone: 'UTC' });
  const starts: number[] = [];
  let days = 0;
  for (let day = '1921-03-21'; day < '2122-03-21'; day = addDays(day, 1), days++) {
    const found = toSolarHijri(day);
    const text = persian.format(Date.parse(day));
    if (text !== `${found.month}/${found.day}/${found.year} AP`) assert.fail(`${day} is ${text}, and not ${JSON.stringify(found)}`);
    if (fromSolarHijri(found) !== day) assert.fail(`${JSON.stringify(found)} is not ${day}`);
    if (found.month === 1 && found.day === 1) starts.push(Number(day.slice(8)));
  }
  assert.equal(days, 73_414);
  assert.equal(firstYear, 1300);
  assert.deepEqual(starts, begins.slice(0, -1));
  for (const day of ['1921-03-20', '2122-03-21']) assert.throws(() => toSolarHijri(day), RangeError);
  for (const [year, month, day] of [[1299, 12, 1], [1501, 1, 1], [1405, 13, 1], [1405, 0, 1], [1405, 7, 31], [1404, 12, 30], [1405, 1.5, 1]] as const) {
    assert.throws(() => fromSolarHijri({ year, month, day }), RangeError);
  }
});

test('a tag leads to the locale that the services choose for it', () => {
  for (const [tag, want] of [
    ['fa', 'fa-IR'], ['fa-AF', 'fa-AF'], ['fa_AF', 'fa-AF'], ['prs', 'fa-AF'], ['prs-AF', 'fa-AF'], ['fa-Arab-AF', 'fa-AF'], ['ps', 'ps-AF'], ['ps-PK', 'ps-AF'], ['tg', 'tg-TJ'],
    ['en', 'en'], ['en-GB', 'en'], ['EN-us', 'en-US'], ['en-US-u-ca-persian', 'en-US'], ['ar-AE', 'ar'], ['ur-PK', 'ur'], ['ru-TJ', 'ru'], ['de', 'en'], ['', 'en'], ['constructor', 'en'],
  ] as const) {
    assert.equal(localeInfo(tag).locale, want, tag);
  }
  const name = { default: 'Nasim Hotel', localized: { fa: 'هوتل نسیم', 'fa-IR': 'هتل نسیم' } };
  assert.deepEqual([localized(name, 'fa-AF'), localized(name, 'fa'), localized(name, 'ps'), localized({ default: 'x' }, 'en')], ['هوتل نسیم', 'هتل نسیم', 'Nasim Hotel', 'x']);
  const session = { ...localeInfo('ru'), digits: '٠١٢٣٤٥٦٧٨٩' };
  assert.equal(formatDay('2026-11-18', session, { dateStyle: 'day' }), '١٨ ноября');
});

test('what people type is read in their digits and separators', () => {
  assert.equal(foldDigits('۰۱۲۳۴۵۶۷۸۹ ٠١٢٣٤٥٦٧٨٩ x'), '0123456789 0123456789 x');
  for (const [typed, locale, want] of [
    ['۱۲٬۳۴۵٫۶', 'fa-AF', '12345.6'], ['۱۲,۳۴۵.۶', 'ps-AF', '12345.6'], ['٤٢', 'ar', '42'], ['12 345,6', 'ru', '12345.6'], ['12\u00a0345,6', 'tg', '12345.6'], ['12.5', 'ru', '12.5'],
    ['\u200e−۵', 'fa', '-5'], [' 1,234.50 ', 'en', '1234.50'], ['1,5', 'en', undefined], ['1,5', 'ru', '1.5'], ['1.2.3', 'en', undefined], ['', 'en', undefined], ['12a', 'en', undefined], ['1e3', 'en', undefined],
  ] as const) {
    assert.equal(parseNumber(typed, locale), want, `${typed} in ${locale}`);
  }
  assert.deepEqual(parseMoney('۱۲٬۳۴۵٫۶', 'AFN', 'fa-AF'), { minor: '1234560', currency: 'AFN' });
  assert.equal(parseMoney('1.234', 'USD', 'en'), undefined);
  for (const { locale } of locales) {
    const number = formatNumber('-9007199254740993.25', locale);
    assert.equal(parseNumber(number, locale), '-9007199254740993.25', locale);
  }
  for (const bad of ['', '1e3', 'abc', NaN, Infinity, 1e21]) assert.throws(() => formatNumber(bad, 'en'), RangeError);
});

test('isolated texts keep their direction', () => {
  assert.deepEqual([isolate('x'), isolate('x', 'ltr'), isolate('x', 'rtl')], ['\u2068x\u2069', '\u2066x\u2069', '\u2067x\u2069']);
});
