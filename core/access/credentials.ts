import { hash } from 'node:crypto';
import type { Environment } from '../event/event.ts';

export type KeyKind = 'write_key' | 'api_key' | 'client_key';

const PREFIXES = {
  'write_key:production': 'trb_wk_prod_',
  'write_key:development': 'trb_wk_dev_',
  api_key: 'trb_api_',
  client_key: 'trb_client_',
} as const;

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
/** 43 characters of base 62 hold 256 bits. */
const RANDOM_LENGTH = 43;
/** A checksum of 6 characters of base 62: mistyped keys are detected without a look-up. */
const CHECKSUM_LENGTH = 6;
const SHOWN_RANDOM = 6;

/** A new key: the raw text is shown once and not stored; the hash identifies it. */
interface NewKey {
  readonly raw: string;
  /** SHA-256 of the raw key, hex. */
  readonly hash: string;
  /** The start of the raw key, shown in lists. */
  readonly prefix: string;
}

interface ParsedKey {
  readonly kind: KeyKind;
  readonly hash: string;
}

function base62(bytes: Uint8Array, length: number): string {
  let number = BigInt(`0x${Buffer.from(bytes).toString('hex') || '0'}`);
  let text = '';
  for (let i = 0; i < length; i++) {
    text = (ALPHABET[Number(number % 62n)] ?? '0') + text;
    number /= 62n;
  }
  return text;
}

function checksum(body: string): string {
  return base62(hash('sha256', body, 'buffer').subarray(0, 8), CHECKSUM_LENGTH);
}

export function hashKey(raw: string): string {
  return hash('sha256', raw);
}

/** Creates a key from 32 random bytes. `environment` applies to write keys only. */
export function makeKey(kind: KeyKind, random: Uint8Array, environment: Environment = 'production'): NewKey {
  const fixed = kind === 'write_key' ? PREFIXES[`write_key:${environment}`] : PREFIXES[kind];
  const body = fixed + base62(random, RANDOM_LENGTH);
  const raw = body + checksum(body);
  return { raw, hash: hashKey(raw), prefix: raw.slice(0, fixed.length + SHOWN_RANDOM) };
}

/** Parses a key with a valid checksum; undefined for any other text. */
export function parseKey(raw: string): ParsedKey | undefined {
  if (!raw.startsWith('trb_') || raw.length > 80) return undefined;
  for (const [name, fixed] of Object.entries(PREFIXES)) {
    if (!raw.startsWith(fixed)) continue;
    if (raw.length !== fixed.length + RANDOM_LENGTH + CHECKSUM_LENGTH) return undefined;
    const body = raw.slice(0, -CHECKSUM_LENGTH);
    if (checksum(body) !== raw.slice(-CHECKSUM_LENGTH)) return undefined;
    return {
      kind: name.startsWith('write_key') ? 'write_key' : name === 'api_key' ? 'api_key' : 'client_key',
      hash: hashKey(raw),
    };
  }
  return undefined;
}

/** The fields of a key that limit its validity. */
interface Lifetime {
  readonly status: 'active' | 'revoked';
  /** ISO 8601; absent or null: it does not expire. */
  readonly expires_at?: string | null;
}

/** Whether a key is valid at `now`, epoch ms: neither revoked nor expired. */
export function isUsable({ status, expires_at }: Lifetime, now: number): boolean {
  return status === 'active' && (expires_at == null || now < Date.parse(expires_at));
}

/** Accepted signature algorithms of ID tokens, by their JWS names: asymmetric ones only. */
export const SIGNATURE_ALGORITHMS = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
] as const;

/** The limit of RFC 5321. */
const MAX_LENGTH = 254;
const ADDRESS = /^[^\s@\p{Cc}]+@[^\s@\p{Cc}]+$/u;

/**
 * Normalises an e-mail address for comparison; undefined for any other text. Only ASCII letters are lower-cased:
 * Unicode maps some others to ASCII (the Kelvin sign to `k`), which would make two mailboxes one account.
 */
export function normalizeEmail(text: string): string | undefined {
  if (text.length > MAX_LENGTH || !ADDRESS.test(text)) return undefined;
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}
