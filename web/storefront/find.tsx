// Find: the form, the first filters, the list and the map. Every choice is in the address.
import { useEffect, useMemo, useState } from 'preact/hooks';
import { signal } from '@preact/signals';
import { foldDigits, formatNumber, nights } from '@melmastoon/bff/values';
import type { Schemas } from '@melmastoon/bff/consumer';

import { locale, say } from '../kit/i18n.js';
import { Ghost, State } from '../kit/parts.js';
import { go, here } from '../kit/url.js';
import { api, begun, known, proveInIdleTime, saver, setSaver } from './api.js';
import { HotelCard, labels } from './card.js';
import { SearchForm, partySaid, staySaid } from './form.js';
import { HonestyLine, Trouble } from './honesty.js';
import { later } from './later.js';
import { currencyOf, fill, nameOfSearch, resultsOf, size } from './list.js';
import type { Box } from './mapmodel.js';
import { first, paramsOf, queryOf, sorts, usual, type Kind, type Query } from './query.js';

const HotelMap = later(() => import('./map.js'));
type Facets = Schemas['FacetCatalog'];
const facets = signal<Facets | undefined>(undefined);
const learn = (found: Facets): void => {
  facets.value = found;
  labels.value = new Map([...labels.peek(), ...found.facets.flatMap(({ values }) => values.map(({ value, label }) => [value, label] as const))]);
};
if (begun.facets !== undefined) learn(begun.facets);

/** The filters and the labels of a country; without them the list works as well. */
async function learnFacets(country: string): Promise<void> {
  if (facets.peek()?.country === country) return;
  await known;
  await api.call('facets', { query: { country, locale: locale.locale } }).then(({ data }) => learn(data), () => undefined);
}

export const hrefOf = (query: Query, propertyId: string): string => `/hotels/${propertyId}?${String(paramsOf(query))}`;
export const stayKey = (query: Query): string => `${query.checkIn} ${query.checkOut} ${query.adults} ${query.ages.join('.')} ${query.rooms}`;

const toggled = <T,>(list: readonly T[], one: T): T[] => (list.includes(one) ? list.filter((other) => other !== one) : [...list, one]);

function Filters({ query, change }: { query: Query; change: (part: Partial<Query>) => void }) {
  const [open, show] = useState(false);
  const values = (key: string): Facets['facets'][number]['values'] => facets.value?.facets.find((f) => f.key === key)?.values ?? [];
  const any = query.amenities.length + query.stars.length + query.kinds.length + query.rating + query.most > 0 || query.free;
  const press = (on: boolean, text: string, part: Partial<Query>, key: string | number = text) => <button key={key} aria-pressed={on} class="little" onClick={() => change(part)}><bdi>{text}</bdi></button>;
  const amenity = (code: string, text: string) => press(query.amenities.includes(code), text, { amenities: toggled(query.amenities, code) }, code);
  return (
    <section class="filters" aria-label={say('filters')}>
      <div class="presses">
        {first.map((code) => amenity(code, say(`filter.${code}`)))}
        <button class="little quiet" aria-expanded={open} aria-controls="more-filters" onClick={() => show(!open)}>{say('filter.more')} {open ? '▴' : '▾'}</button>
        {any && <button class="little quiet" onClick={() => change({ amenities: [], stars: [], kinds: [], rating: 0, most: 0, free: false })}>{say('filter.clear')}</button>}
      </div>
      <div id="more-filters" class="stack card" hidden={!open}>
        {facets.value === undefined && <p class="dim small">{say('filter.hidden')}</p>}
        <div class="presses">{press(query.free, say('filter.free'), { free: !query.free })}{[5, 4, 3].map((n) => press(query.stars.includes(n), say('filter.stars', { n }), { stars: toggled(query.stars, n) }, n))}</div>
        <div class="presses">{[9, 8, 7].map((n) => press(query.rating === n, say('filter.rating', { n }), { rating: query.rating === n ? 0 : n }, n))}</div>
        <div class="presses">{values('propertyType').map(({ value, label }) => press(query.kinds.includes(value as Kind), label, { kinds: toggled(query.kinds, value as Kind) }, value))}</div>
        <div class="presses">{values('amenities').filter(({ value }) => !first.some((code) => code === value)).map(({ value, label }) => amenity(value, label))}</div>
        <div class="field most">
          <label for="most">{say('filter.price', { currency: currencyOf(query) })}</label>
          <input id="most" inputMode="numeric" autoComplete="off" dir="ltr" value={query.most === 0 ? '' : formatNumber(query.most, locale)}
            onChange={(e) => change({ most: Number(foldDigits(e.currentTarget.value).replace(/\D/g, '')) || 0 })} />
        </div>
      </div>
    </section>
  );
}

const Cities = ({ query }: { query: Query }) => (
  <nav class="cities" aria-label={say('kind.city')}>{facets.value?.facets.find(({ key }) => key === 'city')?.values.slice(0, 8).map(({ value, label, count }) => (
    <a key={value} href={`/?${String(paramsOf({ ...query, where: label, place: { mode: 'city', city: value }, country: facets.value?.country ?? '' }))}`}
      aria-current={query.place?.mode === 'city' && query.place.city === value}><bdi>{label}</bdi> <bdi class="dim tiny">{formatNumber(count, locale)}</bdi></a>
  ))}</nav>
);

/** Where the list had been scrolled to, by address. */
const places = new Map<string, number>();
addEventListener('scroll', () => here.peek().pathname === '/' && location.pathname === '/' && places.set(location.href, scrollY), { passive: true });

export function Find() {
  const url = here.value;
  const query = useMemo(() => queryOf(url.searchParams), [url.search]);
  const shown = Math.max(size, Number(url.searchParams.get('n')) || size);
  const onMap = url.searchParams.get('view') === 'map';
  const results = resultsOf(query, shown).value;
  const [chosen, choose] = useState<string>();
  const name = nameOfSearch(query);
  const label = (query.place?.mode === 'city' && (results.cards.find(({ city }) => city === (query.place as { city: string }).city)?.cityLabel ?? labels.value.get(query.place.city))) || query.where || usual.city;

  // Labels and cities come after the list: on a slow line they would be in its way.
  useEffect(() => {
    const learn = (): void => void learnFacets(query.country || usual.country);
    if (document.readyState === 'complete') learn();
    else addEventListener('load', learn, { once: true });
  }, [query.country]);
  useEffect(() => (choose(undefined), scrollTo(0, places.get(location.href) ?? 0)), [name]);
  useEffect(() => proveInIdleTime(), []);
  useEffect(() => void (document.title = `${say(boxed ? 'hotels.here' : 'hotels.in', { place: label })} · ${say('brand')}`), [label]);

  const boxed = query.place?.mode === 'bounding-box';
  const to = (part: Partial<Query>, more: Record<string, string> = {}): string => {
    const params = paramsOf({ ...query, ...part });
    for (const [key, value] of Object.entries({ lang: url.searchParams.get('lang') ?? '', view: onMap ? 'map' : '', ...more })) if (value !== '') params.set(key, value);
    return `/?${String(params)}`;
  };
  const change = (part: Partial<Query>): void => go(to(part));
  const more = (): void => {
    go(to({}, { n: String(results.cards.length + size) }), { replace: true });
    void fill(query, results.cards.length + size);
  };
  const again = (): void => void fill(query, results.cards.length || size, true);
  const unpriced = results.cards.filter(({ rateSnapshot }) => rateSnapshot === null).length;
  const captured = results.cards.flatMap(({ rateSnapshot }) => (rateSnapshot === null ? [] : [Date.parse(rateSnapshot.capturedAt)]));
  const age = results.at === undefined || captured.length === 0 ? undefined : Math.max(0, Math.round((results.at.getTime() - Math.min(...captured)) / 1_000));
  const many = nights(query.checkIn, query.checkOut);

  return (
    <div class={`find wide${onMap ? ' with-map' : ''}`}>
      <SearchForm query={query} label={label} change={change} open={(propertyId) => go(hrefOf(query, propertyId))} />
      <Cities query={query} />
      <Filters query={query} change={change} />
      <header class="row apart wrap results">
        <div>
          <h1>{say(boxed ? 'hotels.here' : 'hotels.in', { place: label })}</h1>
          <p class="dim small"><span id="found">{results.at === undefined ? say('loading') : say('found', { n: results.total })}</span> · <bdi>{staySaid(query)}</bdi> · {say('nights', { n: many })} · <bdi>{partySaid(query)}</bdi></p>
        </div>
        <div class="row wrap">
          <label class="unseen" for="sort">{say('sort')}</label>
          <select id="sort" value={query.sort} onChange={(e) => change({ sort: sorts.find((s) => s === e.currentTarget.value) ?? 'recommended' })}>{sorts.map((s) => <option key={s} value={s}>{say(`sort.${s}`)}</option>)}</select>
          <a class="button" href={to({}, { view: onMap ? '' : 'map' }).replace(onMap ? /[?&]view=map/ : /^$/, '')}>{say(onMap ? 'list' : 'map')}</a>
          <label class="check small"><input id="saver" type="checkbox" checked={saver.value} onChange={(e) => setSaver(e.currentTarget.checked)} />{say('saver')}</label>
        </div>
      </header>
      <div class="both">
        {onMap && <HotelMap query={query} cards={results.cards} chosen={chosen} choose={choose} hrefOf={(id) => hrefOf(query, id)}
          here={(boundingBox: Box) => change({ where: say('map.here'), country: '', place: { mode: 'bounding-box', boundingBox } })} />}
        <div id="hotels" class="stack" tabIndex={-1} aria-busy={results.loading}>
          {results.error !== undefined && <Trouble error={results.error} again={again} />}
          {results.cards.length === 0 && results.loading && <Ghost lines={12} />}
          {results.at !== undefined && results.total === 0 && <State title={say('none')}>
            {results.meant === '' ? <p>{say('none.hint')}</p> : <a href={to({ where: results.meant, place: { mode: 'city', city: results.meant }, country: '' })}>{say('meant', { place: labels.value.get(results.meant) ?? results.meant })}</a>}
          </State>}
          <h2 class="unseen">{say('list')}</h2>
          <ul class="hotels">{results.cards.map((card, i) => <HotelCard key={card.propertyId} card={card} href={hrefOf(query, card.propertyId)} nights={many} source="list" stay={stayKey(query)} first={i < 2} focus={choose} />)}</ul>
          {results.at !== undefined && <HonestyLine at={results.at} degraded={results.degraded} again={results.degraded.length > 0 || unpriced > 0 ? again : undefined}>{age !== undefined && <span>{say('prices.age', { n: age })}</span>}</HonestyLine>}
          {results.cards.length < results.total && <div class="row apart wrap">
            <span class="dim small">{say('of', { n: results.cards.length, total: results.total })}</span>
            <button onClick={more} disabled={results.loading}>{say(results.loading ? 'loading' : 'more')}</button>
          </div>}
        </div>
      </div>
    </div>
  );
}
