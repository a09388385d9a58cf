// What was pressed at this desk, and what became of it. A press is kept before it is sent, with the key under which it happens once: after a lost answer, a reload or a cut line the
// same press is asked for again and never made anew. It holds ids and words, no names of guests.
import { computed, signal } from '@preact/signals';

import { ProblemError, newKey, type Schemas, type StreamEvent } from '@melmastoon/bff/backoffice';

import { desk, explain, now, session } from './service.js';
import { refetch, type ViewName } from './views.js';

/**
 * `sent`: no answer yet. `pending`: the service has it, its end is not known. `unknown`: no word, it may be done or not. `done`, `failed` (it did not happen and
 * will not), `refused` (nothing was done), `lost` (too old to be asked for: it may be done or not).
 */
export type PressState = 'sent' | 'pending' | 'unknown' | 'done' | 'failed' | 'refused' | 'lost';

/** The routes behind the buttons, by the word that `can` has for them. */
export const routes = {
  'check-in': { operation: 'checkIn', id: 'reservationId', views: ['arrivals', 'in-house', 'dashboard'] },
  'check-out': { operation: 'checkOut', id: 'reservationId', views: ['departures', 'in-house', 'housekeeping', 'dashboard'] },
  'issue-key': { operation: 'issueKey', id: 'reservationId', views: [] },
  'extend-key': { operation: 'extendKey', id: 'reservationId', views: [] },
  'rebind-key': { operation: 'rebindKey', id: 'reservationId', views: [] },
  'revoke-key': { operation: 'revokeKey', id: 'reservationId', views: [] },
  charge: { operation: 'charge', id: 'folioId', views: ['dashboard'] },
  decide: { operation: 'decide', id: 'suggestionId', views: ['suggestions', 'dashboard'] },
  acknowledge: { operation: 'acknowledge', id: 'alertId', views: ['alerts', 'dashboard'] },
  task: { operation: 'moveTask', id: 'taskId', views: ['housekeeping', 'arrivals', 'dashboard'] },
  'work-order': { operation: 'moveWorkOrder', id: 'workOrderId', views: ['maintenance', 'dashboard'] },
  open: { operation: 'openWorkOrder', id: '', views: ['maintenance', 'dashboard'] },
} as const satisfies Record<string, { operation: string; id: string; views: readonly ViewName[] }>;
export type Route = keyof typeof routes;

export interface Press {
  readonly key: string;
  readonly at: string;
  readonly operatorId: string;
  readonly propertyId: string;
  readonly route: Route;
  /** What was pressed, in words of the service: `check-in`, `inspect`, `accepted`. */
  readonly step: string;
  /** What it is about. */
  readonly subject: string;
  readonly body?: unknown;
  readonly attestation?: string;
  readonly state: PressState;
  readonly ended?: string;
  /** Of a lock action, by which the stream names it. */
  readonly auditId?: string;
  readonly why?: string;
  readonly code?: string;
}

const place = 'melmastoon-desk-presses';
const longest = 60;

/** What this window waits for an answer about. */
const asking = new Set<string>();

/** Those of all windows. What was under way when a page was left has no answer any more. */
function kept(): readonly Press[] {
  try {
    const found = JSON.parse(localStorage.getItem(place) ?? '[]') as Press[];
    return found.map((press) => (press.state === 'sent' && !asking.has(press.key) ? { ...press, state: 'unknown' } : press));
  } catch {
    return [];
  }
}

/** The newest first. */
export const presses = signal<readonly Press[]>(kept());
addEventListener('storage', ({ key }) => key === place && (presses.value = kept()));
const open = (state: PressState): boolean => state === 'sent' || state === 'pending' || state === 'unknown';
export const mine = computed(() => presses.value.filter((press) => press.operatorId === session.value?.operatorId));
/** What has no end yet. */
export const unsettled = computed(() => mine.value.filter((press) => open(press.state)));
export const pressesOf = (subject: string): readonly Press[] => mine.value.filter((press) => press.subject === subject);
/** The press that another one has to wait for. */
export const underWay = (subject: string): Press | 'taken' | undefined => unsettled.value.find((press) => press.subject === subject) ?? (withoutLine.holds?.(subject) === true ? 'taken' : undefined);

const moment = (): string => new Date(now.peek()).toISOString();

/** Keeps a press for as long as it may have to be asked for; what was written with it goes when it has its end. */
function keep({ body, attestation, ...rest }: Press): void {
  const press: Press = open(rest.state) ? { ...rest, ...(body !== undefined && { body }), ...(attestation !== undefined && { attestation }) } : rest;
  const before = kept();
  const others = before.filter(({ key }) => key !== press.key);
  const at = before.findIndex(({ key }) => key === press.key);
  const all = at < 0 ? [press, ...others] : [...others.slice(0, at), press, ...others.slice(at)];
  // What is not settled is never forgotten.
  presses.value = all.filter((one, i) => i < longest || open(one.state));
  localStorage.setItem(place, JSON.stringify(presses.peek()));
}

/** How the desk takes down what is pressed while there is no line. */
export const withoutLine: { take?: (deed: Deed) => Promise<boolean>; holds?: (subject: string) => boolean } = {};

export interface Deed {
  readonly route: Route;
  readonly step: string;
  readonly subject: string;
  readonly body?: unknown;
  readonly attestation?: string;
}

const taking = new Set<string>();

/** Does what a button says, once. While an earlier press on the same thing has no end, nothing is sent. */
export async function press(deed: Deed): Promise<PressState | undefined> {
  const who = session.peek()?.operatorId;
  const propertyId = desk.propertyId;
  if (who === undefined || propertyId === undefined || (deed.route !== 'open' && underWay(deed.subject) !== undefined)) return undefined; // each report is another
  if (taking.has(deed.subject)) return undefined; // pressed twice, while the first is written
  taking.add(deed.subject);
  const taken = await Promise.resolve(withoutLine.take?.(deed)).finally(() => taking.delete(deed.subject));
  if (taken === true) return undefined;
  const made: Press = { ...deed, key: newKey(), at: moment(), operatorId: who, propertyId, state: 'sent' };
  keep(made);
  return send(made);
}

async function send(made: Press): Promise<PressState> {
  if (asking.has(made.key)) return made.state;
  asking.add(made.key);
  const { operation, id, views } = routes[made.route];
  const call = {
    path: { [id]: made.subject, transition: made.step },
    ...(made.body === undefined ? {} : { body: made.body }),
    headers: { 'X-Property-Id': made.propertyId, ...(made.attestation === undefined ? {} : { 'X-Mfa-Attestation': made.attestation }) },
    idempotencyKey: made.key,
  };
  let settled: Press;
  try {
    // The table above says which operation takes what.
    const { data } = await desk.call(operation as 'issueKey', call as never);
    settled = { ...made, ...outcome(data) };
  } catch (error) {
    settled = { ...made, ...failure(error, made.state !== 'sent') };
  } finally {
    asking.delete(made.key);
  }
  // The stream may have told the end before this answer was here, which then says less.
  const told = presses.peek().find(({ key }) => key === made.key);
  if (told !== undefined && !open(told.state)) return told.state;
  keep({ ...settled, ...(open(settled.state) ? {} : { ended: moment() }) });
  void refetch(views);
  return settled.state;
}

type Outcome = Pick<Press, 'state' | 'why' | 'code' | 'auditId'>;

function outcome(data: Partial<Schemas['LockAnswer']> | undefined): Outcome {
  if (data?.auditId === undefined) return { state: 'done' };
  const { auditId, state, reason: why } = data;
  return { auditId, state: state === 'pending' || state === 'failed' ? state : 'done', ...(why === undefined ? {} : { why }) };
}

/**
 * What a failure says of the deed. Only an answer of the service that it did nothing is a refusal; asked again, a refusal at the door (a sign-in that has ended, another
 * role) says nothing of what the press did before.
 */
function failure(error: unknown, again: boolean): Outcome {
  const why = explain(error);
  if (!(error instanceof ProblemError)) return { state: 'unknown', why };
  const code: string = error.code;
  // What is known is how the press with this key ended; in a conflict it is a colleague's press, which came first, and says nothing of this one.
  const known = code.endsWith('.STATE_CONFLICT') ? undefined : error.known?.outcome;
  if (known !== undefined) return { state: known === 'success' ? 'done' : known === 'unknown' ? 'lost' : 'refused', why, code };
  const door = error.status === 401 || error.status === 429 || code.endsWith('.IDEMPOTENCY_IN_FLIGHT') || (again && [403, 422, 426].includes(error.status));
  return { state: error.problem !== undefined && error.status >= 400 && error.status < 500 && !door ? 'refused' : 'unknown', why, code };
}

/** Asks what became of presses without an end, under the keys that they have: each happens once, however often it is asked for. */
export async function askAgain(which: readonly Press[] = unsettled.peek()): Promise<void> {
  for (const one of [...which].reverse()) if (one.state !== 'sent') await send(one);
}

/** Takes what the stream says of a key: the end of a press of this desk, if it is one. */
export function hear(event: StreamEvent): void {
  if (event.type !== 'lock_action.settled') return;
  const { auditId, action, reservationId, state, reason: why } = event.data;
  const named = unsettled.peek().find((one) => one.auditId === auditId);
  if (named !== undefined) {
    keep({ ...named, state: state === 'failed' ? 'failed' : 'done', ended: event.at, ...(why === undefined ? {} : { why }) });
    return;
  }
  // A press without an answer does not know the name that the audit has for it.
  void askAgain(unsettled.peek().filter((one) => one.auditId === undefined && one.subject === reservationId && one.step === `${action}-key`));
}
