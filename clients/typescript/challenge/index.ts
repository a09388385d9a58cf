import type { components } from '../consumer/schema.js';
import { searcher } from './search.js';
import { serve, type Task, type Told } from './serve.js';

/** What `GET /challenge` answers. */
export type Challenge = components['schemas']['Challenge'];

/** The part of a worker that the solver uses. */
export interface SolverWorker {
  postMessage(task: unknown): void;
  addEventListener(type: 'message', listener: (event: { data: unknown }) => void): void;
  addEventListener(type: 'error' | 'messageerror', listener: () => void): void;
  terminate(): unknown;
}

export interface SolveOptions {
  readonly signal?: AbortSignal;
  /** Told the share of all numbers that was tried, now and then. */
  readonly onProgress?: (share: number) => void;
  /** Makes the worker, for pages whose policy forbids workers made of text. */
  readonly worker?: () => SolverWorker;
}

/** Solves challenges; `solve` is one. */
export type Solver = (challenge: Challenge, options?: SolveOptions) => Promise<string>;

const most = 50_000_000; // what the server would ever ask for
const slice = 2_000; // a few milliseconds of work

/**
 * Solves a challenge and returns the payload for `X-Challenge`. In a browser it works beside the page;
 * where no worker starts, and in Node, in slices between which everything else runs.
 */
export const solve: Solver = async (challenge, options = {}) => {
  const { algorithm, maxnumber, salt, signature } = challenge;
  if (algorithm !== 'SHA-256') throw new Error(`cannot solve ${String(algorithm)}`);
  if (!Number.isInteger(maxnumber) || maxnumber < 0 || maxnumber > most) throw new Error('maxnumber is out of range');
  if (!/^[0-9a-f]{64}$/.test(challenge.challenge)) throw new Error('the challenge is no SHA-256');
  options.signal?.throwIfAborted();
  const begin = performance.now();
  const number = (await beside(challenge, options)) ?? (await inSlices(challenge, options));
  if (number < 0) throw new Error('no number solves this challenge');
  return btoa(JSON.stringify({ algorithm, challenge: challenge.challenge, number, salt, signature, took: Math.round(performance.now() - begin) }));
};

async function inSlices(task: Task, { signal, onProgress }: SolveOptions): Promise<number> {
  const search = searcher(task);
  for (let first = 0; first <= task.maxnumber; first += slice) {
    const number = search(first, Math.min(first + slice - 1, task.maxnumber));
    if (number >= 0) return number;
    onProgress?.(Math.min(1, (first + slice) / (task.maxnumber + 1)));
    await new Promise((resolve) => setTimeout(resolve));
    signal?.throwIfAborted();
  }
  return -1;
}

/** Solves in a worker. Returns undefined where there is none, or where it does not work. */
function beside(task: Task, { signal, onProgress, worker }: SolveOptions): Promise<number | undefined> {
  let running: SolverWorker;
  try {
    running = (worker ?? ofText)();
  } catch {
    return Promise.resolve(undefined);
  }
  return new Promise<number | undefined>((resolve, reject) => {
    running.addEventListener('error', () => resolve(undefined));
    running.addEventListener('messageerror', () => resolve(undefined));
    running.addEventListener('message', ({ data }) => {
      const told = data as Told;
      if ('number' in told) resolve(told.number);
      else onProgress?.(Math.min(1, told.done / (task.maxnumber + 1)));
    });
    signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
    running.postMessage({ challenge: task.challenge, salt: task.salt, maxnumber: task.maxnumber } satisfies Task);
  }).finally(() => running.terminate());
}

/** A worker made of the solver's own text: bundlers need no file for it. */
function ofText(): SolverWorker {
  if (typeof document === 'undefined') throw new Error('not a page');
  const url = URL.createObjectURL(new Blob([`(${String(serve)})(${String(searcher)}, self)`], { type: 'text/javascript' }));
  try {
    return new Worker(url);
  } finally {
    // The worker has its text already, or will report an error.
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }
}
