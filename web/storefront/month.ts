// Months of both calendars as a picker shows them: weeks that begin on the reader's first day, days that belong to the month alone.
import { addDays, fromSolarHijri, toSolarHijri, type Day, type LocaleInfo } from '@melmastoon/bff/values';

type Calendar = LocaleInfo['calendars'][number];

export interface Month {
  readonly first: Day;
  readonly length: number;
  /** Empty places before the first day. */
  readonly before: number;
}

const iso = (day: Day): number => ((new Date(`${day}T00:00:00Z`).getUTCDay() + 6) % 7) + 1; // 1 is Monday
export const isFriday = (day: Day): boolean => iso(day) === 5;

/** The first day of the month in which a day is, or of one so many months later. */
export function monthOf(day: Day, calendar: Calendar, later = 0): Day {
  if (calendar === 'persian') {
    const { year, month } = toSolarHijri(day);
    const months = year * 12 + month - 1 + later;
    return fromSolarHijri({ year: Math.floor(months / 12), month: (months % 12) + 1, day: 1 });
  }
  const at = new Date(`${day}T00:00:00Z`);
  return new Date(Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + later, 1)).toISOString().slice(0, 10);
}

export function month(day: Day, calendar: Calendar, firstDay: number): Month {
  const first = monthOf(day, calendar);
  const next = monthOf(first, calendar, 1);
  return { first, length: (Date.parse(next) - Date.parse(first)) / 86_400_000, before: (iso(first) - firstDay + 7) % 7 };
}

export const daysOf = ({ first, length }: Month): Day[] => Array.from({ length }, (_, i) => addDays(first, i));

/** The number of a day in its month. */
export function numberOf(day: Day, calendar: Calendar): number {
  return calendar === 'persian' ? toSolarHijri(day).day : Number(day.slice(8));
}

/** Days of the week from the reader's first. */
export const weekFrom = (firstDay: number): number[] => Array.from({ length: 7 }, (_, i) => ((firstDay - 1 + i) % 7) + 1);

/** Where a key leads in a grid of days; arrows follow the direction of the page. */
export function stepOf(key: string, day: Day, rtl: boolean, calendar: Calendar, firstDay: number): Day | undefined {
  const days = { ArrowLeft: rtl ? 1 : -1, ArrowRight: rtl ? -1 : 1, ArrowUp: -7, ArrowDown: 7, Home: -((iso(day) - firstDay + 7) % 7), End: 6 - ((iso(day) - firstDay + 7) % 7) }[key];
  if (days !== undefined) return addDays(day, days);
  if (key !== 'PageUp' && key !== 'PageDown') return undefined;
  const { length, first } = month(monthOf(day, calendar, key === 'PageUp' ? -1 : 1), calendar, firstDay);
  return addDays(first, Math.min(numberOf(day, calendar), length) - 1);
}
