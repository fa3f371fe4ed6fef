import { Unavailable, WarehouseRefused } from '@tributary/core';
import { classifyRowFailure } from '../../client/rows.ts';
import { ERRORS, sqlStateOf } from '../../postgres/server.ts';

/** SQLSTATEs of tables that a person changed since they were described: the next attempt describes them again. */
const CHANGED_MEANWHILE = new Set(['3F000', '42P01', '42P06', '42703', '42804', '42701', '23505']);

/** Something that is no table has the name of one, such as a view. */
const NAME_TAKEN = '42P07';

/** The error of a load for one of the server or of its connection. */
export function failureOf(error: unknown, lastFailure: Error | undefined): unknown {
  const sqlState = sqlStateOf(error);
  const options = { cause: error };
  if (isChangedMeanwhile(error))
    return new Unavailable(`the tables were changed during the load (${sqlState})`, options);
  if (error instanceof Error && sqlState === NAME_TAKEN)
    return new WarehouseRefused(refusalText(error), options);
  const result = classifyRowFailure(ERRORS, error, lastFailure);
  if (result?.outcome === 'retry') return new Unavailable(result.reason, options);
  if (result?.outcome === 'dead') return new WarehouseRefused(result.reason, options);
  return error;
}

/** Whether a person or another load changed tables since they were described. */
export function isChangedMeanwhile(error: unknown): boolean {
  return CHANGED_MEANWHILE.has(sqlStateOf(error) ?? '');
}

/** Whether rows, columns or rights may be the cause; otherwise the whole load is repeated. */
export function isRefusal(error: unknown): error is Error {
  return error instanceof Error && ERRORS.mayConcernRows(error) && !isTransient(sqlStateOf(error));
}

/** Of the server or of other transactions. */
function isTransient(sqlState = ''): boolean {
  return /^(08|25|40|53|55|57|58)/.test(sqlState);
}

const REASON_LENGTH = 300;

/** What the server says of a row or a column, which is about the table alone. */
export function refusalText(refusal: Error): string {
  return `${refusal.message.slice(0, REASON_LENGTH).toWellFormed()} (${sqlStateOf(refusal) ?? ''})`;
}
