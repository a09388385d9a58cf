// Discovery under load: guests search, look at maps, open hotels and are handed
// off. Thresholds are the service level objectives; a run that misses one fails.
//
// Conditions are read from the service's own metrics: events are published within 60 s and fewer
// than 50,000 wait (S0 §9), Postgres connections are not exhausted, Redis answers within 5 ms (p95),
// and of these guests, who are all people, fewer than 0.5 % are taken for bots.
//
// Phases: warm-up (not judged) → usual → a tenfold spike. The simulator counts
// what reaches the services behind; over windows of equal length the spike may
// cost them a tenth more and no more.
import http from 'k6/http';
import { check, sleep } from 'k6';
import { Gauge, Rate } from 'k6/metrics';
import exec from 'k6/execution';
import { figures, poolShare, quantile } from './figures.js';

const api = __ENV.MELMASTOON_CONSUMER_URL + '/bff/consumer/v1';
const sim = __ENV.MELMASTOON_SIM_URL + '/_sim';
const admin = __ENV.MELMASTOON_CONSUMER_ADMIN_URL;

// Seconds of a phase. Lists live for a minute, so that a phase of a minute holds
// one renewal of each.
const warm = Number(__ENV.LOAD_WARM || 20);
const phase = Number(__ENV.LOAD_PHASE || 60);
// Requests in a second of the usual phase.
const rate = Number(__ENV.LOAD_RATE || 20);
const spike = 10;

const searchHit = new Rate('search_cache_hit');
const upstreamRatio = new Gauge('upstream_calls_spike_over_usual');
const conditions = {};
for (const name of ['outbox_lag_seconds', 'outbox_depth', 'postgres_pool_share', 'postgres_connections', 'redis_p95_ms', 'taken_for_bots']) conditions[name] = new Gauge(name);

function guests(start, seconds, perSecond, name) {
  return {
    executor: 'constant-arrival-rate', exec: 'guest', startTime: start + 's', duration: seconds + 's',
    rate: perSecond, timeUnit: '1s', preAllocatedVUs: 20, maxVUs: 400, tags: { phase: name }, env: { PHASE: name },
  };
}

export const options = {
  discardResponseBodies: true,
  scenarios: {
    warm: guests(0, warm, rate, 'warm'),
    usual: guests(warm, phase, rate, 'usual'),
    spike: guests(warm + phase, phase, rate * spike, 'spike'),
    observer: { executor: 'per-vu-iterations', exec: 'observe', vus: 1, iterations: 1, startTime: warm + 's', maxDuration: 2 * phase + 30 + 's' },
  },
  thresholds: {
    'http_req_duration{route:search,phase:usual}': ['p(95)<600', 'p(99)<1100'],
    'http_req_duration{route:search,phase:spike}': ['p(95)<600', 'p(99)<1100'],
    'http_req_duration{route:hotel,phase:usual}': ['p(95)<500'],
    'http_req_duration{route:hotel,phase:spike}': ['p(95)<500'],
    'http_req_duration{route:handoff,phase:usual}': ['p(99)<250'],
    'http_req_duration{route:handoff,phase:spike}': ['p(99)<250'],
    // Availability is 99.9 %, spike or not.
    'http_req_failed{phase:usual}': ['rate<0.001'],
    'http_req_failed{phase:spike}': ['rate<0.001'],
    'search_cache_hit{phase:usual}': ['rate>=0.6'],
    'search_cache_hit{phase:spike}': ['rate>=0.6'],
    ...(phase < 60 ? {} : { upstream_calls_spike_over_usual: ['value<=1.1'] }), // a shorter one may hold a renewal more than the other
    // What was not asked misses no objective.
    'http_reqs{phase:usual}': ['count>=' + Math.floor(0.99 * rate * phase)],
    'http_reqs{phase:spike}': ['count>=' + Math.floor(0.99 * rate * spike * phase)],
    outbox_lag_seconds: ['value<=60'],
    outbox_depth: ['value<50000'],
    postgres_pool_share: ['value<1'],
    postgres_connections: ['value<=16', 'value>0'],
    redis_p95_ms: ['value<=5', 'value>0'],
    taken_for_bots: ['value<0.005'],
  },
};

const cities = ['Kabul', 'Herat', 'Kandahar', 'Jalalabad', 'Bamyan', 'Mazar-e Sharif', 'Tehran', 'Dushanbe', 'Peshawar', 'Dubai'];

export function setup() {
  const catalog = http.get(sim + '/catalog', { responseType: 'text' }).json();
  const suspended = new Set(catalog.tenants.filter((t) => t.status !== 'active').map((t) => t.tenantId));
  return { hotels: catalog.properties.filter((p) => !suspended.has(p.tenantId)).slice(0, 40) };
}

// A guest has an address and a browser of their own, and comes once: the worst
// case for everything that is kept per guest.
function headers(n, more) {
  return Object.assign({
    'Content-Type': 'application/json', Accept: 'application/json', 'Accept-Language': 'fa-AF,fa;q=0.9,en;q=0.5', 'Accept-Encoding': 'gzip',
    'User-Agent': 'Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36',
    'Sec-CH-UA': '"Chromium";v="142", "Google Chrome";v="142", "Not_A Brand";v="99"', 'Sec-CH-UA-Mobile': '?1', 'Sec-CH-UA-Platform': '"Android"',
    'Sec-Fetch-Site': 'same-origin', 'Sec-Fetch-Mode': 'cors', 'Sec-Fetch-Dest': 'empty',
    'X-Forwarded-For': `10.${(n >> 16) & 255}.${(n >> 8) & 255}.${n & 255}`, 'X-Client-Timezone': `Etc/Guest-${n}`,
  }, more);
}

const day = (n) => new Date(Date.now() + n * 86400000).toISOString().slice(0, 10);
const stay = { dates: { checkIn: day(30), checkOut: day(33) }, occupancy: { adults: 2, children: 0, rooms: 1 } };

export function guest(data) {
  const n = exec.scenario.iterationInTest + { warm: 0, usual: 1e6, spike: 2e6 }[__ENV.PHASE];
  const of = (route) => ({ headers: headers(n), tags: { route, phase: __ENV.PHASE }, jar: null });
  const where = { geo: { mode: 'city', city: cities[n % cities.length] } };
  let res;
  switch (n % 20) {
    case 0: {
      const hotel = data.hotels[n % data.hotels.length];
      const body = Object.assign({ propertyId: hotel.propertyId, tenantId: hotel.tenantId }, stay);
      const params = of('handoff');
      params.headers['Idempotency-Key'] = `load-${__ENV.PHASE}-${n}`;
      res = http.post(api + '/handoff', JSON.stringify(body), params);
      check(res, { 'handed off': (r) => r.status === 201 });
      break;
    }
    case 1:
      res = http.get(`${api}/suggest?q=${encodeURIComponent(cities[n % cities.length].slice(0, 3))}`, of('suggest'));
      break;
    case 2: case 3: case 4:
      res = http.post(api + '/search/map', JSON.stringify(Object.assign({}, where, stay)), of('map'));
      break;
    case 5: case 6: case 7: case 8: case 9: case 10:
      res = http.get(`${api}/hotels/${data.hotels[n % data.hotels.length].propertyId}`, of('hotel'));
      break;
    default:
      res = http.post(api + '/search', JSON.stringify(Object.assign({}, where, stay)), of('search'));
      searchHit.add(res.headers['X-Cache'] === 'HIT', { phase: __ENV.PHASE });
  }
}

// observe counts what each phase costs the services behind, and reads the conditions.
export function observe() {
  const calls = () => {
    const all = http.get(sim + '/calls', { responseType: 'text' }).json();
    http.del(sim + '/calls');
    let sum = 0;
    for (const upstream of ['search-aggregation', 'pricing', 'property', 'theme-config']) {
      for (const n of Object.values(all[upstream] || {})) sum += n;
    }
    return sum;
  };
  const most = { outbox_lag_seconds: 0, outbox_depth: 0, postgres_pool_share: 0, postgres_connections: 0 };
  const watch = () => {
    const until = Date.now() + 1000 * phase;
    for (let f; Date.now() < until; sleep(Math.min(1, Math.max(0, (until - Date.now()) / 1000)))) {
      f = figures(admin);
      for (const [name, value] of Object.entries({ ...f, postgres_pool_share: poolShare(f) })) if (name in most) most[name] = Math.max(most[name], value);
    }
  };
  const before = figures(admin);
  calls();
  watch();
  const usual = calls();
  watch();
  const spiked = calls(), after = figures(admin);
  const since = (name) => (after[name] || 0) - (before[name] || 0);
  for (const [name, value] of Object.entries(most)) conditions[name].add(value);
  conditions.redis_p95_ms.add(1000 * quantile(0.95, 'redis_call_duration_seconds', before, after));
  conditions.taken_for_bots.add(1 - since('bot_verdict_total human') / since('bot_verdict_total'));
  console.log(`upstream calls: usual ${usual}, spike ${spiked}`);
  upstreamRatio.add(spiked / usual);
}
