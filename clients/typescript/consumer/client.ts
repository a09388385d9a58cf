import { ProblemError, type Problem } from './problem.js';
import type { components, operations, paths } from './schema.js';

/** Every named shape of the contract, such as `Schemas['ListingCard']`. */
export type Schemas = components['schemas'];

/** The operations that a front end may call. */
export type Operation = Exclude<keyof operations, 'consumeHandoff'>;

type Method = 'GET' | 'POST' | 'DELETE';

// The compiler holds this table to the contract: every operation is there, and
// stands where the contract has it.
const routes = {
  search: ['POST', '/search'],
  searchMap: ['POST', '/search/map'],
  suggest: ['GET', '/suggest'],
  facets: ['GET', '/facets'],
  hotel: ['GET', '/hotels/{propertyId}'],
  availability: ['GET', '/hotels/{propertyId}/availability'],
  wishlist: ['GET', '/wishlist'],
  addToWishlist: ['POST', '/wishlist'],
  removeFromWishlist: ['DELETE', '/wishlist/{propertyId}'],
  mintHandoff: ['POST', '/handoff'],
  session: ['GET', '/session'],
  setLocale: ['POST', '/session/locale'],
  setCurrency: ['POST', '/session/currency'],
  setConsent: ['POST', '/session/consent'],
  clearSession: ['POST', '/session/clear'],
  recordClick: ['POST', '/telemetry/click'],
  recordPageView: ['POST', '/telemetry/page-view'],
  recordFunnelStep: ['POST', '/telemetry/funnel'],
  challenge: ['GET', '/challenge'],
} as const satisfies { [K in Operation]: Route<K> };

type Route<K extends Operation> = {
  [P in keyof paths]: {
    [M in Method]: operations[K] extends paths[P][Lowercase<M>] ? readonly [M, P] : never;
  }[Method];
}[keyof paths];

/** Operations that happen once however often they are sent. */
const once: ReadonlySet<Operation> = new Set<Operation>(['addToWishlist', 'removeFromWishlist', 'mintHandoff']);

type Parameters<K extends Operation> = operations[K]['parameters'];
type Part<K extends Operation, Name extends string> = Parameters<K> extends { [N in Name]: infer P } ? P : never;
type Query<K extends Operation> = NonNullable<Parameters<K>['query']>;
type Needed<T> = Record<never, never> extends T ? { query?: T } : { query: T };
type Body<K extends Operation> = operations[K] extends { requestBody: { content: { 'application/json': infer B } } } ? B : never;
type Unless<T, Shape> = [T] extends [never] ? unknown : Shape;

/** What a call takes: what the contract requires of it, and nothing it does not know. */
export type Call<K extends Operation> = Needed<Query<K>> &
  Unless<Part<K, 'path'>, { path: Part<K, 'path'> }> &
  Unless<Body<K>, { body: Body<K> }> & {
    headers?: NonNullable<Parameters<K>['header']>;
    signal?: AbortSignal;
  };

type Json<R> = R extends { content: { 'application/json': infer B } } ? B : undefined;
type Responses<K extends Operation> = operations[K]['responses'];
type Good<K extends Operation> = Extract<keyof Responses<K>, 200 | 201 | 202 | 204 | 304>;

/** An answer that is no failure; its status tells which. */
export type Answer<K extends Operation> = {
  [S in Good<K>]: { readonly status: S; readonly data: Json<Responses<K>[S]>; readonly headers: Headers };
}[Good<K>];

export interface ClientOptions {
  /** Where the API begins, such as `https://www.melmastoon.ghasi.io/bff/consumer/v1`. */
  readonly baseUrl: string;
  /** For tests and other runtimes; the platform's own otherwise. */
  readonly fetch?: typeof fetch;
  /** Sent along with every call, such as `Accept-Language`. */
  readonly headers?: Readonly<Record<string, string>>;
}

/** A typed door to the anonymous service. */
export class ConsumerClient {
  readonly #base: string;
  readonly #fetch: typeof fetch;
  readonly #headers: Readonly<Record<string, string>>;

  constructor(options: ClientOptions) {
    this.#base = options.baseUrl.replace(/\/+$/, '');
    this.#fetch = options.fetch ?? ((input, init) => fetch(input, init));
    this.#headers = options.headers ?? {};
  }

  /**
   * Calls an operation. A failure is thrown as a `ProblemError`.
   *
   * A call that may happen only once gets a fresh idempotency key. To try such a
   * call again after a broken connection, give it a key of your own and give the
   * second attempt the same one.
   */
  async call<K extends Operation>(operation: K, call: Call<K>): Promise<Answer<K>> {
    const { path, query, headers, body, signal } = call as Loose;
    const sent = new Headers(this.#headers);
    for (const [name, value] of Object.entries(headers ?? {})) {
      if (value !== undefined) sent.set(name, String(value));
    }
    if (once.has(operation) && !sent.has('Idempotency-Key') && !sent.has('X-Idempotency-Key')) {
      sent.set('Idempotency-Key', crypto.randomUUID());
    }
    const init: RequestInit = { method: routes[operation][0], headers: sent, credentials: 'include' };
    if (body !== undefined) {
      sent.set('Content-Type', 'application/json');
      init.body = JSON.stringify(body);
    }
    if (signal !== undefined) init.signal = signal;
    const response = await this.#fetch(this.#base + address(routes[operation][1], path, query), init);
    if (!response.ok && response.status !== 304) throw await problemOf(response);
    const data: unknown = response.status === 204 || response.status === 304 ? undefined : await response.json();
    return { status: response.status, data, headers: response.headers } as unknown as Answer<K>;
  }
}

type Value = string | number | boolean | readonly (string | number)[] | undefined;

interface Loose {
  path?: Record<string, string>;
  query?: Record<string, Value>;
  headers?: Record<string, Value>;
  body?: unknown;
  signal?: AbortSignal;
}

function address(template: string, path: Loose['path'], query: Loose['query']): string {
  const filled = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(path?.[name] ?? ''));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) search.set(name, String(value)); // lists stand between commas
  }
  return search.size > 0 ? `${filled}?${search}` : filled;
}

async function problemOf(response: Response): Promise<Error> {
  const media = response.headers.get('Content-Type')?.split(';', 1)[0];
  if (media !== 'application/problem+json') return new Error(`unexpected answer with status ${response.status}`);
  const { error } = (await response.json()) as { error: Problem };
  return new ProblemError(error);
}
