// The console: what came in, what it caused, and the world that can be changed meanwhile.
import '../kit/style.css';
import './console.css';

import { render } from 'preact';
import { useEffect } from 'preact/hooks';

import { keys, keysShown } from '../kit/keys.js';
import { KeySheet, State as Nothing, ThemeSwitch, Toasts } from '../kit/parts.js';
import { go, here, keepLinks } from '../kit/url.js';
import { Hotels, People } from './catalogue.js';
import { Dashboards } from './dashboards.js';
import { Events } from './events.js';
import { Requests } from './requests.js';
import { State } from './state.js';
import { World, worldShown } from './world.js';

const screens = [
  { path: '/console', name: 'Requests', key: 'r', Screen: Requests },
  { path: '/console/events', name: 'Events', key: 'e', Screen: Events },
  { path: '/console/dashboards', name: 'Dashboards', key: 'd', Screen: Dashboards },
  { path: '/console/state', name: 'State', key: 's', Screen: State },
  { path: '/console/hotels', name: 'Hotels', key: 'h', Screen: Hotels },
  { path: '/console/people', name: 'People', key: 'p', Screen: People },
];

keepLinks('/console');

function Console() {
  const path = here.value.pathname.replace(/\/$/, '');
  const screen = screens.findLast((one) => path === one.path || (one.path !== '/console' && path.startsWith(`${one.path}/`)));
  useEffect(() => keys(
    ...screens.map(({ name, key, path }) => ({ keys: `g ${key}`, does: name.toLowerCase(), run: () => go(path) })),
    { keys: 'w', does: 'the world: faults, events, flags', run: () => (worldShown.value = worldShown.value === '' ? '1' : '') },
  ), []);
  useEffect(() => void (document.title = `${screen?.name ?? 'Nothing'} · Melmastoon console`), [screen?.name]);
  return (
    <>
      <a class="skip" href="#main">To the content</a>
      <header class="bar">
        <a class="brand" href="/console"><img src="/favicon.svg" alt="" />Melmastoon</a>
        <nav class="tabs grow" aria-label="Screens">{screens.map(({ path, name }) => <a key={path} href={path} aria-current={screen?.path === path ? 'page' : undefined}>{name}</a>)}</nav>
        <nav class="row small elsewhere" aria-label="Elsewhere"><a href="/reference">API</a><a href="/errors/">Errors</a></nav>
        <button class="little" aria-haspopup="dialog" onClick={() => (worldShown.value = '1')}>World <kbd>w</kbd></button>
        <button class="little quiet" aria-haspopup="dialog" aria-label="Keys" title="Keys" onClick={() => (keysShown.value = true)}>?</button>
        <ThemeSwitch />
      </header>
      {screen === undefined ? <main class="screen" id="main"><Nothing title="There is no such screen."><a href="/console">Requests</a></Nothing></main> : <screen.Screen key={screen.path} />}
      {worldShown.value !== '' && <World />}
      <KeySheet />
      <Toasts />
    </>
  );
}

render(<Console />, document.getElementById('page')!);
