import { expect, test } from 'vitest';
import { classifyRowFailure, classifyRowRefusal } from '../client/rows.ts';
import { AddressRefused } from '../failures.ts';
import { ERRORS } from './server.ts';

const refusal = (code: string) => Object.assign(new Error('a value: secret'), { code, severity: 'ERROR' });

test.each<readonly [string, object]>([
  ['28P01', { outcome: 'dead', reason: 'not authenticated (28P01)' }],
  ['42501', { outcome: 'dead', reason: 'permission denied (42501)' }],
  ['42P01', { outcome: 'dead', reason: 'the table is not there (42P01)' }],
  ['3D000', { outcome: 'dead', reason: 'the database is not there (3D000)' }],
  ['42703', { outcome: 'dead', reason: 'the table does not fit (42703)' }],
  ['22P05', { outcome: 'dead', reason: 'a value is not taken (22P05)' }],
  ['23514', { outcome: 'dead', reason: 'a constraint is violated (23514)' }],
  ['53300', { outcome: 'retry', throttled: true, reason: 'the server answered 53300' }],
  ['53400', { outcome: 'retry', throttled: true, reason: 'the server answered 53400' }],
  ...['53100', '57P01', '57P03', '40P01', '25006', '55P03'].map(
    (code) => [code, { outcome: 'retry', reason: `the server answered ${code}` }] as [string, object],
  ),
])('%s of the statement', (code, result) => {
  expect(classifyRowFailure(ERRORS, refusal(code), undefined)).toEqual(result);
});

test('rows may be the fault of any refusal but of the server, its credentials and its database', () => {
  const codes = ['22P05', '23502', '42501', 'P0001', 'ZZ123', 'XX000', '42P01', '40001', '57014', '28000'];
  expect(codes.filter((code) => ERRORS.mayConcernRows(refusal(code)))).toEqual(codes);
  expect(['53300', '57P01', '58030'].filter((code) => ERRORS.mayConcernRows(refusal(code)))).toEqual([]);
  const ending = (code: string) => Object.assign(refusal(code), { severity: 'FATAL' });
  expect(['28P01', '3D000'].filter((code) => ERRORS.mayConcernRows(ending(code)))).toEqual([]);
});

test.each([
  ['42501', 'no', { outcome: 'dead', reason: 'a policy refuses the row (42501)', response: 'no' }],
  [
    'P0001',
    'no stock of very-secret',
    { outcome: 'dead', reason: 'a trigger refuses the row (P0001)', response: 'no stock of ***' },
  ],
  ['ZZ123', '', { outcome: 'dead', reason: 'the row is refused (ZZ123)' }],
  ['40001', '', { outcome: 'retry', reason: 'the server answered 40001' }],
])('%s of one row', (code, message, result) => {
  const error = Object.assign(refusal(code), { message });
  expect(classifyRowRefusal(ERRORS, error, code, { password: 'very-secret' })).toEqual(result);
});

test('a network error is not an error of the server, and is taken from the connection where the driver wraps it', () => {
  const classify = (error: unknown, ofConnection?: Error) => classifyRowFailure(ERRORS, error, ofConnection);
  const reset = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
  expect(ERRORS.codeOf(reset)).toBeUndefined();
  expect(classify(reset)).toMatchObject({ outcome: 'retry', reset: true });
  const wrapped = new Error('Connection terminated unexpectedly');
  expect(classify(wrapped)).toMatchObject({ outcome: 'retry', reset: true });
  expect(classify(wrapped, new AddressRefused('x'))).toMatchObject({ outcome: 'dead' });
  expect(classify(new TypeError('our mistake'))).toBeUndefined();
});
