import { withEventText } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { sampleDelivery } from './delivery.fixture.ts';
import { deliveryBody, deliveryJson } from './delivery-body.ts';

const EVENT = { ...sampleDelivery('a').event, properties: { 'a "quote"': '\ud83d\ude00\u2028\\', n: 1.5 } };
const ATTEMPT = { at: '2024-02-29T12:00:00.000Z', outcome: 'retry', duration_ms: 5 } as const;

describe('a delivery as JSON', () => {
  it.each([
    ['a first try', {}],
    ['a later one', { attempts: [ATTEMPT, ATTEMPT] }],
    ['one of a replay', { replay: 're"play' }],
    ['ids that have to be escaped', { id: 'a"\\b', rule_id: '\n', destination_id: '"' }],
  ])('is what its body is as JSON: %s', (_, fields) => {
    const delivery = { ...sampleDelivery('a'), event: EVENT, ...fields };
    expect(deliveryJson(delivery)).toBe(JSON.stringify(deliveryBody(delivery)));
    const { event, ...envelope } = delivery;
    expect(deliveryJson(withEventText(envelope, JSON.stringify(event)))).toBe(deliveryJson(delivery));
  });

  it('holds the event as it is in the log', () => {
    const text = '{ "type" : "track", "value" : 1.0 }';
    const { event: _, ...envelope } = sampleDelivery('a');
    expect(deliveryJson(withEventText(envelope, text))).toContain(`"event":${text},`);
  });
});
