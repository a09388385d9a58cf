// Takes a picture of every screen in three languages, light and dark, on a desk and on a phone: `make pictures` keeps them in docs/pictures, with a page that
// shows them. What a picture holds is the same from one run to the next but for the moment that it is from: hotels have the day that `up --clock` says, and
// guests ask for the same nights. ONLY=REGEXP takes some of them, PNG=DIR keeps them as PNG there instead.
import { mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';

import { colleague } from './house.mjs';
import { line } from './line.mjs';
import { open } from './page.mjs';

const { MELMASTOON_CONSUMER_URL, MELMASTOON_PAGES_URL, MELMASTOON_SIM_URL, ONLY = '', PNG } = process.env;
const folder = PNG ?? new URL('../../docs/pictures', import.meta.url).pathname;
const languages = ['en', 'fa-AF', 'ps-AF'];
const sizes = { desk: [1280, 800], phone: [390, 844] };
const wanted = (screen) => new RegExp(ONLY).test(screen);
const ends = [];
const t = { after: (end) => ends.unshift(end) };
const taken = new Map();

const post = (path, body, method = 'POST') => fetch(`${MELMASTOON_SIM_URL}/_sim/${path}`, { method, headers: { 'Content-Type': 'application/json' }, ...(body && { body: JSON.stringify(body) }) });
const one = (selector) => `document.querySelector('${selector}')`;
const count = (selector) => `document.querySelectorAll('${selector}').length`;

/** Both sizes in both colours of what is shown; heights are those of screens unless said otherwise. */
async function picture({ tab, look }, screen, language, { desk = sizes.desk[1], phone = sizes.phone[1], before = '0', scale = 1 } = {}) {
  for (const [size, height] of [['desk', desk], ['phone', phone]]) {
    if (height === 0) continue;
    const width = sizes[size][0];
    for (const colours of ['light', 'dark']) {
      await look(colours, width, height);
      await tab.tell('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: scale, mobile: false });
      await tab.value(before);
      await tab.value(`Promise.all([...document.fonts].filter((face) => face.status === 'loading').map((face) => face.loaded)).then(() => Promise.all([...document.images].filter((one) => one.getBoundingClientRect().top < innerHeight && one.src !== '').map((one) => one.decode().catch(() => 0)))).then(() => new Promise((drawn) => setTimeout(drawn, 250)))`);
      const { data } = await tab.tell('Page.captureScreenshot', PNG ? { format: 'png' } : { format: 'webp', quality: 40 });
      const name = `${screen}-${language}-${colours}-${size}.${PNG ? 'png' : 'webp'}`;
      mkdirSync(folder, { recursive: true });
      writeFileSync(`${folder}/${name}`, Buffer.from(data, 'base64'));
      console.log(name);
      taken.set(name, screen);
    }
  }
}

/** The last week of March that is at least a month ahead: the first days of a year in Kabul. */
function stay() {
  const now = Date.now();
  const day = 86_400_000;
  for (let year = new Date().getUTCFullYear(); ; year++) {
    const from = Date.UTC(year, 2, 25);
    if (from - now > 30 * day) return [0, 3].map((nights) => new Date(from + nights * day).toISOString().slice(0, 10));
  }
}
const [checkIn, checkOut] = stay();
const herat = { en: 'Herat', 'fa-AF': 'هرات', 'ps-AF': 'هرات' };
const query = (language, more = '') => `lang=${language}&where=${encodeURIComponent(herat[language])}&city=Herat&in=${checkIn}&out=${checkOut}&adults=2&ages=5,8${more}`;
const listed = `${one('#saver:not(:disabled)')} && ${count('#hotels .hotel')} >= 10`;
const priced = `[...document.querySelectorAll('#hotels .hotel:has([data-state=priced])')].map((one) => one.dataset.hotel)`;

async function storefront() {
  const page = await open(t, '/?lang=en');
  const { tab, press } = page;
  const go = async (path, ready) => {
    await tab.value('void (window.before = true)');
    await tab.go(MELMASTOON_PAGES_URL + path);
    await tab.until(`!window.before && document.readyState === 'complete' && ${ready}`);
  };
  await tab.until(listed);
  await go(`/?${query('en')}`, listed);
  const hotel = await tab.until(`${priced}[1]`);
  for (const id of (await tab.value(`${priced}.slice(0, 3)`))) {
    await tab.value(`${one(`[data-hotel="${id}"] .heart`)}.click()`);
    await tab.until(`${one(`[data-hotel="${id}"] .heart`)}.getAttribute('aria-pressed') === 'true'`);
  }
  const screens = {
    find: async (language) => [`/?lang=${language}`, `${listed} && ${count('.cities a')} > 0`],
    list: async (language) => [`/?${query(language)}`, `${listed} && ${count('.cities a')} > 0`, { before: 'scrollTo(0, document.documentElement.scrollHeight)' }],
    filters: async (language) => [`/?${query(language, '&f=prayer_room,backup_power')}`, `${listed.replace('>= 10', '>= 0')} && ${count('.cities a')} > 0 && (${one('[aria-controls=more-filters]')}.click(), true)`],
    map: async (language) => [`/?${query(language, '&view=map')}`, `${listed} && ${one('.map figcaption div')}.textContent`, { before: `${one('.map')}?.scrollIntoView({ block: innerWidth < 500 ? 'start' : 'nearest' })` }],
    suggest: async (language) => [`/?lang=${language}`, listed, {}, async () => {
      await tab.value(`${one('#where')}.focus()`);
      await tab.tell('Input.insertText', { text: { en: 'he', 'fa-AF': 'هر', 'ps-AF': 'هر' }[language] });
      await tab.until(`${count('#places li')} > 0`);
      await press('ArrowDown');
    }],
    dates: async (language) => [`/?${query(language)}`, listed, {}, async () => {
      await tab.value(`${one('.when button')}.click()`);
      await tab.until(one('dialog .day'));
    }],
    guests: async (language) => [`/?${query(language)}`, listed, {}, async () => {
      await tab.value(`${one('.who button')}.click()`);
      await tab.until(one('dialog .count'));
    }],
    hotel: async (language) => [`/hotels/${hotel}?${query(language, '&f=prayer_room')}`, `${one('#book')} && ${one('.pictures img')}?.complete`, { phone: 1500 }],
    nights: async (language) => [`/hotels/${hotel}?lang=${language}&adults=2&ages=5,8`, `${one('#book')} && ${one('.day i')}`, { desk: 1400, phone: 2200, before: `scrollTo(0, document.querySelector('.calendar').closest('section').offsetTop - 60)` }],
    wishes: async (language) => [`/wishes?${query(language)}`, `${one('.wish, .state')} && [...document.querySelectorAll('.since b')].every((b) => b.textContent !== '')`],
    you: async (language) => [`/you?lang=${language}`, one('#forget'), { phone: 1100 }],
    'hand-off': async (language) => [`/hotels/${hotel}?${query(language)}`, one('#book:not(:disabled)'), {}, async () => {
      await tab.value(`${one('#book')}.click()`);
      await tab.until(one('#go-on, #hotel-name'));
      await tab.value(`${one('#go-on')}?.click()`);
      await tab.until(one('#hotel-name'));
    }],
    degraded: async (language) => [`/?${query(language, '&adults=' + [3, 4, 1][languages.indexOf(language)])}`.replace('&adults=2', ''), one('#hotels [data-state=unanswered] .why'), { before: 'scrollTo(0, 0)' }],
    gone: async (language) => [`/hotels/ppt_01J00000000000000000000000?lang=${language}`, one('.state strong')],
    empty: async (language) => [`/?lang=${language}&where=Atlantis&city=Atlantis`, one('.state strong')],
  };
  for (const [name, of] of Object.entries(screens)) {
    if (!wanted(`storefront-${name}`)) continue;
    if (name === 'degraded') await post('faults', { upstream: 'pricing', hang: true });
    for (const language of languages) {
      const [path, ready, how, then] = await of(language);
      await page.look('light', ...sizes.desk);
      await go(path, `document.documentElement.lang === '${language}' && ${ready}`);
      await then?.();
      await picture(page, `storefront-${name}`, language, how);
    }
    if (name === 'degraded') await post('faults', undefined, 'DELETE');
  }
}

async function desk() {
  const wire = await line(t);
  const page = await open(t, '/desk?lang=en', ...wire.flags);
  const { tab, press, look } = page;
  const go = async (query, ready) => {
    await tab.value('void (window.before = true)').catch(() => undefined);
    await tab.go(new URL(`/desk?${query}`, MELMASTOON_PAGES_URL).href);
    await tab.until(`!window.before && ${ready}`);
  };
  if (wanted('desk-sign-in')) {
    for (const language of languages) {
      await go(`lang=${language}`, one('.person'));
      await picture(page, 'desk-sign-in', language);
    }
  }
  await go('lang=en', one('[data-username="mirwais"]'));
  await tab.value(`${one('[data-username="mirwais"]')}.click()`);
  const live = `${one('[data-line="live"]')} && ${one('[data-ended="true"]')} && ${count('[data-column="in-house"] [data-stay]')} > 0 && ${one('[data-inbox="suggestions"] .honesty')} && ${one('[data-inbox="alerts"] .honesty')}`;
  await tab.until(live);
  const property = await tab.value(`new URL(location).searchParams.get('property')`);
  const stays = await tab.value(`[...document.querySelectorAll('[data-column="in-house"] [data-stay]')].map((row) => row.dataset.stay)`);
  for (const language of languages) {
    const at = (view) => `lang=${language}&property=${property}${view}`;
    await look('light', ...sizes.desk);
    for (const [name, view, ready, how] of [
      ['today', '', live, { phone: 1500 }], ['stay', `&stay=${stays[2] ?? stays[0]}`, `${one('[data-drawer] .facts')} && ${one('[data-drawer] [data-key], [data-drawer] .steps')}`],
      ['housekeeping', '&view=housekeeping', `${one('[data-line="live"]')} && ${one('[data-item="task"]')}`], ['maintenance', '&view=maintenance', `${one('[data-line="live"]')} && ${one('[data-item="work-order"]')}`],
      ['activity', '&view=activity', `${one('[data-line="live"]')} && ${one('main li, main .state')}`], ['presses', '&view=presses', one('[data-line="live"]')],
    ]) {
      if (!wanted(`desk-${name}`)) continue;
      await go(at(view), `document.documentElement.lang === '${language}' && ${ready}`);
      await picture(page, `desk-${name}`, language, how);
    }
    if (wanted('desk-keys')) {
      await go(at(''), live);
      await press('?');
      await tab.until(one('dialog .keys'));
      await picture(page, 'desk-keys', language);
    }
    if (wanted('desk-paper')) {
      await go(at(''), live);
      await tab.tell('Emulation.setEmulatedMedia', { media: 'print', features: [] });
      await tab.tell('Emulation.setDeviceMetricsOverride', { width: 794, height: 1123, deviceScaleFactor: 1.25, mobile: false });
      await tab.value(`document.documentElement.style.padding = '9mm'`); // the margin of the paper
      const { data } = await tab.tell('Page.captureScreenshot', PNG ? { format: 'png' } : { format: 'webp', quality: 40 });
      const name = `desk-paper-${language}-light-sheet.${PNG ? 'png' : 'webp'}`;
      writeFileSync(`${folder}/${name}`, Buffer.from(data, 'base64'));
      taken.set(name, 'desk-paper');
      await tab.tell('Emulation.setEmulatedMedia', { media: '' });
    }
  }
  if (!wanted('desk-blackout')) return;
  for (const language of languages) {
    wire.mend(); // texts of another language are the server's
    await look('light', ...sizes.desk);
    await go(`lang=${language}&property=${property}`, `document.documentElement.lang === '${language}' && ${one('[data-line="live"]')} && ${one('[data-column="arrivals"] [data-do="check-in"]')}`);
    await tab.until(`new Promise((done) => { indexedDB.open('melmastoon-desk-blackout').onsuccess = ({ target: { result: db } }) => { if (!db.objectStoreNames.contains('records')) { db.close(); return done(false); } db.transaction('records').objectStore('records').getAllKeys().onsuccess = ({ target: { result } }) => { db.close(); done(result.some((name) => name.includes('/pack/'))) } } })`);
    wire.cut();
    await tab.until(`${one('[data-blackout="cut"]')} && document.documentElement.hasAttribute('data-cut')`);
    if (language === languages[0]) {
      const free = await tab.value(`[...document.querySelectorAll('[data-column="departures"] [data-do="check-out"]')].slice(0, 2).map((b) => b.closest('[data-stay]').dataset.stay)`);
      for (const id of free) await tab.value(`${one(`[data-stay="${id}"] [data-do="check-out"]`)}.click()`);
      await tab.until(`${count('[data-entry="unsent"]')} === ${free.length}`);
    }
    await picture(page, 'desk-blackout', language);
  }
}

async function console_() {
  const page = await open(t, '/console');
  const { tab } = page;
  const search = (city) => fetch(`${MELMASTOON_CONSUMER_URL}/bff/consumer/v1/search`, {
    method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ geo: { mode: 'city', city }, dates: { checkIn, checkOut }, occupancy: { adults: 2, children: 0, rooms: 1 } }),
  });
  await tab.until(one('.state, .requests tbody'));
  // Guests and an operator go about their work, until there are figures of it.
  await fetch(`${MELMASTOON_PAGES_URL}/_up/events`); // it listens from the first look on
  const parwana = await colleague('parwana');
  [parwana.propertyId] = (await parwana.call('session')).data.propertyScope;
  const figures = `${count('.vital b')} > 5 && ![...document.querySelectorAll('.vital b')].some((figure) => figure.textContent === '–')`;
  for (let round = 0; round < 30 || (round < 200 && !(await tab.value(figures))); round++) {
    for (const city of ['Kabul', 'Mazar-i-Sharif', 'Herat', 'Bamyan'].slice(round % 3)) {
      const { results = [] } = await (await search(city)).json();
      await Promise.all(results.slice(0, 3).map(({ propertyId }) => fetch(`${MELMASTOON_CONSUMER_URL}/bff/consumer/v1/hotels/${propertyId}`)));
    }
    await Promise.all(['dashboard', 'arrivals', 'inHouse', 'housekeepingBoard', 'listAlerts'].map((view) => parwana.call(view)));
    await new Promise((over) => setTimeout(over, 1_000));
  }
  await post('faults', { upstream: 'pricing', latencyMs: 900 });
  const id = (await search('Kandahar')).headers.get('X-Request-Id');
  await post('faults', undefined, 'DELETE');
  for (const [name, path, ready] of [
    ['requests', `?id=${id}`, one('.story .waterfall')], ['events', '/events', one('.outboxes h2')], ['dashboards', '/dashboards/bff-consumer?minutes=5', `${count('.panel .plot')} > 5`], ['state', '/state', `${count('.table tbody tr')} > 5`],
    ['world', '?world=1', one('dialog .upstream button')], ['hotels', '/hotels', `${count('.table tbody tr')} > 50`], ['people', '/people', `${count('.table tbody tr')} > 5`],
  ]) {
    if (!wanted(`console-${name}`)) continue;
    await page.look('light', ...sizes.desk);
    await tab.go(`${MELMASTOON_PAGES_URL}/console${path}`);
    await tab.until(ready);
    await picture(page, `console-${name}`, 'en', { phone: 0 }); // a developer's screen
  }
  if (!wanted('reference')) return;
  await tab.go(`${MELMASTOON_PAGES_URL}/reference`);
  await tab.until(`${one('rapi-doc')}?.shadowRoot.querySelector('.nav-bar')`);
  await picture(page, 'reference', 'en', { phone: 0 });
}

const titles = {
  'storefront-find': 'The storefront: the form, and hotels at once', 'storefront-suggest': 'Places as they are typed', 'storefront-dates': 'Both calendars', 'storefront-guests': 'Guests, with the ages of children',
  'storefront-filters': 'Filters', 'storefront-list': 'The end of a page: as of when, and how many of how many', 'storefront-map': 'The map: prices where they fit', 'storefront-hotel': 'A hotel, and the age of its price',
  'storefront-nights': 'Its next 62 nights, rooms, rules, similar hotels', 'storefront-hand-off': 'What arrived on the booking page', 'storefront-wishes': 'Wishes', 'storefront-you': 'What we know of you',
  'storefront-degraded': 'Pricing is silent, and the page says so', 'storefront-gone': 'A hotel that is not offered', 'storefront-empty': 'A place without hotels',
  'desk-sign-in': 'The desk: who is there', 'desk-today': 'Today on one screen', 'desk-stay': 'One stay, with the steps that are legal now', 'desk-housekeeping': 'Housekeeping', 'desk-maintenance': 'Maintenance',
  'desk-activity': 'Who did what', 'desk-presses': 'What was pressed at this desk', 'desk-keys': 'The keys', 'desk-blackout': 'Without a line', 'desk-paper': "Today's lists on paper",
  'console-requests': 'The console: requests, and the story of one', 'console-events': 'Events and outboxes', 'console-dashboards': 'Dashboards', 'console-state': 'State', 'console-world': 'The world: faults, events, flags',
  'console-hotels': 'Hotels', 'console-people': 'People', reference: 'The reference',
};

/** The page that shows them, and no picture beside them that is of before. */
function gather() {
  for (const name of ONLY === '' ? readdirSync(folder) : []) if (name.endsWith('.webp') && !taken.has(name)) rmSync(`${folder}/${name}`);
  for (const name of readdirSync(folder)) if (name.endsWith('.webp')) taken.set(name, name.replace(/-(en|fa-AF|ps-AF)-.*/, ''));
  const names = [...taken.keys()].sort();
  const size = names.reduce((sum, name) => sum + statSync(`${folder}/${name}`).size, 0);
  const cell = (screen, language, size) => ['light', 'dark'].map((colours) => `${screen}-${language}-${colours}-${size}.webp`).filter((name) => taken.has(name)).map((name) => `<img src="${name}" alt="${name.replace('.webp', '')}" width="${size === 'desk' ? 420 : 160}">`).join(' ');
  const parts = Object.entries(titles).filter(([screen]) => [...taken.values()].includes(screen)).map(([screen, title]) => {
    const rows = languages.filter((language) => names.some((name) => name.startsWith(`${screen}-${language}-`))).map((language) => `| ${language} | ${cell(screen, language, 'desk') || cell(screen, language, 'sheet')} | ${cell(screen, language, 'phone')} |`);
    return `## ${title}\n\n| | desk | phone |\n|---|---|---|\n${rows.join('\n')}\n`;
  });
  writeFileSync(`${folder}/README.md`, `# Every screen\n\nIn English, Dari and Pashto, light and dark, on a desk (1280 pixels) and on a phone (390): \`make pictures\` takes them of a running platform.\n\n${parts.join('\n')}`);
  console.log(`${names.length} pictures, ${Math.round(size / 1024)} KiB`);
}

try {
  for (const [name, part] of [['storefront', storefront], ['desk', desk], ['console', console_]]) if (ONLY === '' || Object.keys(titles).some((title) => (title.startsWith(name) || (name === 'console' && title === 'reference')) && wanted(title))) await part();
  if (PNG === undefined) gather();
} finally {
  for (const end of ends) await end();
}
