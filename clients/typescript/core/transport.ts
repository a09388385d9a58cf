import type { LooseCall, Method } from './contract.js';
import { ProblemError, failureOf, parse } from './errors.js';

export interface TransportOptions {
  /** Where the API begins, such as `https://www.melmastoon.ghasi.io/bff/consumer/v1`. */
  readonly baseUrl: string;
  /** For tests, cookie jars and other runtimes; the platform's own otherwise. */
  readonly fetch?: typeof fetch;
  /** Sent along with every call, such as `Accept-Language`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** How long one attempt of a call may take, in milliseconds; 10,000 unless said. */
  readonly timeoutMs?: number;
  /** How often a call that may be repeated is tried again; 2 unless said. */
  readonly retries?: number;
  /** The longest wait before a call is tried again, in milliseconds; 10,000 unless said. A call that would wait longer fails. */
  readonly longestWaitMs?: number;
  /** For tests: returns after some time, or throws when the signal ends. */
  readonly sleep?: (ms: number, signal: AbortSignal | undefined) => Promise<void>;
}

export interface Outgoing extends LooseCall {
  readonly method: Method;
  readonly url: string;
  /** Sending it twice does no harm. */
  readonly repeatable: boolean;
}

export interface Incoming {
  readonly status: number;
  readonly data: unknown;
  readonly headers: Headers;
}

type Sent = Readonly<Record<string, string>>;

/** What a client adds to the attempts of one call. */
export interface Hooks {
  /** Headers of each attempt, such as a proof. */
  readonly sign?: () => Promise<Sent>;
  /** Told the headers of each answer. */
  readonly heard?: (headers: Headers) => void;
  /** Removes the cause of a failure and returns headers for the next attempt; undefined if it cannot. It ends by itself. */
  readonly mend?: (error: ProblemError) => Promise<Sent | undefined>;
}

/** Sends calls with a time limit, and sends them again where that is safe and makes sense. */
export class Transport {
  readonly base: string;
  readonly #options: TransportOptions;
  readonly #fetch: typeof fetch;
  readonly #credentials: 'include' | 'omit';

  constructor(options: TransportOptions, credentials: 'include' | 'omit') {
    this.base = options.baseUrl.replace(/\/+$/, '');
    this.#options = options;
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
    this.#credentials = credentials;
  }

  send(call: Outgoing, hooks: Hooks = {}): Promise<Incoming> {
    return this.#tried(call, hooks, (added) => this.#attempt(call, added, hooks));
  }

  /**
   * The lines of an answer that is read while it is made. Until it begins, the call is tried again like any other; afterwards each wait for more
   * has the time limit of an attempt. A loop that is left ends the answer.
   */
  async *lines(call: Outgoing, hooks: Hooks = {}): AsyncGenerator<string, void, undefined> {
    const { body, limits } = await this.#tried(call, hooks, (added) => this.#open(call, added, hooks));
    try {
      const reader = body.getReader();
      const decoder = new TextDecoder(); // holds back a character whose bytes are not all there
      for (let rest = '', done = false; !done; ) {
        const piece = await limits.keep(() => reader.read());
        ({ done } = piece);
        const lines = (rest + decoder.decode(piece.value, { stream: !done })).split('\n');
        rest = done ? '' : (lines.pop() ?? '');
        yield* lines.filter((line) => line !== '');
      }
    } finally {
      limits.end();
    }
  }

  async #tried<T>(call: Outgoing, hooks: Hooks, attempt: (added: Sent) => Promise<T>): Promise<T> {
    let added: Sent = {};
    for (let retry = 0; ; ) {
      try {
        return await attempt(added);
      } catch (error) {
        if (!(error instanceof ProblemError)) throw error;
        error.idempotencyKey = call.idempotencyKey;
        const mended = await hooks.mend?.(error);
        added = mended ?? {};
        if (mended !== undefined) continue;
        const wait = this.#wait(error, call, retry++);
        if (wait === undefined) throw error;
        await (this.#options.sleep ?? pause)(wait, call.signal);
      }
    }
  }

  /** How long to wait before the next attempt; undefined if there is none. */
  #wait(error: ProblemError, call: Outgoing, retry: number): number | undefined {
    if (retry >= (call.retries ?? this.#options.retries ?? 2)) return undefined;
    const after = error.retryAfterMs;
    // What was refused for its rate was not done, whatever it is.
    if (after === undefined || !(call.repeatable || error.code.endsWith('.RATE_LIMITED'))) return undefined;
    const wait = Math.max(after, 250 * 2 ** retry);
    // Clients that were refused together do not come back together.
    return wait > (this.#options.longestWaitMs ?? 10_000) ? undefined : wait * (1 + Math.random() / 2);
  }

  async #attempt(call: Outgoing, added: Sent, { sign, heard }: Hooks): Promise<Incoming> {
    const { init, limits } = await this.#prepare(call, added, sign);
    const { response, text } = await limits
      .keep(async () => {
        const response = await this.#fetch(call.url, init);
        return { response, text: await response.text() };
      })
      .finally(() => limits.end());
    heard?.(response.headers);
    if (!response.ok && response.status !== 304) throw failureOf(response, text);
    const data = text === '' ? undefined : parse(text);
    if (text !== '' && data === undefined) throw failureOf(response, text);
    return { status: response.status, data, headers: response.headers };
  }

  /** Begins an answer of lines. */
  async #open(call: Outgoing, added: Sent, { sign, heard }: Hooks): Promise<{ body: ReadableStream<Uint8Array>; limits: Limits }> {
    const { init, limits } = await this.#prepare(call, added, sign);
    try {
      const response = await limits.keep(() => this.#fetch(call.url, init));
      heard?.(response.headers);
      const media = response.headers.get('Content-Type')?.split(';', 1)[0];
      if (response.ok && media === 'application/x-ndjson' && response.body !== null) return { body: response.body, limits };
      throw failureOf(response, await limits.keep(() => response.text()));
    } catch (error) {
      limits.end();
      throw error;
    }
  }

  async #prepare(call: Outgoing, added: Sent, sign: Hooks['sign']): Promise<{ init: RequestInit; limits: Limits }> {
    const signed = await sign?.();
    call.signal?.throwIfAborted(); // nothing below waits before the signal is listened to
    const headers = new Headers(this.#options.headers);
    for (const [name, value] of Object.entries({ ...call.headers, ...signed, ...added })) {
      if (value !== undefined) headers.set(name, String(value));
    }
    const limits = new Limits(call.timeoutMs ?? this.#options.timeoutMs ?? 10_000, call.signal);
    const init: RequestInit = { method: call.method, headers, credentials: this.#credentials, signal: limits.signal };
    if (call.body !== undefined) {
      headers.set('Content-Type', 'application/json');
      init.body = JSON.stringify(call.body);
    }
    return { init, limits };
  }
}

/** The time limit of an attempt, and the caller's signal. */
class Limits {
  readonly #ms: number;
  readonly #caller: AbortSignal | undefined;
  readonly #ended = new AbortController();
  readonly #abort = (): void => this.#ended.abort();

  constructor(ms: number, caller: AbortSignal | undefined) {
    this.#ms = ms;
    this.#caller = caller;
    caller?.addEventListener('abort', this.#abort, { once: true });
  }

  /** Ends with the attempt. */
  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /** Waits for work of the attempt, as long as the limit allows. */
  async keep<T>(work: () => Promise<T>): Promise<T> {
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      this.#abort();
    }, this.#ms);
    try {
      return await work();
    } catch (cause) {
      this.#caller?.throwIfAborted();
      if (late) throw new ProblemError('TIMEOUT', `no answer within ${this.#ms} ms`, { cause });
      throw new ProblemError('NETWORK', 'no answer', { cause });
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends the attempt, and what of its answer was not read. */
  end(): void {
    this.#caller?.removeEventListener('abort', this.#abort);
    this.#abort();
  }
}

/** Returns after some time, or throws the signal's reason when it ends. */
function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    if (signal?.aborted === true) stop();
    else signal?.addEventListener('abort', stop, { once: true });
  });
}
