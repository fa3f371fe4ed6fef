import { iso } from '@tributary/core';
import { describe, expect, it } from 'vitest';
import { ApiError } from '../errors/api-error.ts';
import { lookBack, parseInteger } from './schemas.ts';

const rule = { name: 'hours', min: 1, max: 720, fallback: 24 };

describe('parseInteger', () => {
  it('accepts the fallback for an absent parameter and the bounds themselves', () => {
    expect(parseInteger(undefined, rule)).toBe(24);
    expect(parseInteger('1', rule)).toBe(1);
    expect(parseInteger('720', rule)).toBe(720);
  });

  it('accepts a negative one where the bounds do', () => {
    expect(parseInteger('-3', { ...rule, min: -5 })).toBe(-3);
  });

  it.each(['', '0', '721', '-1', '24.0', '1e2', ' 24', '+24', '0x10', '1000000000', 'NaN', '٢'])(
    'refuses %j',
    (text) => {
      try {
        parseInteger(text, rule);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        expect(error.status).toBe(400);
        expect(error.details).toEqual([{ path: 'hours', message: 'must be an integer from 1 to 720' }]);
        return;
      }
      throw new Error('taken');
    },
  );
});

it('is the current hour and those before it, in the given number', () => {
  const now = Date.parse('2026-03-01T00:59:59.999Z');
  const shown = (hours: number) => {
    const { fromHour, toHour } = lookBack(now, hours);
    return [iso(fromHour), iso(toHour)];
  };
  expect(shown(1)).toEqual(['2026-03-01T00:00:00.000Z', '2026-03-01T00:00:00.000Z']);
  expect(shown(24)).toEqual(['2026-02-28T01:00:00.000Z', '2026-03-01T00:00:00.000Z']);
});
