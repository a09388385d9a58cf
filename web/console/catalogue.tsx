// Hotels and people of the data set, to browse instead of reading megabytes of JSON.
import { computed } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';

import { ConsumerClient, type Answer } from '@melmastoon/bff/consumer';
import { message } from '@melmastoon/bff/messages';
import { ProblemError } from '@melmastoon/bff';

import { json, source, type Source } from '../kit/load.js';
import { keys } from '../kit/keys.js';
import { Bdi, copy, Honesty, Shown, State } from '../kit/parts.js';
import { param, withParams } from '../kit/url.js';

interface Tenant { readonly tenantId: string; readonly slug: string; readonly name: string; readonly status: string }
interface Property { readonly propertyId: string; readonly tenantId: string; readonly city: string; readonly country: string; readonly name: string }
interface Staff { readonly operatorId: string; readonly tenantId: string; readonly displayName: string; readonly roles: readonly string[]; readonly propertyScope: readonly string[] }
interface Operator {
  readonly username: string; readonly displayName: string; readonly operatorId: string;
  readonly memberships: readonly { readonly tenantId: string; readonly tenantSlug: string; readonly tenantName: string; readonly tenantStatus: string; readonly roles: readonly string[]; readonly propertyScope: readonly string[] }[];
}

const catalogue: Source<{ readonly tenants: readonly Tenant[]; readonly properties: readonly Property[]; readonly operators: readonly Staff[] }> = source((signal) => json('/_sim/catalog', { signal }));
const operators: Source<{ readonly operators: readonly Operator[] }> = source((signal) => json('/_sim/operators', { signal }));
const guest = new ConsumerClient({ baseUrl: `${location.origin}/bff/consumer/v1` });

const words = param('q', '', { replace: true });
const tenant = param('tenant');
const country = param('country');
const role = param('role');
const id = param('id');
const most = 200;
const holds = (text: string): boolean => words.value.toLowerCase().split(/\s+/).every((part) => text.toLowerCase().includes(part));

const tenants = computed(() => new Map((catalogue.value.data?.tenants ?? []).map((one) => [one.tenantId, one])));
const hotels = computed(() => (catalogue.value.data?.properties ?? []).filter((one) => (tenant.value === '' || one.tenantId === tenant.value) && (country.value === '' || one.country === country.value) &&
  holds([one.name, one.city, one.country, one.propertyId, tenants.value.get(one.tenantId)?.name, tenants.value.get(one.tenantId)?.slug].join(' '))));
const people = computed(() => (operators.value.data?.operators ?? []).filter((one) => one.memberships.some((m) => (tenant.value === '' || m.tenantId === tenant.value) && (role.value === '' || m.roles.includes(role.value))) &&
  holds([one.username, one.displayName, one.operatorId, ...one.memberships.flatMap((m) => [m.tenantName, m.tenantSlug, ...m.roles])].join(' '))));

function useList() {
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (catalogue.peek().data === undefined) void catalogue.again();
    if (operators.peek().data === undefined) void operators.again();
    return keys({ keys: '/', does: 'find', run: () => box.current?.focus() }, { keys: 'Escape', does: 'close what is chosen', run: () => (id.value = '') });
  }, []);
  return box;
}

const Chosen = () => tenant.value === '' ? null : <a class="chip lapis" href={String(withParams({ tenant: '' }))}>of <Bdi>{tenants.value.get(tenant.value)?.name ?? tenant.value}</Bdi> ✕</a>;

const tally = (names: readonly string[]): [string, number][] => [...Map.groupBy(names, (name) => name)].map(([name, all]): [string, number] => [name, all.length]).sort((a, b) => b[1] - a[1]);

const Pick = ({ of, names, label }: { of: { value: string }; names: readonly string[]; label: string }) => (
  <select class="pick" aria-label={label} value={of.value} onChange={({ currentTarget }) => (of.value = currentTarget.value)}><option value="">{label}: all</option>{tally(names).map(([name, n]) => <option key={name} value={name}>{name} · {n}</option>)}</select>
);

export function Hotels() {
  const box = useList();
  const chosen = catalogue.value.data?.properties.find(({ propertyId }) => propertyId === id.value);
  return (
    <main class="screen fixed stack" id="main">
      <h1>Hotels</h1>
      <div class="row wrap tools"><input ref={box} class="grow" type="search" aria-label="Find" placeholder="name, city, tenant, id" value={words.value} onInput={({ currentTarget }) => (words.value = currentTarget.value)} />
        <Pick of={country} label="country" names={(catalogue.value.data?.properties ?? []).map((one) => one.country)} /></div>
      <div class="row wrap"><Honesty at={catalogue.value.at}><span>{hotels.value.length} hotels of the simulated platform{hotels.value.length > most && `; the first ${most} are shown`}</span></Honesty><Chosen /></div>
      <Shown of={catalogue.value} failed="The data set cannot be read.">{() => (
        <div class={`beside${chosen === undefined ? '' : ' open'}`}>
          <div class="card flush scroll requests" tabIndex={0} role="region" aria-label="Hotels">{hotels.value.length === 0 ? <State title="No hotel has these words." /> : (
            <table class="table"><thead class="stuck"><tr><th scope="col">hotel</th><th scope="col">place</th><th scope="col">tenant</th></tr></thead>
              <tbody>{hotels.value.slice(0, most).map((one) => {
                const of = tenants.value.get(one.tenantId);
                return <tr key={one.propertyId} aria-current={one.propertyId === id.value}><td class="request"><a href={String(withParams({ id: one.propertyId }))}><Bdi>{one.name}</Bdi></a></td><td><Bdi>{one.city}, {one.country}</Bdi></td><td><a class="quiet-link" href={String(withParams({ tenant: one.tenantId }))}><Bdi>{of?.name}</Bdi></a> {of?.status !== 'active' && <span class="chip bad">{of?.status}</span>}</td></tr>;
              })}</tbody></table>
          )}</div>
          {chosen !== undefined && <Hotel key={chosen.propertyId} of={chosen} />}
        </div>
      )}</Shown>
    </main>
  );
}

type HotelPage = Extract<Answer<'hotel'>, { readonly status: 200 }>['data'];
const shown = new Map<string, Source<HotelPage>>();

function pageOf(propertyId: string): Source<HotelPage> {
  let page = shown.get(propertyId);
  if (page === undefined) {
    shown.set(propertyId, (page = source(async (signal) => {
      try {
        return (await guest.call('hotel', { path: { propertyId }, signal })).data;
      } catch (error) {
        throw error instanceof ProblemError ? new Error(message(error, 'en')) : error;
      }
    })));
  }
  return page;
}

/** A hotel as guests see it: through the service, by our own client. */
function Hotel({ of }: { of: Property }) {
  const page = pageOf(of.propertyId);
  useEffect(() => void page.again(), []);
  const staff = (catalogue.value.data?.operators ?? []).filter((one) => one.tenantId === of.tenantId && (one.propertyScope.includes(of.propertyId) || one.propertyScope.includes('*')));
  return (
    <section class="story card flush" aria-label="The chosen hotel">
      <header class="story-head stack close">
        <div class="row apart"><h2><Bdi>{of.name}</Bdi></h2><button class="quiet little" aria-label="Close the hotel" onClick={() => (id.value = '')}>✕</button></div>
        <p class="row wrap small dim"><Bdi>{of.city}, {of.country}</Bdi><button class="quiet little mono" title="Copy the id" onClick={() => void copy(of.propertyId, 'The id is copied')}>{of.propertyId}</button></p>
      </header>
      <div class="story-body stack">
        <Shown of={page.value} failed="Guests do not see it:">{({ property, rooms, photos }) => (
          <>
            {photos?.[0] !== undefined && <img class="photo" src={new URL(photos[0].url, location.href).pathname} alt="" />}
            <p class="row wrap small">{property.starRating !== undefined && <span class="warm" aria-label={`${property.starRating} stars`}>{'★'.repeat(property.starRating ?? 0)}</span>}{property.guestRating !== undefined && <span>{property.guestRating?.value} by {property.guestRating?.count} guests</span>}<span class="dim">{property.propertyType}</span></p>
            {Object.entries(property.name.localized ?? {}).map(([lang, name]) => <p key={lang} lang={lang}><Bdi>{name}</Bdi> <span class="chip">{lang}</span></p>)}
            <p class="small dim"><Bdi>{property.description?.default}</Bdi></p>
            <h3>Rooms</h3>
            <ul class="small stack close">{(rooms ?? []).map((room) => <li key={room.roomTypeId} class="row apart"><Bdi>{room.name.default}</Bdi><span class="dim">{room.sizeSqm} m²</span></li>)}</ul>
          </>
        )}</Shown>
        <h3>Staff</h3>
        <ul class="small stack close">{staff.slice(0, 12).map((one) => <li key={one.operatorId} class="row apart"><Bdi>{one.displayName}</Bdi><span class="dim">{one.roles.join(', ')}</span></li>)}</ul>
        <p class="row wrap small"><a href={`/console/people?tenant=${of.tenantId}`}>All people of its tenant</a><a href={`/console/hotels?tenant=${of.tenantId}`}>All its hotels</a><a href={`/bff/consumer/v1/hotels/${of.propertyId}`} target="_blank" rel="noreferrer">JSON of the service</a></p>
      </div>
    </section>
  );
}

export function People() {
  const box = useList();
  return (
    <main class="screen fixed stack" id="main">
      <h1>People</h1>
      <div class="row wrap tools"><input ref={box} class="grow" type="search" aria-label="Find" placeholder="name, role, tenant" value={words.value} onInput={({ currentTarget }) => (words.value = currentTarget.value)} />
        <Pick of={role} label="role" names={(operators.value.data?.operators ?? []).flatMap((one) => one.memberships.flatMap((m) => m.roles))} /></div>
      <div class="row wrap"><Honesty at={operators.value.at}><span>{people.value.length} operators who can sign in, by name and with no password{people.value.length > most && `; the first ${most} are shown`}</span></Honesty><Chosen /></div>
      <Shown of={operators.value} failed="The operators cannot be read.">{() => (
        <div class="card flush scroll requests" tabIndex={0} role="region" aria-label="People">{people.value.length === 0 ? <State title="No one has these words." /> : (
          <table class="table"><thead class="stuck"><tr><th scope="col">name</th><th scope="col">signs in as</th><th scope="col">role</th><th scope="col">tenant</th><th scope="col">scope</th><th scope="col">command</th></tr></thead>
            <tbody>{people.value.slice(0, most).map((one) => one.memberships.map((m, i) => (
              <tr key={one.operatorId + m.tenantId}>
                <td>{i === 0 && <Bdi>{one.displayName}</Bdi>}</td><td>{i === 0 && <code>{one.username}</code>}</td><td>{m.roles.join(', ')}</td>
                <td><a class="quiet-link" href={String(withParams({ tenant: m.tenantId }))}><Bdi>{m.tenantName}</Bdi></a> {m.tenantStatus !== 'active' && <span class="chip bad">{m.tenantStatus}</span>}</td>
                <td class="dim">{m.propertyScope.includes('*') ? 'all hotels' : m.propertyScope.map((p) => <a key={p} class="quiet-link" href={`/console/hotels?id=${p}`}><Bdi>{catalogue.value.data?.properties.find((h) => h.propertyId === p)?.name ?? p}</Bdi> </a>)}</td>
                <td>{i === 0 && <button class="little quiet" title={signIn(one)} onClick={() => void copy(signIn(one), 'The command is copied')}>Copy</button>}</td>
              </tr>
            )))}</tbody></table>
        )}</div>
      )}</Shown>
    </main>
  );
}

const signIn = ({ username }: Operator): string => `melmastoon desk sign-in ${username}`;
