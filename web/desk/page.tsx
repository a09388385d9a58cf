import '../kit/style.css';
import './desk.css';

import { effect } from '@preact/signals';
import { render } from 'preact';

import { say, word } from '../kit/i18n.js';
import { Bdi, Drawer, Ghost, State, Toasts } from '../kit/parts.js';
import { focused, on, sheet, shown, step, usable, withFocused } from '../kit/shortcuts.js';
import { go, keepLinks, withParams } from '../kit/url.js';
import { Activity } from './activity.js';
import { Bar, view } from './bar.js';
import { Housekeeping, Maintenance, move, reporting } from './boards.js';
import { StayDrawer, charge, stayId, take } from './drawer.js';
import { Find, find } from './find.js';
import { acknowledge, acknowledgeable, changeable, changing, decide, proving } from './inbox.js';
import { alone } from './blackout.js';
import { begin } from './line.js';
import { Presses } from './pressed.js';
import { askAgain } from './presses.js';
import { Paper } from './print.js';
import { canReadActivity, desk, enter, phase, propertyId, reason, session, signOut } from './service.js';
import { readShortcuts } from './shortcuts.js';
import { SignIn } from './signin.js';
import { WithoutLine } from './taken.js';
import { Today } from './today.js';
import { forget, refetch } from './views.js';

keepLinks('/desk');
document.title = say('title');

const to = (name: string) => (): void => go(withParams({ view: name === 'today' ? '' : name, stay: '' }));
const column = (id: string) => (): void => {
  to('today')();
  requestAnimationFrame(() => document.querySelector<HTMLElement>(`[data-column="${id}"] [data-item], [data-inbox="${id}"] [data-item]`)?.focus());
};
const withStay = (what: Parameters<typeof take>[1]) => (): boolean => {
  const id = stayId.peek() || focused('stay');
  return id === undefined ? false : take(id, what);
};
const withItem = (kind: 'task' | 'work-order', what: string) => withFocused(kind, (id) => move(kind, id, what));
const withSuggestion = (run: (id: string) => void) => withFocused('suggestion', (id) => (changeable(id) ? run(id) : false));

on({
  'search.open': find, 'list.filter': find, 'shortcuts.show': () => void (sheet.value = !sheet.peek()), 'view.refresh': () => void refetch(), 'session.lock': () => void signOut(),
  'property.switch': () => document.querySelector<HTMLElement>('.chooser')?.focus(),
  'go.dashboard': to('today'), 'go.today': to('today'), 'go.arrivals': column('arrivals'), 'go.departures': column('departures'), 'go.inHouse': column('in-house'),
  'go.housekeeping': to('housekeeping'), 'go.maintenance': to('maintenance'), 'go.suggestions': column('suggestions'), 'go.alerts': column('alerts'),
  'list.next': () => step(1), 'list.previous': () => step(-1),
  'list.open': withFocused('stay', (id) => void (stayId.value = id)),
  'reservation.checkIn': withStay('check-in'), 'reservation.checkOut': withStay('check-out'), 'lock.issueKey': withStay('issue-key'), 'lock.extendKey': withStay('extend-key'),
  'lock.rebindKey': withStay('rebind-key'), 'lock.revokeKey': withStay('revoke-key'), 'folio.charge': charge, 'folio.print': () => print(),
  'task.start': withItem('task', 'start'), 'task.complete': withItem('task', 'complete'), 'task.inspect': withItem('task', 'inspect'), 'task.reopen': withItem('task', 'reopen'),
  'workOrder.new': () => (view.peek() === 'maintenance' ? (reporting.value = true) : false),
  'workOrder.start': withItem('work-order', 'start'), 'workOrder.resolve': withItem('work-order', 'resolve'), 'workOrder.close': withItem('work-order', 'close'), 'workOrder.reopen': withItem('work-order', 'reopen'),
  'suggestion.accept': withSuggestion((id) => decide(id, 'accepted')), 'suggestion.reject': withSuggestion((id) => decide(id, 'rejected')), 'suggestion.modify': withSuggestion((id) => (changing.value = id)),
  'suggestion.provenance': withFocused('suggestion', (id) => void (proving.value = proving.peek() === id ? '' : id)),
  'alert.acknowledge': withFocused('alert', (id) => (acknowledgeable(id) ? acknowledge(id) : false)),
});

function Keys() {
  if (!sheet.value) return null;
  return (
    <Drawer kind="sheet" title={say('keys.title')} close={() => (sheet.value = false)} closeText={say('close')}>
      <table class="table keys"><tbody>
        {usable.value.map(({ action, keys, customised }) => (
          <tr key={action}><th scope="row"><span class="row" dir="ltr">{keys.split(' ').map((key) => <kbd key={key}>{shown(key)}</kbd>)}</span></th><td>{word('do', action)}{customised && <span class="chip">{say('keys.own')}</span>}</td></tr>
        ))}
      </tbody></table>
    </Drawer>
  );
}

const screens: Readonly<Record<string, () => preact.JSX.Element>> = { today: Today, housekeeping: Housekeeping, maintenance: Maintenance, presses: Presses, activity: Activity };

function Desk() {
  const Screen = (view.value === 'activity' && !canReadActivity() ? undefined : screens[view.value]) ?? Today;
  return (
    <>
      <a class="skip" href="#main">{say('skip')}</a>
      <Bar />
      <main id="main" tabIndex={-1}>
        <h1 class="unseen">{say('title')}</h1>
        <div class="row apart wrap tools"><Find /><button class="little" data-do="print" onClick={() => print()}>{say('print')}</button></div>
        <WithoutLine />
        <Screen />
      </main>
      <StayDrawer />
      <Keys />
      <Paper />
    </>
  );
}

function App() {
  switch (phase.value) {
    case 'starting': return <main class="wide pad"><h1 class="unseen">{say('title')}</h1><Ghost lines={6} /></main>;
    case 'unreached': return <main><h1 class="unseen">{say('title')}</h1><State title={say('unreached')}><Bdi>{reason.value}</Bdi><button class="first" onClick={() => void enter()}>{say('again')}</button></State></main>;
    case 'signed-out': return <SignIn />;
    case 'open': return <Desk />;
  }
}

// Another operator or another house: nothing of before is shown, and everything is read.
let of = '';
effect(() => {
  const who = phase.value === 'open' ? session.value?.operatorId : undefined;
  const at = who === undefined ? '' : `${who} ${propertyId.value}`;
  if (at === of) return;
  const other = at.split(' ')[0] !== of.split(' ')[0];
  of = at;
  forget();
  if (at === '') return;
  desk.propertyId = propertyId.peek();
  void refetch();
  if (!other) return;
  begin();
  void readShortcuts();
  void askAgain();
});

// The amber frame of a cut line.
effect(() => {
  document.documentElement.toggleAttribute('data-cut', alone.value !== undefined);
});

render(<><App /><Toasts /></>, document.getElementById('page')!);
void enter();
