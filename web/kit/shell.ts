// Keeps a page where its worker (shellworker.ts) finds it when there is no line.

/** Keeps the page for a reload, once it is drawn: what this load was made of, and the address. */
export function keepPage(path: string): void {
  const { worker } = document.body.dataset;
  if (worker === undefined || !('serviceWorker' in navigator) || !navigator.onLine) return;
  addEventListener('load', () => void document.fonts.ready.then(() => keep(worker, path)).catch(() => undefined));
}

async function keep(worker: string, path: string): Promise<void> {
  await navigator.serviceWorker.register(worker, { scope: path });
  const cache = await caches.open(`${path.slice(1)}-shell`);
  await document.fonts.load(`1em ${getComputedStyle(document.body).fontFamily}`, '؋'); // no amount may have been shown yet
  const made = performance.getEntriesByType('resource').map(({ name }) => new URL(name))
    .filter(({ origin, pathname }) => origin === location.origin && pathname.startsWith('/assets/'));
  const wanted = new Set(['/favicon.svg', ...made.map(({ pathname }) => pathname)]);
  await cache.put(path, await fetch(location.href)); // in the language that is read here
  for (const { url } of await cache.keys()) if (!wanted.has(new URL(url).pathname) && !url.endsWith(path)) await cache.delete(url);
  for (const one of wanted) await cache.add(one);
}
