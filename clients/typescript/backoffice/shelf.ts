import type { Changes, Records } from './records.js';
import { Seal, type KeptKey, type Sealed } from './seal.js';

/** How long a device keeps what an operator did and saw. */
export const life = 36 * 3_600_000;

/**
 * Something was not taken down, and must not look as if it was. The storage is `full`, or `unavailable` (some browsers have none in private windows);
 * the operator is `signed_out`, or the tenant has the blackout desk switched `off`.
 */
export class NotKept extends Error {
  readonly reason: 'full' | 'unavailable' | 'signed_out' | 'off';

  constructor(reason: NotKept['reason'], cause?: unknown) {
    super(`not taken down: ${reason}`, { cause });
    this.name = 'NotKept';
    this.reason = reason;
  }
}

/** Of an entry, what may be read without its key: nothing about a guest. */
export interface EntryClear {
  readonly propertyId: string;
  readonly operation: string;
  /** When it was taken down, in the time that has passed on this device. */
  readonly at: number;
  /** The same by the device's clock, in milliseconds since 1970. */
  readonly pressedAt: number;
  /** Made at the first attempt to send it. */
  readonly key?: string;
  /** An entry that gets a second key is not sent before. */
  readonly notBefore?: number;
  readonly verdict?: string;
}

/** An entry whose life is over has no seal any more. */
export type EntryRecord = Sealed<EntryClear> | { readonly clear: EntryClear };

export interface PackClear {
  /** When the service last said that it is the pack, in the time that has passed on this device. */
  readonly at: number;
  readonly heardAt: number;
  readonly etag?: string;
}

export interface SessionClear {
  /** When the service said it, in the time that has passed on this device. */
  readonly at?: number;
}

interface KeptClock {
  readonly lived: number;
  readonly clock: number;
}

/**
 * Time that has passed on a device, whatever its clock is set to meanwhile: while the app runs it is measured, and between two of its lives it is what the
 * clock says, unless that went back. Hotel computers lose their clocks with their power, and get them back with the line.
 */
class Elapsed {
  readonly #now: () => number;
  readonly #ticks: () => number;
  #base: number | undefined;

  constructor(now: () => number, ticks: () => number) {
    this.#now = now;
    this.#ticks = ticks;
  }

  /** Takes up the time that the records know of. */
  read(kept: KeptClock | undefined): number {
    const ticks = this.#ticks();
    this.#base ??= (kept === undefined ? 0 : kept.lived + Math.max(0, this.#now() - kept.clock)) - ticks;
    this.#base = Math.max(this.#base, (kept?.lived ?? 0) - ticks); // another window has seen more of it
    return this.#base + ticks;
  }

  keep(kept: KeptClock | undefined): KeptClock {
    return { lived: this.read(kept), clock: this.#now() };
  }
}

/** The records of the blackout desk. Each is named `operator/kind/…`. */
export class Shelf {
  readonly #records: Records;
  readonly #deviceId: () => Promise<string>;
  readonly #elapsed: Elapsed;

  constructor(records: Records, deviceId: () => Promise<string>, now: () => number, ticks: () => number) {
    this.#records = records;
    this.#deviceId = deviceId;
    this.#elapsed = new Elapsed(now, ticks);
  }

  /** What there is now, and how much time has passed. What may be kept no longer is removed first. */
  async read(operatorId: string | undefined): Promise<{ have: ReadonlyMap<string, unknown>; lived: number }> {
    const have = await this.#kept(() => this.#records.read());
    const lived = this.#elapsed.read(have.get('clock') as KeptClock | undefined);
    if (outlived(have, lived, operatorId).size === 0) return { have, lived };
    await this.#kept(() => this.#records.change((now) => outlived(now, lived, operatorId)));
    return { have: await this.#kept(() => this.#records.read()), lived };
  }

  /** The seal of an operator; undefined if there is none, or none any more. */
  async seal(operatorId: string): Promise<Seal | undefined> {
    const kept = (await this.#kept(() => this.#records.read())).get(`${operatorId}/key`) as KeptKey | undefined;
    return kept && new Seal(operatorId, await this.#deviceId(), kept);
  }

  async makeSeal(operatorId: string): Promise<Seal> {
    const name = `${operatorId}/key`;
    const made = await Seal.newKey();
    let kept = made;
    await this.#kept(() =>
      this.#records.change((have) => {
        kept = (have.get(name) as KeptKey | undefined) ?? made;
        return new Map([[name, kept]]);
      }),
    );
    return new Seal(operatorId, await this.#deviceId(), kept);
  }

  /** Changes records of an operator, unless they were wiped since the seal was had: what another window has wiped does not come back. */
  async change(seal: Seal, work: (have: ReadonlyMap<string, unknown>) => Changes): Promise<void> {
    await this.#kept(() =>
      this.#records.change((have) => {
        if ((have.get(`${seal.operatorId}/key`) as KeptKey | undefined)?.id !== seal.id) throw new NotKept('signed_out');
        return new Map<string, unknown>([['clock', this.#elapsed.keep(have.get('clock') as KeptClock | undefined)], ...work(have)]);
      }),
    );
  }

  /** Keeps how much time has passed. What the clock was set by before this is not taken for time when the app is opened again. */
  async tick(): Promise<void> {
    await this.#kept(() => this.#records.change((have) => new Map([['clock', this.#elapsed.keep(have.get('clock') as KeptClock | undefined)]])));
  }

  async #kept<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof NotKept) throw error;
      throw new NotKept((error as Partial<DOMException>)?.name === 'QuotaExceededError' ? 'full' : 'unavailable', error);
    }
  }
}

/** What a device may keep no longer: packs of those who are not signed in, and whatever has had its time. Of an entry that was not settled it stays known that there was one. */
export function outlived(have: ReadonlyMap<string, unknown>, lived: number, operatorId: string | undefined): Map<string, unknown> {
  const changes = new Map<string, unknown>();
  for (const [name, record] of have) {
    const [owner, kind] = name.split('/');
    if (kind === 'pack' || kind === 'session') {
      // A session names the operator alone: after two days without a line the desk still takes things down.
      if (owner !== operatorId || (kind === 'pack' && lived - (record as Sealed<PackClear>).clear.at >= life)) changes.set(name, undefined);
    } else if (kind === 'entry') {
      const { clear, ...rest } = record as EntryRecord;
      if (lived - clear.at < life) continue;
      if (clear.verdict === 'done' || clear.verdict === 'already_done') changes.set(name, undefined);
      else if ('data' in rest) changes.set(name, { clear });
    }
  }
  return changes;
}

/** All that is an operator's. */
export function belongings(have: ReadonlyMap<string, unknown>, operatorId: string): Map<string, undefined> {
  return new Map([...have.keys()].filter((name) => name.startsWith(`${operatorId}/`)).map((name) => [name, undefined]));
}
