import { expect, it } from 'vitest';
import { parseIpAddress } from '../server/addresses.ts';
import { FailedAuthentications, MAX_FAILURES, MAX_WIDER_FAILURES } from './authenticate.ts';

function failing() {
  let now = 1_000_000;
  const failures = new FailedAuthentications(() => now);
  const read = (address: string) => {
    const parsed = parseIpAddress(address);
    if (parsed === undefined) throw new Error(`${address} is no address`);
    return parsed;
  };
  return {
    fail: (address: string, times: number) => {
      for (let time = 0; time < times; time++) failures.note(read(address));
    },
    waitOf: (address: string) => failures.waitOf(read(address)),
    pass: (ms: number) => (now += ms),
  };
}

const [A, B] = ['192.0.2.1', '192.0.2.2'];
const nth = (n: number) => `10.0.${n >> 8}.${n & 255}`;

it('an address with too many failures is throttled for the rest of its minute, and no other address', () => {
  const { waitOf, fail, pass } = failing();
  fail(A, MAX_FAILURES - 1);
  expect(waitOf(A)).toBe(0);
  pass(10_500);
  fail(A, 1);
  expect(waitOf(A)).toBe(50);
  expect(waitOf(B)).toBe(0);
  pass(49_499);
  expect(waitOf(A)).toBe(1);
  pass(1);
  expect(waitOf(A)).toBe(0);
  fail(A, 1);
  expect(waitOf(A)).toBe(0);
});

it('a clock that is set back does not prolong the throttling', () => {
  const { waitOf, fail, pass } = failing();
  fail(A, MAX_FAILURES);
  pass(-3_600_000);
  expect(waitOf(A)).toBe(0);
});

it('a bounded number of addresses is kept, the latest ones', () => {
  const { waitOf, fail } = failing();
  fail(A, MAX_FAILURES - 1);
  for (let address = 0; address < 10_000; address++) fail(nth(address), 1);
  fail(A, 1);
  expect(waitOf(A)).toBe(0);
});

it('a throttled address was forgotten after failures of 10,000 others: it stays throttled', () => {
  const { waitOf, fail } = failing();
  fail(A, MAX_FAILURES);
  for (let address = 0; address < 10_600; address++) fail(nth(address), 1);
  expect(waitOf(A)).toBe(60);
});

it('the addresses of one IPv6 customer, and the spellings of one address, were counted separately', () => {
  const { waitOf, fail } = failing();
  for (let host = 0; host < MAX_FAILURES; host++) fail(`2001:db8:7:1::${host.toString(16)}`, 1);
  expect(waitOf('2001:db8:7:1:ffff::1')).toBe(60);
  expect(waitOf('2001:db8:7:2::1')).toBe(0);
  fail('::ffff:198.51.100.9', 40);
  fail('::FFFF:C633:6409', 30);
  fail('198.51.100.9', 30);
  expect(waitOf('[::ffff:198.51.100.9]')).toBe(60);
});

it('65,536 networks of one /48 could be used for guessing: they are throttled together', () => {
  const { waitOf, fail } = failing();
  for (let network = 0; network < MAX_WIDER_FAILURES; network++)
    fail(`2001:db8:8:${network.toString(16)}::1`, 1);
  expect(waitOf('2001:db8:8:ffff::1')).toBe(60);
  expect(waitOf('2001:db8:9:1::1')).toBe(0);
});
