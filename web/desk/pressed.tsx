// What became of presses, in words that do not say more than is known.
import { own, say, word } from '../kit/i18n.js';
import { Bdi, Moment, State } from '../kit/parts.js';
import { Taken } from './taken.js';
import { askAgain, mine, pressesOf, type Press, type PressState } from './presses.js';
import { now } from './service.js';
import { findStay, zone } from './views.js';

const kinds: Readonly<Record<PressState, string>> = {
  sent: 'lapis', pending: 'warm', unknown: 'warm', done: 'good', failed: 'bad', refused: 'bad', lost: 'bad',
};

/** A press and its end: the step, when it was sent, what is known. */
export function Pressed({ press, subject = false }: { press: Press; subject?: boolean }) {
  const stay = subject ? findStay(press.subject) : undefined;
  return (
    <p class="pressed small" data-press={press.state} data-step={press.step}>
      <span class={`chip ${kinds[press.state]}`}>{say(`press.${press.state}`)}</span>{' '}
      <strong>{word('step', press.step)}</strong>{' '}
      {stay !== undefined && <span><Bdi ltr>{own(stay.roomNumber ?? '')}</Bdi> <Bdi>{stay.guestName}</Bdi> </span>}
      <span class="dim"><Moment at={press.at} zone={zone.value} seconds />{press.ended !== undefined && <> → <Moment at={press.ended} zone={zone.value} seconds /></>}</span>
      {press.state !== 'done' && <span class="words">{' '}{say(`press.${press.state}.means`)}{press.why !== undefined && press.state !== 'unknown' && <> <Bdi>{press.state === 'failed' ? word('reason', press.why) : press.why}</Bdi></>}</span>}
      {press.state === 'unknown' && <> <button class="quiet little" onClick={() => void askAgain([press])}>{say('press.ask')}</button></>}
    </p>
  );
}

/** The last press on something, unless it simply worked some time ago. */
export function LastPress({ subject }: { subject: string }) {
  const [last] = pressesOf(subject);
  const over = last === undefined || (last.ended !== undefined && now.peek() - Date.parse(last.ended) > 120_000);
  return <><Taken subject={subject} />{over ? null : <Pressed press={last} />}</>;
}

/** Everything that was pressed at this desk by this operator. */
export function Presses() {
  return (
    <section class="card stack" aria-label={say('presses.title')}>
      <h2>{say('presses.title')}</h2>
      {mine.value.length === 0 ? <State title={say('presses.none')} /> : mine.value.map((press) => <Pressed key={press.key} press={press} subject />)}
    </section>
  );
}
