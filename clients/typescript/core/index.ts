export type { Code } from './codes.js';
export type { CallOptions } from './contract.js';
export { ProblemError, type FailureCode, type KnownMutation, type Problem } from './errors.js';
/** Makes the key of a change, for an app that keeps it before the change is sent. */
export { ulid as newKey } from './keys.js';
export type { TransportOptions } from './transport.js';
