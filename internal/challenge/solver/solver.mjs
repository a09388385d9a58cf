// Solves the challenges of GET /challenge: finds the number whose SHA-256 together
// with the salt is the challenge. Plain ES module without dependencies; runs in a page, in
// a worker and in Node.

const MOST = 50_000_000; // what the server would ever ask for

/**
 * @param {{algorithm: string, challenge: string, maxnumber: number, salt: string, signature: string}} challenge
 * @param {{signal?: AbortSignal, onProgress?: (share: number) => void}} [options]
 * @returns {Promise<string>} the payload for the server
 */
export async function solve(challenge, { signal, onProgress } = {}) {
  const { algorithm, maxnumber, salt } = challenge;
  if (algorithm !== 'SHA-256') throw new Error(`cannot solve ${algorithm}`);
  if (!Number.isInteger(maxnumber) || maxnumber < 0 || maxnumber > MOST) throw new Error('maxnumber is out of range');
  const wanted = bytes(challenge.challenge);
  const encoder = new TextEncoder();
  const begin = performance.now();
  // Digests are asynchronous: many under way at once keep the machine busy.
  const batch = 256;
  for (let first = 0; first <= maxnumber; first += batch) {
    signal?.throwIfAborted();
    const size = Math.min(batch, maxnumber - first + 1);
    const digests = await Promise.all(
      Array.from({ length: size }, (_, i) => crypto.subtle.digest(algorithm, encoder.encode(salt + (first + i)))),
    );
    const hit = digests.findIndex((digest) => same(new Uint8Array(digest), wanted));
    if (hit >= 0) return encode(challenge, first + hit, performance.now() - begin);
    onProgress?.((first + size) / (maxnumber + 1));
  }
  throw new Error('no number solves this challenge');
}

/** The payload: base64 of a JSON object. */
function encode({ algorithm, challenge, salt, signature }, number, took) {
  return btoa(JSON.stringify({ algorithm, challenge, number, salt, signature, took: Math.round(took) }));
}

function bytes(hex) {
  if (!/^[0-9a-f]{64}$/.test(hex)) throw new Error('the challenge is no SHA-256');
  return Uint8Array.from(hex.match(/../g), (pair) => Number.parseInt(pair, 16));
}

function same(a, b) {
  return a.every((byte, i) => byte === b[i]);
}
