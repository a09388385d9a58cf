// Uses every entry that runs anywhere, as front ends do. It is compiled and never run.
import * as all from '@melmastoon/bff';
import { BackofficeClient, SignedOut, indexedDbStore, memoryStore, type StreamEvent } from '@melmastoon/bff/backoffice';
import { solve, type Challenge, type Solver } from '@melmastoon/bff/challenge';
import { ConsumerClient, CookieJar, ProblemError, searchPages, type Code, type Schemas } from '@melmastoon/bff/consumer';
import { message } from '@melmastoon/bff/messages';
import { addDays, dayOf, formatDay, formatList, formatMoney, localeInfo, nights, sum, today, toDecimal, toMinor, type LocaleInfo } from '@melmastoon/bff/values';

const body = {
  geo: { mode: 'city', city: 'Kabul' },
  dates: { checkIn: today('Asia/Kabul'), checkOut: addDays(dayOf(new Date()), 3) },
  occupancy: { adults: 2, rooms: 1 },
} as const;

export async function storefront(api: ConsumerClient): Promise<string> {
  const session: string = (await api.call('session')).data.sessionId;
  const words: LocaleInfo = (await api.call('session')).data.localeInfo;
  console.log(formatList([localeInfo('prs').name, words.name], words));
  for await (const page of searchPages(api, { body })) {
    for (const hotel of page.results satisfies Schemas['ListingCard'][]) {
      const { rateSnapshot } = hotel;
      if (rateSnapshot === null) continue;
      const money = rateSnapshot.total;
      console.log(formatMoney(sum(money, money), 'fa-AF'), toDecimal(toMinor('1.50', 'USD')), formatDay(body.dates.checkIn, 'fa-AF'), nights(body.dates.checkIn, body.dates.checkOut));
    }
  }
  const handoff = await api.call('mintHandoff', { body: { propertyId: 'ppt_1', tenantId: 'tnt_1', dates: body.dates, occupancy: body.occupancy }, timeoutMs: 5_000 });
  return session + handoff.data.url;
}

export function text(error: unknown): string {
  if (!(error instanceof ProblemError)) throw error;
  switch (error.code) {
    case 'MELMASTOON.BFF.CONSUMER.WISHLIST_LIMIT_EXCEEDED':
      return message(error, 'fa-AF');
    case 'UNKNOWN':
    case 'NETWORK':
    case 'TIMEOUT':
      return `${error.status} ${error.retryAfterMs ?? ''}`;
    // @ts-expect-error no code is called so
    case 'MELMASTOON.BFF.CONSUMER.WISHLIST_LIMIT_EXCEDED':
      return '';
    default:
      return error.code satisfies Code;
  }
}

export async function mistakes(api: ConsumerClient, desk: BackofficeClient): Promise<void> {
  // @ts-expect-error a search needs a body
  await api.call('search');
  // @ts-expect-error a search in a city names it
  await api.call('search', { body: { ...body, geo: { mode: 'city' } } });
  // @ts-expect-error and is no search around a point
  await api.call('searchMap', { body: { ...body, geo: { mode: 'city', city: 'Kabul', point: { lat: 34.5, lng: 69.2, radiusKm: 5 } } } });
  // @ts-expect-error there is no such operation
  await api.call('consumeHandoff');
  // @ts-expect-error nor this
  await desk.call('refreshh');
  // @ts-expect-error a hotel has an id
  await api.call('hotel', { query: {} });
  // @ts-expect-error a lock belongs to a reservation
  await desk.call('issueKey');
}

export async function frontDesk(signal: AbortSignal): Promise<StreamEvent[]> {
  const events: StreamEvent[] = [];
  const desk = new BackofficeClient({ baseUrl: '/', iamUrl: '/', store: 'indexedDB' in globalThis ? indexedDbStore() : memoryStore(), appVersion: '1.0.0', appPlatform: 'win32' });
  try {
    await desk.signIn({ username: 'parwana', tenantId: 'tnt_1' });
  } catch (error) {
    if (error instanceof SignedOut) return [];
  }
  desk.propertyId = (await desk.call('session')).data.propertyScope[0];
  console.log(formatDay(today('Asia/Kabul'), (await desk.call('session')).data.localeInfo, { beside: true }));
  await desk.call('issueKey', { path: { reservationId: 'rsv_1' } });
  await desk.call('replacePreferences', { body: {} as never, headers: { 'If-Match': '"1"' } });
  for await (const page of desk.pages('listAlerts', { query: { status: ['open'] } })) console.log(page.items.length);
  await desk.stream({ onEvent: (event) => events.push(event), onGap: () => undefined }).follow(signal);
  return events;
}

export const solver: Solver = (challenge: Challenge, options) => solve(challenge, { ...options, onProgress: (share) => console.log(share) });
export const clients = [new all.ConsumerClient({ baseUrl: '/', solver: all.solve, fetch: new CookieJar().fetch, headers: { 'Accept-Language': 'fa-AF' } }), all.BackofficeClient, all.formatMoney];
