// Today on one screen: who comes, who is here, who leaves, and what is to be decided.
import type { ComponentChildren } from 'preact';

import { formatDay } from '@melmastoon/bff/values';

import { locale, own, say, word } from '../kit/i18n.js';
import { Bdi, Ghost, Num } from '../kit/parts.js';
import { withParams } from '../kit/url.js';
import { Alerts, Suggestions, waiting } from './inbox.js';
import { Figures } from './figures.js';
import { LastPress } from './pressed.js';
import { press, underWay } from './presses.js';
import { arrivals, departures, inHouse, isFresh, roomState, type Stay } from './views.js';
import { Truth, type Told } from './truth.js';
import { filter } from './find.js';
import { found } from './words.js';
import type { Loaded } from '../kit/load.js';

/** A list with its number, its moment and its rows. */
export function Column<T>({ title, id, of, rows, row, empty, count = rows.length }: {
  title: string; id: string; of: Loaded<{ items: readonly T[] } & Told>; rows: readonly T[]; row: (one: T) => ComponentChildren; empty: string; count?: number;
}) {
  return (
    <section class="card flush column" aria-labelledby={`h-${id}`} data-column={id}>
      <header><h2 id={`h-${id}`}>{title} <span class="chip"><Num value={count} /></span></h2><Truth of={of} /></header>
      {of.data === undefined && of.error === undefined ? <div class="pad"><Ghost lines={5} /></div> : null}
      {of.data !== undefined && rows.length === 0 && <p class="pad dim small">{of.data.items.length > 0 ? say('find.none') : empty}</p>}
      <ul class="rows">{rows.map(row)}</ul>
    </section>
  );
}

function StayRow({ stay, step, time, children }: { stay: Stay; step: 'check-in' | 'check-out' | undefined; time?: string | undefined; children?: ComponentChildren }) {
  const { reservationId: id } = stay;
  return (
    <li class={`item${isFresh(id) ? ' fresh' : ''}`} data-stay={id}>
      <div class="row wrap line">
        {time !== undefined && <Bdi ltr class="time">{own(time)}</Bdi>}
        <Bdi ltr class="room">{stay.roomNumber === undefined ? '—' : own(stay.roomNumber)}</Bdi>
        <a class="grow clip" href={withParams({ stay: id }).href} data-item="stay" data-id={id}><bdi data-user>{stay.guestName === '' ? say('stay.nameless') : stay.guestName}</bdi></a>
        {stay.vip && <span class="chip warm">{say('stay.vip')}</span>}
        {isFresh(id) && <span class="chip lapis">{say('new')}</span>}
        {children}
        {step !== undefined && stay.can.includes(step) && (
          <button class="little" data-do={step} disabled={underWay(id) !== undefined} onClick={() => void press({ route: step, step, subject: id })}>{say(`step.${step}`)}</button>
        )}
      </div>
      <LastPress subject={id} />
    </li>
  );
}

function Readiness({ stay }: { stay: Stay }) {
  const state = roomState(stay.roomNumber);
  return <span class={`chip ${{ ready: 'good', 'not-ready': 'warm', none: 'warm', unknown: '' }[state]}`}>{say(`room.${state}`)}</span>;
}

export function Today() {
  const typed = filter.value;
  const rows = (of: Loaded<{ items: readonly Stay[] }>): Stay[] => (of.data?.items ?? []).filter((stay) => found(stay, typed));
  // Who is still to come stands first; who came, or will not, stays in sight.
  const due = rows(arrivals.value).sort((a, b) => Number(a.status !== 'confirmed') - Number(b.status !== 'confirmed'));
  const leaving = rows(departures.value).sort((a, b) => Number(a.status !== 'checked_in') - Number(b.status !== 'checked_in'));
  return (
    <>
      <Figures />
      <div class="columns">
        <Column title={say('arrivals')} id="arrivals" of={arrivals.value} empty={say('arrivals.none')} rows={due} count={due.filter((stay) => stay.status === 'confirmed').length}
          row={(stay) => <StayRow key={stay.reservationId} stay={stay} step="check-in" time={stay.eta ?? '—'}>{stay.status === 'confirmed' ? <Readiness stay={stay} /> : <span class={`chip${stay.status === 'checked_in' ? ' good' : ''}`}>{word('status', stay.status)}</span>}</StayRow>} />
        <Column title={say('inhouse')} id="in-house" of={inHouse.value} empty={say('inhouse.none')} rows={rows(inHouse.value)}
          row={(stay) => <StayRow key={stay.reservationId} stay={stay} step={undefined}><span class="tiny dim">{say('till')} <bdi>{formatDay(stay.checkOut, locale, { dateStyle: 'day' })}</bdi></span></StayRow>} />
        <Column title={say('departures')} id="departures" of={departures.value} empty={say('departures.none')} rows={leaving} count={leaving.filter((stay) => stay.status === 'checked_in').length}
          row={(stay) => <StayRow key={stay.reservationId} stay={stay} step="check-out">{stay.status !== 'checked_in' && <span class="chip">{word('status', stay.status)}</span>}</StayRow>} />
        <section class="card flush column" aria-labelledby="h-decide" data-column="decide">
          <header><h2 id="h-decide">{say('decide')} <span class="chip"><Num value={waiting()} /></span></h2></header>
          <Alerts />
          <Suggestions />
        </section>
      </div>
    </>
  );
}
