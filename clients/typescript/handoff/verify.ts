import { createHmac, timingSafeEqual } from 'node:crypto';

import { HandoffError } from './errors.js';
import type { Keyring } from './keyring.js';
import { canonicalString, MAX_SKEW_MS, type HandoffPayload } from './payload.js';
import { decode } from './token.js';

/**
 * Returns what a genuine, living token says, or throws a HandoffError. It makes
 * no network call and does not know whether the token was already used: only
 * the ledger does. So, on the receiving side:
 *
 * 1. verify the token of the `h` parameter, and do not log it;
 * 2. check that `tenantId` is the tenant of the site that was asked;
 * 3. consume it (`POST /internal/handoff/{id}/consume`) before anything that a
 *    guest can see;
 * 4. start the booking from the verified payload.
 */
export function verifyHandoff(keys: Keyring, token: string, now: Date): HandoffPayload {
  const clock = now.getTime();
  if (Number.isNaN(clock)) throw new TypeError('verifyHandoff: now is not a time'); // NaN would pass every comparison
  const { payload, mac } = decode(token);
  const key = keys.get(payload.hmacKeyId);
  if (key === undefined) throw new HandoffError('unknown-key');
  const want = createHmac('sha256', key).update(canonicalString(payload)).digest();
  if (!timingSafeEqual(want, mac)) throw new HandoffError('signature');
  // Time is looked at last: of a token that we did not sign a caller never learns
  // whether it would still be alive.
  if (Date.parse(payload.mintedAt) - clock > MAX_SKEW_MS) throw new HandoffError('future');
  if (Date.parse(payload.expiresAt) < clock) throw new HandoffError('expired');
  return payload;
}

/**
 * Returns what a token says without asking whether it is genuine: for support
 * tools and tests. Nothing may be decided on its answer.
 */
export function inspectHandoff(token: string): HandoffPayload {
  return decode(token).payload;
}
