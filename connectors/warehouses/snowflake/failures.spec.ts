import { Unavailable, WarehouseRefused } from '@tributary/core';
import { expect, it } from 'vitest';
import { StatementRefused } from '../merging/dialect.ts';
import { failureOfCode } from './client.ts';

it.each([
  ['390100', 'Incorrect username or password', WarehouseRefused],
  ['390144', 'JWT token is invalid', WarehouseRefused],
  ['390112', 'Your session has expired', Unavailable],
  ['390104', 'User must login again', Unavailable],
  ['000606', 'No active warehouse selected', WarehouseRefused],
  ['000625', 'Statement has locked table', Unavailable],
  ['000630', 'Statement reached its timeout', Unavailable],
  ['091016', 'Remote file was not found', Unavailable],
  ['370001', 'Internal error', Unavailable],
  ['300002', 'Internal error', Unavailable],
  ['000904', "SQL compilation error: invalid identifier 'ELEMENTS'", Unavailable],
  ['002003', "SQL compilation error:\nTable 'X' does not exist or not authorized.", Unavailable],
  ['002003', "SQL compilation error:\nDatabase 'X' does not exist or not authorized.", StatementRefused],
  ['003001', 'SQL access control error: Insufficient privileges', StatementRefused],
  ['100072', 'NULL result in a non-nullable column', StatementRefused],
  ['', '', StatementRefused],
])('code %s: %s', (code, message, type) => {
  expect(failureOfCode(code, message)).toBeInstanceOf(type);
});
