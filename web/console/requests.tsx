// What came in, live. What is chosen and what is asked for stand in the address.
import { computed } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';

import { keys } from '../kit/keys.js';
import { copy, Honesty, Moment, State, still } from '../kit/parts.js';
import { go, param, withParams } from '../kit/url.js';
import type { Request } from './api.js';
import { Vitals } from './dashboards.js';
import { Feed } from './feed.js';
import { filter, usual } from './filter.js';
import { again, Story } from './story.js';
import { brief, curl, duration, tone, warmth } from './words.js';

const feed = new Feed<Request>('/_up/requests', 'request');
const words = param('q', '', { replace: true });
const id = param('id');
const found = computed(() => feed.rows.value.filter(filter(words.value)));
const shownAtOnce = 250;

const choose = (to: string): void => go(withParams({ id: to }), { replace: id.peek() !== '' });

function step(by: number): void {
  const rows = found.peek();
  const at = rows.findIndex((row) => row.id === id.peek());
  const row = rows[Math.min(rows.length - 1, Math.max(0, at + by))];
  if (row === undefined) return;
  choose(row.id);
  requestAnimationFrame(() => document.querySelector('.requests tr[aria-current="true"]')?.scrollIntoView({ block: 'nearest' }));
}

export function Requests() {
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => feed.follow(), []);
  useEffect(() => {
    const chosen = (): Request | undefined => feed.rows.peek().find((row) => row.id === id.peek());
    const with_ = (run: (request: Request) => unknown) => (): void => {
      const request = chosen();
      if (request !== undefined) run(request);
    };
    return keys(
      { keys: '/', does: 'filter', run: () => box.current?.focus() },
      { keys: 'Space', does: 'pause, and go on', run: () => feed.pause() },
      { keys: 'x', does: 'clear the list', run: () => feed.clear() },
      { keys: 'j', does: 'the next one', run: () => step(1) },
      { keys: 'k', does: 'the one before', run: () => step(-1) },
      { keys: 'ArrowDown', does: 'the next one', run: () => step(1) },
      { keys: 'ArrowUp', does: 'the one before', run: () => step(-1) },
      { keys: 'y', does: 'copy the chosen one as curl', run: with_((request) => copy(curl(request), 'The command is copied')) },
      { keys: 'a', does: 'send the chosen one again', run: with_((request) => again(request, choose)) },
      { keys: 'Escape', does: 'close the story', run: () => (id.value = '') },
    );
  }, []);
  const rows = found.value;
  const slowest = Math.max(1, ...rows.slice(0, shownAtOnce).map(({ ms }) => ms));
  const href = `/console?${words.value === '' ? '' : `q=${encodeURIComponent(words.value)}&`}id=`;
  return (
    <main class="screen fixed stack" id="main">
      <h1 class="unseen">Requests</h1>
      <Vitals />
      <div class="row tools">
        <button aria-pressed={feed.paused.value} onClick={() => feed.pause()} title="Space">{feed.paused.value ? <>▶ Go on{feed.missed.value > 0 && <span class="chip warm">{feed.missed.value} missed</span>}</> : <><span class="dot good live" /> Live</>}</button>
        <button class="quiet" onClick={() => feed.clear()} title="x">Clear</button>
        <input ref={box} class="grow mono" type="search" aria-label="Filter" placeholder="route:/search status:5xx >200ms degraded:rates tenant:… caller:guest -cache:hit" value={words.value} onInput={({ currentTarget }) => (words.value = currentTarget.value)} />
      </div>
      <div class="row wrap small apart">
        <div class="row wrap hints">{usual.map(([name, word]) => {
          const on = words.value.split(/\s+/).includes(word);
          return <button key={name} class="little quiet" aria-pressed={on} onClick={() => (words.value = on ? words.value.replace(word, '').replace(/\s+/g, ' ').trim() : `${words.value} ${word}`.trim())}>{name}</button>;
        })}</div>
        <Honesty at={feed.at.value} stale={feed.error.value !== undefined || feed.paused.value}>
          <span>{rows.length === feed.rows.value.length ? `${rows.length} requests` : `${rows.length} of ${feed.rows.value.length} requests`}, the last 1,000 are kept{rows.length > shownAtOnce && `; the newest ${shownAtOnce} are shown`}</span>
          {feed.error.value !== undefined && <span class="warm">{feed.error.value}</span>}
        </Honesty>
      </div>
      <div class={`beside${id.value === '' ? '' : ' open'}`}>
        <div class="card flush scroll requests" tabIndex={0} role="region" aria-label="Requests, newest first">
          {rows.length === 0 ? <Empty filtered={words.value !== ''} /> : (
            <table class="table">
              <thead class="stuck"><tr><th scope="col">at</th><th scope="col">request</th><th scope="col">status</th><th scope="col" class="number">took</th><th scope="col">cache</th><th scope="col">what is missing</th><th scope="col">caller</th><th scope="col" class="number">calls</th></tr></thead>
              <tbody>{rows.slice(0, shownAtOnce).map((row) => <Line key={row.seq} row={row} chosen={row.id === id.value} href={href} wide={Math.ceil(Math.sqrt(row.ms / slowest) * 20) * 5} />)}</tbody>
            </table>
          )}
        </div>
        {id.value !== '' && <Story key={id.value} id={id.value} chosen={choose} close={() => (id.value = '')} />}
      </div>
    </main>
  );
}

const Line = still(({ row, chosen, wide, href }: { row: Request; chosen: boolean; wide: number; href: string }) => (
    <tr aria-current={chosen} onClick={() => choose(row.id)}>
      <td class="dim"><Moment at={row.at} seconds /></td>
      <td class="request"><a class="row" href={href + row.id} title={row.target}><span class={`mark ${row.service === 'bff-consumer' ? 'consumer' : 'backoffice'}`} title={row.service} /><span class="mono method">{row.method}</span><span class="mono clip">{brief(row.route)}</span></a></td>
      <td><span class={`chip ${tone(row.status)}`}>{row.status || 'broken off'}</span></td>
      <td class="number took"><span>{duration(row.ms)}</span><i style={{ inlineSize: `${wide}%` }} class={row.ms > 500 ? 'slow' : undefined} /></td>
      <td>{row.cache && <span class={`chip ${warmth(row.cache)}`}>{row.cache.toLowerCase()}</span>}</td>
      <td class="missing">{(row.degraded ?? []).map((what) => <span key={what} class="chip warm">{what}</span>)}{(row.faults ?? []).map((what) => <span key={what} class="chip bad" title={what}>{what.split(':')[0]}: fault</span>)}{row.code && <code class="bad clip" title={row.code}>{row.code.split('.').at(-1)}</code>}</td>
      <td class="clip caller"><bdi>{row.caller.kind}</bdi>{row.caller.kind !== 'guest' && row.caller.name && <bdi class="dim"> {row.caller.name}</bdi>}{row.caller.verdict === 'bot' && <span class="chip bad">bot</span>}</td>
      <td class="number dim">{row.calls || ''}</td>
    </tr>
));

const Empty = ({ filtered }: { filtered: boolean }) => filtered ? <State title="No request of these is what you ask for."><p>The filter counts for what comes, too.</p></State> : (
  <State title="No requests yet.">
    <p>Send one from another terminal, or open the <a href="/">storefront</a>:</p>
    <pre class="well">{`curl -s ${location.origin}/bff/consumer/v1/session`}</pre>
  </State>
);
