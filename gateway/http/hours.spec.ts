import { iso } from '@tributary/core';
import { expect, it } from 'vitest';
import { lookBack } from './hours.ts';

it('is the current hour and those before it, so many in all', () => {
  const now = Date.parse('2026-03-01T00:59:59.999Z');
  const shown = (hours: number) => {
    const { fromHour, toHour } = lookBack(now, hours);
    return [iso(fromHour), iso(toHour)];
  };
  expect(shown(1)).toEqual(['2026-03-01T00:00:00.000Z', '2026-03-01T00:00:00.000Z']);
  expect(shown(24)).toEqual(['2026-02-28T01:00:00.000Z', '2026-03-01T00:00:00.000Z']);
});
