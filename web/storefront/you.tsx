// What we know of the guest: all of it, what is allowed, and the end of it.
import { useEffect, useState } from 'preact/hooks';
import { formatNumber } from '@melmastoon/bff/values';

import { locale, say } from '../kit/i18n.js';
import { Bdi, Day, Ghost, Num, State } from '../kit/parts.js';
import { api, known, renew, session } from './api.js';
import { staySaid } from './form.js';
import { HonestyLine, Trouble } from './honesty.js';
import { forgetPrices } from './wishes.js';

export default function You() {
  const [error, fail] = useState<unknown>();
  const [gone, go] = useState(false);
  const [at, look] = useState<Date>();
  useEffect(() => void known.then(renew).then(() => look(new Date())), []); // what other pages did since
  useEffect(() => void (document.title = `${say('nav.you')} · ${say('brand')}`), []);
  const attempt = (deed: () => Promise<unknown>) => (): void => {
    fail(undefined);
    void deed().catch(fail);
  };
  const consent = (part: { telemetry?: boolean; marketing?: boolean }): void => attempt(async () => {
    const { telemetry, marketing } = { ...session.peek()?.consent, ...part };
    const { data } = await api.call('setConsent', { body: { telemetry: telemetry ?? false, marketing: marketing ?? false } });
    session.value = data;
  })();
  const forget = attempt(async () => {
    await api.call('clearSession');
    forgetPrices();
    document.cookie = 'saver=; Path=/; Max-Age=0';
    session.value = undefined;
    go(true);
  });
  const it = session.value;
  if (gone) return <div class="wide"><State title={say('forgotten')}><a class="button first" href="/">{say('nav.find')}</a></State></div>;
  if (it === undefined) return <div class="wide">{at === undefined ? <Ghost lines={6} /> : <Trouble error={{ code: 'NETWORK' }} again={() => void renew()} />}</div>;
  return (
    <div class="wide stack narrow">
      <header><h1>{say('nav.you')}</h1><p class="dim">{say('you.none')}</p></header>
      <dl class="card facts-of-you">
        <dt>{say('language')}</dt><dd><Bdi>{it.localeInfo.name}</Bdi></dd>
        <dt>{say('currency')}</dt><dd><Bdi>{it.currency}</Bdi></dd>
        <dt>{say('you.seen')}</dt><dd><Num value={it.recentlyViewed.length} /></dd>
        <dt>{say('you.searches')}</dt><dd>{it.searchHistory.length === 0 ? <Num value={0} /> : <ul>{it.searchHistory.slice(0, 8).map(({ searchSessionId, geo, dates, occupancy }) => (
          <li key={searchSessionId}><Bdi>{geo.city ?? geo.region ?? say('hotels.here')}</Bdi> · <bdi>{staySaid(dates)}</bdi> · <bdi>{formatNumber(occupancy.adults + (occupancy.children ?? 0), locale)}</bdi></li>
        ))}</ul>}</dd>
        <dt>{say('you.wishes')}</dt><dd><a href="/wishes"><Num value={it.wishlistSize} /></a></dd>
        {it.campaign !== undefined && <><dt>{say('you.came')}</dt><dd><Bdi>{[it.campaign.source, it.campaign.medium, it.campaign.campaign].filter(Boolean).join(' / ')}</Bdi></dd></>}
        <dt>{say('you.since')}</dt><dd><Day day={it.createdAt.slice(0, 10)} beside /></dd>
        <dt>{say('you.until')}</dt><dd><Day day={it.expiresAt.slice(0, 10)} beside /> <span class="dim small">{say('you.until.note')}</span></dd>
        <dt>{say('you.device')}</dt><dd>{say('you.device.what')}</dd>
      </dl>
      <fieldset class="card stack close"><legend class="unseen">{say('consent')}</legend><h2>{say('consent')}</h2>
        <label class="check"><input type="checkbox" role="switch" checked={it.consent.telemetry} onChange={(e) => consent({ telemetry: e.currentTarget.checked })} />{say('consent.telemetry')}</label>
        <label class="check"><input type="checkbox" role="switch" checked={it.consent.marketing} onChange={(e) => consent({ marketing: e.currentTarget.checked })} />{say('consent.marketing')}</label>
      </fieldset>
      <div class="row wrap"><button class="danger" id="forget" onClick={forget}>{say('forget')}</button><span class="small dim">{say('forget.note')}</span></div>
      {error !== undefined && <Trouble error={error} />}
      <HonestyLine at={at} degraded={[]} />
    </div>
  );
}
