// The desk in Chromium, as a clerk uses it; `make test-typescript` runs it within `melmastoon up`, which starts a service again that is killed.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { colleague, executed, expected, kept, killInstance, sim } from './house.mjs';
import { bytes, open } from './page.mjs';

const { MELMASTOON_PAGES_URL, PICTURES } = process.env;
const timeout = 900_000;

const all = (selector) => `[...document.querySelectorAll('${selector}')]`;
const one = (selector) => `document.querySelector('${selector}')`;
const ready = `${one('[data-ended="true"]')} && ${one('[data-line="live"]')} && ${all('[data-column="arrivals"] [data-stay]')}.length > 0 && ${one('[data-inbox="suggestions"] .honesty')} && ${one('[data-inbox="alerts"] .honesty')} && document.documentElement.dataset.keys`;

async function signedIn(t, username, query = 'lang=en') {
  const page = await open(t, `/desk?${query}`);
  await page.tab.until(one(`[data-username="${username}"]`));
  await page.tab.value(`${one(`[data-username="${username}"]`)}.focus()`);
  await page.press('Enter');
  await page.tab.until(ready);
  return { ...page, go: (query) => page.tab.go(new URL(`/desk?${query}`, MELMASTOON_PAGES_URL).href), property: await page.tab.value(`new URL(location).searchParams.get('property')`) };
}

test('a clerk at the desk', { timeout }, async (t) => {
  const { tab, press, accessible, quiet, property } = await signedIn(t, 'parwana');
  const stay = (id, within = '') => one(`[data-stay="${id}"] ${within}`);
  /** Goes by keys from the first of a list to one of it. */
  const walk = async (kind, id) => {
    const at = 'document.activeElement.dataset';
    for (let was = await tab.until(`${at}.item === '${kind}' && ${at}.id`); was !== id; was = await tab.until(`${at}.id !== '${was}' && ${at}.id`)) await press('j');
  };

  // The key of the device cannot be exported, not even by the page.
  assert.equal(await tab.value(`new Promise((done) => { indexedDB.open('melmastoon-desk').onsuccess = ({ target: { result: db } }) => {
    db.transaction('desk').objectStore('desk').get('device').onsuccess = ({ target: { result: { keys } } }) => crypto.subtle.exportKey('jwk', keys.privateKey).then(() => 'exported', (e) => done(e.name)); } })`), 'InvalidAccessError');

  // An arrival appears that was made elsewhere.
  const [guest] = await expected(tab);
  await sim('POST', `reservations/${guest}/cancel`);
  await tab.until(`/cancelled/.test(${stay(guest)}.textContent)`);
  await sim('POST', `reservations/${guest}/reinstate`);
  await tab.until(`${stay(guest)}.classList.contains('fresh')`); // which lasts for a minute
  await tab.until(stay(guest, '[data-do="check-in"]'));

  // It is checked in by keyboard, from the list.
  await press('g', 'a');
  await walk('stay', guest);
  await press('Control+Enter');
  await tab.until(`${one(`[data-column="in-house"] [data-stay="${guest}"]`)}`);
  assert.equal(await executed(`/reservation/api/v1/reservations/${guest}/check-in`), 1);

  // A key is issued whose vendor is silent: that is said, and nothing is made of it.
  await sim('POST', 'faults', { upstream: 'lock', route: 'POST /api/v1/reservations/{reservationId}/keys/{action}', hang: true });
  await tab.value(`${one(`[data-column="in-house"] [data-stay="${guest}"] [data-item]`)}.focus()`);
  await press('Enter');
  await tab.until(`${one('[data-drawer]')} && ${one('[data-do="issue-key"]')}`);
  await press('Control+i');
  await tab.until(`${one('dialog [data-press="unknown"][data-step="issue-key"]')} && ${one('[data-key="unknown"]')}`);
  assert.match(await tab.value(`${one('dialog [data-press="unknown"]')}.textContent`), /may be done, or not/);
  assert.equal(await tab.value(`${one('dialog [data-do="revoke-key"]')}.disabled`), true);
  await accessible('an unknown outcome');
  await sim('DELETE', 'faults');
  await tab.until(`${one('[data-key="issued"]')}`); // asked for again by itself
  const { requests } = await sim('GET', `locks?reservationId=${guest}`);
  assert.deepEqual(requests.map(({ action, executions }) => [action, executions]), [['issue', 1]]);

  // Another is revoked, with the second factor in place, in own digits.
  await press('Control+Shift+Delete');
  await tab.until(one('[data-factor] input'));
  const give = (code) => tab.value(`{ ${one('[data-factor] input')}.value = '${code}'; ${one('[data-factor]')}.requestSubmit(); }`);
  await give('111111');
  await tab.until(one('[data-factor] [role="alert"]'));
  await accessible('a second factor');
  await give('۰۰۰۰۰۰');
  await tab.until(one('[data-key="revoked"]'));
  await press('Escape');
  await tab.until(`!${one('[data-drawer]')}`);

  // A suggestion is decided that a colleague has just decided.
  const { suggestionId } = await sim('POST', 'suggestions', { propertyId: property, category: 'upsell' });
  const suggestion = `[data-id="${suggestionId}"]`;
  await tab.until(one(`${suggestion} [data-do="accept"]`));
  await tab.value(`{ const real = window.fetch; window.real = real; window.held = []; window.fetch = (url, init) => String(url).includes('/ai/suggestions?') ? new Promise((go) => window.held.push(go)).then(() => real(url, init)) : real(url, init); }`);
  const mirwais = await colleague('mirwais', property);
  await mirwais.call('decide', { path: { suggestionId }, body: { outcome: 'rejected' } });
  await press('g', 's');
  await walk('suggestion', suggestionId);
  await press('a');
  await tab.until(one(`${suggestion} [data-press="refused"]`));
  await tab.value(`{ window.fetch = window.real; for (const go of window.held) go(); }`);
  assert.match(await tab.until(`${one(`${suggestion} [data-already]`)}.textContent`), /rejected by .*Mirwais Popal.*came later/);

  // An answer is lost although the service did its work: it is not said to be done, nor done twice.
  await sim('POST', 'faults', { upstream: 'reservation', route: 'POST /api/v1/reservations/{reservationId}/check-out', status: 503, done: true });
  const [leaving] = await tab.value(`${all('[data-column="in-house"] [data-stay]')}.map((row) => row.dataset.stay).filter((id) => id !== '${guest}')`);
  await tab.value(`${one(`[data-column="in-house"] [data-stay="${leaving}"] [data-item]`)}.click()`);
  await tab.until(one(`[data-drawer="${leaving}"] [data-do="check-out"]`));
  await tab.value(`${one('[data-drawer] [data-do="check-out"]')}.click()`);
  await tab.until(one('[data-drawer] [data-press="unknown"]'));
  await press('Escape');
  await sim('DELETE', 'faults');
  await tab.until(`!${one(`[data-column="in-house"] [data-stay="${leaving}"]`)}`);
  assert.equal(await executed(`/reservation/api/v1/reservations/${leaving}/check-out`), 1);

  // The instance is killed and the network cut: what is shown keeps its moment, what is pressed is taken down as unsent, and happens once when the line is back.
  await tab.tell('Network.enable');
  const network = (offline) => tab.tell('Network.emulateNetworkConditions', { offline, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
  const shown = await tab.value(`${one('[data-column="in-house"] .honesty time')}.dateTime`);
  while (!(await tab.value(kept))) await tab.until('true'); // what is taken down has a place
  await network(true);
  assert.ok(killInstance(), 'no instance was found');
  await tab.until(`document.documentElement.hasAttribute('data-cut') && ${one('[data-line="cut"]')}`);
  await tab.value(`${one(`[data-column="in-house"] [data-stay="${guest}"] [data-item]`)}.click()`);
  await tab.until(one('[data-drawer] [data-do="check-out"]:enabled'));
  await tab.value(`${one('[data-drawer] [data-do="check-out"]')}.click()`);
  await press('Escape');
  await tab.until(`!${one('[data-drawer]')} && ${one(`[data-column="in-house"] [data-stay="${guest}"] [data-taken="unsent"]`)}`); // still shown in the house
  assert.equal(await tab.value(`${one('[data-column="in-house"] .honesty time')}.dateTime`), shown);
  await accessible('a cut line');
  await tab.value(`location.href.includes('desk')`);
  const { alertId } = await sim('POST', 'alerts', { propertyId: property });
  await network(false);
  await tab.until(`!document.documentElement.hasAttribute('data-cut') && ${one('[data-line="live"]')}`);
  await tab.until(one(`[data-id="${alertId}"]`)); // raised while the line was cut
  await tab.until(`${one('[data-entry="done"]')} && !${one(`[data-column="in-house"] [data-stay="${guest}"]`)}`);
  assert.equal(await executed(`/reservation/api/v1/reservations/${guest}/check-out`), 1);

  // What was pressed is known after a reload.
  await press('g', 't');
  await tab.value(`{ window.left = true; ${one('.unsent')}.click(); }`);
  await tab.until(`${all('[data-press]')}.length >= 5`);
  await tab.value('location.reload()');
  await tab.until(`window.left === undefined && ${all('[data-press="done"]')}.length >= 4 && ${one('[data-press="refused"]')}`);
  await quiet();
});

test('boards, and who did what', { timeout }, async (t) => {
  const { tab, press, accessible, quiet, property, go } = await signedIn(t, 'mirwais');
  assert.ok((await tab.value(`${one('.chooser')}.options.length`)) > 1);
  const roomNumber = await tab.value(`${one('[data-column="in-house"] .room')}.textContent`);
  const { taskId } = await sim('POST', 'tasks', { propertyId: property, roomNumber });
  await press('g', 'h');
  await tab.until(one(`[data-id="${taskId}"] [data-do="start"]`));
  await tab.value(`${one(`[data-id="${taskId}"]`)}.focus()`);
  await press('s');
  await tab.until(`${one(`[data-id="${taskId}"]`)} && !${one(`[data-id="${taskId}"] [data-do="start"]`)} && ${one(`[data-id="${taskId}"] [data-do="complete"]`)}`);
  await accessible('housekeeping');
  await press('g', 'm');
  await tab.until(one('[data-do="report"]'));
  await press('n');
  await tab.until(one('dialog form'));
  await tab.value(`{ const form = ${one('dialog form')}; form.elements.title.value = 'Leaking tap'; form.elements.room.value = '${roomNumber.replace(/\d/g, (digit) => '۰۱۲۳۴۵۶۷۸۹'[digit])}'; form.requestSubmit(); }`);
  await tab.until(`${all('[data-item="work-order"]')}.some((card) => card.textContent.includes('Leaking tap') && card.textContent.includes('${roomNumber}'))`);
  await accessible('maintenance');
  await go(`lang=en&view=activity&property=${property}`);
  assert.match(await tab.until(`${one('main li')}.textContent`), /Mirwais Popal/);
  await accessible('activity');
  // Another house: nothing of the one before stays.
  await go(`lang=en&property=${property}`);
  await tab.until(ready);
  await tab.value(`{ const s = ${one('.chooser')}; s.value = [...s.options].find((o) => o.value !== s.value).value; s.dispatchEvent(new Event('change', { bubbles: true })); }`);
  await tab.until(`!location.href.includes('${property}') && ${ready}`);
  await quiet();
});

test('nine locales, and one that does not exist', { timeout }, async (t) => {
  const { tab, look, press, pseudo, translated, accessible, picture, quiet, go, property } = await signedIn(t, 'mirwais');
  const drawer = async () => {
    await tab.value(`${one('[data-column="in-house"] [data-item]')}.click()`);
    await tab.until(one('[data-drawer] .facts'));
  };
  const closed = async () => {
    await press('Escape');
    await tab.until(`!${one('dialog[open]')}`);
  };
  for (const [locale, dir] of [['tg-TJ', 'ltr'], ['ru', 'ltr'], ['ar', 'rtl'], ['ur', 'rtl'], ['fa-IR', 'rtl'], ['en-US', 'ltr']]) {
    await go(`lang=${locale}&property=${property}`);
    await tab.until(`document.documentElement.lang === '${locale}' && ${one('[data-column="in-house"] [data-item]')}`);
    assert.equal(await tab.value('document.documentElement.dir'), dir);
    assert.equal(await tab.value('document.documentElement.scrollWidth <= innerWidth'), true, locale);
  }
  for (const [width, height] of [[1440, 950], [390, 844]]) {
    await look('light', width, height);
    await pseudo(new URL(`/desk?lang=en&property=${property}`, MELMASTOON_PAGES_URL).href);
    await tab.until(ready);
    await translated(`today ${width}`);
    await picture(`desk-pseudo-${width}`, width, height);
    await drawer();
    await translated(`a stay ${width}`);
    await closed();
    for (const view of ['housekeeping', 'maintenance', 'presses']) {
      await tab.value(`{ history.pushState(null, '', '?property=${property}&view=${view}'); dispatchEvent(new PopStateEvent('popstate')); }`);
      await translated(`${view} ${width}`);
    }
    await press('?');
    await tab.until(one('dialog .keys'));
    await translated(`keys ${width}`);
  }
  for (const locale of ['en', 'fa-AF', 'ps-AF']) {
    for (const [scheme, width, height] of PICTURES ? [['light', 1440, 950], ['dark', 1440, 950], ['light', 390, 844], ['dark', 390, 844]] : [['light', 1440, 950]]) {
      await look(scheme, width, height);
      const name = (screen) => `desk-${screen}-${locale}-${scheme}-${width}`;
      await go(`lang=${locale}&property=${property}`);
      await tab.until(`document.documentElement.lang === '${locale}' && ${ready}`);
      assert.match(await tab.value(`${one('.desk-bar .day')}.textContent`), { en: /2026.*140\d/, 'fa-AF': /۱۴۰\d|۱۴۰[۰-۹].*[۰-۹]{4}/, 'ps-AF': /۱۴۰[۰-۹].*[۰-۹]{4}/ }[locale]);
      await accessible(name('today'));
      await picture(name('today'), width, height);
      await drawer();
      await accessible(name('stay'));
      await picture(name('stay'), width, height);
      await closed();
      for (const view of PICTURES ? ['housekeeping', 'maintenance', 'activity', 'presses'] : []) {
        await go(`lang=${locale}&property=${property}&view=${view}`);
        await tab.until(`${one('[data-line="live"]')} && ${one('main section')}`);
        await picture(name(view), width, height);
      }
      if (PICTURES) {
        await press('?');
        await tab.until(one('dialog .keys'));
        await picture(name('keys'), width, height);
        await tab.tell('Emulation.setEmulatedMedia', { media: 'print' });
        await picture(name('paper'), width, height);
        await tab.tell('Emulation.setEmulatedMedia', { media: '' });
      }
    }
  }
  await quiet();
  await tab.value(`${one('[data-do="sign-out"]')}.click()`);
  await tab.until(one('.person'));
  await accessible('the sign-in');
});

test('it is small', () => {
  const { script, later, style } = bytes('desk');
  assert.ok(script + later <= 60 * 1024, `${script + later} bytes of script`);
  assert.ok(style <= 8 * 1024, `${style} bytes of style`);
});
