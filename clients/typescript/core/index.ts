export type { Code } from './codes.js';
export type { CallOptions } from './contract.js';
export { ProblemError, type FailureCode, type KnownMutation, type Problem } from './errors.js';
export type { TransportOptions } from './transport.js';
