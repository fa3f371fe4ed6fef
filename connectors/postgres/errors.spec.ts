import { expect, test } from 'vitest';
import { AddressRefused } from '../failures.ts';
import { classifyPostgresFailure, classifyRowRefusal, mayConcernRows, sqlStateOf } from './errors.ts';
import type { PostgresSettings } from './settings.ts';
import { createTable, insertStatement } from './settings.ts';

const refusal = (code: string) => Object.assign(new Error('a value: secret'), { code, severity: 'ERROR' });

test.each([
  ['28P01', 'not authenticated (28P01)'],
  ['42501', 'permission denied (42501)'],
  ['42P01', 'the table is not there (42P01)'],
  ['3D000', 'the database is not there (3D000)'],
  ['42703', 'the table does not fit (42703)'],
  ['22P05', 'a value is not taken (22P05)'],
  ['23514', 'a constraint is violated (23514)'],
])('%s: dead-lettered', (code, reason) => {
  expect(classifyPostgresFailure(refusal(code), undefined)).toEqual({ outcome: 'dead', reason });
});

test.each(['53300', '53400'])('%s, too many connections: asks for fewer', (code) => {
  const reason = `the server answered ${code}`;
  expect(classifyPostgresFailure(refusal(code), undefined)).toEqual({
    outcome: 'retry',
    throttled: true,
    reason,
  });
});

test.each(['53100', '57P01', '57P03', '40P01', '25006', '55P03'])('%s: tried again', (code) => {
  const reason = `the server answered ${code}`;
  expect(classifyPostgresFailure(refusal(code), undefined)).toEqual({ outcome: 'retry', reason });
});

test('rows may be the fault of any refusal but of the server, its credentials and its database', () => {
  const codes = ['22P05', '23502', '42501', 'P0001', 'ZZ123', 'XX000', '42P01', '40001', '57014', '28000'];
  expect(codes.filter((code) => mayConcernRows(refusal(code)))).toEqual(codes);
  expect(['53300', '57P01', '58030'].filter((code) => mayConcernRows(refusal(code)))).toEqual([]);
  const ending = (code: string) => Object.assign(refusal(code), { severity: 'FATAL' });
  expect(['28P01', '3D000'].filter((code) => mayConcernRows(ending(code)))).toEqual([]);
});

test('a row that is refused alone is dead, and retried after a transient error', () => {
  const settings = { password: 'very-secret' } as PostgresSettings;
  const verdict = (code: string, words = 'no') =>
    classifyRowRefusal(Object.assign(refusal(code), { message: words }), code, settings);
  expect(verdict('42501')).toEqual({
    outcome: 'dead',
    reason: 'a policy refuses the row (42501)',
    response: 'no',
  });
  expect(verdict('P0001', 'no stock of very-secret')).toEqual({
    outcome: 'dead',
    reason: 'a trigger refuses the row (P0001)',
    response: 'no stock of ***',
  });
  expect(verdict('ZZ123')).toMatchObject({ outcome: 'dead', reason: 'the row is refused (ZZ123)' });
  expect(verdict('40001')).toMatchObject({ outcome: 'retry', reason: 'the server answered 40001' });
});

test('a network error is not an error of the server, and is taken from the connection where the driver wraps it', () => {
  const reset = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
  expect(sqlStateOf(reset)).toBeUndefined();
  expect(classifyPostgresFailure(reset, undefined)).toMatchObject({ outcome: 'retry', reset: true });
  const wrapped = new Error('Connection terminated unexpectedly');
  expect(classifyPostgresFailure(wrapped, undefined)).toMatchObject({ outcome: 'retry', reset: true });
  expect(classifyPostgresFailure(wrapped, new AddressRefused('x'))).toMatchObject({ outcome: 'dead' });
  expect(classifyPostgresFailure(new TypeError('our mistake'), undefined)).toBeUndefined();
});

test('a name in SQL is quoted, whatever it holds', () => {
  expect(createTable('app.events')).toMatch(
    /^create table if not exists "app"."events" \("delivery_id" uuid primary key,/,
  );
  expect(insertStatement('a"b')).toContain('insert into "a""b" (');
});
