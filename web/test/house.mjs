// The house behind the desks of tests: what its simulator says of it, and colleagues at other computers.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';

import { BackofficeClient } from '../../clients/typescript/dist/backoffice/index.js';

const { MELMASTOON_BACKOFFICE_URL, MELMASTOON_SIM_URL } = process.env;

export async function sim(method, path, body) {
  const answer = await fetch(`${MELMASTOON_SIM_URL}/_sim/${path}`, { method, ...(body && { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) }) });
  const text = await answer.text();
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
  return text === '' ? undefined : JSON.parse(text);
}

export const executed = async (path) => (await sim('GET', `executions?path=${encodeURIComponent(path)}`)).executions;

/** A colleague at another computer. */
export async function colleague(username, propertyId) {
  const desk = new BackofficeClient({ baseUrl: `${MELMASTOON_BACKOFFICE_URL}/bff/backoffice/v1`, iamUrl: `${MELMASTOON_SIM_URL}/iam`, appVersion: '1.0.0', appPlatform: 'linux', propertyId, timeoutMs: 60_000 });
  await desk.signIn({ username });
  return desk;
}

/** A room to clean, whatever the hour of the house: by night there is none of its own. */
export async function toClean(desk, propertyId) {
  const { roomNumber } = (await desk.call('inHouse')).data.items.find((stay) => stay.roomNumber !== undefined);
  const { taskId } = await sim('POST', 'tasks', { propertyId, roomNumber });
  while (!(await desk.call('housekeepingBoard')).data.items.some((one) => one.taskId === taskId)); // the board learns of it from an event
  return taskId;
}

/** Who of a desk's list of arrivals can have the room, the last first: by the clock of the house they do not come meanwhile. */
export const expected = (tab) => tab.value(`(() => {
  const rooms = (column) => [...document.querySelectorAll('[data-column="' + column + '"] .room')].map((room) => room.textContent);
  const text = (row, of) => row.querySelector(of).textContent;
  return [...document.querySelectorAll('[data-column="arrivals"] [data-stay]')].filter((row) => row.querySelector('[data-do="check-in"]') && !['—', ...rooms('in-house')].includes(text(row, '.room')))
    .sort((a, b) => text(b, '.time').localeCompare(text(a, '.time'))).map((row) => row.dataset.stay);
})()`);

/** Kills the instance of the staff service that this platform runs; reports whether there was one. */
export function killInstance() {
  const { host } = new URL(MELMASTOON_BACKOFFICE_URL);
  const listens = (pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0').includes(`BFF_BACKOFFICE_LISTEN=${host}`) && /bff-backoffice.*\0serve/s.test(readFileSync(`/proc/${pid}/cmdline`, 'utf8'));
    } catch {
      return false; // it has ended, or is another user's
    }
  };
  const found = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && name !== String(process.pid) && listens(name));
  for (const pid of found) process.kill(Number(pid), 'SIGKILL');
  return found.length > 0;
}

/** Whether what a reload without a line needs is on the device: the house's day, sealed, and the page. A database is not opened before the page has made it: that would make an empty one. */
export const kept = `Promise.all([
  indexedDB.databases().then((all) => all.some(({ name }) => name === 'melmastoon-desk-blackout') && new Promise((done) => {
    indexedDB.open('melmastoon-desk-blackout').onsuccess = ({ target: { result: db } }) => {
      db.transaction('records').objectStore('records').getAllKeys().onsuccess = ({ target: { result } }) => { db.close(); done(['pack', 'session'].every((kind) => result.some((name) => name.includes('/' + kind + '/')))) } } })),
  caches.open('desk-shell').then((cache) => cache.keys()).then((found) => found.length > 4), navigator.serviceWorker.getRegistration('/desk').then((found) => found?.active != null),
]).then((found) => found.every(Boolean))`;
