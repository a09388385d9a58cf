// Today's lists on paper: what a desk needs when there is neither power nor line. It is in the page all the time and shown to printers alone.
import { formatDay } from '@melmastoon/bff/values';
import type { ComponentChildren } from 'preact';

import { locale, own, say, word } from '../kit/i18n.js';
import { Bdi, Moment } from '../kit/parts.js';
import { noteOf, state } from './blackout.js';
import { unsettled } from './presses.js';
import { now, property, told } from './service.js';
import { arrivals, day, departures, housekeeping, inHouse, zone, type Stay } from './views.js';
import { bothDays, name } from './words.js';

function Sheet<T>({ title, rows, heads, cells }: { title: string; rows: readonly T[]; heads: readonly string[]; cells: (row: T) => readonly ComponentChildren[] }) {
  return (
    <section>
      <h2>{title} <bdi>({own(String(rows.length))})</bdi></h2>
      {rows.length > 0 && <table><thead><tr>{heads.map((head) => <th key={head} scope="col">{head}</th>)}<th scope="col" class="tick">✓</th></tr></thead>
        <tbody>{rows.map((row, i) => <tr key={i}>{cells(row).map((cell, n) => <td key={n}>{cell}</td>)}<td class="tick" /></tr>)}</tbody></table>}
    </section>
  );
}

/** Rooms with a box for each, by what is to be done there. */
function Rooms<T extends { roomNumber?: string }>({ title, rows, group, note }: { title: string; rows: readonly T[]; group: (row: T) => string; note?: (row: T) => string }) {
  return (
    <section>
      <h2>{title} <bdi>({own(String(rows.length))})</bdi></h2>
      {[...new Set(rows.map(group))].map((kind) => (
        <p key={kind} class="rooms">{kind}: {rows.filter((row) => group(row) === kind).map((row, i) => <span key={i}><i class="box" /><Bdi ltr>{own(row.roomNumber ?? '—')}</Bdi>{(note?.(row) ?? '') !== '' && <Bdi ltr> ({note?.(row)})</Bdi>} </span>)}</p>
      ))}
    </section>
  );
}

const party = (stay: Stay): string => own(`${stay.adults}${stay.children > 0 ? `+${stay.children}` : ''}`);
const byRoom = (a: { roomNumber?: string }, b: { roomNumber?: string }): number => (a.roomNumber ?? '').localeCompare(b.roomNumber ?? '', 'en', { numeric: true });
const until = (stay: Stay): ComponentChildren => <bdi>{formatDay(stay.checkOut, locale, { dateStyle: 'day' })}</bdi>;

/** What an operator writes by hand while there is no line. */
const Lines = ({ title, n }: { title: string; n: number }) => (
  <section class="by-hand"><h2>{title}</h2>{Array.from({ length: n }, (_, i) => <p key={i} class="write" />)}</section>
);

/** One A4 sheet for a house of usual size; who leaves has the name among those in the house. Where the lists of this page were not read, they are those of the pack. */
export function Paper() {
  const of = day.value;
  const { pack, entries = [] } = state.value ?? {};
  const room = (one: { roomNumber?: string }): ComponentChildren => <Bdi ltr>{own(one.roomNumber ?? '—')}</Bdi>;
  const guest = (stay: Stay): ComponentChildren => <Bdi>{stay.guestName}</Bdi>;
  const dirty = (housekeeping.value.data?.items ?? []).filter((task) => !['done', 'inspected'].includes(task.status)).sort(byRoom);
  const open = entries.filter((entry) => entry.state !== 'settled');
  return (
    <section class="paper" aria-hidden="true">
      <header><h1><Bdi>{name(property.value?.name)}</Bdi></h1>
        <p>{of !== undefined && <bdi>{bothDays(of.date, 'full')}</bdi>} · {say('print.at')} <Moment at={new Date(now.value)} zone={zone.value} />{inHouse.value.data !== undefined && <> · {say('asof')} <Moment at={inHouse.value.data.asOf} zone={zone.value} /></>}</p></header>
      <div class="halves">
        <Sheet title={say('inhouse')} rows={[...(inHouse.value.data?.items ?? [])].sort(byRoom)}
          heads={[say('stay.room'), say('stay.guest'), say('stay.party'), say('till')]} cells={(stay) => [room(stay), guest(stay), party(stay), until(stay)]} />
        <Sheet title={say('arrivals')} rows={(arrivals.value.data?.items ?? []).filter((stay) => stay.status === 'confirmed')}
          heads={[say('stay.eta'), say('stay.room'), say('stay.guest'), say('stay.party'), say('till')]} cells={(stay) => [<Bdi ltr>{own(stay.eta ?? '—')}</Bdi>, room(stay), guest(stay), party(stay), until(stay)]} />
        <Rooms title={say('departures')} rows={(departures.value.data?.items ?? []).filter((stay) => stay.status === 'checked_in').sort(byRoom)} group={() => say('stay.room')} />
        <Rooms title={say('sheet.dirty')} rows={dirty} group={(task) => word('kind', task.kind)} note={(task) => own(task.neededBy ?? '')} />
        {pack !== undefined && <Rooms title={`${say('sheet.todo')}: ${say('sheet.keys')}`} rows={[...pack.keysDue].sort(byRoom)} group={(key) => say(`sheet.${key.step}`)} />}
        {open.length > 0 && <Sheet title={say('blackout.taken')} rows={open} heads={[say('print.when'), say('stay.room'), say('print.task')]}
          cells={(entry) => [<Moment at={told(entry.pressedAt)} zone={zone.value} />, room({ roomNumber: noteOf(entry)?.room ?? '' }), word('step', noteOf(entry)?.step ?? entry.operation)]} />}
        {unsettled.value.length > 0 && <Sheet title={say('unsettled')} rows={unsettled.value} heads={[say('print.when'), say('print.task')]} cells={(one) => [<Moment at={one.at} zone={zone.value} seconds />, `${word('step', one.step)} · ${say(`press.${one.state}`)}`]} />}
        <Lines title={`${say('sheet.todo')}: ${say('sheet.refunds')}`} n={3} />
        <Lines title={say('sheet.notes')} n={4} />
      </div>
    </section>
  );
}
