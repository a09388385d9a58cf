import type { AnswerOf, CallOf, Route } from '../core/contract.js';
import type { components, operations, paths } from './schema.js';

/** Every named shape of the contract, such as `Schemas['Dashboard']`. */
export type Schemas = components['schemas'];

/** One line of a dashboard: the shell, a widget, or the end. */
export type DashboardLine = Schemas['DashboardLine'];

/** The operations that an app calls. Refreshing and the stream have methods of their own. */
export type Operation = Exclude<keyof operations, 'refresh' | 'stream' | 'reauth'>;

// Both tables are written from the contract (CONTRIBUTING.md, "a route"), and the compiler
// holds them to it: every operation is there, and stands where the contract has it.
export const routes = {
  listActivity: ['GET', '/activity'],
  listSuggestions: ['GET', '/ai/suggestions'],
  decide: ['POST', '/ai/suggestions/{suggestionId}/decide'],
  listAlerts: ['GET', '/alerts'],
  acknowledge: ['POST', '/alerts/{alertId}/acknowledge'],
  arrivals: ['GET', '/arrivals'],
  stepUp: ['POST', '/auth/mfa/step-up'],
  signOut: ['POST', '/auth/sign-out'],
  blackoutPack: ['GET', '/blackout'],
  dashboard: ['GET', '/dashboard'],
  departures: ['GET', '/departures'],
  heartbeat: ['POST', '/devices/{deviceId}/heartbeat'],
  offlineHints: ['POST', '/devices/{deviceId}/offline-hints'],
  replay: ['POST', '/devices/{deviceId}/replay'],
  charge: ['POST', '/folios/{folioId}/charges'],
  refund: ['POST', '/folios/{folioId}/refunds'],
  housekeepingBoard: ['GET', '/housekeeping/board'],
  moveTask: ['POST', '/housekeeping/tasks/{taskId}/{transition}'],
  inHouse: ['GET', '/in-house'],
  listShortcuts: ['GET', '/keyboard-shortcuts'],
  extendKey: ['POST', '/locks/{reservationId}/extend-key'],
  issueKey: ['POST', '/locks/{reservationId}/issue-key'],
  rebindKey: ['POST', '/locks/{reservationId}/rebind-key'],
  revokeKey: ['POST', '/locks/{reservationId}/revoke-key'],
  maintenanceBoard: ['GET', '/maintenance/board'],
  openWorkOrder: ['POST', '/maintenance/work-orders'],
  moveWorkOrder: ['POST', '/maintenance/work-orders/{workOrderId}/{transition}'],
  findPreferences: ['GET', '/preferences'],
  replacePreferences: ['PUT', '/preferences'],
  listProperties: ['GET', '/properties'],
  checkIn: ['POST', '/reservations/{reservationId}/check-in'],
  checkOut: ['POST', '/reservations/{reservationId}/check-out'],
  session: ['GET', '/session'],
  cursor: ['GET', '/sync/cursor'],
  moveCursor: ['POST', '/sync/cursor'],
  handshake: ['POST', '/sync/handshake'],
  today: ['GET', '/today'],
} as const satisfies { [K in Operation]: Route<paths, operations[K]> };

type Keyed = {
  [K in Operation]: operations[K]['parameters'] extends { header?: infer H } ? ('X-Idempotency-Key' extends keyof H ? K : never) : never;
}[Operation];

/** Operations that happen once however often they are sent. */
export const once = {
  decide: true,
  acknowledge: true,
  offlineHints: true,
  charge: true,
  refund: true,
  moveTask: true,
  extendKey: true,
  issueKey: true,
  rebindKey: true,
  revokeKey: true,
  openWorkOrder: true,
  moveWorkOrder: true,
  replacePreferences: true,
  checkIn: true,
  checkOut: true,
  moveCursor: true,
} as const satisfies Record<Keyed, true>;

/** The headers that the client sends by itself. */
type Own = 'DPoP' | 'X-Device-Id' | 'X-App-Version' | 'X-App-Platform' | 'X-Idempotency-Key';

/** What a call takes: what the contract requires of it, and nothing that it does not know. */
export type Call<K extends Operation> = CallOf<operations[K], Own>;

/** An answer that is no failure; its status tells which. */
export type Answer<K extends Operation> = AnswerOf<operations[K]>;

/** The operations whose answers come in pages. */
export type Paged = 'listSuggestions' | 'listAlerts' | 'listActivity' | 'listProperties';
