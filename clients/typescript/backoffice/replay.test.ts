import assert from 'node:assert/strict';
import { test } from 'node:test';

import { charge, House, rsv, words } from '../testing/house.js';
import { refusal } from '../testing/server.js';
import { BackofficeClient, memoryStore, SignedOut, Unsent, type Store, type Verdict } from './index.js';

interface Sent {
  readonly url: string;
  readonly headers: Headers;
  readonly body: { readonly entries: readonly { readonly key: string; readonly path: string; readonly pressedAt: string; readonly body?: unknown }[] };
}

/** The service as a client meets it: the operator who signed in last is the one that there is, and of a replay so many lines come before it breaks off. */
class Wire {
  readonly sent: Sent[] = [];
  readonly house = new House();
  lines = 100;
  operator = 'opt_1';
  #tokens = 0;

  readonly fetch: typeof fetch = (input, init = {}) => {
    const url = String(input).replace('http://desk.test', '');
    const body = JSON.parse(String(init.body ?? 'null')) as Sent['body'];
    this.sent.push({ url, headers: new Headers(init.headers), body });
    return Promise.resolve(this.#answer(url, new Headers(init.headers), body));
  };

  #answer(url: string, headers: Headers, body: Sent['body']): Response {
    if (url.endsWith('/sign-in') || url.endsWith('/refresh')) return Response.json({ accessToken: `a${++this.#tokens}`, refreshToken: `r${this.#tokens}`, expiresIn: 900 });
    if (url.endsWith('/session')) return Response.json({ operatorId: this.operator, flags: { blackout_desk: true } });
    if (url.endsWith('/sign-out')) return new Response(null, { status: 204 });
    if (url.endsWith('/blackout')) {
      if (headers.get('If-None-Match') === 'W/"1"') return new Response(null, { status: 304, headers: { ETag: 'W/"1"' } });
      return Response.json(this.house.pack('ppt_1'), { headers: { ETag: 'W/"1"' } });
    }
    if (url.endsWith('/charges')) return Response.json({ entryId: 'ent_1' }, { status: 201 });
    if (!url.endsWith('/replay')) throw new Error(`no answer to ${url}`);
    const verdicts: Verdict[] = body.entries.slice(0, this.lines).map(({ key, path }) =>
      path.endsWith('/charges') ? { key, verdict: 'needs_second_factor', scope: 'folio.charge.large', resourceId: 'fol_1' } : this.house.carryOut(this.operator, { key, path, pressedAt: '' }),
    );
    const whole = [...verdicts, ...(this.lines >= body.entries.length ? [{ end: true }] : [])].map((line) => JSON.stringify(line) + '\n').join('');
    return new Response(whole, { headers: { 'Content-Type': 'application/x-ndjson' } });
  }

  client(store: Store): BackofficeClient {
    return new BackofficeClient({
      baseUrl: 'http://desk.test', iamUrl: 'http://desk.test', appVersion: '1.0.0', appPlatform: 'linux', store, fetch: this.fetch, sleep: () => Promise.resolve(), retries: 0,
    });
  }

  replays(): Sent[] {
    return this.sent.filter(({ url }) => url.endsWith('/replay'));
  }
}

test('an answer that breaks off is asked for again, with the same keys, and the pack with its tag', async () => {
  const wire = new Wire();
  const client = wire.client(memoryStore());
  await client.signIn({ username: 'parwana' });
  const desk = client.blackout({ propertyId: 'ppt_1' });
  await desk.refresh();
  await desk.refresh();
  assert.deepEqual(wire.sent.filter(({ url }) => url.endsWith('/blackout')).map(({ headers }) => [headers.get('If-None-Match'), headers.get('X-Property-Id')]), [[null, 'ppt_1'], ['W/"1"', 'ppt_1']]);
  await desk.press('checkIn', rsv(1));
  await desk.press('checkIn', rsv(2));
  await desk.press('charge', charge(1), { note: 'dinner' });
  wire.lines = 1;
  await desk.send();
  assert.deepEqual([words(desk.state), desk.state.line], [['done', 'unsent', 'unsent'], 'down']);
  wire.lines = 100;
  await desk.send();
  assert.deepEqual([words(desk.state), desk.state.unsent], [['done', 'done', 'needs_second_factor'], 1]);
  const [first, second] = wire.replays();
  assert.deepEqual(second?.body.entries, first?.body.entries.slice(1));
  assert.deepEqual(second?.body.entries[1], { key: desk.state.entries[2]?.key, path: '/folios/fol_1/charges', body: charge(1).body, pressedAt: first?.body.entries[2]?.pressedAt });
  assert.deepEqual([first?.url, first?.headers.get('Accept'), first?.headers.get('X-Property-Id')], [`/devices/${await client.deviceId()}/replay`, 'application/x-ndjson', 'ppt_1']);

  await desk.confirm(desk.state.entries[2]?.id ?? '', 'mfa_1');
  assert.deepEqual(wire.sent.at(-1)?.headers.get('X-Idempotency-Key'), desk.state.entries[2]?.key);
  assert.deepEqual([wire.sent.at(-1)?.headers.get('X-Mfa-Attestation'), wire.sent.at(-1)?.body, words(desk.state)], ['mfa_1', charge(1).body, ['done', 'done', 'done']]);
});

test('what one operator took down is not sent with the sign-in of another', async () => {
  const wire = new Wire();
  const store = memoryStore();
  const [one, two] = [wire.client(store), wire.client(store)];
  await one.signIn({ username: 'parwana' });
  const desk = one.blackout({ propertyId: 'ppt_1' });
  await desk.refresh();
  await desk.press('checkIn', rsv(1));
  await one.refresh();
  assert.equal((await store.load())?.signIn?.operatorId, 'opt_1'); // a refresh changes the tokens and not the operator
  wire.operator = 'opt_2';
  const service = wire.house;
  await two.signIn({ username: 'mirwais' }); // in another window
  await desk.send();
  await desk.refresh();
  await desk.send();
  assert.deepEqual([wire.replays().length, service.done.size, desk.state.operatorId, desk.state.entries, desk.state.others], [0, 0, 'opt_2', [], 1]);
  wire.operator = 'opt_1';
  await one.signIn({ username: 'parwana' });
  await desk.refresh();
  await desk.send();
  assert.deepEqual([words(desk.state), service.done.get('/reservations/rsv_1/check-in')?.by], [['done'], 'opt_1']);
});

test('signing out wipes the device, and asks first when something is unsent', async () => {
  const wire = new Wire();
  const store = memoryStore();
  const client = wire.client(store);
  await client.signIn({ username: 'parwana' });
  const desk = client.blackout({ propertyId: 'ppt_1' });
  await desk.refresh();
  await desk.press('checkIn', rsv(1));
  await assert.rejects(client.signOut(), (error) => error instanceof Unsent && error.count === 1);
  assert.equal(await client.signedIn(), true);
  await client.signOut({ dropUnsent: true });
  assert.deepEqual([...((await store.records?.read())?.keys() ?? [])], ['clock']);
  await assert.rejects(desk.press('checkIn', rsv(2)), { reason: 'signed_out' });
});

test('a sign-in that is refused takes the pack with it, and leaves what was taken down', async () => {
  const wire = new Wire();
  const store = memoryStore();
  let revoked = false;
  const client = new BackofficeClient({
    baseUrl: 'http://desk.test', iamUrl: 'http://desk.test', appVersion: '1.0.0', appPlatform: 'linux', store, retries: 0,
    fetch: (input, init) => {
      const { status, headers, body } = refusal('MELMASTOON.BFF.BACKOFFICE.TOKEN_EXPIRED', 401);
      return revoked ? Promise.resolve(Response.json(body, { status, headers: headers as Record<string, string> })) : wire.fetch(input, init);
    },
  });
  await client.signIn({ username: 'parwana' });
  const desk = client.blackout({ propertyId: 'ppt_1' });
  await desk.refresh();
  await desk.press('checkIn', rsv(1));
  revoked = true;
  await assert.rejects(client.call('today'), SignedOut);
  assert.deepEqual([...((await store.records?.read())?.keys() ?? [])].map((name) => name.split('/')[1] ?? name).sort(), ['clock', 'entry', 'key']);
  await desk.refresh();
  assert.deepEqual([desk.state.operatorId, desk.state.others, desk.state.pack], [undefined, 1, undefined]);
});
