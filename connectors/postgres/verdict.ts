import type { DeliveryResult } from '@tributary/core';
import { codeOf } from '../errors.ts';
import { RESET, verdictOfNetworkFailure } from '../network-failure.ts';

/** The five characters of a refusal by the server; undefined for any other error. */
export function sqlStateOf(error: unknown): string | undefined {
  const code = codeOf(error);
  const severe = error instanceof Error && 'severity' in error;
  return severe && code !== undefined && /^[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

export const UNDEFINED_TABLE = '42P01';
/** What the loser of two that make one table at once may meet with. */
export const ALREADY_THERE = new Set(['23505', '42P07', '42710']);

/** Classes of what is wrong with the values of a row: https://www.postgresql.org/docs/current/errcodes-appendix.html */
export function blamesValues(sqlState: string): boolean {
  return sqlState.startsWith('22') || sqlState.startsWith('23') || sqlState === '54000';
}

const REFUSALS: readonly (readonly [prefix: string, reason: string])[] = [
  ['28', 'not authenticated'],
  ['42501', 'permission denied'],
  [UNDEFINED_TABLE, 'the table is not there'],
  ['3D', 'the database is not there'],
  ['3F', 'the schema is not there'],
  ['42', 'the table does not fit'],
  ['22', 'a value is not taken'],
  ['23', 'a constraint is violated'],
  ['54000', 'a value is not taken'],
];

/**
 * What a failed statement means. `lastFailure` is what became of a connection, which the driver may wrap. Undefined
 * for an error that is neither the server's nor the network's.
 */
export function verdictOfPostgresFailure(
  error: unknown,
  lastFailure: Error | undefined,
): DeliveryResult | undefined {
  const sqlState = sqlStateOf(error);
  if (sqlState !== undefined) {
    const refusal = REFUSALS.find(([prefix]) => sqlState.startsWith(prefix))?.[1];
    return refusal === undefined
      ? { outcome: 'retry', reason: `the server answered ${sqlState}` }
      : { outcome: 'dead', reason: `${refusal} (${sqlState})` };
  }
  const network = verdictOfNetworkFailure(error);
  if (network !== undefined) return network;
  const ofConnection = lastFailure === undefined ? undefined : verdictOfNetworkFailure(lastFailure);
  if (ofConnection !== undefined) return ofConnection;
  if (!(error instanceof Error)) return undefined;
  return DRIVER_WORDS.find(([words]) => words.test(error.message))?.[1];
}

/** The driver has no codes for these. */
const DRIVER_WORDS: readonly (readonly [words: RegExp, verdict: DeliveryResult])[] = [
  [/^Connection terminated|^Client has encountered a connection error/, RESET],
  [/^timeout e/, { outcome: 'retry', reason: 'connection timed out' }],
  [/does not support SSL/, { outcome: 'dead', reason: 'the server speaks no TLS' }],
  [/SSL connection$/, { outcome: 'retry', reason: 'no TLS connection' }],
  [/SASL|SCRAM|password must be/, { outcome: 'dead', reason: 'not authenticated' }],
];
