// What is to be decided: alerts and suggestions, with who has decided already. Nothing vanishes under the hand: what others decide stays for a while, and says so.
import { signal } from '@preact/signals';

import { foldDigits } from '@melmastoon/bff/values';

import { own, pieces, say, word } from '../kit/i18n.js';
import { Bdi, Ghost, Moment, submitted } from '../kit/parts.js';
import { LastPress } from './pressed.js';
import { press, pressesOf, underWay } from './presses.js';
import { now, session } from './service.js';
import { Truth, type Told } from './truth.js';
import { alerts, isFresh, suggestions, zone, type Alert, type Suggestion } from './views.js';
import type { Loaded } from '../kit/load.js';

const stays = 15 * 60_000;
const lately = (at: string | undefined): boolean => at !== undefined && now.value - Date.parse(at) < stays;

/** The moment and the failings of a list of notices. */
const Inbox = ({ of, title }: { of: Loaded<Told>; title: string }) => (
  <div class="inbox-head"><h3>{title}</h3>{of.data === undefined && of.error === undefined && <Ghost lines={2} />}<Truth of={of} /></div>
);

const tone: Readonly<Record<string, string>> = { critical: 'bad', warning: 'warm', high: 'bad', info: '' };

export const acknowledgeable = (id: string): boolean => alerts.peek().data?.items.find((one) => one.alertId === id)?.can.includes('acknowledge') ?? false;
export const acknowledge = (id: string): void => void press({ route: 'acknowledge', step: 'acknowledge', subject: id, body: {} });

function AlertItem({ alert }: { alert: Alert }) {
  const seen = alert.acknowledgements ?? [];
  return (
    <li class={`item${isFresh(alert.alertId) ? ' fresh' : ''}`} data-item="alert" data-id={alert.alertId} tabIndex={0}>
      <p class="row wrap"><span class={`chip ${tone[alert.severity ?? ''] ?? ''}`}>{word('severity', alert.severity ?? 'info')}</span><Bdi class="grow">{alert.title ?? word('category', alert.category ?? '')}</Bdi>
        {alert.raisedAt !== undefined && <span class="tiny dim"><Moment at={alert.raisedAt} zone={zone.value} /></span>}</p>
      {seen.length > 0 && <p class="tiny dim already">{seen.map((one) => <span key={one.acknowledgedBy}>{pieces('already.seen', { who: <Bdi>{one.acknowledgedByName ?? say('someone')}</Bdi>, when: <Moment at={one.acknowledgedAt} zone={zone.value} /> })} </span>)}</p>}
      {alert.can.includes('acknowledge') && <button class="little" data-do="acknowledge" disabled={underWay(alert.alertId) !== undefined} onClick={() => acknowledge(alert.alertId)}>{say('step.acknowledge')}</button>}
      <LastPress subject={alert.alertId} />
    </li>
  );
}

export function Alerts() {
  const shown = (alerts.value.data?.items ?? []).filter((one) => one.status !== 'resolved' && (one.can.length > 0 || lately(one.acknowledgements?.[0]?.acknowledgedAt)));
  return <div data-inbox="alerts"><Inbox of={alerts.value} title={say('alerts')} /><ul class="rows">{shown.map((one) => <AlertItem key={one.alertId} alert={one} />)}</ul>
    {alerts.value.data !== undefined && shown.length === 0 && <p class="pad dim small">{say('alerts.none')}</p>}</div>;
}

/** The suggestion whose proposal is being changed, and the one whose provenance is shown. */
export const changing = signal('');
export const proving = signal('');

export const decide = (id: string, outcome: 'accepted' | 'rejected'): void => void press({ route: 'decide', step: outcome, subject: id, body: { outcome } });

type Figures = readonly (readonly [string, number])[];
const figures = (suggestion: Suggestion): Figures => Object.entries(suggestion.proposal ?? {}).filter((one): one is [string, number] => typeof one[1] === 'number');
export const changeable = (id: string): boolean => (suggestions.peek().data?.items.find((one) => one.suggestionId === id)?.can.includes('decide') ?? false);

function Change({ suggestion }: { suggestion: Suggestion }) {
  const send = submitted((typed) => {
    const changed = figures(suggestion).map(([name]) => [name, Number(foldDigits(typed(name)))] as const);
    const modifiedDelta = Object.fromEntries(changed.filter(([, value]) => Number.isFinite(value)));
    changing.value = '';
    if (Object.keys(modifiedDelta).length > 0) void press({ route: 'decide', step: 'modified', subject: suggestion.suggestionId, body: { outcome: 'modified', modifiedDelta } });
  });
  return (
    <form class="row wrap" onSubmit={send}>
      {figures(suggestion).map(([name, value], i) => (
        <label key={name} class="field"><span>{word('proposal', name)}</span><input name={name} inputMode="decimal" autoFocus={i === 0} defaultValue={own(String(value))} dir="ltr" /></label>
      ))}
      <button class="first little">{say('step.modified')}</button>
    </form>
  );
}

function SuggestionItem({ suggestion }: { suggestion: Suggestion }) {
  const { suggestionId: id, decision, proposal = {} } = suggestion;
  const may = suggestion.can.includes('decide');
  const busy = underWay(id) !== undefined;
  const late = decision !== undefined && decision.decidedBy !== session.value?.operatorId && pressesOf(id).some((one) => one.state === 'refused');
  return (
    <li class={`item${decision === undefined ? '' : ' past'}`} data-item="suggestion" data-id={id} tabIndex={0}>
      <p class="row wrap"><span class="chip lapis">{word('category', suggestion.category ?? '')}</span><Bdi class="grow">{suggestion.title}</Bdi></p>
      <p class="small dim row wrap">
        {Object.entries(proposal).filter(([, value]) => typeof value !== 'object').map(([name, value]) => <span key={name}>{word('proposal', name)} <Bdi ltr class="strong">{own(String(value))}</Bdi></span>)}
        {suggestion.confidence !== undefined && <span>{say('confidence')} <Bdi ltr>{own(`${Math.round(suggestion.confidence * 100)}%`)}</Bdi></span>}
        {suggestion.expiresAt !== undefined && decision === undefined && <span>{say('until')} <Moment at={suggestion.expiresAt} zone={zone.value} /></span>}
      </p>
      {decision !== undefined && (
        <p class={`small already${late ? ' notice warm' : ' dim'}`} data-already>
          <span>{pieces(`already.${decision.outcome}`, { who: <Bdi>{decision.decidedByName ?? say('someone')}</Bdi>, when: <Moment at={decision.decidedAt} zone={zone.value} seconds /> })}{late && ` ${say('already.late')}`}</span>
        </p>
      )}
      {may && (
        <p class="row wrap">
          <button class="little" data-do="accept" disabled={busy} onClick={() => decide(id, 'accepted')}>{say('step.accepted')}</button>
          <button class="little" data-do="reject" disabled={busy} onClick={() => decide(id, 'rejected')}>{say('step.rejected')}</button>
          {figures(suggestion).length > 0 && <button class="quiet little" disabled={busy} aria-expanded={changing.value === id} onClick={() => (changing.value = changing.value === id ? '' : id)}>{say('change')}</button>}
        </p>
      )}
      {may && changing.value === id && <Change suggestion={suggestion} />}
      {proving.value === id && <pre class="tiny well" data-user>{JSON.stringify(suggestion.aiProvenance, null, 1)}</pre>}
      {decision === undefined && <LastPress subject={id} />}
    </li>
  );
}

/** How much waits for this operator. */
export const waiting = (): number => [...(alerts.value.data?.items ?? []), ...(suggestions.value.data?.items ?? [])].filter((one) => one.can.length > 0).length;

export function Suggestions() {
  const all = suggestions.value.data?.items ?? [];
  const shown = all.filter((one) => one.status === 'open' || lately(one.decision?.decidedAt));
  return <div data-inbox="suggestions"><Inbox of={suggestions.value} title={say('suggestions')} /><ul class="rows">{shown.map((one) => <SuggestionItem key={one.suggestionId} suggestion={one} />)}</ul>
    {suggestions.value.data !== undefined && shown.length === 0 && <p class="pad dim small">{say('suggestions.none')}</p>}</div>;
}
