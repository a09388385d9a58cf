// Brings a page back when it is loaded without a line: what it is made of, and nothing that it shows.
const page = new URL((self as unknown as { registration: { scope: string } }).registration.scope).pathname;
const shell = `${page.slice(1)}-shell`;

interface Asked extends Event {
  readonly request: Request;
  respondWith(answer: Promise<Response>): void;
}

addEventListener('fetch', (event) => {
  const { request, respondWith } = event as Asked;
  const { origin, pathname } = new URL(request.url);
  if (request.method !== 'GET' || origin !== location.origin) return;
  if (request.mode === 'navigate' && pathname === page) respondWith.call(event, newest(request));
  else if (pathname.startsWith('/assets/') || pathname === '/favicon.svg') respondWith.call(event, kept(request));
});

/** The page of the server, and without one that of the last time. */
async function newest(request: Request): Promise<Response> {
  try {
    const answer = await fetch(request);
    if (answer.ok) await (await caches.open(shell)).put(page, answer.clone());
    return answer;
  } catch {
    return (await caches.match(page, { ignoreVary: true })) ?? Response.error();
  }
}

/** Names of files change with what is in them: one that is here is right. */
async function kept(request: Request): Promise<Response> {
  return (await caches.match(request.url, { ignoreVary: true })) ?? fetch(request);
}
