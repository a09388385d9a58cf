import type { AnswerOf, CallOf, Route } from '../core/contract.js';
import type { components, operations, paths } from './schema.js';

/** Every named shape of the contract, such as `Schemas['Dashboard']`. */
export type Schemas = components['schemas'];

/** One line of a dashboard: the shell, a widget, or the end. */
export type DashboardLine = Schemas['DashboardLine'];

/** The operations that an app calls. Refreshing and the stream have methods of their own. */
export type Operation = Exclude<keyof operations, 'refresh' | 'stream' | 'reauth'>;

// The compiler holds this table to the contract: every operation is there, and
// stands where the contract has it.
export const routes = {
  session: ['GET', '/session'],
  signOut: ['POST', '/auth/sign-out'],
  stepUp: ['POST', '/auth/mfa/step-up'],
  heartbeat: ['POST', '/devices/{deviceId}/heartbeat'],
  offlineHints: ['POST', '/devices/{deviceId}/offline-hints'],
  dashboard: ['GET', '/dashboard'],
  today: ['GET', '/today'],
  arrivals: ['GET', '/arrivals'],
  departures: ['GET', '/departures'],
  inHouse: ['GET', '/in-house'],
  housekeepingBoard: ['GET', '/housekeeping/board'],
  maintenanceBoard: ['GET', '/maintenance/board'],
  listSuggestions: ['GET', '/ai/suggestions'],
  listAlerts: ['GET', '/alerts'],
  listActivity: ['GET', '/activity'],
  findPreferences: ['GET', '/preferences'],
  replacePreferences: ['PUT', '/preferences'],
  listShortcuts: ['GET', '/keyboard-shortcuts'],
  handshake: ['POST', '/sync/handshake'],
  cursor: ['GET', '/sync/cursor'],
  moveCursor: ['POST', '/sync/cursor'],
  issueKey: ['POST', '/locks/{reservationId}/issue-key'],
  revokeKey: ['POST', '/locks/{reservationId}/revoke-key'],
  rebindKey: ['POST', '/locks/{reservationId}/rebind-key'],
  extendKey: ['POST', '/locks/{reservationId}/extend-key'],
  decide: ['POST', '/ai/suggestions/{suggestionId}/decide'],
  acknowledge: ['POST', '/alerts/{alertId}/acknowledge'],
  checkIn: ['POST', '/reservations/{reservationId}/check-in'],
  checkOut: ['POST', '/reservations/{reservationId}/check-out'],
  moveTask: ['POST', '/housekeeping/tasks/{taskId}/{transition}'],
  openWorkOrder: ['POST', '/maintenance/work-orders'],
  moveWorkOrder: ['POST', '/maintenance/work-orders/{workOrderId}/{transition}'],
  charge: ['POST', '/folios/{folioId}/charges'],
  refund: ['POST', '/folios/{folioId}/refunds'],
} as const satisfies { [K in Operation]: Route<paths, operations[K]> };

type Keyed = {
  [K in Operation]: operations[K]['parameters'] extends { header?: infer H } ? ('X-Idempotency-Key' extends keyof H ? K : never) : never;
}[Operation];

/** Operations that happen once however often they are sent. */
export const once = {
  offlineHints: true, replacePreferences: true, moveCursor: true, issueKey: true, revokeKey: true, rebindKey: true, extendKey: true, decide: true,
  acknowledge: true, checkIn: true, checkOut: true, moveTask: true, openWorkOrder: true, moveWorkOrder: true, charge: true, refund: true,
} as const satisfies Record<Keyed, true>;

/** The headers that the client sends by itself. */
type Own = 'DPoP' | 'X-Device-Id' | 'X-App-Version' | 'X-App-Platform' | 'X-Idempotency-Key';

/** What a call takes: what the contract requires of it, and nothing that it does not know. */
export type Call<K extends Operation> = CallOf<operations[K], Own>;

/** An answer that is no failure; its status tells which. */
export type Answer<K extends Operation> = AnswerOf<operations[K]>;

/** The operations whose answers come in pages. */
export type Paged = 'listSuggestions' | 'listAlerts' | 'listActivity';
