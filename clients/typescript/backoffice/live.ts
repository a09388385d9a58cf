// The client against real instances of the staff service. Run within the platform:
//   melmastoon up -- node --test dist/backoffice/live.js
// with the service's program in BFF_BACKOFFICE_PROGRAM; `make test-typescript` does it.
import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { createServer, type AddressInfo } from 'node:net';
import { test, type TestContext } from 'node:test';

import { BackofficeClient, channels, type StreamEvent } from './index.js';

const platform = setting('MELMASTOON_BACKOFFICE_URL');
const sim = setting('MELMASTOON_SIM_URL');
const base = '/bff/backoffice/v1';

function setting(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set: run this within the platform`);
  return value;
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
  let target = second.url; // what a load balancer would choose
  const routed: typeof fetch = (input, init) => fetch(String(input).replace(platform, target), init);
  const desk = new BackofficeClient({ baseUrl: platform + base, iamUrl: `${sim}/iam`, appVersion: '1.0.0', appPlatform: 'linux', fetch: routed });
  await desk.signIn({ username: 'parwana' });
  const { data: session } = await desk.call('session');
  const property = session.propertyScope[0] as string;

  const events: StreamEvent[] = [];
  const gaps: (readonly string[])[] = [];
  let woken = (): void => undefined;
  const until = async (done: () => boolean): Promise<void> => {
    while (!done()) await new Promise<void>((resolve) => (woken = resolve));
  };
  const stop = new AbortController();
  const stream = desk.stream({
    onEvent: (event) => {
      events.push(event);
      woken();
    },
    onGap: (missed) => {
      gaps.push(missed);
      woken();
    },
  });
  const followed = stream.follow(stop.signal);
  const heard = (alert: string): boolean => events.some((e) => e.type === 'alert.raised' && e.data.alertId === alert);
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

test('the dashboard comes line by line, and says the same as the document', { timeout: 180_000 }, async () => {
  const desk = new BackofficeClient({ baseUrl: platform + base, iamUrl: `${sim}/iam`, appVersion: '1.0.0', appPlatform: 'linux' });
  await desk.signIn({ username: 'parwana' });
  const { data: session } = await desk.call('session');
  desk.propertyId = session.propertyScope[0];
  const kinds: string[] = [];
  const widgets = new Set<string>();
  for await (const line of desk.dashboardLines()) {
    if ('widgetId' in line) widgets.add(line.widgetId);
    else kinds.push('shell' in line ? 'shell' : 'end');
  }
  assert.deepEqual(kinds, ['shell', 'end']);
  const { data } = await desk.call('dashboard');
  assert.deepEqual([...widgets].sort(), data?.widgets.map((w) => w.widgetId).sort());
});
