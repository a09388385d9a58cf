// Where things are on the map, and which of them have room for their price. No tiles: Mercator, and rectangles that do not touch.
export interface Point {
  readonly lat: number;
  readonly lng: number;
}
/** The middle of what is shown, and how many pixels a degree of longitude has. */
export interface View {
  readonly x: number;
  readonly y: number;
  readonly scale: number;
}
export interface Box {
  readonly swLat: number;
  readonly swLng: number;
  readonly neLat: number;
  readonly neLng: number;
}
export interface Size {
  readonly width: number;
  readonly height: number;
}

const degrees = 180 / Math.PI;
export const mercator = (lat: number): number => -Math.log(Math.tan(Math.PI / 4 + lat / degrees / 2)) * degrees;
const latitude = (y: number): number => (2 * Math.atan(Math.exp(-y / degrees)) - Math.PI / 2) * degrees;
const least = 8;
const most = 60_000;

export const toScreen = ({ x, y, scale }: View, { width, height }: Size, { lat, lng }: Point): [number, number] => [(lng - x) * scale + width / 2, (mercator(lat) - y) * scale + height / 2];

export function boxOf({ x, y, scale }: View, { width, height }: Size): Box {
  const [w, h] = [width / 2 / scale, height / 2 / scale];
  return { swLat: latitude(y + h), neLat: latitude(y - h), swLng: Math.max(-180, x - w), neLng: Math.min(180, x + w) };
}

/** The view that has all points in it, with a margin. */
export function fit(points: readonly Point[], { width, height }: Size): View {
  if (points.length === 0) return { x: 66, y: mercator(34), scale: 20 };
  const xs = points.map(({ lng }) => lng);
  const ys = points.map(({ lat }) => mercator(lat));
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const scale = Math.min(width / Math.max(right - left, 0.02), height / Math.max(bottom - top, 0.02)) * 0.8;
  return { x: (left + right) / 2, y: (top + bottom) / 2, scale: Math.min(most, Math.max(least, scale)) };
}

/** Nearer or farther, so that what is under a point stays there. */
export function zoom({ x, y, scale }: View, by: number, { width, height }: Size, at: readonly [number, number] = [width / 2, height / 2]): View {
  const next = Math.min(most, Math.max(least, scale * by));
  const [dx, dy] = [at[0] - width / 2, at[1] - height / 2];
  return { x: x + dx / scale - dx / next, y: y + dy / scale - dy / next, scale: next };
}

export interface Pin extends Point {
  readonly id: string;
  readonly text?: string;
}
export interface Placed extends Pin {
  readonly at: readonly [number, number];
  /** Of its pill; none: a dot. */
  readonly width: number;
}
export const pillHeight = 24;

/**
 * Pins with a price have a pill where it touches no pill before it; the others are dots. The first pins come first, and the chosen one before all, so
 * that moving the map does not shuffle them. What is outside of the map is left out.
 */
export function place(pins: readonly Pin[], view: View, size: Size, widthOf: (text: string) => number, chosen: string | undefined): Placed[] {
  const taken: [number, number, number, number][] = [];
  const placed: Placed[] = [];
  for (const pin of [...pins].sort((a, b) => Number(b.id === chosen) - Number(a.id === chosen))) {
    const [x, y] = toScreen(view, size, pin);
    if (x < 0 || y < 0 || x > size.width || y > size.height) continue;
    const width = pin.text === undefined ? 0 : widthOf(pin.text) + 16;
    const rect: [number, number, number, number] = [x - width / 2 - 2, y - pillHeight / 2 - 2, x + width / 2 + 2, y + pillHeight / 2 + 2];
    const free = width > 0 && rect[0] >= 0 && rect[2] <= size.width && rect[1] >= 0 && rect[3] <= size.height && !taken.some(([l, t, r, b]) => rect[0] < r && rect[2] > l && rect[1] < b && rect[3] > t);
    if (free) taken.push(rect);
    placed.push({ ...pin, at: [x, y], width: free ? width : 0 });
  }
  return placed;
}

/** The pin under a finger: pills first, and the nearest dot within its reach. */
export function hit(placed: readonly Placed[], x: number, y: number): Placed | undefined {
  const pill = placed.find(({ at, width }) => width > 0 && Math.abs(at[0] - x) <= width / 2 && Math.abs(at[1] - y) <= pillHeight / 2 + 4);
  const far = ({ at }: Placed): number => Math.hypot(at[0] - x, at[1] - y);
  const dot = placed.filter(({ width }) => width === 0).sort((a, b) => far(a) - far(b))[0];
  return pill ?? (dot !== undefined && far(dot) <= 16 ? dot : undefined);
}

/** A round distance for the bar below the map: kilometres and pixels. */
export function bar({ y, scale }: View, width: number): [number, number] {
  const km = (111.32 * Math.cos(latitude(y) / degrees)) / scale; // of a pixel
  const round = [1000, 500, 200, 100, 50, 20, 10, 5, 2, 1, 0.5, 0.2, 0.1].find((n) => n / km <= width) ?? 0.1;
  return [round, round / km];
}
