export { Parser, type Message } from './parser.js';
export { channels, StaffStream, StreamRefused, type Channel, type StreamEvent, type StreamOptions, type Unsigned } from './stream.js';
import type { components } from './schema.js';

/** Every named shape of the contract, such as `Schemas['Dashboard']`. */
export type Schemas = components['schemas'];
