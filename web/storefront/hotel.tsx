// A hotel: what it is, what its nights cost, and the way to it. How the hand-off is done: README.md.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { addDays, formatList, formatMoney, formatNumber, nights, today, toMinor } from '@melmastoon/bff/values';
import { ProblemError, type Schemas } from '@melmastoon/bff/consumer';

import { locale, own, say } from '../kit/i18n.js';
import { Bdi, Ghost, Money, State } from '../kit/parts.js';
import { go, here } from '../kit/url.js';
import { api, known, nameOf, proveInIdleTime, saver, type Degradation } from './api.js';
import Calendar, { type Night } from './calendar.js';
import { Heart, HotelCard, Rating, Stars, labels, taxSaid } from './card.js';
import { hrefOf, stayKey } from './find.js';
import { Party, partySaid, staySaid } from './form.js';
import { AsOf, HonestyLine, Trouble } from './honesty.js';
import { currencyOf } from './list.js';
import { partyOf, paramsOf, queryOf, stayOf, first, type Query } from './query.js';

type Detail = Schemas['HotelDetail'];
type Currency = Schemas['Currency'];
const headersOf = (query: Query): { 'X-Currency'?: Currency } => (currencyOf(query) === '' ? {} : { 'X-Currency': currencyOf(query) as Currency });

/** Something that is asked for again when what it follows from changes; the last answer stays meanwhile, unless it is of another hotel. */
function useAnswer<T>(ask: (signal: AbortSignal) => Promise<T>, name: string, stays: boolean): { data?: T; at?: Date; error?: unknown; loading: boolean; again: () => void } {
  const [state, set] = useState<{ data?: T; at?: Date; error?: unknown; loading: boolean }>({ loading: true });
  const [turn, next] = useState(0);
  useEffect(() => {
    const stop = new AbortController();
    set((was) => (stays || turn > 0 ? { ...was, loading: true } : { loading: true }));
    known.then(() => ask(stop.signal)).then(
      (data) => set({ data, at: new Date(), loading: false }),
      (error: unknown) => !stop.signal.aborted && set((was) => ({ ...was, error, loading: false })),
    );
    return () => stop.abort();
  }, [name, turn]);
  return { ...state, again: () => next((n) => n + 1) };
}

function Pictures({ photos }: { photos: Detail['photos'] }) {
  const [at, go] = useState(0);
  const [asked, ask] = useState(false);
  const shown = photos[at];
  if (shown === undefined) return null;
  if (saver.value && !asked) return <button onClick={() => ask(true)}>{say('picture.load')}</button>;
  const turn = (by: number): void => go((at + by + photos.length) % photos.length);
  return (
    <figure class="pictures" aria-label={say('pictures')}>
      <img src={shown.url} alt={shown.alt} width="960" height="630" />
      <figcaption class="row apart"><button class="quiet" aria-label={say('picture.before')} onClick={() => turn(-1)}>‹</button>
        <span class="small" role="status">{say('picture.of', { n: at + 1, total: photos.length })}</span>
        <button class="quiet" aria-label={say('picture.after')} onClick={() => turn(1)}>›</button></figcaption>
    </figure>
  );
}

/** Seconds until a price ends, counted down each second, by the clock of the service. */
function useSecondsLeft(until: string | undefined, ahead: number): number {
  const [now, tick] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && tick(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  return until === undefined ? 0 : Math.ceil((Date.parse(until) - now - ahead) / 1_000);
}

type Going = { readonly step: 'checking' | 'going' } | { readonly step: 'ask'; readonly said: string; readonly url?: string; readonly until?: string } | { readonly step: 'failed'; readonly error: unknown };
/** One key for one wish to book: a second tap and a retry get the same way, and after it was used or ran out there is a new one. */
const keys = new Map<string, string>();

/** Mints the hand-off. What it answers is either the way to the hotel, or something that the guest has to know first. */
async function handOff({ property }: Detail, query: Query, shown: Schemas['Money'] | undefined): Promise<Going> {
  const body: Schemas['HandoffRequest'] = {
    propertyId: property.propertyId, tenantId: property.tenantId, dates: stayOf(query), occupancy: partyOf(query), locale: locale.locale,
    ...(currencyOf(query) !== '' && { currency: currencyOf(query) as Currency }), ...(shown !== undefined && { shown }),
  };
  const wish = JSON.stringify(body);
  const idempotencyKey = keys.get(wish) ?? Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, '0')).join('');
  keys.set(wish, idempotencyKey);
  try {
    const { data } = await api.call('mintHandoff', { body, idempotencyKey });
    if (data.priceCheck === 'matched') {
      location.assign(data.url);
      return { step: 'going' };
    }
    if (data.priceCheck === 'unavailable') return { step: 'ask', said: say('book.gone') };
    const changed = data.currentPrice !== undefined && shown !== undefined;
    const said = changed ? say('book.changed', { was: formatMoney(shown, locale), now: formatMoney(data.currentPrice!, locale) }) : say('book.unchecked');
    return { step: 'ask', said, url: data.url, until: data.expiresAt };
  } catch (error) {
    const spent = error instanceof ProblemError && (error.status === 409 || error.status === 410) && error.problem?.retriable !== true;
    if (!spent) return { step: 'failed', error };
    keys.delete(wish); // the way was used, or is closed: this tap is a new wish
    return handOff({ property } as Detail, query, shown);
  }
}

function Book({ detail, query, renew, renewing, ahead }: { detail: Detail; query: Query; renew: () => void; renewing: boolean; ahead: number }) {
  const rate = detail.cheapestRateSnapshot;
  const left = useSecondsLeft(rate?.ttlExpiresAt, ahead);
  const [going, set] = useState<Going>();
  const many = nights(query.checkIn, query.checkOut);
  const over = rate !== null && left <= 0;
  useEffect(() => {
    if (!over || going?.step === 'checking') return undefined;
    renew();
    const timer = setInterval(() => !document.hidden && renew(), 15_000); // the page of a hotel may be kept so long on the way
    return () => clearInterval(timer);
  }, [over]);
  useEffect(() => {
    const back = (event: PageTransitionEvent): void => void (event.persisted && set(undefined));
    addEventListener('pageshow', back);
    return () => removeEventListener('pageshow', back);
  }, []);
  useEffect(() => set(undefined), [stayKey(query), currencyOf(query)]);
  const press = (): void => {
    set({ step: 'checking' });
    void handOff(detail, query, rate?.total).then(set);
  };
  return (
    <section class="card book stack close" aria-labelledby="total">
      <h2 id="total">{say('total', { nights: say('nights', { n: many }) })}</h2>
      {rate === null ? <p class={`price ${detail.rateState} why`} data-state={detail.rateState}>{say(`rate.${detail.rateState}`)}</p> : <>
        <p class="amount" data-minor={rate.total.minor}><Money money={rate.total} /></p>
        <p class="small dim">{rate.taxes === undefined ? say('tax.none') : rate.taxes.map(taxSaid).join(' · ')}</p>
        <p class="small dim">{say('from.night', { price: formatMoney(rate.nightly, locale) })}</p>
        <p class={`small age${over || rate.isStale ? ' warm' : ' dim'}`} data-state={detail.rateState}>
          <AsOf as="price.seen" at={rate.capturedAt} /> · {left > 0 ? <span aria-hidden="true">{say('price.valid', { n: left })}</span> : say(renewing ? 'price.renew' : 'price.old')}
        </p>
        <progress aria-hidden="true" max={60} value={Math.max(0, left)} />
      </>}
      <p class="small"><bdi>{staySaid(query)}</bdi> · <bdi id="party">{partySaid(query)}</bdi></p>
      {detail.rateState !== 'sold_out' && going?.step !== 'ask' && <button id="book" class="first" disabled={going?.step === 'checking' || going?.step === 'going'} onClick={press}>{say('book')}</button>}
      {rate === null && <button onClick={renew} disabled={renewing}>{say(renewing ? 'loading' : 'ask.again')}</button>}
      <div role="status" class="stack close">
        {going?.step === 'checking' && <p class="small">{say('book.check')}</p>}
        {going?.step === 'going' && <p class="small good">{say('book.same')}</p>}
        {going?.step === 'ask' && <div class="notice warm stack close" id="ask">
          <p>{going.said}</p>
          {going.until !== undefined && <p class="small"><AsOf as="book.until" at={going.until} /></p>}
          <div class="row wrap">{going.url !== undefined && <a class="button first" id="go-on" href={going.url}>{say('book.on')}</a>}<button onClick={() => (set(undefined), renew())}>{say('book.stay')}</button></div>
        </div>}
        {going?.step === 'failed' && <Trouble error={going.error} again={press} />}
      </div>
      <p class="tiny dim">{say('book.note')}</p>
    </section>
  );
}

/** Each night's cheapest price in whole units, rounded up: a price in a small place must not look lower than it is. */
function nightOf(day: Schemas['Availability']['days'][number] | undefined): Night {
  if (day === undefined) return {};
  if (!day.available) return { shown: <span class="dim">{say('night.full')}</span>, said: say('night.full'), full: true };
  if (day.nightly === undefined) return { shown: '–' };
  const whole = (BigInt(day.nightly.minor) + 99n) / 100n;
  const few = day.roomsLeft !== undefined && day.roomsLeft <= 2;
  return { shown: <bdi class={few ? 'warm' : undefined}>{formatNumber(whole, locale)}</bdi>, said: [formatMoney(toMinor(String(whole), day.nightly.currency), locale), few && say('night.left', { n: day.roomsLeft! })].filter(Boolean).join(', ') };
}

export default function Hotel({ propertyId }: { propertyId: string }) {
  const url = here.value;
  const query = useMemo(() => queryOf(url.searchParams), [url.search]);
  const now = today('Asia/Kabul');
  const asked = `${propertyId} ${stayKey(query)} ${currencyOf(query)}`;
  const [ahead, setAhead] = useState(0);
  const hotel = useAnswer(async (signal) => {
    const party = partyOf(query);
    const { data, headers } = await api.call('hotel', { path: { propertyId }, query: { ...stayOf(query), ...party, locale: locale.locale }, headers: { ...headersOf(query), 'X-View-Source': 'search-list' }, signal });
    const sent = Date.parse(headers.get('Date') ?? '');
    if (!Number.isNaN(sent) && (headers.get('Age') ?? '0') === '0') setAhead(Math.abs(sent - Date.now()) > 3_000 ? sent - Date.now() : 0);
    return data;
  }, asked, true);
  const days = useAnswer(async (signal) => {
    const { adults, rooms, children = 0, childrenAges } = partyOf(query);
    const { data } = await api.call('availability', { path: { propertyId }, query: { from: now, to: addDays(now, 62), adults, rooms, children, ...(childrenAges && { childrenAges }) }, headers: headersOf(query), signal });
    return data;
  }, `${propertyId} ${query.adults} ${query.ages.join()} ${query.rooms} ${currencyOf(query)}`, true);
  useEffect(() => scrollTo(0, 0), [propertyId]);
  useEffect(() => proveInIdleTime(), []);
  const detail = hotel.data?.property.propertyId === propertyId ? hotel.data : undefined;
  const name = detail === undefined ? '' : nameOf(detail.property.name);
  useEffect(() => void (name !== '' && (document.title = `${name} · ${say('brand')}`)), [name]);
  const change = (part: Partial<Query>): void => go(`/hotels/${propertyId}?${String(paramsOf({ ...query, ...part }))}`, { replace: true });
  const back = <a class="back" href={`/?${String(paramsOf(query))}`} onClick={(e) => { if (history.state === 'from-list') { e.preventDefault(); history.back(); } }}>{say('back')}</a>;

  const gone = hotel.error instanceof ProblemError && hotel.error.status === 404;
  if (gone) return <div class="wide stack">{back}<State title={say('hotel.gone')} /></div>;
  if (detail === undefined) return <div class="wide stack">{back}<h1 class="unseen">{say('loading')}</h1>{hotel.error === undefined ? <Ghost lines={14} /> : <Trouble error={hotel.error} again={hotel.again} />}</div>;

  const { property, rooms, amenities, photos, policies, similarProperties: similar = [], popularitySignals: popular } = detail;
  const nightly = new Map(days.data?.days.map((day) => [day.date, day]));
  const fits = query.amenities.filter((code) => amenities.some((a) => a.code === code)).map((code) => amenities.find((a) => a.code === code)?.label ?? code);
  const access = amenities.filter(({ category, code }) => category === 'access' || code === first[3]);
  const labelOf = (code: string): string => amenities.find((a) => a.code === code)?.label ?? labels.value.get(code) ?? code;
  const degraded: Degradation[] = [...detail.degraded, ...(days.data?.degraded ?? []), ...(days.error === undefined ? [] : [{ part: 'availability', reason: 'error', affected: 1 } as const])];
  const [, other = ''] = [property.name.default, property.name.default === name ? (property.name.localized?.['fa'] ?? '') : property.name.default];
  return (
    <article class="wide hotel-page stack">
      {back}
      <header class="row apart wrap">
        <div><h1><bdi>{name}</bdi> <Stars n={property.starRating} /></h1>
          {other !== '' && <p class="dim"><bdi>{other}</bdi></p>}
          <p class="dim"><Rating rating={property.guestRating} /> <bdi>{property.address.cityLabel}</bdi>{property.address.line !== '' && <>{locale.direction === 'rtl' ? '، ' : ', '}<bdi>{property.address.line}</bdi></>}</p>
          {fits.length > 0 && <p class="good small">✓ {say('fits', { list: formatList(fits, locale) })}</p>}</div>
        <Heart propertyId={propertyId} name={name} source="detail" price={detail.cheapestRateSnapshot?.total} stay={stayKey(query)} />
      </header>
      <div class="columns">
        <div class="stack">
          <Pictures photos={photos} />
          {property.description !== undefined && <p dir="auto">{nameOf(property.description)}</p>}
          {popular !== undefined && popular.viewedLast1h > 0 && <p class="small dim">{say('viewed', { n: popular.viewedLast1h })}</p>}
        </div>
        <aside class="stack">
          <Book detail={detail} query={query} renew={hotel.again} renewing={hotel.loading} ahead={ahead} />
          <details class="card"><summary>{say('who')}: <bdi>{partySaid(query)}</bdi></summary><Party query={query} change={change} /></details>
        </aside>
      </div>
      <section class="stack close"><h2>{say('calendar')}</h2><p class="small dim">{say('calendar.hint')} {detail.cheapestRateSnapshot !== null && <Bdi>({detail.cheapestRateSnapshot.currency})</Bdi>}</p>
        <Calendar from={now} to={addDays(now, 62)} checkIn={query.checkIn} checkOut={query.checkOut} many={3} night={(day) => nightOf(nightly.get(day))} choose={(checkIn, checkOut) => change({ checkIn, checkOut })} />
      </section>
      <section class="stack close"><h2>{say('room.kinds')}</h2><ul class="grid">{rooms.map((room) => (
        <li key={room.roomTypeId} class="card stack close"><h3><bdi>{nameOf(room.name)}</bdi></h3>
          <p class="small dim">{say('room.for', { party: [say('n.adults', { n: room.maxOccupancy.adults }), room.maxOccupancy.children > 0 && say('n.children', { n: room.maxOccupancy.children })].filter(Boolean).join(locale.direction === 'rtl' ? '، ' : ', ') })}</p>
          <p class="small">{room.beds.map(({ type, count }) => (['single', 'double', 'king', 'sofa'].includes(type) ? say(`bed.${type}`, { n: count }) : `${count} × ${type}`)).join(' · ')}{room.sizeSqm !== undefined && ` · ${say('sqm', { n: room.sizeSqm })}`}</p>
          <p class="chips">{room.amenities.map((code) => <span key={code} class="chip"><bdi>{labelOf(code)}</bdi></span>)}</p></li>
      ))}</ul></section>
      <div class="grid">
        <section class="card stack close"><h2>{say('offers')}</h2><p class="chips">{amenities.filter((a) => !access.includes(a)).map(({ code, label }) => <span key={code} class="chip"><bdi>{label}</bdi></span>)}</p></section>
        <section class="card stack close" id="access"><h2>{say('access')}</h2>{access.length > 0 ? <p class="chips">{access.map(({ code, label }) => <span key={code} class="chip good"><bdi>{label}</bdi></span>)}</p> : <p class="small">{say('access.none')}</p>}</section>
        <section class="card stack close"><h2>{say('rules')}</h2><ul class="small">
          {policies.checkIn !== '' && <li>{say('rules.in', { time: own(policies.checkIn) })}</li>}{policies.checkOut !== '' && <li>{say('rules.out', { time: own(policies.checkOut) })}</li>}
          {policies.cancellation !== '' && <li><bdi>{policies.cancellation}</bdi></li>}</ul></section>
      </div>
      {similar.length > 0 && <section class="stack close"><h2>{say('similar')}</h2><ul class="hotels">{similar.map((card) => (
        <HotelCard key={card.propertyId} card={card} href={hrefOf(query, card.propertyId)} nights={nights(query.checkIn, query.checkOut)} source="detail" stay={stayKey(query)} />
      ))}</ul></section>}
      {hotel.error !== undefined && <Trouble error={hotel.error} again={hotel.again} />}
      <HonestyLine at={hotel.at} degraded={degraded} again={degraded.length > 0 ? () => (hotel.again(), days.again()) : undefined} />
    </article>
  );
}

/** A time of the house, `15:00`, in the reader's digits. */