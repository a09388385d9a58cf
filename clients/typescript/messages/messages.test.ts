import assert from 'node:assert/strict';
import { test } from 'node:test';

import { message, messages, type MessageKey } from './index.js';

test('a text is in the language of the locale, or in English', () => {
  const texts = messages['error.general.unauthenticated'];
  for (const [locale, want] of [['fa-AF', texts.fa], ['fa-IR', texts.fa], ['ps', texts.ps], ['PS-af', texts.ps], ['en-US', texts.en], ['tg-TJ', texts.en], ['constructor', texts.en], ['', texts.en]] as const) {
    assert.equal(message('error.general.unauthenticated', locale), want);
  }
});

test('a failure without a known key has a text', () => {
  for (const key of [undefined, 'error.bff.consumer.newer', 'constructor'] as (MessageKey | undefined)[]) assert.equal(message(key, 'ps-AF'), messages['error.general.internal'].ps);
});
