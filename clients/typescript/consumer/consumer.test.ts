import assert from 'node:assert/strict';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';

import { ConsumerClient, ProblemError, type Problem } from './index.js';

interface Reply {
  readonly status: number;
  readonly type?: string;
  readonly body?: unknown;
}

interface Seen {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** Serves one reply for everything, and keeps what it was asked. */
async function serve(t: TestContext, reply: Reply): Promise<{ client: ConsumerClient; seen: Seen[] }> {
  const seen: Seen[] = [];
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8');
    request.on('data', (part: string) => (body += part));
    request.on('end', () => {
      seen.push({ method: request.method, url: request.url, headers: request.headers, body });
      response.writeHead(reply.status, reply.type === undefined ? {} : { 'Content-Type': reply.type });
      response.end(reply.body === undefined ? undefined : JSON.stringify(reply.body));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const { port } = server.address() as AddressInfo;
  return {
    client: new ConsumerClient({ baseUrl: `http://127.0.0.1:${port}/bff/consumer/v1/`, headers: { 'Accept-Language': 'fa-AF' } }),
    seen,
  };
}

test('a search is sent as the contract has it', async (t) => {
  const result = { results: [], page: { limit: 20, offset: 0, total: 0 }, degraded: [], stale: false };
  const { client, seen } = await serve(t, { status: 200, type: 'application/json', body: result });
  const body = {
    geo: { mode: 'city', city: 'Kabul' },
    dates: { checkIn: '2027-05-12', checkOut: '2027-05-15' },
    occupancy: { adults: 2, rooms: 1 },
  } as const;
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
  const { client, seen } = await serve(t, { status: 304 });
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
  const { client, seen } = await serve(t, { status: 204 });
  const path = { propertyId: 'ppt_01JXG9KMGRC638MD0V7C0ZPD0W' };
  await client.call('removeFromWishlist', { path });
  await client.call('removeFromWishlist', { path });
  await client.call('removeFromWishlist', { path, headers: { 'X-Idempotency-Key': 'mine' } });
  const keys = seen.map((s) => s.headers['idempotency-key']);
  assert.match(keys[0] as string, /^[0-9a-f-]{36}$/);
  assert.notEqual(keys[0], keys[1]);
  assert.equal(keys[2], undefined);
  assert.equal(seen[2]?.headers['x-idempotency-key'], 'mine');
});

test('a failure is thrown with its code', async (t) => {
  const code = 'MELMASTOON.BFF.CONSUMER.RATE_LIMITED';
  const error: Problem = {
    type: `https://docs.melmastoon.ghasi.io/errors/${code}`,
    code,
    title: 'Too many requests',
    status: 429,
    detail: 'Too many requests',
    instance: 'urn:melmastoon:request:req_01M7H171TE8TMMAWSY3VS0AZES',
    errors: [],
    traceId: '00-4454559ef1deb3d235cd2a59257725a0-e9be8fb0d658089d-00',
    requestId: 'req_01M7H171TE8TMMAWSY3VS0AZES',
    tenantId: null,
    retriable: true,
    retryAfter: 7,
    userMessageKey: 'error.bff.consumer.rate_limited',
    docUrl: `https://docs.melmastoon.ghasi.io/errors/${code}`,
    runbook: null,
  };
  const { client } = await serve(t, { status: 429, type: 'application/problem+json', body: { error } });
  await assert.rejects(client.call('session', {}), (thrown: unknown) => {
    assert.ok(thrown instanceof ProblemError);
    assert.equal(thrown.code, code);
    assert.equal(thrown.status, 429);
    assert.equal(thrown.retryAfterMs, 7000);
    return true;
  });
});

test("somebody else's failure is no problem document", async (t) => {
  const { client } = await serve(t, { status: 502, type: 'text/html', body: 'oops' });
  await assert.rejects(client.call('session', {}), /unexpected answer with status 502/);
});
