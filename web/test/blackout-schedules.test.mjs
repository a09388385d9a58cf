// Random schedules of a house whose line is cut: desks in Chromium that are reloaded and crash, a colleague who is online, services behind that fail, an instance that is killed, a role
// and a company's access that go and come back. `make test-typescript` plays two, `make proof` SCHEDULES=200 from a random seed on; SEED=… plays one again.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { chromium } from '../../clients/typescript/testing/browser.mjs';
import { colleague, executed, kept, killInstance, sim } from './house.mjs';
import { line } from './line.mjs';

const { MELMASTOON_PAGES_URL, SCHEDULES, SEED = SCHEDULES === undefined ? '4' : undefined } = process.env;
const schedules = Number(SCHEDULES ?? (process.env.SEED === undefined ? 2 : 1));
const all = (selector) => `[...document.querySelectorAll('${selector}')]`;
const one = (selector) => `document.querySelector('${selector}')`;
const pause = (ms) => new Promise((over) => setTimeout(over, ms));
/** What a step does to what: from which states, and to which. */
const steps = {
  'check-in': [['confirmed'], 'checked_in'], 'check-out': [['checked_in'], 'checked_out'], start: [['pending', 'open'], 'in_progress'], complete: [['pending', 'in_progress'], 'done'],
  inspect: [['done'], 'inspected'], resolve: [['open', 'in_progress'], 'resolved'], close: [['resolved'], 'closed'], reopen: [['in_progress', 'done', 'inspected', 'resolved', 'closed'], undefined],
};
/** What can be done with a kind of thing. */
const of = { stay: ['check-in', 'check-out', 'charge'], task: ['start', 'complete', 'inspect', 'reopen'], order: ['start', 'resolve', 'close', 'reopen'], house: ['open'] };
const settled = ['done', 'already_done', 'done_by_other', 'not_possible', 'expired'];

/** Numbers that follow from a seed (mulberry32). */
function chance(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
  return { below: (n) => Math.floor(next() * n), percent: (n) => next() * 100 < n, pick: (list) => list[Math.floor(next() * list.length)] };
}

/** An id without its form: services write the same one as a ULID, with a prefix, or as a UUID. */
function plain(id) {
  const hex = id.replaceAll('-', '');
  if (!/^[\da-f]{32}$/i.test(hex)) return id.split('_').at(-1);
  let [n, text] = [BigInt(`0x${hex}`), ''];
  for (let i = 0; i < 26; i++, n >>= 5n) text = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'[Number(n & 31n)] + text;
  return text;
}

/** What a page has: entries as it shows them, presses as it keeps them. */
const have = `({
  entries: ${all('[data-entry]')}.map((row) => ({ name: row.dataset.name, key: row.dataset.key, verdict: row.dataset.entry, operation: row.dataset.operation, text: row.textContent })),
  presses: JSON.parse(localStorage.getItem('melmastoon-desk-presses') ?? '[]'),
})`;

/** A desk of a house in a browser of its own: what is pressed at it, and what happens to it. */
class Desk {
  constructor(browser, wire, username, property) {
    Object.assign(this, { browser, wire, username, property, offline: false, pressed: [], said: [] });
  }

  async begin() {
    ({ browserContextId: this.context } = await this.browser.tell('Target.createBrowserContext', { proxyServer: this.wire.address, proxyBypassList: '<-loopback>' }));
    await this.open();
    await this.tab.until(one(`[data-username="${this.username}"]`));
    const ready = `${one('[data-line="live"]')} && ${one('[data-column="in-house"] [data-stay]')}`;
    for (let tries = 1; ; tries++) { // a sign-in that a starved machine refuses is asked for again by whoever sits there
      await this.tab.value(`${one(`[data-username="${this.username}"]`)}.click()`);
      if ((await this.tab.until(`${ready} ? 'desk' : ${one('.sign-in [role="alert"]')} && !${one('.person[aria-busy="true"]')} ? 'refused' : ''`)) === 'desk') break;
      assert.ok(tries < 5, 'signing in is refused');
    }
    for (const end = Date.now() + 90_000; !(await this.tab.value(kept).catch(() => false)); await pause(100)) assert.ok(Date.now() < end, 'nothing was kept');
  }

  async open() {
    do this.tab = await Promise.race([this.browser.open(this.address(), this.context), pause(20_000)]);
    while (this.tab === undefined); // a page that asks a dying worker may never come
    await this.tab.tell('Network.enable');
    if (this.offline) await this.network(true);
  }

  address() {
    return new URL(`/desk?lang=en&property=${this.property}`, MELMASTOON_PAGES_URL).href;
  }

  async network(offline) {
    this.offline = offline;
    await this.tab.tell('Network.emulateNetworkConditions', { offline, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
  }

  async mend() {
    this.wire.mend();
    await this.network(false);
  }

  /** Leaves the page as a reload does, as a closed window, or as a crash. */
  async leave(how) {
    const { tab } = this;
    if (how === 'reload') {
      await tab.value(`void (window.before = true)`).catch(() => undefined);
      await tab.tell('Page.reload');
      return void (await tab.until('!window.before'));
    }
    if (how === 'crash') {
      void tab.tell('Page.crash').catch(() => undefined);
      await pause(1_000); // its worker dies with it, and must not be asked for the page while it does
    }
    await Promise.race([tab.close(), pause(2_000)]);
    await this.open();
  }

  /** What is shown: the desk, or a page that must be brought back to it. */
  async shown() {
    return this.tab.until(`${one('.desk-bar')} ? 'desk' : ${one('.person')} ? 'signed-out' : ${one('.state .first')} ? 'unreached' : ''`);
  }

  async go(query) {
    await this.tab.value(`(history.pushState(null, '', '?lang=en&property=${this.property}&${query}'), dispatchEvent(new PopStateEvent('popstate')))`);
  }

  /** Presses one of the buttons that the page offers; returns which, and what the page took it for. With `blind` nobody looks what becomes of it. */
  async press({ kind, id }, chance, blind) {
    if ((await this.shown()) !== 'desk') return 'no desk';
    const { tab } = this;
    await this.go({ stay: `stay=${id}`, task: 'view=housekeeping', order: 'view=maintenance', house: 'view=maintenance' }[kind]);
    const place = kind === 'stay' ? `[data-drawer="${id}"]` : kind === 'house' ? '' : `[data-id="${id}"]`;
    await tab.until(`${one(place === '' ? '[data-do="report"]' : place)} !== null`, 3_000).catch(() => undefined);
    const offered = await tab.value(`${all(`${place} [data-do]:enabled`)}.map((button) => button.dataset.do)`);
    const step = chance.pick(of[kind].filter((step) => offered.includes(step === 'open' ? 'report' : step)));
    if (step === undefined) return `nothing is offered of ${id}`;
    const button = one(`${place} [data-do="${step === 'open' ? 'report' : step}"]:enabled`);
    const was = await tab.value(have);
    const fill = { charge: [`[name="amount"]`, `form.amount.value = '150'; form.description.value = 'Tea'`], open: ['[name="title"]', `form.elements.title.value = 'Lamp'`] }[step];
    // A list may have been read anew since.
    if (!(await tab.value(`(() => { const button = ${button}; button?.click(); return button !== null; })()`))) return `${step} is offered no longer of ${id}`;
    if (fill !== undefined) {
      await tab.until(one(`form ${fill[0]}`));
      await tab.value(`(() => { const form = ${one(`form:has(${fill[0]})`)}; ${fill[1]}; form.requestSubmit(); })()`);
    }
    if (blind) return `${step} ${id}: blind`;
    const known = JSON.stringify([...was.entries.map(({ name }) => name), ...was.presses.map(({ key }) => key)]);
    // It may have its end before anyone looks, and be told in either list.
    const [found] = await tab.until(`((known, now) => { const found = [...now.entries.map(({ name }) => name), ...now.presses.map(({ key }) => key)].filter((one) => !known.includes(one)); return found.length > 0 && found; })(${known}, ${have})`, 30_000);
    this.pressed.push({ kind, id, step, name: found });
    await this.go('');
    return `${step} ${id}: ${found.includes('/entry/') ? 'taken down' : 'sent'}`;
  }

  /** Brings the page back to the desk, as a clerk would, and waits until nothing is unsent, unsettled or asked for. */
  async settle() {
    for (const end = Date.now() + 300_000; ; await pause(200)) {
      const { tab } = this;
      switch (await this.shown()) {
        case 'signed-out': await tab.value(`${one(`[data-username="${this.username}"]`)}?.click()`); break;
        case 'unreached': await tab.value(`${one('.state .first')}?.click()`); break;
        default: {
          await tab.value(`${one('[data-line] button')}?.click()`); // follows the news again
          await tab.value(`(() => { const form = ${one('[data-entry="needs_second_factor"] form')}; if (form) { form.elements.code.value = '000000'; form.requestSubmit(); } })()`);
          const { entries, presses } = await tab.value(have);
          const open = [...entries.filter(({ verdict }) => ![...settled, 'lost'].includes(verdict)), ...presses.filter(({ state }) => ['sent', 'pending', 'unknown'].includes(state))];
          const calm = await tab.value(`${one('[data-line="live"]')} !== null && ${one('.unsent')}.dataset.count === '0' && !${one('[data-unsent]')}`);
          if (open.length === 0 && calm) return { entries, presses };
          assert.ok(Date.now() < end, `never settled: ${JSON.stringify(open)}`);
        }
      }
    }
  }
}

/** One house, its desks, and what befalls them. */
class Schedule {
  constructor(t, browser, seed, world) {
    Object.assign(this, { t, browser, seed, world, chance: chance(seed), log: [] });
  }

  note(text) {
    this.log.push(text);
  }

  async play() {
    const { chance, world } = this;
    this.property = chance.pick(world.houses);
    this.before = (await sim('GET', 'book')).executions?.length ?? 0;
    this.online = world.online;
    this.online.propertyId = this.property;
    const { items: inHouse } = (await this.online.call('inHouse')).data;
    const rooms = inHouse.map((stay) => stay.roomNumber);
    const { items: due, asOf } = (await this.online.call('arrivals')).data;
    const soon = new Date(Date.parse(asOf) + 6 * 3_600_000).toISOString().slice(11, 16); // more than an hour from now in Kabul: until then nobody comes by the house's own clock
    const coming = due.filter((stay) => stay.can.includes('check-in') && stay.roomNumber !== undefined && !rooms.includes(stay.roomNumber) && stay.eta > soon);
    const staying = inHouse.filter((stay) => stay.checkOut > world.day);
    const task = async () => (await sim('POST', 'tasks', { propertyId: this.property, roomNumber: chance.pick(rooms) })).taskId;
    const order = async () => (await sim('POST', 'work-orders', { propertyId: this.property, title: 'Tap', severity: 'low' })).workOrderId;
    this.things = [
      ...[0, 1].flatMap(() => coming.splice(chance.below(coming.length), 1)).concat([0, 1].flatMap(() => staying.splice(chance.below(staying.length), 1))).map((stay) => ({ kind: 'stay', id: stay.reservationId, folio: stay.folioId, was: stay.status })),
      { kind: 'task', id: await task(), was: 'pending' }, { kind: 'task', id: await task(), was: 'pending' }, { kind: 'order', id: await order(), was: 'open' }, { kind: 'house', id: this.property },
    ];
    const [{ id: last }] = this.things.filter(({ kind }) => kind === 'order');
    while (!(await this.online.call('maintenanceBoard')).data.items.some(({ workOrderId }) => workOrderId === last)) await pause(50);
    this.desks = [];
    for (let n = chance.percent(40) ? 2 : 1; n > 0; n--) {
      const desk = new Desk(this.browser, await line(this.t), 'mirwais', this.property);
      await desk.begin();
      this.desks.push(desk);
    }
    try {
      for (let left = 9 + chance.below(6); left > 0; left--) await this.step(chance.pick(this.desks));
    } finally {
      await this.heal();
    }
    for (const desk of this.desks) await desk.mend();
    this.ends = [];
    for (const desk of this.desks) this.ends.push(await desk.settle());
    await this.compare();
    for (const desk of this.desks) await this.browser.tell('Target.disposeBrowserContext', { browserContextId: desk.context });
  }

  deed() {
    const thing = this.chance.pick(this.things);
    return { ...thing, step: this.chance.pick(of[thing.kind]) };
  }

  async step(desk) {
    const { chance, world } = this;
    const n = this.desks.indexOf(desk);
    switch (chance.pick(['press', 'press', 'press', 'press', 'press', 'press', 'cut', 'cut', 'mend', 'leave', 'leave', 'online', 'online', 'fault', 'kill', 'shake'])) {
      case 'press': {
        const blind = chance.percent(15);
        this.note(`desk ${n}: ${await desk.press(chance.pick(this.things), chance, blind)}`);
        if (blind) await desk.leave('crash');
        return;
      }
      case 'cut': {
        const how = chance.pick(['offline', 'cut', 'deaf']);
        this.note(`desk ${n}: the line is ${how}`);
        if (how === 'offline') await desk.network(true);
        else desk.wire[how]();
        return pause(chance.below(5_000)); // before the page knows, or after
      }
      case 'mend':
        this.note(`desk ${n}: the line is back`);
        await desk.mend();
        return pause(chance.below(2_000));
      case 'leave': {
        const how = chance.pick(['reload', 'close', 'crash']);
        this.note(`desk ${n}: ${how}`);
        return desk.leave(how);
      }
      case 'online': {
        const { kind, id, step, folio } = this.deed();
        const [operation, path] = {
          stay: step === 'charge' ? ['charge', { folioId: folio }] : [step === 'check-in' ? 'checkIn' : 'checkOut', { reservationId: id }], task: ['moveTask', { taskId: id, transition: step }],
          order: ['moveWorkOrder', { workOrderId: id, transition: step }], house: ['openWorkOrder', {}],
        }[kind];
        const body = step === 'charge' ? { amount: { minor: '9000', currency: 'AFN' }, description: 'Bread' } : step === 'open' ? { title: 'Door', severity: 'low' } : undefined;
        const told = await this.online.call(operation, { path, ...(body && { body }) }).then(() => 'done', (error) => error.code ?? error.message);
        return this.note(`a colleague: ${step} ${id}: ${told}`);
      }
      case 'fault': {
        const fault = { upstream: chance.pick(['reservation', 'housekeeping', 'maintenance', 'billing']), ...chance.pick([{ status: 503, done: true }, { status: 503, errorRate: 0.5 }, { hang: true }, { latencyMs: 1_500 }]) };
        this.note(`a service fails: ${JSON.stringify(fault)}`);
        await sim('POST', 'faults', fault);
        await pause(chance.below(3_000));
        return chance.percent(50) ? sim('DELETE', 'faults') : undefined;
      }
      case 'kill':
        return this.note(killInstance() ? 'the instance is killed' : 'the instance that was killed is not there yet');
      case 'shake': {
        const which = chance.pick(['role', 'company']);
        this.note(`lost: ${which}`);
        if (which === 'role') await world.member('mirwais', ['finance']);
        else await world.company('suspended');
        await pause(chance.below(4_000));
        if (chance.percent(60)) await this.restore();
      }
    }
  }

  async restore() {
    this.note('roles and access are back');
    await this.world.company('reinstated');
    await this.world.member('mirwais', ['general_manager']);
  }

  /** All is well again, for the colleague as well. */
  async heal() {
    await sim('DELETE', 'faults');
    await this.restore();
    while ((await this.online.call('session').then(() => true, () => false)) === false) await pause(200);
  }

  /** Holds what the pages say to the simulator's book, and the book to what is possible one after the other. */
  async compare() {
    const book = (await sim('GET', 'book')).executions ?? [];
    const times = new Map();
    for (const { key } of book) if (key !== '') times.set(key, (times.get(key) ?? 0) + 1);
    for (const [key, n] of times) assert.equal(n, 1, `${key} was carried out ${n} times`);
    for (const [i, { entries, presses }] of this.ends.entries()) {
      const keys = [...entries.map(({ key }) => key), ...presses.map(({ key }) => key)];
      assert.equal(new Set(keys).size, keys.length, 'no key stands for two');
      for (const { name, id, step } of this.desks[i].pressed) assert.ok(entries.some((e) => e.name === name) || presses.some((p) => p.key === name), `lost: ${step} ${id} (${name})`);
      for (const { key, verdict, operation, text } of entries) {
        const may = { done: [1], already_done: [0, 1], done_by_other: [0], not_possible: [0] }[verdict];
        assert.ok(may?.includes(times.get(key) ?? 0), `${operation} ${key}: ${verdict} (${text}), carried out ${times.get(key) ?? 0} times`);
        this.world.verdicts[verdict] = (this.world.verdicts[verdict] ?? 0) + 1;
      }
      for (const { key, step, state, code } of presses) {
        const may = { done: [1], refused: [0] }[state];
        assert.ok(may?.includes(times.get(key) ?? 0), `${step} ${key}: ${state} (${code}), carried out ${times.get(key) ?? 0} times`);
        this.world.presses[state] = (this.world.presses[state] ?? 0) + 1;
      }
    }
    const stands = new Map(this.things.map(({ id, was }) => [plain(id), was]));
    for (const { path } of book.slice(this.before)) {
      const [named, step] = path.split('/').slice(-2);
      const id = plain(named);
      if (!stands.has(id) || steps[step] === undefined) continue;
      const [from, to] = steps[step];
      assert.ok(from.includes(stands.get(id)) || (step === 'start' && stands.get(id) === 'in_progress'), `${path} from ${stands.get(id)} is not possible`);
      stands.set(id, to ?? (this.things.find((thing) => plain(thing.id) === id).kind === 'task' ? 'pending' : 'open'));
    }
    // The house is what the book says, for whoever asks now.
    for (const end = Date.now() + 60_000; ; await pause(200)) {
      const lists = await Promise.all(['arrivals', 'inHouse', 'departures', 'housekeepingBoard', 'maintenanceBoard'].map(async (view) => (await this.online.call(view)).data.items));
      const is = lists.flat().map((item) => [plain(item.reservationId ?? item.taskId ?? item.workOrderId), item.status]).filter(([id]) => stands.has(id));
      const other = is.filter(([id, status]) => status !== stands.get(id)).map(([id, status]) => `${id} is ${status} and not ${stands.get(id)}`);
      if (other.length === 0) break;
      assert.ok(Date.now() < end, other.join());
    }
    for (const { kind, id } of this.things) if (kind === 'stay') for (const step of ['check-in', 'check-out']) assert.ok((await executed(`/reservation/api/v1/reservations/${id}/${step}`)) <= 1, `${step} ${id}`);
  }
}

test(`schedules of a house without a line`, { timeout: 1_000_000 * schedules }, async (t) => {
  const first = SEED === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(SEED);
  t.diagnostic(`seeds from ${first} on; one of them again: SEED=…`);
  const { operators } = await sim('GET', 'operators');
  const who = (username) => operators.find((one) => one.username === username);
  const { tenantId } = who('mirwais').memberships[0];
  const event = (topic, payload) => sim('POST', 'events', { topic: `melmastoon.tenant.${topic}.v1`, payload: { tenantId, ...payload } });
  const now = () => new Date().toISOString();
  const member = (username, roles, propertyScope) => event('membership.changed', { operatorId: who(username).operatorId, roles, ...(propertyScope && { propertyScope }), changedAt: now() });
  const company = (what) => event(what, { reason: 'billing', suspendedAt: now(), reinstatedAt: now() });
  const parwana = who('parwana').memberships[0];
  await member('parwana', parwana.roles.concat('general_manager'), ['*']);
  t.after(() => member('parwana', parwana.roles, parwana.propertyScope));
  const online = await colleague('parwana');
  const houses = [];
  while (houses.length < 3) { // the service learns of the change from an event
    houses.length = 0;
    for await (const { items } of online.pages('listProperties')) houses.push(...items.map(({ propertyId }) => propertyId));
  }
  online.propertyId = houses[0];
  const { day } = (await online.call('inHouse')).data;
  // Other tests have the first houses.
  const world = { houses: houses.filter((id) => !parwana.propertyScope.includes(id)).slice(1), online, day: day.date, member, company, verdicts: {}, presses: {} };
  const browser = chromium(t);
  for (let i = 0; i < schedules; i++) {
    const schedule = new Schedule(t, browser, first + i, world);
    try {
      await schedule.play();
    } catch (error) {
      error.message = `SEED=${first + i}: ${error.message}\n${schedule.log.join('\n')}`;
      throw error;
    }
    if (process.env.SHOW) console.log(first + i, new Date().toISOString(), schedule.log.length, JSON.stringify(world.verdicts), JSON.stringify(world.presses));
  }
  t.diagnostic(`${JSON.stringify(world.verdicts)} ${JSON.stringify(world.presses)}`);
  assert.deepEqual(browser.errors, []);
});
