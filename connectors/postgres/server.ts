import { databaseFields, type RowErrors } from '../client/rows.ts';
import { codeOf, RESET } from '../failures.ts';

/** The settings of a server that sign in to a database. */
export const serverFields = databaseFields('The PostgreSQL server (12 or newer).', 5432);

/** The SQLSTATE of an error of the server; undefined for any other error. */
export function sqlStateOf(error: unknown): string | undefined {
  const code = codeOf(error);
  const severe = error instanceof Error && 'severity' in error;
  return severe && code !== undefined && /^[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

/**
 * Classes of SQLSTATEs about the server: resources, operator intervention, system errors; and, unless a trigger raised
 * them, credentials and database. https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const ABOUT_THE_SERVER = /^(53|57P|58)/;
const ABOUT_SIGNING_IN = /^(28|3D)/;

export const ERRORS: RowErrors = {
  codeOf: sqlStateOf,
  tableMissing: '42P01',
  tableThere: ['23505', '42P07', '42710'],
  mayConcernRows(error) {
    const sqlState = sqlStateOf(error);
    if (sqlState === undefined || ABOUT_THE_SERVER.test(sqlState)) return false;
    const { severity } = error as { readonly severity?: unknown };
    // Errors that end the connection have another severity.
    return severity === 'ERROR' || !ABOUT_SIGNING_IN.test(sqlState);
  },
  aboutTheRate: ['53300', '53400'],
  refusals: [
    ['28', 'not authenticated'],
    ['42501', 'permission denied'],
    ['42P01', 'the table is not there'],
    ['3D', 'the database is not there'],
    ['3F', 'the schema is not there'],
    ['42', 'the table does not fit'],
    ['22', 'a value is not taken'],
    ['23', 'a constraint is violated'],
    ['44', 'a check option is violated'],
    ['54000', 'a value is not taken'],
  ],
  refusalsOfRows: [
    ['42501', 'a policy refuses the row'],
    ['P0', 'a trigger refuses the row'],
    ['22', 'a value is not taken'],
    ['23', 'a constraint is violated'],
    ['44', 'a check option is violated'],
    ['54', 'a value is not taken'],
  ],
  // Connections, transactions, resources, locks, operator intervention, system, internal errors.
  transient: /^(08|25|40|53|55|57|58|F0|HV|XX)/,
  driver: [
    [/^Connection terminated|^Client has encountered a connection error/, RESET],
    [/^timeout e/, { outcome: 'retry', reason: 'connection timed out' }],
    [/does not support SSL/, { outcome: 'dead', reason: 'the server speaks no TLS' }],
    [/SSL connection$/, { outcome: 'retry', reason: 'no TLS connection' }],
    [/SASL|SCRAM|password must be/, { outcome: 'dead', reason: 'not authenticated' }],
  ],
};
