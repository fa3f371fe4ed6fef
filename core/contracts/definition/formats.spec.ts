import { describe, expect, it } from 'vitest';
import { threadMs } from '../../primitives/thread-time.fixture.ts';
import { compiled, violationsOf } from '../contracts.fixture.ts';
import { FORMATS } from './formats.ts';

const EXAMPLES: Readonly<Record<string, { readonly good: string; readonly bad: string }>> = {
  date: { good: '2026-02-28', bad: '2026-02-30' },
  'date-time': { good: '2026-02-28T10:00:00.5Z', bad: '2026-02-28 10:00' },
  time: { good: '10:00:00Z', bad: '25:00:00Z' },
  duration: { good: 'P1DT2H', bad: 'P' },
  email: { good: 'someone@example.com', bad: 'someone@' },
  hostname: { good: 'www.example.com', bad: '-example.com' },
  ipv4: { good: '192.0.2.1', bad: '192.0.2.256' },
  ipv6: { good: '2001:db8::1', bad: '2001:db8::1::2' },
  uri: { good: 'https://example.com/a?b#c', bad: '/a' },
  'uri-reference': { good: '/a', bad: 'a b' },
  url: { good: 'https://example.com:8080/a', bad: 'mailto:someone@example.com' },
  uuid: { good: '0199f0aa-1111-7222-8333-444455556666', bad: '0199f0aa' },
  regex: { good: '^a+$', bad: '(' },
  'json-pointer': { good: '/a/b', bad: 'a/b' },
  byte: { good: 'aGVsbG8=', bad: 'aGVsbG8' },
};

function fits(format: string, a: string | number, type?: string): boolean {
  const schema = compiled({ properties: { a: type === undefined ? { format } : { type, format } } });
  return violationsOf(schema, { a }).length === 0;
}

describe('a format of numbers has bounds', () => {
  const [two31, two63] = [2 ** 31, 2 ** 63];
  it.each([
    ['int32', [0, -two31, two31 - 1], [two31, -two31 - 1, 0.5, 1e300]],
    ['int64', [0, -two63, two63 - 1_024, JSON.parse('9223372036854775807')], [2 ** 64, -1e19, 7.25, 1e200]],
    ['float', [1.5, -3.4028234663852886e38], [3.5e38, -1e300]],
    ['double', [1e308, -1.5], []],
  ] as [string, number[], number[]][])('%s', (format, good, bad) => {
    for (const type of [undefined, 'number']) {
      expect(good.filter((value) => !fits(format, value, type))).toEqual([]);
      expect(bad.filter((value) => fits(format, value, type))).toEqual([]);
    }
    expect(fits(format, 'a text')).toBe(true);
  });
});

it('byte is checked to its last line', () => {
  expect(['aGVsbG8=\n!', '!\n', '\n', 'aGVs\nbG8='].filter((text) => fits('byte', text))).toEqual([]);
  expect(['', 'AAAA', 'AA==', 'A'.repeat(20_000)].filter((text) => !fits('byte', text))).toEqual([]);
});

describe('a format', () => {
  it.each(Object.entries(EXAMPLES))('%s', (format, { good, bad }) => {
    expect(fits(format, good)).toBe(true);
    expect(fits(format, bad)).toBe(false);
  });

  it.each([...FORMATS.keys()])('%s takes no long time over a hostile text', (format) => {
    const size = 8_000;
    const texts = [...'a 1 : . / a. a@ -a % { 0: a: ~ ( http://a +A'.split(' '), ' '].flatMap((piece) => {
      const run = piece.repeat(size / piece.length);
      return [run, `${run}!`, `http://${run}`, `a@${run}!`, `P${run}`, `${run}@${run}`.slice(0, size)];
    });
    const schema = compiled({ properties: { a: { format } } });
    const started = threadMs();
    for (const a of texts) violationsOf(schema, { a });
    expect(threadMs() - started).toBeLessThan(1_000);
  });
});
