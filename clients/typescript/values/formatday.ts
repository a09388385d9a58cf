import { utc, type Day } from './day.js';
import { isolate, localeInfo, withDigits, type LocaleInfo } from './locale.js';
import { toSolarHijri } from './solarhijri.js';

export type Calendar = LocaleInfo['calendars'][number];

export interface DayOptions {
  /** `month` is a month of a year, `day` a day of a month. */
  readonly dateStyle?: 'full' | 'long' | 'medium' | 'short' | 'month' | 'day';
  /** By default the one that readers of the locale count in. */
  readonly calendar?: Calendar;
  /** Show the locale's other calendar in brackets, if it has one: `۲۷ عقرب ۱۴۰۵ (۱۸ نومبر ۲۰۲۶)`. */
  readonly beside?: boolean;
}

/** The day for people, in the calendar, the words and the digits of the locale: the same day wherever the browser is. */
export function formatDay(day: Day, locale: string | LocaleInfo, { dateStyle = 'medium', calendar, beside = false }: DayOptions = {}): string {
  const info = localeInfo(locale);
  const first = calendar ?? info.calendars[0] ?? 'gregory';
  const other = info.calendars.find((c) => c !== first);
  const text = inCalendar(day, info, dateStyle, first);
  return beside && other !== undefined ? `${isolate(text)} (${isolate(inCalendar(day, info, dateStyle, other))})` : text;
}

function inCalendar(day: Day, info: LocaleInfo, style: NonNullable<DayOptions['dateStyle']>, calendar: Calendar): string {
  const at = new Date(utc(day));
  const date = calendar === 'persian' ? toSolarHijri(day) : { year: at.getUTCFullYear(), month: at.getUTCMonth() + 1, day: at.getUTCDate() };
  const { long, short = long, standalone = long } = info.months[calendar];
  const number = (n: number, letters: string): string => withDigits(String(n).padStart(letters.length, '0'), info);
  const part = (letters: string): string => {
    switch (letters) {
      case 'EEEE':
        return info.weekdays.long[(at.getUTCDay() + 6) % 7] ?? '';
      case 'LLLL':
        return standalone[date.month - 1] ?? '';
      case 'MMMM':
        return long[date.month - 1] ?? '';
      case 'MMM':
        return short[date.month - 1] ?? '';
      case 'y':
        return number(date.year, letters);
      default:
        return number(letters.startsWith('M') ? date.month : date.day, letters);
    }
  };
  // Letters are a part of the date, and what stands between ' is text.
  return info.dates[style].replace(/'([^']*)'|E{4}|L{4}|M{1,4}|d{1,2}|y/g, (letters, text?: string) => text ?? part(letters));
}
