// One request and what it caused.
import { useEffect } from 'preact/hooks';

import { json, source, type Source } from '../kit/load.js';
import { Bdi, copy, Moment, Shown, toast } from '../kit/parts.js';
import { withParams } from '../kit/url.js';
import type { Call, Read, Request, Span, Story as Told } from './api.js';
import { brief, curl, duration, tone, warmth } from './words.js';

const stories = new Map<string, Source<Told>>();

function storyOf(id: string): Source<Told> {
  let found = stories.get(id);
  if (found === undefined) stories.set(id, (found = source((signal) => json(`/_up/requests/${encodeURIComponent(id)}`, { signal }))));
  if (stories.size > 200) stories.delete(stories.keys().next().value!);
  return found;
}

const signed = 'A device signs each request of staff with its own key, which this page does not have. The reference signs with one of its own.';
const isStaff = ({ target }: Request): boolean => /\/bff\/backoffice\//.test(target);
const inReference = ({ method, route }: Request): string => `/reference/backoffice#${method.toLowerCase()}-${brief(route).replace(/[{}:]/g, '-')}`;

/** Sends a request of a guest again, from this page, and says under which id it went. */
export async function again(request: Request, chosen: (id: string) => void): Promise<void> {
  if (isStaff(request)) return toast(signed);
  try {
    const answer = await fetch(request.target, { method: request.method, ...(request.body && { body: request.body, headers: { 'Content-Type': 'application/json' } }) });
    toast(`${answer.status} ${answer.statusText}`);
    const id = answer.headers.get('X-Request-Id');
    if (id !== null) chosen(id);
  } catch (reason) {
    toast(String(reason));
  }
}

export function Story({ id, chosen, close }: { id: string; chosen: (id: string) => void; close: () => void }) {
  const story = storyOf(id);
  useEffect(() => {
    if (story.peek().data === undefined) void story.again();
    // What a request causes may end after it: spans come in a moment later.
    const later = setTimeout(() => void story.again(), 1500);
    return () => clearTimeout(later);
  }, [id]);
  return (
    <section class="story card flush" aria-label="Story of the chosen request">
      <Shown of={story.value} failed="This story cannot be told.">{(told) => <Whole told={told} chosen={chosen} close={close} />}</Shown>
      {story.value.data === undefined && story.value.error !== undefined && <button class="quiet little" onClick={close}>Close</button>}
    </section>
  );
}

function Whole({ told, chosen, close }: { told: Told; chosen: (id: string) => void; close: () => void }) {
  const command = `melmastoon why ${told.id}`;
  const faults = told.faults ?? [];
  return (
    <>
      <header class="story-head stack close">
        <div class="row apart">
          <h2 class="row clip"><span class={`chip ${tone(told.status)}`}>{told.status}</span><span class="mono clip" title={told.target}>{told.method} {brief(told.route)}</span></h2>
          <button class="quiet little" onClick={close} aria-label="Close the story">✕</button>
        </div>
        <p class="row wrap small dim"><Moment at={told.at} seconds /><b>{duration(told.ms)}</b><span>{told.service}</span><button class="quiet little mono" title="Copy the id" onClick={() => void copy(told.id, 'The id is copied')}>{told.id}</button></p>
        <p class="row wrap">
          {isStaff(told) ? <a class="button little" href={inReference(told)} title={signed}>Try it signed</a> : <button class="little" onClick={() => void again(told, chosen)}>Send again <kbd>a</kbd></button>}
          <button class="little" onClick={() => void copy(curl(told), 'The command is copied')}>Copy as curl <kbd>y</kbd></button>
          <button class="little" onClick={() => void copy(command, 'The command is copied')} title={command}>Copy <code>why</code></button>
          <a class="button little" href={`/_up/requests/${encodeURIComponent(told.id)}`} target="_blank" rel="noreferrer">JSON</a>
        </p>
      </header>
      <div class="story-body stack">
        {faults.map((text) => <p key={text} class="notice warm"><span class="grow">A fault was set. <Bdi>{text}</Bdi></span><a href={String(withParams({ world: '1' }))}>World</a></p>)}
        {told.code && <p class="notice bad"><a href={`/errors/${told.code}`}><code>{told.code}</code></a></p>}
        {told.shed && <p class="notice warm"><span class="grow">The brown-out ladder stands at <b>{told.shed}</b>.</span><a href={String(withParams({ world: '1' }))}>World</a></p>}
        {(told.degraded ?? []).map((what) => <p key={what} class="notice warm"><span>Degraded:</span><Bdi>{what}</Bdi></p>)}
        <Waterfall spans={told.spans ?? []} ms={told.ms} />
        <dl class="facts small">
          <dt>asked by</dt><dd><Bdi>{[told.caller.kind, told.caller.name, told.caller.device].filter(Boolean).join(' ')}</Bdi>{told.caller.verdict && <span class="chip">{told.caller.verdict} {told.caller.score}</span>}{told.caller.tenantId && <a class="mono" href={`/console/hotels?tenant=${told.caller.tenantId}`}>{told.caller.tenantId}</a>}</dd>
          {told.target !== told.route && <><dt>target</dt><dd><code>{told.target}</code></dd></>}
          {(told.limits ?? []).map((l) => <><dt>limit</dt><dd>{l.class} by {l.scope}: {l.remaining} of {l.limit} left {l.refused && <span class="chip bad">refused</span>}{l.local && <span class="chip warm">without Redis</span>}</dd></>)}
          {(told.notes ?? []).map((note) => <><dt>note</dt><dd><Bdi>{note}</Bdi></dd></>)}
          {alike(told.reads ?? []).map(([r, times]) => <><dt>cache</dt><dd>{r.cache} <span class={`chip ${warmth(r.result)}`}>{r.result.toLowerCase()}</span>{times > 1 && <b>× {times}</b>} <span>{r.filler ? <>from {r.by}, filled by <a href={String(withParams({ id: r.filler }))}>another request</a></> : <>filled by {r.by}</>}, {duration(r.ms)}{r.number !== undefined && ` · number ${r.number}`}</span>{(r.tags ?? []).length > 0 && <span class="tags">{r.tags!.slice(0, 3).map((tag) => <code key={tag} class="chip">{tag}</code>)}{r.tags!.length > 3 && <span class="dim">and {r.tags!.length - 3} more</span>}</span>}</dd></>)}
          {(told.trips ?? []).map((t) => <><dt>{t.store}</dt><dd>{t.count} round trip{t.count === 1 ? '' : 's'}, {duration(t.ms)}{(t.failed ?? 0) > 0 && <span class="chip bad">{t.failed} failed</span>}</dd></>)}
        </dl>
        {(told.upstreams ?? []).length > 0 && <section class="stack close"><h3>Upstreams</h3>{told.upstreams!.slice(0, 40).map((call, i) => <Upstream key={i} call={call} />)}</section>}
        {(told.events ?? []).length > 0 && <section class="stack close"><h3>Events that left</h3><ul class="small">{told.events!.map(({ subject, at, afterMs }) => <li key={subject + at}><a class="mono" href={`/console/events?q=${told.traceId}`}>{subject}</a> <span class="dim">left after {duration(afterMs)}</span></li>)}</ul></section>}
        {told.body && <details><summary>What was sent</summary><pre class="well">{told.body}</pre></details>}
        <details open={(told.spans ?? []).length === 0}><summary>In words</summary><pre class="well">{told.text}</pre></details>
      </div>
    </>
  );
}

/** The first of those reads that say the same, and how many there are. */
const alike = (reads: readonly Read[]): [Read, number][] => [...Map.groupBy(reads, ({ cache, result, by }) => `${cache} ${result} ${by}`).values()].map((all): [Read, number] => [all[0]!, all.length]);

function Upstream({ call }: { call: Call }) {
  return (
    <div class="well small stack close">
      <p class="row wrap"><b>{call.upstream}</b><code>{call.route}</code><span class={`chip ${call.outcome === 'ok' ? 'good' : 'bad'}`}>{call.outcome}</span>{call.breaker && <span class={call.breaker === 'closed' ? 'dim' : 'chip bad'}>breaker {call.breaker}</span>}<span class="dim">{duration(call.ms)}</span></p>
      <ol class="stack close dim">{(call.attempts ?? []).map((attempt, i) => (
        <li key={i} class="row wrap"><span>{attempt.hedge ? 'hedge' : i > 0 ? 'again' : 'sent'} at {duration(attempt.afterMs)}</span><b>{attempt.status || (attempt.came === 0 ? 'never came there' : 'no answer')}</b><span>{attempt.outcome} in {duration(attempt.ms)}</span>{attempt.came > 1 && <span class="warm">came {attempt.came} times</span>}{attempt.fault && <span class="warm">{attempt.fault}</span>}</li>
      ))}</ol>
    </div>
  );
}

function Waterfall({ spans, ms }: { spans: readonly Span[]; ms: number }) {
  if (spans.length === 0) return null;
  const end = Math.max(ms, ...spans.map((span) => span.afterMs + span.ms)) || 1;
  return (
    <ol class="waterfall tiny" aria-label="What happened when">{folded(spans).slice(0, 200).map((span) => {
      const facts = Object.entries(span.facts ?? {}).map(([name, value]) => `${name} ${value}`).join('\n');
      return (
        <li key={span.id} tabIndex={0} title={[span.failed, facts].filter(Boolean).join('\n')} class={span.failed ? 'failed' : undefined}>
          <span class="clip" style={{ paddingInlineStart: `${Math.min(span.depth, 8) * 0.6}rem` }}>{span.name}</span>
          <span class="track"><i class={kind(span)} style={{ insetInlineStart: `${(span.afterMs / end) * 100}%`, inlineSize: `max(2px, ${(span.ms / end) * 100}%)` }} /></span>
          <span class="number dim">{duration(span.ms)}</span>
        </li>
      );
    })}</ol>
  );
}

/** Round trips of one kind in a row, as one bar from the first to the last. */
function folded(spans: readonly Span[]): Span[] {
  const rows: (Span & { readonly times: number })[] = [];
  for (const span of spans) {
    const last = rows.at(-1);
    if (last !== undefined && last.name.replace(/ ×.*/, '') === span.name && last.depth === span.depth && !last.failed && !span.failed && kind(span) === 'bar-store') {
      const times = last.times + 1;
      rows[rows.length - 1] = { ...last, times, name: `${span.name} × ${times}`, ms: Math.max(last.ms, span.afterMs + span.ms - last.afterMs) };
    } else rows.push({ ...span, times: 1 });
  }
  return rows;
}

const kind = ({ name, failed }: Span): string => (failed ? 'bar-bad' : /redis|postgres|sql|select|insert|update/i.test(name) ? 'bar-store' : /cache/i.test(name) ? 'bar-cache' : /publish|event/i.test(name) ? 'bar-event' : 'bar-call');
