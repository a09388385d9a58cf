// The TypeScript twin of the Go package `handoff`: verifies the signed hand-off
// by which the storefront sends a guest to a hotel's booking flow. It needs
// nothing but node:crypto.
export { HandoffError, type HandoffErrorCode, type HandoffRefusal } from './errors.js';
export { parseKeyring, type Keyring, type KeyState } from './keyring.js';
export { canonicalString, LIFETIME_MS, MAX_SKEW_MS, type HandoffPayload } from './payload.js';
export { inspectHandoff, verifyHandoff } from './verify.js';
