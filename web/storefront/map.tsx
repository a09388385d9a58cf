// The map: countries from a file, hotels from the service, prices where they fit. The list beside it is its twin for the keyboard and the ear.
import { useEffect, useRef, useState } from 'preact/hooks';
import { formatMoney, formatNumber } from '@melmastoon/bff/values';
import type { Place, Schemas } from '@melmastoon/bff/consumer';

import { locale, say } from '../kit/i18n.js';
import { Money, theme } from '../kit/parts.js';
import { api, known, nameOf, type Card, type Degradation } from './api.js';
import { currencyOf } from './list.js';
import { bar, boxOf, fit, hit, mercator, pillHeight, place, toScreen, zoom, type Box, type Pin, type Placed, type Size, type View } from './mapmodel.js';
import { bodyOf, type Query } from './query.js';
import region from './region.json';

type Pins = Schemas['MapResult'];
type Hotel = { readonly name: string; readonly rate: Schemas['MaybeRateSnapshot']; readonly state: Schemas['RateState'] };

// Lines of the whole region in map units, drawn once and then only moved.
let land: Path2D | undefined;
function landPath(): Path2D {
  if (land !== undefined) return land;
  land = new Path2D();
  for (const ring of region as number[][]) {
    let [x, y] = [0, 0];
    for (let i = 0; i < ring.length; i += 2) {
      x += ring[i] ?? 0;
      y += ring[i + 1] ?? 0;
      if (i === 0) land.moveTo(x / 100, mercator(y / 100));
      else land.lineTo(x / 100, mercator(y / 100));
    }
    land.closePath();
  }
  return land;
}

function draw(canvas: HTMLCanvasElement, view: View, size: Size, pins: readonly Pin[], chosen: string | undefined, places: ReadonlyMap<string, readonly Card[]>): readonly Placed[] {
  const to = canvas.getContext('2d');
  if (to === null) return [];
  const ratio = Math.min(devicePixelRatio, 2);
  if (canvas.width !== Math.round(size.width * ratio)) Object.assign(canvas, { width: Math.round(size.width * ratio), height: Math.round(size.height * ratio) });
  const style = getComputedStyle(canvas);
  // A canvas knows no light-dark(): the colour of a place in the page is asked for.
  const color = (name: string): string => {
    canvas.style.color = `var(${name})`;
    return style.color;
  };
  to.setTransform(ratio, 0, 0, ratio, 0, 0);
  to.fillStyle = color('--water');
  to.fillRect(0, 0, size.width, size.height);
  const { x, y, scale } = view;
  to.setTransform(ratio * scale, 0, 0, ratio * scale, ratio * (size.width / 2 - x * scale), ratio * (size.height / 2 - y * scale));
  to.fillStyle = color('--land');
  to.strokeStyle = color('--border');
  to.lineWidth = 1 / scale;
  to.fill(landPath(), 'evenodd');
  to.stroke(landPath());
  to.setTransform(ratio, 0, 0, ratio, 0, 0);
  const step = [10, 5, 1, 0.5, 0.1, 0.05, 0.01].find((n) => n * scale < size.width / 2) ?? 0.01;
  const box = boxOf(view, size);
  to.beginPath();
  for (let lng = Math.ceil(box.swLng / step) * step; lng < box.neLng; lng += step) {
    const at = Math.round((lng - x) * scale + size.width / 2) + 0.5;
    to.moveTo(at, 0);
    to.lineTo(at, size.height);
  }
  for (let lat = Math.ceil(box.swLat / step) * step; lat < box.neLat; lat += step) {
    const at = Math.round(toScreen(view, size, { lat, lng: x })[1]) + 0.5;
    to.moveTo(0, at);
    to.lineTo(size.width, at);
  }
  to.strokeStyle = color('--grid');
  to.lineWidth = 1;
  to.stroke();
  Object.assign(to, { font: `600 13px ${style.fontFamily}`, textAlign: 'center', textBaseline: 'middle', direction: locale.direction });
  const placed = place(pins, view, size, (text) => to.measureText(text).width, chosen);
  // Dots first: a dot over a price would hide it.
  for (const { at, width, id } of placed) {
    if (width > 0) continue;
    to.beginPath();
    to.arc(at[0], at[1], id === chosen ? 8 : 4.5, 0, 7);
    Object.assign(to, { fillStyle: color(id === chosen ? '--saffron' : '--lapis'), strokeStyle: color('--card'), lineWidth: 1.5 });
    to.fill();
    to.stroke();
  }
  to.lineJoin = 'round';
  for (const [name, cards] of places) {
    const centre = { lat: cards.reduce((sum, { geo }) => sum + geo.lat, 0) / cards.length, lng: cards.reduce((sum, { geo }) => sum + geo.lng, 0) / cards.length };
    const [cx, cy] = toScreen(view, size, centre);
    to.font = `650 ${scale > 500 ? 22 : 15}px ${style.fontFamily}`;
    Object.assign(to, { strokeStyle: color('--land'), lineWidth: 4, fillStyle: color('--name') });
    to.strokeText(name, cx, cy);
    to.fillText(name, cx, cy);
  }
  to.font = `600 13px ${style.fontFamily}`;
  for (const { at, width, id, text = '' } of [...placed].reverse()) {
    if (width === 0) continue;
    to.beginPath();
    to.roundRect(at[0] - width / 2, at[1] - pillHeight / 2, width, pillHeight, pillHeight / 2);
    Object.assign(to, { fillStyle: color(id === chosen ? '--saffron' : '--card'), strokeStyle: color('--edge'), lineWidth: 1 });
    to.fill();
    to.stroke();
    to.fillStyle = id === chosen ? '#1b1300' : color('--ink');
    to.fillText(text, at[0], at[1] + 1);
  }
  return placed;
}

export default function HotelMap({ query, cards, chosen, choose, here, hrefOf }: {
  query: Query; cards: readonly Card[]; chosen: string | undefined; choose: (propertyId: string) => void; here: (box: Box) => void; hrefOf: (propertyId: string) => string;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [size, resize] = useState<Size>({ width: 0, height: 0 });
  const [view, look] = useState<View>();
  const [found, find] = useState<Pins>();
  const [missing, miss] = useState<readonly Degradation[]>([]);
  const [hotel, open] = useState<Hotel>();
  const placed = useRef<readonly Placed[]>([]);
  const [moved, move] = useState(false);
  void theme.value; // a canvas is drawn again for other colours

  useEffect(() => {
    const watch = new ResizeObserver(([one]) => one && resize({ width: one.contentRect.width, height: one.contentRect.height }));
    if (canvas.current !== null) watch.observe(canvas.current);
    const colours = matchMedia('(prefers-color-scheme: dark)');
    const again = (): void => resize((s) => ({ ...s }));
    colours.addEventListener('change', again);
    void document.fonts.load('600 13px Vazirmatn, Inter').then(again); // letters that arrive later would not be drawn again
    return () => (watch.disconnect(), colours.removeEventListener('change', again));
  }, []);

  // The search's own place first; what is looked at after the map was moved.
  const asked = bodyOf(query, locale.locale, currencyOf(query));
  const geo: Place | undefined = moved && view !== undefined ? { mode: 'bounding-box', boundingBox: boxOf(view, size) } : asked.geo.mode === 'region' ? undefined : asked.geo;
  const wanted = JSON.stringify(geo);
  useEffect(() => {
    if (geo === undefined) return undefined;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      void known.then(() => api.call('searchMap', { body: { ...asked, geo }, signal: stop.signal })).then(
        ({ data }) => (find(data), miss(data.degraded)),
        () => !stop.signal.aborted && miss([{ part: 'search', reason: 'error', affected: 0 }]),
      );
    }, moved ? 350 : 0);
    return () => (clearTimeout(timer), stop.abort());
  }, [wanted, query]);

  const pins: Pin[] = cards.map(({ propertyId, geo, rateSnapshot }) => ({ id: propertyId, ...geo, ...(rateSnapshot !== null && { text: formatMoney(rateSnapshot.nightly, locale).replace(/[.,٫]\p{Nd}+(?=\P{Nd}*$)/u, '') }) }));
  const priced = new Set(cards.map(({ propertyId }) => propertyId));
  const dots: Pin[] = (found?.pins ?? []).filter(({ propertyId }) => !priced.has(propertyId)).map(({ propertyId, geo }) => ({ id: propertyId, ...geo }));
  useEffect(() => {
    if (!moved && size.width > 0 && pins.length + dots.length > 0) look(fit(cards.length > 0 ? pins : dots, size));
  }, [size.width, size.height, cards, found]);
  useEffect(() => {
    if (canvas.current === null || view === undefined || size.width === 0) return undefined;
    const frame = requestAnimationFrame(() => {
      const cities = new Map<string, Card[]>();
      for (const card of cards) cities.set(card.cityLabel, [...(cities.get(card.cityLabel) ?? []), card]);
      if (canvas.current !== null) placed.current = draw(canvas.current, view, size, [...pins, ...dots], chosen, cities);
    });
    return () => cancelAnimationFrame(frame);
  });
  useEffect(() => {
    if (chosen === undefined) return open(undefined);
    const card = cards.find(({ propertyId }) => propertyId === chosen);
    if (card !== undefined) return open({ name: nameOf(card.name), rate: card.rateSnapshot, state: card.rateState ?? 'unanswered' });
    const stop = new AbortController();
    open(undefined);
    const { dates, occupancy } = asked;
    void api.call('hotel', { path: { propertyId: chosen }, query: { ...dates, ...occupancy, locale: locale.locale }, headers: { 'X-View-Source': 'search-map' }, signal: stop.signal }).then(
      ({ data }) => open({ name: nameOf(data.property.name), rate: data.cheapestRateSnapshot, state: data.rateState }),
      () => undefined, // its dot stays, and its page says what is so
    );
    return () => stop.abort();
  }, [chosen]);

  // Fingers and the mouse: one moves, two zoom, a tap chooses.
  const fingers = useRef(new Map<number, readonly [number, number]>());
  const dragged = useRef(false);
  const at = (event: PointerEvent | WheelEvent): [number, number] => {
    const { left, top } = (event.currentTarget as Element).getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  };
  const turn = (next: View): void => (look(next), move(true));
  const drag = (event: PointerEvent): void => {
    const before = fingers.current.get(event.pointerId);
    if (before === undefined || view === undefined) return;
    const now = at(event);
    if (Math.hypot(now[0] - before[0], now[1] - before[1]) < 3 && !dragged.current) return;
    dragged.current = true;
    const others = [...fingers.current].filter(([id]) => id !== event.pointerId).map(([, p]) => p);
    fingers.current.set(event.pointerId, now);
    const other = others[0];
    if (other === undefined) return turn({ ...view, x: view.x - (now[0] - before[0]) / view.scale, y: view.y - (now[1] - before[1]) / view.scale });
    const far = (p: readonly [number, number]): number => Math.max(Math.hypot(p[0] - other[0], p[1] - other[1]), 1);
    turn(zoom(view, far(now) / far(before), size, [(now[0] + other[0]) / 2, (now[1] + other[1]) / 2]));
  };
  const lift = (event: PointerEvent): void => {
    const tapped = fingers.current.delete(event.pointerId) && !dragged.current && event.type === 'pointerup';
    const pin = tapped ? hit(placed.current, ...at(event)) : undefined;
    if (pin !== undefined) choose(pin.id);
  };
  const [km, pixels] = view === undefined ? [0, 0] : bar(view, 90);
  const n = found === undefined ? cards.length : found.pins.length;
  return (
    <figure class="map" aria-label={say('map.label')}>
      <canvas ref={canvas} dir="ltr" aria-hidden="true" onPointerDown={(e) => { dragged.current = false; fingers.current.set(e.pointerId, at(e)); e.currentTarget.setPointerCapture(e.pointerId); }}
        onPointerMove={drag} onPointerUp={lift} onPointerCancel={lift} onWheel={(e) => { e.preventDefault(); if (view) turn(zoom(view, e.deltaY < 0 ? 1.25 : 0.8, size, at(e))); }} />
      <div class="near">
        <button aria-label={say('map.in')} onClick={() => view && turn(zoom(view, 1.6, size))}>+</button>
        <button aria-label={say('map.out')} onClick={() => view && turn(zoom(view, 0.625, size))}>−</button>
      </div>
      {moved && view !== undefined && <button class="here" onClick={() => here(boxOf(view, size))}>{say('map.here')}</button>}
      {pixels > 0 && <span class="bar-of-km tiny" dir="ltr" style={{ inlineSize: `${pixels}px` }}><bdi>{say('map.km', { km: formatNumber(km, locale) })}</bdi></span>}
      {chosen !== undefined && hotel !== undefined && <a class="card picked" href={hrefOf(chosen)}><b><bdi>{hotel.name}</bdi></b>
        <span>{hotel.rate === null ? say(`rate.${hotel.state}`) : <Money money={hotel.rate.total} />}</span></a>}
      <figcaption class="small dim"><div role="status">
        {found !== undefined && found.total > n ? say('map.of', { n, total: found.total }) : say('map.all', { n: found?.total ?? n })}
        {missing.map(({ part, reason }) => <span key={part}> {say(`why.${reason}`, { part: say(`part.${part}`) })}</span>)}
      </div></figcaption>
    </figure>
  );
}
