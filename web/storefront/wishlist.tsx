// Wishes: what was saved, and what has changed since.
import { useEffect, useState } from 'preact/hooks';
import { formatMoney, nights } from '@melmastoon/bff/values';
import type { Schemas } from '@melmastoon/bff/consumer';

import { locale, pieces, say } from '../kit/i18n.js';
import { Day, Ghost, State } from '../kit/parts.js';
import { here } from '../kit/url.js';
import { api, known, saver, type Degradation } from './api.js';
import { HotelCard } from './card.js';
import { hrefOf, stayKey } from './find.js';
import { partySaid, staySaid } from './form.js';
import { HonestyLine, Trouble } from './honesty.js';
import { currencyOf } from './list.js';
import { partyOf, queryOf, stayOf } from './query.js';
import { savedAt, toggleWish, wished } from './wishes.js';

type Rate = { readonly rate: Schemas['MaybeRateSnapshot']; readonly state: Schemas['RateState'] };
const atOnce = 4;

export default function Wishes() {
  const query = queryOf(here.value.searchParams);
  const [list, set] = useState<{ data?: Schemas['Wishlist']; at?: Date; error?: unknown }>({});
  const [rates, rate] = useState<ReadonlyMap<string, Rate>>(new Map());
  const [asked, ask] = useState(!saver.value);
  const load = (): void => {
    void known.then(() => api.call('wishlist')).then(({ data }) => {
      set({ data, at: new Date() });
      wished.value = new Set(data.items.map(({ propertyId }) => propertyId));
    }, (error: unknown) => set({ error }));
  };
  useEffect(load, []);
  useEffect(() => void (document.title = `${say('nav.wishes')} · ${say('brand')}`), []);
  const ids = list.data?.items.filter(({ card }) => card !== undefined).map(({ propertyId }) => propertyId) ?? [];
  // A list of wishes has no stay, and so no prices: each hotel is asked for its own, a few at once.
  useEffect(() => {
    if (!asked || ids.length === 0) return undefined;
    const stop = new AbortController();
    const left = [...ids];
    const currency = currencyOf(query);
    const one = async (): Promise<void> => {
      for (let id = left.shift(); id !== undefined && !stop.signal.aborted; id = left.shift()) {
        const propertyId = id;
        const found = await api.call('hotel', { path: { propertyId }, query: { ...stayOf(query), ...partyOf(query), locale: locale.locale }, headers: { 'X-View-Source': 'wishlist', ...(currency !== '' && { 'X-Currency': currency as Schemas['Currency'] }) }, signal: stop.signal })
          .then(({ data }): Rate => ({ rate: data.cheapestRateSnapshot, state: data.rateState }), (): Rate => ({ rate: null, state: 'unanswered' }));
        if (!stop.signal.aborted) rate((all) => new Map(all).set(propertyId, found));
      }
    };
    for (let i = 0; i < atOnce; i++) void one();
    return () => stop.abort();
  }, [ids.join(), stayKey(query), asked]);
  const changed = (propertyId: string): string | undefined => {
    const now = rates.get(propertyId)?.rate?.total;
    if (now === undefined) return undefined;
    const was = savedAt(propertyId, stayKey(query), now.currency);
    const shown = formatMoney(now, locale);
    return was === undefined ? say('wishes.now', { now: shown }) : was.minor === now.minor ? say('wishes.same', { now: shown }) : say('wishes.was', { was: formatMoney(was, locale), now: shown });
  };
  const items = list.data?.items.filter(({ propertyId }) => wished.value.has(propertyId)) ?? [];
  const unread = list.data?.degraded.some(({ part }) => part === 'wishlist') ?? false;
  const degraded: readonly Degradation[] = list.data?.degraded ?? [];
  return (
    <div class="wide stack">
      <header><h1>{say('nav.wishes')}</h1><p class="dim small">{say('wishes.for', { stay: `${staySaid(query)} · ${partySaid(query)}` })}</p></header>
      {list.error !== undefined && <Trouble error={list.error} again={load} />}
      {list.data === undefined && list.error === undefined && <Ghost lines={6} />}
      {unread && <div class="notice warm" role="alert">{say('wishes.unread')}</div>}
      {list.data !== undefined && items.length === 0 && !unread && <State title={say('wishes.none')}><a class="button first" href="/">{say('nav.find')}</a></State>}
      {!asked && items.length > 0 && <p><button onClick={() => ask(true)}>{say('part.rates')}: {say('ask.again')}</button></p>}
      <h2 class="unseen">{say('list')}</h2>
      <ul class="hotels">{items.map(({ propertyId, addedAt, card }) => (
        card === undefined
          ? <li key={propertyId} class="hotel away"><div class="about"><p>{say('wishes.away')}</p><p class="small dim">{pieceOfDay(addedAt)}</p>
              <button class="little" onClick={() => void toggleWish(propertyId, 'list', undefined, '')}>{say('remove')}</button></div></li>
          : <li key={propertyId} class="wish"><HotelCard tag="div" card={{ ...card, rateSnapshot: rates.get(propertyId)?.rate ?? null, rateState: rates.get(propertyId)?.state ?? 'unanswered' }} href={hrefOf(query, propertyId)}
              nights={nights(query.checkIn, query.checkOut)} source="list" stay={stayKey(query)} />
            <p class="small dim since">{pieceOfDay(addedAt)} <b>{changed(propertyId)}</b></p></li>
      ))}</ul>
      {list.at !== undefined && <HonestyLine at={list.at} degraded={degraded} again={load} />}
    </div>
  );
}

const pieceOfDay = (at: string) => <>{pieces('wishes.on', { day: <Day day={at.slice(0, 10)} /> })}</>;
