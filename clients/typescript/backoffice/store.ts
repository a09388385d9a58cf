import { Database, indexedDbRecords, locked, memoryRecords, queue, type Records } from './records.js';

/** A sign-in as a device keeps it. */
export interface SignIn {
  readonly accessToken: string;
  readonly refreshToken: string;
  /** By the device's own clock, in milliseconds since 1970. */
  readonly expires: number;
  /** Names the refresh that is under way: after a lost answer or a crash it is sent again with the same name. */
  readonly retryKey?: string;
  /** Who signed in, once the service has said it. */
  readonly operatorId?: string;
}

/** What a device keeps. `keys` is a WebCrypto key pair that cannot be exported; only a structured clone can hold it. */
export interface Saved {
  readonly id: string;
  readonly keys: object;
  readonly signIn?: SignIn;
}

/** No operator is signed in on this device, or not any more: show the sign-in. */
export class SignedOut extends Error {
  constructor(cause?: unknown) {
    super('no operator is signed in', { cause });
    this.name = 'SignedOut';
  }
}

/** Where a device keeps its key and its tokens. */
export interface Store {
  load(): Promise<Saved | undefined>;
  save(saved: Saved): Promise<void>;
  /** Runs work while no other window of the app does so: a refresh token that is used twice ends the sign-in. */
  exclusive<T>(work: () => Promise<T>): Promise<T>;
  /** What the desk needs when the line is cut. A store without records has no blackout desk. */
  readonly records?: Records;
}

/** Keeps a device as long as the process lives: for tests, and for Node, which cannot keep a key that it cannot export. */
export function memoryStore(): Store {
  let kept: Saved | undefined;
  return {
    load: () => Promise.resolve(kept),
    save: (saved) => Promise.resolve(void (kept = saved)),
    exclusive: queue(),
    records: memoryRecords(),
  };
}

/** Keeps a device in the browser's IndexedDB, for all windows of an origin. */
export function indexedDbStore(name = 'melmastoon-desk'): Store {
  const database = new Database(name, 'desk');
  return {
    load: () =>
      database.use('readonly', (desk, done) => {
        const asked = desk.get('device') as IDBRequest<Saved | undefined>;
        asked.onsuccess = () => done(asked.result);
      }),
    save: (saved) => database.use('readwrite', (desk) => void desk.put(saved, 'device')),
    exclusive: locked(name),
    records: indexedDbRecords(`${name}-blackout`),
  };
}
