import { createHmac } from 'node:crypto';
import type { HmacSignature, WebhookKind } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { type OpenedWebhook, signatureFault } from './signature.ts';

const NOW = Date.parse('2026-03-01T12:00:00Z');
const SECONDS = String(NOW / 1_000);
const BODY = Buffer.from('{"id":"evt_1","amount":12.50}');
const ONE = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const OTHER = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD';

const HMAC: HmacSignature = { header: 'X-Signature', algorithm: 'sha512', encoding: 'base64', prefix: 'v0=' };

/** The headers of a sender, by the published description of its signature. */
const SENDERS: Readonly<
  Record<
    Exclude<WebhookKind, 'none'>,
    (secret: string, body: Buffer, seconds?: string) => Record<string, string>
  >
> = {
  github: (secret, body) => ({
    'x-hub-signature-256': `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`,
  }),
  shopify: (secret, body) => ({
    'x-shopify-hmac-sha256': createHmac('sha256', secret).update(body).digest('base64'),
  }),
  hmac: (secret, body) => ({
    'x-signature': `v0=${createHmac('sha512', secret).update(body).digest('base64')}`,
  }),
  stripe: (secret, body, seconds = SECONDS) => {
    const signature = createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex');
    return { 'stripe-signature': `t=${seconds},v0=${'0'.repeat(64)},v1=${signature}` };
  },
  standard: (secret, body, seconds = SECONDS) => {
    const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
    const signature = createHmac('sha256', key).update(`msg_1.${seconds}.${body}`).digest('base64');
    return {
      'webhook-id': 'msg_1',
      'webhook-timestamp': seconds,
      'webhook-signature': `v1a,AAAA v1,${signature}`,
    };
  },
};

const kinds = Object.keys(SENDERS) as (keyof typeof SENDERS)[];
const TIMED = ['stripe', 'standard'] as const;
const HEADERS = {
  github: 'X-Hub-Signature-256',
  shopify: 'X-Shopify-Hmac-Sha256',
  hmac: 'X-Signature',
  stripe: 'Stripe-Signature',
  standard: 'webhook-signature',
} as const;

function webhook(kind: WebhookKind, secrets: readonly string[] = [ONE]): OpenedWebhook {
  return { kind, secrets, ...(kind === 'hmac' && { hmac: HMAC }) };
}

describe.each(kinds)('the signature of %s', (kind) => {
  const sign = SENDERS[kind];

  it('is right by the secret and the bytes of the body', () => {
    expect(signatureFault(webhook(kind), sign(ONE, BODY), BODY, NOW)).toBeUndefined();
    const bytes = Buffer.from([0xff, 0x00, 0xef, 0xbb, 0xbf]);
    // Text of the bytes would hold other ones.
    if (kind === 'github' || kind === 'shopify' || kind === 'hmac')
      expect(signatureFault(webhook(kind), sign(ONE, bytes), bytes, NOW)).toBeUndefined();
  });

  it('is wrong by another secret, and for a body that differs in a byte', () => {
    const fault = {
      path: HEADERS[kind],
      message: 'is not the signature of this body by a secret of the source',
    };
    expect(signatureFault(webhook(kind), sign(OTHER, BODY), BODY, NOW)).toEqual(fault);
    for (const at of BODY.keys()) {
      const changed = Buffer.from(BODY);
      changed[at] = (changed[at] ?? 0) ^ 1;
      expect(signatureFault(webhook(kind), sign(ONE, BODY), changed, NOW)).toEqual(fault);
    }
    const more = Buffer.concat([BODY, Buffer.from(' ')]);
    expect(signatureFault(webhook(kind), sign(ONE, BODY), more, NOW)).toEqual(fault);
  });

  it('is right by either of two secrets, while they are changed', () => {
    const both = webhook(kind, [OTHER, ONE]);
    for (const secret of [ONE, OTHER])
      expect(signatureFault(both, sign(secret, BODY), BODY, NOW)).toBeUndefined();
  });

  it('names each header that is missing', () => {
    const headers = sign(ONE, BODY);
    for (const name of Object.keys(headers)) {
      const { [name]: _, ...others } = headers;
      const fault = signatureFault(webhook(kind), others, BODY, NOW);
      expect(fault?.path.toLowerCase()).toBe(name);
      expect(fault?.message).toContain('is required');
      expect(signatureFault(webhook(kind), { ...others, [name]: '' }, BODY, NOW)).toEqual(fault);
    }
  });

  it('is wrong when a header is repeated, which Node joins, unless it is a list of signatures', () => {
    const headers = sign(ONE, BODY);
    for (const [name, value] of Object.entries(headers)) {
      if (name === 'webhook-signature') continue;
      const joined = { ...headers, [name]: `${value}, ${value}` };
      expect(signatureFault(webhook(kind), joined, BODY, NOW)).toBeDefined();
    }
  });

  it('is wrong in another form', () => {
    const headers = sign(ONE, BODY);
    const name = HEADERS[kind].toLowerCase();
    const value = headers[name] ?? '';
    for (const other of [
      'x',
      `${value}=`,
      `${value}0`,
      value.slice(0, -1),

      '\u00e9',
    ])
      expect(signatureFault(webhook(kind), { ...headers, [name]: other }, BODY, NOW)?.path).toBe(
        HEADERS[kind],
      );
  });
});

describe.each(TIMED)('the time of a signature of %s', (kind) => {
  const sign = SENDERS[kind];
  const path = kind === 'stripe' ? 'Stripe-Signature' : 'webhook-timestamp';
  const at = (seconds: number) =>
    signatureFault(webhook(kind), sign(ONE, BODY, String(NOW / 1_000 + seconds)), BODY, NOW);

  it('is at most five minutes from now', () => {
    for (const seconds of [-300, 0, 300]) expect(at(seconds)).toBeUndefined();
    expect(at(-301)).toEqual({ path, message: 'was signed 301 seconds ago; at most 300 are accepted' });
    expect(at(301)).toEqual({
      path,
      message: 'was signed 301 seconds in the future; at most 300 are accepted',
    });
  });

  it.each(['', 'now', '1e9', '-5', ' 5', '9'.repeat(40)])('is whole seconds, and not %j', (time) => {
    expect(signatureFault(webhook(kind), sign(ONE, BODY, time), BODY, NOW)?.path).toBe(path);
  });
});

it('one signature of several of a header is enough, as while the sender changes its secret', () => {
  const stripe = `t=${SECONDS},v1=${'0'.repeat(64)},${SENDERS.stripe(ONE, BODY)['stripe-signature']?.split(',')[2]}`;
  expect(signatureFault(webhook('stripe'), { 'stripe-signature': stripe }, BODY, NOW)).toBeUndefined();
  const standard = SENDERS.standard(ONE, BODY);
  const two = `v1,${'A'.repeat(43)}= ${standard['webhook-signature']}`;
  const headers = { ...standard, 'webhook-signature': two };
  expect(signatureFault(webhook('standard'), headers, BODY, NOW)).toBeUndefined();
});

it('two times in a header of Stripe are refused, as one of them is not signed', () => {
  const headers = { 'stripe-signature': `${SENDERS.stripe(ONE, BODY)['stripe-signature']},t=${SECONDS}` };
  expect(signatureFault(webhook('stripe'), headers, BODY, NOW)).toEqual({
    path: 'Stripe-Signature',
    message: 'does not have the form t=<seconds>,v1=<hex>',
  });
});

it('hexadecimal digits may be upper case', () => {
  const [signature = ''] = Object.values(SENDERS.github(ONE, BODY));
  const upper = `sha256=${signature.slice('sha256='.length).toUpperCase()}`;
  expect(signatureFault(webhook('github'), { 'x-hub-signature-256': upper }, BODY, NOW)).toBeUndefined();
});

it('no signature is needed for the kind none, and none is right without a secret', () => {
  expect(signatureFault(webhook('none', []), {}, BODY, NOW)).toBeUndefined();
  for (const kind of kinds)
    expect(signatureFault(webhook(kind, []), SENDERS[kind]('', BODY), BODY, NOW)).toBeDefined();
});
