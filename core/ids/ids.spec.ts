import { expect, it } from 'vitest';
import { deliveryId, nameId, newId, timeOfId } from './ids.ts';

it('an id of version 7 tells when it was made; no other text does', () => {
  const before = Date.now();
  const at = timeOfId(newId()) ?? 0;
  expect(at).toBeGreaterThanOrEqual(before - 1);
  expect(at).toBeLessThanOrEqual(Date.now() + 1_000);
  for (const other of [nameId('a'), 'order-1', '', '00000000-0000-0000-0000-000000000000'])
    expect(timeOfId(other)).toBeUndefined();
});

it('a delivery has one id, that of each replay another', () => {
  const event = { environment: 'production', message_id: 'm' };
  const ids = [
    deliveryId('r', event, 0),
    deliveryId('r', event, 1),
    deliveryId('s', event, 0),
    deliveryId('r', event, 0, 'replay-1'),
    deliveryId('r', event, 0, 'replay-2'),
  ];
  expect(new Set(ids).size).toBe(ids.length);
  expect(deliveryId('r', event, 0)).toBe(nameId('r', 'production:m:0'));
});
