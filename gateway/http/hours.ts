import { type IntegerRule, integerText } from './integers.ts';

const HOUR_MS = 3_600_000;

/** How many hours a query may look back. */
export const HOURS: IntegerRule = { name: 'hours', min: 1, max: 720, fallback: 24 };

/** The parameter as routes take it. */
export const hoursText = integerText(HOURS, 'How far to look back: the current hour counts as one.');

/** The hour of `now` and the `hours - 1` before it, both ends inclusive, epoch ms. */
export function lookBack(now: number, hours: number): { fromHour: number; toHour: number } {
  const toHour = Math.floor(now / HOUR_MS) * HOUR_MS;
  return { fromHour: toHour - (hours - 1) * HOUR_MS, toHour };
}
