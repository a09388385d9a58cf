// What runs anywhere. The hand-off verifier needs Node, so it is only in `@melmastoon/bff/handoff`.
export { solve, type Challenge, type Solver, type SolveOptions, type SolverWorker } from './challenge/index.js';
export * from './core/index.js';
export { BackofficeClient, Device, SignedOut, StaffStream, StreamRefused, channels, indexedDbStore, memoryStore } from './backoffice/index.js';
export type { BackofficeOptions, Channel, Operator, Store, StreamEvent, StreamOptions, Schemas as BackofficeSchemas } from './backoffice/index.js';
export { ConsumerClient, CookieJar, searchPages } from './consumer/index.js';
export type { ClientOptions, Schemas as ConsumerSchemas } from './consumer/index.js';
export * from './values/index.js';
