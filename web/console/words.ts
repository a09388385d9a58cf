// How the console writes what it is told: durations, figures with their unit, commands.
import type { Request } from './api.js';

export const tone = (status: number): string => (status >= 500 || status === 0 ? 'bad' : status >= 400 ? 'warm' : 'good');

/** The tone of what a cache answered: HIT, MISS, STALE. */
export const warmth = (result: string): string => ({ hit: 'good', stale: 'warm' })[result.toLowerCase()] ?? '';

export function duration(ms: number): string {
  if (ms < 0.1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60_000 ? `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s` : `${Math.round(ms / 60_000)} min`;
}

export const short = (n: number): string => {
  const size = Math.abs(n);
  if (size >= 1e9) return `${(n / 1e9).toFixed(1)} G`;
  if (size >= 1e6) return `${(n / 1e6).toFixed(1)} M`;
  if (size >= 1e4) return `${(n / 1e3).toFixed(1)} k`;
  return Number.isInteger(n) ? String(n) : size >= 100 ? n.toFixed(0) : size >= 1 ? n.toFixed(1) : n === 0 ? '0' : n.toPrecision(2);
};

/** A figure in the unit that its panel has in Grafana. */
export function figure(value: number, unit: string): string {
  if (!Number.isFinite(value)) return '–';
  switch (unit) {
    case 's':
      return duration(value * 1000);
    case 'percentunit':
      return `${(value * 100).toFixed(value > 0.1 && value < 0.995 ? 0 : 1)} %`;
    case 'reqps':
    case 'ops':
      return `${short(value)}/s`;
    case 'bytes':
      return `${short(value)}B`;
    default:
      return short(value);
  }
}

export const ago = (at: string, now = Date.now()): string => {
  const s = Math.max(0, Math.round((now - Date.parse(at)) / 1000));
  return s < 60 ? `${s} s ago` : s < 5400 ? `${Math.round(s / 60)} min ago` : s < 172_800 ? `${Math.round(s / 3600)} h ago` : `${Math.round(s / 86_400)} days ago`;
};

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** The request as a command; the platform has its part under the address of this page. Guests' and operators' secrets are not in it. */
export function curl({ method, target, body }: Request): string {
  const parts = ['curl -si', ...(method === 'GET' ? [] : [`-X ${method}`]), quoted(location.origin + target)];
  if (body) parts.push("-H 'Content-Type: application/json'", `-d ${quoted(body)}`);
  return parts.join(' ');
}

/** The last steps of a pattern, which tell routes apart. */
export const brief = (route: string): string => route.replace(/^\/bff\/(consumer|backoffice)\/v1/, '') || route;
