// As of when what is shown is true.
import { say, word } from '../kit/i18n.js';
import type { Loaded } from '../kit/load.js';
import { Bdi, Honesty, Moment } from '../kit/parts.js';
import { alone } from './blackout.js';
import { zone } from './views.js';

/** What every list of the service says of itself. */
export interface Told {
  readonly asOf?: string;
  readonly stale: boolean;
  readonly degraded?: readonly { readonly part: string; readonly reason: string; readonly ageMs?: number }[];
}

/** As of when a list is, what of it is old or missing and why, and whether a newer one could not be had. */
export function Truth({ of }: { of: Loaded<Told> }) {
  const { data, at = new Date() } = of;
  const error = alone.value === undefined ? of.error : undefined; // without a line the frame around it all says why
  if (data === undefined) return error === undefined ? null : <p class="notice bad small" role="alert"><span>{say('failed.view')}</span> <Bdi>{error}</Bdi></p>;
  const asOf = new Date(data.asOf ?? at);
  const old = data.stale || error !== undefined;
  return (
    <Honesty stale={old || (data.degraded?.length ?? 0) > 0}>
      <span>{say('asof')} <Moment at={asOf} zone={zone.value} seconds /></span>
      {data.degraded?.map(({ part, reason, ageMs }) => (
        <span key={part} class="warm">
          {word('part', part)}: {word('because', reason)}{ageMs !== undefined && <> (<Moment at={new Date(asOf.getTime() - ageMs)} zone={zone.value} seconds />)</>}
        </span>
      ))}
      {error !== undefined && <span class="warm">{say('failed.renew')} <Bdi>{error}</Bdi></span>}
    </Honesty>
  );
}
