// What an instance says of itself at its admin listener.
import http from 'k6/http';

// figures of an instance: sums over labels, and buckets by their bound.
export function figures(admin) {
  const out = {};
  const answer = http.get(admin + '/metrics', { responseType: 'text', tags: { route: 'metrics', phase: 'observer' } });
  for (const line of (answer.body || '').split('\n')) { // none of an instance that has not started
    const m = /^bff_(?:backoffice|consumer)_([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!m) continue;
    const le = /le="([^"]+)"/.exec(m[2] || '');
    const code = /(?:code|pool|verdict)="([^"]+)"/.exec(m[2] || '');
    for (const name of [m[1], le && m[1] + ' ' + le[1], code && m[1] + ' ' + code[1]]) if (name) out[name] = (out[name] || 0) + Number(m[3]);
  }
  return out;
}

// quantile of what was counted between two readings, in the unit of the buckets.
export function quantile(q, name, before, after) {
  const bounds = Object.keys(after).filter((k) => k.startsWith(name + '_bucket ')).map((k) => k.split(' ')[1]);
  bounds.sort((a, b) => (a === '+Inf' ? 1 : b === '+Inf' ? -1 : a - b));
  const at = (b) => (after[`${name}_bucket ${b}`] || 0) - ((before && before[`${name}_bucket ${b}`]) || 0);
  const all = at('+Inf');
  let low = 0, below = 0;
  for (const b of bounds) {
    if (at(b) >= q * all) return b === '+Inf' ? low : low + ((Number(b) - low) * (q * all - below)) / Math.max(at(b) - below, 1);
    low = Number(b);
    below = at(b);
  }
  return low;
}

// poolShare is how much of the fullest pool of Postgres connections is in use.
export const poolShare = (f) => Math.max(...[' requests', ' jobs'].map((pool) => f['postgres_pool_inuse' + pool] / f['postgres_pool_total' + pool] || 0));
