// One stay: who, when in both calendars, its key, what may be done now, and what was done by whom.
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';

import type { Schemas } from '@melmastoon/bff/backoffice';
import { foldDigits, nights, parseMoney } from '@melmastoon/bff/values';

import { own, pieces, say, word } from '../kit/i18n.js';
import { source } from '../kit/load.js';
import { Bdi, Drawer, Moment, Num, Shown, State, submitted } from '../kit/parts.js';
import { keysOf, shown } from '../kit/shortcuts.js';
import { param } from '../kit/url.js';
import { LineState } from './bar.js';
import { cutSince, news } from './line.js';
import { Pressed } from './pressed.js';
import { press, pressesOf, underWay, type Route } from './presses.js';
import { canReadActivity, desk, explain } from './service.js';
import { Taken } from './taken.js';
import { findStay, inHouse, roomState, zone, type Stay } from './views.js';
import { bothDays, name } from './words.js';

/** The stay that is open is part of the address. */
export const stayId = param('stay');

type Step = Stay['can'][number];
const actions: Readonly<Record<Step, string>> = {
  'check-in': 'reservation.checkIn', 'check-out': 'reservation.checkOut', 'issue-key': 'lock.issueKey', 'extend-key': 'lock.extendKey', 'rebind-key': 'lock.rebindKey', 'revoke-key': 'lock.revokeKey',
};

/** What needs a second factor, in place, until its code is given. */
const proof = signal<{ readonly route: Route; readonly step: string; readonly subject: string; readonly scope: 'lock.revoke' | 'folio.charge.large'; readonly resource: string; readonly body?: unknown } | undefined>(undefined);
const proofFailed = signal('');
/** The stay that something is charged to. */
const charging = signal('');
const wrong = signal('');

/** Takes a step with a stay, if it is legal now; a revocation asks for the second factor first. */
export function take(id: string, step: Step): boolean {
  const stay = findStay(id);
  if (stay === undefined || !stay.can.includes(step) || underWay(id) !== undefined) return false;
  if (step === 'revoke-key') {
    stayId.value = id;
    proofFailed.value = '';
    proof.value = { route: step, step, subject: id, scope: 'lock.revoke', resource: id };
  } else void press({ route: step, step, subject: id, ...(step === 'check-in' || step === 'check-out' ? {} : { body: {} }) });
  return true;
}

function SecondFactor({ stay }: { stay: Stay }) {
  const wanted = proof.value;
  if (wanted === undefined || ![stay.reservationId, stay.folioId].includes(wanted.subject)) return null;
  const give = submitted(async (typed) => {
    const { scope, resource, body = {}, ...deed } = wanted;
    try {
      const { data } = await desk.call('stepUp', { body: { scope, resourceId: resource, code: foldDigits(typed('code')).trim() } });
      proof.value = undefined;
      await press({ ...deed, body, attestation: data.attestationId });
    } catch (error) {
      proofFailed.value = explain(error);
    }
  });
  return (
    <form class="well stack close" onSubmit={give} aria-label={say('factor.title')} data-factor>
      <p class="strong">{word('step', wanted.step)}: {say('factor.title')}</p>
      <label class="field"><span>{say('factor.code')}</span><input name="code" inputMode="numeric" autoComplete="one-time-code" required maxLength={12} dir="ltr" autoFocus aria-invalid={proofFailed.value !== ''} /></label>
      {proofFailed.value !== '' && <p class="notice bad small" role="alert"><Bdi>{proofFailed.value}</Bdi></p>}
      <p class="row"><button class="first">{say('factor.give')}</button><button type="button" class="quiet" onClick={() => (proof.value = undefined)}>{say('cancel')}</button></p>
    </form>
  );
}

/** A charge to the folio. One that is large is asked for its second factor by the service, and goes on under it. */
function Charge({ stay }: { stay: Stay }) {
  const { folioId } = stay;
  if (folioId === undefined || stay.status !== 'checked_in') return null;
  if (charging.value !== stay.reservationId) return <p><button class="quiet" data-do="charge" disabled={underWay(folioId) !== undefined} onClick={() => (charging.value = stay.reservationId)}>{say('step.charge')} <Key of="folio.charge" /></button></p>;
  const send = submitted(async (typed) => {
    const amount = parseMoney(typed('amount'), 'AFN', document.documentElement.lang);
    wrong.value = amount === undefined || !/^[1-9]/.test(amount.minor) ? say('charge.wrong') : '';
    if (wrong.value !== '') return;
    charging.value = '';
    const deed = { route: 'charge', step: 'charge', subject: folioId, body: { amount, description: typed('description').slice(0, 200) } } as const;
    const ended = await press(deed);
    if (ended === 'refused' && pressesOf(folioId)[0]?.code?.endsWith('.MFA_REQUIRED') === true) proof.value = { ...deed, scope: 'folio.charge.large', resource: folioId };
  });
  return (
    <form class="well stack close" onSubmit={send} aria-label={say('step.charge')}>
      <label class="field"><span>{say('charge.amount')} <bdi>؋</bdi></span><input name="amount" inputMode="decimal" required autoFocus dir="ltr" aria-invalid={wrong.value !== ''} /></label>
      <label class="field"><span>{say('charge.what')}</span><input name="description" maxLength={200} /></label>
      {wrong.value !== '' && <p class="notice bad small" role="alert">{wrong.value}</p>}
      <p class="row"><button class="first">{say('step.charge')}</button><button type="button" class="quiet" onClick={() => (charging.value = '')}>{say('cancel')}</button></p>
    </form>
  );
}

export const charge = (): boolean => (charging.value = stayId.peek()) !== '';

const Key = ({ of }: { of: string }) => (keysOf(of) === '' ? null : <kbd>{shown(keysOf(of))}</kbd>);

function Steps({ stay }: { stay: Stay }) {
  const busy = underWay(stay.reservationId);
  if (stay.can.length === 0) return <p class="dim small">{say('steps.none')}</p>;
  return (
    <>
      <p class="row wrap steps">
        {stay.can.map((step, i) => (
          <button key={step} class={`${i === 0 ? 'first' : ''}${step === 'revoke-key' ? ' danger' : ''}`} data-do={step} disabled={busy !== undefined} onClick={() => take(stay.reservationId, step)}>
            {word('step', step)} <Key of={actions[step]} />
          </button>
        ))}
      </p>
      {busy !== undefined && <p class="small dim">{say('steps.wait')}</p>}
    </>
  );
}

const done = source(async (signal) => (await desk.call('listActivity', { query: { resource: `:${stayId.peek()}`, limit: 20 }, signal })).data);
/** What a service reported of the stay since this desk has listened. */
const heard = (id: string) => news.value.filter((event) => 'data' in event && event.data !== undefined && 'reservationId' in event.data && event.data.reservationId === id);

export function ActivityLine({ one, resource = false }: { one: Schemas['Activities']['items'][number]; resource?: boolean }) {
  return (
    <li class="small row wrap">
      <Moment at={one.occurredAt} zone={zone.value} seconds /> <Bdi class="strong">{one.operatorName ?? one.operatorId}</Bdi> <span>{word('act', one.action)}</span>
      {resource && one.resource?.id !== undefined && <Bdi ltr class="mono tiny dim">{one.resource.id}</Bdi>}
      <span class={`chip ${{ success: 'good', failure: 'bad', denied: 'bad', unknown: 'warm' }[one.outcome]}`}>{say(`outcome.${one.outcome}`)}</span>
    </li>
  );
}

function History({ id }: { id: string }) {
  const mine = pressesOf(id);
  useEffect(() => {
    if (canReadActivity()) void done.again();
  }, [id, mine[0]?.state]);
  return (
    <section class="stack close" aria-label={say('history')}>
      <h3>{say('history')}</h3>
      {mine.map((one) => <Pressed key={one.key} press={one} />)}
      {heard(id).map((event) => <p key={event.id} class="small"><Moment at={event.at} zone={zone.value} seconds /> {word('news', event.type)} <span class="dim">{say('by.others')}</span></p>)}
      {canReadActivity() && (done.value.data === undefined || done.value.data.items.length > 0) && <Shown of={done.value} failed={say('failed.view')}>{({ items }) => <ul class="stack close">{items.map((one) => <ActivityLine key={one.activityId} one={one} />)}</ul>}</Shown>}
      {mine.length === 0 && heard(id).length === 0 && (done.value.data?.items.length ?? 0) === 0 && <p class="small dim">{say('history.none')}</p>}
    </section>
  );
}

/** What this desk knows of the key. The service does not say what it does not know either. */
function KeyState({ id }: { id: string }) {
  const [last] = pressesOf(id).filter((one) => one.step.endsWith('-key'));
  const state = last === undefined ? 'none' : last.state === 'done' ? (last.step === 'revoke-key' ? 'revoked' : 'issued') : last.state;
  return <span class={`chip ${{ issued: 'good', unknown: 'warm', pending: 'warm', sent: 'lapis', failed: 'bad', refused: 'bad', lost: 'bad' }[state as string] ?? ''}`} data-key={state}>{say(`key.${state}`)}</span>;
}

function Facts({ stay }: { stay: Stay }) {
  return (
    <dl class="facts">
      <div><dt>{say('stay.nights')}</dt><dd><Num value={nights(stay.checkIn, stay.checkOut)} /></dd></div>
      <div><dt>{say('stay.from')}</dt><dd><bdi>{bothDays(stay.checkIn)}</bdi></dd></div>
      <div><dt>{say('stay.to')}</dt><dd><bdi>{bothDays(stay.checkOut)}</bdi></dd></div>
      <div><dt>{say('stay.party')}</dt><dd>{say('party', { adults: stay.adults, children: stay.children })}</dd></div>
      <div><dt>{say('stay.room')}</dt><dd><Bdi ltr>{own(stay.roomNumber ?? '—')}</Bdi> <Bdi>{name(stay.roomTypeName)}</Bdi> {stay.status === 'confirmed' && <span class="dim small">{say(`room.${roomState(stay.roomNumber)}`)}</span>}</dd></div>
      {stay.eta !== undefined && <div><dt>{say('stay.eta')}</dt><dd><Bdi ltr>{own(stay.eta)}</Bdi></dd></div>}
      {stay.channel !== undefined && <div><dt>{say('stay.channel')}</dt><dd>{word('channel', stay.channel)}</dd></div>}
      {stay.status === 'checked_in' && <div><dt>{say('stay.key')}</dt><dd><KeyState id={stay.reservationId} /></dd></div>}
      {stay.notes !== undefined && stay.notes !== '' && <div class="whole"><dt>{say('stay.notes')}</dt><dd><Bdi>{stay.notes}</Bdi></dd></div>}
    </dl>
  );
}

export function StayDrawer() {
  const id = stayId.value;
  if (id === '') return null;
  const stay = findStay(id);
  const close = (): void => {
    proof.value = undefined;
    charging.value = '';
    stayId.value = '';
  };
  return (
    <Drawer title={stay === undefined ? say('stay') : stay.guestName === '' ? say('stay.nameless') : stay.guestName} close={close} closeText={say('close')}>
      {/* Another stay is another drawer: nothing of the one before is carried over. */}
      <div class="stack" key={id} data-drawer={id}>
        <div class="row wrap"><LineState />{stay !== undefined && <span class="chip">{word('status', stay.status)}</span>}{stay?.vip === true && <span class="chip warm">{say('stay.vip')}</span>}</div>
        {cutSince.value !== undefined && <p class="notice warm small" role="status"><span>{pieces('cut.asof', { when: <Moment at={inHouse.value.data?.asOf ?? new Date()} zone={zone.value} seconds /> })}</span></p>}
        {stay === undefined ? <State title={say('stay.gone')}>{say('stay.gone.means')}</State> : <><Steps stay={stay} /><SecondFactor stay={stay} /><Facts stay={stay} /><Charge stay={stay} /></>}
        <Taken subject={id} />{stay?.folioId !== undefined && <Taken subject={stay.folioId} />}
        {stay?.folioId !== undefined && pressesOf(stay.folioId).map((one) => <Pressed key={one.key} press={one} />)}
        <History id={id} />
      </div>
    </Drawer>
  );
}
