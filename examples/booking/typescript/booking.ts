// The page on which a guest of the storefront arrives at a hotel: it verifies the
// hand-off, consumes it and shows what came over. A booking service starts its own
// flow where this one shows the stay. The Go program beside it does the same.
import { createHash, createHmac, randomUUID } from 'node:crypto';
import { createServer, type Server } from 'node:http';

import { HandoffError, parseKeyring, verifyHandoff } from '@melmastoon/bff/handoff';

interface Price {
  minor: string;
  currency: string;
  capturedAt: string;
}

/** What the token does not hold, from the consume call. */
interface Consumed {
  occupancy: { childrenAges?: number[] };
  priceCheck?: string;
  shown?: Price;
  currentPrice?: Price;
}

class Refusal extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

const refusals: Record<number, string> = {
  401: 'This hand-off is not genuine: its token was changed or cut off on the way.',
  403: 'This hotel takes no bookings at the moment.',
  404: 'This hand-off is for another hotel.',
  409: 'This hand-off was already used. Each one opens a booking once. Go back and choose the hotel again.',
  410: 'This hand-off has expired: it is good for thirty minutes. Go back and choose the hotel again.',
};
const away = () => new Refusal(503, 'The hand-off could not be checked and is still good. Load this page again in a moment.');

/** Serves hand-offs at /{tenantSlug}/book?h={token}. In production the slug is a part of the host name. */
export function createBooking(env: Record<string, string | undefined>): Server {
  const need = (name: string): string => {
    const value = env[name];
    if (!value) throw new Error(`${name} is not set`);
    return value;
  };
  const keys = parseKeyring(need('BFF_CONSUMER_HANDOFF_KEYS')); // in production from the secret store
  const internal = need('MELMASTOON_CONSUMER_INTERNAL_URL');
  const bearer = need('MELMASTOON_INTERNAL_TOKEN');
  const hmacKey = need('MELMASTOON_INTERNAL_HMAC_KEY');
  const upstream = need('MELMASTOON_SIM_URL'); // the platform's tenant and property services

  async function ask<T>(url: string, init: RequestInit = {}): Promise<T> {
    const response = await fetch(url, { ...init, signal: AbortSignal.timeout(5000) }).catch(() => {
      throw away(); // without the cause, which may name the address
    });
    const text = response.status === 401 ? undefined : refusals[response.status]; // 401: our own credentials are wrong
    if (text !== undefined) throw new Refusal(response.status, text);
    if (response.status !== 200) throw away();
    return (await response.json()) as T;
  }

  // A call that only services may make: a bearer token says which service calls, and a
  // signature that nothing was changed on the way. An instance that repeats its call is
  // told the same again for ten seconds, so each visit is an instance of its own.
  async function consume(id: string, token: string): Promise<Consumed> {
    const path = `/internal/handoff/${id}/consume`;
    const body = JSON.stringify({ token, instance: `booking-${randomUUID()}` });
    const now = Math.floor(Date.now() / 1000);
    const digest = createHash('sha256').update(body).digest('hex');
    const mac = createHmac('sha256', hmacKey).update(`POST\n${path}\n${now}\n${digest}`).digest('hex');
    const headers = { Authorization: `Bearer ${bearer}`, 'X-Internal-HMAC': `t=${now},v1=${mac}`, 'Content-Type': 'application/json' };
    const call = () => ask<Consumed>(internal + path, { method: 'POST', body, headers });
    return call().catch((e: unknown) => {
      if (e instanceof Refusal && e.status !== 503) throw e;
      return call(); // a lost answer is asked for once more
    });
  }

  // The steps and their order are those of the documentation of the Go package handoff.
  async function arrive(slug: string, token: string | null, purpose: unknown): Promise<string> {
    if (!token) throw new Refusal(400, "This address has no hand-off. Start from the hotel's page of the storefront.");
    if (purpose !== undefined) throw away(); // a browser looks ahead: the guest has not come yet
    let stay;
    try {
      stay = verifyHandoff(keys, token, new Date());
    } catch (e) {
      const status = e instanceof HandoffError ? e.status : 401;
      throw new Refusal(status, refusals[status] ?? 'This hand-off is refused.');
    }
    const tenant = await ask<{ slug: string }>(`${upstream}/tenant/api/v1/tenants/${stay.tenantId}`);
    if (tenant.slug !== slug) throw new Refusal(404, refusals[404]!);
    const hotel = await ask<{ name: { default: string } }>(`${upstream}/property/api/v1/properties/${stay.propertyId}`);
    const more = await consume(stay.handoffId, token);
    const rows: Record<string, string> = {
      hotel: stay.propertyId,
      'check-in': stay.dates.checkIn,
      'check-out': stay.dates.checkOut,
      guests: `${stay.occupancy.adults} adults, ${stay.occupancy.children} children (aged ${more.occupancy.childrenAges?.join(', ') || 'not said'}), ${stay.occupancy.rooms} rooms`,
      shown: more.shown ? `${amount(more.shown)} at ${more.shown.capturedAt}` : 'none',
      price: more.currentPrice ? `${more.priceCheck}: ${amount(more.currentPrice)}` : (more.priceCheck ?? 'unchecked'),
      currency: stay.currency,
      locale: stay.locale,
      handoff: stay.handoffId,
    };
    const list = Object.entries(rows).map(([name, value]) => `<dt>${name}</dt><dd id="${name}">${escape(value)}</dd>`);
    return `<h1>${escape(hotel.name.default)}</h1><p>You have arrived. The booking starts from here.</p><dl>${list.join('\n')}</dl>`;
  }

  return createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://booking');
    const slug = /^\/([a-z0-9-]+)\/book$/.exec(url.pathname)?.[1];
    const send = (status: number, body: string) => {
      response.writeHead(status, {
        'Content-Type': 'text/html; charset=utf-8',
        'Cache-Control': 'no-store',
        'Content-Security-Policy': "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        'Referrer-Policy': 'no-referrer', // the address has the token in it
        'X-Content-Type-Options': 'nosniff',
      });
      response.end(`<!doctype html><html lang="en"><meta charset="utf-8"><title>Booking</title>${body}`);
    };
    if (slug === undefined) return send(404, '<p>There is no such page.</p>');
    // HEAD, which link checkers send, must not use a hand-off up.
    if (request.method !== 'GET') return send(405, '<p>Only GET opens a booking.</p>');
    arrive(slug, url.searchParams.get('h'), request.headers['sec-purpose']).then(
      (body) => send(200, body),
      (e: unknown) => {
        const refusal = e instanceof Refusal ? e : away();
        send(refusal.status, `<h1>No booking</h1><p id="refusal">${escape(refusal.message)}</p>`);
      },
    );
  });
}

/** All currencies of the platform have two digits below the unit. */
function amount(p: Price): string {
  return `${p.minor.padStart(3, '0').replace(/(\d\d)$/, '.$1')} ${p.currency}`;
}

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}
