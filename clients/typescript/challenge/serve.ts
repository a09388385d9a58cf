import type { Puzzle } from './search.js';

/** What a worker is asked. */
export interface Task extends Puzzle {
  readonly maxnumber: number;
}

/** What a worker answers: its progress, and at the end the number, or -1. */
export type Told = { readonly done: number } | { readonly number: number };

interface Scope {
  onmessage: ((event: { data: Task }) => void) | null;
  postMessage: (told: Told) => void;
}

/** The program of a worker. Like the searcher it names nothing outside its own body. */
export function serve(searcher: (puzzle: Puzzle) => (first: number, last: number) => number, scope: Scope): void {
  scope.onmessage = ({ data }) => {
    const search = searcher(data);
    const slice = 20_000;
    for (let first = 0; first <= data.maxnumber; first += slice) {
      const number = search(first, Math.min(first + slice - 1, data.maxnumber));
      if (number >= 0) return scope.postMessage({ number });
      scope.postMessage({ done: first + slice });
    }
    scope.postMessage({ number: -1 });
  };
}
