/** A sign-in as a device keeps it. */
export interface SignIn {
  readonly accessToken: string;
  readonly refreshToken: string;
  /** By the device's own clock, in milliseconds since 1970. */
  readonly expires: number;
  /** Names the refresh that is under way: after a lost answer or a crash it is sent again with the same name. */
  readonly retryKey?: string;
}

/** What a device keeps. `keys` is a WebCrypto key pair that cannot be exported; only a structured clone can hold it. */
export interface Saved {
  readonly id: string;
  readonly keys: object;
  readonly signIn?: SignIn;
}

/** Where a device keeps its key and its tokens. */
export interface Store {
  load(): Promise<Saved | undefined>;
  save(saved: Saved): Promise<void>;
  /** Runs work while no other window of the app does so: a refresh token that is used twice ends the sign-in. */
  exclusive<T>(work: () => Promise<T>): Promise<T>;
}

/** Keeps a device as long as the process lives: for tests, and for Node, which cannot keep a key that it cannot export. */
export function memoryStore(): Store {
  let kept: Saved | undefined;
  return {
    load: () => Promise.resolve(kept),
    save: (saved) => Promise.resolve(void (kept = saved)),
    exclusive: queue(),
  };
}

/** Keeps a device in the browser's IndexedDB, for all windows of an origin. */
export function indexedDbStore(name = 'melmastoon-desk'): Store {
  const inThisWindow = queue();
  return {
    load: () => request(name, 'readonly', (desk) => desk.get('device') as IDBRequest<Saved | undefined>),
    save: async (saved) => void (await request(name, 'readwrite', (desk) => desk.put(saved, 'device'))),
    exclusive: (work) =>
      inThisWindow(async () => {
        // What the callback returns is what the lock's promise gives; the types say otherwise in some releases.
        if (navigator.locks !== undefined) return (await navigator.locks.request(name, work)) as Awaited<ReturnType<typeof work>>;
        return work();
      }),
  };
}

/** Runs one piece of work after the other. */
function queue(): Store['exclusive'] {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const next = last.then(work, work);
    last = next.catch(() => undefined);
    return next;
  };
}

async function request<T>(name: string, mode: IDBTransactionMode, ask: (desk: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const opening = indexedDB.open(name, 1);
  opening.onupgradeneeded = () => void opening.result.createObjectStore('desk');
  const db = await result(opening);
  try {
    const transaction = db.transaction('desk', mode);
    const done = new Promise<void>((resolve, reject) => {
      transaction.oncomplete = () => resolve();
      transaction.onabort = transaction.onerror = () => reject(transaction.error ?? new Error('IndexedDB: the transaction failed'));
    });
    const answer = await result(ask(transaction.objectStore('desk')));
    await done; // what was written is on disk
    return answer;
  } finally {
    db.close();
  }
}

function result<T>(asked: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error ?? new Error('IndexedDB: the request failed'));
  });
}
