import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { inspect } from 'node:util';

import {
  canonicalString,
  HandoffError,
  inspectHandoff,
  LIFETIME_MS,
  MAX_SKEW_MS,
  parseKeyring,
  verifyHandoff,
  type HandoffPayload,
} from './index.js';

interface Vector {
  readonly name: string;
  readonly now: string;
  readonly token: string;
  readonly payload?: HandoffPayload;
  readonly canonical?: string;
  readonly code?: string;
  readonly reason?: string;
}

interface KeyEntry {
  id: string;
  state: string;
  secret?: string;
  activatedAt?: string;
}

interface Vectors {
  readonly lifetimeSeconds: number;
  readonly maxSkewSeconds: number;
  readonly keyring: { readonly keys: readonly KeyEntry[] };
  readonly vectors: readonly Vector[];
}

// dist/handoff/handoff.test.js → the repository's contracts.
const file = new URL('../../../../contracts/handoff/vectors.json', import.meta.url);
const { lifetimeSeconds, maxSkewSeconds, keyring, vectors } = JSON.parse(readFileSync(file, 'utf8')) as Vectors;
const keys = parseKeyring(JSON.stringify(keyring));

const first = vectors[0];
assert(first?.payload, 'the first vector is an accepted one');
const { token } = first;
const now = new Date(first.now);

function refusal(token: string, at: Date = now): HandoffError | undefined {
  try {
    verifyHandoff(keys, token, at);
  } catch (err) {
    assert(err instanceof HandoffError, `threw ${inspect(err)}`);
    return err;
  }
  return undefined;
}

test('constants', () => {
  assert.equal(LIFETIME_MS, lifetimeSeconds * 1000);
  assert.equal(MAX_SKEW_MS, maxSkewSeconds * 1000);
});

test('vectors', async (t) => {
  assert(vectors.length > 60);
  for (const v of vectors) {
    await t.test(v.name, () => {
      const at = new Date(v.now);
      if (v.payload !== undefined) {
        const got = verifyHandoff(keys, v.token, at);
        assert.deepEqual(got, v.payload);
        assert.equal(canonicalString(got), v.canonical);
        assert.deepEqual(inspectHandoff(v.token), v.payload);
        return;
      }
      const err = refusal(v.token, at);
      assert.equal(err?.code, v.code);
      assert.equal(err?.reason, v.reason);
      assert.equal(err?.status, v.reason === 'expired' ? 410 : 401);
    });
  }
});

test('every changed byte is refused', () => {
  const raw = Buffer.from(token, 'base64url');
  for (let i = 0; i < raw.length; i++) {
    for (let bit = 0; bit < 8; bit++) {
      raw[i]! ^= 1 << bit;
      assert.equal(refusal(raw.toString('base64url'))?.status, 401, `byte ${i}, bit ${bit}`);
      raw[i]! ^= 1 << bit;
    }
  }
});

test('every changed character is refused', () => {
  for (let i = 0; i < token.length; i++) {
    for (let c = 0; c < 256; c++) {
      const forged = token.slice(0, i) + String.fromCharCode(c) + token.slice(i + 1);
      if (forged !== token) assert.equal(refusal(forged)?.status, 401, `character ${i} = ${c}`);
    }
  }
});

test('every truncation and extension is refused', () => {
  for (let i = 0; i < token.length; i++) {
    assert.equal(refusal(token.slice(0, i))?.reason, 'malformed');
    for (const c of ['A', '=', '\n', ' ', '\0', 'é', '\u{1F3E8}']) {
      assert.equal(refusal(token.slice(0, i) + c + token.slice(i))?.status, 401);
    }
  }
  assert.equal(refusal(token + token)?.reason, 'malformed');
});

test('what is not a token or not a time', () => {
  for (const v of [undefined, null, 7, {}, [token], Buffer.from(token)]) {
    assert.equal(refusal(v as unknown as string)?.reason, 'malformed');
  }
  assert.throws(() => verifyHandoff(keys, token, new Date(NaN)), TypeError);
});

test('refusals look alike to a client', () => {
  const messages = new Set(vectors.filter((v) => v.code && v.reason !== 'expired').map((v) => refusal(v.token, new Date(v.now))?.message));
  assert.equal(messages.size, 1);
});

test('an empty ring refuses everything', () => {
  assert.throws(() => verifyHandoff(new Map(), token, now), { reason: 'unknown-key' });
});

test('the ring keeps only keys that verify, and hides them', () => {
  const want = keyring.keys.filter((k) => k.state === 'active' || k.state === 'grace').map((k) => k.id);
  assert.deepEqual([...keys.keys()], want);
  const printed = inspect(keys, { depth: 9, showHidden: true }) + JSON.stringify([...keys]);
  for (const { secret } of keyring.keys) {
    if (secret === undefined) continue;
    const bytes = Buffer.from(secret, 'base64');
    for (const shape of [secret, bytes.toString('hex'), bytes.toString('latin1')]) assert(!printed.includes(shape));
  }
});

test('keyring files that are refused', async (t) => {
  const shy = Buffer.from('shy secret, shy secret, shy secret').toString('base64');
  const other = Buffer.from('another secret, another secret, 32').toString('base64');
  const at = '2026-04-01T00:00:00Z';
  const good: KeyEntry = { id: 'a', state: 'active', secret: shy, activatedAt: at };
  const ring = (...keys: readonly unknown[]): string => JSON.stringify({ keys });
  const cases: Record<string, [string, RegExp]> = {
    empty: ['', /want/],
    'not JSON': [shy, /want/],
    'another type': [JSON.stringify({ keys: shy }), /want/],
    'an unknown field': [ring({ ...good, [shy]: 1 }), /unknown field/],
    'an unknown field outside': [JSON.stringify({ keys: [good], [shy]: 1 }), /want/],
    'two documents': [ring(good) + ring(good), /want/],
    'too large': [' '.repeat(64 * 1024) + ring(good), /too large/],
    'no keys': [ring(), /0 active keys/],
    'no active key': [ring({ ...good, state: 'grace' }), /0 active keys/],
    'two active keys': [ring(good, { ...good, id: 'b', secret: other }), /2 active keys/],
    'too many keys': [ring(...Array.from({ length: 33 }, () => good)), /more than 32/],
    'an id twice': [ring(good, { ...good, secret: other }), /id is used twice/],
    'a secret twice': [ring(good, { id: 'b', state: 'pending', secret: shy }), /secret is used twice/],
    'a bad id': [ring({ ...good, id: 'A' }), /id must be/],
    'an id with a line': [ring({ ...good, id: 'a\n' }), /id must be/],
    'a bad state': [ring({ ...good, state: shy }), /state must be/],
    'bad base64': [ring({ ...good, secret: `${shy}!` }), /not base64/],
    'loose base64': [ring({ ...good, secret: shy.replace(/=+$/, '') }), /not base64/],
    'a short secret': [ring({ ...good, secret: 'AAAA' }), /secret must be 32/],
    'no secret': [ring({ id: 'a', state: 'active', activatedAt: at }), /secret must be 32/],
    'active since never': [ring({ id: 'a', state: 'active', secret: shy }), /activatedAt must be set/],
    'pending since': [ring(good, { ...good, id: 'b', state: 'pending', secret: other }), /activatedAt must be set/],
    'a bad moment': [ring({ ...good, activatedAt: shy }), /RFC 3339/],
    'grace after active': [ring(good, { ...good, id: 'b', state: 'grace', secret: other }), /before the active/],
  };
  parseKeyring(ring(good));
  parseKeyring(ring(good, { id: 'b', state: 'retired', secret: 'left over', activatedAt: '2026-01-01T00:00:00Z' }));
  for (const [name, [text, want]] of Object.entries(cases)) {
    await t.test(name, () => {
      assert.throws(
        () => parseKeyring(text),
        (err: unknown) => {
          assert(err instanceof Error);
          assert.match(err.message, want);
          assert(!inspect(err).includes(shy.slice(0, 10)), 'the error quotes the file');
          return true;
        },
      );
    });
  }
});
