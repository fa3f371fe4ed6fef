import { describe, expect, it } from 'vitest';
import { faultsOf, rowsOf } from './named-tests.ts';

const file = '`test/architecture/named-tests.spec.ts`';
const list = (reference: string) => `# A list\n\n- row: ${reference}\n`;
const faults = (reference: string) => faultsOf(rowsOf(list(reference))).length;

describe('a row of a document that names a test', () => {
  it('is good where the test, its group or its row is there', () => {
    expect(rowsOf(list('`x`'))).toEqual([{ line: '- row: `x`', reference: '`x`' }]);
    expect(faults(`${file} "is good where the test, its group or its row is there"`)).toBe(0);
    expect(faults(`${file} "a row of a document that names a test"`)).toBe(0);
    expect(faults(`${file} "none"`)).toBe(0);
    expect(faults(`${file} "is good where the…"`)).toBe(0);
    expect(faults(`${file} "is a fault where it names %s: %s"`)).toBe(0);
  });

  it.each([
    ['none', ''],
    ['none yet', '_expected_ `test/architecture/named-tests.spec.ts`'],
    ['no title', file],
    ['a title that is not there', `${file} "is good where there ${'is'} no test"`],
    ['a part of a title', `${file} "is good where the test"`],
    ['fewer than three words of a title', `${file} "is good…"`],
    ['the beginning of no title', `${file} "was good where…"`],
    ['a text that is no title', `${file} "# A list"`],
    ['a file that is not there', '`test/architecture/gone.spec.ts` "none"'],
    ['a file without tests', '`test/architecture/named-tests.ts` "../../"'],
  ])('is a fault where it names %s: %s', (_, reference) => {
    expect(faults(reference)).toBe(1);
  });
});
