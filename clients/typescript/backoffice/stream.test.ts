import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';

import { Parser, StaffStream, StreamRefused, channels, type StreamEvent, type StreamOptions, type Unsigned } from './index.js';

type Reply = (request: IncomingMessage, response: ServerResponse) => void;

interface World {
  readonly events: StreamEvent[];
  readonly gaps: (readonly string[])[];
  readonly waits: number[];
  readonly asked: string[]; // method, path and Last-Event-ID
  readonly signed: Unsigned[];
  polls: number;
  follow(options?: Partial<StreamOptions>, prepare?: (stream: StaffStream) => void): Promise<string>;
}

/** Serves one reply after the other to connections for the stream; reauth is answered 204. The last one supersedes. */
async function serve(t: TestContext, ...replies: Reply[]): Promise<World> {
  const world: World = {
    events: [],
    gaps: [],
    waits: [],
    asked: [],
    signed: [],
    polls: 0,
    follow: (options = {}, prepare) => {
      const stream = new StaffStream({
        baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}/bff/backoffice/v1/`,
        authorize: (unsigned) => {
          world.signed.push(unsigned);
          return Promise.resolve({ Authorization: 'DPoP t', DPoP: 'p', 'X-Device-Id': 'dev_1' });
        },
        onEvent: (event) => void world.events.push(event),
        onGap: (missed) => void world.gaps.push(missed),
        poll: () => Promise.resolve(void world.polls++),
        sleep: (ms) => Promise.resolve(void world.waits.push(ms)),
        ...options,
      });
      prepare?.(stream);
      return stream.follow(t.signal);
    },
  };
  const server = createServer((request, response) => {
    world.asked.push(`${request.method} ${request.url} ${request.headers['last-event-id'] ?? '-'}`);
    if (request.method === 'POST') {
      response.writeHead(204).end();
      return;
    }
    const reply = replies.shift();
    if (reply !== undefined) reply(request, response);
    else stream('event: superseded\ndata: {}\n\n')(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return world;
}

const stream =
  (...pieces: string[]): Reply =>
  (_, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    for (const piece of pieces) response.write(piece);
    response.end();
  };

const refuse =
  (status: number, headers: Record<string, string>, code: string): Reply =>
  (_, response) => {
    response.writeHead(status, { 'Content-Type': 'application/problem+json', ...headers });
    response.end(JSON.stringify({ error: { code: `MELMASTOON.BFF.BACKOFFICE.${code}` } }));
  };

const alert = (id: string, more = ''): string => `id: ${id}\nevent: alerts\ndata: {"type":"alert.raised","at":"2026-11-17T11:10:08.345Z"${more}}\n\n`;

test('messages are read however they are cut', () => {
  const text = ': hello\r\nid: 1-2\r\nevent: alerts\r\ndata: {"a":\r\ndata: 1}\r\n\r\nretry: 5\n\ndata\r\r';
  const want = [
    { id: '1-2', event: 'alerts', data: '{"a":\n1}' },
    { id: '', event: 'message', data: '', retry: 5 },
    { id: '', event: 'message', data: '' },
  ];
  for (let cut = 0; cut <= text.length; cut++) {
    const parser = new Parser();
    assert.deepEqual([...parser.push(text.slice(0, cut)), ...parser.push(text.slice(cut)), ...parser.push('\n')], want, `cut at ${cut}`);
  }
});

test('a stream is resumed after the last id, and a first one fetches everything', async (t) => {
  const w = await serve(t, stream('retry: 20\nid: 1-5\nevent: ready\ndata: {}\n\n', alert('1-6')), stream('id: 1-6\nevent: ready\ndata: {}\n\n', alert('1-7')));
  assert.equal(await w.follow(), 'superseded');
  assert.deepEqual(w.gaps, [channels]);
  assert.deepEqual(w.events.map((e) => `${e.channel} ${e.type} ${e.id}`), ['alerts alert.raised 1-6', 'alerts alert.raised 1-7']);
  assert.deepEqual(w.asked, ['GET /bff/backoffice/v1/sse/stream -', 'GET /bff/backoffice/v1/sse/stream 1-6', 'GET /bff/backoffice/v1/sse/stream 1-7']);
  assert.deepEqual(w.waits, [20, 20]);
  assert.equal(w.polls, 0);
});

test('gaps and heads beyond what was read name channels', async (t) => {
  const w = await serve(
    t,
    stream(
      'event: gap\ndata: {"channels":["ai"]}\n\n',
      'id: 1-9\nevent: ping\ndata: {"heads":{"ai":"1-6","locks":"1-9","sync":"2-1"}}\n\n',
      'id: 1-9\nevent: ping\ndata: {"heads":{"ai":"1-6","locks":"1-9"}}\n\n',
      'id: 1-9\nevent: ping\ndata: {}\n\n',
      'id: 1-10\nevent: locks\ndata: nonsense\n\n',
      'event: later\ndata: {}\n\n',
    ),
  );
  await w.follow({ lastEventId: '1-6' });
  assert.deepEqual(w.gaps, [['ai'], ['sync', 'locks'], ['locks']]);
  assert.deepEqual(w.events, []);
});

test("the app's own echo is dropped", async (t) => {
  const w = await serve(t, stream(alert('1-1', ',"causedBy":"req_01M7MK9ZTR35B5VXC99GJ5AM9A"'), alert('1-2', ',"causedBy":"req_01M7MK9ZTR35B5VXC99GJ5AM9B"')));
  await w.follow({ lastEventId: '1-0' }, (s) => s.sent('01M7MK9ZTR35B5VXC99GJ5AM9A'));
  assert.deepEqual(w.events.map((e) => e.id), ['1-2']);
});

test('the app is told how its stream stands', async (t) => {
  const states: string[] = [];
  const w = await serve(
    t,
    refuse(503, { 'Retry-After': '7' }, 'X'),
    stream('id: 1-5\nevent: ready\ndata: {}\n\n', 'id: 1-5\nevent: ping\ndata: {}\n\n', 'retry: 20\nevent: reauth\ndata: {}\n\n'),
  );
  await w.follow({ lastEventId: '1-4', onState: (state) => void states.push(state.phase === 'waiting' ? `waiting ${state.retryInMs}` : state.phase) });
  assert.deepEqual(states, ['connecting', 'waiting 7000', 'connecting', 'catching-up', 'live', 'live', 'proving', 'waiting 20', 'connecting', 'catching-up']);
});

test('a fresh proof is sent when the server asks for it', async (t) => {
  const w = await serve(t, (request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    response.write('event: reauth\ndata: {}\n\n');
    const ended = setInterval(() => {
      if (w.asked.length > 1) {
        clearInterval(ended);
        response.end();
      }
    }, 5);
    request.on('close', () => clearInterval(ended));
  });
  await w.follow({ lastEventId: '1-0' });
  assert.equal(w.asked[1], 'POST /bff/backoffice/v1/sse/reauth -');
  assert.deepEqual([w.signed[1]?.method, w.signed[1]?.refresh], ['POST', true]);
});

test('without a stream the app polls and comes again when it may', async (t) => {
  const w = await serve(t, refuse(503, { 'Retry-After': '7' }, 'X'), refuse(429, {}, 'RATE_LIMITED'), (request) => request.socket.destroy());
  assert.equal(await w.follow(), 'superseded');
  assert.deepEqual(w.waits, [7000, 1000, 2000]);
  assert.equal(w.polls, 3);
});

test('a silent stream is broken', async (t) => {
  const w = await serve(t, (_, response) => void response.writeHead(200, { 'Content-Type': 'text/event-stream' }).flushHeaders());
  assert.equal(await w.follow({ silence: 50 }), 'superseded');
  assert.ok(w.asked.length >= 2);
});

test('a wrong clock and an ended token are mended once, other refusals are thrown', async (t) => {
  const skew = { 'WWW-Authenticate': 'DPoP error="use_dpop_nonce"', 'DPoP-Nonce': 'n1' };
  const w = await serve(t, refuse(401, skew, 'DPOP_INVALID'), refuse(401, {}, 'TOKEN_EXPIRED'), refuse(401, {}, 'SESSION_REVOKED'));
  await assert.rejects(w.follow(), (error: unknown) => {
    assert.ok(error instanceof StreamRefused);
    assert.equal(error.code, 'MELMASTOON.BFF.BACKOFFICE.SESSION_REVOKED');
    return true;
  });
  assert.deepEqual(
    w.signed.map((s) => [s.nonce, s.refresh]),
    [
      [undefined, false],
      ['n1', false],
      ['n1', true],
    ],
  );
});
