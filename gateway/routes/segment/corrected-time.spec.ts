import { describe, expect, it } from 'vitest';
import { correctedTime } from './corrected-time.ts';

const RECEIVED = '2026-03-01T12:00:10.000Z';

describe('the time of an event by the server’s clock', () => {
  it.each([
    [
      'is as long before the reception as it was before the sending',
      '2020-01-01T00:00:00Z',
      '2020-01-01T00:00:04Z',
      '2026-03-01T12:00:06.000Z',
    ],
    [
      'also where the client’s clock is ahead',
      '2030-01-01T00:00:00.500Z',
      '2030-01-01T00:00:01.000Z',
      '2026-03-01T12:00:09.500Z',
    ],
    [
      'also in other zones, and with nanoseconds',
      '2020-01-01T01:00:00.123456789+01:00',
      '2020-01-01T00:00:01.123Z',
      '2026-03-01T12:00:09.000Z',
    ],
    [
      'also of an event that lies ahead',
      '2020-01-01T00:00:05Z',
      '2020-01-01T00:00:00Z',
      '2026-03-01T12:00:15.000Z',
    ],
    [
      'also with an offset of hours, ten digits of a second and a leap second',
      '2016-12-31T23:59:60.1234567891Z',
      '2017-01-01T01:00:04.123+01',
      '2026-03-01T12:00:06.000Z',
    ],
  ])('%s', (_, original, sentAt, corrected) => {
    expect(correctedTime(original, sentAt, RECEIVED)).toBe(corrected);
  });

  it.each([
    ['the client did not say when it sent it', '2020-01-01T00:00:00Z', undefined],
    ['it did not say when it happened', undefined, '2020-01-01T00:00:00Z'],
    ['a time has no zone', '2020-01-01T00:00:00', '2020-01-01T00:00:00Z'],
    ['a time is a number', 1_577_836_800_000, '2020-01-01T00:00:00Z'],
    ['a time is none', '2020-13-01T00:00:00Z', '2020-01-01T00:00:00Z'],
    ['a day is in no calendar', '2025-11-30T00:00:00Z', '2025-11-31T00:00:00Z'],
    ['it would have been sent long before it happened', '2025-05-05T00:00:00Z', '0001-01-01T00:00:00Z'],
    ['the outcome would be no time one can write', '0001-01-01T00:00:00Z', '9999-12-31T00:00:00Z'],
  ])('is not known where %s', (_, original, sentAt) => {
    expect(correctedTime(original, sentAt, RECEIVED)).toBeUndefined();
  });
});
