import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { WaitingLine } from './waiting-line.ts';

describe('a waiting line', () => {
  it('is an array, whatever is done to it', () => {
    const step = fc.oneof(
      fc.record({ join: fc.integer({ min: 1, max: 1_500 }) }),
      fc.record({ shift: fc.integer({ min: 1, max: 1_500 }) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const line = new WaitingLine<number>();
        const expected: number[] = [];
        let next = 0;
        for (const each of steps) {
          if ('join' in each)
            for (let n = 0; n < each.join; n++) {
              line.join(next);
              expected.push(next++);
            }
          else
            for (let n = 0; n < each.shift && expected.length > 0; n++) {
              expect(line.first).toBe(expected.shift());
              line.shift();
            }
          expect(line.size).toBe(expected.length);
          expect(line.first).toBe(expected[0]);
        }
      }),
      { numRuns: 50 },
    );
  });
});
