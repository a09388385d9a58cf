// Runs against a real platform: melmastoon up -- node --test dist/booking.test.js
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';

import { createBooking } from './booking.js';

const api = `${process.env['MELMASTOON_CONSUMER_URL']}/bff/consumer/v1`;
const stay = { dates: { checkIn: '2077-05-12', checkOut: '2077-05-15' }, occupancy: { adults: 2, children: 1, rooms: 1, childrenAges: [7] } };
const server = createBooking(process.env);
let base = '';
let slug = '';
let token = '';
let name = '';
let dari: { token: string; slug: string; name: string };

before(async () => {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const post = async (path: string, body: unknown, headers: Record<string, string> = {}) => {
    const r = await fetch(api + path, { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json', ...headers } });
    assert.ok(r.ok, `${path}: ${r.status}`);
    return r.json() as Promise<any>;
  };
  const [found, other] = (await post('/search', { geo: { mode: 'city', city: 'Kabul' }, ...stay })).results;
  const shown = { minor: '1021205', currency: 'AFN', capturedAt: new Date().toISOString() };
  const mint = async (hotel: any, language: string) => {
    const body = { propertyId: hotel.propertyId, tenantId: hotel.tenantId, ...stay, currency: 'AFN', shown };
    const minted = await post('/handoff', body, { 'Idempotency-Key': randomUUID(), 'Accept-Language': language });
    return new URL(minted.url).searchParams.get('h')!;
  };
  slug = found.tenantSlug;
  name = found.name.localized['en'] ?? found.name.default;
  token = await mint(found, 'en');
  dari = { token: await mint(other, 'fa-AF'), slug: other.tenantSlug, name: other.name.localized['fa'] ?? other.name.localized['fa-AF'] };
});
after(() => server.close());

async function visit(path: string, init?: RequestInit): Promise<[number, string]> {
  const response = await fetch(base + path, init);
  assert.equal(response.headers.get('Referrer-Policy'), 'no-referrer');
  assert.match(response.headers.get('Content-Security-Policy')!, /^default-src 'none'/);
  const text = await response.text();
  assert.ok(!text.includes(token), 'the page repeats the token');
  return [response.status, text];
}

test('what is no arrival uses nothing up', async () => {
  const forged = `${token.slice(0, 40)}${token[40] === 'A' ? 'B' : 'A'}${token.slice(41)}`;
  for (const [want, path, init] of [
    [400, `/${slug}/book`],
    [401, `/${slug}/book?h=${forged}`],
    [401, `/${slug}/book?h=${encodeURIComponent('<script>')}`],
    [404, `/another-hotel/book?h=${token}`],
    [404, `/${slug}?h=${token}`],
    [405, `/${slug}/book?h=${token}`, { method: 'HEAD' }],
    [503, `/${slug}/book?h=${token}`, { headers: { 'Sec-Purpose': 'prefetch' } }],
  ] as [number, string, RequestInit?][]) {
    const [status, text] = await visit(path, init);
    assert.equal(status, want, text);
    assert.ok(!text.includes('<script'), text);
  }
});

test('a guest arrives, once', async () => {
  const [status, text] = await visit(`/${slug}/book?h=${token}`);
  assert.equal(status, 200, text);
  for (const want of ['2077-05-12', '2077-05-15', 'id="adults">2<', 'id="ages">7<', '10,212.05', '>AFN<', `<h1 id="hotel-name">${name}</h1>`, 'dir="ltr"', '<img src="http']) {
    assert.ok(text.includes(want), `${want} is missing in ${text}`);
  }
  const [again, refusal] = await visit(`/${slug}/book?h=${token}`);
  assert.equal(again, 409);
  assert.match(refusal, /already used/);
});

test("the page is in the guest's language", async () => {
  const [status, text] = await visit(`/${dari.slug}/book?h=${dari.token}`);
  assert.equal(status, 200, text);
  for (const want of ['lang="fa-AF" dir="rtl"', `>${dari.name}</h1>`, '۱۰٬۲۱۲٫۰۵', 'ثور']) assert.ok(text.includes(want), `${want} is missing in ${text}`);
  const [, refusal] = await visit(`/${dari.slug}/book`, { headers: { 'Accept-Language': 'ps-AF' } });
  assert.match(refusal, /دا پته لېږد نه لري/);
});

test('settings are needed', () => {
  assert.throws(() => createBooking({}), /BFF_CONSUMER_HANDOFF_KEYS is not set/);
});
