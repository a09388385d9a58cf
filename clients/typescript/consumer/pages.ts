import type { Call, ConsumerClient, Schemas } from './client.js';

/** The largest offset that a search takes. */
const furthest = 5_000;

/**
 * The pages of a search, one after the other, as far as the loop asks for them:
 *
 *     for await (const page of searchPages(api, { body })) show(page.results);
 *
 * All pages belong to one search, so that no hotel is repeated or skipped while prices move.
 */
export async function* searchPages(api: ConsumerClient, call: Call<'search'>): AsyncGenerator<Schemas['SearchResult'], void, undefined> {
  const { limit = 20, offset: first = 0 } = call.body.page ?? {};
  let search = call.headers?.['X-Search-Session'];
  for (let offset = first, total = 1; offset < total || offset === first; offset += limit) {
    if (offset > furthest) return;
    const headers = search === undefined ? { ...call.headers } : { ...call.headers, 'X-Search-Session': search };
    const answer = await api.call('search', { ...call, headers, body: { ...call.body, page: { limit, offset } } });
    yield answer.data;
    search = answer.headers.get('X-Search-Session') ?? search;
    total = answer.data.page.total;
  }
}
