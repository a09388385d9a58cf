// What stands above everything: the house, its day in both calendars, the line to its news, and who is at the desk.
import { computed } from '@preact/signals';

import { locale, say, word } from '../kit/i18n.js';
import { Bdi, Languages, Moment, Num, ThemeSwitch, keep, themeWords } from '../kit/parts.js';
import { sheet } from '../kit/shortcuts.js';
import { param, withParams } from '../kit/url.js';
import { follow, gap, line } from './line.js';
import { alone, state } from './blackout.js';
import { unsettled } from './presses.js';
import { canReadActivity, desk, now, properties, property, propertyId, session, signOut } from './service.js';
import { day, zone } from './views.js';
import { bothDays, name } from './words.js';

/** Another language is another page; the cookie says which, and no longer the address. */
export function speak(to: string): void {
  keep('locale', to);
  const address = withParams({ lang: '' });
  if (address.href === location.href) location.reload();
  else location.assign(address);
}

/** How the line stands, always on the screen, in words. */
export function LineState() {
  const { phase, heard, retryAt } = line.value;
  const since = alone.value;
  const quiet = phase === 'live' && heard !== undefined && Date.now() - heard > 25_000;
  void now.value;
  const [kind, text] =
    since !== undefined ? (['bad', say('line.cut')] as const)
    : phase === 'superseded' ? (['warm', say('line.superseded')] as const)
    : phase === 'refused' ? (['bad', say('line.refused')] as const)
    : gap.value.length > 0 ? (['warm', say('line.gap')] as const)
    : quiet ? (['warm', say('line.quiet')] as const)
    : phase === 'live' ? (['good', say('line.live')] as const)
    : ([phase === 'proving' ? 'lapis' : 'warm', say(`line.${phase}`)] as const);
  return (
    <span class="row line" data-line={since !== undefined ? 'cut' : gap.value.length > 0 && phase === 'live' ? 'gap' : phase}>
      <span class={`chip ${kind}`} role="status"><span class="dot" aria-hidden="true" />{text}</span>
      {since !== undefined ? <span class="tiny dim"><Moment at={new Date(since)} zone={zone.value} seconds /></span>
      : phase === 'waiting' && retryAt !== undefined ? <span class="tiny dim">{say('line.retry', { n: Math.max(Math.ceil((retryAt - Date.now()) / 1_000), 0) })}</span>
      : quiet ? <span class="tiny dim"><Moment at={new Date(heard)} zone={zone.value} seconds /></span> : null}
      {(phase === 'superseded' || phase === 'refused') && <button class="little" onClick={() => void follow()}>{say('line.follow')}</button>}
    </span>
  );
}

/** What has no end yet: presses without an answer, and what was taken down without a line. */
export function Unsent() {
  const n = unsettled.value.length + (state.value?.unsent ?? 0);
  return <a class={`chip unsent${n > 0 ? ' warm' : ''}`} data-count={n} href={withParams({ view: 'presses', stay: '' }).href}>{say('unsettled')} <Num value={n} /></a>;
}

const left = computed(() => (day.value === undefined ? undefined : Math.max(Math.floor((Date.parse(day.value.endsAt) - now.value) / 60_000), 0)));

function DayLine() {
  const of = day.value;
  if (of === undefined) return <span class="ghost day" />;
  return (
    <p class="row wrap day">
      <strong><time dateTime={of.date}><bdi dir={locale.direction}>{bothDays(of.date, 'full')}</bdi></time></strong>
      <span class="small dim"><Moment at={new Date(now.value)} zone={of.timeZone} /> · {left.value !== undefined && <bdi>{say('day.ends', { h: Math.floor(left.value / 60), m: left.value % 60 })}</bdi>}</span>
    </p>
  );
}

export const view = param('view', 'today');

export function Bar() {
  const tabs = ['today', 'housekeeping', 'maintenance', ...(canReadActivity() ? ['activity'] : [])];
  return (
    <header class="desk-bar">
      <div class="row wrap top">
        <a class="brand" href="/"><img src="/favicon.svg" alt="" /><bdi class="unseen">Melmastoon</bdi></a>
        <Chooser />
        <LineState />
        <Unsent />
        <span class="grow" />
        <Languages class="languages" aria-label={say('language')} choose={speak} />
        <ThemeSwitch words={themeWords()} />
        <button class="quiet little" data-do="keys" onClick={() => (sheet.value = true)} aria-label={say('keys.title')} title={say('keys.title')}>?</button>
        <span class="who small"><Bdi class="strong">{session.value?.displayName}</Bdi> <span class="dim">{session.value?.roles.map((role) => word('role', role)).join(' · ')}</span></span>
        <button class="little" data-do="sign-out" onClick={() => void signOut()}>{say('signout')}</button>
      </div>
      <div class="row wrap apart under">
        <DayLine />
        <nav class="tabs" aria-label={say('views')}>
          {tabs.map((to) => <a key={to} href={withParams({ view: to === 'today' ? '' : to, stay: '' }).href} aria-current={view.value === to ? 'page' : undefined}>{say(`view.${to}`)}</a>)}
        </nav>
      </div>
    </header>
  );
}

/** The houses of the operator's scope, by name. */
function Chooser() {
  const all = properties.value;
  if (all.length < 2) return <strong class="clip"><Bdi>{name(property.value?.name)}</Bdi></strong>;
  return (
    <select class="chooser" data-user aria-label={say('property')} value={propertyId.value}
      onChange={(event) => (propertyId.value = desk.propertyId = event.currentTarget.value)}>
      {all.map((one) => <option key={one.propertyId} value={one.propertyId}>{name(one.name)}{one.city === undefined ? '' : ` · ${one.city}`}</option>)}
    </select>
  );
}
