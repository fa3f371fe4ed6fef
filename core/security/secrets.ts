import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import type { Json } from '../event/event.ts';

/** The keys that seal secrets: 32 bytes each, by key id. The first one seals; each opens what it sealed. */
export type KeyRing = ReadonlyMap<string, Uint8Array>;

export const SECRET_KEY_BYTES = 32;

type ParsedKeyRing =
  | { readonly ok: true; readonly ring: KeyRing }
  /** One message per fault; none contains key text. */
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

/** A secret at rest: `<kid>.<iv>.<tag and ciphertext>`, the last two in base64url. */
export interface Sealed {
  readonly $sealed: string;
}

/** The location of a secret, which its seal is bound to: sealed text that was copied elsewhere does not open. */
export interface SecretLocation {
  readonly kind: 'destination' | 'source';
  /** Of that entity. */
  readonly id: string;
  /** JSON pointer: of a destination below `settings`, e.g. `/secret`. */
  readonly path: string;
}

type Unsealed =
  | { readonly ok: true; readonly value: Json }
  /** `unknown_key`: no key with that id. `refused`: another key, another location, or altered text. */
  | { readonly ok: false; readonly fault: 'malformed' | 'unknown_key' | 'refused' };

const CIPHER = 'aes-256-gcm';
const IV_BYTES = 12;
const TAG_BYTES = 16;
const BASE64URL = /^[A-Za-z0-9_-]+$/;

export function isSealed(value: unknown): value is Sealed {
  return (
    typeof value === 'object' &&
    value !== null &&
    '$sealed' in value &&
    typeof value.$sealed === 'string' &&
    Object.keys(value).length === 1
  );
}

/** Seals a setting with the first key of the ring. Throws when the ring is empty: such a process must not start. */
export function seal(ring: KeyRing, location: SecretLocation, value: Json): Sealed {
  const first = ring.entries().next().value;
  if (first === undefined) throw new Error('no secret key to seal with');
  const [kid, key] = first;
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv(CIPHER, key, iv, { authTagLength: TAG_BYTES });
  cipher.setAAD(boundTo(location));
  const ciphertext = Buffer.concat([cipher.update(JSON.stringify(value), 'utf8'), cipher.final()]);
  const sealed = Buffer.concat([cipher.getAuthTag(), ciphertext]);
  return { $sealed: `${kid}.${iv.toString('base64url')}.${sealed.toString('base64url')}` };
}

export function unseal(ring: KeyRing, location: SecretLocation, sealed: Sealed): Unsealed {
  const [kid, ivText, text, ...rest] = sealed.$sealed.split('.');
  if (kid === undefined || ivText === undefined || text === undefined || rest.length > 0) return MALFORMED;
  if (!BASE64URL.test(ivText) || !BASE64URL.test(text)) return MALFORMED;
  const iv = Buffer.from(ivText, 'base64url');
  const bytes = Buffer.from(text, 'base64url');
  if (iv.length !== IV_BYTES || bytes.length <= TAG_BYTES) return MALFORMED;
  const key = ring.get(kid);
  return key === undefined ? { ok: false, fault: 'unknown_key' } : open(key, location, iv, bytes);
}

const MALFORMED: Unsealed = { ok: false, fault: 'malformed' };

function open(key: Uint8Array, location: SecretLocation, iv: Uint8Array, bytes: Uint8Array): Unsealed {
  const decipher = createDecipheriv(CIPHER, key, iv, { authTagLength: TAG_BYTES });
  decipher.setAAD(boundTo(location));
  decipher.setAuthTag(bytes.subarray(0, TAG_BYTES));
  try {
    const text = Buffer.concat([decipher.update(bytes.subarray(TAG_BYTES)), decipher.final()]).toString(
      'utf8',
    );
    return { ok: true, value: JSON.parse(text) as Json };
  } catch {
    return { ok: false, fault: 'refused' };
  }
}

function boundTo({ kind, id, path }: SecretLocation): Buffer {
  return Buffer.from(JSON.stringify([kind, id, path]), 'utf8');
}
