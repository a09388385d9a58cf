// Results of a search, kept while the page lives: back, forward and the map find the same hotels in the same place.
import { signal, type Signal } from '@preact/signals';

import { locale } from '../kit/i18n.js';
import { api, begun, known, session, type Card, type Degradation } from './api.js';
import { bodyOf, paramsOf, type Query } from './query.js';

export interface Results {
  readonly cards: readonly Card[];
  readonly total: number;
  readonly degraded: readonly Degradation[];
  readonly brownout: string;
  readonly at: Date | undefined;
  readonly loading: boolean;
  readonly meant: string;
  readonly error?: unknown;
}
interface Kept {
  readonly state: Signal<Results>;
  search: string; // names the order, so that no page repeats another
}
const none: Results = { cards: [], total: 0, degraded: [], brownout: '', at: undefined, loading: true, meant: '' };
const kept = new Map<string, Kept>();
export const size = 10;

/** Names a search in every answer that belongs to it. */
export const currencyOf = (query: Query): string => query.currency || (session.peek()?.currency ?? '');
export const nameOfSearch = (query: Query): string => `${String(paramsOf(query))}|${currencyOf(query)}`;

function add(one: Kept, { results, page, degraded, queryRewriteHint }: Answer, headers: { search: string; brownout: string; at: Date }): void {
  const before = page.offset === 0 ? [] : one.state.peek().cards.slice(0, page.offset);
  const meant = typeof queryRewriteHint?.['didYouMean'] === 'string' ? queryRewriteHint['didYouMean'] : '';
  one.search = headers.search || one.search;
  one.state.value = { cards: [...before, ...results], total: page.total, degraded, brownout: headers.brownout, at: headers.at, loading: false, meant };
}
type Answer = NonNullable<typeof begun.search>['answer'];

/** The results of a search, with so many hotels at least; those that the server asked for when it wrote the page are there at once. */
export function resultsOf(query: Query, shown: number): Signal<Results> {
  const name = nameOfSearch(query);
  let one = kept.get(name);
  if (one === undefined) {
    one = { state: signal(none), search: '' };
    kept.set(name, one);
    const { search } = begun;
    if (search !== undefined && search.query === location.search && kept.size === 1) add(one, search.answer, { search: search.session, brownout: search.brownout, at: new Date(search.at) });
    if (one.state.peek().cards.length < Math.min(shown, one.state.peek().total) || one.state.peek().at === undefined) void fill(query, shown);
  }
  return one.state;
}

/** Asks for what is missing up to so many hotels; from the first one on when `anew`. */
export async function fill(query: Query, shown: number, anew = false): Promise<void> {
  const one = kept.get(nameOfSearch(query));
  if (one === undefined) return;
  one.state.value = { ...one.state.peek(), loading: true };
  try {
    await known;
    for (let offset = anew ? 0 : one.state.peek().cards.length; offset < shown; offset += size) {
      const { data, headers } = await api.call('search', {
        body: { ...bodyOf(query, locale.locale, currencyOf(query)), page: { limit: size, offset } }, ...(one.search !== '' && { headers: { 'X-Search-Session': one.search } }),
      });
      add(one, data, { search: headers.get('X-Search-Session') ?? '', brownout: headers.get('X-Brownout') ?? '', at: new Date() });
      if (offset + size >= data.page.total) break;
    }
  } catch (error) {
    one.state.value = { ...one.state.peek(), loading: false, error };
  }
}
