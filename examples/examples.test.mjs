// The two pages in Chromium, as people use them. `make test-typescript` runs it within `melmastoon up`; PICTURES=DIR has it take pictures there.
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { test } from 'node:test';

import { chromium } from '../clients/typescript/testing/browser.mjs';

const { build } = createRequire(new URL('../clients/typescript/package.json', import.meta.url))('esbuild');
const { MELMASTOON_CONSUMER_URL, MELMASTOON_BACKOFFICE_URL, MELMASTOON_SIM_URL, PICTURES } = process.env;
const timeout = 600_000;
const read = (path) => readFileSync(new URL(path, import.meta.url), 'utf8');

/** Serves an example at an origin of its own. Its index.html names the usual ports, and the platform of a test has others. */
async function serve(t, name) {
  const { outputFiles } = await build({
    entryPoints: [new URL(`${name}/${name}.ts`, import.meta.url).pathname], bundle: true, format: 'esm', target: 'es2022', write: false, logLevel: 'warning',
  });
  const index = read(`${name}/index.html`)
    .replaceAll('http://127.0.0.1:8081', MELMASTOON_CONSUMER_URL).replaceAll('http://127.0.0.1:8083', MELMASTOON_BACKOFFICE_URL).replaceAll('http://127.0.0.1:8090', MELMASTOON_SIM_URL);
  const files = { '/': ['text/html', index], '/style.css': ['text/css', read(`${name}/style.css`)], [`/${name}.js`]: ['text/javascript', outputFiles[0].text] };
  const server = createServer((asked, answer) => {
    const [type, body] = files[asked.url.split('?')[0]] ?? [];
    answer.writeHead(body === undefined ? 404 : 200, { 'Content-Type': `${type}; charset=utf-8` }).end(body);
  });
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}/`;
}

const take = async (tab, name, width, height) => PICTURES && writeFileSync(`${PICTURES}/${name}.png`, await tab.picture(width, height));

test('they are small, and need no way around the types', () => {
  for (const [name, most] of [['storefront', 80], ['desk', 75]]) {
    const source = read(`${name}/${name}.ts`);
    assert.ok(source.split('\n').length - 1 <= most, `${name} has more than ${most} lines`);
    assert.equal(/@ts-|\bany\b|\bas\b|[\w)\]]!(?!=)/.exec(source), null, name);
  }
});

test('storefront', { timeout }, async (t) => {
  const url = await serve(t, 'storefront');
  const browser = chromium(t);
  const tab = await browser.open(url);
  const card = (i, within) => `document.querySelectorAll('.hotels li')[${i}].querySelector('${within}')`;
  for (const [locale, dir, digits] of [['en', 'ltr', /\d/], ['ps-AF', 'rtl', /[۰-۹]/], ['fa-AF', 'rtl', /[۰-۹]/]]) {
    await tab.until(`document.querySelectorAll('.hotels li').length === 20`);
    await tab.value(`{ const s = document.querySelector('select'); s.value = '${locale}'; s.onchange(); }`);
    await tab.until(`document.documentElement.lang === '${locale}' && document.querySelectorAll('.hotels li').length === 20`);
    assert.equal(await tab.value('document.documentElement.dir'), dir);
    const prices = await tab.value(`[...document.querySelectorAll('.hotels li p:last-of-type')].map((p) => p.className + ': ' + p.textContent)`);
    for (const said of prices) assert.match(said, said.startsWith('priced') ? digits : /^(stale|sold_out|unanswered|shed): ./);
    assert.match(prices.join(), /priced/);
    await take(tab, `storefront-${locale}`, locale === 'ps-AF' ? 400 : 1200, 1000);
  }
  await tab.value(`${card(1, '.keep')}.click()`);
  await tab.until(`${card(1, '.keep')}.ariaPressed === 'true'`);
  await tab.value('{ window.left = true; location.reload(); }');
  await tab.until(`window.left === undefined && ${card(1, '.keep')}.ariaPressed === 'true'`);
  assert.equal(await tab.value(`document.querySelectorAll('.keep[aria-pressed=true]').length`), 1);
  await tab.value(`document.querySelector('.more').click()`);
  await tab.until(`document.querySelectorAll('.hotels li').length === 40`);
  const name = await tab.value(`${card(1, 'h2')}.textContent`);
  await tab.value(`{ window.confirm = () => true; ${card(1, '.book')}.click(); }`);
  assert.equal(await tab.until(`document.querySelector('#hotel-name').textContent`), name);
  assert.equal(await tab.value('document.documentElement.lang'), 'fa-AF');
  assert.deepEqual(browser.errors, []);
});

test('desk', { timeout }, async (t) => {
  const url = await serve(t, 'desk');
  const browser = chromium(t);
  const tab = await browser.open(`${url}?lang=en`);
  const enter = async (username, name) => {
    await tab.until(`document.querySelector('form')`);
    await tab.value(`{ document.querySelector('input').value = '${username}'; document.querySelector('form').requestSubmit(); }`);
    await tab.until(`document.querySelector('header bdi').textContent === '${name}' && document.querySelector('select').value.startsWith('ppt_')`);
  };
  // One operator of each role, and each has properties with names and something on the dashboard.
  const { operators } = await (await fetch(`${MELMASTOON_SIM_URL}/_sim/operators`)).json();
  const roles = new Map(operators.filter(({ memberships: [m, ...more] }) => m.tenantStatus === 'active' && more.length === 0).map((o) => [o.memberships[0].roles[0], o]).reverse());
  assert.equal(roles.size, 8);
  for (const { username, displayName } of roles.values()) {
    await enter(username, displayName);
    assert.match(await tab.value(`document.querySelector('select').selectedOptions[0].text`), /^[A-Z]\w+ \w+/);
    await tab.until(`document.querySelectorAll('article.ok').length > 3`);
    await tab.value(`{ window.left = true; document.querySelector('header button').click(); }`);
    await tab.until('window.left === undefined');
  }
  await enter('parwana', 'Parwana Wardak');
  const exported = await tab.value(`new Promise((done) => { indexedDB.open('melmastoon-desk').onsuccess = ({ target: { result: db } }) => {
    db.transaction('desk').objectStore('desk').get('device').onsuccess = ({ target: { result: { keys } } }) => crypto.subtle.exportKey('jwk', keys.privateKey).then(() => 'exported', (e) => done(e.name)); } })`);
  assert.equal(exported, 'InvalidAccessError');
  for (const locale of ['fa-AF', 'ps-AF', 'en']) {
    await tab.go(`${url}?lang=${locale}`); // the sign-in is kept
    await tab.until(`document.documentElement.lang === '${locale}' && document.querySelector('td button') && document.querySelectorAll('article').length > 15`);
    assert.equal(await tab.value('document.documentElement.dir'), locale === 'en' ? 'ltr' : 'rtl');
    await take(tab, `desk-${locale}`, locale === 'ps-AF' ? 400 : 1200, 1300);
  }
  const before = await tab.value(`document.querySelectorAll('td button').length`);
  await tab.value(`document.querySelector('td button').click()`);
  await tab.until(`document.querySelectorAll('td button').length === ${before - 1}`);
  const propertyId = await tab.value(`document.querySelector('select').value`);
  const raised = await fetch(`${MELMASTOON_SIM_URL}/_sim/alerts`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ propertyId }) });
  assert.ok(raised.ok);
  await tab.until(`document.querySelector('ol').textContent.includes('alert raised')`);
  assert.equal(await tab.value(`document.querySelector('[role=alert]').textContent`), '');
  assert.deepEqual(browser.errors, []);
});
