import { ENVIRONMENTS, EVENT_TYPES } from '@tributary/core';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { dayOf, expiryOf, FIELD_HEAD, fieldOf, parseField } from './stored-counts.ts';

const HOUR_MS = 3_600_000;

it('a field is parsed to the values that it was made of', () => {
  fc.assert(
    fc.property(
      fc.constantFrom(...ENVIRONMENTS),
      fc.constantFrom(...EVENT_TYPES),
      fc.string({ unit: 'grapheme' }),
      fc.integer({ min: 400_000, max: 600_000 }),
      (environment, eventType, eventName, hours) => {
        const hour = hours * HOUR_MS;
        const field = fieldOf({ workspaceId: 'w', environment, eventType, eventName, hour, count: 1 });
        expect(field.slice(FIELD_HEAD)).toBe(eventName);
        expect(parseField(dayOf(hour), field)).toEqual({ environment, eventType, eventName, hour });
      },
    ),
  );
});

it('a field of another version is ignored', () => {
  expect(parseField(0, '')).toBeUndefined();
  expect(parseField(0, '0x?name')).toBeUndefined();
});

it('a day is kept for more than 720 hours after its end', () => {
  const today = Date.UTC(2026, 0, 31, 12);
  expect(expiryOf(dayOf(today)) * 1_000).toBeGreaterThan(Date.UTC(2026, 1, 1) + 720 * HOUR_MS);
});
