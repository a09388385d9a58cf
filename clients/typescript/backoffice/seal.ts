import { ulid } from '../core/keys.js';
import { subtle } from './device.js';

/** A key as records keep it. */
export interface KeptKey {
  readonly id: string;
  /**
   * WebCrypto's, and not to be exported.
   * @internal
   */
  readonly key: CryptoKey;
}

/** A record on disk: what may be read without the key, and what may not. */
export interface Sealed<Clear = unknown> {
  readonly clear: Clear;
  readonly iv: Uint8Array<ArrayBuffer>;
  readonly data: ArrayBuffer;
}

/** Seals the records of one operator on one device. A record that was changed, renamed or carried to another device or operator does not open. */
export class Seal {
  readonly operatorId: string;
  readonly id: string;
  readonly #key: CryptoKey;
  readonly #deviceId: string;

  constructor(operatorId: string, deviceId: string, kept: KeptKey) {
    this.operatorId = operatorId;
    this.#deviceId = deviceId;
    this.id = kept.id;
    this.#key = kept.key;
  }

  static async newKey(): Promise<KeptKey> {
    return { id: ulid(), key: await subtle().generateKey({ name: 'AES-GCM', length: 256 }, false, ['encrypt', 'decrypt']) };
  }

  async shut<Clear>(name: string, clear: Clear, secret: unknown): Promise<Sealed<Clear>> {
    const iv = crypto.getRandomValues(new Uint8Array(12));
    return { clear, iv, data: await subtle().encrypt(this.#bound(name, clear, iv), this.#key, new TextEncoder().encode(JSON.stringify(secret))) };
  }

  /** What is in a record; undefined if it does not open. */
  async open<Secret>(name: string, { clear, iv, data }: Sealed): Promise<Secret | undefined> {
    try {
      return JSON.parse(new TextDecoder().decode(await subtle().decrypt(this.#bound(name, clear, iv), this.#key, data))) as Secret;
    } catch {
      return undefined;
    }
  }

  /** A name tells operator, kind and property. */
  #bound(name: string, clear: unknown, iv: Uint8Array<ArrayBuffer>): AesGcmParams {
    return { name: 'AES-GCM', iv, additionalData: new TextEncoder().encode(JSON.stringify([this.#deviceId, name, clear])) };
  }
}
