import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';

import { solve, type Challenge, type SolverWorker } from './index.js';
import { searcher } from './search.js';

const salt = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ?expires=1776935662&level=2&';
const hash = (text: string): string => createHash('sha256').update(text).digest('hex');
const make = (number: number, maxnumber: number): Challenge =>
  ({ algorithm: 'SHA-256', challenge: hash(salt + number), maxnumber, salt, signature: 'ab'.repeat(32) }) as Challenge;
const read = (payload: string): Record<string, unknown> => JSON.parse(atob(payload)) as Record<string, unknown>;

for (const number of [0, 1, 255, 256, 1000, 4321]) {
  test(`finds ${number}`, async () => {
    const challenge = make(number, 5000);
    const { took, ...solved } = read(await solve(challenge));
    const { maxnumber, ...rest } = challenge;
    assert.equal(maxnumber, 5000);
    assert.deepEqual(solved, { ...rest, number });
    assert.ok(Number.isInteger(took) && (took as number) >= 0);
  });
}

test('hashes as SHA-256 does, whatever the length of the salt', () => {
  for (let length = 0; length < 140; length++) {
    const text = 'é'.repeat(length % 7) + 's'.repeat(length);
    assert.equal(searcher({ challenge: hash(`${text}123`), salt: text })(120, 125), 123, `salt of ${length}`);
  }
});

test('gives up after maxnumber', () => assert.rejects(solve(make(1001, 1000)), /no number/));

test('reports progress', async () => {
  const shares: number[] = [];
  await solve(make(4500, 5000), { onProgress: (share) => shares.push(share) });
  assert.deepEqual(shares, [...shares].sort((a, b) => a - b));
  assert.ok(shares.length > 0 && shares.at(-1)! < 1);
});

test('can be stopped, before it begins and while it works', async () => {
  const stop = new AbortController();
  const running = solve(make(5001, 5000), { signal: stop.signal, onProgress: () => stop.abort() });
  await assert.rejects(running, { name: 'AbortError' });
  await assert.rejects(solve(make(1, 1000), { signal: stop.signal }), { name: 'AbortError' });
});

/** A worker of Node in the clothes of a browser's, which runs the packed program. */
function worker(program: string): SolverWorker {
  const running = new Worker(program, { eval: true });
  return {
    postMessage: (task) => running.postMessage(task),
    terminate: () => running.terminate(),
    addEventListener: (type: string, listener: (event: { data: unknown }) => void) => {
      running.on(type, (data: unknown) => listener({ data }));
    },
  };
}

test('solves in a worker', async () => {
  const shares: number[] = [];
  const program = `const { parentPort } = require('node:worker_threads');
    globalThis.postMessage = (told) => parentPort.postMessage(told);
    import(${JSON.stringify(new URL('worker.js', import.meta.url).href)}).then(() => parentPort.on('message', (data) => globalThis.onmessage({ data })));`;
  const { number } = read(await solve(make(45_000, 50_000), { worker: () => worker(program), onProgress: (share) => shares.push(share) }));
  assert.equal(number, 45_000);
  assert.deepEqual(shares, [20_000 / 50_001, 40_000 / 50_001]);
});

for (const [name, broken] of Object.entries({
  'does not start': () => {
    throw new Error('blocked by the policy of the page');
  },
  'fails': () => worker('throw new Error("not this text")'),
})) {
  test(`solves by itself where a worker ${name}`, async () => {
    assert.equal(read(await solve(make(700, 1000), { worker: broken })).number, 700);
  });
}

for (const [name, change] of Object.entries({
  algorithm: { algorithm: 'SHA-1' },
  'negative maxnumber': { maxnumber: -1 },
  'endless maxnumber': { maxnumber: 1e12 },
  challenge: { challenge: 'nonsense' },
})) {
  test(`refuses a bad ${name}`, () => assert.rejects(solve({ ...make(1, 10), ...change } as Challenge)));
}
