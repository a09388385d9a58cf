// Clients that other tools make of the contracts, against the platform: they compile strictly, and what they call is answered as they say.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import createClient from 'openapi-fetch';

import type { paths as StaffPaths } from '../../../clients/typescript/backoffice/schema.js';
import type { paths as GuestPaths } from '../../../clients/typescript/consumer/schema.js';
import * as desk from './backoffice.js';
import * as shop from './consumer.js';
import { guests, proved, staff } from './send.js';

const timeout = 300_000;
const search = { geo: { mode: 'city', city: 'Kabul' }, dates: { checkIn: '2077-05-12', checkOut: '2077-05-15' }, occupancy: { adults: 2, rooms: 1 } } as const;

test('openapi-typescript and openapi-fetch', { timeout }, async () => {
  const shop = createClient<GuestPaths>({ baseUrl: guests });
  const { data, error } = await shop.POST('/search', { body: search });
  assert.ok(data, error?.error.code);
  assert.equal(data.results.length, 20);
  const refused = await shop.GET('/hotels/{propertyId}', { params: { path: { propertyId: 'ppt_00000000000000000000000000' } } });
  assert.equal(refused.error?.error.code, 'MELMASTOON.GENERAL.RESOURCE_NOT_FOUND');

  const desk = createClient<StaffPaths>({ baseUrl: staff, fetch: proved });
  const session = await desk.GET('/session');
  const propertyId = session.data?.propertyScope[0];
  assert.ok(propertyId, session.error?.error.code);
  const arrivals = await desk.GET('/arrivals', { params: { header: { 'X-Property-Id': propertyId } } });
  for (const stay of arrivals.data?.items ?? assert.fail(arrivals.error?.error.code)) assert.equal(stay.guestName.length > 0, true);
});

test('orval', { timeout }, async () => {
  const found = await shop.search(search);
  assert.ok(found.status === 200, String(found.status));
  assert.equal(found.data.results.length, 20);
  const session = await desk.session();
  assert.ok(session.status === 200, String(session.status));
  const arrivals = await desk.arrivals(undefined, { headers: { 'X-Property-Id': session.data.propertyScope[0] ?? '' } });
  assert.ok(arrivals.status === 200, String(arrivals.status));
  for (const stay of arrivals.data.items) assert.equal(stay.guestName.length > 0, true);
});
