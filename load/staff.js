// load:peak-300rps: hotel staff at the peak of a region, 300 requests a second (DATA_MODEL §12).
// Desks work through their day: views, dashboards, inboxes, heartbeats, handshakes, and a tenth of
// writes: locks, decisions, acknowledgements, check-ins, charges, preferences. Beside them others
// only listen to their streams. Each request carries a proof of possession that is signed here.
//
// Thresholds are the service's objectives (p95), that writes of every kind are done, and conditions
// that are read from its own metrics: no exhausted pool of Postgres connections and at most 16 of an
// instance, Redis within 5 ms (p95), events published within 60 s and fewer than 5,000 waiting, all
// streams open and their first event within 200 ms (p95), and a cold instance at most a fifth slower
// than a warm one.
import http from 'k6/http';
import encoding from 'k6/encoding';
import { sleep } from 'k6';
import { Counter, Gauge } from 'k6/metrics';
import exec from 'k6/execution';
import { figures, poolShare, quantile } from './figures.js';

const url = __ENV.MELMASTOON_BACKOFFICE_URL;
const base = url + '/bff/backoffice/v1';
const sim = __ENV.MELMASTOON_SIM_URL;
const cold = __ENV.LOAD_COLD_URL; // a second instance that has just started, at its own address
const admins = [__ENV.MELMASTOON_BACKOFFICE_ADMIN_URL, __ENV.LOAD_COLD_ADMIN_URL];

const warm = Number(__ENV.LOAD_WARM || 30);
const phase = Number(__ENV.LOAD_PHASE || 60);
const rate = Number(__ENV.LOAD_RATE || 300);
const desks = 200; // a desk asks less often than its own limits allow
const streams = Number(__ENV.LOAD_STREAMS || 500);
// What a lock's vendor takes; every upstream has latencies of its own.
const vendor = { upstream: 'lock', latencyMs: 250, jitterMs: 200 };
const kinds = ['lock', 'decide', 'acknowledge', 'check-in', 'charge', 'preferences'];

const postgresShare = new Gauge('postgres_pool_share');
const postgresWaits = new Gauge('postgres_unavailable');
const redisP95 = new Gauge('redis_p95_ms');
const outboxLag = new Gauge('outbox_lag_seconds');
const outboxDepth = new Gauge('outbox_depth');
const connections = new Gauge('postgres_connections');
const coldOverWarm = new Gauge('cold_over_warm_p95');
const streamsOpen = new Gauge('streams_open');
const firstEventP95 = new Gauge('stream_first_event_p95_ms');
const written = new Counter('written');

// One scenario for all phases, so that desks stay signed in: warm (not judged, desks sign in) →
// peak → cold, in which half of the requests go to the instance that has just started.
function phaseNow() {
  const seconds = (Date.now() - exec.scenario.startTime) / 1000;
  return seconds < warm ? 'warm' : seconds < warm + phase ? 'peak' : 'cold';
}

const objectives = { dashboard: 600, workbench: 400, heartbeat: 80, handshake: 300, lock: 800 };

export const options = {
  discardResponseBodies: true,
  scenarios: {
    staff: {
      executor: 'constant-arrival-rate', exec: 'work', duration: warm + 1.5 * phase + 's', rate, timeUnit: '1s', preAllocatedVUs: desks, maxVUs: desks,
    },
    listeners: { executor: 'per-vu-iterations', exec: 'listen', vus: Math.max(streams, 1), iterations: 1, maxDuration: warm + 2 * phase + 60 + 's' },
    observer: { executor: 'per-vu-iterations', exec: 'observe', vus: 1, iterations: 1, startTime: warm + 's', maxDuration: 2 * phase + 60 + 's' },
  },
  thresholds: Object.assign({
    'http_req_failed{phase:peak}': ['rate<0.001'],
    'http_req_failed{phase:cold}': ['rate<0.001'],
    'http_reqs{phase:peak}': ['count>=' + Math.floor(0.99 * rate * phase)], // what was not asked misses no objective
    'http_req_waiting{route:dashboard-first-byte,phase:peak}': ['p(95)<200'],
    postgres_pool_share: ['value<1'],
    postgres_unavailable: ['value==0'],
    redis_p95_ms: ['value<=5', 'value>0'],
    outbox_lag_seconds: ['value<=60'],
    outbox_depth: ['value<5000'],
    postgres_connections: ['value<=16', 'value>0'], // of an instance, whatever it leads
    cold_over_warm_p95: ['value<=1.2', 'value>0'],
    streams_open: ['value>=' + 0.99 * streams],
    stream_first_event_p95_ms: ['value<200'],
    dropped_iterations: ['count<' + Math.ceil(rate * phase * 0.01)],
  }, Object.fromEntries(kinds.map((kind) => [`written{kind:${kind}}`, ['count>0']])), Object.fromEntries(Object.entries(objectives).map(([route, ms]) => [`http_req_duration{route:${route},phase:peak}`, [`p(95)<${ms}`]]))),
};

const text = (b) => encoding.b64encode(b, 'rawurl');
const bytes = (s) => { const b = new Uint8Array(s.length); for (let i = 0; i < s.length; i++) b[i] = s.charCodeAt(i); return b; };
const letters = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
function random(n, of) {
  let s = '';
  for (const b of crypto.getRandomValues(new Uint8Array(n))) s += of[b % of.length];
  return s;
}
function ulid() {
  let time = Date.now(), head = '';
  for (let i = 0; i < 10; i++, time = Math.floor(time / 32)) head = letters[time % 32] + head;
  return head + random(16, letters);
}

// Operators who may do all that desks do, of many tenants, because each has at most twenty sessions.
export function setup() {
  http.post(sim + '/_sim/faults', JSON.stringify(vendor), { headers: { 'Content-Type': 'application/json' } });
  const catalog = http.get(sim + '/_sim/catalog', { responseType: 'text' }).json();
  const active = new Set(catalog.tenants.filter((t) => t.status === 'active').map((t) => t.tenantId));
  for (const p of catalog.properties) if (p.country !== 'AF') active.delete(p.tenantId); // charges are in afghani
  return catalog.operators.filter((o) => active.has(o.tenantId) && o.roles.includes('general_manager')).map((o) => ({ operatorId: o.operatorId, tenantId: o.tenantId }));
}

// A desk: one of each virtual user, signed in once.
let desk;

async function prove(method, target, token) {
  const claims = { htm: method, htu: target, iat: Math.floor(Date.now() / 1000), jti: random(24, letters) };
  if (token) claims.ath = desk.ath;
  const signed = desk.head + '.' + text(JSON.stringify(claims));
  const signature = await crypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, desk.key, bytes(signed));
  return signed + '.' + text(signature);
}

async function signIn(operators) {
  const keys = await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify']);
  const jwk = await crypto.subtle.exportKey('jwk', keys.publicKey);
  const head = text(JSON.stringify({ typ: 'dpop+jwt', alg: 'ES256', jwk: { kty: 'EC', crv: 'P-256', x: jwk.x, y: jwk.y } }));
  desk = { key: keys.privateKey, head, id: 'dev_' + ulid() };
  const target = sim + '/iam/api/v1/auth/sign-in';
  const params = { headers: { 'Content-Type': 'application/json', DPoP: await prove('POST', target) }, responseType: 'text', tags: { route: 'sign-in', phase: 'setup' } };
  const answer = http.post(target, JSON.stringify({ ...operators[exec.vu.idInTest % operators.length], deviceId: desk.id }), params);
  if (answer.status !== 200) { desk = undefined; return; } // with the next iteration
  desk.token = answer.json().accessToken;
  desk.ath = text(await crypto.subtle.digest('SHA-256', bytes(desk.token)));
  const houses = await ask('GET', '/properties', null, 'properties', { responseType: 'text', phase: 'setup' });
  if (houses.status !== 200) desk = undefined;
  else desk.property = houses.json().items[0].propertyId;
}

async function ask(method, path, body, route, more) {
  const target = base + path.split('?')[0];
  const now = (more && more.phase) || phaseNow();
  const at = now === 'cold' && exec.scenario.iterationInTest % 2 ? cold : url;
  const params = Object.assign({
    headers: {
      Authorization: 'DPoP ' + desk.token, DPoP: await prove(method, target, desk.token), 'X-Device-Id': desk.id, 'X-App-Version': '2.4.0', 'X-App-Platform': 'linux',
      'X-Network-Profile': 'good', 'Content-Type': 'application/json', Accept: (more && more.accept) || 'application/json',
      ...(more && more.headers),
    },
    tags: { route, phase: now, instance: at === cold ? 'cold' : 'warm' },
  }, (more && more.params) || {}, more && more.responseType ? { responseType: more.responseType } : {});
  return http.request(method, at + '/bff/backoffice/v1' + path, body && JSON.stringify(body), params);
}

const views = ['/today', '/arrivals', '/departures', '/in-house', '/housekeeping/board', '/maintenance/board'];
const beat = { appVersion: '2.4.0', appPlatform: 'linux', networkProfile: 'good', installerChannel: 'stable', pendingHintCount: 0 };

// write does what a view offers, and looks for more where it has nothing left: another desk may have
// been first, which is no failure.
const queue = {};
const sources = { lock: 'in-house', charge: 'in-house', 'check-in': 'arrivals', acknowledge: 'alerts', decide: 'ai/suggestions' };
async function write(kind, of) {
  if (kind === 'preferences') {
    const seen = await ask('GET', '/preferences', null, 'preferences-read');
    return change(kind, 'PUT', '/preferences', { payload: { density: random(6, letters), theme: 'dark' } }, { 'If-Match': seen.headers.Etag || '' });
  }
  if (!(queue[kind] || []).length) {
    const view = await ask('GET', '/' + sources[kind] + of, null, sources[kind] === 'in-house' || sources[kind] === 'arrivals' ? 'workbench' : 'inbox', { responseType: 'text' });
    const offers = { lock: 'issue-key', charge: 'issue-key', 'check-in': 'check-in', acknowledge: 'acknowledge', decide: 'decide' }[kind];
    queue[kind] = view.status === 200 ? view.json().items.filter((i) => i.can.includes(offers)) : [];
  }
  const it = queue[kind].pop();
  if (!it) return;
  switch (kind) {
    case 'lock': return change(kind, 'POST', `/locks/${it.reservationId}/issue-key${of}`, {});
    case 'charge': return change(kind, 'POST', `/folios/${it.folioId}/charges${of}`, { amount: { minor: '2500', currency: 'AFN' }, description: 'tea' });
    case 'check-in': return change(kind, 'POST', `/reservations/${it.reservationId}/check-in${of}`, null);
    case 'acknowledge': return change(kind, 'POST', `/alerts/${it.alertId}/acknowledge${of}`, {});
    case 'decide': return change(kind, 'POST', `/ai/suggestions/${it.suggestionId}/decide${of}`, { outcome: 'accepted' });
  }
}

async function change(kind, method, path, body, headers) {
  const answer = await ask(method, path, body, kind, { headers: { 'X-Idempotency-Key': ulid(), ...headers }, params: { responseCallback: http.expectedStatuses({ min: 200, max: 299 }, 409, 412) } });
  if (answer.status < 300 && answer.status >= 200) written.add(1, { kind });
}

// listen has a stream open until the run ends, and gives it up then.
export async function listen(operators) {
  sleep((warm * exec.vu.idInTest) / (streams + desks) / 2);
  for (let i = 0; i < 5 && !desk; i++) await signIn(operators);
  const left = warm + 1.5 * phase - (Date.now() - exec.scenario.startTime) / 1000;
  if (!desk) return;
  // Its end is a timeout, which is none of the service's.
  await ask('GET', '/sse/stream', null, 'stream', {
    phase: 'stream', accept: 'text/event-stream', params: { timeout: Math.ceil(left) + 's', responseCallback: null },
  });
}

export async function work(operators) {
  if (!desk) await signIn(operators);
  if (!desk) return;
  const n = exec.scenario.iterationInTest, of = '?propertyId=' + desk.property;
  if (n % 10 === 9) return write(kinds[Math.floor(n / 10) % kinds.length], of);
  switch (n % 20) {
    case 0: case 1:
      await ask('GET', '/dashboard' + of, null, 'dashboard');
      break;
    case 2: case 3:
      await ask('GET', '/dashboard' + of, null, 'dashboard-first-byte', { accept: 'application/x-ndjson' });
      break;
    case 4: case 5: case 6: case 7:
      await ask('POST', `/devices/${desk.id}/heartbeat`, beat, 'heartbeat');
      break;
    case 8:
      await ask('POST', '/sync/handshake', null, 'handshake');
      break;
    case 9: case 10:
      await ask('GET', '/alerts' + of, null, 'inbox');
      break;
    case 11:
      await ask('GET', '/ai/suggestions' + of, null, 'inbox');
      break;
    case 12:
      await ask('GET', '/session', null, 'session');
      break;
    default:
      await ask('GET', views[n % views.length] + of, null, 'workbench');
  }
}

// observe reads the conditions from the instances themselves.
export function observe() {
  const before = figures(admins[0]);
  let share = 0, lag = 0, depth = 0, held = 0, open = 0;
  const look = (instances) => {
    for (const admin of instances) {
      const f = figures(admin);
      share = Math.max(share, poolShare(f));
      lag = Math.max(lag, f.outbox_lag_seconds || 0);
      depth = Math.max(depth, f.outbox_depth || 0);
      held = Math.max(held, f.postgres_connections || 0);
      open = Math.max(open, f.sse_active_connections || 0);
    }
  };
  // By the clock: on a machine that is short of time a look takes seconds, and the phases do not wait.
  const began = Date.now();
  const watch = (upTo, instances) => { for (const until = began + 1000 * upTo; Date.now() < until; sleep(Math.min(1, Math.max(0, (until - Date.now()) / 1000)))) look(instances); };
  watch(phase, admins.slice(0, 1));
  const peak = figures(admins[0]), fresh = figures(admins[1]);
  redisP95.add(1000 * quantile(0.95, 'redis_call_duration_seconds', before, peak));
  watch(1.5 * phase - 1, admins);
  const end = figures(admins[0]), chilled = figures(admins[1]);
  const unavailable = 'errors_total MELMASTOON.GENERAL.SERVICE_UNAVAILABLE';
  postgresShare.add(share);
  postgresWaits.add((end[unavailable] || 0) - (before[unavailable] || 0) + (chilled[unavailable] || 0));
  outboxLag.add(lag);
  outboxDepth.add(depth);
  connections.add(held);
  streamsOpen.add(open);
  firstEventP95.add(1000 * quantile(0.95, 'sse_first_event_seconds', {}, end));
  const slow = quantile(0.95, 'request_duration_seconds', fresh, chilled), usual = quantile(0.95, 'request_duration_seconds', peak, end);
  coldOverWarm.add(slow / usual);
  console.log(`cold p95 ${(1000 * slow).toFixed(1)} ms, warm beside it ${(1000 * usual).toFixed(1)} ms; most of the Postgres pool in use ${share.toFixed(2)}; ${held} connections; lag ${lag.toFixed(2)} s, depth ${depth}; ${open} streams`);
}
