import { address, type Arguments, type Conditional, type LooseCall, type Method, type Whole } from '../core/contract.js';
import { ProblemError, parse } from '../core/errors.js';
import { ulid } from '../core/keys.js';
import { Transport, type Hooks, type Incoming, type Outgoing, type TransportOptions } from '../core/transport.js';
import { Blackout, wipe, type BlackoutOptions, type Entry, type ReplayEntry, type Service, type Verdict } from './blackout.js';
import { Device } from './device.js';
import { once, routes, type Answer, type Call, type DashboardLine, type Operation, type Paged, type Schemas } from './routes.js';
import { outlived } from './shelf.js';
import { memoryStore, SignedOut, type SignIn, type Store } from './store.js';
import { StaffStream, type StreamOptions, type Unsigned } from './stream.js';

/** How long before its end an access token is refreshed. */
const renewAhead = 30_000;
/** How many of its own changes a client remembers, to drop their echo. */
const rememberedChanges = 1_000;

const ndjson = 'application/x-ndjson';

/** How a call is signed: bare, without a token; or by the sign-in of this operator and no other. */
interface Signer {
  readonly bare?: boolean;
  readonly operatorId?: string;
}

export interface BackofficeOptions extends TransportOptions {
  /** Where iam is: `/api/v1/auth/sign-in` is below it. */
  readonly iamUrl: string;
  /** Where the device keeps its key and its tokens; in memory unless said. */
  readonly store?: Store;
  /** What proofs name, if the service knows itself by another URL than `baseUrl`. */
  readonly publicUrl?: string;
  readonly appVersion: string;
  readonly appPlatform: 'win32' | 'darwin' | 'linux';
  /** The property that calls are about unless they say otherwise; it may change later. */
  readonly propertyId?: string;
}

/** Says which operator signs in, and what else iam wants to know. */
export interface Operator {
  readonly username?: string;
  readonly operatorId?: string;
  /** Needed by an operator of several tenants. */
  readonly tenantId?: string;
  readonly [more: string]: unknown;
}

/** There are entries that the service has not settled: send them, or sign out with `dropUnsent` once a person has said so. */
export class Unsent extends Error {
  readonly count: number;

  constructor(count: number) {
    super(`${count} entries are not settled`);
    this.name = 'Unsent';
    this.count = count;
  }
}

interface Tokens {
  readonly accessToken: string;
  readonly refreshToken: string;
  readonly expiresIn: number;
}

/** A typed door to the staff service, for one device. */
export class BackofficeClient {
  /** The property that calls are about unless they say otherwise. The `*` of a scope is none: `listProperties` names what it stands for. */
  propertyId: string | undefined;
  readonly #options: BackofficeOptions;
  readonly #transport: Transport;
  readonly #store: Store;
  readonly #nonces = new Map<string, string>(); // by origin
  readonly #own = new Set<string>(); // ids of the latest changes that were answered or are under way
  #device: Promise<Device> | undefined;
  #signIn: SignIn | undefined;

  constructor(options: BackofficeOptions) {
    this.#options = { ...options, baseUrl: absolute(options.baseUrl), iamUrl: absolute(options.iamUrl) };
    this.#transport = new Transport(this.#options, 'omit');
    this.#store = options.store ?? memoryStore();
    this.propertyId = options.propertyId;
  }

  /** The id of this device. */
  async deviceId(): Promise<string> {
    return (await this.#opened()).id;
  }

  /** Signs an operator in at iam, in place of the one before. */
  async signIn(operator: Operator): Promise<void> {
    const device = await this.#opened();
    const url = `${this.#options.iamUrl.replace(/\/+$/, '')}/api/v1/auth/sign-in`;
    const body = { ...operator, deviceId: device.id };
    const answer = await this.#exchange({ method: 'POST', url, body, repeatable: false }, { bare: true });
    await this.#store.exclusive(() => this.#adopt(tokensOf(answer)));
  }

  /** Whether an operator is signed in on this device, as far as it knows. */
  async signedIn(): Promise<boolean> {
    return (await this.#current()) !== undefined;
  }

  /** Exchanges the tokens for new ones. Calls do so by themselves when it is time. */
  async refresh(): Promise<void> {
    const current = await this.#current();
    if (current === undefined) throw new SignedOut();
    await this.#renew(current.refreshToken);
  }

  /**
   * Closes the session and forgets its tokens and all that was kept for a time without a line. The device keeps its key. Throws `Unsent`, with nothing done; what
   * else it throws says that the device has forgotten it all and that the service has not heard: there the session ends with its token.
   */
  async signOut({ dropUnsent = false } = {}): Promise<void> {
    const operatorId = await this.#operatorId();
    if (operatorId !== undefined && this.#store.records !== undefined) {
      const unsent = await wipe(this.#store.records, operatorId, dropUnsent);
      if (unsent > 0 && !dropUnsent) throw new Unsent(unsent);
    }
    try {
      await this.call('signOut');
    } catch (error) {
      // It had been closed already.
      if (!(error instanceof SignedOut || (error instanceof ProblemError && error.status === 401))) throw error;
    } finally {
      // The operator is signed out at this device, also when the service could not be told.
      await this.#store.exclusive(() => this.#adopt(undefined));
    }
  }

  /**
   * Calls an operation. A failure is thrown as a `ProblemError`, or as `SignedOut` if no operator is signed in.
   *
   * A change has an idempotency key, which its retries share. To ask what became of a change, call
   * again with the `idempotencyKey` of the error. A key that is older than a day is not tried any more:
   * the error's `known` then says what became of the change.
   */
  call<K extends Operation>(operation: K, call: Call<K> & Conditional): Promise<Answer<K>>;
  call<K extends Operation>(operation: K, ...call: Arguments<Call<K>>): Promise<Whole<Answer<K>>>;
  async call<K extends Operation>(operation: K, call?: Call<K>): Promise<Answer<K>> {
    return (await this.#exchange(this.#outgoing(operation, (call ?? {}) as LooseCall))) as unknown as Answer<K>;
  }

  /**
   * The dashboard line by line, as it is made: the shell, each widget as soon as it is known, the end. Should a widget come twice, the later line counts.
   *
   * To leave the loop ends the request. An answer that breaks off is thrown as a `ProblemError`; lines that came are good, and another call begins anew.
   */
  async *dashboardLines(...[call]: Arguments<Call<'dashboard'>>): AsyncGenerator<DashboardLine, void, undefined> {
    const sent = this.#outgoing('dashboard', (call ?? {}) as LooseCall, { Accept: ndjson, 'If-None-Match': undefined });
    yield* this.#lines<DashboardLine>(sent, this.#hooks(sent));
  }

  /** The desk of a property for the time without a line. Windows and properties share what the device keeps; an app has one for each property that it shows. */
  blackout(options: BlackoutOptions): Blackout {
    const { records } = this.#store;
    if (records === undefined) throw new Error('the store keeps no records');
    const service: Service = {
      deviceId: () => this.deviceId(),
      operatorId: () => this.#operatorId(),
      session: () => this.#learn(),
      pack: async (operatorId, propertyId, etag, signal) => {
        // What a line is worth is found out by one attempt, not by several.
        const call = { headers: { 'X-Property-Id': propertyId, 'If-None-Match': etag }, retries: 0, ...(signal === undefined ? {} : { signal }) };
        const { data, headers } = await this.#exchange(this.#outgoing('blackoutPack', call), { operatorId });
        return { etag: headers.get('ETag') ?? undefined, pack: data as Schemas['BlackoutPack'] | undefined };
      },
      replay: (...what) => this.#replay(...what),
      live: async (operatorId, entry, attestationId) => {
        const { key, about, propertyId, operation } = entry as Entry & { key: string };
        const headers = { 'X-Property-Id': propertyId, 'X-Mfa-Attestation': attestationId };
        const call = this.#outgoing(operation, { headers, idempotencyKey: key, ...(about?.body === undefined ? {} : { body: about.body }) });
        return (await this.#exchange({ ...call, url: this.#transport.base + about?.path }, { operatorId })).data as Schemas['Moved'] | Schemas['Posted'];
      },
    };
    return new Blackout(service, records, options);
  }

  async *#replay(operatorId: string, propertyId: string, entries: readonly ReplayEntry[], signal: AbortSignal | undefined): AsyncGenerator<Verdict, void, undefined> {
    const call: LooseCall = { path: { deviceId: await this.deviceId() }, headers: { 'X-Property-Id': propertyId, Accept: ndjson }, body: { entries }, timeoutMs: 60_000 };
    const sent = this.#outgoing('replay', signal === undefined ? call : { ...call, signal });
    for await (const line of this.#lines<Schemas['ReplayLine']>(sent, this.#hooks(sent, { operatorId }))) {
      if ('verdict' in line) yield line;
    }
  }

  /** The lines of an answer, up to the one that says that it is whole. */
  async *#lines<Line extends object>(sent: Outgoing, hooks: Hooks): AsyncGenerator<Line, void, undefined> {
    for await (const text of this.#transport.lines(sent, hooks)) {
      const line = parse(text) as Line | undefined;
      if (line === undefined) break;
      yield line;
      if ('end' in line) return;
    }
    throw new ProblemError('NETWORK', 'the answer broke off');
  }

  #outgoing(operation: Operation, given: LooseCall, added: Readonly<Record<string, string | undefined>> = {}): Outgoing {
    const [method, template] = routes[operation];
    const key = given.idempotencyKey ?? (operation in once ? ulid() : undefined);
    const headers: Record<string, string | number | boolean | readonly (string | number)[] | undefined> = {
      ...(this.propertyId === undefined || this.propertyId === '*' ? {} : { 'X-Property-Id': this.propertyId }), ...given.headers, ...added,
    };
    if (key !== undefined) headers['X-Idempotency-Key'] = key;
    const repeatable = method === 'GET' || key !== undefined || ['heartbeat', 'signOut', 'replay'].includes(operation);
    return { ...given, method, url: this.#transport.base + address(template, given), headers, repeatable, ...(key === undefined ? {} : { idempotencyKey: key }) };
  }

  /** The pages of a list, one after the other, as far as the loop asks for them. */
  async *pages<K extends Paged>(operation: K, ...[call]: Arguments<Call<K>>): AsyncGenerator<Extract<Answer<K>, { status: 200 }>['data'], void, undefined> {
    const given = (call ?? {}) as LooseCall;
    for (let cursor: string | undefined, first = true; first || cursor !== undefined; first = false) {
      const next = cursor === undefined ? given : { ...given, query: { ...given.query, cursor } };
      const { data } = await this.call(operation, ...([next] as unknown as Arguments<Call<K>>));
      const page = data as { nextCursor?: string } | undefined;
      if (page === undefined) return; // 304: the caller has it
      yield page as Extract<Answer<K>, { status: 200 }>['data'];
      cursor = page.nextCursor;
    }
  }

  /**
   * The stream of this device; `follow` begins it. The echo of a change that this client made is dropped, even when it is faster than the answer; that of
   * a change whose answer was lost is not.
   */
  stream(options: Omit<StreamOptions, 'baseUrl' | 'authorize' | 'fetch'>): StaffStream {
    const own = (requestId: string): boolean => this.#own.has(requestId) || (options.own?.(requestId) ?? false);
    const wired: StreamOptions = { ...options, own, baseUrl: this.#transport.base, authorize: (request) => this.#authorize(request) };
    return new StaffStream(this.#options.fetch === undefined ? wired : { ...wired, fetch: this.#options.fetch });
  }

  /** The headers that a request needs which this client does not send itself: those of the operator, the device and its proof, good for one attempt. */
  async headersFor(method: Method, url: string): Promise<Record<string, string>> {
    const property = this.propertyId === undefined || this.propertyId === '*' ? {} : { 'X-Property-Id': this.propertyId };
    return { ...property, ...(await this.#signed(method, url, this.#nonces.get(new URL(url).origin), (await this.#fresh()).accessToken)) };
  }

  async #authorize({ method, url, nonce, refresh }: Unsigned): Promise<Record<string, string>> {
    if (refresh) await this.refresh();
    return this.#signed(method, url, nonce, (await this.#fresh()).accessToken);
  }

  #exchange(call: Outgoing, as: Signer = {}): Promise<Incoming> {
    return this.#transport.send(call, this.#hooks(call, as));
  }

  /** Gives a call fresh proofs. A wrong clock is mended with the server's nonce and an ended token refreshed, once each. */
  #hooks(call: Outgoing, { bare = false, operatorId }: Signer = {}): Hooks {
    const { origin } = new URL(call.url);
    let skewed = false;
    let replayed = false;
    let renewed = false;
    let used: SignIn | undefined;
    let requestId: string | undefined;
    return {
      sign: async () => {
        if (operatorId !== undefined) this.#signIn = undefined; // another window may have signed another operator in
        used = bare ? undefined : await this.#fresh();
        if (operatorId !== undefined && used?.operatorId !== operatorId) throw new SignedOut();
        const signed = await this.#signed(call.method, call.url, this.#nonces.get(origin), used?.accessToken);
        if (bare || call.method === 'GET') return signed;
        requestId = this.#remember(ulid());
        return { ...signed, 'X-Request-Id': requestId };
      },
      heard: (headers) => {
        const offered = headers.get('DPoP-Nonce');
        // A clock that is right needs no nonce.
        if (offered !== null && this.#nonces.has(origin)) this.#nonces.set(origin, offered);
      },
      mend: async (error) => {
        // What a change without an answer did is news to this app as well.
        if (requestId !== undefined && (error.status === 0 || error.status >= 500)) this.#own.delete(requestId);
        if (error.status !== 401) return undefined;
        const code: string = error.code;
        const offered = error.headers?.get('DPoP-Nonce');
        if ((code.endsWith('.DPOP_INVALID') || code === 'USE_DPOP_NONCE') && offered != null && !skewed) {
          skewed = true;
          this.#nonces.set(origin, offered);
          return {};
        }
        // Browsers repeat requests by themselves when a connection breaks.
        if (code.endsWith('.DPOP_REPLAYED') && !replayed) {
          replayed = true;
          return {};
        }
        if (code.endsWith('.TOKEN_EXPIRED') && used !== undefined && !renewed) {
          renewed = true;
          await this.#renew(used.refreshToken);
          return {};
        }
        return undefined;
      },
    };
  }

  #remember(requestId: string): string {
    this.#own.add(requestId);
    const [oldest] = this.#own;
    if (this.#own.size > rememberedChanges && oldest !== undefined) this.#own.delete(oldest);
    return requestId;
  }

  async #signed(method: Method, url: string, nonce: string | undefined, token: string | undefined): Promise<Record<string, string>> {
    const device = await this.#opened();
    const { baseUrl, publicUrl = baseUrl, appVersion, appPlatform } = this.#options;
    const named = url.startsWith(this.#transport.base) ? publicUrl.replace(/\/+$/, '') + url.slice(this.#transport.base.length) : url;
    const headers = { DPoP: await device.prove({ method, url: named, token, nonce }), 'X-Device-Id': device.id, 'X-App-Version': appVersion, 'X-App-Platform': appPlatform };
    return token === undefined ? headers : { ...headers, Authorization: `DPoP ${token}` };
  }

  #opened(): Promise<Device> {
    this.#device ??= Device.open(this.#store).catch((error: unknown) => {
      this.#device = undefined; // a store that failed may be there the next time
      throw error;
    });
    return this.#device;
  }

  async #current(): Promise<SignIn | undefined> {
    await this.#opened();
    this.#signIn ??= (await this.#store.load())?.signIn;
    return this.#signIn;
  }

  /** Who is signed in, by what the service has said. */
  async #operatorId(): Promise<string | undefined> {
    return (await this.#store.load())?.signIn?.operatorId;
  }

  /** Asks who is signed in, and keeps it with the sign-in. */
  async #learn(): Promise<Schemas['Session']> {
    for (;;) {
      const { refreshToken } = await this.#fresh();
      const { data } = await this.call('session', { retries: 0 });
      const same = await this.#store.exclusive(async () => {
        const saved = await this.#store.load();
        this.#signIn = saved?.signIn;
        if (saved?.signIn === undefined) throw new SignedOut();
        if (saved.signIn.refreshToken !== refreshToken) return false; // what was said may be of the operator before
        this.#signIn = { ...saved.signIn, operatorId: data.operatorId };
        await this.#store.save({ ...saved, signIn: this.#signIn });
        return true;
      });
      if (same) return data;
    }
  }

  /** Tokens that are good for a while. */
  async #fresh(): Promise<SignIn> {
    const current = await this.#current();
    if (current === undefined) throw new SignedOut();
    if (Date.now() + renewAhead < current.expires) return current;
    return this.#renew(current.refreshToken);
  }

  /** Spends a refresh token, unless another call or window has spent it meanwhile: one that is used twice ends the sign-in. */
  #renew(spent: string): Promise<SignIn> {
    return this.#store.exclusive(async () => {
      const saved = await this.#store.load();
      const before = saved?.signIn;
      this.#signIn = before;
      if (saved === undefined || before === undefined) throw new SignedOut();
      if (before.refreshToken !== spent) return before;
      const retryKey = before.retryKey ?? ulid();
      await this.#store.save({ ...saved, signIn: { ...before, retryKey } });
      const call: Outgoing = {
        method: 'POST', url: `${this.#transport.base}/auth/refresh`, headers: { 'X-Idempotency-Key': retryKey }, body: { refreshToken: spent }, repeatable: true,
      };
      try {
        return (await this.#adopt(tokensOf(await this.#exchange(call, { bare: true })), before.operatorId)) as SignIn;
      } catch (error) {
        if (!(error instanceof ProblemError && error.status === 401) || error.code.endsWith('.DPOP_INVALID')) throw error;
        await this.#adopt(undefined);
        throw new SignedOut(error);
      }
    });
  }

  /** Keeps new tokens before they are used; undefined forgets them. Runs within the store's exclusive work. */
  async #adopt(tokens: Tokens | undefined, operatorId?: string): Promise<SignIn | undefined> {
    const saved = await this.#store.load();
    if (saved === undefined) throw new Error('the store has lost the device');
    const { id, keys } = saved;
    const signIn = tokens && {
      accessToken: tokens.accessToken, refreshToken: tokens.refreshToken, expires: Date.now() + tokens.expiresIn * 1_000, ...(operatorId === undefined ? {} : { operatorId }),
    };
    await this.#store.save(signIn === undefined ? { id, keys } : { id, keys, signIn });
    this.#signIn = signIn;
    // Packs name guests. Should this fail, the next look at them does it.
    if (operatorId === undefined) await this.#store.records?.change((have) => outlived(have, 0, undefined)).catch(() => undefined);
    return signIn;
  }
}

/** Proofs name whole URLs; a page may know the services by paths of its own origin. */
function absolute(url: string): string {
  return new URL(url, globalThis.location?.href).href;
}

function tokensOf({ data, status, headers }: Incoming): Tokens {
  const tokens = data as Partial<Tokens> | undefined;
  if (typeof tokens?.accessToken !== 'string' || typeof tokens.refreshToken !== 'string' || typeof tokens.expiresIn !== 'number') {
    throw new ProblemError('UNKNOWN', 'the answer has no tokens', { status, headers });
  }
  return tokens as Tokens;
}
