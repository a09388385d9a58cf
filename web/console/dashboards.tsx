// The panels of deploy/grafana, drawn from what both services count, and five figures on the first screen.
import { useEffect } from 'preact/hooks';

import { every, json, source, type Source } from '../kit/load.js';
import { Honesty, Shown, State } from '../kit/parts.js';
import { here, param } from '../kit/url.js';
import type { Dashboard, Figures } from './api.js';
import { Plot } from './plot.js';
import { figure } from './words.js';

const dashboards: Source<readonly Dashboard[]> = source((signal) => json('/_up/dashboards', { signal }));
const minutes = param('minutes', '15');

function useFigures(name: () => string, over: () => string): Source<Figures> {
  const figures = useFiguresOnce(name, over);
  const key = `${name()} ${over()}`;
  useEffect(() => every(3000, () => figures.again()), [key]);
  return figures;
}

const kept = new Map<string, Source<Figures>>();

function useFiguresOnce(name: () => string, over: () => string): Source<Figures> {
  const key = `${name()}?minutes=${over()}`;
  let found = kept.get(key);
  if (found === undefined) kept.set(key, (found = source((signal) => json(`/_up/dashboards/${key}`, { signal }))));
  return found;
}

const useDashboards = (): void => useEffect(() => (dashboards.peek().data === undefined ? every(5000, () => (dashboards.peek().data === undefined ? dashboards.again() : Promise.resolve())) : undefined), []);

/** The first figures, over every list of requests. */
export function Vitals() {
  useDashboards();
  const figures = useFigures(() => 'vitals', () => '5');
  const panels = dashboards.value.data?.find(({ name }) => name === 'vitals')?.panels ?? [];
  if (panels.length === 0) return <div class="vitals" aria-hidden="true" />;
  return (
    <dl class="vitals" aria-label="The last five minutes">
      {panels.map((panel, i) => {
        const series = figures.value.data?.panels[i];
        return (
          <div key={panel.title} class="vital card">
            <dt class="eyebrow clip" title={panel.text}>{panel.title}</dt>
            <dd class="row">
              <span class="figures">{(series ?? []).slice(0, 2).map(({ name, points }) => <span key={name} class="row">{(series?.length ?? 0) > 1 && <span class={`mark ${name.replace(/^bff-/, '')}`} title={name}><span class="unseen">{name}</span></span>}<b>{figure(points?.at(-1)?.[1] ?? NaN, panel.unit)}</b></span>)}{(series?.length ?? 0) === 0 && <b>–</b>}</span>
              <Plot panel={panel} series={series} minutes={5} spark />
            </dd>
          </div>
        );
      })}
    </dl>
  );
}

export function Dashboards() {
  useDashboards();
  const list = (dashboards.value.data ?? []).filter(({ name }) => name !== 'vitals');
  const chosen = list.find(({ name }) => here.value.pathname.endsWith(`/${name}`)) ?? list[0];
  return (
    <main class="screen stack" id="main">
      <div class="row wrap apart">
        <h1>Dashboards</h1>
        <nav class="tabs" aria-label="Dashboards">{list.map(({ name, title }) => <a key={name} href={`/console/dashboards/${name}${here.value.search}`} aria-current={chosen?.name === name ? 'page' : undefined}>{title}</a>)}</nav>
        <label class="row small">over <select value={minutes.value} onChange={({ currentTarget }) => (minutes.value = currentTarget.value)}>{['5', '15', '60'].map((m) => <option key={m} value={m}>{m} minutes</option>)}</select></label>
      </div>
      <Shown of={dashboards.value} failed="The dashboards cannot be read.">{() => (chosen === undefined ? <State title="There are no dashboards." /> : <Panels key={chosen.name} of={chosen} />)}</Shown>
    </main>
  );
}

function Panels({ of }: { of: Dashboard }) {
  const figures = useFigures(() => of.name, () => minutes.value);
  const rows = [...Map.groupBy(of.panels.map((panel, i) => ({ panel, i })), ({ panel }) => panel.row ?? '')];
  return (
    <>
      <Honesty at={figures.value.at} stale={figures.value.error !== undefined}><span>from the metrics of the running services, every 3 seconds while this page is shown</span>{figures.value.error !== undefined && <span class="warm">not renewed: <bdi>{figures.value.error}</bdi></span>}</Honesty>
      {rows.map(([row, panels]) => (
        <section key={row} class="stack close">
          {row !== '' && <h2>{row}</h2>}
          <div class="grid panels">{panels.map(({ panel, i }) => <Plot key={i} panel={panel} series={figures.value.data?.panels[i]} minutes={Number(minutes.value)} />)}</div>
        </section>
      ))}
    </>
  );
}
