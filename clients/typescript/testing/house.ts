import { ProblemError } from '../core/errors.js';
import { ulid } from '../core/keys.js';
import { Blackout, memoryRecords, type BlackoutOptions, type BlackoutState, type Entry, type Pack, type Records, type Schemas, type Verdict } from '../backoffice/index.js';
import type { ReplayEntry, Service } from '../backoffice/blackout.js';

export const hour = 3_600_000;
export const noAnswer = (): ProblemError => new ProblemError('NETWORK', 'no answer');
export const guestName = 'Zarghuna Karimi';

/** A service that keeps keys for ever: what it did, by key and by resource, and the verdicts that it gave. */
export class House {
  readonly done = new Map<string, { key: string; by: string; times: number }>();
  readonly verdicts = new Map<string, Verdict>();
  readonly asked: { readonly operatorId: string; readonly propertyId: string; readonly keys: readonly string[] }[] = [];
  line = true;
  on = true;
  tag = 1;
  /** Called before each step: before and after an entry is carried out, and before the end. It may throw, as a line does that is cut. */
  step: (where: 'before' | 'after' | 'end', entry?: ReplayEntry) => void = () => undefined;
  /** What becomes of an entry that it would carry out otherwise. */
  judge: (entry: ReplayEntry) => Omit<Verdict, 'key'> | undefined = () => undefined;

  async *replay(operatorId: string, propertyId: string, entries: readonly ReplayEntry[]): AsyncGenerator<Verdict> {
    if (!this.line) throw noAnswer();
    this.asked.push({ operatorId, propertyId, keys: entries.map((e) => e.key) });
    for (const entry of entries) {
      this.step('before', entry);
      const verdict = this.verdicts.get(entry.key) ?? this.carryOut(operatorId, entry);
      this.step('after', entry);
      yield verdict;
    }
    this.step('end');
  }

  /** Carries an entry out, as a colleague does who has a line. */
  carryOut(by: string, entry: ReplayEntry): Verdict {
    const { key, path } = entry;
    const judged = this.judge(entry);
    if (judged !== undefined) {
      const verdict = { key, ...judged } as Verdict;
      if (verdict.verdict !== 'unknown') this.verdicts.set(key, verdict);
      return verdict;
    }
    const before = path.endsWith('/charges') ? undefined : this.done.get(path);
    const at = '2026-11-18T10:00:00.000Z';
    let verdict: Verdict;
    if (before !== undefined) verdict = { key, verdict: before.by === by ? 'already_done' : 'done_by_other', by: before.by, at };
    else verdict = { key, verdict: 'done', answer: { version: 2 } as Schemas['Moved'] };
    if (before === undefined) {
      const name = path.endsWith('/charges') ? `${path} ${key}` : path;
      this.done.set(name, { key, by, times: (this.done.get(name)?.times ?? 0) + 1 });
    }
    this.verdicts.set(key, verdict);
    return verdict;
  }

  pack(propertyId: string): Pack {
    const day = { date: '2026-11-18', timeZone: 'Asia/Kabul', endsAt: '2026-11-18T19:30:00.000Z', source: 'property' as const };
    const stay = { reservationId: 'rsv_1', guestName, roomNumber: '204' } as Schemas['Stay'];
    return {
      propertyId, day, asOf: '2026-11-18T10:00:00.000Z', stale: false, names: true, arrivals: [stay], inHouse: [], departures: [], next: { day, arrivals: [], departures: [] },
      rooms: [], tasks: [], workOrders: [], keysDue: [],
    };
  }
}

/** A device on which operators sign in, whose app runs in windows that are closed and killed, and whose clock may be set. */
export class Pc {
  readonly house: House;
  readonly records: Records;
  readonly deviceId = `dev_${ulid()}`;
  operatorId: string | undefined = 'opt_1';
  clock = Date.UTC(2026, 10, 18, 10);
  ticks = 5_000;
  /** How far the service's clock is ahead of this one. */
  ahead = 0;

  constructor(house = new House(), records = memoryRecords()) {
    this.house = house;
    this.records = records;
  }

  /** Time passes while the app runs. */
  pass(ms: number): void {
    this.clock += ms;
    this.ticks += ms;
  }

  window(options: Partial<BlackoutOptions> = {}, records = this.records): Blackout {
    return new Blackout(this.service(), records, { propertyId: 'ppt_1', now: () => this.clock, ticks: () => this.ticks, sleep: () => Promise.resolve(), ...options });
  }

  /** The app is closed, and another life of it begins, whose measured time begins at another number. */
  restart(closedFor = 0, options: Partial<BlackoutOptions> = {}): Blackout {
    this.clock += closedFor;
    this.ticks = 100;
    return this.window(options);
  }

  service(): Service {
    const { house } = this;
    const reached = <T>(answer: () => T): Promise<T> => Promise.resolve().then(() => (house.line ? answer() : Promise.reject(noAnswer())));
    return {
      deviceId: () => Promise.resolve(this.deviceId),
      operatorId: () => Promise.resolve(this.operatorId),
      session: () => reached(() => ({ operatorId: this.operatorId, displayName: 'Parwana', serverTime: new Date(this.clock + this.ahead).toISOString(), flags: { blackout_desk: house.on } }) as unknown as Schemas['Session']),
      pack: (_, propertyId, etag) => reached(() => (etag === `W/"${house.tag}"` ? { etag, pack: undefined } : { etag: `W/"${house.tag}"`, pack: house.pack(propertyId) })),
      replay: (...what) => house.replay(what[0], what[1], what[2]),
      live: (operatorId, { key = '', about, pressedAt }: Entry) =>
        reached(() => {
          house.verdicts.delete(key);
          const { path = '', body } = about ?? {};
          house.judge = () => undefined;
          const verdict = house.carryOut(operatorId, { key, path, ...(body === undefined ? {} : { body }), pressedAt: new Date(pressedAt).toISOString() });
          return (verdict as { answer: Schemas['Posted'] }).answer;
        }),
    };
  }
}

export const rsv = (n: number): { path: { reservationId: string } } => ({ path: { reservationId: `rsv_${n}` } });
export const charge = (n: number): { path: { folioId: string }; body: Schemas['PostingRequest'] } => ({ path: { folioId: `fol_${n}` }, body: { amount: { minor: '12500', currency: 'AFN' } } });
export const words = ({ entries }: BlackoutState): (string | undefined)[] => entries.map((e) => e.verdict?.verdict ?? e.state);
