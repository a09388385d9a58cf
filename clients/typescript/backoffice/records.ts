/** What a change of records writes, by name; undefined removes. */
export type Changes = ReadonlyMap<string, unknown>;

/** Where the blackout desk keeps its records, for all windows of the app. A record may hold a key that cannot be exported. */
export interface Records {
  read(): Promise<ReadonlyMap<string, unknown>>;
  /** Changes records in one transaction: when it returns, all of the change outlives a power cut; when it throws, nothing of it was done. */
  change(work: (have: ReadonlyMap<string, unknown>) => Changes): Promise<void>;
  /** Runs work while no other window does so. */
  alone<T>(work: () => Promise<T>): Promise<T>;
  /** Calls back after a change, of whatever window; returns how to stop. */
  watch(changed: () => void): () => void;
}

/** Keeps records as long as the process lives. */
export function memoryRecords(): Records {
  const kept = new Map<string, unknown>();
  const listeners = new Set<() => void>();
  return {
    read: () => Promise.resolve(new Map(kept)),
    change: (work) =>
      Promise.resolve().then(() => {
        for (const [name, value] of work(kept)) value === undefined ? kept.delete(name) : kept.set(name, value);
        for (const changed of listeners) changed();
      }),
    alone: queue(),
    watch: (changed) => {
      listeners.add(changed);
      return () => void listeners.delete(changed);
    },
  };
}

/** Keeps records in a database of the browser. */
export function indexedDbRecords(name: string): Records {
  const database = new Database(name, 'records');
  return {
    read: () => database.use('readonly', all),
    change: async (work) => {
      let thrown: unknown;
      const changing = database.use('readwrite', (records) =>
        all(records, (have) => {
          try {
            for (const [key, value] of work(have)) value === undefined ? records.delete(key) : records.put(value, key);
          } catch (error) {
            thrown = error;
            records.transaction.abort();
          }
        }),
      );
      await changing.catch((error: unknown) => Promise.reject(thrown ?? error));
      const told = new BroadcastChannel(name);
      told.postMessage('changed'); // this window listens with a channel of its own, which hears it, too
      told.close();
    },
    alone: locked(name),
    watch: (changed) => {
      const channel = new BroadcastChannel(name);
      channel.onmessage = changed;
      return () => channel.close();
    },
  };
}

function all(records: IDBObjectStore, done: (have: ReadonlyMap<string, unknown>) => void): void {
  const names = records.getAllKeys();
  const values = records.getAll();
  values.onsuccess = () => done(new Map(names.result.map((name, i) => [String(name), values.result[i] as unknown])));
}

/** A door to one object store of IndexedDB. It is shut after each use: another version of the app may have to change the database. */
export class Database {
  readonly #name: string;
  readonly #store: string;

  constructor(name: string, store: string) {
    this.#name = name;
    this.#store = store;
  }

  /**
   * Runs one transaction, and returns what `work` has said is its result once it is on disk.
   * @internal
   */
  async use<T = void>(mode: IDBTransactionMode, work: (store: IDBObjectStore, done: (result: T) => void) => void): Promise<T> {
    const db = await this.#open();
    try {
      return await new Promise<T>((resolve, reject) => {
        // Browsers call a transaction complete before the disk has it unless they are told otherwise; desks lose their power.
        const transaction = db.transaction(this.#store, mode, { durability: 'strict' });
        let result!: T;
        transaction.oncomplete = () => resolve(result);
        transaction.onabort = () => reject(transaction.error ?? new Error('IndexedDB: the transaction failed'));
        work(transaction.objectStore(this.#store), (value) => void (result = value));
      });
    } finally {
      db.close();
    }
  }

  #open(): Promise<IDBDatabase> {
    return new Promise((resolve, reject) => {
      const opening = indexedDB.open(this.#name, 1);
      opening.onupgradeneeded = () => void opening.result.createObjectStore(this.#store);
      opening.onsuccess = () => resolve(opening.result);
      opening.onerror = () => reject(opening.error ?? new Error('IndexedDB: the database cannot be opened'));
    });
  }
}

type Exclusive = <T>(work: () => Promise<T>) => Promise<T>;

/** Runs one piece of work after the other, over all windows of the origin. */
export function locked(name: string): Exclusive {
  const inThisWindow = queue();
  return (work) =>
    inThisWindow(async () => {
      // What the callback returns is what the lock's promise gives; the types say otherwise in some releases.
      if (navigator.locks !== undefined) return (await navigator.locks.request(name, work)) as Awaited<ReturnType<typeof work>>;
      return work();
    });
}

/** Runs one piece of work after the other. */
export function queue(): Exclusive {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const next = last.then(work, work);
    last = next.catch(() => undefined);
    return next;
  };
}
