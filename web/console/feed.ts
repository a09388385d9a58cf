// Rows that come by themselves, newest first: a list, and a stream that goes on where it ends. Nothing is asked for while the page is hidden.
import { signal } from '@preact/signals';

import { json } from '../kit/load.js';

export interface Row {
  readonly seq: number;
}

const most = 1000;

export class Feed<T extends Row> {
  readonly rows = signal<readonly T[]>([]);
  /** While it is paused, what came is counted and kept aside. */
  readonly paused = signal(false);
  readonly missed = signal(0);
  readonly error = signal<string | undefined>(undefined);
  readonly at = signal<Date | undefined>(undefined);

  #aside: T[] = [];
  #due = 0;
  #from = 0; // what was cleared away does not come again
  #stream: EventSource | undefined;

  constructor(readonly path: string, readonly event: string) {}

  /** Follows until the result is called. */
  follow(): () => void {
    const shown = (): void => (document.hidden ? this.#leave() : void this.#come());
    document.addEventListener('visibilitychange', shown);
    shown();
    return () => {
      document.removeEventListener('visibilitychange', shown);
      this.#leave();
    };
  }

  clear(): void {
    this.#from = Math.max(this.#from, this.rows.peek()[0]?.seq ?? 0, ...this.#aside.map(({ seq }) => seq));
    this.#aside = [];
    this.missed.value = 0;
    this.rows.value = [];
  }

  pause(paused = !this.paused.peek()): void {
    this.paused.value = paused;
    if (!paused) this.#draw();
  }

  async #come(): Promise<void> {
    if (this.#stream !== undefined) return;
    const stream = (this.#stream = new EventSource(`${this.path}/stream`));
    const keep = (rows: readonly T[]): void => {
      this.at.value = new Date();
      this.#aside.push(...rows);
      this.#due ||= requestAnimationFrame(() => {
        this.#due = 0;
        this.#draw();
      });
    };
    stream.addEventListener(this.event, ({ data }) => keep([JSON.parse(data as string) as T]));
    stream.onerror = () => (this.error.value = 'the platform does not answer; it is asked again');
    stream.onopen = async () => {
      try {
        const rows = await json<readonly T[]>(this.path);
        // A platform that was started anew counts from one again.
        if ((rows[0]?.seq ?? 0) < (this.rows.peek()[0]?.seq ?? 0)) {
          this.#from = 0;
          this.rows.value = [];
        }
        keep(rows);
        this.error.value = undefined;
      } catch (reason) {
        this.error.value = String(reason);
      }
    };
  }

  #leave(): void {
    this.#stream?.close();
    this.#stream = undefined;
  }

  #draw(): void {
    const known = new Set(this.rows.peek().map(({ seq }) => seq));
    const fresh = [...new Map(this.#aside.filter(({ seq }) => seq > this.#from && !known.has(seq)).map((row) => [row.seq, row])).values()];
    if (this.paused.peek()) {
      this.#aside = fresh.slice(-most);
      this.missed.value = fresh.length;
      return;
    }
    this.#aside = [];
    this.missed.value = 0;
    if (fresh.length > 0) this.rows.value = [...fresh, ...this.rows.peek()].sort((a, b) => b.seq - a.seq).slice(0, most);
  }
}
