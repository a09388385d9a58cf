import { parse } from '../core/errors.js';
import { Parser, type Message } from './parser.js';
import type { components } from './schema.js';

export const channels = ['ai', 'alerts', 'sync', 'locks', 'session', 'dashboard'] as const;

export type Channel = (typeof channels)[number];

/** Something that happened, told apart by `type`. It holds ids, counts and states; what has changed is fetched. */
export type StreamEvent = components['schemas']['StreamEvent'] & {
  readonly id: string;
  readonly channel: Channel;
};

/** A request that needs a token and a proof of the device's key. */
export interface Unsigned {
  readonly method: 'GET' | 'POST';
  /** What the proof names, without a query. */
  readonly url: string;
  /** The server's nonce, for a device whose clock is wrong. */
  readonly nonce?: string;
  /** The token that was used last has ended, or is about to: refresh it. */
  readonly refresh: boolean;
}

/**
 * How a stream stands: it connects; it is told what was missed; it is live, said anew with each ping; the device proves itself anew; or it waits
 * before it is tried again.
 */
export type StreamState =
  | { readonly phase: 'connecting' | 'catching-up' | 'live' | 'proving' }
  | { readonly phase: 'waiting'; readonly retryInMs: number };

export interface StreamOptions {
  /** Where the API begins, such as `https://staff.melmastoon.ghasi.io/bff/backoffice/v1`. */
  readonly baseUrl: string;
  /** Returns `Authorization`, `DPoP` and `X-Device-Id`, with a fresh proof each time. */
  readonly authorize: (request: Unsigned) => Promise<Readonly<Record<string, string>>>;
  readonly onEvent: (event: StreamEvent) => void;
  /** What was missed on these channels is not known: fetch them again. */
  readonly onGap: (channels: readonly Channel[]) => void;
  /** Told how the stream stands whenever that changes: what a page shows is as fresh as its stream. */
  readonly onState?: (state: StreamState) => void;
  /** Tells the app's own requests: their echo is dropped, as that of requests named by `sent`. */
  readonly own?: (requestId: string) => boolean;
  /** Called before each wait while there is no stream: fetch inboxes with their ETags. */
  readonly poll?: () => Promise<void>;
  /** The `id` that was read last, in an earlier life of the app. */
  readonly lastEventId?: string;
  readonly fetch?: typeof fetch;
  /** For tests: returns after some time, or when the signal ends. */
  readonly sleep?: (ms: number, signal: AbortSignal) => Promise<void>;
  /** How long a stream may be silent, in milliseconds; four pings of the server unless said. */
  readonly silence?: number;
}

/** The service refuses the stream, and would again: sign in, or update the app. */
export class StreamRefused extends Error {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string) {
    super(`the stream is refused: ${status} ${code}`);
    this.name = 'StreamRefused';
    this.status = status;
    this.code = code;
  }
}

const firstRetry = 1_000;
const longestRetry = 30_000;
const rememberedRequests = 1_000;

/** Follows the stream of a device. Whatever happens, the app has everything or is told what to fetch. */
export class StaffStream {
  readonly #options: StreamOptions;
  readonly #base: string;
  readonly #fetch: typeof fetch;
  readonly #sent = new Set<string>();
  #last: string | undefined;
  #nonce: string | undefined;
  #retry = firstRetry;

  constructor(options: StreamOptions) {
    this.#options = options;
    this.#base = options.baseUrl.replace(/\/+$/, '');
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
    this.#last = options.lastEventId;
  }

  /** The `id` that was read last, to be kept over restarts of the app. */
  get lastEventId(): string | undefined {
    return this.#last;
  }

  /** Names a request of this app (`X-Request-Id` of its answer): its own echo is dropped. */
  sent(requestId: string): void {
    this.#sent.add(bare(requestId));
    if (this.#sent.size > rememberedRequests) {
      for (const oldest of this.#sent) {
        this.#sent.delete(oldest);
        break;
      }
    }
  }

  #own(requestId: string): boolean {
    return this.#sent.has(requestId) || (this.#options.own?.(requestId) ?? false);
  }

  /** Follows until the signal ends, or a newer stream of the device takes over. Throws `StreamRefused`. */
  async follow(signal: AbortSignal): Promise<'aborted' | 'superseded'> {
    const sleep = this.#options.sleep ?? pause;
    for (let failures = 0; !signal.aborted; ) {
      let wait: number | undefined;
      this.#state({ phase: 'connecting' });
      try {
        const end = await this.#once(signal);
        if (end === 'superseded') return end;
        failures = 0;
        wait = end;
      } catch (error) {
        if (error instanceof StreamRefused) throw error;
        failures++;
      }
      if (signal.aborted) break;
      if (failures > 0 || wait !== undefined) await this.#poll();
      const retryInMs = wait ?? Math.min(this.#retry * 2 ** Math.min(failures, 5), longestRetry);
      this.#state({ phase: 'waiting', retryInMs });
      await sleep(retryInMs, signal);
    }
    return 'aborted';
  }

  #state(state: StreamState): void {
    this.#options.onState?.(state);
  }

  async #poll(): Promise<void> {
    try {
      await this.#options.poll?.();
    } catch {
      // The stream names what was missed when it is back.
    }
  }

  /** Reads one connection to its end. Returns how long to wait, if the server says so. */
  async #once(signal: AbortSignal): Promise<'superseded' | number | undefined> {
    const connection = new AbortController();
    const stop = (): void => connection.abort();
    signal.addEventListener('abort', stop, { once: true });
    try {
      const response = await this.#open(connection.signal);
      if (response.status === 200 && response.body !== null) return await this.#read(response.body, connection);
      await response.body?.cancel();
      return retryAfter(response);
    } finally {
      signal.removeEventListener('abort', stop);
      connection.abort();
    }
  }

  /** Connects. A wrong clock is mended with the server's nonce and an ended token refreshed, once each. */
  async #open(signal: AbortSignal): Promise<Response> {
    let refresh = false;
    for (let skewed = false; ; ) {
      const response = await this.#send('GET', '/sse/stream', refresh, signal);
      if (response.status < 400 || response.status === 429 || response.status >= 500) return response;
      const code = await codeOf(response);
      const nonce = response.headers.get('WWW-Authenticate')?.includes('use_dpop_nonce') ?? false;
      if (nonce && !skewed) skewed = true;
      else if (code.endsWith('.TOKEN_EXPIRED') && !refresh) refresh = true;
      else throw new StreamRefused(response.status, code);
    }
  }

  async #send(method: 'GET' | 'POST', path: string, refresh: boolean, signal: AbortSignal): Promise<Response> {
    const url = this.#base + path;
    const unsigned: Unsigned = { method, url, refresh };
    const headers = new Headers(await this.#options.authorize(this.#nonce === undefined ? unsigned : { ...unsigned, nonce: this.#nonce }));
    if (method === 'GET') {
      headers.set('Accept', 'text/event-stream');
      if (this.#last !== undefined) headers.set('Last-Event-ID', this.#last);
    }
    const response = await this.#fetch(url, { method, headers, signal });
    this.#nonce = response.headers.get('DPoP-Nonce') ?? this.#nonce;
    return response;
  }

  async #read(body: ReadableStream<Uint8Array>, connection: AbortController): Promise<'superseded' | undefined> {
    this.#state({ phase: 'catching-up' });
    const parser = new Parser();
    const decoder = new TextDecoder();
    const silence = this.#options.silence ?? 60_000;
    let timer = setTimeout(() => connection.abort(), silence);
    try {
      for await (const piece of body) {
        clearTimeout(timer);
        timer = setTimeout(() => connection.abort(), silence);
        for (const message of parser.push(decoder.decode(piece, { stream: true }))) {
          if (message.event === 'superseded') return 'superseded';
          this.#take(message, connection.signal);
        }
      }
    } finally {
      clearTimeout(timer);
    }
    return undefined;
  }

  #take(message: Message, signal: AbortSignal): void {
    if (message.retry !== undefined) this.#retry = message.retry;
    const before = this.#last;
    if (message.id !== '') this.#last = message.id;
    switch (message.event) {
      case 'ready':
        if (before === undefined) this.#options.onGap(channels);
        this.#state({ phase: 'live' });
        return;
      case 'ping':
        this.#state({ phase: 'live' });
        this.#compare(before, (parse(message.data) as { heads?: Record<string, string> } | undefined)?.heads);
        return;
      case 'gap':
        this.#options.onGap((parse(message.data) as { channels?: Channel[] } | undefined)?.channels ?? channels);
        return;
      case 'reauth':
        // Without it the stream ends cleanly and is resumed with a fresh token.
        this.#state({ phase: 'proving' });
        void this.#send('POST', '/sse/reauth', true, signal)
          .then((r) => r.body?.cancel(), () => undefined)
          .then(() => signal.aborted || this.#state({ phase: 'live' }));
        return;
    }
    if (!(channels as readonly string[]).includes(message.event)) return;
    const event = parse(message.data) as components['schemas']['StreamEvent'] | undefined;
    if (event === undefined) {
      this.#options.onGap([message.event as Channel]);
    } else if (event.causedBy === undefined || !this.#own(bare(event.causedBy))) {
      this.#options.onEvent({ ...event, id: message.id, channel: message.event as Channel });
    }
  }

  /** Names the channels whose heads are beyond what was read. */
  #compare(seen: string | undefined, heads: Record<string, string> | undefined): void {
    if (seen === undefined || heads === undefined) return;
    const missed = channels.filter((channel) => {
      const head = heads[channel];
      return head !== undefined && beyond(head, seen);
    });
    if (missed.length > 0) this.#options.onGap(missed);
  }
}

/** Ids are `epoch-seq`: the first names the life of a log, the second only grows. */
function beyond(head: string, seen: string): boolean {
  const [epoch, seq] = head.split('-');
  const [seenEpoch, seenSeq] = seen.split('-');
  return epoch !== seenEpoch || Number(seq) > Number(seenSeq);
}

/** The id without its prefix: answers carry it bare, events with it. */
function bare(requestId: string): string {
  return requestId.replace(/^req_/, '');
}

function retryAfter(response: Response): number | undefined {
  const seconds = Number(response.headers.get('Retry-After'));
  return seconds > 0 ? seconds * 1_000 : firstRetry;
}

async function codeOf(response: Response): Promise<string> {
  return (parse(await response.text()) as { error?: { code?: string } } | undefined)?.error?.code ?? '';
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done, { once: true });
  });
}
