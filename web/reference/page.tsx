// The contracts of both services, to read and to try against the running platform. RapiDoc shows them; requests to the staff service are signed by our client.
import '../kit/style.css';
import './reference.css';

import { signal } from '@preact/signals';
import { render } from 'preact';
import { useEffect, useRef } from 'preact/hooks';

import { BackofficeClient, indexedDbStore } from '@melmastoon/bff/backoffice';
import { message } from '@melmastoon/bff/messages';
import { ProblemError } from '@melmastoon/bff';

import { theme, ThemeSwitch, toast, Toasts } from '../kit/parts.js';
import { here, keepLinks } from '../kit/url.js';

const services = { consumer: 'Guests', backoffice: 'Staff' } as const;
const staff = '/bff/backoffice/';
const desk = new BackofficeClient({ baseUrl: `${location.origin}${staff}v1`, iamUrl: `${location.origin}/iam`, store: indexedDbStore(), appVersion: '1.0.0', appPlatform: 'linux' });
const signedIn = signal<string | undefined>(undefined);

// RapiDoc sends with `fetch`, and tells too early to wait for a signature.
const plain = globalThis.fetch.bind(globalThis);
globalThis.fetch = async (input, init) => {
  const request = new Request(input, init);
  const { pathname } = new URL(request.url);
  if (!pathname.startsWith(staff) || request.headers.has('DPoP') || pathname.endsWith('/auth/refresh') || signedIn.peek() === undefined) return plain(request);
  const headers = await desk.headersFor(request.method as 'GET' | 'POST' | 'PUT' | 'DELETE', request.url.split('?')[0]!);
  for (const [name, value] of Object.entries(headers)) request.headers.set(name, value);
  return plain(request);
};

/** Who is signed in, and the first of their hotels: most calls are for one. */
async function look(): Promise<void> {
  if (!(await desk.signedIn())) return void (signedIn.value = undefined);
  const { data } = await desk.call('session');
  desk.propertyId = data.properties?.[0]?.propertyId;
  signedIn.value = data.displayName;
}

async function enter(username: string): Promise<void> {
  try {
    await desk.signIn({ username });
    await look();
    toast(`Requests to the staff service are signed for ${signedIn.peek()} now`);
  } catch (error) {
    toast(error instanceof ProblemError ? message(error, 'en') : String(error));
  }
}

async function leave(): Promise<void> {
  await desk.signOut();
  signedIn.value = undefined;
}

keepLinks('/reference');

function Reference() {
  const service = here.value.pathname.endsWith('/backoffice') ? 'backoffice' : 'consumer';
  useEffect(() => void (document.title = `${services[service]} · Melmastoon API`), [service]);
  useEffect(() => void look().catch(() => (signedIn.value = undefined)), []);
  return (
    <>
      <header class="bar">
        <a class="brand" href="/console"><img src="/favicon.svg" alt="" />Melmastoon</a>
        <nav class="tabs grow" aria-label="Services">{Object.entries(services).map(([name, title]) => <a key={name} href={name === 'consumer' ? '/reference' : `/reference/${name}`} aria-current={name === service ? 'page' : undefined}>{title}</a>)}</nav>
        {service === 'backoffice' && <SignIn />}
        <nav class="row small" aria-label="Elsewhere"><a href="/console">Console</a><a href="/errors/">Errors</a></nav>
        <ThemeSwitch />
      </header>
      <Document key={service} service={service} />
      <Toasts />
    </>
  );
}

function SignIn() {
  const name = useRef<HTMLInputElement>(null);
  if (signedIn.value !== undefined) return <p class="row small"><span>signed by <b><bdi>{signedIn.value}</bdi></b></span><button class="little" onClick={() => void leave()}>Sign out</button></p>;
  return (
    <form class="row small" onSubmit={(event) => { event.preventDefault(); void enter(name.current?.value ?? ''); }}>
      <label class="row">try it as <input ref={name} class="operator" value="parwana" autocomplete="username" /></label><button class="little first">Sign in</button>
    </form>
  );
}

const machine = matchMedia('(prefers-color-scheme: dark)');
const dark = signal(machine.matches);
machine.addEventListener('change', () => (dark.value = machine.matches));

function Document({ service }: { service: keyof typeof services }) {
  const place = useRef<HTMLElement>(null);
  const colours = theme.value || (dark.value ? 'dark' : 'light');
  useEffect(() => {
    let left = false;
    void import('rapidoc/dist/rapidoc-min.js').then(() => {
      if (left || place.current === null) return;
      const style = getComputedStyle(document.documentElement);
      const colour = (name: string): string => {
        // The library computes with colours, and knows them as #rrggbb alone.
        const probe = document.createElement('i');
        probe.style.color = `var(${name})`;
        document.body.append(probe);
        const rgb = getComputedStyle(probe).color.match(/\d+/g) ?? [];
        probe.remove();
        return `#${rgb.slice(0, 3).map((part) => Number(part).toString(16).padStart(2, '0')).join('')}`;
      };
      const element = document.createElement('rapi-doc');
      const attributes = {
        'spec-url': `/reference/${service}.yaml`, 'server-url': `${location.origin}/bff/${service}/v1`, 'default-api-server': `${location.origin}/bff/${service}/v1`,
        theme: colours, 'bg-color': colour('--paper'), 'text-color': colour('--ink'), 'primary-color': colour('--lapis'), 'nav-bg-color': colour('--sunk'), 'nav-text-color': colour('--ink'), 'nav-accent-color': colour('--saffron'),
        'regular-font': style.getPropertyValue('--text'), 'mono-font': style.getPropertyValue('--mono'), 'load-fonts': 'false',
        'render-style': 'focused', 'show-header': 'false', 'allow-authentication': 'false', 'allow-server-selection': 'false', 'allow-spec-url-load': 'false', 'allow-spec-file-load': 'false',
        'show-method-in-nav-bar': 'as-colored-text', 'use-path-in-nav-bar': 'true', 'nav-item-spacing': 'relaxed', 'schema-style': 'tree', 'schema-description-expanded': 'true', 'allow-advanced-search': 'false',
        'fetch-credentials': 'same-origin', 'persist-auth': 'false', 'sort-tags': 'false', 'show-curl-before-try': 'true', 'fill-request-fields-with-example': 'true', 'update-route': 'true', 'route-prefix': '#',
      };
      for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
      place.current.replaceChildren(element);
    });
    return () => void (left = true);
  }, [service, colours]);
  return <main ref={place} class="reference" id="main" aria-label={`API for ${services[service].toLowerCase()}`}><p class="state">Reading the contract …</p></main>;
}

render(<Reference />, document.getElementById('page')!);
