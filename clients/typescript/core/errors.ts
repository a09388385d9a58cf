import type { components as backoffice } from '../backoffice/schema.js';
import type { components as consumer } from '../consumer/schema.js';
import type { MessageKey } from '../messages/catalogue.js';
import type { Code } from './codes.js';

type Wire = consumer['schemas']['Problem']['error'] | backoffice['schemas']['Problem']['error'];

/** What the staff service knows of a change whose key is too old. */
export type KnownMutation = backoffice['schemas']['KnownMutation'];

/** The error document of the contracts. */
export type Problem = Omit<Wire, 'code' | 'userMessageKey'> & { readonly code: Code; readonly userMessageKey: MessageKey; readonly known?: KnownMutation };

/**
 * What went wrong: a code of the service, or one of this client.
 *
 * - `UNKNOWN`: the answer is not the service's, such as a proxy's page; `status` is the answer's
 * - `NETWORK`: there is no answer
 * - `TIMEOUT`: there is no answer within the time limit
 */
export type FailureCode = Code | 'UNKNOWN' | 'NETWORK' | 'TIMEOUT';

export interface FailureDetails {
  readonly status?: number;
  readonly problem?: Problem;
  readonly headers?: Headers;
  readonly cause?: unknown;
}

/** A call that failed. Programs decide by `code`; `message(error, locale)` is the text for people. */
export class ProblemError extends Error {
  readonly code: FailureCode;
  /** Of the answer; 0 if there is none. */
  readonly status: number;
  /** The service's own words; undefined if the answer is not the service's. */
  readonly problem: Problem | undefined;
  /** Of the answer. */
  readonly headers: Headers | undefined;
  /** Names the change that was tried: give it to the same call to try that change again. */
  idempotencyKey: string | undefined;

  constructor(code: FailureCode, message: string, details: FailureDetails = {}) {
    super(`${code}: ${message}`, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = 'ProblemError';
    this.code = code;
    this.status = details.status ?? 0;
    this.problem = details.problem;
    this.headers = details.headers;
  }

  /**
   * What became of a change, if its key is too old to try it again (`…IDEMPOTENCY_KEY_EXPIRED`); undefined otherwise.
   * Show it to the operator: only `success` was done for certain, and only `none`, `failure` and `denied` were not.
   */
  get known(): KnownMutation | undefined {
    return this.problem?.known;
  }

  /** When the same call may succeed, in milliseconds; undefined if waiting does not help. */
  get retryAfterMs(): number | undefined {
    if (this.problem === undefined) {
      const unanswered = this.code === 'NETWORK' || this.code === 'TIMEOUT';
      if (!unanswered && ![429, 502, 503, 504].includes(this.status)) return undefined;
      return Number(this.headers?.get('Retry-After')) * 1_000 || 250;
    }
    if (!this.problem.retriable) return undefined;
    return (this.problem.retryAfter ?? 1) * 1_000;
  }
}

/** Reads a failure. The body of a foreign answer is dropped: it may hold anything. */
export function failureOf(response: Response, text: string): ProblemError {
  const { status, headers } = response;
  const media = headers.get('Content-Type')?.split(';', 1)[0] ?? 'no content type';
  if (status >= 400 && media.endsWith('json')) {
    const problem = (parse(text) as { error?: Problem } | undefined)?.error;
    if (typeof problem?.code === 'string') return new ProblemError(problem.code, problem.detail ?? 'refused', { status, problem, headers });
  }
  return new ProblemError('UNKNOWN', `unexpected answer with status ${status} (${media})`, { status, headers });
}

/** The value of a JSON text; undefined if it is none. */
export function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
