// What left and what arrived over Pub/Sub, and what waits to leave.
import { computed } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';

import { every, json, source, type Source } from '../kit/load.js';
import { keys } from '../kit/keys.js';
import { Bdi, copy, Honesty, Moment, Shown, State } from '../kit/parts.js';
import { go, param, withParams } from '../kit/url.js';
import type { Event, Outbox } from './api.js';
import { Feed } from './feed.js';
import { ago, duration } from './words.js';

const feed = new Feed<Event>('/_up/events', 'event');
const outbox: Source<readonly Outbox[]> = source((signal) => json('/_up/outbox', { signal }));
const words = param('q', '', { replace: true });
const id = param('id');
const found = computed(() => {
  const parts = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  return feed.rows.value.filter(({ subject, producer, tenantId, id, data, traceId }) => {
    const text = parts.length === 0 ? '' : [subject, producer, tenantId, id, traceId, JSON.stringify(data)].join(' ').toLowerCase();
    return parts.every((part) => text.includes(part));
  });
});

function step(by: number): void {
  const rows = found.peek();
  const row = rows[Math.min(rows.length - 1, Math.max(0, rows.findIndex((one) => one.id === id.peek()) + by))];
  if (row !== undefined) go(withParams({ id: row.id }), { replace: true });
}

export function Events() {
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => feed.follow(), []);
  useEffect(() => every(3000, () => outbox.again()), []);
  useEffect(() => keys(
    { keys: '/', does: 'filter', run: () => box.current?.focus() },
    { keys: 'Space', does: 'pause, and go on', run: () => feed.pause() },
    { keys: 'x', does: 'clear the list', run: () => feed.clear() },
    { keys: 'j', does: 'the next one', run: () => step(1) },
    { keys: 'k', does: 'the one before', run: () => step(-1) },
    { keys: 'Escape', does: 'close the event', run: () => (id.value = '') },
  ), []);
  const chosen = feed.rows.value.find((row) => row.id === id.value);
  return (
    <main class="screen fixed stack" id="main">
      <h1 class="unseen">Events</h1>
      <Shown of={outbox.value} failed="The outboxes cannot be read.">{(boxes) => <div class="grid outboxes">{boxes.map((one) => <Box key={one.service} of={one} />)}</div>}</Shown>
      <div class="row tools">
        <button aria-pressed={feed.paused.value} onClick={() => feed.pause()} title="Space">{feed.paused.value ? <>▶ Go on{feed.missed.value > 0 && <span class="chip warm">{feed.missed.value} missed</span>}</> : <><span class="dot good live" /> Live</>}</button>
        <button class="quiet" onClick={() => feed.clear()} title="x">Clear</button>
        <input ref={box} class="grow mono" type="search" aria-label="Filter" placeholder="wishlist bff-consumer tnt_…" value={words.value} onInput={({ currentTarget }) => (words.value = currentTarget.value)} />
      </div>
      <Honesty at={feed.at.value} stale={feed.error.value !== undefined || feed.paused.value}><span>{found.value.length} events, published and received</span>{feed.error.value !== undefined && <span class="warm">{feed.error.value}</span>}</Honesty>
      <div class={`beside${chosen === undefined ? '' : ' open'}`}>
        <div class="card flush scroll requests" tabIndex={0} role="region" aria-label="Events, newest first">
          {found.value.length === 0 ? <State title="No events yet."><p>A wish, a hand-off or a check-in brings one; so does</p><pre class="well">melmastoon trigger tenant.suspended</pre></State> : (
            <table class="table">
              <thead class="stuck"><tr><th scope="col">at</th><th scope="col">event</th><th scope="col">from</th><th scope="col">to</th><th scope="col">tenant</th></tr></thead>
              <tbody>{found.value.slice(0, 250).map((row) => (
                <tr key={row.seq} aria-current={row.id === id.value} onClick={() => go(withParams({ id: row.id }), { replace: id.peek() !== '' })}>
                  <td class="dim"><Moment at={row.at} seconds /></td>
                  <td class="request"><a class="mono clip" href={String(withParams({ id: row.id }))}>{row.subject}</a></td>
                  <td><span class={`chip ${row.producer === 'upstreams' ? 'warm' : 'lapis'}`}>{row.producer}</span></td>
                  <td class="dim">{(row.receivedBy ?? []).join(', ')}</td>
                  <td class="mono dim clip">{row.tenantId}</td>
                </tr>
              ))}</tbody>
            </table>
          )}
        </div>
        {chosen !== undefined && (
          <section class="story card flush" aria-label="The chosen event">
            <header class="story-head stack close">
              <div class="row apart"><h2 class="mono clip">{chosen.subject}</h2><button class="quiet little" aria-label="Close the event" onClick={() => (id.value = '')}>✕</button></div>
              <p class="row wrap small"><Moment at={chosen.at} seconds /><Bdi class="mono dim">{chosen.id}</Bdi>
                {chosen.traceId && <a href={`/console?id=${chosen.traceId}`}>the request that caused it</a>}
                <button class="quiet little" onClick={() => void copy(JSON.stringify(chosen.data, null, 2), 'The event is copied')}>Copy</button></p>
            </header>
            <div class="story-body"><pre>{JSON.stringify(chosen.data, null, 2)}</pre></div>
          </section>
        )}
      </div>
    </main>
  );
}

function Box({ of }: { of: Outbox }) {
  const dead = of.deadLetters ?? [];
  return (
    <section class="card stack close">
      <div class="row apart"><h2>{of.service}</h2><span class={`chip ${dead.length > 0 ? 'bad' : of.lagSeconds > 5 ? 'warm' : 'good'}`}>{dead.length > 0 ? `${dead.length} given up` : of.lagSeconds > 5 ? 'behind' : 'in time'}</span></div>
      <dl class="inline small"><div><dt>waiting</dt><dd>{of.waiting}</dd></div><div><dt>held</dt><dd>{of.held}</dd></div><div><dt>published</dt><dd>{of.published}</dd></div><div><dt>lag</dt><dd>{duration(of.lagSeconds * 1000)}</dd></div></dl>
      {dead.map((one) => <p key={one.id} class="notice bad"><span class="grow"><code>{one.subject}</code> after {one.attempts} attempts, {ago(one.at)}: <bdi>{one.reason}</bdi></span><button class="little" onClick={() => void copy(one.retry, 'The command is copied')} title={one.retry}>Copy the retry</button></p>)}
    </section>
  );
}
