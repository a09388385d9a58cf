export * from '../core/index.js';
export { BackofficeClient, SignedOut, type BackofficeOptions, type Operator } from './client.js';
export { Device, type Proof } from './device.js';
export { Parser, type Message } from './parser.js';
export type { Answer, Call, DashboardLine, Operation, Paged, Schemas } from './routes.js';
export { indexedDbStore, memoryStore, type Saved, type SignIn, type Store } from './store.js';
export { channels, StaffStream, StreamRefused, type Channel, type StreamEvent, type StreamOptions, type Unsigned } from './stream.js';
