// A desk on bff-backoffice: sign in with a key that stays in this browser, see a property's day, check parties in, and hear of what others do.
import { BackofficeClient, SignedOut, indexedDbStore, type Schemas } from '@melmastoon/bff/backoffice';
import { message } from '@melmastoon/bff/messages';
import { formatDay, formatMoney, formatNumber, localeInfo, localized, type Money } from '@melmastoon/bff/values';
import words from './words.json';
const { locale, direction } = localeInfo(new URLSearchParams(location.search).get('lang') ?? navigator.language);
const known = new Map<string, string>(Object.entries(new Map(Object.entries(words)).get(locale) ?? words.en));
const say = (word: string): string => known.get(word) ?? word.replaceAll(/[_.-]/g, ' ');
const write = (value: number | string): string => (typeof value === 'number' ? formatNumber(value, locale) : value);
const money = (amount: Money): string => formatMoney(amount, locale, { currencyDisplay: 'code' });
const { api = '', iam = '' } = document.body.dataset;
const desk = new BackofficeClient({ baseUrl: api, iamUrl: iam, store: indexedDbStore(), appVersion: '1.0.0', appPlatform: 'linux' });
const [main, board, arrivals, news, failed] = [make('main'), make('section'), make('table'), make('ol'), make('p', { role: 'alert' })];
Object.assign(document.documentElement, { lang: locale, dir: direction });
document.body.append(main, failed);
await attempt(async () => ((await desk.signedIn()) ? open() : signIn()));
type Tags = HTMLElementTagNameMap;
function make<K extends keyof Tags>(tag: K, properties: Partial<Tags[K]> = {}, ...inside: (Node | string)[]): Tags[K] {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...inside);
  return element;
}
async function attempt(deed: () => Promise<unknown>): Promise<void> {
  failed.textContent = '';
  await deed().catch((error: unknown) => (error instanceof SignedOut ? signIn() : (failed.textContent = message(error, locale))));
}
function signIn(): void {
  const username = make('input', { name: 'username', placeholder: 'parwana', required: true });
  const enter = (event: Event): void => (event.preventDefault(), void attempt(() => desk.signIn({ username: username.value }).then(open)));
  main.replaceChildren(make('form', { onsubmit: enter }, make('label', {}, say('username'), username), make('button', {}, say('sign-in'))));
}
async function open(): Promise<void> {
  const { displayName, roles } = (await desk.call('session')).data;
  const property = make('select', { ariaLabel: say('property'), onchange: () => attempt(show) });
  for await (const { items } of desk.pages('listProperties')) property.append(...items.map((p) => new Option(localized(p.name, locale), p.propertyId)));
  const leave = make('button', { onclick: () => attempt(() => desk.signOut().then(() => location.reload())) }, say('sign-out'));
  const header = make('header', {}, property, make('p', {}, make('bdi', {}, displayName), ` · ${roles.map(say).join(' · ')}`), leave);
  main.replaceChildren(header, board, make('h2', {}, say('arrivals')), arrivals, make('h2', {}, say('news')), news);
  const show = async (): Promise<void> => {
    desk.propertyId = property.value;
    board.replaceChildren();
    for await (const line of desk.dashboardLines()) if ('widgetId' in line && line.status !== 'forbidden') board.append(draw(line));
    if (board.querySelector('.timeout, .error')) setTimeout(() => void attempt(show), 10_000); // what had no answer is asked for again
    await list();
  };
  const stream = desk.stream({ onEvent: ({ type }) => (news.prepend(make('li', {}, say(type))), void attempt(list)), onGap: () => attempt(show) });
  void attempt(() => stream.follow(new AbortController().signal)); // it begins with a gap, which shows everything
}
let newest = 0;
async function list(): Promise<void> {
  const own = ++newest;
  const admit = (path: { reservationId: string }) => attempt(() => desk.call('checkIn', { path }).then(list));
  const next = (stay: Schemas['Stay']) => (stay.can.includes('check-in') ? make('button', { onclick: () => admit(stay) }, say('check-in')) : say(stay.status));
  const row = (stay: Schemas['Stay']) => make('tr', {}, ...[stay.eta, stay.guestName, stay.roomNumber, next(stay)].map((cell = '') => make('td', {}, cell)));
  const { items } = (await desk.call('arrivals')).data;
  if (own === newest) arrivals.replaceChildren(...items.map(row)); // one that was asked for before a check-in may come after it
}
function draw(widget: Schemas['WidgetAnswer']): Node {
  const [figure, parts = {}] = read(widget);
  const rows = Object.entries(parts).map(([name, value]) => make('li', {}, make('bdi', {}, say(name)), make('b', {}, write(value))));
  return make('article', { className: widget.status }, make('h3', {}, say(widget.widgetId)), make('strong', {}, write(figure)), make('ul', {}, ...rows));
}
function read({ status, ...widget }: Schemas['WidgetAnswer']): [number | string, { [part: string]: number | string }?] {
  if (widget.data === undefined) return [say(status)];
  switch (widget.widgetId) {
    case 'adr': case 'revpar': case 'balance-due': return [money(widget.data.amount)];
    case 'cash-drawer': return [money(widget.data.expected), { opening: money(widget.data.opening), taken: money(widget.data.taken) }];
    case 'occupancy-7-days': return ['', Object.fromEntries(widget.data.items.map((n) => [formatDay(n.date, locale, { dateStyle: 'day' }), n.occupied]))];
    case 'occupancy-today': return [`${write(widget.data.percent)}%`, { occupied: widget.data.occupied, total: widget.data.total }];
    case 'housekeeping-progress': return [`${write(widget.data.percentDone)}%`, widget.data.counts];
    case 'alos': case 'in-house': case 'devices': case 'sync-lag': case 'time-to-ready': case 'linen-runway': case 'ai-acceptance': return ['', widget.data];
    default: return [widget.data.count, 'counts' in widget.data ? widget.data.counts : {}];
  }
}
