// The payload of a hand-off token and the bounds of its fields. They are those
// of the Go package `handoff`; contracts/handoff/vectors.json holds both to it.

/** How long a token can be used, in milliseconds: no longer and no shorter. */
export const LIFETIME_MS = 30 * 60 * 1000;

/** How far ahead of the verifier's clock a token may have been minted, in milliseconds. */
export const MAX_SKEW_MS = 60 * 1000;

/** Everything that a token vouches for, in the words of the wire. */
export interface HandoffPayload {
  /** bhd_<ULID> */
  readonly handoffId: string;
  /** gms_<ULID> */
  readonly guestSessionId: string;
  /** tnt_<ULID> */
  readonly tenantId: string;
  /** ppt_<ULID> */
  readonly propertyId: string;
  /** Nights from checkIn up to, not including, checkOut: YYYY-MM-DD. */
  readonly dates: { readonly checkIn: string; readonly checkOut: string };
  /** Ages of children are not signed; they come back from the consume call. */
  readonly occupancy: { readonly adults: number; readonly children: number; readonly rooms: number };
  /** ISO 4217 */
  readonly currency: string;
  /** BCP-47 */
  readonly locale: string;
  /** RFC 3339 in UTC with milliseconds. */
  readonly mintedAt: string;
  /** mintedAt + 30 minutes, exactly. */
  readonly expiresAt: string;
  readonly hmacKeyId: string;
}

export const MAX_ADULTS = 30;
export const MAX_CHILDREN = 20;
export const MAX_ROOMS = 15;
export const MAX_NIGHTS = 365;

/** Exact spellings only: a second spelling would be a second token for one payload. */
export const CURRENCIES: ReadonlySet<string> = new Set(['AFN', 'USD', 'EUR', 'IRR', 'PKR', 'AED', 'GBP']);
export const LOCALES: ReadonlySet<string> = new Set([
  'en', 'ps-AF', 'fa-AF', 'fa-IR', 'tg-TJ', 'en-US', 'ar', 'ur', 'ru',
]);

export const KEY_ID = /^[a-z0-9-]{1,32}$/;

/** The last moment whose expiry still has a four-digit year. */
export const MAX_MINTED_MS = Date.UTC(10000, 0, 1) - LIFETIME_MS - 1;

/** The string that is signed: fifteen lines, no newline after the last. */
export function canonicalString(p: HandoffPayload): string {
  return [
    'v1',
    p.handoffId,
    p.guestSessionId,
    p.tenantId,
    p.propertyId,
    p.dates.checkIn,
    p.dates.checkOut,
    p.occupancy.adults,
    p.occupancy.children,
    p.occupancy.rooms,
    p.currency,
    p.locale,
    p.mintedAt,
    p.expiresAt,
    p.hmacKeyId,
  ].join('\n');
}
