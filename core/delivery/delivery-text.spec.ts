import { expect, it } from 'vitest';
import { parseExact } from '../json/exact-numbers.ts';
import { deliveryText } from './delivery-text.ts';
import { readDelivery } from './read-delivery.ts';

const EVENT = '{"message_id":"m1","type":"track","properties":{"n":1.0,"big":12345678901234567890}}';
const TEXT =
  '{"id":"d1","workspace_id":"w","destination_id":"p","rule_id":"r","created_at":"2024-02-29T12:00:00.000Z",' +
  `"attempts":[],"redrives":0,"event":${EVENT}}`;

it('is the text that was read, byte for byte', () => {
  expect(deliveryText(readDelivery(TEXT))).toBe(TEXT);
});

it('of a delivery that was made here has its event last', () => {
  const { event, ...rest } = readDelivery(TEXT);
  const text = deliveryText({ event, ...rest });
  expect(parseExact(text)).toEqual({ ...rest, event });
  expect(text).toContain('"big":12345678901234567890');
  expect(text.endsWith(`"event":${JSON.stringify(event)}}`)).toBe(true);
});

it('leaves out what is not there', () => {
  expect(deliveryText({ ...readDelivery(TEXT), replay: undefined } as never)).not.toContain('replay');
});
