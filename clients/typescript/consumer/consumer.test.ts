import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test, type TestContext } from 'node:test';

import { solve } from '../challenge/index.js';
import { refusal, serve, type Seen, type Step } from '../testing/server.js';
import { ConsumerClient, CookieJar, ProblemError, searchPages, type ClientOptions } from './index.js';

const base = '/bff/consumer/v1';
const ulid = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;
const good = { status: 200, body: {} };
const body = {
  geo: { mode: 'city', city: 'Kabul' },
  dates: { checkIn: '2027-05-12', checkOut: '2027-05-15' },
  occupancy: { adults: 2, rooms: 1 },
} as const;
const path = { propertyId: 'ppt_01JXG9KMGRC638MD0V7C0ZPD0W' };

interface World {
  readonly client: ConsumerClient;
  readonly seen: Seen[];
  readonly waits: number[];
}

async function world(t: TestContext, options: Partial<ClientOptions>, ...steps: Step[]): Promise<World> {
  const { url, seen } = await serve(t, ...steps);
  const waits: number[] = [];
  const sleep = (ms: number): Promise<void> => Promise.resolve(void waits.push(ms));
  return { client: new ConsumerClient({ baseUrl: `${url}${base}/`, headers: { 'Accept-Language': 'fa-AF' }, sleep, ...options }), seen, waits };
}

async function failure(call: Promise<unknown>): Promise<ProblemError> {
  const error = await call.then(
    () => assert.fail('the call succeeded'),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof ProblemError, String(error));
  return error;
}

test('a search is sent as the contract has it', async (t) => {
  const result = { results: [], page: { limit: 20, offset: 0, total: 0 }, degraded: [], stale: false };
  const { client, seen } = await world(t, {}, { status: 200, body: result });
  const answer = await client.call('search', { body, headers: { 'X-Currency': 'USD' } });
  assert.equal(answer.status, 200);
  assert.deepEqual(answer.data.page, result.page);
  assert.equal(seen[0]?.method, 'POST');
  assert.equal(seen[0]?.url, '/bff/consumer/v1/search');
  assert.equal(seen[0]?.headers['x-currency'], 'USD');
  assert.equal(seen[0]?.headers['accept-language'], 'fa-AF');
  assert.equal(seen[0]?.headers['content-type'], 'application/json');
  assert.equal(seen[0]?.headers['idempotency-key'], undefined);
  assert.deepEqual(JSON.parse(seen[0]?.body ?? ''), body);
});

test('paths and queries are escaped, lists stand between commas', async (t) => {
  const { client, seen } = await world(t, {}, { status: 304 });
  const answer = await client.call('availability', {
    path: { propertyId: 'ppt/../x' },
    query: { from: '2027-05-12', to: '2027-05-15', children: 2, childrenAges: [5, 8] },
    headers: { 'If-None-Match': '"a"' },
  });
  assert.equal(answer.status, 304);
  assert.equal(answer.data, undefined);
  assert.equal(
    seen[0]?.url,
    '/bff/consumer/v1/hotels/ppt%2F..%2Fx/availability?from=2027-05-12&to=2027-05-15&children=2&childrenAges=5%2C8',
  );
});

test('what may happen once has a key, a fresh one or the one given', async (t) => {
  const { client, seen } = await world(t, {}, { status: 204 });
  await client.call('removeFromWishlist', { path });
  await client.call('removeFromWishlist', { path });
  await client.call('removeFromWishlist', { path, headers: { 'X-Idempotency-Key': 'mine' } });
  await client.call('removeFromWishlist', { path, idempotencyKey: 'ours' });
  const keys = seen.map((s) => s.headers['idempotency-key']);
  assert.match(keys[0] as string, ulid);
  assert.match(keys[1] as string, ulid);
  assert.notEqual(keys[0], keys[1]);
  assert.deepEqual(keys.slice(2), [undefined, 'ours']);
  assert.equal(seen[2]?.headers['x-idempotency-key'], 'mine');
});

test('a key is made where crypto.randomUUID is missing, and is the same in every retry', async (t) => {
  const { randomUUID } = crypto;
  Object.defineProperty(crypto, 'randomUUID', { value: undefined, configurable: true });
  t.after(() => Object.defineProperty(crypto, 'randomUUID', { value: randomUUID, configurable: true }));
  const { client, seen, waits } = await world(t, {}, 'drop', refusal('MELMASTOON.GENERAL.SERVICE_UNAVAILABLE', 503, { retriable: true, retryAfter: 2 }), { status: 204 });
  await client.call('removeFromWishlist', { path });
  assert.equal(seen.length, 3);
  assert.match(seen[0]?.headers['idempotency-key'] as string, ulid);
  assert.deepEqual(new Set(seen.map((s) => s.headers['idempotency-key'])).size, 1);
  assert.ok(waits[0]! >= 250 && waits[0]! <= 375 && waits[1]! >= 2_000 && waits[1]! <= 3_000, `waits: ${waits}`);
});

test('a failure is thrown with its code', async (t) => {
  const { client, seen } = await world(t, { retries: 0 }, refusal('MELMASTOON.BFF.CONSUMER.RATE_LIMITED', 429, { retriable: true, retryAfter: 7 }));
  const error = await failure(client.call('session'));
  assert.equal(error.code, 'MELMASTOON.BFF.CONSUMER.RATE_LIMITED');
  assert.equal(error.status, 429);
  assert.equal(error.retryAfterMs, 7000);
  assert.equal(error.problem?.requestId, 'req_01M7H171TE8TMMAWSY3VS0AZES');
  assert.equal(seen.length, 1);
  // @ts-expect-error a code that does not exist is a mistake
  assert.notEqual(error.code === 'MELMASTOON.BFF.CONSUMER.RATE_LIMTED', true);
});

const page = '<html>secret of a proxy</html>';
for (const [name, step, want] of [
  ['a page of a proxy', { status: 502, headers: { 'Content-Type': 'text/html' }, body: page }, { code: 'UNKNOWN', status: 502, tried: 3 }],
  ['a page with 200', { status: 200, headers: { 'Content-Type': 'text/html' }, body: page }, { code: 'UNKNOWN', status: 200, tried: 1 }],
  ['a page with 404', { status: 404, headers: { 'Content-Type': 'text/html' }, body: page }, { code: 'UNKNOWN', status: 404, tried: 1 }],
  ['broken JSON', { status: 500, headers: { 'Content-Type': 'application/problem+json' }, body: '{"error":' }, { code: 'UNKNOWN', status: 500, tried: 1 }],
  ['a foreign JSON', { status: 503, body: { message: page } }, { code: 'UNKNOWN', status: 503, tried: 3 }],
  ['a broken connection', 'drop', { code: 'NETWORK', status: 0, tried: 3 }],
] as const satisfies [string, Step, unknown][]) {
  test(`${name} is a typed failure`, async (t) => {
    const { client, seen } = await world(t, {}, step);
    const error = await failure(client.call('session'));
    assert.deepEqual({ code: error.code, status: error.status, tried: seen.length }, want);
    assert.equal(error.problem, undefined);
    assert.ok(!error.message.includes('secret'));
  });
}

test('a call has a time limit, and ends with the signal of its caller', async (t) => {
  const { client, seen } = await world(t, { timeoutMs: 20, retries: 0 }, 'hang');
  assert.equal((await failure(client.call('session'))).code, 'TIMEOUT');
  const stop = new AbortController();
  const call = client.call('session', { signal: stop.signal, timeoutMs: 600_000 });
  stop.abort(new Error('the page was left'));
  await assert.rejects(call, /the page was left/);
  await assert.rejects(client.call('session', { signal: stop.signal }), /the page was left/);
  assert.ok(seen.length <= 2);
});

test('what counts twice when it is sent twice is sent once', async (t) => {
  const { client, seen } = await world(t, {}, 'drop');
  const view = { sessionPath: '/' } as unknown as Parameters<typeof client.call<'recordPageView'>>[1]['body'];
  assert.equal((await failure(client.call('recordPageView', { body: view }))).code, 'NETWORK');
  assert.equal(seen.length, 1);
});

test('a wait that is too long is left to the caller', async (t) => {
  const { client, seen, waits } = await world(t, {}, refusal('MELMASTOON.BFF.CONSUMER.RATE_LIMITED', 429, { retriable: true, retryAfter: 60 }));
  assert.equal((await failure(client.call('session'))).retryAfterMs, 60_000);
  assert.deepEqual([seen.length, waits.length], [1, 0]);
});

const hopeless = refusal('MELMASTOON.BFF.CONSUMER.SUSPECTED_BOT', 429, { retryAfter: 30 });
const bot = { ...hopeless, headers: { ...hopeless.headers, Link: `<${base}/challenge>; rel="challenge"` } };
const salt = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ?expires=1776935662&level=0&';
const challenge = { algorithm: 'SHA-256', challenge: createHash('sha256').update(`${salt}421`).digest('hex'), maxnumber: 1000, salt, signature: 'ab'.repeat(32) };

test('a call that counts as a bot is not repeated without a solution', async (t) => {
  const { client, seen } = await world(t, {}, bot);
  const error = await failure(client.call('session'));
  assert.equal(error.retryAfterMs, undefined);
  assert.equal(seen.length, 1);
});

test('a refusal without a challenge is final', async (t) => {
  const { client, seen } = await world(t, { solver: solve }, hopeless);
  assert.equal((await failure(client.call('session'))).code, 'MELMASTOON.BFF.CONSUMER.SUSPECTED_BOT');
  assert.equal(seen.length, 1);
});

test('a challenge is solved and the call repeated once, with the same key', async (t) => {
  const { client, seen } = await world(t, { solver: solve }, bot, { status: 200, body: challenge }, { status: 204 });
  await client.call('removeFromWishlist', { path });
  assert.deepEqual(seen.map((s) => `${s.method} ${s.url?.replace(base, '')}`), [`DELETE /wishlist/${path.propertyId}`, 'GET /challenge', `DELETE /wishlist/${path.propertyId}`]);
  assert.equal(seen[0]?.headers['idempotency-key'], seen[2]?.headers['idempotency-key']);
  assert.equal((JSON.parse(atob(seen[2]?.headers['x-challenge'] as string)) as { number: number }).number, 421);
});

test('a solution that does not help is the last', async (t) => {
  const { client, seen } = await world(t, { solver: solve }, bot, { status: 200, body: challenge }, bot);
  assert.equal((await failure(client.call('session'))).code, 'MELMASTOON.BFF.CONSUMER.SUSPECTED_BOT');
  assert.equal(seen.length, 3);
});

test('calls that are refused together solve one challenge', async (t) => {
  let trusted = false;
  let challenges = 0;
  const { client } = await world(t, { solver: solve }, (asked) => {
    if (asked.url?.endsWith('/challenge')) return { status: 200, body: (challenges++, challenge) };
    trusted ||= asked.headers['x-challenge'] !== undefined;
    return trusted ? good : bot;
  });
  await Promise.all([client.call('session'), client.call('wishlist'), client.call('search', { body })]);
  assert.equal(challenges, 1);
});

test('pages of a search follow one another, as far as they are asked for', async (t) => {
  const result = (seen: Seen): { status: number; headers: Record<string, string>; body: unknown } => {
    const { page } = JSON.parse(seen.body) as { page: { limit: number; offset: number } };
    return { status: 200, headers: { 'X-Search-Session': 'ses_1' }, body: { results: [page.offset], page: { ...page, total: 45 }, degraded: [], stale: false } };
  };
  const { client, seen } = await world(t, {}, result);
  const offsets: unknown[] = [];
  for await (const page of searchPages(client, { body })) offsets.push(...page.results);
  assert.deepEqual(offsets, [0, 20, 40]);
  assert.deepEqual(seen.map((s) => s.headers['x-search-session']), [undefined, 'ses_1', 'ses_1']);
  for await (const page of searchPages(client, { body: { ...body, page: { limit: 10, offset: 30 } } })) {
    assert.deepEqual(page.results, [30]);
    break;
  }
  assert.equal(seen.length, 4);
});

test('a jar keeps the cookies of one guest', async (t) => {
  const cookies = ['gms_id=1; Path=/; HttpOnly; Secure; Max-Age=60', '__Host-gms_card=a=b; Path=/; Secure; HttpOnly', 'other=1; Domain=evil.example', 'gone=1; Max-Age=0'];
  const jar = new CookieJar();
  const { client, seen } = await world(t, { fetch: jar.fetch }, { ...good, headers: { 'Set-Cookie': cookies } }, good);
  await client.call('session');
  await client.call('session');
  assert.deepEqual(seen.map((s) => s.headers.cookie), [undefined, 'gms_id=1; __Host-gms_card=a=b']);
  assert.deepEqual(jar.received, [...cookies.slice(0, 2), cookies[3]]);
});

test('a jar knows where cookies go, and until when', () => {
  let now = Date.parse('2027-05-12T00:00:00Z');
  const jar = new CookieJar(() => now);
  const set = (url: string, line: string): void => jar.take(url, new Headers({ 'Set-Cookie': line }));
  set('https://www.example.com/a/b', 'wide=1; Domain=.example.com; Path=/');
  set('https://www.example.com/a/b', 'deep=1; Max-Age=60');
  set('https://www.example.com/a/b', 'secure=1; Path=/; Secure');
  set('http://www.example.com/', '__Host-plain=1; Path=/; Secure');
  set('https://www.example.com/', 'old=1; Expires=Wed, 12 May 2027 00:00:30 GMT');
  assert.equal(jar.header('https://www.example.com/a/c'), 'deep=1; wide=1; secure=1; old=1');
  assert.equal(jar.header('http://www.example.com/'), 'wide=1; old=1');
  assert.equal(jar.header('https://api.example.com/a/c'), 'wide=1');
  assert.equal(jar.header('https://evilexample.com/'), '');
  now += 61_000;
  assert.equal(jar.header('https://www.example.com/a/c'), 'wide=1; secure=1');
  const inside = CookieJar.of('__Host-gms_card=1', 'http://bff.internal:8081/bff');
  inside.take('http://bff.internal:8081/bff/consumer', new Headers({ 'Set-Cookie': 'gms_id=2; Path=/; Secure' }));
  assert.equal(inside.header('http://bff.internal:8081/bff/consumer'), '__Host-gms_card=1; gms_id=2');
  assert.equal(CookieJar.of('gms_id=1; theme=dark', 'http://localhost:8081/bff').header('http://localhost:8081/bff/consumer'), 'gms_id=1; theme=dark');
});
