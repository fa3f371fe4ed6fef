import { eventJson } from '@tributary/core';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { readDelivery } from './read-delivery.ts';
import { delivery } from './samples.ts';

const WHOLE = delivery('d1');
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
