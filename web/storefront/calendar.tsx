// Nights to choose: the reader's calendar large, the other one small, Friday marked, a price where there is one.
import { useEffect, useRef, useState } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import { addDays, formatDay, formatNumber, type Day } from '@melmastoon/bff/values';

import { locale, say } from '../kit/i18n.js';
import { daysOf, isFriday, month, monthOf, numberOf, stepOf, weekFrom } from './month.js';

export interface Night {
  readonly shown?: ComponentChildren; // below the number
  readonly said?: string; // to who cannot see it
  readonly full?: boolean;
}
const mine = locale.calendars[0] ?? 'gregory';
const other = mine === 'persian' ? 'gregory' : 'persian';
const months = (day: Day): string => {
  const ends = [day, addDays(monthOf(day, mine, 1), -1)].map((d) => formatDay(d, locale, { calendar: other, dateStyle: 'month' }));
  return [...new Set(ends)].join(' – ');
};

/** A stay is two presses: arrival, then departure. The second one is given to `choose` with the first. */
export default function Calendar({ from, to, checkIn, checkOut, choose, night = () => ({}), many = 2 }: {
  from: Day; to: Day; checkIn: Day; checkOut: Day; choose: (checkIn: Day, checkOut: Day) => void; night?: (day: Day) => Night; many?: number;
}) {
  const [begun, begin] = useState<Day>();
  const [at, go] = useState(checkIn);
  const [shown, show] = useState(monthOf(checkIn < from ? from : checkIn, mine));
  const grid = useRef<HTMLDivElement>(null);
  const moved = useRef(false);
  useEffect(() => {
    if (moved.current) grid.current?.querySelector<HTMLElement>(`[data-day="${at}"]`)?.focus();
    moved.current = false;
  }, [at, shown]);
  const first = [monthOf(from, mine), shown > to ? monthOf(to, mine, 1 - many) : shown].sort().at(-1)!;
  const turn = (by: number): void => show(monthOf(first, mine, by));
  const end = begun ?? checkOut;
  const press = (day: Day): void => {
    go(day);
    if (begun === undefined || day <= begun) return begin(day);
    begin(undefined);
    choose(begun, day);
  };
  const key = (event: KeyboardEvent, day: Day): void => {
    const wanted = stepOf(event.key, day, locale.direction === 'rtl', mine, locale.firstDay);
    if (wanted === undefined) return;
    event.preventDefault();
    const next = wanted < from ? from : wanted > to ? to : wanted;
    moved.current = true;
    const month = monthOf(next, mine);
    if (month < first) show(month);
    else if (month >= monthOf(first, mine, many)) show(monthOf(month, mine, 1 - many));
    go(next);
  };
  const arrival = begun ?? checkIn;
  const within = Array.from({ length: many }, (_, i) => monthOf(first, mine, i));
  const stop = within.some((m) => at >= m && at < monthOf(m, mine, 1)) && at >= from ? at : within[0]! < from ? from : within[0]!;
  return (
    <div class="calendar" ref={grid}>
      <div class="row apart">
        <button class="quiet turn" aria-label={say('month.before')} disabled={first <= monthOf(from, mine)} onClick={() => turn(-1)}>‹</button>
        <p role="status" class="small strong">{say(begun === undefined ? 'pick.in' : 'pick.out')}</p>
        <button class="quiet turn" aria-label={say('month.after')} disabled={monthOf(first, mine, many) > to} onClick={() => turn(1)}>›</button>
      </div>
      <div class="months">
        {within.filter((m) => m <= to).map((m) => {
          const one = month(m, mine, locale.firstDay);
          const days = [...Array.from({ length: one.before }, () => undefined), ...daysOf(one)];
          return (
            <table key={m} role="grid" aria-label={formatDay(m, locale, { dateStyle: 'month' })}>
              <caption><bdi>{formatDay(m, locale, { dateStyle: 'month' })}</bdi> <bdi class="dim tiny">{months(m)}</bdi></caption>
              <thead><tr>{weekFrom(locale.firstDay).map((d) => {
                const long = locale.weekdays.long[d - 1] ?? '';
                return <th key={d} scope="col" abbr={long} class={d === 5 ? 'friday' : undefined}><bdi>{(locale.weekdays.short ?? locale.weekdays.long)[d - 1]}</bdi></th>;
              })}</tr></thead>
              <tbody>{Array.from({ length: Math.ceil(days.length / 7) }, (_, week) => (
                <tr key={week}>{Array.from({ length: 7 }, (_, i) => {
                  const day = days[week * 7 + i];
                  if (day === undefined) return <td key={i} />;
                  const { shown, said, full = false } = night(day);
                  const out = day < from || day > to;
                  const ends = day === arrival || (begun === undefined && day === end);
                  const name = [formatDay(day, locale, { dateStyle: 'full' }), formatDay(day, locale, { calendar: other }), ends && say(day === arrival ? 'checkIn' : 'checkOut'), said].filter(Boolean);
                  return (
                    <td key={i} aria-selected={ends} class={begun === undefined && day > arrival && day < end ? 'within' : undefined}>
                      <button data-day={day} class={`day${isFriday(day) ? ' friday' : ''}${full ? ' full' : ''}${ends ? ' end' : ''}`} tabIndex={day === stop ? 0 : -1} disabled={out}
                        onClick={() => press(day)} onKeyDown={(event) => key(event, day)}>
                        <bdi class="unseen">{name.join(locale.direction === 'rtl' ? '، ' : ', ')}</bdi>
                        <b aria-hidden="true">{formatNumber(numberOf(day, mine), locale)}</b><small aria-hidden="true">{formatNumber(numberOf(day, other), locale)}</small>
                        {shown !== undefined && <i aria-hidden="true">{shown}</i>}
                      </button>
                    </td>
                  );
                })}</tr>
              ))}</tbody>
            </table>
          );
        })}
      </div>
    </div>
  );
}
