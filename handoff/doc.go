// Package handoff is the signed word by which the anonymous storefront sends a
// guest to a hotel's own booking flow: it mints the token in the redirect and
// verifies it on the other side (DOMAIN_MODEL §2.4).
//
// It is a security kernel: pure functions over bytes, a given time and a ring
// of keys. It opens no file, calls no network and reads no clock, so that a
// receiving service can trust a token without a call to another service.
//
// # What is signed
//
// HMAC-SHA256 over fifteen lines joined by newlines, none after the last:
//
//	v1
//	<id>               bhd_<ULID>
//	<guestSessionId>   gms_<ULID>
//	<tenantId>         tnt_<ULID>
//	<propertyId>       ppt_<ULID>
//	<checkIn>          YYYY-MM-DD
//	<checkOut>
//	<adults>
//	<children>
//	<rooms>
//	<currency>
//	<locale>
//	<mintedAt>         2026-04-22T09:30:00.000Z
//	<expiresAt>        thirty minutes later, to the millisecond
//	<hmacKeyId>
//
// No field can hold a newline, so no two payloads share a string. Campaign
// attribution and the children's ages are not signed and not in the token:
// they come back from the consume call.
//
// # The token
//
// The same fields in binary, then the 32 bytes of the MAC, in base64url
// without padding. Integers are big-endian.
//
//	1   version, 1
//	16  × 4 id, guestSessionId, tenantId, propertyId: the ULIDs' bits
//	2   × 2 checkIn, checkOut: days since 1970-01-01
//	1   × 3 adults, children, rooms
//	3   currency
//	1+n locale: length, then the tag as it is written in the supported set
//	6   mintedAt: milliseconds since 1970-01-01; expiresAt follows from it
//	1+n hmacKeyId: length, then the id
//	32  MAC
//
// Decoding is strict: what it accepts, encodes to the same characters again.
//
// # Receiving a hand-off
//
//  1. Take the token from the h parameter; do not log it: until it is
//     consumed it is worth a booking session.
//  2. Verify it with the keyring you were given. No network call is needed.
//     Any error carries the code to answer with, and nothing may be shown.
//  3. Check that the payload's tenant is the tenant of the site that was asked.
//  4. Consume it (POST /internal/handoff/{id}/consume) before anything that a
//     guest can see: a genuine token may be a replayed one, and only the ledger
//     knows. 409, 410 and 403 end the flow.
//  5. Start the booking from the verified payload, not from other parameters.
//
// # Keys
//
// Exactly one key is active and signs. A key in grace only verifies. Pending
// and retired keys do neither. A rotation is Add, then later Promote, then,
// when the new key has been active for a token's whole life, Retire. Give the
// promoted ring to the receiving services first and to the minting service
// last: then no token is ever ahead of those who must verify it.
package handoff
