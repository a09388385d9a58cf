// Cuts the countries around Afghanistan out of Natural Earth's (world-atlas, public domain) for the map: `npm run region` writes region.json.
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';

const frame = [40, 18, 92, 50]; // west, south, east, north
const { arcs, objects, transform } = JSON.parse(readFileSync(createRequire(import.meta.url).resolve('world-atlas/countries-50m.json'), 'utf8'));
const { scale, translate } = transform;
const lines = arcs.map((arc) => {
  let [x, y] = [0, 0];
  return arc.map(([dx, dy]) => [(x += dx) * scale[0] + translate[0], (y += dy) * scale[1] + translate[1]]);
});
const ringOf = (of) => of.flatMap((i) => (i < 0 ? [...lines[~i]].reverse() : lines[i]).slice(1));

/** Sutherland and Hodgman: what of a ring is on one side of each edge of the frame. */
function clipped(ring) {
  for (const [axis, edge, keep] of [[0, frame[0], 1], [0, frame[2], -1], [1, frame[1], 1], [1, frame[3], -1]]) {
    const inside = (p) => (p[axis] - edge) * keep >= 0;
    ring = ring.flatMap((p, i) => {
      const before = ring.at(i - 1);
      const share = (edge - before[axis]) / (p[axis] - before[axis]);
      const cross = [before[0] + (p[0] - before[0]) * share, before[1] + (p[1] - before[1]) * share];
      return [...(inside(p) !== inside(before) ? [cross] : []), ...(inside(p) ? [p] : [])];
    });
  }
  return ring;
}

/** Hundredths of a degree, each point as steps from the one before it. */
function packed(ring) {
  let [x, y] = [0, 0];
  const out = [];
  for (const point of ring) {
    const [nx, ny] = point.map((n) => Math.round(n * 100));
    if (nx !== x || ny !== y) out.push(nx - x, ny - y);
    [x, y] = [nx, ny];
  }
  return out;
}

const rings = objects.countries.geometries
  .flatMap(({ type, arcs: of }) => (type === 'Polygon' ? [of] : of))
  .flatMap((polygon) => polygon.map((ring) => packed(clipped(ringOf(ring)))))
  .filter((ring) => ring.length > 8);
const text = `${JSON.stringify(rings)}\n`;
if (process.argv.includes('-check')) process.exit(text === readFileSync(new URL('region.json', import.meta.url), 'utf8') ? 0 : 1);
writeFileSync(new URL('region.json', import.meta.url), text);
