// What a screen does not know, in words: as of when, which parts are missing or old and why, and what can be done about it.
import { useEffect, useState } from 'preact/hooks';
import type { ComponentChildren } from 'preact';

import { pieces, say } from '../kit/i18n.js';
import { Bdi, Moment } from '../kit/parts.js';
import { failed, robot, type Degradation, type Failed } from './api.js';

const parts = ['search', 'rates', 'brand', 'similar', 'popularity', 'calendar', 'mapPrice', 'availability', 'property', 'paging', 'wishlist'];
const reasons = ['timeout', 'error', 'breaker', 'budget', 'stale', 'shed'];

/** A missing part with its reason; a part or reason that is newer than this page is said in general. */
export function missing({ part, reason, affected }: Degradation): string {
  const what = say(`part.${parts.includes(part) ? part : 'search'}`);
  const why = say(`why.${reasons.includes(reason) ? reason : 'error'}`, { part: what });
  return affected > 1 ? `${why} (${say('found', { n: affected })})` : why;
}

export function HonestyLine({ at, degraded, children, again }: { at?: Date | undefined; degraded: readonly Degradation[]; children?: ComponentChildren; again?: (() => void) | undefined }) {
  return (
    <div class={`honesty${degraded.length > 0 ? ' stale' : ''}`} role="status">
      {at !== undefined && <AsOf at={at} />}
      {children}
      {degraded.length === 0 ? <span>{say('all.there')}</span> : degraded.map((one) => <span key={one.part + one.reason} data-part={one.part} data-reason={one.reason}>{missing(one)}</span>)}
      {robot.value && <span>{say('robot')}</span>}
      {again !== undefined && <button class="quiet little" onClick={again}>{say('ask.again')}</button>}
    </div>
  );
}

/** A text with a time in it. */
export const AsOf = ({ at, as = 'as.of' }: { at: Date | string; as?: string }) => <span>{pieces(as, { time: <Moment at={at} seconds={as === 'as.of'} /> })}</span>;

/** What failed, with the code to tell the support, and the way to try again. */
export function Trouble({ error, again }: { error: unknown; again?: () => void }) {
  const [said, say_] = useState<Failed>();
  useEffect(() => void failed(error).then(say_), [error]);
  return (
    <div class="notice bad trouble" role="alert">
      <span>{said?.text ?? say('loading')}</span>
      {said !== undefined && said.code !== '' && <span class="small">{say('support')}: <Bdi ltr class="mono">{said.code}</Bdi></span>}
      {again !== undefined && <button class="little" onClick={again}>{say('ask.again')}</button>}
    </div>
  );
}
