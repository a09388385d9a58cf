/** What is searched for: the number whose SHA-256 behind the salt is the challenge. */
export interface Puzzle {
  readonly challenge: string;
  readonly salt: string;
}

/**
 * Returns a function that looks for the number between two bounds, both included, and answers -1 if it is
 * not there.
 *
 * The function hashes by itself: pages on plain http have no `crypto.subtle`, and for so short a text an
 * asynchronous digest takes several times as long. It names nothing outside its own body, so that its source text is a worker's
 * whole program.
 */
export function searcher({ challenge, salt }: Puzzle): (first: number, last: number) => number {
  // FIPS 180-4: the fractional parts of the roots of the first primes.
  const primes: number[] = [];
  for (let n = 2; primes.length < 64; n++) if (primes.every((p) => n % p !== 0)) primes.push(n);
  const fraction = (x: number): number => ((x - Math.floor(x)) * 2 ** 32) | 0;
  const start = Int32Array.from(primes.slice(0, 8), (p) => fraction(Math.sqrt(p)));
  const rounds = Int32Array.from(primes, (p) => fraction(Math.cbrt(p)));
  const w = new Int32Array(64);

  const compress = (state: Int32Array, bytes: Uint8Array, at: number): void => {
    for (let i = 0; i < 16; i++) {
      const j = at + 4 * i;
      w[i] = (bytes[j]! << 24) | (bytes[j + 1]! << 16) | (bytes[j + 2]! << 8) | bytes[j + 3]!;
    }
    for (let i = 16; i < 64; i++) {
      const x = w[i - 15]!;
      const y = w[i - 2]!;
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3);
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10);
      w[i] = (w[i - 16]! + s0 + w[i - 7]! + s1) | 0;
    }
    let a = state[0]!, b = state[1]!, c = state[2]!, d = state[3]!, e = state[4]!, f = state[5]!, g = state[6]!, h = state[7]!;
    for (let i = 0; i < 64; i++) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7));
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + rounds[i]! + w[i]!) | 0;
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10));
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      h = g;
      g = f;
      f = e;
      e = (d + t1) | 0;
      d = c;
      c = b;
      b = a;
      a = (t1 + t2) | 0;
    }
    state[0]! += a;
    state[1]! += b;
    state[2]! += c;
    state[3]! += d;
    state[4]! += e;
    state[5]! += f;
    state[6]! += g;
    state[7]! += h;
  };

  const wanted = Int32Array.from({ length: 8 }, (_, i) => parseInt(challenge.slice(8 * i, 8 * i + 8), 16) | 0);
  const prefix = new TextEncoder().encode(salt);
  // Whole blocks of the salt are hashed once for all numbers.
  const whole = prefix.length - (prefix.length % 64);
  const begun = start.slice();
  for (let at = 0; at < whole; at += 64) compress(begun, prefix, at);
  const rest = prefix.slice(whole);
  const state = new Int32Array(8);

  let tail = new Uint8Array(0);
  let length = 0; // of the number that the tail has room for

  return (first, last) => {
    for (let n = first; n <= last; n++) {
      const digits = String(n);
      if (digits.length !== length) {
        length = digits.length;
        const size = rest.length + length;
        tail = new Uint8Array(size + 9 > 64 ? 128 : 64);
        tail.set(rest);
        tail[size] = 0x80;
        new DataView(tail.buffer).setUint32(tail.length - 4, (whole + size) * 8);
      }
      for (let i = 0; i < length; i++) tail[rest.length + i] = digits.charCodeAt(i);
      state.set(begun);
      for (let at = 0; at < tail.length; at += 64) compress(state, tail, at);
      if (state[0] === wanted[0] && state.every((word, i) => word === wanted[i])) return n;
    }
    return -1;
  };
}
