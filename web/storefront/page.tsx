import '../kit/style.css';
import './page.css';

import { render } from 'preact';
import { useEffect } from 'preact/hooks';

import { own, say } from '../kit/i18n.js';
import { Languages, ThemeSwitch, Toasts, keep, themeWords } from '../kit/parts.js';
import { go, here, withParams } from '../kit/url.js';
import { api, known, report, session } from './api.js';
import { Find } from './find.js';
import { later } from './later.js';
import { currencyOf } from './list.js';
import { currencies, paramsOf, queryOf } from './query.js';
import { learnWishes, wished } from './wishes.js';

const Hotel = later(() => import('./hotel.js'));
const Wishes = later(() => import('./wishlist.js'));
const You = later(() => import('./you.js'));

/** Another language is another page, whose first byte has it, and which tells the session. */
function speak(tag: string): void {
  keep('locale', tag);
  location.assign(withParams({ lang: tag }));
}

async function count(currency: string): Promise<void> {
  await known;
  await api.call('setCurrency', { body: { currency: currency as 'AFN' } }).then(({ data }) => (session.value = data)).catch(() => undefined);
  go(withParams({ currency }), { replace: true });
}

const onHotel = /^\/hotels\/(ppt_[0-9A-Z]{26})$/;

function Head() {
  const { pathname, searchParams } = here.value;
  const query = queryOf(searchParams);
  const rest = `?${String(paramsOf(query))}`;
  const link = (path: string, text: string, more?: number) => <a href={`${path}${rest}`} aria-current={pathname === path ? 'page' : undefined}>{text}{more !== undefined && more > 0 && <bdi class="chip warm">{own(new Intl.NumberFormat('en').format(more))}</bdi>}</a>;
  return (
    <header class="bar">
      {pathname === '/' && <a class="skip" href="#hotels">{say('skip')}</a>}
      <a class="brand" href="/"><img src="/favicon.svg" alt="" width="24" height="24" />{say('brand')}</a>
      <nav class="tabs" aria-label={say('brand')}>{link('/', say('nav.find'))}{link('/wishes', say('nav.wishes'), wished.value.size)}{link('/you', say('nav.you'))}</nav>
      <div class="choices">
        <label class="unseen" for="lang">{say('language')}</label>
        <Languages id="lang" name="lang" choose={speak} />
        <label class="unseen" for="currency">{say('currency')}</label>
        <select id="currency" name="currency" value={currencyOf(query)} onChange={(e) => void count(e.currentTarget.value)}>{currencies.map((c) => <option key={c}>{c}</option>)}</select>
        <ThemeSwitch words={themeWords()} />
      </div>
    </header>
  );
}

function Storefront() {
  const { pathname } = here.value;
  const hotel = onHotel.exec(pathname)?.[1];
  useEffect(() => report(pathname), [pathname]);
  return (
    <>
      <Head />
      <main>{hotel !== undefined ? <Hotel key={hotel} propertyId={hotel} /> : pathname === '/wishes' ? <Wishes /> : pathname === '/you' ? <You /> : <Find />}</main>
      <footer class="dev small"><span>{say('dev')}</span><a href="/console">{say('dev.console')}</a><a href="/desk">{say('dev.desk')}</a><a href="/reference">{say('dev.reference')}</a></footer>
      <Toasts />
    </>
  );
}

/** What a guest did before the script was there goes on: the words typed, and where the focus is. */
function begin(page: HTMLElement): void {
  const at = document.activeElement?.id ?? '';
  const typed = document.querySelector<HTMLInputElement>('input#where');
  const words = typed !== null && typed.value !== typed.defaultValue ? typed.value : undefined;
  const root = document.createElement('div');
  render(<Storefront />, root);
  page.replaceChildren(root);
  document.getElementById(at)?.focus();
  const field = document.querySelector<HTMLInputElement>('input#where');
  if (words === undefined || field === null) return;
  field.value = words;
  field.dispatchEvent(new InputEvent('input', { bubbles: true }));
}

addEventListener('click', (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const link = event.target instanceof Element ? event.target.closest('a') : null;
  if (link === null || link.origin !== location.origin || link.hash !== '' || !(['/', '/wishes', '/you'].includes(link.pathname) || onHotel.test(link.pathname))) return;
  event.preventDefault();
  const from = location.pathname;
  go(link.href);
  if (from === '/' && onHotel.test(link.pathname)) history.replaceState('from-list', '');
});
history.scrollRestoration = 'manual';
const page = document.getElementById('page');
if (page !== null) begin(page);
void learnWishes().catch(() => undefined);
