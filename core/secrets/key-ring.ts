/** The keys that seal secrets: 32 bytes each, by key id. The first one seals, every one opens what it sealed. */
export type KeyRing = ReadonlyMap<string, Uint8Array>;

export const SECRET_KEY_BYTES = 32;

export type ParsedKeyRing =
  | { readonly ok: true; readonly ring: KeyRing }
  /** One message for every fault; none holds any of a key's text. */
  | { readonly ok: false; readonly errors: readonly string[] };

const KEY_ID = /^[A-Za-z0-9_-]{1,32}$/;
/** Base64 of exactly 32 bytes, padded or not. */
const KEY_TEXT = /^[A-Za-z0-9+/]{43}=?$/;

/** Reads `<kid>:<base64>,<kid>:<base64>,...`; spaces around the parts are ignored. */
export function parseKeyRing(text: string): ParsedKeyRing {
  const ring = new Map<string, Uint8Array>();
  const errors: string[] = [];
  for (const [index, part] of text.split(',').entries()) {
    const colon = part.indexOf(':');
    const kid = part.slice(0, Math.max(colon, 0)).trim();
    const key = part.slice(colon + 1).trim();
    if (colon < 0) errors.push(`key ${index + 1}: expected <kid>:<base64>`);
    else if (!KEY_ID.test(kid)) errors.push(`key ${index + 1}: the key id must match ${KEY_ID.source}`);
    else if (ring.has(kid)) errors.push(`key ${index + 1}: the key id ${kid} is there twice`);
    else if (!KEY_TEXT.test(key))
      errors.push(`key ${index + 1}: expected ${SECRET_KEY_BYTES} bytes in base64`);
    else ring.set(kid, Buffer.from(key, 'base64'));
  }
  return errors.length === 0 ? { ok: true, ring } : { ok: false, errors };
}
