import { nameId } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { type ReceivedWebhook, webhookItem } from './webhook-event.ts';

const SOURCE = '0198c5a2-7c1e-7b3a-9f60-2d1c5e8a4b70';

function received(
  webhook: ReceivedWebhook['webhook'],
  headers: ReceivedWebhook['headers'] = {},
): ReceivedWebhook {
  return { webhook, sourceId: SOURCE, headers, digest: 'd', changes: [] };
}

describe('the event of a webhook', () => {
  it('of GitHub has the id of the delivery, and the event with its action', () => {
    const headers = { 'x-github-event': 'issues', 'x-github-delivery': 'a-b', 'x-github-hook-id': '7' };
    const payload = { action: 'opened', issue: { number: 1 } };
    expect(webhookItem(payload, received({ kind: 'github' }, headers))).toEqual({
      type: 'track',
      event: 'issues.opened',
      message_id: 'a-b',
      anonymous_id: `github:${SOURCE}`,
      properties: payload,
      context: {
        webhook: {
          kind: 'github',
          id: 'a-b',
          headers: { 'x-github-event': 'issues', 'x-github-hook-id': '7' },
        },
      },
    });
    expect(webhookItem({}, received({ kind: 'github' }, { 'x-github-event': 'push' }))).toMatchObject({
      event: 'push',
    });
  });

  it('of Stripe has id, type and time of the payload', () => {
    const payload = { id: 'evt_1', type: 'invoice.paid', created: 1_767_225_600 };
    expect(webhookItem(payload, received({ kind: 'stripe' }))).toMatchObject({
      event: 'invoice.paid',
      message_id: 'evt_1',
      timestamp: '2026-01-01T00:00:00.000Z',
      context: { webhook: { kind: 'stripe', id: 'evt_1' } },
    });
  });

  it('of Shopify has id, topic and time of the headers', () => {
    const headers = {
      'x-shopify-webhook-id': 'w',
      'x-shopify-topic': 'orders/create',
      'x-shopify-triggered-at': '2026-01-01T01:00:00.5+01:00',
      'x-shopify-shop-domain': 'a.myshopify.com',
    };
    expect(webhookItem({ id: 820_982_911 }, received({ kind: 'shopify' }, headers))).toMatchObject({
      event: 'orders/create',
      message_id: 'w',
      timestamp: '2026-01-01T00:00:00.500Z',
      context: { webhook: { headers: { 'x-shopify-shop-domain': 'a.myshopify.com' } } },
    });
  });

  it('of Standard Webhooks has the time of the payload, else that of the attempt', () => {
    const headers = { 'webhook-id': 'msg_1', 'webhook-timestamp': '1767225600' };
    const of = (payload: Readonly<Record<string, string>>) =>
      webhookItem(payload, received({ kind: 'standard' }, headers));
    expect(of({ type: 'user.created', timestamp: '2025-12-31T00:00:00Z' })).toMatchObject({
      event: 'user.created',
      message_id: 'msg_1',
      timestamp: '2025-12-31T00:00:00.000Z',
    });
    expect(of({})).toMatchObject({ event: 'Webhook Received', timestamp: '2026-01-01T00:00:00.000Z' });
  });

  it('has at each place that the source names what is there, in a header or the payload', () => {
    const webhook = {
      kind: 'hmac',
      message_id: '/a~1b/0/id',
      event: 'X-Event',
      user_id: '/customer/id',
      anonymous_id: '/device',
      timestamp: '/at',
    } as const;
    const payload = { 'a/b': [{ id: 42 }], customer: { id: JSON.rawJSON('12345678901234567890') }, at: 1e12 };
    const item = webhookItem(
      // As reading a body makes it.
      payload as never,
      received(webhook, { 'x-event': 'paid' }),
    );
    expect(item).toMatchObject({
      event: 'paid',
      message_id: nameId('webhook', SOURCE, '42'),
      user_id: '12345678901234567890',
      timestamp: '2001-09-09T01:46:40.000Z',
      context: { webhook: { kind: 'hmac', id: '42', headers: { 'x-event': 'paid' } } },
    });
    expect(item).not.toHaveProperty('anonymous_id');
  });

  it.each([
    ['an empty text', ''],
    ['null', null],
    ['true', true],
    ['an object', { id: 1 }],
    ['a list', ['u']],
  ])('has the next best where the place holds %s', (_, value) => {
    const places = { message_id: '/x', event: '/x', user_id: '/x', timestamp: '/x' };
    expect(webhookItem({ x: value }, received({ kind: 'none', ...places }))).toEqual({
      type: 'track',
      event: 'Webhook Received',
      message_id: nameId('webhook body', SOURCE, 'd'),
      anonymous_id: `none:${SOURCE}`,
      properties: { x: value },
      context: { webhook: { kind: 'none' } },
    });
  });

  it.each(['/x/', '/x/01x', '/x/-', '/x/length', '/__proto__/x', '/constructor', '/'])(
    'has nothing at %s of a list',
    (place) => {
      const item = webhookItem({ x: ['first'] }, received({ kind: 'none', user_id: place }));
      expect(item).not.toHaveProperty('user_id');
    },
  );

  it('has no id of more than 100 characters, and notes a time that cannot be read', () => {
    const long = 'i'.repeat(101);
    const payload = { id: long, type: 'x', created: 'yesterday' };
    expect(webhookItem(payload, received({ kind: 'stripe' }))).toMatchObject({
      message_id: nameId('message', long),
      context: {
        webhook: { id: long },
        tributary: {
          changed: [
            { path: '/id', change: 'id_shortened' },
            { path: '/created', change: 'time_unreadable' },
          ],
        },
      },
    });
  });

  it.each([
    ['1767225600.5', '2026-01-01T00:00:00.500Z'],
    ['1767225600500', '2026-01-01T00:00:00.500Z'],
    ['999999999999999', undefined],
    ['2026-01-01', '2026-01-01T00:00:00.000Z'],
    ['2026-13-01', undefined],
  ])('reads the time %s as %s', (text, time) => {
    const item = webhookItem({ at: text }, received({ kind: 'none', timestamp: '/at' }));
    expect(item.timestamp).toBe(time);
  });
});
