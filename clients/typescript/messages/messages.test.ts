import assert from 'node:assert/strict';
import { test } from 'node:test';

import { locales } from '../values/locales.js';
import { formatMessage, message, messages, type MessageKey } from './index.js';

test('a text is in the language of the locale, or in English', () => {
  const texts = messages['error.general.unauthenticated'];
  for (const [locale, want] of [
    ['fa-AF', texts.fa], ['fa-IR', texts.fa], ['prs', texts.fa], ['ps', texts.ps], ['PS-af', texts.ps], ['tg-TJ', texts.tg], ['ur-PK', texts.ur], ['ar-AE', texts.ar], ['ru', texts.ru],
    ['en-US', texts.en], ['de', texts.en], ['constructor', texts.en], ['', texts.en],
  ] as const) {
    assert.equal(message('error.general.unauthenticated', locale), want);
  }
});

test('every text is there in the language of every locale, and no two are the same', () => {
  for (const [key, texts] of Object.entries(messages)) {
    const shown = locales.map(({ locale }) => message(key as MessageKey, locale));
    assert.equal(new Set(shown).size, 7, key);
    for (const [i, { locale }] of locales.entries()) assert.equal(/[A-Za-z]/.test(shown[i] ?? ''), locale.startsWith('en'), `${key} ${locale}: ${shown[i]}`);
    assert.deepEqual(Object.keys(texts).sort(), ['ar', 'en', 'fa', 'ps', 'ru', 'tg', 'ur'], key);
  }
});

test('values are put into a text with the plural of its language', () => {
  const plain = (text: string): string => text.replace(/[\u2068\u2069]/g, '');
  const russian = '{n, plural, one {# ночь} few {# ночи} many {# ночей} other {# ночи}} в {city}';
  assert.deepEqual([1, 3, 5, 21, 1.5].map((n) => plain(formatMessage(russian, 'ru', { n, city: 'Душанбе' }))), ['1', '3', '5', '21', '1,5'].map((n, i) => `${n} ${['ночь', 'ночи', 'ночей', 'ночь', 'ночи'][i]} в Душанбе`));
  assert.equal(plain(formatMessage('{n, plural, one {# شب} other {# شب}}', 'fa-AF', { n: 1200 })), '۱٬۲۰۰ شب');
  assert.equal(formatMessage('{n} {m}', 'en', { n: '$&' }), '\u2068$&\u2069 {m}');
  assert.equal(formatMessage('{constructor}', 'en', {}), '{constructor}');
});

test('what was caught has a text: that of the service, or that there is no answer', () => {
  const refused = { code: 'X', problem: { userMessageKey: 'error.general.unauthenticated' as const } };
  assert.equal(message(refused, 'ps-AF'), messages['error.general.unauthenticated'].ps);
  const internal = messages['error.general.internal'].fa;
  for (const caught of [new Error('x'), null, 7, { code: 'UNKNOWN' }, { code: 'constructor' }]) assert.equal(message<unknown>(caught, 'fa-AF'), internal);
  for (const code of ['NETWORK', 'TIMEOUT'] as const) {
    const shown = locales.map(({ locale }) => message({ code }, locale));
    assert.equal(new Set(shown).size, 7);
    for (const [i, { locale }] of locales.entries()) assert.equal(/[A-Za-z]/.test(shown[i] ?? ''), locale.startsWith('en'), shown[i]);
  }
  // @ts-expect-error a key that does not exist
  message('error.general.unautenticated', 'en');
});

test('a failure without a known key has a text', () => {
  for (const key of [undefined, 'error.bff.consumer.newer', 'constructor'] as (MessageKey | undefined)[]) assert.equal(message(key, 'ps-AF'), messages['error.general.internal'].ps);
});
