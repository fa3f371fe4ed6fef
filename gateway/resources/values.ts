import { isCalendarDay, isUuid, normalizeEmail } from '@tributary/core';
import { Type } from 'typebox';
import { invalidRequest } from '../errors/api-error.ts';
import { documentedAs } from './documented.ts';

const INTEGER = /^-?\d{1,9}$/;

export interface IntegerRule {
  /** The name of the parameter in error messages. */
  readonly name: string;
  readonly min: number;
  readonly max: number;
  /** The value of an absent parameter. */
  readonly fallback: number;
}

/** The schema of an integer parameter: text, documented as an integer. `parseInteger` checks it. */
export function integerText({ min, max, fallback }: IntegerRule, description: string) {
  return documentedInteger({ type: 'integer', minimum: min, maximum: max, default: fallback }, description);
}

/** As above, for a parameter that not every call may have: without `default`, which the reference page fills in. */
export function conditionalIntegerText({ min, max, fallback }: IntegerRule, description: string) {
  const keywords = { type: 'integer', minimum: min, maximum: max };
  return documentedInteger(keywords, `${description} Default ${fallback}.`);
}

function documentedInteger(keywords: object, description: string) {
  return Type.Optional(Type.String({ description, ...documentedAs({ ...keywords }) }));
}

/** Parses an integer parameter strictly, without trimming or rounding. 400 for anything else. */
export function parseInteger(text: string | undefined, { name, min, max, fallback }: IntegerRule): number {
  if (text === undefined) return fallback;
  const value = Number(text);
  if (!INTEGER.test(text) || value < min || value > max)
    throw invalidRequest({ path: name, message: `must be an integer from ${min} to ${max}` });
  return value;
}

/** The fault of an event name that is meant as a pattern; undefined for others. */
export function patternFault(name: string, instead: string): string | undefined {
  return /^\*|\*$/.test(name)
    ? `"${name}" is compared as it is: names have no wildcards; ${instead}`
    : undefined;
}

/** Ids that one parameter may name. */
const MAX_IDS = 100;
const UUID = '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12}';

/** The schema of a parameter that names ids, of which `leftOut` have no answer. `parseIds` checks it. */
export function idsText(ids: string, leftOut: string) {
  return Type.String({
    description: `${ids}, separated by commas, at most ${MAX_IDS}; ${leftOut} are left out.`,
    ...documentedAs({ pattern: `^${UUID}(,${UUID}){0,${MAX_IDS - 1}}$` }),
  });
}

/** Ids of a query parameter, in lower case. 400 for any other text, and for too many. */
export function parseIds(text: string): ReadonlySet<string> {
  const ids = text.toLowerCase().split(',');
  if (ids.length > MAX_IDS || !ids.every(isUuid))
    throw invalidRequest({ path: 'ids', message: `must be at most ${MAX_IDS} UUIDs, separated by commas` });
  return new Set(ids);
}

const HOUR_MS = 3_600_000;

/** The parameter `hours`: how far a query looks back. */
export const HOURS: IntegerRule = { name: 'hours', min: 1, max: 720, fallback: 24 };

/** The schema of the parameter `hours`. */
export const hoursText = integerText(HOURS, 'The number of hours, with the current one.');

/** The hour of `now` and the `hours - 1` before it, both ends inclusive, epoch ms. */
export function lookBack(now: number, hours: number): { fromHour: number; toHour: number } {
  const toHour = Math.floor(now / HOUR_MS) * HOUR_MS;
  return { fromHour: toHour - (hours - 1) * HOUR_MS, toHour };
}

/** Documents a time that may also be a date. */
export const DATE_OR_TIME = { anyOf: [{ format: 'date-time' }, { format: 'date' }] } as const;

/** The schema of a time in a query or body. `parseTime` checks it. */
export function timeText(description: string) {
  return Type.String({ description, ...documentedAs(DATE_OR_TIME) });
}

const ISO_8601 = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2}))?$/;

/** Epoch ms of a time in a query or body: a date (its start, UTC), or a date and time with a zone. 400 for others. */
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

/** The normalised form of an e-mail address in a body. 400 for an invalid one. */
export function readEmail(text: string, path: string): string {
  const address = normalizeEmail(text);
  if (address === undefined) throw invalidRequest({ path, message: 'is not an e-mail address' });
  return address;
}
