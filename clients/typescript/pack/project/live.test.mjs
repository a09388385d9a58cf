// The installed package against the platform, in Node and in Chromium. `make test-typescript` runs it, within `melmastoon up`.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { test } from 'node:test';

import { BackofficeClient, ConsumerClient, CookieJar, ProblemError, addDays, searchPages, solve, today } from '@melmastoon/bff';
import { messages } from '@melmastoon/bff/messages';

import { chromium } from './browser.mjs';

const { MELMASTOON_CONSUMER_URL, MELMASTOON_BACKOFFICE_URL, MELMASTOON_SIM_URL } = process.env;
const consumer = `${MELMASTOON_CONSUMER_URL}/bff/consumer/v1`;
const backoffice = `${MELMASTOON_BACKOFFICE_URL}/bff/backoffice/v1`;
const iam = `${MELMASTOON_SIM_URL}/iam`;
const timeout = 600_000;
const patient = { timeoutMs: 60_000, retries: 5 }; // machines that run tests are slow and busy

test('a guest of a server-rendered page', { timeout }, async () => {
  const jar = new CookieJar();
  const api = new ConsumerClient({ baseUrl: consumer, fetch: jar.fetch, solver: solve, ...patient });
  const checkIn = addDays(today('Asia/Kabul'), 30);
  const stay = { dates: { checkIn, checkOut: addDays(checkIn, 3) }, occupancy: { adults: 2, rooms: 1 } };
  const hotels = [];
  for await (const page of searchPages(api, { body: { ...stay, geo: { mode: 'city', city: 'Kabul' }, page: { limit: 50 } } })) {
    hotels.push(...page.results);
    if (hotels.length >= 100) break;
  }
  assert.equal(new Set(hotels.map((h) => h.propertyId)).size, 100);
  const { propertyId, tenantId } = hotels[0];
  const wish = { body: { propertyId, source: 'list' }, idempotencyKey: 'package-live-test' };
  assert.deepEqual([(await api.call('addToWishlist', wish)).status, (await api.call('addToWishlist', wish)).headers.get('Idempotency-Replayed')], [201, 'true']);
  assert.equal((await api.call('wishlist')).data.size, 1);
  // The guest's next request, in another process.
  const next = new ConsumerClient({ baseUrl: consumer, fetch: CookieJar.of(jar.header(consumer), consumer).fetch, ...patient });
  assert.equal((await next.call('wishlist')).data.size, 1);
  assert.ok(new URL((await api.call('mintHandoff', { body: { ...stay, propertyId, tenantId } })).data.url).searchParams.has('h'));
  await assert.rejects(api.call('suggest', { query: { q: '' } }), (error) => error instanceof ProblemError && error.code === 'MELMASTOON.GENERAL.VALIDATION_FAILED');
});

test('an operator', { timeout }, async () => {
  const desk = new BackofficeClient({ baseUrl: backoffice, iamUrl: iam, appVersion: '1.0.0', appPlatform: 'linux', ...patient });
  await desk.signIn({ username: 'parwana' });
  const { data } = await desk.call('session');
  assert.equal(data.deviceId, await desk.deviceId());
  [desk.propertyId] = data.propertyScope;
  await Promise.all([desk.refresh(), desk.call('arrivals'), desk.call('dashboard', { headers: { Accept: 'application/json' } })]);
  for await (const page of desk.pages('listAlerts', { query: { limit: 1 } })) {
    assert.ok(page.items.length <= 1);
    break;
  }
  await desk.signOut();
});

const salt = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ?expires=1776935662&level=0&';
const challenge = { algorithm: 'SHA-256', challenge: createHash('sha256').update(`${salt}12345`).digest('hex'), maxnumber: 20_000, salt, signature: 'ab'.repeat(32) };
const frontDesk = 'Parwana Wardak';

/** What a browser writes for the readers of each locale. Chromium knows neither Pashto nor Tajik: when `known` fails, it has learnt one, and docs/locales.md can be shorter. */
const words = {
  currencies: 7, texts: 9 * (400 * (6 * 2 + 7 + 1) + 1 + Object.keys(messages).length), latin: [], days: 73_414, wrong: [], known: [],
  said: {
    'ps-AF': 'څلرنۍ د ۱۴۰۵ د لړم ۲۷ ؋\u00a0۱۲٬۳۴۵٫۶۷', 'fa-AF': 'چهارشنبه ۲۷ عقرب ۱۴۰۵ ؋\u00a0۱۲٬۳۴۵٫۶۷', 'fa-IR': 'چهارشنبه ۲۷ آبان ۱۴۰۵ ؋\u00a0۱۲٬۳۴۵٫۶۷',
    'tg-TJ': 'Чоршанбе, 18 Ноябр 2026 12\u00a0345,67\u00a0AFN', en: 'Wednesday, 18 November 2026 AFN\u00a012,345.67', 'en-US': 'Wednesday, November 18, 2026 AFN\u00a012,345.67',
    ar: 'الأربعاء، 18 نوفمبر 2026 \u200f12,345.67\u00a0AFN', ur: 'بدھ، 18 نومبر، 2026 AFN\u00a012,345.67', ru: 'среда, 18 ноября 2026 г. 12\u00a0345,67\u00a0AFN',
  },
};

/** The pages that the browser visits: where, and what is found there. */
const visits = [
  { at: 'http://127.0.0.1', page: 'guest', want: { sessions: 1, hotels: 40, size: 1, token: true, code: 'MELMASTOON.GENERAL.RESOURCE_NOT_FOUND', solved: true, beside: true } },
  { at: 'http://127.0.0.1', page: 'strict', policy: "worker-src 'none'", want: { number: 12_345, byWorkers: 0 } },
  { at: 'http://shop.test', page: 'plain', want: { secure: false, status: 204, number: 12_345, byWorkers: 1 } },
  { at: 'http://127.0.0.1', page: 'words', want: words },
  { at: 'http://127.0.0.1', page: 'signIn', want: { displayName: frontDesk, exported: false } },
  { at: 'http://127.0.0.1', page: 'again', want: { displayName: frontDesk, same: true, end: 'aborted', told: true, signedIn: false } },
];

test('pages of another origin in Chromium', { timeout }, async (t) => {
  const told = {};
  const keys = [];
  const { promise, resolve } = withResolvers();
  const address = (visit) => (visit === undefined ? '' : `${visit.at}:${server.address().port}/${visit.page}`);
  const server = createServer((asked, answer) => {
    const [, first, name] = asked.url.split('/');
    const i = visits.findIndex((visit) => visit.page === (name ?? first));
    if (first === 'page.js') return answer.end(readFileSync(new URL('page.js', import.meta.url)));
    if (first === 'stub') {
      keys.push(asked.headers['idempotency-key']);
      return answer.writeHead(keys.length === 1 ? 503 : 204).end();
    }
    if (first === 'told') {
      let body = '';
      asked.on('data', (part) => (body += part));
      return asked.on('end', () => {
        told[name] = JSON.parse(body);
        if (i === visits.length - 1) resolve();
        answer.end(address(visits[i + 1]));
      });
    }
    if (i < 0) return answer.writeHead(404).end();
    answer.writeHead(200, { 'Content-Type': 'text/html', ...(visits[i].policy && { 'Content-Security-Policy': visits[i].policy }) });
    answer.end(`<!doctype html><meta charset="utf-8"><script>const setting = ${JSON.stringify({ consumer, backoffice, iam, challenge })};</script><script src="/page.js"></script>`);
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { ended } = chromium(t, address(visits[0]));
  await Promise.race([promise, ended]);
  assert.deepEqual(told, Object.fromEntries(visits.map(({ page, want }) => [page, want])));
  assert.equal(keys.length, 2);
  assert.equal(new Set(keys).size, 1);
});

function withResolvers() {
  let resolve;
  const promise = new Promise((r) => (resolve = r));
  return { promise, resolve };
}
