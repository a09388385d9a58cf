import assert from 'node:assert/strict';
import { createHash, webcrypto } from 'node:crypto';
import { test, type TestContext } from 'node:test';

import { refusal, serve, type Reply, type Seen } from '../testing/server.js';
import { BackofficeClient, ProblemError, SignedOut, memoryStore, type BackofficeOptions, type Store } from './index.js';

const base = '/bff/backoffice/v1';
const reservation = { reservationId: 'rsv_01M7MK9ZTR35B5VXC99GJ5AM9A' };

interface World {
  readonly client: BackofficeClient;
  readonly store: Store;
  readonly seen: Seen[];
  readonly url: string;
  /** One more window of the app. */
  window(): BackofficeClient;
  /** The requests below the base, without those to iam. */
  asked(): string[];
}

type Answering = (asked: Seen, path: string) => Reply | undefined;

/** Serves iam and the staff service: tokens are numbered, and the answer to all else is the given one, or an empty object. */
async function world(t: TestContext, answer: Answering = () => undefined, options: Partial<BackofficeOptions> = {}): Promise<World> {
  let issued = 0;
  const { url, seen } = await serve(t, (asked) => {
    const path = asked.url?.replace(base, '') ?? '';
    const own = answer(asked, path);
    if (own !== undefined) return own;
    const tokens = path.endsWith('/auth/sign-in') || path === '/auth/refresh';
    return { status: 200, body: tokens ? { accessToken: `a${++issued}`, refreshToken: `r${issued}`, expiresIn: 900 } : {} };
  });
  const store = memoryStore();
  const sleep = (): Promise<void> => Promise.resolve();
  const open = (): BackofficeClient => new BackofficeClient({ baseUrl: url + base, iamUrl: `${url}/iam`, store, appVersion: '2.4.0', appPlatform: 'linux', sleep, ...options });
  const asked = (): string[] => seen.filter((s) => !s.url?.startsWith('/iam')).map((s) => `${s.method} ${s.url?.replace(base, '')} ${s.headers.authorization ?? '-'}`);
  return { client: open(), store, seen, url, window: open, asked };
}

const expired = (): Reply => refusal('MELMASTOON.BFF.BACKOFFICE.TOKEN_EXPIRED', 401);

interface Claims {
  readonly htm: string;
  readonly htu: string;
  readonly iat: number;
  readonly jti: string;
  readonly ath?: string;
  readonly nonce?: string;
}

/** The claims of a proof, after its signature was verified. */
async function claims(seen: Seen | undefined): Promise<Claims> {
  const proof = seen?.headers['dpop'] as string;
  const [header = '', payload = '', signature = ''] = proof.split('.');
  const { typ, alg, jwk } = JSON.parse(Buffer.from(header, 'base64url').toString()) as { typ: string; alg: string; jwk: webcrypto.JsonWebKey };
  assert.deepEqual([typ, alg, Object.keys(jwk).sort()], ['dpop+jwt', 'ES256', ['crv', 'kty', 'x', 'y']]);
  const key = await webcrypto.subtle.importKey('jwk', jwk, { name: 'ECDSA', namedCurve: 'P-256' }, true, ['verify']);
  const valid = await webcrypto.subtle.verify({ name: 'ECDSA', hash: 'SHA-256' }, key, Buffer.from(signature, 'base64url'), Buffer.from(`${header}.${payload}`));
  assert.ok(valid, 'the signature is wrong');
  return JSON.parse(Buffer.from(payload, 'base64url').toString()) as Claims;
}

test('an operator signs in, and every request has a proof of its own', async (t) => {
  const { client, store, seen, url } = await world(t);
  await assert.rejects(client.call('session'), SignedOut);
  await client.signIn({ username: 'parwana' });
  await client.call('dashboard', { query: { propertyId: 'ppt_1' } });
  await client.call('session');
  const id = await client.deviceId();
  assert.match(id, /^dev_[0-7][0-9A-HJKMNP-TV-Z]{25}$/);
  assert.deepEqual(JSON.parse(seen[0]?.body ?? ''), { username: 'parwana', deviceId: id });
  assert.deepEqual(
    seen.map((s) => [s.headers.authorization, s.headers['x-device-id'], s.headers['x-app-version'], s.headers['x-app-platform']]),
    [undefined, 'DPoP a1', 'DPoP a1'].map((token) => [token, id, '2.4.0', 'linux']),
  );
  const proofs = await Promise.all(seen.map(claims));
  const ath = createHash('sha256').update('a1').digest('base64url');
  assert.deepEqual(
    proofs.map(({ htm, htu, ath: hash }) => [htm, htu.replace(url, ''), hash]),
    [['POST', '/iam/api/v1/auth/sign-in', undefined], ['GET', `${base}/dashboard`, ath], ['GET', `${base}/session`, ath]],
  );
  assert.equal(new Set(proofs.map((p) => p.jti)).size, 3);
  const { privateKey } = (await store.load())?.keys as webcrypto.CryptoKeyPair;
  await assert.rejects(webcrypto.subtle.exportKey('jwk', privateKey), /not extractable/);
});

test('a wrong clock is mended with the nonce of the server, and the newest nonce is used', async (t) => {
  let wanted = 'n1';
  const { client, seen } = await world(t, (asked, path) => {
    if (path.startsWith('/iam')) return undefined;
    const { nonce } = JSON.parse(Buffer.from((asked.headers['dpop'] as string).split('.')[1] as string, 'base64url').toString()) as Claims;
    if (nonce === undefined) return refusal('MELMASTOON.BFF.BACKOFFICE.DPOP_INVALID', 401, {}, { 'DPoP-Nonce': wanted });
    wanted = 'n2';
    return { status: 200, headers: { 'DPoP-Nonce': 'n2' }, body: {} };
  });
  await client.signIn({ username: 'parwana' });
  await client.call('session');
  await client.call('session');
  const nonces = await Promise.all(seen.slice(1).map(async (s) => (await claims(s)).nonce));
  assert.deepEqual(nonces, [undefined, 'n1', 'n2']);
});

test('a change whose key is too old is not repeated, and says what is known of it', async (t) => {
  const known = { outcome: 'success' as const, at: '2026-09-30T19:02:00.000Z', operatorId: 'opt_1' };
  const { client, asked } = await world(t, (_, path) => (path.endsWith('/check-in') ? refusal('MELMASTOON.BFF.BACKOFFICE.IDEMPOTENCY_KEY_EXPIRED', 409, { known }) : undefined));
  await client.signIn({ username: 'parwana' });
  const idempotencyKey = '01M7MK9ZTR35B5VXC99GJ5AM9A';
  const failed: unknown = await client.call('checkIn', { path: reservation, idempotencyKey }).catch((error: unknown) => error);
  assert.ok(failed instanceof ProblemError);
  assert.deepEqual([failed.code, failed.idempotencyKey, failed.retryAfterMs, failed.known], ['MELMASTOON.BFF.BACKOFFICE.IDEMPOTENCY_KEY_EXPIRED', idempotencyKey, undefined, known]);
  assert.equal(asked().length, 1);
});

test('a proof that is never good is refused after one more', async (t) => {
  const { client, asked } = await world(t, (_, path) => (path === '/session' ? refusal('MELMASTOON.BFF.BACKOFFICE.DPOP_INVALID', 401, {}, { 'DPoP-Nonce': 'n' }) : undefined));
  await client.signIn({ username: 'parwana' });
  await assert.rejects(client.call('session'), { code: 'MELMASTOON.BFF.BACKOFFICE.DPOP_INVALID' });
  assert.equal(asked().length, 2);
});

test('calls whose token has ended share one refresh', async (t) => {
  const { client, window, store, asked } = await world(t, (asked, path) => (path !== '/auth/refresh' && asked.headers.authorization === 'DPoP a1' ? expired() : undefined));
  await client.signIn({ username: 'parwana' });
  await Promise.all([client.call('session'), client.call('cursor'), window().call('listShortcuts')]);
  assert.equal(asked().filter((a) => a.startsWith('POST /auth/refresh')).length, 1);
  assert.deepEqual(asked().filter((a) => a.endsWith('DPoP a2')).length, 3);
  assert.equal((await store.load())?.signIn?.refreshToken, 'r2');
});

test('a refresh whose answer was lost is sent again with the same key', async (t) => {
  let lost = 0;
  const { client, seen } = await world(t, (asked, path) => {
    if (path === '/auth/refresh' && lost++ < 4) return { status: 502, headers: { 'Content-Type': 'text/html' }, body: 'bad gateway' };
    return asked.headers.authorization === 'DPoP a1' ? expired() : undefined;
  });
  await client.signIn({ username: 'parwana' });
  await assert.rejects(client.call('session', { retries: 0 }), { code: 'UNKNOWN', status: 502 });
  await client.call('session');
  const keys = seen.filter((s) => s.url === `${base}/auth/refresh`).map((s) => s.headers['x-idempotency-key']);
  assert.equal(keys.length, 5);
  assert.equal(new Set(keys).size, 1);
});

test('a refused refresh signs out, and the device keeps its key', async (t) => {
  const { client, store, asked } = await world(t, (_, path) => (path === '/auth/refresh' || path === '/session' ? expired() : undefined));
  await client.signIn({ username: 'parwana' });
  const id = await client.deviceId();
  await assert.rejects(client.call('session'), SignedOut);
  await assert.rejects(client.call('session'), SignedOut);
  assert.equal(await client.signedIn(), false);
  assert.equal(asked().length, 2);
  const saved = await store.load();
  assert.deepEqual([saved?.id, saved?.signIn], [id, undefined]);
  await client.signIn({ username: 'mirwais', tenantId: 'tnt_1' });
  await client.call('cursor');
});

test('signing out forgets the tokens, also after the session has ended and where the service is not reached', async (t) => {
  let gone = false;
  let reached = true;
  const { client, store } = await world(t, (_, path) =>
    path !== '/auth/sign-out' ? undefined : !reached ? { status: 502, body: 'bad gateway' } : gone ? refusal('MELMASTOON.BFF.BACKOFFICE.SESSION_REVOKED', 401) : { status: 204 });
  for (gone of [false, true]) {
    await client.signIn({ username: 'parwana' });
    await client.signOut();
    assert.equal(await client.signedIn(), false);
  }
  await client.signOut();
  reached = false;
  await client.signIn({ username: 'parwana' });
  await assert.rejects(client.signOut(), { status: 502 });
  assert.deepEqual([await client.signedIn(), (await store.load())?.signIn], [false, undefined]);
});

test('a change is repeated with its key, and one of unknown outcome is left to the app', async (t) => {
  const steps = [refusal('MELMASTOON.BFF.BACKOFFICE.IDEMPOTENCY_IN_FLIGHT', 409, { retriable: true, retryAfter: 1 }), refusal('MELMASTOON.BFF.BACKOFFICE.LOCK_OUTCOME_UNKNOWN', 504)];
  const { client, seen } = await world(t, (_, path) => (path.endsWith('/issue-key') ? steps.shift() : undefined), { propertyId: 'ppt_1' });
  await client.signIn({ username: 'parwana' });
  const error = await client.call('issueKey', { path: reservation }).then(
    () => assert.fail('the call succeeded'),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof ProblemError && error.code === 'MELMASTOON.BFF.BACKOFFICE.LOCK_OUTCOME_UNKNOWN');
  await client.call('issueKey', { path: reservation, ...(error.idempotencyKey === undefined ? {} : { idempotencyKey: error.idempotencyKey }) });
  const tries = seen.filter((s) => s.url?.endsWith('/issue-key'));
  assert.deepEqual(tries.map((s) => s.headers['x-idempotency-key']), Array(3).fill(error.idempotencyKey));
  assert.match(error.idempotencyKey ?? '', /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/);
  assert.deepEqual(tries.map((s) => s.headers['x-property-id']), Array(3).fill('ppt_1'));
  assert.equal(new Set(tries.map((s) => s.headers['dpop'])).size, 3);
  client.propertyId = '*'; // an owner's scope, which is no property
  await client.call('session');
  assert.equal(seen.at(-1)?.headers['x-property-id'], undefined);
});

test('a second factor is not tried twice', async (t) => {
  const { client, seen } = await world(t, (_, path) => (path.endsWith('/step-up') ? { status: 502 } : undefined));
  await client.signIn({ username: 'parwana' });
  await assert.rejects(client.call('stepUp', { body: { scope: 'folio.refund', code: '000000' } }), { code: 'UNKNOWN' });
  assert.equal(seen.length, 2);
});

test('pages of a list follow their cursors', async (t) => {
  const { client, seen } = await world(t, (asked, path) => {
    if (!path.startsWith('/alerts')) return undefined;
    return { status: 200, body: { items: [], total: 0, stale: false, degraded: [], ...(asked.url?.includes('cursor=b') ? {} : { nextCursor: asked.url?.includes('cursor=a') ? 'b' : 'a' }) } };
  });
  await client.signIn({ username: 'parwana' });
  let pages = 0;
  for await (const page of client.pages('listAlerts', { query: { limit: 2 } })) pages += page.items.length + 1;
  assert.equal(pages, 3);
  assert.deepEqual(seen.slice(1).map((s) => s.url?.replace(`${base}/alerts?`, '')), ['limit=2', 'limit=2&cursor=a', 'limit=2&cursor=b']);
});

test('proofs name the public URL', async (t) => {
  const { client, seen } = await world(t, undefined, { publicUrl: `https://staff.melmastoon.ghasi.io${base}/` });
  await client.signIn({ username: 'parwana' });
  await client.call('session');
  assert.equal((await claims(seen[1])).htu, `https://staff.melmastoon.ghasi.io${base}/session`);
});

test('a page may say paths of its own origin', async (t) => {
  const { url, seen } = await world(t);
  Object.defineProperty(globalThis, 'location', { value: { href: `${url}/desk?x` }, configurable: true });
  t.after(() => Reflect.deleteProperty(globalThis, 'location'));
  const client = new BackofficeClient({ baseUrl: base, iamUrl: '/iam', appVersion: '2.4.0', appPlatform: 'linux' });
  await client.signIn({ username: 'parwana' });
  await client.call('session');
  assert.deepEqual([(await claims(seen[0])).htu, (await claims(seen[1])).htu], [`${url}/iam/api/v1/auth/sign-in`, `${url}${base}/session`]);
});

test('a client knows its own changes by the stream, unless their answer was lost', async (t) => {
  let asked: string[] = [];
  const w = await world(
    t,
    ({ headers }, path) => {
      if (path === '/sse/stream') {
        const events = asked.map((id, i) => `id: 1-${i}\nevent: dashboard\ndata: {"type":"dashboard.changed","at":"2026-11-17T11:10:08.345Z","causedBy":"req_${id}","data":{"parts":[]}}\n\n`);
        return { status: 200, headers: { 'Content-Type': 'text/event-stream' }, body: `${events.join('')}event: superseded\ndata: {}\n\n` };
      }
      if (path.startsWith('/reservations/')) asked = [...asked, headers['x-request-id'] as string];
      return path.endsWith('check-out') ? refusal('MELMASTOON.BFF.BACKOFFICE.UPSTREAM_TIMEOUT', 504) : undefined;
    },
    { retries: 0 },
  );
  await w.client.signIn({ username: 'parwana' });
  await w.client.call('checkIn', { path: reservation });
  await assert.rejects(w.client.call('checkOut', { path: reservation }));
  const heard: (string | undefined)[] = [];
  const stream = w.client.stream({ onEvent: (event) => void heard.push(event.causedBy), onGap: () => undefined, lastEventId: '1-0' });
  assert.equal(await stream.follow(t.signal), 'superseded');
  assert.match(asked.join(), /^[0-7][0-9A-HJKMNP-TV-Z]{25},[0-7][0-9A-HJKMNP-TV-Z]{25}$/);
  assert.deepEqual(heard, [`req_${asked[1]}`]);
});
