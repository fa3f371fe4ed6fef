import { describe, expect, it } from 'vitest';
import { bytesOf, frameOf, isTooLarge } from './event-item.ts';

describe('the fields beside the calls of a batch', () => {
  it('are kept apart from those that have a meaning for each call', () => {
    const shared = { sentAt: '2026-01-01T00:00:00Z', context: { ip: '1' }, integrations: { All: true } };
    expect(frameOf(shared)).toEqual(shared);
    expect(frameOf({ ...shared, messageId: 'b', sequence: 3 })).toEqual({
      ...shared,
      others: { messageId: 'b', sequence: 3 },
    });
  });

  it('are absent where there are none, or only a write key, or null', () => {
    for (const fields of [{}, { writeKey: 'secret' }, { context: null, channel: null }])
      expect(frameOf(fields)).toEqual({});
  });

  it.each([
    ['nothing, however many calls', {}, 2_500, false],
    ['as much as an event may have', { context: { a: 'x'.repeat(92) } }, 1, false],
    ['more than an event may have', { context: { a: 'x'.repeat(93) } }, 1, true],
    ['more than that in UTF-8', { context: { a: 'ü'.repeat(92) } }, 1, true],
    [
      'more in all its parts together',
      { integrations: { a: 'x'.repeat(50) }, others: { b: 'x'.repeat(50) } },
      1,
      true,
    ],
    ['as much as a body may have, said by each call', { others: { a: 'x'.repeat(92) } }, 10, false],
    ['more than a body may have, said by each call', { others: { a: 'x'.repeat(92) } }, 11, true],
  ])('that is %s', (_, frame, calls, tooLarge) => {
    expect(isTooLarge(bytesOf(frame), calls, { eventBytes: 100, bodyBytes: 1_000 })).toBe(tooLarge);
  });
});
