// What runs, whether it is well, and what to do where it is not.
import { useEffect } from 'preact/hooks';

import { every, json, source, type Source } from '../kit/load.js';
import { Bdi, Honesty, Moment, Shown, Table } from '../kit/parts.js';
import { param } from '../kit/url.js';
import type { State as Told } from './api.js';
import { ago } from './words.js';

const state: Source<Told> = source((signal) => json('/_up/state', { signal }));
const only = param('only');
const order = { wrong: 0, warning: 1, ok: 2 };
const tones = { wrong: 'bad', warning: 'warm', ok: 'good' };
const toneOf = (text: string): string => (/^(ready|up)/.test(text) ? 'good' : /away|down/.test(text) ? 'bad' : 'warm');

export function State() {
  useEffect(() => every(15_000, () => state.again()), []);
  return (
    <main class="screen stack" id="main">
      <div class="row wrap apart"><h1>State</h1><button onClick={() => void state.again()} disabled={state.value.loading}>{state.value.loading ? 'Looking …' : 'Look again'}</button></div>
      <Honesty at={state.value.at} stale={state.value.error !== undefined}><span>every 15 seconds while this page is shown; the same as <code>melmastoon status</code> and each service's <code>doctor</code></span></Honesty>
      <Shown of={state.value} failed="The state cannot be read.">{(told) => <Whole told={told} />}</Shown>
    </main>
  );
}

function Whole({ told }: { told: Told }) {
  const findings = [...(told.findings ?? [])].sort((a, b) => order[a.verdict] - order[b.verdict] || a.service.localeCompare(b.service));
  const count = (verdict: string): number => findings.filter((one) => one.verdict === verdict).length;
  return (
    <>
      <div class="grid parts">
        <section class="card stack close">
          <h2>What runs</h2>
          <p class="small dim">since <Moment at={told.since} />, {ago(told.since)}; data in <code>{told.home}</code></p>
          <ul class="stack close small">{(told.parts ?? []).map((one) => <li key={one.name} class="row wrap"><span class={`dot ${toneOf(one.state)}`} /><b class="grow">{one.name}</b><code class="dim clip">{one.address}</code><span class={`chip ${toneOf(one.state)}`}>{one.state}</span>{one.more && <Bdi class="dim">{one.more}</Bdi>}</li>)}</ul>
        </section>
        <section class="card stack close">
          <h2>Versions</h2>
          <dl class="facts small">{(told.versions ?? []).map(({ name, version }) => <><dt>{name}</dt><dd><Bdi>{version}</Bdi></dd></>)}</dl>
          <h2>Keys</h2>
          <dl class="facts small">{findings.filter(({ area }) => area === 'keys').map((one) => <><dt>{one.check}</dt><dd><Bdi>{one.found}</Bdi></dd></>)}</dl>
        </section>
      </div>
      <section class="stack close">
        <div class="row wrap apart"><h2>What the doctors say</h2>
          <div class="row">{(['wrong', 'warning', 'ok'] as const).map((verdict) => <button key={verdict} class="little quiet" aria-pressed={only.value === verdict} onClick={() => (only.value = only.value === verdict ? '' : verdict)}><span class={`dot ${tones[verdict]}`} />{count(verdict)} {verdict}</button>)}</div></div>
        <div class="card flush"><Table label="Findings" rows={findings.filter((one) => only.value === '' || one.verdict === only.value)} id={(one) => one.service + one.area + one.check + one.found} columns={[
          { head: 'verdict', cell: (one) => <span class={`chip ${tones[one.verdict]}`}>{one.verdict}</span> },
          { head: 'service', cell: (one) => one.service.replace('bff-', '') },
          { head: 'area', cell: (one) => one.area },
          { head: 'check', cell: (one) => one.check },
          { head: 'found', cell: (one) => <><Bdi>{one.found}</Bdi>{one.advice && <p class="dim"><Bdi>{one.advice}</Bdi></p>}</> },
        ]} /></div>
      </section>
    </>
  );
}
