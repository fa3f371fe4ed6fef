import { expect, it } from 'vitest';
import { FailedAuthentications, MAX_FAILURES } from './failed-authentications.ts';

function failing() {
  let now = 1_000_000;
  const failures = new FailedAuthentications(() => now);
  const fail = (address: string, times: number) => {
    for (let time = 0; time < times; time++) failures.note(address);
  };
  return { failures, fail, pass: (ms: number) => (now += ms) };
}

it('makes an address wait for the rest of its minute, and no other', () => {
  const { failures, fail, pass } = failing();
  fail('a', MAX_FAILURES - 1);
  expect(failures.waitOf('a')).toBe(0);
  pass(10_500);
  fail('a', 1);
  expect(failures.waitOf('a')).toBe(50);
  expect(failures.waitOf('b')).toBe(0);
  pass(49_499);
  expect(failures.waitOf('a')).toBe(1);
  pass(1);
  expect(failures.waitOf('a')).toBe(0);
  fail('a', 1);
  expect(failures.waitOf('a')).toBe(0);
});

it('does not make anybody wait longer when the clock is set back', () => {
  const { failures, fail, pass } = failing();
  fail('a', MAX_FAILURES);
  pass(-3_600_000);
  expect(failures.waitOf('a')).toBe(0);
});

it('remembers a bounded number of addresses, the latest to begin', () => {
  const { failures, fail, pass } = failing();
  fail('first', MAX_FAILURES);
  fail('second', MAX_FAILURES);
  pass(60_000);
  fail('first', MAX_FAILURES);
  for (let address = 0; address < 9_999; address++) fail(`other-${address}`, 1);
  fail('second', MAX_FAILURES);
  expect(failures.waitOf('first')).toBe(0);
  expect(failures.waitOf('second')).toBe(60);
});
