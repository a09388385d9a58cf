// The desk while the line is cut: what is on this computer stands in for the lists, what is pressed is taken down, and each entry gets the service's verdict. The client keeps it all.
import { computed, effect, signal } from '@preact/signals';

import { NotKept, Unsent, type Blackout, type BlackoutState, type Entry, type Offline, type Pack, type Pressed } from '@melmastoon/bff/backoffice';

import { say } from '../kit/i18n.js';
import { toast } from '../kit/parts.js';
import { keepPage } from '../kit/shell.js';
import { cutSince } from './line.js';
import { routes, withoutLine, type Deed } from './presses.js';
import { ahead, desk, now, phase, properties, propertyId, session, told, withoutLine as page } from './service.js';
import { arrivals, departures, findStay, findWork, housekeeping, inHouse, maintenance, refetch, stays } from './views.js';

export const state = signal<BlackoutState | undefined>(undefined);
/** Since when the desk is on its own. The stream knows first that the line is gone, the pack that it was gone before the page was loaded. */
export const alone = computed(() => {
  const since = cutSince.value ?? (state.value?.line === 'down' ? state.value.since : undefined);
  return since === undefined || !reloaded.value ? since : Math.min(since, state.value?.heardAt ?? since);
});
/** The page was loaded without a line: that was gone when the pack was new. */
const reloaded = signal(false);
/** The house as it was when the line was cut, until what others did meanwhile has been read. */
export const before = signal<Pack | undefined>(undefined);

let blackout: Blackout | undefined;
let following: AbortController | undefined;

/** Reads what this computer has of a house, and keeps it fresh. */
async function open(of: string): Promise<BlackoutState> {
  following?.abort();
  blackout?.close();
  blackout = desk.blackout({ propertyId: of, onChange: (next) => (state.value = next) });
  const mine = (following = new AbortController());
  const found = await blackout.read();
  void blackout.follow(mine.signal);
  return found;
}

function shut(): void {
  following?.abort();
  blackout?.close();
  [following, blackout, state.value, before.value] = [undefined, undefined, undefined, undefined];
}

/** Shows the desk of whoever was signed in when the page was loaded without a line. */
page.restore = async (): Promise<boolean> => {
  if (propertyId.peek() === '') return false;
  const found = await open(propertyId.peek());
  if (found.session === undefined) return false;
  properties.value = found.session.properties ?? [];
  desk.propertyId = propertyId.peek();
  session.value = found.session;
  ahead.value = found.ahead;
  reloaded.value = true;
  return true;
};

/** Lists that this page has not read, or read of the day before, are those of the pack. Others are shown as they were, with their moment. */
function standIn(pack: Pack, heardAt: number, turned: boolean): void {
  const at = told(heardAt);
  const { day, arrivals: coming, departures: leaving } = turned ? pack.next : pack;
  const fill = (source: { value: { data?: { readonly day: Pack['day'] } } }, view: string, items: readonly unknown[], of: Pack['day'], ...parts: readonly string[]): void => {
    if (source.value.data !== undefined && source.value.data.day.date >= of.date) return;
    const degraded = pack.degraded?.filter(({ part }) => parts.includes(part)).map((one) => ({ ...one, part: one.part.replace('next-', '') }));
    const data = { view, propertyId: pack.propertyId, day, asOf: at.toISOString(), stale: pack.stale, counts: {}, items, ...(degraded && { degraded }) };
    source.value = { ...source.value, data, at, loading: false } as typeof source.value;
  };
  const part = (name: string): string => (turned ? `next-${name}` : name);
  fill(arrivals, 'arrivals', coming, day, part('arrivals'));
  fill(inHouse, 'in-house', pack.inHouse, pack.day, 'in-house', 'rooms');
  fill(departures, 'departures', leaving, day, part('departures'));
  fill(housekeeping, 'housekeeping', pack.tasks, pack.day, 'tasks');
  fill(maintenance, 'maintenance', pack.workOrders, pack.day, 'work-orders');
}
/** The day of the pack is over. */
const turned = computed(() => now.value >= Date.parse(state.value?.pack?.day.endsAt ?? '9999-12-31'));

effect(() => {
  const who = phase.value === 'open' ? session.value?.operatorId : undefined;
  if (who === undefined || propertyId.value === '') shut();
  else if (blackout?.propertyId !== propertyId.value) void open(propertyId.value);
});

effect(() => {
  const { pack, heardAt, line } = state.value ?? {};
  if (alone.value === undefined || pack === undefined) return;
  before.value ??= pack;
  if (line === 'down') standIn(pack, heardAt ?? 0, turned.value);
});

// The line is back: what was taken down is sent, and every list is read.
let cut = false;
effect(() => {
  const is = alone.value !== undefined;
  if (is !== cut) blackout?.poke();
  if (cut && !is) {
    reloaded.value = false;
    void refetch();
  }
  cut = is;
});

// What a verdict says was done has changed the lists; the stream may have told of it before they were read.
let decided = 0;
effect(() => {
  const verdicts = (state.value?.entries ?? []).filter((entry) => entry.verdict !== undefined).length;
  if (verdicts > decided) void refetch();
  decided = verdicts;
});

const offline: ReadonlySet<string> = new Set<Offline>(['checkIn', 'checkOut', 'charge', 'moveTask', 'moveWorkOrder', 'openWorkOrder']);

/** What the page notes with an entry. It is sealed with it. */
export interface Note {
  readonly step: string;
  readonly subject: string;
  readonly room?: string;
  readonly guest?: string;
}
export const noteOf = (entry: Entry): Note | undefined => entry.about?.note as Note | undefined;

withoutLine.take = async ({ route, step, subject, body }: Deed): Promise<boolean> => {
  const { operation, id } = routes[route];
  if (alone.peek() === undefined || blackout === undefined) return false;
  if (!offline.has(operation)) {
    toast(say('blackout.cannot'));
    return true;
  }
  const stay = stays().find((one) => one.folioId === subject) ?? findStay(subject);
  const room = (stay ?? findWork(subject))?.roomNumber;
  const note: Note = { step, subject, ...(room === undefined ? {} : { room }), ...(stay === undefined ? {} : { guest: stay.guestName }) };
  try {
    await blackout.press(operation as Offline, { path: { [id]: subject, transition: step }, ...(body === undefined ? {} : { body }) } as unknown as Pressed<Offline>, { note });
  } catch (error) {
    if (!(error instanceof NotKept)) throw error;
    toast(say(`blackout.not.${error.reason}`));
  }
  return true;
};
withoutLine.holds = (subject) => takenOf(subject).some((entry) => entry.state === 'unsent' && entry.operation !== 'charge' && entry.operation !== 'openWorkOrder');

export const takenOf = (subject: string): readonly Entry[] => (state.value?.entries ?? []).filter((entry) => noteOf(entry)?.subject === subject);

export const drop = (entry: Entry): void => void blackout?.drop(entry.id);
export const again = (entry: Entry): void => void blackout?.again(entry.id).then(() => blackout?.poke());

/** Does what needs a second factor, with its code. */
export async function confirm(entry: Entry, code: string): Promise<void> {
  if (entry.verdict?.verdict !== 'needs_second_factor') return;
  const { scope, resourceId } = entry.verdict;
  const { data } = await desk.call('stepUp', { headers: { 'X-Property-Id': entry.propertyId }, body: { scope, resourceId, code } });
  await blackout?.confirm(entry.id, data.attestationId);
  void refetch();
}

/** Signs out; what is not sent is thrown away only if a person says so. */
page.leave = async (): Promise<boolean> => {
  try {
    await desk.signOut();
  } catch (error) {
    if (!(error instanceof Unsent)) throw error;
    if (!window.confirm(say('blackout.leave'))) return false;
    await desk.signOut({ dropUnsent: true });
  }
  return true;
};

keepPage('/desk');
