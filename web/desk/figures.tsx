// The dashboard: each figure is on the screen as soon as its line has come, and one that is old or missing says so.
import type { ComponentChildren } from 'preact';

import { formatDay } from '@melmastoon/bff/values';

import { locale, own, say, word } from '../kit/i18n.js';
import { Bars, Bdi, Honesty, Moment, Money, Num } from '../kit/parts.js';
import { alone } from './blackout.js';
import { dashboard, zone, type Widget } from './views.js';

const percent = (value: number): ComponentChildren => <Bdi ltr>{own(`${Math.round(value)}%`)}</Bdi>;
const counts = (of: Readonly<Record<string, number>>, group: string): ComponentChildren => (
  <>{Object.entries(of).filter(([, n]) => n > 0).slice(0, 3).map(([kind, n]) => <span key={kind}>{word(group, kind)} <Num value={n} /></span>)}</>
);

/** A figure and what it is made of. */
function read(widget: Widget): [ComponentChildren, ComponentChildren?] {
  if (widget.data === undefined) return ['—'];
  switch (widget.widgetId) {
    case 'adr': case 'revpar': case 'balance-due': return [<Money money={widget.data.amount} />];
    case 'cash-drawer': return [<Money money={widget.data.expected} />, <span>{say('w.taken')} <Money money={widget.data.taken} /></span>];
    case 'occupancy-today': return [percent(widget.data.percent), <span><Bdi ltr>{own(`${widget.data.occupied}/${widget.data.total}`)}</Bdi></span>];
    case 'occupancy-7-days': return [<Days items={widget.data.items} />];
    case 'housekeeping-progress': return [percent(widget.data.percentDone), counts(widget.data.counts, 'status')];
    case 'in-house': return [<Num value={widget.data.rooms} />, <span>{say('party', { adults: widget.data.adults, children: widget.data.children })}</span>];
    case 'alos': return [<Num value={widget.data.nights} />];
    case 'ai-acceptance': return [percent(widget.data.rate * 100)];
    case 'devices': return [<Num value={widget.data.online} />, widget.data.offline > 0 && <span>{say('w.offline')} <Num value={widget.data.offline} /></span>];
    case 'sync-lag': return [<>{say('seconds', { n: widget.data.worstSeconds })}</>];
    case 'time-to-ready': return [<>{say('minutes', { n: widget.data.minutes })}</>];
    case 'linen-runway': return [<>{say('days', { n: Math.floor(widget.data.runwayDays) })}</>];
    case 'lock-failures': return [<Num value={widget.data.count} />, widget.data.items.slice(0, 2).map((one) => <span key={one.roomNumber}><Bdi ltr>{own(one.roomNumber)}</Bdi> {word('reason', one.reason)}</span>)];
    case 'blocked-rooms': return [<Num value={widget.data.count} />, widget.data.items.slice(0, 4).map((one) => <Bdi key={one.roomNumber} ltr>{own(one.roomNumber)} </Bdi>)];
    case 'staffing-gaps': return [<Num value={widget.data.count} />, widget.data.items.slice(0, 2).map((one) => <span key={one.role + one.from}>{word('role', one.role)} <Bdi ltr>{own(`${one.from}–${one.to}`)}</Bdi></span>)];
    case 'rate-snapshot': return [<Num value={widget.data.count} />, widget.data.items.slice(0, 1).map((one) => <span key={one.roomTypeId}>{say('w.from')} <Money money={one.nightly} /></span>)];
    case 'notes': return [<Num value={widget.data.count} />, widget.data.items.slice(0, 1).map((one) => <Bdi key={one.noteId}>{one.text}</Bdi>)];
    case 'alerts': return [<Num value={widget.data.count} />, counts(widget.data.counts, 'severity')];
    case 'ai-suggestions': return [<Num value={widget.data.count} />, counts(widget.data.counts, 'category')];
    case 'channel-mix': return [<Num value={widget.data.count} />, counts(widget.data.counts, 'channel')];
    case 'rooms-by-status': return [<Num value={widget.data.count} />, counts(widget.data.counts, 'status')];
    case 'arrivals': case 'departures': return [<Num value={widget.data.count} />, counts(widget.data.counts, 'status')];
    case 'open-work-orders': return [<Num value={widget.data.count} />, counts(widget.data.counts, 'severity')];
    default: return [<Num value={widget.data.count} />];
  }
}

/** Figures of some days, as bars. */
function Days({ items }: { items: readonly { date: string; occupied: number; total: number }[] }) {
  const text = items.map((one) => `${formatDay(one.date, locale, { dateStyle: 'day' })}: ${own(`${one.occupied}/${one.total}`)}`).join(', ');
  return <Bars shares={items.map(({ occupied, total }) => (total === 0 ? 0 : occupied / total))} text={text} />;
}

function Figure({ id, widget }: { id: string; widget: Widget | undefined }) {
  const late = widget !== undefined && widget.status !== 'ok';
  const [figure, parts] = widget === undefined ? [<span class="ghost short" />] : read(widget);
  return (
    <li class={`figure${late ? ' late' : ''}`} data-widget={id} data-status={widget?.status ?? 'loading'}>
      <span class="eyebrow clip" title={word('w', id)}>{word('w', id)}</span>
      <strong>{figure}</strong>
      <span class="tiny dim parts">{late ? <span class="warm">{say(`because.${widget.status}`)} <Moment at={widget.asOf} zone={zone.value} seconds /></span> : parts}</span>
    </li>
  );
}

export function Figures() {
  const { data } = dashboard.value;
  const error = alone.value === undefined ? dashboard.value.error : undefined;
  if (data === undefined && alone.value !== undefined) return null; // nothing is on its way
  const ids = data?.expected.filter((id) => data.widgets.get(id)?.status !== 'forbidden') ?? [];
  const missing = data === undefined ? 0 : ids.filter((id) => data.widgets.get(id)?.data === undefined).length;
  return (
    <section class="figures" aria-label={say('figures')} data-ended={String(data?.ended ?? false)}>
      <ul tabIndex={0} aria-label={say('figures')}>
        {ids.map((id) => <Figure key={id} id={id} widget={data?.widgets.get(id)} />)}
        {data === undefined && Array.from({ length: 8 }, (_, i) => <li key={i} class="figure"><span class="ghost" /><span class="ghost" /></li>)}
      </ul>
      <Honesty stale={missing > 0 || error !== undefined}>
        {data !== undefined && <span>{say('figures')}: {say('asof')} <Moment at={data.asOf} zone={zone.value} seconds /></span>}
        {missing > 0 && data?.ended === true && <span class="warm">{say('figures.missing', { n: missing })}</span>}
        {error !== undefined && <span class="warm">{say('failed.renew')} <Bdi>{error}</Bdi></span>}
      </Honesty>
    </section>
  );
}
