import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Delivery } from './delivery.ts';
import { eventJson } from './event-text.ts';
import { readDelivery } from './read-delivery.ts';
import { StoredDelivery } from './stored-delivery.ts';

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

/** Whether the event was left as text, at the end of which a space shows. */
const leavesText = (text: string) => eventJson(readDelivery(text)).includes(' ');

describe('a delivery is read', () => {
  it('as it was written, whatever its event holds', () => {
    const tricky = fc.oneof(fc.json(), fc.constantFrom(',"event":{', '}}', '"', '\\', ',"event":{"a":1}}'));
    const properties = fc.dictionary(fc.oneof(fc.string(), fc.constant('event')), tricky);
    fc.assert(
      fc.property(properties, fc.string(), (held, id) => {
        const written = { ...WHOLE, id, message_id: id, event: { ...EVENT, properties: held, event: id } };
        const read = readDelivery(JSON.stringify(written));
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
  ])('and refused for what it is not: %s', (text, reason) => {
    expect(() => readDelivery(text)).toThrow(reason);
  });
});

describe('a delivery as the log has it', () => {
  const attempt = {
    at: AT,
    outcome: 'retry',
    reason: ',"attempts":[],"redrives":0,"event":{',
    duration_ms: 1,
  };
  const isFresh = (fields: object) => StoredDelivery.from(JSON.stringify({ ...WHOLE, ...fields })).isFresh;

  it('shows whether it was tried, whatever it holds', () => {
    const inner = JSON.parse(TEXT);
    const hostile = { event: { ...EVENT, properties: { attempts: [], redrives: 0, event: inner } } };
    expect(isFresh({})).toBe(true);
    expect(isFresh(hostile)).toBe(true);
    expect(isFresh({ ...hostile, attempts: [attempt] })).toBe(false);
    expect(isFresh({ ...hostile, redrives: 1 })).toBe(false);
    expect(isFresh({ ...hostile, id: ',"attempts":[],"redrives":0,"event":{', redrives: 1 })).toBe(false);
  });

  it('and where its members stand in another order', () => {
    const { attempts, redrives, event, ...rest } = WHOLE;
    const of = (members: object) => StoredDelivery.from(JSON.stringify(members)).isFresh;
    expect(of({ event, attempts, redrives, ...rest })).toBe(true);
    expect(of({ ...rest, redrives, attempts: [attempt], event })).toBe(false);
    expect(of({ ...rest, attempts, replay: 'r', redrives: 2, event })).toBe(false);
    expect(() => StoredDelivery.from('{}').isFresh).toThrow('no delivery');
  });

  it('is read once', () => {
    const stored = StoredDelivery.from(TEXT);
    expect(stored.delivery).toEqual(WHOLE);
    expect(stored.delivery).toBe(stored.delivery);
  });
});
