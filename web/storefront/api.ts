// The one guest of this page: calls of our own client, the session that they share, and what was said when one failed.
import { signal } from '@preact/signals';
import { ConsumerClient, ProblemError, type Schemas } from '@melmastoon/bff/consumer';
import { localized } from '@melmastoon/bff/values';

import { locale, read } from '../kit/i18n.js';

export type Session = Schemas['Session'];
export type Card = Schemas['ListingCard'];
export type Degradation = Schemas['Degradation'];

/** What the server had asked for when it wrote the page. */
export interface Begun {
  readonly session?: Session;
  readonly facets?: Schemas['FacetCatalog'];
  readonly search?: { readonly query: string; readonly at: string; readonly answer: Schemas['SearchResult']; readonly session: string; readonly brownout: string };
  readonly saver?: boolean;
}
export const begun: Begun = read<Begun>('data') ?? {};

/** A challenge is being solved. */
export const robot = signal(false);

async function solver(challenge: Schemas['Challenge'], options: { signal?: AbortSignal } = {}): Promise<string> {
  robot.value = true;
  try {
    const { solve } = await import('@melmastoon/bff/challenge'); // most guests never meet one
    return await solve(challenge, { ...options, worker: () => new Worker(document.body.dataset.worker ?? '', { type: 'module' }) });
  } finally {
    robot.value = false;
  }
}

/** Asks in the browser's own `Accept-Language`: a guest is known by it, and would be another with each language that is chosen here. */
export const api = new ConsumerClient({ baseUrl: '/bff/consumer/v1', solver });

export const session = signal<Session | undefined>(begun.session);
/** The session; a new guest's first call makes it, and every other call waits for that one. */
export const known: Promise<unknown> = begun.session ? follow() : renew();
export async function renew(): Promise<void> {
  session.value = await api.call('session').then(({ data }) => data).catch(() => session.peek());
  await follow();
}
/** Has the session in the language of the page, which a link may have chosen. */
async function follow(): Promise<void> {
  if (session.peek() === undefined || session.peek()?.locale === locale.locale) return;
  session.value = await api.call('setLocale', { body: { locale: locale.locale } }).then(({ data }) => data).catch(() => session.peek());
}

export const saver = signal(begun.saver ?? false);
export function setSaver(on: boolean): void {
  saver.value = on;
  document.cookie = `saver=${on ? 'on' : 'off'}; Path=/; Max-Age=31536000; SameSite=Lax`;
}

/** What went wrong, in the guest's words, with the code to tell the support. */
export interface Failed {
  readonly text: string;
  readonly code: string;
  readonly status: number;
}
export async function failed(error: unknown): Promise<Failed> {
  const { message } = await import('@melmastoon/bff/messages'); // sentences in seven languages, which most guests never need
  const problem = error instanceof ProblemError ? error : undefined;
  return { text: message<unknown>(error, locale.locale), code: problem?.problem?.requestId ?? '', status: problem?.status ?? 0 };
}

/** A guest who looks like a program solves the challenge while nothing else happens, so that saving and booking need not wait for it. */
export function proveInIdleTime(): void {
  const idle = window.requestIdleCallback ?? ((run: () => void) => setTimeout(run, 2_000));
  idle(() => {
    void (async () => {
      await known;
      const { data } = await api.call('challenge');
      if (/[?&]level=0&/.test(data.salt)) return; // not suspected of anything
      await api.call('session', { headers: { 'X-Challenge': await solver(data) } });
    })().catch(() => undefined); // the call that needs it tries again
  });
}

/** Reports a page, if the guest allows that. */
export function report(path: string): void {
  if (session.peek()?.consent.telemetry === true && !saver.peek()) void api.call('recordPageView', { body: { path } }).catch(() => undefined);
}

export const nameOf = (text: Schemas['LocalizedString']): string => localized(text, locale);
