// A hotel in a list, as the server writes it too. Where there is no price it says why.
import { useEffect, useRef, useState } from 'preact/hooks';
import { signal } from '@preact/signals';
import { formatMoney, formatNumber, type Money as Amount } from '@melmastoon/bff/values';
import type { Schemas } from '@melmastoon/bff/consumer';

import { locale, say } from '../kit/i18n.js';
import { Money, toast } from '../kit/parts.js';
import { failed, nameOf, saver, type Card } from './api.js';
import { toggleWish, wished } from './wishes.js';

/** Labels of amenities and the like, from the facets of the country. */
export const labels = signal<ReadonlyMap<string, string>>(new Map());

/** A picture that is loaded when it comes near, and never with the data saver on. Its place is kept. */
export function Picture({ url, alt, first = false }: { url: string; alt: string; first?: boolean }) {
  const place = useRef<HTMLDivElement>(null);
  const [near, come] = useState(first);
  useEffect(() => {
    if (near || place.current === null) return undefined;
    const seen = new IntersectionObserver(([one]) => one?.isIntersecting && come(true), { rootMargin: '100px' });
    seen.observe(place.current);
    return () => seen.disconnect();
  }, [near]);
  return <div class="picture" ref={place}>{near && !saver.value && url !== '' && <img src={url} alt={alt} width="320" height="210" decoding="async" />}</div>;
}

export function Heart({ propertyId, name, source, price, stay }: { propertyId: string; name: string; source: Schemas['WishlistSource']; price: Amount | undefined; stay: string }) {
  const [busy, set] = useState(false);
  const on = wished.value.has(propertyId);
  const press = async (): Promise<void> => {
    if (busy) return;
    set(true);
    await toggleWish(propertyId, source, price as Schemas['Money'] | undefined, stay).catch(async (error: unknown) => toast((await failed(error)).text));
    set(false);
  };
  return <button class="heart" aria-pressed={on} aria-busy={busy} aria-label={say(on ? 'keep.off.name' : 'keep.name', { name })} onClick={press}><span aria-hidden="true">{on ? '♥' : '♡'}</span></button>;
}

export const Rating = ({ rating }: { rating: Schemas['GuestRating'] | undefined }) =>
  rating === undefined ? null : <span class="rating" title={say('rated', { value: formatNumber(rating.value, locale), n: rating.count })}><b><bdi>{formatNumber(rating.value, locale)}</bdi></b><span class="unseen">{say('rated', { value: formatNumber(rating.value, locale), n: rating.count })}</span></span>;

export const Stars = ({ n = 0 }: { n?: number | undefined }) => (n === 0 ? null : <span class="stars" role="img" aria-label={say('stars', { n: Math.round(n) })}>{'★'.repeat(Math.round(n))}</span>);

export function taxSaid({ code, minor, currency, included }: { code: string; minor: string; currency: string; included: boolean }): string {
  const tax = ['VAT', 'GST', 'CITY_TAX', 'MUNICIPALITY_FEE', 'ACCOMMODATION_TAX'].find((known) => known === code.toUpperCase().replaceAll('-', '_'));
  return say(included ? 'tax.with' : 'tax.plus', { tax: tax === undefined ? code : say(`tax.${tax}`), amount: formatMoney({ minor, currency }, locale) });
}

/** The price with what it leaves out, or the reason why there is none. */
export function Price({ rate, state = 'unanswered', nights }: { rate: Schemas['MaybeRateSnapshot']; state?: Schemas['RateState'] | undefined; nights: number }) {
  return (
    <p class={`price ${state}`} data-state={state}>
      {rate !== null && <><b><Money money={rate.total} /></b> <span class="dim small">{say('for.stay', { nights: say('nights', { n: nights }) })}</span></>}
      <span class={state === 'priced' ? 'unseen' : 'why small'}>{say(`rate.${state}`)}</span>
      {rate !== null && <span class="dim small tax">{rate.taxes === undefined ? say('tax.none') : rate.taxes.map(taxSaid).join(' · ')}</span>}
    </p>
  );
}

export function HotelCard({ card, href, nights, source, stay, first = false, tag: Tag = 'li', focus }: {
  tag?: 'li' | 'div'; card: Card; href: string; nights: number; source: Schemas['WishlistSource']; stay: string; first?: boolean; focus?: (propertyId: string) => void;
}) {
  const name = nameOf(card.name);
  return (
    <Tag class="hotel" data-hotel={card.propertyId} style={{ '--brand': card.brandPeek.primaryColor }} onFocusCapture={() => focus?.(card.propertyId)} onMouseEnter={() => focus?.(card.propertyId)}>
      <Picture url={card.thumbnail.url} alt="" first={first} />
      <div class="about">
        <h3><a href={href}><bdi>{name}</bdi></a> <Stars n={card.starRating} /></h3>
        <p class="dim small facts"><bdi>{card.cityLabel}</bdi>{card.distanceKm !== undefined && <> · {say('away', { km: Math.round(card.distanceKm * 10) / 10 })}</>} <Rating rating={card.guestRating} /></p>
        <p class="chips">{card.badges.map((badge) => <span key={badge} class="chip lapis">{say(`badge.${badge}`)}</span>)}
          {card.amenityHighlights.slice(0, 3).map((code) => labels.value.get(code) !== undefined && <span key={code} class="chip"><bdi>{labels.value.get(code)}</bdi></span>)}</p>
        <Price rate={card.rateSnapshot} state={card.rateState} nights={nights} />
      </div>
      <Heart propertyId={card.propertyId} name={name} source={source} price={card.rateSnapshot?.total} stay={stay} />
    </Tag>
  );
}
