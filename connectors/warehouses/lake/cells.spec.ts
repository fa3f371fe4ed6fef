import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { cellOf, widenedCell } from './cells.ts';

describe('a value of a column', () => {
  it.each([
    ['bigint', '-9223372036854775808', '-9223372036854775808'],
    ['numeric', '12345678901234567890.123456789012345678', '12345678901234567890.123456789012345678'],
    ['numeric', '-0.000000000000000001', '-0.000000000000000001'],
    ['numeric', '10', '10'],
    ['double', '1e+300', `1${'0'.repeat(300)}`],
    ['double', '-5e-324', `-0.${'0'.repeat(323)}5`],
    ['double', '0.1', '0.1'],
    ['timestamp', '0001-01-01T00:00:00.000Z', '0001-01-01T00:00:00.000Z'],
    ['timestamp', '9999-12-31T23:59:59.999999Z', '9999-12-31T23:59:59.999999Z'],
    ['timestamp', '1969-12-31T23:59:59.9999Z', '1969-12-31T23:59:59.9999Z'],
    ['json', '["\\ud800"]', '["\\ud800"]'],
  ] as const)('of type %s is the same text once the column is widened: %s', (type, value, text) => {
    expect(widenedCell(cellOf(value, type), type, 'text')).toBe(text);
  });

  it('that is true is the text true', () => {
    expect(widenedCell(cellOf(true, 'boolean'), 'boolean', 'text')).toBe('true');
  });

  it('that is an integer is the same decimal', () => {
    const numbers = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
    fc.assert(
      fc.property(numbers, (number) => {
        const wide = widenedCell(cellOf(String(number), 'bigint'), 'bigint', 'numeric');
        expect(widenedCell(wide, 'numeric', 'text')).toBe(String(number));
      }),
    );
  });

  it('that is a double is its digits without an exponent', () => {
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), (number) => {
        const text = String(widenedCell(number, 'double', 'text'));
        expect(text).not.toContain('e');
        expect(Number(text)).toBe(number === 0 ? 0 : number);
      }),
    );
  });
});
