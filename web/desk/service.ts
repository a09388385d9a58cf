// The staff service as this desk calls it, and the operator who is signed in at it.
import { computed, signal } from '@preact/signals';

import { BackofficeClient, ProblemError, SignedOut, indexedDbStore, type Schemas } from '@melmastoon/bff/backoffice';
import { message } from '@melmastoon/bff/messages';

import { locale } from '../kit/i18n.js';
import { json } from '../kit/load.js';
import { param } from '../kit/url.js';

export type Session = Schemas['Session'];
export type Property = Schemas['Property'];

/** The key of this device is made by WebCrypto and cannot be exported; the client keeps it in IndexedDB, for all windows. */
export const desk = new BackofficeClient({
  baseUrl: '/bff/backoffice/v1', iamUrl: '/iam', store: indexedDbStore(), appVersion: '1.0.0', appPlatform: platform(), headers: { 'Accept-Language': locale.locale }, retries: 1,
});

export type Phase = 'starting' | 'unreached' | 'signed-out' | 'open';
export const phase = signal<Phase>('starting');
/** Why the sign-in is shown, or why the desk is not: a text of the page, or words of the service. */
export const reason = signal('');
export const session = signal<Session | undefined>(undefined);
export const properties = signal<readonly Property[]>([]);

/** The property that is looked at is part of the address. */
export const propertyId = param('property');
export const property = computed(() => properties.value.find((one) => one.propertyId === propertyId.value));

/** The clock of the service, by which moments are shown; a computer's own may be wrong. */
export const now = signal(Date.now());
export const ahead = signal(0);
setInterval(() => (now.value = Date.now() + ahead.value), 1_000);
/** A moment of this computer's clock by that of the service. */
export const told = (here: number): Date => new Date(here + ahead.value);

/** What a failure means in the operator's language. A sign-in that has ended shows the sign-in. */
export function explain(error: unknown): string {
  if (error instanceof SignedOut) {
    phase.value = 'signed-out';
    session.value = undefined;
  }
  return error instanceof ProblemError && error.code.endsWith('.TENANT_SUSPENDED') ? (reason.value = message(error, locale.locale)) : message(error, locale.locale);
}

/** What the blackout desk does for a page that has no line. */
export const withoutLine: { restore?: () => Promise<boolean>; leave?: () => Promise<boolean> } = {};

/** Shows the desk of whoever is signed in on this device, or the sign-in. */
export async function enter(): Promise<void> {
  try {
    if (!(await desk.signedIn())) {
      phase.value = 'signed-out';
      return;
    }
    await readSession();
    if (session.peek() !== undefined) phase.value = 'open';
  } catch (error) {
    reason.value = explain(error);
    if (phase.peek() === 'signed-out') return;
    // A reload without a line: the desk goes on with what is on this computer.
    phase.value = error instanceof ProblemError && error.problem === undefined && (await withoutLine.restore?.()) === true ? 'open' : 'unreached';
  }
}

/** Reads who the operator is and the properties of the scope, and keeps to one of them. */
export async function readSession(): Promise<void> {
  const { data } = await desk.call('session');
  ahead.value = Date.parse(data.serverTime) - Date.now();
  let known = data.properties ?? [];
  if (data.properties === undefined || (data.propertyCount ?? 0) > known.length) {
    known = [];
    for await (const page of desk.pages('listProperties')) known.push(...page.items);
  }
  properties.value = known;
  if (!known.some((one) => one.propertyId === propertyId.peek())) propertyId.value = known[0]?.propertyId ?? '';
  desk.propertyId = propertyId.peek();
  session.value = data;
}

export async function signIn(username: string, tenantId: string): Promise<void> {
  reason.value = '';
  try {
    await desk.signIn({ username, tenantId });
    await enter();
  } catch (error) {
    reason.value = explain(error);
  }
}

export async function signOut(why = ''): Promise<void> {
  // Without a line the service learns of it when the token ends.
  if ((await (withoutLine.leave ?? (() => desk.signOut().then(() => true)))().catch(explain)) === false) return;
  reason.value = why;
  session.value = undefined;
  phase.value = 'signed-out';
}

export interface Person {
  readonly username: string;
  readonly displayName: string;
  readonly locked?: boolean;
  readonly memberships: readonly { readonly tenantId: string; readonly tenantName: string; readonly tenantStatus: string; readonly roles: readonly string[] }[];
}

/** Who can sign in: the simulated platform's people. */
export async function people(): Promise<readonly Person[]> {
  return (await json<{ operators: Person[] }>('/_sim/operators')).operators;
}

export const hasRole = (...roles: readonly string[]): boolean => session.value?.roles.some((role) => roles.includes(role)) ?? false;
export const canReadActivity = (): boolean => hasRole('general_manager', 'owner');

function platform(): 'win32' | 'darwin' | 'linux' {
  return /Mac/.test(navigator.userAgent) ? 'darwin' : /Windows/.test(navigator.userAgent) ? 'win32' : 'linux';
}
