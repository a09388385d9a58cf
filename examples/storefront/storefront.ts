// A storefront on bff-consumer: find hotels in Dari, Pashto or English, keep some of them, and go to a hotel's booking page.
import { solve } from '@melmastoon/bff/challenge';
import { ConsumerClient, searchPages, type Schemas } from '@melmastoon/bff/consumer';
import { formatMessage, message } from '@melmastoon/bff/messages';
import { addDays, formatDay, formatMoney, formatNumber, localeInfo, localized, today } from '@melmastoon/bff/values';
import words from './words.json';

const api = new ConsumerClient({ baseUrl: document.body.dataset['api'] ?? '', solver: solve });
const { data: session } = await api.call('session'); // a new guest's first call makes the session: the others wait for it
const { locale } = session;
const say = new Map(Object.entries(words)).get(locale) ?? words.en;
const wished = new Set((await api.call('wishlist')).data.items.map(({ propertyId }) => propertyId));

const asked = new URLSearchParams(location.search);
const city = asked.get('city') ?? localized({ default: 'Kabul', localized: { fa: 'کابل', ps: 'کابل' } }, locale);
const nights = Number(asked.get('nights') ?? 3);
const checkIn = asked.get('checkIn') ?? addDays(today('Asia/Kabul'), 30);
const stay = { dates: { checkIn, checkOut: addDays(checkIn, nights) }, occupancy: { adults: 2, rooms: 1 } };
const pages = searchPages(api, { body: { geo: { mode: 'city', city }, ...stay } });

document.documentElement.lang = locale;
document.documentElement.dir = session.localeInfo.direction;
const languages = Object.keys(words).map((tag) => new Option(localeInfo(tag).name, tag, false, tag === locale));
const language = make('select', { ariaLabel: 'Language', onchange: () => attempt(speak) }, ...languages);
const field = (name: 'city' | 'checkIn' | 'nights', type: string, value: string | number): Node =>
  make('label', {}, say[name], make('input', { name, type, value: String(value), required: true }));
const form = make('form', {}, field('city', 'text', city), field('checkIn', 'date', checkIn), field('nights', 'number', nights), make('button', {}, say.find));
const hotels = make('ul', { className: 'hotels' });
const more = make('button', { className: 'more', onclick: () => attempt(show) }, say.more);
const failed = make('p', { className: 'failed', role: 'alert' });
const dates = make('p', {}, make('bdi', {}, formatDay(checkIn, locale, { beside: true })), ` · ${formatMessage(say.forNights, locale, { n: nights })}`);
document.body.prepend(make('header', {}, make('strong', {}, 'Melmastoon'), language), form);
document.body.append(make('main', {}, make('h1', {}, formatMessage(say.headline, locale, { city })), dates, hotels, more, failed));
await attempt(show);

type Tags = HTMLElementTagNameMap;
/** An element with its properties and what is in it. */
function make<K extends keyof Tags>(tag: K, properties: Partial<Tags[K]>, ...inside: (Node | string)[]): Tags[K] {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...inside);
  return element;
}

/** Does something, or says why it was not done. */
async function attempt(deed: () => Promise<void>): Promise<void> {
  failed.textContent = '';
  await deed().catch((error: unknown) => (failed.textContent = message(error, locale)));
}

async function show(): Promise<void> {
  const page = await pages.next();
  if (page.done) more.remove();
  else hotels.append(...page.value.results.map(card));
}

async function speak(): Promise<void> {
  await api.call('setLocale', { body: { locale: language.value } });
  location.reload();
}

function card({ propertyId, tenantId, name, cityLabel, thumbnail, guestRating, rateSnapshot, rateState = 'priced' }: Schemas['ListingCard']): Node {
  const keep = make('button', { className: 'keep', ariaLabel: say.keep, ariaPressed: String(wished.has(propertyId)), onclick: () => attempt(toggle) }, '♥');
  const toggle = async (): Promise<void> => {
    if (wished.has(propertyId)) await api.call('removeFromWishlist', { path: { propertyId } }).then(() => wished.delete(propertyId));
    else await api.call('addToWishlist', { body: { propertyId, source: 'list' } }).then(() => wished.add(propertyId));
    keep.ariaPressed = String(wished.has(propertyId));
  };
  const book = async (): Promise<void> => {
    const { data } = await api.call('mintHandoff', { body: { propertyId, tenantId, ...stay, ...(rateSnapshot && { shown: rateSnapshot.total }) } });
    const changed = data.currentPrice && formatMessage(say.changed, locale, { price: formatMoney(data.currentPrice, locale, { currencyDisplay: 'code' }) });
    if (changed === undefined || confirm(changed)) location.assign(data.url);
  };
  const price = rateSnapshot === null ? [] : [make('b', {}, make('bdi', {}, formatMoney(rateSnapshot.total, locale, { currencyDisplay: 'code' })))];
  const rated = guestRating ? ` · ★ ${formatNumber(guestRating.value, locale)}` : '';
  return make(
    'li', {}, make('img', { src: thumbnail.url, alt: thumbnail.alt }), keep, make('h2', {}, make('bdi', {}, localized(name, locale))),
    make('p', {}, make('bdi', {}, cityLabel), rated), make('p', { className: rateState }, ...price, say[rateState]),
    make('button', { className: 'book', onclick: () => attempt(book) }, say.book),
  );
}
