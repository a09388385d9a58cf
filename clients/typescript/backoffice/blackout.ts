import { address } from '../core/contract.js';
import { ProblemError } from '../core/errors.js';
import { ulid } from '../core/keys.js';
import type { Records } from './records.js';
import { routes, type Call, type Schemas } from './routes.js';
import { belongings, life, NotKept, Shelf, type EntryClear, type EntryRecord, type PackClear, type SessionClear } from './shelf.js';
import type { Seal, Sealed } from './seal.js';
import { SignedOut } from './store.js';

/** What may be taken down without a line. Keys of rooms, refunds and decisions may not: whoever does them has to see at once what became of it. */
export type Offline = 'checkIn' | 'checkOut' | 'moveTask' | 'openWorkOrder' | 'moveWorkOrder' | 'charge';

/** What an operation is about, as its live call takes it. */
export type Pressed<K extends Offline> = Pick<Call<K>, Extract<keyof Call<K>, 'path' | 'body'>>;

export type Pack = Schemas['BlackoutPack'];
export type Verdict = Schemas['ReplayVerdict'];

/** An entry as it is sent. */
export type ReplayEntry = Schemas['ReplayRequest']['entries'][number];

/** Something that an operator did at the desk. */
export interface Entry {
  readonly id: string;
  readonly operation: Offline;
  readonly propertyId: string;
  /** When the button was pressed, in milliseconds since 1970. */
  readonly pressedAt: number;
  /** Its key: made when it is sent for the first time. */
  readonly key: string | undefined;
  /** What it is about, and what the app has noted with it; undefined once its 36 hours are over. */
  readonly about: { readonly path: string; readonly body?: Record<string, unknown>; readonly note?: unknown } | undefined;
  /** What the service said became of it; undefined as long as it has said nothing. */
  readonly verdict: Verdict | undefined;
  /**
   * - `unsent`: it is sent as soon as there is a line, and again as long as its verdict is `unknown`
   * - `asks`: it needs a second factor; `confirm` or `drop` it
   * - `settled`: its verdict is the last word; `drop` it once a person has read it
   * - `lost`: it was not sent within 36 hours, or its record was damaged; it is not known what became of it
   */
  readonly state: 'unsent' | 'asks' | 'settled' | 'lost';
}

/** What a desk knows without asking. */
export interface BlackoutState {
  readonly operatorId: string | undefined;
  /** Who that is and what the tenant has switched on, as the service said last. */
  readonly session: Schemas['Session'] | undefined;
  /** Whether the service answered when it was last asked. */
  readonly line: 'unknown' | 'up' | 'down';
  /** Since when it is so, by the device's clock. */
  readonly since: number;
  /** How far the service's clock is ahead of the device's, as far as can be told without a line. */
  readonly ahead: number;
  readonly pack: Pack | undefined;
  /** When the service last said that the pack is what is the case. */
  readonly heardAt: number | undefined;
  /** In the order in which they were pressed. */
  readonly entries: readonly Entry[];
  /** How many entries of the operator the service has not settled. */
  readonly unsent: number;
  /** How many entries of other operators are still on this device: they are sent when those sign in. */
  readonly others: number;
  /** Why nothing can be taken down, or why the pack is older than it could be. */
  readonly trouble: NotKept['reason'] | undefined;
  /** Why the service refuses what is sent to it. */
  readonly refused: ProblemError | undefined;
}

/** What the desk asks of the service, as the operator that it names and no other. */
export interface Service {
  deviceId(): Promise<string>;
  operatorId(): Promise<string | undefined>;
  /** Learns who is signed in. */
  session(): Promise<Schemas['Session']>;
  /** The pack, or nothing if it is still that of the tag. */
  pack(operatorId: string, propertyId: string, etag: string | undefined, signal: AbortSignal | undefined): Promise<{ etag: string | undefined; pack: Pack | undefined }>;
  replay(operatorId: string, propertyId: string, entries: readonly ReplayEntry[], signal: AbortSignal | undefined): AsyncIterable<Verdict>;
  /** Does an entry live, with its key and a second factor. */
  live(operatorId: string, entry: Entry, attestationId: string): Promise<Schemas['Moved'] | Schemas['Posted']>;
}

export interface BlackoutOptions {
  readonly propertyId: string;
  /** Told whenever something has changed, in whatever window. */
  readonly onChange?: (state: BlackoutState) => void;
  /** How often the pack is asked for while there is a line, in milliseconds; a minute unless said. */
  readonly every?: number;
  /** For tests: the device's clock, time that is measured, and waits that end early when the signal does. */
  readonly now?: () => number;
  readonly ticks?: () => number;
  readonly sleep?: (ms: number, signal: AbortSignal) => Promise<void>;
}

interface Secret {
  readonly path: string;
  readonly body?: Record<string, unknown>;
  readonly note?: unknown;
  readonly verdict?: Verdict;
}

interface Opened {
  readonly sealed: string;
  readonly secret: unknown;
}

const most = 100;
const ended: ReadonlySet<string> = new Set<Verdict['verdict']>(['done', 'already_done', 'done_by_other', 'not_possible', 'expired']);
/** An earlier attempt may still be on its way to the ledger. */
const secondKeyAfter = 120_000;

/**
 * The desk of a property while the line is cut: what is the case, what was done, and what became of it.
 *
 * Whatever is shown was written first, so that a reload, a crash or a power cut loses nothing that a person has seen.
 */
export class Blackout {
  readonly propertyId: string;
  readonly #service: Service;
  readonly #records: Records;
  readonly #shelf: Shelf;
  readonly #options: BlackoutOptions;
  readonly #now: () => number;
  readonly #stop: () => void;
  #state: BlackoutState;
  /** Records as they were read last: with each verdict of a queue all of them are read again. */
  #opened = new Map<string, Opened>();
  #reading: Promise<unknown> = Promise.resolve();
  #next: Promise<BlackoutState> | undefined;
  #poked = new AbortController();

  constructor(service: Service, records: Records, options: BlackoutOptions) {
    this.propertyId = options.propertyId;
    this.#service = service;
    this.#records = records;
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#shelf = new Shelf(records, () => service.deviceId(), this.#now, options.ticks ?? (() => performance.now()));
    this.#state = {
      operatorId: undefined, session: undefined, line: 'unknown', since: this.#now(), ahead: 0, pack: undefined, heardAt: undefined, entries: [], unsent: 0, others: 0,
      trouble: undefined, refused: undefined,
    };
    this.#stop = attempt(() => records.watch(() => void this.read())) ?? (() => undefined);
  }

  get state(): BlackoutState {
    return this.#state;
  }

  /** Reads what the device has; the service is not asked. */
  read(): Promise<BlackoutState> {
    if (this.#next !== undefined) return this.#next; // it has not begun, and will see all that there is
    const next = this.#reading.then(() => {
      this.#next = undefined;
      return this.#read();
    });
    this.#next = next;
    this.#reading = next.catch(() => undefined);
    return next;
  }

  /** No more changes are told. */
  close(): void {
    this.#stop();
  }

  /**
   * Takes something down; when this returns, it outlives a power cut. Throws `NotKept` if it was not taken down.
   *
   * A live call that had no answer may have been carried out: give its `error.idempotencyKey`, and it is not done twice.
   */
  async press<K extends Offline>(operation: K, pressed: Pressed<K>, { note, idempotencyKey }: { note?: unknown; idempotencyKey?: string | undefined } = {}): Promise<Entry> {
    const { session } = await this.read();
    if (session?.flags['blackout_desk'] !== true) throw new NotKept(session === undefined ? (this.#state.trouble ?? 'signed_out') : 'off');
    const seal = await this.#sealed();
    const { have, lived } = await this.#shelf.read(seal.operatorId);
    const last = [...have.keys()].map((name) => /^[^/]+\/entry\/(\d+)/.exec(name)?.[1]).reduce((high, n) => Math.max(high, Number(n ?? 0)), 0);
    // Two windows may find the same number: the rest of the name tells their entries apart.
    const name = `${seal.operatorId}/entry/${String(last + 1).padStart(8, '0')}-${ulid().slice(10)}`;
    const { body } = pressed as { body?: Record<string, unknown> };
    const secret: Secret = { path: address(routes[operation][1], pressed), ...(body === undefined ? {} : { body }), ...(note === undefined ? {} : { note }) };
    const clear: EntryClear = { propertyId: this.propertyId, operation, at: lived, pressedAt: this.#now(), ...(idempotencyKey === undefined ? {} : { key: idempotencyKey.toUpperCase() }) };
    const record = await seal.shut(name, clear, secret);
    await this.#shelf.change(seal, () => new Map([[name, record]]));
    this.poke();
    return (await this.read()).entries.find((e) => e.id === name) ?? entryOf(name, clear, secret);
  }

  /** Removes an entry that a person has read about, or has thought better of. One that was sent stays until its verdict is known. */
  async drop(id: string): Promise<boolean> {
    return this.#changeEntry(id, (entry) => (entry.state === 'unsent' && entry.key !== undefined ? undefined : null));
  }

  /** Sends an entry whose key was too old once more, with another key. Only for those of which the service has no trace. */
  async again(id: string): Promise<boolean> {
    return this.#changeEntry(id, ({ verdict, about }, { clear }, lived) => {
      if (verdict?.verdict !== 'expired' || verdict.known.outcome !== 'none' || about === undefined) return undefined;
      const { propertyId, operation, at, pressedAt } = clear;
      return { clear: { propertyId, operation, at, pressedAt, notBefore: lived + secondKeyAfter }, secret: about };
    });
  }

  /** Does what needs a second factor, with the attestation of `stepUp` for the scope and the resource of its verdict. */
  async confirm(id: string, attestationId: string): Promise<Entry> {
    return this.#records.alone(async () => {
      const seal = await this.#sealed();
      const found = (await this.read()).entries.find((e) => e.id === id);
      if (found?.key === undefined || found.state !== 'asks') throw new Error('the entry asks for no second factor');
      const answer = await this.#service.live(seal.operatorId, found, attestationId);
      await this.#settle(seal, found, { key: found.key, verdict: 'done', answer });
      return (await this.read()).entries.find((e) => e.id === id) ?? found;
    });
  }

  /** Asks for the pack. What the service does not answer is in the state, and not thrown. */
  async refresh(signal?: AbortSignal): Promise<void> {
    await this.#refresh(signal);
  }

  /** False if it is worth another attempt soon: without session and pack nothing can be taken down once the line is cut. */
  async #refresh(signal: AbortSignal | undefined): Promise<boolean> {
    try {
      if ((await this.read()).session?.flags['blackout_desk'] !== true) await this.#learn(); // it may have been switched on
      if (this.#state.session?.flags['blackout_desk'] === true) await this.#fetch(signal);
      return true;
    } catch (error) {
      signal?.throwIfAborted();
      await this.#failed(error, 'pack');
      return error instanceof ProblemError && (error.status === 403 || error.status === 404);
    }
  }

  /**
   * Sends what is unsent, in its order, and keeps each verdict as it falls. One window sends at a time, the others wait and find nothing left to do. After a
   * cut the same entries are sent with the same keys.
   */
  async send(signal?: AbortSignal): Promise<void> {
    try {
      await this.#records.alone(() => this.#sendAll(signal));
      this.#tell({ refused: undefined });
    } catch (error) {
      signal?.throwIfAborted();
      await this.#failed(error, 'replay');
    }
  }

  /** Keeps the pack fresh and sends what is unsent, until the signal ends. */
  async follow(signal: AbortSignal): Promise<void> {
    const poke = (): void => this.poke();
    for (const event of ['online', 'offline']) globalThis.addEventListener?.(event, poke);
    try {
      await this.#learn().catch((error: unknown) => this.#failed(error, 'pack'));
      for (let failures = 0; !signal.aborted; ) {
        this.#poked = new AbortController();
        const fresh = await this.#refresh(signal);
        const up = this.#state.line === 'up';
        if (up && this.#state.entries.some((e) => e.state === 'unsent')) await this.send(signal);
        failures = up && fresh ? 0 : failures + 1;
        const waiting = up && this.#state.entries.some((e) => e.state === 'unsent') ? 5_000 : (this.#options.every ?? 60_000);
        const wait = failures === 0 ? waiting : Math.min(2_000 * 2 ** Math.min(failures, 4), 20_000);
        await (this.#options.sleep ?? pause)(wait * (1 + Math.random() / 4), AbortSignal.any([signal, this.#poked.signal]));
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      for (const event of ['online', 'offline']) globalThis.removeEventListener?.(event, poke);
    }
  }

  /** Something may have changed: `follow` asks at once instead of waiting. For notices of the stream and calls that had no answer. */
  poke(): void {
    this.#poked.abort();
  }

  async #sendAll(signal: AbortSignal | undefined): Promise<void> {
    const asked = new Set<string>();
    for (let size = most; ; ) {
      const seal = await this.#sealed();
      const batch = await this.#batch(seal, asked, size);
      const [first] = batch;
      if (first === undefined) return;
      try {
        const entries = batch.map(({ key, about, pressedAt }) => {
          const { path, body } = about as Secret;
          return { key: key as string, path, ...(body === undefined ? {} : { body }), pressedAt: new Date(pressedAt).toISOString() };
        });
        for await (const verdict of this.#service.replay(seal.operatorId, first.propertyId, entries, signal)) {
          const entry = batch.find((e) => e.key === verdict.key);
          if (entry !== undefined) await this.#settle(seal, entry, verdict);
        }
      } catch (error) {
        if (!(error instanceof ProblemError) || error.problem === undefined || ![400, 413, 422].includes(error.status)) throw error;
        // One entry of a form that the service does not take must not hold up the others.
        if (batch.length > 1) {
          size = 1;
          continue;
        }
        await this.#settle(seal, first, { key: first.key as string, verdict: 'not_possible', reason: 'refused', detail: error.problem.detail ?? error.code });
      }
      for (const { id } of batch) asked.add(id);
    }
  }

  /** What is sent next, with keys that are on disk. Nothing overtakes an entry about the same resource that was asked about and is not settled. */
  async #batch(seal: Seal, asked: ReadonlySet<string>, size: number): Promise<Entry[]> {
    const { have, lived } = await this.#shelf.read(seal.operatorId);
    const held = new Set<string>();
    const batch: Entry[] = [];
    const keyed = new Map<string, unknown>();
    for (const [name, record] of own(have, seal.operatorId)) {
      const secret = 'data' in record ? await seal.open<Secret>(name, record) : undefined;
      let { clear } = record;
      if (secret === undefined || stateOf(clear, secret) !== 'unsent') continue;
      const resource = secret.path.slice(0, secret.path.lastIndexOf('/'));
      if (asked.has(name) || held.has(resource) || lived < (clear.notBefore ?? 0)) {
        held.add(resource);
        continue;
      }
      if (batch.length === size || clear.propertyId !== (batch[0]?.propertyId ?? clear.propertyId)) break;
      if (clear.key === undefined) {
        clear = { ...clear, key: ulid(this.#now()), pressedAt: pressedAt(clear, this.#now(), lived) };
        keyed.set(name, await seal.shut(name, clear, secret));
      }
      batch.push(entryOf(name, clear, secret));
    }
    if (keyed.size > 0) await this.#shelf.change(seal, () => keyed);
    if (keyed.size > 0) await this.read();
    return batch;
  }

  /** Keeps a verdict; it is shown once it is on disk. */
  async #settle(seal: Seal, { id, about }: Entry, verdict: Verdict): Promise<void> {
    const found = (await this.#shelf.read(seal.operatorId)).have.get(id) as EntryRecord | undefined;
    if (found === undefined) throw new NotKept('signed_out'); // in another window; entries that are being sent are not dropped
    const record = await seal.shut(id, { ...found.clear, verdict: verdict.verdict }, { ...about, verdict });
    await this.#shelf.change(seal, () => new Map([[id, record]]));
    await this.read();
  }

  /** Changes an entry while none are sent: undefined leaves it as it is, null removes it. */
  #changeEntry(
    id: string, work: (entry: Entry, record: EntryRecord, lived: number) => { clear: EntryClear; secret: unknown } | null | undefined,
  ): Promise<boolean> {
    return this.#records.alone(async () => {
      const seal = await this.#sealed();
      const entry = (await this.read()).entries.find((e) => e.id === id);
      const { have, lived } = await this.#shelf.read(seal.operatorId);
      const record = have.get(id) as EntryRecord | undefined;
      const change = entry === undefined || record === undefined ? undefined : work(entry, record, lived);
      if (change === undefined) return false;
      const next = change === null ? undefined : await seal.shut(id, change.clear, change.secret);
      await this.#shelf.change(seal, () => new Map([[id, next]]));
      await this.read();
      return true;
    });
  }

  async #fetch(signal: AbortSignal | undefined): Promise<void> {
    const seal = await this.#sealed();
    const name = `${seal.operatorId}/pack/${this.propertyId}`;
    const before = (await this.#shelf.read(seal.operatorId)).have.get(name) as Sealed<PackClear> | undefined;
    const known = before && (await seal.open<Pack>(name, before));
    const { etag = before?.clear.etag, pack = known } = await this.#service.pack(seal.operatorId, this.propertyId, known && before?.clear.etag, signal);
    this.#heard('up');
    if (pack === undefined) return;
    const { lived } = await this.#shelf.read(seal.operatorId);
    const record = await seal.shut(name, { at: lived, heardAt: this.#now(), ...(etag === undefined ? {} : { etag }) }, pack);
    await this.#shelf.change(seal, () => new Map([[name, record]]));
    this.#tell({ trouble: undefined });
    await this.read();
  }

  /** Keeps who is signed in, for a reload without a line. Where the tenant does not want it, nothing is kept. */
  async #learn(): Promise<void> {
    const session = await this.#service.session();
    this.#heard('up');
    const seal = await this.#shelf.makeSeal(session.operatorId);
    const { have, lived } = await this.#shelf.read(session.operatorId);
    const name = `${seal.operatorId}/session/now`;
    const record = await seal.shut(name, { at: lived }, session);
    const packs = session.flags['blackout_desk'] === true ? [] : [...have.keys()].filter((kept) => kept.split('/')[1] === 'pack');
    await this.#shelf.change(seal, () => new Map<string, unknown>([[name, record], ...packs.map((kept) => [kept, undefined] as const)]));
    await this.read();
  }

  async #failed(error: unknown, asked: 'pack' | 'replay'): Promise<void> {
    if (error instanceof NotKept) return this.#tell({ trouble: error.reason });
    if (error instanceof SignedOut) return void (await this.read());
    if (!(error instanceof ProblemError)) throw error;
    if (error.problem === undefined) {
      this.#heard('down');
      return this.#shelf.tick().catch(() => undefined);
    }
    this.#heard('up');
    if (asked === 'replay') this.#tell({ refused: error });
    // The tenant may have switched it off, and the operator may have lost the property.
    else if (error.status === 403 || error.status === 404) await this.#withdraw();
    else if (error.status === 503) await this.#learn().catch(() => undefined);
  }

  async #withdraw(): Promise<void> {
    const seal = await this.#sealed();
    await this.#shelf.change(seal, () => new Map([[`${seal.operatorId}/pack/${this.propertyId}`, undefined]]));
    await this.read();
  }

  async #sealed(): Promise<Seal> {
    const operatorId = await this.#service.operatorId();
    const seal = operatorId === undefined ? undefined : await this.#shelf.seal(operatorId);
    if (seal === undefined) throw new NotKept('signed_out');
    return seal;
  }

  async #read(): Promise<BlackoutState> {
    try {
      const operatorId = await this.#service.operatorId();
      const { have, lived } = await this.#shelf.read(operatorId);
      const seal = operatorId === undefined ? undefined : await this.#shelf.seal(operatorId);
      const opened = new Map<string, Opened>();
      for (const [name, record] of have) {
        if (!name.startsWith(`${operatorId}/`) || !('data' in (record as object))) continue;
        const { clear, iv } = record as Sealed;
        const sealed = JSON.stringify([clear, [...iv]]);
        const before = this.#opened.get(name);
        opened.set(name, before?.sealed === sealed ? before : { sealed, secret: await seal?.open(name, record as Sealed) });
      }
      this.#opened = opened;
      const open = <T>(name: string): T | undefined => opened.get(name)?.secret as T | undefined;
      const entries = own(have, operatorId).map(([name, { clear }]) => entryOf(name, clear, open(name)));
      const others = [...have].filter(([name, record]) => name.split('/')[1] === 'entry' && !name.startsWith(`${operatorId}/`) && !ended.has((record as EntryRecord).clear.verdict ?? ''));
      const name = `${operatorId}/pack/${this.propertyId}`;
      const pack = open<Pack>(name);
      const session = open<Schemas['Session']>(`${operatorId}/session/now`);
      const learnt = (have.get(`${operatorId}/session/now`) as Sealed<SessionClear> | undefined)?.clear.at;
      this.#tell({
        operatorId, session, ahead: session === undefined || learnt === undefined ? 0 : Date.parse(session.serverTime) + lived - learnt - this.#now(), pack, heardAt: pack && (have.get(name) as Sealed<PackClear>).clear.heardAt,
        entries, unsent: entries.filter((e) => e.state === 'unsent' || e.state === 'asks').length, others: others.length,
        trouble: this.#state.trouble === 'full' ? 'full' : undefined,
      });
    } catch (error) {
      if (!(error instanceof NotKept)) throw error;
      this.#tell({ trouble: error.reason });
    }
    return this.#state;
  }

  #heard(line: 'up' | 'down'): void {
    if (line !== this.#state.line) this.#tell({ line, since: this.#now() });
  }

  #tell(news: Partial<BlackoutState>): void {
    this.#state = { ...this.#state, ...news };
    this.#options.onChange?.(this.#state);
  }
}

/** Forgets all that is an operator's on this device; returns how many entries were not settled. With `only` settled nothing is forgotten while there are such. */
export async function wipe(records: Records, operatorId: string, evenUnsent: boolean): Promise<number> {
  let unsent = 0;
  await records.change((have) => {
    unsent = own(have, operatorId).filter(([, { clear }]) => !ended.has(clear.verdict ?? '')).length;
    return unsent > 0 && !evenUnsent ? new Map() : belongings(have, operatorId);
  });
  return unsent;
}

/** The entries of an operator, in the order in which they were pressed. */
function own(have: ReadonlyMap<string, unknown>, operatorId: string | undefined): [string, EntryRecord][] {
  return [...have].filter(([name]) => name.startsWith(`${operatorId}/entry/`)).sort(([a], [b]) => (a < b ? -1 : 1)) as [string, EntryRecord][];
}

function entryOf(id: string, clear: EntryClear, secret: Secret | undefined): Entry {
  const { operation, propertyId, pressedAt, key } = clear;
  const { verdict, ...about } = secret ?? {};
  return { id, operation: operation as Offline, propertyId, pressedAt, key, about: secret && (about as Secret), verdict, state: stateOf(clear, secret) };
}

function stateOf({ verdict }: EntryClear, secret: Secret | undefined): Entry['state'] {
  if (secret === undefined) return 'lost';
  if (verdict === 'needs_second_factor') return 'asks';
  return ended.has(verdict ?? '') ? 'settled' : 'unsent'; // words that are newer than this app are asked about again
}

/** When a button was pressed, by what the clock shows now: where the clock was set meanwhile, what it showed then means nothing. */
function pressedAt({ pressedAt: shown, at }: EntryClear, now: number, lived: number): number {
  const passed = lived - at;
  const set = now - shown < passed - 60_000 || now - shown > life;
  return set ? now - passed : shown;
}

function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    if (signal.aborted) done();
    else signal.addEventListener('abort', done, { once: true });
  });
}
