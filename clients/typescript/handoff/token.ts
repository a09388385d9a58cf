import { HandoffError } from './errors.js';
import {
  CURRENCIES,
  KEY_ID,
  LIFETIME_MS,
  LOCALES,
  MAX_ADULTS,
  MAX_CHILDREN,
  MAX_MINTED_MS,
  MAX_NIGHTS,
  MAX_ROOMS,
  type HandoffPayload,
} from './payload.js';

const VERSION = 1;
const MAC_BYTES = 32;
const MAX_TOKEN = 203; // with the longest locale and the longest key id
const DAY_MS = 24 * 60 * 60 * 1000;
const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

export interface Decoded {
  readonly payload: HandoffPayload;
  readonly mac: Buffer;
}

/**
 * Takes a token apart. It accepts exactly the strings that can be minted, each
 * payload and MAC in one spelling only, and throws a HandoffError otherwise.
 * Nothing may be decided on its answer before the MAC was checked.
 */
export function decode(token: string): Decoded {
  if (typeof token !== 'string' || token.length > MAX_TOKEN) throw new HandoffError('malformed');
  const raw = Buffer.from(token, 'base64url');
  // Buffer skips what it does not know and ignores unused bits; writing the
  // bytes again shows whether it had to.
  check(raw.toString('base64url') === token);

  const read = new Reader(raw);
  check(read.uint(1) === VERSION);
  const handoffId = `bhd_${ulid(read.take(16))}`;
  const guestSessionId = `gms_${ulid(read.take(16))}`;
  const tenantId = `tnt_${ulid(read.take(16))}`;
  const propertyId = `ppt_${ulid(read.take(16))}`;
  const checkIn = read.uint(2);
  const checkOut = read.uint(2);
  const adults = read.uint(1);
  const children = read.uint(1);
  const rooms = read.uint(1);
  const currency = read.take(3).toString('latin1');
  const locale = read.take(read.uint(1)).toString('latin1');
  const minted = read.uint(6);
  const hmacKeyId = read.take(read.uint(1)).toString('latin1');
  const mac = read.take(MAC_BYTES);
  check(read.done());

  const nights = checkOut - checkIn;
  check(nights >= 1 && nights <= MAX_NIGHTS);
  check(adults >= 1 && adults <= MAX_ADULTS && children <= MAX_CHILDREN && rooms >= 1 && rooms <= MAX_ROOMS);
  check(CURRENCIES.has(currency) && LOCALES.has(locale));
  check(minted <= MAX_MINTED_MS && KEY_ID.test(hmacKeyId));

  return {
    payload: {
      handoffId,
      guestSessionId,
      tenantId,
      propertyId,
      dates: { checkIn: day(checkIn), checkOut: day(checkOut) },
      occupancy: { adults, children, rooms },
      currency,
      locale,
      mintedAt: new Date(minted).toISOString(),
      expiresAt: new Date(minted + LIFETIME_MS).toISOString(),
      hmacKeyId,
    },
    mac,
  };
}

function check(ok: boolean): void {
  if (!ok) throw new HandoffError('malformed');
}

function day(days: number): string {
  return new Date(days * DAY_MS).toISOString().slice(0, 10);
}

/** The 26 characters of a ULID for its 128 bits. */
function ulid(bits: Buffer): string {
  let rest = (bits.readBigUInt64BE(0) << 64n) | bits.readBigUInt64BE(8);
  let text = '';
  for (let i = 0; i < 26; i++) {
    text = CROCKFORD.charAt(Number(rest & 31n)) + text;
    rest >>= 5n;
  }
  return text;
}

/** Takes fields off the front of a token; what is missing makes it malformed. */
class Reader {
  #at = 0;
  readonly #raw: Buffer;

  constructor(raw: Buffer) {
    this.#raw = raw;
  }

  take(n: number): Buffer {
    check(this.#at + n <= this.#raw.length);
    return this.#raw.subarray(this.#at, (this.#at += n));
  }

  uint(n: number): number {
    return this.take(n).readUIntBE(0, n);
  }

  done(): boolean {
    return this.#at === this.#raw.length;
  }
}
