// Lines over time, with their figures for readers who see no lines: the same values as a table.
import { useSignal } from '@preact/signals';
import type { TargetedPointerEvent } from 'preact';

import type { Panel, Series } from './api.js';
import { figure } from './words.js';

const wide = 600;
const high = 140;
const colours = 8;

type Line = { readonly name: string; readonly points: readonly (readonly [number, number])[] };

const finite = (points: Line['points']): Line['points'] => points.filter(([, value]) => Number.isFinite(value));

/** A number above which the axis ends: 1, 2 or 5 of a power of ten. */
function ceiling(value: number): number {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((end) => end >= value * 0.999) ?? value;
}

function path(points: Line['points'], from: number, to: number, top: number): string {
  const gap = Math.max(60, ((to - from) / Math.max(1, points.length)) * 4);
  return points.map(([at, value], i) => {
    const before = points[i - 1];
    const move = before === undefined || at - before[0] > gap;
    return `${move ? 'M' : 'L'}${(((at - from) / (to - from || 1)) * wide).toFixed(1)} ${(high - (Math.max(0, value) / top) * high).toFixed(1)}`;
  }).join('');
}

const clock = (at: number): string => new Date(at * 1000).toTimeString().slice(0, 8);

/** One panel of a dashboard. `tall` ones have axes, a legend and a table; others are a spark beside a figure. */
export function Plot({ panel, series, minutes, spark = false }: { panel: Panel; series: readonly Series[] | null | undefined; minutes: number; spark?: boolean }) {
  const table = useSignal(false);
  const at = useSignal<number | undefined>(undefined);
  const lines: readonly Line[] = (series ?? []).map(({ name, points }) => ({ name, points: finite(points ?? []) })).filter(({ points }) => points.length > 0);
  const last = Math.max(...lines.flatMap(({ points }) => points.slice(-1).map(([t]) => t)), 0) || Date.now() / 1000;
  const from = last - minutes * 60;
  const top = ceiling(Math.max(0, ...lines.flatMap(({ points }) => points.map(([, value]) => value))));
  const now = lines.map(({ points }) => points.at(-1)?.[1] ?? NaN);
  const drawing = (
    <svg viewBox={`0 0 ${wide} ${high}`} preserveAspectRatio="none" aria-hidden="true">
      {!spark && [0, 0.5, 1].map((part) => <line key={part} class="grid" x1="0" x2={wide} y1={part * high} y2={part * high} />)}
      {lines.map(({ name, points }, i) => <path key={name} class={`line c${i % colours}`} d={path(points, from, last, top)} />)}
      {at.value !== undefined && <line class="cross" x1={((at.value - from) / (last - from)) * wide} x2={((at.value - from) / (last - from)) * wide} y1="0" y2={high} />}
    </svg>
  );
  if (spark) return <div class="plot spark">{drawing}</div>;
  const near = (points: Line['points'], wanted: number): number => points.reduce((best, point) => (Math.abs(point[0] - wanted) < Math.abs(best[0] - wanted) ? point : best), points[0] ?? [0, NaN])[1];
  const shown = at.value === undefined ? now : lines.map(({ points }) => near(points, at.value!));
  const follow = ({ currentTarget, clientX }: TargetedPointerEvent<HTMLDivElement>): void => {
    const { left, width } = currentTarget.getBoundingClientRect();
    at.value = from + ((clientX - left) / width) * (last - from);
  };
  return (
    <figure class="card panel">
      <figcaption class="row apart">
        <h3 class="clip" title={panel.text}>{panel.title}</h3>
        {lines.length > 0 && <button class="quiet little" aria-pressed={table.value} aria-label={`${panel.title} as a table`} onClick={() => (table.value = !table.value)}>table</button>}
      </figcaption>
      {lines.length === 0 ? <p class="dim small nothing">Nothing has happened yet.</p> : table.value ? <Twin lines={lines} unit={panel.unit} label={panel.title} /> : (
        <>
          <div class="plot" onPointerMove={follow} onPointerLeave={() => (at.value = undefined)}>
            {drawing}
            <span class="top tiny dim">{figure(top, panel.unit)}</span>
            <span class="from tiny dim">{at.value === undefined ? `−${minutes} min` : clock(at.value)}</span>
          </div>
          <ul class="legend tiny">
            {lines.slice(0, 8).map(({ name }, i) => <li key={name}><span class={`dot c${i % colours}`} /><bdi class="clip" title={name}>{name.replace(/\/bff\/\w+\/v1/, '') || panel.title}</bdi><span class="number">{figure(shown[i] ?? NaN, panel.unit)}</span></li>)}
            {lines.length > 8 && <li class="dim">and {lines.length - 8} more, in the table</li>}
          </ul>
        </>
      )}
    </figure>
  );
}

function Twin({ lines, unit, label }: { lines: readonly Line[]; unit: string; label: string }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}><table class="table">
      <thead><tr><th scope="col">series</th>{['now', 'least', 'most'].map((head) => <th key={head} scope="col" class="number">{head}</th>)}</tr></thead>
      <tbody>{lines.map(({ name, points }) => {
        const values = points.map(([, value]) => value);
        return <tr key={name}><th scope="row"><bdi>{name || label}</bdi></th>{[values.at(-1) ?? NaN, Math.min(...values), Math.max(...values)].map((value, i) => <td key={i} class="number">{figure(value, unit)}</td>)}</tr>;
      })}</tbody>
    </table></div>
  );
}
