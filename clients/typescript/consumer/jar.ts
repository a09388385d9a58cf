interface Cookie {
  readonly name: string;
  readonly value: string;
  readonly host: string;
  /** Sent to subdomains of the host, too. */
  readonly wide: boolean;
  readonly path: string;
  readonly secure: boolean;
  /** In milliseconds since 1970; undefined for a cookie of the session. */
  readonly expires: number | undefined;
}

/**
 * The cookies of one guest, for Node and other runtimes that keep none.
 *
 * One jar is one guest: a jar that is shared by requests of several guests gives
 * them one another's wishlists. Make one for each incoming request, or one for each test.
 */
export class CookieJar {
  readonly #now: () => number;
  readonly #cookies = new Map<string, Cookie>();
  #received: string[] = [];
  #inside: string | undefined;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  /**
   * A jar with the cookies that a guest's browser sent, for calls to the given API on the guest's behalf. Servers call it
   * within their own network, so that cookies that are `Secure` go there over plain http as well.
   */
  static of(cookieHeader: string | null | undefined, baseUrl: string): CookieJar {
    const jar = new CookieJar();
    jar.#inside = new URL(baseUrl).origin;
    for (const pair of (cookieHeader ?? '').split(';')) {
      if (pair.includes('=')) jar.#keep(new URL(baseUrl), `${pair.trim()}; Path=/`);
    }
    return jar;
  }

  /** The `Set-Cookie` lines of all answers, to be passed on to the guest's browser. */
  get received(): readonly string[] {
    return this.#received;
  }

  /** The cookies for an address, as the header `Cookie` has them; empty if there are none. */
  header(address: string | URL): string {
    const url = new URL(address);
    const now = this.#now();
    return [...this.#cookies.values()]
      .filter((c) => (c.expires === undefined || c.expires > now) && (!c.secure || this.#trusts(url)) && within(url.hostname, c.host, c.wide) && below(url.pathname, c.path))
      .sort((a, b) => b.path.length - a.path.length)
      .map((c) => `${c.name}=${c.value}`)
      .join('; ');
  }

  /** Takes over the cookies of an answer. */
  take(address: string | URL, headers: Headers): void {
    for (const line of headers.getSetCookie()) {
      if (this.#keep(new URL(address), line)) this.#received.push(line);
    }
  }

  /** A `fetch` for clients: it sends the jar's cookies and keeps those of the answers. */
  readonly fetch: typeof fetch = async (input, init) => {
    const url = typeof input === 'string' || input instanceof URL ? input : input.url;
    const headers = new Headers(init?.headers);
    const cookies = this.header(url);
    if (cookies !== '') headers.set('Cookie', cookies);
    const response = await fetch(input, { ...init, headers, redirect: 'manual' });
    this.take(url, response.headers);
    return response;
  };

  /** Whether cookies that are `Secure` go there: as browsers have it, on loopback too. */
  #trusts(url: URL): boolean {
    return url.protocol === 'https:' || url.origin === this.#inside || /^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/.test(url.hostname);
  }

  #keep(url: URL, line: string): boolean {
    const [pair = '', ...attributes] = line.split(';');
    const cut = pair.indexOf('=');
    const name = pair.slice(0, cut).trim();
    if (cut < 0 || name === '') return false;
    let host = url.hostname;
    let wide = false;
    let path = url.pathname.slice(0, Math.max(1, url.pathname.lastIndexOf('/')));
    let secure = false;
    let expires: number | undefined;
    let lives: number | undefined;
    for (const attribute of attributes) {
      const [key = '', ...rest] = attribute.split('=');
      const value = rest.join('=').trim();
      switch (key.trim().toLowerCase()) {
        case 'domain':
          wide = value !== '';
          if (wide) host = value.replace(/^\./, '').toLowerCase();
          break;
        case 'path':
          path = value.startsWith('/') ? value : '/';
          break;
        case 'secure':
          secure = true;
          break;
        case 'max-age':
          if (/^-?\d+$/.test(value)) lives = this.#now() + Number(value) * 1_000;
          break;
        case 'expires':
          expires = Date.parse(value) || undefined;
          break;
      }
    }
    if (!within(url.hostname, host, wide)) return false;
    if ((secure || name.startsWith('__Host-') || name.startsWith('__Secure-')) && !this.#trusts(url)) return false;
    const cookie: Cookie = { name, value: pair.slice(cut + 1).trim(), host, wide, path, secure, expires: lives ?? expires };
    const key = `${name};${host};${path}`;
    if (cookie.expires !== undefined && cookie.expires <= this.#now()) this.#cookies.delete(key);
    else this.#cookies.set(key, cookie);
    return true;
  }
}

function within(hostname: string, host: string, wide: boolean): boolean {
  return hostname === host || (wide && hostname.endsWith(`.${host}`));
}

function below(pathname: string, path: string): boolean {
  return pathname === path || pathname.startsWith(path.endsWith('/') ? path : `${path}/`);
}
