import { utc, type Day } from './day.js';

/** A day in the calendar of Afghanistan and Iran. */
export interface SolarHijri {
  readonly year: number;
  readonly month: number;
  readonly day: number;
}

const dayMs = 86_400_000;
const firstYear = 1300;
const lastYear = 1500;

/** Days from 1970-01-01 to the first day of a year: eight of 33 years have 366 days. Between the years 1300 and 1500 that is the astronomical calendar. */
const newYear = (year: number): number => 1_948_320 - 2_440_588 + 365 * (year - 1) + Math.floor((8 * year + 21) / 33);

/** The day in Solar Hijri. Throws outside the years 1300 to 1500 (1921 to 2122). */
export function toSolarHijri(day: Day): SolarHijri {
  const at = utc(day) / dayMs;
  if (at < newYear(firstYear) || at >= newYear(lastYear + 1)) throw new RangeError(`${day} is outside the years ${firstYear} to ${lastYear}`);
  let year = firstYear + Math.floor((at - newYear(firstYear)) / 366);
  while (newYear(year + 1) <= at) year++;
  const n = at - newYear(year);
  const rest = n - 6 * 31;
  return rest < 0 ? { year, month: Math.floor(n / 31) + 1, day: (n % 31) + 1 } : { year, month: Math.floor(rest / 30) + 7, day: (rest % 30) + 1 };
}

/** The day of a date in Solar Hijri. Throws if the calendar has no such date. */
export function fromSolarHijri({ year, month, day }: SolarHijri): Day {
  const at = newYear(year) + 31 * (month - 1) - Math.max(0, month - 7) + day - 1;
  if (Number.isInteger(at) && year >= firstYear && year <= lastYear) {
    const found = new Date(at * dayMs).toISOString().slice(0, 10);
    const back = at < newYear(lastYear + 1) && at >= newYear(firstYear) ? toSolarHijri(found) : undefined;
    if (back?.year === year && back.month === month && back.day === day) return found;
  }
  throw new RangeError(`not in Solar Hijri: ${year}-${month}-${day}`);
}
