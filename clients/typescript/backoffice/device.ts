import { ulid } from '../core/keys.js';
import type { Store } from './store.js';

/** What a device signs for one request (RFC 9449 §4.2). */
export interface Proof {
  readonly method: string;
  /** The public URL of the request; its query is cut off. */
  readonly url: string;
  /** The access token; not at sign-in and refresh, which send none. */
  readonly token?: string | undefined;
  /** The server's, where it gave one. */
  readonly nonce?: string | undefined;
}

/** A hotel computer: its id, and a key that cannot be exported from it. */
export class Device {
  readonly id: string;
  readonly #key: CryptoKey;
  readonly #header: string;

  private constructor(id: string, key: CryptoKey, header: string) {
    this.id = id;
    this.#key = key;
    this.#header = header;
  }

  /** Opens the device that a store has, or makes one. */
  static async open(store: Store): Promise<Device> {
    const saved = await store.exclusive(async () => {
      const found = await store.load();
      if (found !== undefined) return found;
      const made = { id: `dev_${ulid()}`, keys: await subtle().generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, false, ['sign', 'verify']) };
      await store.save(made);
      return made;
    });
    const keys = saved.keys as CryptoKeyPair;
    const { kty, crv, x, y } = await subtle().exportKey('jwk', keys.publicKey);
    return new Device(saved.id, keys.privateKey, encode({ typ: 'dpop+jwt', alg: 'ES256', jwk: { kty, crv, x, y } }));
  }

  /** Signs a proof, to be sent as the header `DPoP`. */
  async prove({ method, url, token, nonce }: Proof): Promise<string> {
    const { origin, pathname } = new URL(url);
    const claims: Record<string, unknown> = { htm: method, htu: origin + pathname, iat: Math.floor(Date.now() / 1_000), jti: ulid() };
    if (token !== undefined) claims['ath'] = base64url(await subtle().digest('SHA-256', new TextEncoder().encode(token)));
    if (nonce !== undefined) claims['nonce'] = nonce;
    const signed = `${this.#header}.${encode(claims)}`;
    return `${signed}.${base64url(await subtle().sign({ name: 'ECDSA', hash: 'SHA-256' }, this.#key, new TextEncoder().encode(signed)))}`;
  }
}

/** @internal */
export function subtle(): SubtleCrypto {
  if (globalThis.crypto?.subtle === undefined) throw new Error('no WebCrypto: pages need https or localhost');
  return crypto.subtle;
}

function encode(part: unknown): string {
  return base64url(new TextEncoder().encode(JSON.stringify(part)));
}

function base64url(bytes: ArrayBuffer | Uint8Array): string {
  const text = Array.from(new Uint8Array(bytes), (byte) => String.fromCharCode(byte)).join('');
  return btoa(text).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '');
}
