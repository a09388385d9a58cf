// What a page reads of answers has a type. It is compiled and never run.
import type { Answer as StaffAnswer, BackofficeClient, Operation as StaffOperation, Schemas as Staff, StreamEvent } from '@melmastoon/bff/backoffice';
import { searchPages, type Answer, type ConsumerClient, type Operation, type Schemas } from '@melmastoon/bff/consumer';

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
/** The two types are the same: neither `any` nor `unknown` stands in for one. */
const same = <A, B>(yes: Same<A, B>): boolean => yes;

type Untyped<T> = unknown extends T ? true : false;
type Data<A> = A extends { data: infer D } ? D : never;
type Rows<D> = D extends { items: readonly (infer I)[] } ? I : D extends { results: readonly (infer I)[] } ? I : undefined;
type Unknown<A> = true extends Untyped<Data<A>> | Untyped<Rows<Data<A>>> ? true : false;
// Of every operation of both services.
same<{ [O in StaffOperation]: Unknown<StaffAnswer<O>> extends true ? O : never }[StaffOperation], never>(true);
same<{ [O in Operation]: Unknown<Answer<O>> extends true ? O : never }[Operation], never>(true);

export async function page(desk: BackofficeClient, api: ConsumerClient): Promise<void> {
  const { data: arrivals } = await desk.call('arrivals'); // without If-None-Match there is data
  for (const stay of arrivals.items) {
    same<string, typeof stay.guestName>(true);
    same<Staff['Stay'], typeof stay>(true);
    if (stay.can.includes('check-in')) await desk.call('checkIn', { path: { reservationId: stay.reservationId } });
  }
  const kept = await desk.call('arrivals', { headers: { 'If-None-Match': '"1"' } });
  if (kept.status === 304) same<undefined, typeof kept.data>(true);
  same<Staff['Task'], (typeof tasks)['items'][number]>(true);
  const { data: tasks } = await desk.call('housekeepingBoard');
  const { data: orders } = await desk.call('maintenanceBoard');
  same<Staff['WorkOrder'], (typeof orders)['items'][number]>(true);
  const { data: agenda } = await desk.call('today');
  same<'arrival' | 'departure' | 'task' | 'work_order', (typeof agenda)['items'][number]['kind']>(true);
  for (const widget of (await desk.call('dashboard')).data.widgets) draw(widget);
  for (const alert of (await desk.call('listAlerts')).data.items) same<string | undefined, typeof alert.title>(true);
  for (const idea of (await desk.call('listSuggestions')).data.items) {
    same<string | undefined, typeof idea.expiresAt>(true);
    same<{ [key: string]: unknown } | undefined, typeof idea.proposal>(true);
  }
  const { data: hotel } = await api.call('hotel', { path: { propertyId: 'ppt_1' } });
  same<string, typeof hotel.property.name.default>(true);
  const body: Schemas['SearchRequest'] = { geo: { mode: 'city', city: 'Kabul' }, dates: { checkIn: '2027-05-12', checkOut: '2027-05-15' }, occupancy: { adults: 2, rooms: 1 } };
  // @ts-expect-error a place is said in one way
  body.geo = { mode: 'point', city: 'Kabul' };
  for await (const page of searchPages(api, { body })) {
    for (const { propertyId, tenantId, rateSnapshot } of page.results) {
      // A card's total is what the hand-off takes.
      if (rateSnapshot) await api.call('mintHandoff', { body: { propertyId, tenantId, dates: body.dates, occupancy: body.occupancy, shown: rateSnapshot.total } });
    }
  }
}

/** A widget is drawn by its kind. */
function draw(widget: Staff['WidgetAnswer']): string {
  if (widget.data === undefined) return widget.errorCode ?? widget.status;
  switch (widget.widgetId) {
    case 'balance-due':
      return `${widget.data.amount.minor} ${widget.data.amount.currency}`;
    case 'occupancy-today':
      return `${widget.data.percent} %`;
    case 'notes':
      return widget.data.items.map((note) => note.text).join();
    case 'arrivals':
      // @ts-expect-error counts have no amount
      return String(widget.data.amount);
    // @ts-expect-error there is no such widget
    case 'moon-phase':
      return '';
    default:
      return widget.widgetId;
  }
}

/** An event is read by its type. */
export function read(event: StreamEvent): string {
  switch (event.type) {
    case 'dashboard.changed':
      return event.data.parts.join();
    case 'alert.raised':
      return event.data.alertId ?? '';
    case 'cursor.advanced':
      return String(event.data.cursorVersion);
    default:
      return event.channel;
  }
}
