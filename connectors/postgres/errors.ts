import type { DeliveryResult } from '@tributary/core';
import { classifyNetworkFailure, codeOf, RESET } from '../failures.ts';
import { excerptOf, secretTexts } from '../http/client.ts';
import type { PostgresSettings } from './settings.ts';

/** The SQLSTATE of an error of the server; undefined for any other error. */
export function sqlStateOf(error: unknown): string | undefined {
  const code = codeOf(error);
  const severe = error instanceof Error && 'severity' in error;
  return severe && code !== undefined && /^[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

export const UNDEFINED_TABLE = '42P01';
/** SQLSTATEs of a concurrent `create table` of the same table. */
export const ALREADY_THERE = new Set(['23505', '42P07', '42710']);

/**
 * Classes of SQLSTATEs about the server: resources, operator intervention, system errors; and, unless a trigger raised
 * them, credentials and database. https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const ABOUT_THE_SERVER = /^(53|57P|58)/;
const ABOUT_SIGNING_IN = /^(28|3D)/;

/**
 * Whether rows may have caused a refusal. Most SQLSTATEs are ambiguous: a policy, a constraint or a trigger refuses a row
 * with any of them, and so does the table as a whole. An insert of no rows tells the two apart.
 */
export function mayConcernRows(error: unknown): boolean {
  const sqlState = sqlStateOf(error);
  if (sqlState === undefined || ABOUT_THE_SERVER.test(sqlState)) return false;
  const { severity } = error as { readonly severity?: unknown };
  // Errors that end the connection have another severity.
  return severity === 'ERROR' || !ABOUT_SIGNING_IN.test(sqlState);
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
  ['44', 'a check option is violated'],
  ['54000', 'a value is not taken'],
];

/** Refusals of one row, which no retry changes. */
const REFUSALS_OF_ROWS: readonly (readonly [prefix: string, reason: string])[] = [
  ['42501', 'a policy refuses the row'],
  ['P0', 'a trigger refuses the row'],
  ['22', 'a value is not taken'],
  ['23', 'a constraint is violated'],
  ['44', 'a check option is violated'],
  ['54', 'a value is not taken'],
];

/** Too many connections: of the server, or of a limit in its configuration. */
const ABOUT_THE_RATE = new Set(['53300', '53400']);

/** Transient errors: connections, transactions, resources, locks, operator intervention, system, internal errors. */
const TRANSIENT = /^(08|25|40|53|55|57|58|F0|HV|XX)/;

/**
 * The result of a refused row, once the table is known to accept others: retried after a transient error, else dead. The
 * message of the server is kept as the response: it is about the table and the row.
 */
export function classifyRowRefusal(
  error: unknown,
  sqlState: string,
  { password = '' }: PostgresSettings,
): DeliveryResult {
  const words = error instanceof Error ? error.message : '';
  const response = excerptOf(Buffer.from(words), secretTexts({ secret: password, headers: [] }));
  const shown = response === '' ? {} : { response };
  if (TRANSIENT.test(sqlState))
    return { outcome: 'retry', reason: `the server answered ${sqlState}`, ...shown };
  const known = REFUSALS_OF_ROWS.find(([prefix]) => sqlState.startsWith(prefix))?.[1];
  return { outcome: 'dead', reason: `${known ?? 'the row is refused'} (${sqlState})`, ...shown };
}

/**
 * The result of a failed statement. `lastFailure` is the error of a connection, which the driver may wrap. Undefined for an
 * error that is neither of the server nor of the network.
 */
export function classifyPostgresFailure(
  error: unknown,
  lastFailure: Error | undefined,
): DeliveryResult | undefined {
  const sqlState = sqlStateOf(error);
  if (sqlState !== undefined) {
    if (ABOUT_THE_RATE.has(sqlState))
      return { outcome: 'retry', throttled: true, reason: `the server answered ${sqlState}` };
    const refusal = REFUSALS.find(([prefix]) => sqlState.startsWith(prefix))?.[1];
    return refusal === undefined
      ? { outcome: 'retry', reason: `the server answered ${sqlState}` }
      : { outcome: 'dead', reason: `${refusal} (${sqlState})` };
  }
  const network = classifyNetworkFailure(error);
  if (network !== undefined) return network;
  const ofConnection = lastFailure === undefined ? undefined : classifyNetworkFailure(lastFailure);
  if (ofConnection !== undefined) return ofConnection;
  if (!(error instanceof Error)) return undefined;
  return DRIVER_ERRORS.find(([words]) => words.test(error.message))?.[1];
}

/** Errors of the driver without a code. */
const DRIVER_ERRORS: readonly (readonly [words: RegExp, verdict: DeliveryResult])[] = [
  [/^Connection terminated|^Client has encountered a connection error/, RESET],
  [/^timeout e/, { outcome: 'retry', reason: 'connection timed out' }],
  [/does not support SSL/, { outcome: 'dead', reason: 'the server speaks no TLS' }],
  [/SSL connection$/, { outcome: 'retry', reason: 'no TLS connection' }],
  [/SASL|SCRAM|password must be/, { outcome: 'dead', reason: 'not authenticated' }],
];
