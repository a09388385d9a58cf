// What a page knows of something that it asked for: the last answer, when it came, and why there is none or no newer one.
import { signal, type Signal } from '@preact/signals';

export interface Loaded<T> {
  readonly data?: T;
  readonly at?: Date;
  readonly error?: string;
  readonly reason?: unknown;
  readonly loading: boolean;
}

export interface Source<T> extends Signal<Loaded<T>> {
  again(): Promise<void>;
}

/** A source that is read with `again`. An answer that is overtaken is dropped; after a failure the last answer stays, with the reason. */
export function source<T>(ask: (signal: AbortSignal) => Promise<T>): Source<T> {
  const state = signal<Loaded<T>>({ loading: false });
  let asking = new AbortController();
  const again = async (): Promise<void> => {
    asking.abort();
    const mine = (asking = new AbortController());
    state.value = { ...state.peek(), loading: true };
    try {
      const data = await ask(mine.signal);
      if (asking === mine) state.value = { data, at: new Date(), loading: false };
    } catch (reason) {
      if (asking === mine) state.value = { ...state.peek(), loading: false, error: reason instanceof Error ? reason.message : String(reason), reason };
    }
  };
  return Object.assign(state, { again });
}

/** Runs at once and then again and again, but not while the page is hidden or the last run is not done. Call the result to end it. */
export function every(ms: number, run: () => Promise<unknown>): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let running = false;
  let ended = false;
  const turn = async (): Promise<void> => {
    clearTimeout(timer);
    if (running || ended || document.hidden) return;
    running = true;
    await run().catch(() => undefined); // a source keeps its own failure
    running = false;
    if (!ended && !document.hidden) timer = setTimeout(() => void turn(), ms);
  };
  const shown = (): void => void turn();
  document.addEventListener('visibilitychange', shown);
  void turn();
  return () => {
    ended = true;
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', shown);
  };
}

/** JSON of this page's own server. A refusal has its words. */
export async function json<T>(path: string, init: RequestInit = {}): Promise<T> {
  const answer = await fetch(path, { ...init, headers: { Accept: 'application/json', ...(init.body ? { 'Content-Type': 'application/json' } : {}), ...init.headers } });
  const text = await answer.text();
  const body: unknown = (answer.headers.get('Content-Type') ?? '').includes('json') && text !== '' ? JSON.parse(text) : undefined;
  if (!answer.ok) {
    const said = (body as { error?: { message?: string }; detail?: string } | undefined) ?? {};
    throw new Error(said.error?.message ?? said.detail ?? `${answer.status} ${text.slice(0, 200)}`);
  }
  return body as T;
}
