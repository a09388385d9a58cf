/** A day as the services send it, `YYYY-MM-DD`: no moment and no time zone. */
export type Day = string;

const dayMs = 86_400_000;

/** Midnight in Greenwich. */
export function utc(day: Day): number {
  const at = /^\d{4}-\d{2}-\d{2}$/.test(day) ? Date.parse(`${day}T00:00:00Z`) : NaN;
  // JavaScript takes the 31st of June for the 1st of July.
  if (Number.isNaN(at) || new Date(at).toISOString().slice(0, 10) !== day) throw new RangeError(`not a day: ${day}`);
  return at;
}

/** The day after so many days; before, if negative. */
export function addDays(day: Day, days: number): Day {
  return new Date(utc(day) + days * dayMs).toISOString().slice(0, 10);
}

/** How many nights a stay has. */
export function nights(checkIn: Day, checkOut: Day): number {
  return (utc(checkOut) - utc(checkIn)) / dayMs;
}

/** The day that a date picker shows: that of the browser's own time zone. `toISOString` would give the day before, east of Greenwich. */
export function dayOf(picked: Date): Day {
  const two = (n: number): string => String(n).padStart(2, '0');
  return `${String(picked.getFullYear()).padStart(4, '0')}-${two(picked.getMonth() + 1)}-${two(picked.getDate())}`;
}

/** The day that it is now in a time zone, such as the hotel's `Asia/Kabul`. */
export function today(timeZone: string, now = new Date()): Day {
  const parts = new Intl.DateTimeFormat('en-u-ca-gregory-nu-latn', { timeZone, year: 'numeric', month: '2-digit', day: '2-digit' }).formatToParts(now);
  const part = (type: string): string => parts.find((p) => p.type === type)?.value ?? '';
  return `${part('year').padStart(4, '0')}-${part('month')}-${part('day')}`;
}
