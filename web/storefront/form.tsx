// Where, when, who: the same fields that the server writes, with what a script adds to them.
import { useEffect, useRef, useState } from 'preact/hooks';
import { addDays, formatDay, formatNumber, nights, today } from '@melmastoon/bff/values';
import type { Schemas } from '@melmastoon/bff/consumer';

import { locale, say } from '../kit/i18n.js';
import { Drawer } from '../kit/parts.js';
import { api, known } from './api.js';
import { later } from './later.js';
import type { Query } from './query.js';

const Calendar = later(() => import('./calendar.js'));
type Suggestion = Schemas['Suggestions']['suggestions'][number];

/** What a suggestion means for a search; hotels have pages of their own. */
function meaning({ kind, label, city, region, country, geo }: Suggestion): Partial<Query> {
  if (kind === 'landmark') return { where: label, country: '', place: { mode: 'point', point: { ...geo, radiusKm: 5 } } };
  return { where: label, country, place: kind === 'region' ? { mode: 'region', region: region ?? label } : { mode: 'city', city: city ?? label } };
}

function Where({ query, label, change, open }: { query: Query; label: string; change: (part: Partial<Query>) => void; open: (propertyId: string) => void }) {
  const [typed, type] = useState<string>();
  const [found, show] = useState<readonly Suggestion[]>([]);
  const [at, go] = useState(-1);
  const asking = useRef<AbortController>(undefined);
  const text = (typed ?? query.where) || label;
  const ask = (q: string): void => {
    type(q);
    go(-1);
    asking.current?.abort();
    const mine = (asking.current = new AbortController());
    if (q.trim() === '') return show([]);
    // A key press later the answer would not be looked at.
    setTimeout(() => {
      if (mine.signal.aborted) return;
      void known.then(() => api.call('suggest', { query: { q: q.slice(0, 64), limit: 6 }, signal: mine.signal, retries: 0 })).then(
        ({ data }) => !mine.signal.aborted && show(data.suggestions),
        () => undefined, // what was typed can be searched for all the same
      );
    }, 160);
  };
  const choose = (one: Suggestion): void => {
    asking.current?.abort();
    show([]);
    type(undefined);
    if (one.kind === 'property' && one.propertyId !== undefined) open(one.propertyId);
    else change(meaning(one));
  };
  const leave = (): void => {
    asking.current?.abort();
    show([]);
    if (typed !== undefined && typed.trim() !== '' && typed !== query.where) change({ where: typed.trim(), place: undefined, country: '' });
    type(undefined);
  };
  const key = (event: KeyboardEvent): void => {
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 }[event.key];
    if (to !== undefined && found.length > 0) go(((to % found.length) + found.length) % found.length);
    else if (event.key === 'Enter' && found[at] !== undefined) choose(found[at]);
    else if (event.key === 'Escape' && found.length > 0) show([]);
    else return;
    event.preventDefault();
  };
  return (
    <div class="field where">
      <label for="where">{say('where')}</label>
      <input id="where" name="where" type="search" autoComplete="off" enterKeyHint="search" list={undefined} placeholder={say('where.hint')} value={text} maxLength={64} dir="auto"
        role="combobox" aria-autocomplete="list" aria-expanded={found.length > 0} aria-controls="places" aria-activedescendant={at < 0 ? undefined : `place-${at}`}
        onInput={(e) => ask(e.currentTarget.value)} onKeyDown={key} onBlur={leave} onFocus={(e) => e.currentTarget.select()} />
      <ul id="places" role="listbox" aria-label={say('where')} hidden={found.length === 0}>{found.map((one, i) => (
        <li key={i} id={`place-${i}`} role="option" aria-selected={i === at} onPointerDown={(e) => { e.preventDefault(); choose(one); }}>
          <bdi>{one.label}</bdi><span class="dim small">{say(`kind.${one.kind}`)}{one.kind !== 'city' && one.kind !== 'region' && <> · <bdi>{one.cityLabel ?? one.regionLabel}</bdi></>}</span>
        </li>
      ))}</ul>
      <span class="unseen" role="status">{found.length > 0 && say('suggested', { n: found.length })}</span>
    </div>
  );
}

/** Both days; their month once where they share it. The server says it so, too. */
export function staySaid({ checkIn, checkOut }: Pick<Query, 'checkIn' | 'checkOut'>): string {
  const [from, to] = [checkIn, checkOut].map((day) => formatDay(day, locale, { dateStyle: 'day' }).split(' ')) as [string[], string[]];
  const others = to.filter((part, i) => part !== from[i]);
  if (from.length !== to.length || others.length !== 1 || !/^\p{Nd}/u.test(others[0]!)) return `${from.join(' ')} – ${to.join(' ')}`;
  return to.map((part, i) => (part === from[i] ? part : `${from[i]}–${part}`)).join(' ');
}
export const partySaid = ({ adults, ages, rooms }: Query): string =>
  [say('n.adults', { n: adults }), ages.length > 0 && say('n.children', { n: ages.length }), rooms > 1 && say('n.rooms', { n: rooms })].filter(Boolean).join(locale.direction === 'rtl' ? '، ' : ', ');

function Count({ label, value, least, most, change }: { label: string; value: number; least: number; most: number; change: (n: number) => void }) {
  return (
    <div class="row apart count" role="group" aria-label={label}>
      <span>{label}</span>
      <span class="row">
        <button type="button" aria-label={say('one.less', { what: label })} disabled={value <= least} onClick={() => change(value - 1)}>−</button>
        <output><bdi>{formatNumber(value, locale)}</bdi></output>
        <button type="button" aria-label={say('one.more', { what: label })} disabled={value >= most} onClick={() => change(value + 1)}>+</button>
      </span>
    </div>
  );
}

export function Party({ query, change }: { query: Query; change: (part: Partial<Query>) => void }) {
  const { ages } = query;
  return (
    <div class="stack">
      <Count label={say('adults')} value={query.adults} least={1} most={30} change={(adults) => change({ adults })} />
      <Count label={say('children')} value={ages.length} least={0} most={20} change={(n) => change({ ages: n > ages.length ? [...ages, 8] : ages.slice(0, n) })} />
      {ages.length > 0 && <div class="ages">{ages.map((age, i) => (
        <div key={i} class="field">
          <label for={`age-${i}`}>{say('age', { n: i + 1 })}</label>
          <select id={`age-${i}`} class="age" value={String(age)} onChange={(e) => change({ ages: ages.map((was, k) => (k === i ? Number(e.currentTarget.value) : was)) })}>
            {age < 0 && <option value="-1">–</option>}
            {Array.from({ length: 18 }, (_, n) => <option key={n} value={n}>{formatNumber(n, locale)}</option>)}
          </select>
        </div>
      ))}</div>}
      <Count label={say('rooms')} value={query.rooms} least={1} most={15} change={(rooms) => change({ rooms })} />
    </div>
  );
}

/** The fields. A change that is complete searches at once; nothing waits for the button but what is being typed. */
export function SearchForm({ query, label, change, open }: { query: Query; label: string; change: (part: Partial<Query>) => void; open: (propertyId: string) => void }) {
  const [over, show] = useState<'days' | 'party'>();
  const [party, setParty] = useState(query);
  useEffect(() => setParty(query), [query]);
  const now = today('Asia/Kabul');
  const close = (): void => {
    if (over === 'party') change({ adults: party.adults, ages: party.ages, rooms: party.rooms });
    show(undefined);
  };
  return (
    <form class="search" role="search" onSubmit={(e) => { e.preventDefault(); document.getElementById('where')?.blur(); }}>
      <Where query={query} label={label} change={change} open={open} />
      <div class="field when"><span id="when">{say('when')}</span>
        <button type="button" class="value" aria-labelledby="when when-value" aria-haspopup="dialog" onClick={() => show('days')}>
          <span id="when-value"><bdi>{staySaid(query)}</bdi> <small class="dim">{say('nights', { n: nights(query.checkIn, query.checkOut) })}</small></span>
        </button>
      </div>
      <div class="field who"><span id="who">{say('who')}</span>
        <button type="button" class="value" aria-labelledby="who who-value" aria-haspopup="dialog" onClick={() => show('party')}><span id="who-value"><bdi>{partySaid(query)}</bdi></span></button>
      </div>
      <button class="first">{say('search')}</button>
      {over === 'days' && <Drawer kind="sheet" title={say('when')} closeText={say('done')} close={close}>
        <Calendar from={now} to={addDays(now, 364)} checkIn={query.checkIn} checkOut={query.checkOut} choose={(checkIn, checkOut) => { show(undefined); change({ checkIn, checkOut }); }} />
      </Drawer>}
      {over === 'party' && <Drawer kind="sheet" title={say('who')} closeText={say('done')} close={close}><Party query={party} change={(part) => setParty({ ...party, ...part })} /></Drawer>}
    </form>
  );
}
