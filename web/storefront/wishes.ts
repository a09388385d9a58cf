// Wishes without an account. The service keeps which; this device keeps at which price, to say what has changed.
import { signal } from '@preact/signals';
import type { Schemas } from '@melmastoon/bff/consumer';

import { api, known, session } from './api.js';

type Price = Schemas['Money'] & { readonly stay: string };

export const wished = signal<ReadonlySet<string>>(new Set());
const key = 'melmastoon-wishes';
const prices = (): Record<string, Price> => JSON.parse(localStorage.getItem(key) ?? '{}') as Record<string, Price>;
const putPrices = (all: Record<string, Price>): void => localStorage.setItem(key, JSON.stringify(all));

/** Learns what was saved; guests without wishes ask nothing. */
export async function learnWishes(): Promise<void> {
  await known;
  if ((session.peek()?.wishlistSize ?? 0) === 0) return;
  const { data } = await api.call('wishlist');
  wished.value = new Set(data.items.map(({ propertyId }) => propertyId));
}

export async function toggleWish(propertyId: string, source: Schemas['WishlistSource'], price: Schemas['Money'] | undefined, stay: string): Promise<void> {
  const now = new Set(wished.peek());
  const all = prices();
  if (now.has(propertyId)) {
    await api.call('removeFromWishlist', { path: { propertyId } });
    now.delete(propertyId);
    delete all[propertyId];
  } else {
    await api.call('addToWishlist', { body: { propertyId, source } });
    now.add(propertyId);
    if (price !== undefined) all[propertyId] = { ...price, stay };
  }
  putPrices(all);
  wished.value = now;
}

/** The price at which a hotel was saved, if it was for the same stay in the same currency. */
export function savedAt(propertyId: string, stay: string, currency: string): Schemas['Money'] | undefined {
  const was = prices()[propertyId];
  return was?.stay === stay && was.currency === currency ? was : undefined;
}

export function forgetPrices(): void {
  localStorage.removeItem(key);
  wished.value = new Set();
}
