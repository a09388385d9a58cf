// The state of the platform and what can be done to it, in a drawer over any screen. Each button shows the command that does the same.
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';

import { every, json, source, type Source } from '../kit/load.js';
import { copy, Drawer, Honesty, Shown, toast } from '../kit/parts.js';
import { param } from '../kit/url.js';
import type { Control, Device, Upstream, World as Told } from './api.js';
import { ago, duration, short } from './words.js';

export const worldShown = param('world');
const world: Source<Told> = source((signal) => json('/_up/world', { signal }));
const looked = signal<Control | undefined>(undefined); // the button under the pointer or the focus

async function run(control: Control): Promise<void> {
  try {
    await json(control.path, { method: control.method, ...(control.body !== undefined && { body: JSON.stringify(control.body) }) });
    toast(control.command);
  } catch (reason) {
    toast(reason instanceof Error ? reason.message : String(reason));
  }
  await world.again();
}

function Do({ control, danger = false }: { control: Control; danger?: boolean }) {
  const look = (): void => void (looked.value = control);
  return <button class={`little${danger ? ' danger' : ''}`} aria-pressed={control.on ?? false} title={control.command} onClick={() => void run(control)} onFocus={look} onPointerEnter={look}>{control.name}</button>;
}

export function World() {
  useEffect(() => every(2000, () => world.again()), []);
  return (
    <Drawer title="World" close={() => (worldShown.value = '')}>
      <div class="stack world">
        <Command />
        <Shown of={world.value} failed="The world cannot be read.">{(told) => <Sections told={told} />}</Shown>
      </div>
    </Drawer>
  );
}

/** The command of the button that is looked at. */
function Command() {
  const command = looked.value?.command ?? 'melmastoon status';
  return <p class="command row"><span aria-hidden="true" class="dim mono">$</span><code class="grow clip" title={command}>{command}</code><button class="little" onClick={() => void copy(command, 'The command is copied')}>Copy</button></p>;
}

function Sections({ told }: { told: Told }) {
  const devices = told.devices ?? [];
  const tenants = [...(told.tenants ?? [])].sort((a, b) => Number(b.suspended) - Number(a.suspended));
  return (
    <>
      <Honesty at={told.at} stale={world.value.error !== undefined}><span>every 2 seconds while this is open</span></Honesty>
      <section class="stack close">
        <div class="row apart"><h3>Upstreams</h3><Do control={told.heal} /></div>
        <ul class="stack close">{(told.upstreams ?? []).map((one) => <Service key={one.name} of={one} />)}</ul>
      </section>
      <section class="stack close"><h3>Events to trigger</h3><div class="row wrap">{(told.events ?? []).map((control) => <Do key={control.command} control={control} />)}</div></section>
      <section class="stack close">
        <h3>Brown-out</h3>
        <p class="small dim">Now <b>{told.rung.now}</b>{told.rung.held ? <>, held at <b>{told.rung.held}</b></> : ', by load'}.</p>
        <div class="row wrap">{(told.rung.controls ?? []).map((control) => <Do key={control.command} control={control} />)}</div>
        <h3>Campaign mode</h3>
        <div class="row wrap">{(told.campaign ?? []).map((control) => <Do key={control.command} control={control} />)}</div>
      </section>
      <section class="stack close">
        <h3>Tenants</h3>
        <p class="small dim">{tenants.filter(({ suspended }) => suspended).length} of those shown are suspended. All: <a href="/console/hotels">Hotels</a>.</p>
        <ul class="stack close">{tenants.slice(0, 12).map(({ tenantId, name, slug, suspended, control }) => <li key={tenantId} class="row small"><bdi class="grow clip" title={tenantId}>{name} <span class="dim">{slug}</span></bdi>{suspended && <span class="chip bad">suspended</span>}<Do control={control} danger={!suspended} /></li>)}</ul>
      </section>
      <section class="stack close">
        <h3>Devices</h3>
        <p class="small dim">Streams that are open: {devices.filter(({ stream }) => stream).length}. <code>melmastoon desk follow</code> opens one.</p>
        <ul class="stack close small">{devices.slice(0, 20).map((one) => <Computer key={one.deviceId} of={one} />)}</ul>
      </section>
      <section class="stack close">
        <h3>Limits</h3>
        <p class="small dim">What the last request was told that each decided about.</p>
        {(told.limits ?? []).length === 0 ? <p class="small dim">None has decided yet.</p> : <ul class="stack close small">{told.limits!.map((one) => (
          <li key={one.service + one.class + one.scope} class="row wrap"><span class="row grow"><span class={`mark ${one.service.replace(/^bff-/, '')}`} title={one.service} />{one.class} by {one.scope}</span>
            {one.limit > 0 && <><span><b>{short(one.remaining)}</b> of {short(one.limit)} a minute left {ago(one.at)}</span><span class="dim">one back each {duration(one.refillMs)}, {refilled(one.fullAt)}</span></>}
            {one.count > 0 && <span class="chip warm">{short(one.count)} refused</span>}</li>
        ))}</ul>}
      </section>
      <p class="small"><a href="/console/state">State</a> has what the doctor says.</p>
    </>
  );
}

function Computer({ of: { deviceId, tenantId, status, seenAt, stream } }: { of: Device }) {
  return (
    <li class="row wrap"><code class="grow clip" title={tenantId}>{deviceId}</code>
      {stream ? <><span class="chip good" title={stream.operator}>stream{stream.since > '2' && ` since ${ago(stream.since).replace(' ago', '')}`}</span><Do control={stream.control} danger /></> : <><span class="chip">{status}</span><span class="dim">{ago(seenAt)}</span></>}</li>
  );
}

const refilled = (at: string): string => (Date.parse(at) <= Date.now() ? 'full again' : `full in ${duration(Date.parse(at) - Date.now())}`);

function Service({ of }: { of: Upstream }) {
  const open = Object.entries(of.breakers ?? {}).filter(([, state]) => state !== 'closed');
  return (
    <li class={`well upstream${(of.faults ?? []).length > 0 ? ' struck' : ''}`}>
      <div class="row wrap about"><b class="grow">{of.name}</b>
        {open.map(([service, state]) => <span key={service} class="chip bad" title={service}>breaker {state}</span>)}
        <span class="small dim number">{of.rate > 0 ? `${short(of.rate)}/s` : `${short(of.calls)} calls`}</span><span class="small dim number p99">{of.p99Ms > 0 ? `p99 ${duration(of.p99Ms)}` : ''}</span></div>
      <div class="row wrap tight">{(of.controls ?? []).map((control) => <Do key={control.command} control={control} />)}</div>
      {(of.faults ?? []).map((fault) => <p key={fault.number} class="notice warm whole"><span class="grow"><bdi>{fault.text}</bdi>, set {ago(fault.since)}</span><Do control={fault.clear} /></p>)}
    </li>
  );
}
