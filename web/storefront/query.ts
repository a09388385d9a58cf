// What is searched for, as the address says it. An address that was typed or cut short leads to the usual search and not to an error.
import { addDays, foldDigits, nights, today, type Day } from '@melmastoon/bff/values';
import type { Place, Schemas } from '@melmastoon/bff/consumer';

export interface Query {
  /** The place in the guest's own words; `place` is what it means, where a suggestion said so. */
  readonly where: string;
  readonly place: Place | undefined;
  readonly country: string;
  readonly checkIn: Day;
  readonly checkOut: Day;
  readonly adults: number;
  /** Of each child; -1 is not known yet. */
  readonly ages: readonly number[];
  readonly rooms: number;
  readonly amenities: readonly string[];
  readonly stars: readonly number[];
  readonly kinds: readonly Kind[];
  readonly rating: number;
  readonly most: number;
  readonly free: boolean;
  readonly sort: Sort;
  readonly currency: string;
}
export type Kind = NonNullable<Schemas['Filters']['propertyType']>[number];
export type Sort = Schemas['SortKey'];

export const first = ['prayer-room', 'women-only-floor', 'generator-power', 'wheelchair-access'] as const;
export const sorts: readonly Sort[] = ['recommended', 'price-asc', 'price-desc', 'rating-desc', 'distance-asc'];
const kinds: readonly Kind[] = ['hotel', 'guesthouse', 'hostel', 'apartment'];
export const currencies = ['AFN', 'USD', 'EUR', 'IRR', 'PKR', 'AED', 'GBP'] as const;
export const usual = { city: 'Kabul', country: 'AF', ahead: 14, nights: 3 };

const day = (text: string | null): Day | undefined => {
  try {
    return text === null ? undefined : addDays(foldDigits(text), 0);
  } catch {
    return undefined;
  }
};
const whole = (text: string | null | undefined, least: number, most: number, otherwise: number): number => {
  const n = Number(foldDigits(text ?? '') || NaN);
  return Number.isInteger(n) && n >= least && n <= most ? n : otherwise;
};
const words = (of: URLSearchParams, name: string): string[] => of.getAll(name).flatMap((text) => text.split(',')).filter((word) => word !== '');
const numbers = (text: string | null): number[] => (text ?? '').split(',').map((n) => (n === '' ? NaN : Number(n)));

function placeOf(of: URLSearchParams): Place | undefined {
  const [lat = NaN, lng = NaN, radiusKm = NaN] = numbers(of.get('at'));
  if (lat + lng + radiusKm === lat + lng + radiusKm) return { mode: 'point', point: { lat, lng, radiusKm } };
  const [swLat = NaN, swLng = NaN, neLat = NaN, neLng = NaN] = numbers(of.get('box'));
  if (swLat < neLat && swLng === swLng && neLng === neLng) return { mode: 'bounding-box', boundingBox: { swLat, swLng, neLat, neLng } };
  const [city, region] = [of.get('city'), of.get('region')];
  return city ? { mode: 'city', city } : region ? { mode: 'region', region } : undefined;
}

export function queryOf(of: URLSearchParams, now: Day = today('Asia/Kabul')): Query {
  const asked = day(of.get('in'));
  const checkIn = asked !== undefined && asked >= now ? asked : addDays(now, usual.ahead);
  const leave = day(of.get('out'));
  const checkOut = leave !== undefined && leave > checkIn && nights(checkIn, leave) <= 365 ? leave : addDays(checkIn, usual.nights);
  const ages = words(of, 'ages').slice(0, 20).map((age) => whole(age, 0, 17, -1));
  const children = whole(of.get('children'), 0, 20, ages.length);
  const where = of.get('where') ?? '';
  const place = placeOf(of) ?? (where === '' ? { mode: 'city' as const, city: usual.city } : undefined);
  return {
    where, place, country: of.get('country') ?? (where === '' ? usual.country : ''), checkIn, checkOut,
    adults: whole(of.get('adults'), 1, 30, 2), ages: Array.from({ length: children }, (_, i) => ages[i] ?? -1), rooms: whole(of.get('rooms'), 1, 15, 1),
    amenities: words(of, 'f'), stars: words(of, 'stars').map(Number).filter((n) => n >= 1 && n <= 5), kinds: kinds.filter((k) => words(of, 'kind').includes(k)),
    rating: whole(of.get('rating'), 0, 10, 0), most: whole(of.get('most'), 0, 1e12, 0), free: of.get('free') === '1',
    sort: sorts.find((s) => s === of.get('sort')) ?? 'recommended', currency: currencies.find((c) => c === of.get('currency')) ?? '',
  };
}

/** What differs from the usual, as members of an address. */
export function paramsOf(query: Query): URLSearchParams {
  const to = new URLSearchParams();
  const put = (name: string, value: string | number, usually: string | number = ''): void => void (value !== usually && to.set(name, String(value)));
  put('where', query.where);
  const { place } = query;
  if (place?.mode === 'city' && query.where !== '') put('city', place.city);
  if (place?.mode === 'region') put('region', place.region);
  if (place?.mode === 'point') put('at', [place.point.lat, place.point.lng, place.point.radiusKm].join(','));
  if (place?.mode === 'bounding-box') put('box', [place.boundingBox.swLat, place.boundingBox.swLng, place.boundingBox.neLat, place.boundingBox.neLng].map((n) => Number(n.toFixed(4))).join(','));
  put('country', query.country, query.where === '' ? usual.country : '');
  put('in', query.checkIn);
  put('out', query.checkOut);
  put('adults', query.adults, 2);
  put('ages', query.ages.map((age) => (age < 0 ? '-' : age)).join(','));
  put('rooms', query.rooms, 1);
  put('f', query.amenities.join(','));
  put('stars', query.stars.join(','));
  put('kind', query.kinds.join(','));
  put('rating', query.rating, 0);
  put('most', query.most, 0);
  put('free', query.free ? 1 : '');
  put('sort', query.sort, 'recommended');
  put('currency', query.currency);
  return to;
}

/** The stay alone, as it goes from page to page. */
export const stayOf = ({ checkIn, checkOut }: Query): Schemas['StayDates'] => ({ checkIn, checkOut });

/** Ages go along when all are known: the service takes all or none. */
export const partyOf = ({ adults, rooms, ages }: Query): Schemas['Occupancy'] => ({
  adults, rooms, children: ages.length, ...(ages.length > 0 && !ages.includes(-1) && { childrenAges: [...ages] }),
});

export function bodyOf(query: Query, locale: string, currency: string): Schemas['SearchRequest'] {
  const filters: Schemas['Filters'] = {
    ...(query.amenities.length > 0 && { amenities: [...query.amenities] }),
    ...(query.stars.length > 0 && { starRating: [...query.stars] }),
    ...(query.kinds.length > 0 && { propertyType: [...query.kinds] }),
    ...(query.rating > 0 && { guestRatingMin: query.rating }),
    ...(query.free && { cancellationFlexibility: 'free' as const }),
    ...(query.most > 0 && { priceRange: { min: 0, max: query.most, currency: currency as Schemas['Currency'] } }),
  };
  const place: Place = query.place ?? { mode: 'city', city: query.where };
  return {
    geo: query.country === '' ? place : { ...place, country: query.country },
    dates: stayOf(query), occupancy: partyOf(query), sortKey: query.sort, locale,
    ...(Object.keys(filters).length > 0 && { filters }),
    ...(currency !== '' && { currency: currency as Schemas['Currency'] }),
  };
}
