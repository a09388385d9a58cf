import type { components } from './schema.js';

/** The error document of the contract. */
export type Problem = components['schemas']['Problem']['error'];

/** A refused call. Programs decide by `code`; `problem.userMessageKey` names a text for people. */
export class ProblemError extends Error {
  readonly code: string;
  readonly status: number;
  readonly problem: Problem;

  constructor(problem: Problem) {
    super(`${problem.code}: ${problem.detail}`);
    this.name = 'ProblemError';
    this.code = problem.code;
    this.status = problem.status;
    this.problem = problem;
  }

  /** When trying again makes sense, in milliseconds; undefined if it does not. */
  get retryAfterMs(): number | undefined {
    if (!this.problem.retriable) return undefined;
    return (this.problem.retryAfter ?? 1) * 1000;
  }
}
