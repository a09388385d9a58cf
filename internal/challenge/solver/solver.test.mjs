// node --test internal/challenge/solver
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import test from 'node:test';
import { solve } from './solver.mjs';

const salt = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ?expires=1776935662&level=2&';
const hash = (number) => createHash('sha256').update(salt + number).digest('hex');
const make = (number, maxnumber) => ({
  algorithm: 'SHA-256', challenge: hash(number), maxnumber, salt, signature: 'ab'.repeat(32),
});
const read = (payload) => JSON.parse(atob(payload));

for (const number of [0, 1, 255, 256, 1000]) {
  test(`finds ${number}`, async () => {
    const challenge = make(number, 1000);
    const { took, ...solved } = read(await solve(challenge));
    const { maxnumber, ...rest } = challenge;
    assert.deepEqual(solved, { ...rest, number });
    assert.ok(Number.isInteger(took) && took >= 0);
  });
}

test('gives up after maxnumber', () => assert.rejects(solve(make(1001, 1000)), /no number/));

test('reports progress', async () => {
  const shares = [];
  await solve(make(700, 1000), { onProgress: (share) => shares.push(share) });
  assert.deepEqual(shares, [...shares].sort((a, b) => a - b));
  assert.ok(shares.length > 0 && shares.at(-1) < 1);
});

test('can be stopped', () => {
  const stop = new AbortController();
  stop.abort();
  return assert.rejects(solve(make(1, 1000), { signal: stop.signal }), { name: 'AbortError' });
});

for (const [name, change] of Object.entries({
  algorithm: { algorithm: 'SHA-1' },
  'negative maxnumber': { maxnumber: -1 },
  'endless maxnumber': { maxnumber: 1e12 },
  challenge: { challenge: 'nonsense' },
})) {
  test(`refuses a bad ${name}`, () => assert.rejects(solve({ ...make(1, 10), ...change })));
}
