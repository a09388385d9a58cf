// The stream client against real instances of the staff service. Run within the platform:
//   melmastoon up -- node --test dist/backoffice/live.js
// with the service's program in BFF_BACKOFFICE_PROGRAM; `make test-typescript` does it.
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { createHash, randomUUID, webcrypto } from 'node:crypto';
import { createServer, type AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';

import { StaffStream, channels, type StreamEvent } from './index.js';

const platform = setting('MELMASTOON_BACKOFFICE_URL');
const sim = setting('MELMASTOON_SIM_URL');
const base = '/bff/backoffice/v1';

function setting(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set: run this within the platform`);
  return value;
}

/** A device with a key of its own, and an operator who has signed in. */
class Desk {
  readonly #keys: webcrypto.CryptoKeyPair;
  readonly #jwk: Record<string, string | undefined>;
  readonly id = 'dev_' + ulid();
  #token = '';

  private constructor(keys: webcrypto.CryptoKeyPair, jwk: webcrypto.JsonWebKey) {
    this.#keys = keys;
    this.#jwk = { kty: jwk.kty, crv: jwk.crv, x: jwk.x, y: jwk.y };
  }

  static async open(username: string): Promise<Desk> {
    const keys = (await webcrypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign', 'verify'])) as webcrypto.CryptoKeyPair;
    const desk = new Desk(keys, await webcrypto.subtle.exportKey('jwk', keys.publicKey));
    const url = `${sim}/iam/api/v1/auth/sign-in`;
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', DPoP: await desk.#prove('POST', url) },
      body: JSON.stringify({ username, deviceId: desk.id }),
    });
    assert.equal(response.status, 200, await response.clone().text());
    desk.#token = ((await response.json()) as { accessToken: string }).accessToken;
    return desk;
  }

  /** The headers of a request, with a fresh proof. */
  async authorize(method: string, url: string): Promise<Record<string, string>> {
    return { Authorization: `DPoP ${this.#token}`, DPoP: await this.#prove(method, url, this.#token), 'X-Device-Id': this.id };
  }

  async #prove(method: string, url: string, token?: string): Promise<string> {
    const claims: Record<string, unknown> = { htm: method, htu: url, iat: Math.floor(Date.now() / 1_000), jti: randomUUID() };
    if (token !== undefined) claims['ath'] = createHash('sha256').update(token).digest('base64url');
    const signed = `${encode({ typ: 'dpop+jwt', alg: 'ES256', jwk: this.#jwk })}.${encode(claims)}`;
    const signature = await webcrypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, this.#keys.privateKey, Buffer.from(signed));
    return `${signed}.${Buffer.from(signature).toString('base64url')}`;
  }
}

function encode(part: unknown): string {
  return Buffer.from(JSON.stringify(part)).toString('base64url');
}

function ulid(): string {
  const letters = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
  let time = Date.now();
  let head = '';
  for (let i = 0; i < 10; i++, time = Math.floor(time / 32)) head = letters[time % 32] + head;
  return head + Array.from(webcrypto.getRandomValues(new Uint8Array(16)), (b) => letters[b % 32]).join('');
}

/** Starts one more instance and returns its URL once it is ready. */
async function instance(t: TestContext): Promise<{ url: string; process: ChildProcess }> {
  const [listen, internal, admin] = await Promise.all([address(), address(), address()]);
  const child = spawn(setting('BFF_BACKOFFICE_PROGRAM'), ['serve'], {
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, BFF_BACKOFFICE_LISTEN: listen, BFF_BACKOFFICE_INTERNAL_LISTEN: internal, BFF_BACKOFFICE_ADMIN_LISTEN: admin },
  });
  t.after(() => child.kill('SIGKILL'));
  for (;;) {
    const ready = await fetch(`http://${admin}/ready`).then((r) => r.ok, () => false);
    if (ready) return { url: `http://${listen}`, process: child };
    assert.equal(child.exitCode, null, 'the instance has ended');
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** An address that is free. */
function address(): Promise<string> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(`127.0.0.1:${port}`));
    });
  });
}

async function raise(propertyId: string): Promise<string> {
  const response = await fetch(`${sim}/_sim/alerts`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ propertyId }) });
  assert.ok(response.ok, await response.clone().text());
  return ((await response.json()) as { alertId: string }).alertId;
}

test('an instance is killed, and the stream goes on at the other with nothing missed', { timeout: 180_000 }, async (t) => {
  const second = await instance(t);
  const desk = await Desk.open('parwana');
  let target = second.url; // what a load balancer would choose
  const routed: typeof fetch = (input, init) => fetch(String(input).replace(platform, target), init);

  const sessionUrl = `${platform}${base}/session`;
  const session = (await (await routed(sessionUrl, { headers: await desk.authorize('GET', sessionUrl) })).json()) as { propertyScope: string[] };
  const property = session.propertyScope[0] as string;

  const events: StreamEvent[] = [];
  const gaps: (readonly string[])[] = [];
  let woken = (): void => undefined;
  const until = async (done: () => boolean): Promise<void> => {
    while (!done()) await new Promise<void>((resolve) => (woken = resolve));
  };
  const stop = new AbortController();
  const stream = new StaffStream({
    baseUrl: platform + base,
    authorize: ({ method, url }) => desk.authorize(method, url),
    onEvent: (event) => {
      events.push(event);
      woken();
    },
    onGap: (missed) => {
      gaps.push(missed);
      woken();
    },
    fetch: routed,
  });
  const followed = stream.follow(stop.signal);
  const heard = (alert: string): boolean => events.some((e) => e.channel === 'alerts' && JSON.stringify(e.data).includes(alert));
  await until(() => gaps.length > 0); // ready: a fresh app fetches everything
  const first = await raise(property);
  await until(() => heard(first));

  const exited = new Promise((resolve) => second.process.once('exit', resolve));
  second.process.kill('SIGKILL');
  await exited;
  target = platform;
  const missed = [await raise(property), await raise(property)];
  await until(() => missed.every(heard));
  assert.deepEqual(gaps, [channels]);
  const ids = events.map((e) => e.id);
  assert.deepEqual(ids, [...new Set(ids)], 'an event came twice');

  stop.abort();
  assert.equal(await followed, 'aborted');
});
