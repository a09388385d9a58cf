import { createSecretKey, type KeyObject } from 'node:crypto';

import { KEY_ID } from './payload.js';

/** pending and retired keys neither sign nor verify; exactly one key is active. */
export type KeyState = 'pending' | 'active' | 'grace' | 'retired';

const STATES: ReadonlySet<string> = new Set(['pending', 'active', 'grace', 'retired']);
const MIN_SECRET = 32;
const MAX_SECRET = 256;
const MAX_KEYS = 32;
const MAX_FILE = 64 * 1024;
const RFC3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;

/**
 * The keys that may verify, by id. A KeyObject shows its secret neither to
 * console.log nor to JSON.stringify.
 */
export type Keyring = ReadonlyMap<string, KeyObject>;

/**
 * Reads the keyring file that both sides share. It throws on anything that is
 * not exactly such a file, and never quotes it: what stands in the wrong place
 * may be a secret.
 */
export function parseKeyring(file: string): Keyring {
  if (Buffer.byteLength(file) > MAX_FILE) throw new Error('keyring file: too large');
  const keys = entries(file);
  if (keys.length > MAX_KEYS) throw new Error(`keyring: more than ${MAX_KEYS} keys`);

  const ring = new Map<string, KeyObject>();
  const ids = new Set<string>();
  const secrets = new Set<string>();
  const activated = new Map<string, number>();
  const active: string[] = [];
  keys.forEach((entry, i) => {
    const bad = (what: string): Error => new Error(`keyring: key ${i + 1}: ${what}`);
    const { id, state, secret, activatedAt } = fields(entry, bad);
    if (!KEY_ID.test(id)) throw bad('id must be 1 to 32 of a-z, 0-9 and -');
    if (ids.has(id)) throw bad('id is used twice');
    ids.add(id);
    if ((state === 'pending') !== (activatedAt === undefined)) {
      throw bad('activatedAt must be set for every key that has been active, and for no other');
    }
    if (activatedAt !== undefined) activated.set(id, moment(activatedAt, bad));
    if (state === 'active') active.push(id);
    if (state === 'retired') return; // whatever secret is left of it is not even looked at

    const bytes = Buffer.from(secret, 'base64');
    if (bytes.toString('base64') !== secret) throw bad('secret is not base64');
    if (bytes.length < MIN_SECRET || bytes.length > MAX_SECRET) {
      throw bad(`secret must be ${MIN_SECRET} to ${MAX_SECRET} bytes`);
    }
    if (secrets.has(secret)) throw bad('secret is used twice');
    secrets.add(secret);
    if (state === 'active' || state === 'grace') ring.set(id, createSecretKey(bytes));
    bytes.fill(0);
  });
  const [only] = active;
  if (only === undefined || active.length > 1) {
    throw new Error(`keyring: ${active.length} active keys, want exactly 1`);
  }
  for (const [id, at] of activated) {
    if (id !== only && at >= (activated.get(only) ?? 0)) {
      throw new Error("keyring: activatedAt must be before the active key's");
    }
  }
  return ring;
}

function entries(file: string): readonly unknown[] {
  const shape = new Error('keyring file: want {"keys":[{"id","state","secret","activatedAt"}]}');
  let parsed: unknown;
  try {
    parsed = JSON.parse(file);
  } catch {
    throw shape; // without the cause: V8 quotes the text around an error
  }
  if (!isObject(parsed) || Object.keys(parsed).some((k) => k !== 'keys') || !Array.isArray(parsed['keys'])) {
    throw shape;
  }
  return parsed['keys'] as readonly unknown[];
}

interface Entry {
  readonly id: string;
  readonly state: KeyState;
  readonly secret: string;
  readonly activatedAt: string | undefined;
}

function fields(entry: unknown, bad: (what: string) => Error): Entry {
  if (!isObject(entry)) throw bad('want an object');
  const { id, state, secret = '', activatedAt, ...rest } = entry;
  if (Object.keys(rest).length > 0) throw bad('has an unknown field');
  if (typeof id !== 'string' || typeof secret !== 'string') throw bad('id and secret must be strings');
  if (typeof state !== 'string' || !STATES.has(state)) throw bad('state must be pending, active, grace or retired');
  if (activatedAt !== undefined && typeof activatedAt !== 'string') throw bad('activatedAt must be a string');
  return { id, state: state as KeyState, secret, activatedAt };
}

function moment(s: string, bad: (what: string) => Error): number {
  const ms = RFC3339.test(s) ? Date.parse(s) : NaN;
  if (Number.isNaN(ms)) throw bad('activatedAt must be an RFC 3339 moment');
  return ms;
}

function isObject(v: unknown): v is Record<string, unknown> {
  return typeof v === 'object' && v !== null && !Array.isArray(v);
}
