import { isCalendarDay } from '@tributary/core';
import { Type } from 'typebox';
import { invalidRequest } from './errors.ts';
import { documentedAs } from './schemas.ts';

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
