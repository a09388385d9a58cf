// Words of the service in the operator's language, and its figures in the operator's digits.
import { formatDay, foldDigits, localized, type Day } from '@melmastoon/bff/values';

import { locale } from '../kit/i18n.js';
import { zone, type Stay } from './views.js';

export const name = (text: Parameters<typeof localized>[0] | undefined): string => (text === undefined ? '' : localized(text, locale));

/** A day in the operator's calendar, and in the other one where the operator or the house counts in two. */
export function bothDays(of: Day, dateStyle: 'full' | 'medium' = 'medium'): string {
  const text = formatDay(of, locale, { dateStyle, beside: true });
  const solar = locale.calendars.length === 1 && /^Asia\/(Kabul|Tehran)$/.test(zone.value);
  return solar ? `${text} (${formatDay(of, locale, { calendar: 'persian' })})` : text;
}

/** Whether a stay is what was typed: a room, or a part of the guest's name. */
export function found(stay: Pick<Stay, 'guestName' | 'roomNumber'>, typed: string): boolean {
  const wanted = fold(typed);
  return wanted === '' || fold(stay.guestName).includes(wanted) || fold(stay.roomNumber ?? '').startsWith(wanted);
}

const fold = (text: string): string => foldDigits(text).toLocaleLowerCase().replaceAll('ي', 'ی').replaceAll('ك', 'ک').replaceAll('\u200c', '').trim();
