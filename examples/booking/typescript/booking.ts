// The page on which a guest of the storefront arrives at a hotel: it verifies the
// hand-off, consumes it and shows what came over. A booking service starts its own
// flow where this one shows the stay. The Go program beside it does the same.
import { createHash, createHmac, randomUUID } from 'node:crypto';
import { createServer, type Server } from 'node:http';

import { HandoffError, parseKeyring, verifyHandoff } from '@melmastoon/bff/handoff';
import { formatDay, formatMoney, formatNumber, localeInfo } from '@melmastoon/bff/values';

import { style, wordsOf, type Word } from './page.js';

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

/** A text in several languages, of which `default` names one. */
interface Text {
  default: string;
  values: Record<string, string>;
}

interface Hotel {
  name: Text;
  photos?: { url: string; alt: Text; isHero: boolean }[];
}

/** In the guest's language, or in the one that its author has chosen. */
const inLocale = (text: Text, locale: string): string =>
  text.values[locale] ?? text.values[locale.split('-')[0]!] ?? text.values[text.default] ?? '';

class Refusal extends Error {
  constructor(
    readonly status: number,
    readonly word: Word,
  ) {
    super(word);
  }
}

const refusals: Record<number, Word> = { 401: 'forged', 403: 'suspended', 404: 'elsewhere', 409: 'used', 410: 'expired' };
const away = () => new Refusal(503, 'away');

/** A page: its words' language, what is in it, the brand's colour and where its picture comes from. */
interface Page {
  locale: string;
  title: string;
  body: string;
  color?: string;
  pictures?: string;
}

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
    const word = response.status === 401 ? undefined : refusals[response.status]; // 401: our own credentials are wrong
    if (word !== undefined) throw new Refusal(response.status, word);
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
  async function arrive(slug: string, token: string | null, purpose: unknown): Promise<Page> {
    if (!token) throw new Refusal(400, 'none');
    if (purpose !== undefined) throw away(); // a browser looks ahead: the guest has not come yet
    let stay;
    try {
      stay = verifyHandoff(keys, token, new Date());
    } catch (e) {
      const status = e instanceof HandoffError ? e.status : 401;
      throw new Refusal(status, refusals[status] ?? 'forged');
    }
    const tenant = await ask<{ slug: string }>(`${upstream}/tenant/api/v1/tenants/${stay.tenantId}`);
    if (tenant.slug !== slug) throw new Refusal(404, 'elsewhere');
    const hotel = await ask<Hotel>(`${upstream}/property/api/v1/properties/${stay.propertyId}`);
    // A page without the brand's colour is a page.
    const brand = await ask<{ primaryColor?: string }>(`${upstream}/theme-config/api/v1/tenants/${stay.tenantId}/brand-peek`).catch(() => undefined);
    const more = await consume(stay.handoffId, token);

    const { words, locale } = wordsOf(stay.locale);
    const name = inLocale(hotel.name, locale);
    const photo = hotel.photos?.find((p) => p.isHero && /^https?:/.test(p.url));
    const day = (d: string) => `<time datetime="${d}">${escape(formatDay(d, locale, { dateStyle: 'long', beside: true }))}</time>`;
    const count = (n: number) => formatNumber(n, locale);
    const list = (rows: Record<string, [Word, string] | undefined>) =>
      `<dl>${Object.entries(rows).map(([id, row]) => row && `<dt>${words[row[0]]}</dt><dd id="${id}">${row[1]}</dd>`).filter(Boolean).join('\n')}</dl>`;
    const section = (title: Word, body: string) => `<section><h2>${words[title]}</h2>${body}</section>`;
    const ages = more.occupancy.childrenAges ?? [];
    const check = (more.priceCheck ?? 'unchecked') as Word;
    const body = [
      `<header>${photo ? `<img src="${escape(photo.url)}" alt="${escape(inLocale(photo.alt, locale))}">` : ''}</header>`,
      `<h1 id="hotel-name">${escape(name)}</h1><p class="lead">${words.lead}</p>`,
      section('stay', list({
        'check-in': ['check-in', day(stay.dates.checkIn)],
        'check-out': ['check-out', day(stay.dates.checkOut)],
        adults: ['adults', count(stay.occupancy.adults)],
        children: stay.occupancy.children > 0 ? ['children', count(stay.occupancy.children)] : undefined,
        ages: ages.length > 0 ? ['ages', ages.map(count).join(' · ')] : undefined,
        rooms: ['rooms', count(stay.occupancy.rooms)],
      })),
      section('price', list({
        shown: ['shown', more.shown ? escape(formatMoney(more.shown, locale)) : words['not shown']],
        price: ['now', words[check] + (more.currentPrice ? `: ${escape(formatMoney(more.currentPrice, locale))}` : '')],
      })),
      section('signed', `<p>${words['signed what']}</p><p class="id" id="hotel">${escape(stay.propertyId)}</p>
        <p class="id"><span id="currency">${escape(stay.currency)}</span> · <span id="locale">${escape(stay.locale)}</span></p>`),
      section('checked', `<ul><li>${words.genuine}</li><li>${words['this hotel']}</li><li>${words['first use']}</li></ul>`),
      `<footer><span class="id">${words['hand-off']}: <span id="handoff">${escape(stay.handoffId)}</span></span></footer>`,
    ].join('\n');
    return { locale, title: name, body, ...(brand?.primaryColor && { color: brand.primaryColor }), ...(photo && { pictures: new URL(photo.url).origin }) };
  }

  return createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://booking');
    const slug = /^\/([a-z0-9-]+)\/book$/.exec(url.pathname)?.[1];
    const send = (status: number, page: Page) => {
      const sheet = style(page.color);
      const pictures = page.pictures === undefined ? '' : `img-src ${page.pictures}; `;
      const hash = createHash('sha256').update(sheet).digest('base64');
      response.writeHead(status, {
        'Content-Type': 'text/html; charset=utf-8',
        'Cache-Control': 'no-store',
        'Content-Security-Policy': `default-src 'none'; style-src 'sha256-${hash}'; ${pictures}base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
        'Referrer-Policy': 'no-referrer', // the address has the token in it
        'X-Content-Type-Options': 'nosniff',
      });
      response.end(`<!doctype html><html lang="${page.locale}" dir="${localeInfo(page.locale).direction}"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>${escape(page.title)}</title><style>${sheet}</style><main>${page.body}</main>`);
    };
    // A refusal is read in the language of the browser.
    const refuse = (status: number, word: Word) => {
      const { words, locale } = wordsOf(request.headers['accept-language'] ?? 'en');
      const body = `<div class="refused"><h1>${words['no booking']}</h1><p id="refusal">${words[word]}</p></div>`;
      send(status, { locale, title: words['no booking'], body });
    };
    if (slug === undefined) return refuse(404, 'elsewhere');
    // HEAD, which link checkers send, must not use a hand-off up.
    if (request.method !== 'GET') return refuse(405, 'none');
    arrive(slug, url.searchParams.get('h'), request.headers['sec-purpose']).then(
      (page) => send(200, page),
      (e: unknown) => {
        const refusal = e instanceof Refusal ? e : away();
        refuse(refusal.status, refusal.word);
      },
    );
  });
}

function escape(text: string): string {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}
