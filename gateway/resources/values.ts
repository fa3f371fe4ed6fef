import { isCalendarDay, normalizeEmail } from '@tributary/core';
import { Type } from 'typebox';
import { invalidRequest } from '../errors/api-error.ts';
import { documentedAs } from './schemas.ts';

const INTEGER = /^-?\d{1,9}$/;

export interface IntegerRule {
  /** The parameter, as the fault names it. */
  readonly name: string;
  readonly min: number;
  readonly max: number;
  /** Taken when the parameter is absent. */
  readonly fallback: number;
}

/** The parameter as routes take it: text, which the description tells to be an integer of the rule. */
export function integerText({ min, max, fallback }: IntegerRule, description: string) {
  const keywords = { type: 'integer', minimum: min, maximum: max, default: fallback };
  return Type.Optional(Type.String({ description, ...documentedAs(keywords) }));
}

/** An integer of a query, by its own strict rule: nothing is trimmed, rounded or guessed. 400 for anything else. */
export function parseInteger(text: string | undefined, { name, min, max, fallback }: IntegerRule): number {
  if (text === undefined) return fallback;
  const value = Number(text);
  if (!INTEGER.test(text) || value < min || value > max)
    throw invalidRequest({ path: name, message: `must be an integer from ${min} to ${max}` });
  return value;
}

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

/** What the description says of a time that may be a date, too. */
export const DATE_OR_TIME = { anyOf: [{ format: 'date-time' }, { format: 'date' }] } as const;

/** A time in a query or body, as text that `parseTime` reads. */
export function timeText(description: string) {
  return Type.String({ description, ...documentedAs(DATE_OR_TIME) });
}

const ISO_8601 = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2}))?$/;

/** Epoch ms of a time in a query or body: a date (its start, UTC) or a date and time with its zone. 400 for any other. */
export function parseTime(path: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const time = Date.parse(text);
  if (!ISO_8601.test(text) || Number.isNaN(time) || !isCalendarDay(text))
    throw invalidRequest({ path, message: 'must be an ISO 8601 time' });
  return time;
}

export const email = Type.String({
  minLength: 1,
  maxLength: 254,
  description: 'An e-mail address.',
  ...documentedAs({ pattern: '^[^\\s@]+@[^\\s@]+$' }),
});

/** An address of a body in the form in which addresses are compared; 400 for what is none. */
export function readEmail(text: string, path: string): string {
  const address = normalizeEmail(text);
  if (address === undefined) throw invalidRequest({ path, message: 'is not an e-mail address' });
  return address;
}
