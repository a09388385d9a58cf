// How calls and answers follow from the types that are generated of a contract.

export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE';

/** The row of an operation in a table of routes. */
export type Route<Paths, Operation> = {
  [P in keyof Paths]: {
    [M in Method]: Paths[P] extends { [L in Lowercase<M>]: infer O } ? (Operation extends O ? readonly [M, P] : never) : never;
  }[Method];
}[keyof Paths];

type Part<O, Name extends string> = O extends { parameters: { [N in Name]: infer P } } ? P : never;
type OptionalPart<O, Name extends string> = O extends { parameters: { [N in Name]?: infer P } } ? NonNullable<P> : never;
type Unless<T, Shape> = [T] extends [never] ? unknown : Shape;
type Content = { content: { 'application/json': unknown } };
type Body<O> = O extends { requestBody: infer B extends Content }
  ? { body: B['content']['application/json'] }
  : O extends { requestBody?: infer B }
    ? Unless<Extract<B, Content>, { body?: Extract<B, Content>['content']['application/json'] }>
    : unknown;
type Query<Q> = Unless<Q, Record<never, never> extends Q ? { query?: Q } : { query: Q }>;
type Headed<H, Known extends PropertyKey> = Unless<H, Record<never, never> extends Omit<H, Known> ? { headers?: Omit<H, Known> } : { headers: Omit<H, Known> }>;

/** What every call takes. */
export interface CallOptions {
  /** Ends the call, its retries and its waits. */
  readonly signal?: AbortSignal;
  /** How long one attempt may take; the client's own unless said. */
  readonly timeoutMs?: number;
  /** How often the call is tried again; the client's own unless said. */
  readonly retries?: number;
  /** Names a change that happens once however often it is sent; a fresh one unless said. */
  readonly idempotencyKey?: string;
}

/** What a call takes: what the contract requires of it, and nothing that it does not know. `Known` are headers that the client sends itself. */
export type CallOf<O, Known extends PropertyKey = never> = Query<OptionalPart<O, 'query'>> &
  Unless<Part<O, 'path'>, { path: Part<O, 'path'> }> &
  Body<O> &
  Headed<OptionalPart<O, 'header'>, Known> &
  CallOptions;

/** The second argument, which may be left out where nothing is required. */
export type Arguments<Call> = Record<never, never> extends Call ? [call?: Call] : [call: Call];

type Json<R> = R extends { content: { 'application/json': infer B } } ? B : undefined;
type Responses<O> = O extends { responses: infer R } ? R : never;
type Good<O> = Extract<keyof Responses<O>, 200 | 201 | 202 | 204 | 304>;

/** An answer that is no failure; its status tells which. */
export type AnswerOf<O> = {
  [S in Good<O>]: { readonly status: S; readonly data: Json<Responses<O>[S]>; readonly headers: Headers };
}[Good<O>];

/** A call that names what the caller has: it may be answered that this is still the answer (304), without data. */
export interface Conditional {
  readonly headers: { readonly 'If-None-Match': string };
}

/** The answer to a call that is not conditional: it has data. */
export type Whole<Answer> = Exclude<Answer, { readonly status: 304 }>;

type Value = string | number | boolean | readonly (string | number)[] | undefined;

/** A call without its types. */
export interface LooseCall extends CallOptions {
  readonly path?: Readonly<Record<string, string>>;
  readonly query?: Readonly<Record<string, Value>>;
  readonly headers?: Readonly<Record<string, Value>>;
  readonly body?: unknown;
}

/** The path and query of a call. */
export function address(template: string, { path, query }: LooseCall): string {
  const filled = template.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(path?.[name] ?? ''));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) search.set(name, String(value)); // lists stand between commas
  }
  const text = search.toString();
  return text === '' ? filled : `${filled}?${text}`;
}
