// What is on the screen: every list is one answer of the service, with its moment and what is missing of it. Nothing is changed here: what may have changed is read again.
import { computed, signal, type ReadonlySignal } from '@preact/signals';

import { ProblemError, type Channel, type Schemas } from '@melmastoon/bff/backoffice';

import { source, type Loaded, type Source } from '../kit/load.js';
import { desk, explain, now, phase, propertyId } from './service.js';

export type Stay = Schemas['Stay'];
export type Task = Schemas['Task'];
export type WorkOrder = Schemas['WorkOrder'];
export type Suggestion = Schemas['Suggestion'];
export type Alert = Schemas['Alert'];
export type Widget = Schemas['WidgetAnswer'];

const said = <T>(ask: (signal: AbortSignal) => Promise<T>): Source<T> =>
  source((signal) => ask(signal).catch((error: unknown) => {
    if (signal.aborted) throw error;
    throw new Error(explain(error), { cause: error });
  }));

/** A dashboard whose widgets come one by one. */
export interface Board {
  readonly day: Schemas['Day'];
  readonly asOf: string;
  readonly expected: readonly string[];
  readonly widgets: ReadonlyMap<string, Widget>;
  /** Its last line has come. */
  readonly ended: boolean;
}

export const arrivals = said(async (signal) => (await desk.call('arrivals', { signal })).data);
export const departures = said(async (signal) => (await desk.call('departures', { signal })).data);
export const inHouse = said(async (signal) => (await desk.call('inHouse', { signal })).data);
export const housekeeping = said(async (signal) => (await desk.call('housekeepingBoard', { signal })).data);
export const maintenance = said(async (signal) => (await desk.call('maintenanceBoard', { signal })).data);
export const suggestions = said(async (signal) => (await desk.call('listSuggestions', { query: { propertyId: propertyId.peek(), limit: 50 }, signal })).data);
export const alerts = said(async (signal) => (await desk.call('listAlerts', { query: { propertyId: propertyId.peek(), limit: 50 }, signal })).data);
export const dashboard = said(lines);

/** The dashboard as it comes: each line is on the screen before the next one is there, over what was known before. */
async function lines(signal: AbortSignal): Promise<Board> {
  let board: Board | undefined;
  for await (const line of desk.dashboardLines({ signal })) {
    if ('shell' in line) {
      const known = dashboard.peek().data?.widgets ?? new Map<string, Widget>();
      board = { day: line.day, asOf: line.asOf, expected: line.widgets.map((widget) => widget.widgetId), widgets: known, ended: false };
    } else if (board !== undefined) {
      board = 'widgetId' in line ? { ...board, widgets: new Map(board.widgets).set(line.widgetId, line) } : { ...board, ended: true };
    }
    if (board !== undefined) dashboard.value = { ...dashboard.peek(), data: board, loading: true };
  }
  if (board === undefined) throw new Error('the dashboard is empty');
  return board;
}

const all = { arrivals, departures, 'in-house': inHouse, housekeeping, maintenance, suggestions, alerts, dashboard } as const;
export type ViewName = keyof typeof all;
export const viewNames = Object.keys(all) as ViewName[];

/** Parts of a notice and channels of a gap, as the views that show them. */
const shows: Readonly<Record<string, readonly ViewName[]>> = {
  today: [], arrivals: ['arrivals'], departures: ['departures'], 'in-house': ['in-house'], housekeeping: ['housekeeping'], maintenance: ['maintenance'], dashboard: ['dashboard'],
  'ai-inbox': ['suggestions'], 'alert-inbox': ['alerts'],
};
const ofChannel: Readonly<Record<Channel, readonly ViewName[]>> = {
  ai: ['suggestions'], alerts: ['alerts'], locks: [], sync: [], session: [], dashboard: ['arrivals', 'departures', 'in-house', 'housekeeping', 'maintenance', 'dashboard'],
};
export const viewsOf = (parts: readonly string[]): ViewName[] => [...new Set(parts.flatMap((part) => shows[part] ?? []))];
export const viewsOfChannels = (channels: readonly Channel[]): ViewName[] => [...new Set(channels.flatMap((channel) => ofChannel[channel]))];

let wanted = new Set<ViewName>();
let turn: Promise<void> | undefined;
let later: ReturnType<typeof setTimeout> | undefined;
let poor = 0;

/** Whether there is no answer, or one that is old or lacks something, but for those of others' roles. */
function wanting({ data, error, reason }: Loaded<unknown>): boolean {
  const { stale = false, degraded = [], widgets } = (data ?? {}) as Partial<Pick<Schemas['WorkbenchView'], 'degraded' | 'stale'> & Board>;
  const { cause } = reason instanceof Error ? reason : {};
  if (error !== undefined) return !(cause instanceof ProblemError && cause.status === 403);
  return stale || degraded.length > 0 || [...(widgets?.values() ?? [])].some(({ status }) => status !== 'ok' && status !== 'forbidden');
}

/** Reads views again. Notices come in swarms: what they name within a moment is read once. What came without some part is read again after a while: no notice says that a slow service is well. */
export function refetch(names: readonly ViewName[] = viewNames): Promise<void> {
  for (const name of names) wanted.add(name);
  turn ??= new Promise<void>((resolve) => setTimeout(resolve, 150)).then(async () => {
    const names = wanted;
    wanted = new Set();
    turn = undefined;
    await Promise.all([...names].map((name) => all[name].again()));
    const lacking = viewNames.filter((name) => wanting(all[name].peek()));
    clearTimeout(later);
    poor = lacking.length === 0 ? 0 : poor + 1;
    if (poor > 0) later = setTimeout(() => phase.peek() === 'open' && void refetch(lacking), Math.min(2_500 * 2 ** poor, 60_000));
  });
  return turn;
}

/** Forgets what was shown of another property or to another operator. */
export function forget(): void {
  for (const one of Object.values(all)) (one as Source<unknown>).value = { loading: false };
  fresh.value = new Map();
  seen.clear();
}

/** What appeared while the desk was open, and when: it stands out for a minute. */
export const fresh = signal<ReadonlyMap<string, number>>(new Map());
export const isFresh = (id: string): boolean => now.value - (fresh.value.get(id) ?? 0) < 60_000;
const seen = new Map<Source<unknown>, Set<string>>();

function watch<T>(of: Source<T>, ids: (data: T) => readonly string[]): void {
  of.subscribe(({ data, loading }) => {
    if (data === undefined || loading) return;
    const before = seen.get(of as Source<unknown>);
    const added = ids(data).filter((id) => before?.has(id) === false);
    seen.set(of as Source<unknown>, new Set(ids(data)));
    if (added.length > 0) fresh.value = new Map([...fresh.peek(), ...added.map((id) => [id, now.peek()] as const)]);
  });
}
watch(arrivals, (data) => data.items.filter((stay) => stay.status === 'confirmed').map((stay) => stay.reservationId));
watch(alerts, (data) => data.items.map((alert) => alert.alertId));
watch(suggestions, (data) => data.items.map((suggestion) => suggestion.suggestionId));

/** The house's own day; it is the same in every view. */
export const day: ReadonlySignal<Schemas['Day'] | undefined> = computed(() => arrivals.value.data?.day ?? dashboard.value.data?.day ?? housekeeping.value.data?.day);
export const zone = computed(() => day.value?.timeZone ?? 'UTC');

/** Every stay that is shown, wherever it is, and one of them. */
export const stays = (): Stay[] => [inHouse, arrivals, departures].flatMap((one) => one.value.data?.items ?? []);
export const findStay = (reservationId: string): Stay | undefined => stays().find((stay) => stay.reservationId === reservationId);
export const findWork = (id: string): Task | WorkOrder | undefined =>
  housekeeping.value.data?.items.find((one) => one.taskId === id) ?? maintenance.value.data?.items.find((one) => one.workOrderId === id);

/** Whether the room of a stay can be entered: its tasks are done, as far as the board knows. */
export function roomState(roomNumber: string | undefined): 'none' | 'ready' | 'not-ready' | 'unknown' {
  if (roomNumber === undefined) return 'none';
  const { data } = housekeeping.value;
  if (data === undefined || data.missing?.includes('tasks')) return 'unknown';
  return data.items.some((task) => task.roomNumber === roomNumber && task.kind !== 'stayover' && !['done', 'inspected'].includes(task.status)) ? 'not-ready' : 'ready';
}
