import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseExact } from '../primitives/json.ts';
import type { Delivery } from './delivery.ts';
import { deliveryText, eventJson, readDelivery, withEventText, withFields } from './stored-delivery.ts';

const AT = '2026-01-02T03:04:05.678Z';
const WHOLE: Delivery = {
  id: 'd1',
  workspace_id: 'w1',
  environment: 'production',
  destination_id: 'place',
  rule_id: 'rule',
  message_id: 'd1',
  index: 0,
  created_at: AT,
  attempts: [],
  redrives: 0,
  event: {
    message_id: 'd1',
    type: 'identify',
    user_id: 'u',
    timestamp: AT,
    received_at: AT,
    environment: 'production',
    workspace_id: 'w1',
  },
};
const { event: EVENT, ...ENVELOPE } = WHOLE;
const TEXT = JSON.stringify(WHOLE);

/** Whether the event was left as text: then the trailing space is still there. */
const leavesText = (text: string) => eventJson(readDelivery(text) as Delivery).includes(' ');

describe('a delivery is read', () => {
  it('as it was written, whatever its event holds', () => {
    const tricky = fc.oneof(fc.json(), fc.constantFrom(',"event":{', '}}', '"', '\\', ',"event":{"a":1}}'));
    const properties = fc.dictionary(fc.oneof(fc.string(), fc.constant('event')), tricky);
    fc.assert(
      fc.property(properties, fc.string(), (held, id) => {
        const written = { ...WHOLE, id, message_id: id, event: { ...EVENT, properties: held, event: id } };
        const read = readDelivery(JSON.stringify(written)) as Delivery;
        expect(read).toEqual(written);
        expect(eventJson(read)).toBe(JSON.stringify(written.event));
      }),
    );
  });

  it('with its event as text where that stands last', () => {
    expect(leavesText(TEXT.replace(/\}\}$/, ' }}'))).toBe(true);
  });

  it.each([
    ['first', `{"event":${JSON.stringify(EVENT)} ,${JSON.stringify(ENVELOPE).slice(1)}`],
    ['first, with one of its own', `{"event":{"a":1,"event":{"b":2}},${JSON.stringify(ENVELOPE).slice(1)}`],
    ['in the midst', TEXT.replace(/\}$/, ',"redrives":0}')],
    ['before the end of the text', `${TEXT} `],
  ])('whole where its event stands %s', (_, text) => {
    expect(readDelivery(text)).toEqual(JSON.parse(text));
    expect(leavesText(text)).toBe(false);
  });

  it.each([
    ['', 'not JSON'],
    [TEXT.slice(0, -1), 'not JSON'],
    ['[]', 'not a JSON object'],
    [JSON.stringify({ ...WHOLE, id: 1 }), 'no delivery'],
    [JSON.stringify({ ...WHOLE, created_at: 'then' }), 'no time of creation'],
    [JSON.stringify({ ...WHOLE, attempts: {} }), 'no attempts'],
    [JSON.stringify(ENVELOPE), 'no event'],
    [JSON.stringify({ ...ENVELOPE, event: null }), 'no event'],
    [JSON.stringify({ ...ENVELOPE, event: 'text' }), 'no event'],
  ])('and refused when malformed: %s', (text, reason) => {
    expect(() => readDelivery(text)).toThrow(reason);
  });
});

const PLAIN_EVENT = {
  message_id: 'm',
  type: 'track' as const,
  timestamp: '2026-01-02T03:04:05.678Z',
  received_at: '2026-01-02T03:04:05.678Z',
  environment: 'production' as const,
  workspace_id: 'w',
};
const SPACED_TEXT = ` ${JSON.stringify(PLAIN_EVENT)}`;

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
    const delivery = withEventText(envelope(), SPACED_TEXT);
    expect(delivery.event).toEqual(PLAIN_EVENT);
    expect(delivery.event).toBe(delivery.event);
    expect(eventJson(delivery)).toBe(SPACED_TEXT);
  });

  it('is written, copied and compared like any other', () => {
    const plain = { ...envelope(), event: PLAIN_EVENT };
    expect(JSON.stringify(withEventText(envelope(), SPACED_TEXT))).toBe(JSON.stringify(plain));
    expect(withEventText(envelope(), SPACED_TEXT)).toEqual(plain);
    expect({ ...withEventText(envelope(), SPACED_TEXT), redrives: 1 }).toEqual({ ...plain, redrives: 1 });
  });

  it('gives no copy its text, which may have another event', () => {
    const event = { ...PLAIN_EVENT, user_id: 'other' };
    expect(eventJson({ ...withEventText(envelope(), SPACED_TEXT), event })).toBe(JSON.stringify(event));
    expect(eventJson({ ...withEventText(envelope(), SPACED_TEXT) })).toBe(JSON.stringify(PLAIN_EVENT));
  });

  it('keeps it where other members change, as with every attempt', () => {
    const text = '{"message_id":"m","n":12345678901234567890,"x":1.0}';
    const changed = withFields(withEventText(envelope(), text), { redrives: 1 });
    expect(changed.redrives).toBe(1);
    expect(eventJson(changed)).toBe(text);
    expect(deliveryText(changed)).toBe(
      `${JSON.stringify({ ...envelope(), redrives: 1 }).slice(0, -1)},"event":${text}}`,
    );
    expect(withFields({ ...envelope(), event: PLAIN_EVENT }, { redrives: 1 })).toEqual({
      ...envelope(),
      redrives: 1,
      event: PLAIN_EVENT,
    });
  });
});

const EXACT_EVENT = '{"message_id":"m1","type":"track","properties":{"n":1.0,"big":12345678901234567890}}';
const EXACT_TEXT =
  '{"id":"d1","workspace_id":"w","destination_id":"p","rule_id":"r","created_at":"2024-02-29T12:00:00.000Z",' +
  `"attempts":[],"redrives":0,"event":${EXACT_EVENT}}`;

describe('the text of a delivery', () => {
  it('is the text that was read, byte for byte', () => {
    expect(deliveryText(readDelivery(EXACT_TEXT))).toBe(EXACT_TEXT);
  });

  it('of a delivery that was made here has its event last', () => {
    const { event, ...rest } = readDelivery(EXACT_TEXT) as Delivery;
    const made: Delivery = { event, ...rest };
    const text = deliveryText(made);
    expect(parseExact(text)).toEqual({ ...rest, event });
    expect(text).toContain('"big":12345678901234567890');
    expect(text.endsWith(`"event":${JSON.stringify(event)}}`)).toBe(true);
  });

  it('leaves out absent fields', () => {
    expect(deliveryText({ ...readDelivery(EXACT_TEXT), replay: undefined } as never)).not.toContain('replay');
  });
});
