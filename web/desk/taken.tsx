// What was taken down without a line, and what the service said became of it, in words that do not say more than is known.
import { signal } from '@preact/signals';

import type { Entry, Pack } from '@melmastoon/bff/backoffice';
import { foldDigits } from '@melmastoon/bff/values';

import { own, pieces, say, word } from '../kit/i18n.js';
import { Bdi, Moment, Money, Num, submitted } from '../kit/parts.js';
import { again, alone, before, confirm, drop, noteOf, state, takenOf } from './blackout.js';
import { stayId } from './drawer.js';
import { explain, told } from './service.js';
import { housekeeping, maintenance, stays, zone } from './views.js';

const clock = (at: string | number) => <Moment at={typeof at === 'number' ? told(at) : at} zone={zone.value} />;

/** What became of an entry. */
function Fate({ entry: { verdict, state: is } }: { entry: Entry }) {
  if (is === 'lost') return <span class="bad">{say('verdict.lost')}</span>;
  switch (verdict?.verdict) {
    case undefined: return <span class="chip warm">{say('verdict.unsent')}</span>;
    case 'done': return <span class="chip good">✓ {say('verdict.done')}</span>;
    case 'already_done': return <span>↺ {pieces('verdict.already_done', { when: clock(verdict.at) })}</span>;
    case 'done_by_other': return <span>↺ {pieces('verdict.done_by_other', { who: <Bdi>{verdict.byName ?? say('someone')}</Bdi>, when: clock(verdict.at) })}</span>;
    case 'not_possible': return <span><span class="chip bad">✗ {say('verdict.not_possible')}</span> {word('why', verdict.reason)}</span>;
    case 'expired': return <span class="bad">{say(`verdict.expired.${verdict.known.outcome === 'denied' ? 'failure' : verdict.known.outcome}`)}</span>;
    default: return <span>{say(`verdict.${verdict?.verdict === 'needs_second_factor' ? 'needs_second_factor' : 'unknown'}`)}</span>;
  }
}

const failed = signal('');

function Code({ entry }: { entry: Entry }) {
  const give = submitted(async (typed) => {
    failed.value = await confirm(entry, foldDigits(typed('code')).trim()).then(() => '', explain);
  });
  return (
    <form class="row wrap" onSubmit={give}>
      <label class="field"><span class="unseen">{say('entry.code')}</span><input name="code" inputMode="numeric" autoComplete="one-time-code" required maxLength={12} dir="ltr" placeholder={say('entry.code')} /></label>
      <button class="first little">{say('entry.confirm')}</button>{failed.value !== '' && <Bdi class="small bad">{failed.value}</Bdi>}
    </form>
  );
}

/** An entry: when, what, about whom, and what may be done about its verdict. */
function Row({ entry }: { entry: Entry }) {
  const note = noteOf(entry);
  const amount = (entry.about?.body as { amount?: { minor: string; currency: string } } | undefined)?.amount;
  const stays = ['checkIn', 'checkOut'].includes(entry.operation) && entry.verdict?.verdict === 'not_possible' && note !== undefined;
  return (
    <li class="taken" data-entry={entry.verdict?.verdict ?? entry.state} data-operation={entry.operation} data-name={entry.id} data-key={entry.key}>
      <p class="row wrap">
        {clock(entry.pressedAt)}
        {note?.room !== undefined && <Bdi ltr class="room">{own(note.room)}</Bdi>}
        <strong>{note === undefined ? entry.operation : word('step', note.step)}</strong>
        {note?.guest !== undefined && <Bdi class="clip">{note.guest}</Bdi>}{amount !== undefined && <Money money={amount} />}
        <span class="grow fate"><Fate entry={entry} /></span>
        {stays && <button class="quiet little" onClick={() => (stayId.value = note.subject)}>{say('entry.open')}</button>}
        {entry.verdict?.verdict === 'expired' && entry.verdict.known.outcome === 'none' && <button class="little" data-do="again" onClick={() => again(entry)}>{say('entry.again')}</button>}
        {entry.state === 'unsent' ? entry.key === undefined && <button class="quiet little" onClick={() => drop(entry)}>{say('entry.strike')}</button>
        : <button class="quiet little" data-do="read" onClick={() => drop(entry)}>{say(entry.state === 'asks' ? 'entry.strike' : 'entry.drop')}</button>}
      </p>
      {entry.state === 'asks' && <Code entry={entry} />}
    </li>
  );
}

/** What was taken down about something, where that stands on the screen. */
export const Taken = ({ subject }: { subject: string }) => (
  <>{takenOf(subject).filter((entry) => entry.state !== 'settled').map((entry) => (
    <p key={entry.id} class="pressed small" data-taken={entry.state}><strong>{word('step', noteOf(entry)?.step ?? '')}</strong> <span class="dim">{clock(entry.pressedAt)}</span> <Fate entry={entry} /></p>
  ))}</>
);

/** How the house differs from what it was when the line was cut, but for what this desk did itself. */
function meanwhile(was: Pack) {
  const mine = new Set((state.value?.entries ?? []).filter((e) => e.verdict?.verdict === 'done').map((e) => noteOf(e)?.subject));
  const now = [
    ...stays().map((s) => ({ id: s.reservationId, room: s.roomNumber, what: s.guestName, status: s.status as string })),
    ...(housekeeping.value.data?.items ?? []).map((t) => ({ id: t.taskId, room: t.roomNumber, what: word('kind', t.kind), status: t.status as string })),
    ...(maintenance.value.data?.items ?? []).map((w) => ({ id: w.workOrderId, room: w.roomNumber, what: w.title, status: w.status as string })),
  ];
  const then = new Map<string, string>([
    ...[...was.arrivals, ...was.inHouse, ...was.departures].map((s) => [s.reservationId, s.status] as const), ...was.tasks.map((t) => [t.taskId, t.status] as const),
    ...was.workOrders.map((w) => [w.workOrderId, w.status] as const),
  ]);
  return [...new Map(now.filter(({ id, status }) => then.get(id) !== status && !mine.has(id)).map((one) => [one.id, one])).values()];
}

/** The desk without a line, and its report when the line is back. */
export function WithoutLine() {
  const { entries = [], unsent = 0, others = 0, pack, heardAt, refused, trouble } = state.value ?? {};
  const since = alone.value;
  const over = entries.filter((entry) => entry.state === 'settled' || entry.state === 'lost');
  const changed = since === undefined && before.value !== undefined ? meanwhile(before.value) : [];
  if (since === undefined && entries.length === 0 && changed.length === 0 && others === 0) return null;
  return (
    <section class="card stack close without-line" data-blackout={since === undefined ? 'back' : 'cut'} aria-label={say('blackout.title')}>
      <div class="row wrap apart">
        <p class="strong">{since === undefined ? say('blackout.back') : <>{pieces('blackout.since', { when: clock(since) })} {pack === undefined || heardAt === undefined ? say('blackout.nothing') : pieces('blackout.from', { when: <Moment at={new Date(heardAt)} zone={zone.value} seconds /> })}</>}</p>
        <p class="row">{unsent > 0 && <span class="chip warm" data-unsent={unsent}>{say('blackout.unsent', { n: unsent })}</span>}
          <button class={since === undefined ? 'little' : 'first little'} data-do="print-sheet" onClick={() => print()}>{say('blackout.print')}</button></p>
      </div>
      {trouble !== undefined && since !== undefined && <p class="notice bad small" role="alert">{say(`blackout.not.${trouble}`)}</p>}
      {refused !== undefined && <p class="notice bad small" role="alert">{say('blackout.refused')} <Bdi>{explain(refused)}</Bdi></p>}
      {entries.length > 0 && <><div class="row apart"><h2>{say('blackout.taken')}</h2>{over.length > 1 && <button class="quiet little" data-do="read-all" onClick={() => over.forEach(drop)}>{say('entry.drop')} <Num value={over.length} /></button>}</div><ul class="rows" aria-live="polite">{entries.map((entry) => <Row key={entry.id} entry={entry} />)}</ul></>}
      {others > 0 && <p class="small dim">{say('blackout.others', { n: others })}</p>}
      {since !== undefined && <p class="small dim">{say('blackout.cannot')}</p>}
      {changed.length > 0 && (
        <div class="stack close" data-meanwhile={changed.length}>
          <div class="row apart"><h2>{say('blackout.meanwhile')}</h2><button class="quiet little" onClick={() => (before.value = undefined)}>{say('entry.drop')}</button></div>
          <ul class="rows">{changed.slice(0, 30).map((one) => <li key={one.id} class="taken row wrap small">{one.room !== undefined && <Bdi ltr class="room">{own(one.room)}</Bdi>}<Bdi class="clip">{one.what}</Bdi> <span class="chip">{word('status', one.status)}</span></li>)}</ul>
        </div>
      )}
    </section>
  );
}
