import type { Solver } from '../challenge/index.js';
import { address, type AnswerOf, type Arguments, type CallOf, type Conditional, type LooseCall, type Route, type Whole } from '../core/contract.js';
import type { ProblemError } from '../core/errors.js';
import { ulid } from '../core/keys.js';
import { Transport, type Hooks, type TransportOptions } from '../core/transport.js';
import type { components, operations, paths } from './schema.js';

/** Every named shape of the contract, such as `Schemas['ListingCard']`. */
export type Schemas = components['schemas'];

/** The operations that a front end may call. */
export type Operation = Exclude<keyof operations, 'consumeHandoff'>;

// Both tables are written from the contract (CONTRIBUTING.md, "a route"), and the compiler
// holds them to it: every operation is there, and stands where the contract has it.
const routes = {
  challenge: ['GET', '/challenge'],
  facets: ['GET', '/facets'],
  mintHandoff: ['POST', '/handoff'],
  hotel: ['GET', '/hotels/{propertyId}'],
  availability: ['GET', '/hotels/{propertyId}/availability'],
  search: ['POST', '/search'],
  searchMap: ['POST', '/search/map'],
  session: ['GET', '/session'],
  clearSession: ['POST', '/session/clear'],
  setConsent: ['POST', '/session/consent'],
  setCurrency: ['POST', '/session/currency'],
  setLocale: ['POST', '/session/locale'],
  suggest: ['GET', '/suggest'],
  recordClick: ['POST', '/telemetry/click'],
  recordFunnelStep: ['POST', '/telemetry/funnel'],
  recordPageView: ['POST', '/telemetry/page-view'],
  wishlist: ['GET', '/wishlist'],
  addToWishlist: ['POST', '/wishlist'],
  removeFromWishlist: ['DELETE', '/wishlist/{propertyId}'],
} as const satisfies { [K in Operation]: Route<paths, operations[K]> };

type Keyed = {
  [K in Operation]: operations[K]['parameters'] extends { header?: infer H } ? ('Idempotency-Key' extends keyof H ? K : never) : never;
}[Operation];

/** Operations that happen once however often they are sent. */
const once = {
  mintHandoff: true,
  addToWishlist: true,
  removeFromWishlist: true,
} as const satisfies Record<Keyed, true>;

/** Reports would count twice if they were sent twice. */
const counted = (template: string): boolean => template.startsWith('/telemetry/');

/** Where to search, in exactly one way. */
export type Place = Schemas['GeoQuery'];

/** What a call takes: what the contract requires of it, and nothing that it does not know. */
export type Call<K extends Operation> = CallOf<operations[K]>;

/** An answer that is no failure; its status tells which. */
export type Answer<K extends Operation> = AnswerOf<operations[K]>;

export interface ClientOptions extends TransportOptions {
  /** Solves the challenge of a call that was refused as a bot's: `solve` of `@melmastoon/bff/challenge`. Without it such a call fails. */
  readonly solver?: Solver;
}

/** A typed door to the anonymous service. */
export class ConsumerClient {
  readonly #transport: Transport;
  readonly #solver: Solver | undefined;
  #proving: Promise<void> | undefined;

  constructor(options: ClientOptions) {
    this.#transport = new Transport(options, 'include');
    this.#solver = options.solver;
  }

  /**
   * Calls an operation. A failure is thrown as a `ProblemError`.
   *
   * A call that may happen only once has an idempotency key, which its retries share.
   */
  call<K extends Operation>(operation: K, call: Call<K> & Conditional): Promise<Answer<K>>;
  call<K extends Operation>(operation: K, ...call: Arguments<Call<K>>): Promise<Whole<Answer<K>>>;
  async call<K extends Operation>(operation: K, call?: Call<K>): Promise<Answer<K>> {
    const given = (call ?? {}) as LooseCall;
    const headers: Record<string, unknown> = { ...given.headers };
    const key = given.idempotencyKey ?? headers['Idempotency-Key'] ?? headers['X-Idempotency-Key'] ?? (operation in once ? ulid() : undefined);
    if (key !== undefined && !('X-Idempotency-Key' in headers)) headers['Idempotency-Key'] = key;
    const [method, template] = routes[operation];
    const sent = { ...given, method, url: this.#transport.base + address(template, given), headers, repeatable: !counted(template) };
    const visit = this.#visit(operation, given.signal);
    try {
      const answer = await this.#transport.send((key === undefined ? sent : { ...sent, idempotencyKey: key }) as Parameters<Transport['send']>[0], visit);
      return answer as unknown as Answer<K>;
    } finally {
      visit.end();
    }
  }

  /** Solves a challenge when a call is refused, once. Calls that are refused meanwhile wait for that proof: it counts for the session. */
  #visit(operation: Operation, signal: AbortSignal | undefined): Hooks & { end: () => void } {
    let waited = false;
    let proved = false;
    let end = (): void => undefined;
    const mend = async (error: ProblemError): Promise<Record<string, string> | undefined> => {
      if (error.code !== 'MELMASTOON.BFF.CONSUMER.SUSPECTED_BOT' || this.#solver === undefined || proved || operation === 'challenge') return undefined;
      // A refusal that no solution would change has no link to a challenge.
      if (!error.headers?.get('Link')?.includes('/challenge')) return undefined;
      if (this.#proving !== undefined && !waited) {
        waited = true;
        await this.#proving;
        return {};
      }
      proved = true;
      const mine = new Promise<void>((resolve) => {
        end = () => {
          if (this.#proving === mine) this.#proving = undefined;
          resolve();
        };
      });
      this.#proving = mine;
      const { data } = await this.call('challenge', ...((signal === undefined ? [] : [{ signal }]) as [Call<'challenge'>?]));
      return { 'X-Challenge': await this.#solver(data, signal === undefined ? {} : { signal }) };
    };
    return { mend, end: () => end() };
  }
}
