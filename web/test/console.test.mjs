// The console and the reference in Chromium, against a platform: `make test-typescript` runs it within `melmastoon up`.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { bytes, open } from './page.mjs';

const { MELMASTOON_CONSUMER_URL, MELMASTOON_PAGES_URL, MELMASTOON_SIM_URL } = process.env;
const timeout = 600_000;
const search = (city = 'Kabul') => fetch(`${MELMASTOON_CONSUMER_URL}/bff/consumer/v1/search`, {
  method: 'POST', headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify({ geo: { mode: 'city', city }, dates: { checkIn: day(14), checkOut: day(17) }, occupancy: { adults: 2, children: 0, rooms: 1 } }),
});
const day = (ahead) => new Date(Date.now() + ahead * 86_400_000).toISOString().slice(0, 10);

test('bytes', () => {
  const { script, style, fonts } = bytes('console');
  assert.ok(script <= 90_000, `the console's script has ${script} bytes`);
  assert.ok(style <= 8_000, `its style has ${style} bytes`);
  for (const [name, size] of Object.entries(fonts)) assert.ok(size <= 32_000, `${name} has ${size} bytes`);
});

test('requests, and the world that they meet', { timeout }, async (t) => {
  const { tab, look, accessible, press, quiet, picture } = await open(t, '/console');
  await tab.until(`document.querySelector('.state, .requests tbody')`);
  await search();
  await tab.until(`[...document.querySelectorAll('.requests tbody tr')].some((row) => row.textContent.includes('/search'))`);

  // Pricing is made slow by the button of the drawer, and the story of the next search says so.
  await press('w');
  await tab.until(`document.querySelector('dialog .upstream button')`);
  assert.match(await tab.value('location.search'), /world=1/);
  await accessible('world');
  await picture('console-world', 1440, 900);
  const pricing = `[...document.querySelectorAll('.upstream')].find((one) => /^pricing/.test(one.textContent))`;
  await tab.value(`${pricing}.querySelector('button').focus()`);
  assert.match(await tab.until(`document.querySelector('.command code').textContent.startsWith('melmastoon fault') && document.querySelector('.command code').textContent`), /pricing/);
  await tab.value(`${pricing}.querySelector('button').click()`);
  await tab.until(`${pricing}.classList.contains('struck')`);
  assert.ok((await (await fetch(`${MELMASTOON_SIM_URL}/_sim/faults`)).json()).faults.length > 0);
  await press('Escape');
  await tab.until(`!document.querySelector('dialog')`);
  const answer = await search('Herat');
  const id = answer.headers.get('X-Request-Id');
  await tab.until(`document.querySelector('.requests a[href*="${id}"]')`);
  await tab.value(`document.querySelector('.requests a[href*="${id}"]').click()`);
  assert.match(await tab.until(`document.querySelector('.story .waterfall') && document.querySelector('.story').textContent`), /pricing/);
  await tab.until(`/A fault was set/.test(document.querySelector('.story').textContent)`);
  for (const colours of ['light', 'dark']) {
    await look(colours, 1440, 900);
    await accessible(`requests, ${colours}`);
    await picture(`console-requests-${colours}`, 1440, 900);
  }
  await fetch(`${MELMASTOON_SIM_URL}/_sim/faults`, { method: 'DELETE' });

  // By keyboard: pause, filter, go from one to the next, the list of keys, another screen.
  await press(' ');
  await tab.until(`/Go on/.test(document.querySelector('.tools button').textContent)`);
  await press(' ');
  await press('Escape');
  await tab.until(`!document.querySelector('.story') && !location.search.includes('id=')`);
  await press('/');
  await tab.until(`document.activeElement.type === 'search'`);
  await tab.tell('Input.insertText', { text: 'route:/search method:post' });
  await tab.until(`location.search.includes('q=route')`);
  await press('Escape', 'j');
  await tab.until(`location.search.includes('id=')`);
  await press('?');
  await tab.until(`document.querySelector('dialog.sheet')`);
  await accessible('keys');
  await press('Escape');
  await tab.until(`!document.querySelector('dialog')`);
  await press('g', 'e');
  await tab.until(`location.pathname === '/console/events' && document.querySelector('.outboxes h2')`);
  await quiet();
});

test('a tenant is suspended by a button, and comes back', { timeout }, async (t) => {
  const { tenants } = await (await fetch(new URL('/_up/world', MELMASTOON_PAGES_URL))).json();
  const { properties } = await (await fetch(`${MELMASTOON_SIM_URL}/_sim/catalog`)).json();
  const { tenantId } = tenants.slice(0, 12).find((one) => !one.suspended && properties.some((hotel) => hotel.tenantId === one.tenantId));
  const { propertyId } = properties.find((hotel) => hotel.tenantId === tenantId);
  const hotel = async () => (await fetch(`${MELMASTOON_CONSUMER_URL}/bff/consumer/v1/hotels/${propertyId}`)).status;
  assert.equal(await hotel(), 200);
  const { tab, quiet } = await open(t, '/console/events?world=1');
  for (const [subject, then, status] of [['tenant.suspended', 'reinstate', 404], ['tenant.reinstated', 'suspend', 200]]) {
    const button = `[...document.querySelectorAll('.world li')].find((one) => one.querySelector('[title="${tenantId}"]')).querySelector('button')`;
    await tab.until(`${button} && (${button}.click(), true)`);
    await tab.until(`${button}.textContent === '${then}'`);
    await tab.until(`[...document.querySelectorAll('.requests tbody tr')].some(({ textContent }) => textContent.includes('${subject}') && textContent.includes('${tenantId}') && textContent.includes('bff-consumer'))`);
    while ((await hotel()) !== status) await tab.value('new Promise((later) => setTimeout(later, 100))'); // what was received is carried out in a moment
  }
  await quiet();
});

test('every screen', { timeout }, async (t) => {
  await search();
  const { tab, look, accessible, quiet, picture } = await open(t, '/console/state');
  for (const [path, ready] of [
    ['state', `document.querySelectorAll('.table tbody tr').length > 5`], ['events', `document.querySelector('.outboxes h2')`],
    ['dashboards/bff-consumer', `document.querySelectorAll('.panel .plot').length > 5`], ['hotels', `document.querySelectorAll('.table tbody tr').length > 100`], ['people', `document.querySelectorAll('.table tbody tr').length > 8`],
  ]) {
    await tab.go(`${MELMASTOON_PAGES_URL}/console/${path}`);
    await tab.until(ready);
    for (const colours of ['light', 'dark']) {
      await look(colours, 1440, 900);
      await accessible(`${path}, ${colours}`);
      await picture(`console-${path.replace('/', '-')}-${colours}`, 1440, 900);
    }
  }
  await quiet();
});

test('the reference', { timeout }, async (t) => {
  const { tab, look, quiet, picture } = await open(t, '/reference');
  await tab.until(`document.querySelector('rapi-doc')?.shadowRoot.querySelector('.nav-bar')`);
  assert.equal(await tab.value(`fetch('/bff/consumer/v1/session').then((answer) => answer.status)`), 200);
  for (const [service, call] of [['consumer', 'await api.call'], ['backoffice', 'await desk.call']]) {
    const contract = await tab.value(`fetch('/reference/${service}.yaml').then((answer) => answer.text())`);
    assert.match(contract, /\(\/errors\/MELMASTOON\./);
    assert.ok(contract.includes(call));
  }
  for (const colours of ['light', 'dark']) {
    await look(colours, 1440, 900);
    await picture(`reference-${colours}`, 1440, 900);
  }

  // A person of the staff signs in, and what RapiDoc then sends is signed by a key of this page.
  await tab.go(`${MELMASTOON_PAGES_URL}/reference/backoffice#get-/session`);
  const doc = `document.querySelector('rapi-doc').shadowRoot`;
  const deep = (selector) => `((find) => find(${doc}))(function find(root) { return root.querySelector('${selector}') ?? [...root.querySelectorAll('*')].reduce((found, { shadowRoot }) => found ?? (shadowRoot && find(shadowRoot)), null); })`;
  await tab.until(`document.querySelector('form .operator') && document.querySelector('rapi-doc') && ${deep('.m-btn.primary[part~="btn-try"]')}`);
  await tab.value(`document.querySelector('header form button').click()`);
  await tab.until(`/signed by/.test(document.querySelector('header').textContent)`);
  await tab.value(`${deep('.m-btn.primary[part~="btn-try"]')}.click()`);
  await tab.until(`/200/.test(${deep('.response-message')}?.textContent)`);
  // What a member's reference has beside it is shown with it, and refusals lead to the pages of their codes.
  await tab.until(`${deep('a[href^="/errors/MELMASTOON."]')}`);
  await quiet();
});
