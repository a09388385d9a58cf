import assert from 'node:assert/strict';
import { test } from 'node:test';

import { addDays, dayOf, formatDay, formatMoney, minorDigits, nights, sum, toDecimal, toMinor, today } from './index.js';

for (const [minor, currency, decimal] of [
  ['299476', 'AFN', '2994.76'],
  ['5', 'USD', '0.05'],
  ['-5', 'EUR', '-0.05'],
  ['0', 'IRR', '0.00'],
  ['1234', 'JPY', '1234'],
  ['1234', 'KWD', '1.234'],
  ['900719925474099267', 'PKR', '9007199254740992.67'],
] as const) {
  test(`${minor} of ${currency} is ${decimal} and back`, () => {
    assert.equal(toDecimal({ minor, currency }), decimal);
    assert.deepEqual(toMinor(decimal, currency), { minor, currency });
  });
}

test('every currency of the platform has hundredths, whatever Intl says of cash', () => {
  for (const currency of ['AFN', 'USD', 'EUR', 'IRR', 'PKR', 'AED', 'GBP']) assert.equal(minorDigits(currency), 2);
});

test('amounts that are none are refused', () => {
  for (const minor of ['', '1.5', '1e3', ' 1', 'abc']) assert.throws(() => toDecimal({ minor, currency: 'USD' }), RangeError);
  for (const decimal of ['1.234', '1,5', '.5', '']) assert.throws(() => toMinor(decimal, 'USD'), RangeError);
  assert.throws(() => sum({ minor: '1', currency: 'USD' }, { minor: '1', currency: 'EUR' }), RangeError);
});

test('sums are exact', () => {
  const money = (minor: string) => ({ minor, currency: 'AFN' });
  assert.deepEqual(sum(money('900719925474099267'), money('1'), money('-2')), money('900719925474099266'));
});

test('amounts are shown with all their digits', () => {
  const plain = (text: string): string => text.replace(/\s/g, ' ');
  assert.equal(plain(formatMoney({ minor: '299476', currency: 'AFN' }, 'en')), 'AFN 2,994.76');
  assert.equal(plain(formatMoney({ minor: '300000', currency: 'USD' }, 'en')), '$3,000');
  assert.equal(plain(formatMoney({ minor: '900719925474099267', currency: 'EUR' }, 'en')), '€9,007,199,254,740,992.67');
  assert.equal(formatMoney({ minor: '1021295', currency: 'AFN' }, 'fa-AF'), '؋\u00a0۱۰٬۲۱۲٫۹۵');
  assert.equal(formatMoney({ minor: '900719925474099267', currency: 'PKR' }, 'ps-AF'), 'PKR\u00a0۹٬۰۰۷٬۱۹۹٬۲۵۴٬۷۴۰٬۹۹۲٫۶۷');
  assert.equal(plain(formatMoney({ minor: '300000', currency: 'AFN' }, 'en', { trailingZeros: true })), 'AFN 3,000.00');
  assert.equal(plain(formatMoney({ minor: '-5', currency: 'USD' }, 'tg-TJ')), '-0,05 $');
  assert.equal(formatMoney({ minor: '-500', currency: 'AFN' }, 'fa-IR'), '\u200e−؋\u00a0۵');
  assert.equal(formatMoney({ minor: '-500', currency: 'AED' }, 'ar'), '\u200f\u200e-5\u00a0د.إ.\u200f');
  assert.equal(plain(formatMoney({ minor: '1234500', currency: 'PKR' }, 'ur')), 'روپے 12,345');
  assert.equal(plain(formatMoney({ minor: '1234500', currency: 'USD' }, 'ur', { currencyDisplay: 'code' })), 'USD 12,345');
  assert.equal(plain(formatMoney({ minor: '1234', currency: 'JPY' }, 'ru')), '1 234 JPY');
});

test('days are counted without a time zone', () => {
  assert.equal(addDays('2027-02-28', 1), '2027-03-01');
  assert.equal(addDays('2028-03-01', -1), '2028-02-29');
  assert.equal(nights('2027-03-27', '2027-03-29'), 2); // clocks change between them in Europe
  for (const bad of ['2027-02-29', '2027-5-1', '2027-05-12T00:00:00Z', '']) assert.throws(() => addDays(bad, 1), RangeError);
});

test('a picked date is the day that was picked', () => {
  assert.equal(dayOf(new Date(2027, 4, 12, 0, 30)), '2027-05-12');
  assert.equal(dayOf(new Date(2027, 4, 12, 23, 30)), '2027-05-12');
});

test('today is the day of the hotel', () => {
  const now = new Date('2027-05-12T20:00:00Z');
  assert.equal(today('Asia/Kabul', now), '2027-05-13');
  assert.equal(today('America/New_York', now), '2027-05-12');
});

test('a day is shown as it is, in the calendar of the locale', () => {
  assert.equal(formatDay('2027-05-12', 'en-GB'), '12 May 2027');
  assert.equal(formatDay('2027-05-12', 'en-US'), 'May 12, 2027');
  assert.equal(formatDay('2026-11-18', 'fa-AF'), '۲۷ عقرب ۱۴۰۵');
  assert.equal(formatDay('2026-11-18', 'fa-AF', { dateStyle: 'short' }), '۱۴۰۵/۸/۲۷');
  assert.equal(formatDay('2026-11-18', 'fa-IR', { dateStyle: 'full' }), 'چهارشنبه ۲۷ آبان ۱۴۰۵');
  assert.equal(formatDay('2026-11-18', 'ps-AF', { dateStyle: 'month' }), 'د ۱۴۰۵ لړم');
  assert.equal(formatDay('2026-11-18', 'ps-AF', { calendar: 'gregory' }), '۲۰۲۶ نومبر ۱۸');
  assert.equal(formatDay('2026-11-18', 'tg-TJ', { dateStyle: 'full' }), 'Чоршанбе, 18 Ноябр 2026');
  assert.equal(formatDay('2026-11-01', 'ru', { dateStyle: 'month' }), 'ноябрь 2026 г.');
  assert.equal(formatDay('2026-11-01', 'ru', { dateStyle: 'short' }), '01.11.2026');
});

test('Solar Hijri stands beside Gregorian where readers want both', () => {
  assert.equal(formatDay('2026-11-18', 'fa-AF', { beside: true }), '\u2068۲۷ عقرب ۱۴۰۵\u2069 (\u2068۱۸ نومبر ۲۰۲۶\u2069)');
  assert.equal(formatDay('2026-11-18', 'ur', { beside: true }), '18 نومبر، 2026');
  assert.equal(formatDay('2026-11-18', 'en', { calendar: 'persian', beside: true }), '\u206827 Aqrab 1405\u2069 (\u206818 Nov 2026\u2069)');
});
