import { expect, test } from 'vitest';
import { AddressRefused } from '../errors.ts';
import { createTable, insertStatement } from './table.ts';
import { blamesValues, sqlStateOf, verdictOfPostgresFailure } from './verdict.ts';

const refusal = (code: string) => Object.assign(new Error('a value: secret'), { code, severity: 'ERROR' });

test.each([
  ['28P01', 'not authenticated (28P01)'],
  ['42501', 'permission denied (42501)'],
  ['42P01', 'the table is not there (42P01)'],
  ['3D000', 'the database is not there (3D000)'],
  ['42703', 'the table does not fit (42703)'],
  ['22P05', 'a value is not taken (22P05)'],
  ['23514', 'a constraint is violated (23514)'],
])('%s: given up', (code, reason) => {
  expect(verdictOfPostgresFailure(refusal(code), undefined)).toEqual({ outcome: 'dead', reason });
});

test.each(['53300', '53100', '57P01', '57P03', '40P01', '25006', '55P03'])('%s: tried again', (code) => {
  const reason = `the server answered ${code}`;
  expect(verdictOfPostgresFailure(refusal(code), undefined)).toEqual({ outcome: 'retry', reason });
});

test('only values may be the fault of some in a batch', () => {
  expect(['22P05', '23502', '54000', '42P01', '57P01', '28P01'].filter(blamesValues)).toEqual([
    '22P05',
    '23502',
    '54000',
  ]);
});

test('an error of the network is none of the server, and is told by the connection where the driver wraps it', () => {
  const reset = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
  expect(sqlStateOf(reset)).toBeUndefined();
  expect(verdictOfPostgresFailure(reset, undefined)).toMatchObject({ outcome: 'retry', reset: true });
  const wrapped = new Error('Connection terminated unexpectedly');
  expect(verdictOfPostgresFailure(wrapped, undefined)).toMatchObject({ outcome: 'retry', reset: true });
  expect(verdictOfPostgresFailure(wrapped, new AddressRefused('x'))).toMatchObject({ outcome: 'dead' });
  expect(verdictOfPostgresFailure(new TypeError('our mistake'), undefined)).toBeUndefined();
});

test('a name in SQL is quoted, whatever it holds', () => {
  expect(createTable('app.events')).toMatch(
    /^create table if not exists "app"."events" \("delivery_id" uuid primary key,/,
  );
  expect(insertStatement('a"b')).toContain('insert into "a""b" (');
});
