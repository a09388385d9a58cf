import { address, type Arguments, type Conditional, type LooseCall, type Method, type Whole } from '../core/contract.js';
import { ProblemError, parse } from '../core/errors.js';
import { ulid } from '../core/keys.js';
import { Transport, type Hooks, type Incoming, type Outgoing, type TransportOptions } from '../core/transport.js';
import { Device } from './device.js';
import { once, routes, type Answer, type Call, type DashboardLine, type Operation, type Paged } from './routes.js';
import { memoryStore, type SignIn, type Store } from './store.js';
import { StaffStream, type StreamOptions, type Unsigned } from './stream.js';

/** How long before its end an access token is refreshed. */
const renewAhead = 30_000;

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

/** No operator is signed in on this device, or not any more: show the sign-in. */
export class SignedOut extends Error {
  constructor(cause?: unknown) {
    super('no operator is signed in', { cause });
    this.name = 'SignedOut';
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

  /** Closes the session and forgets its tokens. The device keeps its key. */
  async signOut(): Promise<void> {
    try {
      await this.call('signOut');
    } catch (error) {
      // It had been closed already.
      if (!(error instanceof SignedOut || (error instanceof ProblemError && error.status === 401))) throw error;
    }
    await this.#store.exclusive(() => this.#adopt(undefined));
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
    const sent = this.#outgoing('dashboard', (call ?? {}) as LooseCall, { Accept: 'application/x-ndjson', 'If-None-Match': undefined });
    for await (const text of this.#transport.lines(sent, this.#hooks(sent))) {
      const line = parse(text) as DashboardLine | undefined;
      if (line === undefined) break;
      yield line;
      if ('end' in line) return;
    }
    throw new ProblemError('NETWORK', 'the dashboard broke off');
  }

  #outgoing(operation: Operation, given: LooseCall, added: Readonly<Record<string, string | undefined>> = {}): Outgoing {
    const [method, template] = routes[operation];
    const key = given.idempotencyKey ?? (operation in once ? ulid() : undefined);
    const headers: Record<string, string | number | boolean | readonly (string | number)[] | undefined> = {
      ...(this.propertyId === undefined || this.propertyId === '*' ? {} : { 'X-Property-Id': this.propertyId }), ...given.headers, ...added,
    };
    if (key !== undefined) headers['X-Idempotency-Key'] = key;
    const repeatable = method === 'GET' || key !== undefined || operation === 'heartbeat' || operation === 'signOut';
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

  /** The stream of this device; `follow` begins it. */
  stream(options: Omit<StreamOptions, 'baseUrl' | 'authorize' | 'fetch'>): StaffStream {
    const wired: StreamOptions = { ...options, baseUrl: this.#transport.base, authorize: (request) => this.#authorize(request) };
    return new StaffStream(this.#options.fetch === undefined ? wired : { ...wired, fetch: this.#options.fetch });
  }

  async #authorize({ method, url, nonce, refresh }: Unsigned): Promise<Record<string, string>> {
    if (refresh) await this.refresh();
    return this.#signed(method, url, nonce, (await this.#fresh()).accessToken);
  }

  #exchange(call: Outgoing, { bare = false } = {}): Promise<Incoming> {
    return this.#transport.send(call, this.#hooks(call, bare));
  }

  /** Gives a call fresh proofs. A wrong clock is mended with the server's nonce and an ended token refreshed, once each. */
  #hooks(call: Outgoing, bare = false): Hooks {
    const { origin } = new URL(call.url);
    let skewed = false;
    let replayed = false;
    let renewed = false;
    let used: SignIn | undefined;
    return {
      sign: async () => {
        used = bare ? undefined : await this.#fresh();
        return this.#signed(call.method, call.url, this.#nonces.get(origin), used?.accessToken);
      },
      heard: (headers) => {
        const offered = headers.get('DPoP-Nonce');
        // A clock that is right needs no nonce.
        if (offered !== null && this.#nonces.has(origin)) this.#nonces.set(origin, offered);
      },
      mend: async (error) => {
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
        return (await this.#adopt(tokensOf(await this.#exchange(call, { bare: true })))) as SignIn;
      } catch (error) {
        if (!(error instanceof ProblemError && error.status === 401) || error.code.endsWith('.DPOP_INVALID')) throw error;
        await this.#adopt(undefined);
        throw new SignedOut(error);
      }
    });
  }

  /** Keeps new tokens before they are used; undefined forgets them. Runs within the store's exclusive work. */
  async #adopt(tokens: Tokens | undefined): Promise<SignIn | undefined> {
    const saved = await this.#store.load();
    if (saved === undefined) throw new Error('the store has lost the device');
    const { id, keys } = saved;
    const signIn = tokens && { accessToken: tokens.accessToken, refreshToken: tokens.refreshToken, expires: Date.now() + tokens.expiresIn * 1_000 };
    await this.#store.save(signIn === undefined ? { id, keys } : { id, keys, signIn });
    this.#signIn = signIn;
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
