// What Chromium runs, on one page after the other. Each page tells its server what it found, and goes where that says.
import { BackofficeClient, indexedDbStore, type Store } from '@melmastoon/bff/backoffice';
import { solve, type Challenge } from '@melmastoon/bff/challenge';
import { ConsumerClient, ProblemError, searchPages } from '@melmastoon/bff/consumer';
import { message, messages, type MessageKey } from '@melmastoon/bff/messages';
import { addDays, formatDay, formatList, formatMoney, formatNumber, fromSolarHijri, localeInfo, today, toSolarHijri } from '@melmastoon/bff/values';

interface Setting {
  readonly consumer: string;
  readonly backoffice: string;
  readonly iam: string;
  readonly challenge: Challenge;
}

declare const setting: Setting;

let byWorkers = 0; // what workers have solved
globalThis.Worker = class extends Worker {
  constructor(url: string | URL, options?: WorkerOptions) {
    super(url, options);
    this.addEventListener('message', ({ data }) => {
      if ('number' in (data as object)) byWorkers++;
    });
  }
};

/** Machines that run tests are slow and busy. */
const patient = { timeoutMs: 60_000, retries: 5 };
const checkIn = addDays(today('Asia/Kabul'), 30);
const stay = { dates: { checkIn, checkOut: addDays(checkIn, 3) }, occupancy: { adults: 2, rooms: 1 } };

/** A guest, on another origin than the API's. */
async function guest(): Promise<unknown> {
  let solved = 0;
  const api = new ConsumerClient({
    ...patient,
    baseUrl: setting.consumer,
    solver: (challenge, options) => {
      solved++;
      return solve(challenge, options);
    },
  });
  const sessions = [(await api.call('session')).data.sessionId, (await api.call('session')).data.sessionId];
  const hotels = [];
  for await (const page of searchPages(api, { body: { ...stay, geo: { mode: 'city', city: 'Kabul' } } })) {
    hotels.push(...page.results);
    if (hotels.length >= 40) break;
  }
  const [first] = hotels;
  if (first === undefined) throw new Error('no hotels');
  const { propertyId, tenantId } = first;
  await api.call('addToWishlist', { body: { propertyId, source: 'list' } });
  const { size } = (await api.call('wishlist')).data;
  const { url } = (await api.call('mintHandoff', { body: { ...stay, propertyId, tenantId } })).data;
  const refused = await api.call('hotel', { path: { propertyId: 'ppt_00000000000000000000000000' } }).catch((error: unknown) => error);
  const code = refused instanceof ProblemError ? refused.code : String(refused);
  return { sessions: new Set(sessions).size, hotels: new Set(hotels.map((h) => h.propertyId)).size, size, token: new URL(url).searchParams.has('h'), code, solved: solved > 0, beside: byWorkers === solved };
}

/** A page whose policy forbids workers. */
async function strict(): Promise<unknown> {
  const { number } = JSON.parse(atob(await solve(setting.challenge))) as { number: number };
  return { number, byWorkers };
}

/** A page on plain http: no subtle crypto and no random UUIDs. */
async function plain(): Promise<unknown> {
  const api = new ConsumerClient({ baseUrl: `${location.origin}/stub`, sleep: () => Promise.resolve() });
  const { status } = await api.call('removeFromWishlist', { path: { propertyId: 'ppt_1' } });
  return { secure: isSecureContext, status, ...((await strict()) as object) };
}

function desk(store: Store): BackofficeClient {
  return new BackofficeClient({ ...patient, baseUrl: setting.backoffice, iamUrl: setting.iam, store, appVersion: '1.0.0', appPlatform: 'linux' });
}

/** A desk that signs in, and keeps its key in the browser. */
async function signIn(): Promise<unknown> {
  const store = indexedDbStore();
  const client = desk(store);
  await client.signIn({ username: 'parwana' });
  const { displayName } = (await client.call('session')).data;
  const keys = (await store.load())?.keys as CryptoKeyPair;
  const exported = await crypto.subtle.exportKey('jwk', keys.privateKey).then(
    () => true,
    () => false,
  );
  return { displayName, exported };
}

/** The same desk after the app was closed. */
async function again(): Promise<unknown> {
  const client = desk(indexedDbStore());
  const [session] = await Promise.all([client.call('session'), client.refresh()]);
  const stop = new AbortController();
  let told = false;
  const end = await client
    .stream({
      onEvent: () => undefined,
      onGap: () => {
        told = true;
        stop.abort();
      },
    })
    .follow(stop.signal);
  const device = await client.deviceId();
  await client.signOut();
  return { displayName: session.data.displayName, same: device === session.data.deviceId, end, told, signedIn: await client.signedIn() };
}

/**
 * What people of every locale read, written by this browser: four hundred days in both calendars and all styles, the seven currencies, numbers, lists and
 * messages. Tells texts with Latin letters where there may be none, and whether the browser has begun to know the languages that it did not.
 */
async function words(): Promise<unknown> {
  const latin: string[] = [];
  let texts = 0;
  const said: Record<string, string> = {};
  const locales = ['ps-AF', 'fa-AF', 'fa-IR', 'tg-TJ', 'en', 'en-US', 'ar', 'ur', 'ru'];
  for (const locale of locales) {
    const info = localeInfo(locale);
    const currencies = Object.keys(info.money.signs);
    const look = (text: string): void => {
      texts++;
      const letters = currencies.reduce((rest, code) => rest.replace(code, ''), text);
      if (/[A-Za-z]/.test(letters) && !locale.startsWith('en')) latin.push(`${locale}: ${text}`);
      if (text === '' || /undefined|NaN/.test(text)) latin.push(`${locale}: ${text}`);
    };
    for (let i = 0; i < 400; i++) {
      const day = addDays('2026-11-18', i);
      for (const dateStyle of ['full', 'long', 'medium', 'short', 'month', 'day'] as const) {
        for (const calendar of ['gregory', 'persian'] as const) look(formatDay(day, locale, { dateStyle, calendar, beside: i % 2 === 0 }));
      }
      for (const currency of currencies) look(formatMoney({ minor: String((i - 200) * 98_765), currency }, locale));
      look(formatNumber(i * 1234.5, locale));
    }
    look(formatList(info.months.gregory.long, locale));
    for (const key of Object.keys(messages)) look(message(key as MessageKey, locale));
    said[locale] = `${formatDay('2026-11-18', locale, { dateStyle: 'full' })} ${formatMoney({ minor: '1234567', currency: 'AFN' }, locale)}`;
  }
  let days = 0;
  const persian = new Intl.DateTimeFormat('en-u-ca-persian-nu-latn', { year: 'numeric', month: 'numeric', day: 'numeric', timeZone: 'UTC' });
  const wrong: string[] = [];
  for (let day = '1921-03-21'; day < '2122-03-21'; day = addDays(day, 1), days++) {
    const found = toSolarHijri(day);
    const by = Object.fromEntries(persian.formatToParts(Date.parse(day)).map(({ type, value }) => [type, Number(value)]));
    if (fromSolarHijri(found) !== day || by.year !== found.year || by.month !== found.month || by.day !== found.day) wrong.push(day);
  }
  const known = Intl.DateTimeFormat.supportedLocalesOf(['ps-AF', 'tg-TJ', 'ps', 'tg']);
  return { currencies: Object.keys(localeInfo('en').money.signs).length, texts, latin: latin.slice(0, 10), said, days, wrong: wrong.slice(0, 10), known };
}

const pages: Record<string, () => Promise<unknown>> = { guest, strict, plain, words, signIn, again };

void (async () => {
  const name = location.pathname.slice(1);
  const result = await pages[name]?.().catch((error: unknown) => ({ threw: String(error), cause: String((error as Error).cause) }));
  const response = await fetch(`/told/${name}`, { method: 'POST', body: JSON.stringify(result) });
  const next = await response.text();
  if (next !== '') location.replace(next);
})();
