import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { HmacSignature, SourceWebhook } from '@tributary/core';
import type { ErrorDetail } from '../../errors/api-error.ts';

/** A webhook of a source with its secrets in clear text. */
export type OpenedWebhook = Omit<SourceWebhook, 'secrets'> & { readonly secrets: readonly string[] };

/** The age of a signature with a time, and how far it may be in the future, seconds at most. */
const TOLERANCE_SECONDS = 300;

/**
 * Verifies that a body was signed with one of the secrets. Returns the fault of a header, named in `path`; undefined when
 * the signature is right, and for the kind `none`. `body`: as it was sent, without content codings. `now`: epoch ms.
 */
export function signatureFault(
  webhook: OpenedWebhook,
  headers: IncomingHttpHeaders,
  body: Buffer,
  now: number,
): ErrorDetail | undefined {
  switch (webhook.kind) {
    case 'none':
      return undefined;
    case 'github':
      return plainFault(webhook.secrets, headers, body, GITHUB);
    case 'shopify':
      return plainFault(webhook.secrets, headers, body, SHOPIFY);
    case 'hmac':
      // The schema of sources requires it for this kind.
      return webhook.hmac === undefined
        ? { path: '', message: 'the source does not say how requests are signed' }
        : plainFault(webhook.secrets, headers, body, webhook.hmac);
    case 'stripe':
      return stripeFault(webhook.secrets, headers, body, now);
    case 'standard':
      return standardFault(webhook.secrets, headers, body, now);
  }
}

const GITHUB: HmacSignature = {
  header: 'X-Hub-Signature-256',
  algorithm: 'sha256',
  encoding: 'hex',
  prefix: 'sha256=',
};

const SHOPIFY: HmacSignature = {
  header: 'X-Shopify-Hmac-Sha256',
  algorithm: 'sha256',
  encoding: 'base64',
  prefix: '',
};

function plainFault(
  secrets: readonly string[],
  headers: IncomingHttpHeaders,
  body: Buffer,
  { header, algorithm, encoding, prefix }: HmacSignature,
): ErrorDetail | undefined {
  const given = headerOf(headers, header);
  if (given === undefined) return missing(header);
  if (!given.startsWith(prefix))
    return { path: header, message: `must begin with ${JSON.stringify(prefix)}` };
  const text = given.slice(prefix.length);
  const signature = encoding === 'hex' ? text.toLowerCase() : text;
  const isSigned = secrets.some((secret) =>
    isSame(signature, createHmac(algorithm, secret).update(body).digest(encoding)),
  );
  return isSigned ? undefined : wrong(header);
}

const STRIPE = 'Stripe-Signature';

/** `t=<seconds>,v1=<hex>,v1=<hex>`: one `v1` for each secret that the sender has; other schemes are ignored. */
function stripeFault(
  secrets: readonly string[],
  headers: IncomingHttpHeaders,
  body: Buffer,
  now: number,
): ErrorDetail | undefined {
  const given = headerOf(headers, STRIPE);
  if (given === undefined) return missing(STRIPE);
  const parts = given.split(',').map((part) => part.trim());
  const valuesOf = (name: string) =>
    parts.filter((part) => part.startsWith(`${name}=`)).map((part) => part.slice(name.length + 1));
  const [time = '', ...otherTimes] = valuesOf('t');
  const signatures = valuesOf('v1');
  if (!SECONDS.test(time) || otherTimes.length > 0 || signatures.length === 0)
    return { path: STRIPE, message: 'does not have the form t=<seconds>,v1=<hex>' };
  return (
    signedFault(STRIPE, secrets, signatures, (secret) =>
      createHmac('sha256', secret).update(`${time}.`).update(body).digest('hex'),
    ) ?? ageFault(STRIPE, time, now)
  );
}

const STANDARD_ID = 'webhook-id';
const STANDARD_TIME = 'webhook-timestamp';
const STANDARD_SIGNATURE = 'webhook-signature';

/** `v1,<base64> v1,<base64>`: one for each secret that the sender has; other versions are ignored. */
function standardFault(
  secrets: readonly string[],
  headers: IncomingHttpHeaders,
  body: Buffer,
  now: number,
): ErrorDetail | undefined {
  const [id, time, given] = [STANDARD_ID, STANDARD_TIME, STANDARD_SIGNATURE].map((name) =>
    headerOf(headers, name),
  );
  if (id === undefined) return missing(STANDARD_ID);
  if (time === undefined) return missing(STANDARD_TIME);
  if (given === undefined) return missing(STANDARD_SIGNATURE);
  if (!SECONDS.test(time)) return { path: STANDARD_TIME, message: 'must be seconds since 1970' };
  const signatures = given
    .split(' ')
    .filter((one) => one.startsWith('v1,'))
    .map((one) => one.slice(3));
  if (signatures.length === 0)
    return { path: STANDARD_SIGNATURE, message: 'does not have the form v1,<base64>' };
  return (
    signedFault(STANDARD_SIGNATURE, secrets, signatures, (secret) =>
      createHmac('sha256', standardKeyOf(secret)).update(`${id}.${time}.`).update(body).digest('base64'),
    ) ?? ageFault(STANDARD_TIME, time, now)
  );
}

const STANDARD_PREFIX = 'whsec_';

/** A secret of Standard Webhooks: base64 behind a prefix. Senders should have 24 bytes; some have less. */
export const STANDARD_SECRET = /^whsec_(?=.{16})(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2,3}={0,2})?$/;

function standardKeyOf(secret: string): Buffer {
  return Buffer.from(secret.slice(STANDARD_PREFIX.length), 'base64');
}

function signedFault(
  header: string,
  secrets: readonly string[],
  signatures: readonly string[],
  sign: (secret: string) => string,
): ErrorDetail | undefined {
  const isSigned = secrets.some((secret) => {
    const expected = sign(secret);
    return signatures.some((signature) => isSame(signature, expected));
  });
  return isSigned ? undefined : wrong(header);
}

const SECONDS = /^\d{1,11}$/;

/** Evaluated after the signature: only the sender learns that its clock is wrong. */
function ageFault(header: string, time: string, now: number): ErrorDetail | undefined {
  const age = Math.round(now / 1_000 - Number(time));
  if (Math.abs(age) <= TOLERANCE_SECONDS) return undefined;
  const when = age > 0 ? `${age} seconds ago` : `${-age} seconds in the future`;
  return { path: header, message: `was signed ${when}; at most ${TOLERANCE_SECONDS} are accepted` };
}

function missing(header: string): ErrorDetail {
  return { path: header, message: 'is required: it holds the signature' };
}

function wrong(header: string): ErrorDetail {
  return { path: header, message: 'is not the signature of this body by a secret of the source' };
}

/** Node joins repeated headers by a comma, so a repeated signature fits nothing. */
export function headerOf(headers: IncomingHttpHeaders, name: string): string | undefined {
  const value = headers[name.toLowerCase()];
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** In a time that does not depend on where both differ. */
function isSame(given: string, expected: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(expected)];
  return one.length === other.length && timingSafeEqual(one, other);
}
