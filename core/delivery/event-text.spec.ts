import { describe, expect, it } from 'vitest';
import type { Delivery } from './delivery.ts';
import { deliveryText } from './delivery-text.ts';
import { eventJson, withEventText, withFields } from './event-text.ts';

const EVENT = {
  message_id: 'm',
  type: 'track' as const,
  timestamp: '2026-01-02T03:04:05.678Z',
  received_at: '2026-01-02T03:04:05.678Z',
  environment: 'production' as const,
  workspace_id: 'w',
};
const TEXT = ` ${JSON.stringify(EVENT)}`;

function envelope(): Omit<Delivery, 'event'> {
  return {
    id: 'd',
    workspace_id: 'w',
    environment: 'production',
    destination_id: 'place',
    rule_id: 'rule',
    message_id: 'm',
    index: 0,
    created_at: '2026-01-02T03:04:05.678Z',
    attempts: [],
    redrives: 0,
  };
}

describe('a delivery that keeps the text of its event', () => {
  it('has the event all the same, one object however often it is asked for', () => {
    const delivery = withEventText(envelope(), TEXT);
    expect(delivery.event).toEqual(EVENT);
    expect(delivery.event).toBe(delivery.event);
    expect(eventJson(delivery)).toBe(TEXT);
  });

  it('is written, copied and compared like any other', () => {
    const plain = { ...envelope(), event: EVENT };
    expect(JSON.stringify(withEventText(envelope(), TEXT))).toBe(JSON.stringify(plain));
    expect(withEventText(envelope(), TEXT)).toEqual(plain);
    expect({ ...withEventText(envelope(), TEXT), redrives: 1 }).toEqual({ ...plain, redrives: 1 });
  });

  it('gives no copy its text, which may have another event', () => {
    const event = { ...EVENT, user_id: 'other' };
    expect(eventJson({ ...withEventText(envelope(), TEXT), event })).toBe(JSON.stringify(event));
    expect(eventJson({ ...withEventText(envelope(), TEXT) })).toBe(JSON.stringify(EVENT));
  });

  it('keeps it where other members change, as with every attempt', () => {
    const text = '{"message_id":"m","n":12345678901234567890,"x":1.0}';
    const changed = withFields(withEventText(envelope(), text), { redrives: 1 });
    expect(changed.redrives).toBe(1);
    expect(eventJson(changed)).toBe(text);
    expect(deliveryText(changed)).toBe(
      `${JSON.stringify({ ...envelope(), redrives: 1 }).slice(0, -1)},"event":${text}}`,
    );
    expect(withFields({ ...envelope(), event: EVENT }, { redrives: 1 })).toEqual({
      ...envelope(),
      redrives: 1,
      event: EVENT,
    });
  });
});
