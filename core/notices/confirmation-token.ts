import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto';
import type { KeyRing } from '../security/secrets.ts';

/** The path of the page that the link opens, on a gateway. */
export const CONFIRMATION_PATH = '/confirm-address';

/** The claim that the link of a mail confirms. */
export interface ConfirmationClaim {
  /** The id of the request for it, for the audit log. */
  readonly id: string;
  readonly organizationId: string;
  readonly email: string;
  /** Epoch ms. */
  readonly expiresAt: number;
}

/** Binds the signature to this purpose: the same keys seal the secrets of destinations. */
const PURPOSE = 'tributary confirmation of a mail address v1';
const KEY_BYTES = 32;
const TOKEN = /^(?<claim>[A-Za-z0-9_-]{1,3000})\.(?<signature>[A-Za-z0-9_-]{43})$/;

/** A token that proves that its holder read a mail to the address. Any process with the keys verifies it. */
export function signConfirmation(ring: KeyRing, claim: ConfirmationClaim): string {
  const first = ring.values().next().value;
  if (first === undefined) throw new Error('no secret key to sign with');
  const { id, organizationId, email, expiresAt } = claim;
  const text = Buffer.from(JSON.stringify([id, organizationId, email, expiresAt])).toString('base64url');
  return `${text}.${signatureOf(first, text).toString('base64url')}`;
}

/** The claim of a token; undefined where no key of the ring signed it, or it has expired. */
export function verifyConfirmation(ring: KeyRing, token: string, now: number): ConfirmationClaim | undefined {
  const { claim, signature } = TOKEN.exec(token)?.groups ?? {};
  if (claim === undefined || signature === undefined) return undefined;
  const given = Buffer.from(signature, 'base64url');
  if (![...ring.values()].some((key) => timingSafeEqual(signatureOf(key, claim), given))) return undefined;
  const [id, organizationId, email, expiresAt] = JSON.parse(
    Buffer.from(claim, 'base64url').toString(),
  ) as readonly [string, string, string, number]; // signed by `signConfirmation`
  return now < expiresAt ? { id, organizationId, email, expiresAt } : undefined;
}

function signatureOf(key: Uint8Array, text: string): Buffer {
  const derived = Buffer.from(hkdfSync('sha256', key, '', PURPOSE, KEY_BYTES));
  return createHmac('sha256', derived).update(text).digest();
}
