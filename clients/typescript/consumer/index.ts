export * from '../core/index.js';
export { ConsumerClient, type Answer, type Call, type ClientOptions, type Operation, type Place, type Schemas } from './client.js';
export { CookieJar } from './jar.js';
export { searchPages } from './pages.js';
