import assert from 'node:assert/strict';
import { test } from 'node:test';

import { charge, guestName, hour, House, noAnswer, Pc, rsv, words } from '../testing/house.js';
import { refusal } from '../testing/server.js';
import { memoryRecords, NotKept, ProblemError, type BlackoutState, type Changes, type Records } from './index.js';
import type { KeptKey, Sealed } from './seal.js';
import { wipe } from './blackout.js';

/** A window that has the pack, of a desk that has lost its line. */
async function cut(pc: Pc): Promise<ReturnType<Pc['window']>> {
  const desk = pc.window();
  await desk.refresh();
  pc.house.line = false;
  await desk.refresh();
  assert.equal(desk.state.line, 'down');
  return desk;
}

const problem = (status: number): ProblemError => {
  const { body } = refusal('MELMASTOON.GENERAL.VALIDATION_FAILED', status);
  return new ProblemError('MELMASTOON.GENERAL.VALIDATION_FAILED', 'refused', { status, problem: (body as { error: NonNullable<ProblemError['problem']> }).error });
};

test('what was seen is there after a reload without a line, and cannot be read without its key', async () => {
  const pc = new Pc();
  const desk = await cut(pc);
  await desk.press('checkIn', rsv(1), { note: { who: guestName } });
  const again = pc.restart();
  const { pack, session, heardAt, entries, unsent, line } = await again.read();
  assert.deepEqual([pack?.arrivals[0]?.guestName, session?.displayName, heardAt, unsent, line], [guestName, 'Parwana', pc.clock, 1, 'unknown']);
  assert.deepEqual([entries[0]?.about, entries[0]?.state, entries[0]?.key], [{ path: '/reservations/rsv_1/check-in', note: { who: guestName } }, 'unsent', undefined]);

  const have = await pc.records.read();
  const raw = [...have].map(([name, record]) => name + JSON.stringify(record) + Buffer.from((record as Partial<Sealed>).data ?? new ArrayBuffer(0)).toString());
  assert.ok(!raw.join().includes('Zarghuna') && !raw.join().includes('rsv_1'));
  await assert.rejects(crypto.subtle.exportKey('raw', (have.get('opt_1/key') as KeptKey).key), /not extractable/);
  const nonces = [...have.values()].map((record) => (record as Partial<Sealed>).iv?.join()).filter((iv) => iv !== undefined);
  assert.deepEqual([nonces.length, new Set(nonces).size], [3, 3]);
});

test('a record that was changed, renamed or carried away does not open', async () => {
  const pc = new Pc();
  const desk = await cut(pc);
  const { id } = await desk.press('checkIn', rsv(1));
  const record = (await pc.records.read()).get(id) as Sealed<object>;
  const forge = async (name: string, forged: unknown): Promise<(string | undefined)[]> => {
    await pc.records.change(() => new Map([[id, undefined], [name, forged]]));
    const found = words(await desk.read());
    await pc.records.change(() => new Map([[name, undefined], [id, record]]));
    return found;
  };
  assert.deepEqual(await forge(id, record), ['unsent']);
  assert.deepEqual(await forge(id, { ...record, clear: { ...record.clear, propertyId: 'ppt_2' } }), ['lost']);
  assert.deepEqual(await forge(id.replace('/entry/00000001', '/entry/00000002'), record), ['lost']);
  assert.deepEqual(await forge(id.replace('opt_1', 'opt_2'), record), []);
  const elsewhere = new Pc(pc.house, pc.records);
  assert.deepEqual(words(await elsewhere.window().read()), ['lost']);
});

test('the pack is that of the service: asked for with its tag, as of now, and gone when it may not be had', async () => {
  const pc = new Pc();
  const desk = pc.window();
  await desk.refresh();
  const first = desk.state.heardAt;
  pc.pass(60_000);
  await desk.refresh();
  assert.equal(desk.state.heardAt, (first ?? 0) + 60_000);
  const refuse = (error: Error) => {
    const service = pc.service();
    pc.service = () => ({ ...service, pack: () => Promise.reject(error) });
    return pc.window();
  };
  await refuse(problem(500)).refresh();
  assert.ok((await desk.read()).pack);
  await refuse(problem(403)).refresh();
  assert.equal((await desk.read()).pack, undefined);

  const other = new Pc();
  const off = other.window();
  await off.refresh();
  other.house.on = false;
  await off.follow(AbortSignal.timeout(0)); // asks once who is signed in, and what the tenant wants
  assert.equal(off.state.pack, undefined);
  await assert.rejects(off.press('checkIn', rsv(1)), { reason: 'off' });
});

test('every entry is sent once, in order, with a key that was made then, and gets its verdict', async () => {
  const pc = new Pc();
  const desk = await cut(pc);
  for (const n of [1, 2]) {
    await desk.press('checkIn', rsv(n));
    pc.pass(10 * 60_000);
  }
  await desk.press('charge', charge(1));
  pc.house.carryOut('opt_2', { key: 'x', path: '/reservations/rsv_2/check-in', pressedAt: '' });
  await desk.send();
  assert.deepEqual([words(desk.state), desk.state.unsent, desk.state.line], [['unsent', 'unsent', 'unsent'], 3, 'down']);
  const kept = desk.state.entries.map((e) => e.key);
  pc.house.line = true;
  await desk.send();
  assert.deepEqual([words(desk.state), desk.state.unsent], [['done', 'done_by_other', 'done'], 0]);
  assert.deepEqual(desk.state.entries.map((e) => e.key), kept);
  await desk.send();
  assert.equal(pc.house.asked.length, 1);
  for (const { id } of desk.state.entries) assert.ok(await desk.drop(id));
  assert.deepEqual((await pc.restart().read()).entries, []);
});

test('a call that had no answer is not done twice', async () => {
  const pc = new Pc();
  const desk = await cut(pc);
  pc.house.carryOut('opt_1', { key: '01M7MK9ZTR35B5VXC99GJ5AM9A', path: '/folios/fol_1/charges', pressedAt: '' });
  await desk.press('charge', charge(1), { idempotencyKey: '01m7mk9ztr35b5vxc99gj5am9a' });
  pc.house.line = true;
  await desk.send();
  assert.deepEqual([words(desk.state), pc.house.done.size], [['done'], 1]);
});

/** The first writes or reads of a process are done; then it is killed, before or after the one that follows. */
function killed(records: Records, after: number, done: boolean): Records & { dead: () => boolean } {
  let steps = 0;
  const step = async <T>(work: () => Promise<T>): Promise<T> => {
    if (steps++ < after) return work();
    if (done && steps === after + 1) await work();
    throw new Error('killed');
  };
  return { ...records, read: () => step(() => records.read()), change: (work: (have: ReadonlyMap<string, unknown>) => Changes) => step(() => records.change(work)), dead: () => steps > after };
}

test('killed at every step, before and after it, nothing that was seen is lost and nothing is done twice', async () => {
  let cuts = 0;
  for (const lineAt of [1, 4, 99]) {
    // The line is cut too: at a step of the replay, in the first life.
    for (const done of [false, true]) {
      for (let after = 0, alive = false; !alive; after++, cuts++) {
        const pc = new Pc(new House());
        const records = killed(pc.records, after, done);
        const pressed: string[] = [];
        let seen: BlackoutState | undefined;
        let steps = 0;
        pc.house.step = () => {
          if (++steps === lineAt) throw noAnswer();
        };
        const first = pc.window({ onChange: (state) => (seen = state) }, records);
        const life = async (): Promise<void> => {
          await first.refresh();
          for (const [operation, call] of [['checkIn', rsv(1)], ['checkOut', rsv(1)]] as const) pressed.push((await first.press(operation, call)).id);
          pressed.push((await first.press('charge', charge(1))).id);
          await first.send();
          await first.send();
        };
        await life().catch((error: unknown) => assert.ok(error instanceof NotKept, String(error)));
        alive = !records.dead();
        first.close();
        assert.deepEqual(new Set((seen?.entries ?? []).map((e) => e.id)).size, seen?.entries.length ?? 0);

        pc.house.step = () => undefined;
        const next = pc.restart();
        await next.read();
        const where = `killed ${done ? 'after' : 'before'} step ${after}, line cut at ${lineAt}`;
        const found = new Map(next.state.entries.map((e) => [e.id, e]));
        for (const id of pressed) assert.ok(found.has(id), `${where}: an entry is lost`);
        for (const e of seen?.entries ?? []) assert.equal(found.get(e.id)?.verdict?.verdict, e.verdict?.verdict ?? found.get(e.id)?.verdict?.verdict, `${where}: a verdict is lost`);
        await next.refresh();
        await next.send();
        assert.deepEqual(words(next.state), next.state.entries.map(() => 'done'), where);
        assert.ok([...pc.house.done.values()].every(({ times }) => times === 1), where);
        assert.equal(pc.house.done.size, next.state.entries.length, `${where}: an entry was done twice, or without being there`);
      }
    }
  }
  assert.ok(cuts > 100, `${cuts} cuts`);
});

test('after 36 hours nothing about a guest is there, and what was not sent is known to be lost', async () => {
  const pc = new Pc();
  const desk = await cut(pc);
  await desk.press('checkIn', rsv(1));
  await desk.press('checkIn', rsv(2));
  pc.house.line = true;
  pc.house.judge = ({ path }) => (path.includes('rsv_2') ? { verdict: 'unknown', reason: 'unavailable', retryAfter: 5 } : undefined);
  await desk.send();
  pc.house.line = false;
  pc.pass(36 * hour - 1);
  assert.deepEqual(words(await desk.read()), ['done', 'unknown']);
  pc.pass(1);
  const { pack, entries, unsent } = await desk.read();
  assert.deepEqual([pack, entries.map((e) => [e.state, e.operation, e.about]), unsent], [undefined, [['lost', 'checkIn', undefined]], 0]);
  assert.deepEqual([...(await pc.records.read())].filter(([, record]) => 'data' in (record as object)).map(([name]) => name), ['opt_1/session/now']);
  await desk.press('checkIn', rsv(3)); // the line is still cut
  assert.ok(await desk.drop(entries[0]?.id ?? ''));
  assert.deepEqual(words(desk.state), ['unsent']);
});

test('moments of a wrong clock can be told by that of the service, also after a reload without a line', async () => {
  const pc = new Pc();
  pc.ahead = -5 * hour;
  const desk = await cut(pc);
  assert.equal((await desk.read()).ahead, pc.ahead);
  desk.close();
  assert.equal((await pc.restart(20 * 60_000).read()).ahead, pc.ahead);
  // The power was away, and the clock with it: it is no earlier than it was.
  const known = pc.clock + pc.ahead - 20 * 60_000;
  pc.clock = Date.UTC(2010, 0, 1);
  assert.equal(pc.clock + (await pc.restart().read()).ahead, known);
});

test('a clock that is set neither ends a life nor lengthens it', async () => {
  for (const set of [-11 * 365 * 24 * hour, 11 * 365 * 24 * hour]) {
    const pc = new Pc();
    const desk = await cut(pc);
    await desk.press('checkIn', rsv(1));
    pc.clock += set; // by hand, or with the line
    pc.pass(hour);
    assert.deepEqual([words(await desk.read()), desk.state.pack === undefined], [['unsent'], false]);
    pc.house.line = true;
    const pressed: string[] = [];
    pc.house.judge = ({ pressedAt }) => void pressed.push(pressedAt);
    await desk.send();
    assert.deepEqual(pressed, [new Date(pc.clock - hour).toISOString()]); // by the clock that proofs are made by
    pc.pass(35 * hour);
    assert.equal((await desk.read()).pack, undefined);
  }
  // The power was away, and the clock with it.
  const pc = new Pc();
  await (await cut(pc)).press('checkIn', rsv(1));
  const next = pc.restart(-11 * 365 * 24 * hour);
  assert.ok((await next.read()).pack);
  pc.pass(20 * hour);
  await next.press('checkOut', rsv(1));
  const third = pc.restart(15 * hour);
  assert.deepEqual(words(await third.read()), ['unsent', 'unsent']);
  pc.pass(hour);
  assert.deepEqual([words(await third.read()), third.state.pack], [['lost', 'unsent'], undefined]);
  assert.deepEqual(words(await pc.restart(37 * hour).read()), ['lost', 'lost']); // it was closed for so long
});

test('another operator sees how many there are and nothing else, and sends none of them', async () => {
  const pc = new Pc();
  const desk = await cut(pc);
  await desk.press('checkIn', rsv(1));
  pc.house.line = true;
  pc.operatorId = 'opt_2';
  const second = pc.restart();
  await second.refresh();
  await second.send();
  assert.deepEqual([second.state.entries, second.state.others, pc.house.asked], [[], 1, []]);
  assert.deepEqual([...(await pc.records.read()).keys()].filter((name) => /opt_1\/(pack|session)/.test(name)), []);
  pc.operatorId = undefined;
  assert.deepEqual([(await second.read()).pack, second.state.others], [undefined, 1]);
  pc.operatorId = 'opt_1';
  const first = pc.restart();
  await first.refresh();
  await first.send();
  assert.deepEqual([words(first.state), pc.house.asked[0]?.operatorId], [['done'], 'opt_1']);
});

test('what was wiped does not come back from another window', async () => {
  const pc = new Pc();
  const [one, two] = [await cut(pc), pc.window()];
  await one.press('checkIn', rsv(1));
  assert.equal(await wipe(pc.records, 'opt_1', false), 1);
  assert.equal((await one.read()).unsent, 1);
  pc.house.line = true;
  pc.house.step = (where) => {
    if (where === 'after') void wipe(pc.records, 'opt_1', true); // signed out in one window while the other sends
  };
  await two.send();
  await assert.rejects(two.press('checkIn', rsv(2)), { reason: 'signed_out' });
  assert.deepEqual([(await two.read()).entries, two.state.pack], [[], undefined]);
  assert.deepEqual([...(await pc.records.read()).keys()], ['clock']);
});

test('storage that is full or not there is said, and nothing looks as if it was kept', async () => {
  const pc = new Pc();
  const desk = await cut(pc);
  const real = memoryRecords();
  const failing = (error: unknown): Records => ({ ...real, read: () => pc.records.read(), change: () => Promise.reject(error) });
  const full = pc.window({}, failing(new DOMException('no space', 'QuotaExceededError')));
  await assert.rejects(full.press('checkIn', rsv(1)), { reason: 'full' });
  pc.house.line = true;
  pc.house.tag++;
  await full.refresh();
  assert.deepEqual([full.state.trouble, full.state.entries, full.state.pack?.propertyId], ['full', [], 'ppt_1']);
  await desk.press('checkIn', rsv(1));
  await full.send(); // not even the key can be kept: nothing is sent
  assert.deepEqual([pc.house.asked, words(await full.read())], [[], ['unsent']]);
  const none = { ...real, read: () => Promise.reject(new Error('no IndexedDB')), change: () => Promise.reject(new Error('no IndexedDB')), watch: () => assert.fail('no channel') };
  const without = pc.window({}, none);
  await without.refresh();
  assert.equal(without.state.trouble, 'unavailable');
  await assert.rejects(without.press('checkIn', rsv(1)), { reason: 'unavailable' });
});

test('two windows send each entry once, and both know', async () => {
  const pc = new Pc();
  const [one, two] = [await cut(pc), pc.window()];
  await Promise.all([one.press('checkIn', rsv(1)), two.press('checkIn', rsv(2))]);
  pc.house.line = true;
  await Promise.all([one.send(), two.send()]);
  assert.equal(pc.house.asked.flatMap(({ keys }) => keys).length, 2);
  for (const desk of [one, two]) assert.deepEqual(words(await desk.read()), ['done', 'done']);
});

test('an entry of unknown fate is asked about again, and holds up its own resource alone', async () => {
  const pc = new Pc();
  const desk = await cut(pc);
  for (let n = 0; n < 101; n++) await desk.press('charge', charge(n % 100)); // the last one is about the folio of the first, and in another request
  let away = true;
  pc.house.judge = ({ path }) => (away && path.includes('fol_0/') ? { verdict: 'unknown', reason: 'outcome_unknown', retryAfter: 5 } : undefined);
  pc.house.line = true;
  await desk.send();
  assert.deepEqual([desk.state.unsent, pc.house.asked.map(({ keys }) => keys.length), desk.state.entries[100]?.key], [2, [100], undefined]);
  assert.equal(await desk.drop(desk.state.entries[0]?.id ?? ''), false); // it may have been done
  away = false;
  await desk.send();
  assert.deepEqual([desk.state.unsent, pc.house.asked.map(({ keys }) => keys.length), pc.house.done.size], [0, [100, 2], 101]);
});

test('a second factor, a key that was too old, and a form that is refused', async () => {
  const pc = new Pc();
  const desk = await cut(pc);
  for (let n = 1; n <= 4; n++) await desk.press('charge', charge(n));
  pc.house.line = true;
  pc.house.judge = ({ path }) => {
    if (path.includes('fol_1')) return { verdict: 'needs_second_factor', scope: 'folio.charge.large', resourceId: 'fol_1' };
    if (path.includes('fol_2')) return { verdict: 'expired', known: { outcome: 'none' } };
    if (path.includes('fol_3')) throw problem(400); // the whole of the request
    return undefined;
  };
  await desk.send();
  assert.deepEqual(words(desk.state), ['needs_second_factor', 'expired', 'not_possible', 'done']);
  const [one, two, three] = desk.state.entries.map((e) => e.id) as [string, string, string];
  assert.equal((await desk.confirm(one, 'mfa_1')).verdict?.verdict, 'done');
  await assert.rejects(desk.confirm(one, 'mfa_1'));
  assert.equal(await desk.again(three), false);
  assert.ok(await desk.again(two));
  await desk.send();
  assert.equal(words(desk.state)[1], 'unsent'); // the attempt before may still be on its way
  pc.pass(120_000);
  await desk.send();
  assert.deepEqual(words(desk.state), ['done', 'done', 'not_possible', 'done']);
  assert.ok([...pc.house.done.values()].every(({ times }) => times === 1));
});

/** Numbers that follow from a seed (mulberry32). */
function chanceOf(seed: number): (below: number) => number {
  return (below) => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

/** A day at a desk with two windows and one colleague who has a line: what is pressed, cut, killed, closed and set follows from the seed. */
async function schedule(seed: number): Promise<void> {
  const chance = chanceOf(seed);
  const house = new House();
  const pc = new Pc(house);
  const pressed = new Map<string, string>(); // entry to path or charge
  const told = new Map<string, string>(); // entry to its last word
  let desks = [pc.window(), pc.window()];
  await Promise.all(desks.map((desk) => desk.refresh()));
  const watch = (): void => {
    for (const desk of desks) {
      for (const { id, verdict, state } of desk.state.entries) {
        if (state !== 'settled' || verdict === undefined) continue;
        assert.equal(told.get(id) ?? verdict.verdict, verdict.verdict, `seed ${seed}: a second verdict`);
        told.set(id, verdict.verdict);
      }
    }
  };
  house.step = () => {
    if (chance(8) === 0) throw noAnswer();
  };
  house.judge = () => (chance(8) === 0 ? { verdict: 'unknown', reason: 'unavailable', retryAfter: 1 } : undefined);
  for (let i = 0; i < 40; i++) {
    const desk = desks[chance(2)] as (typeof desks)[0];
    switch (chance(9)) {
      case 0:
        house.line = !house.line;
        break;
      case 1:
        pc.pass(chance(3) * 30 * 60_000);
        break;
      case 2: // a crash in the middle of sending, too: the next life begins with what is on disk
        for (const d of desks) d.close();
        desks = [pc.restart(chance(2) * hour), pc.window()];
        await Promise.all(desks.map((d) => d.read()));
        break;
      case 3:
        pc.clock += (chance(2 * 365) - 365) * 24 * hour;
        await desk.refresh();
        break;
      case 4:
        house.carryOut('opt_2', { key: `colleague ${i}`, path: `/reservations/rsv_${chance(6)}/check-in`, pressedAt: '' });
        break;
      case 5:
        await Promise.all(desks.map((d) => d.send()));
        break;
      case 6:
        await Promise.race([desk.send(), Promise.resolve()]); // and the schedule goes on meanwhile
        break;
      default: {
        const n = chance(6);
        const entry = chance(2) === 0 ? await desk.press('charge', charge(n)) : await desk.press('checkIn', rsv(n));
        pressed.set(entry.id, entry.about?.path ?? '');
      }
    }
    watch();
  }
  [house.line, house.step, house.judge] = [true, () => undefined, () => undefined];
  for (const desk of desks) await desk.send();
  watch();
  const charges = [...pressed.values()].filter((path) => path.endsWith('/charges')).length;
  assert.equal(told.size, pressed.size, `seed ${seed}: ${pressed.size - told.size} lost`);
  assert.equal([...house.done.keys()].filter((name) => name.includes('/charges ')).length, charges, `seed ${seed}: charges`);
  assert.ok([...house.done.values()].every(({ times }) => times === 1), `seed ${seed}: twice`);
}

test('schedules of presses, cuts, crashes, two windows and wrong clocks: none lost, none twice, one verdict each', async () => {
  const { DRILL_SEED: one, DRILLS = '60' } = process.env;
  for (let seed = Number(one ?? 1); seed <= Number(one ?? DRILLS); seed++) await schedule(seed);
});
