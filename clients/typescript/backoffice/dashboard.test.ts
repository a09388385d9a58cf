import assert from 'node:assert/strict';
import { test } from 'node:test';

import { BackofficeClient, ProblemError, type DashboardLine } from './index.js';

const shell = '{"shell":true,"propertyId":"ppt_1","widgets":[]}\n';
const widget = '{"widgetId":"notes","status":"ok","data":{"text":"یادداشت کابل 🏨"},"asOf":"2026-11-17T11:10:08.345Z"}\n';
const end = '{"end":true,"partial":false}\n';
const media = 'application/x-ndjson';

interface Served {
  /** What the service was asked with. */
  readonly init: RequestInit;
  readonly write: (bytes: Uint8Array) => void;
  readonly close: () => void;
  cancelled: boolean;
}

/** A client whose dashboards the test writes itself. */
async function desk(serve: (served: Served, attempt: number) => Response | void, timeoutMs = 60_000): Promise<{ client: BackofficeClient; served: Served[] }> {
  const served: Served[] = [];
  const fetch: typeof globalThis.fetch = (input, init = {}) => {
    if (!String(input).includes('/dashboard')) return Promise.resolve(Response.json({ accessToken: 'a', refreshToken: 'r', expiresIn: 900 }));
    let out!: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({ start: (controller) => void (out = controller), cancel: () => void (one.cancelled = true) });
    const one: Served = { init, write: (bytes) => out.enqueue(bytes), close: () => out.close(), cancelled: false };
    // As fetch does: an ended signal breaks the body off.
    init.signal?.addEventListener('abort', () => {
      one.cancelled = true;
      try {
        out.error(new DOMException('ended', 'AbortError'));
      } catch {
        // It was closed.
      }
    });
    served.push(one);
    return Promise.resolve(serve(one, served.length) ?? new Response(body, { headers: { 'Content-Type': media } }));
  };
  const client = new BackofficeClient({
    baseUrl: 'http://desk.test/bff/backoffice/v1', iamUrl: 'http://iam.test', appVersion: '1.0.0', appPlatform: 'linux', fetch, timeoutMs, sleep: () => Promise.resolve(),
  });
  await client.signIn({ username: 'parwana' });
  return { client, served };
}

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

async function all(lines: AsyncIterable<DashboardLine>): Promise<DashboardLine[]> {
  const out: DashboardLine[] = [];
  for await (const line of lines) out.push(line);
  return out;
}

test('lines are whole however they are cut, also within a character', async () => {
  const { client, served } = await desk((one) => {
    for (const byte of bytes(shell + widget + end)) one.write(Uint8Array.of(byte));
    one.close();
  });
  const expected = [shell, widget, end].map((line) => JSON.parse(line) as unknown);
  assert.deepEqual(await all(client.dashboardLines({ query: { propertyId: 'ppt_1' } })), expected);
  const headers = new Headers(served[0]?.init.headers);
  assert.equal(headers.get('Accept'), media);
  assert.ok(headers.get('DPoP'));

  const whole = await desk((one) => {
    one.write(bytes(shell + widget + end.trimEnd())); // the last break is missing
    one.close();
  });
  assert.deepEqual(await all(whole.client.dashboardLines()), expected);
});

test('a line is there before the next one is made', async () => {
  const { client, served } = await desk((one) => one.write(bytes(shell)));
  const lines = client.dashboardLines();
  assert.ok('shell' in ((await lines.next()).value as DashboardLine));
  served[0]?.write(bytes(widget.slice(0, 30)));
  const next = lines.next();
  served[0]?.write(bytes(widget.slice(30) + end));
  assert.ok('widgetId' in ((await next).value as DashboardLine));
  assert.ok('end' in ((await lines.next()).value as DashboardLine));
  assert.equal((await lines.next()).done, true);
});

test('a loop that is left ends the request', async () => {
  const { client, served } = await desk((one) => one.write(bytes(shell + widget)));
  for await (const line of client.dashboardLines()) {
    assert.ok('shell' in line);
    break;
  }
  assert.equal(served[0]?.cancelled, true);
});

test('an ended signal ends the loop with its reason', async () => {
  const { client, served } = await desk((one) => one.write(bytes(shell)));
  const stop = new AbortController();
  const lines = client.dashboardLines({ signal: stop.signal });
  await lines.next();
  const next = lines.next();
  stop.abort(new Error('the page was left'));
  await assert.rejects(next, /the page was left/);
  assert.equal(served[0]?.cancelled, true);
  await assert.rejects(client.dashboardLines({ signal: stop.signal }).next(), /the page was left/);
});

test('an answer that breaks off or stands still is a failure, after the lines that came', async () => {
  const cut = await desk((one) => {
    one.write(bytes(shell + widget.slice(0, 40)));
    one.close();
  });
  const lines = cut.client.dashboardLines();
  assert.ok('shell' in ((await lines.next()).value as DashboardLine));
  await assert.rejects(lines.next(), { code: 'NETWORK' });
  assert.equal(cut.served.length, 1); // what has begun is not repeated

  const silent = await desk((one) => one.write(bytes(shell)), 20);
  await assert.rejects(all(silent.client.dashboardLines()), { code: 'TIMEOUT' });
});

test('what is refused is tried again until it begins, and what is not the service is told', async () => {
  const { client, served } = await desk((one, attempt) => {
    if (attempt === 1) return new Response('', { status: 503 });
    one.write(bytes(shell + end));
    one.close();
    return undefined;
  });
  assert.equal((await all(client.dashboardLines())).length, 2);
  assert.equal(served.length, 2);

  const page = await desk(() => new Response('<html>', { headers: { 'Content-Type': 'text/html' } }));
  await assert.rejects(all(page.client.dashboardLines()), (error) => error instanceof ProblemError && error.code === 'UNKNOWN' && error.status === 200);
});
