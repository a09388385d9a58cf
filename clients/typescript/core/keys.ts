const letters = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';

/** A fresh ULID. Pages on plain http have no `crypto.randomUUID`, but they have random values. */
export function ulid(now = Date.now()): string {
  let head = '';
  for (let i = 0, rest = now; i < 10; i++, rest = Math.floor(rest / 32)) head = letters.charAt(rest % 32) + head;
  return head + Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => letters.charAt(byte % 32)).join('');
}
